"""EarlyStopping: end a fit by the score on held-out samples, with the best weights."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..core.parallel import Pieces
from ..core.sklearn_private import CALLBACKS, CallbackContext, safe_indexing
from ..core.weights import Weights, squared_norm, zero_weights
from ..data.matrices import VECTORISE
from ..data.packing import read_sample_weight
from ..losses.hinge import hinge_of
from ..solvers.certificate import certify, certify_pair
from ..solvers.primal import BatchGradient, objective_value

# Certificates of other weights than those that a solver ended with.

#: Attributes that solvers have for their last weights only.
_OF_THE_LAST = ("stationarity_",)


class Restoring:
    """Mixin of estimators: certify weights from the middle of a training."""

    def _loss_at(self, problem, data):
        """Return the loss whose mean the objective contains; by default the hinge."""
        if data.completion is not None:
            return data.completion.latent_hinge()
        return hinge_of(problem)

    def _penalty(self, lam):
        """Return the factors of ``|w|^2 / 2`` and ``|w|_1`` in the objective."""
        ratio = float(getattr(self, "l1_ratio", 0.0))
        return (1.0 - ratio) * lam, ratio * lam

    def _mean_loss(self, problem, weights, data):
        """Return the mean loss at `weights`, and the magnitude of the terms in it."""
        loss = self._loss_at(problem, data)
        found = objective_value(loss, problem, weights, data.sample_weight, 0.0, self.n_jobs)
        return found.objective, found.magnitude

    def _certified(self, weights, published, problem, shapes, data):
        """Return the fitted attributes for other weights of the run, with its lower bound."""
        mean, magnitude = self._mean_loss(problem, weights, data)
        l2, l1 = self._penalty(data.lam)
        sizes = sum(np.abs(table).sum() for table in weights.tables) if l1 else 0.0
        norm = sum(float(np.einsum("i,i->", t, t)) for t in map(np.ravel, weights.tables))
        objective = mean + 0.5 * l2 * norm + l1 * float(sizes)
        known = {"objective_": objective}
        dual, squared = published.get("dual_objective_", np.nan), None
        if published.get("gradient_norm_") is not None and "stationarity_" not in published:
            squared = self._squared_gradient(problem, shapes, weights, data, l2, l1)
            known["gradient_norm_"] = float(np.sqrt(squared))
        if np.isfinite(dual) and data.completion is None:
            if squared is None or l1:
                known |= certify_pair(objective, dual, magnitude).published
            else:
                known |= certify(objective, squared, l2, dual, magnitude).published
        elif "dual_objective_" in published:
            known |= dict.fromkeys(("dual_gap_", "dual_objective_", "suboptimality_"), np.nan)
        kept = {name: value for name, value in published.items() if name not in _OF_THE_LAST}
        if "stationarity_" in published:
            kept.pop("gradient_norm_", None)
        return kept | known

    def _squared_gradient(self, problem, shapes, weights, data, l2, l1):
        """Return the squared norm of the gradient, or of the smallest subgradient under L1."""
        loss, weight = self._loss_at(problem, data), data.sample_weight
        out, gradient = np.zeros((2, weight.size)), zero_weights(shapes)
        BatchGradient(loss, problem, weight, self.n_jobs).add(weights, gradient, out, Pieces())
        for g, w in zip(gradient.tables, weights.tables, strict=True):
            g /= weight.size
            g += l2 * w
            if l1:
                at_zero = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
                g[:] = np.where(w == 0.0, at_zero, g + l1 * np.sign(w))
        return squared_norm(gradient)


_OF_PIPELINES = (
    "in a pipeline validation samples are what its last step gets; fit the steps before it first, "
    "then pass EarlyStopping((pipe[:-1].transform(X_dev), y_dev))"
)


def _count(data, name):
    shape = np.shape(data) if not hasattr(data, "__len__") else getattr(data, "shape", None)
    if shape == ():
        raise TypeError(
            f"EarlyStopping holds out samples of {name}, which must have a length, got a "
            f"{type(data).__name__}; for a generator pass list({name})"
        )
    return len(data) if shape is None else shape[0]


def _some(data, chosen):
    if data is None:
        return None
    return safe_indexing(data.tocsr() if sparse.issparse(data) else data, chosen)


class _Run:
    """Validation scores of one fit, and its best weights."""

    def __init__(self, stopper, estimator, X, y, sample_weight):
        self._stopper = stopper
        #: Weights for the training samples: 0 for those that are held out.
        self.sample_weight = sample_weight
        if isinstance(stopper.validation, tuple):
            self._held_out = stopper.validation
        else:
            self._held_out = self._hold_out(estimator, X, y)
        self._n_epochs, self._n_worse = 0, 0
        self.scores, self.best_score, self.best_epoch = [], -np.inf, None
        #: The tables of the best epoch.
        self.tables = None

    def _hold_out(self, estimator, X, y):
        n_samples, n_labels = _count(X, "X"), _count(y, "y")
        if n_labels != n_samples:
            raise ValueError(f"X has {n_samples} samples, but y has {n_labels}")
        if n_samples == 0:
            raise ValueError("X is empty: at least one sample is needed")
        weight = read_sample_weight(self.sample_weight, n_samples)
        counts = np.flatnonzero(weight > 0)
        n = max(round(self._stopper.validation * counts.size), 1)
        if n >= counts.size:
            raise ValueError(
                f"EarlyStopping(validation={self._stopper.validation!r}) holds out {n} of "
                f"{counts.size} samples: nothing is left to train on"
            )
        rng = check_random_state(getattr(estimator, "random_state", 0))
        chosen = np.sort(rng.permutation(counts)[:n])
        given = None if self.sample_weight is None else weight[chosen]
        self.sample_weight = weight.copy()
        self.sample_weight[chosen] = 0.0
        return _some(X, chosen), _some(y, chosen), given

    def after_epoch(self, model):
        """Score `model` after an epoch; return whether to stop."""
        self._n_epochs += 1
        stopper = self._stopper
        if (self._n_epochs - 1) % stopper.every:
            self.scores.append(np.nan)
            return False
        X, y, *weight = self._held_out
        try:
            if callable(stopper.metric):
                score = stopper.metric(model, X, y)
            else:
                score = model.score(X, y, *weight)
        except (TypeError, ValueError) as error:
            if VECTORISE not in str(error) and callable(stopper.metric):
                error.add_note("EarlyStopping called its metric with the validation samples")
                raise
            text = str(error).replace(VECTORISE, _OF_PIPELINES)
            text = f"EarlyStopping cannot score the validation samples: {text}"
            raise type(error)(text) from error
        if not isinstance(score, Real) or np.isnan(score):
            raise ValueError(f"EarlyStopping: metric must return a number, got {score!r}")
        self.scores.append(float(score))
        is_better = score > self.best_score + (stopper.min_delta if self.best_epoch else 0.0)
        if is_better or self.best_epoch is None:
            self.best_score, self.best_epoch, self._n_worse = float(score), self._n_epochs, 0
            if stopper.restore_best:
                # A copy already, see `Epochs`.
                self.tables = tuple(getattr(model, name) for name in model._tables)
            return False
        self._n_worse += 1
        return self._n_worse >= stopper.patience

    def published(self):
        """Return attributes for the estimator."""
        if self.best_epoch is None:
            return {}
        return {"best_validation_score_": self.best_score, "best_iter_": self.best_epoch}

    def curve(self, n_epochs):
        """Return the scores of all epochs, NaN where there was none."""
        scores = np.full(n_epochs, np.nan)
        scores[: len(self.scores)] = self.scores[:n_epochs]
        return scores


class EarlyStopping:
    """Stop training when the validation score stops improving.

    The final model has the weights of the best epoch, bit for bit. Its ``objective_`` is for these
    weights, and its certificate compares them with the best lower bound of the solver. There is no
    ConvergenceWarning. Scores are in ``history_["validation_score"]``, the best one and its epoch
    in ``best_validation_score_`` and ``best_iter_``.

    Set it on the estimator itself; in a pipeline, on its last step. In cross-validation and
    searches use a fraction: each fit holds out samples of its own, while samples that a vectorizer
    has transformed fit its vocabulary only, and each fit has another. Read more in the
    :ref:`User Guide <watching>`.

    Parameters
    ----------
    validation : float or tuple (X, y) or (X, y, sample_weight), default=0.1
        A fraction of the training samples to hold out, drawn by the estimator's `random_state`
        among those of nonzero weight, or validation samples (transformed ones, for the last step of
        a pipeline).
    metric : "score" or callable, default="score"
        Score to maximise: the estimator's ``score``, or ``metric(model, X, y)``, such as a scorer
        of :mod:`skstruct.metrics`.
    every : int, default=1
        Number of epochs between scores, from the first epoch on.
    patience : int, default=5
        Number of consecutive scores without improvement after which training stops.
    min_delta : float, default=0.0
        Minimum improvement over the best score to count as progress.
    restore_best : bool, default=True
        Whether to restore the weights of the best epoch, not to keep those of the last one.

    Raises
    ------
    ValueError
        If a parameter is out of range; in ``fit``, if no sample is left for training, `metric` does
        not return a number, or there are two such callbacks.
    TypeError
        If `metric` or `validation` has the wrong type; in ``fit``, if the estimator is not one of
        this package.

    See Also
    --------
    skstruct.callbacks.TimeLimit : Stops after a time limit.
    skstruct.callbacks.Checkpoint : Saves the model periodically.

    Notes
    -----
    The weights are copied after every epoch. Bounds are for the training samples without those held
    out. Objectives without a lower bound (partial labels, ProxLinearSSVM) have none here either.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.callbacks import EarlyStopping
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), n_samples=40)
    >>> crf = SAGCRF(C=100.0, tol=0.0, random_state=0)
    >>> crf = crf.set_callbacks(EarlyStopping(0.2, patience=3)).fit(X, y)
    >>> crf.n_iter_ == crf.best_iter_ + 3
    True
    """

    def __init__(
        self,
        validation: float | tuple = 0.1,
        *,
        metric: str | Callable = "score",
        every: int = 1,
        patience: int = 5,
        min_delta: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        is_share = isinstance(validation, Real) and not isinstance(validation, bool)
        if is_share and not 0 < validation < 1:
            raise ValueError(f"validation must be between 0 and 1, or samples, got {validation!r}")
        if not is_share and not (isinstance(validation, tuple) and len(validation) in (2, 3)):
            raise TypeError(
                "validation must be a fraction, or a tuple (X, y) or (X, y, sample_weight), got "
                f"{type(validation).__name__}"
            )
        if not callable(metric) and metric != "score":
            raise TypeError(f'metric must be "score" or callable as (model, X, y), got {metric!r}')
        for name, value in (("every", every), ("patience", patience)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if not isinstance(min_delta, Real) or not 0 <= min_delta < np.inf:
            raise ValueError(f"min_delta must be a nonnegative number, got {min_delta!r}")
        self.validation = validation
        self.metric = metric
        self.every = every
        self.patience = patience
        self.min_delta = min_delta
        self.restore_best = restore_best
        self._runs = WeakKeyDictionary()

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_runs"}

    def __setstate__(self, state):
        vars(self).update(state, _runs=WeakKeyDictionary())

    def setup(self, estimator: Any, context: CallbackContext) -> None:
        """Reject estimators of other packages."""
        if estimator not in self._runs:
            raise TypeError(
                "EarlyStopping watches the passes of an estimator of skstruct, which "
                f"{type(estimator).__name__} does not have: set it on the estimator inside, as in "
                "model[-1].set_callbacks(...)"
            )

    def teardown(self, estimator: Any, context: CallbackContext) -> None:
        """Delete the state of a fit that has ended, or failed."""
        self._runs.pop(estimator, None)

    def on_fit_task_begin(self, estimator: Any, context: CallbackContext) -> None:
        """Do nothing."""

    def on_fit_task_end(
        self, estimator: Any, context: CallbackContext, *, fitted_estimator: Any
    ) -> bool:
        """Return whether validation scores have stopped rising."""
        if fitted_estimator is None or context.task_name != "epoch":
            return False
        return self._runs[estimator].after_epoch(fitted_estimator)


def begin_validation(estimator: Any, X: Any, y: Any, sample_weight: Any) -> _Run | None:
    """Hold out samples if a callback of `estimator` requires it."""
    found = [c for c in getattr(estimator, CALLBACKS, ()) if isinstance(c, EarlyStopping)]
    if len(found) > 1:
        raise ValueError("there are two callbacks EarlyStopping: one fit can have one of them")
    if not found:
        return None
    run = _Run(found[0], estimator, X, y, sample_weight)
    found[0]._runs[estimator] = run
    return run


def end_validation(new: Any, run: _Run, result: Any, task: tuple) -> Any:
    """Put the best weights, their certificate and the scores into the result of a fit."""
    curve = run.curve(result.history["passes"].size)
    result = result._replace(
        history=result.history | {"validation_score": curve},
        published=result.published | run.published(),
    )
    tables = run.tables
    pairs = () if tables is None else zip(tables, result.weights.tables, strict=True)
    if all(np.array_equal(best, last) for best, last in pairs):
        return result
    kind = type(result.weights)
    best = Weights(*tables) if kind is Weights else kind(*tables)
    return result._replace(weights=best, published=new._certified(best, result.published, *task))

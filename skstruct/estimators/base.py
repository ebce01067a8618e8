"""StructuredEstimator: validate, build the problem, solve, publish."""

from __future__ import annotations

import contextlib
import copy
import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, check_random_state

from ..core import oracles
from ..core.arguments import warn_user
from ..core.jit.compiling import announced_compiles, solving_time
from ..core.jit.kernels import cache_folder
from ..core.problem import require_problem
from ..core.sklearn_private import (
    CallbackSupportMixin,
    Documented,
    InvalidParameterError,
    fit_context,
)
from ..core.typing import PathLike, SamplesLike
from ..data.packing import check_pointers
from ..graphs.registry import known_kind, wrong_graph
from ..shards.reading import Shards
from ..solvers.run import SampleOverflow
from .class_weight import hinge_weights
from .early_stopping import Restoring, begin_validation, end_validation
from .fit_shards import fit_shards
from .persistence import CompactPickles
from .prediction import Predictor
from .training_data import TrainingData, read_training_data
from .warm_start import drawn_weights, first_weights

# Tell scikit-learn's callbacks, and the terminal, how a fit goes on.

# Passes longer than this have subtasks, so that callbacks hear of them in between.
_LONG_PASS = 1.0
_SECONDS_A_LINE = 5.0


def _what_is_known(record, tol):
    """Format the numbers of a pass; without an objective, the others that are known."""
    known = {name: value for name, value in record.items() if np.isfinite(value)}
    if "objective" in known:
        objective, gap = known["objective"], known.get("dual_gap")
        if gap is None:
            return f"objective {objective:.6f}"
        relative = gap / objective if objective > 0 else np.inf
        text = f"objective {objective:.6f}, relative duality gap {relative:.1e}"
        if "average_gradient" in record:
            text += f", largest entry of the average gradient {record['average_gradient']:.1e}"
        return f"{text} (tol {tol:.1e})"
    rest = [
        f"{words} {known[name]:{form}}"
        for name, words, form in (
            ("dual_objective", "at least", ".6f"),
            ("infeasibility", "infeasibility", ".2e"),
        )
        if name in known
    ]
    return ", ".join(["objective not evaluated", *rest])


class Epochs:
    """Report each pass, and pieces of one that takes over a second, and check whether to stop."""

    # Scikit-learn wants to know of subtasks when a task begins, so a task begins after that second.

    def __init__(self, estimator, context, X, y, fitted):
        self.estimator, self.context = estimator, context
        self.data = {"estimator": estimator, "X": X, "y": y}
        self.fitted = fitted
        #: Turns the weights of a solver into those of the model.
        self.spread = lambda weights: weights
        self.count, self.task = 0, None
        self.began, self.printed = solving_time(), time.perf_counter()

    def _begin(self, max_subtasks):
        # A task that has no subtasks has no progress bar of its own, either.
        self.task = self.context.subcontext(task_name="epoch", max_subtasks=max_subtasks)
        self.task.call_on_fit_task_begin(**self.data)

    def after_piece(self, share):
        """Report a part of a pass."""
        estimator, now = self.estimator, time.perf_counter()
        if estimator.verbose and now - self.printed > _SECONDS_A_LINE:
            self.printed = now
            print(f"[{type(estimator).__name__}] epoch {self.count + 1}: {share:.0%}")
        if self.task is None:
            if solving_time() - self.began < _LONG_PASS:
                return False
            self._begin(max_subtasks=None)
        piece = self.task.subcontext(task_name="piece")
        piece.call_on_fit_task_begin(**self.data)
        return piece.call_on_fit_task_end(**self.data)

    def __call__(self, record, weights):
        """Report a pass; see :class:`skstruct.solvers.run.Progress`."""
        self.count += 1
        estimator = self.estimator
        if estimator.verbose:
            name = type(estimator).__name__
            print(
                f"[{name}] epoch {self.count}: passes {record['passes']:.1f}, "
                f"{record['seconds']:.2f} s, {_what_is_known(record, estimator.tol)}"
            )

        def attributes():
            # Changes of a callback to its model must not reach the training; the weights are copies
            # already. And the model must not show what an earlier fit has found out.
            tables = zip(estimator._tables, self.spread(weights()).tables, strict=True)
            now = dict(tables) | {"n_iter_": self.count}
            return {"__dict__": vars(estimator._unfitted()) | copy.deepcopy(self.fitted) | now}

        if self.task is None:
            self._begin(max_subtasks=0)
        stop = self.task.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)
        self.task, self.began = None, solving_time()
        return stop


# Mean weights above it, or below its inverse, are to blame for what overflows.
_LARGE_WEIGHT = 1e20
# The operations that all training calls.
_TRAINING = (
    oracles.potentials,
    oracles.accumulate,
    oracles.truth,
    oracles.add_indicator,
    oracles.score,
)

# A relative duality gap above this is far from any use: more passes alone will hardly help.
_FAR = 0.1

# Private names that belong to a fit, in addition to all that end with an underscore.
_STATE = (
    "_has_intercept",
    "_stored_as",
    "_dual",
    "_feature_names",
    "_edge_feature_names",
    "_label_names",
    "_stream",
)


def fitted_state(estimator) -> dict:
    """Return the attributes that fitting has set."""
    parameters = estimator._get_param_names()
    return {
        name: value
        for name, value in vars(estimator).items()
        if name in _STATE or (name.endswith("_") and name not in parameters)
    }


def warm_copy(estimator, kind):
    """A copy with warm starts, for a path of an estimator of this class."""
    if not isinstance(estimator, kind):
        raise TypeError(
            f"estimator must be a {kind.__name__}, got a {type(estimator).__name__}: transform X "
            "before, or give the last step of a pipeline warm_start=True and fit for each C"
        )
    return estimator._path_start()


def fit_path(estimator, model, data, Cs, left_out=()) -> list:
    """Fits of `model`, which starts from the fit before, as one copy of `estimator` for each C."""
    Cs, fitted = [float(C) for C in Cs] if np.iterable(Cs) else [], []
    if not Cs:
        raise ValueError("Cs must be a sequence of one number or more")
    for C in Cs:
        state = fitted_state(model.set_params(C=C).fit(*data))
        fitted.append(clone(estimator).set_params(C=C))
        vars(fitted[-1]).update({k: v for k, v in state.items() if k not in left_out})
    return fitted


class StructuredEstimator(
    Predictor, Restoring, CompactPickles, CallbackSupportMixin, Documented, BaseEstimator
):
    """Base of all estimators: everything that does not depend on the loss or on the solver."""

    # What fit sets.
    classes_: np.ndarray
    graph_: Any
    history_: dict[str, np.ndarray]
    n_features_in_: int
    n_iter_: int
    objective_: float
    dual_objective_: float
    dual_gap_: float
    suboptimality_: float

    #: Whether the solver takes the ``pair_cone`` of a structure.
    _keeps_cone = False
    #: Whether it trains on relaxations, too: the structure may then choose one.
    _takes_relaxations = False
    #: Whether it is trained by marginals.
    _needs_marginals = False
    #: Effect of class and node weights on the task loss.
    _loss_weights = staticmethod(hinge_weights)
    #: Whether nodes may have no label, or a set of labels.
    _takes_partial_labels = False
    #: Whether training on shards needs inner products of the feature rows of a sample.
    _multiplies_rows = False
    #: Parameters of other packages, and what takes their place.
    _foreign_parameters: dict = {}  # noqa: RUF012

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Reject parameters of other packages, and name their equivalents."""
        for name in parameters:
            if name in cls._foreign_parameters and name not in cls._get_param_names():
                raise TypeError(
                    f"{cls.__name__} has no parameter {name!r}: {cls._foreign_parameters[name]}; "
                    'the guide\'s page "Migrating from sklearn-crfsuite" lists them all'
                )
        return super().__new__(cls)

    def _validate_params(self):
        if wrong := wrong_graph(self.graph):
            raise InvalidParameterError(f"The 'graph' parameter of {type(self).__name__} {wrong}")
        super()._validate_params()

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: SamplesLike | Shards,
        y: SamplesLike | None = None,
        sample_weight: ArrayLike | None = None,
        node_weight: SamplesLike | None = None,
        *,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on labelled samples.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, or 2-D array or sparse matrix
            Samples of the structure: for chains one (n_nodes, n_features) array or sparse matrix
            per sample, or all of them packed; for one-node samples a table. Or
            :class:`~skstruct.datasets.Shards`, which include labels and weights, and are never all
            in memory.
        y : list, object array, RaggedArray or 1-D array
            None with shards, else one label per node, strings or integers. SAGCRF and most
            structural SVMs accept partial labels: None (NaN, masked) where a label is missing, a
            set of labels where one of them is right. See :ref:`partial_labels`.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor s_i on the loss of each sample. Weight 0 omits a sample; weight 2 equals the
            sample twice, up to `tol`: see :ref:`weights_and_repetitions`.
        node_weight : list, object array, RaggedArray or array, default=None
            Nonnegative weights of nodes in the shape of y: one array per sample, or one flat array.
            For a table one number per row (for label sets per label); with `node_types` a dict by
            type per sample. See :ref:`weights`.
        checkpoint : str or Path, default=None
            With shards: folder for the state of training after rounds (the last two states; short
            rounds may be skipped). A later `fit` with the same shards, folder and parameters
            (except `max_iter`, `tol`, `n_jobs` and the like) continues from there, and ends with
            the weights of an uninterrupted fit, bit for bit.

        Returns
        -------
        StructuredEstimator
            The estimator itself.

        Raises
        ------
        ValueError
            If X or y is empty, not finite, of mismatched lengths, has one class only, or breaks the
            structure's constraints; messages name the sample.
        FloatingPointError
            If losses or weights overflow.
        KeyboardInterrupt
            On Ctrl-C, within about half a second. As after any error during training, the model is
            unchanged. (A callback that raises at the end, or a ConvergenceWarning turned into an
            error, leaves the new model.)

        Warns
        -----
        ConvergenceWarning
            If `max_iter` is reached before `tol`.
        """
        with self._announced():
            if isinstance(X, Shards):
                given = {"y": y, "sample_weight": sample_weight, "node_weight": node_weight}
                return self._report(fit_shards(self, X, given, checkpoint))
            if isinstance(y, Shards):
                raise TypeError("y is Shards: they have samples and labels, fit(shards) takes both")
            if checkpoint is not None:
                raise ValueError("checkpoint is for fit(Shards(folder)): X has no shards")
            # Everything is built in a model of its own: until the end this one stays as it was.
            new = self._unfitted()
            validation = begin_validation(self, X, y, sample_weight)
            if validation is not None:
                sample_weight = validation.sample_weight
            data = read_training_data(new, X, y, sample_weight, node_weight)
            problem = new._make_problem(data)
            shapes = new.graph_.weight_shapes(data.samples, len(new.states_), self.fit_intercept)
            context, common = self._begin(new, X, y)
            previous = self if getattr(self, "warm_start", False) else None
            common["start"] = new._start(previous, problem, shapes)
            if common["start"] is None and len(new.states_) > len(new.classes_):
                common["start"] = drawn_weights(data.samples, shapes, new._generator())
            try:
                if data.completion is None:
                    result = new._solve(problem, shapes, data.sample_weight, data.lam, **common)
                else:
                    result = new._solve_partial(problem, shapes, data, **common)
            except FloatingPointError as error:
                raise new._in_words_of_the_user(error, data) from None
            if validation is not None:
                result = end_validation(new, validation, result, (problem, shapes, data))
            return self._report(self._become(new, result, context, X, y))

    def _report(self, result):
        """Warn if training has not converged, and print its last line; returns the estimator."""
        name = type(self).__name__
        if not result.converged and not result.stopped:
            far = result.distance > _FAR and result.measure == "relative duality gap"
            hint = "; or scale the features, or lower C" if far else ""
            hint += self._whether_operations_are_right() if far else ""
            hint += self.graph_.hint_of_scale if far else ""
            if getattr(self, "l1_ratio", None) == 1:
                hint += "; or set l1_ratio=0.99, which is certified sooner"
            warn_user(
                f"{name} did not converge in max_iter={self.max_iter} passes: the "
                f"{result.measure} is {result.distance:.1e}, tol is {self.tol:.1e}; "
                f"{result.remedy}{hint}",
                ConvergenceWarning,
            )
        if self.verbose:
            end = "stopped by a callback" if result.stopped else "max_iter reached"
            end = "converged" if result.converged else end
            seconds = result.history["seconds"][-1]
            reached = f"{result.measure} {result.distance:.1e} (tol {self.tol:.1e})"
            epochs = f"{self.n_iter_} epoch{'s' if self.n_iter_ != 1 else ''}"
            print(f"[{name}] {end}: {epochs}, {seconds:.2f} s, {reached}")
        return self

    def _announced(self):
        """Announce each kernel that compiles if this is verbose."""
        if not self.verbose:
            return contextlib.nullcontext()
        kept = "" if cache_folder() is None else ", for this and later processes"

        def announce(name):
            print(f"[{type(self).__name__}] compiling {name}{kept}")

        return announced_compiles(announce)

    def _begin(self, new, X, y):
        """Return the callbacks' context of a fit, and the arguments of every solver."""
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        epochs = Epochs(self, context, X, y, fitted_state(new))
        return context, {"max_iter": self.max_iter, "tol": self.tol, "after_epoch": epochs}

    def _become(self, new, result, context, X, y):
        """Copy the fitted state of `new` once its training has ended."""
        for name, table in zip(new._tables, result.weights.tables, strict=True):
            if not np.isfinite(table).all():
                raise FloatingPointError(
                    f"training ended with weights that are not finite ({name}): are the features "
                    "scaled?"
                )
            setattr(new, name, table)
        new.history_ = result.history
        new.n_iter_ = result.history["passes"].size
        vars(new).update(result.published)
        # One assignment, so that other threads never see half of each.
        self.__dict__ = vars(self._unfitted()) | fitted_state(new)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return result

    def _in_words_of_the_user(self, error, data):
        """Return the error with the sample as the user counts it, or with its cause in weights."""
        per_weight = float(self.C) * data.lam * data.sample_weight.size if data.lam > 0.0 else 1.0
        advice = None
        if not 1.0 / _LARGE_WEIGHT <= per_weight <= _LARGE_WEIGHT:
            advice = f"sample_weight has a mean of {1.0 / per_weight:.2g}, which multiplies C: "
            advice += "divide it by its mean"
        hint = self._whether_operations_are_right()
        forbidden = self._forbidden_sample(data) if hint else None
        if forbidden is not None:
            return ValueError(f"y: sample {forbidden} has labels with a part that is forbidden")
        if isinstance(error, SampleOverflow):
            sample = int(data.sample_indices[error.sample])
            return SampleOverflow(sample, error.value, (advice or error.advice) + hint)
        text = str(error)
        return FloatingPointError(
            (f"{text.partition(':')[0]}: {advice}" if advice else text) + hint
        )

    def _forbidden_sample(self, data):
        """The first sample whose true labels have a forbidden part: structures may not check it."""
        problem = self.graph_.make_problem(
            data.samples, self.states_, self._has_intercept, codes=data.codes
        )
        ptr = problem.label_ptr
        for i, n_parts in enumerate(np.diff(problem.part_ptr)):
            theta = np.zeros(n_parts)
            oracles.forbid(problem, i, theta)
            if oracles.score(problem, i, theta, problem.labels[ptr[i] : ptr[i + 1]]) == -np.inf:
                return data.sample_indices[i]
        return None

    def _whether_operations_are_right(self):
        """What else may be the cause where the structure is not of this package."""
        kind = type(self.graph_)
        if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return ""
        check = "skstruct.testing.check_structure"
        return f"; {check} says whether operations of {kind.__name__} are wrong"

    def _refuse_shards(self, shards):
        """Reject shards altogether, before anything is read."""

    def _train_rounds(self, source, engine, shapes, **common):
        """Call a solver that works in rounds over the parts of a source."""
        raise TypeError(f"{type(self).__name__} does not train on shards; SAGCRF does")

    def _unfitted(self):
        """Return an unfitted model with the same parameters and callbacks."""
        new, fitted = object.__new__(type(self)), fitted_state(self)
        vars(new).update({k: v for k, v in vars(self).items() if k not in fitted})
        return new

    def _make_problem(self, data: TrainingData):
        """Return what `_solve` takes: the problem, unless a solver needs more."""
        problem = self.graph_.make_problem(
            data.samples,
            self.states_,
            self._has_intercept,
            codes=data.codes,
            loss=self._task_loss(data),
            n_best=getattr(self, "n_best", 0) + 1,
        )
        self._check_problem(problem)
        check_pointers(problem, data.sample_weight.size, data.codes.size)
        space = type(problem.space)
        self.inference_ = self.training_inference_ = getattr(space, "inference", "exact")
        if getattr(space, "method", None) is not None:
            self.method_ = space.method
        return problem

    def _check_problem(self, problem):
        """Raise a TypeError if the structure lacks an operation, before any compilation."""
        require_problem(problem, self.graph_)
        for verb in _TRAINING:
            part = problem.rows if verb is oracles.potentials else problem
            self._require(verb, part, "nothing trains without it: see skstruct.graphs.Graph")
        if not self._keeps_cone and self.graph_.pair_cone(self.classes_) is not None:
            raise TypeError(
                f"{type(self).__name__} cannot keep interactions attractive: use BCFWSSVM, "
                "CasimirSSVM, ExtragradientSSVM or SubgradientSSVM, or attractive=False"
            )

    def _generator(self):
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    @property
    def _starts_warm(self):
        """Whether a fit can start from the one before."""
        return "warm_start" in self._get_param_names()

    def _path_start(self):
        """Return a copy for fits of a sequence of C, each of which starts from the one before."""
        return clone(self).set_params(warm_start=True)

    def _start(self, previous, problem, shapes):
        """Return where a warm start begins: at the weights of `previous` that still apply."""
        return None if previous is None else first_weights(self, previous, shapes)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # "auto" knows what it is when it has seen data.
        kind = known_kind(getattr(self, "graph_", self.graph))
        tags.estimator_type = "classifier" if getattr(kind, "is_table", False) else None
        tags.classifier_tags = ClassifierTags(multi_label=getattr(kind, "has_label_sets", True))
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

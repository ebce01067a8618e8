"""Calibrated probabilities: one temperature, and isotonic regression of chunks."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.validation import check_is_fitted

from ..core.sklearn_private import num_samples, safe_indexing
from ..core.typing import SamplesLike
from ..core.wrappers import innermost, split_model
from ..data.partial import split_partial
from ..metrics.calibration import confidences
from .marginals import ProbabilisticPredictor
from .persistence import TABLES
from .wrapper import Wrapper

# Temperatures are searched for between exp(-8) and exp(8).
_WIDEST = 8.0


def at_temperature(model: Any, temperature: float) -> Any:
    """A structured estimator whose distribution is that of scores over `temperature`."""
    scaled = copy(model)
    for name in TABLES:
        setattr(scaled, name, getattr(model, name) / temperature)
    return scaled


class TemperatureScaling(Wrapper):
    r"""Calibrate the probabilities of a CRF by one temperature, found on held-out samples.

    The temperature divides scores, :math:`p(y \mid x) \propto \exp(\langle w, \Phi(x, y) \rangle /
    T)`: the ranking of labellings stays, probabilities become less extreme (T > 1) or more. T
    maximises the likelihood of held-out samples, a convex problem in 1 / T (the log-partition
    function is convex), to six digits of log T. Read more in the :ref:`User Guide <calibration>`.

    Parameters
    ----------
    estimator : SAGCRF, Pipeline or search that ends in one, or FrozenEstimator
        The model. For a frozen one, all samples passed to fit are held-out samples.
    cv : int, splitter or iterable, default=None
        Cross-validation, as in scikit-learn: by default five folds, stratified for a table. The
        model is then fitted to all samples.
    isotonic : bool, default=False
        Whether to calibrate the probabilities of chunks, too, by isotonic regression on the
        predicted held-out chunks in samples without missing labels. It needs several hundred
        chunks.
    scheme : str, default=None
        Tagging scheme of the labels, as for :func:`skstruct.metrics.chunks`; for `isotonic`.

    Attributes
    ----------
    temperature_ : float
        The temperature.
    estimator_ : estimator
        The model, fitted to all samples; not scaled.
    classes_ : ndarray of shape (n_classes,)
        Its labels.
    log_likelihoods_ : ndarray of shape (2,)
        Mean log-likelihood of held-out samples before and after.
    isotonic_ : IsotonicRegression
        Only with `isotonic`.

    See Also
    --------
    skstruct.SAGCRF.predict_chunks : Chunks with probabilities.
    skstruct.metrics.confidences : Predictions and their probabilities, for a reliability diagram.
    sklearn.calibration.CalibratedClassifierCV : For classifiers of single samples.

    Notes
    -----
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger: On calibration of modern neural networks, ICML
    2017, section 4.2, for one node. A model without regularisation is calibrated on its training
    samples, and overconfident on others.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, TemperatureScaling
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), 60)
    >>> model = TemperatureScaling(SAGCRF(C=100.0, random_state=0)).fit(X[:40], y[:40])
    >>> bool(model.temperature_ > 1)  # with so little regularisation it was too sure
    True
    >>> before = model.estimator_.predict_log_likelihood(X[40:], y[40:])
    >>> after = model.predict_log_likelihood(X[40:], y[40:])
    >>> bool(after.mean() > before.mean())
    True
    """

    _example = """>>> from sklearn.frozen import FrozenEstimator
        >>> from skstruct import SAGCRF, TemperatureScaling
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> model = TemperatureScaling(FrozenEstimator(crf)).fit(X, y)"""

    def __init__(
        self, estimator: Any, cv: Any = None, isotonic: bool = False, scheme: str | None = None
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.isotonic = isotonic
        self.scheme = scheme

    def fit(self, X: SamplesLike, y: SamplesLike, groups: ArrayLike | None = None) -> Self:
        """Fit the model and the temperature.

        Parameters
        ----------
        X, y : list, object array or RaggedArray
            Samples and their labels, as the model takes them.
        groups : array-like of shape (n_samples,), default=None
            For splitters by group.

        Returns
        -------
        TemperatureScaling
            The estimator itself.

        Raises
        ------
        TypeError
            If the model has no probabilities that a temperature can change.
        ValueError
            If labels of held-out samples are unknown to a frozen model, or no labelling of them is
            possible; if no chunks are predicted for `isotonic`.
        """
        if y is None:
            raise ValueError("y must hold the labels of the samples in X, got None")
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"estimator must be an estimator, such as SAGCRF(): {self.estimator!r}")
        check_consistent_length(X, y)
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        if is_frozen:
            check_is_fitted(self.estimator.estimator)
            held = [(*_structured(self.estimator, X), y)]
        else:
            held = [*self._held_out(X, y, groups)]
        temperature, likelihoods = _best_temperature(held)
        vars(self).pop("isotonic_", None)  # of an earlier fit
        if self.isotonic:
            self.isotonic_ = self._fit_isotonic(held, temperature)
        self.temperature_, self.log_likelihoods_ = temperature, likelihoods
        self.estimator_ = self.estimator.estimator if is_frozen else clone(self.estimator).fit(X, y)
        self.classes_ = innermost(self.estimator_)[1].classes_
        return self

    def _held_out(self, X, y, groups):
        """For each fold, the model without it, and its samples whose labels that model has."""
        n, is_table = num_samples(y), is_classifier(self.estimator)
        # scikit-learn stratifies by a label for each sample
        is_table = is_table and split_partial(y, is_table=True)[1] is None
        cv = check_cv(self.cv, y, classifier=is_table)
        folds = [*cv.split(np.zeros(n), y if is_table else None, groups)]
        if not folds:
            raise ValueError("cv has no folds (a generator can be used once only)")
        for train, test in folds:
            part = clone(self.estimator).fit(safe_indexing(X, train), safe_indexing(y, train))
            test = np.arange(n)[test]
            model, seen = _structured(part, safe_indexing(X, test))
            truth = safe_indexing(y, test)
            known = np.flatnonzero(model._read_truth(seen, truth)[2])  # a rare one may lack
            if known.size:
                yield model, safe_indexing(seen, known), safe_indexing(truth, known)

    def _fit_isotonic(self, held, temperature):
        """Probabilities of right chunks among those predicted for held-out samples."""
        found = [
            confidences(at_temperature(model, temperature), X, y, of="chunks", scheme=self.scheme)
            for model, X, y in held
        ]
        right, given = map(np.concatenate, zip(*found, strict=True))
        if not given.size:
            raise ValueError(
                "isotonic: no chunks are predicted for held-out samples; for labels without "
                'prefixes (such as B- or I-) take scheme="runs"'
            )
        curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        return curve.fit(given, right.astype(np.float64))

    def __sklearn_tags__(self):
        return get_tags(self.estimator)

    def _wrapped(self):
        return [], self.estimator_

    def _inside(self, name, X):
        """The model, for its probabilities at the temperature; the best labelling has none."""
        model, X = split_model(self.estimator_, X)
        if name not in ("predict", "score"):
            model = copy(model)
            model._temperature = self.temperature_
        return model, X

    def predict_chunks(self, X: SamplesLike, **options: Any) -> np.ndarray:
        """Chunks with calibrated probabilities, corrected by `isotonic_` if there is one.

        Parameters
        ----------
        X : list, object array or RaggedArray
            Samples.
        **options : object
            As of the model's `predict_chunks`.

        Returns
        -------
        ndarray of shape (n_samples,) of object
            A list of (start, stop, kind, probability) for each sample.
        """
        check_is_fitted(self)
        model, X = self._inside("predict_chunks", X)
        found = model.predict_chunks(X, **({"scheme": self.scheme} | options))
        if hasattr(self, "isotonic_") and options.get("confidence", True):
            for own in found:
                given = np.array([chunk.probability for chunk in own])
                corrected = self.isotonic_.predict(given).tolist() if own else []
                own[:] = [
                    chunk._replace(probability=p) for chunk, p in zip(own, corrected, strict=True)
                ]
        return found


def _structured(model, X):
    """The structured estimator of a model, if it has a distribution, and what it sees of X."""
    model, X = split_model(model, X)
    if not isinstance(model, ProbabilisticPredictor):
        raise TypeError(
            f"estimator must be a SAGCRF, or a Pipeline or search that ends in one: "
            f"{type(model).__name__} has no probabilities that a temperature can change"
        )
    return model, X


def _best_temperature(held):
    """The temperature of the best likelihood, and the mean likelihoods before and after."""
    before = [np.asarray(model.predict_log_likelihood(X, y)) for model, X, y in held]
    possible = [np.flatnonzero(values > -np.inf) for values in before]
    n = sum(own.size for own in possible)
    if n == 0:
        raise ValueError("y: no labelling of the held-out samples is possible under the model")

    def mean(log_temperature):
        total = 0.0
        for (model, X, y), own in zip(held, possible, strict=True):
            scaled = at_temperature(model, np.exp(log_temperature))
            total += scaled.predict_log_likelihood(X, y)[own].sum()
        return total / n

    found = minimize_scalar(
        lambda x: -mean(x), bounds=(-_WIDEST, _WIDEST), method="bounded", options={"xatol": 1e-6}
    )
    likelihoods = np.array([mean(0.0), -found.fun])
    return float(np.exp(found.x)), likelihoods

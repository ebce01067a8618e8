"""Metrics of confidences: how right they are, and which errors a reviewer finds by them."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import check_integer, warn_user
from ..core.typing import SamplesLike
from ..core.wrappers import split_model
from ..data.partial import is_partial
from .chunks import chunks

# Whether what a model predicts is right, and how sure it is.


def require(model, *names):
    """Reject a model that lacks a method."""
    for name in names:
        if not hasattr(model, name):
            raise TypeError(f"{type(model).__name__} has no {name}, and so no confidences")


def confidences(
    model: Any,
    X: SamplesLike,
    y: SamplesLike,
    *,
    of: Literal["nodes", "chunks"] = "nodes",
    scheme: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each prediction of a model is right, and its probability.

    The arguments of the metrics of confidences, and of scikit-learn's reliability diagram
    (``CalibrationDisplay.from_predictions``). Read more in the :ref:`User Guide <calibration>`.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted, with probabilities.
    X, y : list, object array or RaggedArray
        Samples that the model has not seen, and their labels. Nodes without a label do not count,
        and of chunks samples with such nodes.
    of : {"nodes", "chunks"}, default="nodes"
        Predictions to assess: the most probable label of each node, by its marginal probability; or
        the chunks of the best labelling, by ``predict_chunks``.
    scheme : str, default=None
        For chunks, see :func:`skstruct.metrics.chunks`.

    Returns
    -------
    correct : ndarray of shape (n_predictions,) of bool
        Whether each prediction is right.
    confidence : ndarray of shape (n_predictions,)
        Its probability under the model.

    Raises
    ------
    ValueError
        If `of` is something else.
    TypeError
        If the model has no probabilities.

    See Also
    --------
    skstruct.metrics.expected_calibration_error : Distance of the two, as a number.
    sklearn.calibration.CalibrationDisplay : Reliability diagram.
    skstruct.SAGCRF.predict_chunks : Chunks with probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.metrics import confidences
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), 60)
    >>> crf = SAGCRF(random_state=0).fit(X[:40], y[:40])
    >>> correct, confidence = confidences(crf, X[40:], y[40:])
    >>> correct.size == confidence.size == sum(map(len, y[40:]))
    True
    """
    if of not in ("nodes", "chunks"):
        raise ValueError(f"of must be 'nodes' or 'chunks', got {of!r}")
    model, X = split_model(model, X)
    require(model, "predict_marginals")
    return _of_nodes(model, X, y) if of == "nodes" else _of_chunks(model, X, y, scheme)


def _of_nodes(model, X, y):
    """Whether the most probable label of each node is right, and its probability."""
    check_is_fitted(model)
    shares = model.predict_marginals(X)
    if not len(shares):
        raise ValueError("X has no samples: some are needed")
    codes, partial, is_known = model._read_truth(X, y)
    flat = np.concatenate([np.ravel(own) for own in shares])
    if flat.size != codes.size * len(model.classes_):
        raise TypeError(
            "label sets and items have one probability each, that of being on: compare those of "
            "predict_marginals with y label by label, or of the items of all samples; with "
            "node_types those of one type"
        )
    if not is_known.all():
        warn_user(
            f"y: labels that fit has not seen count as wrong, in {(~is_known).sum()} of "
            f"{is_known.size} samples, first in sample {is_known.argmin()}"
        )
    marginals = flat.reshape(codes.size, -1)
    best = marginals.argmax(axis=1)
    known = slice(None) if partial is None else ~partial.hidden
    sure = np.minimum(marginals[np.arange(best.size), best], 1.0)
    return (best == codes)[known], sure[known]


def _of_chunks(model, X, y, scheme):
    """Whether each predicted chunk is right, and its probability; of samples with all labels."""
    require(model, "predict_chunks")
    right, given = [], []
    found = model.predict_chunks(X, scheme=scheme)
    check_consistent_length(found, y)
    model._read_truth(X, y)  # refuses samples with more or fewer labels than nodes
    for own, labels in zip(found, y, strict=True):
        if is_partial(labels):
            continue
        truth = {*chunks(labels, scheme)}
        right += [chunk[:3] in truth for chunk in own]
        given += [chunk[3] for chunk in own]
    return np.array(right, dtype=bool), np.array(given, dtype=np.float64)


# The metrics.


def _read(correct, confidence):
    """Booleans and numbers from 0 to 1, at least one."""
    correct, confidence = np.asarray(correct), np.asarray(confidence, dtype=np.float64)
    if correct.ndim != 1 or confidence.ndim != 1:
        raise ValueError(
            f"correct and confidence must be 1-D, got shapes {correct.shape}, {confidence.shape}"
        )
    check_consistent_length(correct, confidence)
    if correct.size == 0:
        raise ValueError("correct is empty")
    if correct.dtype.kind not in "biuf" or not np.isin(correct, (0, 1)).all():
        raise ValueError("correct must hold booleans, or zeros and ones")
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise ValueError("confidence must hold probabilities from 0 to 1")
    return correct.astype(bool), confidence


def _count(share, n, name):
    """How many of `n` a fraction is, at least one."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0.0 < share <= 1.0:
        raise ValueError(f"{name} must be above 0 and at most 1, got {share!r}")
    return max(round(share * n), 1)


def expected_calibration_error(
    correct: ArrayLike, confidence: ArrayLike, *, n_bins: int = 10
) -> float:
    """Mean distance between confidence and accuracy, over bins of equal width.

    Read more in the :ref:`User Guide <calibration>`.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction is right, and its probability.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    float
        From 0 (calibrated) to 1.

    Raises
    ------
    ValueError
        If there are no predictions, or a confidence is not from 0 to 1.

    See Also
    --------
    skstruct.metrics.confidences : Its arguments, for the predictions of a model.
    skstruct.TemperatureScaling : Makes it smaller.

    Notes
    -----
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger: On calibration of modern neural networks, ICML
    2017, equation 3.

    Examples
    --------
    >>> from skstruct.metrics import expected_calibration_error
    >>> round(expected_calibration_error([True, False], [0.9, 0.9]), 2)
    0.4
    """
    correct, confidence = _read(correct, confidence)
    n_bins = check_integer("n_bins", n_bins)
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    return float(np.abs(np.bincount(bins, correct - confidence)).sum() / correct.size)


def precision_at_coverage(correct: ArrayLike, confidence: ArrayLike, coverage: float) -> float:
    """Accuracy of the most confident predictions.

    Read more in the :ref:`User Guide <decisions_guide>`.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction is right, and its probability.
    coverage : float
        Fraction of predictions to keep, above 0 and at most 1; at least one is kept.

    Returns
    -------
    float
        From 0 to 1. Ties of confidence are kept in order.

    Raises
    ------
    ValueError
        If `coverage` is out of range, or a confidence is not from 0 to 1.

    See Also
    --------
    skstruct.metrics.error_recall_at_review : Errors among the least confident.
    skstruct.SAGCRF.predict_chunks : Predictions with confidences.

    Examples
    --------
    >>> from skstruct.metrics import precision_at_coverage
    >>> precision_at_coverage([True, True, False, True], [0.9, 0.8, 0.4, 0.3], 0.5)
    1.0
    """
    correct, confidence = _read(correct, confidence)
    kept = np.argsort(-confidence, kind="stable")[: _count(coverage, correct.size, "coverage")]
    return float(correct[kept].mean())


def error_recall_at_review(correct: ArrayLike, confidence: ArrayLike, review: float) -> float:
    """Fraction of all errors found by reviewing the least confident predictions.

    Read more in the :ref:`User Guide <decisions_guide>`.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction is right, and its probability.
    review : float
        Fraction of predictions to review, above 0 and at most 1; at least one.

    Returns
    -------
    float
        From 0 to 1; 1 if there are no errors. Ties of confidence are reviewed in order.

    Raises
    ------
    ValueError
        If `review` is out of range, or a confidence is not from 0 to 1.

    See Also
    --------
    skstruct.metrics.precision_at_coverage : Accuracy of the most confident.

    Examples
    --------
    >>> from skstruct.metrics import error_recall_at_review
    >>> error_recall_at_review([True, True, False, False], [0.9, 0.8, 0.4, 0.85], 0.25)
    0.5
    """
    correct, confidence = _read(correct, confidence)
    seen = np.argsort(confidence, kind="stable")[: _count(review, correct.size, "review")]
    n_errors = np.count_nonzero(~correct)
    return float(np.count_nonzero(~correct[seen]) / n_errors) if n_errors else 1.0

"""Metrics of nodes and of whole sequences: scikit-learn's, for ragged y."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import classification_report

from ..core.typing import SamplesLike
from .validation import check_average, flat_pair, one_score, read_pair


def node_accuracy_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Accuracy: the fraction of nodes that are labelled correctly.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.

    Returns
    -------
    float
        The fraction.

    Raises
    ------
    ValueError
        If there are no labels, or lengths differ (names the sample).

    See Also
    --------
    skstruct.metrics.sequence_accuracy_score : Exact match: fraction of samples without an error.
    skstruct.metrics.node_classification_report : Scores of labels, as text.

    Examples
    --------
    >>> from skstruct.metrics import node_accuracy_score
    >>> node_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    true, predicted, weights = flat_pair(y_true, y_pred, sample_weight)
    return float(np.average(true == predicted, weights=weights))


def sequence_accuracy_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Exact match (subset accuracy): fraction of samples whose labels are all correct.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        several do not count, nor do samples that have no others.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    float
        The fraction. A sample without nodes is right.

    Raises
    ------
    ValueError
        If there are no labels, or lengths differ (names the sample).

    See Also
    --------
    skstruct.metrics.node_accuracy_score : Fraction of correct nodes.

    Examples
    --------
    >>> from skstruct.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    true, predicted, weights, known = read_pair(y_true, y_pred, sample_weight, images=True)
    same = [a == b for a, b in zip(true, predicted, strict=True)]
    if known is not None:
        same = [flags[counted] for flags, counted in zip(same, known, strict=True)]
    right = [bool(flags.all()) for flags in same]
    return float(np.average(right, weights=weights))


def _score(measure, y_true, y_pred, labels, average, sample_weight, zero_division, beta=1.0):
    check_average(average)
    true, predicted, weights = flat_pair(y_true, y_pred, sample_weight)
    options = {"labels": labels, "average": average, "sample_weight": weights}
    return one_score(measure, true, predicted, beta=beta, zero_division=zero_division, **options)


def node_precision_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "weighted",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """Precision over nodes: scikit-learn's ``precision_score`` on the concatenated labels.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    labels : list, default=None
        Labels to include.
    average : {"micro", "macro", "weighted", None}, default="weighted"
        Average over labels (also for two labels).
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of undefined scores; "warn" is 0 with a warning.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        The score.

    See Also
    --------
    skstruct.metrics.node_recall_score : Recall of labels of nodes.
    skstruct.metrics.node_f1_score : F1 of labels of nodes.

    Examples
    --------
    >>> from skstruct.metrics import node_precision_score
    >>> node_precision_score([["a", "b"], ["a"]], [["a", "a"], ["a"]], labels=["a"])
    0.6666666666666666
    """
    return _score("precision", y_true, y_pred, labels, average, sample_weight, zero_division)


def node_recall_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "weighted",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """Recall over nodes: scikit-learn's ``recall_score`` on the concatenated labels.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    labels : list, default=None
        Labels to include.
    average : {"micro", "macro", "weighted", None}, default="weighted"
        Average over labels (also for two labels).
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        The score of a label that is not in `y_true`; "warn" is 0 with a warning.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        The score.

    See Also
    --------
    skstruct.metrics.node_precision_score : Precision of labels of nodes.
    skstruct.metrics.node_f1_score : F1 of labels of nodes.

    Examples
    --------
    >>> from skstruct.metrics import node_recall_score
    >>> node_recall_score([["a", "b"], ["a"]], [["a", "a"], ["a"]], average="macro")
    0.5
    """
    return _score("recall", y_true, y_pred, labels, average, sample_weight, zero_division)


def node_fbeta_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    beta: float,
    labels: ArrayLike | None = None,
    average: str | None = "weighted",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """F-beta over nodes: scikit-learn's ``fbeta_score`` on the concatenated labels.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    beta : float
        Weight of recall against precision.
    labels : list, default=None
        Labels to include.
    average : {"micro", "macro", "weighted", None}, default="weighted"
        Average over labels (also for two labels).
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of undefined scores; "warn" is 0 with a warning.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        The score.

    See Also
    --------
    skstruct.metrics.node_f1_score : F1 of labels of nodes.
    skstruct.metrics.node_precision_score : Precision of labels of nodes.

    Examples
    --------
    >>> from skstruct.metrics import node_fbeta_score
    >>> node_fbeta_score([["a", "b"]], [["a", "b"]], beta=0.5)
    1.0
    """
    return _score("f-score", y_true, y_pred, labels, average, sample_weight, zero_division, beta)


def node_f1_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "weighted",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """F1 over nodes: scikit-learn's ``f1_score`` on the concatenated labels.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    labels : list, default=None
        Labels to include.
    average : {"micro", "macro", "weighted", None}, default="weighted"
        Average over labels (also for two labels).
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of undefined scores; "warn" is 0 with a warning.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        The score.

    See Also
    --------
    skstruct.metrics.node_fbeta_score : F-beta of labels of nodes.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Examples
    --------
    >>> from skstruct.metrics import node_f1_score
    >>> round(node_f1_score([["a", "b"], ["a"]], [["a", "a"], ["a"]]), 3)
    0.533
    """
    return _score("f-score", y_true, y_pred, labels, average, sample_weight, zero_division)


def node_classification_report(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float | str = "warn",
) -> str | dict:
    """Precision, recall, F1 and number of nodes of each label, and their averages.

    scikit-learn's ``classification_report`` on the concatenated labels. Read more in the :ref:`User
    Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels do not count.
    labels : list, default=None
        Labels to show, in order.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.
    digits : int, default=2
        Decimals in the text.
    output_dict : bool, default=False
        Whether to return a dict of dicts instead of text.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of undefined scores; "warn" is 0 with a warning.

    Returns
    -------
    str or dict
        The report.

    See Also
    --------
    skstruct.metrics.node_f1_score : F1 of labels of nodes.
    skstruct.metrics.chunk_classification_report : Scores of chunks by type, as text.

    Examples
    --------
    >>> from skstruct.metrics import node_classification_report
    >>> report = node_classification_report([["a", "b"]], [["a", "b"]], output_dict=True)
    >>> report["a"]["f1-score"], report["accuracy"]
    (1.0, 1.0)
    """
    true, predicted, weights = flat_pair(y_true, y_pred, sample_weight)
    return classification_report(
        true,
        predicted,
        labels=labels,
        sample_weight=weights,
        digits=digits,
        output_dict=output_dict,
        zero_division=zero_division,
    )

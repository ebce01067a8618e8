"""Nodes of all samples in flat arrays, for scikit-learn's metrics; whole sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.typing import SamplesLike
from .validation import read_pair


def flatten(
    y_true: SamplesLike, y_pred: SamplesLike, *, sample_weight: ArrayLike | None = None
) -> tuple[np.ndarray, ...]:
    """Labels of the nodes of all samples in one array each, for the metrics of scikit-learn.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of label images
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels are left out of both.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.

    Returns
    -------
    y_true, y_pred : ndarray of shape (n_nodes,)
        The labels, of one type in both.
    sample_weight : ndarray of shape (n_nodes,)
        Weights of the nodes; only if there is `sample_weight`.

    Raises
    ------
    ValueError, TypeError
        If there are no labels, lengths differ, or labels do not fit together (names the sample).

    See Also
    --------
    skstruct.metrics.sequence_accuracy_score : Exact match: fraction of samples without an error.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Examples
    --------
    >>> from sklearn.metrics import accuracy_score, f1_score
    >>> from skstruct.metrics import flatten
    >>> y, predicted = [["a", "b"], ["a"]], [["a", "a"], ["a"]]
    >>> round(accuracy_score(*flatten(y, predicted)), 3)
    0.667
    >>> round(f1_score(*flatten(y, predicted), average="macro"), 3)
    0.4
    """
    true, predicted, weights, known = read_pair(y_true, y_pred, sample_weight, images=True)
    counted = slice(None) if known is None else np.concatenate(known)
    flat = np.concatenate(true)[counted], np.concatenate(predicted)[counted]
    if sample_weight is None:
        return flat
    return *flat, np.repeat(weights, [len(a) for a in true])[counted]


def score_of_nodes(y_true, y_pred, *, score, sample_weight=None, **options):
    """A metric of scikit-learn over all nodes, for scorers."""
    true, predicted, *weights = flatten(y_true, y_pred, sample_weight=sample_weight)
    weight = weights[0] if weights else None
    return float(score(true, predicted, sample_weight=weight, **options))


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
    skstruct.metrics.flatten : Labels of nodes, for metrics of single labels.

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

"""Read y of every form that estimators take; every message names the sample."""

from __future__ import annotations

import numpy as np

from ..data.labels import read_label_lists
from ..data.packing import read_sample_weight
from ..data.values import join_values


def read_pair(y_true, y_pred, sample_weight=None):
    """Truth and predictions as lists of 1-D arrays of equal lengths.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample; default 1.

    Returns
    -------
    true, predicted : list of ndarray of shape (n_nodes,)
        One array a sample.
    weights : ndarray of shape (n_samples,)
        The weights.

    Raises
    ------
    ValueError, TypeError
        If there are no labels at all, lengths differ, labels are missing, of mixed or of unsuitable
        types, or weights have another shape, are negative, all zero or too large.
    """
    true, predicted = read_label_lists(y_true, "y_true"), read_label_lists(y_pred, "y_pred")
    n = len(true)
    if n != len(predicted):
        raise ValueError(f"y_true has {n} samples, y_pred has {len(predicted)}")
    for i, (a, b) in enumerate(zip(true, predicted, strict=True)):
        if len(a) != len(b):
            raise ValueError(f"sample {i}: y_true has {len(a)} labels, y_pred has {len(b)}")
    if not any(len(a) for a in true):
        raise ValueError("y_true and y_pred are empty: at least one label is needed")
    # One type for all, so that labels which differ in any two places stay different.
    flat = join_values(
        [*true, *predicted],
        "y",
        lambda i: f"sample {i % n} of {'y_true' if i < n else 'y_pred'}",
    )
    lengths = np.array([len(a) for a in true])
    rows = np.split(flat, np.cumsum(np.tile(lengths, 2))[:-1])
    weights = read_sample_weight(sample_weight, n)
    if not weights[lengths > 0].any():
        raise ValueError("sample_weight must be above 0 for some label")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights @ np.maximum(lengths, 1)):
            raise ValueError("sample_weight is too large: the sum of the weights overflows")
    return rows[:n], rows[n:], weights


def flat_pair(y_true, y_pred, sample_weight=None):
    """Labels of all nodes in one array, as scikit-learn's metrics take them.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample; default 1.

    Returns
    -------
    true, predicted : ndarray of shape (n_nodes,)
        The labels.
    weights : ndarray of shape (n_nodes,), or None
        Weights of the nodes.

    Raises
    ------
    ValueError
        As :func:`read_pair`.
    """
    true, predicted, weights = read_pair(y_true, y_pred, sample_weight)
    lengths = [len(a) for a in true]
    return (
        np.concatenate(true),
        np.concatenate(predicted),
        None if sample_weight is None else np.repeat(weights, lengths),
    )

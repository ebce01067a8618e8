"""Read y of every form that estimators take; every message names the sample."""

from __future__ import annotations

import numpy as np

from ..packing import read_sample_weight
from ..ragged import RaggedArray


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
    ValueError
        If there are no labels at all, lengths differ, strings meet numbers, or weights have another
        shape, are negative or all zero.
    """
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} samples, y_pred has {len(y_pred)}")
    true, predicted = (
        list(y) if isinstance(y, RaggedArray) else [np.asarray(row) for row in y]
        for y in (y_true, y_pred)
    )
    for i, (a, b) in enumerate(zip(true, predicted, strict=True)):
        if a.ndim != 1 or b.ndim != 1:
            raise ValueError(
                f"sample {i} must be a 1-D sequence of labels; for one sequence pass [y]"
            )
        if len(a) != len(b):
            raise ValueError(f"sample {i}: y_true has {len(a)} labels, y_pred has {len(b)}")
        kinds = {"s" if row.dtype.kind in "US" else row.dtype.kind for row in (a, b) if len(row)}
        if "s" in kinds and kinds - {"s", "O"}:
            raise ValueError(
                f"sample {i}: labels of y_true are of type {a.dtype}, of y_pred {b.dtype}"
            )
    if not any(len(a) for a in true):
        raise ValueError("y_true and y_pred are empty: at least one label is needed")
    weights = read_sample_weight(sample_weight, len(true))
    if not weights[[len(a) > 0 for a in true]].any():
        raise ValueError("sample_weight must be above 0 for some label")
    return true, predicted, weights


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
    # Empty lists are of type float, which would change the type of the labels.
    flat = (np.concatenate([a for a in rows if len(a)]) for rows in (true, predicted))
    return *flat, None if sample_weight is None else np.repeat(weights, lengths)

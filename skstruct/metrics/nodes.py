"""Reading y of every form; nodes in flat arrays, for scikit-learn's metrics; whole sequences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..core.typing import SamplesLike
from ..data.labels import read_label_lists, rows_of_image, warn_of_mark
from ..data.packing import has_types, read_sample_weight, refuse_types
from ..data.partial import split_partial
from ..data.segments import has_segments
from ..data.values import join_values


def read_pair(y_true, y_pred, sample_weight=None, images=False):
    """Truth and predictions as lists of 1-D arrays of equal lengths."""
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        refuse_types(y, name)
        if images and has_segments(y) and any(isinstance(one[2], str) for own in y for one in own):
            raise TypeError(f"{name} has segments, not labels of nodes: use chunk_f1_score")
    y_true, partial = split_partial(y_true, False, "y_true")
    if images:
        y_true, y_pred = rows_of_images(y_true, y_pred)
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
    warn_of_mark(flat[: lengths.sum()], "y_true")
    rows = np.split(flat, np.cumsum(np.tile(lengths, 2))[:-1])
    weights = read_sample_weight(sample_weight, n)
    known = None
    if partial is not None:
        known = np.split(~partial.hidden, np.cumsum(lengths)[:-1])
        weights = np.where([a.any() or not a.size for a in known], weights, 0.0)
    if not weights[lengths > 0].any():
        raise ValueError("sample_weight must be above 0 for some label")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights @ np.maximum(lengths, 1)):
            raise ValueError("sample_weight is too large: the sum of the weights overflows")
    return rows[:n], rows[n:], weights, known


def _shapes_by_type(labels):
    """The shapes of the labels of each type, if there are types."""
    if not isinstance(labels, Mapping):
        return {type(labels).__name__: ()}
    return {name: np.shape(own) for name, own in labels.items()}


def _join_types(y_true, y_pred):
    """Labels by type of nodes as strings "type/label", one list per sample; others as they are."""
    if not (has_types(y_true) or has_types(y_pred)):
        return y_true, y_pred
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} samples, y_pred has {len(y_pred)}")
    texts, joined = {}, []
    for i, both in enumerate(zip(y_true, y_pred, strict=True)):
        true, predicted = map(_shapes_by_type, both)
        if true != predicted or {len(shape) for shape in true.values()} - {1}:
            raise ValueError(
                f"sample {i}: the labels of each type of node must be equally many, got "
                f"{true} in y_true and {predicted} in y_pred"
            )
        joined.append([])
        for own in both:
            pairs = [(name, label) for name in both[0] for label in own[name]]
            # Equal numbers such as 1 and 1.0 have one text; missing labels stay missing.
            joined[i].append([
                label if label is None or label != label
                else texts.setdefault((name, label), f"{name}/{label}")
                for name, label in pairs
            ])  # fmt: skip
    return tuple(map(list, zip(*joined, strict=True)))


def _is_image(labels):
    """Return whether the labels of a sample are an array (height, width), or lists of its rows."""
    if isinstance(labels, (list, tuple)):
        return bool(labels) and isinstance(labels[0], (list, tuple, np.ndarray))
    return getattr(labels, "ndim", 0) == 2


def rows_of_images(y_true, y_pred):
    """Labels of images row by row, so that they are sequences of nodes; others stay as they are."""
    many = list, tuple, np.ndarray
    if not all(isinstance(y, many) and len(y) for y in (y_true, y_pred)):
        return y_true, y_pred
    if not (_is_image(y_true[0]) or _is_image(y_pred[0])) or len(y_true) != len(y_pred):
        return y_true, y_pred
    pairs = []
    for i, (a, b) in enumerate(zip(y_true, y_pred, strict=True)):
        a, shape = rows_of_image(a, f"y_true: sample {i}")
        b, other = rows_of_image(b, f"y_pred: sample {i}")
        if shape != other:
            raise ValueError(f"sample {i}: y_true has the shape {shape}, y_pred {other}")
        pairs.append((a, b))
    return tuple(map(list, zip(*pairs, strict=True)))


def flatten(
    y_true: SamplesLike, y_pred: SamplesLike, *, sample_weight: ArrayLike | None = None
) -> tuple[np.ndarray, ...]:
    """Labels of the nodes of all samples in one array each, for the metrics of scikit-learn.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, of label images, or of dicts
        Truth and predictions. Nodes without a true label (None, NaN, masked) or with a set of
        labels are left out of both. Dicts have the labels of each type of node (`node_types`):
        these become strings "type/label", in the order of the types of the truth.
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
    pair = _join_types(y_true, y_pred)
    true, predicted, weights, known = read_pair(*pair, sample_weight, images=True)
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
    y_true, y_pred : sequences of label sequences, of label images, or of dicts
        Truth and predictions, as for :func:`flatten`. Nodes without a true label or with a set of
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
    right, counted, weights = right_nodes(y_true, y_pred, sample_weight)
    return float(np.average(right == counted, weights=weights))


def right_nodes(y_true, y_pred, sample_weight=None):
    """How many nodes of each sample are right and how many count, and its weight."""
    pair = _join_types(y_true, y_pred)
    true, predicted, weights, known = read_pair(*pair, sample_weight, images=True)
    same = [a == b for a, b in zip(true, predicted, strict=True)]
    if known is not None:
        same = [flags[counted] for flags, counted in zip(same, known, strict=True)]
    return np.array([flags.sum() for flags in same]), np.array([len(a) for a in same]), weights

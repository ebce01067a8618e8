"""Scores that are ratios of sums over samples, and their terms."""

from __future__ import annotations

from itertools import chain

import numpy as np

from ..data.constraints import without_prefix
from ..data.matrices import as_array
from .chunks import read_chunk_pairs
from .nodes import right_nodes

#: Names of such scores in ``SCORERS``.
RATIOS = ("node_accuracy", "sequence_accuracy", "chunk_precision", "chunk_recall", "chunk_f1")


def ratio_terms(name: str, y_true, y_pred) -> np.ndarray:
    """Return numerators and denominators, (2, n_samples): the score is the ratio of their sums."""
    if name.startswith("chunk_"):
        pairs = read_chunk_pairs(y_true, y_pred, None)
        both, true, predicted = np.array([[len(a & b), len(a), len(b)] for a, b, _ in pairs]).T
        denominators = {"chunk_precision": predicted, "chunk_recall": true}
        if name in denominators:
            return np.array([both, denominators[name]], dtype=float)
        return np.array([2 * both, true + predicted], dtype=float)
    right, counted, weights = right_nodes(_sequences(y_true), _sequences(y_pred))
    if name == "sequence_accuracy":
        right, counted = (right == counted) * weights, weights
    return np.array([right, counted], dtype=float)


def ratio_of_sums(terms: np.ndarray) -> float:
    """Return the score of all samples; 0 where nothing counts, as in the metrics."""
    numerator, denominator = terms.sum(axis=1)
    return float(numerator / denominator) if denominator else 0.0


def _is_sequence(labels):
    return hasattr(labels, "__len__") and not isinstance(labels, (str, bytes, set, frozenset))


def _sequences(y):
    """Label sequences; those of a table have one label each."""
    y = as_array(y)
    is_table = getattr(y, "ndim", 1) == 1 and len(y) and not _is_sequence(next(iter(y)))
    return [[label] for label in y] if is_table else y


def has_chunk_tags(y) -> bool:
    """Return whether labels are tags of chunks, such as B-NP and O, with a prefix somewhere."""
    y = as_array(y)
    if not (hasattr(y, "__len__") and len(y) and all(map(_is_sequence, y))):
        return False
    seen = set()
    for label in chain.from_iterable(y):
        if isinstance(label, str):
            seen.add(label)
        elif _is_sequence(label) or not (
            label is None or label != label or isinstance(label, (set, frozenset))
        ):  # not a row of an image either
            return False
    return any(label[1:2] == "-" for label in seen) and without_prefix(seen) is None

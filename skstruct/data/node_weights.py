"""Read weights of nodes and of classes; every message names the sample or the class."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number

import numpy as np

from .matrices import as_array, numeric, refuse_masked
from .packing import as_list, sample_of
from .ragged import RaggedArray, rows_of

_NAME = "node_weight"


def read_sequence_weights(node_weight, offsets: np.ndarray) -> np.ndarray:
    """Pack the weights of the nodes of sequences, or of any samples of several nodes."""
    refuse_masked(node_weight, _NAME)
    node_weight, expected = as_array(node_weight), np.diff(offsets)
    if isinstance(node_weight, RaggedArray):
        flat, lengths = numeric(rows_of(node_weight), f"{_NAME}.flat"), node_weight.lengths
        if flat.ndim != 1:
            raise ValueError(f"{_NAME}.flat must be 1-D, one number a node, got {flat.ndim}-D")
    elif is_flat(node_weight):
        flat, lengths = numeric(node_weight, _NAME), expected
        if flat.shape != (offsets[-1],):
            raise ValueError(
                f"{_NAME} has {flat.size} numbers, but X has {offsets[-1]} nodes in "
                f"{offsets.size - 1} samples; folds of cross-validation need one array a sample"
            )
    else:
        items = as_list(node_weight, _NAME)
        items = [numeric(item, f"{_NAME}: sample {i}") for i, item in enumerate(items)]
        for i, item in enumerate(items):
            if item.ndim != 1:
                raise ValueError(
                    f"{_NAME}: sample {i} must be 1-D, one number a node, got shape {item.shape}"
                )
        flat, lengths = np.concatenate(items), np.array([item.size for item in items])
    if lengths.size != expected.size:
        raise ValueError(f"X has {expected.size} samples, but {_NAME} has {lengths.size}")
    wrong = np.flatnonzero(lengths != expected)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"{_NAME}: sample {i} has {lengths[i]} numbers, but X has {expected[i]} nodes there"
        )

    def where(row):
        i = sample_of(row, offsets)
        return f"sample {i}, node {row - offsets[i]}"

    return _checked(flat, where)


def is_flat(values) -> bool:
    """Return whether these are numbers, rather than arrays of numbers."""
    if getattr(getattr(values, "dtype", None), "kind", "O") in "buif":
        return values.ndim == 1
    return isinstance(values, (list, tuple)) and bool(values) and isinstance(values[0], Number)


def _checked(values, where):
    """Return a copy of weights, all finite and not negative; `where` names a wrong one."""
    flat = np.array(values, dtype=np.float64).ravel()
    wrong = np.flatnonzero(~(flat >= 0) | np.isinf(flat))
    if wrong.size:
        raise ValueError(
            f"{_NAME}: {where(int(wrong[0]))} is {flat[wrong[0]]}, expected a finite number of at "
            "least 0"
        )
    return flat


def read_table_weights(node_weight, shape: tuple[int, ...]) -> np.ndarray:
    """Weights of the nodes of a table."""
    refuse_masked(node_weight, _NAME)
    array = np.asarray(numeric(as_array(node_weight), _NAME))
    if array.shape != shape:
        raise ValueError(f"{_NAME} must be of shape {shape}, got {array.shape}")
    if len(shape) == 1:
        return _checked(array, "sample {}".format)
    return _checked(array, lambda at: "sample {}, label {}".format(*divmod(at, shape[1])))


def given_weights(class_weight: Mapping, classes: list) -> np.ndarray:
    """Weights of classes from a mapping; 1 where none is given."""
    known = set(classes)
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight has a weight for the unknown class {label!r}; the classes are "
                f"{classes[:30]}"
            )
        fine = isinstance(weight, Number) and not isinstance(weight, complex)
        if not fine or not 0 <= weight < np.inf:
            raise ValueError(
                f"class_weight of {label!r} is {weight!r}, expected a finite number of at least 0"
            )
    return np.array([float(class_weight.get(label, 1.0)) for label in classes])


def balanced_weights(codes: np.ndarray, counts: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Balanced class weights, as of scikit-learn's ``compute_class_weight``."""
    n_kinds, n_classes = shape
    at = np.arange(codes.size) % n_kinds * n_classes + codes
    totals = np.bincount(at, counts, minlength=n_kinds * n_classes).reshape(shape)
    occurs = totals > 0
    with np.errstate(divide="ignore"):
        even = totals.sum(axis=1, keepdims=True) / occurs.sum(axis=1, keepdims=True)
        return np.where(occurs, even / totals, 1.0)

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
    """Pack the weights of the nodes of sequences, or of any samples of several nodes.

    Parameters
    ----------
    node_weight : list, object array, 2-D array, RaggedArray or array of shape (n_nodes,)
        One array a sample, or the weights of all nodes one after the other.
    offsets : ndarray of shape (n_samples + 1,)
        Where each sample begins.

    Returns
    -------
    ndarray of shape (n_nodes,)
        The weights.

    Raises
    ------
    ValueError, TypeError
        If there are more or fewer, or one is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.data.node_weights import read_sequence_weights
    >>> read_sequence_weights([[1, 2], [0.5]], np.array([0, 2, 3]))
    array([1. , 2. , 0.5])
    """
    refuse_masked(node_weight, _NAME)
    node_weight = as_array(node_weight)
    if isinstance(node_weight, RaggedArray):
        flat, lengths = numeric(rows_of(node_weight), f"{_NAME}.flat"), node_weight.lengths
        if flat.ndim != 1:
            raise ValueError(f"{_NAME}.flat must be 1-D, one number a node, got {flat.ndim}-D")
        _check_lengths(lengths, offsets)
    elif is_flat(node_weight):
        flat = numeric(node_weight, _NAME)
        if flat.shape != (offsets[-1],):
            raise ValueError(
                f"{_NAME} has {flat.size} numbers, but X has {offsets[-1]} nodes in "
                f"{offsets.size - 1} samples; folds of cross-validation need one array a sample"
            )
    else:
        items = [
            numeric(item, f"{_NAME}: sample {i}")
            for i, item in enumerate(as_list(node_weight, _NAME))
        ]
        for i, item in enumerate(items):
            if item.ndim != 1:
                raise ValueError(
                    f"{_NAME}: sample {i} must be 1-D, one number a node, got shape {item.shape}"
                )
        _check_lengths(np.array([item.size for item in items]), offsets)
        flat = np.concatenate(items)
    flat = np.array(flat, dtype=np.float64)
    wrong = _first_wrong(flat)
    if wrong >= 0:
        i = sample_of(wrong, offsets)
        raise ValueError(
            f"{_NAME}: sample {i}, node {wrong - offsets[i]} is {flat[wrong]}, expected a finite "
            "number of at least 0"
        )
    return flat


def is_flat(values) -> bool:
    """Whether these are numbers, rather than arrays of numbers.

    Parameters
    ----------
    values : object
        What the user gave.

    Returns
    -------
    bool
        True for one-dimensional arrays of numbers and for lists of them.

    Examples
    --------
    >>> from skstruct.data.node_weights import is_flat
    >>> is_flat([1.0, 2.0]), is_flat([[1.0], [2.0]])
    (True, False)
    """
    if getattr(getattr(values, "dtype", None), "kind", "O") in "buif":
        return values.ndim == 1
    return isinstance(values, (list, tuple)) and bool(values) and isinstance(values[0], Number)


def _check_lengths(lengths, offsets):
    expected = np.diff(offsets)
    if lengths.size != expected.size:
        raise ValueError(f"X has {expected.size} samples, but {_NAME} has {lengths.size}")
    wrong = np.flatnonzero(lengths != expected)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"{_NAME}: sample {i} has {lengths[i]} numbers, but X has {expected[i]} nodes there"
        )


def _first_wrong(flat):
    """Position of the first that is negative or not finite, or -1."""
    wrong = np.flatnonzero(~(flat >= 0) | np.isinf(flat))
    return int(wrong[0]) if wrong.size else -1


def read_table_weights(node_weight, shape: tuple[int, ...]) -> np.ndarray:
    """Weights of the nodes of a table.

    Parameters
    ----------
    node_weight : array-like
        One number a sample, or for label sets one a sample and label.
    shape : tuple of int
        The shape that they must have.

    Returns
    -------
    ndarray of shape (n_nodes,)
        The weights.

    Raises
    ------
    ValueError
        If the shape is another one, or a weight is negative or not finite.

    Examples
    --------
    >>> from skstruct.data.node_weights import read_table_weights
    >>> read_table_weights([[1, 0]], (1, 2))
    array([1., 0.])
    """
    refuse_masked(node_weight, _NAME)
    array = np.asarray(numeric(as_array(node_weight), _NAME))
    if array.shape != shape:
        raise ValueError(f"{_NAME} must be of shape {shape}, got {array.shape}")
    flat = np.array(array, dtype=np.float64).ravel()
    wrong = _first_wrong(flat)
    if wrong >= 0:
        i, label = divmod(wrong, shape[1] if len(shape) > 1 else 1)
        where = f"sample {i}, label {label}" if len(shape) > 1 else f"sample {i}"
        raise ValueError(
            f"{_NAME}: {where} is {flat[wrong]}, expected a finite number of at least 0"
        )
    return flat


def given_weights(class_weight: Mapping, classes: list) -> np.ndarray:
    """Weights of classes from a mapping; 1 where none is given.

    Parameters
    ----------
    class_weight : mapping
        From class to weight.
    classes : list
        The classes.

    Returns
    -------
    ndarray of shape (n_classes,)
        The weights, in the order of the classes.

    Raises
    ------
    ValueError
        If a class is unknown, or its weight is negative or not finite.

    Examples
    --------
    >>> from skstruct.data.node_weights import given_weights
    >>> given_weights({"b": 3}, ["a", "b"])
    array([1., 3.])
    """
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
    """Weights under which all classes count alike, as of scikit-learn's ``compute_class_weight``.

    Parameters
    ----------
    codes : ndarray of shape (n_nodes,) of int
        The classes of the nodes, as numbers.
    counts : ndarray of shape (n_nodes,)
        How often each node counts.
    shape : tuple of two ints
        Kinds of nodes, which follow each other in turn, and classes.

    Returns
    -------
    ndarray of shape `shape`
        For each kind ``n / (n_classes n_c)``, over the classes that occur; 1 for others.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.data.node_weights import balanced_weights
    >>> balanced_weights(np.array([0, 0, 0, 1]), np.ones(4), (1, 2)).round(2)
    array([[0.67, 2.  ]])
    """
    n_kinds, n_classes = shape
    at = np.arange(codes.size) % n_kinds * n_classes + codes
    totals = np.bincount(at, counts, minlength=n_kinds * n_classes).reshape(shape)
    occurs = totals > 0
    with np.errstate(divide="ignore"):
        even = totals.sum(axis=1, keepdims=True) / occurs.sum(axis=1, keepdims=True)
        return np.where(occurs, even / totals, 1.0)

"""Read users' labels; every message names the sample."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .packing import sample_of
from .ragged import RaggedArray


def read_sequence_labels(y, offsets: np.ndarray, name: str = "y") -> np.ndarray:
    """Pack label sequences that belong to sequences with these `offsets`.

    Parameters
    ----------
    y : list, tuple, Series, object array, 2-D array or RaggedArray
        One sequence of labels a sample.
    offsets : ndarray of shape (n_samples + 1,)
        Of X.
    name : str
        The argument, for messages.

    Returns
    -------
    ndarray of shape (n_nodes,)
        The labels.

    Raises
    ------
    ValueError, TypeError
        If the numbers of samples or of nodes differ, or labels are of mixed or unsuitable types.
    """
    n = offsets.size - 1
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    if not hasattr(y, "__len__"):
        raise TypeError(f"{name} must be a list of label sequences; pass list({name})")
    if len(y) != n:
        raise ValueError(f"X has {n} samples, but {name} has {len(y)}")
    if isinstance(y, RaggedArray):
        flat, lengths = np.asarray(y.flat), y.lengths
    else:
        items = [np.asarray(item) for item in y]
        for i, item in enumerate(items):
            if item.ndim != 1:
                raise ValueError(f"{name}: sample {i} must be a 1-D sequence of labels")
        kinds = {"s" if item.dtype.kind in "US" else item.dtype.kind for item in items if item.size}
        if "s" in kinds and kinds - {"s", "O"}:
            raise TypeError(f"{name} mixes strings with labels of other types")
        flat = np.concatenate([item for item in items if item.size] or items[:1])
        lengths = np.array([item.size for item in items])
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"sample {i}: X has {offsets[i + 1] - offsets[i]} nodes, but {name} has {lengths[i]} "
            "labels"
        )
    if flat.ndim != 1:
        raise ValueError(f"{name}: labels must be 1-D")
    if flat.dtype.kind == "O" and any(label is None for label in flat):
        raise ValueError(f"{name} contains None")
    if flat.dtype.kind == "f" and not (np.isfinite(flat).all() and (flat == np.floor(flat)).all()):
        raise ValueError(f"Unknown label type: {name} is continuous or contains NaN")
    return flat


def is_indicator(y) -> bool:
    """Whether `y` looks like a table of labels that are on or off.

    Parameters
    ----------
    y : object
        What the user gave.

    Returns
    -------
    bool
        True for sparse matrices and two-dimensional arrays of several columns.

    Examples
    --------
    >>> from skstruct.labels import is_indicator
    >>> is_indicator([[0, 1], [1, 1]]), is_indicator([0, 1])
    (True, False)
    """
    if sparse.issparse(y):
        return y.shape[1] > 1
    if not hasattr(y, "__len__") or isinstance(y, (str, RaggedArray)):
        return False
    try:
        shape = np.shape(y)
    except ValueError:
        return False
    return len(shape) == 2 and shape[1] > 1


def read_indicator(y, n_samples: int | None, name: str = "y") -> np.ndarray:
    """A table of labels, 1 where a label is on.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n_samples, n_labels)
        Zeros and ones.
    n_samples : int or None
        How many rows there must be.
    name : str
        The argument, for messages.

    Returns
    -------
    ndarray of shape (n_samples, n_labels) of int32
        The labels.

    Raises
    ------
    ValueError
        If the shape is wrong or an entry is neither 0 nor 1.

    Examples
    --------
    >>> from skstruct.labels import read_indicator
    >>> read_indicator([[0, 1]], 1)
    array([[0, 1]], dtype=int32)
    """
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    table = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if table.ndim != 2:
        raise ValueError(
            f"{name} must be an indicator table of shape (n_samples, n_labels), got shape "
            f"{table.shape}"
        )
    if table.shape[1] < 2:
        raise ValueError(
            f"{name} has {table.shape[1]} label columns, but MultiLabel needs at least two"
        )
    if n_samples is not None and table.shape[0] != n_samples:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: X has "
            f"{n_samples}, {name} {table.shape[0]}"
        )
    if table.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold zeros and ones, got dtype {table.dtype}")
    wrong = np.argwhere((table != 0) & (table != 1))
    if wrong.size:
        i, label = wrong[0]
        raise ValueError(f"{name}: sample {i}, label {label} is {table[i, label]}, expected 0 or 1")
    return np.ascontiguousarray(table, dtype=np.int32)


def _listed(classes, most=30):
    """The classes, or the first of very many."""
    if len(classes) <= most:
        return str(classes.tolist())
    shown = ", ".join(repr(label) for label in classes[:5].tolist())
    return f"[{shown}, ...], {len(classes)} in all"


def encode(
    labels: np.ndarray,
    classes: np.ndarray,
    offsets: np.ndarray,
    name: str = "y",
    unseen: int | None = None,
) -> np.ndarray:
    """Positions of `labels` in sorted `classes`.

    Parameters
    ----------
    labels : ndarray of shape (n_nodes,)
        The labels.
    classes : ndarray of shape (n_classes,)
        Sorted.
    offsets : ndarray of shape (n_samples + 1,)
        Where each sample begins, for the message.
    name : str
        The argument, for messages.
    unseen : int, optional
        Code of labels that are not among the classes; by default they are refused.

    Returns
    -------
    ndarray of shape (n_nodes,) of int32
        The positions.

    Raises
    ------
    ValueError
        If a label is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.labels import encode
    >>> encode(np.array(["b", "a"]), np.array(["a", "b"]), np.array([0, 2]))
    array([1, 0], dtype=int32)
    """
    try:
        codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        unknown = np.flatnonzero(classes[codes] != labels)
    except TypeError:
        raise TypeError(
            f"{name} has labels of type {labels.dtype}, but the classes are of type {classes.dtype}"
        ) from None
    if unknown.size and unseen is not None:
        codes[unknown] = unseen
    elif unknown.size:
        row = unknown[0]
        i = sample_of(row, offsets)
        raise ValueError(
            f"{name}: unknown label {labels[row:].tolist()[0]!r} (sample {i}, node "
            f"{row - offsets[i]}); the classes are {_listed(classes)}"
        )
    return codes.astype(np.int32)

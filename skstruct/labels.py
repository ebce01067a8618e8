"""Read users' labels; every message names the sample."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from .matrices import as_array, check_sparse, refuse_masked
from .packing import sample_of
from .ragged import RaggedArray, rows_of

_NUMBERS = (bool, np.bool_, int, np.integer, float, np.floating)
# Above this, two integers may be one float.
_EXACT = 2**53


def _family(kind):
    """What labels of this Python type are, or None if they are no labels."""
    if issubclass(kind, str):
        return "strings"
    if issubclass(kind, bytes):
        return "bytes"
    return "numbers" if issubclass(kind, _NUMBERS) else None


def _refuse_mixtures(values, name, place):
    """Refuse elements that NumPy would turn into labels which nobody gave; return their types."""
    kinds = set(map(type, values))
    families = {_family(kind) for kind in kinds}
    if len(families) < 2 and None not in families:
        return kinds
    for t, value in enumerate(values):
        family = _family(type(value))
        if value is None:
            raise ValueError(f"{name} contains None ({place(t)})")
        if family is None:
            raise ValueError(
                f"{name}: the label {value!r} ({place(t)}) is neither a string nor an integer"
            )
        if family == "numbers" and value != value:
            raise ValueError(f"{name} contains NaN ({place(t)})")
    first = _family(type(values[0]))
    t = next(t for t, value in enumerate(values) if _family(type(value)) != first)
    raise TypeError(
        f"{name} mixes strings with labels of other types: {values[0]!r} ({place(0)}), "
        f"{values[t]!r} ({place(t)})"
    )


def as_labels(values, name: str, place) -> np.ndarray:
    """Labels in an array, none of them changed.

    Parameters
    ----------
    values : array-like of shape (n_nodes,)
        Strings, bytes, integers, or floats without a fraction.
    name : str
        The argument, for messages.
    place : callable
        From the position of a label to words that tell the user where that is.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Of bool, integers, floats, strings or (strings and bytes that came as such) objects.

    Raises
    ------
    ValueError, TypeError
        If labels are missing, continuous, of mixed types, or too large to be told apart.

    Examples
    --------
    >>> from skstruct.labels import as_labels
    >>> as_labels([3, 1], "y", "node {}".format)
    array([3, 1])
    """
    refuse_masked(values, name)
    if hasattr(values, "to_list") and not hasattr(values, "ndim"):
        values = values.to_list()  # a polars Series: None stays None
    kinds = set()
    if isinstance(values, (list, tuple)):
        nested = any(issubclass(kind, (list, tuple, np.ndarray)) for kind in set(map(type, values)))
        kinds = set() if nested else _refuse_mixtures(values, name, place)
    try:
        array = np.asarray(values)
    except ValueError:
        array = None
    if array is None or array.ndim != 1:
        raise ValueError(f"{name} must be a 1-D sequence of labels ({place(0)})")
    if array.dtype.kind == "O":
        values = array.tolist()
        kinds = _refuse_mixtures(values, name, place)
        if values and _family(type(values[0])) == "numbers":
            array = np.array(values)
    if array.dtype.kind not in "buifUSO":
        raise ValueError(f"Unknown label type: {name} has dtype {array.dtype} ({place(0)})")
    if array.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
        if wrong.size:
            raise ValueError(
                f"Unknown label type: {name} is continuous or contains NaN ({place(wrong[0])})"
            )
    if array.dtype.kind not in "biu" and any(issubclass(k, (int, np.integer)) for k in kinds):
        # Python's integers, which NumPy has made floats or left as they were
        large = [t for t, value in enumerate(values) if not -_EXACT <= value <= _EXACT]
        if large:
            raise ValueError(
                f"{name} has an integer beyond the range of np.int64 ({place(large[0])})"
            )
    return array


def _joined(items, name):
    """One array of all labels; integers stay integers, and different ones stay different."""
    filled = [item for item in items if item.size]
    families = [_family(type(item[0])) for item in filled]
    odd = next((i for i, family in enumerate(families) if family != families[0]), None)
    if odd is not None:
        i = [i for i, item in enumerate(items) if item.size][odd]
        raise TypeError(f"{name} mixes strings with labels of other types: see sample {i}")
    flat = np.concatenate(filled or items[:1] or [np.empty(0, dtype=np.int64)])
    integers = [item for item in filled if item.dtype.kind in "iu"]
    if flat.dtype.kind != "f" or not integers:
        return flat
    most = _EXACT if len(integers) < len(filled) else np.iinfo(np.int64).max
    if any(int(item.max()) > most or int(item.min()) < -most for item in integers):
        raise ValueError(f"{name} has labels of {flat.dtype} and integers too large for that")
    return (
        flat
        if len(integers) < len(filled)
        else np.concatenate(filled, dtype=np.int64, casting="unsafe")
    )


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
        If the numbers of samples or of nodes differ, or labels are missing, of mixed or of
        unsuitable types.
    """
    n = offsets.size - 1
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    y = as_array(y)
    if not hasattr(y, "__len__"):
        raise TypeError(f"{name} must be a list of label sequences; pass list({name})")
    if isinstance(y, (str, bytes, Mapping, Set)) or sparse.issparse(y):
        raise TypeError(f"{name} must be a list of label sequences, got a {type(y).__name__}")
    if hasattr(y, "columns"):
        y = y.to_numpy()
    if len(y) != n:
        raise ValueError(
            f"X has {n} samples, but {name} has {len(y)}; of sequences {name} is a list of label "
            "sequences, one a sample"
        )
    if isinstance(y, RaggedArray):
        lengths = y.lengths
        flat = as_labels(
            rows_of(y), name, lambda row: f"sample {sample_of(row, y.offsets)}, row {row} of flat"
        )
    else:
        refuse_masked(y, name)
        items = [_labels_of(item, i, name) for i, item in enumerate(y)]
        lengths = np.array([item.size for item in items])
        flat = None
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"sample {i}: X has {offsets[i + 1] - offsets[i]} nodes, but {name} has {lengths[i]} "
            "labels"
        )
    return _joined(items, name) if flat is None else flat


def _labels_of(item, i, name):
    if not hasattr(item, "__len__") or isinstance(item, (str, bytes, Mapping, Set)):
        raise ValueError(
            f"{name}: sample {i} must be a 1-D sequence of labels, one a node, got {item!r}"
        )
    return as_labels(item, f"{name}: sample {i}", "node {}".format)


def read_table_labels(y, n_samples: int, name: str = "y") -> np.ndarray:
    """Labels of a table, one a row.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        The labels; a column is flattened with a warning.
    n_samples : int
        How many there must be.
    name : str
        The argument, for messages.

    Returns
    -------
    ndarray of shape (n_samples,)
        The labels.

    Raises
    ------
    ValueError, TypeError
        If the number is another one, or labels are missing, of mixed or of unsuitable types.

    Examples
    --------
    >>> from skstruct.labels import read_table_labels
    >>> read_table_labels(["b", "a"], 2)
    array(['b', 'a'], dtype='<U1')
    """
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    y = as_array(y)
    if isinstance(y, RaggedArray) or _has_sequences(y):
        raise ValueError(
            f"{name} has a sequence of labels for each sample, but X was read as a table, one node "
            "a row: give sequences as a list of 2-D arrays (with one feature a node x[:, None])"
        )
    if sparse.issparse(y) or isinstance(y, (str, bytes, Mapping, Set)) or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be a 1-D array of labels, got a {type(y).__name__}")
    if np.ndim(y) != 1:
        y = column_or_1d(y, warn=True)
    labels = as_labels(y, name, "sample {}".format)
    if labels.size != n_samples:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_samples}, "
            f"{name} {labels.size}"
        )
    return labels


def _has_sequences(y):
    """Whether y has label sequences as elements, other than a column of one label each."""
    if not isinstance(y, (list, tuple)) and getattr(getattr(y, "dtype", None), "kind", "") != "O":
        return False
    items = [item for item in y if isinstance(item, (list, tuple, np.ndarray)) and np.ndim(item)]
    return bool(items) and (len(items) < len(y) or {len(item) for item in items} != {1})


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
    refuse_masked(y, name)
    if sparse.issparse(y):
        check_sparse(y, name)
        y = y.toarray()
    try:
        table = np.asarray(y)
    except ValueError:
        raise ValueError(
            f"{name} must be an indicator table, one column a label, but its rows have different "
            "lengths; make one of label lists with sklearn's MultiLabelBinarizer"
        ) from None
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
        raise ValueError(
            f"{name} must hold zeros and ones, got dtype {table.dtype}: with a table X a 2-D y is "
            "read as label sets; sequences are a list of 2-D arrays"
        )
    wrong = np.argwhere((table != 0) & (table != 1))
    if wrong.size:
        i, label = wrong[0]
        raise ValueError(
            f"{name}: sample {i}, label {label} is {table[i, label]}, expected 0 or 1: with a "
            "table X a 2-D y is read as label sets; sequences are a list of 2-D arrays"
        )
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

"""Read users' labels; every message names the sample."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Set

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from ..core.arguments import warn_user
from .matrices import as_array, check_sparse, refuse_masked
from .packing import as_list, is_no_sequence, sample_of
from .ragged import RaggedArray, rows_of
from .values import as_labels, join_values, refuse_sparse


def read_sequence_labels(y, offsets: np.ndarray, name: str = "y") -> np.ndarray:
    """Pack label sequences that belong to sequences with these `offsets`."""
    labels, lengths = _labels_of_samples(_required(y, name), name, offsets.size - 1)
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"sample {i}: X has {offsets[i + 1] - offsets[i]} nodes, but {name} has {lengths[i]} "
            "labels"
        )
    return join_values(labels, name) if isinstance(labels, list) else labels


def read_label_lists(y, name: str) -> list:
    """The labels of each sample, of any length."""
    if y is None:
        raise ValueError(f"{name} is None: a list of label sequences is needed")
    labels, lengths = _labels_of_samples(y, name)
    return labels if isinstance(labels, list) else np.split(labels, np.cumsum(lengths)[:-1])


def read_node_labels(y, offsets: np.ndarray, name: str = "y") -> np.ndarray:
    """The same of sequences and images, where no structure says which of these samples are."""
    if not isinstance(y, RaggedArray):
        y = [rows_of_image(own, f"{name}: sample {i}")[0] for i, own in enumerate(as_list(y, name))]
    return read_sequence_labels(y, offsets, name)


def _required(y, name):
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    return y


def _labels_of_samples(y, name, n_samples=None):
    """The labels of all samples, packed or an array a sample, and how many each has."""
    y = as_array(y)
    if not hasattr(y, "__len__"):
        raise TypeError(f"{name} must be a list of label sequences; pass list({name})")
    if getattr(y, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a list of label sequences, got {y!r}")
    if is_no_sequence(y):
        raise TypeError(f"{name} must be a list of label sequences, got a {type(y).__name__}")
    y = y.to_numpy() if hasattr(y, "columns") else y
    if n_samples is not None and len(y) != n_samples:
        hint = (
            "; of a data frame's column frame_column makes them" if hasattr(y, "to_numpy") else ""
        )
        raise ValueError(
            f"X has {n_samples} samples, but {name} has {len(y)}; for sequences, {name} must be a "
            f"list with one label sequence per sample{hint}"
        )
    if isinstance(y, RaggedArray):
        offsets = y.offsets

        def place(row):
            return f"sample {sample_of(row, offsets)}, row {row} of flat"

        return as_labels(rows_of(y), name, place), y.lengths
    refuse_masked(y, name)
    labels = []
    for i, item in enumerate(y):
        if not hasattr(item, "__len__") or isinstance(item, (str, bytes, Mapping, Set)):
            raise ValueError(
                f"{name}: sample {i} must be a 1-D sequence of labels, one per node, got "
                f"{item!r}; for sequences, {name} must be a list with one label sequence per sample"
            )
        labels.append(as_labels(item, f"{name}: sample {i}", "node {}".format))
    return labels, np.array([item.size for item in labels])


def rows_of_image(item, where: str) -> tuple:
    """Labels of an image one after the other, row by row, none of them changed."""
    refuse_masked(item, where)
    refuse_sparse(item, where)
    if isinstance(item, (list, tuple)):
        rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in item]
        if not rows or not all(isinstance(row, (list, tuple)) for row in rows):
            return item, (len(item),)
        if len(set(map(len, rows))) > 1:
            raise ValueError(f"{where}: rows differ in length")
        return list(itertools.chain.from_iterable(rows)), (len(rows), len(rows[0]))
    array = np.asarray(item)
    return array.reshape(-1), array.shape


def read_table_labels(y, n_samples: int, name: str = "y") -> np.ndarray:
    """Labels of a table, one a row."""
    y = as_array(_required(y, name))
    if isinstance(y, RaggedArray) or _has_sequences(y):
        raise ValueError(
            f"{name} has a sequence of labels for each sample, but X was read as a table, one node "
            "a row: give sequences as a list of 2-D arrays (with one feature a node x[:, None]), "
            "label sets as an indicator table (sklearn's MultiLabelBinarizer().fit_transform)"
        )
    if is_no_sequence(y) or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be a 1-D array of labels, got a {type(y).__name__}")
    try:
        n_axes = np.ndim(y)
    except ValueError:  # single labels among others, of which as_labels tells
        n_axes = 1
    if n_axes == 2 and np.shape(y)[1] > 1:
        as_labels(y if hasattr(y, "dtype") else np.asarray(y), name, "sample {}".format)
    labels = as_labels(y if n_axes == 1 else column_or_1d(y, warn=True), name, "sample {}".format)
    if labels.size != n_samples:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_samples}, "
            f"{name} {labels.size}"
        )
    return labels


def _has_sequences(y):
    """Return whether y has label sequences as elements, other than a column of one label each."""
    if not isinstance(y, (list, tuple)) and getattr(getattr(y, "dtype", None), "kind", "") != "O":
        return False
    items = [item for item in y if isinstance(item, (list, tuple, np.ndarray)) and np.ndim(item)]
    return bool(items) and (len(items) < len(y) or {len(item) for item in items} != {1})


def is_indicator(y) -> bool:
    """Return whether `y` looks like a table of label indicators."""
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
    """A table of labels, 1 where a label is on."""
    refuse_masked(_required(y, name), name)
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
        own = table.flat[0] if table.dtype.kind == "O" and table.size else None
        raise ValueError(
            f"{name} must be an indicator table of shape (n_samples, n_labels), got shape "
            f"{table.shape}"
            + (
                "; make one of label sets with sklearn's MultiLabelBinarizer().fit_transform"
                if isinstance(own, (Set, list, tuple))
                else "; for one label per sample graph='multiclass'"
            )
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
            "read as label sets; sequences are a list of 2-D arrays. Zeros and ones come from "
            "lists of names by sklearn's MultiLabelBinarizer().fit_transform, from a data frame D "
            "of names by pd.get_dummies(D.stack()).groupby(level=0).max().reindex(D.index, "
            "fill_value=0)"
        )
    wrong = np.argwhere((table != 0) & (table != 1))
    if wrong.size:
        i, label = wrong[0]
        raise ValueError(
            f"{name}: sample {i}, label {label} is {table[i, label]}, expected 0 or 1: with a "
            "table X a 2-D y is read as label sets; sequences are a list of 2-D arrays"
            f"{_hint_of_marks(table[i, label : label + 1])}"
        )
    return np.ascontiguousarray(table, dtype=np.int32)


# The mark of samples without a label of scikit-learn, and that of PyTorch's losses. -1 may be a
# class of its own (-1 and 1, or -1, 0 and 1), -100 beside 0, 1, ... hardly ever is. Among strings
# it is the empty cell of a table.
_MARKERS = (-1, -100)


def _mark_in(labels):
    """Return -1, -100 or "" if it most likely marks missing labels among others, else None."""
    if labels.dtype.kind == "U" and labels.ndim == 1:
        empty = labels == ""
        return "" if empty.any() and not empty.all() else None
    if labels.dtype.kind not in "if" or labels.ndim != 1 or not labels.size:
        return None
    if labels.min() not in _MARKERS:
        return None
    classes = np.unique(labels)
    first, rest = int(classes[0]), classes[1:]
    if first == -1:
        return first if rest.size >= 3 and (rest == np.arange(rest.size)).all() else None
    return first if rest.size and rest[0] >= 0 else None


def warn_of_mark(labels: np.ndarray, name: str = "y") -> None:
    """Warn of -1 or -100 among labels 0, 1, 2, ..., or of "": they may mark missing labels."""
    if (mark := _mark_in(np.asarray(labels))) is not None:
        warn_user(f"{name}: {mark!r} is a class like any other{_instead(mark)}")


def _instead(mark):
    return f": if {mark!r} marks missing labels, put None in its place"


def _hint_of_marks(unknown):
    """Return what to do about labels that are not classes, if they mark missing ones."""
    if unknown.dtype.kind not in "if":
        return ""
    return next((_instead(mark) for mark in _MARKERS if (unknown == mark).any()), "")


def read_label_names(labels, n_labels: int) -> np.ndarray:
    """Names of the labels 0, 1, ... in an array; a dict has them by number, as `id2label` does."""
    if isinstance(labels, Mapping):
        by_number = {str(number): name for number, name in labels.items()}
        numbers = [*map(str, range(len(by_number)))]
        if {*by_number} != {*numbers}:
            raise ValueError(
                f"labels is a dict, whose keys must be the numbers 0 to {n_labels - 1} of the "
                f"labels (id2label, not label2id), got {[*labels][:5]}"
            )
        labels = [by_number[number] for number in numbers]
    names = as_labels(labels, "labels", "label {}".format)
    if not np.unique(names).size == names.size == n_labels:
        raise ValueError(f"labels must be {n_labels} different names, got {names.tolist()}")
    return names


def _listed(classes, most=30):
    """The classes, or the first of very many."""
    if len(classes) <= most:
        return str(classes.tolist())
    shown = ", ".join(repr(label) for label in classes[:5].tolist())
    return f"[{shown}, ...], {len(classes)} in all"


def unseen_labels(labels: np.ndarray, n_unseen: int, n_nodes: int) -> str:
    """Return the warning about true labels that `fit` has not seen: how many, and which."""
    return (
        f"y: labels that fit has not seen count as wrong, on {n_unseen} of {n_nodes} nodes: "
        f"{_listed(np.unique(labels))}"
    )


def encode(
    labels: np.ndarray,
    classes: np.ndarray,
    offsets: np.ndarray,
    name: str = "y",
    unseen: int | None = None,
) -> np.ndarray:
    """Positions of `labels` in sorted `classes`."""
    try:
        if classes.dtype.kind == "O":  # pairs (type, label), not all of which compare
            known = {value: k for k, value in enumerate(classes.tolist())}
            codes = np.array([known.get(value, -1) for value in labels.tolist()], dtype=np.int64)
            unknown = np.flatnonzero(codes < 0)
        else:
            codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
            unknown = np.flatnonzero(classes[codes] != labels)
    except TypeError:
        raise TypeError(
            f"{name} has labels of type {labels.dtype}, but the classes are of type {classes.dtype}"
        ) from None
    if unknown.size and unseen is not None:
        codes[unknown] = unseen
        if hint := _hint_of_marks(labels[unknown]):
            warn_user(f"{name}: labels that are no classes of the model{hint}")
    elif unknown.size:
        row = unknown[0]
        i = sample_of(row, offsets)
        raise ValueError(
            f"{name}: unknown label {labels[row:].tolist()[0]!r} (sample {i}, node "
            f"{row - offsets[i]}); the classes are {_listed(classes)}"
            f"{_hint_of_marks(labels[row : row + 1])}"
        )
    return codes.astype(np.int32)

"""Labels that are not certain: missing ones, and sets of labels of which one is right."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .matrices import unwrapped
from .packing import as_list
from .ragged import RaggedArray, rows_of
from .segments import has_segments
from .values import as_labels, is_missing, join_values

# Read masks of allowed labels, for constrained decoding.


def read_table_mask(allowed, shape: tuple[int, ...]) -> np.ndarray:
    """The labels allowed in each row of a table."""
    mask = boolean(allowed, "allowed")
    if mask.shape != shape:
        raise ValueError(f"allowed must be of shape {shape}, got {mask.shape}")
    return np.ascontiguousarray(mask.reshape(-1, shape[-1])).view(np.uint8)


def read_sample_masks(allowed, offsets: np.ndarray, n_classes: int) -> np.ndarray:
    """The labels allowed at each node, one mask per sample."""
    n = offsets.size - 1
    packed = isinstance(allowed, RaggedArray)
    masks = list(allowed) if packed or n == 0 else as_list(allowed, "allowed")
    if len(masks) != n:
        raise ValueError(f"X has {n} samples, but allowed has {len(masks)}")
    read = []
    for i, mask in enumerate(masks):
        read.append(boolean(mask, f"allowed: sample {i}"))
        expected = (int(offsets[i + 1] - offsets[i]), n_classes)
        if read[i].shape != expected:
            raise ValueError(
                f"allowed: sample {i} must be of shape (n_nodes, n_classes) = {expected}, got "
                f"{read[i].shape}"
            )
    return np.concatenate([np.empty((0, n_classes), dtype=bool), *read]).view(np.uint8)


def boolean(mask, name):
    """A mask as an array of bool."""
    if isinstance(mask, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: fill it first")
    try:
        array = np.asarray(mask)
    except ValueError as error:
        raise ValueError(f"{name} is no array of booleans: {error}") from None
    # NaN and "False" are true to Python.
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans, or zeros and ones")
    return array.astype(bool)


_FLOATS = float, np.floating
_NESTED = list, tuple, np.ndarray
_NAMED = "NoneType", "NAType", "NaTType", "MaskedConstant"
#: Codes of :attr:`PartialLabels.which`.
KNOWN, MISSING = -1, 0


class PartialLabels(NamedTuple):
    """Partial labels: the nodes without a single label, and the labels that each may have."""

    # (n_nodes,): -1 at a node with a label, 0 at one without, else a position in `choices`.
    which: np.ndarray
    # None, then the sets of labels that occur.
    choices: list

    @property
    def hidden(self) -> np.ndarray:
        """Mask of the nodes that have no single label."""
        return self.which != KNOWN

    @classmethod
    def none(cls, n_nodes: int) -> PartialLabels:
        """Those of nodes that all have a label."""
        return cls(np.full(n_nodes, KNOWN, dtype=np.int32), [None])

    def take(self, keep: np.ndarray) -> PartialLabels | None:
        """Those of the nodes that are kept; None if all of these have a label."""
        which = self.which[keep]
        return None if (which == KNOWN).all() else self._replace(which=which)

    def listed(self) -> list[np.ndarray]:
        """The labels of the sets that occur, an array a set."""
        used = np.unique(self.which[self.which > MISSING])
        return [_labels_in(self.choices[c], "y: a set of labels") for c in used]


def _values_of(item):
    """Series and frames as arrays or lists; the rest as it is."""
    if isinstance(item, (list, tuple, np.ndarray)) or sparse.issparse(item):
        return item
    item = unwrapped(item)
    if not hasattr(item, "to_numpy") or is_missing(item):  # NaT has it, too
        return item
    # Nullable integers and booleans with a missing one would become floats, and labels with them.
    nullable = hasattr(item, "dtype") and getattr(item.dtype, "kind", "O") in "iub"
    return item.to_numpy(dtype=object) if nullable and item.isna().any() else item.to_numpy()


def is_partial(item):
    """Return whether the labels of a sample, or of a table, have a missing label or a set."""
    item = _values_of(item)
    if isinstance(item, np.ma.MaskedArray):
        return bool(np.ma.is_masked(item)) or is_partial(item.data)
    if isinstance(item, np.ndarray):
        if item.dtype.kind != "O":
            return item.dtype.kind == "f" and bool(np.isnan(item).any())
        item = item.ravel().tolist()
    if not isinstance(item, (list, tuple)):
        return False
    kinds = set(map(type, item))
    rows = {
        kind
        for kind in kinds
        if issubclass(kind, _NESTED) or (hasattr(kind, "to_numpy") and kind.__name__ != "NaTType")
    }
    if rows:
        return any(is_partial(row) for row in item if type(row) in rows)
    odd = {kind for kind in kinds if kind.__name__ in _NAMED or issubclass(kind, (Set, *_FLOATS))}
    return any(isinstance(value, Set) or is_missing(value) for value in item if type(value) in odd)


def _leaves(item):
    """All labels, sets and missing entries of a sample."""
    item = _values_of(item)
    if isinstance(item, np.ndarray):
        item = item.tolist()  # None where masked
    if isinstance(item, (list, tuple)):
        for value in item:
            yield from _leaves(value)
    elif not isinstance(item, Set) or item:
        yield item


def _labels_in(labels, where):
    """The labels of a set, in an order that does not depend on hashes."""
    return as_labels(sorted(labels, key=repr), where, "label {}".format)


class _Reader:
    """Takes missing labels and sets out of y, and leaves other labels in their place."""

    def __init__(self, name, samples):
        self.name = name
        self.choices, self.position, self.which = [None], {}, []
        found = next((v for item in samples for v in _leaves(item) if not is_missing(v)), None)
        if found is None:
            raise ValueError(f"{self.name} has no labels: all nodes are missing")
        #: Any label that occurs, a placeholder for missing ones.
        self.fill = sorted(found, key=repr)[0] if isinstance(found, Set) else found

    def read(self, item, where, first):
        """The labels of a sample whose nodes begin at `first`, filled."""
        item = _values_of(item)
        if isinstance(item, np.ndarray):
            item = item.tolist()  # None where masked
        if isinstance(item, (list, tuple)):
            return [self.read(value, where, first) for value in item]
        code, label = KNOWN, item
        if is_missing(item):
            code, label = MISSING, self.fill
        elif isinstance(item, Set):
            code, label = self._choice(item, f"{where}, node {len(self.which) - first}")
        self.which.append(code)
        return label

    def _choice(self, value, where):
        """The code of a set, and a label of it."""
        if not value:
            raise ValueError(f"{where}: the set of labels is empty; None is a missing label")
        if any(is_missing(label) for label in value):
            raise ValueError(f"{where}: the set of labels {value!r} has a missing label in it")
        labels = _labels_in(value, where).tolist()
        if len(labels) == 1:
            return KNOWN, labels[0]
        key = frozenset(value)
        if key not in self.position:
            self.position[key] = len(self.choices)
            self.choices.append(key)
        return self.position[key], labels[0]


def split_partial(y, is_table: bool, name: str = "y") -> tuple:
    """Labels with one in every place, and which of them were not there."""
    if isinstance(y, RaggedArray):
        if not is_partial(rows_of(y)):
            return y, None
        samples = np.split(rows_of(y), y.offsets[1:-1])
    else:
        values = _values_of(y)
        no_labels = isinstance(values, (str, bytes, dict, Set)) or sparse.issparse(values)
        if no_labels or not hasattr(values, "__len__"):
            return y, None
        samples = [values] if is_table else list(values)
        try:
            if not any(map(is_partial, samples)):
                return y, None
        except RecursionError:
            raise ValueError(
                f"{name} has lists nested too deeply: does one contain itself?"
            ) from None
    reader, filled = _Reader(name, samples), []
    for i, item in enumerate(samples):
        filled.append(reader.read(item, f"{name}: sample {i}", len(reader.which)))
    which = np.array(reader.which, dtype=np.int32)
    y = filled[0] if is_table else filled
    if (which == KNOWN).all():  # sets of one label
        return y, None
    return y, PartialLabels(which, reader.choices)


def read_partial(read, y, is_table: bool) -> tuple:
    """Return ``read(y)`` and partial labels, which are looked for only where reading fails."""
    try:
        return read(y), None
    except (TypeError, ValueError) as error:
        failed = error
    filled, partial = split_partial(y, is_table)
    if filled is y:
        raise failed
    try:
        return read(filled), partial
    except (TypeError, ValueError):
        # Segments have neither missing labels nor sets: without these they are lists of lists.
        if has_segments(y):
            raise failed from None
        raise


def all_labels(labels: np.ndarray, partial: PartialLabels) -> np.ndarray:
    """The labels that occur, alone or in sets."""
    found = [labels[~partial.hidden], *partial.listed()]
    if not any(part.size for part in found):
        raise ValueError(
            "needs labels, but in y all nodes of samples of nonzero weight are missing"
        )
    return join_values(found, "y", lambda i: "a set of labels" if i else "the labels of nodes")


def allowed_labels(partial: PartialLabels, codes: np.ndarray, n_states: int, encode) -> np.ndarray:
    """Masks of the labels that each node may have."""
    rows = np.zeros((len(partial.choices), n_states), dtype=np.uint8)
    rows[MISSING] = 1
    for c in np.unique(partial.which[partial.which > MISSING]):
        rows[c, encode(_labels_in(partial.choices[c], "y: a set of labels"))] = 1
    masks = rows[np.maximum(partial.which, MISSING)]
    known = np.flatnonzero(~partial.hidden)
    masks[known] = 0
    masks[known, codes[known]] = 1
    return masks

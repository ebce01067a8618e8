"""What travels between a driver and its workers: tables of weights, and of what changes them."""

from __future__ import annotations

import numpy as np

from ...core.weights import Weights
from ...data.matrices import readable

# Share of entries that are not zero, up to which these are sent alone.
_FEW = 0.75
# Rows that are added at once: they stay in the cache of a processor.
_BLOCK = 1024


class Tables:
    """The node and the pair table of weights, which leave their zeros behind when pickled."""

    __slots__ = ("node", "pair")

    def __init__(self, node: np.ndarray, pair: np.ndarray) -> None:
        self.node, self.pair = node, pair

    @property
    def nbytes(self) -> int:
        """Bytes of both, zeros included."""
        return self.node.nbytes + self.pair.nbytes

    def weights(self) -> Weights:
        """Return them as kernels take them: what has come with a task may be protected."""
        return Weights(readable(self.node, np.float64), readable(self.pair, np.float64))

    def __reduce__(self):
        return _restored, (_packed(self.node), _packed(self.pair))


def _packed(array):
    """An array, or its shape, a bit for each entry, and the entries that are not +0.0."""
    bits = np.ascontiguousarray(array).view(np.uint64).ravel()
    kept = bits != 0
    if np.count_nonzero(kept) > _FEW * bits.size:
        return array
    return array.shape, np.packbits(kept), bits[kept]


def _restored(node, pair):
    return Tables(_unpacked(node), _unpacked(pair))


def _unpacked(packed):
    if isinstance(packed, np.ndarray):
        return packed
    shape, kept, bits = packed
    array = np.zeros(shape)
    flat = array.view(np.uint64).reshape(-1)
    flat[np.unpackbits(kept, count=flat.size).view(bool)] = bits
    return array


class _Rows(Tables):
    """The weights of some features and of all others than features, gathered by who asks."""

    __slots__ = ("_all", "_columns", "_n_features")

    def __init__(self, w, columns, n_features):
        self._all, self._columns, self._n_features = w.node, columns, n_features
        self.pair = w.pair

    @property
    def nbytes(self):
        """Bytes of both, zeros included."""
        rows = self._columns.size + self._all.shape[0] - self._n_features
        return rows * self._all.shape[1] * self._all.itemsize + self.pair.nbytes

    @property
    def node(self):
        """The node table: a new array each time."""
        n, others = self._columns.size, self._all[self._n_features :]
        node = np.empty((n + others.shape[0], others.shape[1]))
        np.take(self._all, self._columns, axis=0, out=node[:n], mode="clip")
        node[n:] = others
        return node


def gather(w: Weights, columns, n_features: int) -> Tables:
    """The weights that a shard uses."""
    return Tables(w.node, w.pair) if columns is None else _Rows(w, columns, n_features)


def scatter_add(total: Weights, columns, n_features: int, tables: Tables | Weights) -> None:
    """Add tables of a shard to those of all weights."""
    total.pair[...] += tables.pair
    if columns is None:
        total.node[...] += tables.node
        return
    total.node[n_features:] += tables.node[columns.size :]
    sums = np.empty((_BLOCK, total.node.shape[1]))
    for first in range(0, columns.size, _BLOCK):
        rows = columns[first : first + _BLOCK]
        part = np.take(total.node, rows, axis=0, out=sums[: rows.size], mode="clip")
        part += tables.node[first : first + rows.size]
        total.node[rows] = part

"""What travels between a driver and its workers: tables of weights, and of what changes them."""

from __future__ import annotations

import numpy as np

from ...core.weights import Weights
from ...data.matrices import readable

# Share of entries that are not zero, up to which these are sent alone.
_FEW = 0.75


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


def gather(w: Weights, columns, n_features: int) -> Tables:
    """The weights that a shard uses."""
    if columns is None:
        return Tables(w.node, w.pair)
    n = columns.size
    node = np.empty((n + w.node.shape[0] - n_features, w.node.shape[1]))
    np.take(w.node, columns, axis=0, out=node[:n], mode="clip")
    node[n:] = w.node[n_features:]
    return Tables(node, w.pair)


def scatter_add(total: Weights, columns, n_features: int, tables: Tables | Weights) -> None:
    """Add tables of a shard to those of all weights."""
    total.pair[...] += tables.pair
    if columns is None:
        total.node[...] += tables.node
        return
    total.node[columns] += tables.node[: columns.size]
    total.node[n_features:] += tables.node[columns.size :]

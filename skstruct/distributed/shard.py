"""Shards: what a worker holds of a problem, and what is sent to it.

A *source* opens shards in any process: ``token``, unique to a run, ``n_shards``, ``columns(k)``,
``open(k)``. Tasks begin with :func:`leased`.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..core.problem import is_memory, tree_items, tree_leaves
from ..core.weights import Weights
from ..data.matrices import readable

# Bytes of shards that a process keeps open.
LIMIT = 1 << 29


class ShardProblem(NamedTuple):
    """A shard as a problem of its own, on its rows of the weights."""

    # A structure's problem, with labels, on local rows; features may be memory maps.
    problem: Any
    # The training loss.
    loss: Any
    # Shapes of the local weight tables: the pair table is the whole one.
    shapes: tuple
    # (n_samples,): Weights whose mean over *all* shards is 1.
    sample_weight: np.ndarray
    # What tasks leave for the next one of this process, and its "n_bytes".
    memory: Any = None
    # Attributes of an estimator: how the samples of the shard are decoded.
    inference: dict | None = None


# Shards open in this process and not in use: shard and bytes by token of its source and number.
_LOCK, _OPENED = Lock(), {}


@contextmanager
def leased(source, k: int):
    """Lend shard k of a source exclusively; it is opened once while there is room."""
    key = source.token, k
    with _LOCK:
        shard, _ = _OPENED.pop(key, (None, 0))
    if shard is None:
        shard = source.open(k)
    for _, found in tree_items(shard.problem, is_leaf=is_memory):
        if is_memory(found):  # what a task does must not depend on those before
            found.forget()
    yield shard
    # Not after an error, whose effect on the shard is unknown.
    size = sum(leaf.nbytes for leaf in tree_leaves(shard) if isinstance(leaf, np.ndarray))
    size += (shard.memory or {}).get("n_bytes", 0)
    with _LOCK:
        room = LIMIT - size - sum(n_bytes for _, n_bytes in _OPENED.values())
        # Rounds visit all shards in turn: whatever goes comes too late to be of use, so that it is
        # the new one that goes, unless the old ones are of another fit.
        for old in [old for old in _OPENED if old[0] != source.token]:
            if room < 0:
                room += _OPENED.pop(old)[1]
        if key not in _OPENED and (room >= 0 or not _OPENED):
            _OPENED[key] = shard, size


def close_shards(source) -> None:
    """Close what this process has open of a source; other processes do so when they need room."""
    with _LOCK:
        for key in [key for key in _OPENED if key[0] == source.token]:
            del _OPENED[key]


def inference_of(source, k: int) -> dict:
    """The task: how the samples of a shard are decoded."""
    with leased(source, k) as shard:
        return shard.inference


# What travels between a driver and its workers: tables of weights, and of what changes them.

# Fraction of entries that are not zero, up to which these are sent alone.
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
    """Rows of the weights: of some features, and those of no feature; gathered on demand."""

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

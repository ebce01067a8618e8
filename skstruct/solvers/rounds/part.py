"""Parts: what a worker has of a problem that no process holds as a whole.

A *source* opens parts in any process. It is what tasks carry, so it is small and can be pickled; it
has ``token``, a string that no other source of this run has, ``n_parts``, ``columns(k)`` and
``open(k)``, which returns a :class:`Part`. Tasks of any solver begin with ``with borrowed(source,
k) as part``; the driver makes what they take by :func:`gather`, and adds what they return by
:func:`scatter_add`.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...core.weights import Weights
from ...data.matrices import readable

# Bytes of parts that a process keeps open.
LIMIT = 1 << 29


class Part(NamedTuple):
    """A shard as a problem of its own, on its rows of the weights."""

    # A structure's problem, with labels, on local rows; features may be memory maps.
    problem: Any
    # The training loss.
    loss: Any
    # Shapes of the local weight tables: the pair table is the whole one.
    shapes: tuple
    # (n_samples,): Weights whose mean over *all* parts is 1.
    sample_weight: np.ndarray
    # First and second nodes of all edges, and where those of each sample begin.
    ends: tuple = ()


def gather(w: Weights, columns, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights that a part uses."""
    if columns is None:
        return w.node, w.pair
    n = columns.size
    node = np.empty((n + w.node.shape[0] - n_features, w.node.shape[1]))
    np.take(w.node, columns, axis=0, out=node[:n], mode="clip")
    node[n:] = w.node[n_features:]
    return node, w.pair


def scatter_add(total: Weights, columns, n_features: int, node, pair) -> None:
    """Add tables of a part to those of all weights."""
    pairs = total.pair
    pairs += pair
    table = total.node
    if columns is None:
        table += node
        return
    table[columns] += node[: columns.size]
    table[n_features:] += node[columns.size :]


def received(node, pair) -> Weights:
    """Tables that have come with a task, as kernels take them: backends may protect arrays."""
    return Weights(readable(node, np.float64), readable(pair, np.float64))


def _n_bytes(thing):
    if isinstance(thing, tuple):
        return sum(map(_n_bytes, thing))
    return thing.nbytes if isinstance(thing, np.ndarray) else 0


class _Opened:
    """Parts that are open in this process and not in use."""

    def __init__(self):
        self._lock, self._parts, self._size = Lock(), OrderedDict(), 0

    def take(self, key):
        """A part, which is nobody else's until it is given back; None if it is not here."""
        with self._lock:
            part = self._parts.pop(key, None)
            self._size -= 0 if part is None else _n_bytes(part)
            return part

    def give(self, key, part):
        """Keep a part for the next task, if there is room."""
        size = _n_bytes(part)
        with self._lock:
            if key in self._parts:
                return
            # Rounds visit all parts in turn: whatever goes comes too late to be of use, so that it
            # is the new one that goes, unless the old ones are of another fit.
            for old in [old for old in self._parts if old[0] != key[0]]:
                if self._size + size <= LIMIT:
                    break
                self._size -= _n_bytes(self._parts.pop(old))
            if self._size + size <= LIMIT or not self._parts:
                self._parts[key] = part
                self._size += size

    def forget(self, token):
        """Close the parts of a source."""
        with self._lock:
            for key in [key for key in self._parts if key[0] == token]:
                self._size -= _n_bytes(self._parts.pop(key))


_OPENED = _Opened()


@contextmanager
def borrowed(source, k: int):
    """Part k of a source, opened at most once while there is room; nobody else has it meanwhile."""
    part = _OPENED.take((source.token, k))
    if part is None:
        part = source.open(k)
    yield part
    # Not after an error: nobody knows what it has left.
    _OPENED.give((source.token, k), part)


def kind_of(source, k: int) -> type:
    """The task: the class of a part's problem, which says how its samples are decoded."""
    with borrowed(source, k) as part:
        return type(part.problem[0] if type(part.problem) is tuple else part.problem)


def close_parts(source) -> None:
    """Close what this process has open of a source; other processes do so when they need room."""
    _OPENED.forget(source.token)

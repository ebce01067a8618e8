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
    """A shard as a problem of its own, on its rows of the weights.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels, on local rows; features may be memory maps.
    loss : NamedTuple
        The training loss.
    shapes : tuple of two tuples of int
        Shapes of the local weight tables: the pair table is the whole one.
    sample_weight : ndarray of shape (n_samples,)
        Weights whose mean over *all* parts is 1.
    ends : tuple of ndarray
        First and second nodes of all edges, and where those of each sample begin.
    """

    problem: Any
    loss: Any
    shapes: tuple
    sample_weight: np.ndarray
    ends: tuple = ()


def gather(w: Weights, columns, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights that a part uses.

    Parameters
    ----------
    w : Weights
        All weights.
    columns : ndarray of int64 or None
        Features of the part, sorted; None for all.
    n_features : int
        Number of all features: the rows after theirs (ends, intercept) belong to each part.

    Returns
    -------
    node, pair : ndarray
        Its tables: for all features the arrays themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.core.weights import Weights
    >>> from skstruct.solvers.rounds.part import gather
    >>> w = Weights(np.arange(4.0)[:, None], np.zeros((1, 1)))
    >>> gather(w, np.array([1]), 3)[0].ravel()
    array([1., 3.])
    """
    if columns is None:
        return w.node, w.pair
    n = columns.size
    node = np.empty((n + w.node.shape[0] - n_features, w.node.shape[1]))
    np.take(w.node, columns, axis=0, out=node[:n], mode="clip")
    node[n:] = w.node[n_features:]
    return node, w.pair


def scatter_add(total: Weights, columns, n_features: int, node, pair) -> None:
    """Add tables of a part to those of all weights.

    Parameters
    ----------
    total : Weights
        Added to.
    columns, n_features : object
        As for :func:`gather`.
    node, pair : ndarray
        The part's tables.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.core.weights import Weights
    >>> from skstruct.solvers.rounds.part import scatter_add
    >>> w = Weights(np.arange(4.0)[:, None], np.zeros((1, 1)))
    >>> scatter_add(w, np.array([1]), 3, np.ones((2, 1)), np.ones((1, 1)))
    >>> w.node.ravel()
    array([0., 2., 2., 4.])
    """
    pairs = total.pair
    pairs += pair
    table = total.node
    if columns is None:
        table += node
        return
    table[columns] += node[: columns.size]
    table[n_features:] += node[columns.size :]


def received(node, pair) -> Weights:
    """Tables that have come with a task, as kernels take them: backends may protect arrays.

    Parameters
    ----------
    node, pair : ndarray
        As :func:`gather` made them.

    Returns
    -------
    Weights
        To be read only.
    """
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
    """Part k of a source, opened at most once while there is room; nobody else has it meanwhile.

    Parameters
    ----------
    source : object
        Opens parts, see above.
    k : int
        Which.

    Yields
    ------
    Part
        The part; its scratch may be used.
    """
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
    """Close what this process has open of a source; other processes do so when they need room.

    Parameters
    ----------
    source : object
        Whose parts.
    """
    _OPENED.forget(source.token)

"""Shards: what a worker has of a problem that no process holds as a whole.

A *source* opens shards in any process. It is what tasks carry, so it is small and can be pickled;
it has ``token``, a string that no other source of this run has, ``n_shards``, ``columns(k)`` and
``open(k)``, which returns a :class:`ShardProblem`. Tasks of any solver begin with ``with
leased(source, k) as shard``; the driver makes what they take by
:func:`skstruct.solvers.engines.messages.gather`, and adds what they return by ``scatter_add``.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...core.tree import is_memory, tree_items, tree_leaves

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
    # First and second nodes of all edges, and where those of each sample begin.
    ends: tuple = ()
    # Labels that nodes may have.
    n_labels: int = 0
    # What tasks leave for the next one of this process, and its "n_bytes".
    memory: Any = None


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


def kind_of(source, k: int) -> type:
    """The task: the class of a shard's space, which defines how its samples are decoded."""
    with leased(source, k) as shard:
        problem = shard.problem[0] if type(shard.problem) is tuple else shard.problem
        return type(problem.space)

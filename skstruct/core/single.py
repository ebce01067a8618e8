"""Lazy weights in single precision, and back."""

import numpy as np

from .weights import BLOCK, DOUBLE, fold


def in_single(lazy):
    """Move lazy weights to single precision, in the memory that they are in."""
    node = lazy.node
    single = node.reshape(-1)[node.size // 2 :].view(np.float32).reshape(node.shape)
    size = max(1, BLOCK // max(node.shape[1], 1))
    is_zero = True
    for first in reversed(range(0, len(node), size)):
        # Backwards: a row in single precision begins after those that are still to come.
        rows = node[first : first + size]
        is_zero = is_zero and not rows.any()
        if not is_zero:  # memory that nobody has touched takes no room
            single[first : first + size] = rows.astype(np.float32)
    return lazy._replace(node=node[:0], single=single)


def in_double(lazy, memory):
    """Move lazy weights in single precision back, with ``d = 0`` in both tables."""
    node, single, pair = memory.node, lazy.single, lazy.pair
    (s, b), half = lazy.scale, node.shape[1] // 2
    size = max(1, BLOCK // max(node.shape[1], 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(node), size):
            rows = single[first : first + size].astype(np.float64)
            node[first : first + size, :half] = s * rows[:, :half] + b * rows[:, half:]
            node[first : first + size, half:] = 0.0
    fold(lazy._replace(single=single[:0]))
    pair[:, pair.shape[1] // 2 :] = 0.0
    return lazy._replace(node=node, single=DOUBLE)

"""Norms of lazy weights in threads."""

from __future__ import annotations

import numpy as np

from ...core.team import run_team
from ...core.weights import squared_norms

# Floats of a block: what they are summed by does not depend on the threads.
_BLOCK = 1 << 20


def _blocks(w):
    """Rows of the node table in blocks, the first of them with the pair table."""
    table = w.single if w.single.size else w.node
    size = max(_BLOCK // max(table.shape[1], 1), 1)
    for first in range(0, max(len(table), 1), size):
        rows = slice(first, first + size)
        part = w._replace(node=w.node[rows], single=w.single[rows])
        yield part if first == 0 else part._replace(pair=w.pair[:0])


def norms_in_threads(w, inverse_n: float, lam: float, n_threads: int) -> np.ndarray:
    """:func:`skstruct.core.weights.squared_norms`, the same bits for any number of threads."""
    blocks = list(_blocks(w))
    n_threads = min(n_threads, len(blocks))
    sums = np.zeros((len(blocks), 3))

    def work(k, team):
        for b in range(k, len(blocks), n_threads if team.size else 1):
            sums[b] = squared_norms(blocks[b], inverse_n, lam)

    run_team(work, n_threads)
    return sums.sum(axis=0)

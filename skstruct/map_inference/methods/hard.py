"""Messages to start from that know of the hard constraints."""

from __future__ import annotations

import math

import numpy as np

from ...core.dispatch import kernel
from ..kinds.verbs import region_max_marginals
from .bounds import own_scores


@kernel
def forbid(p, delta, forbidden, total, down, scratch):
    """Tell all regions of the configurations that one of them forbids.

    Without this, descent on a smoothed dual sends the messages of such configurations to infinity,
    slowly. Where a region forbids by its own scores, its message on the matter may have any value.
    """
    for r in range(p.kind.shape[0]):
        if p.slot_ptr[r + 1] > p.slot_ptr[r]:
            region_max_marginals(p, r, delta, down, scratch)
    for r in range(p.kind.shape[0]):
        begin, end = p.parent_ptr[r], p.parent_ptr[r + 1]
        if begin == end:
            continue
        own_scores(p, r, delta, total)
        for x in range(p.size[r]):
            n_dead = 0
            for at in range(begin, end):
                n_dead += down[p.message_ptr[p.parent[at]] + x] == -math.inf
            if total[x] > -math.inf and n_dead == 0:
                continue
            share = 0.0
            if total[x] > -math.inf:
                share = forbidden * (end - begin - n_dead + 1) / n_dead
            for at in range(begin, end):
                m = p.message_ptr[p.parent[at]] + x
                delta[m] = share if down[m] == -math.inf else -forbidden


def hard_start(room):
    """Zeros, except where configurations are forbidden."""
    delta = np.zeros(room.n_messages)
    if np.isneginf(room.regions.scores).any() or (room.regions.kind > 3).any():
        total = np.zeros(room.mu.size)
        forbid(room.regions, delta, room.forbidden, total, room.down, room.scratch)
    return delta

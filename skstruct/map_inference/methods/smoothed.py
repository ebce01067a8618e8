"""Smoothed duals: values, and the marginals that are their gradients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...core.dispatch import kernel
from ..kinds.verbs import region_project, region_soft_max
from .bounds import spread

_NOTHING = np.zeros(0)


@kernel
def soft_max_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch):
    """Add up the soft-maxima of some regions."""
    total = 0.0
    for r in range(start, stop):
        total += region_soft_max(p, r, delta, gamma, mu, down, scratch)
        if up.shape[0] > 0:
            spread(p, r, mu, up)
    totals[0] += total


@kernel
def project_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch):
    """Add up the L2-smoothed maxima of some regions."""
    total = 0.0
    for r in range(start, stop):
        total += region_project(p, r, delta, gamma, mu, down, scratch)
        if up.shape[0] > 0:
            spread(p, r, mu, up)
    totals[0] += total


def smoothed_pieces(room, delta, gamma, smoothing, up):
    """A smoothed dual without the offset, piece by piece."""
    one_pass = soft_max_pass if smoothing == "softmax" else project_pass
    totals = np.zeros(1)
    p, mu, down, scratch = room.regions, room.mu, room.down, room.scratch
    for start, stop in pairwise(room.cuts):
        one_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch)
        yield
    return float(totals[0])


def smoothed_dual(room, delta, gamma, smoothing="softmax", up=_NOTHING):
    """A smoothed dual without the offset, in one go."""
    pieces = smoothed_pieces(room, delta, gamma, smoothing, up)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value

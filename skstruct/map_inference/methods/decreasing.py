"""Soft-max coordinate descent whose smoothing decreases until it no longer matters."""

from __future__ import annotations

import math

import numpy as np

from ..arguments import check_positive
from .coordinate_descent import CoordinateDescent
from .driver import Report, drive
from .smoothed import smoothed_dual

# The smoothing is halved when what is left to gain is estimated to be below this share of its cost.
_SHARE = 0.5


class DecreasingSmoothing(CoordinateDescent):
    """Halves the smoothing once what is left to gain at the present one is small."""

    def __init__(self, graph, tol, rng, gamma):
        super().__init__(graph, tol, rng, gamma)
        self.up = np.zeros(self.room.n_messages)

    def report(self, maxima):
        """Compare the fall of the smoothed dual with its distance from the non-smooth one."""
        bound = self.regions.offset + maxima
        value = self.regions.offset + smoothed_dual(
            self.room, self.delta, self.gamma, "softmax", self.up
        )
        self.up -= self.room.down
        left = float(np.abs(self.up).sum()) * self.room.mean_range
        cost, done = value - bound, ""
        if left <= _SHARE * cost or value >= self.last:
            if cost <= 0.1 * self.tol * max(1.0, abs(bound)):
                done = "the smoothing is below tol"
            self.gamma /= 2.0
            self.last = math.inf
        else:
            self.last = value
        return Report(value, float(np.linalg.norm(self.up)), done=done)


def solve_decreasing_smoothing(graph, *, tol, max_iter, time_limit, rng, on_pass, gamma=None):
    """Soft-max coordinate descent with a smoothing that is halved until it is below `tol`.

    Savchynskyy, Schmidt, Kappes, Schnörr 2012, Efficient MRF energy minimization via adaptive
    diminishing smoothing. Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with
    Linear Convergence, Table 1.
    """
    if gamma is not None:
        gamma = check_positive("gamma", gamma)
    method = DecreasingSmoothing(graph, tol, rng, gamma or 1.0)
    if gamma is None:
        method.gamma = 0.1 * method.room.mean_range or 1.0
    return drive("decreasing-smoothing", method, tol=tol, max_iter=max_iter, on_pass=on_pass)

"""Stochastic dual coordinate ascent on the smooth and strongly convex dual."""

from __future__ import annotations

import math

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ..arguments import check_positive
from ..kinds.verbs import region_project, require_verb
from ..regions import AT_MOST_ONE
from .driver import Report, drive
from .frank_wolfe import FrankWolfe, measure, move
from .smoothed import smoothed_dual


@inner_kernel
def _products(p, r, state, mu, down, sums):
    """Into `sums`: square norm of region `r`'s variables, their product with a new point, its norm.

    Logical factors with one true literal have their configurations on their children.
    """
    old_old, old_new, new_new = 0.0, 0.0, 0.0
    if p.size[r] > 0:
        first = state.primal_ptr[r]
        for x in range(p.size[r]):
            old = state.primal[first + x]
            old_old += old * old
            old_new += old * mu[x]
            new_new += mu[x] * mu[x]
    else:
        old_none, new_none = 1.0, 1.0
        begin, m = p.scope_ptr[r], p.message_ptr[p.slot_ptr[r]]
        for j in range(p.scope_ptr[r + 1] - begin):
            k = m + 2 * j + 1 - p.negated[begin + j]
            old, new = state.projections[k], down[k]
            old_none -= old
            new_none -= new
            old_old += old * old
            old_new += old * new
            new_new += new * new
        if p.kind[r] == AT_MOST_ONE:
            old_old += old_none * old_none
            old_new += old_none * new_none
            new_new += new_none * new_none
    sums[4], sums[5], sums[6] = old_old, old_new, new_new


@kernel
def sdca_pass(p, order, start, stop, gamma, lam, state, delta, mu, down, sums, scratch):
    """Steps on some regions, each to the best point towards its smoothed maximiser."""
    for k in range(start, stop):
        r = order[k]
        value = region_project(p, r, delta, gamma, mu, down, scratch)
        measure(p, r, state, delta, mu, down, sums)
        _products(p, r, state, mu, down, sums)
        linear = value + 0.5 * gamma * sums[6]
        slope = linear - (state.own[r] + sums[0]) - gamma * (sums[5] - sums[4])
        if slope > 0.0:
            n_parents = p.parent_ptr[r + 1] - p.parent_ptr[r]
            apart = sums[4] - 2.0 * sums[5] + sums[6]
            curvature = gamma * max(apart, 0.0) + (n_parents * sums[3] + sums[2]) / lam
            step = min(1.0, slope / curvature)
            move(p, r, state, delta, lam, mu, down, linear - sums[1], step)


@kernel
def square_norm(p, state):
    """Square norm of all primal variables."""
    total = 0.0
    for r in range(p.kind.shape[0]):
        if p.size[r] > 0:
            for x in range(state.primal_ptr[r], state.primal_ptr[r + 1]):
                total += state.primal[x] ** 2
        else:
            none = 1.0
            begin, m = p.scope_ptr[r], p.message_ptr[p.slot_ptr[r]]
            for j in range(p.scope_ptr[r + 1] - begin):
                true = state.projections[m + 2 * j + 1 - p.negated[begin + j]]
                none -= true
                total += true * true
            if p.kind[r] == AT_MOST_ONE:
                total += none * none
    return total


class SDCA(FrankWolfe):
    """The same steps towards smoothed maximisers; all tables have primal variables."""

    stores_all = True

    def __init__(self, graph, tol, rng, gamma, lam):
        super().__init__(graph, tol, rng, lam)
        self.gamma = gamma
        self.sums = np.zeros(7)

    def one_pass(self, order, start, stop):
        """Steps on some regions."""
        room = self.room
        sdca_pass(
            self.regions, order, start, stop, self.gamma, self.lam, self.state, self.delta, room.mu,
            room.down, self.sums, room.scratch,
        )  # fmt: skip

    def report(self, maxima):
        """The smoothed primal objective and its duality gap."""
        if not self.possible:
            return Report(math.nan)
        square = self.lam * float(self.delta @ self.delta)
        primal = float(self.state.own.sum()) - 0.5 * square
        primal -= 0.5 * self.gamma * square_norm(self.regions, self.state)
        dual = smoothed_dual(self.room, self.delta, self.gamma, "l2") + 0.5 * square
        return self.known(primal, dual - primal)


def solve_sdca(graph, *, tol, max_iter, time_limit, rng, on_pass, gamma=0.1, lam=0.1):
    """Stochastic dual coordinate ascent where smoothing and penalty make all rates linear.

    The dual is L2-smoothed by `gamma` and has ``lam / 2 * |delta|^2`` added; the steps are on its
    dual, the primal whose consistency is a penalty.

    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    4 and Table 1. Shalev-Shwartz, Zhang 2014, Accelerated proximal stochastic dual coordinate
    ascent for regularized loss minimization.
    """
    require_verb(graph, "region_project", "sdca")
    gamma, lam = check_positive("gamma", gamma), check_positive("lam", lam)
    method = SDCA(graph, tol, rng, gamma, lam)
    return drive("sdca", method, tol=tol, max_iter=max_iter, on_pass=on_pass)

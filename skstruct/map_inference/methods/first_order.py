"""Gradient and accelerated gradient descent on smoothed duals."""

from __future__ import annotations

import math

import numpy as np

from ...core.arguments import check_choice, check_flag, check_real
from ...core.jit.kernels import kernel
from ..kinds.operations import region_max_marginals, require_projection
from ..regions import AT_MOST_ONE, EXACTLY_ONE
from .relaxation import SMOOTHINGS, Method, Report, l2_shift, own_scores

# Messages to start from that know of the hard constraints.


@kernel
def forbid(p, delta, forbidden, total, down, scratch):
    """Forbid configurations in all regions: messages on them would drift to infinity."""
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


# Subgradient descent on the non-smooth dual.


class Subgradient(Method):
    """Steps against the disagreement of the regions' maximisers."""

    always = True

    def __init__(self, graph, tol, rng, budget, step, lam):
        super().__init__(graph, tol, rng, budget)
        self.up = np.zeros(self.room.n_messages)
        self.lam, self.relative, self.step, self.value = lam, step, 0.0, 0.0
        if not lam:
            self.delta = hard_start(self.room)

    def one_pass(self):
        """The bound that is evaluated after each pass leaves what the next step needs."""
        np.subtract(self.up, self.room.down, out=self.up)
        self.passes += 1
        if self.lam:
            # A step of 1 / (lam t); the penalty adds lam times the messages to the subgradient.
            self.delta *= 1.0 - 1.0 / self.passes
            self.delta -= self.up / (self.lam * self.passes)
            return
        if self.passes == 1:
            # Polyak's, as if the first labels' score were the optimum.
            square, distance = float(self.up @ self.up), self.value - self.best.score
            first = 0.5 * self.room.mean_range or 1.0
            if square > 0.0 and np.isfinite(distance):
                first = distance / square
            self.step = self.relative * first
        self.up *= self.step / np.sqrt(self.passes)
        self.delta -= self.up

    def report(self, maxima):
        """The bound is the objective; where all maximisers agree it is the optimum."""
        disagreement = float(np.linalg.norm(self.up - self.room.down))
        done = "" if disagreement else "the regions' maximisers agree"
        self.value = self.regions.offset + maxima
        square = float(self.delta @ self.delta) if self.lam else 0.0
        return Report(self.value + 0.5 * self.lam * square, done=done)


def solve_subgradient(graph, *, tol, max_iter, rng, budget, step=1.0, lam=0.0):
    """Subgradient steps ``c / sqrt(t)`` on the dual; with `lam` ``1 / (lam t)`` on its L2 form.

    Komodakis, Paragios, Tziritas 2007; Meshi, Mahdavi, Schwing 2015, section 4.1 and Table 1.
    """
    step, lam = check_real("step", step, positive=True), check_real("lam", lam)
    return Subgradient(graph, tol, rng, budget, step, lam).run("subgradient", max_iter)


SEARCHES = ("bound", "search", "paper")
# The first guess of a search, relative to the constant that is proved, and how guesses move.
_FIRST_GUESS, _SHRINK, _GROW = 0.01, 0.9, 2.0
_ROUNDING = 1e-13


def lipschitz_bound(regions, gamma, smoothing, paper=False):
    """Lipschitz constant of a smoothed dual's gradient (Nesterov 2005, or that of the `paper`)."""
    p = regions
    if paper:
        each = np.diff(p.scope_ptr) if smoothing == "softmax" else np.ones(p.kind.size)
        return float(each.sum()) / gamma
    n_parents = np.diff(p.parent_ptr)
    if smoothing == "softmax":
        steepness = (n_parents + np.diff(p.slot_ptr)) / 2.0
    else:
        # A message of a child stands in as many configurations as agree with the child's.
        n = np.diff(p.slot_ptr)[p.owner]
        lengths = np.diff(p.message_ptr)
        times = p.size[p.owner] // lengths
        kinds = p.kind[p.owner]
        times = np.where(kinds == EXACTLY_ONE, np.maximum(n - 1, 1), times)
        times = np.where(kinds == AT_MOST_ONE, n, times)
        steepness = n_parents + np.bincount(p.owner, weights=times, minlength=p.kind.size)
    if p.owner.size == 0:
        return 1.0
    return float((steepness[p.owner] + steepness[p.child]).max()) / gamma


class GradientDescent(Method):
    """Steps along the disagreement of the smoothed maximisers, perhaps with momentum."""

    def __init__(self, graph, tol, rng, budget, smoothing, gamma, lam, momentum, lipschitz):
        super().__init__(graph, tol, rng, budget)
        self.smoothing, self.gamma, self.lam = smoothing, gamma, lam
        self.accelerated, self.restarts = momentum != "none", momentum == "restarted"
        self.searches = lipschitz == "search"
        if not lam:
            self.delta = hard_start(self.room)
        self.constant = lipschitz_bound(self.regions, gamma, smoothing, lipschitz == "paper")
        if self.searches:
            self.constant *= _FIRST_GUESS
        self.marginals, self.gradient = np.zeros((2, self.room.n_messages))
        # Point at which the gradient is taken; without momentum the messages themselves.
        self.point = self.delta.copy() if self.accelerated else self.delta
        self.momentum = 1.0
        self.value = self.norm = self.disagreement = math.nan
        self.known = False

    def _look(self, point):
        """Value of the objective, and the disagreement into `marginals`."""
        value = self.smoothed_dual(point, self.gamma, self.smoothing, self.marginals, check=True)
        self.passes += 1
        self.marginals -= self.room.down
        return value + (0.5 * self.lam * float(point @ point) if self.lam else 0.0)

    def _take_gradient(self, value):
        self.value = value
        self.disagreement = float(np.linalg.norm(self.marginals))
        self.gradient, self.marginals = self.marginals, self.gradient
        if self.lam:
            self.gradient += self.lam * self.point
        self.norm = float(np.linalg.norm(self.gradient))

    def one_pass(self):
        """A step, of a length that is searched for if that is asked for."""
        if not self.known:
            self._take_gradient(self._look(self.point))
        before = self.constant
        if self.searches:
            self.constant *= _SHRINK
        while True:
            step = 1.0 / (self.constant + self.lam)
            trial = self.gradient * -step
            trial += self.point
            if not self.searches:
                break
            value = self._look(trial)
            rounding = _ROUNDING * self.room.n_regions**0.5 * max(1.0, abs(self.value))
            if value <= self.value - 0.5 * step * self.norm**2 + rounding:
                break
            self.constant *= _GROW
        self._move(trial, before)
        if self.searches and not self.accelerated:
            self._take_gradient(value)
            self.known = True

    def _move(self, trial, before):
        """Go to the trial point, and beyond it by momentum."""
        if not self.accelerated:
            np.copyto(self.delta, trial)
            return
        # `delta` becomes how far the messages move, then the messages.
        moved = np.subtract(trial, self.delta, out=self.delta)
        if self.lam:
            root = math.sqrt(self.lam / (self.constant + self.lam))
            beyond = (1.0 - root) / (1.0 + root)
        else:
            if self.restarts and float(self.gradient @ moved) > 0.0:
                self.momentum = 1.0
            ratio = self.constant / before
            last, square = self.momentum, self.momentum**2
            self.momentum = 0.5 + math.sqrt(0.25 + square * ratio)
            beyond = (last - 1.0) / self.momentum
        np.multiply(moved, beyond, out=self.point)
        self.point += trial
        np.copyto(self.delta, trial)

    def report(self, maxima):
        """With `lam` the gap is ``|gradient|^2 / (2 lam)``; else the gradient's norm decides."""
        value = self.regions.offset + self.value
        if math.isnan(self.value):
            return Report(math.nan)
        shift = l2_shift(self.room, self.gamma) if self.smoothing == "l2" else 0.0
        enough = self.tol * max(1.0, abs(value))
        if self.lam:
            gap = self.norm**2 / (2.0 * self.lam)
            done = "the smoothed dual gap is below tol" if gap <= enough else ""
            return Report(value, self.disagreement, gap, done, shift)
        radius = max(1.0, float(np.linalg.norm(self.delta)))
        done = "the gradient is small" if self.norm * radius <= enough else ""
        return Report(value, self.disagreement, done=done, shift=shift)

    def beliefs(self):
        """Smoothed maximisers of the variables."""
        return self.smooth_beliefs(self.gamma, self.smoothing == "softmax")


def _solve(name, graph, tol, max_iter, rng, budget, smoothing, gamma, lam, momentum, lipschitz):
    """Gradient descent of a kind, if it can smooth a graph like this."""
    check_choice("smoothing", smoothing, SMOOTHINGS)
    check_choice("lipschitz", lipschitz, SEARCHES)
    if smoothing == "l2":
        require_projection(graph, name)
    gamma = check_real("gamma", gamma, positive=True)
    own = smoothing, gamma, lam, momentum, lipschitz
    return GradientDescent(graph, tol, rng, budget, *own).run(name, max_iter)


def solve_gradient(
    graph, *, tol, max_iter, rng, budget, smoothing="softmax", gamma=0.1, lipschitz="search"
):
    """Gradient descent on a smoothed dual (Meshi, Mahdavi, Schwing 2015, sections 3 and 4.2)."""
    own = smoothing, gamma, 0.0, "none", lipschitz
    return _solve("gradient", graph, tol, max_iter, rng, budget, *own)


def solve_accelerated_gradient(
    graph,
    *,
    tol,
    max_iter,
    rng,
    budget,
    smoothing="l2",
    gamma=0.1,
    lipschitz="search",
    restarts=True,
):
    """Accelerated gradient descent on a smoothed dual, with restarts (O'Donoghue, Candès 2015).

    Meshi, Mahdavi, Schwing 2015, sections 3 and 4.2; Savchynskyy et al. 2011.
    """
    check_flag("restarts", restarts)
    own = smoothing, gamma, 0.0, "restarted" if restarts else "plain", lipschitz
    return _solve("accelerated-gradient", graph, tol, max_iter, rng, budget, *own)


def solve_strong_gradient(
    graph, *, tol, max_iter, rng, budget, smoothing="l2", gamma=0.1, lam=0.1, lipschitz="search"
):
    """Gradient descent on a smoothed dual plus ``lam / 2 * |delta|^2`` (paper, section 4.3)."""
    own = smoothing, gamma, check_real("lam", lam, positive=True), "none", lipschitz
    return _solve("strong-gradient", graph, tol, max_iter, rng, budget, *own)


def solve_strong_accelerated(
    graph, *, tol, max_iter, rng, budget, smoothing="l2", gamma=0.1, lam=0.1, lipschitz="search"
):
    """Accelerated descent on a smoothed dual plus ``lam / 2 * |delta|^2`` (section 4.3)."""
    own = smoothing, gamma, check_real("lam", lam, positive=True), "plain", lipschitz
    return _solve("strong-accelerated", graph, tol, max_iter, rng, budget, *own)

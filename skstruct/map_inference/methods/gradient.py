"""Gradient and accelerated gradient descent on smoothed duals."""

from __future__ import annotations

import math

import numpy as np

from ..arguments import check_choice, check_positive
from ..kinds.verbs import require_verb
from ..regions import AT_MOST_ONE, EXACTLY_ONE
from .driver import Method, Report, drive
from .hard import hard_start
from .smoothed import smoothed_pieces

SMOOTHINGS = ("softmax", "l2")
SEARCHES = ("bound", "search")
# The first guess of a search, relative to the constant that is proved, and how guesses move.
_FIRST_GUESS, _SHRINK, _GROW = 0.01, 0.9, 2.0
_ROUNDING = 1e-13


def lipschitz_bound(regions, gamma, smoothing):
    """A Lipschitz constant of the gradient of a smoothed dual.

    The Hessian is a sum over regions, of each region's messages only: a message is in the terms of
    its owner and of its child.

    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    3, where it is a sum over all regions; Nesterov 2005, Smooth minimization of non-smooth
    functions, theorem 1.
    """
    p = regions
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

    def __init__(self, graph, tol, rng, smoothing, gamma, lam, accelerated, lipschitz):
        super().__init__(graph, tol, rng)
        self.smoothing, self.gamma, self.lam = smoothing, gamma, lam
        self.accelerated, self.searches = accelerated, lipschitz == "search"
        n = self.room.n_messages
        if not lam:
            self.delta = hard_start(self.room)
        self.constant = lipschitz_bound(self.regions, gamma, smoothing)
        if self.searches:
            self.constant *= _FIRST_GUESS
        self.marginals = np.zeros(n)
        self.gradient = np.zeros(n)
        # Where the gradient is taken; without momentum the messages themselves.
        self.point = self.delta.copy() if accelerated else self.delta
        self.momentum = 1.0
        self.value = self.norm = self.disagreement = math.nan
        self.known = False

    def _look(self, point):
        """Value of the objective, and the disagreement into `marginals`."""
        room = self.room
        value = yield from smoothed_pieces(room, point, self.gamma, self.smoothing, self.marginals)
        self.passes += 1
        self.marginals -= room.down
        return value + (0.5 * self.lam * float(point @ point) if self.lam else 0.0)

    def _take_gradient(self, value):
        self.value = value
        self.disagreement = float(np.linalg.norm(self.marginals))
        self.gradient, self.marginals = self.marginals, self.gradient
        if self.lam:
            self.gradient += self.lam * self.point
        self.norm = float(np.linalg.norm(self.gradient))

    def pieces(self):
        """A step, of a length that is searched for if that is asked for."""
        if not self.known:
            value = yield from self._look(self.point)
            self._take_gradient(value)
        before = self.constant
        if self.searches:
            self.constant *= _SHRINK
        while True:
            step = 1.0 / (self.constant + self.lam)
            trial = self.gradient * -step
            trial += self.point
            if not self.searches:
                break
            value = yield from self._look(trial)
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
            if float(self.gradient @ moved) > 0.0:
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
        enough = self.tol * max(1.0, abs(value))
        if self.lam:
            gap = self.norm**2 / (2.0 * self.lam)
            done = "the smoothed dual gap is below tol" if gap <= enough else ""
            return Report(value, self.disagreement, gap, done)
        radius = max(1.0, float(np.linalg.norm(self.delta)))
        done = "the gradient is small" if self.norm * radius <= enough else ""
        return Report(value, self.disagreement, done=done)

    def beliefs(self):
        """Smoothed maximisers of the variables."""
        return self.smooth_beliefs(self.gamma, self.smoothing == "softmax")


def check_smoothing(graph, name, smoothing, gamma, lipschitz):
    """The number `gamma`, if a method can smooth a graph like this."""
    check_choice("smoothing", smoothing, SMOOTHINGS)
    check_choice("lipschitz", lipschitz, SEARCHES)
    require_verb(graph, "region_soft_max" if smoothing == "softmax" else "region_project", name)
    return check_positive("gamma", gamma)


def solve_gradient(
    graph,
    *,
    tol,
    max_iter,
    time_limit,
    rng,
    on_pass,
    smoothing="softmax",
    gamma=0.1,
    lipschitz="search",
):
    """Gradient descent on a smoothed dual.

    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    3 and Table 1.
    """
    gamma = check_smoothing(graph, "gradient", smoothing, gamma, lipschitz)
    method = GradientDescent(graph, tol, rng, smoothing, gamma, 0.0, False, lipschitz)
    return drive("gradient", method, tol=tol, max_iter=max_iter, on_pass=on_pass)


def solve_accelerated_gradient(
    graph,
    *,
    tol,
    max_iter,
    time_limit,
    rng,
    on_pass,
    smoothing="l2",
    gamma=0.1,
    lipschitz="search",
):
    """Nesterov's accelerated gradient descent on a smoothed dual, with restarts.

    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    3 and Table 1. Savchynskyy et al. 2011, A study of Nesterov's scheme for Lagrangian
    decomposition and MAP labeling. O'Donoghue, Candès 2015, Adaptive restart for accelerated
    gradient schemes.
    """
    gamma = check_smoothing(graph, "accelerated-gradient", smoothing, gamma, lipschitz)
    method = GradientDescent(graph, tol, rng, smoothing, gamma, 0.0, True, lipschitz)
    return drive("accelerated-gradient", method, tol=tol, max_iter=max_iter, on_pass=on_pass)

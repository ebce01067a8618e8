"""What all relaxations share: smoothed duals, and the loop of passes, bounds and labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ...core.jit.dispatch import kernel
from ..budget import Stopped
from ..kinds.verbs import region_project, region_soft_max
from ..scoring import Incumbent
from .bounds import Room, best_labels, spread, variable_beliefs

# Smoothed duals: values, and the marginals that are their gradients.

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


# When bounds and labels are evaluated: after the first passes, then now and then.
_ALWAYS, _THEN_EVERY, _NEXT_IMPROVEMENT = 20, 5, 1.3


class Report(NamedTuple):
    """What a method knows of its own objective."""

    # Its value.
    objective: float
    # Norm of what the marginals of regions and children disagree by; NaN where there are none.
    infeasibility: float = math.nan
    # How far `objective` is from its optimum, at most; NaN where that is not known.
    dual_gap: float = math.nan
    # Why the method ends by itself, or empty.
    done: str = ""


class Method(ABC):
    """A relaxation: messages, and passes that improve them."""

    always = False
    monotone_bound = False

    def __init__(self, graph, tol, rng, budget):
        self.graph, self.tol, self.rng = graph, tol, rng
        self.regions = graph.regions
        self.room = Room(self.regions)
        self.best = Incumbent(graph.of_variables(), tol, budget)
        self.best.offer(self.best.labels)
        self.delta = np.zeros(self.room.n_messages)
        self.up = np.zeros(0)
        self.passes, self._next_improvement = 0.0, 0.0

    def begin(self):
        """Work before the first pass; False if it was stopped."""
        return True

    @abstractmethod
    def one_pass(self):
        """Improve the messages."""

    def ranges(self, pieces=None):
        """The pieces of a pass, between which the budget is asked."""
        for start, stop in self.room.pieces if pieces is None else pieces:
            yield start, stop
            self.best.check()

    def smoothed_dual(self, delta, gamma, smoothing, up=_NOTHING, check=False):
        """A smoothed dual without the offset; marginals of regions go to the room, and to `up`."""
        kernel = soft_max_pass if smoothing == "softmax" else project_pass
        p, room, totals = self.regions, self.room, np.zeros(1)
        for start, stop in self.ranges() if check else room.pieces:
            kernel(p, start, stop, delta, gamma, room.mu, room.down, up, totals, room.scratch)
        return float(totals[0])

    def report(self, maxima):
        """What is known after a bound was evaluated, a :class:`Report`; `maxima` without offset."""
        return Report(self.regions.offset + maxima)

    def labellings(self):
        """Labellings that the present state suggests."""
        labels = np.zeros(self.graph.n_variables, dtype=np.int64)
        best_labels(self.regions, self.delta, self.room.mu, labels)
        yield labels

    def beliefs(self):
        """Flat beliefs of the variables, or None."""
        return None

    def smooth_beliefs(self, gamma, entropic):
        """Beliefs of a smoothed dual."""
        out = np.zeros(self.graph.unary.size)
        variable_beliefs(self.regions, self.delta, gamma, entropic, self.room.mu, out)
        return out

    def evaluate(self, duals):
        """Bound, labels and report at the present messages; why the run is at its end, if it is."""
        best = self.best
        bound, maxima = self.room.bound(self.delta, self.up)
        if bound < best.bound and duals is not self.delta:
            np.copyto(duals, self.delta)
        labels = max(self.labellings(), key=best.offer)
        if self.passes >= self._next_improvement:
            best.improve(labels)
            self._next_improvement = 1.0 + _NEXT_IMPROVEMENT * self.passes
        known = self.report(maxima) if bound > -math.inf else Report(-math.inf)
        best.record(self.passes, bound, known.infeasibility, known.objective, known.dual_gap)
        return "the labelling is proved to be optimal" if best.is_proved else known.done

    def run(self, name, max_iter):
        """Passes until the end, a proof, the last pass, or a stop from outside; the result."""
        best, n_iter, message = self.best, 0, "the largest number of passes is reached"
        stopped = not self.begin()
        duals = self.delta if self.monotone_bound else self.delta.copy()
        end = self.evaluate(duals)
        while not (end or stopped or self.passes >= max_iter):
            n_iter += 1
            try:
                self.one_pass()
                best.share = self.passes / max_iter
                best.check()
            except Stopped:
                stopped, message = True, "stopped between passes"
            is_due = self.always or self.passes <= _ALWAYS or n_iter % _THEN_EVERY == 0
            if stopped or is_due or self.passes >= max_iter:
                end = self.evaluate(duals)
        beliefs = self.beliefs()
        if beliefs is not None:
            beliefs = np.split(np.clip(beliefs, 0.0, 1.0), self.graph.state_ptr[1:-1])
        more = {"duals": duals, "beliefs": beliefs}
        return best.result(name, end or message, n_iter, bool(end), **more)

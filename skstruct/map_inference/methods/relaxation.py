"""Base of all relaxations: bounds and labels of messages, smoothed duals, and the loop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...core.jit.kernels import inner_kernel, kernel
from ...inference.numerics import best_of
from ...inference.simplex import project
from ..budget import Stopped
from ..kinds.operations import region_max, region_project, region_soft_max
from ..kinds.scratch import region_scratch
from ..regions import CARDINALITY, TABLE, VARIABLE, score_bounds, sum_in_order
from ..scoring import Incumbent

_WORK_OF_A_PIECE = 2e7
_EPS = np.finfo(float).eps
_BLOCK = 1024
_NOTHING = np.zeros(0)
SMOOTHINGS = ("softmax", "l2")


@inner_kernel
def spread(p, r, mu, up):
    """Write the marginals of region `r` in addition to the messages that it gets."""
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        first = p.message_ptr[p.parent[at]]
        for x in range(p.size[r]):
            up[first + x] = mu[x]


@inner_kernel
def _size_of_terms(p, r, delta, mu, down):
    """Sum of the messages' absolute values that the maximum of region `r` was rounded with."""
    total = 0.0
    for k in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        # Counts begin with all variables off, whatever is on in the end.
        total += abs(delta[k]) * (down[k] if p.kind[r] != CARDINALITY else 1.0)
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        first = p.message_ptr[p.parent[at]]
        for x in range(p.size[r]):
            total += abs(delta[first + x]) * mu[x]
    return total


@kernel
def max_pass(p, start, stop, delta, mu, down, up, totals, scratch):
    """Add up the maxima of some regions, and what they were rounded with."""
    block, rounded = 0.0, 0.0
    for r in range(start, stop):
        value = region_max(p, r, delta, mu, down, scratch)
        block += value
        rounded += abs(value) + _size_of_terms(p, r, delta, mu, down)
        if up.shape[0] > 0:
            spread(p, r, mu, up)
        if (r - start) % _BLOCK == _BLOCK - 1:
            totals[0] += block
            totals[1] += rounded
            block, rounded = 0.0, 0.0
    totals[0] += block
    totals[1] += rounded


@inner_kernel
def own_scores(p, r, delta, out):
    """Write the scores of a variable or pair minus the messages to its own children."""
    first = p.score_ptr[r]
    if p.kind[r] == VARIABLE:
        for x in range(p.size[r]):
            out[x] = p.scores[first + x]
        return
    slot = p.slot_ptr[r]
    to_i, to_j = p.message_ptr[slot], p.message_ptr[slot + 1]
    n_j = p.message_ptr[slot + 2] - to_j
    for x in range(p.size[r]):
        i, j = x // n_j, x % n_j
        score = 0.0
        if p.kind[r] == TABLE:
            score = p.scores[first + x]
        elif i == j:
            score = p.scores[first]
        out[x] = score - delta[to_i + i] - delta[to_j + j]


@inner_kernel
def hat_scores(p, r, delta, out):
    """Reparametrised scores of a variable or pair."""
    own_scores(p, r, delta, out)
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        first = p.message_ptr[p.parent[at]]
        for x in range(p.size[r]):
            out[x] += delta[first + x]


@kernel
def best_labels(p, delta, mu, labels):
    """The label of each variable whose reparametrised score is largest."""
    for v in range(p.n_variables):
        hat_scores(p, v, delta, mu)
        labels[v] = best_of(mu, p.size[v])


@kernel
def variable_beliefs(p, delta, gamma, entropic, mu, out):
    """Smoothed maximisers of the variables' reparametrised scores."""
    at = 0
    for v in range(p.n_variables):
        n = p.size[v]
        hat_scores(p, v, delta, mu)
        top = -math.inf
        for x in range(n):
            mu[x] /= gamma
            top = max(top, mu[x])
        if top == -math.inf:
            for x in range(n):
                mu[x] = 0.0
        elif entropic:
            total = 0.0
            for x in range(n):
                mu[x] = math.exp(mu[x] - top)
                total += mu[x]
            for x in range(n):
                mu[x] /= total
        else:
            project(mu, n)
        for x in range(n):
            out[at + x] = mu[x]
        at += n


class Room:
    """Arrays that passes over the regions of a graph work in."""

    def __init__(self, regions):
        p = self.regions = regions
        self.n_messages = int(p.message_ptr[-1])
        self.n_regions = p.kind.size
        self.mu = np.zeros(int(p.size.max(initial=1)))
        self.down = np.zeros(self.n_messages)
        self.scratch = region_scratch(p)
        own = np.diff(p.message_ptr[p.slot_ptr])
        self.work = p.size * (1 + np.diff(p.parent_ptr)) + own + 10
        self.pieces = pieces(self.work)
        bounds = np.array(score_bounds(p))
        low, high = bounds[:, bounds[0] <= bounds[1]]
        ranges = sum_in_order(high - low)
        self.mean_range = ranges / max(1, self.n_regions)
        self.forbidden = -2.0 * ranges - (float(np.abs([low, high]).max(initial=0.0)) or 1.0)
        self.lowest = p.offset + sum_in_order(low)

    def bound(self, delta, up=_NOTHING):
        """The non-smooth dual as a bound (Meshi et al. 2015, eq. 2), and the sum of maxima."""
        totals = np.zeros(2)
        for start, stop in self.pieces:
            max_pass(self.regions, start, stop, delta, self.mu, self.down, up, totals, self.scratch)
        if totals[0] == -math.inf:
            return -math.inf, -math.inf
        n_sums = min(self.n_regions, _BLOCK) + self.n_regions / _BLOCK + 4
        slack = _EPS * n_sums * (totals[1] + abs(self.regions.offset))
        bound = self.regions.offset + totals[0] + slack
        impossible = not bound >= self.lowest - 1e-9 * (abs(self.lowest) - self.forbidden)
        return -math.inf if impossible else bound, float(totals[0])


def pieces(work):
    """Ranges of items of this work, cut so that Python runs every half second."""
    ends = np.cumsum(work)
    total = float(ends[-1]) if ends.size else 0.0
    n_pieces = max(1, math.ceil(total / _WORK_OF_A_PIECE))
    inner = np.searchsorted(ends, np.arange(1, n_pieces) * (total / n_pieces))
    return [*pairwise(np.unique([0, *inner, ends.size]).tolist())]


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
    """Report of a method on its own objective."""

    # Its value.
    objective: float
    # Norm of the disagreement of regions' and children's marginals; NaN without marginals.
    infeasibility: float = math.nan
    # Bound on the distance of `objective` from its optimum; NaN where that is not known.
    dual_gap: float = math.nan
    # Why the method ends by itself, or empty.
    done: str = ""
    # What an L2 term took off the objective at most.
    shift: float = 0.0


def l2_shift(room, gamma):
    """Most that an L2 term in the primal lowers it (Meshi, Mahdavi, Schwing 2015, section 4.2)."""
    return 0.5 * gamma * room.n_regions


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
        """The pieces of a pass, between which the budget is checked."""
        for start, stop in self.room.pieces if pieces is None else pieces:
            yield start, stop
            self._check()

    def _check(self):
        self.best.share = self.passes / self.max_iter
        self.best.check()

    def smoothed_dual(self, delta, gamma, smoothing, up=_NOTHING, check=False):
        """A smoothed dual without the offset; marginals of regions go to the room, and to `up`."""
        one_pass = soft_max_pass if smoothing == "softmax" else project_pass
        p, room, totals = self.regions, self.room, np.zeros(1)
        for start, stop in self.ranges() if check else room.pieces:
            one_pass(p, start, stop, delta, gamma, room.mu, room.down, up, totals, room.scratch)
        return float(totals[0])

    def report(self, maxima):
        """Return a :class:`Report` after a bound was evaluated; `maxima` is without offset."""
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
        """Bound, labels and report at the present messages; the reason to stop, if there is one."""
        best = self.best
        bound, maxima = self.room.bound(self.delta, self.up)
        if bound < best.bound and duals is not self.delta:
            np.copyto(duals, self.delta)
        labels = max(self.labellings(), key=best.offer)
        if self.passes >= self._next_improvement:
            best.improve(labels)
            self._next_improvement = 1.0 + _NEXT_IMPROVEMENT * self.passes
        known = self.report(maxima) if bound > -math.inf else Report(-math.inf)
        own = known.objective, known.dual_gap, known.objective + known.shift
        best.record(self.passes, bound, known.infeasibility, *own)
        return "the labelling is proved to be optimal" if best.is_proved else known.done

    def run(self, name, max_iter):
        """Passes until the end, a proof, the last pass, or a stop from outside; the result."""
        best, n_iter, message = self.best, 0, "the largest number of passes is reached"
        self.max_iter = max_iter
        stopped = not self.begin()
        duals = self.delta if self.monotone_bound else self.delta.copy()
        end = self.evaluate(duals)
        while not (end or stopped or self.passes >= max_iter):
            n_iter += 1
            try:
                self.one_pass()
                self._check()
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

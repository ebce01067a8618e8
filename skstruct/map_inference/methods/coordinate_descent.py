"""Coordinate descent on the dual: all messages into a region, or out of a large one, at once."""

from __future__ import annotations

import math

import numpy as np

from ...core.jit.dispatch import inner_kernel, kernel
from ...inference.numerics import fast_exp
from ..arguments import check_positive
from ..kinds.table import collect_columns, collect_potts, collect_rows
from ..kinds.verbs import region_max_marginals, region_soft_marginals
from ..regions import POTTS, TABLE
from .relaxation import Method, Report, hat_scores, own_scores, pieces

# A region with more slots is updated as a whole: once for each slot would cost their square.
_MOST_SLOTS = 4
_STALLED, _PATIENCE = 1e-3, 5
_LOWEST = -1e300


@inner_kernel
def _is_plain_pair(p, q):
    """Return whether a region is a pairwise factor that is in no other."""
    arity = p.scope_ptr[q + 1] - p.scope_ptr[q]
    return p.kind[q] <= POTTS and arity == 2 and p.parent_ptr[q + 1] == p.parent_ptr[q]


@inner_kernel
def _pair_max(p, s, delta):
    """Max-marginals of a plain pair without its message to slot `s`, written there."""
    q = p.owner[s]
    first, begin = p.slot_ptr[q], p.score_ptr[q]
    other = 2 * first + 1 - s
    to, by = p.message_ptr[s], p.message_ptr[other]
    n, m = p.message_ptr[s + 1] - to, p.message_ptr[other + 1] - by
    messages, out = delta[by : by + m], delta[to : to + n]
    if p.kind[q] == POTTS:
        collect_potts(p.scores[begin], n, m, messages, out, -math.inf)
    elif s == first:
        collect_columns(p.scores, begin, n, m, messages, out, -math.inf)
    else:
        collect_rows(p.scores, begin, m, n, messages, out, -math.inf)


@inner_kernel
def _pair_soft_max(p, s, delta, gamma, sums):
    """Soft-max-marginals of a plain table without its message to slot `s`, written there."""
    q = p.owner[s]
    first = p.slot_ptr[q]
    other = 2 * first + 1 - s
    to, by = p.message_ptr[s], p.message_ptr[other]
    n, m = p.message_ptr[s + 1] - to, p.message_ptr[other + 1] - by
    inverse = 1.0 / gamma
    _pair_max(p, s, delta)
    scores = p.scores[p.score_ptr[q] : p.score_ptr[q] + n * m]
    messages, tops, out = delta[by : by + m], delta[to : to + n], sums[to : to + n]
    # Where nothing is possible all exponentials are 0 relative to any finite number. Differences
    # from the top are 0 at most, and one is 0, but for roundings that large scores magnify.
    if s == first:
        for i in range(n):
            row, top, total = scores[i * m : i * m + m], max(tops[i], _LOWEST), 0.0
            for j in range(m):
                total += fast_exp(min((row[j] - messages[j] - top) * inverse, 0.0))
            out[i] = total
    else:
        for i in range(n):
            out[i] = 0.0
        for j in range(m):
            row, message = scores[j * n : j * n + n], messages[j]
            for i in range(n):
                below = row[i] - message - max(tops[i], _LOWEST)
                out[i] += fast_exp(min(below * inverse, 0.0))
    for i in range(n):
        if delta[to + i] > -math.inf:
            delta[to + i] += gamma * math.log(max(sums[to + i], 1.0))


@inner_kernel
def _clip(values, start, n, forbidden):
    """Keep messages finite: nothing is lower than `forbidden` below the largest."""
    top = -math.inf
    for x in range(n):
        top = max(top, values[start + x])
    low = forbidden if top == -math.inf else top + forbidden
    for x in range(n):
        values[start + x] = max(values[start + x], low)


@inner_kernel
def _begin_star(p, r, is_wide, delta, total, forbidden):
    """Write the scores of region `r` with the messages from large parents."""
    own_scores(p, r, delta, total)
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        s = p.parent[at]
        if is_wide[p.owner[s]] == 1:
            for x in range(p.size[r]):
                total[x] += delta[p.message_ptr[s] + x]
    _clip(total, 0, p.size[r], forbidden)


@inner_kernel
def _take(p, s, delta, total, forbidden):
    """Add the marginals in slot `s` to `total`."""
    first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
    _clip(delta, first, n, forbidden)
    for x in range(n):
        total[x] += delta[first + x]


@inner_kernel
def _add_back(p, s, delta, down):
    """Marginals in `down` without the message in slot `s`, written there."""
    for k in range(p.message_ptr[s], p.message_ptr[s + 1]):
        delta[k] += down[k]


@inner_kernel
def _share(p, r, is_wide, delta, total):
    """Give region `r` and its parents equal shares of the sum of their marginals."""
    count = 1
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        count += 1 - is_wide[p.owner[p.parent[at]]]
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        s = p.parent[at]
        if is_wide[p.owner[s]] == 0:
            first = p.message_ptr[s]
            for x in range(p.size[r]):
                delta[first + x] -= total[x] / count


@inner_kernel
def _give_all(p, q, delta, total, forbidden):
    """Move all scores of the children of region `q` into it."""
    for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
        hat_scores(p, p.child[s], delta, total)
        first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
        _clip(total, 0, n, forbidden)
        for x in range(n):
            delta[first + x] -= total[x]


@inner_kernel
def _give_back(p, q, delta, down, forbidden):
    """Give each child of region `q` an equal share of its max-marginals."""
    n_slots = p.slot_ptr[q + 1] - p.slot_ptr[q]
    for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
        first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
        _clip(down, first, n, forbidden)
        for x in range(n):
            delta[first + x] += down[first + x] / (n_slots + 1)


@inner_kernel
def _even_out(p, q, delta, total, down, forbidden):
    """The mean of the exact updates of single messages of region `q`, a convex combination."""
    n_slots = p.slot_ptr[q + 1] - p.slot_ptr[q]
    for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
        hat_scores(p, p.child[s], delta, total)
        first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
        _clip(total, 0, n, forbidden)
        _clip(down, first, n, forbidden)
        for x in range(n):
            delta[first + x] += (down[first + x] - total[x]) / (n_slots + 1)


@kernel
def max_star_pass(p, order, start, stop, is_wide, delta, forbidden, total, down, scratch):
    """Blocks of the non-smooth dual: messages into a region, or all those of a large one."""
    for k in range(start, stop):
        r = order[k]
        if is_wide[r] == 1:
            _give_all(p, r, delta, total, forbidden)
            region_max_marginals(p, r, delta, down, scratch)
            _give_back(p, r, delta, down, forbidden)
            continue
        _begin_star(p, r, is_wide, delta, total, forbidden)
        for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            s = p.parent[at]
            q = p.owner[s]
            if is_wide[q] == 0:
                if _is_plain_pair(p, q):
                    _pair_max(p, s, delta)
                else:
                    region_max_marginals(p, q, delta, down, scratch)
                    _add_back(p, s, delta, down)
                _take(p, s, delta, total, forbidden)
        _share(p, r, is_wide, delta, total)


@kernel
def soft_star_pass(p, order, start, stop, is_wide, delta, gamma, forbidden, total, down, scratch):
    """Blocks of the soft-max dual: messages into a region, or a step for those of a large one."""
    for k in range(start, stop):
        r = order[k]
        if is_wide[r] == 1:
            region_soft_marginals(p, r, delta, gamma, down, scratch)
            _even_out(p, r, delta, total, down, forbidden)
            continue
        _begin_star(p, r, is_wide, delta, total, forbidden)
        for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            s = p.parent[at]
            q = p.owner[s]
            if is_wide[q] == 0:
                if _is_plain_pair(p, q) and p.kind[q] == TABLE:
                    _pair_soft_max(p, s, delta, gamma, down)
                else:
                    region_soft_marginals(p, q, delta, gamma, down, scratch)
                    _add_back(p, s, delta, down)
                _take(p, s, delta, total, forbidden)
        _share(p, r, is_wide, delta, total)


class CoordinateDescent(Method):
    """Sweeps of star updates, there and back, and updates of large regions as wholes."""

    def __init__(self, graph, tol, rng, budget, smoothing):
        super().__init__(graph, tol, rng, budget)
        p, self.gamma = self.regions, smoothing
        self.monotone_bound = smoothing == 0
        self.is_wide = (np.diff(p.slot_ptr) > _MOST_SLOTS).astype(np.uint8)
        in_narrow = self.is_wide[p.owner] == 0
        is_updated = np.bincount(p.child[in_narrow], minlength=p.kind.size) + self.is_wide > 0
        self.order = np.flatnonzero(is_updated)
        visits = np.bincount(p.child, weights=self.room.work[p.owner], minlength=p.kind.size)
        # A visit of a cardinality factor may cost the square of its variables.
        visits = visits + self.is_wide * np.diff(p.slot_ptr).astype(float) ** 2
        self.pieces = pieces(visits[self.order])
        self.total = np.zeros(self.room.mu.size)
        self.last, self.stalled, self.n_sweeps = math.inf, 0, 0

    def one_pass(self):
        """A sweep, in the opposite direction of the last one."""
        order = self.order if self.n_sweeps % 2 == 0 else self.order[::-1].copy()
        self.n_sweeps += 1
        room = self.room
        one_pass, own = (soft_star_pass, (self.gamma,)) if self.gamma else (max_star_pass, ())
        for start, stop in self.ranges(self.pieces):
            one_pass(
                self.regions, order, start, stop, self.is_wide, self.delta, *own, room.forbidden,
                self.total, room.down, room.scratch,
            )  # fmt: skip
        self.passes += 1

    def report(self, maxima):
        """It ends where the objective no longer falls: at the optimum, or where it is stuck."""
        value = self.smoothed_dual(self.delta, self.gamma, "softmax") if self.gamma else maxima
        value += self.regions.offset
        fall = self.last - value
        self.last = value
        self.stalled = 0 if fall > _STALLED * self.tol * max(1.0, abs(value)) else self.stalled + 1
        done = "the objective no longer falls" if self.stalled >= _PATIENCE else ""
        return Report(value, done=done)

    def beliefs(self):
        """Marginals of the smoothed relaxation."""
        return self.smooth_beliefs(self.gamma, True) if self.gamma else None


def solve_coordinate_descent(graph, *, tol, max_iter, rng, budget, smoothing=0.0):
    """Block coordinate descent on the dual by star updates (MPLP), non-smooth or soft-max.

    Every region that is contained in others gets all its messages at once; regions with more than
    four slots send all theirs at once. Each update lowers the objective. The non-smooth one may be
    stuck above the relaxation's optimum, the smoothed one reaches its own.

    Globerson, Jaakkola 2007, Fixing max-product: convergent message passing algorithms for MAP
    LP-relaxations. Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear
    Convergence, Table 1.
    """
    smoothing = check_positive("smoothing", smoothing, zero=True)
    method = CoordinateDescent(graph, tol, rng, budget, smoothing)
    return method.run("coordinate-descent", max_iter)


# Soft-max coordinate descent whose smoothing decreases until it no longer matters.

# The smoothing is halved when what is left to gain is estimated to be below this share of its cost.
_SHARE = 0.5


class DecreasingSmoothing(CoordinateDescent):
    """Halves the smoothing once what is left to gain at the present one is small."""

    def __init__(self, graph, tol, rng, budget, gamma):
        super().__init__(graph, tol, rng, budget, gamma or 1.0)
        if gamma is None:
            self.gamma = 0.1 * self.room.mean_range or 1.0
        self.up = np.zeros(self.room.n_messages)

    def report(self, maxima):
        """Compare the fall of the smoothed dual with its distance from the non-smooth one."""
        bound = self.regions.offset + maxima
        value = self.smoothed_dual(self.delta, self.gamma, "softmax", self.up)
        value += self.regions.offset
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


def solve_decreasing_smoothing(graph, *, tol, max_iter, rng, budget, gamma=None):
    """Soft-max coordinate descent with a smoothing that is halved until it is below `tol`.

    Savchynskyy, Schmidt, Kappes, Schnörr 2012, Efficient MRF energy minimization via adaptive
    diminishing smoothing. Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with
    Linear Convergence, Table 1.
    """
    if gamma is not None:
        gamma = check_positive("gamma", gamma)
    method = DecreasingSmoothing(graph, tol, rng, budget, gamma)
    return method.run("decreasing-smoothing", max_iter)

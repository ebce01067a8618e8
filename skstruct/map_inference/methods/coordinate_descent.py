"""Coordinate descent on the dual: all messages into a region, or out of a large one, at once."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...inference.numerics import fast_exp
from ..kinds.verbs import region_max_marginals, region_soft_marginals
from ..regions import POTTS, TABLE
from .bounds import cut, hat_scores, own_scores
from .driver import Method, Report, check_positive, drive
from .smoothed import smoothed_dual

# A region with more slots is updated as a whole: once for each slot would cost their square.
_MOST_SLOTS = 4
_STALLED, _PATIENCE = 1e-3, 5


@inner_kernel
def _pair_score(p, q, x):
    """Score of configuration `x` of a table, or of the diagonal of a Potts factor."""
    return p.scores[p.score_ptr[q] + (x if p.kind[q] == TABLE else 0)]


@inner_kernel
def _is_plain_pair(p, q):
    """Whether a region is a pairwise factor that is in no other."""
    arity = p.scope_ptr[q + 1] - p.scope_ptr[q]
    return p.kind[q] <= POTTS and arity == 2 and p.parent_ptr[q + 1] == p.parent_ptr[q]


@inner_kernel
def _pair_max(p, s, delta):
    """Max-marginals of a plain pair without what it tells slot `s`, written there."""
    q = p.owner[s]
    first = p.slot_ptr[q]
    other = 2 * first + 1 - s
    to, by = p.message_ptr[s], p.message_ptr[other]
    n, m = p.message_ptr[s + 1] - to, p.message_ptr[other + 1] - by
    if p.kind[q] == POTTS:
        weight, best, second, at = p.scores[p.score_ptr[q]], -math.inf, -math.inf, 0
        for j in range(m):
            score = -delta[by + j]
            if score > best:
                best, second, at = score, best, j
            elif score > second:
                second = score
        for i in range(n):
            unequal = second if i == at else best
            equal = weight - delta[by + i] if i < m else -math.inf
            delta[to + i] = max(equal, unequal)
        return
    step, other_step = (m, 1) if s == first else (1, n)
    for i in range(n):
        at, best = p.score_ptr[q] + i * step, -math.inf
        for j in range(m):
            best = max(best, p.scores[at + j * other_step] - delta[by + j])
        delta[to + i] = best


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
def _take(p, s, delta, down, total, forbidden):
    """Replace the message in slot `s` by the marginals without it, and add these to `total`."""
    first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
    if not _is_plain_pair(p, p.owner[s]):
        for x in range(n):
            delta[first + x] += down[first + x]
    _clip(delta, first, n, forbidden)
    for x in range(n):
        total[x] += delta[first + x]


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
def _begin_star(p, r, is_wide, delta, total, forbidden):
    """Scores of region `r` with what large parents tell it."""
    own_scores(p, r, delta, total)
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        s = p.parent[at]
        if is_wide[p.owner[s]] == 1:
            for x in range(p.size[r]):
                total[x] += delta[p.message_ptr[s] + x]
    _clip(total, 0, p.size[r], forbidden)


@kernel
def max_star_pass(p, order, start, stop, is_wide, delta, forbidden, total, down, scratch):
    """Star updates of some regions by max-marginals: blocks of the non-smooth dual.

    Parameters
    ----------
    p : Regions
        The regions.
    order : ndarray of int64
        The regions in the order of the updates.
    start, stop : int
        Which of them.
    is_wide : ndarray of shape (n_regions,) of uint8
        Parents whose messages are left alone.
    delta : ndarray
        The messages, updated.
    forbidden : float
        What stands for -inf, relative to the largest entry of a message.
    total : ndarray
        Room for the scores of a region.
    down : ndarray of the shape of `delta`
        Room for max-marginals.
    scratch : NamedTuple
        See :func:`~skstruct.map_inference.kinds.region_scratch`.
    """
    for k in range(start, stop):
        r = order[k]
        _begin_star(p, r, is_wide, delta, total, forbidden)
        for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            s = p.parent[at]
            q = p.owner[s]
            if is_wide[q] == 0:
                if _is_plain_pair(p, q):
                    _pair_max(p, s, delta)
                else:
                    region_max_marginals(p, q, delta, down, scratch)
                _take(p, s, delta, down, total, forbidden)
        _share(p, r, is_wide, delta, total)


@inner_kernel
def _pair_soft_max(p, s, delta, gamma):
    """Soft-max-marginals of a plain pair without what it tells slot `s`, written there."""
    q = p.owner[s]
    first = p.slot_ptr[q]
    other = 2 * first + 1 - s
    to, by = p.message_ptr[s], p.message_ptr[other]
    n, m = p.message_ptr[s + 1] - to, p.message_ptr[other + 1] - by
    step, other_step = (m, 1) if s == first else (1, n)
    is_table = p.kind[q] == TABLE
    for i in range(n):
        top, total = -math.inf, 0.0
        for j in range(m):
            score = _pair_score(p, q, i * step + j * other_step) if is_table or i == j else 0.0
            top = max(top, score - delta[by + j])
        if top > -math.inf:
            for j in range(m):
                score = _pair_score(p, q, i * step + j * other_step) if is_table or i == j else 0.0
                total += fast_exp((score - delta[by + j] - top) / gamma)
            top += gamma * math.log(total)
        delta[to + i] = top


@kernel
def soft_star_pass(p, order, start, stop, is_wide, delta, gamma, forbidden, total, down, scratch):
    """Star updates by soft-max-marginals: exact blocks of the soft-max dual.

    Parameters
    ----------
    p, order, start, stop, is_wide, delta, forbidden, total, down, scratch
        As for :func:`max_star_pass`.
    gamma : float
        The smoothing, positive.
    """
    for k in range(start, stop):
        r = order[k]
        _begin_star(p, r, is_wide, delta, total, forbidden)
        for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            s = p.parent[at]
            q = p.owner[s]
            if is_wide[q] == 0:
                if _is_plain_pair(p, q):
                    _pair_soft_max(p, s, delta, gamma)
                else:
                    region_soft_marginals(p, q, delta, gamma, down, scratch)
                _take(p, s, delta, down, total, forbidden)
        _share(p, r, is_wide, delta, total)


@kernel
def max_wide_pass(p, wide, start, stop, delta, forbidden, total, down, scratch):
    """All messages out of some large regions at once: blocks of the non-smooth dual.

    Parameters
    ----------
    p, start, stop, delta, forbidden, total, down, scratch
        As for :func:`max_star_pass`.
    wide : ndarray of int64
        The regions.
    """
    for k in range(start, stop):
        q = wide[k]
        n_slots = p.slot_ptr[q + 1] - p.slot_ptr[q]
        # Everything goes into the region first, then each child gets its share of the marginals.
        for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
            hat_scores(p, p.child[s], delta, total)
            first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
            _clip(total, 0, n, forbidden)
            for x in range(n):
                delta[first + x] -= total[x]
        region_max_marginals(p, q, delta, down, scratch)
        for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
            first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
            _clip(down, first, n, forbidden)
            for x in range(n):
                delta[first + x] += down[first + x] / (n_slots + 1)


@kernel
def soft_wide_pass(p, wide, start, stop, delta, gamma, forbidden, total, down, scratch):
    """All messages out of some large regions, a step that decreases the soft-max dual.

    It is the mean of the exact updates of single messages, whose steps are convex combinations.

    Parameters
    ----------
    p, wide, start, stop, delta, forbidden, total, down, scratch
        As for :func:`max_wide_pass`.
    gamma : float
        The smoothing, positive.
    """
    for k in range(start, stop):
        q = wide[k]
        n_slots = p.slot_ptr[q + 1] - p.slot_ptr[q]
        region_soft_marginals(p, q, delta, gamma, down, scratch)
        for s in range(p.slot_ptr[q], p.slot_ptr[q + 1]):
            hat_scores(p, p.child[s], delta, total)
            first, n = p.message_ptr[s], p.message_ptr[s + 1] - p.message_ptr[s]
            _clip(total, 0, n, forbidden)
            _clip(down, first, n, forbidden)
            for x in range(n):
                delta[first + x] += (down[first + x] - total[x]) / (n_slots + 1)


class CoordinateDescent(Method):
    """Sweeps of star updates, there and back, and updates of large regions as wholes."""

    def __init__(self, graph, tol, rng, smoothing):
        super().__init__(graph, tol, rng)
        p, self.gamma = self.regions, smoothing
        self.monotone_bound = smoothing == 0
        self.is_wide = (np.diff(p.slot_ptr) > _MOST_SLOTS).astype(np.uint8)
        self.wide = np.flatnonzero(self.is_wide)
        in_narrow = self.is_wide[p.owner] == 0
        self.order = np.flatnonzero(np.bincount(p.child[in_narrow], minlength=p.kind.size))
        visits = np.bincount(p.child, weights=self.room.work[p.owner], minlength=p.kind.size)
        self.cuts = cut(visits[self.order])
        # A visit of a cardinality factor may cost the square of its variables.
        self.wide_cuts = cut(np.diff(p.slot_ptr)[self.wide] ** 2)
        self.total = np.zeros(self.room.mu.size)
        self.last, self.stalled = math.inf, 0

    def pieces(self):
        """A sweep, in the opposite direction of the last one."""
        order = self.order if int(self.passes) % 2 == 0 else self.order[::-1].copy()
        room = self.room
        common = self.delta, *((self.gamma,) if self.gamma else ()), room.forbidden
        star, wide = (
            (soft_star_pass, soft_wide_pass) if self.gamma else (max_star_pass, max_wide_pass)
        )
        buffers = self.total, room.down, room.scratch
        for start, stop in pairwise(self.cuts):
            star(self.regions, order, start, stop, self.is_wide, *common, *buffers)
            yield
        for start, stop in pairwise(self.wide_cuts):
            wide(self.regions, self.wide, start, stop, *common, *buffers)
            yield
        self.passes += 1

    def objective(self, maxima):
        """The dual that is minimised, with the offset."""
        if not self.gamma:
            return self.regions.offset + maxima
        return self.regions.offset + smoothed_dual(self.room, self.delta, self.gamma)

    def report(self, maxima):
        """It ends where the objective no longer falls: at the optimum, or where it is stuck."""
        value = self.objective(maxima)
        fall = self.last - value
        self.last = value
        self.stalled = 0 if fall > _STALLED * self.tol * max(1.0, abs(value)) else self.stalled + 1
        done = "the objective no longer falls" if self.stalled >= _PATIENCE else ""
        return Report(value, done=done)

    def beliefs(self):
        """Marginals of the smoothed relaxation."""
        return self.smooth_beliefs(self.gamma, True) if self.gamma else None


def solve_coordinate_descent(graph, *, tol, max_iter, time_limit, rng, on_pass, smoothing=0.0):
    """Block coordinate descent on the dual by star updates (MPLP), non-smooth or soft-max.

    Every region that is contained in others gets all its messages at once; regions with more than
    four slots send all theirs at once. Each update lowers the objective. The non-smooth one may be
    stuck above the relaxation's optimum, the smoothed one reaches its own.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    tol : float
        Relative gap that proves a labelling optimal; a thousandth of it is no progress.
    max_iter : int
        Largest number of passes.
    time_limit : float or None
        Seconds; `on_pass` looks after it.
    rng : numpy.random.Generator
        Not used.
    on_pass : callable or None
        Called between pieces of passes; returns True to stop.
    smoothing : float, default=0.0
        Temperature of the soft-max, at least 0. The smoothed optimum is above the relaxation's by
        at most `smoothing` times the sum of the logarithms of the regions' configurations.

    Returns
    -------
    MAPResult
        With the duals of the best bound.

    Raises
    ------
    TypeError, ValueError
        If `smoothing` is negative or no number.

    References
    ----------
    Globerson, Jaakkola 2007, Fixing max-product: convergent message passing algorithms for MAP
    LP-relaxations. Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear
    Convergence, Table 1.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Potts, solve_map
    >>> graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    >>> solve_map(graph, "coordinate-descent").optimal
    True
    """
    smoothing = check_positive("smoothing", smoothing, zero=True)
    method = CoordinateDescent(graph, tol, rng, smoothing)
    return drive("coordinate-descent", method, tol=tol, max_iter=max_iter, on_pass=on_pass)

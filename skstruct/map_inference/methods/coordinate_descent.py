"""Coordinate descent on the dual: all messages into a region, or out of a large one, at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.arguments import check_choice, check_real
from ...core.jit.kernels import inner_kernel, kernel
from ...inference.numerics import fast_exp
from ..kinds.implicit import sort_down
from ..kinds.operations import refuse_kinds, region_max_marginals, region_soft_marginals
from ..kinds.table import children_of, collect_columns, collect_potts, collect_rows, fill_hat
from ..regions import CARDINALITY, OR, POTTS, TABLE
from .relaxation import SMOOTHINGS, Method, Report, hat_scores, l2_shift, own_scores, pieces

# A region with more slots is updated as a whole: once for each slot would cost their square.
_MOST_SLOTS = 4
_STALLED, _PATIENCE = 1e-3, 5
_LOWEST = -1e300
_EPS = float(np.finfo(float).eps)
# Newton's method ends at the piece of the root, after a few steps.
_MOST_NEWTON = 200


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


# Stars of the L2-smoothed dual. Given the marginals m of its region a star falls apart into the
# parents' groups of configurations that agree with one of the region: their scores v above a
# threshold t have the marginals (v - t) / gamma, which sum to m. So t is convex, falling and
# piecewise linear in m, and the marginals of the region are those at which its own score, less
# gamma m, and all thresholds sum to one number, whose equation is of that kind, too.


class Star(NamedTuple):
    """Room for one star."""

    # (size,): Marginals of the region.
    masses: np.ndarray
    # (groups,): How many scores each group has, by parents, then configurations.
    counts: np.ndarray
    # (scores of all parents,): Each group's, the largest first, and sums up to each.
    values: np.ndarray
    sums: np.ndarray
    # (largest parent,): The group of each score, the largest score of each group and then the level
    # of each mass of 0, room for sorting.
    group: np.ndarray
    tops: np.ndarray
    order: np.ndarray
    spare: np.ndarray
    spare_order: np.ndarray


def _star(p):
    """Room for the stars of a graph."""
    most = int(p.size.max(initial=0))
    entries = np.bincount(p.child, weights=p.size[p.owner], minlength=p.kind.size)
    values, sums = np.zeros((2, int(entries.max(initial=0))))
    counts = np.zeros(int((p.size * np.diff(p.parent_ptr)).max(initial=0)), dtype=np.int64)
    masses, tops, spare = np.zeros((3, most))
    group, order, spare_order = np.zeros((3, most), dtype=np.int64)
    return Star(masses, counts, values, sums, group, tops, order, spare, spare_order)


@inner_kernel
def _sort_group(star, start, n):
    """Sort a group of scores, with their sums."""
    for j in range(n):
        star.order[j] = j
    sort_down(star.values[start : start + n], star.order, star.spare, star.spare_order, n)
    total = 0.0
    for j in range(start, start + n):
        total += star.values[j]
        star.sums[j] = total


@inner_kernel
def _threshold(star, start, count, mass):
    """The threshold that a sorted group exceeds by `mass` in all, and how many entries do."""
    low, high = 1, count
    while low < high:
        j = (low + high) // 2
        if star.sums[start + j - 1] - j * star.values[start + j] > mass:
            high = j
        else:
            low = j + 1
    return (star.sums[start + low - 1] - mass) / low, low


@inner_kernel
def _find_groups(p, q, slot, each, group, scratch):
    """Write which configuration of a child each one of region `q` agrees with."""
    if p.scope_ptr[q + 1] - p.scope_ptr[q] > 2:
        for e in range(p.size[q]):
            children_of(p, q, e, scratch.base)
            group[e] = scratch.base[slot]
        return
    n_rows = each if slot == 1 else p.size[q] // each
    n_columns = p.size[q] // n_rows
    for i in range(n_rows):
        for j in range(n_columns):
            group[i * n_columns + j] = i if slot == 0 else j


@inner_kernel
def _collect_star(p, r, delta, gamma, star, total, scratch):
    """Write sorted scores of the parents' groups without messages to region `r`, within `gamma`."""
    n, start, first = p.size[r], 0, 0
    own_scores(p, r, delta, total)
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        s = p.parent[at]
        q, slot, m = p.owner[s], s - p.slot_ptr[p.owner[s]], p.message_ptr[s]
        each = p.size[q] // n
        fill_hat(p, q, delta, scratch.hat, scratch)
        _find_groups(p, q, slot, each, star.group, scratch)
        for x in range(n):
            star.counts[first + x], star.tops[x] = 0, -math.inf
        for e in range(p.size[q]):
            x = star.group[e]
            star.tops[x] = max(star.tops[x], scratch.hat[e])
        for e in range(p.size[q]):
            x, value = star.group[e], scratch.hat[e]
            if value > -math.inf and value >= star.tops[x] - gamma:
                star.values[start + x * each + star.counts[first + x]] = value + delta[m + x]
                star.counts[first + x] += 1
        for x in range(n):
            _sort_group(star, start + x * each, star.counts[first + x])
            if star.counts[first + x] == 0:
                total[x] = -math.inf
        start += each * n
        first += n


@inner_kernel
def _level(p, r, x, mass, gamma, star, total):
    """Own score less ``gamma mass`` plus all thresholds, and how fast that falls with the mass."""
    level, fall, start, group = total[x] - gamma * mass, 1.0, 0, x
    for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        size = p.size[p.owner[p.parent[at]]]
        place = start + x * (size // p.size[r])
        threshold, above = _threshold(star, place, star.counts[group], gamma * mass)
        level += threshold
        fall += 1.0 / above
        start += size
        group += p.size[r]
    return level, gamma * fall


@inner_kernel
def _mass_at(p, r, x, level, gamma, star, total):
    """The marginal at which the level is reached, from below by Newton's method; the fall there."""
    mass, found, fall = 0.0, 0.0, 1.0
    for _ in range(_MOST_NEWTON):
        found, fall = _level(p, r, x, mass, gamma, star, total)
        step = (found - level) / fall
        if not step > _EPS * (1.0 + mass):
            break
        mass += step
    return mass, fall


@inner_kernel
def _solve_star(p, r, gamma, star, total):
    """Write the marginals of region `r` at the optimum; their level, -inf if there are none."""
    level = -math.inf
    for x in range(p.size[r]):
        star.tops[x] = -math.inf
        if total[x] > -math.inf:
            star.tops[x] = _level(p, r, x, 0.0, gamma, star, total)[0]
            level = max(level, _level(p, r, x, 1.0, gamma, star, total)[0])
    if level == -math.inf:
        return level
    for _ in range(_MOST_NEWTON):
        excess, slope = -1.0, 0.0
        for x in range(p.size[r]):
            star.masses[x] = 0.0
            if star.tops[x] > level:
                star.masses[x], fall = _mass_at(p, r, x, level, gamma, star, total)
                excess += star.masses[x]
                slope += 1.0 / fall if star.masses[x] > 0.0 else 0.0
        if not excess > 4.0 * _EPS or slope == 0.0:
            break
        level += excess / slope
    return level


@kernel
def l2_star_pass(p, order, start, stop, delta, gamma, forbidden, total, star, scratch):
    """Blocks of the L2-smoothed dual: all messages into a region."""
    for k in range(start, stop):
        r = order[k]
        _collect_star(p, r, delta, gamma, star, total, scratch)
        level = _solve_star(p, r, gamma, star, total)
        if level == -math.inf:
            continue
        n, n_parents = p.size[r], p.parent_ptr[r + 1] - p.parent_ptr[r]
        for x in range(n):
            free, n_dead, first = 0.0, 0, 0
            if total[x] == -math.inf:
                for group in range(x, n * n_parents, n):
                    n_dead += star.counts[group] == 0
            elif star.masses[x] == 0.0:
                free = max(level - star.tops[x], 0.0)
            for j in range(n_parents):
                s = p.parent[p.parent_ptr[r] + j]
                m, count = p.message_ptr[s] + x, star.counts[j * n + x]
                place = first + x * (p.size[p.owner[s]] // n)
                first += p.size[p.owner[s]]
                if total[x] > -math.inf:
                    # As even as possible: no marginal lets all have some of what is free.
                    threshold = _threshold(star, place, count, gamma * star.masses[x])[0]
                    delta[m] = threshold + free / (n_parents + 1)
                elif count == 0:
                    # All are told of what some forbid: see `forbid` of the gradient methods.
                    delta[m] = forbidden * (n_parents - n_dead + 1) / n_dead
                else:
                    delta[m] = -forbidden


class CoordinateDescent(Method):
    """Sweeps of star updates, there and back, and updates of large regions as wholes."""

    def __init__(self, graph, tol, rng, budget, gamma, smoothing="softmax"):
        super().__init__(graph, tol, rng, budget)
        p, self.gamma, self.by_squares = self.regions, gamma, smoothing == "l2"
        self.monotone_bound = gamma == 0
        most = np.inf if self.by_squares else _MOST_SLOTS
        self.is_wide = (np.diff(p.slot_ptr) > most).astype(np.uint8)
        in_narrow = self.is_wide[p.owner] == 0
        is_updated = np.bincount(p.child[in_narrow], minlength=p.kind.size) + self.is_wide > 0
        self.order = np.flatnonzero(is_updated)
        visits = np.bincount(p.child, weights=self.room.work[p.owner], minlength=p.kind.size)
        # A visit of a cardinality factor may cost the square of its variables.
        visits = visits + self.is_wide * np.diff(p.slot_ptr).astype(float) ** 2
        self.pieces = pieces(visits[self.order])
        self.total = np.zeros(self.room.mu.size)
        if self.by_squares:
            self.star = _star(p)
        self.last, self.stalled, self.n_sweeps = math.inf, 0, 0

    def one_pass(self):
        """A sweep, in the opposite direction of the last one."""
        order = self.order if self.n_sweeps % 2 == 0 else self.order[::-1].copy()
        self.n_sweeps += 1
        room = self.room
        if self.by_squares:
            for start, stop in self.ranges(self.pieces):
                l2_star_pass(
                    self.regions, order, start, stop, self.delta, self.gamma, room.forbidden,
                    self.total, self.star, room.scratch,
                )  # fmt: skip
            self.passes += 1
            return
        one_pass, own = (soft_star_pass, (self.gamma,)) if self.gamma else (max_star_pass, ())
        for start, stop in self.ranges(self.pieces):
            one_pass(
                self.regions, order, start, stop, self.is_wide, self.delta, *own, room.forbidden,
                self.total, room.down, room.scratch,
            )  # fmt: skip
        self.passes += 1

    def report(self, maxima):
        """Report the objective; end where it no longer falls: at the optimum, or stuck."""
        kind = "l2" if self.by_squares else "softmax"
        value = self.smoothed_dual(self.delta, self.gamma, kind) if self.gamma else maxima
        value += self.regions.offset
        fall = self.last - value
        self.last = value
        self.stalled = 0 if fall > _STALLED * self.tol * max(1.0, abs(value)) else self.stalled + 1
        done = "the objective no longer falls" if self.stalled >= _PATIENCE else ""
        shift = l2_shift(self.room, self.gamma) if self.by_squares else 0.0
        return Report(value, done=done, shift=shift)

    def beliefs(self):
        """Marginals of the smoothed relaxation."""
        return self.smooth_beliefs(self.gamma, not self.by_squares) if self.gamma else None


def solve_coordinate_descent(graph, *, tol, max_iter, rng, budget, smoothing=0.0, gamma=0.1):
    """Block coordinate descent on the dual by star updates (MPLP), non-smooth or smoothed.

    Globerson, Jaakkola 2007; soft-max: Johnson 2008; Hazan, Shashua 2010; Meshi, Jaakkola,
    Globerson 2012; L2, for tables only: Meshi, Mahdavi, Schwing 2015, Table 1 and section 6.
    """
    gamma = check_real("gamma", gamma, positive=True)
    if isinstance(smoothing, str):
        check_choice("smoothing", smoothing, SMOOTHINGS)
    else:
        gamma, smoothing = check_real("smoothing", smoothing), "softmax"
    if smoothing == "l2":
        implicit = range(CARDINALITY, OR + 1)
        what = 'coordinate-descent with smoothing="l2" needs tables'
        refuse_kinds(graph, implicit, what, '"accelerated-gradient"')
    method = CoordinateDescent(graph, tol, rng, budget, gamma, smoothing)
    return method.run("coordinate-descent", max_iter)


# Soft-max coordinate descent whose smoothing decreases until it no longer matters.

# The smoothing is halved when the gain left is estimated to be below this fraction of its cost.
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
    """Soft-max coordinate descent, smoothing halved until below `tol` (Savchynskyy et al. 2012)."""
    if gamma is not None:
        gamma = check_real("gamma", gamma, positive=True)
    method = DecreasingSmoothing(graph, tol, rng, budget, gamma)
    return method.run("decreasing-smoothing", max_iter)

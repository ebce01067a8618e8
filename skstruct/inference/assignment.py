"""Assignments of largest score by shortest augmenting paths, on flat arrays."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel

# Shortest augmenting paths: one search that serves both sides.
#
# Prices `u` of sources and `v` of targets keep every *reduced cost* ``u_i + v_j - s_ij`` at least
# 0, 0 where i and j are linked. A vertex that may stay without a link has a price of at least 0,
# and stays without one only at 0: staying so costs the vertex its price.


class AssignmentWork(NamedTuple):
    """Scratch of the kernels on assignments, one per thread."""

    # (n_sources,): Prices of the sources.
    u: np.ndarray
    # (n_sources,): By how much the prices of sources may fall, and reduced costs of one of them.
    slack: np.ndarray
    gap: np.ndarray
    # (n_sources + n_targets,): Prices of both sides before links changed.
    before: np.ndarray
    # (n_targets,): The source each target is linked to, or -1.
    mate: np.ndarray
    # (n + 1,): Lengths of paths; n is the larger side.
    distance: np.ndarray
    # (n + 1,): Where paths come from, what has not been scanned, and what has.
    path: np.ndarray
    remaining: np.ndarray
    order: np.ndarray
    # (n_sources + 1,): Where the ties of each source begin, and which search met it last.
    begin: np.ndarray
    stamp: np.ndarray
    # Places that each source could have at no cost.
    ties: np.ndarray


def assignment_work(n_sources, n_targets):
    """Room for assignments of at most so many sources and targets."""
    n = max(n_sources, n_targets) + 1
    path, remaining, order = np.empty((3, n), dtype=np.int32)
    begin, stamp = np.empty((2, n_sources + 1), dtype=np.int32)
    ties = np.empty(n_sources * (n_targets + 1), dtype=np.int32)
    mate = np.empty(n_targets, dtype=np.int32)
    u, slack = np.empty((2, n_sources))
    floats = u, slack, np.empty(n_targets), np.empty(n_sources + n_targets)
    return AssignmentWork(*floats, mate, np.empty(n), path, remaining, order, begin, stamp, ties)


class Side(NamedTuple):
    """One side of an assignment, as :func:`augment` reads it."""

    # Number of vertices, and the stride of their scores.
    size: int
    stride: int
    # Vertices before it keep their links.
    first: int
    # (size,): Their prices.
    price: np.ndarray
    # (size,): The other ends of their links, or -1.
    mate: np.ndarray


@inner_kernel
def count_above(scores, at, price, size, limit):
    """Count the ``scores[at + j] - price[j]`` above a limit, as a float: such sums vectorise."""
    count = 0.0
    for j in range(size):
        count += 1.0 if scores[at + j] - price[j] > limit else 0.0
    return count


@inner_kernel
def least_of(values, size):
    """Smallest value, inf if there is none; four chains of comparisons run side by side."""
    a, b, c, d = math.inf, math.inf, math.inf, math.inf
    quarters = size // 4 * 4
    for q in range(0, quarters, 4):
        a = min(a, values[q])
        b = min(b, values[q + 1])
        c = min(c, values[q + 2])
        d = min(d, values[q + 3])
    for q in range(quarters, size):
        a = min(a, values[q])
    return min(min(a, b), min(c, d))


@kernel
def augment(vertex, scores, near, far, may_drop, may_stay, work):
    """Link `vertex` along a shortest augmenting path; False, with nothing changed, if none exists.

    The path ends at a far vertex without link, at a near one that loses its own (`may_drop`), or
    is empty (`may_stay`).
    """
    price, other, mate, other_mate = near.price, far.price, near.mate, far.mate
    distance, path = work.distance, work.path
    remaining, order = work.remaining, work.order
    left = 0
    for j in range(far.size):
        distance[j] = math.inf
        if j >= far.first and not 0 <= other_mate[j] < near.first:
            remaining[left] = j
            left += 1
    seen, sink, low, i = 0, -1, 0.0, vertex
    least, loser = price[vertex] if may_stay else math.inf, vertex
    while True:
        base, at = low + price[i], i * near.stride
        nearest, where = math.inf, -1
        for q in range(left):
            j = remaining[q]
            d = base + other[j] - scores[at + j * far.stride]
            if d < distance[j]:
                distance[j] = d
                path[j] = i
            else:
                d = distance[j]
            if d < nearest or (d == nearest and other_mate[j] < 0):
                nearest, where = d, q
        if not nearest < least:
            break
        low = max(low, nearest)
        j = remaining[where]
        if other_mate[j] < 0:
            sink, least = j, low
            break
        order[seen] = j
        seen += 1
        left -= 1
        remaining[where] = remaining[left]
        i = other_mate[j]
        if may_drop and low + price[i] < least:
            least, loser = low + price[i], i
    if least == math.inf:
        return False
    price[vertex] -= least
    for q in range(seen):
        j = order[q]
        price[other_mate[j]] -= least - distance[j]
        other[j] += least - distance[j]
    if sink < 0:
        price[loser] = 0.0
        sink = mate[loser]
        mate[loser] = -1
        if loser == vertex:
            return True
    _flip(vertex, sink, path, mate, other_mate)
    return True


@inner_kernel
def _flip(vertex, sink, path, mate, other_mate):
    """Exchange the links along the path from `vertex` to `sink`."""
    j = sink
    while True:
        i = path[j]
        other_mate[j] = i
        before = mate[i]
        mate[i] = j
        if i == vertex:
            return
        j = before


# Among the assignments of largest score, the lowest: what a warm start cannot change.
#
# All of them use *tight* pairs only (reduced cost 0), and vertices without a link have the price 0.
# Two of them differ by exchanges: a source takes the target of another, which does the same, until
# the first place is taken. Paths between vertices without a link are such cycles, too, through a
# vertex that stands for staying alone.

# Of the sum of all prices: less is what rounding leaves of 0.
_ROUNDING, _LEAST = 2.0**-49, 1e-300


@inner_kernel
def lowest_of_ties(scores, sources, targets, alone, kept, margin, work):
    """Move links to the lowest optimal ones; slack above `margin` rules out other targets."""
    # Most that rounding may leave of 0.
    zero = 0.0
    for i in range(sources.size):
        zero += abs(sources.price[i])
    for j in range(targets.size):
        zero += abs(targets.price[j])
    zero = _ROUNDING * zero + _LEAST
    if margin < zero:  # then `slack` says nothing
        margin = math.inf
    if not _find_ties(scores, sources, targets, alone, zero, margin, work):
        return
    n, mate, begin, ties = sources.size, sources.mate, work.begin, work.ties
    for x in range(n + 1):
        work.stamp[x] = -1
    for i in range(n):
        place = mate[i]
        for q in range(begin[i], begin[i + 1]):
            if ties[q] >= place or _exchange(i, ties[q], sources, targets, kept, zero, work):
                break


@inner_kernel
def _find_ties(scores, sources, targets, alone, zero, margin, work):
    """Write where each source could be at no cost, in order; False if all have to stay."""
    n, m, mate = sources.size, targets.size, sources.mate
    u, v, begin, ties = sources.price, targets.price, work.begin, work.ties
    count, several = 0, False
    for i in range(n):
        begin[i] = count
        at, least, free = i * m, u[i] - zero, alone and u[i] <= zero
        if work.slack[i] > margin and not free:
            ties[count] = mate[i]
            count += 1
            continue
        if free:
            ties[count] = -1
            count += 1
        tight = count_above(scores, at, v, m, least)
        if count - begin[i] + tight > 1.0:
            several = True
            for j in range(m):
                if scores[at + j] - v[j] > least:
                    ties[count] = j
                    count += 1
        elif count == begin[i]:
            ties[count] = mate[i]
            count += 1
    begin[n] = count
    return several


@inner_kernel
def _exchange(i, place, sources, targets, kept, zero, work):
    """Move source i to `place` if the sources after it can make up for it at no cost."""
    mate, taken, n = sources.mate, targets.mate, sources.size
    begin, ties, queue = work.begin, work.ties, work.order
    goal, first = mate[i], 0
    last = _reach(i, i, place, 0, n, taken, work)
    while first < last:
        x = queue[first]
        first += 1
        if x < n:
            for q in range(begin[x], begin[x + 1]):
                if ties[q] >= 0 and ties[q] == goal:
                    _move(i, x, goal, n, mate, taken, work)
                    return True
                last = _reach(i, x, ties[q], last, n, taken, work)
            continue
        for k in range(i, n):
            if mate[k] >= 0 and not (kept and targets.price[mate[k]] <= zero):
                continue
            if k == i:
                _move(i, x, goal, n, mate, taken, work)
                return True
            last = _queue(i, x, k, mate[k], last, work)
    return False


@inner_kernel
def _reach(i, x, place, last, n, taken, work):
    """Queue the source that source x displaces at a place; n stands for none."""
    y = n
    if place >= 0 and taken[place] >= 0:
        y = taken[place]
    return _queue(i, x, y, place, last, work) if y > i else last


@inner_kernel
def _queue(i, x, y, place, last, work):
    """Queue y, displaced by x at a place, if the search from i did not meet it before."""
    if work.stamp[y] == i:
        return last
    work.stamp[y] = i
    work.path[y] = x
    work.remaining[y] = place
    work.order[last] = y
    return last + 1


@inner_kernel
def _move(i, x, place, n, mate, taken, work):
    """Move x to `place`, who displaced it to x's, and so on back to source i."""
    while True:
        if x < n:
            mate[x] = place
            if place >= 0:
                taken[place] = x
        elif place >= 0:
            taken[place] = -1
        if x == i:
            return
        place = work.remaining[x]
        x = work.path[x]


# Of the numbers that a gain is made of: what rounding may add to it.
_SAME = 2.0**-50
# Of the sum of all scores: pairs that fit worse by this are no tie.
_MARGIN = 2.0**-44
# With so few sources without links a price war takes longer than paths.
_FEW = 4


@inner_kernel
def _bound(scores, size, both):
    """Sum of the positive scores, with `both` of the absolute values; NaN for a NaN or +inf."""
    total, wrong = 0.0, 0
    for q in range(size):
        s = scores[q]
        wrong += 0 if s < math.inf else 1
        total += s if s > 0.0 else 0.0
    if wrong:
        return math.nan
    if both:
        for q in range(size):
            s = scores[q]
            total -= s if -math.inf < s < 0.0 else 0.0
    return total


@inner_kernel
def _repair(price, least, most):
    """Bring prices from elsewhere into their range."""
    for j in range(price.shape[0]):
        if not price[j] > least:
            price[j] = least
        elif price[j] > most:
            price[j] = most


@inner_kernel
def _keep_links(scores, n, m, mate, taken, u, v, alone, margin, near):
    """Keep links of sources that find nothing better; `near` is inf if nothing is as good."""
    for j in range(m):
        taken[j] = -1
    for i in range(n):
        at, place, gain, slack = i * m, mate[i], 0.0, 0.0
        mate[i], u[i], near[i] = -1, math.inf, 0.0
        if 0 <= place < m and taken[place] < 0:
            gain = scores[at + place] - v[place]
            slack = _SAME * (abs(gain) + v[place])
            if gain == -math.inf or (alone and gain < 0.0):
                continue
        elif place >= 0 or not alone:
            continue
        lonely = count_above(scores, at, v, m, gain - margin) == (1.0 if place >= 0 else 0.0)
        if lonely or count_above(scores, at, v, m, gain + slack) == 0.0:
            near[i] = math.inf if lonely else 0.0
            u[i] = gain
            mate[i] = max(place, -1)
            if place >= 0:
                taken[place] = i


@inner_kernel
def _are_satisfied(sources, targets, kept):
    """Return whether the links that were kept are optimal."""
    for i in range(sources.size):
        if sources.price[i] == math.inf:
            return False
    for j in range(targets.size):
        if targets.mate[j] < 0 and not (kept and targets.price[j] <= 0.0):
            return False
    return True


@inner_kernel
def _centre(scores, n, m, mate, u, v, alone, kept, near, far, gap):
    """Move the prices of linked pairs away from their limits: small changes then break no link."""
    for j in range(m):
        far[j] = v[j] if kept else math.inf
    for i in range(n):
        at, price, mine = i * m, u[i], mate[i]
        for j in range(m):
            gap[j] = price + v[j] - scores[at + j]
        if mine >= 0:
            gap[mine] = math.inf
        for j in range(m):
            far[j] = gap[j] if gap[j] < far[j] else far[j]
        near[i] = max(0.0, min(least_of(gap, m), price if alone else math.inf))
    for i in range(n):
        if mate[i] >= 0 and max(near[i], far[mate[i]]) < math.inf:
            shift = 0.5 * (near[i] - max(0.0, far[mate[i]]))
            u[i] -= shift
            v[mate[i]] += shift


@inner_kernel
def _centre_few(scores, n, m, mate, u, v, alone, kept, near, before):
    """As `_centre`, for pairs whose prices have changed; False where others may have come near."""
    fell = 0.0
    for j in range(m):
        fell += 1.0 if v[j] < before[n + j] else 0.0
    if fell > 0.0:
        return False
    for i in range(n):
        place = mate[i]
        if u[i] == before[i] and near[i] > 0.0:
            continue
        at, price = i * m, u[i]
        here = price if alone else math.inf
        for j in range(m):
            gap = price + v[j] - scores[at + j]
            if gap < here and j != place:
                here = gap
        near[i] = max(0.0, here)
        if place < 0:
            continue
        price = v[place]
        there = price if kept else math.inf
        for k in range(n):
            gap = u[k] + price - scores[k * m + place]
            if gap < there and k != i:
                there = gap
        if max(here, there) < math.inf:
            shift = 0.5 * (near[i] - max(0.0, there))
            u[i] -= shift
            v[place] += shift
    return True


@inner_kernel
def _two_best(i, scores, sources, targets, alone):
    """A source's two best targets at their prices, -1 for none, and what they give."""
    first, second, best, next_best = -1, -1, -math.inf, -math.inf
    if alone:
        best = 0.0
    at = i * sources.stride
    for j in range(targets.size):
        gain = scores[at + j] - targets.price[j]
        if gain > next_best:
            if gain > best:
                second, next_best = first, best
                first, best = j, gain
            else:
                second, next_best = j, gain
    return first, second, best, next_best


@inner_kernel
def _take_best(scores, sources, targets, alone):
    """Link other sources to their best target, if it is free; return how many stay unlinked."""
    mate, taken = sources.mate, targets.mate
    without = 0
    for i in range(sources.size):
        if sources.price[i] < math.inf:
            continue
        place, _, best, _ = _two_best(i, scores, sources, targets, alone)
        sources.price[i] = best
        if place >= 0:
            if taken[place] < 0:
                mate[i] = place
                taken[place] = i
            else:
                without += 1
    return without


@inner_kernel
def _bid(scores, sources, targets, alone, work):
    """Augmenting row reduction: sources outbid each other for the targets with the best scores."""
    mate, taken, queue = sources.mate, targets.mate, work.remaining
    waiting = 0
    for i in range(sources.size):
        if mate[i] < 0 and not (alone and sources.price[i] <= 0.0):
            queue[waiting] = i
            waiting += 1
    for _ in range(2):
        k, last, steps = 0, waiting, 0
        waiting = 0
        while k < last:
            i = queue[k]
            k += 1
            first, second, best, next_best = _two_best(i, scores, sources, targets, alone)
            steps += 1
            sources.price[i] = best
            if first < 0:
                continue
            owner = taken[first]
            raised = next_best < best and next_best > -math.inf
            if raised:
                sources.price[i] = next_best
                targets.price[first] += best - next_best
            elif owner >= 0 and second >= 0 and next_best == best:
                first = second
                owner = taken[first]
            mate[i] = first
            taken[first] = i
            if owner >= 0:
                mate[owner] = -1
                if raised and steps < 2 * sources.size:
                    k -= 1
                    queue[k] = owner
                else:
                    queue[waiting] = owner
                    waiting += 1


@inner_kernel
def _link_again(scores, sources, targets, alone, kept, work):
    """Link every vertex that may not stay without a link at its price; False if one cannot be."""
    n, m, before, near = sources.size, targets.size, work.before, work.slack
    mate, u, v = sources.mate, sources.price, targets.price
    for i in range(n):
        before[i] = u[i]
    for j in range(m):
        before[n + j] = v[j]
    many = _take_best(scores, sources, targets, alone) > _FEW
    if many:
        _bid(scores, sources, targets, alone, work)
    for i in range(n):
        satisfied = mate[i] >= 0 or (alone and u[i] <= 0.0)
        if not (satisfied or augment(i, scores, sources, targets, alone, alone, work)):
            return False
    for j in range(m):
        satisfied = targets.mate[j] >= 0 or (kept and v[j] <= 0.0)
        if not (satisfied or augment(j, scores, targets, sources, kept, kept, work)):
            return False
    if many or not _centre_few(scores, n, m, mate, u, v, alone, kept, near, before):
        _centre(scores, n, m, mate, u, v, alone, kept, near, work.distance, work.gap)
    return True


@kernel
def assignment(scores, n_sources, n_targets, null, price, match, work):
    """Best links, at most one per source and target, lowest of ties (Jonker and Volgenant 1987)."""
    n, m = n_sources, n_targets
    most = _bound(scores, n * m, not null)
    if math.isnan(most):
        for i in range(n):
            match[i] = -1
        return most
    alone, kept = null or n > m, null or n < m
    sources = Side(n, m, 0, work.u[:n], match)
    targets = Side(m, 1, 0, price[:m], work.mate[:m])
    _repair(targets.price, 0.0 if kept else -most, most)
    margin, near = _MARGIN * most, work.slack
    _keep_links(scores, n, m, match, targets.mate, work.u, price, alone, margin, near)
    done = _are_satisfied(sources, targets, kept)
    if not (done or _link_again(scores, sources, targets, alone, kept, work)):
        for i in range(n):
            match[i] = -1
        return -math.inf
    lowest_of_ties(scores, sources, targets, alone, kept, margin, work)
    return total_score(scores, n, m, match)


@inner_kernel
def total_score(scores, n, m, match):
    """Score of links, source by source."""
    total = 0.0
    for i in range(n):
        if match[i] >= 0:
            total += scores[i * m + match[i]]
    return total


# Best score of an assignment with each pair in it, and with each pair left out.


@kernel
def assignment_max_marginals(scores, n_sources, n_targets, null, price, match, work, best, detour):
    """Best score with every pair and without it (Duchi, Tarlow, Elidan and Koller 2006)."""
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, work)
    if not value > -math.inf:
        for q in range(2 * n * m):
            best[q] = value
        return value
    alone, kept = null or n > m, null or n < m
    sources, targets = Side(n, m, 0, work.u[:n], match[:n]), Side(m, 1, 0, price[:m], work.mate[:m])
    if n <= m:
        _marginals(value, scores, sources, targets, alone, kept, best, detour)
    else:
        _marginals(value, scores, targets, sources, kept, alone, best, detour)
    return value


@inner_kernel
def _marginals(value, scores, near, far, alone, kept, best, detour):
    """Best scores with and without every pair; between near vertices shortest paths are found."""
    n, u, price = near.size, near.price, far.price
    _exchanges(scores, near, far, alone, kept, detour)
    shortest_paths(n + 1, detour)
    for i in range(n):
        mine, without = near.mate[i], -math.inf
        if mine >= 0 and alone:
            without = value - (max(u[i], 0.0) + detour[n * (n + 1) + i])
        for j in range(far.size):
            pair = i * near.stride + j * far.stride
            best[2 * pair] = best[2 * pair + 1] = value
            if j != mine:
                other = far.mate[j] if far.mate[j] >= 0 else n
                slack = max(u[i] + price[j] - scores[pair], 0.0)
                best[2 * pair + 1] = value - (slack + detour[other * (n + 1) + i])
                without = max(without, best[2 * pair + 1])
        if mine >= 0:
            best[2 * (i * near.stride + mine * far.stride)] = without


@inner_kernel
def _exchanges(scores, near, far, alone, kept, detour):
    """Write the costs of near vertices taking each other's places; place n is to be unlinked."""
    n, u, price = near.size, near.price, far.price
    for k in range(n):
        row = k * (n + 1)
        for other in range(n + 1):
            detour[row + other] = math.inf
        if alone:
            detour[row + n] = max(u[k], 0.0)
        for j in range(far.size):
            other = far.mate[j] if far.mate[j] >= 0 else n
            slack = max(u[k] + price[j] - scores[k * near.stride + j * far.stride], 0.0)
            if slack < detour[row + other]:
                detour[row + other] = slack
        detour[row + k] = 0.0
        free = 0.0 if near.mate[k] < 0 else math.inf
        if kept and near.mate[k] >= 0:
            free = max(price[near.mate[k]], 0.0)
        detour[n * (n + 1) + k] = free
    detour[n * (n + 1) + n] = 0.0


@inner_kernel
def shortest_paths(n, distance):
    """All shortest paths, in place."""
    for k in range(n):
        through = distance[k * n : k * n + n]
        for i in range(n):
            first = distance[i * n + k]
            if first < math.inf and i != k:
                row = distance[i * n : i * n + n]
                for j in range(n):
                    length = first + through[j]
                    row[j] = length if length < row[j] else row[j]

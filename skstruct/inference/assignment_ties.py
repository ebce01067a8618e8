"""Among the assignments of largest score, the lowest: what a warm start cannot change.

All of them use *tight* pairs only (reduced cost 0), and vertices without a link have the price 0.
Two of them differ by exchanges: a source takes the target of another, which does the same, until
the first place is taken. Paths between vertices without a link are such cycles, too, through a
vertex that stands for staying alone.
"""

import math

from ..core.dispatch import inner_kernel
from .assignment_paths import count_above

# Of the sum of all prices: less is what rounding leaves of 0.
_ROUNDING, _LEAST = 2.0**-49, 1e-300


@inner_kernel
def lowest_of_ties(scores, sources, targets, alone, kept, margin, work):
    """Change the links to those that are lowest source by source: none, then the first target.

    `alone` and `kept`: whether sources and targets may stay without a link. Sources whose
    ``work.slack`` is above `margin` fit no other target, at these prices or others that are
    optimal: if that is more than what rounding leaves, their rows are not looked at.
    """
    zero = _rounding(sources, targets)
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
def _rounding(sources, targets):
    """What rounding may leave of 0."""
    total = 0.0
    for i in range(sources.size):
        total += abs(sources.price[i])
    for j in range(targets.size):
        total += abs(targets.price[j])
    return _ROUNDING * total + _LEAST


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
    """Queue whom source x displaces at a place; n stands for nobody."""
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

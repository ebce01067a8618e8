"""Best-first branch and bound over anything whose subsets have bounds.

A *space* is a NamedTuple; its subsets are rows of integers that mean something to the verbs below
and to nobody else. The subset with the largest bound is split, until no bound exceeds the best
scores that have been seen (Land and Doig 1960, An automatic method of solving discrete programming
problems, section 2).
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import generic, inner_kernel, kernel
from .numerics import check_integer

# Entries of ``Frontier.counts``: sets that wait, rows of ``sets`` ever used, sets that have been
# split, and sets whose bound was asked for.
_SIZE, _TOUCHED, EXPANDED, BOUNDED = range(4)

# A chain of splits this long takes a space of 2 ** 125 members, if splits halve.
_DEPTH = 128


@generic
def bound(space, subset):
    """A number that no score in `subset` exceeds; of a single member its score.

    -inf for an empty subset. May narrow `subset` to a smaller one of the same members.
    """


@generic
def split(space, subset, other):
    """Write a part of `subset` to `other`, and leave the rest: fewer members than before each."""


@generic
def is_single(space, subset):
    """Whether `subset`, which has been bounded and is not empty, has one member only."""


@generic
def member(space, subset, out):
    """Write a member of `subset` to `out`, as a subset, and return its score.

    Called right after :func:`bound` of the same subset. -inf where none is at hand: the default.
    """


@member.register(object)
@kernel
def _(space, subset, out):
    return -math.inf


class Frontier(NamedTuple):
    """Sets that wait to be split, in a heap of fixed size; scratch of one thread."""

    # (capacity,): Their bounds, as a heap.
    bounds: np.ndarray
    # (capacity,): When each came: of equal bounds the latest is next, for it is the smallest.
    ages: np.ndarray
    # (capacity,): Which row of `sets` each is; behind the heap those that are free.
    slots: np.ndarray
    # (capacity, width): The sets.
    sets: np.ndarray
    # (depth, width): Sets to be searched depth first where the heap is full.
    chain: np.ndarray
    # (depth,): Their bounds.
    chain_bounds: np.ndarray
    # (3, width): Sets at hand.
    rows: np.ndarray
    # (n_best, width): The best members.
    found: np.ndarray
    # (4,): Numbers of sets.
    counts: np.ndarray


def make_frontier(width: int, n_best: int = 1, capacity: int = 1 << 15) -> Frontier:
    """An empty heap."""
    return Frontier(
        np.zeros(capacity),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros((capacity, width), dtype=np.int32),
        np.zeros((_DEPTH, width), dtype=np.int32),
        np.zeros(_DEPTH),
        np.zeros((3, width), dtype=np.int32),
        np.zeros((n_best, width), dtype=np.int32),
        np.zeros(4, dtype=np.int64),
    )


@inner_kernel
def _copy(source, target):
    for q in range(source.shape[0]):
        target[q] = source[q]


@inner_kernel
def _before(frontier, p, top, age):
    """Whether what is at position p of the heap comes before another set."""
    bounds = frontier.bounds
    return bounds[p] > top or (bounds[p] == top and frontier.ages[p] > age)


@inner_kernel
def _move(frontier, source, target):
    frontier.bounds[target] = frontier.bounds[source]
    frontier.ages[target] = frontier.ages[source]
    frontier.slots[target] = frontier.slots[source]


@inner_kernel
def _put(frontier, p, top, age, slot):
    frontier.bounds[p] = top
    frontier.ages[p] = age
    frontier.slots[p] = slot


@inner_kernel
def _push(frontier, subset, top):
    counts = frontier.counts
    p = counts[_SIZE]
    if p == counts[_TOUCHED]:
        frontier.slots[p] = p
        counts[_TOUCHED] += 1
    counts[_SIZE] += 1
    slot, age = frontier.slots[p], counts[BOUNDED]
    _copy(subset, frontier.sets[slot])
    while p > 0 and not _before(frontier, (p - 1) // 2, top, age):
        _move(frontier, (p - 1) // 2, p)
        p = (p - 1) // 2
    _put(frontier, p, top, age, slot)


@inner_kernel
def _pop(frontier, subset):
    frontier.counts[_SIZE] -= 1
    size, free = frontier.counts[_SIZE], frontier.slots[0]
    _copy(frontier.sets[free], subset)
    top, age, slot = frontier.bounds[size], frontier.ages[size], frontier.slots[size]
    p, below = 0, 1
    while below < size:
        if below + 1 < size:
            right = frontier.bounds[below + 1], frontier.ages[below + 1]
            below += 0 if _before(frontier, below, right[0], right[1]) else 1
        if not _before(frontier, below, top, age):
            break
        _move(frontier, below, p)
        p, below = below, 2 * below + 1
    _put(frontier, p, top, age, slot)
    frontier.slots[size] = free


@inner_kernel
def _offer(frontier, subset, score, values):
    """Put a member among the best, which are sorted."""
    p = values.shape[0] - 1
    while p > 0 and score > values[p - 1]:
        values[p] = values[p - 1]
        _copy(frontier.found[p - 1], frontier.found[p])
        p -= 1
    values[p] = score
    _copy(subset, frontier.found[p])


@inner_kernel
def _measure(space, frontier, subset, values, slack):
    """The bound of a set, -inf if nothing in it is wanted any more: a single member is offered."""
    last, spare = values.shape[0] - 1, frontier.rows[2]
    frontier.counts[BOUNDED] += 1
    top = bound(space, subset)
    if not top > values[last] + slack:
        return -math.inf
    if is_single(space, subset):
        _offer(frontier, subset, top, values)
        return -math.inf
    # The member of a set that is split later would be met again.
    if last == 0:
        score = member(space, subset, spare)
        if score > values[0]:
            _offer(frontier, spare, score, values)
        if not top > values[0] + slack:
            return -math.inf
    return top


@inner_kernel
def _depth_first(space, frontier, subset, values, slack, most):
    """Search a set without the heap; whether that came to its end."""
    chain, tops, counts = frontier.chain, frontier.chain_bounds, frontier.counts
    last, other = values.shape[0] - 1, frontier.rows[1]
    n = 1
    _copy(subset, chain[0])
    tops[0] = math.inf
    while n > 0:
        n -= 1
        if not tops[n] > values[last] + slack:
            continue
        if counts[EXPANDED] == most or n + 2 > tops.shape[0]:
            return False
        counts[EXPANDED] += 1
        _copy(chain[n], subset)
        split(space, subset, other)
        first = _measure(space, frontier, subset, values, slack)
        second = _measure(space, frontier, other, values, slack)
        here = n if first <= second else n + 1
        there = n + 1 if first <= second else n
        tops[here], tops[there] = first, second
        _copy(subset, chain[here])
        _copy(other, chain[there])
        n += 2
    return True


@inner_kernel
def _cut(space, frontier, values, slack, top):
    """Members of waiting sets take the places that are left; the bound on what was not seen."""
    last, spare = values.shape[0] - 1, frontier.rows[2]
    for p in range(frontier.counts[_SIZE]):
        if last > 0 and not values[last] > -math.inf:
            subset = frontier.sets[frontier.slots[p]]
            bound(space, subset)
            score = member(space, subset, spare)
            if score > -math.inf:
                _offer(frontier, spare, score, values)
    return top if top > values[last] + slack else -math.inf


@kernel
def best_first(space, frontier, root, values, slack, most):
    """The best members of a set: the generic search."""
    counts, subset, other = frontier.counts, frontier.rows[0], frontier.rows[1]
    last = values.shape[0] - 1
    counts[:] = 0
    values[:] = -math.inf
    _copy(root, subset)
    top = _measure(space, frontier, subset, values, slack)
    if top > -math.inf:
        _push(frontier, subset, top)
    while counts[_SIZE] > 0:
        top = frontier.bounds[0]
        if not top > values[last] + slack:
            return -math.inf
        if counts[EXPANDED] == most:
            return _cut(space, frontier, values, slack, top)
        _pop(frontier, subset)
        if counts[_SIZE] + 2 > frontier.bounds.shape[0]:
            if not _depth_first(space, frontier, subset, values, slack, most):
                return _cut(space, frontier, values, slack, top)
            continue
        counts[EXPANDED] += 1
        split(space, subset, other)
        top = _measure(space, frontier, subset, values, slack)
        if top > -math.inf:
            _push(frontier, subset, top)
        top = _measure(space, frontier, other, values, slack)
        if top > -math.inf:
            _push(frontier, other, top)
    return -math.inf


def best_members(
    space,
    root,
    n_best: int = 1,
    *,
    slack: float = 0.0,
    max_expansions: int | None = None,
    capacity: int = 1 << 15,
):
    """The best members of a set, by best-first branch and bound.

    Land, Doig 1960, An automatic method of solving discrete programming problems, section 2.
    """
    root = np.asarray(root, dtype=np.int32)
    n_best, capacity = check_integer("n_best", n_best, 1), check_integer("capacity", capacity, 1)
    most = -1 if max_expansions is None else check_integer("max_expansions", max_expansions, 0)
    frontier, values = make_frontier(root.size, n_best, capacity), np.empty(n_best)
    rest = best_first(space, frontier, root, values, slack, most)
    k = int(np.isfinite(values).sum())
    return frontier.found[:k], values[:k], rest

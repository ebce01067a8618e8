"""Many short lists in one arena, for active sets; lists that outgrow their room move to the end."""

import math
from typing import NamedTuple

import numpy as np

from ...core.jit.kernels import inner_kernel, kernel
from ...core.offsets import ends_of

# Ordered structures for sublinear search: tournament trees over the rows of a matrix.
#
# Over each row of a matrix stands a tree of fan-out 16 whose nodes hold the largest entry below. A
# changed entry costs O(log n) repairs; the largest entry of a row that avoids some columns takes
# O((1 + c) log n) steps, where c counts the avoided entries that are larger than the answer. A tree
# over the rows' maxima finds the largest entry of the whole matrix in the same way.

_FAN = 16


class TournamentTrees(NamedTuple):
    """Tournament trees over the rows of a matrix, and one over the rows' maxima."""

    # (n_rows, n_inner): The inner nodes of each row's tree, level by level from below; the last is
    # the maximum.
    above: np.ndarray
    # (n_levels + 1,): Where the levels begin in a row of `above`.
    bounds: np.ndarray
    # (1, n_rows): The rows' maxima: the leaves of the tree over rows.
    tops: np.ndarray
    # (1, n_inner_top): Its inner nodes.
    over: np.ndarray
    # Offsets of their levels.
    over_bounds: np.ndarray
    # Scratch.
    stack: np.ndarray


def _level_bounds(n_leaves):
    sizes = [n_leaves]
    while sizes[-1] > 1 or len(sizes) == 1:
        sizes.append(-(-sizes[-1] // _FAN))
    return ends_of(sizes[1:])


def max_trees(table):
    """Build the trees of a matrix."""
    n_rows, n_columns = table.shape
    bounds, over_bounds = _level_bounds(n_columns), _level_bounds(n_rows)
    n_levels = max(bounds.size, over_bounds.size)
    trees = TournamentTrees(
        above=np.empty((n_rows, bounds[-1])),
        bounds=bounds,
        tops=np.empty((1, n_rows)),
        over=np.empty((1, over_bounds[-1])),
        over_bounds=over_bounds,
        stack=np.empty(4 * _FAN * n_levels, dtype=np.int64),
    )
    _build(table, trees)
    return trees


@inner_kernel(inline=True)
def _entry(table, above, bounds, row, level, k):
    """Node k of a level of a row's tree; level 0 are the leaves."""
    return table[row, k] if level == 0 else above[row, bounds[level - 1] + k]


@inner_kernel(inline=True)
def _size(table, bounds, level):
    return table.shape[1] if level == 0 else bounds[level] - bounds[level - 1]


@inner_kernel
def _largest_child(table, above, bounds, row, level, k):
    """Largest of the children of node k of `level`, at least 1."""
    best = -math.inf
    for c in range(k * _FAN, min((k + 1) * _FAN, _size(table, bounds, level - 1))):
        best = max(best, _entry(table, above, bounds, row, level - 1, c))
    return best


@inner_kernel
def _build_row(table, above, bounds, row):
    for level in range(1, bounds.shape[0]):
        for k in range(_size(table, bounds, level)):
            value = _largest_child(table, above, bounds, row, level, k)
            above[row, bounds[level - 1] + k] = value


@kernel
def _build(table, trees):
    for row in range(table.shape[0]):
        _build_row(table, trees.above, trees.bounds, row)
        trees.tops[0, row] = trees.above[row, trees.above.shape[1] - 1]
    _build_row(trees.tops, trees.over, trees.over_bounds, 0)


@inner_kernel
def _repair(table, above, bounds, row, column):
    """Bring the ancestors of a changed leaf up to date; whether the row's maximum changed."""
    k = column
    for level in range(1, bounds.shape[0]):
        k //= _FAN
        value = _largest_child(table, above, bounds, row, level, k)
        if above[row, bounds[level - 1] + k] == value:
            return False
        above[row, bounds[level - 1] + k] = value
    return True


@kernel
def changed(table, trees, row, column):
    """Update the trees for a new value of one entry of the matrix: O(log n)."""
    if _repair(table, trees.above, trees.bounds, row, column):
        trees.tops[0, row] = trees.above[row, trees.above.shape[1] - 1]
        _repair(trees.tops, trees.over, trees.over_bounds, 0, row)


@inner_kernel
def _push_children(table, above, bounds, row, level, k, best, stack, depth):
    """Push the children that exceed `best`, the largest on top; returns the new depth."""
    top = depth
    for c in range(k * _FAN, min((k + 1) * _FAN, _size(table, bounds, level - 1))):
        value = _entry(table, above, bounds, row, level - 1, c)
        if value > best:
            stack[2 * depth] = level - 1
            stack[2 * depth + 1] = c
            depth += 1
    # The largest is looked at first, the lowest one of equals: the others are then mostly cut off.
    chosen, chosen_value = -1, -math.inf
    for d in range(top, depth):
        value = _entry(table, above, bounds, row, stack[2 * d], stack[2 * d + 1])
        if value > chosen_value:
            chosen, chosen_value = d, value
    if chosen >= 0:
        last = depth - 1
        c = stack[2 * chosen + 1]
        stack[2 * chosen + 1] = stack[2 * last + 1]
        stack[2 * last + 1] = c
    return depth


@kernel
def row_best(table, trees, row, banned, floor):
    """The largest entry of a row in columns that are not banned."""
    above, bounds, stack = trees.above, trees.bounds, trees.stack
    best, column = floor, -1
    n_levels = bounds.shape[0]
    # The first half of the stack serves a search over rows that calls this one.
    base = stack.shape[0] // 4
    stack[2 * base] = n_levels - 1
    stack[2 * base + 1] = 0
    depth = base + 1
    while depth > base:
        depth -= 1
        level, k = stack[2 * depth], stack[2 * depth + 1]
        if not _entry(table, above, bounds, row, level, k) > best:
            continue
        if level > 1:
            depth = _push_children(table, above, bounds, row, level, k, best, stack, depth)
            continue
        for c in range(k * _FAN, min((k + 1) * _FAN, table.shape[1])):
            if table[row, c] > best and banned[c] == 0:
                best, column = table[row, c], c
    return best, column


@kernel
def table_best(table, trees, banned_rows, banned_columns, floor):
    """The largest entry of the matrix in rows and columns that are not banned."""
    tops, over, bounds, stack = trees.tops, trees.over, trees.over_bounds, trees.stack
    best, row, column = floor, -1, -1
    stack[0] = bounds.shape[0] - 1
    stack[1] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level, k = stack[2 * depth], stack[2 * depth + 1]
        if not _entry(tops, over, bounds, 0, level, k) > best:
            continue
        if level > 0:
            depth = _push_children(tops, over, bounds, 0, level, k, best, stack, depth)
        elif banned_rows[k] == 0:
            value, c = row_best(table, trees, k, banned_columns, best)
            if c >= 0:
                best, row, column = value, k, c
    return best, row, column


_ROOM = 4


class ActiveSets(NamedTuple):
    """Lists of (key, share, price)."""

    # (n_lists,): Where each list lies in the arena, its length, and the length it may have there.
    start: np.ndarray
    size: np.ndarray
    room: np.ndarray
    # (n,): What an entry is about: a label, or a pair of labels.
    key: np.ndarray
    # (n,): Its two numbers.
    share: np.ndarray
    price: np.ndarray
    # (n, n_more): Further numbers of an entry.
    more: np.ndarray
    # (1,): Length of the used part of the arena.
    used: np.ndarray


def _arena(start, size, room, used, length, n_more):
    """Lists whose entries are all 0."""
    return ActiveSets(
        start=start,
        size=size,
        room=room,
        key=np.zeros(length, dtype=np.int64),
        share=np.zeros(length),
        price=np.zeros(length),
        more=np.zeros((length, n_more)),
        used=used,
    )


def empty_sets(n, n_more):
    """Lists without entries."""
    lists = (np.zeros(n, dtype=np.int64) for _ in range(3))
    return _arena(*lists, np.zeros(1, dtype=np.int64), 1024, n_more)


def one_entry_each(keys, share):
    """Lists of one entry."""
    size = np.ones(len(keys), dtype=np.int64)
    start, room, used, length = layout(size)
    sets = _arena(start, size, room, used, length, 0)
    sets.key[sets.start] = keys
    sets.share[sets.start] = share
    return sets


def layout(size, headroom=1024):
    """Starts and rooms of packed lists of these sizes, the used part, and the arena's length."""
    room = np.maximum(size + (size + 1) // 2, _ROOM)
    ends = np.cumsum(room)
    used = int(ends[-1]) if ends.size else 0
    return ends - room, room, np.array([used]), 2 * used + headroom


def packed(sets, headroom=1024):
    """Copy the lists into an arena with at least as much free space as they use."""
    start, room, used, length = layout(sets.size, headroom)
    out = _arena(start, sets.size.copy(), room, used, length, sets.more.shape[1])
    _copy(sets, out)
    return out


@inner_kernel
def _move(source, a, target, b):
    """Copy the entry at place `a` to place `b`."""
    target.key[b] = source.key[a]
    target.share[b] = source.share[a]
    target.price[b] = source.price[a]
    for c in range(source.more.shape[1]):
        target.more[b, c] = source.more[a, c]


@kernel
def _copy(source, target):
    for n in range(source.size.shape[0]):
        for e in range(source.size[n]):
            _move(source, source.start[n] + e, target, target.start[n] + e)


@inner_kernel
def fits(sets, which, more):
    """Return whether a list can take `more` entries without a larger arena."""
    wanted = sets.size[which] + more
    return wanted <= sets.room[which] or sets.used[0] + 4 * wanted + 8 <= sets.key.shape[0]


@inner_kernel
def append(sets, which, key, share, price):
    """Add an entry; the caller has made sure that it :func:`fits`."""
    size = sets.size[which]
    if size == sets.room[which]:
        old, new = sets.start[which], sets.used[0]
        for e in range(size):
            _move(sets, old + e, sets, new + e)
        sets.start[which] = new
        sets.room[which] = 2 * size if size > 0 else 2
        sets.used[0] = new + sets.room[which]
    place = sets.start[which] + size
    sets.key[place] = key
    sets.share[place] = share
    sets.price[place] = price
    sets.size[which] = size + 1


@inner_kernel
def drop_empty(sets, which, first):
    """Drop the entries from position `first` on whose share and price are 0."""
    start = sets.start[which]
    kept = first
    for e in range(first, sets.size[which]):
        if sets.share[start + e] != 0.0 or sets.price[start + e] != 0.0:
            _move(sets, start + e, sets, start + kept)
            kept += 1
    sets.size[which] = kept


# The choices of a run, and what it counts.

BCFW, AWAY, BGCD, AFW = 0, 1, 2, 3
SUBLINEAR, EXACT, SAMPLED = 0, 1, 2
# Entries of ``totals`` of a state.
SEARCH, ALL, INFEASIBILITY, CHANGE = range(4)


class GDMMOptions(NamedTuple):
    """Choices of one run."""

    # BCFW, AWAY, BGCD or AFW.
    variant: int
    # SUBLINEAR, EXACT or SAMPLED.
    search: int
    # Strength of the penalty, step of the multipliers.
    rho: float
    eta: float
    # Parts of the labels, one of which is searched at each visit.
    n_partitions: int
    # 0 while all edges of label sets are kept at rest.
    wake: int

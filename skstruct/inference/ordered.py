"""Ordered structures for sublinear search: tournament trees over the rows of a matrix.

Over each row of a matrix stands a tree of fan-out 16 whose nodes hold the largest entry below. A
changed entry costs O(log n) repairs; the largest entry of a row that avoids some columns takes
O((1 + c) log n) steps, where c counts the avoided entries that are larger than the answer. A tree
over the rows' maxima finds the largest entry of the whole matrix in the same way.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of

_FAN = 16


class MaxTrees(NamedTuple):
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
    # Where their levels begin.
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
    trees = MaxTrees(
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
    """Tell the trees that one entry of the matrix has a new value: O(log n)."""
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

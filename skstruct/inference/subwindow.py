"""Efficient subwindow search: the boxes of an image whose points sum to the most.

Branch and bound (Land and Doig 1960) on intervals of rows (Lampert, Blaschko, Hofmann 2008, section
2.1); left and right in one pass over columns (An, Peursum, Liu, Venkatesh 2009, section 3).
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel

# Cells of an image: where boxes may end, weights, and their sums.

# Entries of ``Subwindows.task``: rows and columns of cells, least pixels a side, the kind of loss,
# the true box, and between which columns the last bound was attained.
N_ROWS, N_COLUMNS, LEAST, LOSS = 0, 1, 2, 3
TRUE_TOP, TRUE_LEFT, TRUE_BOTTOM, TRUE_RIGHT = 4, 5, 6, 7
AT_LEFT, AT_RIGHT = 8, 9

#: Task losses: none; 1 for all boxes but the true one; 1 - IoU.
NO_LOSS, ALL_OR_NOTHING, OVERLAP = range(3)


class Subwindows(NamedTuple):
    """The boxes of one image; scratch of one thread."""

    # (10,): Sizes, the kind of loss, and the true box in pixels.
    task: np.ndarray
    # Lines that boxes may end at, in pixels.
    rows: np.ndarray
    columns: np.ndarray
    # (n_rows * n_columns,): Of the cells between lines.
    weights: np.ndarray
    # ((n_rows + 1): Of each column the sums of positive and of negative weights above a line.
    gains: np.ndarray
    drops: np.ndarray
    # ((n_rows + 1): Sums of all weights above a line and left of another.
    sums: np.ndarray
    # (n_columns + 1,): Sums of columns.
    profile: np.ndarray


def make_subwindows(n_rows: int, n_columns: int, n_cells: int | None = None) -> Subwindows:
    """Room for images of up to so many cells."""
    n_cells = n_rows * n_columns if n_cells is None else n_cells
    size = n_cells + n_columns
    lines = (np.zeros(count, dtype=np.int64) for count in (10, n_rows + 1, n_columns + 1))
    sizes = n_cells, size, size, size + n_rows + 1, n_columns + 1
    return Subwindows(*lines, *(np.zeros(count) for count in sizes))


@kernel
def set_lines(space, height, width, stride, least):
    """Return lines every `stride` pixels and at the ends; boxes are `least` pixels or more."""
    n_rows, n_columns = (height + stride - 1) // stride, (width + stride - 1) // stride
    for t in range(n_rows + 1):
        space.rows[t] = min(t * stride, height)
    for t in range(n_columns + 1):
        space.columns[t] = min(t * stride, width)
    space.task[N_ROWS], space.task[N_COLUMNS] = n_rows, n_columns
    space.task[LEAST], space.task[LOSS] = least, NO_LOSS
    for q in range(n_rows * n_columns):
        space.weights[q] = 0.0


@inner_kernel
def _add_up(space):
    """Sum the weights of the cells up, for bounds; the sum of their sizes."""
    n, m = space.task[N_ROWS], space.task[N_COLUMNS]
    weights, gains, drops, sums = space.weights, space.gains, space.drops, space.sums
    for j in range(m):
        gains[j] = drops[j] = 0.0
    for j in range(m + 1):
        sums[j] = 0.0
    total = 0.0
    for t in range(n):
        here = t * m
        for j in range(m):
            weight = weights[here + j]
            total += abs(weight)
            gains[here + m + j] = gains[here + j] + max(weight, 0.0)
            drops[here + m + j] = drops[here + j] + min(weight, 0.0)
        above, below, row = t * (m + 1), (t + 1) * (m + 1), 0.0
        sums[below] = 0.0
        for j in range(m):
            row += weights[here + j]
            sums[below + j + 1] = sums[above + j + 1] + row
    return total


# Positions of the ends of four intervals in a set of boxes.
_TOP, _BOTTOM, _LEFT, _RIGHT = 0, 2, 4, 6

# Of the sum of all absolute weights: sums of sums are off by this much.
_ROUNDING = 1e-14


@inner_kernel
def _shrink(lines, least, subset, first):
    """Drop ends of intervals that no box of at least the least size has; whether one is left."""
    low, high = first, first + 2
    far, near = lines[subset[high + 1]], lines[subset[low]]
    while subset[low + 1] >= subset[low] and lines[subset[low + 1]] + least > far:
        subset[low + 1] -= 1
    while subset[high] <= subset[high + 1] and lines[subset[high]] < near + least:
        subset[high] += 1
    return subset[low] <= subset[low + 1] and subset[high] <= subset[high + 1]


@inner_kernel
def _side_overlap(lines, subset, first, start, stop, least):
    """Along one axis least pixels in the true box; pixels of the largest box in it, and outside."""
    near, far = lines[subset[first]], lines[subset[first + 3]]
    inner_near, inner_far = lines[subset[first + 1]], lines[subset[first + 2]]
    inside = max(min(far, stop) - max(near, start), 0)
    outside = far - near - inside
    shared = max(min(inner_far, stop) - max(inner_near, start), 0)
    # The least length of a box cannot all lie outside.
    shared = max(shared, max(least, inner_far - inner_near) - outside)
    return shared, inside, outside


@inner_kernel
def _loss_bound(space, subset):
    """No task loss in a set exceeds this; of a single box its loss."""
    task, kind = space.task, space.task[LOSS]
    if kind == NO_LOSS:
        return 0.0
    start, stop = task[TRUE_TOP], task[TRUE_BOTTOM]
    left, right = task[TRUE_LEFT], task[TRUE_RIGHT]
    if kind == ALL_OR_NOTHING:
        rows, columns = space.rows, space.columns
        same = rows[subset[0]] == start == rows[subset[1]]
        same = same and rows[subset[2]] == stop == rows[subset[3]]
        same = same and columns[subset[4]] == left == columns[subset[5]]
        same = same and columns[subset[6]] == right == columns[subset[7]]
        return 0.0 if same else 1.0
    shared, inside, outside = _side_overlap(space.rows, subset, _TOP, start, stop, task[LEAST])
    across, inside_across, outside_across = _side_overlap(
        space.columns, subset, _LEFT, left, right, task[LEAST]
    )
    largest = (inside + outside) * (inside_across + outside_across)
    union = (stop - start) * (right - left) + largest - inside * inside_across
    return 1.0 - shared * across / union


@inner_kernel
def _best_columns(space, subset):
    """Left and right of the largest sum of the profile to ``task``; returns that sum."""
    columns, profile, least = space.columns, space.profile, space.task[LEAST]
    left, last, r1, r2 = subset[4], subset[5], subset[6], subset[7]
    # From here on ``profile`` has the sums left of each line.
    total = 0.0
    for j in range(left, r2):
        total, profile[j] = total + profile[j], total
    profile[r2] = total
    lowest, at, best = math.inf, left, -math.inf
    for r in range(r1, r2 + 1):
        while left <= last and columns[left] + least <= columns[r]:
            if profile[left] < lowest:
                lowest, at = profile[left], left
            left += 1
        if profile[r] - lowest > best:
            best = profile[r] - lowest
            space.task[AT_LEFT], space.task[AT_RIGHT] = at, r
    return best


@inner_kernel
def _add_overlap(space, subset):
    """Charge each column for its part of the overlap with the true box, over the largest union."""
    task, columns = space.task, space.columns
    start, stop, least = task[TRUE_TOP], task[TRUE_BOTTOM], task[LEAST]
    left, right = task[TRUE_LEFT], task[TRUE_RIGHT]
    shared, inside, outside = _side_overlap(space.rows, subset, _TOP, start, stop, least)
    near, far = columns[subset[4]], columns[subset[7]]
    across = max(min(far, right) - max(near, left), 0)
    union = (stop - start) * (right - left) + (inside + outside) * (far - near) - inside * across
    price = shared / union
    if price > 0.0:
        for j in range(subset[4], subset[7]):
            common = max(min(columns[j + 1], right) - max(columns[j], left), 0)
            space.profile[j] -= price * common


@inner_kernel
def _bound(space, subset):
    """A number that no score in a set exceeds, -inf for an empty one; of a single box its score."""
    least = space.task[LEAST]
    if not _shrink(space.rows, least, subset, _TOP):
        return -math.inf
    if not _shrink(space.columns, least, subset, _LEFT):
        return -math.inf
    m = space.task[N_COLUMNS]
    gains, drops, profile = space.gains, space.drops, space.profile
    near, far = subset[0] * m, subset[3] * m
    inner_near, inner_far = subset[1] * m, subset[2] * m
    if inner_near < inner_far:
        for j in range(subset[4], subset[7]):
            lost = drops[inner_far + j] - drops[inner_near + j]
            profile[j] = gains[far + j] - gains[near + j] + lost
    else:
        for j in range(subset[4], subset[7]):
            profile[j] = gains[far + j] - gains[near + j]
    if space.task[LOSS] == OVERLAP:
        _add_overlap(space, subset)
        return _best_columns(space, subset) + 1.0
    return _best_columns(space, subset) + _loss_bound(space, subset)


@inner_kernel
def _member(space, subset, out):
    """The best box between the columns of the last bound, as a set, to `out`; its score."""
    top, bottom = subset[0], subset[3]
    left, right = space.task[AT_LEFT], space.task[AT_RIGHT]
    out[0] = out[1] = top
    out[2] = out[3] = bottom
    out[4] = out[5] = left
    out[6] = out[7] = right
    above, below = top * (space.task[N_COLUMNS] + 1), bottom * (space.task[N_COLUMNS] + 1)
    sums = space.sums
    inside = sums[below + right] - sums[below + left] - sums[above + right] + sums[above + left]
    return inside + _loss_bound(space, out)


@inner_kernel
def _split(subset, other):
    """Write half of a set to `other`, and leave the rest."""
    widest, length = 0, 0
    for first in range(0, 8, 2):
        # Where the rows are fixed the columns are no question, but for the loss.
        if first == _LEFT and length > 0:
            break
        if subset[first + 1] - subset[first] > length:
            widest, length = first, subset[first + 1] - subset[first]
    for q in range(8):
        other[q] = subset[q]
    middle = (subset[widest] + subset[widest + 1]) // 2
    subset[widest + 1] = middle
    other[widest] = middle + 1


# The sets that wait, and the search.

# Entries of ``Frontier.counts``: sets that wait, rows of ``sets`` ever used, sets that have been
# split, and sets whose bound was asked for.
_SIZE, _TOUCHED, _EXPANDED, BOUNDED = range(4)

# A chain of splits this long takes 2 ** 125 boxes, if splits halve.
_DEPTH = 128


class Frontier(NamedTuple):
    """Sets that wait to be split, in a heap of fixed size; scratch of one thread."""

    # (capacity,): Their bounds, as a heap.
    bounds: np.ndarray
    # (capacity,): When each came: of equal bounds the latest is next, for it is the smallest.
    ages: np.ndarray
    # (capacity,): Which row of `sets` each is; behind the heap those that are free.
    slots: np.ndarray
    # (capacity, 8): The sets.
    sets: np.ndarray
    # (depth, 8): Sets to be searched depth first where the heap is full.
    chain: np.ndarray
    # (depth,): Their bounds.
    chain_bounds: np.ndarray
    # (3, 8): Sets at hand.
    rows: np.ndarray
    # (n_best, 8): The best members.
    found: np.ndarray
    # (4,): Numbers of sets.
    counts: np.ndarray


def make_frontier(n_best: int = 1, capacity: int = 1 << 15) -> Frontier:
    """An empty heap."""
    ages, slots = np.zeros((2, capacity), dtype=np.int64)
    heights = capacity, _DEPTH, 3, n_best
    sets, chain, rows, found = (np.zeros((size, 8), dtype=np.int32) for size in heights)
    bounds, counts = np.zeros(capacity), np.zeros(4, dtype=np.int64)
    return Frontier(bounds, ages, slots, sets, chain, np.zeros(_DEPTH), rows, found, counts)


@inner_kernel
def _copy(source, target):
    for q in range(source.shape[0]):
        target[q] = source[q]


@inner_kernel
def _before(frontier, p, top, age):
    """Return whether the set at position p of the heap precedes another one."""
    bounds = frontier.bounds
    return bounds[p] > top or (bounds[p] == top and frontier.ages[p] > age)


@inner_kernel
def _put(frontier, p, top, age, slot):
    frontier.bounds[p] = top
    frontier.ages[p] = age
    frontier.slots[p] = slot


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
    top = _bound(space, subset)
    if not top > values[last] + slack:
        return -math.inf
    is_single = True
    for first in range(0, 8, 2):
        is_single = is_single and subset[first] == subset[first + 1]
    if is_single:
        _offer(frontier, subset, top, values)
        return -math.inf
    # The member of a set that is split later would be met again.
    if last == 0:
        score = _member(space, subset, spare)
        if score > values[0]:
            _offer(frontier, spare, score, values)
        if not top > values[0] + slack:
            return -math.inf
    return top


@inner_kernel
def _push(space, frontier, subset, values, slack):
    """Let a set wait, if it may be wanted."""
    counts, bounds, ages, slots = frontier.counts, frontier.bounds, frontier.ages, frontier.slots
    top = _measure(space, frontier, subset, values, slack)
    if not top > -math.inf:
        return
    p = counts[_SIZE]
    if p == counts[_TOUCHED]:
        slots[p] = p
        counts[_TOUCHED] += 1
    counts[_SIZE] += 1
    slot, age = slots[p], counts[BOUNDED]
    _copy(subset, frontier.sets[slot])
    while p > 0 and not _before(frontier, (p - 1) // 2, top, age):
        above = (p - 1) // 2
        _put(frontier, p, bounds[above], ages[above], slots[above])
        p = above
    _put(frontier, p, top, age, slot)


@inner_kernel
def _pop(frontier, subset):
    """Take the set with the largest bound."""
    bounds, ages, slots = frontier.bounds, frontier.ages, frontier.slots
    frontier.counts[_SIZE] -= 1
    size, free = frontier.counts[_SIZE], slots[0]
    _copy(frontier.sets[free], subset)
    top, age, slot = bounds[size], ages[size], slots[size]
    p, below = 0, 1
    while below < size:
        if below + 1 < size:
            first = _before(frontier, below, bounds[below + 1], ages[below + 1])
            below += 0 if first else 1
        if not _before(frontier, below, top, age):
            break
        _put(frontier, p, bounds[below], ages[below], slots[below])
        p, below = below, 2 * below + 1
    _put(frontier, p, top, age, slot)
    slots[size] = free


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
        if counts[_EXPANDED] == most or n + 2 > tops.shape[0]:
            return False
        counts[_EXPANDED] += 1
        _copy(chain[n], subset)
        _split(subset, other)
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
            _bound(space, subset)
            score = _member(space, subset, spare)
            if score > -math.inf:
                _offer(frontier, spare, score, values)
    return top if top > values[last] + slack else -math.inf


@kernel
def best_boxes(space, frontier, values, most):
    """The best boxes, task loss included; a bound on those not seen where the search was cut."""
    counts, subset, other = frontier.counts, frontier.rows[0], frontier.rows[1]
    n, m, last = space.task[N_ROWS], space.task[N_COLUMNS], values.shape[0] - 1
    subset[0] = subset[2] = subset[4] = subset[6] = 0
    subset[1] = subset[3] = n
    subset[5] = subset[7] = m
    counts[:] = 0
    values[:] = -math.inf
    size = _add_up(space)
    if not size < math.inf:
        values[0] = math.nan
        _copy(subset, frontier.found[0])
        return -math.inf
    slack = _ROUNDING * (size + 1.0)
    _push(space, frontier, subset, values, slack)
    while counts[_SIZE] > 0:
        top = frontier.bounds[0]
        if not top > values[last] + slack:
            return -math.inf
        if counts[_EXPANDED] == most:
            return _cut(space, frontier, values, slack, top)
        _pop(frontier, subset)
        if counts[_SIZE] + 2 > frontier.bounds.shape[0]:
            if not _depth_first(space, frontier, subset, values, slack, most):
                return _cut(space, frontier, values, slack, top)
            continue
        counts[_EXPANDED] += 1
        _split(subset, other)
        _push(space, frontier, subset, values, slack)
        _push(space, frontier, other, values, slack)
    return -math.inf


@inner_kernel
def to_pixels(space, found, box):
    """Top, left, bottom and right of a single box, in pixels, to `box`."""
    box[0], box[2] = space.rows[found[0]], space.rows[found[3]]
    box[1], box[3] = space.columns[found[4]], space.columns[found[7]]

"""Efficient subwindow search: the boxes of an image whose points sum to the most.

A set of boxes is given by intervals of lines for the top, the bottom, the left and the right. Every
row of cells that may be inside counts with its positive weights, every row that must be inside with
its negative ones, too (Lampert, Blaschko, Hofmann 2008, Beyond sliding windows: object localization
by efficient subwindow search, section 2.1); left and right are then found in one pass over the
columns, which is exact where the rows are fixed (An, Peursum, Liu, Venkatesh 2009, Efficient
algorithms for subwindow search in object detection and localization, section 3).
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from .branch_and_bound import BOUNDED, best_first, bound, is_single, make_frontier, member, split
from .numerics import check_integer

# Cells of an image for :mod:`.subwindow`: where boxes may end, weights, and their sums.

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
    return Subwindows(
        np.zeros(10, dtype=np.int64),
        np.zeros(n_rows + 1, dtype=np.int64),
        np.zeros(n_columns + 1, dtype=np.int64),
        np.zeros(n_cells),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size + n_rows + 1),
        np.zeros(n_columns + 1),
    )


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


@kernel
def add_up(space):
    """Sum the weights of the cells up, for bounds."""
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


__all__ = [
    "ALL_OR_NOTHING",
    "LOSS",
    "NO_LOSS",
    "OVERLAP",
    "TRUE_BOTTOM",
    "TRUE_LEFT",
    "TRUE_RIGHT",
    "TRUE_TOP",
    "FoundBoxes",
    "Subwindows",
    "add_up",
    "best_boxes",
    "load_weights",
    "make_subwindows",
    "set_lines",
    "subwindow_search",
    "to_pixels",
    "whole_image",
]

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
    # What a box has to be long cannot all lie outside.
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
    """Charge each column of the profile for its share of the overlap with the true box.

    IoU is the number of shared pixels over a union no larger than that of the largest box.
    """
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


@bound.register(Subwindows)
@kernel
def _(space, subset):
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


@is_single.register(Subwindows)
@kernel
def _(space, subset):
    rows = subset[0] == subset[1] and subset[2] == subset[3]
    return rows and subset[4] == subset[5] and subset[6] == subset[7]


@member.register(Subwindows)
@kernel
def _(space, subset, out):
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


@split.register(Subwindows)
@kernel
def _(space, subset, other):
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


@kernel
def best_boxes(space, frontier, values, most):
    """The best boxes, task loss included."""
    root, task = frontier.chain[0], space.task
    root[0] = root[2] = root[4] = root[6] = 0
    root[1] = root[3] = task[N_ROWS]
    root[5] = root[7] = task[N_COLUMNS]
    size = add_up(space)
    if not size < math.inf:
        values[:] = -math.inf
        values[0] = math.nan
        for q in range(8):
            frontier.found[0, q] = root[q]
        return -math.inf
    return best_first(space, frontier, root, values, _ROUNDING * (size + 1.0), most)


@inner_kernel
def to_pixels(space, found, box):
    """Top, left, bottom and right of a single box, in pixels, to `box`."""
    box[0], box[2] = space.rows[found[0]], space.rows[found[3]]
    box[1], box[3] = space.columns[found[4]], space.columns[found[7]]


@kernel
def _all_to_pixels(space, found, boxes):
    for k in range(boxes.shape[0]):
        to_pixels(space, found[k], boxes[k])


def _pixels(weights):
    """Weights of pixels as floats."""
    try:
        given = np.asarray(weights)
        casting = "unsafe" if given.dtype.kind == "O" else "same_kind"
        pixels = given.astype(np.float64, casting=casting)
    except (TypeError, ValueError):
        pixels = None
    if pixels is None or pixels.ndim != 2 or 0 in pixels.shape or not np.isfinite(pixels).all():
        raise ValueError("weights must be finite numbers of shape (height, width), at least (1, 1)")
    return pixels


def _read_box(box, height, width):
    """Left, top, right and bottom of a box in an image."""
    try:
        sides = np.asarray(box)
    except ValueError:
        sides = np.empty(0)
    if sides.shape != (4,) or sides.dtype.kind not in "iu":
        raise TypeError(f"true_box must be four integers (xmin, ymin, xmax, ymax), got {box!r}")
    left, top, right, bottom = sides.tolist()
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise ValueError(
            f"true_box must be (xmin, ymin, xmax, ymax) of a box in an image of {width} x {height} "
            f"pixels that is not empty, got {tuple(sides.tolist())}"
        )
    return left, top, right, bottom


def load_weights(space, weights, stride: int = 1, min_size: int = 1) -> None:
    """Take the weights of the pixels of an image."""
    weights = _pixels(weights)
    # What is longer than the image changes nothing.
    stride = min(check_integer("stride", stride, 1), max(weights.shape))
    min_size = min(check_integer("min_size", min_size, 1), max(weights.shape) + 1)
    set_lines(space, *weights.shape, stride, min_size)
    by_rows = np.add.reduceat(weights, np.arange(0, weights.shape[0], stride), axis=0)
    cells = np.add.reduceat(by_rows, np.arange(0, weights.shape[1], stride), axis=1)
    space.weights[: cells.size] = cells.ravel()
    add_up(space)


def whole_image(space) -> np.ndarray:
    """The set of all boxes, for :func:`skstruct.inference.branch_and_bound.best_members`."""
    n, m = space.task[N_ROWS], space.task[N_COLUMNS]
    return np.array([0, n, 0, n, 0, m, 0, m], dtype=np.int32)


class FoundBoxes(NamedTuple):
    """What a search has found."""

    # (k, 4): Rows (xmin, ymin, xmax, ymax), best first.
    boxes: np.ndarray
    # (k,): Sums of the weights inside, with the loss.
    scores: np.ndarray
    # -inf if they are the best; else a bound on the scores of boxes that were not seen.
    rest: float
    # Sets of boxes whose bound was computed.
    n_bounded: int


def subwindow_search(
    weights,
    n_best: int = 1,
    *,
    min_size: int = 1,
    stride: int = 1,
    true_box=None,
    max_expansions: int | None = None,
    capacity: int = 1 << 15,
) -> FoundBoxes:
    """The boxes of an image whose weights sum to the most.

    Lampert, Blaschko, Hofmann 2008, Beyond sliding windows: object localization by efficient
    subwindow search, sections 2 and 3. Blaschko, Lampert 2008, Learning to localize objects with
    structured output regression, section 3.2, for the bound of the loss.
    """
    weights = _pixels(weights)
    height, width = weights.shape
    n_best, capacity = check_integer("n_best", n_best, 1), check_integer("capacity", capacity, 1)
    most = -1 if max_expansions is None else check_integer("max_expansions", max_expansions, 0)
    stride = min(check_integer("stride", stride, 1), max(height, width))
    space = make_subwindows(-(-height // stride), -(-width // stride))
    load_weights(space, weights, stride, min_size)
    if true_box is not None:
        xmin, ymin, xmax, ymax = _read_box(true_box, height, width)
        space.task[LOSS] = OVERLAP
        space.task[TRUE_TOP : TRUE_RIGHT + 1] = ymin, xmin, ymax, xmax
    frontier, values = make_frontier(8, n_best, capacity), np.empty(n_best)
    rest = best_boxes(space, frontier, values, most)
    k = int(np.isfinite(values).sum())
    boxes = np.zeros((k, 4), dtype=np.int32)
    _all_to_pixels(space, frontier.found, boxes)
    n_bounded = int(frontier.counts[BOUNDED])
    return FoundBoxes(boxes[:, [1, 0, 3, 2]].astype(np.int64), values[:k], rest, n_bounded)

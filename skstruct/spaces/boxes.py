"""One box in each image: the possible boxes, and the best of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import (
    add_indicator,
    loss_augmented_max,
    loss_augmented_top_k,
    max_oracle,
    score,
    top_k_oracle,
)
from ..inference.subwindow import (
    LOSS,
    NO_LOSS,
    TRUE_BOTTOM,
    TRUE_LEFT,
    TRUE_RIGHT,
    TRUE_TOP,
    Frontier,
    Subwindows,
    best_boxes,
    set_lines,
    to_pixels,
)
from .items import ItemSpace

# A labelling is four numbers: top, left, bottom and right, in pixels, half-open.


class BoxesData(NamedTuple):
    """Positions of the points of all samples, and the boxes that are possible."""

    # (n_points,): Pixel of each point, and its cell between the lines, row by row.
    row: np.ndarray
    column: np.ndarray
    cell: np.ndarray
    # (n_samples, 2): Heights and widths.
    shapes: np.ndarray
    # (n_samples,): Receives the possible suboptimality of the boxes found, where searches are cut.
    gaps: np.ndarray
    # Spacing of the lines on which boxes may end, and minimum length of their sides, in pixels.
    stride: int
    least: int
    # Maximum number of sets of boxes to split, -1 for no limit.
    most: int


class BoxesScratch(NamedTuple):
    """Scratch of one thread."""

    # The current image.
    space: Subwindows
    # Sets of its boxes.
    frontier: Frontier
    # (1,): Score of the best.
    value: np.ndarray


class BoxesSpace(ItemSpace):
    """Points in images for kernels; a labelling is a box; the true one may lie off the lines."""

    structure = "Boxes"


@inner_kernel(inline=True)
def _is_inside(own, p, box):
    """1 for a point inside, else 0."""
    row, column = own.row[p], own.column[p]
    return (box[0] <= row) & (row < box[2]) & (box[1] <= column) & (column < box[3])


@add_indicator.register(BoxesSpace)
@kernel
def _(space, i, labels, c, mu):
    first, own = space.item_ptr[i], space.own
    for q in range(space.item_ptr[i + 1] - first):
        if _is_inside(own, first + q, labels):
            mu[q] += c


@score.register(BoxesSpace)
@kernel
def _(space, i, theta, labels):
    first, own, total = space.item_ptr[i], space.own, 0.0
    for q in range(space.item_ptr[i + 1] - first):
        if _is_inside(own, first + q, labels):
            total += theta[q]
    return total


@inner_kernel
def _search(space, i, theta, loss, true, values, most):
    """Write the best boxes to ``frontier.found``, and their loss-augmented scores to `values`."""
    own, image, first = space.own, space.work.space, space.item_ptr[i]
    set_lines(image, own.shapes[i, 0], own.shapes[i, 1], own.stride, own.least)
    for q in range(space.item_ptr[i + 1] - first):
        image.weights[own.cell[first + q]] += theta[q]
    image.task[LOSS] = loss
    if loss != NO_LOSS:
        image.task[TRUE_TOP], image.task[TRUE_LEFT] = true[0], true[1]
        image.task[TRUE_BOTTOM], image.task[TRUE_RIGHT] = true[2], true[3]
    return best_boxes(image, space.work.frontier, values, most)


@max_oracle.register(BoxesSpace)
@kernel
def _(space, i, theta, labels):
    work, own = space.work, space.own
    rest = _search(space, i, theta, NO_LOSS, labels, work.value, own.most)
    to_pixels(work.space, work.frontier.found[0], labels)
    if own.most >= 0:
        own.gaps[i] = max(rest - work.value[0], 0.0)
    return work.value[0]


@inner_kernel
def _write(space, values, labels):
    """Write the boxes found to `labels`, in pixels."""
    for k in range(values.shape[0]):
        if values[k] > -math.inf:
            to_pixels(space.work.space, space.work.frontier.found[k], labels[k])


@top_k_oracle.register(BoxesSpace)
@kernel
def _(space, i, theta, values, labels):
    own, last = space.own, values.shape[0] - 1
    rest = _search(space, i, theta, NO_LOSS, labels[0], values, own.most)
    _write(space, values, labels)
    if own.most >= 0:
        own.gaps[i] = max(rest - values[last], 0.0) if rest > -math.inf else 0.0


@loss_augmented_max.register(BoxesSpace)
@kernel
def _(problem, i, theta, labels, augmented):
    space, work = problem.space, problem.space.work
    true = problem.target.labels[4 * i : 4 * i + 4]
    _search(space, i, theta, problem.target.loss, true, work.value, -1)
    best = work.value[0]
    right = score(space, i, theta, true)
    if right > best:
        for q in range(4):
            labels[q] = true[q]
        return right
    to_pixels(work.space, work.frontier.found[0], labels)
    return best


@inner_kernel
def _has_truth(space, i, true):
    """Return whether the true box is among those that the search covers."""
    own, found = space.own, True
    for side in range(2):
        near, far, end = true[side], true[side + 2], own.shapes[i, side]
        on_lines = near % own.stride == 0 and (far % own.stride == 0 or far == end)
        found = found and on_lines and far - near >= own.least
    return found


@loss_augmented_top_k.register(BoxesSpace)
@kernel
def _(problem, i, theta, values, labels, augmented):
    space, last = problem.space, values.shape[0] - 1
    true = problem.target.labels[4 * i : 4 * i + 4]
    _search(space, i, theta, problem.target.loss, true, values, -1)
    _write(space, values, labels)
    if _has_truth(space, i, true):
        return
    right = score(space, i, theta, true)
    if not right > values[last]:
        return
    p = last
    while p > 0 and right > values[p - 1]:
        values[p] = values[p - 1]
        for q in range(4):
            labels[p, q] = labels[p - 1, q]
        p -= 1
    values[p] = right
    for q in range(4):
        labels[p, q] = true[q]

"""One box in an image, for compiled solvers: the problem and the kernels of its verbs.

A labelling is four numbers: top, left, bottom and right, in pixels, half-open.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    add_indicator,
    loss_augmented_max,
    loss_augmented_top_k,
    max_oracle,
    score,
    task_loss,
    top_k_oracle,
)
from ...inference.branch_and_bound import Frontier
from ...inference.subwindow import (
    ALL_OR_NOTHING,
    LOSS,
    NO_LOSS,
    TRUE_BOTTOM,
    TRUE_LEFT,
    TRUE_RIGHT,
    TRUE_TOP,
    Subwindows,
    best_boxes,
    set_lines,
    to_pixels,
)
from ..arrays import TableScratch
from ..items.verbs import ItemProblem


class BoxesData(NamedTuple):
    """Where the points of all samples are, and which boxes there are."""

    # (n_points,): Where each point is: its pixel, and its cell between the lines, row by row.
    row: np.ndarray
    column: np.ndarray
    cell: np.ndarray
    # (n_samples, 2): Heights and widths.
    shapes: np.ndarray
    # (n_samples,): Takes what the boxes found may lack of the best, where searches are cut.
    gaps: np.ndarray
    # Where boxes may end, and the least pixels of their sides.
    stride: int
    least: int
    # The task loss, as :mod:`skstruct.inference.subwindow` has them.
    loss: int
    # Most sets of boxes to split, -1 for as many as it takes.
    most: int


class BoxesScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch
    # The image at hand.
    space: Subwindows
    # Sets of its boxes.
    frontier: Frontier
    # (1,): Score of the best.
    value: np.ndarray


class BoxesProblem(ItemProblem):
    """Points in images, packed for kernels: a labelling is a box, its parts are the points inside.

    The loss-augmented search looks at the true box, too, where no line runs along it or it is
    smaller than others may be.
    """

    structure = "Boxes"


@inner_kernel(inline=True)
def _is_inside(own, p, box):
    """1 for a point inside, else 0."""
    row, column = own.row[p], own.column[p]
    return (box[0] <= row) & (row < box[2]) & (box[1] <= column) & (column < box[3])


@add_indicator.register(BoxesProblem)
@kernel
def _(problem, i, labels, c, mu):
    first, own = problem.item_ptr[i], problem.own
    for q in range(problem.item_ptr[i + 1] - first):
        if _is_inside(own, first + q, labels):
            mu[q] += c


@score.register(BoxesProblem)
@kernel
def _(problem, i, theta, labels):
    first, own, total = problem.item_ptr[i], problem.own, 0.0
    for q in range(problem.item_ptr[i + 1] - first):
        if _is_inside(own, first + q, labels):
            total += theta[q]
    return total


@task_loss.register(BoxesProblem)
@kernel
def _(problem, i, labels):
    first, true, same = problem.label_ptr[i], problem.labels, True
    for q in range(4):
        same = same and labels[q] == true[first + q]
    if same:
        return 0.0
    if problem.own.loss == ALL_OR_NOTHING:
        return 1.0
    top, left, bottom, right = true[first], true[first + 1], true[first + 2], true[first + 3]
    height = max(min(labels[2], bottom) - max(labels[0], top), 0)
    shared = height * max(min(labels[3], right) - max(labels[1], left), 0)
    areas = (bottom - top) * (right - left)
    areas += (labels[2] - labels[0]) * (labels[3] - labels[1])
    return 1.0 - shared / (areas - shared)


@inner_kernel
def _search(problem, i, theta, loss, values, most):
    """The best boxes to ``frontier.found``, their scores with the loss to `values`."""
    own, space, first = problem.own, problem.work.space, problem.item_ptr[i]
    set_lines(space, own.shapes[i, 0], own.shapes[i, 1], own.stride, own.least)
    for q in range(problem.item_ptr[i + 1] - first):
        space.weights[own.cell[first + q]] += theta[q]
    space.task[LOSS] = loss
    if loss != NO_LOSS:
        label = problem.label_ptr[i]
        space.task[TRUE_TOP] = problem.labels[label]
        space.task[TRUE_LEFT] = problem.labels[label + 1]
        space.task[TRUE_BOTTOM] = problem.labels[label + 2]
        space.task[TRUE_RIGHT] = problem.labels[label + 3]
    return best_boxes(space, problem.work.frontier, values, most)


@max_oracle.register(BoxesProblem)
@kernel
def _(problem, i, theta, labels):
    work, own = problem.work, problem.own
    rest = _search(problem, i, theta, NO_LOSS, work.value, own.most)
    to_pixels(work.space, work.frontier.found[0], labels)
    if own.most >= 0:
        own.gaps[i] = max(rest - work.value[0], 0.0)
    return work.value[0]


@loss_augmented_max.register(BoxesProblem)
@kernel
def _(problem, i, theta, labels, augmented):
    work, first = problem.work, problem.label_ptr[i]
    _search(problem, i, theta, problem.own.loss, work.value, -1)
    best = work.value[0]
    right = score(problem, i, theta, problem.labels[first : first + 4])
    if right > best:
        for q in range(4):
            labels[q] = problem.labels[first + q]
        return right
    to_pixels(work.space, work.frontier.found[0], labels)
    return best


@inner_kernel
def _write(problem, values, labels):
    """Boxes that were found to `labels`, in pixels."""
    for k in range(values.shape[0]):
        if values[k] > -math.inf:
            to_pixels(problem.work.space, problem.work.frontier.found[k], labels[k])


@top_k_oracle.register(BoxesProblem)
@kernel
def _(problem, i, theta, values, labels):
    own, last = problem.own, values.shape[0] - 1
    rest = _search(problem, i, theta, NO_LOSS, values, own.most)
    _write(problem, values, labels)
    if own.most >= 0:
        own.gaps[i] = max(rest - values[last], 0.0) if rest > -math.inf else 0.0


@inner_kernel
def _has_truth(problem, i):
    """Whether the search looks at the true box like at any other."""
    own, first, true = problem.own, problem.label_ptr[i], problem.labels
    found = True
    for side in range(2):
        near, far, end = true[first + side], true[first + side + 2], own.shapes[i, side]
        on_lines = near % own.stride == 0 and (far % own.stride == 0 or far == end)
        found = found and on_lines and far - near >= own.least
    return found


@loss_augmented_top_k.register(BoxesProblem)
@kernel
def _(problem, i, theta, values, labels, augmented):
    first, last = problem.label_ptr[i], values.shape[0] - 1
    _search(problem, i, theta, problem.own.loss, values, -1)
    _write(problem, values, labels)
    if _has_truth(problem, i):
        return
    right = score(problem, i, theta, problem.labels[first : first + 4])
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
        labels[p, q] = problem.labels[first + q]

"""Cells of an image for :mod:`.subwindow`: where boxes may end, weights, and their sums."""

from typing import NamedTuple

import numpy as np

from ..core.dispatch import kernel

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

"""Rows with a feature map of a user's structure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import kernel
from ..core.oracles import accumulate, gram, potentials
from ..core.weights import Weights, zero_weights
from .blocks import row_scratch


class OwnScratch(NamedTuple):
    """Scratch of one thread."""

    # A row of a weight table, plain or lazy.
    row: np.ndarray
    # Zeros in training: a sample's gradient.
    weights: Weights


class OwnRows(NamedTuple):
    """Feature rows of nodes, for a class that defines the potentials.

    A subclass registers :func:`~skstruct.core.oracles.potentials`, which writes no -inf (the
    space does), and :func:`~skstruct.core.oracles.accumulate`, its adjoint; products with the Gram
    matrix follow from these, in time proportional to the weights: register
    :func:`~skstruct.core.oracles.gram` if that takes too long. With the class attribute
    ``adds_by_columns = True``, threads divide the columns of the second, which must then add only
    by :func:`skstruct.core.add_outer`.

    Parameters
    ----------
    nodes : NamedTuple
        Feature rows of all nodes, for :func:`skstruct.core.scores` and
        :func:`skstruct.core.add_outer`.
    row_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes of each sample begin.
    width : int
        Number of columns of the node table, usually one per label.
    work : NamedTuple
        Scratch of one thread, of a fixed kind: ``work.row`` takes a row of a weight table.
    """

    nodes: tuple
    row_ptr: np.ndarray
    width: int
    work: OwnScratch

    @classmethod
    def of(
        cls,
        nodes: tuple,
        row_ptr: np.ndarray,
        shapes: tuple,
        for_training: bool,
    ) -> OwnRows:
        """Return rows for tables of `weight_shapes`; with scratch of ``gram`` if `for_training`."""
        tables = zero_weights(shapes if for_training else ((0, 0), (0, 0)))
        work = OwnScratch(row_scratch(shapes), tables)
        return cls(nodes, row_ptr, shapes[0][1], work)


@gram.register(OwnRows)
@kernel
def _(rows, i, r, out):
    gradient = rows.work.weights
    for table in (gradient.node, gradient.pair):
        for row in range(table.shape[0]):
            for k in range(table.shape[1]):
                table[row, k] = 0.0
    accumulate(rows, i, r, (1.0, 0.0), gradient)
    potentials(rows, i, gradient, out)

"""Items that score by their features: the problem and the verbs that its structures share."""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import kernel
from ...core.features import add_outer, scores
from ...core.gram import gram_product
from ...core.oracles import accumulate, gram, potentials


class ItemProblem(NamedTuple):
    """Samples of items packed for kernels.

    A structure's own problem is a subclass, so that the verbs of this file serve it, too.

    Parameters
    ----------
    items : DenseFeatures or SparseFeatures
        Feature rows of the items of all samples.
    item_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the items of each sample begin.
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts of each sample begin (an item each, then perhaps one that every labelling
        has, which scores 0 and takes the constant of a task loss), and its labelling.
    labels : ndarray of int32
        True labellings; empty when unknown.
    item_gram : Gram
        Products of the feature rows of a sample, for line searches.
    own : tuple
        What the structure itself needs, a NamedTuple of arrays and numbers, or ``()``.
    work : NamedTuple
        Scratch of one thread: ``tables`` for weights, and what the structure's oracles need.
    """

    items: tuple
    item_ptr: np.ndarray
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    item_gram: tuple
    own: tuple
    work: tuple


@potentials.register(ItemProblem)
@kernel
def _(problem, i, w, theta):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    scores(problem.items, first, stop, 1, w.node, w, problem.work.tables.row, theta, 0)
    for q in range(stop - first, problem.part_ptr[i + 1] - problem.part_ptr[i]):
        theta[q] = 0.0


@accumulate.register(ItemProblem)
@kernel
def _(problem, i, r, c, w):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    add_outer(problem.items, first, stop, 1, r, 0, c, w.node, w, problem.work.tables.row)


@gram.register(ItemProblem)
@kernel
def _(problem, i, r, out):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    items, table = problem.items, problem.work.tables.node
    gram_product(problem.item_gram, items, i, first, stop, 1, r, out, 0, table)
    for q in range(stop - first, problem.part_ptr[i + 1] - problem.part_ptr[i]):
        out[q] = 0.0

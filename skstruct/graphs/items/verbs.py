"""Items that score by their features: the problem and the verbs that its structures share."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.features import add_outer, scores
from ...core.gram import gram_product
from ...core.oracles import (
    accumulate,
    add_indicator,
    augment,
    gram,
    potentials,
    score,
    task_loss,
    truth,
)
from ...core.proximal import catch_up, catch_up_rows


class ItemProblem(NamedTuple):
    """Samples of items packed for kernels.

    A structure's own problem is a subclass, so that the verbs of this file serve it, too.
    """

    # Feature rows of the items of all samples.
    items: tuple
    # (n_samples + 1,): Where the items of each sample begin.
    item_ptr: np.ndarray
    # (n_samples + 1,): Where the parts of each sample begin (an item each, then perhaps one that
    # every labelling has, which scores 0 and takes the constant of a task loss), and its labelling.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # True labellings; empty when unknown.
    labels: np.ndarray
    # (n_items or 0,): Items that may be chosen; empty when all may.
    allowed: np.ndarray
    # (n_items or 0,): What choosing an item adds to the task loss.
    loss: np.ndarray
    # (n_samples or 0,): Task loss of choosing nothing.
    constant: np.ndarray
    # Products of the feature rows of a sample, for line searches.
    item_gram: tuple
    # What the structure itself needs, a NamedTuple of arrays and numbers, or ``()``.
    own: tuple
    # Scratch of one thread: ``tables`` for weights, and what the structure's oracles need.
    work: tuple

    adds_by_columns = True


class ChoiceProblem(ItemProblem):
    """Samples whose labelling says of each item, by 1 or 0, whether it is chosen."""


@inner_kernel(inline=True)
def counts_of(problem, i):
    """Numbers of items and of parts."""
    n = problem.item_ptr[i + 1] - problem.item_ptr[i]
    return n, problem.part_ptr[i + 1] - problem.part_ptr[i]


@potentials.register(ItemProblem)
@kernel
def _(problem, i, w, theta):
    n, n_parts = counts_of(problem, i)
    first = problem.item_ptr[i]
    scores(problem.items, first, first + n, 1, w.node, w, problem.work.tables.row, theta, 0)
    if problem.allowed.shape[0] > 0:
        for q in range(n):
            if problem.allowed[first + q] == 0:
                theta[q] = -math.inf
    for q in range(n, n_parts):
        theta[q] = 0.0


@accumulate.register(ItemProblem)
@kernel
def _(problem, i, r, c, w):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    add_outer(problem.items, first, stop, 1, r, 0, c, w.node, w, problem.work.tables.row)


@catch_up.register(ItemProblem)
@kernel
def _(problem, i, w, clock):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    catch_up_rows(problem.items, first, stop, w.node, clock.node, clock)


@gram.register(ItemProblem)
@kernel
def _(problem, i, r, out):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    items, table = problem.items, problem.work.tables.node
    gram_product(problem.item_gram, items, i, first, stop, 1, r, out, 0, table)
    n, n_parts = counts_of(problem, i)
    for q in range(n, n_parts):
        out[q] = 0.0


@truth.register(ItemProblem)
@kernel
def _(problem, i, labels):
    first = problem.label_ptr[i]
    for q in range(problem.label_ptr[i + 1] - first):
        labels[q] = problem.labels[first + q]


@add_indicator.register(ChoiceProblem)
@kernel
def _(problem, i, labels, c, mu):
    n, n_parts = counts_of(problem, i)
    for q in range(n):
        if labels[q] == 1:
            mu[q] += c
    for q in range(n, n_parts):
        mu[q] += c


@score.register(ChoiceProblem)
@kernel
def _(problem, i, theta, labels):
    n, n_parts = counts_of(problem, i)
    total = 0.0
    for q in range(n):
        if labels[q] == 1:
            total += theta[q]
    for q in range(n, n_parts):
        total += theta[q]
    return total


@augment.register(ChoiceProblem)
@kernel
def _(problem, i, theta):
    n, n_parts = counts_of(problem, i)
    first = problem.item_ptr[i]
    for q in range(n):
        theta[q] += problem.loss[first + q]
    for q in range(n, n_parts):
        theta[q] += problem.constant[i]


@task_loss.register(ChoiceProblem)
@kernel
def _(problem, i, labels):
    first = problem.item_ptr[i]
    total = problem.constant[i]
    for q in range(problem.item_ptr[i + 1] - first):
        if labels[q] == 1:
            total += problem.loss[first + q]
    return total

"""Verbs that all graphs of nodes and pairwise edges share, for compiled solvers.

A problem has ``nodes``, ``edges`` (feature rows), ``part_ptr``, ``label_ptr``, ``edge_ptr``,
``labels``, ``transition_mask``, ``allowed``, ``cost``, ``normalize``, ``node_gram``, ``pair_gram``
and ``work``; :class:`skstruct.graphs.chain.kernels.ChainProblem` says what they are. Parts of a
sample of T nodes and K labels: ``T * K`` node parts, then ``K * K`` transition parts (their
indicators summed over edges, since all edges share one table), or ``K * K`` for each edge when
edges have features of their own.
"""

import math

from ...core.dispatch import inner_kernel, kernel
from ...core.features import add_outer, scores
from ...core.gram import gram_product
from ...core.oracles import accumulate, augment, gram, potentials, task_loss, truth


@inner_kernel(inline=True)
def shape_of(problem, i):
    """First node, numbers of nodes and labels, first edge row, number of transition tables."""
    n_labels = problem.cost.shape[0]
    first = problem.label_ptr[i]
    n = problem.label_ptr[i + 1] - first
    n_parts = problem.part_ptr[i + 1] - problem.part_ptr[i]
    return first, n, n_labels, problem.edge_ptr[i], (n_parts // n_labels - n) // n_labels


@inner_kernel(inline=True)
def blocks(problem, i, theta):
    """Node block and transition block of part-space array `theta`, shaped."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    size = n * n_labels
    unary = theta[:size].reshape(n, n_labels)
    pair = theta[size : size + n_tables * n_labels * n_labels]
    return unary, pair.reshape(n_tables, n_labels, n_labels)


@kernel
def _potentials(problem, i, w, theta):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    scores(problem.nodes, first, first + n, n_labels, w.node, w, problem.work, theta, 0)
    scores(problem.edges, e0, e0 + n_tables, square, w.pair, w, problem.work, theta, size)
    for e in range(n_tables):
        for j in range(n_labels):
            o = size + e * square + j * n_labels
            for k in range(n_labels):
                theta[o + k] += problem.transition_mask[j, k]
    if problem.allowed.shape[0] > 0:
        for t in range(n):
            for k in range(n_labels):
                if problem.allowed[first + t, k] == 0:
                    theta[t * n_labels + k] = -math.inf


@kernel
def _accumulate(problem, i, r, c, w):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    add_outer(problem.nodes, first, first + n, n_labels, r, 0, c, w.node, w, problem.work)
    add_outer(problem.edges, e0, e0 + n_tables, square, r, size, c, w.pair, w, problem.work)


@kernel
def _gram(problem, i, r, out):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    gram_product(problem.node_gram, problem.nodes, i, first, first + n, n_labels, r, out, 0)
    gram_product(problem.pair_gram, problem.edges, i, e0, e0 + n_tables, square, r, out, size)


@kernel
def _truth(problem, i, labels):
    first = problem.label_ptr[i]
    for t in range(problem.label_ptr[i + 1] - first):
        labels[t] = problem.labels[first + t]


@kernel
def _augment(problem, i, theta):
    unary = blocks(problem, i, theta)[0]
    n, n_labels = unary.shape
    first = problem.label_ptr[i]
    share = 1.0 / n if problem.normalize == 1 else 1.0
    for t in range(n):
        y = problem.labels[first + t]
        for k in range(n_labels):
            unary[t, k] += share * problem.cost[y, k]


@kernel
def _task_loss(problem, i, labels):
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    total = 0.0
    for t in range(stop - first):
        total += problem.cost[problem.labels[first + t], labels[t]]
    return total / (stop - first) if problem.normalize == 1 else total


_VERBS = {
    potentials: _potentials,
    accumulate: _accumulate,
    gram: _gram,
    truth: _truth,
    augment: _augment,
    task_loss: _task_loss,
}


def share_verbs(cls):
    """Register the verbs of this file for a problem class.

    Parameters
    ----------
    cls : type
        A NamedTuple with the fields above.

    Returns
    -------
    type
        The class itself.
    """
    for verb, function in _VERBS.items():
        verb.register(cls)(function)
    return cls

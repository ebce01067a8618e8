"""Graphs of nodes and pairwise edges for compiled solvers: the problem and the verbs they share."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.features import add_outer, scores
from ...core.gram import gram_product
from ...core.oracles import accumulate, augment, count_states, gram, potentials, task_loss, truth
from ...core.proximal import catch_up, catch_up_rows
from ...losses.task import UNWEIGHTED, LossWeights, add_label_costs, label_cost


class PairwiseProblem(NamedTuple):
    """Graphs of nodes and pairwise edges packed for kernels.

    A structure's own problem is a subclass, so that the verbs of this file serve it, too.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of all nodes.
    edges : DenseFeatures or SparseFeatures
        Feature rows of all edges, or the one row that they share.
    part_ptr, label_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts, the nodes and the edge rows of each sample begin; `edge_ptr` is all zeros
        when edges share one row.
    n_tables : ndarray of shape (n_samples,) of int64
        Number of transition tables in the parts of each sample: its edges, or those they share.
    width : int
        Entries of a table: ``n_labels ** 2``, or fewer where label pairs share weights.
    labels : ndarray of shape (n_nodes,) of int32
        True labels; empty when unknown.
    transition_mask : ndarray of shape (n_labels, n_labels)
        0, or -inf for a forbidden transition.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels allowed at each node; no rows when all are.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of predicting column k at a node whose label is row j.
    normalize : int
        1 to divide the task loss by the number of nodes.
    node_gram, pair_gram : Gram
        Products of the feature rows of a sample, for line searches.
    own : tuple
        What the structure itself needs, a tuple or NamedTuple of arrays and numbers, or ``()``.
    work : NamedTuple
        Scratch of one thread: ``tables`` for weights, and what the structure's oracles need.
    loss_weights : LossWeights
        What weights of nodes make of the task loss.

    See Also
    --------
    skstruct.graphs.SequenceProblem : Nodes in a row.
    skstruct.graphs.PairwiseGraph : The structures that make such problems.

    Notes
    -----
    Parts of a sample of T nodes and K labels: the node block, label k of node t at ``t * K + k``;
    then ``n_tables[i]`` tables of transitions, (j, k) of table e at ``T * K + e * K * K + j * K +
    k``. With one shared table its indicators are summed over the edges.

    Examples
    --------
    Three nodes of two labels, and one table of transitions for both edges, make ten parts:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> problem.part_ptr, problem.labels
    (array([ 0, 10]), array([0, 1, 0], dtype=int32))
    """

    nodes: tuple
    edges: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    edge_ptr: np.ndarray
    n_tables: np.ndarray
    width: int
    labels: np.ndarray
    transition_mask: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    normalize: int
    node_gram: tuple
    pair_gram: tuple
    own: tuple
    work: tuple
    loss_weights: LossWeights = UNWEIGHTED

    adds_by_columns = True


@inner_kernel(inline=True)
def shape_of(problem, i):
    """First node, numbers of nodes and labels, first edge row, number of transition tables."""
    first = problem.label_ptr[i]
    n = problem.label_ptr[i + 1] - first
    return first, n, problem.cost.shape[0], problem.edge_ptr[i], problem.n_tables[i]


@inner_kernel(inline=True)
def blocks(problem, i, theta):
    """Node block and transition block of part-space array `theta`, shaped."""
    n_labels, n_tables = problem.cost.shape[0], problem.n_tables[i]
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    size = n * n_labels
    unary = theta[:size].reshape(n, n_labels)
    pair = theta[size : size + n_tables * n_labels * n_labels]
    return unary, pair.reshape(n_tables, n_labels, n_labels)


@potentials.register(PairwiseProblem)
@kernel
def _(problem, i, w, theta):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    row = problem.work.tables.row
    scores(problem.nodes, first, first + n, n_labels, w.node, w, row, theta, 0)
    scores(problem.edges, e0, e0 + n_tables, square, w.pair, w, row, theta, size)
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


@count_states.register(PairwiseProblem)
@kernel
def _(problem, i):
    return problem.cost.shape[0]


@accumulate.register(PairwiseProblem)
@kernel
def _(problem, i, r, c, w):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    row = problem.work.tables.row
    add_outer(problem.nodes, first, first + n, n_labels, r, 0, c, w.node, w, row)
    add_outer(problem.edges, e0, e0 + n_tables, width, r, size, c, w.pair, w, row)


@catch_up.register(PairwiseProblem)
@kernel
def _(problem, i, w, clock):
    first, n, _, e0, n_tables = shape_of(problem, i)
    catch_up_rows(problem.nodes, first, first + n, w.node, clock.node, clock)
    catch_up_rows(problem.edges, e0, e0 + n_tables, w.pair, clock.pair, clock)


@gram.register(PairwiseProblem)
@kernel
def _(problem, i, r, out):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    of_nodes, of_edges, tables = problem.node_gram, problem.pair_gram, problem.work.tables
    nodes, edges, stop = problem.nodes, problem.edges, e0 + n_tables
    gram_product(of_nodes, nodes, i, first, first + n, n_labels, r, out, 0, tables.node)
    gram_product(of_edges, edges, i, e0, stop, width, r, out, size, tables.pair)


@truth.register(PairwiseProblem)
@kernel
def _(problem, i, labels):
    first = problem.label_ptr[i]
    for t in range(problem.label_ptr[i + 1] - first):
        labels[t] = problem.labels[first + t]


@augment.register(PairwiseProblem)
@kernel
def _(problem, i, theta):
    first, n, n_labels, _, _ = shape_of(problem, i)
    share = 1.0 / n if problem.normalize == 1 else 1.0
    cost, weights = problem.cost, problem.loss_weights
    for t in range(n):
        y = problem.labels[first + t]
        add_label_costs(cost, weights, share, first + t, y, theta, t * n_labels)


@task_loss.register(PairwiseProblem)
@kernel
def _(problem, i, labels):
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    share = 1.0 / (stop - first) if problem.normalize == 1 else 1.0
    cost, weights = problem.cost, problem.loss_weights
    total = 0.0
    for t in range(first, stop):
        total += label_cost(cost, weights, share, t, problem.labels[t], labels[t - first])
    return total

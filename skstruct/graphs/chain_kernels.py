"""The linear chain for compiled solvers: its problem type and the kernel of each verb.

Parts of a chain of T nodes and K labels: ``T * K`` node parts, then ``K * K`` transition parts
(their indicators summed over edges, since all edges share one table), or ``(T - 1) * K * K`` parts
when edges have features of their own.
"""

import math
from typing import NamedTuple

import numpy as np

from ..dispatch import inner_kernel, kernel
from ..features import add_outer, scores
from ..gram import gram_product
from ..inference.forward_backward import chain_log_partition, forward_backward
from ..inference.viterbi import viterbi, viterbi_top_k
from ..oracles import (
    accumulate,
    add_indicator,
    augment,
    edge_marginals,
    exp_oracle,
    gram,
    log_partition,
    max_oracle,
    potentials,
    score,
    task_loss,
    top_k_oracle,
    truth,
)


class ChainProblem(NamedTuple):
    """Chains packed for kernels.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of all nodes.
    edges : ConstantFeature or DenseFeatures or SparseFeatures
        Feature rows of all edges (n_nodes_i - 1 for chain i), or the one row that they share.
    part_ptr, label_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts, the nodes and the edge rows of each chain begin; `edge_ptr` is all zeros
        when edges share one row.
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
    node_gram, pair_gram : StoredGram or GramByTable
        Products of the feature rows of a chain, for line searches.
    work : ndarray
        Scratch of one thread.
    """

    nodes: tuple
    edges: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    edge_ptr: np.ndarray
    labels: np.ndarray
    transition_mask: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    normalize: int
    node_gram: tuple
    pair_gram: tuple
    work: np.ndarray


@inner_kernel(inline=True)
def _shape(problem, i):
    """First node, numbers of nodes and labels, first edge row, number of transition tables."""
    n_labels = problem.cost.shape[0]
    first = problem.label_ptr[i]
    n = problem.label_ptr[i + 1] - first
    n_parts = problem.part_ptr[i + 1] - problem.part_ptr[i]
    return first, n, n_labels, problem.edge_ptr[i], (n_parts // n_labels - n) // n_labels


@inner_kernel(inline=True)
def _blocks(problem, i, theta):
    """Node block and transition block of part-space array `theta`, shaped."""
    _, n, n_labels, _, n_tables = _shape(problem, i)
    size = n * n_labels
    unary = theta[:size].reshape(n, n_labels)
    pair = theta[size : size + n_tables * n_labels * n_labels]
    return unary, pair.reshape(n_tables, n_labels, n_labels)


@potentials.register(ChainProblem)
@kernel
def _(problem, i, w, theta):
    first, n, n_labels, e0, n_tables = _shape(problem, i)
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


@accumulate.register(ChainProblem)
@kernel
def _(problem, i, r, c, w):
    first, n, n_labels, e0, n_tables = _shape(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    add_outer(problem.nodes, first, first + n, n_labels, r, 0, c, w.node, w, problem.work)
    add_outer(problem.edges, e0, e0 + n_tables, square, r, size, c, w.pair, w, problem.work)


@gram.register(ChainProblem)
@kernel
def _(problem, i, r, out):
    first, n, n_labels, e0, n_tables = _shape(problem, i)
    size, square = n * n_labels, n_labels * n_labels
    gram_product(problem.node_gram, problem.nodes, i, first, first + n, n_labels, r, out, 0)
    gram_product(problem.pair_gram, problem.edges, i, e0, e0 + n_tables, square, r, out, size)


@truth.register(ChainProblem)
@kernel
def _(problem, i, labels):
    first = problem.label_ptr[i]
    for t in range(problem.label_ptr[i + 1] - first):
        labels[t] = problem.labels[first + t]


@add_indicator.register(ChainProblem)
@kernel
def _(problem, i, labels, c, mu):
    unary, pair = _blocks(problem, i, mu)
    shared = pair.shape[0] == 1
    for t in range(unary.shape[0]):
        unary[t, labels[t]] += c
        if t > 0:
            pair[0 if shared else t - 1, labels[t - 1], labels[t]] += c


@score.register(ChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = _blocks(problem, i, theta)
    shared = pair.shape[0] == 1
    total = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        total += pair[0 if shared else t - 1, labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total


@augment.register(ChainProblem)
@kernel
def _(problem, i, theta):
    unary = _blocks(problem, i, theta)[0]
    n, n_labels = unary.shape
    first = problem.label_ptr[i]
    share = 1.0 / n if problem.normalize == 1 else 1.0
    for t in range(n):
        y = problem.labels[first + t]
        for k in range(n_labels):
            unary[t, k] += share * problem.cost[y, k]


@task_loss.register(ChainProblem)
@kernel
def _(problem, i, labels):
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    total = 0.0
    for t in range(stop - first):
        total += problem.cost[problem.labels[first + t], labels[t]]
    return total / (stop - first) if problem.normalize == 1 else total


@max_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = _blocks(problem, i, theta)
    return viterbi(unary, pair, labels, problem.work)


@top_k_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = _blocks(problem, i, theta)
    viterbi_top_k(unary, pair, values, labels, problem.work)


@exp_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = _blocks(problem, i, theta)
    node_mu, pair_mu = _blocks(problem, i, mu)
    return forward_backward(unary, pair, temperature, node_mu, pair_mu, problem.work)


@log_partition.register(ChainProblem)
@kernel
def _(problem, i, theta, temperature):
    unary, pair = _blocks(problem, i, theta)
    return chain_log_partition(unary, pair, temperature, problem.work)


@edge_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = _blocks(problem, i, theta)
    n, n_labels = unary.shape
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    node_mu = _blocks(problem, i, mu)[0]
    return forward_backward(unary, pair, 1.0, node_mu, tables, problem.work)

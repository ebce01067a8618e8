"""Rooted forests for compiled solvers: the problem type and the kernels of its oracles.

The verbs that do not depend on the edges are in :mod:`skstruct.graphs.pairwise.verbs`.
"""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    add_indicator,
    edge_marginals,
    exp_oracle,
    max_oracle,
    score,
    top_k_oracle,
)
from ...inference.tree import tree_log_partition, tree_marginals, tree_max, tree_top_k
from ..pairwise.verbs import blocks, share_verbs


@share_verbs
class TreeProblem(NamedTuple):
    """Forests packed for kernels.

    Parameters
    ----------
    nodes, edges, part_ptr, label_ptr, edge_ptr, labels : object
        As in :class:`skstruct.graphs.chain.kernels.ChainProblem`.
    transition_mask, allowed, cost, normalize, node_gram, pair_gram, work : object
        As in :class:`skstruct.graphs.chain.kernels.ChainProblem`.
    order, parent, link : ndarray of shape (n_nodes,) of int32
        Of each sample: its nodes, parents before children; the parent of each node or -1; the edge
        to the parent. All counted within the sample.
    flip : ndarray of shape (n_nodes,) of uint8
        1 where the edge to the parent has the child as its first end.
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
    order: np.ndarray
    parent: np.ndarray
    link: np.ndarray
    flip: np.ndarray

    structure = "Tree"


@inner_kernel(inline=True)
def _forest(problem, i):
    """Order, parents, edges and orientations of sample i."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    return (
        problem.order[first:stop],
        problem.parent[first:stop],
        problem.link[first:stop],
        problem.flip[first:stop],
    )


@add_indicator.register(TreeProblem)
@kernel
def _(problem, i, labels, c, mu):
    unary, pair = blocks(problem, i, mu)
    _, parent, link, flip = _forest(problem, i)
    shared = pair.shape[0] == 1
    for t in range(unary.shape[0]):
        unary[t, labels[t]] += c
        p = parent[t]
        if p >= 0:
            e = 0 if shared else link[t]
            if flip[t] == 1:
                pair[e, labels[t], labels[p]] += c
            else:
                pair[e, labels[p], labels[t]] += c


@score.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    _, parent, link, flip = _forest(problem, i)
    shared = pair.shape[0] == 1
    total = 0.0
    for t in range(unary.shape[0]):
        total += unary[t, labels[t]]
        p = parent[t]
        if p >= 0:
            e = 0 if shared else link[t]
            total += (
                pair[e, labels[t], labels[p]] if flip[t] == 1 else pair[e, labels[p], labels[t]]
            )
    return total


@max_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    order, parent, link, flip = _forest(problem, i)
    return tree_max(unary, pair, order, parent, link, flip, labels, problem.work)


@top_k_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = blocks(problem, i, theta)
    order, parent, link, flip = _forest(problem, i)
    tree_top_k(unary, pair, order, parent, link, flip, values, labels, problem.work)


@exp_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = blocks(problem, i, theta)
    order, parent, link, flip = _forest(problem, i)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, order, parent, link, flip, problem.work)
    node_mu, pair_mu = blocks(problem, i, mu)
    return tree_marginals(
        unary, pair, temperature, order, parent, link, flip, node_mu, pair_mu, problem.work
    )


@edge_marginals.register(TreeProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = blocks(problem, i, theta)
    n_labels = unary.shape[1]
    n_edges = 0
    for t in range(unary.shape[0]):
        n_edges += 1 if problem.parent[problem.label_ptr[i] + t] >= 0 else 0
    tables = out[: n_edges * n_labels * n_labels].reshape(n_edges, n_labels, n_labels)
    node_mu = blocks(problem, i, mu)[0]
    order, parent, link, flip = _forest(problem, i)
    return tree_marginals(
        unary, pair, 1.0, order, parent, link, flip, node_mu, tables, problem.work
    )

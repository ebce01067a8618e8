"""Rooted forests for compiled solvers: the problem type and the kernels of its oracles.

The verbs that do not depend on the edges are in :mod:`skstruct.graphs.pairwise.verbs`.
"""

from typing import NamedTuple

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    add_indicator,
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    score,
    top_k_oracle,
)
from ...inference.tree import (
    Forest,
    TreeScratch,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_top_k,
)
from ..arrays import TableScratch
from ..pairwise.verbs import PairwiseProblem, blocks


class ForestScratch(NamedTuple):
    """Scratch of forests."""

    # For weight tables.
    tables: TableScratch
    # For the oracles.
    tree: TreeScratch


class TreeProblem(PairwiseProblem):
    """Rooted forests packed for kernels.

    `own` is the :class:`~skstruct.inference.tree.Forest` of all nodes, counted within each sample.
    """

    structure = "Tree"


@inner_kernel(inline=True)
def _forest(problem, i):
    """The forest of sample i."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    own = problem.own
    return Forest(
        own.order[first:stop], own.parent[first:stop], own.link[first:stop], own.flip[first:stop]
    )


@add_indicator.register(TreeProblem)
@kernel
def _(problem, i, labels, c, mu):
    unary, pair = blocks(problem, i, mu)
    forest = _forest(problem, i)
    shared = pair.shape[0] == 1
    for t in range(unary.shape[0]):
        unary[t, labels[t]] += c
        p = forest.parent[t]
        if p >= 0:
            e = 0 if shared else forest.link[t]
            if forest.flip[t] == 1:
                pair[e, labels[t], labels[p]] += c
            else:
                pair[e, labels[p], labels[t]] += c


@score.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    forest = _forest(problem, i)
    shared = pair.shape[0] == 1
    total = 0.0
    for t in range(unary.shape[0]):
        total += unary[t, labels[t]]
        p = forest.parent[t]
        if p >= 0:
            e = 0 if shared else forest.link[t]
            total += (
                pair[e, labels[t], labels[p]]
                if forest.flip[t] == 1
                else pair[e, labels[p], labels[t]]
            )
    return total


@max_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    return tree_max(unary, pair, _forest(problem, i), labels, problem.work.tree)


@top_k_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = blocks(problem, i, theta)
    tree_top_k(unary, pair, _forest(problem, i), values, labels, problem.work.tree)


@exp_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = blocks(problem, i, theta)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, _forest(problem, i), problem.work.tree)
    node_mu, pair_mu = blocks(problem, i, mu)
    forest, scratch = _forest(problem, i), problem.work.tree
    return tree_marginals(unary, pair, temperature, forest, node_mu, pair_mu, forest.link, scratch)


@edge_marginals.register(TreeProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = blocks(problem, i, theta)
    n_labels = unary.shape[1]
    forest = _forest(problem, i)
    n_edges = 0
    for t in range(unary.shape[0]):
        n_edges += 1 if forest.parent[t] >= 0 else 0
    tables = out[: n_edges * n_labels * n_labels].reshape(n_edges, n_labels, n_labels)
    node_mu = blocks(problem, i, mu)[0]
    return tree_marginals(unary, pair, 1.0, forest, node_mu, tables, forest.link, problem.work.tree)


@max_marginals.register(TreeProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = blocks(problem, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pair, _forest(problem, i), best, problem.work.tree)

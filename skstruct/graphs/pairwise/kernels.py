"""Graphs of nodes and edges for compiled solvers: what all ways of inference share."""

from typing import NamedTuple

import numpy as np

from ...core.features import scores
from ...core.jit.dispatch import inner_kernel, kernel
from ...core.oracles import add_indicator, potentials, score
from ..problem import forbid
from .verbs import PairwiseProblem, shape_of


class Network(NamedTuple):
    """The edges of all samples."""

    # (n_edges, 2): Nodes of each edge, counted within its sample.
    ends: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    ptr: np.ndarray
    # (n_edges,): Which table of the sample's parts an edge has: that of its type, or its own.
    table: np.ndarray
    # (n_labels, n_labels): Entry of a table that a pair of labels has; -1 if it scores 0.
    column: np.ndarray
    # What the oracles know beside.
    inference: tuple


class NetworkProblem(PairwiseProblem):
    """Graphs packed for kernels; `own` is their :class:`Network`.

    Forbidden pairs are not in the potentials, which hold a number for several pairs: the oracles
    add them.
    """

    structure, inference = "Pairwise", "exact"
    remedy = ', or inference="junction-tree" where tables are small'


@inner_kernel(inline=True)
def pair_score(problem, theta, begin, j, k):
    """Score of labels (j, k) on an edge whose table begins at `begin`."""
    column = problem.own.column[j, k]
    value = theta[begin + column] if column >= 0 else 0.0
    return value + problem.transition_mask[j, k]


@inner_kernel
def add_pair(problem, mu, begin, j, k, c):
    """Add to the entry of a pair of labels in the table at `begin`, if it has one."""
    column = problem.own.column[j, k]
    if column >= 0:
        mu[begin + column] += c


@inner_kernel
def expand_tables(problem, i, theta, out):
    """Write all tables of sample i in full, label pairs row-major, to `out`."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    o = 0
    for e in range(n_tables):
        begin = n * n_labels + e * problem.width
        for j in range(n_labels):
            for k in range(n_labels):
                out[o] = pair_score(problem, theta, begin, j, k)
                o += 1


@inner_kernel
def fold_tables(problem, i, full, mu):
    """Write the tables of `mu`: sums of full ones over the label pairs that share an entry."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    for q in range(size, size + n_tables * width):
        mu[q] = 0.0
    o = 0
    for e in range(n_tables):
        for j in range(n_labels):
            for k in range(n_labels):
                add_pair(problem, mu, size + e * width, j, k, full[o])
                o += 1


@potentials.register(NetworkProblem)
@kernel
def _(problem, i, w, theta):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    row = problem.work.tables.row
    size, width = n * n_labels, problem.width
    scores(problem.nodes, first, first + n, n_labels, w.node, w, row, theta, 0)
    scores(problem.edges, e0, e0 + n_tables, width, w.pair, w, row, theta, size)
    forbid(problem, i, theta)


@add_indicator.register(NetworkProblem)
@kernel
def _(problem, i, labels, c, mu):
    _, n, n_labels, _, _ = shape_of(problem, i)
    own = problem.own
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * problem.width
        add_pair(problem, mu, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]], c)


@score.register(NetworkProblem)
@kernel
def _(problem, i, theta, labels):
    _, n, n_labels, _, _ = shape_of(problem, i)
    own = problem.own
    total = 0.0
    for t in range(n):
        total += theta[t * n_labels + labels[t]]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * problem.width
        total += pair_score(problem, theta, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]])
    return total

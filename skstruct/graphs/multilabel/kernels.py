"""Label sets for compiled solvers: verbs that all edges share, and those of forests.

Parts of a sample of L labels and m edges: L parts "label j is on", L parts "label j is off" (they
have no weights, but the task loss and constraints need them), then for each edge one part "both
ends are on", or four parts (first end, second end) with full tables.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.features import add_outer, scores
from ...core.oracles import (
    accumulate,
    add_indicator,
    augment,
    exp_oracle,
    gram,
    max_oracle,
    potentials,
    score,
    task_loss,
    top_k_oracle,
    truth,
)
from ...inference.tree import tree_log_partition, tree_marginals, tree_max, tree_top_k


class LabelForestProblem(NamedTuple):
    """Label sets whose labels interact along a forest, or not at all.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        A feature row a sample.
    edges : DenseFeatures or SparseFeatures
        The row that all edges have.
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Multiples of the number of parts, and of the number of labels.
    labels : ndarray of shape (n_samples * n_labels,) of int32
        Ones where a label is on; empty when unknown.
    allowed : ndarray of shape (n_samples * n_labels or 0, 2) of uint8
        Whether each label may be off, and on; no rows when all may.
    cost : ndarray of shape (2, 2)
        Task loss of a label that is j and predicted as k.
    normalize : int
        1 to divide the task loss by the number of labels.
    squared_norms : ndarray of shape (n_samples,)
        Squared norms of the feature rows, the constant feature included.
    ends : ndarray of shape (n_edges, 2) of int32
        The labels of each edge.
    full : int
        1 where edges have full 2 x 2 tables.
    work : ndarray
        Scratch of one thread.
    order, parent, link : ndarray of shape (n_labels,) of int32
        The forest, see :mod:`skstruct.inference.tree`.
    flip : ndarray of shape (n_labels,) of uint8
        Orientation of the tables.
    """

    nodes: tuple
    edges: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    normalize: int
    squared_norms: np.ndarray
    ends: np.ndarray
    full: int
    work: np.ndarray
    order: np.ndarray
    parent: np.ndarray
    link: np.ndarray
    flip: np.ndarray

    structure = "MultiLabel without cycles"


@inner_kernel(inline=True)
def n_labels_of(problem):
    """Number of labels."""
    return problem.label_ptr[1]


@inner_kernel(inline=True)
def pair_width(problem):
    """Number of pair parts."""
    return problem.ends.shape[0] * (4 if problem.full == 1 else 1)


@kernel
def _potentials(problem, i, w, theta):
    n, width = n_labels_of(problem), pair_width(problem)
    scores(problem.nodes, i, i + 1, n, w.node, w, problem.work, theta, 0)
    for j in range(n):
        theta[n + j] = 0.0
    if width > 0:
        scores(problem.edges, 0, 1, width, w.pair, w, problem.work, theta, 2 * n)
    if problem.allowed.shape[0] > 0:
        for j in range(n):
            if problem.allowed[i * n + j, 1] == 0:
                theta[j] = -math.inf
            if problem.allowed[i * n + j, 0] == 0:
                theta[n + j] = -math.inf


@kernel
def _accumulate(problem, i, r, c, w):
    n, width = n_labels_of(problem), pair_width(problem)
    add_outer(problem.nodes, i, i + 1, n, r, 0, c, w.node, w, problem.work)
    if width > 0:
        add_outer(problem.edges, 0, 1, width, r, 2 * n, c, w.pair, w, problem.work)


@kernel
def _gram(problem, i, r, out):
    n = n_labels_of(problem)
    for j in range(n):
        out[j] = problem.squared_norms[i] * r[j]
        out[n + j] = 0.0
    for q in range(2 * n, 2 * n + pair_width(problem)):
        out[q] = r[q]


@kernel
def _truth(problem, i, labels):
    n = n_labels_of(problem)
    for j in range(n):
        labels[j] = problem.labels[i * n + j]


@kernel
def _add_indicator(problem, i, labels, c, mu):
    n = n_labels_of(problem)
    for j in range(n):
        mu[j if labels[j] == 1 else n + j] += c
    for e in range(problem.ends.shape[0]):
        a, b = labels[problem.ends[e, 0]], labels[problem.ends[e, 1]]
        if problem.full == 1:
            mu[2 * n + 4 * e + 2 * a + b] += c
        elif a == 1 and b == 1:
            mu[2 * n + e] += c


@kernel
def _score(problem, i, theta, labels):
    n = n_labels_of(problem)
    total = 0.0
    for j in range(n):
        total += theta[j if labels[j] == 1 else n + j]
    for e in range(problem.ends.shape[0]):
        a, b = labels[problem.ends[e, 0]], labels[problem.ends[e, 1]]
        if problem.full == 1:
            total += theta[2 * n + 4 * e + 2 * a + b]
        elif a == 1 and b == 1:
            total += theta[2 * n + e]
    return total


@inner_kernel(inline=True)
def _share(problem):
    return 1.0 / n_labels_of(problem) if problem.normalize == 1 else 1.0


@kernel
def _augment(problem, i, theta):
    n = n_labels_of(problem)
    for j in range(n):
        y = problem.labels[i * n + j]
        theta[j] += _share(problem) * problem.cost[y, 1]
        theta[n + j] += _share(problem) * problem.cost[y, 0]


@kernel
def _task_loss(problem, i, labels):
    n = n_labels_of(problem)
    total = 0.0
    for j in range(n):
        total += problem.cost[problem.labels[i * n + j], labels[j]]
    return total * _share(problem)


_VERBS = {
    potentials: _potentials,
    accumulate: _accumulate,
    gram: _gram,
    truth: _truth,
    add_indicator: _add_indicator,
    score: _score,
    augment: _augment,
    task_loss: _task_loss,
}


def share_label_verbs(cls):
    """Register the verbs that do not depend on the kind of edges.

    Parameters
    ----------
    cls : type
        A NamedTuple with the fields of :class:`LabelForestProblem` up to `work`.

    Returns
    -------
    type
        The class itself.
    """
    for verb, function in _VERBS.items():
        verb.register(cls)(function)
    return cls


share_label_verbs(LabelForestProblem)


@inner_kernel
def _tables(problem, theta):
    """Potentials in the form of trees: (n, 2) and (m, 2, 2), in the scratch; the rest of it."""
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary = problem.work[: 2 * n].reshape(n, 2)
    pair = problem.work[2 * n : 2 * n + 4 * m].reshape(m, 2, 2)
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
    for e in range(m):
        for a in range(2):
            for b in range(2):
                if problem.full == 1:
                    pair[e, a, b] = theta[2 * n + 4 * e + 2 * a + b]
                else:
                    pair[e, a, b] = theta[2 * n + e] if a + b == 2 else 0.0
    return unary, pair, problem.work[2 * n + 4 * m :]


@max_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, labels):
    n = n_labels_of(problem)
    if problem.ends.shape[0] == 0:
        total = 0.0
        for j in range(n):
            labels[j] = 1 if theta[j] > theta[n + j] else 0
            total += max(theta[j], theta[n + j])
        return total
    unary, pair, work = _tables(problem, theta)
    return tree_max(
        unary, pair, problem.order, problem.parent, problem.link, problem.flip, labels, work
    )


@top_k_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair, work = _tables(problem, theta)
    tree_top_k(
        unary, pair, problem.order, problem.parent, problem.link, problem.flip, values, labels, work
    )


@exp_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair, work = _tables(problem, theta)
    if mu.shape[0] == 0:
        forest = problem.order, problem.parent, problem.link, problem.flip
        return tree_log_partition(unary, pair, temperature, *forest, work)
    node_mu = work[: 2 * n].reshape(n, 2)
    pair_mu = work[2 * n : 2 * n + 4 * m].reshape(m, 2, 2)
    log_z = tree_marginals(
        unary,
        pair,
        temperature,
        problem.order,
        problem.parent,
        problem.link,
        problem.flip,
        node_mu,
        pair_mu,
        work[2 * n + 4 * m :],
    )
    for j in range(n):
        mu[j] = node_mu[j, 1]
        mu[n + j] = node_mu[j, 0]
    for e in range(m):
        if problem.full == 1:
            for a in range(2):
                for b in range(2):
                    mu[2 * n + 4 * e + 2 * a + b] = pair_mu[e, a, b]
        else:
            mu[2 * n + e] = pair_mu[e, 1, 1]
    return log_z

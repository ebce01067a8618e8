"""Label sets for compiled solvers: their problem, the verbs that all share, those of forests.

Parts of a sample of L labels and m edges: L parts "label j is on", L parts "label j is off" (they
have no weights, but the task loss and constraints need them), then for each edge one part "both
ends are on", or four parts (first end, second end) with full tables.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.features import add_outer, scores
from ...core.jit.dispatch import inner_kernel, kernel
from ...core.oracles import (
    accumulate,
    add_indicator,
    augment,
    exp_oracle,
    gram,
    max_marginals,
    max_oracle,
    potentials,
    relaxed_oracle,
    score,
    task_loss,
    top_k_oracle,
)
from ...core.proximal import catch_up, catch_up_rows
from ...inference.enumeration import (
    EnumerationScratch,
    enumerate_log_partition,
    enumerate_marginals,
    enumerate_max,
    enumerate_top_k,
    enumeration_scratch,
)
from ...inference.qpbo import HALF, RoofScratch, complete, roof_dual, roof_scratch
from ...inference.tree import (
    TreeScratch,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
    tree_top_k,
)
from ...losses.task import UNWEIGHTED, LossWeights, label_cost


class LabelSetProblem(NamedTuple):
    """Label sets packed for kernels; how labels interact says a subclass."""

    # A feature row a sample.
    nodes: tuple
    # The row that all edges have.
    edges: tuple
    # (n_samples + 1,): Multiples of the number of parts, and of the number of labels.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # (n_samples * n_labels,): Ones where a label is on; empty when unknown.
    labels: np.ndarray
    # (n_samples * n_labels or 0, 2): Whether each label may be off, and on; no rows when all may.
    allowed: np.ndarray
    # (2, 2): Task loss of a label that is j and predicted as k.
    cost: np.ndarray
    # 1 to divide the task loss by the number of labels.
    normalize: int
    # (n_samples,): Squared norms of the feature rows, the constant feature included.
    squared_norms: np.ndarray
    # (n_edges, 2): The labels of each edge.
    ends: np.ndarray
    # 1 where edges have full 2 x 2 tables.
    full: int
    # The edges in the form in which the subclass takes them.
    own: tuple
    # Scratch of one thread.
    work: tuple
    # What weights of labels make of the task loss.
    loss_weights: LossWeights = UNWEIGHTED

    adds_by_columns = True


@inner_kernel(inline=True)
def n_labels_of(problem):
    """Number of labels."""
    return problem.label_ptr[1]


@inner_kernel(inline=True)
def pair_width(problem):
    """Number of pair parts."""
    return problem.ends.shape[0] * (4 if problem.full == 1 else 1)


@potentials.register(LabelSetProblem)
@kernel
def _(problem, i, w, theta):
    n, width = n_labels_of(problem), pair_width(problem)
    scores(problem.nodes, i, i + 1, n, w.node, w, problem.work.row, theta, 0)
    for j in range(n):
        theta[n + j] = 0.0
    if width > 0:
        scores(problem.edges, 0, 1, width, w.pair, w, problem.work.row, theta, 2 * n)
    if problem.allowed.shape[0] > 0:
        for j in range(n):
            if problem.allowed[i * n + j, 1] == 0:
                theta[j] = -math.inf
            if problem.allowed[i * n + j, 0] == 0:
                theta[n + j] = -math.inf


@accumulate.register(LabelSetProblem)
@kernel
def _(problem, i, r, c, w):
    n, width = n_labels_of(problem), pair_width(problem)
    add_outer(problem.nodes, i, i + 1, n, r, 0, c, w.node, w, problem.work.row)
    if width > 0:
        add_outer(problem.edges, 0, 1, width, r, 2 * n, c, w.pair, w, problem.work.row)


@catch_up.register(LabelSetProblem)
@kernel
def _(problem, i, w, clock):
    catch_up_rows(problem.nodes, i, i + 1, w.node, clock.node, clock)
    if pair_width(problem) > 0:
        catch_up_rows(problem.edges, 0, 1, w.pair, clock.pair, clock)


@gram.register(LabelSetProblem)
@kernel
def _(problem, i, r, out):
    n = n_labels_of(problem)
    for j in range(n):
        out[j] = problem.squared_norms[i] * r[j]
        out[n + j] = 0.0
    for q in range(2 * n, 2 * n + pair_width(problem)):
        out[q] = r[q]


@add_indicator.register(LabelSetProblem)
@kernel
def _(problem, i, labels, c, mu):
    n = n_labels_of(problem)
    for j in range(n):
        mu[j if labels[j] == 1 else n + j] += c
    for e in range(problem.ends.shape[0]):
        a, b = labels[problem.ends[e, 0]], labels[problem.ends[e, 1]]
        if problem.full == 1:
            mu[2 * n + 4 * e + 2 * a + b] += c
        elif a == 1 and b == 1:
            mu[2 * n + e] += c


@score.register(LabelSetProblem)
@kernel
def _(problem, i, theta, labels):
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


@augment.register(LabelSetProblem)
@kernel
def _(problem, i, theta):
    n = n_labels_of(problem)
    cost, weights, share = problem.cost, problem.loss_weights, _share(problem)
    for j in range(n):
        t = i * n + j
        y = problem.labels[t]
        theta[j] += label_cost(cost, weights, share, t, y, 1)
        theta[n + j] += label_cost(cost, weights, share, t, y, 0)


@task_loss.register(LabelSetProblem)
@kernel
def _(problem, i, labels):
    n = n_labels_of(problem)
    cost, weights, share = problem.cost, problem.loss_weights, _share(problem)
    total = 0.0
    for j in range(n):
        t = i * n + j
        total += label_cost(cost, weights, share, t, problem.labels[t], labels[j])
    return total


class LabelForestScratch(NamedTuple):
    """Scratch of label sets on a forest, whose potentials take the form of trees."""

    # A row of a weight table.
    row: np.ndarray
    # (n_labels, 2): Potentials and marginals of labels.
    unary: np.ndarray
    node_mu: np.ndarray
    # (n_edges, 2, 2): Those of edges.
    pair: np.ndarray
    pair_mu: np.ndarray
    # For the oracles.
    tree: TreeScratch


def label_forest_scratch(row, n_labels, n_edges, n_best):
    """Scratch of a :class:`LabelForestProblem`; `row` is that of its weights."""
    nodes, edges = np.empty((2, n_labels, 2)), np.empty((2, n_edges, 2, 2))
    return LabelForestScratch(row, *nodes, *edges, tree_scratch(n_labels, 2, n_best))


class LabelForestProblem(LabelSetProblem):
    """Labels that interact along a :class:`~skstruct.inference.tree.Forest`, or not at all."""

    structure = "MultiLabel without cycles"


@inner_kernel
def _tables(problem, theta):
    """Potentials in the form of trees, in the scratch: (n, 2) and (m, 2, 2)."""
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair = problem.work.unary, problem.work.pair
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
    return unary, pair


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
    unary, pair = _tables(problem, theta)
    return tree_max(unary, pair, problem.own, labels, problem.work.tree)


@top_k_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = _tables(problem, theta)
    tree_top_k(unary, pair, problem.own, values, labels, problem.work.tree)


@exp_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair = _tables(problem, theta)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, problem.own, problem.work.tree)
    node_mu, pair_mu = problem.work.node_mu, problem.work.pair_mu
    log_z = tree_marginals(
        unary,
        pair,
        temperature,
        problem.own,
        node_mu,
        pair_mu,
        problem.own.link,
        problem.work.tree,
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


@max_marginals.register(LabelForestProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = _tables(problem, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pair, problem.own, best, problem.work.tree)


# Label sets whose edges have cycles: exact by enumeration for few labels, else relaxed.

# From this many labels on a flow is tried before the enumeration.
_FLOW_PAYS = 8


class LoopScratch(NamedTuple):
    """Scratch of label sets with cycles: potentials in the form of roof duals, and of tables."""

    # A row of a weight table.
    row: np.ndarray
    # (n_labels,): Score of 1 minus score of 0 at each label.
    unary: np.ndarray
    # (n_edges,): Score of (1, 1) on each edge.
    pair: np.ndarray
    # For the relaxation.
    roof: RoofScratch
    # (n_labels, 2): Potentials of labels; of no labels, as what follows, where nothing is
    # enumerated.
    states: np.ndarray
    # (n_labels, n_labels, 2, 2): Potentials of all pairs of labels, and marginals of (1, 1).
    tables: np.ndarray
    both: np.ndarray
    # For enumerations.
    at: EnumerationScratch


def loop_scratch(row, n_labels, n_edges, enumerated):
    """Scratch of a problem of this file; `row` is that of its weights."""
    few = n_labels if enumerated else 0
    return LoopScratch(
        row=row,
        unary=np.empty(n_labels),
        pair=np.empty(n_edges),
        roof=roof_scratch(n_labels, n_edges),
        states=np.empty((few, 2)),
        tables=np.empty((few, few, 2, 2)),
        both=np.empty((few, few)),
        at=enumeration_scratch(few),
    )


class FewLabelsProblem(LabelSetProblem):
    """At most 16 labels with any edges (`own`: their `Neighbours`): exact."""

    structure = "MultiLabel with cycles"


class ManyLabelsProblem(LabelSetProblem):
    """The same for any number of labels, by the LP relaxation over the local polytope."""

    structure = "MultiLabel with cycles (relaxed, or more than 16 labels)"
    inference = "relaxed"
    remedy = ", or take MultiLabel(edges='tree')"


@inner_kernel
def _few(problem, theta):
    """Potentials as (n, 2) and (n, n, 2, 2), in the scratch."""
    n = n_labels_of(problem)
    unary, tables = problem.work.states, problem.work.tables
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
        for k in range(n):
            for a in range(2):
                for b in range(2):
                    tables[j, k, a, b] = 0.0
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        low, high = min(j, k), max(j, k)
        for a in range(2):
            for b in range(2):
                if problem.full == 1:
                    value = theta[2 * n + 4 * e + 2 * a + b]
                else:
                    value = theta[2 * n + e] if a + b == 2 else 0.0
                if j < k:
                    tables[low, high, a, b] = value
                else:
                    tables[low, high, b, a] = value
    return unary, tables


@top_k_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, tables = _few(problem, theta)
    enumerate_top_k(unary, tables, values, labels, problem.work.at)


@exp_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n = n_labels_of(problem)
    unary, tables = _few(problem, theta)
    if mu.shape[0] == 0:
        return enumerate_log_partition(unary, tables, temperature, problem.work.at)
    both = problem.work.both
    log_z = enumerate_marginals(unary, tables, temperature, mu, both, problem.work.at)
    for j in range(n):
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        _write_pair(problem, mu, e, mu[j], mu[k], both[min(j, k), max(j, k)])
    return log_z


@inner_kernel
def _write_pair(problem, mu, e, first, second, both):
    """Parts of an edge from the marginals of its ends and of (1, 1)."""
    at = 2 * n_labels_of(problem)
    if problem.full == 0:
        mu[at + e] = both
        return
    mu[at + 4 * e] = max(1.0 - first - second + both, 0.0)
    mu[at + 4 * e + 1] = max(second - both, 0.0)
    mu[at + 4 * e + 2] = max(first - both, 0.0)
    mu[at + 4 * e + 3] = both


@inner_kernel
def _reduce(problem, theta, unary, pair, states):
    """Score of 1 minus score of 0 a label, of (1, 1) an edge; returns the score of all zeros."""
    n = n_labels_of(problem)
    constant = 0.0
    for j in range(n):
        on, off = theta[j], theta[n + j]
        states[j] = HALF
        unary[j] = on - off
        if on == -math.inf or off == -math.inf:
            # A forced label is fixed before anything else; where it is on, its score counts there.
            states[j] = 0 if on == -math.inf else 1
            unary[j] = 0.0 if on == -math.inf else on
        constant += off if states[j] != 1 else 0.0
    for e in range(problem.ends.shape[0]):
        if problem.full == 0:
            pair[e] = theta[2 * n + e]
            continue
        at = 2 * n + 4 * e
        constant += theta[at]
        unary[problem.ends[e, 1]] += theta[at + 1] - theta[at]
        unary[problem.ends[e, 0]] += theta[at + 2] - theta[at]
        pair[e] = theta[at + 3] + theta[at] - theta[at + 1] - theta[at + 2]
    return constant


@inner_kernel
def _relax(problem, theta, states):
    """Half-integral optimum of the relaxation, to `states`; its score, whether it has halves."""
    n = n_labels_of(problem)
    unary, pair = problem.work.unary, problem.work.pair
    constant = _reduce(problem, theta, unary, pair, states)
    if not constant > -math.inf:
        for j in range(n):
            states[j] = 0
        return constant, False
    value = roof_dual(unary, pair, problem.own, states, problem.work.roof)
    halves = False
    for j in range(n):
        halves |= states[j] == HALF
    return constant + value, halves


@max_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, labels):
    if n_labels_of(problem) > _FLOW_PAYS:
        value, halves = _relax(problem, theta, labels)
        if not halves:
            return value
    unary, tables = _few(problem, theta)
    return enumerate_max(unary, tables, labels, problem.work.at)


@relaxed_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels, mu):
    n = n_labels_of(problem)
    value, halves = _relax(problem, theta, labels)
    pair = problem.work.pair
    for j in range(n):
        mu[j] = 0.5 if labels[j] == HALF else float(labels[j])
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        first, second = mu[j], mu[k]
        both = max(0.0, first + second - 1.0) if pair[e] <= 0.0 else min(first, second)
        _write_pair(problem, mu, e, first, second, both)
    if halves:
        labels[0] = -1
    # The LP is solved to its end: its optimum attains the bound.
    return value, value


@max_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels):
    n = n_labels_of(problem)
    _, halves = _relax(problem, theta, labels)
    if halves:
        unary = problem.work.unary
        for j in range(n):
            if theta[j] == -math.inf:
                unary[j] = -math.inf
            elif theta[n + j] == -math.inf:
                unary[j] = math.inf
        complete(unary, problem.work.pair, problem.own, labels)
    return score(problem, i, theta, labels)

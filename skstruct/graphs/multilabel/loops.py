"""Label sets whose edges have cycles: exact by enumeration for few labels, else relaxed."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    exp_oracle,
    max_oracle,
    relaxed_oracle,
    score,
    top_k_oracle,
)
from ...inference.enumeration import (
    EnumerationScratch,
    enumerate_log_partition,
    enumerate_marginals,
    enumerate_max,
    enumerate_top_k,
    enumeration_scratch,
)
from ...inference.roof_dual import HALF, RoofScratch, complete, roof_dual, roof_scratch
from .kernels import LabelSetProblem, n_labels_of

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

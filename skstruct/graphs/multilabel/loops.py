"""Label sets whose edges have cycles: exact by enumeration for few labels, else relaxed."""

import math

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    exp_oracle,
    max_oracle,
    relaxed_oracle,
    top_k_oracle,
)
from ...inference.enumeration import (
    enumerate_log_partition,
    enumerate_marginals,
    enumerate_max,
    enumerate_top_k,
)
from ...inference.roof_dual import HALF, complete, roof_dual
from .kernels import LabelSetProblem, n_labels_of

# From this many labels on a flow is tried before the enumeration.
_FLOW_PAYS = 8


class FewLabelsProblem(LabelSetProblem):
    """At most 16 labels with any edges (`own`: their `Neighbours`): exact."""

    structure = "MultiLabel with cycles"


class ManyLabelsProblem(LabelSetProblem):
    """The same for any number of labels, by the LP relaxation over the local polytope."""

    structure = "MultiLabel with cycles (relaxed, or more than 16 labels)"
    remedy = ", or take MultiLabel(edges='tree')"


@inner_kernel
def _few(problem, theta):
    """Potentials as (n, 2) and (n, n, 2, 2), and scratch: labels, sums, the rest."""
    n = n_labels_of(problem)
    work = problem.work
    unary = work[: 2 * n].reshape(n, 2)
    tables = work[2 * n : 2 * n + 4 * n * n].reshape(n, n, 2, 2)
    at = 2 * n + 4 * n * n
    labels = work[at : at + n].view(np.int32)
    sums = work[at + n : at + 2 * n + 1]
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
    return unary, tables, labels, sums, work[at + 2 * n + 1 :]


@top_k_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, tables, scratch, sums, _ = _few(problem, theta)
    enumerate_top_k(unary, tables, values, labels, scratch, sums)


@exp_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n = n_labels_of(problem)
    unary, tables, scratch, sums, rest = _few(problem, theta)
    if mu.shape[0] == 0:
        return enumerate_log_partition(unary, tables, temperature, scratch, sums)
    pair_mu = rest[: n * n].reshape(n, n)
    log_z = enumerate_marginals(unary, tables, temperature, mu, pair_mu, scratch, sums)
    for j in range(n):
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        both = pair_mu[min(j, k), max(j, k)]
        _write_pair(problem, mu, e, mu[j], mu[k], both)
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
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair = problem.work[:n], problem.work[n : n + m]
    constant = _reduce(problem, theta, unary, pair, states)
    if not constant > -math.inf:
        for j in range(n):
            states[j] = 0
        return constant, False
    n_floats = 2 * n + 4 * m + 8
    floats = problem.work[n + m : n + m + n_floats]
    ints = problem.work[n + m + n_floats :].view(np.int64)
    value = roof_dual(unary, pair, problem.own, states, floats, ints)
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
    unary, tables, scratch, sums, _ = _few(problem, theta)
    return enumerate_max(unary, tables, labels, scratch, sums)


@relaxed_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels, mu):
    n = n_labels_of(problem)
    value, _ = _relax(problem, theta, labels)
    pair = problem.work[n : n + problem.ends.shape[0]]
    for j in range(n):
        mu[j] = 0.5 if labels[j] == HALF else float(labels[j])
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        first, second = mu[j], mu[k]
        both = max(0.0, first + second - 1.0) if pair[e] <= 0.0 else min(first, second)
        _write_pair(problem, mu, e, first, second, both)
    return value


@max_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels):
    # The value is that of the relaxation: an upper bound on the score of the labels.
    n, m = n_labels_of(problem), problem.ends.shape[0]
    value, halves = _relax(problem, theta, labels)
    if halves:
        unary, pair = problem.work[:n], problem.work[n : n + m]
        for j in range(n):
            if theta[j] == -math.inf:
                unary[j] = -math.inf
            elif theta[n + j] == -math.inf:
                unary[j] = math.inf
        complete(unary, pair, problem.own, labels)
    return value

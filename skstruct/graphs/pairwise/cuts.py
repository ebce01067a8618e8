"""Graphs of two labels whose edges attract: exact by minimum cuts, max-marginals by dynamic ones.

What the certificates claim
---------------------------
Training is exact: the objective ranges over labellings, and every step goes toward one, so that the
dual point stays in their hull at whatever weights. The primal needs an upper bound on the best
score. Where the cut (or the roof dual) settles all nodes, that is the labelling's own score. Else,
at weights that do not attract, the labelling is one of a local search with its true score, and
`loss_augmented_max` returns the roof dual's bound instead: the objective is then an upper bound of
the exact one. So dual <= optimum <= primal at all weights; the gap closes at those that attract.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.jit.dispatch import inner_kernel, kernel
from ...core.oracles import (
    augment,
    euclidean_oracle,
    loss_augmented_max,
    max_marginals,
    score,
    top_k_oracle,
)
from ...inference.max_flow import continue_flow
from ...inference.qpbo import ON
from ...inference.quadratic_cut import quadratic_cut
from ..n_best import n_best_scratch, top_k_by_max_marginals
from .cut_kernels import FlowProblem, flow_scratch, lay_arcs, lay_nodes, round_states, solve
from .kernels import add_pair
from .verbs import PairwiseProblem

# Euclidean projections of graphs of two labels whose edges attract.
#
# The norm. With x_u the share of label 1 at node u, and m(j, k) those of an edge's pairs of labels,
# an edge of its own in every sample (also where edges share a table, whose parts are sums),
#
#     |mu|^2 = sum over nodes of m(0)^2 + m(1)^2
#              + sum over edges of (m(1, 1) - m(0, 0))^2 + m(0, 1)^2 + m(1, 0)^2.
#
# Of an edge that is ``(x_u + x_v - 1)^2 + (x_u - x_v)^2 + 2 m(0, 1) m(1, 0)``. Where edges attract,
# the best point of the local polytope (distributions of nodes and of edges that agree) has m(1, 1)
# = min(x_u, x_v), so that the norm falls apart into nodes: what is left is total variation, which
# :func:`skstruct.inference.quadratic_cut.quadratic_cut` solves exactly. That point is the mixture
# of the labellings ``x > t`` for t from 0 to 1: it lies in the hull of labellings, too, and
# certificates may be built on it.

# Of the largest score: what rounding may make of no interaction. Else an edge repels.
_SLACK = 1e-12


@inner_kernel
def _write_point(problem, i, n, x, mu):
    """Write the parts of shares of label 1; the squared norm."""
    own, square = problem.own, 0.0
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        mu[2 * t], mu[2 * t + 1] = 1.0 - x[t], x[t]
        square += mu[2 * t] * mu[2 * t] + x[t] * x[t]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * problem.width
        u, v = x[own.ends[e, 0]], x[own.ends[e, 1]]
        both, either = min(u, v), max(u, v)
        add_pair(problem, mu, begin, 0, 0, 1.0 - either)
        add_pair(problem, mu, begin, 0, 1, v - both)
        add_pair(problem, mu, begin, 1, 0, u - both)
        add_pair(problem, mu, begin, 1, 1, both)
        square += (u + v - 1.0) * (u + v - 1.0) + (u - v) * (u - v)
    return square


@kernel
def project_cut(problem, i, theta, temperature, mu):
    """See the module; NaN, and `mu` of zeros, where an edge repels."""
    work, network, n_parts = problem.work, problem.work.network, problem.part_ptr[i + 1]
    n, n_parts = problem.label_ptr[i + 1] - problem.label_ptr[i], n_parts - problem.part_ptr[i]
    value = scale = 0.0
    for q in range(n_parts):
        scale = max(scale, abs(theta[q]) if theta[q] > -math.inf else 0.0)
    if lay_nodes(problem, theta, n, network.excess) == math.inf:
        value = -math.inf
    elif lay_arcs(problem, i, theta, n, _SLACK * scale, network) < 0.0:
        value = math.nan
    else:
        for t in range(n):
            weight = temperature * (1.0 + (network.first[t + 1] - network.first[t]))
            work.curvature[t] = 2.0 * weight
            network.excess[t] += weight
        if not quadratic_cut(n, work.curvature, network, work.forest, work.levels, work.point):
            value = -math.inf
    if value != 0.0:
        for q in range(n_parts):
            mu[q] = 0.0
        return value
    square = _write_point(problem, i, n, work.point, mu)
    for q in range(n_parts):
        if mu[q] != 0.0:
            value += theta[q] * mu[q]
    return value - 0.5 * temperature * square


class CutProblem(FlowProblem):
    """Graphs of two labels, trained on labellings."""

    structure = "Pairwise of two labels that attract"
    method = "max-flow"

    def exact_at(self, weights: Any) -> bool:
        """Return whether all edges attract at these weights: then cuts are exact."""
        column, mask = self.own.column, self.transition_mask
        if mask[0, 0] < 0.0 or mask[1, 1] < 0.0:
            return False
        if mask[0, 1] < 0.0 or mask[1, 0] < 0.0:
            return True
        padded = np.append(weights.pair[:, : self.width], np.zeros((len(weights.pair), 1)), axis=1)
        pull = padded[:, column[0, 0]] + padded[:, column[1, 1]]
        push = padded[:, column[0, 1]] + padded[:, column[1, 0]]
        return bool((_rows_times(self.edges, pull - push) >= 0.0).all())


def _rows_times(features, table):
    """The feature rows times a column of weights."""
    if hasattr(features, "indptr"):
        products = np.append(features.data * table[features.indices], 0.0)
        rows = np.add.reduceat(products, features.indptr[:-1])
        rows = np.where(np.diff(features.indptr) > 0, rows, 0.0)
    else:
        rows = features.values @ table[: features.values.shape[1]]
    return rows + (table[features.intercept] if features.intercept >= 0 else 0.0)


def make(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> CutProblem | str:
    """The problem; or why cuts are no way: two labels, and weights such that edges attract."""
    n_labels = len(network.column)
    if n_labels != 2:
        return f"minimum cuts take 2 labels, there are {n_labels}"
    if not getattr(graph, "attractive", False):
        return "interactions need not attract (attractive=False)"
    several = n_best_scratch(fields["part_ptr"], fields["label_ptr"], 2, n_best)
    work = flow_scratch(samples, fields["n_tables"], tables, several)
    return CutProblem(**fields, own=network, work=work)


# A class with its own loss_augmented_max must say that the loss adds up over parts all the same.
augment.register(CutProblem)(augment.registry[PairwiseProblem])


@loss_augmented_max.register(CutProblem)
@kernel
def _(problem, i, theta, labels, augmented):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)
    n_half, bound, _, _ = solve(problem, i, augmented)
    if n_half < 0:
        return -math.inf
    value = round_states(problem, i, augmented, n_half, labels)
    return max(bound, value) if n_half > 0 else value


@inner_kernel
def _room(k, to_source, network):
    """All that can flow out of a node, or into it."""
    total = 0.0
    for a in range(network.first[k], network.first[k + 1]):
        total += network.cap[a if to_source else network.sister[a]]
    return total


@inner_kernel
def _all_room(n_nodes, network):
    """More than all that can flow, where there is a limit."""
    total = 1.0
    for k in range(n_nodes):
        total += abs(network.excess[k]) if abs(network.excess[k]) < math.inf else 0.0
        for a in range(network.first[k], network.first[k + 1]):
            total += network.cap[a] if network.cap[a] < math.inf else 0.0
    return total


@inner_kernel
def _push(k, to_source, limit, network):
    """Force a node to a side: what is added to its excess, and what that costs at once."""
    excess = network.excess[k]
    room = _room(k, to_source, network)
    amount = (room if room < math.inf else 4.0 * limit) + abs(excess)
    network.excess[k] += amount if to_source else -amount
    price = max(-excess if to_source else excess, 0.0)
    return amount if to_source else -amount, price


@inner_kernel
def _price(k, is_double, to_source, limit, n_nodes, problem):
    """What the best score loses where a node of the flow is forced; the flow is repaired after."""
    network, forest, changed = problem.work.network, problem.work.forest, problem.work.changed
    if abs(network.excess[k]) == math.inf:
        return 0.0 if (network.excess[k] > 0.0) == to_source else math.inf
    changed[0], changed[1] = k, k + 1
    nodes = changed[: 2 if is_double else 1]
    added, price = _push(k, to_source, limit, network)
    other = 0.0
    if is_double:
        other, more = _push(k + 1, not to_source, limit, network)
        price += more
    price += continue_flow(n_nodes, network, forest, nodes)
    network.excess[k] -= added
    if is_double:
        network.excess[k + 1] -= other
    continue_flow(n_nodes, network, forest, nodes)
    return price if price <= 2.0 * limit else math.inf


@max_marginals.register(CutProblem)
@kernel
def _(problem, i, theta, out):
    """Where edges do not attract and the roof dual leaves states open, bounds on them."""
    n, work = problem.label_ptr[i + 1] - problem.label_ptr[i], problem.work
    n_half, bound, _, n_nodes = solve(problem, i, theta)
    for q in range(2 * n):
        out[q] = -math.inf
    if n_half < 0:
        return
    states, signs = work.states, work.signs
    best = bound if n_half > 0 else score(problem, i, theta, states)
    limit = _all_room(n_nodes, work.network)
    for t in range(n):
        k, is_double = signs.node[t], signs.double[t] == 1
        for label in range(2):
            if label == states[t]:
                out[2 * t + label] = best
                continue
            to_source = (label == ON) != (signs.flip[t] == 1 and not is_double)
            out[2 * t + label] = best - _price(k, is_double, to_source, limit, n_nodes, problem)


top_k_oracle.register(CutProblem)(top_k_by_max_marginals)
euclidean_oracle.register(CutProblem)(project_cut)

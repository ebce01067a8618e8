"""Graphs of two labels: exact by a minimum cut where interactions can attract, else relaxed.

One maximum flow gives the optimum over the local polytope (the roof dual), a half-integral point of
it, and the exact optimum where flipping some nodes makes all edges attract.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...core.jit.dispatch import inner_kernel, kernel
from ...core.oracles import relaxed_oracle
from ...inference.qpbo import HALF
from ..n_best import n_best_scratch
from .cut_kernels import FlowProblem, flow_scratch, solve
from .kernels import add_pair, pair_score


class RoofProblem(FlowProblem):
    """Graphs of two labels, trained on their relaxation."""

    method, inference = "roof-dual", "relaxed"


def make(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> RoofProblem | str:
    """The problem; or why not: only two labels have a roof dual."""
    n_labels = len(network.column)
    if n_labels != 2:
        return f"there are {n_labels} labels, not 2"
    several = n_best_scratch(fields["part_ptr"], fields["label_ptr"], 2, 1)
    work = flow_scratch(samples, fields["n_tables"], tables, several)
    return RoofProblem(**fields, own=network, work=work)


@inner_kernel
def _pair_of(problem, theta, n, e):
    """Scores of the better half-integral point of an edge: labels (0, a) and (1, 1 - a)."""
    begin = 2 * n + problem.own.table[e] * problem.width
    equal = pair_score(problem, theta, begin, 0, 0) + pair_score(problem, theta, begin, 1, 1)
    unequal = pair_score(problem, theta, begin, 0, 1) + pair_score(problem, theta, begin, 1, 0)
    return 0 if equal >= unequal else 1


@relaxed_oracle.register(RoofProblem)
@kernel
def _(problem, i, theta, labels, mu):
    own, states = problem.own, problem.work.states
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    n_half, bound, slack, _ = solve(problem, i, theta)
    if n_half < 0:
        return -math.inf, -math.inf
    value = 0.0
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        labels[t] = states[t]
        for k in range(2):
            mu[2 * t + k] = 0.5 if states[t] == HALF else (1.0 if states[t] == k else 0.0)
            value += mu[2 * t + k] * theta[2 * t + k] if mu[2 * t + k] > 0.0 else 0.0
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * problem.width
        a, b = states[own.ends[e, 0]], states[own.ends[e, 1]]
        other = _pair_of(problem, theta, n, e) if a == HALF and b == HALF else 0
        for x in range(2):
            # Two points of weight one half, equal ones where both nodes are settled.
            j = x if a == HALF else a
            k = x if b == HALF else b
            k = 1 - k if other == 1 else k
            add_pair(problem, mu, begin, j, k, 0.5)
            value += 0.5 * pair_score(problem, theta, begin, j, k)
    if n_half > 0:
        labels[0] = -1
    # Settled states are a best labelling: no score is larger, but for rounding.
    return max(bound if n_half > 0 else value + slack, value), value

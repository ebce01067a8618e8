"""Graphs of two labels: exact by a minimum cut where interactions can attract, else relaxed.

One maximum flow gives the optimum over the local polytope (the roof dual), a half-integral point of
it, and the exact optimum where flipping some nodes makes all edges attract.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.offsets import longest_item
from ...core.oracles import max_oracle, relaxed_oracle, score
from ...inference.binary_cut import Signs, begin_cut, empty_signs, find_signs, read_states
from ...inference.choices import HALF, Choices, Pairs, choose, empty_choices
from ...inference.components import ComponentScratch, component_scratch, strong_components
from ...inference.max_flow import Forest, Network, advance_flow, empty_forest, empty_network
from ...inference.search_trees import FLOW
from ..arrays import TableScratch
from .inputs import incidence
from .kernels import NetworkProblem, expand_tables, pair_score

INFERENCE = "relaxed"


class RoofScratch(NamedTuple):
    """Scratch of one thread.

    Parameters
    ----------
    tables : TableScratch
        For weight tables.
    scores : ndarray
        The tables of a sample in full.
    state_ptr, score_ptr, columns : ndarray of int64
        Where states and tables begin; 2 for each edge.
    ends : ndarray of shape (2, n_edges) of int32
        The ends of a sample's edges.
    off, on : ndarray of shape (n_nodes,) of int64
        Zeros and ones.
    choices, signs : object
        The model in the form of :mod:`skstruct.inference.choices`.
    network, forest, components, component : object
        Of the flow.
    states : ndarray of shape (n_nodes,) of int8
        Half-integral states.
    """

    tables: TableScratch
    scores: np.ndarray
    state_ptr: np.ndarray
    score_ptr: np.ndarray
    columns: np.ndarray
    ends: np.ndarray
    off: np.ndarray
    on: np.ndarray
    choices: Choices
    signs: Signs
    network: Network
    forest: Forest
    components: ComponentScratch
    component: np.ndarray
    states: np.ndarray


class RoofProblem(NetworkProblem):
    """Graphs of two labels."""

    structure = "Pairwise of two labels"
    remedy = ', or inference="junction-tree" where tables are small'


def applies(graph: Any, samples: Any, fields: dict, network: NamedTuple) -> str | None:
    """Only with two labels."""
    n_labels = len(network.column)
    return None if n_labels == 2 else f"there are {n_labels} labels, not 2"


def make(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> RoofProblem:
    """The problem."""
    n, m = max(longest_item(samples.offsets), 1), longest_item(samples.edge_ptr)
    n_tables = int(fields["n_tables"].max(initial=1))
    work = RoofScratch(
        tables=tables,
        scores=np.empty(4 * n_tables),
        state_ptr=2 * np.arange(n + 1),
        score_ptr=np.zeros(m, dtype=np.int64),
        columns=np.full(m, 2),
        ends=np.zeros((2, m), dtype=np.int32),
        off=np.zeros(n, dtype=np.int64),
        on=np.ones(n, dtype=np.int64),
        choices=empty_choices(n, 2 * m),
        signs=empty_signs(n),
        network=empty_network(2 * n, 4 * m),
        forest=empty_forest(2 * n),
        components=component_scratch(2 * n),
        component=np.empty(2 * n, dtype=np.int32),
        states=np.empty(n, dtype=np.int8),
    )
    return RoofProblem(**fields, own=network._replace(inference=incidence(samples)), work=work)


@inner_kernel
def _model(problem, i, theta):
    """Sample i as pairs; its parts stay where they are."""
    own, work = problem.own, problem.work
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    first = own.ptr[i]
    m = own.ptr[i + 1] - first
    expand_tables(problem, i, theta, work.scores)
    for e in range(m):
        work.ends[0, e], work.ends[1, e] = own.ends[first + e, 0], own.ends[first + e, 1]
        work.score_ptr[e] = 4 * own.table[first + e]
    return Pairs(
        work.state_ptr[: n + 1],
        theta[: 2 * n],
        work.ends[:, :m],
        work.columns[:m],
        work.score_ptr[:m],
        work.scores,
    )


@inner_kernel
def _solve(problem, i, theta):
    """Write the half-integral states; the bound, -inf if there is no labelling."""
    work = problem.work
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    states, edges, network = work.states[:n], work.choices, work.network
    whole = work.signs
    signs = Signs(whole.link[:n], whole.size[:n], whole.flip[:n], whole.double[:n], whole.node[:n])
    n_edges = choose(_model(problem, i, theta), work.off[:n], work.on[:n], edges)
    n_nodes, n_doubled, _ = find_signs(edges, n_edges, signs)
    bound = begin_cut(edges, n_edges, signs, n_nodes, network, work.forest)
    if not bound > -math.inf:
        return bound
    while not advance_flow(network, work.forest, 1 << 60):
        pass
    flow = work.forest.amount[FLOW]
    if not flow < math.inf:
        return -math.inf
    if n_doubled > 0:
        strong_components(n_nodes, network, work.forest, work.components, work.component)
    read_states(signs, work.forest, work.component, states)
    return bound - flow


@inner_kernel
def _pair_of(problem, theta, n, e, half):
    """Scores of the better half-integral point of an edge: labels (0, a) and (1, 1 - a)."""
    begin = 2 * n + problem.own.table[e] * problem.width
    equal = pair_score(problem, theta, begin, 0, 0) + pair_score(problem, theta, begin, 1, 1)
    unequal = pair_score(problem, theta, begin, 0, 1) + pair_score(problem, theta, begin, 1, 0)
    return 0 if equal >= unequal else 1


@inner_kernel
def _add_pair(problem, mu, begin, j, k, c):
    column = problem.own.column[j, k]
    if column >= 0:
        mu[begin + column] += c


@relaxed_oracle.register(RoofProblem)
@kernel
def _(problem, i, theta, labels, mu):
    own, states = problem.own, problem.work.states
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    bound = _solve(problem, i, theta)
    if not bound > -math.inf:
        return bound, bound
    value = 0.0
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        for k in range(2):
            mu[2 * t + k] = 0.5 if states[t] == HALF else (1.0 if states[t] == k else 0.0)
            value += mu[2 * t + k] * theta[2 * t + k] if mu[2 * t + k] > 0.0 else 0.0
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * problem.width
        a, b = states[own.ends[e, 0]], states[own.ends[e, 1]]
        other = _pair_of(problem, theta, n, e, HALF) if a == HALF and b == HALF else 0
        for x in range(2):
            # Two points of weight one half, equal ones where both nodes are settled.
            j = x if a == HALF else a
            k = x if b == HALF else b
            k = 1 - k if other == 1 else k
            _add_pair(problem, mu, begin, j, k, 0.5)
            value += 0.5 * pair_score(problem, theta, begin, j, k)
    return bound, min(value, bound)


@inner_kernel
def _gain(problem, i, theta, t):
    """Score of label 1 minus that of label 0 at a node; halves of neighbours count as halves."""
    own, states = problem.own, problem.work.states
    edges = own.inference
    first, n = problem.label_ptr[i], problem.label_ptr[i + 1] - problem.label_ptr[i]
    on, off = theta[2 * t + 1], theta[2 * t]
    for q in range(edges.ptr[first + t], edges.ptr[first + t + 1]):
        e = edges.edge[q]
        begin = 2 * n + own.table[e] * problem.width
        is_first = own.ends[e, 0] == t
        state = states[own.ends[e, 1 if is_first else 0]]
        for k in range(2):
            share = 0.5 if state == HALF else (1.0 if state == k else 0.0)
            if share > 0.0 and is_first:
                on += share * pair_score(problem, theta, begin, 1, k)
                off += share * pair_score(problem, theta, begin, 0, k)
            elif share > 0.0:
                on += share * pair_score(problem, theta, begin, k, 1)
                off += share * pair_score(problem, theta, begin, k, 0)
    if on == -math.inf and off == -math.inf:
        return theta[2 * t + 1] - theta[2 * t] if theta[2 * t] > -math.inf else math.inf
    return on - off


@max_oracle.register(RoofProblem)
@kernel
def _(problem, i, theta, labels):
    states = problem.work.states
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    bound = _solve(problem, i, theta)
    if not bound > -math.inf:
        return bound
    # Persistent states stay: one of the best labellings has them.
    n_half = 0
    for t in range(n):
        labels[t] = states[t]
        n_half += states[t] == HALF
    moved = n_half > 0
    sweep = 0
    while moved and sweep <= n:
        moved = False
        for t in range(n):
            if labels[t] == HALF:
                gain = _gain(problem, i, theta, t)
                wanted = 1 if gain > 0.0 else 0
                if states[t] == HALF or (states[t] != wanted and abs(gain) > 1e-9):
                    states[t] = wanted
                    moved = True
        sweep += 1
    for t in range(n):
        labels[t] = states[t]
    return score(problem, i, theta, labels)

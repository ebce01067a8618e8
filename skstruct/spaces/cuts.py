"""Graphs of two labels by one maximum flow: minimum cuts where edges attract, else roof duals.

The roof dual bounds the best score, a local search finds a labelling: dual <= optimum <= primal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    add_indicator,
    augment,
    euclidean_oracle,
    loss_augmented_max,
    max_marginals,
    max_oracle,
    relaxed_oracle,
    score,
    top_k_oracle,
)
from ..inference.max_flow import (
    FLOW,
    LEAST,
    WHOLE,
    Forest,
    Network,
    advance_flow,
    continue_flow,
    empty_forest,
    empty_network,
    in_source_side,
    init_search_forest,
)
from ..inference.qpbo import (
    HALF,
    OFF,
    ON,
    Choices,
    ComponentScratch,
    Pairs,
    Signs,
    begin_cut,
    choose,
    component_scratch,
    empty_choices,
    empty_signs,
    find_signs,
    read_states,
    strong_components,
)
from ..inference.quadratic_cut import LevelWork, level_work, quadratic_cut
from .n_best import NBestScratch, n_best_scratch, top_k_by_max_marginals
from .pairwise import NetworkSpace, add_pair, expand_tables, pair_score

# Sweeps of the local search over nodes that the roof dual does not decide.
_SWEEPS = 50
_EPSILON = 2.0**-52


class FlowScratch(NamedTuple):
    """Scratch of one thread; its contents are not used after a call."""

    # The tables of a sample in full.
    scores: np.ndarray
    # Offsets of states and tables; 2 for each edge.
    state_ptr: np.ndarray
    score_ptr: np.ndarray
    columns: np.ndarray
    # (2, n_edges): The ends of a sample's edges.
    ends: np.ndarray
    # (n_nodes,): Zeros and ones.
    off: np.ndarray
    on: np.ndarray
    # The model in the form of :mod:`skstruct.inference.qpbo`.
    choices: Choices
    signs: Signs
    # Of the flow.
    network: Network
    forest: Forest
    components: ComponentScratch
    # (n_nodes,): Half-integral states.
    states: np.ndarray
    # The edges of each node, where the local search needs them.
    near_ptr: np.ndarray
    near: np.ndarray
    # (2,): Nodes that are forced.
    changed: np.ndarray
    # For the n best.
    n_best: NBestScratch
    # Of projections.
    levels: LevelWork
    # (n_nodes,): Projected marginals of label 1, and the curvatures of nodes.
    point: np.ndarray
    curvature: np.ndarray


def flow_scratch(samples, n_tables, n_best):
    """Return scratch for the largest sample; pages that no sample writes to cost nothing."""
    n, m = max(longest_item(samples.offsets), 1), longest_item(samples.edge_ptr)
    return FlowScratch(
        scores=np.empty(4 * int(n_tables.max(initial=1))),
        state_ptr=np.empty(n + 1, dtype=np.int64),
        score_ptr=np.empty(m, dtype=np.int64),
        columns=np.empty(m, dtype=np.int64),
        ends=np.empty((2, m), dtype=np.int32),
        off=np.empty(n, dtype=np.int64),
        on=np.empty(n, dtype=np.int64),
        choices=empty_choices(n, 2 * m),
        signs=empty_signs(n),
        network=empty_network(2 * n, 4 * m),
        forest=empty_forest(2 * n),
        components=component_scratch(2 * n),
        states=np.empty(n, dtype=np.int8),
        near_ptr=np.empty(n + 1, dtype=np.int32),
        near=np.empty(2 * m, dtype=np.int32),
        changed=np.empty(2, dtype=np.int32),
        n_best=n_best,
        levels=level_work(n),
        point=np.empty(n),
        curvature=np.empty(n),
    )


class FlowSpace(NetworkSpace):
    """Graphs of two labels."""

    structure = "Pairwise of two labels"


@inner_kernel(inline=True)
def _counted(space, theta, begin, j, k, count):
    return count * pair_score(space, theta, begin, j, k) if count > 0 else 0.0


@inner_kernel
def _count_run(own, e, stop, labels):
    """Return the end of the run of edges with one table; counts of label 1: first, second, both."""
    table, ends = own.table[e], own.ends
    first = second = both = 0
    while e < stop and own.table[e] == table:
        j, k = labels[ends[e, 0]], labels[ends[e, 1]]
        first += j
        second += k
        both += j & k
        e += 1
    return e, first, second, both


@score.register(FlowSpace)
@kernel
def _(space, i, theta, labels):
    own, n = space.own, space.label_ptr[i + 1] - space.label_ptr[i]
    total = 0.0
    for t in range(n):
        total += theta[2 * t + labels[t]]
    e = own.ptr[i]
    while e < own.ptr[i + 1]:
        begin = 2 * n + own.table[e] * space.width
        after, first, second, both = _count_run(own, e, own.ptr[i + 1], labels)
        total += _counted(space, theta, begin, 0, 0, after - e - first - second + both)
        total += _counted(space, theta, begin, 0, 1, second - both)
        total += _counted(space, theta, begin, 1, 0, first - both)
        total += _counted(space, theta, begin, 1, 1, both)
        e = after
    return total


@add_indicator.register(FlowSpace)
@kernel
def _(space, i, labels, c, mu):
    own, n = space.own, space.label_ptr[i + 1] - space.label_ptr[i]
    for t in range(n):
        mu[2 * t + labels[t]] += c
    e = own.ptr[i]
    while e < own.ptr[i + 1]:
        begin = 2 * n + own.table[e] * space.width
        after, first, second, both = _count_run(own, e, own.ptr[i + 1], labels)
        add_pair(space, mu, begin, 0, 0, c * (after - e - first - second + both))
        add_pair(space, mu, begin, 0, 1, c * (second - both))
        add_pair(space, mu, begin, 1, 0, c * (first - both))
        add_pair(space, mu, begin, 1, 1, c * both)
        e = after


@inner_kernel
def signs_of(space, n):
    """The signs of a sample's nodes."""
    whole = space.work.signs
    return Signs(whole.link[:n], whole.size[:n], whole.flip[:n], whole.double[:n], whole.node[:n])


@inner_kernel
def lay_nodes(space, theta, n, excess):
    """Write the gain of label 1 at each node; return the sum of magnitudes, inf without a label."""
    size = 0.0
    for t in range(n):
        off, on = theta[2 * t], theta[2 * t + 1]
        if off > -math.inf and on > -math.inf:
            excess[t] = on - off
            size += max(abs(on), abs(off))
        else:
            excess[t] = math.inf if on > -math.inf else -math.inf
            if off == on:
                return math.inf
    return size


@inner_kernel
def lay_arcs(space, i, theta, n, slack, network):
    """Write the arcs; return the sum of magnitudes, -1 if an edge repels by more than `slack`."""
    own, ends = space.own, space.own.ends
    first, head, sister = network.first, network.head, network.sister
    cap, excess, size = network.cap, network.excess, 0.0
    for t in range(n + 1):
        first[t] = 0
    for e in range(own.ptr[i], own.ptr[i + 1]):
        first[ends[e, 0]] += 1
        first[ends[e, 1]] += 1
    total = 0
    for t in range(n + 1):
        degree = first[t]
        first[t] = total
        total += degree
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * space.width
        t00, t01 = pair_score(space, theta, begin, 0, 0), pair_score(space, theta, begin, 0, 1)
        t10, t11 = pair_score(space, theta, begin, 1, 0), pair_score(space, theta, begin, 1, 1)
        if not (t00 > -math.inf and t11 > -math.inf):
            return -1.0
        # Replace a forbidden entry by the score without interaction.
        there = back = 0.0
        if t01 == -math.inf and t10 == -math.inf:
            there = back = math.inf
            t01 = t10 = 0.5 * (t00 + t11)
        elif t01 == -math.inf:
            back = math.inf
            t01 = t00 + t11 - t10
        elif t10 == -math.inf:
            there = math.inf
            t10 = t00 + t11 - t01
        else:
            there = back = 0.5 * ((t00 - t01) + (t11 - t10))
            if not there >= 0.0:
                if not there >= -slack:
                    return -1.0
                there = back = 0.0
        size += max(abs(t00), abs(t01), abs(t10), abs(t11))
        u, v = ends[e, 0], ends[e, 1]
        excess[u] += 0.5 * ((t10 - t00) + (t11 - t01))
        excess[v] += 0.5 * ((t01 - t00) + (t11 - t10))
        p, q = first[u], first[v]
        first[u] = p + 1
        first[v] = q + 1
        head[p], head[q] = v, u
        sister[p], sister[q] = q, p
        cap[p], cap[q] = there, back
    # Now the place of each node is the offset of the next one's arcs.
    for t in range(n, 0, -1):
        first[t] = first[t - 1]
    first[0] = 0
    return size


@inner_kernel
def _cut(space, i, theta, n):
    """Solve a sample whose edges attract; -1: no labelling, -2: an edge repels; and its size."""
    work, signs = space.work, space.work.signs
    network, forest, states = work.network, work.forest, work.states
    size = lay_nodes(space, theta, n, network.excess)
    if size == math.inf:
        return -1, math.inf
    of_edges = lay_arcs(space, i, theta, n, 0.0, network)
    if of_edges < 0.0:
        return -2, 0.0
    init_search_forest(n, network, forest)
    advance_flow(network, forest, WHOLE)
    if not forest.amount[FLOW] < math.inf:
        return -1, math.inf
    for t in range(n):
        states[t] = ON if in_source_side(t, forest) else OFF
        signs.node[t], signs.flip[t], signs.double[t] = t, 0, 0
    return 0, size + of_edges


@inner_kernel
def _model(space, i, theta, n, m):
    """Sample i in the form of pairs, without a copy of its parts."""
    own, work = space.own, space.work
    first = own.ptr[i]
    expand_tables(space, i, theta, work.scores)
    for t in range(n):
        work.state_ptr[t], work.off[t], work.on[t] = 2 * t, 0, 1
    work.state_ptr[n] = 2 * n
    for e in range(m):
        work.ends[0, e], work.ends[1, e] = own.ends[first + e, 0], own.ends[first + e, 1]
        work.score_ptr[e], work.columns[e] = 4 * own.table[first + e], 2
    return Pairs(
        work.state_ptr[: n + 1],
        theta[: 2 * n],
        work.ends[:, :m],
        work.columns[:m],
        work.score_ptr[:m],
        work.scores,
    )


@inner_kernel
def _roof(space, i, theta, n, m):
    """Solve any sample: number of HALF states (-1: no labelling), number of nodes, the bound."""
    work, edges = space.work, space.work.choices
    network, forest, signs = work.network, work.forest, signs_of(space, n)
    n_edges = choose(_model(space, i, theta, n, m), work.off[:n], work.on[:n], edges)
    n_nodes, n_doubled, _ = find_signs(edges, n_edges, signs)
    bound = begin_cut(edges, n_edges, signs, n_nodes, network, forest)
    if not bound > -math.inf:
        return -1, n_nodes, bound
    advance_flow(network, forest, WHOLE)
    flow = forest.amount[FLOW]
    if not flow < math.inf:
        return -1, n_nodes, -math.inf
    if n_doubled > 0:
        strong_components(n_nodes, network, forest, work.components)
    n_half = read_states(signs, forest, work.components.component, work.states[:n])
    return n_half, n_nodes, bound - flow


@kernel
def solve(space, i, theta):
    """Write half-integral states of largest score, and the flow that certifies it, to scratch."""
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    m = space.own.ptr[i + 1] - space.own.ptr[i]
    n_half, size = _cut(space, i, theta, n)
    bound, n_nodes = math.inf, n
    if n_half == -2:
        n_half, n_nodes, bound = _roof(space, i, theta, n, m)
        size = space.work.choices.constant[1]
    if n_half < 0:
        return -1, -math.inf, 0.0, n_nodes
    slack = 2 * (n + 2 * m) * space.work.forest.amount[LEAST]
    slack += _EPSILON * (8.0 + math.sqrt(n + m)) * size
    bound = bound + slack if n_half > 0 else math.inf
    return n_half, bound, slack, n_nodes


@inner_kernel
def _find_near(space, i, n):
    """Write the edges of each node to scratch."""
    own, ptr, near = space.own, space.work.near_ptr, space.work.near
    for t in range(n + 1):
        ptr[t] = 0
    for e in range(own.ptr[i], own.ptr[i + 1]):
        for x in range(2):
            ptr[own.ends[e, x]] += 1
    for t in range(n):
        ptr[t + 1] += ptr[t]
    for e in range(own.ptr[i + 1] - 1, own.ptr[i] - 1, -1):
        for x in range(2):
            ptr[own.ends[e, x]] -= 1
            near[ptr[own.ends[e, x]]] = e - own.ptr[i]


@inner_kernel
def _gain(space, i, theta, n, t):
    """Score of label 1 minus that of label 0 at a node; halves of neighbours count as halves."""
    own, work, states = space.own, space.work, space.work.states
    on, off = theta[2 * t + 1], theta[2 * t]
    for q in range(work.near_ptr[t], work.near_ptr[t + 1]):
        e = own.ptr[i] + work.near[q]
        begin = 2 * n + own.table[e] * space.width
        is_first = own.ends[e, 0] == t
        state = states[own.ends[e, 1 if is_first else 0]]
        for k in range(2):
            share = 0.5 if state == HALF else (1.0 if state == k else 0.0)
            if share > 0.0 and is_first:
                on += share * pair_score(space, theta, begin, 1, k)
                off += share * pair_score(space, theta, begin, 0, k)
            elif share > 0.0:
                on += share * pair_score(space, theta, begin, k, 1)
                off += share * pair_score(space, theta, begin, k, 0)
    if on == -math.inf and off == -math.inf:
        return theta[2 * t + 1] - theta[2 * t] if theta[2 * t] > -math.inf else math.inf
    return on - off


@inner_kernel
def round_states(space, i, theta, n_half, labels):
    """Write a best labelling with the decided states (persistency), the others by local search."""
    states = space.work.states
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    for t in range(n):
        labels[t] = states[t]
    moved, sweep = n_half > 0, 0
    if moved:
        _find_near(space, i, n)
    while moved and sweep < _SWEEPS:
        moved = False
        for t in range(n):
            if labels[t] == HALF:
                gain = _gain(space, i, theta, n, t)
                wanted = ON if gain > 0.0 else OFF
                if states[t] == HALF or (states[t] != wanted and gain != 0.0):
                    states[t] = wanted
                    moved = True
        sweep += 1
    for t in range(n):
        labels[t] = states[t]
    return score(space, i, theta, labels)


@max_oracle.register(FlowSpace)
@kernel
def _(space, i, theta, labels):
    n_half, _, _, _ = solve(space, i, theta)
    if n_half < 0:
        return -math.inf
    return round_states(space, i, theta, n_half, labels)


# Euclidean projections of graphs of two labels whose edges attract.
#
# The norm. With x_u the marginal of label 1 at node u, and m(j, k) those of the pairs of labels of
# an edge, each edge separately (also if edges share a table, whose parts are sums),
#
#     |mu|^2 = sum over nodes of m(0)^2 + m(1)^2
#              + sum over edges of (m(1, 1) - m(0, 0))^2 + m(0, 1)^2 + m(1, 0)^2.
#
# For an edge that is ``(x_u + x_v - 1)^2 + (x_u - x_v)^2 + 2 m(0, 1) m(1, 0)``. If edges attract,
# the best point of the local polytope (consistent distributions of nodes and edges) has m(1, 1) =
# min(x_u, x_v), so that the norm separates over nodes: the rest is total variation, which
# :func:`skstruct.inference.quadratic_cut.quadratic_cut` solves exactly. That point is the mixture
# of the labellings ``x > t`` for t from 0 to 1: it is in the hull of labellings, too, as
# certificates require.

# Rounding error of an interaction of 0, relative to the largest score; an edge repels if its
# interaction is below minus this.
_SLACK = 1e-12


@inner_kernel
def _write_point(space, i, n, x, mu):
    """Write the parts from the marginals of label 1, and return the squared norm."""
    own, square = space.own, 0.0
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        mu[2 * t], mu[2 * t + 1] = 1.0 - x[t], x[t]
        square += mu[2 * t] * mu[2 * t] + x[t] * x[t]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * space.width
        u, v = x[own.ends[e, 0]], x[own.ends[e, 1]]
        both, either = min(u, v), max(u, v)
        add_pair(space, mu, begin, 0, 0, 1.0 - either)
        add_pair(space, mu, begin, 0, 1, v - both)
        add_pair(space, mu, begin, 1, 0, u - both)
        add_pair(space, mu, begin, 1, 1, both)
        square += (u + v - 1.0) * (u + v - 1.0) + (u - v) * (u - v)
    return square


@kernel
def project_cut(space, i, theta, temperature, mu):
    """Project as the comment above derives; NaN, and zeros in `mu`, if an edge repels."""
    work, network, n_parts = space.work, space.work.network, space.part_ptr[i + 1]
    n, n_parts = space.label_ptr[i + 1] - space.label_ptr[i], n_parts - space.part_ptr[i]
    value = scale = 0.0
    for q in range(n_parts):
        scale = max(scale, abs(theta[q]) if theta[q] > -math.inf else 0.0)
    if lay_nodes(space, theta, n, network.excess) == math.inf:
        value = -math.inf
    elif lay_arcs(space, i, theta, n, _SLACK * scale, network) < 0.0:
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
    square = _write_point(space, i, n, work.point, mu)
    for q in range(n_parts):
        if mu[q] != 0.0:
            value += theta[q] * mu[q]
    return value - 0.5 * temperature * square


class CutSpace(FlowSpace):
    """Graphs of two labels, trained on labellings."""

    structure = "Pairwise of two labels that attract"
    method = "max-flow"

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space, or the reason why not: cuts need two labels and edges that attract."""
        n_labels = len(network.column)
        if n_labels != 2:
            return f"minimum cuts take 2 labels, there are {n_labels}"
        if not getattr(graph, "attractive", False):
            return "interactions need not attract (attractive=False)"
        several = n_best_scratch(fields["part_ptr"], fields["label_ptr"], 2, n_best)
        work = flow_scratch(samples, fields["n_tables"], several)
        return cls(**fields, own=network, work=work)

    def exact_at(self, rows: tuple, weights: Any) -> bool:
        """Return whether all edges attract at these weights: then cuts are exact."""
        column, mask = self.own.column, self.transition_mask
        if mask[0, 0] < 0.0 or mask[1, 1] < 0.0:
            return False
        if mask[0, 1] < 0.0 or mask[1, 0] < 0.0:
            return True
        padded = np.append(weights.pair[:, : self.width], np.zeros((len(weights.pair), 1)), axis=1)
        pull = padded[:, column[0, 0]] + padded[:, column[1, 1]]
        push = padded[:, column[0, 1]] + padded[:, column[1, 0]]
        return bool((_rows_times(rows.edges, pull - push) >= 0.0).all())


def _rows_times(features, table):
    """The feature rows times a column of weights."""
    if hasattr(features, "indptr"):
        shape = features.indptr.size - 1, table.size
        rows = sparse.csr_matrix((features.data, features.indices, features.indptr), shape) @ table
    else:
        rows = features.values @ table[: features.values.shape[1]]
    return rows + (table[features.intercept] if features.intercept >= 0 else 0.0)


@loss_augmented_max.register(CutSpace)
@kernel
def _(problem, i, theta, labels, augmented):
    space = problem.space
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem.target, i, augmented)
    n_half, bound, _, _ = solve(space, i, augmented)
    if n_half < 0:
        return -math.inf
    value = round_states(space, i, augmented, n_half, labels)
    return max(bound, value) if n_half > 0 else value


@inner_kernel
def _room(k, to_source, network):
    """Residual capacity out of a node, or into it."""
    total = 0.0
    for a in range(network.first[k], network.first[k + 1]):
        total += network.cap[a if to_source else network.sister[a]]
    return total


@inner_kernel
def _all_room(n_nodes, network):
    """A number above the total capacity, if that is finite."""
    total = 1.0
    for k in range(n_nodes):
        total += abs(network.excess[k]) if abs(network.excess[k]) < math.inf else 0.0
        for a in range(network.first[k], network.first[k + 1]):
            total += network.cap[a] if network.cap[a] < math.inf else 0.0
    return total


@inner_kernel
def _push(k, to_source, limit, network):
    """Force a node to a side: the addition to its excess, and the immediate cost."""
    excess = network.excess[k]
    room = _room(k, to_source, network)
    amount = (room if room < math.inf else 4.0 * limit) + abs(excess)
    network.excess[k] += amount if to_source else -amount
    price = max(-excess if to_source else excess, 0.0)
    return amount if to_source else -amount, price


@inner_kernel
def _price(k, is_double, to_source, limit, n_nodes, space):
    """Return the decrease of the best score if a node of the flow is forced; repair the flow."""
    network, forest, changed = space.work.network, space.work.forest, space.work.changed
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


@max_marginals.register(CutSpace)
@kernel
def _(space, i, theta, out):
    """Write max-marginals; bounds where edges repel and the roof dual leaves states open."""
    n, work = space.label_ptr[i + 1] - space.label_ptr[i], space.work
    n_half, bound, _, n_nodes = solve(space, i, theta)
    for q in range(2 * n):
        out[q] = -math.inf
    if n_half < 0:
        return
    states, signs = work.states, work.signs
    best = bound if n_half > 0 else score(space, i, theta, states)
    limit = _all_room(n_nodes, work.network)
    for t in range(n):
        k, is_double = signs.node[t], signs.double[t] == 1
        for label in range(2):
            if label == states[t]:
                out[2 * t + label] = best
                continue
            to_source = (label == ON) != (signs.flip[t] == 1 and not is_double)
            out[2 * t + label] = best - _price(k, is_double, to_source, limit, n_nodes, space)


top_k_oracle.register(CutSpace)(top_k_by_max_marginals)
euclidean_oracle.register(CutSpace)(project_cut)


# Graphs of two labels by the roof dual.


class RoofSpace(FlowSpace):
    """Graphs of two labels, trained on their relaxation."""

    method, inference = "roof-dual", "relaxed"

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space, or the reason why not: a roof dual needs two labels."""
        n_labels = len(network.column)
        if n_labels != 2:
            return f"there are {n_labels} labels, not 2"
        several = n_best_scratch(fields["part_ptr"], fields["label_ptr"], 2, 1)
        work = flow_scratch(samples, fields["n_tables"], several)
        return cls(**fields, own=network, work=work)


@inner_kernel
def _pair_of(space, theta, n, e):
    """Scores of the better half-integral point of an edge: labels (0, a) and (1, 1 - a)."""
    begin = 2 * n + space.own.table[e] * space.width
    equal = pair_score(space, theta, begin, 0, 0) + pair_score(space, theta, begin, 1, 1)
    unequal = pair_score(space, theta, begin, 0, 1) + pair_score(space, theta, begin, 1, 0)
    return 0 if equal >= unequal else 1


@relaxed_oracle.register(RoofSpace)
@kernel
def _(space, i, theta, labels, mu):
    own, states = space.own, space.work.states
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    n_half, bound, slack, _ = solve(space, i, theta)
    if n_half < 0:
        return -math.inf, -math.inf
    value = 0.0
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        labels[t] = states[t]
        for k in range(2):
            mu[2 * t + k] = 0.5 if states[t] == HALF else (1.0 if states[t] == k else 0.0)
            value += mu[2 * t + k] * theta[2 * t + k] if mu[2 * t + k] > 0.0 else 0.0
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * space.width
        a, b = states[own.ends[e, 0]], states[own.ends[e, 1]]
        other = _pair_of(space, theta, n, e) if a == HALF and b == HALF else 0
        for x in range(2):
            # Two points of weight one half, equal if both nodes are decided.
            j = x if a == HALF else a
            k = x if b == HALF else b
            k = 1 - k if other == 1 else k
            add_pair(space, mu, begin, j, k, 0.5)
            value += 0.5 * pair_score(space, theta, begin, j, k)
    if n_half > 0:
        labels[0] = -1
    # Decided states are a best labelling: no score is larger, up to rounding.
    return max(bound if n_half > 0 else value + slack, value), value

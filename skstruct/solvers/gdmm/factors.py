"""GDMM on nodes and edges: chains, trees, graphs, single nodes.

Nodes j have distributions ``q_j`` of labels, edges f ``q_f`` of pairs, on *active sets*. ``W =
sum_j C_j (e_true - q_j) x_j'``, ``T = sum_f C_f (e_true - q_f)``, and with features ``V = sum_f C_f
A (e_true - q_f) x_f'``. Messages ``m = u + nu`` at each *port* (an end of an edge) make them agree:
``u`` is the marginal of ``q_f`` minus ``q_j``, ``nu`` the scaled multipliers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.features import DenseFeatures, add_to_column, column_dot, gather_columns
from ...core.intrinsics import cycles
from ...core.jit.dispatch import inner_kernel, kernel
from ...core.offsets import ends_of, places_of
from ...core.parallel import Pieces
from ...core.weights import Weights, squared_norm, zero_weights
from ...data.matrices import row_squares
from ...inference.simplex import project
from .active_sets import (
    ALL,
    AWAY,
    CHANGE,
    EXACT,
    INFEASIBILITY,
    SAMPLED,
    SEARCH,
    SUBLINEAR,
    ActiveSets,
    TournamentTrees,
    append,
    changed,
    drop_empty,
    fits,
    max_trees,
    one_entry_each,
    packed,
    row_best,
    table_best,
)
from .solver import STEP_WITH_CYCLES, Run

# The factors, and the dual point.


class GDMMGraph(NamedTuple):
    """Nodes and edges of all samples."""

    # Feature rows of the nodes.
    nodes: tuple
    # (n_samples + 1,): Where the nodes and the edges of each sample begin.
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    # (n_edges, 2): The nodes at the two ends of each edge.
    ends: np.ndarray
    # (n_nodes + 1,): Where the ports of each node begin in `ports`.
    port_ptr: np.ndarray
    # (2 * n_edges,): Port 2 f is the first end of edge f, port 2 f + 1 the second.
    ports: np.ndarray
    # (2 * n_edges,): All of them in their own order.
    every_port: np.ndarray
    # (n_nodes,): True labels.
    labels: np.ndarray
    # (n_nodes or 0, n_labels): Labels that a node may have.
    allowed: np.ndarray
    # (n_labels, n_labels): Task loss of (true label, label).
    cost: np.ndarray
    # (n_nodes,): Factor on the task loss of each node.
    share: np.ndarray
    # (n_nodes,): Squared norms of the feature rows.
    squares: np.ndarray
    # Where edges have tables of their own (else without entries): feature rows of the edges, and
    # (n_edges,) their squared norms.
    edges: tuple
    edge_squares: np.ndarray
    # (n_labels, n_labels): Column of V for a pair of labels, or -1; what is added to its score.
    column: np.ndarray
    mask: np.ndarray


class Pad(NamedTuple):
    """Scratch for the messages at both ends of an edge, or at a node."""

    # (2, n_labels): Zeros between visits.
    message: np.ndarray
    # (2, n_labels): Zeros between visits: where there are messages.
    mark: np.ndarray
    # (2, n_labels + 1): Where `mark` is set.
    touched: np.ndarray


class GDMMState(NamedTuple):
    """The dual point, the messages, the search structures and scratch."""

    # Entries (label, q) and (label * n_labels + label, q); the truth comes first.
    nodes: ActiveSets
    edges: ActiveSets
    # Entries (label, marginal of q_f, nu).
    ports: ActiveSets
    # (n_samples,): C_i, the factor on the loss of each sample.
    reach: np.ndarray
    # (n_labels, n_labels): T and its transpose, -inf where forbidden. With weights for features
    # scratch, the table of the edge that is visited.
    table: np.ndarray
    turned: np.ndarray
    # (n_edge_features, n_columns): V; (0, 0) where all edges share a table.
    pair: np.ndarray
    # (2, n_columns + 1): Scratch for an edge: the weights that it sees, and zeros; the last column
    # takes what has none (column -1).
    columns_of: np.ndarray
    # Their trees.
    rows: TournamentTrees
    columns: TournamentTrees
    # Scratch for messages.
    pad: Pad
    # (2, n_labels): Scratch.
    scores: np.ndarray
    # Scratch for one active set.
    value: np.ndarray
    before: np.ndarray
    chosen: np.ndarray
    # Q_max of Algorithm 3.
    curvature: float
    # (2,): Position of the pass: sample, factor.
    cursor: np.ndarray
    # (4,): Cycles spent in search, and in all; largest infeasibility; sum of squared changes.
    totals: np.ndarray


# The weights of edges, one table or one for each feature.


@inner_kernel(inline=True)
def own_table(graph):
    """Return whether every edge has a table of its own, made of its features."""
    return graph.edge_squares.shape[0] > 0


@inner_kernel
def make_table(graph, state, f, lo, hi):
    """Write rows `lo` to `hi` of the table of an edge with features, and its active entries."""
    n_labels, width = graph.cost.shape[0], state.pair.shape[1]
    seen, edges = state.columns_of[0], state.edges
    full = width == n_labels * n_labels
    first, last = (lo * n_labels, hi * n_labels) if full else (0, width)
    gather_columns(graph.edges, f, state.pair, first, last, seen)
    for a in range(lo, hi):
        for b in range(n_labels):
            c = graph.column[a, b]
            state.table[a, b] = graph.mask[a, b] + (seen[c] if c >= 0 else 0.0)
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        c = graph.column[a, b]
        if not lo <= a < hi:
            state.table[a, b] = column_dot(graph.edges, f, state.pair, c) if c >= 0 else 0.0


@inner_kernel
def add_pair(graph, out, f, a, b, c):
    """Add `c` to the weights of a pair of labels on edge f: in its table, or times its features."""
    if not own_table(graph):
        out[a, b] += c
    elif graph.column[a, b] >= 0:
        add_to_column(graph.edges, f, out, graph.column[a, b], c)


# GDMM's messages at a node or an edge, and the search for new entries of active sets.


@inner_kernel
def touch(pad, side, n, label):
    """Mark a label on one side, if it is not yet."""
    if pad.mark[side, label] == 0:
        pad.mark[side, label] = 1
        pad.touched[side, n] = label
        return n + 1
    return n


@inner_kernel
def messages(nodes, ports, pad, side, node, port_list, first, stop, times):
    """Messages at a node from some ports; the labels of its active set are touched first."""
    n = 0
    start = nodes.start[node]
    for e in range(start, start + nodes.size[node]):
        n = touch(pad, side, n, nodes.key[e])
        pad.message[side, nodes.key[e]] -= times * nodes.share[e]
    for q in range(first, stop):
        port = port_list[q]
        start = ports.start[port]
        for e in range(start, start + ports.size[port]):
            n = touch(pad, side, n, ports.key[e])
            pad.message[side, ports.key[e]] += ports.share[e] + ports.price[e]
    return n


@inner_kernel(inline=True)
def edge_messages(graph, state, f):
    """Messages at both ends of an edge."""
    port, every = 2 * f, graph.every_port
    n_first = messages(
        state.nodes, state.ports, state.pad, 0, graph.ends[f, 0], every, port, port + 1, 1.0
    )
    n_second = messages(
        state.nodes, state.ports, state.pad, 1, graph.ends[f, 1], every, port + 1, port + 2, 1.0
    )
    return n_first, n_second


@inner_kernel
def clear_side(pad, side, n):
    """Put the scratch of one side back to zeros."""
    for q in range(n):
        label = pad.touched[side, q]
        pad.mark[side, label] = 0
        pad.message[side, label] = 0.0


@inner_kernel
def part_of(options, n_labels, uniform):
    """The labels of the part to search."""
    width = -(-n_labels // options.n_partitions)
    start = min(int(uniform * options.n_partitions) * width, n_labels)
    return start, min(start + width, n_labels)


@inner_kernel
def search_label(graph, options, state, w, i, j, uniform):
    """The best label without messages in one part; its scores go to ``scores[0]``."""
    n_labels = graph.cost.shape[0]
    truth = graph.labels[j]
    scores, mark = state.scores[0], state.pad.mark[0]
    lo, hi = part_of(options, n_labels, uniform)
    gather_columns(graph.nodes, j, w.node, lo, hi, scores)
    best, label = -math.inf, -1
    masked = graph.allowed.shape[0] > 0
    share = graph.share[j]
    for k in range(lo, hi):
        value = scores[k] + share * graph.cost[truth, k]
        scores[k] = value
        if value > best and mark[k] == 0 and not (masked and graph.allowed[j, k] == 0):
            best, label = value, k
    return best, label, lo, hi


@inner_kernel(inline=True)
def search_pair(options, state, n_first, n_second, penalty, uniform):
    """The best pair of labels of an edge."""
    if options.search == SUBLINEAR:
        return _search_ordered(state, n_first, n_second, penalty)
    table, first, second = state.table, state.pad.message[0], state.pad.message[1]
    n_labels = table.shape[0]
    best = state.scores[1]
    lo, hi = 0, n_labels
    if options.search == SAMPLED:
        lo, hi = part_of(options, n_labels, uniform)
    for k in range(n_labels):
        best[k] = -math.inf
    for j in range(lo, hi):
        price = penalty * first[j]
        for k in range(n_labels):
            best[k] = max(best[k], table[j, k] - price)
    top, b = -math.inf, 0
    for k in range(n_labels):
        value = best[k] - penalty * second[k]
        if value > top:
            top, b = value, k
    a, found = lo, -math.inf
    for j in range(lo, hi):
        value = table[j, b] - penalty * first[j]
        if value > found:
            a, found = j, value
    return top, a, b


@inner_kernel
def _search_ordered(state, n_first, n_second, penalty):
    """Search a pair by tournament trees: both labels without messages, one, or none."""
    table, turned = state.table, state.turned
    top, a, b = table_best(table, state.rows, state.pad.mark[0], state.pad.mark[1], -math.inf)
    for q in range(n_first):
        j = state.pad.touched[0, q]
        price = penalty * state.pad.message[0, j]
        value, k = row_best(table, state.rows, j, state.pad.mark[1], top + price)
        if k >= 0:
            top, a, b = value - price, j, k
        for r in range(n_second):
            k = state.pad.touched[1, r]
            value = table[j, k] - price - penalty * state.pad.message[1, k]
            if value > top:
                top, a, b = value, j, k
    for r in range(n_second):
        k = state.pad.touched[1, r]
        price = penalty * state.pad.message[1, k]
        value, j = row_best(turned, state.columns, k, state.pad.mark[0], top + price)
        if j >= 0:
            top, a, b = value - price, j, k
    return top, a, b


INNER, INNER_AWAY = 3, 12
LEAST_CURVATURE = 1e-12


@inner_kernel
def away_step(value, before, size, curvature):
    """An away (Guelat and Marcotte 1986) or a Frank-Wolfe step, whichever promises more."""
    best, worst, level = 0, -1, 0.0
    for e in range(size):
        level += before[e] * value[e]
        if value[e] > value[best]:
            best = e
        if before[e] > 0.0 and (worst < 0 or value[e] < value[worst]):
            worst = e
    toward = value[best] - level >= level - value[worst]
    pivot = best if toward else worst
    slope = value[best] - level if toward else level - value[worst]
    rest = 1.0 - before[pivot]
    squares = rest * rest
    for e in range(size):
        squares += before[e] * before[e] if e != pivot else 0.0
    step, emptied = 0.0, False
    if slope > 0.0 and rest > 0.0:
        most = 1.0 if toward else before[pivot] / rest
        step = min(slope / max(curvature * squares, LEAST_CURVATURE), most)
        emptied = step == most and not toward
    sign = 1.0 if toward else -1.0
    for e in range(size):
        goal = 1.0 if e == pivot else 0.0
        value[e] = max(before[e] + sign * step * (goal - before[e]), 0.0)
    if emptied:
        value[pivot] = 0.0


@inner_kernel
def block_step(value, before, size, curvature, variant):
    """New shares from the gradients in `value`; `curvature` bounds the Hessian over C."""
    if variant == AWAY:
        away_step(value, before, size, curvature)
        return
    for e in range(size):
        value[e] = before[e] + value[e] / curvature
    project(value, size)


@inner_kernel
def _visit_node(graph, options, state, w, i, j, uniform):
    """A block step on the distribution of node j."""
    reach, truth = state.reach[i], graph.labels[j]
    nodes, value, before = state.nodes, state.value, state.before
    p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
    n = messages(state.nodes, state.ports, state.pad, 0, j, graph.ports, p0, p1, float(p1 - p0))
    size = nodes.size[j]
    start = nodes.start[j]
    for e in range(n):
        before[e] = nodes.share[start + e] if e < size else 0.0
    clock = cycles()
    _, label, lo, hi = search_label(graph, options, state, w, i, j, uniform)
    if label >= 0:
        before[n] = 0.0
        n = touch(state.pad, 0, n, label)
    state.totals[SEARCH] += cycles() - clock
    penalty = options.rho * reach
    masked = graph.allowed.shape[0] > 0
    for e in range(n):
        k = state.pad.touched[0, e]
        if lo <= k < hi:
            score = state.scores[0, k]
        else:
            score = column_dot(graph.nodes, j, w.node, k) + graph.share[j] * graph.cost[truth, k]
        value[e] = (score + penalty * state.pad.message[0, k]) / reach
        if masked and graph.allowed[j, k] == 0:
            value[e] = -1e300
    curvature = max(graph.squares[j] + options.rho * (p1 - p0), LEAST_CURVATURE)
    block_step(value, before, n, curvature, options.variant)
    _write_back(nodes, j, value, state.pad.touched[0], n, size)
    for e in range(n):
        change = value[e] - before[e]
        if change != 0.0:
            add_to_column(graph.nodes, j, w.node, state.pad.touched[0, e], -reach * change)
            state.totals[CHANGE] += change * change
    clear_side(state.pad, 0, n)


@inner_kernel
def _write_back(sets, which, value, labels, n, size):
    """Store the new shares of one block; the keys of those beyond `size` are in `labels`."""
    start = sets.start[which]
    for e in range(size):
        sets.share[start + e] = value[e]
    for e in range(size, n):
        if value[e] != 0.0:
            append(sets, which, labels[e], value[e], 0.0)
    drop_empty(sets, which, 1)


@inner_kernel
def _crossing(scores, keys, size, n_labels):
    """Return a bound on the number of entries of an edge that share a label with one of them."""
    first, second = scores[0], scores[1]
    most = 0.0
    for e in range(size):
        first[keys[e] // n_labels] = 0.0
        second[keys[e] % n_labels] = 0.0
    for e in range(size):
        first[keys[e] // n_labels] += 1.0
        second[keys[e] % n_labels] += 1.0
    for e in range(size):
        most = max(most, first[keys[e] // n_labels] + second[keys[e] % n_labels])
    return most


@inner_kernel(inline=True)
def _commit(graph, options, state, f, reach, n_labels):
    """Bring the table up to date with the new shares of edge f."""
    edges, pad = state.edges, state.pad
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        change = edges.share[e] - edges.price[e]
        edges.price[e] = 0.0
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        pad.message[0, a] = 0.0  # an admitted pair may have touched labels without messages
        pad.message[1, b] = 0.0
        if change != 0.0:
            change_pair(graph, options.search, state, f, a, b, -reach * change)
            state.totals[CHANGE] += change * change
    drop_empty(edges, f, 1)


@inner_kernel
def _sharing(graph, shift, keys, size, n_labels):
    """Return the largest number of entries of an edge that have the same weight."""
    most = 0.0
    for e in range(size):
        c = graph.column[keys[e] // n_labels, keys[e] % n_labels]
        if c >= 0:
            shift[c] += 1.0
            most = max(most, shift[c])
    for e in range(size):
        c = graph.column[keys[e] // n_labels, keys[e] % n_labels]
        if c >= 0:
            shift[c] = 0.0
    return most


@inner_kernel
def _visit_edge(graph, options, state, i, f, uniform):
    """Block steps on the distribution of edge f."""
    reach, n_labels = state.reach[i], graph.cost.shape[0]
    edges, value, before = state.edges, state.value, state.before
    first, second = state.pad.message[0], state.pad.message[1]
    n_first, n_second = edge_messages(graph, state, f)
    penalty = options.rho * reach
    clock = cycles()
    own = own_table(graph)
    if own:
        lo, hi = part_of(options, n_labels, uniform) if options.search == SAMPLED else (0, n_labels)
        make_table(graph, state, f, lo, hi)
    _, a, b = search_pair(options, state, n_first, n_second, penalty, uniform)
    if a >= 0 and state.table[a, b] > -math.inf:
        known = False
        for e in range(edges.start[f], edges.start[f] + edges.size[f]):
            known |= edges.key[e] == a * n_labels + b
        if not known:
            append(edges, f, a * n_labels + b, 0.0, 0.0)
    state.totals[SEARCH] += cycles() - clock
    start, size = edges.start[f], edges.size[f]
    keys, shares = edges.key[start : start + size], edges.share[start : start + size]
    square, shift = graph.edge_squares[f] if own else 1.0, state.columns_of[1]
    curvature = square * _sharing(graph, shift, keys, size, n_labels) if own else square
    curvature += options.rho * _crossing(state.scores, keys, size, n_labels)
    curvature = max(curvature, LEAST_CURVATURE)
    for e in range(size):
        # `price` of an edge's entry keeps what its share was before the visit.
        edges.price[start + e] = shares[e]
    inner = INNER_AWAY if options.variant == AWAY else INNER
    for _ in range(inner if size > 1 else 0):
        for e in range(size):
            a, b = keys[e] // n_labels, keys[e] % n_labels
            change = shares[e] - edges.price[start + e]
            if own:
                c = graph.column[a, b]
                change = shift[c] if c >= 0 else 0.0
            score = state.table[a, b] - reach * square * change
            value[e] = (score - penalty * (first[a] + second[b])) / reach
            before[e] = shares[e]
        block_step(value, before, size, curvature, options.variant)
        moved = 0.0
        for e in range(size):
            change = value[e] - shares[e]
            first[keys[e] // n_labels] += change
            second[keys[e] % n_labels] += change
            shares[e] = value[e]
            moved += abs(change)
            if own:
                c = graph.column[keys[e] // n_labels, keys[e] % n_labels]
                shift[c] += change
        if moved < 1e-12:
            break
    if own:
        for e in range(size):
            shift[graph.column[keys[e] // n_labels, keys[e] % n_labels]] = 0.0
    clear_side(state.pad, 0, n_first)
    clear_side(state.pad, 1, n_second)
    _commit(graph, options, state, f, reach, n_labels)
    new_marginals(edges, state.ports, f, n_labels)


@inner_kernel
def change_pair(graph, search, state, f, a, b, c):
    """Add `c` to a pair of edge f in the weights; in the table turned, too, if that is searched."""
    add_pair(graph, state.pair if own_table(graph) else state.table, f, a, b, c)
    if search == SUBLINEAR:
        state.turned[b, a] += c
        changed(state.table, state.rows, a, b)
        changed(state.turned, state.columns, b, a)


@inner_kernel
def new_marginals(edges, ports, f, n_labels):
    """Bring the marginals at both ports of edge f up to date."""
    for side in range(2):
        port = 2 * f + side
        start = ports.start[port]
        for e in range(start, start + ports.size[port]):
            ports.share[e] = 0.0
        for e in range(edges.start[f], edges.start[f] + edges.size[f]):
            label = edges.key[e] // n_labels if side == 0 else edges.key[e] % n_labels
            share = edges.share[e]
            if share == 0.0:
                continue
            place = -1
            start = ports.start[port]
            for p in range(start, start + ports.size[port]):
                if ports.key[p] == label:
                    place = p
                    break
            if place < 0:
                append(ports, port, label, share, 0.0)
            else:
                ports.share[place] += share
        drop_empty(ports, port, 0)


@inner_kernel
def _room_for(graph, state, factor, n_nodes):
    """Return whether a visit is certain to fit into the arenas."""
    if factor < n_nodes:
        more = 1
        for p in range(graph.port_ptr[factor], graph.port_ptr[factor + 1]):
            more += state.ports.size[graph.ports[p]]
        return fits(state.nodes, factor, more)
    f = factor - n_nodes
    size = state.edges.size[f] + 1
    # Both ports may grow by every pair of the edge.
    return (
        size <= state.value.shape[0]
        and fits(state.edges, f, 1)
        and fits(state.ports, 2 * f, size)
        and fits(state.ports, 2 * f + 1, 8 * (state.ports.size[2 * f] + size + 2))
    )


@inner_kernel(inline=True)
def _visit_sample(graph, options, state, w, i, uniforms):
    """Visit the factors of a sample, from the cursor on; False when an arena is full."""
    cursor = state.cursor
    n_nodes = graph.labels.shape[0]
    first = graph.node_ptr[i]
    n_own = graph.node_ptr[i + 1] - first
    n_factors = n_own + graph.edge_ptr[i + 1] - graph.edge_ptr[i]
    while cursor[1] < n_factors:
        q = cursor[1]
        factor = first + q if q < n_own else n_nodes + graph.edge_ptr[i] + q - n_own
        if not _room_for(graph, state, factor, n_nodes):
            return False
        if q < n_own:
            _visit_node(graph, options, state, w, i, factor, uniforms[factor])
        else:
            _visit_edge(graph, options, state, i, factor - n_nodes, uniforms[factor])
        cursor[1] += 1
    cursor[0] += 1
    cursor[1] = 0
    return True


@kernel
def gdmm_pass(graph, options, state, w, order, uniforms):
    """Visit the factors of the samples in `order`, from the cursor on."""
    begin = cycles()
    done = True
    while done and state.cursor[0] < order.shape[0]:
        i = order[state.cursor[0]]
        done = _visit_sample(graph, options, state, w, i, uniforms)
    state.totals[ALL] += cycles() - begin
    return done


# GDMM between passes: multipliers, and a consistent dual point for certificates.


@kernel
def multiplier_step(graph, options, state):
    """``nu <- nu + eta u`` at the ports from the cursor on; measures the infeasibility."""
    nodes, ports, cursor = state.nodes, state.ports, state.cursor
    while cursor[0] < ports.size.shape[0]:
        port = cursor[0]
        j = graph.ends[port // 2, port % 2]
        if not fits(ports, port, nodes.size[j]):
            return False
        start = nodes.start[j]
        for e in range(start, start + nodes.size[j]):
            state.pad.message[0, nodes.key[e]] -= nodes.share[e]
        begin = ports.start[port]
        for p in range(begin, begin + ports.size[port]):
            k = ports.key[p]
            u = state.pad.message[0, k] + ports.share[p]
            state.pad.message[0, k] = 0.0
            ports.price[p] += options.eta * u
            state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
        for e in range(start, start + nodes.size[j]):
            k = nodes.key[e]
            u = state.pad.message[0, k]
            state.pad.message[0, k] = 0.0
            if u != 0.0:
                state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
                if options.eta != 0.0:
                    append(ports, port, k, 0.0, options.eta * u)
        drop_empty(ports, port, 0)
        cursor[0] += 1
    return True


@inner_kernel
def _cut_down(nodes, edges, f, j0, j1, pads, value, n_labels):
    """Shares of edge f, cut down until no marginal exceeds the node's, to `value`."""
    first, second, have_first, have_second = pads[0], pads[1], pads[2], pads[3]
    start, size = edges.start[f], edges.size[f]
    for e in range(start, start + size):
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        first[a] = second[b] = have_first[a] = have_second[b] = 0.0
    for e in range(nodes.start[j0], nodes.start[j0] + nodes.size[j0]):
        first[nodes.key[e]] = nodes.share[e]
    for e in range(nodes.start[j1], nodes.start[j1] + nodes.size[j1]):
        second[nodes.key[e]] = nodes.share[e]
    for e in range(start, start + size):
        have_first[edges.key[e] // n_labels] += edges.share[e]
    for e in range(size):
        a, b = edges.key[start + e] // n_labels, edges.key[start + e] % n_labels
        value[e] = edges.share[start + e]
        if have_first[a] > first[a]:
            value[e] *= first[a] / have_first[a]
        have_second[b] += value[e]
    for e in range(size):
        b = edges.key[start + e] % n_labels
        if have_second[b] > second[b]:
            value[e] *= second[b] / have_second[b]


@kernel
def consistent_table(graph, nodes, edges, reach, pads, value, table):
    """Edge weights of a consistent dual point: shares cut to the nodes', the rest filled up."""
    n_labels, ends, labels = graph.cost.shape[0], graph.ends, graph.labels
    first, second = pads[0], pads[1]
    for f in range(ends.shape[0]):
        j0, j1 = ends[f, 0], ends[f, 1]
        _cut_down(nodes, edges, f, j0, j1, pads, value, n_labels)
        total = 1.0
        for e in range(edges.size[f]):
            key = edges.key[edges.start[f] + e]
            first[key // n_labels] -= value[e]
            second[key % n_labels] -= value[e]
            total -= value[e]
            add_pair(graph, table, f, key // n_labels, key % n_labels, -reach[f] * value[e])
        add_pair(graph, table, f, labels[j0], labels[j1], reach[f])
        if not total > 1e-300:
            continue
        for e in range(nodes.start[j0], nodes.start[j0] + nodes.size[j0]):
            left = max(first[nodes.key[e]], 0.0) / total
            for d in range(nodes.start[j1], nodes.start[j1] + nodes.size[j1]):
                missing = left * max(second[nodes.key[d]], 0.0)
                add_pair(graph, table, f, nodes.key[e], nodes.key[d], -reach[f] * missing)


# A dual point for chains and trees some of whose pairs may not occur.
#
# Every node's own distribution may have mass that no labelling can carry on along the edges; the
# edges' conditional distributions cannot. So the point is the tree distribution
# ``p(y) ~ q_root(y_root) prod_f q_f(child | parent)`` over the labellings of positive probability:
# a convex combination of labellings that the constraints allow.


class TreeScratch(NamedTuple):
    """Scratch for the largest sample."""

    # (max_nodes,): Nodes, parents first; the edge from each node to its parent, -1 for a root.
    order: np.ndarray
    link: np.ndarray
    # (max_nodes, n_labels): Share of the mass at a label that the subtree can carry on, up to a
    # factor a node.
    survival: np.ndarray
    # (max_nodes, n_labels): Marginals of the nodes.
    shares: np.ndarray
    # (2, n_labels): Of one edge by the label of the parent: in all, and what survives.
    mass: np.ndarray


@inner_kernel
def _from_roots(graph, first, last, order, link):
    """Order of nodes `first` to `last`, parents before children, and the edges between them."""
    for j in range(last - first):
        link[j] = -2
    n = 0
    for root in range(first, last):
        if link[root - first] != -2:
            continue
        link[root - first] = -1
        order[n] = root
        head = n
        n += 1
        while head < n:
            j = order[head]
            head += 1
            for p in range(graph.port_ptr[j], graph.port_ptr[j + 1]):
                port = graph.ports[p]
                other = graph.ends[port // 2, 1 - port % 2]
                if link[other - first] == -2:
                    link[other - first] = port // 2
                    order[n] = other
                    n += 1


@inner_kernel(inline=True)
def _of_parent(key, side, n_labels):
    """The parent's label in a pair; `side` is 0 where the parent is the first end."""
    return key // n_labels if side == 0 else key % n_labels


@inner_kernel
def _mass_of(edges, f, side, survival, mass):
    """Mass of edge f by the label of the parent: in all, and what survives at the child."""
    n_labels = survival.shape[0]
    for k in range(n_labels):
        mass[0, k] = mass[1, k] = 0.0
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a = _of_parent(edges.key[e], side, n_labels)
        b = _of_parent(edges.key[e], 1 - side, n_labels)
        mass[0, a] += edges.share[e]
        mass[1, a] += edges.share[e] * survival[b]


@inner_kernel
def _survive(graph, state, first, n, scratch):
    """From the leaves: which labels can be carried on; False where none of a root's can."""
    order, link, survival, mass = scratch.order, scratch.link, scratch.survival, scratch.mass
    n_labels = survival.shape[1]
    for j in range(n):
        for k in range(n_labels):
            barred = graph.allowed.shape[0] > 0 and graph.allowed[first + j, k] == 0
            survival[j, k] = 0.0 if barred else 1.0
    for q in range(n - 1, -1, -1):
        c = order[q] - first
        largest = 0.0
        for k in range(n_labels):
            largest = max(largest, survival[c, k])
        if not largest > 0.0:
            return False
        for k in range(n_labels):
            survival[c, k] /= largest
        f = link[c]
        if f < 0:
            total = 0.0
            nodes = state.nodes
            for e in range(nodes.start[order[q]], nodes.start[order[q]] + nodes.size[order[q]]):
                total += nodes.share[e] * survival[c, nodes.key[e]]
            if not total > 0.0:
                return False
            continue
        side = 1 if graph.ends[f, 0] == order[q] else 0
        parent = graph.ends[f, side] - first
        _mass_of(state.edges, f, side, survival[c], mass)
        for k in range(n_labels):
            survival[parent, k] *= mass[1, k] / mass[0, k] if mass[0, k] > 0.0 else 0.0
    return True


@inner_kernel
def _root_shares(nodes, j, survival, shares):
    total = 0.0
    for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
        shares[nodes.key[e]] = nodes.share[e] * survival[nodes.key[e]]
        total += shares[nodes.key[e]]
    for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
        shares[nodes.key[e]] /= total


@inner_kernel
def _child_shares(graph, state, w, reach, f, side, survival, parent, child, mass):
    """Marginals of edge f, into the weights, and of its child, from those of its parent."""
    edges, n_labels = state.edges, survival.shape[0]
    _mass_of(edges, f, side, survival, mass)
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a = _of_parent(edges.key[e], side, n_labels)
        b = _of_parent(edges.key[e], 1 - side, n_labels)
        if parent[a] > 0.0 and survival[b] > 0.0:
            share = parent[a] * (edges.share[e] * survival[b] / mass[1, a])
            child[b] += share
            key = edges.key[e]
            add_pair(graph, w.pair, f, key // n_labels, key % n_labels, -reach * share)
    truth = graph.labels[graph.ends[f, 0]], graph.labels[graph.ends[f, 1]]
    add_pair(graph, w.pair, f, truth[0], truth[1], reach)


@kernel
def tree_points(graph, state, w, losses, start, stop, scratch):
    """The dual points of samples `start` to `stop`."""
    n_labels = graph.cost.shape[0]
    for i in range(start, stop):
        first, reach = graph.node_ptr[i], state.reach[i]
        n = graph.node_ptr[i + 1] - first
        losses[i] = 0.0
        _from_roots(graph, first, first + n, scratch.order, scratch.link)
        if not _survive(graph, state, first, n, scratch):
            continue  # all mass is on the true labelling, which adds nothing
        for q in range(n):
            j = scratch.order[q]
            f, y, shares = scratch.link[j - first], graph.labels[j], scratch.shares[j - first]
            survival = scratch.survival[j - first]
            for k in range(n_labels):
                shares[k] = 0.0
            if f < 0:
                _root_shares(state.nodes, j, survival, shares)
            else:
                side = 1 if graph.ends[f, 0] == j else 0
                parent = scratch.shares[graph.ends[f, side] - first]
                mass = scratch.mass
                _child_shares(graph, state, w, reach, f, side, survival, parent, shares, mass)
            for k in range(n_labels):
                change = shares[k] - (1.0 if k == y else 0.0)
                if change != 0.0:
                    losses[i] += graph.share[j] * graph.cost[y, k] * shares[k]
                    add_to_column(graph.nodes, j, w.node, k, -reach * change)


# A run.

#: Up to this many labels a search looks at all pairs, as a Viterbi pass does.
FEW_LABELS = 64
_NO_PAIR = np.empty((0, 0))


def _rows(features, width):
    """Feature rows without the constant feature, as NumPy or SciPy has them."""
    if isinstance(features, DenseFeatures):
        return features.values
    parts = features.data, features.indices, features.indptr
    return sparse.csr_matrix(parts, shape=(features.indptr.size - 1, width))


def gdmm_graph(factors) -> GDMMGraph:
    """The nodes and edges of all samples, with what the passes look up."""
    flat = factors.ends.ravel()
    counts = np.bincount(flat, minlength=factors.labels.size)
    share, lengths = factors.share, np.diff(factors.node_ptr)
    same = "nodes", "node_ptr", "edge_ptr", "ends", "labels", "allowed", "cost"
    own = factors.edges is not None
    return GDMMGraph(
        **{name: getattr(factors, name) for name in same},
        port_ptr=ends_of(counts),
        ports=np.argsort(flat, kind="stable"),
        every_port=np.arange(flat.size),
        share=np.repeat(share, lengths) if share.size == lengths.size else share,
        squares=_squares_of(factors.nodes),
        edges=factors.edges if own else factors.nodes,
        edge_squares=_squares_of(factors.edges) if own else np.empty(0),
        column=factors.column if own else np.empty((0, 0), dtype=np.int64),
        mask=factors.mask if own else np.empty((0, 0)),
    )


def _squares_of(features):
    """Squared norms of feature rows, the constant feature included."""
    width = 0
    if not isinstance(features, DenseFeatures):
        width = int(features.indices.max(initial=-1)) + 1
    return row_squares(_rows(features, width)) + float(features.intercept >= 0)


def _new_state(graph, reach, forbidden, search, curvature=0.0, pair=_NO_PAIR):
    n_labels = graph.cost.shape[0]
    labels = graph.labels.astype(np.int64)
    pairs = labels[graph.ends[:, 0]] * n_labels + labels[graph.ends[:, 1]]
    size = n_labels if len(graph.ends) else 1
    table = np.zeros((size, size)) if forbidden is None else forbidden.copy()
    indexed = table if search == SUBLINEAR else np.zeros((1, 1))
    turned = np.ascontiguousarray(indexed.T)
    # Algorithm 3 solves for all pairs of an edge.
    length = max(n_labels, size * size) if curvature > 0.0 else n_labels + 64
    return GDMMState(
        nodes=one_entry_each(labels, 1.0),
        edges=one_entry_each(pairs, 1.0),
        ports=one_entry_each(labels[graph.ends].ravel(), 1.0),
        reach=reach,
        table=table,
        turned=turned,
        pair=pair,
        columns_of=np.zeros((2, pair.shape[1] + 1)),
        rows=max_trees(indexed),
        columns=max_trees(turned),
        pad=Pad(
            message=np.zeros((2, n_labels)),
            mark=np.zeros((2, n_labels), dtype=np.uint8),
            touched=np.zeros((2, n_labels + 1), dtype=np.int64),
        ),
        scores=np.zeros((2, n_labels)),
        value=np.zeros(length),
        before=np.zeros(length),
        chosen=np.zeros(length if curvature > 0.0 else 0, dtype=np.int64),
        curvature=curvature,
        cursor=np.zeros(2, dtype=np.int64),
        totals=np.zeros(4),
    )


class FactorRun(Run):
    """A run on nodes and edges."""

    arenas = ("nodes", "edges", "ports")
    #: Visits all factors of the samples.
    kind = staticmethod(gdmm_pass)

    def __init__(self, factors, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.graph = graph = gdmm_graph(factors)
        #: Whether edges have features, and tables of their own.
        self.own = graph.edge_squares.size > 0
        if self.options.search == SUBLINEAR and graph.cost.shape[0] <= FEW_LABELS:
            # Looking at all pairs is then faster than asking trees.
            self.options = self.options._replace(search=EXACT)
        elif self.options.search == SUBLINEAR and self.own:
            # There is no order that all edges share: they are searched as nodes are.
            self.options = self.options._replace(search=SAMPLED)
        mask = factors.mask
        self.constrained = mask is not None and not np.isfinite(mask).all()
        #: Q_max, where steps need it.
        self.curvature = self._curvature()
        self.state = self._state(mask, np.zeros(self.shapes[1] if self.own else (0, 0)))
        #: Random numbers that a pass takes.
        self.n_draws = graph.labels.size + len(graph.ends)

    def _default_step(self, variant):
        step = super()._default_step(variant)
        has_cycles = getattr(self.problem.space, "inference", "exact") == "relaxed"
        return min(step, STEP_WITH_CYCLES) if has_cycles else step

    def _curvature(self):
        return 0.0

    def _state(self, table, pair):
        """The state of a run that begins."""
        search = self.options.search
        return _new_state(self.graph, self.reach, table, search, self.curvature, pair)

    def pair_table(self, state):
        """The edge weights as kernels add to them."""
        return state.pair if self.own else state.table

    @property
    def sets(self):
        """The dual point, without what follows from it and the weights."""
        return tuple(packed(getattr(self.state, name)) for name in self.arenas)

    def resume(self, w, sets=None):
        """Take other weights, and the dual point of another run."""
        table, pair = self.state.table, self.state.pair
        if self.own:
            pair = w.pair.copy()
        elif len(self.graph.ends):
            table = np.where(np.isfinite(table), w.pair.reshape(table.shape), table)
        self.w = self.w._replace(node=w.node)
        self.state = self._state(table, pair)
        if sets is not None:
            self.state = self.state._replace(**dict(zip(self.arenas, sets, strict=True)))

    def one_pass(self, order, uniforms, pieces):
        """Visit all factors, then move the multipliers."""
        self.visit(self.kind, order, uniforms, pieces)
        self.move_multipliers()

    def move_multipliers(self):
        """Step 2 of Algorithm 1."""
        self.state.totals[INFEASIBILITY] = 0.0
        self.over_arena(multiplier_step)

    def enlarged(self, headroom):
        """Arenas, and scratch for the largest active set."""
        longest = int(self.state.edges.size.max(initial=0))
        size = max(self.state.value.size, 2 * longest + 64)
        scratch = {"value": np.zeros(size), "before": np.zeros(size)}
        return super().enlarged(headroom) | scratch

    def pair_weights(self):
        """The transition table, or those of the features of edges."""
        if not len(self.graph.ends):
            return np.zeros(self.shapes[1])
        if self.own:
            return self.state.pair.copy()
        table = self.state.table.reshape(self.shapes[1]).copy()
        table[~np.isfinite(table)] = 0.0
        return table

    def dual_point(self):
        """A consistent dual point nearby, of the nodes; of the edges where pairs are forbidden."""
        losses, w = self.consistent_point()
        return losses, squared_norm(w)

    def consistent_point(self):
        """Return the consistent dual point with its weights."""
        if self.constrained:
            return self._tree_point()
        state, graph, table = self.state, self.graph, np.zeros(self.shapes[1])
        if len(graph.ends):
            reach, n = np.repeat(self.reach, np.diff(graph.edge_ptr)), len(state.table)
            scratch = np.zeros((4, n)), np.zeros(int(state.edges.size.max()))
            out = table if self.own else table.reshape(n, n)
            consistent_table(graph, state.nodes, state.edges, reach, *scratch, out)
        return self._node_losses(), Weights(self.w.node, table)

    def _tree_point(self):
        graph, n_labels = self.graph, len(self.state.table)
        longest = int(np.diff(graph.node_ptr).max())
        scratch = TreeScratch(
            order=np.empty(longest, dtype=np.int64),
            link=np.empty(longest, dtype=np.int64),
            survival=np.empty((longest, n_labels)),
            shares=np.empty((longest, n_labels)),
            mass=np.empty((2, n_labels)),
        )
        w = zero_weights((self.shapes[0], self.pair_table(self.state).shape))
        losses = np.zeros(self.n)
        for first, last in Pieces().ranges(0, self.n):
            tree_points(graph, self.state, w, losses, first, last, scratch)
        return losses, w

    def _node_losses(self):
        """Task loss of the distributions of the nodes of every sample."""
        nodes, graph = self.state.nodes, self.graph
        owner, place = places_of(nodes.start, nodes.size)
        cost = graph.cost[graph.labels[owner], nodes.key[place]] * nodes.share[place]
        sample = np.repeat(np.arange(self.n), np.diff(graph.node_ptr))[owner]
        return np.bincount(sample, graph.share[owner] * cost, minlength=self.n)

    def set_sizes(self):
        """Mean sizes of the active sets."""
        edges = self.state.edges.size
        return float(self.state.nodes.size.mean()), float(edges.mean()) if edges.size else 0.0

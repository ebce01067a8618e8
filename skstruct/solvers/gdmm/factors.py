"""GDMM on nodes and edges: chains, trees, graphs, single nodes.

Nodes j have distributions ``q_j`` of labels, edges f ``q_f`` of pairs, on *active sets*. ``W =
sum_j C_j (e_true - q_j) x_j'``, ``T = sum_f C_f (e_true - q_f)``, and with features ``V = sum_f C_f
A (e_true - q_f) x_f'``. Messages ``m = u + nu`` at each *port* (an end of an edge) make them agree:
``u`` is the marginal of ``q_f`` minus ``q_j``, ``nu`` the scaled multipliers.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.factors import PairwiseFactors
from ...core.features import DenseFeatures, add_to_column, column_dot, gather_columns
from ...core.intrinsics import cycles
from ...core.jit.kernels import inner_kernel, kernel
from ...core.offsets import ends_of, places_of
from ...core.parallel import Pieces
from ...core.weights import Weights, squared_norm, zero_weights
from ...data.matrices import row_squares
from ...inference.numerics import row_max
from ...inference.simplex import project
from .active_sets import (
    ALL,
    AWAY,
    BGCD,
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


#: The factors of all samples, with what the passes look up: (n_nodes + 1,) and (2 * n_edges,), the
#: ports of each node (port 2 f is the first end of edge f, port 2 f + 1 the second); squared norms
#: of the feature rows of nodes and, where edges have tables of their own, of edges.
GDMMGraph = namedtuple(
    "GDMMGraph", (*PairwiseFactors._fields, "port_ptr", "ports", "squares", "edge_squares")
)


class Pad(NamedTuple):
    """Scratch for the messages at both ends of an edge, or at a node."""

    # (2, n_labels): Zeros between visits.
    message: np.ndarray
    # (2, n_labels): Zeros between visits: where there are messages.
    mark: np.ndarray
    # (2, n_labels + 1): Where `mark` is set.
    touched: np.ndarray


class Block(NamedTuple):
    """Scratch for the entries of a factor that may move: its active set, then new ones."""

    # A label, or a pair of labels; the first and the second of a pair.
    key: np.ndarray
    first: np.ndarray
    second: np.ndarray
    # The gradient over C; after a step the new share.
    value: np.ndarray
    # The share before the visit, before the last step, and the gradient in Algorithm 3.
    before: np.ndarray
    now: np.ndarray
    slope: np.ndarray


def new_block(length):
    """Scratch for a factor of at most `length` entries."""
    return Block(*np.zeros((3, length), dtype=np.int64), *np.zeros((4, length)))


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
    # Scratch for one factor.
    block: Block
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


@inner_kernel(inline=True)
def begin_messages(nodes, pad, side, node, times):
    """Touch the labels of a node's active set, and subtract its shares; their number."""
    start, n = nodes.start[node], nodes.size[node]
    for e in range(n):
        touch(pad, side, e, nodes.key[start + e])
        pad.message[side, nodes.key[start + e]] -= times * nodes.share[start + e]
    return n


@inner_kernel(inline=True)
def add_messages(ports, pad, side, n, port):
    """Add the marginals and multipliers of a port; the number of labels touched."""
    start = ports.start[port]
    for e in range(start, start + ports.size[port]):
        n = touch(pad, side, n, ports.key[e])
        pad.message[side, ports.key[e]] += ports.share[e] + ports.price[e]
    return n


@inner_kernel(inline=True)
def edge_messages(graph, state, f):
    """Messages at both ends of an edge."""
    nodes, ports, pad = state.nodes, state.ports, state.pad
    n_first = begin_messages(nodes, pad, 0, graph.ends[f, 0], 1.0)
    n_second = begin_messages(nodes, pad, 1, graph.ends[f, 1], 1.0)
    n_first = add_messages(ports, pad, 0, n_first, 2 * f)
    return n_first, add_messages(ports, pad, 1, n_second, 2 * f + 1)


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
    """The best label without messages in one part, and the part; scores go to ``scores[0]``."""
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
    return label, lo, hi


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


@inner_kernel(inline=True)
def n_factors_of(graph, i):
    """Number of factors of a sample."""
    n_edges = graph.edge_ptr[i + 1] - graph.edge_ptr[i]
    return graph.node_ptr[i + 1] - graph.node_ptr[i] + n_edges


@inner_kernel(inline=True)
def factor_of(graph, i, q):
    """Factor q of a sample: its nodes, then its edges, which follow all nodes in number."""
    n_own = graph.node_ptr[i + 1] - graph.node_ptr[i]
    if q < n_own:
        return graph.node_ptr[i] + q
    return graph.labels.shape[0] + graph.edge_ptr[i] + q - n_own


@inner_kernel(inline=True)
def lists_of(graph, state, factor):
    """The active sets among which a factor has its own, and its place there."""
    f = factor - graph.labels.shape[0]
    return (state.nodes, factor) if f < 0 else (state.edges, f)


@inner_kernel(inline=True)
def place_of(keys, start, stop, key):
    """The place of a key between two others, or `stop`."""
    place = start
    while place < stop and keys[place] != key:
        place += 1
    return place


@inner_kernel(inline=True)
def node_gradients(graph, options, state, w, i, j, uniform):
    """Gradients of the labels of a node that may move; their number."""
    reach, truth, n_labels = state.reach[i], graph.labels[j], graph.cost.shape[0]
    nodes, pad, block = state.nodes, state.pad, state.block
    p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
    n = begin_messages(nodes, pad, 0, j, float(p1 - p0))
    for p in range(p0, p1):
        n = add_messages(state.ports, pad, 0, n, graph.ports[p])
    masked = graph.allowed.shape[0] > 0
    clock = cycles()
    label, lo, hi = search_label(graph, options, state, w, i, j, uniform)
    if options.variant == BGCD:
        for k in range(n_labels):
            n = touch(pad, 0, n, k)
    elif label >= 0:
        n = touch(pad, 0, n, label)
    state.totals[SEARCH] += cycles() - clock
    start, size, penalty = nodes.start[j], nodes.size[j], options.rho * reach
    for e in range(n):
        k = pad.touched[0, e]
        block.key[e] = k
        block.before[e] = nodes.share[start + e] if e < size else 0.0
        if lo <= k < hi:
            score = state.scores[0, k]
        else:
            score = column_dot(graph.nodes, j, w.node, k) + graph.share[j] * graph.cost[truth, k]
        block.value[e] = (score + penalty * pad.message[0, k]) / reach
        if masked and graph.allowed[j, k] == 0:
            block.value[e] = -1e300
    clear_side(pad, 0, n)
    return n


@inner_kernel(inline=True)
def _step(options, block, now, n, curvature):
    """Take a block step; the progress (18) where Algorithm 3 asks for it."""
    progress = 0.0
    if options.variant == BGCD:
        for e in range(n):
            block.slope[e] = block.value[e]
    block_step(block.value, now, n, curvature, options.variant)
    if options.variant == BGCD:
        for e in range(n):
            change = block.value[e] - now[e]
            progress += change * (block.slope[e] - 0.5 * curvature * change)
    return progress


@inner_kernel(inline=True)
def _solve_node(graph, options, state, w, i, j, uniform):
    """Take a block step on the distribution of node j, in its block."""
    n = node_gradients(graph, options, state, w, i, j, uniform)
    degree = graph.port_ptr[j + 1] - graph.port_ptr[j]
    curvature = max(graph.squares[j] + options.rho * degree, LEAST_CURVATURE)
    if options.variant == BGCD:
        curvature = state.curvature
    return n, _step(options, state.block, state.block.before, n, curvature)


@inner_kernel
def _crossing(scores, block, n):
    """Return a bound on the number of pairs in a block that share a label with one of them."""
    first, second = scores[0], scores[1]
    most = 0.0
    for e in range(n):
        first[block.first[e]] = second[block.second[e]] = 0.0
    for e in range(n):
        first[block.first[e]] += 1.0
        second[block.second[e]] += 1.0
    for e in range(n):
        most = max(most, first[block.first[e]] + second[block.second[e]])
    return most


@inner_kernel
def _sharing(column, shift, block, n):
    """Return the largest number of pairs in a block that have the same weight."""
    most = 0.0
    for e in range(n):
        c = column[block.first[e], block.second[e]]
        if c >= 0:
            shift[c] += 1.0
            most = max(most, shift[c])
    for e in range(n):
        shift[column[block.first[e], block.second[e]]] = 0.0
    return most


@inner_kernel
def _add_all_pairs(state, n, penalty, scale):
    """Add all pairs to the block of an edge that a step can give a share; their number."""
    block, table, gain = state.block, state.table, state.block.slope
    first, second, n_labels, mean = state.pad.message[0], state.pad.message[1], len(table), 0.0
    for a in range(n_labels):
        for b in range(n_labels):
            gain[a * n_labels + b] = (table[a, b] - penalty * (first[a] + second[b])) / scale
    top = row_max(gain, 0, n_labels * n_labels)
    for e in range(n):
        mean += gain[block.key[e]] / n
        gain[block.key[e]] = -math.inf
    # The threshold of the projection is at least that of any subset, such as the active set.
    least = max(top - 1.0, mean)
    for k in range(n_labels * n_labels):
        if gain[k] > least:
            block.key[n], block.first[n], block.second[n] = k, k // n_labels, k % n_labels
            n += 1
    return n


@inner_kernel
def load_edge(edges, f, block, n_labels):
    """Start a block with the active set of an edge."""
    start, size = edges.start[f], edges.size[f]
    for e in range(size):
        k = edges.key[start + e]
        block.key[e], block.first[e], block.second[e] = k, k // n_labels, k % n_labels
        block.before[e] = block.now[e] = block.value[e] = edges.share[start + e]
    return size


@inner_kernel(inline=True)
def begin_edge(graph, options, state, i, f, uniform):
    """Start the block of an edge, with new pairs: their number, the best, those of messages."""
    n_labels, penalty, block = graph.cost.shape[0], options.rho * state.reach[i], state.block
    n_first, n_second = edge_messages(graph, state, f)
    clock = cycles()
    if own_table(graph):
        lo, hi = part_of(options, n_labels, uniform) if options.search == SAMPLED else (0, n_labels)
        make_table(graph, state, f, lo, hi)
    size = load_edge(state.edges, f, block, n_labels)
    n, best = size, 0
    if options.variant == BGCD:
        n = _add_all_pairs(state, size, penalty, state.reach[i] * state.curvature)
    else:
        _, a, b = search_pair(options, state, n_first, n_second, penalty, uniform)
        if a >= 0 and state.table[a, b] > -math.inf:
            block.key[size] = a * n_labels + b
            best = place_of(block.key, 0, size, block.key[size])
            block.first[best], block.second[best] = a, b
            n = max(size, best + 1)
    for e in range(size, n):
        block.before[e] = block.now[e] = block.value[e] = 0.0
    state.totals[SEARCH] += cycles() - clock
    return n, best, n_first, n_second


@inner_kernel(inline=True)
def edge_gradients(graph, options, state, i, f, n):
    """Gradients of the pairs in the block of an edge, whose shares are `now`."""
    reach, own, block = state.reach[i], own_table(graph), state.block
    square, shift = graph.edge_squares[f] if own else 1.0, state.columns_of[1]
    first, second, penalty = state.pad.message[0], state.pad.message[1], options.rho * reach
    for e in range(n):
        a, b = block.first[e], block.second[e]
        change = block.now[e] - block.before[e]
        if own:
            c = graph.column[a, b]
            change = shift[c] if c >= 0 else 0.0
        score = state.table[a, b] - reach * square * change
        block.value[e] = (score - penalty * (first[a] + second[b])) / reach


@inner_kernel(inline=True)
def end_edge(graph, state, n, n_first, n_second):
    """Put the scratch for the messages at an edge, and for changes of weights, back to zeros."""
    block, pad = state.block, state.pad
    clear_side(pad, 0, n_first)
    clear_side(pad, 1, n_second)
    for e in range(n):
        a, b = block.first[e], block.second[e]
        pad.message[0, a] = 0.0  # new pairs may have touched labels without messages
        pad.message[1, b] = 0.0
        if own_table(graph):
            state.columns_of[1, graph.column[a, b]] = 0.0


@inner_kernel(inline=True)
def _solve_edge(graph, options, state, i, f, uniform):
    """Take block steps on the distribution of edge f, in its block."""
    own, block = own_table(graph), state.block
    first, second, shift = state.pad.message[0], state.pad.message[1], state.columns_of[1]
    n, _, n_first, n_second = begin_edge(graph, options, state, i, f, uniform)
    if options.variant == BGCD:
        inner, curvature = 1, state.curvature
    else:
        inner = INNER_AWAY if options.variant == AWAY else INNER
        curvature = graph.edge_squares[f] * _sharing(graph.column, shift, block, n) if own else 1.0
        curvature += options.rho * _crossing(state.scores, block, n)
        curvature = max(curvature, LEAST_CURVATURE)
    progress = 0.0
    for _ in range(inner if n > 1 else 0):
        edge_gradients(graph, options, state, i, f, n)
        progress = _step(options, block, block.now, n, curvature)
        moved = 0.0
        for e in range(n):
            a, b, change = block.first[e], block.second[e], block.value[e] - block.now[e]
            first[a] += change
            second[b] += change
            block.now[e] = block.value[e]
            moved += abs(change)
            if own:
                shift[graph.column[a, b]] += change
        if moved < 1e-12:
            break
    end_edge(graph, state, n, n_first, n_second)
    return n, progress


@inner_kernel(inline=True)
def _solve(graph, options, state, w, i, factor, uniform):
    """Take block steps on a factor, in its block: the number of entries, and the progress (18)."""
    n_nodes = graph.labels.shape[0]
    if factor < n_nodes:
        return _solve_node(graph, options, state, w, i, factor, uniform)
    return _solve_edge(graph, options, state, i, factor - n_nodes, uniform)


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
            stop = ports.start[port] + ports.size[port]
            place = place_of(ports.key, ports.start[port], stop, label)
            if place == stop:
                append(ports, port, label, share, 0.0)
            else:
                ports.share[place] += share
        drop_empty(ports, port, 0)


@inner_kernel(inline=True)
def commit(graph, options, state, w, i, factor, n):
    """Store the new shares in a block, and update the weights; False where an arena is full."""
    n_labels, reach, block = graph.cost.shape[0], state.reach[i], state.block
    is_edge = factor >= graph.labels.shape[0]
    sets, which = lists_of(graph, state, factor)
    start, size, n_new = sets.start[which], sets.size[which], 0
    for e in range(size, n):
        n_new += 1 if block.value[e] != 0.0 else 0
    if not fits(sets, which, n_new):
        return False
    if is_edge:
        # Both ports may grow by as many labels as the edge has pairs.
        ports, first, most = state.ports, 2 * which, min(size + n_new, n_labels)
        more = 8 * (ports.size[first] + most + 2)
        if not (fits(ports, first, most) and fits(ports, first + 1, more)):
            return False
    for e in range(size):
        sets.share[start + e] = block.value[e]
    for e in range(size, n):
        if block.value[e] != 0.0:
            append(sets, which, block.key[e], block.value[e], 0.0)
    drop_empty(sets, which, 1)
    for e in range(n):
        change, k = block.value[e] - block.before[e], block.key[e]
        if change == 0.0:
            continue
        state.totals[CHANGE] += change * change
        if is_edge:
            a, b = block.first[e], block.second[e]
            change_pair(graph, options.search, state, which, a, b, -reach * change)
        else:
            add_to_column(graph.nodes, which, w.node, k, -reach * change)
    if is_edge:
        new_marginals(sets, state.ports, which, n_labels)
    return True


@inner_kernel(inline=True)
def _visit_sample(graph, options, state, w, i, uniforms):
    """Visit the factors of a sample, from the cursor on; False when an arena is full."""
    # In Algorithm 3 that of largest progress joins A_i first, and only these are visited: the
    # `price` of their first entry is 1. The search comes first, then the visits.
    cursor, n_factors, q = state.cursor, n_factors_of(graph, i), state.cursor[1]
    greedy, searched, clock = options.variant == BGCD, state.totals[SEARCH], cycles()
    found, most = -1, 0.0
    while q < (2 * n_factors if greedy else n_factors):
        finds, factor = greedy and q < n_factors, factor_of(graph, i, q % n_factors)
        cursor[1] = 0 if finds else q  # where an arena is full, the whole search is repeated
        sets, which = lists_of(graph, state, factor)
        if finds or not greedy or sets.price[sets.start[which]] == 1.0:
            if sets.size[which] >= state.block.key.shape[0]:
                return False
            n, progress = _solve(graph, options, state, w, i, factor, uniforms[factor])
            if finds and progress > most:
                found, most = factor, progress
            if not (finds or commit(graph, options, state, w, i, factor, n)):
                return False
        q += 1
        if finds and q == n_factors:
            if found >= 0:
                sets, which = lists_of(graph, state, found)
                sets.price[sets.start[which]] = 1.0
            state.totals[SEARCH] = searched + cycles() - clock
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
    own = factors.edges is not None
    changed_fields = {
        "share": np.repeat(share, lengths) if share.size == lengths.size else share,
        "edges": factors.edges if own else factors.nodes,
        "column": factors.column if own else np.empty((0, 0), dtype=np.int64),
        "mask": factors.mask if own else np.empty((0, 0)),
    }
    return GDMMGraph(
        **factors._asdict() | changed_fields,
        port_ptr=ends_of(counts),
        ports=np.argsort(flat, kind="stable"),
        squares=_squares_of(factors.nodes),
        edge_squares=_squares_of(factors.edges) if own else np.empty(0),
    )


def _squares_of(features):
    """Squared norms of feature rows, the constant feature included."""
    width = 0
    if not isinstance(features, DenseFeatures):
        width = int(features.indices.max(initial=-1)) + 1
    return row_squares(_rows(features, width)) + float(features.intercept >= 0)


def largest_curvature(graph, rho):
    """Q_max: a bound on the Hessian of each block, at least 4 (max |phi|^2 + 1)."""
    squares, n_labels = graph.squares, graph.cost.shape[0]
    most = float((squares + rho * np.diff(graph.port_ptr)).max(initial=0.0))
    if len(graph.ends):
        sharing = np.unique(graph.column[graph.column >= 0], return_counts=True)[1]
        largest = graph.edge_squares.max(initial=0.0) * sharing.max(initial=0)
        most = max(most, (largest if graph.edge_squares.size else 1.0) + 2.0 * n_labels * rho)
    return max(most, 4.0 * (max(1.0, float(squares.max(initial=0.0))) + rho))


def _new_state(graph, reach, forbidden, search, curvature=0.0, pair=_NO_PAIR):
    n_labels = graph.cost.shape[0]
    labels = graph.labels.astype(np.int64)
    pairs = labels[graph.ends[:, 0]] * n_labels + labels[graph.ends[:, 1]]
    size = n_labels if len(graph.ends) else 1
    table = np.zeros((size, size)) if forbidden is None else forbidden.copy()
    indexed = table if search == SUBLINEAR else np.zeros((1, 1))
    turned = np.ascontiguousarray(indexed.T)
    # Algorithm 3 solves for all pairs of an edge.
    length = max(n_labels, size * size if curvature > 0.0 else 0) + 64
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
        block=new_block(length),
        curvature=curvature,
        cursor=np.zeros(2, dtype=np.int64),
        totals=np.zeros(4),
    )


class FactorRun(Run):
    """A run on nodes and edges."""

    arenas = ("nodes", "edges", "ports")

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
        self.curvature = 0.0
        if self.options.variant == BGCD:
            self.options = self.options._replace(search=EXACT, n_partitions=1)
            self.curvature = largest_curvature(graph, self.options.rho)
        self.state = self._state(mask, np.zeros(self.shapes[1] if self.own else (0, 0)))
        #: Random numbers that a pass takes.
        self.n_draws = graph.labels.size + len(graph.ends)

    def _default_step(self, variant):
        step = super()._default_step(variant)
        has_cycles = getattr(self.problem.space, "inference", "exact") == "relaxed"
        return min(step, STEP_WITH_CYCLES) if has_cycles else step

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
        self.visit(gdmm_pass, order, uniforms, pieces)
        self.move_multipliers()

    def move_multipliers(self):
        """Step 2 of Algorithm 1."""
        self.state.totals[INFEASIBILITY] = 0.0
        self.over_arena(multiplier_step)

    def enlarged(self, headroom):
        """Arenas, and scratch for the largest active set."""
        longest = int(self.state.edges.size.max(initial=0))
        size = max(self.state.block.key.size, 2 * longest + 64)
        return super().enlarged(headroom) | {"block": new_block(size)}

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

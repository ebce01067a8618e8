"""GDMM on graphs of nodes and edges with one table: a pass over the factors, the multipliers.

Every node j has its own distribution ``q_j`` over labels, every edge f its own ``q_f`` over pairs;
only entries that are not 0, and the truth, are kept (the *active sets*). The weights are
``W = sum_j C_j (e_true - q_j) x_j'`` and ``T = sum_f C_f (e_true - q_f)``. The two are made to
agree by messages ``m = u + nu``, where ``u`` is the marginal of ``q_f`` at an end of the edge minus
the ``q_j`` there, and ``nu`` the scaled multipliers. A *port* is one end of an edge.
"""

import math
from typing import NamedTuple

import numpy as np

from ..dispatch import inner_kernel, kernel
from ..features import add_to_column, column_dot, gather_columns
from ..inference.cycles import cycles
from ..inference.ordered import MaxTrees, changed, row_best, table_best
from ..inference.simplex import project
from .active_sets import ActiveSets, append, drop_empty, fits

BCFW, AFW, BGCD = 0, 1, 2
SUBLINEAR, EXACT, SAMPLED = 0, 1, 2
_INNER, _INNER_AWAY = 3, 12
_LEAST_CURVATURE = 1e-12
# Entries of ``GDMMState.totals``.
SEARCH, ALL, INFEASIBILITY, CHANGE = range(4)


class FactorGraph(NamedTuple):
    """Nodes and edges of all samples.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of the nodes.
    node_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes and the edges of each sample begin.
    ends : ndarray of shape (n_edges, 2) of int64
        The nodes at the two ends of each edge.
    port_ptr : ndarray of shape (n_nodes + 1,) of int64
        Where the ports of each node begin in `ports`.
    ports : ndarray of shape (2 * n_edges,) of int64
        Port 2 f is the first end of edge f, port 2 f + 1 the second.
    every_port : ndarray of shape (2 * n_edges,) of int64
        All of them in their own order.
    labels : ndarray of shape (n_nodes,) of int32
        True labels.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels that a node may have.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of (true label, label).
    share : ndarray of shape (n_samples,)
        Factor on the task loss of each sample.
    squares : ndarray of shape (n_nodes,)
        Squared norms of the feature rows.
    """

    nodes: tuple
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    ends: np.ndarray
    port_ptr: np.ndarray
    ports: np.ndarray
    every_port: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    share: np.ndarray
    squares: np.ndarray


class GDMMOptions(NamedTuple):
    """Choices of one run.

    Parameters
    ----------
    variant : int
        BCFW, AFW or BGCD.
    search : int
        SUBLINEAR, EXACT or SAMPLED.
    rho, eta : float
        Strength of the penalty, step of the multipliers.
    n_partitions : int
        Parts of the labels, one of which is searched at each visit.
    """

    variant: int
    search: int
    rho: float
    eta: float
    n_partitions: int


class GDMMState(NamedTuple):
    """The dual point, the messages, the search structures and scratch.

    Parameters
    ----------
    nodes, edges : ActiveSets
        Entries (label, q) and (label * n_labels + label, q); the truth comes first.
    ports : ActiveSets
        Entries (label, marginal of q_f, nu).
    reach : ndarray of shape (n_samples,)
        C_i, the factor on the loss of each sample.
    table, turned : ndarray of shape (n_labels, n_labels)
        T and its transpose, -inf where forbidden.
    rows, columns : MaxTrees
        Their trees.
    message : ndarray of shape (2, n_labels)
        Scratch, zeros between visits.
    mark : ndarray of shape (2, n_labels) of uint8
        Scratch, zeros between visits: where there are messages.
    touched : ndarray of shape (2, n_labels + 1) of int64
        Scratch: where `mark` is set.
    scores : ndarray of shape (2, n_labels)
        Scratch.
    value, before : ndarray
        Scratch for one active set.
    cursor : ndarray of shape (2,) of int64
        Position of the pass: sample, factor.
    totals : ndarray of shape (4,)
        Cycles spent in search, and in all; largest infeasibility; sum of squared changes.
    """

    nodes: ActiveSets
    edges: ActiveSets
    ports: ActiveSets
    reach: np.ndarray
    table: np.ndarray
    turned: np.ndarray
    rows: MaxTrees
    columns: MaxTrees
    message: np.ndarray
    mark: np.ndarray
    touched: np.ndarray
    scores: np.ndarray
    value: np.ndarray
    before: np.ndarray
    cursor: np.ndarray
    totals: np.ndarray


@inner_kernel
def _touch(state, side, n, label):
    """Mark a label on one side, if it is not yet; returns how many are."""
    if state.mark[side, label] == 0:
        state.mark[side, label] = 1
        state.touched[side, n] = label
        return n + 1
    return n


@inner_kernel
def _messages(state, side, node, port_list, first, stop, times):
    """Messages at a node from some ports; the labels of its active set are touched first."""
    nodes, ports = state.nodes, state.ports
    n = 0
    start = nodes.start[node]
    for e in range(start, start + nodes.size[node]):
        n = _touch(state, side, n, nodes.key[e])
        state.message[side, nodes.key[e]] -= times * nodes.share[e]
    for q in range(first, stop):
        port = port_list[q]
        start = ports.start[port]
        for e in range(start, start + ports.size[port]):
            n = _touch(state, side, n, ports.key[e])
            state.message[side, ports.key[e]] += ports.share[e] + ports.price[e]
    return n


@inner_kernel
def _edge_messages(graph, state, f):
    """Messages at both ends of an edge."""
    port, every = 2 * f, graph.every_port
    n_first = _messages(state, 0, graph.ends[f, 0], every, port, port + 1, 1.0)
    n_second = _messages(state, 1, graph.ends[f, 1], every, port + 1, port + 2, 1.0)
    return n_first, n_second


@inner_kernel
def _clear(state, side, n):
    for q in range(n):
        label = state.touched[side, q]
        state.mark[side, label] = 0
        state.message[side, label] = 0.0


@inner_kernel
def away_step(value, before, size, curvature):
    """An away or a Frank-Wolfe step with an exact line search, whichever promises more.

    Parameters
    ----------
    value : ndarray of shape (>= size,)
        Gradients, replaced by the new shares.
    before : ndarray of shape (>= size,)
        The old shares, a point of the simplex.
    size : int
        How many.
    curvature : float
        Curvature per unit of squared length of the direction.

    References
    ----------
    Guelat and Marcotte 1986, Some comments on Wolfe's away step; Yen et al. 2016, Algorithm 2.
    """
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
        step = min(slope / max(curvature * squares, _LEAST_CURVATURE), most)
        emptied = step == most and not toward
    sign = 1.0 if toward else -1.0
    for e in range(size):
        goal = 1.0 if e == pivot else 0.0
        value[e] = max(before[e] + sign * step * (goal - before[e]), 0.0)
    if emptied:
        value[pivot] = 0.0


@inner_kernel
def _step(state, size, curvature, variant):
    """New shares of one block from the gradients in `value` and the old shares in `before`.

    `curvature` bounds the Hessian over C.
    """
    value, before = state.value, state.before
    if variant == AFW:
        away_step(value, before, size, curvature)
        return
    for e in range(size):
        value[e] = before[e] + value[e] / curvature
    project(value, size)


@inner_kernel
def _block(options, n_labels, uniform):
    """The labels of the part to search."""
    width = -(-n_labels // options.n_partitions)
    start = min(int(uniform * options.n_partitions) * width, n_labels)
    return start, min(start + width, n_labels)


@inner_kernel
def _search_label(graph, options, state, w, i, j, uniform):
    """The best label without messages in one part; its scores go to ``scores[0]``."""
    n_labels = graph.cost.shape[0]
    truth = graph.labels[j]
    scores, mark = state.scores[0], state.mark[0]
    lo, hi = _block(options, n_labels, uniform)
    gather_columns(graph.nodes, j, w.node, lo, hi, scores)
    best, label = -math.inf, -1
    masked = graph.allowed.shape[0] > 0
    share = graph.share[i]
    for k in range(lo, hi):
        value = scores[k] + share * graph.cost[truth, k]
        scores[k] = value
        if value > best and mark[k] == 0 and not (masked and graph.allowed[j, k] == 0):
            best, label = value, k
    return best, label, lo, hi


@inner_kernel
def _visit_node(graph, options, state, w, i, j, uniform, admit):
    """A block step on the distribution of node j."""
    reach, truth = state.reach[i], graph.labels[j]
    nodes, value, before = state.nodes, state.value, state.before
    p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
    n = _messages(state, 0, j, graph.ports, p0, p1, float(p1 - p0))
    size = nodes.size[j]
    start = nodes.start[j]
    for e in range(n):
        before[e] = nodes.share[start + e] if e < size else 0.0
    clock = cycles()
    lo, hi = 0, 0
    if admit:
        _, label, lo, hi = _search_label(graph, options, state, w, i, j, uniform)
        if label >= 0:
            before[n] = 0.0
            n = _touch(state, 0, n, label)
    state.totals[SEARCH] += cycles() - clock
    penalty = options.rho * reach
    masked = graph.allowed.shape[0] > 0
    for e in range(n):
        k = state.touched[0, e]
        if lo <= k < hi:
            score = state.scores[0, k]
        else:
            score = column_dot(graph.nodes, j, w.node, k) + graph.share[i] * graph.cost[truth, k]
        value[e] = (score + penalty * state.message[0, k]) / reach
        if masked and graph.allowed[j, k] == 0:
            value[e] = -1e300
    curvature = max(graph.squares[j] + options.rho * (p1 - p0), _LEAST_CURVATURE)
    _step(state, n, curvature, options.variant)
    _write_back(nodes, j, state, n, size)
    for e in range(n):
        change = value[e] - before[e]
        if change != 0.0:
            add_to_column(graph.nodes, j, w.node, state.touched[0, e], -reach * change)
            state.totals[CHANGE] += change * change
    _clear(state, 0, n)


@inner_kernel
def _write_back(sets, which, state, n, size):
    """Store the new shares of one block; the keys beyond `size` are those touched on side 0."""
    start = sets.start[which]
    for e in range(size):
        sets.share[start + e] = state.value[e]
    for e in range(size, n):
        if state.value[e] != 0.0:
            append(sets, which, state.touched[0, e], state.value[e], 0.0)
    drop_empty(sets, which, 1)


@inner_kernel
def _search_pair(options, state, n_first, n_second, penalty, uniform):
    """The best pair of labels of an edge, and its gradient."""
    if options.search == SUBLINEAR:
        return _search_ordered(state, n_first, n_second, penalty)
    table, first, second = state.table, state.message[0], state.message[1]
    n_labels = table.shape[0]
    best = state.scores[1]
    lo, hi = 0, n_labels
    if options.search == SAMPLED:
        lo, hi = _block(options, n_labels, uniform)
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
    """The same by the trees: both labels without messages, one of them, none."""
    table, turned = state.table, state.turned
    top, a, b = table_best(table, state.rows, state.mark[0], state.mark[1], -math.inf)
    for q in range(n_first):
        j = state.touched[0, q]
        price = penalty * state.message[0, j]
        value, k = row_best(table, state.rows, j, state.mark[1], top + price)
        if k >= 0:
            top, a, b = value - price, j, k
        for r in range(n_second):
            k = state.touched[1, r]
            value = table[j, k] - price - penalty * state.message[1, k]
            if value > top:
                top, a, b = value, j, k
    for r in range(n_second):
        k = state.touched[1, r]
        price = penalty * state.message[1, k]
        value, j = row_best(turned, state.columns, k, state.mark[0], top + price)
        if j >= 0:
            top, a, b = value - price, j, k
    return top, a, b


@inner_kernel
def _crossing(state, keys, size, n_labels):
    """How many entries of an edge share a label with one of them, at most."""
    first, second = state.scores[0], state.scores[1]
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


@inner_kernel
def _visit_edge(graph, options, state, i, f, uniform, admit):
    """Block steps on the distribution of edge f."""
    reach, n_labels = state.reach[i], graph.cost.shape[0]
    edges, value, before = state.edges, state.value, state.before
    first, second = state.message[0], state.message[1]
    n_first, n_second = _edge_messages(graph, state, f)
    penalty = options.rho * reach
    clock = cycles()
    if admit:
        _, a, b = _search_pair(options, state, n_first, n_second, penalty, uniform)
        if a >= 0 and state.table[a, b] > -math.inf:
            known = False
            for e in range(edges.start[f], edges.start[f] + edges.size[f]):
                known |= edges.key[e] == a * n_labels + b
            if not known:
                append(edges, f, a * n_labels + b, 0.0, 0.0)
    state.totals[SEARCH] += cycles() - clock
    start, size = edges.start[f], edges.size[f]
    keys, shares = edges.key[start : start + size], edges.share[start : start + size]
    curvature = 1.0 + options.rho * _crossing(state, keys, size, n_labels)
    for e in range(size):
        # `price` of an edge's entry keeps what its share was before the visit.
        edges.price[start + e] = shares[e]
    inner = _INNER_AWAY if options.variant == AFW else _INNER
    for _ in range(inner if size > 1 else 0):
        for e in range(size):
            a, b = keys[e] // n_labels, keys[e] % n_labels
            own = state.table[a, b] - reach * (shares[e] - edges.price[start + e])
            value[e] = (own - penalty * (first[a] + second[b])) / reach
            before[e] = shares[e]
        _step(state, size, curvature, options.variant)
        moved = 0.0
        for e in range(size):
            change = value[e] - shares[e]
            first[keys[e] // n_labels] += change
            second[keys[e] % n_labels] += change
            shares[e] = value[e]
            moved += abs(change)
        if moved < 1e-12:
            break
    _clear(state, 0, n_first)
    _clear(state, 1, n_second)
    for e in range(size):
        change = shares[e] - edges.price[start + e]
        edges.price[start + e] = 0.0
        a, b = keys[e] // n_labels, keys[e] % n_labels
        first[a] = 0.0  # an admitted pair may have touched labels without messages
        second[b] = 0.0
        if change != 0.0:
            _change_pair(options, state, a, b, -reach * change)
            state.totals[CHANGE] += change * change
    drop_empty(edges, f, 1)
    _new_marginals(state, f, n_labels)


@inner_kernel
def _change_pair(options, state, a, b, c):
    state.table[a, b] += c
    if options.search == SUBLINEAR:
        state.turned[b, a] += c
        changed(state.table, state.rows, a, b)
        changed(state.turned, state.columns, b, a)


@inner_kernel
def _new_marginals(state, f, n_labels):
    """Bring the marginals at both ports of edge f up to date."""
    edges, ports = state.edges, state.ports
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
def _most_violating(graph, options, state, w, i, uniform):
    """The node and the edge of a sample whose best new entries promise most."""
    node, edge, node_gain, edge_gain = -1, -1, 0.0, 0.0
    reach = state.reach[i]
    penalty = options.rho * reach
    for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
        p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
        n = _messages(state, 0, j, graph.ports, p0, p1, float(p1 - p0))
        best, label, _, _ = _search_label(graph, options, state, w, i, j, uniform)
        level = 0.0
        start = state.nodes.start[j]
        for e in range(start, start + state.nodes.size[j]):
            k = state.nodes.key[e]
            score = column_dot(graph.nodes, j, w.node, k)
            score += graph.share[i] * graph.cost[graph.labels[j], k]
            level += state.nodes.share[e] * (score + penalty * state.message[0, k])
        if label >= 0 and best - level > node_gain:
            node, node_gain = j, best - level
        _clear(state, 0, n)
    n_labels = graph.cost.shape[0]
    for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
        n_first, n_second = _edge_messages(graph, state, f)
        best, a, b = _search_pair(options, state, n_first, n_second, penalty, uniform)
        level = 0.0
        start = state.edges.start[f]
        for e in range(start, start + state.edges.size[f]):
            a, b = state.edges.key[e] // n_labels, state.edges.key[e] % n_labels
            own = state.table[a, b] - penalty * (state.message[0, a] + state.message[1, b])
            level += state.edges.share[e] * own
        if best - level > edge_gain:
            edge, edge_gain = f, best - level
        _clear(state, 0, n_first)
        _clear(state, 1, n_second)
    return node, edge


@inner_kernel
def _room_for(graph, state, factor, n_nodes):
    """Whether a visit cannot outgrow the arenas."""
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


@kernel
def gdmm_pass(graph, options, state, w, order, uniforms):
    """Visit the factors of the samples in `order`, from the cursor on.

    Parameters
    ----------
    graph : FactorGraph
        The samples.
    options : GDMMOptions
        The choices.
    state : GDMMState
        The dual point.
    w : Weights
        Of the nodes; those of edges are in the state.
    order : ndarray of int64
        The samples.
    uniforms : ndarray of shape (n_nodes + n_edges,)
        Uniform random numbers.

    Returns
    -------
    bool
        Whether the pass is over; if not, an arena is full.
    """
    begin = cycles()
    cursor = state.cursor
    n_nodes = graph.labels.shape[0]
    while cursor[0] < order.shape[0]:
        i = order[cursor[0]]
        first, stop = graph.node_ptr[i], graph.node_ptr[i + 1]
        n_own = stop - first
        n_factors = n_own + graph.edge_ptr[i + 1] - graph.edge_ptr[i]
        node, edge = -1, -1
        greedy = options.variant == BGCD
        if greedy:
            clock = cycles()
            node, edge = _most_violating(graph, options, state, w, i, uniforms[first])
            state.totals[SEARCH] += cycles() - clock
        while cursor[1] < n_factors:
            q = cursor[1]
            factor = first + q if q < n_own else n_nodes + graph.edge_ptr[i] + q - n_own
            if not _room_for(graph, state, factor, n_nodes):
                state.totals[ALL] += cycles() - begin
                return False
            if q < n_own:
                # What was searched must be searched again: with the same part.
                draw = uniforms[first] if greedy else uniforms[factor]
                admit = not greedy or factor == node
                _visit_node(graph, options, state, w, i, factor, draw, admit)
            else:
                f = factor - n_nodes
                draw = uniforms[first] if greedy else uniforms[factor]
                _visit_edge(graph, options, state, i, f, draw, not greedy or f == edge)
            cursor[1] += 1
        cursor[0] += 1
        cursor[1] = 0
    state.totals[ALL] += cycles() - begin
    return True


@kernel
def multiplier_step(graph, options, state):
    """``nu <- nu + eta u`` at the ports from the cursor on; measures the infeasibility.

    Parameters
    ----------
    graph : FactorGraph
        The samples.
    options : GDMMOptions
        The choices; with ``eta = 0`` the infeasibility is only measured.
    state : GDMMState
        The dual point.

    Returns
    -------
    bool
        Whether all ports are done; if not, an arena is full.
    """
    nodes, ports, cursor = state.nodes, state.ports, state.cursor
    while cursor[0] < ports.size.shape[0]:
        port = cursor[0]
        j = graph.ends[port // 2, port % 2]
        if not fits(ports, port, nodes.size[j]):
            return False
        start = nodes.start[j]
        for e in range(start, start + nodes.size[j]):
            state.message[0, nodes.key[e]] -= nodes.share[e]
        begin = ports.start[port]
        for p in range(begin, begin + ports.size[port]):
            k = ports.key[p]
            u = state.message[0, k] + ports.share[p]
            state.message[0, k] = 0.0
            ports.price[p] += options.eta * u
            state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
        for e in range(start, start + nodes.size[j]):
            k = nodes.key[e]
            u = state.message[0, k]
            state.message[0, k] = 0.0
            if u != 0.0:
                state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
                if options.eta != 0.0:
                    append(ports, port, k, 0.0, options.eta * u)
        drop_empty(ports, port, 0)
        cursor[0] += 1
    return True


@kernel
def consistent_table(graph, state, table):
    """The edge weights of a consistent dual point near the present one.

    The shares of an edge are cut down until no marginal exceeds the node's, and what is missing is
    filled up with the product of the missing marginals.

    Parameters
    ----------
    graph : FactorGraph
        The samples.
    state : GDMMState
        The dual point.
    table : ndarray of shape (n_labels, n_labels)
        Zeros; receives T.
    """
    nodes, edges = state.nodes, state.edges
    n_labels = table.shape[0]
    first, second = state.message[0], state.message[1]
    have_first, have_second = state.scores[0], state.scores[1]
    for i in range(graph.node_ptr.shape[0] - 1):
        reach = state.reach[i]
        for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
            j0, j1 = graph.ends[f, 0], graph.ends[f, 1]
            s0, s1 = nodes.start[j0], nodes.start[j1]
            n0, n1 = nodes.size[j0], nodes.size[j1]
            start, size = edges.start[f], edges.size[f]
            for e in range(start, start + size):
                have_first[edges.key[e] // n_labels] = 0.0
                have_second[edges.key[e] % n_labels] = 0.0
            for e in range(s0, s0 + n0):
                first[nodes.key[e]] = nodes.share[e]
            for e in range(s1, s1 + n1):
                second[nodes.key[e]] = nodes.share[e]
            for e in range(start, start + size):
                have_first[edges.key[e] // n_labels] += edges.share[e]
            for e in range(size):
                a, b = edges.key[start + e] // n_labels, edges.key[start + e] % n_labels
                share = edges.share[start + e]
                if have_first[a] > first[a]:
                    share *= first[a] / have_first[a]
                state.value[e] = share
                have_second[b] += share
            total = 1.0
            for e in range(size):
                b = edges.key[start + e] % n_labels
                if have_second[b] > second[b]:
                    state.value[e] *= second[b] / have_second[b]
            for e in range(size):
                a, b = edges.key[start + e] // n_labels, edges.key[start + e] % n_labels
                share = state.value[e]
                first[a] -= share
                second[b] -= share
                total -= share
                table[a, b] -= reach * share
            table[graph.labels[j0], graph.labels[j1]] += reach
            if total > 1e-300:
                for e in range(s0, s0 + n0):
                    left = max(first[nodes.key[e]], 0.0) / total
                    for d in range(s1, s1 + n1):
                        share = left * max(second[nodes.key[d]], 0.0)
                        table[nodes.key[e], nodes.key[d]] -= reach * share
            for e in range(s0, s0 + n0):
                first[nodes.key[e]] = 0.0
            for e in range(s1, s1 + n1):
                second[nodes.key[e]] = 0.0
            for e in range(start, start + size):
                first[edges.key[e] // n_labels] = 0.0
                second[edges.key[e] % n_labels] = 0.0


@kernel
def dual_losses(graph, state, out):
    """Task loss of the dual point of every sample.

    Parameters
    ----------
    graph : FactorGraph
        The samples.
    state : GDMMState
        The dual point.
    out : ndarray of shape (n_samples,)
        Receives ``sum_j <l_j, q_j>``.
    """
    nodes = state.nodes
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
            for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
                total += nodes.share[e] * graph.cost[graph.labels[j], nodes.key[e]]
        out[i] = graph.share[i] * total

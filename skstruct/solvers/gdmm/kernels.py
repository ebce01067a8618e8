"""GDMM on graphs of nodes and edges with one table: a pass over the factors, the multipliers.

Every node j has its own distribution ``q_j`` over labels, every edge f its own ``q_f`` over pairs;
only entries that are not 0, and the truth, are kept (the *active sets*). The weights are
``W = sum_j C_j (e_true - q_j) x_j'`` and ``T = sum_f C_f (e_true - q_f)``. The two are made to
agree by messages ``m = u + nu``, where ``u`` is the marginal of ``q_f`` at an end of the edge minus
the ``q_j`` there, and ``nu`` the scaled multipliers. A *port* is one end of an edge.
"""

import math

from ...core.dispatch import inner_kernel, kernel
from ...core.features import add_to_column, column_dot
from ...inference.cycles import cycles
from ...inference.ordered import changed
from ...inference.simplex import project
from .active_sets import append, drop_empty, fits
from .search import clear_side, edge_messages, messages, search_label, search_pair, touch
from .state import AFW, ALL, BGCD, CHANGE, SEARCH, SUBLINEAR

_INNER, _INNER_AWAY = 3, 12
_LEAST_CURVATURE = 1e-12


@inner_kernel
def away_step(value, before, size, curvature):
    """An away or a Frank-Wolfe step with an exact line search, whichever promises more.

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
def _step(value, before, size, curvature, variant):
    """New shares of one block from the gradients in `value` and the old shares in `before`.

    `curvature` bounds the Hessian over C.
    """
    if variant == AFW:
        away_step(value, before, size, curvature)
        return
    for e in range(size):
        value[e] = before[e] + value[e] / curvature
    project(value, size)


@inner_kernel
def _visit_node(graph, options, state, w, i, j, uniform, admit):
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
    lo, hi = 0, 0
    if admit:
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
    curvature = max(graph.squares[j] + options.rho * (p1 - p0), _LEAST_CURVATURE)
    _step(value, before, n, curvature, options.variant)
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
    """How many entries of an edge share a label with one of them, at most."""
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
def _commit(options, state, f, reach, n_labels):
    """Bring the table up to date with the new shares of edge f."""
    edges, pad = state.edges, state.pad
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        change = edges.share[e] - edges.price[e]
        edges.price[e] = 0.0
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        pad.message[0, a] = 0.0  # an admitted pair may have touched labels without messages
        pad.message[1, b] = 0.0
        if change != 0.0:
            _change_pair(
                options.search,
                state.table,
                state.turned,
                state.rows,
                state.columns,
                a,
                b,
                -reach * change,
            )
            state.totals[CHANGE] += change * change
    drop_empty(edges, f, 1)


@inner_kernel
def _visit_edge(graph, options, state, i, f, uniform, admit):
    """Block steps on the distribution of edge f."""
    reach, n_labels = state.reach[i], graph.cost.shape[0]
    edges, value, before = state.edges, state.value, state.before
    first, second = state.pad.message[0], state.pad.message[1]
    n_first, n_second = edge_messages(graph, state, f)
    penalty = options.rho * reach
    clock = cycles()
    if admit:
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
    curvature = 1.0 + options.rho * _crossing(state.scores, keys, size, n_labels)
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
        _step(value, before, size, curvature, options.variant)
        moved = 0.0
        for e in range(size):
            change = value[e] - shares[e]
            first[keys[e] // n_labels] += change
            second[keys[e] % n_labels] += change
            shares[e] = value[e]
            moved += abs(change)
        if moved < 1e-12:
            break
    clear_side(state.pad, 0, n_first)
    clear_side(state.pad, 1, n_second)
    _commit(options, state, f, reach, n_labels)
    _new_marginals(edges, state.ports, f, n_labels)


@inner_kernel
def _change_pair(search, table, turned, rows, columns, a, b, c):
    table[a, b] += c
    if search == SUBLINEAR:
        turned[b, a] += c
        changed(table, rows, a, b)
        changed(turned, columns, b, a)


@inner_kernel
def _new_marginals(edges, ports, f, n_labels):
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
def _most_violating(graph, options, state, w, i, uniform):
    """The node and the edge of a sample whose best new entries promise most."""
    node, edge, node_gain, edge_gain = -1, -1, 0.0, 0.0
    reach = state.reach[i]
    penalty = options.rho * reach
    for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
        p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
        n = messages(state.nodes, state.ports, state.pad, 0, j, graph.ports, p0, p1, float(p1 - p0))
        best, label, _, _ = search_label(graph, options, state, w, i, j, uniform)
        level = 0.0
        start = state.nodes.start[j]
        for e in range(start, start + state.nodes.size[j]):
            k = state.nodes.key[e]
            score = column_dot(graph.nodes, j, w.node, k)
            score += graph.share[j] * graph.cost[graph.labels[j], k]
            level += state.nodes.share[e] * (score + penalty * state.pad.message[0, k])
        if label >= 0 and best - level > node_gain:
            node, node_gain = j, best - level
        clear_side(state.pad, 0, n)
    n_labels = graph.cost.shape[0]
    for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
        n_first, n_second = edge_messages(graph, state, f)
        best, a, b = search_pair(options, state, n_first, n_second, penalty, uniform)
        level = 0.0
        start = state.edges.start[f]
        for e in range(start, start + state.edges.size[f]):
            a, b = state.edges.key[e] // n_labels, state.edges.key[e] % n_labels
            own = state.table[a, b] - penalty * (state.pad.message[0, a] + state.pad.message[1, b])
            level += state.edges.share[e] * own
        if best - level > edge_gain:
            edge, edge_gain = f, best - level
        clear_side(state.pad, 0, n_first)
        clear_side(state.pad, 1, n_second)
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


@inner_kernel(inline=True)
def _visit_sample(graph, options, state, w, i, uniforms, node, edge):
    """Visit the factors of a sample, from the cursor on; False when an arena is full.

    With greedy steps only `node` and `edge` get new entries.
    """
    cursor = state.cursor
    n_nodes = graph.labels.shape[0]
    first = graph.node_ptr[i]
    n_own = graph.node_ptr[i + 1] - first
    n_factors = n_own + graph.edge_ptr[i + 1] - graph.edge_ptr[i]
    greedy = options.variant == BGCD
    while cursor[1] < n_factors:
        q = cursor[1]
        factor = first + q if q < n_own else n_nodes + graph.edge_ptr[i] + q - n_own
        if not _room_for(graph, state, factor, n_nodes):
            return False
        # A greedy step searches the part in which its factor was found.
        draw = uniforms[first] if greedy else uniforms[factor]
        if q < n_own:
            _visit_node(graph, options, state, w, i, factor, draw, not greedy or factor == node)
        else:
            f = factor - n_nodes
            _visit_edge(graph, options, state, i, f, draw, not greedy or f == edge)
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
        done = _visit_sample(graph, options, state, w, i, uniforms, -1, -1)
    state.totals[ALL] += cycles() - begin
    return done


@kernel
def greedy_pass(graph, options, state, w, order, uniforms):
    """The same for BGCD: in each sample the most violating node and edge get new entries."""
    begin = cycles()
    done = True
    while done and state.cursor[0] < order.shape[0]:
        i = order[state.cursor[0]]
        clock = cycles()
        draw = uniforms[graph.node_ptr[i]]
        node, edge = _most_violating(graph, options, state, w, i, draw)
        state.totals[SEARCH] += cycles() - clock
        done = _visit_sample(graph, options, state, w, i, uniforms, node, edge)
    state.totals[ALL] += cycles() - begin
    return done

"""GDMM on graphs of nodes and edges with one table: a pass over the factors, the multipliers.

Every node j has its own distribution ``q_j`` over labels, every edge f its own ``q_f`` over pairs;
only entries that are not 0, and the truth, are kept (the *active sets*). The weights are
``W = sum_j C_j (e_true - q_j) x_j'`` and ``T = sum_f C_f (e_true - q_f)``. The two are made to
agree by messages ``m = u + nu``, where ``u`` is the marginal of ``q_f`` at an end of the edge minus
the ``q_j`` there, and ``nu`` the scaled multipliers. A *port* is one end of an edge.
"""

import math

from ...core.features import add_to_column, column_dot, gather_columns
from ...core.jit.dispatch import inner_kernel, kernel
from ...inference.numerics import cycles
from ...inference.simplex import project
from .active_sets import (
    AFW,
    ALL,
    BGCD,
    CHANGE,
    SAMPLED,
    SEARCH,
    SUBLINEAR,
    append,
    changed,
    drop_empty,
    fits,
    row_best,
    table_best,
)

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
def _block(options, n_labels, uniform):
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
    lo, hi = _block(options, n_labels, uniform)
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
    inner = INNER_AWAY if options.variant == AFW else INNER
    for _ in range(inner if size > 1 else 0):
        for e in range(size):
            a, b = keys[e] // n_labels, keys[e] % n_labels
            own = state.table[a, b] - reach * (shares[e] - edges.price[start + e])
            value[e] = (own - penalty * (first[a] + second[b])) / reach
            before[e] = shares[e]
        block_step(value, before, size, curvature, options.variant)
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
    """A BGCD pass: in each sample the most violating node and edge get new entries."""
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

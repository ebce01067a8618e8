"""GDMM's messages at a node or an edge, and the search for new entries of active sets."""

import math

from ...core.dispatch import inner_kernel
from ...core.features import gather_columns
from ...inference.ordered import row_best, table_best
from .state import SAMPLED, SUBLINEAR


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
    """The same by the trees: both labels without messages, one of them, none."""
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

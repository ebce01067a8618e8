"""GDMM between passes: multipliers, and a consistent dual point for certificates."""

from ...core.dispatch import inner_kernel, kernel
from .active_sets import append, drop_empty, fits
from .state import INFEASIBILITY


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
def consistent_table(nodes, edges, ends, labels, reach, pads, value, table):
    """The edge weights of a consistent dual point near the present one.

    The shares of an edge are cut down until no marginal exceeds the node's, and what is missing is
    filled up with the product of the missing marginals.
    """
    n_labels = table.shape[0]
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
            table[key // n_labels, key % n_labels] -= reach[f] * value[e]
        table[labels[j0], labels[j1]] += reach[f]
        if not total > 1e-300:
            continue
        for e in range(nodes.start[j0], nodes.start[j0] + nodes.size[j0]):
            left = max(first[nodes.key[e]], 0.0) / total
            for d in range(nodes.start[j1], nodes.start[j1] + nodes.size[j1]):
                missing = left * max(second[nodes.key[d]], 0.0)
                table[nodes.key[e], nodes.key[d]] -= reach[f] * missing

"""GDMM between passes: multipliers, and a consistent dual point for certificates."""

from ..dispatch import kernel
from .active_sets import append, drop_empty, fits
from .gdmm_state import INFEASIBILITY


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

"""Maximum flow by search trees that stay from one augmentation to the next, and to the next call.

Terminal arcs are folded into the nodes: a node's *excess* is the capacity of its arc from the
source, or minus that of its arc to the sink. What remains of it after the flow is all that one
needs: the largest ``excess(S) - cut(S)`` of any set S of nodes is the sum of the surplus left over.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from .search_trees import (
    AMOUNTS,
    COUNTS,
    DISTANCE,
    FLOW,
    GROWING,
    LEAST,
    NO_PARENT,
    PARENT,
    SINK,
    SOURCE,
    STAMP,
    TERMINAL,
    TREE,
    WHICH,
    WIDTH,
    search,
    set_active,
)

# Of the largest flow an arc can have: less is what rounding has left of a full arc.
_ROUNDING = 2.0**-48


class Network(NamedTuple):
    """A graph with capacities; the arrays may be longer than it needs."""

    # (n_nodes + 1,): Where the arcs of each node begin.
    first: np.ndarray
    # (n_arcs,): The node each arc goes to, and the arc back.
    head: np.ndarray
    sister: np.ndarray
    # (n_arcs,): Capacities; may be infinite.
    cap: np.ndarray
    # (n_nodes,): Positive: capacity of the arc from the source; negative: minus that of the arc to
    # the sink. Infinite: the node is on this terminal's side.
    excess: np.ndarray


class Forest(NamedTuple):
    """Search trees of :func:`max_flow` (:mod:`.search_trees`), valid from one call to the next."""

    # (4 * n_nodes,): Arc to the parent, time stamp, distance, and tree of each node.
    node: np.ndarray
    # (n_nodes,): Queues, as rings.
    active: np.ndarray
    orphan: np.ndarray
    # The time, the ends of the queues, the node that grows.
    count: np.ndarray
    # The least capacity that counts, and the flow so far.
    amount: np.ndarray


def empty_network(n_nodes, n_arcs):
    """Room for a network."""
    if max(n_nodes, n_arcs) > np.iinfo(np.int32).max:
        raise ValueError(f"{n_nodes} nodes and {n_arcs} arcs are more than int32 can number")
    first, ends = np.empty(n_nodes + 1, dtype=np.int32), np.empty((2, n_arcs), dtype=np.int32)
    return Network(first, *ends, np.empty(n_arcs), np.empty(n_nodes))


def empty_forest(n_nodes):
    """Room for the search trees of networks of at most `n_nodes` nodes."""
    node, queues = np.empty(WIDTH * n_nodes, np.int32), np.empty((2, n_nodes), np.int32)
    return Forest(node, *queues, np.zeros(COUNTS, np.int64), np.zeros(AMOUNTS))


@inner_kernel
def link_edges(n, n_edges, tail, head, there, back, network):
    """As :func:`link`, where the arrays of edges may be longer."""
    first, ends, sister, cap = network.first, network.head, network.sister, network.cap
    for v in range(n + 1):
        first[v] = 0
    for e in range(n_edges):
        first[tail[e]] += 1
        first[head[e]] += 1
    total = 0
    for v in range(n + 1):
        degree = first[v]
        first[v] = total
        total += degree
    for e in range(n_edges):
        u, v = tail[e], head[e]
        p, q = first[u], first[v]
        first[u] = p + 1
        first[v] = q + 1
        ends[p], ends[q] = v, u
        sister[p], sister[q] = q, p
        cap[p], cap[q] = there[e], back[e]
    # Each node's place is now where the next one's arcs begin.
    for v in range(n, 0, -1):
        first[v] = first[v - 1]
    first[0] = 0


@kernel
def link(n, tail, head, there, back, network):
    """Write the arcs of a network, a pair for each edge, in the order of the edges."""
    link_edges(n, tail.shape[0], tail, head, there, back, network)


@inner_kernel
def _least(n, network):
    """Capacities up to this are rounding: no arc carries more than all nodes can send."""
    first, cap, excess = network.first, network.cap, network.excess
    largest = surplus = deficit = 0.0
    for v in range(n):
        out = 0.0
        for a in range(first[v], first[v + 1]):
            out += cap[a]
            if cap[a] < math.inf:
                largest = max(largest, cap[a])
        if abs(excess[v]) < math.inf:
            largest = max(largest, abs(excess[v]))
        if excess[v] > 0.0:
            surplus += min(excess[v], out)
        else:
            deficit -= excess[v]
    return _ROUNDING * min(largest, surplus, deficit)


@inner_kernel
def _saturate(n, network):
    """Send what can go from a surplus to a deficit by one arc, which needs no trees; its value."""
    first, head, sister = network.first, network.head, network.sister
    cap, excess = network.cap, network.excess
    sent = 0.0
    for v in range(n):
        if not excess[v] > 0.0:
            continue
        for a in range(first[v], first[v + 1]):
            u = head[a]
            if excess[u] < 0.0 and cap[a] > 0.0:
                flow = min(cap[a], excess[v], -excess[u])
                sent += flow
                if flow == math.inf:
                    return sent
                cap[a] -= flow
                cap[sister[a]] += flow
                excess[u] += flow
                excess[v] -= flow
                if not excess[v] > 0.0:
                    break
    return sent


@inner_kernel
def plant(n, network, forest):
    """Trees of one node each: those with a surplus or a deficit."""
    node, count, amount = forest.node, forest.count, forest.amount
    for k in range(COUNTS):
        count[k] = 0
    count[GROWING] = -1
    least = amount[LEAST] = _least(n, network)
    amount[FLOW] = _saturate(n, network)
    for v in range(n):
        at = WIDTH * v
        node[at + STAMP] = node[at + DISTANCE] = node[at + TREE] = 0
        node[at + PARENT] = NO_PARENT
        if abs(network.excess[v]) > least:
            node[at + PARENT] = TERMINAL
            node[at + DISTANCE] = 1
            node[at + TREE] = SOURCE if network.excess[v] > 0.0 else SINK
            set_active(v, forest)


@kernel
def max_flow(n, network, forest):
    """Maximum flow from the nodes with a surplus to those with a deficit.

    Boykov and Kolmogorov 2004, An experimental comparison of min-cut/max-flow algorithms for energy
    minimization in vision, section 3.
    """
    plant(n, network, forest)
    while not search(network, forest, 1 << 60):
        pass
    return forest.amount[FLOW]


@kernel
def start_flow(n, network, forest):
    """Begin what :func:`advance_flow` goes on with, instead of :func:`max_flow`."""
    plant(n, network, forest)


@kernel
def advance_flow(network, forest, work):
    """Go on with a flow, so that Python (an interrupt, a time limit) comes through in between."""
    return search(network, forest, work)


@kernel
def source_side(n, forest, side):
    """The smallest source side of a minimum cut."""
    for v in range(n):
        side[v] = 1 if forest.node[WIDTH * v + TREE] & WHICH == SOURCE else 0


@inner_kernel
def in_source_side(v, forest):
    """Whether a node is in the smallest source side of a minimum cut."""
    return forest.node[WIDTH * v + TREE] & WHICH == SOURCE

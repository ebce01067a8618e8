"""Maximum flow by Dinic's algorithm, on graphs whose terminal arcs are folded into the nodes."""

from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel

_ROUNDING = 1e-12


class Network(NamedTuple):
    """A graph with capacities; the arrays may be longer than it needs.

    Parameters
    ----------
    first : ndarray of shape (n_nodes + 1,) of int64
        Where the arcs of each node begin.
    head, sister : ndarray of shape (n_arcs,) of int64
        The node each arc goes to, and the arc back.
    cap : ndarray of shape (n_arcs,)
        Capacities.
    excess : ndarray of shape (n_nodes,)
        Positive: capacity of the arc from the source; negative: minus that of the arc to the sink.
    """

    first: np.ndarray
    head: np.ndarray
    sister: np.ndarray
    cap: np.ndarray
    excess: np.ndarray


class FlowScratch(NamedTuple):
    """Scratch of :func:`max_flow`.

    Parameters
    ----------
    level, current, queue, path : ndarray of shape (n_nodes + 1,) of int64
        Distances to the sink, the next arc to try, nodes to visit, arcs on the way.
    """

    level: np.ndarray
    current: np.ndarray
    queue: np.ndarray
    path: np.ndarray


def empty_network(n_nodes, n_arcs):
    """Room for a network.

    Parameters
    ----------
    n_nodes, n_arcs : int
        Its size.

    Returns
    -------
    Network
        The arrays, not initialised.

    Examples
    --------
    >>> from skstruct.inference.max_flow import empty_network
    >>> empty_network(2, 4).head.shape
    (4,)
    """
    first, ends = np.empty(n_nodes + 1, dtype=np.int64), np.empty((2, n_arcs), dtype=np.int64)
    return Network(first, *ends, np.empty(n_arcs), np.empty(n_nodes))


def flow_scratch(n_nodes):
    """Scratch for networks of at most `n_nodes` nodes.

    Parameters
    ----------
    n_nodes : int
        Size of the largest network.

    Returns
    -------
    FlowScratch
        The scratch.

    Examples
    --------
    >>> from skstruct.inference.max_flow import flow_scratch
    >>> flow_scratch(2).level.shape
    (3,)
    """
    return FlowScratch(*np.empty((4, n_nodes + 1), dtype=np.int64))


@inner_kernel
def _levels(n, network, scratch):
    """``level[v]``: arcs from v to the sink plus one, -1 where there is no way."""
    first, head, sister = network.first, network.head, network.sister
    cap, excess = network.cap, network.excess
    level, queue = scratch.level, scratch.queue
    count = 0
    for v in range(n):
        level[v] = -1
        if excess[v] < 0.0:
            level[v] = 1
            queue[count] = v
            count += 1
    place = 0
    reached = False
    while place < count:
        v = queue[place]
        place += 1
        reached |= excess[v] > 0.0
        for a in range(first[v], first[v + 1]):
            u = head[a]
            if level[u] < 0 and cap[sister[a]] > 0.0:
                level[u] = level[v] + 1
                reached |= excess[u] > 0.0
                queue[count] = u
                count += 1
    return reached


@inner_kernel
def _augment_from(source, network, scratch):
    """Send what a node has along arcs that lead down in level; returns how much went."""
    first, head, sister = network.first, network.head, network.sister
    cap, excess = network.cap, network.excess
    level, current, path = scratch.level, scratch.current, scratch.path
    sent = 0.0
    depth = 0
    v = source
    while True:
        if excess[v] < 0.0 and depth > 0:
            flow = min(excess[source], -excess[v])
            for d in range(depth):
                flow = min(flow, cap[path[d]])
            excess[source] -= flow
            excess[v] += flow
            sent += flow
            back = depth
            for d in range(depth - 1, -1, -1):
                a = path[d]
                cap[a] -= flow
                cap[sister[a]] += flow
                if not cap[a] > 0.0:
                    back = d
            if not excess[source] > 0.0:
                return sent
            # Go on from the first arc that is full, or from where the sink took all.
            if back < depth:
                v = head[sister[path[back]]]
                depth = back
            elif not excess[v] < 0.0:
                depth -= 1
                v = head[sister[path[depth]]]
            continue
        stuck = True
        while current[v] < first[v + 1]:
            a = current[v]
            u = head[a]
            if cap[a] > 0.0 and level[u] == level[v] - 1 and level[u] > 0:
                stuck = False
                break
            current[v] += 1
        if not stuck:
            path[depth] = current[v]
            depth += 1
            v = head[current[v]]
            continue
        if depth == 0:
            return sent
        level[v] = -1
        depth -= 1
        v = head[sister[path[depth]]]
        current[v] += 1


@kernel
def max_flow(n, network, scratch):
    """Maximum flow from the nodes with a surplus to those with a deficit.

    Parameters
    ----------
    n : int
        Number of nodes.
    network : Network
        The network. On return ``cap`` are the residual capacities, and ``excess`` is what is left.
    scratch : FlowScratch
        For networks at least as large. On return ``level[v]`` is 1 on the smallest source side of a
        minimum cut, else 0.

    Returns
    -------
    float
        The value of the flow.

    References
    ----------
    Dinic 1970, Algorithm for solution of a problem of maximum flow in a network with power
    estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.max_flow import Network, flow_scratch, max_flow
    >>> network = Network(np.array([0, 1, 2]), np.array([1, 0]), np.array([1, 0]),
    ...                   np.array([2.0, 0.0]), np.array([3.0, -5.0]))
    >>> max_flow(2, network, flow_scratch(2))
    2.0
    """
    first, head, cap, excess = network.first, network.head, network.cap, network.excess
    level, current, queue = scratch.level, scratch.current, scratch.queue
    # Sums of the capacities leave residues of rounding, which must not count as ways.
    scale = 0.0
    for v in range(n):
        scale = max(scale, abs(excess[v]))
    for a in range(first[n]):
        scale = max(scale, cap[a])
    least = _ROUNDING * scale
    total = 0.0
    while _levels(n, network, scratch):
        for v in range(n):
            current[v] = first[v]
        moved = 0.0
        for v in range(n):
            if excess[v] > 0.0 and level[v] > 0:
                moved += _augment_from(v, network, scratch)
        total += moved
        if not moved > 0.0:
            break
    count = 0
    for v in range(n):
        level[v] = 0
        if excess[v] > least:
            level[v] = 1
            queue[count] = v
            count += 1
    place = 0
    while place < count:
        v = queue[place]
        place += 1
        for a in range(first[v], first[v + 1]):
            if cap[a] > least and level[head[a]] == 0:
                level[head[a]] = 1
                queue[count] = head[a]
                count += 1
    return total

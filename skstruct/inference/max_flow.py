"""Maximum flow by Dinic's algorithm, on graphs whose terminal arcs are folded into the nodes."""

from ..core.dispatch import inner_kernel, kernel

_ROUNDING = 1e-12


@inner_kernel
def _levels(n, first, head, sister, cap, excess, level, queue):
    """``level[v]``: arcs from v to the sink plus one, -1 where there is no way."""
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
def _augment_from(source, first, head, sister, cap, excess, level, current, path):
    """Send what a node has along arcs that lead down in level; returns how much went."""
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
def max_flow(n, first, head, sister, cap, excess, level, current, queue, path):
    """Maximum flow from the nodes with a surplus to those with a deficit.

    Parameters
    ----------
    n : int
        Number of nodes.
    first : ndarray of shape (>= n + 1,) of int64
        Where the arcs of each node begin.
    head, sister : ndarray of int64
        The node each arc goes to, and the arc back.
    cap : ndarray
        Capacities; on return the residual ones.
    excess : ndarray of shape (>= n,)
        Positive: capacity of the arc from the source; negative: minus that of the arc to the sink.
        On return what is left.
    level, current, queue, path : ndarray of shape (>= n + 1,) of int64
        Scratch. On return ``level[v]`` is 1 on the smallest source side of a minimum cut, else 0.

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
    >>> from skstruct.inference.max_flow import max_flow
    >>> ints = [np.zeros(3, dtype=np.int64) for _ in range(4)]
    >>> max_flow(2, np.array([0, 1, 2]), np.array([1, 0]), np.array([1, 0]), np.array([2.0, 0.0]),
    ...          np.array([3.0, -5.0]), *ints)
    2.0
    """
    # Sums of the capacities leave residues of rounding, which must not count as ways.
    scale = 0.0
    for v in range(n):
        scale = max(scale, abs(excess[v]))
    for a in range(first[n]):
        scale = max(scale, cap[a])
    least = _ROUNDING * scale
    total = 0.0
    while _levels(n, first, head, sister, cap, excess, level, queue):
        for v in range(n):
            current[v] = first[v]
        moved = 0.0
        for v in range(n):
            if excess[v] > 0.0 and level[v] > 0:
                moved += _augment_from(v, first, head, sister, cap, excess, level, current, path)
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

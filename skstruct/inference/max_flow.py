"""Maximum flow by search trees that stay from one augmentation, and call, to the next."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel

# The two search trees: growth, augmentation, adoption of orphans.
#
# As in Boykov and Kolmogorov 2004, with their time stamps: a node whose stamp is the present time
# has a path to its terminal and knows its length.

# Tree of a node, and additional flags.
FREE, SOURCE, SINK, WHICH = 0, 1, 2, 3
ACTIVE, MARKED = 4, 8
# In place of the arc to a parent.
NO_PARENT, TERMINAL, ORPHAN = -1, -2, -3
# A node's four numbers stand together: whoever asks for one asks for the others.
PARENT, STAMP, DISTANCE, TREE, WIDTH = 0, 1, 2, 3, 4
# Places in `Forest.count` and `Forest.amount`.
TIME, ACTIVE_FIRST, ACTIVE_SIZE, ORPHAN_FIRST, ORPHAN_SIZE = 0, 1, 2, 3, 4
GROWING, GROWING_ARC, COUNTS = 5, 6, 7
LEAST, FLOW, AMOUNTS = 0, 1, 2
# Work for :func:`advance_flow` that is never done.
WHOLE = 1 << 60

_FAR = 1 << 30


@inner_kernel
def set_active(v, forest):
    """Queue a node for growth, once."""
    node, active, count = forest.node, forest.active, forest.count
    if node[WIDTH * v + TREE] & ACTIVE == 0:
        node[WIDTH * v + TREE] |= ACTIVE
        place = count[ACTIVE_FIRST] + count[ACTIVE_SIZE]
        if place >= active.shape[0]:
            place -= active.shape[0]
        active[place] = v
        count[ACTIVE_SIZE] += 1


@inner_kernel
def next_active(forest):
    """The first node of the queue that is in a tree, -1 if there is none."""
    node, active, count = forest.node, forest.active, forest.count
    while count[ACTIVE_SIZE] > 0:
        v = active[count[ACTIVE_FIRST]]
        count[ACTIVE_FIRST] += 1
        if count[ACTIVE_FIRST] == active.shape[0]:
            count[ACTIVE_FIRST] = 0
        count[ACTIVE_SIZE] -= 1
        node[WIDTH * v + TREE] &= ~ACTIVE
        if node[WIDTH * v + TREE] & WHICH != FREE:
            return v
    return -1


@inner_kernel
def orphan_last(v, forest):
    """Make a node an orphan, to be served after the others."""
    orphan, count = forest.orphan, forest.count
    forest.node[WIDTH * v + PARENT] = ORPHAN
    place = count[ORPHAN_FIRST] + count[ORPHAN_SIZE]
    if place >= orphan.shape[0]:
        place -= orphan.shape[0]
    orphan[place] = v
    count[ORPHAN_SIZE] += 1


@inner_kernel
def _orphan_first(v, forest):
    """Make a node an orphan, to be served before the others."""
    orphan, count = forest.orphan, forest.count
    forest.node[WIDTH * v + PARENT] = ORPHAN
    place = count[ORPHAN_FIRST]
    place = (place if place > 0 else orphan.shape[0]) - 1
    orphan[place] = v
    count[ORPHAN_FIRST] = place
    count[ORPHAN_SIZE] += 1


@inner_kernel
def grow(v, begin, network, forest):
    """Add free neighbours by arcs from `begin` on; the first arc to the other tree, or -1."""
    first, head, sister, cap = network.first, network.head, network.sister, network.cap
    node, least = forest.node, forest.amount[LEAST]
    tree = node[WIDTH * v + TREE] & WHICH
    stamp, distance = node[WIDTH * v + STAMP], node[WIDTH * v + DISTANCE]
    for a in range(begin, first[v + 1]):
        b = sister[a]
        if not cap[a if tree == SOURCE else b] > least:
            continue
        u = head[a]
        at = WIDTH * u
        other = node[at + TREE] & WHICH
        if other == FREE:
            node[at + PARENT] = b
            node[at + STAMP] = stamp
            node[at + DISTANCE] = distance + 1
            node[at + TREE] |= tree
            set_active(u, forest)
        elif other != tree:
            return a
        elif node[at + STAMP] <= stamp and node[at + DISTANCE] > distance:
            # It is no nearer to its terminal by its old parent.
            node[at + PARENT] = b
            node[at + STAMP] = stamp
            node[at + DISTANCE] = distance + 1
    return -1


@inner_kernel
def _bottleneck(a, network, forest):
    """Return the flow that the path through arc `a` can carry."""
    head, sister, cap, excess = network.head, network.sister, network.cap, network.excess
    node = forest.node
    flow = cap[a]
    v = head[sister[a]]
    while node[WIDTH * v + PARENT] != TERMINAL:
        p = node[WIDTH * v + PARENT]
        flow = min(flow, cap[sister[p]])
        v = head[p]
    flow = min(flow, excess[v])
    v = head[a]
    while node[WIDTH * v + PARENT] != TERMINAL:
        p = node[WIDTH * v + PARENT]
        flow = min(flow, cap[p])
        v = head[p]
    return min(flow, -excess[v])


@inner_kernel
def augment(a, network, forest):
    """Send flow along the path through arc `a`; where an arc is full, its lower end is orphaned."""
    head, sister, cap, excess = network.head, network.sister, network.cap, network.excess
    node, least = forest.node, forest.amount[LEAST]
    flow = _bottleneck(a, network, forest)
    forest.amount[FLOW] += flow
    if flow == math.inf:
        return
    cap[a] -= flow
    cap[sister[a]] += flow
    v = head[sister[a]]
    while node[WIDTH * v + PARENT] != TERMINAL:
        p = node[WIDTH * v + PARENT]
        cap[p] += flow
        cap[sister[p]] -= flow
        if not cap[sister[p]] > least:
            _orphan_first(v, forest)
        v = head[p]
    excess[v] -= flow
    if not excess[v] > least:
        _orphan_first(v, forest)
    v = head[a]
    while node[WIDTH * v + PARENT] != TERMINAL:
        p = node[WIDTH * v + PARENT]
        cap[sister[p]] += flow
        cap[p] -= flow
        if not cap[p] > least:
            _orphan_first(v, forest)
        v = head[p]
    excess[v] += flow
    if not -excess[v] > least:
        _orphan_first(v, forest)


@inner_kernel
def _distance(start, head, node, time):
    """Nodes from here to the terminal, which get their stamps on the way; _FAR from an orphan."""
    steps = 0
    v = start
    while node[WIDTH * v + STAMP] != time:
        steps += 1
        p = node[WIDTH * v + PARENT]
        if p == TERMINAL:
            node[WIDTH * v + STAMP] = time
            node[WIDTH * v + DISTANCE] = 1
            steps -= 1
            break
        if p == ORPHAN:
            return _FAR
        v = head[p]
    steps += node[WIDTH * v + DISTANCE]
    left = steps
    v = start
    while node[WIDTH * v + STAMP] != time:
        node[WIDTH * v + STAMP] = time
        node[WIDTH * v + DISTANCE] = left
        left -= 1
        v = head[node[WIDTH * v + PARENT]]
    return steps


@inner_kernel
def _find_parent(v, tree, network, forest):
    """Hang a node on the neighbour nearest to its terminal, or the first that is near enough."""
    first, head, sister, cap = network.first, network.head, network.sister, network.cap
    node, least, time = forest.node, forest.amount[LEAST], forest.count[TIME]
    best, nearest = NO_PARENT, _FAR
    before = max(node[WIDTH * v + DISTANCE], 2)
    for a in range(first[v], first[v + 1]):
        u = head[a]
        if node[WIDTH * u + TREE] & WHICH != tree or node[WIDTH * u + DISTANCE] >= nearest:
            continue
        if cap[sister[a] if tree == SOURCE else a] > least:
            steps = _distance(u, head, node, time)
            if steps < nearest:
                best, nearest = a, steps
                if steps < before:
                    break
    node[WIDTH * v + PARENT] = best
    if best != NO_PARENT:
        node[WIDTH * v + STAMP] = time
        node[WIDTH * v + DISTANCE] = nearest + 1
    return best != NO_PARENT


@inner_kernel
def adopt(network, forest):
    """Find new parents for all orphans; those without leave their tree. Returns how many were."""
    first, head, sister, cap = network.first, network.head, network.sister, network.cap
    node, orphan, count = forest.node, forest.orphan, forest.count
    least = forest.amount[LEAST]
    served = 0
    while count[ORPHAN_SIZE] > 0:
        v = orphan[count[ORPHAN_FIRST]]
        count[ORPHAN_FIRST] += 1
        if count[ORPHAN_FIRST] == orphan.shape[0]:
            count[ORPHAN_FIRST] = 0
        count[ORPHAN_SIZE] -= 1
        served += 1
        tree = node[WIDTH * v + TREE] & WHICH
        if _find_parent(v, tree, network, forest):
            continue
        node[WIDTH * v + TREE] &= ~WHICH
        for a in range(first[v], first[v + 1]):
            u = head[a]
            if node[WIDTH * u + TREE] & WHICH == tree:
                b = sister[a]
                if cap[b if tree == SOURCE else a] > least:
                    set_active(u, forest)
                if node[WIDTH * u + PARENT] == b:
                    orphan_last(u, forest)
    return served


@kernel
def advance_flow(network, forest, work):
    """Grow and augment until no path is left or `work` nodes are done; whether all is done."""
    node, count, amount = forest.node, forest.count, forest.amount
    v, begin = count[GROWING], count[GROWING_ARC]
    while work > 0 and amount[FLOW] < math.inf:
        if v < 0:
            v = next_active(forest)
            if v < 0:
                break
            begin = network.first[v]
        work -= 1
        a = grow(v, begin, network, forest)
        count[TIME] += 1
        if a < 0:
            v = -1
            continue
        augment(
            a if node[WIDTH * v + TREE] & WHICH == SOURCE else network.sister[a], network, forest
        )
        work -= adopt(network, forest)
        # Nothing that this undid lies before this arc without the node being active again.
        begin = a
        if node[WIDTH * v + TREE] & WHICH == FREE:
            v = -1
    count[GROWING], count[GROWING_ARC] = v, begin
    return (v < 0 and count[ACTIVE_SIZE] == 0) or amount[FLOW] == math.inf


# Maximum flows that go on after a change of capacities, from the trees of the last one.

_LAST_TIME = 1 << 30


@inner_kernel
def _repair(v, network, forest):
    """Make a changed node a root or an orphan, according to its excess."""
    first, head, sister, cap = network.first, network.head, network.sister, network.cap
    node, least, excess = forest.node, forest.amount[LEAST], network.excess[v]
    at = WIDTH * v
    node[at + TREE] &= ~MARKED
    set_active(v, forest)
    if not abs(excess) > least:
        if node[at + TREE] & WHICH != FREE:
            orphan_last(v, forest)
        return
    tree = SOURCE if excess > 0.0 else SINK
    if node[at + TREE] & WHICH != tree:
        node[at + TREE] = node[at + TREE] & ~WHICH | tree
        for a in range(first[v], first[v + 1]):
            u, b = head[a], sister[a]
            state = node[WIDTH * u + TREE]
            if state & MARKED != 0 or state & WHICH == FREE:
                continue
            if node[WIDTH * u + PARENT] == b:
                orphan_last(u, forest)
            if state & WHICH != tree and cap[a if tree == SOURCE else b] > least:
                set_active(u, forest)
    node[at + PARENT] = TERMINAL
    node[at + STAMP] = forest.count[TIME]
    node[at + DISTANCE] = 1


@kernel
def continue_flow(n, network, forest, changed):
    """Maximum flow after changes, from the present flow and trees (Kohli and Torr 2005)."""
    before = forest.amount[FLOW]
    node, count = forest.node, forest.count
    if count[TIME] > _LAST_TIME:
        count[TIME] = 0
        for v in range(n):
            node[WIDTH * v + STAMP] = 0
    count[TIME] += 1
    for k in range(changed.shape[0]):
        node[WIDTH * changed[k] + TREE] |= MARKED
    for k in range(changed.shape[0]):
        _repair(changed[k], network, forest)
    adopt(network, forest)
    advance_flow(network, forest, WHOLE)
    return forest.amount[FLOW] - before


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
    """Search trees of :func:`max_flow`, valid from one call to the next."""

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


@kernel
def link(n, tail, head, there, back, network):
    """Write the arcs of a network, a pair for each edge, in the order of the edges."""
    first, ends, sister, cap = network.first, network.head, network.sister, network.cap
    for v in range(n + 1):
        first[v] = 0
    for e in range(tail.shape[0]):
        first[tail[e]] += 1
        first[head[e]] += 1
    total = 0
    for v in range(n + 1):
        degree = first[v]
        first[v] = total
        total += degree
    for e in range(tail.shape[0]):
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
def init_search_forest(n, network, forest):
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
    """Maximum flow from surplus to deficit nodes (Boykov and Kolmogorov 2004, section 3)."""
    init_search_forest(n, network, forest)
    advance_flow(network, forest, WHOLE)
    return forest.amount[FLOW]


@inner_kernel
def in_source_side(v, forest):
    """Return whether a node is in the smallest source side of a minimum cut."""
    return forest.node[WIDTH * v + TREE] & WHICH == SOURCE

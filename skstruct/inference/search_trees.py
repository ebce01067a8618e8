"""The two search trees of :mod:`.max_flow`: growth, augmentation, adoption of orphans.

As in Boykov and Kolmogorov 2004, with their time stamps: a node whose stamp is the present time has
a path to its terminal and knows its length.
"""

import math

from ..core.dispatch import inner_kernel

# Which tree a node is in, and flags beside it.
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
    """What can flow along the path through arc `a`."""
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


@inner_kernel
def search(network, forest, work):
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

"""Maximum flows that go on after a change of capacities, from the trees of the last one."""

from ..core.dispatch import inner_kernel, kernel
from .search_trees import (
    DISTANCE,
    FLOW,
    FREE,
    LEAST,
    MARKED,
    PARENT,
    SINK,
    SOURCE,
    STAMP,
    TERMINAL,
    TIME,
    TREE,
    WHICH,
    WIDTH,
    adopt,
    orphan_last,
    search,
    set_active,
)

_LAST_TIME = 1 << 30


@inner_kernel
def _repair(v, network, forest):
    """Make a changed node what its excess says: a root or an orphan."""
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
def restart_flow(n, network, forest, changed):
    """Repair the trees of a solved network after changes, for :func:`advance_flow` to go on.

    Kohli and Torr 2005, Efficiently solving dynamic Markov random fields using graph cuts.
    """
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


@kernel
def continue_flow(n, network, forest, changed):
    """Maximum flow after changes of a solved network, from the flow and the trees that it has.

    Kohli and Torr 2005, Efficiently solving dynamic Markov random fields using graph cuts.
    """
    before = forest.amount[FLOW]
    restart_flow(n, network, forest, changed)
    while not search(network, forest, 1 << 60):
        pass
    return forest.amount[FLOW] - before


@kernel
def add_capacity(a, amount, network):
    """Change the capacity of an arc of a solved network; both ends count as changed then."""
    head, sister, cap, excess = network.head, network.sister, network.cap, network.excess
    left = cap[a] + amount
    cap[a] = max(left, 0.0)
    if left < 0.0:
        b = sister[a]
        cap[b] += left
        excess[head[b]] -= left
        excess[head[a]] += left

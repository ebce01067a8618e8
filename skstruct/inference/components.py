"""Strongly connected components of what a maximum flow leaves of a network."""

from typing import NamedTuple

import numpy as np

from ..core.dispatch import kernel
from .search_trees import FREE, LEAST, TREE, WHICH, WIDTH


class ComponentScratch(NamedTuple):
    """Scratch of :func:`strong_components`; arrays of shape (n_nodes,) of int32."""

    # When a node was found, and the first node of its component that it is known to reach.
    order: np.ndarray
    low: np.ndarray
    # The next arc to follow.
    arc: np.ndarray
    # The nodes on the way, and those whose component is not complete.
    trail: np.ndarray
    waiting: np.ndarray


def component_scratch(n_nodes):
    """Scratch for networks of at most `n_nodes` nodes."""
    return ComponentScratch(*np.empty((5, n_nodes), dtype=np.int32))


@kernel
def strong_components(n, network, forest, scratch, component):
    """Number the components of the nodes on neither side, each after those that it reaches.

    Tarjan 1972, Depth-first search and linear graph algorithms, section 4.
    """
    first, head, cap = network.first, network.head, network.cap
    node, least = forest.node, forest.amount[LEAST]
    order, low, arc = scratch.order, scratch.low, scratch.arc
    trail, waiting = scratch.trail, scratch.waiting
    for v in range(n):
        order[v] = component[v] = -1
    time = n_waiting = n_components = 0
    for start in range(n):
        if order[start] >= 0 or node[WIDTH * start + TREE] & WHICH != FREE:
            continue
        depth = 0
        trail[0] = start
        while depth >= 0:
            v = trail[depth]
            if order[v] < 0:
                order[v] = low[v] = time
                arc[v] = first[v]
                waiting[n_waiting] = v
                time += 1
                n_waiting += 1
            a = arc[v]
            if a < first[v + 1]:
                arc[v] = a + 1
                u = head[a]
                if not cap[a] > least or node[WIDTH * u + TREE] & WHICH != FREE:
                    continue
                if order[u] < 0:
                    depth += 1
                    trail[depth] = u
                elif component[u] < 0:
                    low[v] = min(low[v], order[u])
                continue
            if low[v] == order[v]:
                u = -1
                while u != v:
                    n_waiting -= 1
                    u = waiting[n_waiting]
                    component[u] = n_components
                n_components += 1
            depth -= 1
            if depth >= 0:
                low[trail[depth]] = min(low[trail[depth]], low[v])

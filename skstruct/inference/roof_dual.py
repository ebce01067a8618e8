"""Binary pairwise models: the LP relaxation over the local polytope, exactly, by one max flow.

The optimum of that relaxation is half-integral (the *roof dual*). Nodes that it sets to 0 or 1 have
that value in a best labelling, too (*persistency*); where all interactions attract it is integral,
and the flow is the classical graph cut.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from .max_flow import Forest, Network, empty_forest, empty_network, in_source_side, max_flow

OFF, ON, HALF = 0, 1, 2


class Neighbours(NamedTuple):
    """A graph, by nodes (CSR)."""

    # (n_nodes + 1,): Where the neighbours of each node begin.
    ptr: np.ndarray
    # (2 * n_edges,): The neighbours, and the edges to them.
    neighbour: np.ndarray
    edge: np.ndarray


class RoofScratch(NamedTuple):
    """Scratch of :func:`roof_dual`."""

    # (n_nodes,): Numbers of the open nodes.
    index: np.ndarray
    # Two nodes and four arcs for each node and edge.
    network: Network
    # For that network.
    forest: Forest


def roof_scratch(n_nodes, n_edges):
    """Scratch for graphs of at most this size."""
    index = np.empty(n_nodes, dtype=np.int64)
    return RoofScratch(index, empty_network(2 * n_nodes, 4 * n_edges), empty_forest(2 * n_nodes))


@inner_kernel(inline=True)
def widen(low, high, interaction, state):
    """Bounds on what a node gains by being 1, with one more neighbour that is in `state`."""
    if state == ON:
        return low + interaction, high + interaction
    if state == HALF:
        return low + min(interaction, 0.0), high + max(interaction, 0.0)
    return low, high


@inner_kernel(inline=True)
def forced(low, high):
    """The value that these bounds leave a node, HALF for either."""
    if high <= 0.0:
        return OFF
    return ON if low > 0.0 else HALF


@kernel
def settle(unary, pair, graph, states):
    """Fix nodes whose best value no choice of their neighbours can change, until none is left."""
    n = unary.shape[0]
    n_open = 0
    for j in range(n):
        n_open += 1 if states[j] == HALF else 0
    before = n_open + 1
    while 0 < n_open < before:
        before = n_open
        for j in range(n):
            if states[j] != HALF:
                continue
            low = high = unary[j]
            for q in range(graph.ptr[j], graph.ptr[j + 1]):
                state = states[graph.neighbour[q]]
                low, high = widen(low, high, pair[graph.edge[q]], state)
            states[j] = forced(low, high)
            n_open -= 0 if states[j] == HALF else 1
    return n_open


@inner_kernel
def _add_arc(network, a, b, capacity):
    """Arc a -> b and its way back; `first` holds the next free places."""
    first, head, sister, cap = network.first, network.head, network.sister, network.cap
    p, q = first[a], first[b]
    head[p], head[q] = b, a
    sister[p], sister[q] = q, p
    cap[p], cap[q] = capacity, 0.0
    first[a] += 1
    first[b] += 1


@inner_kernel
def _build(unary, pair, graph, states, scratch):
    """The flow network of the c open nodes: j is literal x_j, c + j its negation; returns c."""
    index, network = scratch.index, scratch.network
    first, excess = network.first, network.excess
    n = unary.shape[0]
    c = 0
    for j in range(n):
        if states[j] == HALF:
            index[j] = c
            c += 1
    size = 2 * c
    for v in range(size + 1):
        first[v] = 0
    # First the degrees, then the places, then the arcs.
    for j in range(n):
        if states[j] != HALF:
            continue
        a = -unary[j]
        for q in range(graph.ptr[j], graph.ptr[j + 1]):
            k, v = graph.neighbour[q], pair[graph.edge[q]]
            if states[k] == ON:
                a -= v
            elif states[k] == HALF and v != 0.0:
                if v > 0.0 and j < k:
                    a -= v
                first[index[j]] += 1
                first[c + index[j]] += 1
        excess[index[j]] = -0.5 * a
        excess[c + index[j]] = 0.5 * a
    total = 0
    for v in range(size + 1):
        degree = first[v] if v < size else 0
        first[v] = total
        total += degree
    for j in range(n):
        if states[j] != HALF:
            continue
        for q in range(graph.ptr[j], graph.ptr[j + 1]):
            k, v = graph.neighbour[q], pair[graph.edge[q]]
            if j < k and states[k] == HALF and v != 0.0:
                x, y = index[j], index[k]
                if v > 0.0:
                    _add_arc(network, x, y, 0.5 * v)
                    _add_arc(network, c + y, c + x, 0.5 * v)
                else:
                    _add_arc(network, x, c + y, -0.5 * v)
                    _add_arc(network, y, c + x, -0.5 * v)
    for v in range(size, 0, -1):
        first[v] = first[v - 1]
    first[0] = 0
    return c


@kernel
def roof_dual(unary, pair, graph, states, scratch):
    """Optimum of the LP relaxation of a binary pairwise model, half-integral.

    Boros and Hammer 2002, Pseudo-Boolean optimization; Kolmogorov and Rother 2007, Minimizing
    nonsubmodular functions with graph cuts.
    """
    n = unary.shape[0]
    n_open = settle(unary, pair, graph, states)
    if n_open > 0:
        index, forest = scratch.index, scratch.forest
        c = _build(unary, pair, graph, states, scratch)
        max_flow(2 * c, scratch.network, forest)
        for j in range(n):
            if states[j] == HALF:
                if in_source_side(index[j], forest):
                    states[j] = ON
                elif in_source_side(c + index[j], forest):
                    states[j] = OFF
    return relaxed_score(unary, pair, graph, states)


@kernel
def relaxed_score(unary, pair, graph, states):
    """Score of half-integral states."""
    total = 0.0
    for j in range(unary.shape[0]):
        if states[j] == OFF:
            continue
        share = 1.0 if states[j] == ON else 0.5
        total += share * unary[j]
        for q in range(graph.ptr[j], graph.ptr[j + 1]):
            k = graph.neighbour[q]
            if k < j and states[k] != OFF:
                v = pair[graph.edge[q]]
                if states[j] == ON and states[k] == ON:
                    total += v
                elif states[j] == ON or states[k] == ON:
                    total += 0.5 * v
                else:
                    total += 0.5 * max(v, 0.0)
    return total


@kernel
def complete(unary, pair, graph, states):
    """Turn halves into a labelling, one by one, then improve single nodes while that helps."""
    n = unary.shape[0]
    for sweep in range(n + 2):
        moved = False
        for j in range(n):
            gain = unary[j]
            if abs(gain) < math.inf:
                for q in range(graph.ptr[j], graph.ptr[j + 1]):
                    state = states[graph.neighbour[q]]
                    if state != OFF:
                        gain += pair[graph.edge[q]] * (1.0 if state == ON else 0.5)
            wanted = ON if gain > 0.0 else OFF
            if sweep > 0 and states[j] != HALF and abs(gain) < 1e-12:
                continue
            if states[j] == HALF or (sweep > 0 and states[j] != wanted):
                states[j] = wanted
                moved = True
        if sweep > 0 and not moved:
            break

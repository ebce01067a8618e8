"""Switches (:mod:`.choices`) by max flow: exact where all edges can be made to attract.

Components of the graph without frustration, where flipping some variables makes all edges attract,
need one node a variable, and the minimum cut is a best choice. Others need one a literal: that is
the optimum of the relaxation over the local polytope (the *roof dual*), and labels of some
variables that a best choice has (*persistency*).
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from .choices import HALF, OFF, ON, force_of, is_open
from .max_flow import in_source_side, link_edges, plant


class Signs(NamedTuple):
    """Which variables to flip, and their nodes in the network."""

    # (n_variables,): Another variable of the component, the variable itself at its root.
    link: np.ndarray
    # (n_variables,): Variables of a component, at its root.
    size: np.ndarray
    # (n_variables,): Whether a variable is flipped, against that in `link` while the components
    # grow.
    flip: np.ndarray
    # (n_variables,): Whether its component is frustrated.
    double: np.ndarray
    # (n_variables,): The (first) node; -1 where there is no choice.
    node: np.ndarray


def empty_signs(n_variables):
    """Room for the signs of so many variables."""
    link, size, node = np.empty((3, n_variables), dtype=np.int32)
    flip, double = np.empty((2, n_variables), dtype=np.uint8)
    return Signs(link, size, flip, double, node)


@inner_kernel
def _root(v, signs):
    """The root of a variable's component; on the way, links come to point at it."""
    link, flip = signs.link, signs.flip
    root, parity = v, 0
    while link[root] != root:
        parity ^= flip[root]
        root = link[root]
    while link[v] != root and v != root:
        after, own = link[v], flip[v]
        link[v], flip[v] = root, parity
        parity ^= own
        v = after
    return root


@kernel
def find_signs(choices, n_edges, signs):
    """Which variables to flip so that edges attract; the nodes of the network.

    Harary 1953, On the notion of balance of a signed graph.
    """
    link, size, flip = signs.link, signs.size, signs.flip
    double, node = signs.double, signs.node
    for v in range(link.shape[0]):
        link[v], size[v] = v, 1
        flip[v] = double[v] = 0
    frustrated = -1
    for e in range(n_edges):
        i, j = choices.tail[e] >> 1, choices.head[e] >> 1
        a, b = _root(i, signs), _root(j, signs)
        parity = (choices.tail[e] ^ choices.head[e]) & 1
        parity ^= flip[i] ^ flip[j]
        if a != b:
            if size[a] < size[b]:
                a, b = b, a
            link[b], flip[b] = a, parity
            size[a] += size[b]
            double[a] |= double[b]
        elif parity != 0:
            double[a] = 1
            frustrated = e if frustrated < 0 else frustrated
    n_nodes = n_doubled = 0
    for v in range(link.shape[0]):
        double[v] = double[_root(v, signs)]
        node[v] = -1
        if is_open(choices.must[v]):
            node[v] = n_nodes
            n_nodes += 1 + double[v]
    for e in range(n_edges):
        n_doubled += double[choices.tail[e] >> 1]
    return n_nodes, n_doubled, frustrated


@inner_kernel
def _lay_nodes(choices, signs, excess):
    """Write the excess of nodes; score of the best choice if nothing had to flow."""
    total = choices.constant[0]
    for v in range(signs.node.shape[0]):
        k = signs.node[v]
        if k < 0:
            continue
        gain, force = choices.gain[v], force_of(choices.must[v])
        if force != HALF:
            total += gain if force == ON else 0.0
            sign = 1.0 if (force == ON) != (signs.flip[v] == 1 and signs.double[v] == 0) else -1.0
            excess[k] = sign * math.inf
            if signs.double[v] == 1:
                excess[k + 1] = -excess[k]
        elif signs.double[v] == 1:
            total += max(gain, 0.0)
            excess[k], excess[k + 1] = 0.5 * gain, -0.5 * gain
        else:
            total += max(gain, 0.0)
            excess[k] = -gain if signs.flip[v] == 1 else gain
    return total


@inner_kernel
def _lay_edges(choices, n_edges, signs):
    """Turn edges between literals into edges between nodes; how many they are."""
    tail, head, there, back = choices.tail, choices.head, choices.there, choices.back
    node, extra = signs.node, n_edges
    for e in range(n_edges):
        x, y = tail[e], head[e]
        i, j = x >> 1, y >> 1
        if signs.double[i] == 1:
            there[e] *= 0.5
            back[e] *= 0.5
            tail[e], head[e] = node[i] + (x & 1), node[j] + (y & 1)
            tail[extra], head[extra] = node[j] + 1 - (y & 1), node[i] + 1 - (x & 1)
            there[extra], back[extra] = there[e], back[e]
            extra += 1
        else:
            tail[e], head[e] = node[i], node[j]
            if (x & 1) != signs.flip[i]:
                # Both literals are false where their nodes are on the source's side.
                there[e], back[e] = back[e], there[e]
    return extra


@kernel
def begin_cut(choices, n_edges, signs, n_nodes, network, forest):
    """Make the network of some switches, whose edges are used up, and begin a flow."""
    total = _lay_nodes(choices, signs, network.excess)
    if total > -math.inf:
        n_all = _lay_edges(choices, n_edges, signs)
        tail, head, there, back = choices.tail, choices.head, choices.there, choices.back
        link_edges(n_nodes, n_all, tail, head, there, back, network)
        plant(n_nodes, network, forest)
    return total


@kernel
def read_states(signs, forest, component, states):
    """What the flow says of each variable.

    Kolmogorov and Rother 2007, Minimizing nonsubmodular functions with graph cuts: a review,
    section 2.3 and appendix (weak persistency).
    """
    n_half = 0
    for v in range(states.shape[0]):
        k = signs.node[v]
        states[v] = OFF
        if k < 0:
            continue
        if signs.double[v] == 0:
            states[v] = ON if in_source_side(k, forest) != (signs.flip[v] == 1) else OFF
        elif in_source_side(k, forest):
            states[v] = ON
        elif not in_source_side(k + 1, forest):
            # A literal that implies others comes after them: the earlier one of the two is true.
            states[v] = HALF
            if component[k] != component[k + 1]:
                states[v] = ON if component[k] < component[k + 1] else OFF
            n_half += states[v] == HALF
    return n_half

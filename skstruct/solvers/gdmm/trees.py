"""A dual point of GDMM for chains and trees some of whose pairs may not occur.

Every node's own distribution may have mass that no labelling can carry on along the edges; the
edges' conditional distributions cannot. So the point is the tree distribution
``p(y) ~ q_root(y_root) prod_f q_f(child | parent)`` over the labellings of positive probability:
a convex combination of labellings that the constraints allow.
"""

from typing import NamedTuple

import numpy as np

from ...core.features import add_to_column
from ...core.jit.dispatch import inner_kernel, kernel


class TreeScratch(NamedTuple):
    """Scratch for the largest sample."""

    # (max_nodes,): Nodes, parents first; the edge from each node to its parent, -1 for a root.
    order: np.ndarray
    link: np.ndarray
    # (max_nodes, n_labels): Share of the mass at a label that the subtree can carry on, up to a
    # factor a node.
    survival: np.ndarray
    # (max_nodes, n_labels): Marginals of the nodes.
    shares: np.ndarray
    # (2, n_labels): Of one edge by the label of the parent: in all, and what survives.
    mass: np.ndarray


@inner_kernel
def _from_roots(graph, first, last, order, link):
    """Order of nodes `first` to `last`, parents before children, and the edges between them."""
    for j in range(last - first):
        link[j] = -2
    n = 0
    for root in range(first, last):
        if link[root - first] != -2:
            continue
        link[root - first] = -1
        order[n] = root
        head = n
        n += 1
        while head < n:
            j = order[head]
            head += 1
            for p in range(graph.port_ptr[j], graph.port_ptr[j + 1]):
                port = graph.ports[p]
                other = graph.ends[port // 2, 1 - port % 2]
                if link[other - first] == -2:
                    link[other - first] = port // 2
                    order[n] = other
                    n += 1


@inner_kernel(inline=True)
def _of_parent(key, side, n_labels):
    """The parent's label in a pair; `side` is 0 where the parent is the first end."""
    return key // n_labels if side == 0 else key % n_labels


@inner_kernel
def _mass_of(edges, f, side, survival, mass):
    """Mass of edge f by the label of the parent: in all, and what survives at the child."""
    n_labels = survival.shape[0]
    for k in range(n_labels):
        mass[0, k] = mass[1, k] = 0.0
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a = _of_parent(edges.key[e], side, n_labels)
        b = _of_parent(edges.key[e], 1 - side, n_labels)
        mass[0, a] += edges.share[e]
        mass[1, a] += edges.share[e] * survival[b]


@inner_kernel
def _survive(graph, state, first, n, scratch):
    """From the leaves: which labels can be carried on; False where none of a root's can."""
    order, link, survival, mass = scratch.order, scratch.link, scratch.survival, scratch.mass
    n_labels = survival.shape[1]
    for j in range(n):
        for k in range(n_labels):
            barred = graph.allowed.shape[0] > 0 and graph.allowed[first + j, k] == 0
            survival[j, k] = 0.0 if barred else 1.0
    for q in range(n - 1, -1, -1):
        c = order[q] - first
        largest = 0.0
        for k in range(n_labels):
            largest = max(largest, survival[c, k])
        if not largest > 0.0:
            return False
        for k in range(n_labels):
            survival[c, k] /= largest
        f = link[c]
        if f < 0:
            total = 0.0
            nodes = state.nodes
            for e in range(nodes.start[order[q]], nodes.start[order[q]] + nodes.size[order[q]]):
                total += nodes.share[e] * survival[c, nodes.key[e]]
            if not total > 0.0:
                return False
            continue
        side = 1 if graph.ends[f, 0] == order[q] else 0
        parent = graph.ends[f, side] - first
        _mass_of(state.edges, f, side, survival[c], mass)
        for k in range(n_labels):
            survival[parent, k] *= mass[1, k] / mass[0, k] if mass[0, k] > 0.0 else 0.0
    return True


@inner_kernel
def _root_shares(nodes, j, survival, shares):
    total = 0.0
    for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
        shares[nodes.key[e]] = nodes.share[e] * survival[nodes.key[e]]
        total += shares[nodes.key[e]]
    for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
        shares[nodes.key[e]] /= total


@inner_kernel
def _child_shares(graph, state, w, reach, f, side, survival, parent, child, mass):
    """Marginals of edge f, into the weights, and of its child, from those of its parent."""
    edges, n_labels = state.edges, survival.shape[0]
    _mass_of(edges, f, side, survival, mass)
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a = _of_parent(edges.key[e], side, n_labels)
        b = _of_parent(edges.key[e], 1 - side, n_labels)
        if parent[a] > 0.0 and survival[b] > 0.0:
            share = parent[a] * (edges.share[e] * survival[b] / mass[1, a])
            child[b] += share
            w.pair[edges.key[e] // n_labels, edges.key[e] % n_labels] -= reach * share
    truth = graph.labels[graph.ends[f, 0]], graph.labels[graph.ends[f, 1]]
    w.pair[truth[0], truth[1]] += reach


@kernel
def tree_points(graph, state, w, losses, start, stop, scratch):
    """The dual points of samples `start` to `stop`."""
    n_labels = graph.cost.shape[0]
    for i in range(start, stop):
        first, reach = graph.node_ptr[i], state.reach[i]
        n = graph.node_ptr[i + 1] - first
        losses[i] = 0.0
        _from_roots(graph, first, first + n, scratch.order, scratch.link)
        if not _survive(graph, state, first, n, scratch):
            continue  # all mass is on the true labelling, which adds nothing
        for q in range(n):
            j = scratch.order[q]
            f, y, shares = scratch.link[j - first], graph.labels[j], scratch.shares[j - first]
            survival = scratch.survival[j - first]
            for k in range(n_labels):
                shares[k] = 0.0
            if f < 0:
                _root_shares(state.nodes, j, survival, shares)
            else:
                side = 1 if graph.ends[f, 0] == j else 0
                parent = scratch.shares[graph.ends[f, side] - first]
                mass = scratch.mass
                _child_shares(graph, state, w, reach, f, side, survival, parent, shares, mass)
            for k in range(n_labels):
                change = shares[k] - (1.0 if k == y else 0.0)
                if change != 0.0:
                    losses[i] += graph.share[j] * graph.cost[y, k] * shares[k]
                    add_to_column(graph.nodes, j, w.node, k, -reach * change)

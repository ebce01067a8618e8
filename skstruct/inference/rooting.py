"""Root the trees of graphs without cycles, or tell which graph has one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from .tree import Forest


class RootScratch(NamedTuple):
    """Scratch of :func:`root_all`."""

    # (n_nodes,): Trees of union-find: who stands for each node; the root of its tree in the end.
    up: np.ndarray
    # (n_nodes,): How many edges of a node are left, and the bitwise sum of their numbers.
    degree: np.ndarray
    around: np.ndarray
    # (n_nodes,): Whether some edge ends there.
    is_second: np.ndarray


@inner_kernel
def _find(up, t):
    """Who stands for node t; the way there is halved."""
    while up[t] != t:
        up[t] = up[up[t]]
        t = up[t]
    return t


@inner_kernel
def _join(ends, scratch):
    """Whether the edges have no cycle; if so, `up` is itself at one node of each tree, the root."""
    up, is_second = scratch.up, scratch.is_second
    for e in range(ends.shape[0]):
        a, b = _find(up, ends[e, 0]), _find(up, ends[e, 1])
        if a == b:
            return False
        # A root at which no edge ends keeps most edges in their direction.
        if is_second[a] > is_second[b] or (is_second[a] == is_second[b] and a > b):
            a, b = b, a
        up[b] = a
    return True


@inner_kernel
def _peel(ends, forest, scratch):
    """Take leaf after leaf off; the last one is the root."""
    up, degree, around = scratch.up, scratch.degree, scratch.around
    n = forest.order.shape[0]
    at = n
    for s in range(n):
        t = s
        while degree[t] == 1 and up[t] != t:
            e = around[t]
            flip = ends[e, 0] == t
            p = ends[e, 1 if flip else 0]
            at -= 1
            forest.order[at] = t
            forest.parent[t], forest.link[t], forest.flip[t] = p, e, flip
            degree[t] = 0
            degree[p] -= 1
            around[p] ^= e
            t = p
    for t in range(n - 1, -1, -1):
        if up[t] == t:
            at -= 1
            forest.order[at] = t
            forest.parent[t], forest.link[t], forest.flip[t] = -1, 0, 0


@kernel
def root_all(ends, edge_ptr, node_ptr, forest, scratch):
    """Root the trees of all graphs as far as the first with a cycle; returns which, or -1."""
    for i in range(node_ptr.shape[0] - 1):
        first, stop = node_ptr[i], node_ptr[i + 1]
        own = ends[edge_ptr[i] : edge_ptr[i + 1]]
        for t in range(stop - first):
            scratch.up[t] = t
            scratch.degree[t] = scratch.around[t] = scratch.is_second[t] = 0
        for e in range(own.shape[0]):
            for side in range(2):
                scratch.degree[own[e, side]] += 1
                scratch.around[own[e, side]] ^= e
            scratch.is_second[own[e, 1]] = 1
        if not _join(own, scratch):
            return i
        part = Forest(
            forest.order[first:stop],
            forest.parent[first:stop],
            forest.link[first:stop],
            forest.flip[first:stop],
        )
        _peel(own, part, scratch)
    return -1


def root_forests(
    ends: np.ndarray, edge_ptr: np.ndarray, node_ptr: np.ndarray
) -> tuple[Forest, int]:
    """Roots of graphs without cycles, and the edge of each node to its parent.

    The root of a tree is its lowest node at which no edge ends, or else its lowest node, so that
    most edges lead from parent to child. Linear but for the search of cycles, by union-find.

    Tarjan 1975, Efficiency of a good but not linear set union algorithm.
    """
    n = int(node_ptr[-1])
    forest = Forest(
        *np.zeros((3, n), dtype=np.int32),
        np.zeros(n, dtype=np.uint8),
    )
    longest = int(np.diff(node_ptr).max(initial=0))
    surplus = np.flatnonzero(np.diff(edge_ptr) >= np.maximum(np.diff(node_ptr), 1))
    if surplus.size:
        # Cheaper than the search; an earlier graph may have one, too.
        stop = int(surplus[0])
        node_ptr, edge_ptr = node_ptr[: stop + 1], edge_ptr[: stop + 1]
    up, degree, around = np.empty((3, longest), dtype=np.int32)
    scratch = RootScratch(up, degree, around, np.empty(longest, dtype=np.uint8))
    cyclic = int(root_all(ends, edge_ptr, node_ptr, forest, scratch))
    if cyclic < 0 and surplus.size:
        cyclic = int(surplus[0])
    return forest, cyclic

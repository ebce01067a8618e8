"""Exact inference on rooted forests, without recursion: best labelling, n best, marginals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import (
    TopList,
    clear_top,
    fast_exp,
    log_sum_exp,
    offer_top,
    row_max,
    take_top,
    top_list,
)


class Forest(NamedTuple):
    """Rooted trees."""

    # (n_nodes,): The nodes, every parent before its children.
    order: np.ndarray
    # (n_nodes,): The parent of each node, -1 for a root.
    parent: np.ndarray
    # (n_nodes,): The table of the edge to the parent.
    link: np.ndarray
    # (n_nodes,): 1 where that table has the child in its rows.
    flip: np.ndarray


class TreeScratch(NamedTuple):
    """Scratch of the kernels of this file."""

    # (n_nodes, n_labels): What is known at each node, and what it tells its parent.
    belief: np.ndarray
    message: np.ndarray
    # (n_nodes,): What was taken off each message.
    taken: np.ndarray
    # (2, n_labels): Sums over labels.
    rows: np.ndarray
    # Candidates for the n best.
    top: TopList


def tree_scratch(n_nodes, n_labels, n_best=1):
    """Scratch for forests of at most `n_nodes` nodes."""
    belief, message = np.empty((2, n_nodes, n_labels))
    rows = np.empty((2, n_labels))
    return TreeScratch(belief, message, np.empty(n_nodes), rows, top_list(n_best))


@inner_kernel(inline=True)
def _table_entry(transitions, forest, c, j, k):
    """Potential of label j at the parent of node c and k at c."""
    e = 0 if transitions.shape[0] == 1 else forest.link[c]
    return transitions[e, k, j] if forest.flip[c] == 1 else transitions[e, j, k]


@inner_kernel
def _best_below(unary, transitions, forest, best):
    """``best[t, k]``: largest score of the nodes below and at t, if t has label k."""
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    for t in range(n):
        for k in range(n_labels):
            best[t, k] = unary[t, k]
    for position in range(n - 1, -1, -1):
        c = forest.order[position]
        p = forest.parent[c]
        if p < 0:
            continue
        table = transitions[0 if shared else forest.link[c]]
        if forest.flip[c] == 1:
            for j in range(n_labels):
                message = -math.inf
                for k in range(n_labels):
                    message = max(message, best[c, k] + table[k, j])
                best[p, j] += message
        else:
            for j in range(n_labels):
                message = -math.inf
                for k in range(n_labels):
                    message = max(message, best[c, k] + table[j, k])
                best[p, j] += message


@inner_kernel
def _value_of(transitions, forest, best, labels, position, k):
    """Largest score of the nodes below and at that of `position`, if it has label k."""
    c = forest.order[position]
    p = forest.parent[c]
    value = best[c, k]
    if p >= 0:
        value += _table_entry(transitions, forest, c, labels[p], k)
    return value


@inner_kernel
def _way_down(transitions, forest, best, labels, start):
    """Best labels of the nodes from position `start` on, given those before."""
    for position in range(start, forest.order.shape[0]):
        chosen, top = 0, -math.inf
        for k in range(best.shape[1]):
            value = _value_of(transitions, forest, best, labels, position, k)
            if value > top:
                chosen, top = k, value
        labels[forest.order[position]] = chosen


@kernel
def tree_max(unary, transitions, forest, labels, scratch):
    """Best labelling of a forest, by max-product from the leaves to the roots."""
    n = unary.shape[0]
    best = scratch.belief
    _best_below(unary, transitions, forest, best)
    _way_down(transitions, forest, best, labels, 0)
    total = 0.0
    for t in range(n):
        if forest.parent[t] < 0:
            total += best[t, labels[t]]
    return total


@kernel
def tree_max_marginals(unary, transitions, forest, out, scratch):
    """Best score of a forest through each label of each node, by one pass up and one down."""
    n, n_labels = unary.shape
    best, outside = scratch.belief, scratch.rows[0]
    _best_below(unary, transitions, forest, best)
    total = 0.0
    for t in range(n):
        if forest.parent[t] < 0:
            total += row_max(best[t], 0, n_labels)
    for position in range(n):
        c = forest.order[position]
        p = forest.parent[c]
        if p < 0:
            # A tree without a labelling leaves none to the others.
            rest = total - row_max(best[c], 0, n_labels) if total > -math.inf else total
            for k in range(n_labels):
                out[c, k] = best[c, k] + rest
            continue
        for j in range(n_labels):
            message = -math.inf
            for k in range(n_labels):
                step = _table_entry(transitions, forest, c, j, k)
                message = max(message, best[c, k] + step)
            # Where the message is -inf no labelling is left, and the score is -inf, too.
            outside[j] = out[p, j] - message if out[p, j] > -math.inf else -math.inf
        for k in range(n_labels):
            above = -math.inf
            for j in range(n_labels):
                above = max(above, outside[j] + _table_entry(transitions, forest, c, j, k))
            out[c, k] = best[c, k] + above


@kernel
def tree_log_partition(unary, transitions, temperature, forest, scratch):
    """``temperature * log sum_y exp(score(y) / temperature)``, by log-messages to the roots."""
    n, n_labels = unary.shape
    belief, message, taken, row = scratch.belief, scratch.message, scratch.taken, scratch.rows[0]
    for t in range(n):
        for k in range(n_labels):
            belief[t, k] = unary[t, k] / temperature
    total = 0.0
    for position in range(n - 1, -1, -1):
        c = forest.order[position]
        p = forest.parent[c]
        if p < 0:
            total += log_sum_exp(belief[c], 0, n_labels)
            continue
        for j in range(n_labels):
            for k in range(n_labels):
                step = _table_entry(transitions, forest, c, j, k)
                row[k] = belief[c, k] + step / temperature
            message[c, j] = log_sum_exp(row, 0, n_labels)
        top = row_max(message[c], 0, n_labels)
        total += top
        taken[c] = top
        for j in range(n_labels):
            if top > -math.inf:
                message[c, j] -= top
            belief[p, j] += message[c, j]
    return temperature * total


@inner_kernel
def _normalise(belief, mu, n_labels):
    """Make logarithms those of probabilities, which go to `mu`."""
    top = row_max(belief, 0, n_labels)
    total = 0.0
    for k in range(n_labels):
        mu[k] = fast_exp(belief[k] - top)
        total += mu[k]
    log_z = top + math.log(total)
    for k in range(n_labels):
        mu[k] /= total
        belief[k] -= log_z


@kernel
def tree_marginals(unary, transitions, temperature, forest, node_mu, pair_mu, place, scratch):
    """Marginals of nodes and edges of a forest, by sum-product in the log domain."""
    n, n_labels = unary.shape
    log_z = tree_log_partition(unary, transitions, temperature, forest, scratch)
    if not log_z > -math.inf:
        return log_z
    belief, message, taken = scratch.belief, scratch.message, scratch.taken
    outside, row = scratch.rows[0], scratch.rows[1]
    for e in range(pair_mu.shape[0]):
        for j in range(n_labels):
            for k in range(n_labels):
                pair_mu[e, j, k] = 0.0
    for position in range(n):
        c = forest.order[position]
        p = forest.parent[c]
        if p >= 0:
            e = 0 if pair_mu.shape[0] == 1 else place[c]
            for j in range(n_labels):
                # Where the message is -inf no labelling is left, and the belief is -inf, too.
                known = belief[p, j] > -math.inf
                outside[j] = belief[p, j] - message[c, j] if known else -math.inf
            for k in range(n_labels):
                inside = belief[c, k]
                for j in range(n_labels):
                    step = _table_entry(transitions, forest, c, j, k) / temperature
                    row[j] = outside[j] + step
                    share = fast_exp(min(row[j] + inside - taken[c], 0.0))
                    if forest.flip[c] == 1:
                        pair_mu[e, k, j] += share
                    else:
                        pair_mu[e, j, k] += share
                belief[c, k] = inside + log_sum_exp(row, 0, n_labels)
        _normalise(belief[c], node_mu[c], n_labels)
    return log_z


@kernel
def tree_top_k(unary, transitions, forest, values, labels, scratch):
    """The n best labellings of a forest, in O(n K (K + k log k)) at most, by deviations.

    A deviation keeps a labelling up to a node, changes that, and is best below (Lawler 1972;
    Nilsson 1998), unlike Seroussi and Golmard 1994 and Pillutla et al. 2019, Algorithm 8.
    """
    n, n_labels = unary.shape
    size = values.shape[0]
    best = scratch.belief
    top = scratch.top
    clear_top(top)
    for q in range(size):
        values[q] = -math.inf
        for t in range(n):
            labels[q, t] = 0
    offer_top(top, size, tree_max(unary, transitions, forest, labels[0], scratch), -1, -1, 0)
    for q in range(size):
        value, source, split, label = take_top(top)
        if not value > -math.inf:
            return
        values[q] = value
        if q > 0:
            for position in range(split):
                labels[q, forest.order[position]] = labels[source, forest.order[position]]
            labels[q, forest.order[split]] = label
            _way_down(transitions, forest, best, labels[q], split + 1)
        left = size - q - 1
        if left == 0:
            return
        for position in range(split + 1, n):
            own = labels[q, forest.order[position]]
            without = value - _value_of(transitions, forest, best, labels[q], position, own)
            for k in range(n_labels):
                candidate = without + _value_of(transitions, forest, best, labels[q], position, k)
                if candidate > top.least[0] and k != own:
                    offer_top(top, left, candidate, q, position, k)


# Root the trees of graphs without cycles, or tell which graph has one.


def find_trees(
    ends: np.ndarray, edge_ptr: np.ndarray, node_ptr: np.ndarray
) -> tuple[int, np.ndarray, int]:
    """Number of components, that of each node, and the first graph with a cycle, or -1."""
    n = int(node_ptr[-1])
    first, second = _ends_over_all(ends, edge_ptr, node_ptr)
    links = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(n, n))
    n_trees, tree = connected_components(links, directed=False)
    has_cycle = np.bincount(tree[first], minlength=n_trees) >= np.bincount(tree, minlength=n_trees)
    if not has_cycle.any():
        return n_trees, tree, -1
    node = np.argmax(has_cycle[tree])
    return n_trees, tree, int(np.searchsorted(node_ptr, node, "right")) - 1


def _ends_over_all(ends, edge_ptr, node_ptr):
    """First and second ends, counted over all graphs."""
    return (ends + np.repeat(node_ptr[:-1], np.diff(edge_ptr))[:, None]).T


def root_forests(
    ends: np.ndarray, edge_ptr: np.ndarray, node_ptr: np.ndarray
) -> tuple[Forest, int]:
    """Roots, the edge of each node to its parent, and the first graph with a cycle, or -1."""
    # The root of a tree is its lowest node at which no edge ends, or else its lowest node, so that
    # most edges lead from parent to child.
    n, n_edges = int(node_ptr[-1]), np.diff(edge_ptr)
    n_trees, tree, cyclic = find_trees(ends, edge_ptr, node_ptr)
    edge, flip = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.uint8)
    if cyclic >= 0:
        return Forest(edge, edge, edge, flip), cyclic
    first, second = _ends_over_all(ends, edge_ptr, node_ptr)
    is_end, root = np.zeros(n, dtype=bool), np.zeros(n_trees, dtype=np.int64)
    is_end[second] = True
    for nodes in (np.flatnonzero(is_end), np.flatnonzero(~is_end)):
        root[tree[nodes[::-1]]] = nodes[::-1]  # the last one stays
    rows, columns = np.append(first, np.full(n_trees, n)), np.append(second, root)
    whole = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n + 1, n + 1))
    found, before = breadth_first_order(whole, n, directed=False)
    found, before = found[1:], before[:n]
    graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    found, start = found[np.argsort(graph[found], kind="stable")], node_ptr[:-1][graph]
    child = np.where(before[first] == second, first, second)
    edge[child] = np.arange(len(first)) - np.repeat(edge_ptr[:-1], n_edges)
    flip[child] = child == first
    parent = np.where(before == n, -1, before - start)
    return Forest((found - start).astype(np.int32), parent.astype(np.int32), edge, flip), -1

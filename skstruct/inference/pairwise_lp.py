"""The LP relaxation of one graph of nodes and edges, by messages that live on between calls.

Sequential sweeps (TRW-S) lower the bound fast. Where they do not meet the best labelling found,
sweeps of the smoothed dual give marginals of edges that nearly agree, and these are repaired into a
point of the local polytope.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from .numerics import fast_exp, row_max


class PairwiseLP(NamedTuple):
    """A graph, a view of the arrays of many.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Finite scores of nodes.
    tables : ndarray of shape (n_tables, n_labels, n_labels)
        Finite scores of edges.
    table : ndarray of int32
        Which of the tables each edge has.
    ends : ndarray of shape (n_edges, 2) of int32
        The nodes of each edge.
    ptr, edge : ndarray of int64 and int32
        The edges of node t are ``edge[ptr[t]:ptr[t + 1]]``.
    delta : ndarray of shape (n_edges, 2, n_labels)
        Messages to the two ends of each edge.
    """

    unary: np.ndarray
    tables: np.ndarray
    table: np.ndarray
    ends: np.ndarray
    ptr: np.ndarray
    edge: np.ndarray
    delta: np.ndarray


class LPScratch(NamedTuple):
    """Scratch of one thread.

    Parameters
    ----------
    hat, row, column : ndarray of shape (n_labels,)
        Scores of one node, and of the two ends of one edge.
    square : ndarray of shape (n_labels, n_labels)
        Marginals of one edge.
    beliefs : ndarray of shape (n_nodes, n_labels)
        Marginals of nodes.
    """

    hat: np.ndarray
    row: np.ndarray
    column: np.ndarray
    square: np.ndarray
    beliefs: np.ndarray


def lp_scratch(n_nodes, n_labels):
    """Scratch for graphs of at most `n_nodes` nodes.

    Parameters
    ----------
    n_nodes, n_labels : int
        Size of the largest graph.

    Returns
    -------
    LPScratch
        The scratch.

    Examples
    --------
    >>> from skstruct.inference.pairwise_lp import lp_scratch
    >>> lp_scratch(3, 2).beliefs.shape
    (3, 2)
    """
    vectors = np.empty((3, n_labels))
    return LPScratch(*vectors, np.empty((n_labels, n_labels)), np.empty((n_nodes, n_labels)))


@inner_kernel
def _collect(p, t, hat):
    """Reparametrised scores of a node."""
    n_labels = p.unary.shape[1]
    for k in range(n_labels):
        hat[k] = p.unary[t, k]
    for q in range(p.ptr[t], p.ptr[t + 1]):
        e = p.edge[q]
        side = 0 if p.ends[e, 0] == t else 1
        for k in range(n_labels):
            hat[k] += p.delta[e, side, k]


@inner_kernel
def _max_out(p, e, side, given, out):
    """``out[y] <- max_x given[x] + score``, x the label at end `side` of an edge."""
    n_labels = given.shape[0]
    table = p.tables[p.table[e]]
    for y in range(n_labels):
        out[y] = -math.inf
    if side == 0:
        for x in range(n_labels):
            for y in range(n_labels):
                s = given[x] + table[x, y]
                out[y] = s if s > out[y] else out[y]
    else:
        for y in range(n_labels):
            best = -math.inf
            for x in range(n_labels):
                s = given[x] + table[y, x]
                best = s if s > best else best
            out[y] = best


@kernel
def lp_sweep(p, forward, labels, scratch):
    """One sweep of sequential coordinate descent; decodes on the way.

    Parameters
    ----------
    p : PairwiseLP
        The graph; its messages change.
    forward : bool
        Nodes in their order, or in the opposite one.
    labels : ndarray of int32
        Receives a labelling: the best label of each node given those of the nodes before.
    scratch : LPScratch
        Scratch.

    References
    ----------
    Kolmogorov 2006, Convergent tree-reweighted message passing for energy minimization.
    """
    n, n_labels = p.unary.shape
    hat, row, column = scratch.hat, scratch.row, scratch.column
    for position in range(n):
        t = position if forward else n - 1 - position
        _collect(p, t, hat)
        before = after = 0
        for k in range(n_labels):
            row[k] = hat[k]
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e = p.edge[q]
            side = 0 if p.ends[e, 0] == t else 1
            o = p.ends[e, 1 - side]
            if (o > t) == forward:
                after += 1
                continue
            before += 1
            table = p.tables[p.table[e]]
            for k in range(n_labels):
                score = table[k, labels[o]] if side == 0 else table[labels[o], k]
                row[k] += score - p.delta[e, side, k]
        chosen = 0
        for k in range(1, n_labels):
            chosen = k if row[k] > row[chosen] else chosen
        labels[t] = chosen
        share = 1.0 / max(before, after, 1)
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e = p.edge[q]
            side = 0 if p.ends[e, 0] == t else 1
            if (p.ends[e, 1 - side] > t) != forward:
                continue
            for k in range(n_labels):
                row[k] = share * hat[k] - p.delta[e, side, k]
            _max_out(p, e, side, row, column)
            top = row_max(column, 0, n_labels)
            for k in range(n_labels):
                p.delta[e, 1 - side, k] = column[k] - top


@kernel
def lp_bound(p, scratch):
    """A bound on the score of every labelling, valid for any messages.

    Parameters
    ----------
    p : PairwiseLP
        The graph.
    scratch : LPScratch
        Scratch.

    Returns
    -------
    float
        The dual objective, nodes' scores shared evenly among their edges.
    """
    n, n_labels = p.unary.shape
    hats = scratch.beliefs
    total = 0.0
    for t in range(n):
        _collect(p, t, scratch.hat)
        degree = p.ptr[t + 1] - p.ptr[t]
        for k in range(n_labels):
            hats[t, k] = scratch.hat[k] / max(degree, 1)
        if degree == 0:
            total += row_max(scratch.hat, 0, n_labels)
    for t in range(n):
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e = p.edge[q]
            if p.ends[e, 0] != t:
                continue
            o = p.ends[e, 1]
            for k in range(n_labels):
                scratch.row[k] = hats[t, k] - p.delta[e, 0, k]
            _max_out(p, e, 0, scratch.row, scratch.column)
            best = -math.inf
            for k in range(n_labels):
                s = scratch.column[k] + hats[o, k] - p.delta[e, 1, k]
                best = s if s > best else best
            total += best
    return total


@inner_kernel
def _soft_out(p, e, side, given, gamma, out, square):
    """``out[y] <- gamma log sum_x exp((given[x] + score) / gamma)``, x at end `side`."""
    n_labels = given.shape[0]
    table = p.tables[p.table[e]]
    _max_out(p, e, side, given, out)
    for y in range(n_labels):
        for x in range(n_labels):
            s = given[x] + (table[x, y] if side == 0 else table[y, x])
            square[y, x] = fast_exp((s - out[y]) / gamma)
    for y in range(n_labels):
        total = 0.0
        for x in range(n_labels):
            total += square[y, x]
        out[y] += gamma * math.log(total)


@kernel
def lp_soft_sweep(p, gamma, scratch):
    """One sweep of coordinate descent on the dual smoothed by entropies.

    Parameters
    ----------
    p : PairwiseLP
        The graph; its messages change.
    gamma : float
        The smoothing, positive.
    scratch : LPScratch
        Scratch.

    References
    ----------
    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, Table 1
    (star update).
    """
    n, n_labels = p.unary.shape
    hat, row = scratch.hat, scratch.row
    for t in range(n):
        for k in range(n_labels):
            hat[k] = p.unary[t, k]
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e = p.edge[q]
            side = 0 if p.ends[e, 0] == t else 1
            for k in range(n_labels):
                row[k] = -p.delta[e, 1 - side, k]
            _soft_out(p, e, 1 - side, row, gamma, scratch.column, scratch.square)
            for k in range(n_labels):
                p.delta[e, side, k] = scratch.column[k]
                hat[k] += scratch.column[k]
        share = 1.0 / (p.ptr[t + 1] - p.ptr[t] + 1)
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e = p.edge[q]
            side = 0 if p.ends[e, 0] == t else 1
            for k in range(n_labels):
                p.delta[e, side, k] -= share * hat[k]


@inner_kernel
def _soften(values, gamma, out):
    """``out <- softmax(values / gamma)``."""
    top = row_max(values, 0, values.shape[0])
    total = 0.0
    for k in range(values.shape[0]):
        out[k] = fast_exp((values[k] - top) / gamma)
        total += out[k]
    for k in range(values.shape[0]):
        out[k] /= total


@kernel
def lp_node_beliefs(p, gamma, scratch):
    """Write the marginals of nodes at the present messages to ``scratch.beliefs``.

    Parameters
    ----------
    p : PairwiseLP
        The graph.
    gamma : float
        The smoothing, positive.
    scratch : LPScratch
        Scratch.
    """
    for t in range(p.unary.shape[0]):
        _collect(p, t, scratch.hat)
        _soften(scratch.hat, gamma, scratch.beliefs[t])


@inner_kernel
def _fill_square(p, e, gamma, square):
    """Marginals of an edge at the present messages, not normalised; returns their sum."""
    n_labels = square.shape[0]
    table = p.tables[p.table[e]]
    top, total = -math.inf, 0.0
    for x in range(n_labels):
        for y in range(n_labels):
            s = table[x, y] - p.delta[e, 0, x] - p.delta[e, 1, y]
            square[x, y] = s
            top = s if s > top else top
    for x in range(n_labels):
        for y in range(n_labels):
            square[x, y] = fast_exp((square[x, y] - top) / gamma)
            total += square[x, y]
    return total


@kernel
def lp_edge_beliefs(p, e, gamma, scratch):
    """Write marginals of an edge that agree with those of its nodes to ``scratch.square``.

    Those at the present messages, scaled down by rows and columns until no sum is too large; what
    is missing is added as a product.

    Parameters
    ----------
    p : PairwiseLP
        The graph.
    e : int
        The edge.
    gamma : float
        The smoothing, positive.
    scratch : LPScratch
        Has the marginals of nodes.

    References
    ----------
    Altschuler, Weed, Rigollet 2017, Near-linear time approximation algorithms for optimal transport
    via Sinkhorn iteration, Algorithm 2.
    """
    square, row, column = scratch.square, scratch.row, scratch.column
    n_labels = square.shape[0]
    left, right = scratch.beliefs[p.ends[e, 0]], scratch.beliefs[p.ends[e, 1]]
    total = _fill_square(p, e, gamma, square)
    for x in range(n_labels):
        mass = 0.0
        for y in range(n_labels):
            square[x, y] /= total
            mass += square[x, y]
        scale = left[x] / mass if mass > left[x] else 1.0
        row[x] = left[x] - scale * mass
        for y in range(n_labels):
            square[x, y] *= scale
    missing = 0.0
    for y in range(n_labels):
        mass = 0.0
        for x in range(n_labels):
            mass += square[x, y]
        scale = right[y] / mass if mass > right[y] else 1.0
        column[y] = right[y] - scale * mass
        missing += column[y]
        for x in range(n_labels):
            row[x] += (1.0 - scale) * square[x, y]
            square[x, y] *= scale
    if missing > 0.0:
        for x in range(n_labels):
            for y in range(n_labels):
                square[x, y] += row[x] * column[y] / missing

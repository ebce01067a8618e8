"""Base classes of spaces with labels of nodes and pairs of labels on edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import generic
from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import add_indicator, count_states, edge_marginals, forbid, sample_oracle, score
from ..inference.numerics import conditional_entropy, draw
from .labels import LabelSpace, forbid_labels


class PairwiseSpace(NamedTuple):
    """Labels of nodes, and pairs of labels on edges.

    Structures define subclasses, which inherit the operations of this file.

    Parameters
    ----------
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts and the nodes of each sample begin.
    shares_tables : int
        1 when edges share tables, 0 when each has its own.
    n_tables : ndarray of shape (n_samples,) of int64
        Number of transition tables in the parts of each sample: that of its edges, or of the
        tables that they share.
    width : int
        Entries of a table, ``n_labels ** 2``, or fewer if label pairs share weights: such a class
        registers all operations itself, including :func:`~skstruct.core.oracles.forbid`.
    transition_mask : ndarray of shape (n_labels, n_labels)
        0, or -inf for a forbidden transition.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels allowed at each node; no rows when all are.
    own : tuple
        Data of the structure, a tuple or NamedTuple of arrays and numbers, or ``()``.
    work : NamedTuple
        Scratch of the structure's oracles for one thread.

    Notes
    -----
    Parts of a sample of T nodes and K labels: the node parts, label k of node t at ``t * K + k``;
    then ``n_tables[i]`` tables of transitions, (j, k) of table e at ``T * K + e * K * K + j * K +
    k``. With one shared table its indicators are summed over the edges.
    """

    writes_what_fits = True

    part_ptr: np.ndarray
    label_ptr: np.ndarray
    shares_tables: int
    n_tables: np.ndarray
    width: int
    transition_mask: np.ndarray
    allowed: np.ndarray
    own: tuple
    work: tuple


@inner_kernel(inline=True)
def shape_of(space, i):
    """First node, numbers of nodes, labels and transition tables."""
    first = space.label_ptr[i]
    n = space.label_ptr[i + 1] - first
    return first, n, space.allowed.shape[1], space.n_tables[i]


@inner_kernel(inline=True)
def blocks(space, i, theta):
    """Node parts and transition parts of `theta`, as views with their shapes."""
    n_labels, n_tables = space.allowed.shape[1], space.n_tables[i]
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    size = n * n_labels
    unary = theta[:size].reshape(n, n_labels)
    pair = theta[size : size + n_tables * n_labels * n_labels]
    return unary, pair.reshape(n_tables, n_labels, n_labels)


@forbid.register(PairwiseSpace)
@kernel
def _(space, i, theta):
    _, n, n_labels, n_tables = shape_of(space, i)
    for e in range(n_tables if theta.shape[0] > n * n_labels else 0):
        for j in range(n_labels):
            o = (n + e * n_labels + j) * n_labels
            for k in range(n_labels):
                theta[o + k] += space.transition_mask[j, k]
    forbid_labels(space, i, theta)


for _verb in (count_states, sample_oracle):
    _verb.register(PairwiseSpace)(_verb.registry[LabelSpace])


# Draws and entropies from marginals of edges, for graphs without cycles.


@generic(part="space")
def edge_above(problem, i, position):
    """A node, its parent or -1, and offset and strides of their edge's marginals, parents first."""


@kernel
def draw_along_edges(space, i, theta, mu, room, uniforms, labels):
    """A kernel for :func:`~skstruct.core.oracles.sample_oracle`: each label given the parent's."""
    n_labels = space.allowed.shape[1]
    value = edge_marginals(space, i, theta, mu, room)
    for d in range(labels.shape[0] if value > -math.inf else 0):
        for position in range(labels.shape[1]):
            c, p, begin, row, step = edge_above(space, i, position)
            if p < 0:
                labels[d, c] = draw(mu, c * n_labels, 1, n_labels, uniforms[c, d])
            else:
                begin += labels[d, p] * row
                labels[d, c] = draw(room, begin, step, n_labels, uniforms[c, d])
    return value


@kernel
def entropy_along_edges(space, i, theta, mu, room):
    """A kernel for :func:`~skstruct.core.oracles.entropy`: of each label given the parent's."""
    n_labels, total = space.allowed.shape[1], 0.0
    if not edge_marginals(space, i, theta, mu, room) > -math.inf:
        return math.nan
    for position in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        c, p, begin, row, step = edge_above(space, i, position)
        if p < 0:
            total += conditional_entropy(mu, c * n_labels, 0, 1, 1, n_labels)
        else:
            total += conditional_entropy(room, begin, row, step, n_labels, n_labels)
    return total


# Graphs of any edges: the common part of all inference methods.


class Network(NamedTuple):
    """The edges of all samples."""

    # (n_edges, 2): Nodes of each edge, as indices within the sample.
    ends: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    ptr: np.ndarray
    # (n_edges,): Index of the table of an edge in the sample's parts: that of its type, or its own.
    table: np.ndarray
    # (n_labels, n_labels): Entry of a pair of labels in a table; -1 if it scores 0.
    column: np.ndarray
    # Additional data of the oracles.
    inference: tuple


class NetworkSpace(PairwiseSpace):
    """Graphs packed for kernels; oracles add forbidden pairs, as pairs share potentials."""

    structure, inference, writes_what_fits = "Pairwise", "exact", True
    remedy = ', or inference="junction-tree" where tables are small'


@inner_kernel(inline=True)
def pair_score(space, theta, begin, j, k):
    """Score of labels (j, k) on an edge whose table begins at `begin`."""
    column = space.own.column[j, k]
    value = theta[begin + column] if column >= 0 else 0.0
    return value + space.transition_mask[j, k]


@inner_kernel
def add_pair(space, mu, begin, j, k, c):
    """Add to the entry of a pair of labels in the table at `begin`, if it has one."""
    column = space.own.column[j, k]
    if column >= 0:
        mu[begin + column] += c


@inner_kernel
def expand_tables(space, i, theta, out):
    """Write all tables of sample i in full, label pairs row-major, to `out`."""
    _, n, n_labels, n_tables = shape_of(space, i)
    o = 0
    for e in range(n_tables):
        begin = n * n_labels + e * space.width
        for j in range(n_labels):
            for k in range(n_labels):
                out[o] = pair_score(space, theta, begin, j, k)
                o += 1


@inner_kernel
def fold_tables(space, i, full, mu):
    """Write the tables of `mu`: sums of full tables over the label pairs that share an entry."""
    _, n, n_labels, n_tables = shape_of(space, i)
    size, width = n * n_labels, space.width
    for q in range(size, size + n_tables * width):
        mu[q] = 0.0
    o = 0
    for e in range(n_tables):
        for j in range(n_labels):
            for k in range(n_labels):
                add_pair(space, mu, size + e * width, j, k, full[o])
                o += 1


@forbid.register(NetworkSpace)
@kernel
def _(space, i, theta):
    forbid_labels(space, i, theta)


@add_indicator.register(NetworkSpace)
@kernel
def _(space, i, labels, c, mu):
    _, n, n_labels, _ = shape_of(space, i)
    own = space.own
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * space.width
        add_pair(space, mu, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]], c)


@score.register(NetworkSpace)
@kernel
def _(space, i, theta, labels):
    _, n, n_labels, _ = shape_of(space, i)
    own = space.own
    total = 0.0
    for t in range(n):
        total += theta[t * n_labels + labels[t]]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * space.width
        total += pair_score(space, theta, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]])
    return total

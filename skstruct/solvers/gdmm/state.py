"""What GDMM on nodes and edges works on: the factors, the choices, the dual point."""

from typing import NamedTuple

import numpy as np

from ...inference.ordered import MaxTrees
from .active_sets import ActiveSets

BCFW, AFW, BGCD = 0, 1, 2
SUBLINEAR, EXACT, SAMPLED = 0, 1, 2
# Entries of ``GDMMState.totals``.
SEARCH, ALL, INFEASIBILITY, CHANGE = range(4)


class GDMMGraph(NamedTuple):
    """Nodes and edges of all samples.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of the nodes.
    node_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes and the edges of each sample begin.
    ends : ndarray of shape (n_edges, 2) of int64
        The nodes at the two ends of each edge.
    port_ptr : ndarray of shape (n_nodes + 1,) of int64
        Where the ports of each node begin in `ports`.
    ports : ndarray of shape (2 * n_edges,) of int64
        Port 2 f is the first end of edge f, port 2 f + 1 the second.
    every_port : ndarray of shape (2 * n_edges,) of int64
        All of them in their own order.
    labels : ndarray of shape (n_nodes,) of int32
        True labels.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels that a node may have.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of (true label, label).
    share : ndarray of shape (n_nodes,)
        Factor on the task loss of each node.
    squares : ndarray of shape (n_nodes,)
        Squared norms of the feature rows.
    """

    nodes: tuple
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    ends: np.ndarray
    port_ptr: np.ndarray
    ports: np.ndarray
    every_port: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    share: np.ndarray
    squares: np.ndarray


class GDMMOptions(NamedTuple):
    """Choices of one run.

    Parameters
    ----------
    variant : int
        BCFW, AFW or BGCD.
    search : int
        SUBLINEAR, EXACT or SAMPLED.
    rho, eta : float
        Strength of the penalty, step of the multipliers.
    n_partitions : int
        Parts of the labels, one of which is searched at each visit.
    wake : int
        0 while all edges of label sets are kept at rest.
    """

    variant: int
    search: int
    rho: float
    eta: float
    n_partitions: int
    wake: int


class Pad(NamedTuple):
    """Scratch for the messages at both ends of an edge, or at a node.

    Parameters
    ----------
    message : ndarray of shape (2, n_labels)
        Zeros between visits.
    mark : ndarray of shape (2, n_labels) of uint8
        Zeros between visits: where there are messages.
    touched : ndarray of shape (2, n_labels + 1) of int64
        Where `mark` is set.
    """

    message: np.ndarray
    mark: np.ndarray
    touched: np.ndarray


class GDMMState(NamedTuple):
    """The dual point, the messages, the search structures and scratch.

    Parameters
    ----------
    nodes, edges : ActiveSets
        Entries (label, q) and (label * n_labels + label, q); the truth comes first.
    ports : ActiveSets
        Entries (label, marginal of q_f, nu).
    reach : ndarray of shape (n_samples,)
        C_i, the factor on the loss of each sample.
    table, turned : ndarray of shape (n_labels, n_labels)
        T and its transpose, -inf where forbidden.
    rows, columns : MaxTrees
        Their trees.
    pad : Pad
        Scratch for messages.
    scores : ndarray of shape (2, n_labels)
        Scratch.
    value, before : ndarray
        Scratch for one active set.
    cursor : ndarray of shape (2,) of int64
        Position of the pass: sample, factor.
    totals : ndarray of shape (4,)
        Cycles spent in search, and in all; largest infeasibility; sum of squared changes.
    """

    nodes: ActiveSets
    edges: ActiveSets
    ports: ActiveSets
    reach: np.ndarray
    table: np.ndarray
    turned: np.ndarray
    rows: MaxTrees
    columns: MaxTrees
    pad: Pad
    scores: np.ndarray
    value: np.ndarray
    before: np.ndarray
    cursor: np.ndarray
    totals: np.ndarray

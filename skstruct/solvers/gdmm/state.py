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
    """Nodes and edges of all samples."""

    # Feature rows of the nodes.
    nodes: tuple
    # (n_samples + 1,): Where the nodes and the edges of each sample begin.
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    # (n_edges, 2): The nodes at the two ends of each edge.
    ends: np.ndarray
    # (n_nodes + 1,): Where the ports of each node begin in `ports`.
    port_ptr: np.ndarray
    # (2 * n_edges,): Port 2 f is the first end of edge f, port 2 f + 1 the second.
    ports: np.ndarray
    # (2 * n_edges,): All of them in their own order.
    every_port: np.ndarray
    # (n_nodes,): True labels.
    labels: np.ndarray
    # (n_nodes or 0, n_labels): Labels that a node may have.
    allowed: np.ndarray
    # (n_labels, n_labels): Task loss of (true label, label).
    cost: np.ndarray
    # (n_nodes,): Factor on the task loss of each node.
    share: np.ndarray
    # (n_nodes,): Squared norms of the feature rows.
    squares: np.ndarray


class GDMMOptions(NamedTuple):
    """Choices of one run."""

    # BCFW, AFW or BGCD.
    variant: int
    # SUBLINEAR, EXACT or SAMPLED.
    search: int
    # Strength of the penalty, step of the multipliers.
    rho: float
    eta: float
    # Parts of the labels, one of which is searched at each visit.
    n_partitions: int
    # 0 while all edges of label sets are kept at rest.
    wake: int


class Pad(NamedTuple):
    """Scratch for the messages at both ends of an edge, or at a node."""

    # (2, n_labels): Zeros between visits.
    message: np.ndarray
    # (2, n_labels): Zeros between visits: where there are messages.
    mark: np.ndarray
    # (2, n_labels + 1): Where `mark` is set.
    touched: np.ndarray


class GDMMState(NamedTuple):
    """The dual point, the messages, the search structures and scratch."""

    # Entries (label, q) and (label * n_labels + label, q); the truth comes first.
    nodes: ActiveSets
    edges: ActiveSets
    # Entries (label, marginal of q_f, nu).
    ports: ActiveSets
    # (n_samples,): C_i, the factor on the loss of each sample.
    reach: np.ndarray
    # (n_labels, n_labels): T and its transpose, -inf where forbidden.
    table: np.ndarray
    turned: np.ndarray
    # Their trees.
    rows: MaxTrees
    columns: MaxTrees
    # Scratch for messages.
    pad: Pad
    # (2, n_labels): Scratch.
    scores: np.ndarray
    # Scratch for one active set.
    value: np.ndarray
    before: np.ndarray
    # (2,): Position of the pass: sample, factor.
    cursor: np.ndarray
    # (4,): Cycles spent in search, and in all; largest infeasibility; sum of squared changes.
    totals: np.ndarray

"""Factors: how a structure describes itself to solvers that split samples into small pieces."""

from typing import NamedTuple

import numpy as np


class PairwiseFactors(NamedTuple):
    """Nodes with labels, and edges that score pairs of labels by one table or one each."""

    # Feature rows of the nodes of all samples.
    nodes: tuple
    # (n_samples + 1,): Where the nodes and the edges of each sample begin.
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    # (n_edges, 2): The nodes at the two ends of each edge, counted over all samples.
    ends: np.ndarray
    # (n_nodes,): True labels.
    labels: np.ndarray
    # (n_nodes or 0, n_labels): Labels that a node may have; no rows when all are allowed.
    allowed: np.ndarray
    # (n_labels, n_labels): Task loss of (true label, label) at a node.
    cost: np.ndarray
    # (n_samples,): Factor on the task loss of each sample, or of each node.
    share: np.ndarray
    # (n_labels, n_labels): 0, or -inf for pairs of labels that no edge may have; None without
    # edges.
    mask: np.ndarray | None
    # Feature rows of the edges; None where all edges share one table of pairs.
    edges: tuple | None = None
    # (n_labels, n_labels): With `edges`, the column of each pair of labels in the pair weights,
    # -1 if it scores 0.
    column: np.ndarray | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels of a node."""
        return self.cost.shape[0]


class BinaryFactors(NamedTuple):
    """Labels that are on or off; all samples share the same edges between them."""

    # One feature row per sample.
    nodes: tuple
    # (n_samples, n_labels): Ones where a label is on.
    labels: np.ndarray
    # (2, 2): Task loss of (true, predicted) at a label, as it counts in the task loss of a sample.
    cost: np.ndarray
    # (n_samples,): Squared norms of the feature rows, the constant feature included.
    squares: np.ndarray
    # (n_edges, 2): The labels of each edge.
    ends: np.ndarray
    # 1 where an edge has weights for all four combinations, 0 where for "both on" only.
    full: int
    # (n_samples or 0, n_labels): Factor on the task loss of each label; no rows without factors.
    factor: np.ndarray = np.empty((0, 0))

    @property
    def n_labels(self) -> int:
        """Number of labels of a sample."""
        return self.labels.shape[1]

"""Factors: how a structure describes itself to solvers that split samples into small pieces."""

from typing import NamedTuple

import numpy as np


class PairwiseFactors(NamedTuple):
    """Nodes with labels, and edges that score pairs of labels by one table.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of the nodes of all samples.
    node_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes and the edges of each sample begin.
    ends : ndarray of shape (n_edges, 2) of int64
        The nodes at the two ends of each edge, counted over all samples.
    labels : ndarray of shape (n_nodes,) of int32
        True labels.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels that a node may have; no rows when all are.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of (true label, label) at a node.
    share : ndarray of shape (n_samples,) or (n_nodes,)
        Factor on the task loss of each sample, or of each node.
    mask : ndarray of shape (n_labels, n_labels) or None
        0, or -inf for pairs of labels that no edge may have; None without edges.
    edge_features : bool
        Whether edges have features, and one table of weights for each, rather than one table.
    """

    nodes: tuple
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    ends: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    share: np.ndarray
    mask: np.ndarray | None
    edge_features: bool = False

    @property
    def n_labels(self) -> int:
        """Labels that a node is searched for."""
        return self.cost.shape[0]


class BinaryFactors(NamedTuple):
    """Labels that are on or off; all samples share the same edges between them.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        A feature row a sample.
    labels : ndarray of shape (n_samples, n_labels) of int32
        Ones where a label is on.
    cost : ndarray of shape (2, 2)
        Task loss of (true, predicted) at a label, as it counts in the task loss of a sample.
    squares : ndarray of shape (n_samples,)
        Squared norms of the feature rows, the constant feature included.
    ends : ndarray of shape (n_edges, 2) of int32
        The labels of each edge.
    full : int
        1 where an edge has weights for all four combinations, 0 where for "both on" only.
    factor : ndarray of shape (n_samples or 0, n_labels)
        Factor on the task loss of each label; no rows where there is none.
    """

    nodes: tuple
    labels: np.ndarray
    cost: np.ndarray
    squares: np.ndarray
    ends: np.ndarray
    full: int
    factor: np.ndarray = np.empty((0, 0))

    edge_features = False

    @property
    def n_labels(self) -> int:
        """Labels of a sample that are searched."""
        return self.labels.shape[1]

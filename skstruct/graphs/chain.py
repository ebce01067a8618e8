"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from ..features import ConstantFeature
from ..gram import GramByTable, gram_of
from ..inference.forward_backward import workspace_size
from ..losses import cost_matrix
from ..packing import (
    Samples,
    check_n_features,
    normal_csr,
    read_sequence_labels,
    read_sequences,
)
from ..ragged import RaggedArray, object_array
from ..weights import aligned
from .base import Graph, feature_rows, no_codes
from .chain_kernels import ChainProblem
from .constraints import check_truth, transition_mask

__all__ = ["Chain", "ChainProblem"]


class Chain(Graph):
    """A sequence of nodes; each label interacts with the next.

    Parameters
    ----------
    boundary : bool, default=False
        Whether a label has scores of its own at the first and at the last node.
    edge_features : bool, default=False
        Whether transitions depend on features. A sample of X is then a pair (features, edge
        features of shape (n_nodes - 1, n_edge_features)), and every edge feature has a (n_classes,
        n_classes) table of weights. Without them all edges share one table.
    forbidden : str or list of pairs, default=None
        Steps that may not occur, in training and in prediction: a tagging scheme ("iob1", "iob2",
        "ioe1", "ioe2", "iobes"), or pairs (label, next label) with None for an end of the sequence.

    Examples
    --------
    >>> from skstruct import Chain, SAGCRF
    >>> SAGCRF(graph=Chain(forbidden="iob2"))
    SAGCRF(graph=Chain(forbidden='iob2'))
    """

    def __init__(self, boundary=False, edge_features=False, forbidden=None):
        self.boundary = boundary
        self.edge_features = edge_features
        self.forbidden = forbidden

    def read_X(self, estimator, X, reset):
        """Pack X; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes or has ``n_features_in_``.
        X : list, object array, 3-D array or RaggedArray
            The sequences.
        reset : bool
            True in fit.

        Returns
        -------
        Samples
            The packed sequences.
        """
        samples = read_sequences(X, edge_features=self.edge_features)
        name = type(estimator).__name__
        if reset:
            empty = np.flatnonzero(np.diff(samples.offsets) == 0)
            if empty.size:
                raise ValueError(
                    f"X: sample {empty[0]} is empty, a sequence needs at least one node"
                )
            estimator.n_features_in_ = samples.features.shape[1]
            if self.edge_features:
                estimator.n_edge_features_in_ = samples.edge_features.shape[1]
        check_n_features(samples.features.shape[1], estimator.n_features_in_, name)
        if self.edge_features:
            n_edge_features = samples.edge_features.shape[1]
            check_n_features(n_edge_features, estimator.n_edge_features_in_, name, "edge features")
        return samples

    def read_y(self, y, samples):
        """Flat labels of all nodes of `samples`.

        Parameters
        ----------
        y : list, object array or RaggedArray
            The label sequences.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_nodes,)
            The labels.
        """
        return read_sequence_labels(y, samples.offsets)

    def weight_shapes(self, samples, n_classes, fit_intercept):
        """Shapes of the node and the pair table.

        Parameters
        ----------
        samples : Samples
            For the numbers of features.
        n_classes : int
            Number of labels.
        fit_intercept : bool
            Whether there is a constant feature.

        Returns
        -------
        tuple of two tuples of int
            (features, then start and stop if `boundary`, then the intercept) x labels, and
            (edge features or 1) x label pairs.
        """
        n_rows = samples.features.shape[1] + 2 * bool(self.boundary) + bool(fit_intercept)
        n_pair_rows = samples.edge_features.shape[1] if self.edge_features else 1
        return (n_rows, n_classes), (n_pair_rows, n_classes * n_classes)

    def make_problem(
        self, samples, classes, fit_intercept, *, codes=None, loss="hamming", allowed=None, n_best=1
    ):
        """Build the problem for kernels; samples must not be empty.

        Parameters
        ----------
        samples : Samples
            Packed sequences.
        classes : ndarray of shape (n_classes,)
            The labels.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_nodes,) of int32, optional
            True labels, for training: checked against `forbidden`.
        loss : object
            Task loss, see :func:`skstruct.losses.cost_matrix`.
        allowed : ndarray of shape (n_nodes, n_classes) of uint8, optional
            Labels allowed at each node.
        n_best : int
            Largest number of labellings that will be asked for at once.

        Returns
        -------
        ChainProblem
            The problem.
        """
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        mask = transition_mask(self.forbidden, classes)
        offsets, lengths = samples.offsets, np.diff(samples.offsets)
        if codes is not None and self.forbidden is not None:
            check_truth(mask, codes, offsets, classes)
        features = _with_boundary(samples) if self.boundary else samples.features
        nodes = feature_rows(features, shapes[0][0] - 1 if fit_intercept else -1)
        if self.edge_features:
            edges = feature_rows(samples.edge_features, -1)
            n_tables = np.maximum(lengths - 1, 0)
            edge_ptr = np.concatenate([[0], np.cumsum(n_tables)])
        else:
            edges, n_tables = ConstantFeature(0), np.ones_like(lengths)
            edge_ptr = np.zeros(offsets.size, dtype=np.int64)
        n_parts = lengths * n_classes + n_tables * n_classes**2
        cost, normalize = cost_matrix(loss, classes)
        longest = int(lengths.max(initial=1))
        size = max(
            workspace_size(longest, n_classes),
            2 * n_best * (longest * n_classes + 1),
            2 * (n_classes**2 + 16),
        )
        for_training = codes is not None
        return ChainProblem(
            nodes=nodes,
            edges=edges,
            part_ptr=np.concatenate([[0], np.cumsum(n_parts)]),
            label_ptr=offsets,
            edge_ptr=edge_ptr,
            labels=codes if for_training else no_codes(),
            transition_mask=mask.pairs,
            allowed=_allowed(allowed, mask, offsets, n_classes),
            cost=cost,
            normalize=int(normalize),
            node_gram=gram_of(nodes, offsets, shapes[0]) if for_training else _no_gram(),
            pair_gram=GramByTable(np.zeros(shapes[1] if for_training else (0, 0))),
            work=aligned(size, np.empty),
        )

    def edge_ends(self, samples):
        """Flat nodes at the first and at the second end of every edge, samples in order.

        Parameters
        ----------
        samples : Samples
            Packed sequences.

        Returns
        -------
        first, second : ndarray of shape (n_edges,) of int
            Every node but the last of a sequence, and the next one.
        """
        is_last = np.zeros(samples.offsets[-1] + 1, dtype=bool)
        is_last[samples.offsets[1:] - 1] = True
        first = np.flatnonzero(~is_last[:-1])
        return first, first + 1

    def wrap(self, flat, samples):
        """Split per-node results into one array a sequence.

        Parameters
        ----------
        flat : ndarray of shape (n_nodes, ...)
            Results of all nodes.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_samples,) of object
            One array a sequence.
        """
        return object_array(list(RaggedArray(flat, samples.offsets)))


def _no_gram():
    return GramByTable(np.zeros((0, 0)))


def _allowed(allowed, mask, offsets, n_classes):
    """Label mask of each node with the forbidden ends worked in; no rows if all is allowed."""
    if not mask.bounds_ends:
        return np.empty((0, n_classes), dtype=np.uint8) if allowed is None else allowed
    if allowed is None:
        allowed = np.ones((offsets[-1], n_classes), dtype=np.uint8)
    else:
        allowed = allowed.copy()
    allowed[offsets[:-1]] &= mask.start > -math.inf
    allowed[offsets[1:] - 1] &= mask.stop > -math.inf
    return allowed


def _with_boundary(samples: Samples):
    """Features with two more columns, 1 at the first and at the last node of each sample."""
    n_nodes = samples.features.shape[0]
    first, last = samples.offsets[:-1], samples.offsets[1:] - 1
    ends = np.zeros((n_nodes, 2))
    ends[first, 0] = 1.0
    ends[last, 1] = 1.0
    if sparse.issparse(samples.features):
        return normal_csr(sparse.hstack([samples.features, sparse.csr_matrix(ends)], format="csr"))
    return np.hstack([samples.features, ends])

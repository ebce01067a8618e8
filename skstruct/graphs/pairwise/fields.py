"""Graphs of nodes and pairwise edges: what chains and trees share in Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...core.features import constant_row
from ...core.gram import gram_by_table, gram_of, gram_of_constant, no_gram
from ...data.labels import read_sequence_labels
from ...data.packing import Samples, check_n_features
from ...data.ragged import object_array
from ...losses.task import cost_matrix
from ...typing import SamplesLike
from ..base import Graph, feature_rows, no_codes


class PairwiseGraph(Graph):
    """A structure with labelled nodes and edges that score pairs of labels.

    Subclasses have a parameter ``edge_features``.
    """

    #: Whether two more weight rows score the labels at the ends.
    boundary = False

    def read_y(self, y: SamplesLike, samples: Samples) -> np.ndarray:
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

    def weight_shapes(
        self, samples: Samples, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
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

    def wrap(self, flat: np.ndarray, samples: Samples) -> np.ndarray:
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
        ends = samples.offsets.tolist()
        return object_array([flat[start:stop] for start, stop in pairwise(ends)])

    def _check_counts(self, estimator, samples, reset):
        """Set or compare the numbers of features of `estimator`; refuse empty training samples."""
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

    def _fields(self, samples, features, classes, fit_intercept, codes, loss):
        """Fields of a problem that do not depend on the order of nodes."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        offsets, lengths = samples.offsets, np.diff(samples.offsets)
        nodes = feature_rows(features, shapes[0][0] - 1 if fit_intercept else -1)
        for_training = codes is not None
        if self.edge_features:
            edges, n_tables = feature_rows(samples.edge_features, -1), samples.n_edges
            edge_ptr = np.concatenate([[0], np.cumsum(n_tables)])
        else:
            edges, n_tables = constant_row(nodes), np.ones_like(lengths)
            edge_ptr = np.zeros(offsets.size, dtype=np.int64)
        n_parts = lengths * n_classes + n_tables * n_classes**2
        node_gram = pair_gram = no_gram()
        if for_training:
            node_gram = gram_of(nodes, offsets, shapes[0])
            constant = not self.edge_features
            pair_gram = gram_of_constant(lengths.size) if constant else gram_by_table(shapes[1])
        cost, normalize = cost_matrix(loss, classes)
        return {
            "nodes": nodes,
            "edges": edges,
            "part_ptr": np.concatenate([[0], np.cumsum(n_parts)]),
            "label_ptr": offsets,
            "edge_ptr": edge_ptr,
            "n_tables": n_tables,
            "labels": codes if for_training else no_codes(),
            "cost": cost,
            "normalize": int(normalize),
            "node_gram": node_gram,
            "pair_gram": pair_gram,
        }

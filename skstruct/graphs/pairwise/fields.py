"""Graphs of nodes and pairwise edges: what chains and trees share in Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.factors import PairwiseFactors
from ...core.features import constant_rows
from ...core.gram import gram_of, gram_of_constant, not_stored
from ...core.offsets import ends_of
from ...data.packing import check_n_features
from ...losses.task import node_costs
from ..arrays import example_sequences, feature_rows, no_codes, table_scratch
from ..base import Graph


class PairwiseGraph(Graph):
    """A structure with labelled nodes and edges that score pairs of labels.

    Subclasses have a parameter ``edge_features``, and packed samples with such a field.

    See Also
    --------
    skstruct.graphs.Graph : What every structure offers.
    skstruct.Pairwise : The structure of graphs, with cycles or without.
    skstruct.testing.check_structure : Checks the verbs of a structure.

    Examples
    --------
    >>> from skstruct import Chain, Matching
    >>> from skstruct.graphs import PairwiseGraph
    >>> isinstance(Chain(), PairwiseGraph), isinstance(Matching(), PairwiseGraph)
    (True, False)
    """

    takes_partial_labels = has_node_weights = True

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the pair table.

        (Features, then ``n_end_rows``, then the intercept) x labels, and (edge features or 1) x
        label pairs.
        """
        n_rows = samples.features.shape[1] + self.n_end_rows + bool(fit_intercept)
        n_pair_rows = samples.edge_features.shape[1] if self.edge_features else 1
        return (n_rows, n_classes), (n_pair_rows, n_classes * n_classes)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (label, next label): one table, or one for each edge feature or row."""
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables if self.edge_features or len(tables) > 1 else tables[0]

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences, of pairs of features if edges have features, too."""
        X, y = example_sequences(rng, sparse_X)
        if self.edge_features:
            kind = sparse.csr_matrix if sparse_X else np.asarray
            X = [(x, kind(rng.normal(size=(x.shape[0] - 1, 2)))) for x in X]
        return X, y

    def factors(self, problem: NamedTuple, samples: Any) -> PairwiseFactors:
        """The nodes and edges of the problem."""
        ends = np.stack(self.edge_ends(samples), axis=1)
        lengths, factor = samples.lengths, problem.loss_weights.factor
        share = 1.0 / lengths if problem.normalize == 1 else np.ones(lengths.size)
        return PairwiseFactors(
            nodes=problem.nodes,
            node_ptr=problem.label_ptr,
            edge_ptr=ends_of(samples.n_edges),
            ends=np.ascontiguousarray(ends, dtype=np.int64),
            labels=problem.labels,
            allowed=problem.allowed,
            cost=problem.cost,
            share=np.repeat(share, lengths) * factor if factor.size else share,
            mask=problem.transition_mask if len(ends) else None,
            edge_features=bool(self.edge_features),
        )

    def _no_features(self, estimator):
        """Features, offsets and edge features of no samples."""
        edges = np.empty((0, estimator.n_edge_features_in_)) if self.edge_features else None
        return np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64), edges

    def _check_counts(self, estimator, samples, reset):
        """Set or compare the numbers of features of `estimator`; refuse empty training samples."""
        name = type(estimator).__name__
        if reset:
            empty = np.flatnonzero(samples.lengths == 0)
            if empty.size:
                raise ValueError(f"X: sample {empty[0]} is empty, a sample needs at least one node")
            estimator.n_features_in_ = samples.features.shape[1]
            if self.edge_features:
                estimator.n_edge_features_in_ = samples.edge_features.shape[1]
        check_n_features(samples.features.shape[1], estimator.n_features_in_, name)
        if self.edge_features:
            n_edge_features = samples.edge_features.shape[1]
            check_n_features(n_edge_features, estimator.n_edge_features_in_, name, "edge features")

    def _edge_rows(self, samples):
        """Edge features in the rows of the pair table that they belong to."""
        return samples.edge_features

    def _fields(self, samples, features, classes, fit_intercept, codes, loss):
        """Fields of a problem that do not depend on the order of nodes, and scratch for weights."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        offsets, lengths = samples.offsets, np.diff(samples.offsets)
        nodes = feature_rows(features, shapes[0][0] - 1 if fit_intercept else -1)
        for_training = codes is not None
        if self.edge_features:
            edges, n_tables = feature_rows(self._edge_rows(samples), -1), samples.n_edges
            edge_ptr = ends_of(n_tables)
        else:
            n_shared = shapes[1][0]
            edges, n_tables = constant_rows(nodes, n_shared), np.full_like(lengths, n_shared)
            edge_ptr = np.zeros(offsets.size, dtype=np.int64)
        n_parts = lengths * n_classes + n_tables * shapes[1][1]
        node_gram = pair_gram = not_stored()
        if for_training:
            node_gram = gram_of(nodes, offsets, shapes[0][0])
            pair_gram = (
                pair_gram if self.edge_features else gram_of_constant(lengths.size, n_shared)
            )
        cost, normalize, loss_weights = node_costs(loss, classes)
        fields = {
            "nodes": nodes,
            "edges": edges,
            "part_ptr": ends_of(n_parts),
            "label_ptr": offsets,
            "edge_ptr": edge_ptr,
            "n_tables": n_tables,
            "width": shapes[1][1],
            "labels": codes if for_training else no_codes(),
            "cost": cost,
            "normalize": int(normalize),
            "node_gram": node_gram,
            "pair_gram": pair_gram,
            "loss_weights": loss_weights,
        }
        grams = (node_gram, pair_gram) if for_training else ()
        return fields, table_scratch(shapes, *grams)

"""Graphs of nodes and pairwise edges: base class of chains, trees and other graphs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ...core.factors import PairwiseFactors
from ...core.features import constant_rows
from ...core.gram import gram_of, gram_of_constant, not_stored
from ...core.offsets import ends_of
from ...core.problem import Problem
from ...rows.blocks import BlockRows, feature_rows
from ...spaces.labels import node_mask
from ...targets.costs import node_target
from ..nodes import NodeGraph
from .observed import Observed, _all_pairs, _csr_rows, _occurring, _occurring_steps


class PairwiseGraph(NodeGraph):
    """Nodes, and edges that score pairs of labels; `edge_features` is a parameter and a field."""

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (features, ends, intercept) x labels, (edge features or 1) x label pairs."""
        n_rows = samples.features.shape[1] + self.n_end_rows + bool(fit_intercept)
        n_pair_rows = samples.edge_features.shape[1] if self.edge_features else 1
        return (n_rows, n_classes), (n_pair_rows, n_classes * n_classes)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (label, next label): one table, or one for each edge feature or row."""
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables if self.edge_features or len(tables) > 1 else tables[0]

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences, of pairs of features if edges have features, too."""
        X, y = super().example(rng, sparse_X)
        if self.edge_features:
            kind = sparse.csr_matrix if sparse_X else np.asarray
            X = [(x, kind(rng.normal(size=(x.shape[0] - 1, 2)))) for x in X]
        return X, y

    def observed(
        self,
        problem: Problem,
        samples: Any,
        allowed: np.ndarray | None,
        all_states: bool,
        all_transitions: bool,
    ) -> Observed:
        """The problem on some of the weights."""
        n_labels = problem.space.allowed.shape[1]
        rows = problem.rows
        shapes = self.weight_shapes(samples, n_labels, rows.nodes.intercept >= 0)
        if allowed is None:
            n = problem.labels.size
            parts = np.ones(n), problem.labels, np.arange(n + 1)
            allowed = sparse.csr_matrix(parts, shape=(n, n_labels))
        allowed = sparse.csr_matrix(allowed, dtype=np.float64)
        nodes, edges = _csr_rows(rows.nodes, shapes[0]), _csr_rows(rows.edges, shapes[1])
        states = _all_pairs(shapes[0]) if all_states else _occurring(nodes, allowed)
        if all_transitions:
            steps = _all_pairs(shapes[1])
        else:
            steps = _occurring_steps(problem, edges, allowed, self.edge_ends(samples))
        return Observed.of(problem, shapes, (nodes, edges), (states, steps))

    def factors(self, problem: Problem, samples: Any) -> PairwiseFactors:
        """The nodes and edges of the problem."""
        ends = np.stack(self.edge_ends(samples), axis=1)
        lengths, space, target = samples.lengths, problem.space, problem.target
        factor = target.weights.factor
        share = 1.0 / lengths if target.normalize == 1 else np.ones(lengths.size)
        edges, column, n = self._edge_factors(problem, samples), None, space.allowed.shape[1]
        if edges is not None:
            column = getattr(space.own, "column", np.arange(n * n).reshape(n, n)).astype(np.int64)
        return PairwiseFactors(
            nodes=problem.rows.nodes,
            node_ptr=problem.label_ptr,
            edge_ptr=ends_of(samples.n_edges),
            ends=np.ascontiguousarray(ends, dtype=np.int64),
            labels=problem.labels,
            allowed=space.allowed,
            cost=target.cost,
            share=np.repeat(share, lengths) * factor if factor.size else share,
            mask=space.transition_mask if len(ends) else None,
            edges=edges,
            column=column,
        )

    def _edge_factors(self, problem, samples):
        """Feature rows of the edges for :meth:`factors`, None if all edges have one table."""
        return problem.rows.edges if self.edge_features and samples.n_edges.sum() else None

    def _no_features(self, estimator):
        """Features, offsets and edge features of no samples."""
        edges = np.empty((0, estimator.n_edge_features_in_)) if self.edge_features else None
        return np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64), edges

    def _node_rows(self, samples):
        """Features as rows of the node table."""
        return samples.features

    def _edge_rows(self, samples):
        """Edge features as rows of the pair table."""
        return samples.edge_features

    def _parts(self, samples, classes, fit_intercept, codes, loss, mask, allowed):
        """The other arguments of a problem, and fields that any order of nodes has."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        offsets, lengths = samples.offsets, samples.lengths
        for_training = codes is not None
        given = self._node_rows(samples)
        nodes = feature_rows(given, shapes[0][0], fit_intercept, for_training)
        if self.edge_features:
            edges = feature_rows(self._edge_rows(samples), shapes[1][0], False)
            n_tables, edge_ptr = samples.n_edges, ends_of(samples.n_edges)
        else:
            n_shared, edge_ptr = shapes[1][0], None
            edges, n_tables = constant_rows(nodes, n_shared), np.full(lengths.size, n_shared)
        n_parts = lengths * n_classes + n_tables * shapes[1][1]
        grams = ()
        if for_training:
            of_edges = (
                not_stored() if self.edge_features else gram_of_constant(lengths.size, n_shared)
            )
            grams = gram_of(nodes, offsets, shapes[0][0]), of_edges
        of_pairs = {"edges": edges, "edge_ptr": edge_ptr, "n_tables": n_tables}
        rows = BlockRows.of(nodes, offsets, shapes, **of_pairs, grams=grams)
        target = node_target(classes, codes, loss, offsets)
        return partial(Problem.of, rows=rows, target=target, labels=target.labels), {
            "part_ptr": ends_of(n_parts),
            "label_ptr": offsets,
            "shares_tables": int(not self.edge_features),
            "n_tables": n_tables,
            "width": shapes[1][1],
            "transition_mask": mask.pairs,
            "allowed": node_mask(allowed, n_classes),
        }

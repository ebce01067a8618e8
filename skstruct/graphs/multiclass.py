"""MultiClass: samples of one node, a table with one row per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from ..core.gram import not_stored
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.labels import read_table_labels
from ..data.matrices import row_squares
from ..data.node_weights import read_table_weights
from ..data.partial import read_table_mask
from ..rows.blocks import BlockRows, feature_rows
from ..spaces.choice import MultiClassSpace
from ..spaces.labels import node_mask
from ..targets.costs import node_target
from .base import Graph
from .nodes import NodeGraph, Rows, example_sequences, no_rows, read_rows
from .pairwise.base import PairwiseGraph

__all__ = ["MultiClass"]


class MultiClass(Graph):
    """One label for each row of a table: the one-node structure.

    A CRF is then multinomial logistic regression, a structural SVM the SVM of Crammer and Singer.
    Read more in the :ref:`User Guide <structures_guide>`.

    Parameters
    ----------
    states_per_label : int or dict, default=1
        Number of hidden states of each label, or a dict from label to number (1 where it has none):
        see :ref:`hidden_states`.

    See Also
    --------
    skstruct.MultiLabel : The structure of label sets.
    skstruct.Candidates : The structure of lists to choose from.

    Examples
    --------
    >>> from skstruct import MultiClass, SAGCRF
    >>> SAGCRF(graph=MultiClass())
    SAGCRF(graph=MultiClass())
    """

    def __init__(self, states_per_label: int | Mapping = 1) -> None:
        self.states_per_label = states_per_label

    is_table = takes_partial_labels = has_node_weights = True
    edge_features = False
    weight_shapes = NodeGraph.weight_shapes
    factors, _edge_factors = PairwiseGraph.factors, PairwiseGraph._edge_factors
    when_inferred = (
        "; if this is a fold of cross-validation, graph='multiclass' makes an integer cv stratify "
        "(with graph='auto' an estimator is not a classifier before fit)"
    )

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Rows:
        """Check the table."""
        return read_rows(estimator, X, 1, reset)

    def no_samples(self, estimator: BaseEstimator) -> Rows:
        """No rows."""
        return no_rows(estimator)

    def read_y(self, y: SamplesLike, samples: Rows) -> np.ndarray:
        """Check the labels, one per row."""
        labels = read_table_labels(y, samples.offsets.size - 1)
        check_classification_targets(labels)
        return labels

    def make_problem(
        self,
        samples: Rows,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        n_rows, options = shapes[0][0], {}
        if codes is not None:
            squares = row_squares(samples.features) + bool(fit_intercept)
            options = {"squares": squares, "grams": (not_stored(),) * 2}
        nodes = feature_rows(samples.features, n_rows, fit_intercept)
        rows = BlockRows.of(nodes, samples.offsets, shapes, **options)
        space = MultiClassSpace(
            part_ptr=samples.offsets * n_classes,
            label_ptr=samples.offsets,
            allowed=node_mask(allowed, n_classes),
            own=(),
            work=(),
        )
        target = node_target(classes, codes, loss, samples.offsets)
        return Problem.of(rows, space, target, target.labels)

    def read_allowed(self, allowed: Any, samples: Rows, classes: Any) -> np.ndarray:
        """The mask of shape (n_samples, n_classes)."""
        return read_table_mask(allowed, (samples.offsets.size - 1, len(classes)))

    def read_node_weight(self, node_weight: Any, samples: Rows) -> np.ndarray:
        """One weight per row."""
        return read_table_weights(node_weight, (samples.offsets.size - 1,))

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, np.ndarray]:
        """The nodes of random sequences."""
        X, y = example_sequences(rng, sparse_X)
        return (sparse.vstack(X) if sparse_X else np.vstack(X)), np.concatenate(y)

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """Scores of the classes; for two that of the second minus that of the first."""
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def wrap(self, flat: np.ndarray, samples: Rows) -> np.ndarray:
        """Results stay as they are: one row per sample."""
        return flat

"""MultiClass: samples of one node, a table with a row a sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from ...core.factors import PairwiseFactors
from ...data.allowed import read_table_mask
from ...data.labels import read_table_labels
from ...data.matrices import row_squares
from ...data.node_weights import read_table_weights
from ...losses.task import node_costs
from ...typing import LossLike, SamplesLike
from ..arrays import example_sequences, feature_rows, no_codes, row_scratch
from ..base import Graph
from ..rows import Rows, no_rows, read_rows
from .kernels import MultiClassProblem, RowScratch

__all__ = ["MultiClass", "MultiClassProblem"]


class MultiClass(Graph):
    """One label for each row of a table: the one-node structure.

    A CRF on it is multinomial logistic regression, a structural SVM the SVM of Crammer and Singer.

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

    is_table = takes_partial_labels = has_node_weights = True
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
        """Check the labels, one a row."""
        labels = read_table_labels(y, samples.offsets.size - 1)
        check_classification_targets(labels)
        return labels

    def weight_shapes(
        self, samples: Rows, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the (empty) pair table."""
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (0, 0)

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
    ) -> NamedTuple:
        """Build the problem."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        n_rows = shapes[0][0]
        cost, _, loss_weights = node_costs(loss, classes)
        squares = np.zeros(0)
        if codes is not None:
            squares = row_squares(samples.features) + bool(fit_intercept)
        return MultiClassProblem(
            nodes=feature_rows(samples.features, n_rows - 1 if fit_intercept else -1),
            part_ptr=samples.offsets * n_classes,
            label_ptr=samples.offsets,
            labels=no_codes() if codes is None else codes,
            allowed=np.empty((0, n_classes), dtype=np.uint8) if allowed is None else allowed,
            cost=cost,
            squared_norms=squares,
            work=RowScratch(row_scratch(shapes)),
            loss_weights=loss_weights,
        )

    def read_allowed(self, allowed: Any, samples: Rows, classes: Any) -> np.ndarray:
        """The mask of shape (n_samples, n_classes)."""
        return read_table_mask(allowed, (samples.offsets.size - 1, len(classes)))

    def read_node_weight(self, node_weight: Any, samples: Rows) -> np.ndarray:
        """One weight a row."""
        return read_table_weights(node_weight, (samples.offsets.size - 1,))

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, np.ndarray]:
        """The nodes of random sequences."""
        X, y = example_sequences(rng, sparse_X)
        return (sparse.vstack(X) if sparse_X else np.vstack(X)), np.concatenate(y)

    def factors(self, problem: NamedTuple, samples: Rows) -> PairwiseFactors:
        """Nodes without edges."""
        n = samples.offsets.size - 1
        return PairwiseFactors(
            nodes=problem.nodes,
            node_ptr=problem.label_ptr,
            edge_ptr=np.zeros(n + 1, dtype=np.int64),
            ends=np.empty((0, 2), dtype=np.int64),
            labels=problem.labels,
            allowed=problem.allowed,
            cost=problem.cost,
            share=np.ones(n),
            mask=None,
        )

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """Scores of the classes; for two that of the second minus that of the first."""
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def wrap(self, flat: np.ndarray, samples: Rows) -> np.ndarray:
        """Results stay as they are: one row a sample."""
        return flat

"""MultiClass: samples of one node, a table with a row a sample."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from ..core.factors import PairwiseFactors
from ..core.jit.dispatch import kernel
from ..core.oracles import (
    euclidean_oracle,
    exp_oracle,
    gram,
    max_marginals,
    max_oracle,
    top_k_oracle,
)
from ..core.typing import LossLike, SamplesLike
from ..data.labels import read_table_labels
from ..data.matrices import row_squares
from ..data.node_weights import read_table_weights
from ..data.partial import read_table_mask
from ..inference.numerics import fast_exp, row_max
from ..inference.simplex import best_mixture
from ..losses.task import node_costs
from .base import Graph
from .layout import Rows, example_sequences, feature_rows, no_codes, no_rows, read_rows, row_scratch
from .problem import NodeProblem

# One node a sample, for compiled solvers: its problem type and the kernel of each verb.


class RowNorms(NamedTuple):
    """What line searches need."""

    # (n_samples,): Squared norms of the feature rows, the constant feature included.
    squared_norms: np.ndarray


class RowScratch(NamedTuple):
    """Scratch of single nodes."""

    # A row of the weight table.
    row: np.ndarray


class MultiClassProblem(NodeProblem):
    """Single nodes packed for kernels; `own` are the squared norms of their feature rows."""

    structure = "MultiClass"
    not_of_the_dual_set = "cost", "normalize", "loss_weights", "own", "work"


@gram.register(MultiClassProblem)
@kernel
def _(problem, i, r, out):
    for k in range(problem.cost.shape[0]):
        out[k] = problem.own.squared_norms[i] * r[k]


@max_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, labels):
    best = 0
    for k in range(1, problem.cost.shape[0]):
        if theta[k] > theta[best]:
            best = k
    labels[0] = best
    return theta[best]


@top_k_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, values, labels):
    n_labels = problem.cost.shape[0]
    for q in range(values.shape[0]):
        values[q] = -math.inf
        labels[q, 0] = 0
        for k in range(n_labels):
            # After (values[q - 1], labels[q - 1]) in the order of score, then of label.
            after = q == 0 or theta[k] < values[q - 1]
            after = after or (theta[k] == values[q - 1] and k > labels[q - 1, 0])
            if after and theta[k] > values[q]:
                values[q] = theta[k]
                labels[q, 0] = k


@exp_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n_labels = problem.cost.shape[0]
    top = row_max(theta, 0, n_labels)
    total = 0.0
    for k in range(n_labels):
        share = fast_exp((theta[k] - top) / temperature)
        total += share
        if mu.shape[0] > 0:
            mu[k] = share
    for k in range(min(n_labels, mu.shape[0])):
        mu[k] /= total
    return top + temperature * math.log(total)


@euclidean_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    return best_mixture(theta, temperature, mu, problem.cost.shape[0])


@max_marginals.register(MultiClassProblem)
@kernel
def _(problem, i, theta, out):
    for k in range(problem.cost.shape[0]):
        out[k] = theta[k]


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
        cost, normalize, loss_weights = node_costs(loss, classes)
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
            normalize=int(normalize),
            loss_weights=loss_weights,
            own=RowNorms(squares),
            work=RowScratch(row_scratch(shapes)),
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

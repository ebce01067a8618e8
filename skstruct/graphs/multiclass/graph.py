"""MultiClass: samples of one node, a table with a row a sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from ...data.labels import read_table_labels
from ...data.matrices import row_squares
from ...data.packing import Samples
from ...losses.task import cost_matrix
from ...typing import LossLike, SamplesLike
from ..base import Graph, feature_rows, no_codes, read_table, row_scratch
from .kernels import MultiClassProblem, RowScratch

__all__ = ["MultiClass", "MultiClassProblem"]


class MultiClass(Graph):
    """One label for each row of a table: the one-node structure.

    A CRF on it is multinomial logistic regression, a structural SVM the SVM of Crammer and Singer.

    Examples
    --------
    >>> from skstruct import MultiClass, SAGCRF
    >>> SAGCRF(graph=MultiClass())
    SAGCRF(graph=MultiClass())
    """

    is_table = True

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Samples:
        """Check the table; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes or has ``n_features_in_``.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The table.
        reset : bool
            True in fit.

        Returns
        -------
        Samples
            One node a sample.
        """
        features = read_table(estimator, X, reset)
        return Samples(features, np.arange(features.shape[0] + 1, dtype=np.int64))

    def read_y(self, y: SamplesLike, samples: Samples) -> np.ndarray:
        """Check the labels.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            The labels.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        labels = read_table_labels(y, samples.offsets.size - 1)
        check_classification_targets(labels)
        return labels

    def weight_shapes(
        self, samples: Samples, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the (empty) pair table.

        Parameters
        ----------
        samples : Samples
            For the number of features.
        n_classes : int
            Number of labels.
        fit_intercept : bool
            Whether there is a constant feature.

        Returns
        -------
        tuple of two tuples of int
            (features, then the intercept) x labels, and nothing.
        """
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (0, 0)

    def make_problem(
        self,
        samples: Samples,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem for kernels.

        Parameters
        ----------
        samples : Samples
            The table.
        classes : ndarray of shape (n_classes,)
            The labels.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_samples,) of int32, optional
            True labels, for training.
        loss : object
            Task loss, see :func:`skstruct.losses.task.cost_matrix`.
        allowed : ndarray of shape (n_samples, n_classes) of uint8, optional
            Labels allowed for each sample.
        n_best : int
            Not used here.

        Returns
        -------
        MultiClassProblem
            The problem.
        """
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        n_rows = shapes[0][0]
        squares = np.zeros(0)
        if codes is not None:
            squares = row_squares(samples.features) + bool(fit_intercept)
        return MultiClassProblem(
            nodes=feature_rows(samples.features, n_rows - 1 if fit_intercept else -1),
            part_ptr=samples.offsets * n_classes,
            label_ptr=samples.offsets,
            labels=no_codes() if codes is None else codes,
            allowed=np.empty((0, n_classes), dtype=np.uint8) if allowed is None else allowed,
            cost=cost_matrix(loss, classes)[0],
            squared_norms=squares,
            work=RowScratch(row_scratch(shapes)),
        )

    def allowed_shape(self, n_samples: int, n_classes: int) -> tuple[int, ...]:
        """Shape of the mask of allowed labels.

        Parameters
        ----------
        n_samples, n_classes : int
            The sizes.

        Returns
        -------
        tuple of int
            (n_samples, n_classes).
        """
        return n_samples, n_classes

    def decision(self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike) -> np.ndarray:
        """What ``decision_function`` returns.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_classes)
            Scores of the classes.
        estimator : StructuredEstimator
            Not used here.
        X : object
            Not used here.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes the score of the second minus that of the first.
        """
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def wrap(self, flat: np.ndarray, samples: Samples) -> np.ndarray:
        """Results stay as they are: one row a sample.

        Parameters
        ----------
        flat : ndarray of shape (n_samples, ...)
            Results.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            The same array.
        """
        return flat

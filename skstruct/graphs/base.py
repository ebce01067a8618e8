"""What every structure offers to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..core.features import DenseFeatures, SparseFeatures
from ..core.weights import aligned
from ..data import labels as label_codes
from ..data.matrices import check_sparse, normal_csr, numeric, writable
from ..data.packing import Samples
from ..typing import LossLike, SamplesLike


class Graph(ABC, BaseEstimator):
    """A structure: which labellings a sample has, and how its parts share weights.

    A subclass says how to read X and y, builds the problem (a NamedTuple of arrays) that its
    kernels work on, and lays out the weights. It never trains and never decodes by itself: solvers
    do that through the verbs of :mod:`skstruct.core.oracles`.
    """

    #: Whether X is a table with a node a row (predictions are then plain arrays).
    is_table = False
    #: What predictions are decoded by, and which set a training objective ranges over: "exact" (all
    #: labellings) or "relaxed" (the LP relaxation). Of a structure inside a fitted estimator.
    inference_ = training_inference_ = "exact"

    @abstractmethod
    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Samples:
        """Pack X; set or compare the number of features of `estimator`."""

    @abstractmethod
    def read_y(self, y: SamplesLike, samples: Samples) -> np.ndarray:
        """Flat labels of all nodes of `samples`."""

    @abstractmethod
    def weight_shapes(
        self, samples: Samples, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the pair table."""

    @abstractmethod
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
        """Build the problem for kernels."""

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[Samples, np.ndarray]:
        """Pack X and y for fit.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes the numbers of features.
        X, y : object
            What the user gave.

        Returns
        -------
        samples : Samples
            The packed samples.
        labels : ndarray of shape (n_nodes,)
            Their labels.
        """
        samples = self.read_X(estimator, X, reset=True)
        return samples, self.read_y(y, samples)

    def find_classes(self, labels: np.ndarray, samples: Samples) -> Any:
        """The labels that occur.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            All labels of the samples that count.
        samples : Samples
            The samples.

        Returns
        -------
        ndarray of shape (n_classes,)
            Sorted.

        Raises
        ------
        ValueError
            If there is one only.
        """
        classes = np.unique(labels)
        if classes.size < 2:
            raise ValueError(
                f"needs at least two classes, but y has only one class: {classes.tolist()[0]!r}"
            )
        return classes

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Codes of labels, see :func:`skstruct.data.labels.encode`.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            The labels.
        classes : ndarray of shape (n_classes,)
            What occurs.
        offsets : ndarray of shape (n_samples + 1,)
            Where each sample begins.
        unseen : int, optional
            Code of labels that do not occur; by default they are refused.

        Returns
        -------
        ndarray of shape (n_nodes,) of int32
            The codes.
        """
        return label_codes.encode(labels, classes, offsets, unseen=unseen)

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Labels of codes: the inverse of :meth:`encode`.

        Parameters
        ----------
        codes : ndarray of int32
            The codes.
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        ndarray
            The labels, in the shape of `codes`.
        """
        return classes[codes]

    def n_marginals(self, classes: Any) -> int:
        """Numbers that make up the marginals of a node.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        int
            One a class.
        """
        return len(classes)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """The pair weights as users know them: a view.

        Parameters
        ----------
        pair_weights : ndarray
            The table of pair weights.
        n_classes : int
            Number of classes.

        Returns
        -------
        ndarray of shape (n_classes, n_classes) or (n_edge_features, n_classes, n_classes)
            Weights of (label, next label), one table for each edge feature.
        """
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        shared = len(tables) == 1 and not getattr(self, "edge_features", False)
        return tables[0] if shared else tables

    def decoding(self, problem: NamedTuple, weights: Any) -> NamedTuple:
        """The problem in the form in which these weights are decoded fastest.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned.
        weights : Weights
            The weights.

        Returns
        -------
        NamedTuple
            A problem for :func:`skstruct.core.oracles.max_oracle`; most structures have one form.
        """
        return problem

    def relaxation(self, problem: NamedTuple) -> NamedTuple:
        """The problem over distributions of nodes and edges that agree: the local polytope.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned.

        Returns
        -------
        NamedTuple
            The same problem, since nothing is lost without cycles.
        """
        return problem

    def edge_ends(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Flat nodes at the first and at the second end of every edge, samples in order.

        Parameters
        ----------
        samples : Samples
            Packed samples.

        Returns
        -------
        first, second : ndarray of shape (n_edges,) of int
            The nodes; no edges unless a subclass has some.
        """
        none = np.empty(0, dtype=np.int64)
        return none, none

    @abstractmethod
    def wrap(self, flat: np.ndarray, samples: Samples) -> np.ndarray:
        """Per-node results in the shape in which the user gave X."""


def read_table(estimator, X, reset):
    """Check a table of features, a row a sample.

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
    ndarray or CSR matrix of shape (n_samples, n_features)
        In the form that kernels take.
    """
    if sparse.issparse(X):
        check_sparse(X)
    elif hasattr(X, "columns"):
        numeric(np.asarray(X), "X")  # X itself goes on: it has the names of features
    else:
        is_row = getattr(X, "ndim", 0) == 1  # perhaps an array or a Series of rows
        X = numeric(list(X) if is_row else X, "X")
    X = validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, order="C", reset=reset)
    return normal_csr(X) if sparse.issparse(X) else writable(X)


def feature_rows(matrix, intercept: int):
    """The kernels' form of a feature matrix.

    Parameters
    ----------
    matrix : ndarray or CSR matrix
        As packed in :class:`skstruct.data.packing.Samples`.
    intercept : int
        Table row of the constant feature, or -1.

    Returns
    -------
    DenseFeatures or SparseFeatures
        The rows.
    """
    if sparse.issparse(matrix):
        return SparseFeatures(matrix.data, matrix.indices, matrix.indptr, intercept)
    return DenseFeatures(matrix, intercept)


def no_codes() -> np.ndarray:
    """Labels of a problem that has none.

    Returns
    -------
    ndarray of shape (0,) of int32
        Nothing.
    """
    return np.empty(0, dtype=np.int32)


def row_scratch(shapes) -> np.ndarray:
    """Scratch for a row of the weight tables, lazy ones too: ``work.row`` of a problem.

    Parameters
    ----------
    shapes : tuple of two tuples of int
        Shapes of the node and the pair table.

    Returns
    -------
    ndarray
        Long enough for the wider table.
    """
    return aligned(2 * (max(width for _, width in shapes) + 16), np.empty)

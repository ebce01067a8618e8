"""What every structure offers to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..features import DenseFeatures, SparseFeatures
from ..packing import Samples


class Graph(ABC, BaseEstimator):
    """A structure: which labellings a sample has, and how its parts share weights.

    A subclass says how to read X and y, builds the problem (a NamedTuple of arrays) that its
    kernels work on, and lays out the weights. It never trains and never decodes by itself: solvers
    do that through the verbs of :mod:`skstruct.oracles`.
    """

    #: Whether X is a table with a node a row (predictions are then plain arrays).
    is_table = False

    @abstractmethod
    def read_X(self, estimator, X, reset: bool) -> Samples:
        """Pack X; set or compare the number of features of `estimator`."""

    @abstractmethod
    def read_y(self, y, samples: Samples) -> np.ndarray:
        """Flat labels of all nodes of `samples`."""

    @abstractmethod
    def weight_shapes(self, samples: Samples, n_classes: int, fit_intercept: bool):
        """Shapes of the node and the pair table."""

    @abstractmethod
    def make_problem(
        self, samples, classes, fit_intercept, *, codes=None, loss="hamming", allowed=None, n_best=1
    ):
        """Build the problem for kernels."""

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


def feature_rows(matrix, intercept: int):
    """The kernels' form of a feature matrix.

    Parameters
    ----------
    matrix : ndarray or CSR matrix
        As packed in :class:`skstruct.packing.Samples`.
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

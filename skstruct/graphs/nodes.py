"""Structures of labelled nodes, each with a row of features; samples that are rows of a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..core.typing import SamplesLike
from ..data.matrices import check_sparse, normal_csr, numeric, readable
from ..data.packing import check_finite, check_n_features, packed, read_sequences
from .base import Graph


@packed()
class Nodes(NamedTuple):
    """Packed nodes."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray


class NodeGraph(Graph):
    """Nodes with features and labels, no edges; a subclass defines ``make_problem``."""

    takes_partial_labels = has_node_weights = True
    edge_features = False

    def no_samples(self, estimator: BaseEstimator) -> Nodes:
        """No samples."""
        return Nodes(np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64))

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Nodes:
        """Pack the nodes."""
        samples = Nodes(*read_sequences(X)[:2])
        self._check_counts(estimator, samples, reset)
        return samples

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x labels, and no pairs."""
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (0, 0)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences."""
        return example_sequences(rng, sparse_X)

    def _check_counts(self, estimator, samples, reset):
        """Set or compare the numbers of features of `estimator`; check that samples have nodes."""
        name = type(estimator).__name__
        if reset:
            empty = np.flatnonzero(samples.lengths == 0)
            if empty.size:
                raise ValueError(f"X: sample {empty[0]} is empty, a sample needs at least one node")
            estimator.n_features_in_ = samples.features.shape[1]
            if self.edge_features:
                estimator.n_edge_features_in_ = samples.edge_features.shape[1]
            return
        check_n_features(samples.features.shape[1], estimator.n_features_in_, name)
        if self.edge_features:
            n_edge_features = samples.edge_features.shape[1]
            check_n_features(n_edge_features, estimator.n_edge_features_in_, name, "edge features")


@packed(nodes=(), samples=("features",))
class Rows(NamedTuple):
    """Rows of a table; all nodes of a sample share its row."""

    # (n_samples, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray


def read_rows(estimator, X, n_nodes: int, reset: bool) -> Rows:
    """Check a table of features, one row per sample."""
    if sparse.issparse(X):
        check_sparse(X)
    elif hasattr(X, "columns"):
        numeric(np.asarray(X), "X")  # X itself goes on: it has the names of features
    else:
        is_row = getattr(X, "ndim", 0) == 1  # perhaps an array or a Series of rows
        X = numeric(list(X) if is_row else X, "X")
    X = validate_data(
        estimator,
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=False,  # scikit-learn's message is about other estimators
        reset=reset,
    )
    features = normal_csr(X) if sparse.issparse(X) else readable(X)
    check_finite(features, np.arange(features.shape[0] + 1), "X", None)
    return Rows(features, np.arange(features.shape[0] + 1, dtype=np.int64) * n_nodes)


def no_rows(estimator) -> Rows:
    """No rows, of the width seen in fit."""
    return Rows(np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64))


def example_sequences(rng, sparse_X: bool):
    """A few random sequences, and labels with three classes, all of which occur."""
    X = [rng.normal(size=(n, 4)) for n in (3, 2, 4, 3)]
    labels = np.array(["a", "b", "c"])
    y = [labels[np.arange(len(x)) % 3] for x in X]
    return [sparse.csr_matrix(x) for x in X] if sparse_X else X, y

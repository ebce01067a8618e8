"""Arrays that the problems of all structures have in one form, for one compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from ..core.features import DenseFeatures, SparseFeatures
from ..core.gram import product_scratch
from ..core.weights import aligned
from ..data.matrices import check_sparse, normal_csr, numeric, readable
from ..data.packing import check_finite, packed
from ..losses.task import node_costs

# Tables: what structures whose samples are rows read and pack.


@packed(nodes=(), samples=("features",))
class Rows(NamedTuple):
    """Rows of a table, each the one feature row that all nodes of its sample share."""

    # (n_samples, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray


def read_rows(estimator, X, n_nodes: int, reset: bool) -> Rows:
    """Check a table of features, a row per sample."""
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
    """No rows, of the width that `estimator` has seen in fit."""
    return Rows(np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64))


# From this size on, training takes dense features as sparse if at most this share is not 0: on
# letters in 128 pixels, 22 % of which are set, that takes a third off the time of a pass.
_LARGE, _FEW = 1 << 20, 0.25


def feature_rows(matrix, intercept: int, for_training: bool = False):
    """The kernels' form of a feature matrix; `intercept` is the constant's table row, or -1."""
    is_large = for_training and not sparse.issparse(matrix) and matrix.size >= _LARGE
    if is_large and np.count_nonzero(matrix) <= _FEW * matrix.size:
        matrix = sparse.csr_matrix(matrix)
    if sparse.issparse(matrix):
        return SparseFeatures(matrix.data, matrix.indices, matrix.indptr, intercept)
    return DenseFeatures(matrix, intercept)


#: Labels of a problem that has none.
NO_CODES = np.empty(0, dtype=np.int32)


def label_fields(classes, codes, loss, allowed) -> dict:
    """Fields on labels that problems of labelled nodes have: true and allowed ones, and costs."""
    cost, normalize, loss_weights = node_costs(loss, classes)
    return {
        "labels": NO_CODES if codes is None else codes,
        "allowed": np.empty((0, len(classes)), dtype=np.uint8) if allowed is None else allowed,
        "cost": cost,
        "normalize": int(normalize),
        "loss_weights": loss_weights,
    }


def row_scratch(shapes) -> np.ndarray:
    """Scratch for a row of the weight tables, lazy ones too: ``work.row`` of a problem."""
    return aligned(2 * (max(shapes[0][1], shapes[1][1]) + 16), np.empty)


class TableScratch(NamedTuple):
    """Scratch for weight tables."""

    # A row of one, lazy ones too.
    row: np.ndarray
    # (n_rows, n_columns): For products with Gram matrices.
    node: np.ndarray
    pair: np.ndarray


def table_scratch(shapes, *grams) -> TableScratch:
    """Scratch for weight tables: ``work.tables`` of a problem of nodes and edges."""
    tables = [np.zeros((0, 0))] * 2
    if grams:
        tables = list(map(product_scratch, grams, shapes))
    return TableScratch(row_scratch(shapes), *tables)


def example_sequences(rng, sparse_X: bool):
    """A few random sequences, and labels of which all three occur."""
    X = [rng.normal(size=(n, 4)) for n in (3, 2, 4, 3)]
    labels = np.array(["a", "b", "c"])
    y = [labels[np.arange(len(x)) % 3] for x in X]
    return [sparse.csr_matrix(x) for x in X] if sparse_X else X, y

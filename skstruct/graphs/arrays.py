"""Arrays that the problems of all structures have in one form, for one compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.features import DenseFeatures, SparseFeatures
from ..core.gram import product_scratch
from ..core.weights import aligned


def feature_rows(matrix, intercept: int):
    """The kernels' form of a feature matrix; `intercept` is the constant's table row, or -1."""
    if sparse.issparse(matrix):
        return SparseFeatures(matrix.data, matrix.indices, matrix.indptr, intercept)
    return DenseFeatures(matrix, intercept)


def no_codes() -> np.ndarray:
    """Labels of a problem that has none."""
    return np.empty(0, dtype=np.int32)


def row_scratch(shapes) -> np.ndarray:
    """Scratch for a row of the weight tables, lazy ones too: ``work.row`` of a problem."""
    return aligned(2 * (max(width for _, width in shapes) + 16), np.empty)


class TableScratch(NamedTuple):
    """Scratch for weight tables."""

    # A row of one, lazy ones too.
    row: np.ndarray
    # (n_rows, n_columns): For products with Gram matrices: tables of zeros where these are not
    # stored.
    node: np.ndarray
    pair: np.ndarray


def table_scratch(shapes, *grams) -> TableScratch:
    """Scratch for weight tables: ``work.tables`` of a problem of nodes and edges."""
    tables = [np.zeros((0, 0))] * 2
    if grams:
        tables = [
            product_scratch(gram, shape[1]) if gram.ptr.size else np.zeros(shape)
            for gram, shape in zip(grams, shapes, strict=True)
        ]
    return TableScratch(row_scratch(shapes), *tables)


def example_sequences(rng, sparse_X: bool):
    """A few random sequences, and labels of which all three occur."""
    X = [rng.normal(size=(n, 4)) for n in (3, 2, 4, 3)]
    labels = np.array(["a", "b", "c"])
    y = [labels[np.arange(len(x)) % 3] for x in X]
    return [sparse.csr_matrix(x) for x in X] if sparse_X else X, y

"""Feature rows times tables of weights, the feature map of all structures of this package."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.features import DenseFeatures, SparseFeatures, add_outer, constant_rows, scores
from ..core.gram import Gram, gram_product, not_stored, product_scratch
from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import accumulate, gram, potentials
from ..core.proximal import rest_potentials, rest_scores
from ..core.weights import Weights, aligned, zero_weights

# From this size on, training converts dense features to sparse ones if at most this fraction is
# nonzero: on letters of 128 pixels, 22 % of which are set, a pass is faster by a third.
_LARGE, _FEW = 1 << 20, 0.25
_NONE = np.empty(0)


class TableScratch(NamedTuple):
    """Scratch for weight tables."""

    # A row of a table, plain or lazy.
    row: np.ndarray
    # (n_rows, n_columns): For products with Gram matrices.
    node: np.ndarray
    pair: np.ndarray


class BlockRows(NamedTuple):
    """Feature rows of nodes, and those of edges or the ones that all edges share."""

    adds_by_columns = writes_what_fits = True

    nodes: tuple
    edges: tuple
    # (n_samples + 1,): Where the rows of nodes and of edges of each sample begin; zeros when edges
    # share rows.
    row_ptr: np.ndarray
    edge_ptr: np.ndarray
    # (n_samples,): Number of rows of edges.
    n_tables: np.ndarray
    # Parts of a row of nodes, parts of a sample without weights, and parts of a row of edges.
    width: int
    n_free: int
    pair_width: int
    # Squared norms (n_samples,) of the rows of nodes if each sample has one row; else products of
    # the rows of a sample, for line searches.
    squares: np.ndarray
    node_gram: Gram
    pair_gram: Gram
    # Scratch of one thread.
    work: TableScratch

    @property
    def n_parts(self) -> np.ndarray:
        """Number of parts of each sample."""
        return np.diff(self.row_ptr) * self.width + self.n_free + self.n_tables * self.pair_width

    @property
    def n_shared(self) -> int:
        """Number of parts at the end of every sample whose rows all samples share."""
        first, last = self.n_tables[0], self.edge_ptr[-1]
        return int(first) * self.pair_width if last == 0 and (self.n_tables == first).all() else 0

    @classmethod
    def of(
        cls,
        nodes,
        row_ptr: np.ndarray,
        shapes: tuple,
        *,
        edges=None,
        edge_ptr: np.ndarray | None = None,
        n_tables: np.ndarray | None = None,
        n_free: int = 0,
        squares: np.ndarray = _NONE,
        grams: tuple[Gram, ...] = (),
    ) -> BlockRows:
        """Rows for weight tables of some shapes, with Gram matrices for training if given."""
        nothing = np.zeros(row_ptr.size, dtype=np.int64)
        tables = [np.zeros((0, 0))] * 2
        for p, how in enumerate(grams):
            if p == 1 or not squares.size:
                tables[p] = product_scratch(how, shapes[p])
        return cls(
            nodes=nodes,
            edges=constant_rows(nodes, 1) if edges is None else edges,
            row_ptr=row_ptr,
            edge_ptr=nothing if edge_ptr is None else edge_ptr,
            n_tables=nothing[:-1] if n_tables is None else n_tables,
            width=shapes[0][1],
            n_free=n_free,
            pair_width=shapes[1][1],
            squares=squares,
            node_gram=grams[0] if grams else not_stored(),
            pair_gram=grams[1] if grams else not_stored(),
            work=TableScratch(row_scratch(shapes), *tables),
        )


def feature_rows(matrix, n_rows: int, fit_intercept: bool, for_training: bool = False):
    """A feature matrix in the form of kernels; the last of `n_rows` may be the intercept."""
    intercept = n_rows - 1 if fit_intercept else -1
    is_large = for_training and not sparse.issparse(matrix) and matrix.size >= _LARGE
    if is_large and np.count_nonzero(matrix) <= _FEW * matrix.size:
        matrix = sparse.csr_matrix(matrix)
    if sparse.issparse(matrix):
        ends = matrix.indptr.astype(np.int64, copy=False)  # SciPy takes the smallest type
        return SparseFeatures(matrix.data, matrix.indices, ends, intercept)
    return DenseFeatures(matrix, intercept)


def row_scratch(shapes) -> np.ndarray:
    """Scratch for a row of the weight tables, plain or lazy."""
    return aligned(2 * (max(shapes[0][1], shapes[1][1]) + 16), np.empty)


@inner_kernel(inline=True)
def _shape(rows, i):
    """First row and number of nodes, first row and number of edges, first part of edges."""
    first = rows.row_ptr[i]
    n = rows.row_ptr[i + 1] - first
    return first, n, rows.edge_ptr[i], rows.n_tables[i], n * rows.width + rows.n_free


@potentials.register(BlockRows)
@kernel
def _(rows, i, w, theta):
    first, n, e0, n_tables, offset = _shape(rows, i)
    nodes, edges, row = rows.nodes, rows.edges, rows.work.row
    scores(nodes, first, first + n, rows.width, w.node, w, row, theta, 0)
    for q in range(n * rows.width, offset):
        theta[q] = 0.0
    if n_tables > 0 and theta.shape[0] > offset:
        scores(edges, e0, e0 + n_tables, rows.pair_width, w.pair, w, row, theta, offset)


@accumulate.register(BlockRows)
@kernel
def _(rows, i, r, c, w):
    first, n, e0, n_tables, offset = _shape(rows, i)
    row = rows.work.row
    add_outer(rows.nodes, first, first + n, rows.width, r, 0, c, w.node, w, row)
    if n_tables > 0:
        add_outer(rows.edges, e0, e0 + n_tables, rows.pair_width, r, offset, c, w.pair, w, row)


@gram.register(BlockRows)
@kernel
def _(rows, i, r, out):
    first, n, e0, n_tables, offset = _shape(rows, i)
    width, work = rows.width, rows.work
    if rows.squares.shape[0] > 0:
        for k in range(width):
            out[k] = rows.squares[i] * r[k]
    else:
        nodes = rows.nodes
        gram_product(rows.node_gram, nodes, i, first, first + n, width, r, out, 0, work.node)
    for q in range(n * width, offset):
        out[q] = 0.0
    if n_tables > 0:
        how, edges, stop, pair_width = rows.pair_gram, rows.edges, e0 + n_tables, rows.pair_width
        gram_product(how, edges, i, e0, stop, pair_width, r, out, offset, work.pair)


@rest_potentials.register(BlockRows)
@kernel
def _(rows, i, w, penalty, theta):
    first, n, e0, n_tables, offset = _shape(rows, i)
    stop, width, row, how = e0 + n_tables, rows.pair_width, rows.work.row, penalty
    nodes, edges = rows.nodes, rows.edges
    rest_scores(nodes, first, first + n, rows.width, w.node, w, how.node, how, row, theta, 0)
    for q in range(n * rows.width, offset):
        theta[q] = 0.0
    if n_tables > 0:
        rest_scores(edges, e0, stop, width, w.pair, w, how.pair, how, row, theta, offset)


class OwnScratch(NamedTuple):
    """Scratch of one thread."""

    # A row of a weight table, plain or lazy.
    row: np.ndarray
    # Zeros in training: a sample's gradient.
    weights: Weights


class OwnRows(NamedTuple):
    """Feature rows of nodes, for a class that defines the potentials.

    A subclass registers :func:`~skstruct.core.oracles.potentials`, which writes no -inf (the
    space does), and :func:`~skstruct.core.oracles.accumulate`, its adjoint; products with the Gram
    matrix follow from these, in time proportional to the weights: register
    :func:`~skstruct.core.oracles.gram` if that takes too long. With the class attribute
    ``adds_by_columns = True``, threads divide the columns of the second, which must then add only
    by :func:`skstruct.core.add_outer`.

    Parameters
    ----------
    nodes : NamedTuple
        Feature rows of all nodes, for :func:`skstruct.core.scores` and
        :func:`skstruct.core.add_outer`.
    row_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes of each sample begin.
    width : int
        Number of columns of the node table, usually one per label.
    work : NamedTuple
        Scratch of one thread, of a fixed kind: ``work.row`` takes a row of a weight table.
    """

    nodes: tuple
    row_ptr: np.ndarray
    width: int
    work: OwnScratch

    @classmethod
    def of(
        cls,
        nodes: tuple,
        row_ptr: np.ndarray,
        shapes: tuple,
        for_training: bool,
    ) -> OwnRows:
        """Return rows for tables of `weight_shapes`; with scratch of ``gram`` if `for_training`."""
        tables = zero_weights(shapes if for_training else ((0, 0), (0, 0)))
        work = OwnScratch(row_scratch(shapes), tables)
        return cls(nodes, row_ptr, shapes[0][1], work)


@gram.register(OwnRows)
@kernel
def _(rows, i, r, out):
    gradient = rows.work.weights
    for table in (gradient.node, gradient.pair):
        for row in range(table.shape[0]):
            for k in range(table.shape[1]):
                table[row, k] = 0.0
    accumulate(rows, i, r, (1.0, 0.0), gradient)
    potentials(rows, i, gradient, out)

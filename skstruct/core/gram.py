"""Gram matrices ``A_i A_i'`` of a sample's feature rows: line searches never touch the weights."""

import math
from typing import NamedTuple

import numpy as np

from .features import ALL_CLASSES, DenseFeatures, clear_rows, gather, is_used, scatter
from .jit.kernels import inner_kernel, kernel
from .offsets import ends_of
from .weights import aligned, padded_width


class Gram(NamedTuple):
    """Gram matrices of the feature rows of every sample, stored or computed on demand."""

    # The matrices, row-major, one after another.
    values: np.ndarray
    # (n_samples + 1,): Their offsets, or the complement of the offset for a sample whose matrix is
    # not stored. Of shape (0,) if none is.
    ptr: np.ndarray

    @property
    def is_whole(self):
        """Whether all are stored."""
        return self.ptr.size > 0 and self.ptr.min() >= 0


_NOT_STORED = Gram(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64))


def not_stored():
    """Gram matrices that are computed on demand."""
    return _NOT_STORED


def gram_of_constant(n_samples, n_rows):
    """Return the Gram matrix of samples with orthonormal rows: the identity."""
    ptr = np.zeros(n_samples + 1, dtype=np.int64)
    return Gram(np.eye(n_rows, dtype=np.float32).reshape(-1), ptr)


@kernel
def gram_product(how, features, i, first, stop, width, r, out, offset, table):
    """``out <- X X' r`` for the feature rows `first` to `stop` of sample i."""
    start, n = how.ptr[i] if how.ptr.shape[0] > 0 else -1, stop - first
    if start < 0:
        clear_rows(features, first, stop, table)
        for t in range(first, stop):
            o = offset + (t - first) * width
            if is_used(r, o, width):
                scatter(features, t, table, 0, width, 0, ALL_CLASSES, r[o : o + width])
        for t in range(first, stop):
            o = offset + (t - first) * width
            gather(features, t, table, out[o : o + width], stop)
        return
    if n == 1:
        for q in range(offset, offset + width):
            out[q] = how.values[start] * r[q]
        return
    values = how.values[start : start + n * n]
    n_used = 0
    for u in range(n):
        n_used += 1 if is_used(r, offset + u * width, width) else 0
    if 4 * n_used > n and table.shape[0] > n:
        _multiply_dense(values, n, width, r, out, offset, table)
    else:
        _multiply_sparse(values, n, width, r, out, offset)


@inner_kernel(inline=True)
def _multiply_sparse(values, n, width, r, out, offset):
    """The product by the nonzero rows of `r`: a step between two labellings changes few nodes."""
    for q in range(offset, offset + n * width):
        out[q] = 0.0
    for u in range(n):
        row = offset + u * width
        if is_used(r, row, width):
            given = r[row : row + width]
            for t in range(n):
                g = values[u * n + t]
                if g != 0.0:
                    o = offset + t * width
                    found = out[o : o + width]
                    for k in range(width):
                        found[k] += g * given[k]


@inner_kernel(inline=True)
def _multiply_dense(values, n, width, r, out, offset, table):
    """The product by all rows of `r`, in `table`, whose rows are whole vectors."""
    stride = table.shape[1]
    for u in range(n):
        given = r[offset + u * width : offset + (u + 1) * width]
        for k in range(width):
            table[u, k] = given[k]
    for t in range(n):
        for k in range(stride):
            table[n, k] = 0.0
        at, u = t * n, 0
        while u + 3 < n:
            a, b, c, d = values[at + u], values[at + u + 1], values[at + u + 2], values[at + u + 3]
            for k in range(stride):
                table[n, k] += (a * table[u, k] + b * table[u + 1, k]) + (
                    c * table[u + 2, k] + d * table[u + 3, k]
                )
            u += 4
        while u < n:
            a = values[at + u]
            for k in range(stride):
                table[n, k] += a * table[u, k]
            u += 1
        found = out[offset + t * width : offset + (t + 1) * width]
        for k in range(width):
            found[k] = table[n, k]


def product_scratch(how, shape):
    """Scratch of :func:`gram_product`: a row for each feature, unless all matrices are stored."""
    sizes, columns = np.diff(np.maximum(how.ptr, ~how.ptr)), padded_width(shape[1])
    largest, n_rows = math.isqrt(int(sizes.max(initial=0))), 0 if how.is_whole else shape[0]
    # Rows too narrow for padding are not whole vectors.
    if largest > 1 and columns % 8 == 0:
        n_rows = max(n_rows, largest + 1)
    return aligned(n_rows * columns).reshape(n_rows, columns)


@kernel
def _fill_sparse(features, row_ptr, stored, head, link):
    """Fill the Gram matrices of all samples; `head` (all -1) and `link` are scratch."""
    for i in range(row_ptr.shape[0] - 1):
        if stored.ptr[i] < 0:
            continue
        first, stop = row_ptr[i], row_ptr[i + 1]
        m = stop - first
        out = stored.values[stored.ptr[i] : stored.ptr[i] + m * m]
        base = 1.0 if features.intercept >= 0 else 0.0
        for q in range(m * m):
            out[q] = base
        indices, data = features.indices, features.data
        origin = features.indptr[first]
        # `head` and `link` chain the entries of each column, so only true matches cost time.
        for t in range(first, stop):
            for p in range(features.indptr[t], features.indptr[t + 1]):
                j = indices[p]
                before = head[j]
                link[p - origin] = before
                head[j] = p - origin
        for t in range(first, stop):
            for p in range(features.indptr[t], features.indptr[t + 1]):
                head[indices[p]] = -1
        row_of = stop - 1
        for p in range(features.indptr[stop] - 1, origin - 1, -1):
            while p < features.indptr[row_of]:
                row_of -= 1
            out[(row_of - first) * (m + 1)] += data[p] * data[p]
            q = link[p - origin]
            other = row_of
            while q >= 0:
                while q + origin < features.indptr[other]:
                    other -= 1
                product = data[p] * data[q + origin]
                out[(row_of - first) * m + (other - first)] += product
                out[(other - first) * m + (row_of - first)] += product
                q = link[q]


@kernel
def _fill_dense(features, row_ptr, stored):
    """Fill the Gram matrices of all samples."""
    for i in range(row_ptr.shape[0] - 1):
        if stored.ptr[i] < 0:
            continue
        first, stop = row_ptr[i], row_ptr[i + 1]
        m = stop - first
        out = stored.values[stored.ptr[i] : stored.ptr[i] + m * m]
        base = 1.0 if features.intercept >= 0 else 0.0
        values = features.values
        for t in range(first, stop):
            for u in range(first, t + 1):
                total = base
                for j in range(values.shape[1]):
                    total += values[t, j] * values[u, j]
                out[(t - first) * m + (u - first)] = total
                out[(u - first) * m + (t - first)] = total


def gram_of(features, row_ptr, n_rows):
    """Gram matrices of samples, stored where they are not much larger than the features."""
    lengths, is_dense = np.diff(row_ptr).astype(np.int64), isinstance(features, DenseFeatures)
    of_sparse = None if is_dense else np.diff(features.indptr[row_ptr])
    most = 4 * (lengths * features.values.shape[1] if is_dense else of_sparse)
    squares = lengths**2
    kept = (squares <= most) | (squares.sum() <= most.sum() + 1024)
    if not kept.any():
        return not_stored()
    ptr = ends_of(np.where(kept, squares, 0))
    stored = Gram(np.empty(ptr[-1], dtype=np.float32), ptr)
    ptr[:-1][~kept] = ~ptr[:-1][~kept]
    if is_dense:
        _fill_dense(features, row_ptr, stored)
    else:
        head = np.full(n_rows, -1, dtype=np.int64)
        link = np.empty(of_sparse.max(initial=0), dtype=np.int64)
        _fill_sparse(features, row_ptr, stored, head, link)
    # Beyond the range of float32, products are computed in float64 on demand.
    return stored if np.isfinite(stored.values).all() else not_stored()

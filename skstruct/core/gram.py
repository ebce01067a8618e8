"""Gram matrices of the feature rows of one sample, ``A_i A_i'``, for line searches and norms.

A solver's step along ``A_i' r`` moves the sample's potentials by ``A_i A_i' r``: with the Gram
matrix at hand a line search never touches the weights.
"""

import math
from typing import NamedTuple

import numpy as np

from .features import ALL_CLASSES, DenseFeatures, clear_rows, gather, is_used, scatter
from .jit.dispatch import inner_kernel, kernel
from .offsets import ends_of
from .weights import aligned, padded_width


class Gram(NamedTuple):
    """Gram matrices of the feature rows of every sample, stored or made when they are needed."""

    # The matrices, row-major, one after another.
    values: np.ndarray
    # (n_samples + 1,): Where they begin; of shape (0,) if they are not stored.
    ptr: np.ndarray


_NOT_STORED = Gram(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64))


def not_stored():
    """Matrices that are made when they are needed, if ever."""
    return _NOT_STORED


def gram_of_constant(n_samples, n_rows):
    """Return the Gram matrix of samples with orthonormal rows: the identity."""
    ptr = np.zeros(n_samples + 1, dtype=np.int64)
    return Gram(np.eye(n_rows, dtype=np.float32).reshape(-1), ptr)


@kernel
def gram_product(how, features, i, first, stop, width, r, out, offset, table):
    """``out <- X X' r`` for the feature rows `first` to `stop` of sample i."""
    if how.ptr.shape[0] == 0:
        for t in range(first, stop):
            o = offset + (t - first) * width
            if is_used(r, o, width):
                scatter(features, t, table, 0, width, 0, ALL_CLASSES, r[o : o + width])
        for t in range(first, stop):
            o = offset + (t - first) * width
            gather(features, t, table, out[o : o + width], stop)
        clear_rows(features, first, stop, table)
        return
    start, n = how.ptr[i], stop - first
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
    """The product by the rows of `r` in use: a step between two labellings changes few nodes."""
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
    """The product by all rows of `r`, in `table`, whose rows are all vectors and no rest."""
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


def product_scratch(how, width):
    """Scratch of :func:`gram_product` where matrices are stored."""
    largest = math.isqrt(int(np.diff(how.ptr).max(initial=0)))
    columns = padded_width(width)
    if largest < 2 or columns % 8 != 0:  # rows too narrow to be padded are no whole vectors
        return np.zeros((0, 0))
    return aligned((largest + 1) * columns).reshape(largest + 1, columns)


@kernel
def _fill_sparse(features, row_ptr, stored, head, link):
    """Fill the Gram matrices of all samples.

    `head` (one entry per feature column, -1 on entry and exit) and `link` (one entry per stored
    value of the largest sample) are scratch.
    """
    for i in range(row_ptr.shape[0] - 1):
        first, stop = row_ptr[i], row_ptr[i + 1]
        out = stored.values[stored.ptr[i] : stored.ptr[i + 1]]
        m = stop - first
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
        first, stop = row_ptr[i], row_ptr[i + 1]
        out = stored.values[stored.ptr[i] : stored.ptr[i + 1]]
        m = stop - first
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
    """Gram matrices of samples, stored where that is not much larger than the features."""
    squares = np.diff(row_ptr).astype(np.int64) ** 2
    is_dense = isinstance(features, DenseFeatures)
    n_values = features.values.size if is_dense else features.data.size
    if squares.sum() > 4 * n_values + 1024:
        return not_stored()
    ptr = ends_of(squares)
    stored = Gram(np.empty(ptr[-1], dtype=np.float32), ptr)
    if is_dense:
        _fill_dense(features, row_ptr, stored)
    else:
        head = np.full(n_rows, -1, dtype=np.int64)
        link = np.empty(np.diff(features.indptr[row_ptr]).max(initial=0), dtype=np.int64)
        _fill_sparse(features, row_ptr, stored, head, link)
    # Beyond the range of float32 the products are made in float64 when they are needed.
    return stored if np.isfinite(stored.values).all() else not_stored()

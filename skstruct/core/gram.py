"""Gram matrices of the feature rows of one sample, ``A_i A_i'``, for line searches and norms.

A solver's step along ``A_i' r`` moves the sample's potentials by ``A_i A_i' r``: with the Gram
matrix at hand a line search never touches the weights.
"""

from typing import NamedTuple

import numpy as np

from .dispatch import inner_kernel, kernel
from .features import DenseFeatures, clear_rows, gather, is_used, scatter
from .offsets import ends_of


class Gram(NamedTuple):
    """Gram matrices of the feature rows of every sample, stored or made when they are needed.

    Parameters
    ----------
    values : ndarray of float32
        The matrices, row-major, one after another.
    ptr : ndarray of shape (n_samples + 1,) of int64
        Where they begin; of shape (0,) if they are not stored.
    """

    values: np.ndarray
    ptr: np.ndarray


def not_stored():
    """Matrices that are made when they are needed, if ever.

    Returns
    -------
    Gram
        Nothing.
    """
    return Gram(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64))


def gram_of_constant(n_samples, n_rows):
    """Of samples that have the same rows, orthogonal ones of norm 1.

    Parameters
    ----------
    n_samples, n_rows : int
        How many samples, and rows of each.

    Returns
    -------
    Gram
        One identity matrix.
    """
    ptr = np.zeros(n_samples + 1, dtype=np.int64)
    return Gram(np.eye(n_rows, dtype=np.float32).reshape(-1), ptr)


@kernel
def gram_product(how, features, i, first, stop, width, r, out, offset, table):
    """``out <- X X' r`` for the feature rows `first` to `stop` of sample i.

    Parameters
    ----------
    how : Gram
        The matrices.
    features : DenseFeatures or SparseFeatures
        The feature rows.
    i : int
        The sample.
    first, stop : int
        Its rows.
    width : int
        Entries a row of `r` and `out`.
    r, out : ndarray
        Part-space arrays.
    offset : int
        Where the rows begin in them.
    table : ndarray of shape (n_rows, width)
        Scratch for matrices that are not stored: a weight table of zeros, and of zeros again after.
    """
    if how.ptr.shape[0] == 0:
        for t in range(first, stop):
            o = offset + (t - first) * width
            if is_used(r, o, width):
                scatter(features, t, table, r[o : o + width])
        for t in range(first, stop):
            o = offset + (t - first) * width
            gather(features, t, table, out[o : o + width])
        clear_rows(features, first, stop, table)
        return
    start, n = how.ptr[i], stop - first
    if n == 1:
        for q in range(offset, offset + width):
            out[q] = how.values[start] * r[q]
        return
    for q in range(offset, offset + n * width):
        out[q] = 0.0
    u = 0
    while u < n:
        # Four rows in use a turn: one round trip of `out` for all.
        count, a, b, c, d = 0, 0, 0, 0, 0
        while u < n and count < 4:
            if is_used(r, offset + u * width, width):
                a, b, c, d = b, c, d, u
                count += 1
            u += 1
        if count == 4:
            _add_four(how.values[start : start + n * n], n, width, r, offset, (a, b, c, d), out)
        for k in range(4 - count % 4, 4):  # fewer are left
            row = b if k == 1 else c if k == 2 else d
            _add_one(how.values[start + row * n : start + row * n + n], width, r, offset, row, out)


@inner_kernel
def _add_four(values, n, width, r, offset, rows, out):
    """Add what four rows of `r` give to all rows of `out`."""
    a, b, c, d = rows
    ra, rb, rc, rd = a * width, b * width, c * width, d * width
    ra, rb, rc, rd = offset + ra, offset + rb, offset + rc, offset + rd
    for t in range(n):
        o = offset + t * width
        # The matrix is symmetric: columns as rows.
        ga, gb, gc, gd = values[a * n + t], values[b * n + t], values[c * n + t], values[d * n + t]
        for k in range(width):
            out[o + k] += (ga * r[ra + k] + gb * r[rb + k]) + (gc * r[rc + k] + gd * r[rd + k])


@inner_kernel
def _add_one(values, width, r, offset, row, out):
    """Add what one row of `r` gives: many products are 0."""
    row = offset + row * width
    for t in range(values.shape[0]):
        g = values[t]
        if g != 0.0:
            o = offset + t * width
            for k in range(width):
                out[o + k] += g * r[row + k]


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
    """Gram matrices of samples, stored where that is not much larger than the features.

    Parameters
    ----------
    features : DenseFeatures or SparseFeatures
        The feature rows.
    row_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the rows of each sample begin.
    n_rows : int
        Rows of the weight table.

    Returns
    -------
    Gram
        What :func:`gram_product` takes.
    """
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

"""Rows of a feature matrix times a weight table; ``intercept`` is the constant's row, or -1."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .intrinsics import as_single, lowest_bit, sum_rows
from .jit.dispatch import generic
from .jit.kernels import inner_kernel, kernel

_sum_by_8, _sum_by_4, _sum_by_1 = (sum_rows(size) for size in (8, 4, 1))
largest_by_8, _largest_by_4, _largest_by_1 = (sum_rows(size, True) for size in (8, 4, 1))
sum_near_by_8 = sum_rows(8, near=True)


@inner_kernel(inline=True)
def begins_of(q, most):
    """First columns of three groups of 8, from column q on, none after `most`."""
    a, b = q + 8 if q + 8 < most else most, q + 16 if q + 16 < most else most
    return (q if q < most else most), a, b


@inner_kernel
def largest_sums(score, kept, count, table, more, t, acc):
    """``acc <- more[t] + max of score[j] + table[j]`` over the first `count` labels j in `kept`."""
    width = acc.shape[0]
    if width >= 8:
        for q in range(0, width, 24):
            begins = begins_of(q, width - 8)
            largest_by_8(score, kept, 0, count, 0, table, more, t, acc, begins)
    elif width >= 4:
        begins = 0, width - 4, width - 4
        _largest_by_4(score, kept, 0, count, 0, table, more, t, acc, begins)
    else:
        begins = 0, width // 2, width - 1
        _largest_by_1(score, kept, 0, count, 0, table, more, t, acc, begins)


# Partition of the weights among threads that add to them.

#: Number of classes of rows, which are divided among threads, and the mask of a class.
ALL_CLASSES = 64
LAST_CLASS = ALL_CLASSES - 1
_MANY_ROWS = 8 * ALL_CLASSES
_FLOATS = 8  # floats in a cache line


@inner_kernel(inline=True)
def share_of(w, n_rows, width):
    """The rows (columns, if rows are few) to which this thread adds, in the order of samples."""
    start, stop, low, high = 0, width, 0, ALL_CLASSES
    if w.share.shape[0] > 0:
        k, n = w.share[0], w.share[1]
        if width < _FLOATS:  # several rows in a cache line
            high = high if k == 0 else low
        elif n_rows >= _MANY_ROWS:
            low, high = ALL_CLASSES * k // n, ALL_CLASSES * (k + 1) // n
        else:
            lines = (width + _FLOATS - 1) // _FLOATS
            start, stop = lines * k // n * _FLOATS, lines * (k + 1) // n * _FLOATS
            start, stop = start if start < width else width, stop if stop < width else width
    return start, stop, low, high


_CHUNK = 32  # entries that are selected at once


class DenseFeatures(NamedTuple):
    """Feature rows `values` (n_rows, n_features), dense; `intercept` as in the module."""

    values: np.ndarray
    intercept: int


class SparseFeatures(NamedTuple):
    """Feature rows in CSR form: `data` (nnz,), `indices` of int32, `indptr` (n_rows + 1,) of int64.

    `intercept` is the table row of the constant feature, or -1.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    intercept: int


class ObservedFeatures(NamedTuple):
    """CSR rows of features with weights for some labels, listed wherever their feature occurs.

    Weights are one column, two while lazy: of features with many labels first, padded, then others.
    """

    # (nnz,), (nnz,), (n_rows + 1,): Features with many labels: values, offsets of their weights.
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    # (nnz_few,), ..., (n_rows + 1,): The rest: values, weights and their labels.
    few_data: np.ndarray
    places: np.ndarray
    labels: np.ndarray
    few_ptr: np.ndarray
    # (n_many * stride,): 1 for weights of features with many labels, 0 for padding.
    mask: np.ndarray
    # Number of labels, and the padded number.
    width: int
    stride: int


def constant_rows(features, n_rows):
    """Rows of one constant feature, for tables that all edges of a problem share."""
    if n_rows == 1:  # without arithmetic
        if isinstance(features, DenseFeatures):
            return DenseFeatures(np.empty((1, 0), features.values.dtype), 0)
        nothing = features.data[:0].copy(), features.indices[:0].copy()
        return SparseFeatures(*nothing, np.zeros(2, dtype=features.indptr.dtype), 0)
    if isinstance(features, DenseFeatures):
        return DenseFeatures(np.eye(n_rows, dtype=features.values.dtype), -1)
    columns = np.arange(n_rows, dtype=features.indices.dtype)
    ends = np.arange(n_rows + 1, dtype=features.indptr.dtype)
    return SparseFeatures(np.ones(n_rows, dtype=features.data.dtype), columns, ends, -1)


def square_features(problem):
    """The problem with squared features, for diagonals of ``A_i' D A_i``; None for other types."""
    kinds, changed = (DenseFeatures, SparseFeatures, ObservedFeatures), {}
    rows = problem.rows
    for name, features in rows._asdict().items():
        if isinstance(features, kinds):
            fields = features._asdict().items()
            squares = {k: v * v for k, v in fields if k in ("values", "data", "few_data")}
            changed[name] = features._replace(**squares)
    return problem._replace(rows=rows._replace(**changed)) if changed else None


# Problems on some of the features, or without duplicates.


def is_reducible(problem) -> bool:
    """Return whether the node table has weights for sparse rows."""
    return isinstance(getattr(problem.rows, "nodes", None), SparseFeatures)


def reduce_problem(problem, rows, n_rows: int):
    """The problem on some rows of the node table."""
    features = problem.rows.nodes
    place = np.full(n_rows, -1, dtype=features.indices.dtype)
    place[rows] = np.arange(len(rows))
    indices = place[features.indices]
    kept, data, ends = indices >= 0, features.data, features.indptr
    if not kept.all():
        counts = np.zeros(kept.size + 1, dtype=ends.dtype)
        np.cumsum(kept, out=counts[1:])
        data, indices, ends = data[kept], indices[kept], counts[ends]
    intercept = int(place[features.intercept]) if features.intercept >= 0 else -1
    reduced = SparseFeatures(data, indices, ends, intercept)
    return problem._replace(rows=problem.rows._replace(nodes=reduced))


# Least number of weights for which features are merged: fewer fit into the cache.
_MANY = 1 << 15
# More occurrences make a feature frequent.
_OFTEN = 30
# Rows that are read at once, so that temporary arrays are small.
_RUN = 1 << 12


class Copies(NamedTuple):
    """A problem with one feature, root m times as large, in place of m with equal columns."""

    # Some optimum has equal weights v for copies. The merged feature has the weight v * sqrt(m):
    # the score and the squared norm stay the same, and so does the L1 norm with a factor of
    # sqrt(m).

    problem: Any
    shapes: tuple
    # (n_distinct,): The roots of m.
    roots: np.ndarray
    # (n_distinct, n_rows): Orthonormal rows, in CSR form.
    basis: Any

    def take(self, weights):
        """Weights, or a gradient, of the distinct features."""
        return weights._replace(node=self.basis @ weights.node)

    def spread(self, weights):
        """The weights of all features."""
        return weights._replace(node=self.basis.T @ weights.node)


def merge_copies(problem, shapes) -> Copies | None:
    """The problem with distinct features, in an order for the cache; None if it has few weights."""
    n_rows = shapes[0][0]
    if not is_reducible(problem) or n_rows * shapes[0][1] < _MANY:
        return None
    features, rng = problem.rows.nodes, np.random.default_rng(0)
    indices, lengths = features.indices, np.diff(features.indptr)
    # Equal columns have equal products with random vectors modulo 2**64; different columns almost
    # surely do not. High bits are folded into low ones, since a product with 2**k keeps only the
    # lowest 64 - k bits of the random number, and exponents are the high bits.
    keys, again = np.zeros((2, n_rows), dtype=np.uint64)
    numbers = rng.integers(1 << 64, size=(2, lengths.size), dtype=np.uint64)
    place = np.full(n_rows, indices.size)
    for first in reversed(range(0, lengths.size, _RUN)):
        run = slice(first, min(first + _RUN, lengths.size))
        start, stop = features.indptr[run.start], features.indptr[run.stop]
        own = indices[start:stop]
        bits = features.data[start:stop].astype(np.float64, copy=False).view(np.uint64)
        mixed = bits ^ (bits >> 29) ^ (bits >> 52)
        for sums, drawn in zip((keys, again), numbers, strict=True):
            np.add.at(sums, own, mixed * np.repeat(drawn[run], lengths[run]))
        place[own[::-1]] = np.arange(start, stop)[::-1]
    if features.intercept >= 0:
        keys[features.intercept] += 1
    _, first, group, sizes = np.unique(keys, True, True, True)
    if not (again == again[first][group]).all():
        return None
    counts = np.bincount(indices, minlength=n_rows)
    # Frequent features together, then rare ones by first use: alphabetical order scatters both.
    order = np.argsort(np.where(counts > _OFTEN, -counts, place)[first], kind="stable")
    first, roots = first[order], np.sqrt(sizes[order])
    reduced = reduce_problem(problem, first, n_rows)
    merged = reduced.rows.nodes
    data = roots[merged.indices]
    data *= merged.data
    merged = merged._replace(data=data)
    row = np.empty_like(order)
    row[order] = np.arange(order.size)
    entries = 1.0 / roots[row[group]], (row[group], np.arange(n_rows))
    basis = sparse.csr_array(entries, shape=(order.size, n_rows))
    shapes = (order.size, shapes[0][1]), *shapes[1:]
    merged = reduced.rows._replace(nodes=merged)
    return Copies(reduced._replace(rows=merged), shapes, roots, basis)


@generic
def gather(features, t, table, acc, ahead):
    """``acc <- sum of x_j * table[j]`` over features j of row t; prefetches rows below `ahead`."""


@generic
def scatter(features, t, table, start, stop, low, high, acc):
    """``table[j, start:stop] += x_j * acc[start:stop]``, labels `low` to `high`."""


@generic
def clear_rows(features, first, stop, table):
    """``table[j] <- 0`` over the features j of rows `first` to `stop`."""


@generic
def gather_columns(features, t, table, start, stop, acc):
    """``acc[start:stop] <- sum of x_j * table[j, start:stop]`` over the features j of row t."""


@generic
def column_dot(features, t, table, k):
    """``sum of x_j * table[j, k]`` over the features j of row t, a float."""


@generic
def add_to_column(features, t, table, k, c):
    """``table[j, k] += c * x_j`` over the features j of row t."""


@gather.register(SparseFeatures)
@kernel
def _(features, t, table, acc, ahead):
    data, indices, intercept = features.data, features.indices, features.intercept
    first, stop = features.indptr[t], features.indptr[t + 1]
    width = table.shape[1] if table.shape[1] < acc.shape[0] else acc.shape[0]
    last = features.indptr[ahead] if ahead > 0 else indices.shape[0]
    if width >= 8:
        for q in range(0, width, 24):
            begins = begins_of(q, width - 8)
            _sum_by_8(data, indices, first, stop, last, table, table, intercept, acc, begins)
    elif width >= 4:
        begins = 0, width - 4, width - 4
        _sum_by_4(data, indices, first, stop, last, table, table, intercept, acc, begins)
    elif width > 0:
        begins = 0, width // 2, width - 1
        _sum_by_1(data, indices, first, stop, last, table, table, intercept, acc, begins)


@scatter.register(SparseFeatures)
@kernel
def _(features, t, table, start, stop, low, high, acc):
    added = acc[start:stop]
    if features.intercept >= 0 and low <= (features.intercept & LAST_CLASS) < high:
        row = table[features.intercept, start:stop]
        for q in range(added.shape[0]):
            row[q] += added[q]
    end = features.indptr[t + 1]
    for first in range(features.indptr[t], end, _CHUNK):
        # Their classes are in no order: a branch on each would be predicted half of the time.
        last = first + _CHUNK if first + _CHUNK < end else end
        entries, bits = features.indices[first:last], 0
        for p in range(entries.shape[0]):
            kind = entries[p] & LAST_CLASS
            bits |= ((kind >= low) & (kind < high)) << p
        while bits != 0:
            p = first + lowest_bit(bits)
            bits &= bits - 1
            x = table.dtype.type(features.data[p])  # all in one precision: conversions cost more
            row = table[features.indices[p], start:stop]  # loops over slices vectorise
            for q in range(added.shape[0]):
                row[q] += x * added[q]


@gather.register(DenseFeatures)
@kernel
def _(features, t, table, acc, ahead):
    width = table.shape[1] if table.shape[1] < acc.shape[0] else acc.shape[0]
    values = features.values
    if features.intercept >= 0:
        for q in range(width):
            acc[q] = table[features.intercept, q]
    else:
        for q in range(width):
            acc[q] = 0.0
    for j in range(values.shape[1]):
        x = values[t, j]
        if x != 0.0:
            for q in range(width):
                acc[q] += x * table[j, q]


@scatter.register(DenseFeatures)
@kernel
def _(features, t, table, start, stop, low, high, acc):
    values, added = features.values, acc[start:stop]
    if features.intercept >= 0 and low <= (features.intercept & LAST_CLASS) < high:
        row = table[features.intercept, start:stop]
        for q in range(added.shape[0]):
            row[q] += added[q]
    for j in range(values.shape[1]):
        x = table.dtype.type(values[t, j])
        if x != 0.0 and low <= (j & LAST_CLASS) < high:
            row = table[j, start:stop]
            for q in range(added.shape[0]):
                row[q] += x * added[q]


@clear_rows.register(SparseFeatures)
@kernel
def _(features, first, stop, table):
    width = table.shape[1]
    if features.intercept >= 0 and stop > first:
        for q in range(width):
            table[features.intercept, q] = 0.0
    for p in range(features.indptr[first], features.indptr[stop]):
        j = features.indices[p]
        for q in range(width):
            table[j, q] = 0.0


@clear_rows.register(DenseFeatures)
@kernel
def _(features, first, stop, table):
    for j in range(features.values.shape[1] if stop > first else 0):  # all rows have all features
        for q in range(table.shape[1]):
            table[j, q] = 0.0
    if features.intercept >= 0 and stop > first:
        for q in range(table.shape[1]):
            table[features.intercept, q] = 0.0


@gather_columns.register(SparseFeatures)
@kernel
def _(features, t, table, start, stop, acc):
    for q in range(start, stop):
        acc[q] = table[features.intercept, q] if features.intercept >= 0 else 0.0
    for p in range(features.indptr[t], features.indptr[t + 1]):
        j, x = features.indices[p], features.data[p]
        for q in range(start, stop):
            acc[q] += x * table[j, q]


@gather_columns.register(DenseFeatures)
@kernel
def _(features, t, table, start, stop, acc):
    for q in range(start, stop):
        acc[q] = table[features.intercept, q] if features.intercept >= 0 else 0.0
    for j in range(features.values.shape[1]):
        x = features.values[t, j]
        if x != 0.0:
            for q in range(start, stop):
                acc[q] += x * table[j, q]


@column_dot.register(SparseFeatures)
@kernel
def _(features, t, table, k):
    total = table[features.intercept, k] if features.intercept >= 0 else 0.0
    for p in range(features.indptr[t], features.indptr[t + 1]):
        total += features.data[p] * table[features.indices[p], k]
    return total


@column_dot.register(DenseFeatures)
@kernel
def _(features, t, table, k):
    total = table[features.intercept, k] if features.intercept >= 0 else 0.0
    for j in range(features.values.shape[1]):
        total += features.values[t, j] * table[j, k]
    return total


@add_to_column.register(SparseFeatures)
@kernel
def _(features, t, table, k, c):
    if features.intercept >= 0:
        table[features.intercept, k] += c
    for p in range(features.indptr[t], features.indptr[t + 1]):
        table[features.indices[p], k] += c * features.data[p]


@add_to_column.register(DenseFeatures)
@kernel
def _(features, t, table, k, c):
    if features.intercept >= 0:
        table[features.intercept, k] += c
    for j in range(features.values.shape[1]):
        table[j, k] += c * features.values[t, j]


@gather.register(ObservedFeatures)
@kernel
def _(features, t, table, acc, ahead):
    width, lazy, flat = features.width, table.shape[1] == 2, table.reshape(table.size)
    n = features.stride if not lazy and acc.shape[0] >= features.stride else width
    found = acc[:n]
    for k in range(2 * width if lazy else n):
        acc[k] = 0.0
    begins, data = features.indices, features.data
    p, stop = features.indptr[t], features.indptr[t + 1]
    while p + 3 < stop and not lazy:  # as for CSR rows, four a turn
        a, b = flat[begins[p] : begins[p] + n], flat[begins[p + 1] : begins[p + 1] + n]
        c, d = flat[begins[p + 2] : begins[p + 2] + n], flat[begins[p + 3] : begins[p + 3] + n]
        x0, x1, x2, x3 = data[p], data[p + 1], data[p + 2], data[p + 3]
        for k in range(n):
            found[k] += (x0 * a[k] + x1 * b[k]) + (x2 * c[k] + x3 * d[k])
        p += 4
    while p < stop:
        at, x = begins[p], data[p]
        if lazy:
            for k in range(width):
                acc[k] += x * flat[2 * (at + k)]
                acc[width + k] += x * flat[2 * (at + k) + 1]
        else:
            row = flat[at : at + n]
            for k in range(n):
                found[k] += x * row[k]
        p += 1
    for p in range(features.few_ptr[t], features.few_ptr[t + 1]):
        q, k, x = features.places[p], features.labels[p], features.few_data[p]
        if lazy:
            acc[k] += x * flat[2 * q]
            acc[width + k] += x * flat[2 * q + 1]
        else:
            acc[k] += x * flat[q]


@scatter.register(ObservedFeatures)
@kernel
def _(features, t, table, start, stop, low, high, acc):
    # One thread adds to a table of so few columns.
    width, lazy, flat = features.width, table.shape[1] == 2, table.reshape(table.size)
    n = features.stride if not lazy and acc.shape[0] >= features.stride else width
    added = acc[:n]
    for p in range(features.indptr[t], features.indptr[t + 1]):
        at, x = features.indices[p], table.dtype.type(features.data[p])
        kept = features.mask[at : at + n]
        if lazy:
            for k in range(width):
                flat[2 * (at + k)] += x * kept[k] * acc[k]
                flat[2 * (at + k) + 1] += x * kept[k] * acc[width + k]
        else:
            row = flat[at : at + n]
            for k in range(n):
                row[k] += x * kept[k] * added[k]
    for p in range(features.few_ptr[t], features.few_ptr[t + 1]):
        q, k, x = features.places[p], features.labels[p], table.dtype.type(features.few_data[p])
        if lazy:
            flat[2 * q] += x * acc[k]
            flat[2 * q + 1] += x * acc[width + k]
        else:
            flat[q] += x * acc[k]


@clear_rows.register(ObservedFeatures)
@kernel
def _(features, first, stop, table):
    for p in range(features.indptr[first], features.indptr[stop]):
        at = features.indices[p]
        for k in range(features.width):
            for column in range(table.shape[1]):
                table[at + k, column] = 0.0
    for p in range(features.few_ptr[first], features.few_ptr[stop]):
        for column in range(table.shape[1]):
            table[features.places[p], column] = 0.0


@inner_kernel(inline=True)
def is_used(r, at, width):
    """Return whether a row is nonzero: forbidden, certain and unchanged labels leave zeros."""
    k = 0
    while k < width and r[at + k] == 0.0:
        k += 1
    return k < width


@inner_kernel(inline=True)
def _is_single(table, w):
    """Return whether the weights of `table`, which is empty then, are in single precision."""
    own = w.single.shape[1] == table.shape[1]
    return table.shape[0] == 0 and w.single.shape[0] > 0 and own


@inner_kernel
def scores(features, first, stop, width, table, w, acc, theta, offset):
    """Write ``rows @ weights`` for rows `first` to `stop` of `features` to ``theta[offset:]``.

    `table` is ``w.node`` or ``w.pair``, of `width` weight columns, of the weights `w`; `acc`, of
    shape (>= table.shape[1],), is scratch; `theta` are flat potentials.
    """
    single, lazy = _is_single(table, w), w.scale.shape[0] > 0
    # A column of observed weights stands for `width`. (``max`` would take time to compile.)
    half = table.shape[1] // 2
    half = half if half > width else width
    s, b = (w.scale[0], w.scale[1]) if lazy else (1.0, 0.0)
    ahead = stop if lazy else 0  # plain weights are mostly those of passes in order
    direct = not lazy and table.shape[1] == width
    # Where b is 0, the direction is not read.
    is_half = lazy and b == 0.0 and 2 * half == table.shape[1] > 2
    found = acc[:half] if is_half else acc
    for t in range(first, stop):
        o = offset + (t - first) * width
        if single:
            gather(features, t, w.single, found, ahead)
        elif direct:
            gather(features, t, table, theta[o : o + width], ahead)
            continue
        else:
            gather(features, t, table, found, ahead)
        out, direction = theta[o : o + width], acc[half:]
        if is_half:
            for k in range(width):
                out[k] = s * acc[k]
        elif lazy:
            for k in range(width):
                out[k] = s * acc[k] + b * direction[k]
        else:
            for k in range(width):
                out[k] = acc[k]


@inner_kernel
def add_outer(features, first, last, width, r, offset, c, table, w, acc):
    """Add ``c * rows.T @ r`` for rows `first` to `last` to this thread's part of the weights.

    `r` are residuals in part space, from `offset` on for row `first`; `c` is a pair of factors, for
    the weights and for their direction ``d`` (plain weights have none). `features`, `width`,
    `table`, `w` and `acc` are as for :func:`scores`.
    """
    lazy = w.scale.shape[0] > 0
    half = table.shape[1] // 2
    half = half if half > width else width
    single = _is_single(table, w)
    n_rows = w.single.shape[0] if single else table.shape[0]
    start, stop, low, high = share_of(w, n_rows, table.shape[1])
    if start == stop or low == high:
        return
    c_v = c[0]
    if lazy:  # w = s v + b d: adding to d alone must leave w in place, so v takes -b/s of it.
        c_v = (c[0] - w.scale[1] * c[1]) / w.scale[0]
        if c_v == 0.0 and start == 0 and half < stop:
            start = half
    # The row and its padding (below 16 columns, in both precisions), not all of the scratch, which
    # is as wide as the widest table.
    room = 2 * (width + 16) if lazy else width + 16
    for k in range(room if room < acc.shape[0] else acc.shape[0]):
        acc[k] = 0.0
    short = as_single(acc)
    for t in range(first, last):
        o = offset + (t - first) * width
        if not is_used(r, o, width):
            continue
        if single:
            _spread(r, o, width, c_v, c[1], lazy, half, short)
            scatter(features, t, w.single, start, stop, low, high, short)
        else:
            _spread(r, o, width, c_v, c[1], lazy, half, acc)
            scatter(features, t, table, start, stop, low, high, acc)


@inner_kernel(inline=True)
def _spread(r, o, width, c_v, c_d, lazy, half, row):
    """Write the addends of a row of the table to `row`, for ``v`` and, if lazy, for ``d``."""
    given, direction = r[o : o + width], row[half:]
    for k in range(width):
        row[k] = c_v * given[k]
    for k in range(width if lazy else 0):
        direction[k] = c_d * given[k]

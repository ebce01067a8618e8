"""Weight vectors: plain tables, and the lazy form that makes a dense step cost O(nnz).

*Lazy* weights are ``w = s v + b d``, with a dense direction ``d``: a row holds ``v`` then ``d``,
each padded to whole cache lines (8 floats) if it has four columns or more. Decay and steps along
``d`` change `s` and `b` only. In single precision ``d`` certifies nothing.
"""

from typing import NamedTuple

import numpy as np

from .jit.kernels import inner_kernel, kernel
from .jit.signatures import declare

# No precision is lost until v nears the end of float64: updates of v are relative to s v.
_FOLD_BELOW = 1e-100
_FOLD_SINGLE_BELOW = 1e-15  # the same for float32
_LINE = 8  # floats in a cache line
_NARROW = 4  # rows of fewer columns are not padded
#: Floats that are processed at once, so that v, d and temporaries stay in the cache.
BLOCK = 1 << 15
_PLAIN = np.empty(0)
#: ``Weights.single`` of weights in double precision.
DOUBLE = np.empty((0, 0), dtype=np.float32)
_WHOLE = np.empty(0, dtype=np.int64)


class Weights(NamedTuple):
    """Weights, plain or lazy.

    Parameters
    ----------
    node : ndarray of shape (n_rows, n_labels)
        Weights of node features. For lazy weights (n_rows, 2 * padded n_labels): ``v`` in the
        first half of each row, ``d`` in the second.
    pair : ndarray of shape (n_pair_rows, n_pairs)
        The same for edge features.
    scale : ndarray of shape (0,) or (2,)
        The scalars `s` and `b` of lazy weights; plain ones have none.
    single : ndarray of float32, of shape (0, 0) or that of `node`
        The node table of lazy weights in single precision: `node` then has no rows.
    share : ndarray of shape (0,) or (2,) of int64
        ``(k, n)`` for the part of the weights that the k-th of n threads adds to, see
        :func:`skstruct.core.features.share_of`; empty for all weights.
    """

    node: np.ndarray
    pair: np.ndarray
    scale: np.ndarray = _PLAIN
    single: np.ndarray = DOUBLE
    share: np.ndarray = _WHOLE

    @property
    def tables(self):
        """The two tables."""
        return (self.single if self.single.size else self.node), self.pair

    def copy(self):
        """Return a copy of plain weights."""
        return Weights(*(table.copy() for table in self.tables))


def zero_weights(shapes):
    """Plain weights of zeros."""
    return Weights(np.zeros(shapes[0]), np.zeros(shapes[1]))


declare(zero_weights(((0, 0), (0, 0))))


def flatten(weights):
    """All tables of weights as one vector."""
    return np.concatenate([table.ravel() for table in weights.tables])


def view_flat(flat, shapes):
    """The tables of a vector, as views."""
    node, pair = np.split(flat, [shapes[0][0] * shapes[0][1]])
    return Weights(node.reshape(shapes[0]), pair.reshape(shapes[1]))


# Compiled loops branch to code that adds in another order if the arrays that they read and write
# begin within a few vectors of each other. Arrays of a thread are further apart, or results would
# depend on their addresses.
_APART = 128


def aligned(size, make=np.zeros):
    """A flat float64 array that begins at a cache line, at a distance from the next allocation."""
    flat = make(size + _LINE + _APART)
    skip = (-flat.ctypes.data // flat.itemsize) % _LINE
    return flat[skip : skip + size]


def padded_width(width):
    """Columns of a row padded to whole cache lines; fewer than 4 are not padded."""
    return -(-width // _LINE) * _LINE if width >= _NARROW else width


def lazy_weights(weights):
    """Lazy weights with the value of `weights` and ``d = 0``."""
    tables = []
    for table in weights.tables:
        rows, width = table.shape
        columns = 2 * padded_width(width)
        both = aligned(rows * columns).reshape(rows, columns)
        if table.any():
            both[:, :width] = table
        tables.append(both)
    return Weights(*tables, np.array([1.0, 0.0]))


def halves(lazy, shapes):
    """The tables of ``v`` and of ``d``, without their padding."""
    for table, (_, width) in zip(lazy.tables, shapes, strict=True):
        half = table.shape[1] // 2
        yield table[:, :width], table[:, half : half + width]


def _runs(table):
    """Runs of rows that fit the cache, as slices."""
    size = max(1, BLOCK // max(table.shape[1], 1))
    return [slice(first, first + size) for first in range(0, len(table), size)]


def plain_weights(lazy, shapes):
    """The value ``s v + b d`` of lazy weights."""
    out = zero_weights(shapes)
    s, b = lazy.scale
    with np.errstate(over="ignore", invalid="ignore"):
        for (v, d), target in zip(halves(lazy, shapes), out.tables, strict=True):
            np.multiply(v, s, out=target)
            if b:
                target += b * d
    return out


def squared_norm(w):
    """``||w||^2``, of plain or lazy weights."""
    if w.scale.size:
        return squared_norms(w, 0.0, 0.0)[0]
    # Not by BLAS, whose threads would wait for each other longer than this takes.
    return float(sum(np.einsum("ij,ij->", table, table) for table in w.tables))


def inner_product(tables, others) -> float:
    """Sum of the products of the entries of tables, the same for any number of BLAS threads."""
    pairs = zip(tables, others, strict=True)
    return float(sum(np.einsum("ij,ij->", table, other) for table, other in pairs))


@inner_kernel(inline=True)
def decay(w, rho, eta):
    """``w <- rho w - eta d`` in O(1); :func:`fold_small` must follow before `s` vanishes."""
    w.scale[0] *= rho
    w.scale[1] = rho * w.scale[1] - eta


@inner_kernel(inline=True)
def decay_and_step(w, rho, eta):
    """``w <- rho w - eta d`` in O(1), folding when `s` has become small."""
    decay(w, rho, eta)
    fold_small(w)


@inner_kernel(inline=True)
def fold_small(w):
    """:func:`fold` when `s` has become small, for kernels."""
    least = _FOLD_BELOW if w.single.shape[0] == 0 else _FOLD_SINGLE_BELOW
    if abs(w.scale[0]) < least:
        s, b = w.scale[0], w.scale[1]
        for table in (w.node, w.pair):
            _fold_table(table, s, b)
        _fold_table(w.single, s, b)
        w.scale[0] = 1.0
        w.scale[1] = 0.0


@inner_kernel(inline=True)
def _fold_table(table, s, b):
    """``v <- s v + b d`` in a table."""
    width = table.shape[1] // 2
    for j in range(table.shape[0]):
        for k in range(width):
            table[j, k] = s * table[j, k] + b * table[j, width + k]


def fold(w):
    """``v <- s v + b d, s <- 1, b <- 0``: the value of `w` stays."""
    s, b = w.scale
    if s == 1.0 and b == 0.0:
        return
    # As in kernels: the next certificate detects overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        for table in w.tables:
            half = table.shape[1] // 2
            for run in _runs(table):
                v, d = table[run, :half], table[run, half:]
                v *= s
                v += b * d
    w.scale[:] = 1.0, 0.0


@kernel
def squared_norms(w, inverse_n, lam):
    """Squared norms of `w`, of ``g = d * inverse_n`` and of ``g + lam * w``, in one sweep."""
    s, b = w.scale[0], w.scale[1]
    sums = _add_norms(w.single, s, b, inverse_n, lam, (0.0, 0.0, 0.0))
    for table in (w.node, w.pair):
        sums = _add_norms(table, s, b, inverse_n, lam, sums)
    return sums


@inner_kernel(inline=True)
def _add_norms(table, s, b, inverse_n, lam, sums):
    """Add those of a table to the sums of :func:`squared_norms`."""
    value, direction, both = sums
    half = table.shape[1] // 2
    for j in range(table.shape[0]):
        for k in range(half):
            g = inverse_n * table[j, half + k]
            entry = s * table[j, k] + b * table[j, half + k]
            value += entry * entry
            direction += g * g
            # Not |w|^2 + 2 <w, g> + |g|^2: near the optimum that cancels.
            both += (g + lam * entry) * (g + lam * entry)
    return value, direction, both


# Lazy weights in single precision, and back.


def in_single(lazy):
    """Move lazy weights to single precision, in their own memory."""
    node = lazy.node
    single = node.reshape(-1)[node.size // 2 :].view(np.float32).reshape(node.shape)
    is_zero = True
    for run in reversed(_runs(node)):
        # Backwards: a row in single precision begins after the rows that are still to be converted.
        rows = node[run]
        is_zero = is_zero and not rows.any()
        if not is_zero:  # untouched memory takes no room
            single[run] = rows.astype(np.float32)
    return lazy._replace(node=node[:0], single=single)


def in_double(lazy, memory):
    """Move lazy weights in single precision back, with ``d = 0`` in both tables."""
    node, single, pair = memory.node, lazy.single, lazy.pair
    (s, b), half = lazy.scale, node.shape[1] // 2
    with np.errstate(over="ignore", invalid="ignore"):
        for run in _runs(node):
            rows = single[run].astype(np.float64)
            node[run, :half] = s * rows[:, :half] + b * rows[:, half:]
            node[run, half:] = 0.0
    fold(lazy._replace(single=single[:0]))
    pair[:, pair.shape[1] // 2 :] = 0.0
    return lazy._replace(node=node, single=DOUBLE)

"""Weight vectors: plain tables, and the lazy form that makes a dense step cost O(nnz).

Every model keeps its weights in two tables. ``node`` has a row per feature (then, if used, the
intercept, start and stop rows) and a column per label; ``pair`` has a row per edge feature and a
column per label pair.

:class:`LazyWeights` represents ``w = s v + b d`` with two scalars, where ``d`` is a dense direction
(SAG's gradient sum, SVRG's mean gradient). A row holds ``v`` then ``d``, so that one row is one run
of memory:

Both halves of a row are padded with zeros to whole cache lines (8 floats): on CoNLL-2000 that takes
a third off the time of a pass over the rows.

* decay ``w <- rho w`` and step ``w <- w - eta d`` change only `s` and `b`;
* adding to ``d``, or to ``w``, touches only the rows of the current sample.
"""

from typing import NamedTuple

import numpy as np

from .dispatch import generic, kernel

# No digit is lost before v nears the end of float64: every update of v is relative to s v.
_FOLD_BELOW = 1e-100
_LINE = 8  # floats in a cache line


class Weights(NamedTuple):
    """Plain weights.

    Parameters
    ----------
    node : ndarray of shape (n_rows, n_labels)
        Weights of node features.
    pair : ndarray of shape (n_pair_rows, n_pairs)
        Weights of edge features.
    """

    node: np.ndarray
    pair: np.ndarray


class LazyWeights(NamedTuple):
    """Weights ``s v + b d``, the tables interleaved row by row.

    Parameters
    ----------
    node : ndarray of shape (n_rows, 2 * padded n_labels)
        ``v`` in the first half of each row, ``d`` in the second.
    pair : ndarray of shape (n_pair_rows, 2 * padded n_pairs)
        The same for edge features.
    scale : ndarray of shape (2,)
        The scalars `s` and `b`.
    """

    node: np.ndarray
    pair: np.ndarray
    scale: np.ndarray


def zero_weights(shapes):
    """Plain weights of zeros.

    Parameters
    ----------
    shapes : tuple of two tuples of int
        Shapes of the node and the pair table.

    Returns
    -------
    Weights
        The weights.

    Examples
    --------
    >>> from skstruct.core.weights import zero_weights
    >>> zero_weights(((3, 2), (1, 4))).pair.shape
    (1, 4)
    """
    return Weights(np.zeros(shapes[0]), np.zeros(shapes[1]))


def aligned(size, make=np.zeros):
    """A flat float64 array that begins at a cache line.

    Parameters
    ----------
    size : int
        Its length.
    make : callable
        ``np.zeros`` or ``np.empty``.

    Returns
    -------
    ndarray of shape (size,)
        The array.

    Examples
    --------
    >>> from skstruct.core.weights import aligned
    >>> aligned(3).ctypes.data % 64
    0
    """
    flat = make(size + _LINE)
    skip = (-flat.ctypes.data // flat.itemsize) % _LINE
    return flat[skip : skip + size]


def lazy_weights(weights):
    """Lazy weights with the value of `weights` and ``d = 0``.

    Parameters
    ----------
    weights : Weights
        The starting point; it is copied.

    Returns
    -------
    LazyWeights
        ``s = 1, v = weights, b = 0, d = 0``.

    Examples
    --------
    >>> from skstruct.core.weights import lazy_weights, zero_weights
    >>> lazy_weights(zero_weights(((3, 2), (1, 4)))).node.shape
    (3, 16)
    """
    tables = []
    for table in weights:
        rows, width = table.shape
        columns = 2 * (-(-width // _LINE) * _LINE)
        both = aligned(rows * columns).reshape(rows, columns)
        if table.any():
            both[:, :width] = table
        tables.append(both)
    return LazyWeights(*tables, np.array([1.0, 0.0]))


def plain_weights(lazy, shapes):
    """The value ``s v + b d`` of lazy weights.

    Parameters
    ----------
    lazy : LazyWeights
        The lazy weights.
    shapes : tuple of two tuples of int
        Shapes of the plain tables.

    Returns
    -------
    Weights
        The dense value.

    Examples
    --------
    >>> from skstruct.core.weights import lazy_weights, plain_weights, zero_weights
    >>> shapes = ((1, 1), (1, 1))
    >>> float(plain_weights(lazy_weights(zero_weights(shapes)), shapes).node[0, 0])
    0.0
    """
    out = zero_weights(shapes)
    for table, target in zip(lazy[:2], out, strict=True):
        _write_value(table, lazy.scale, target)
    return out


@kernel
def _write_value(table, scale, out):
    half = table.shape[1] // 2
    for j in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[j, k] = scale[0] * table[j, k] + scale[1] * table[j, half + k]


@kernel
def squared_norm(w):
    """``||w||^2`` of lazy weights.

    Parameters
    ----------
    w : LazyWeights
        The weights.

    Returns
    -------
    float
        The squared Euclidean norm.

    Examples
    --------
    >>> from skstruct.core.weights import lazy_weights, squared_norm, zero_weights
    >>> squared_norm(lazy_weights(zero_weights(((1, 1), (0, 0)))))
    0.0
    """
    s, b = w.scale[0], w.scale[1]
    total = 0.0
    for table in (w.node, w.pair):
        half = table.shape[1] // 2
        for j in range(table.shape[0]):
            for k in range(half):
                value = s * table[j, k] + b * table[j, half + k]
                total += value * value
    return total


@generic
def combine(w, acc, stride, width, out, offset):
    """Write a row of scores to ``out[offset : offset + width]`` from gathered table rows `acc`.

    `stride` is the length of a table row.
    """


@generic
def split(w, r, offset, stride, width, c, acc):
    """Write to `acc` what a unit feature adds to its table row for residual ``r[offset:]``.

    `c` is a pair: what to add to the weights, and what to add to the direction ``d`` (0 for plain
    weights, which have none).
    """


@combine.register(Weights)
@kernel
def _(w, acc, stride, width, out, offset):
    for k in range(width):
        out[offset + k] = acc[k]


@split.register(Weights)
@kernel
def _(w, r, offset, stride, width, c, acc):
    for k in range(width):
        acc[k] = c[0] * r[offset + k]


@combine.register(LazyWeights)
@kernel
def _(w, acc, stride, width, out, offset):
    s, b = w.scale[0], w.scale[1]
    half = stride // 2
    for k in range(width):
        out[offset + k] = s * acc[k] + b * acc[half + k]


@split.register(LazyWeights)
@kernel
def _(w, r, offset, stride, width, c, acc):
    # w = s v + b d: adding to d alone must leave w in place, so v takes -b/s of it.
    c_v = (c[0] - w.scale[1] * c[1]) / w.scale[0]
    half = stride // 2
    for k in range(width):
        acc[k] = c_v * r[offset + k]
        acc[half + k] = c[1] * r[offset + k]
    for k in range(width, half):
        acc[k] = 0.0
        acc[half + k] = 0.0


@kernel(inline=True)
def decay_and_step(w, rho, eta):
    """``w <- rho w - eta d`` in O(1), folding when `s` has become small.

    Parameters
    ----------
    w : LazyWeights
        The weights.
    rho : float
        Decay factor.
    eta : float
        Step along ``-d``.

    Examples
    --------
    >>> from skstruct.core.weights import decay_and_step, lazy_weights, zero_weights
    >>> w = lazy_weights(zero_weights(((1, 1), (0, 0))))
    >>> decay_and_step(w, 0.5, 0.25)
    >>> [float(a) for a in w.scale]
    [0.5, -0.25]
    """
    w.scale[0] *= rho
    w.scale[1] = rho * w.scale[1] - eta
    if abs(w.scale[0]) < _FOLD_BELOW:
        fold(w)


@kernel
def fold(w):
    """``v <- s v + b d, s <- 1, b <- 0``: the value of `w` stays.

    Parameters
    ----------
    w : LazyWeights
        The weights.

    Examples
    --------
    >>> from skstruct.core.weights import fold, lazy_weights, zero_weights
    >>> w = lazy_weights(zero_weights(((1, 1), (0, 0))))
    >>> fold(w)
    """
    s, b = w.scale[0], w.scale[1]
    for table in (w.node, w.pair):
        width = table.shape[1] // 2
        for j in range(table.shape[0]):
            for k in range(width):
                table[j, k] = s * table[j, k] + b * table[j, width + k]
    w.scale[0] = 1.0
    w.scale[1] = 0.0


@kernel
def squared_norms(w, inverse_n, lam):
    """Squared norms of `w`, of ``g = d * inverse_n`` and of ``g + lam * w``, in one sweep.

    Parameters
    ----------
    w : LazyWeights
        The weights.
    inverse_n : float
        Scale of ``d``.
    lam : float
        The regulariser.

    Returns
    -------
    tuple of float
        The three squared Euclidean norms.

    Examples
    --------
    >>> from skstruct.core.weights import lazy_weights, squared_norms, zero_weights
    >>> squared_norms(lazy_weights(zero_weights(((1, 1), (0, 0)))), 1.0, 1.0)
    (0.0, 0.0, 0.0)
    """
    s, b = w.scale[0], w.scale[1]
    value, direction, both = 0.0, 0.0, 0.0
    for table in (w.node, w.pair):
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

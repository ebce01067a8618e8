"""Weights at rest under an elastic net: ``w = -soft(g, lam1) / lam2``, read off ``d`` (g)."""

import math
from typing import NamedTuple

import numpy as np

from .features import ObservedFeatures, SparseFeatures, scores
from .intrinsics import prefetch
from .jit.dispatch import generic
from .jit.kernels import inner_kernel, kernel
from .jit.signatures import Floats, declare
from .oracles import potentials
from .weights import Weights, zero_weights

# Floats in a cache line.
_FLOATS = 8


class ElasticNet(NamedTuple):
    """The penalty ``lam1 |w|_1 + lam2/2 |w|^2``."""

    # (n_rows,): Factors of lam1 of the rows of each table.
    node: np.ndarray
    pair: np.ndarray
    # lam1, positive.
    l1: float
    # lam2, may be 0.
    l2: float


def elastic_net(w, l1, l2):
    """The penalty with equal factors for all rows."""
    return ElasticNet(*(np.ones(table.shape[0]) for table in w.tables), float(l1), float(l2))


declare(elastic_net(zero_weights(((0, 0), (0, 0))), 0.0, 0.0))


@inner_kernel
def _set_at_rest(table, shares, penalty):
    """Give all rows of a table the weights of their directions."""
    inverse, half = -1.0 / penalty.l2, table.shape[1] // 2
    for j in range(table.shape[0]):
        l1 = penalty.l1 * shares[j]
        weights, directions = table[j, :half], table[j, half:]  # loops over slices vectorise
        for k in range(half):
            g = directions[k]
            low = g if g > -l1 else -l1
            weights[k] = inverse * (g - (low if low < l1 else l1))


@kernel
def set_at_rest(w, penalty):
    """Give all weights their values at rest; `w` is lazy, with ``s = 1`` and ``b = 0``."""
    _set_at_rest(w.node, penalty.node, penalty)
    _set_at_rest(w.pair, penalty.pair, penalty)


@generic
def rest_scores(features, first, stop, width, table, w, shares, penalty, acc, theta, offset):
    """:func:`skstruct.core.scores` with weights at rest, whatever they are in `table`."""


@rest_scores.register(object)
@kernel
def _(features, first, stop, width, table, w, shares, penalty, acc, theta, offset):
    _set_at_rest(table, shares, penalty)
    scores(features, first, stop, width, table, w, acc, theta, offset)


@rest_scores.register(SparseFeatures)
@kernel
def _(features, first, stop, width, table, w, shares, penalty, acc, theta, offset):
    # The weights depend on d only: v, half of the memory, is neither read nor written.
    half, inverse, found = table.shape[1] // 2, -1.0 / penalty.l2, acc[: table.shape[1] // 2]
    indices, ptr = features.indices, features.indptr
    for t in range(first, stop):
        for p in range(ptr[t + 1], ptr[t + 2] if t + 1 < stop else 0):
            for k in range(half, 2 * half, _FLOATS):
                prefetch(table, indices[p], k)
        for k in range(half):
            found[k] = 0.0
        for p in range(ptr[t] - (1 if features.intercept >= 0 else 0), ptr[t + 1]):
            j, x = features.intercept, 1.0
            if p >= ptr[t]:
                j, x = indices[p], features.data[p]
            l1, directions = penalty.l1 * shares[j], table[j, half:]
            for k in range(half):
                low = directions[k] if directions[k] > -l1 else -l1
                found[k] += x * (directions[k] - (low if low < l1 else l1))
        out = theta[offset + (t - first) * width : offset + (t - first + 1) * width]
        for k in range(width):
            out[k] = inverse * found[k]


@rest_scores.register(ObservedFeatures)
@kernel
def _(features, first, stop, width, table, w, shares, penalty, acc, theta, offset):
    # Rows of v and d, one per weight. In the padding, d = 0.
    inverse, l1, flat = -1.0 / penalty.l2, penalty.l1, table.reshape(table.size)
    found, places = acc[:width], features.places
    for t in range(first, stop):
        for k in range(width):
            found[k] = 0.0
        for p in range(features.indptr[t], features.indptr[t + 1]):
            x, own = features.data[p], flat[2 * features.indices[p] :]
            for k in range(width):
                d = own[2 * k + 1]
                low = d if d > -l1 else -l1
                found[k] += x * (d - (low if low < l1 else l1))
        for p in range(features.few_ptr[t], features.few_ptr[t + 1]):
            d = flat[2 * places[p] + 1]
            low = d if d > -l1 else -l1
            found[features.labels[p]] += features.few_data[p] * (d - (low if low < l1 else l1))
        out = theta[offset + (t - first) * width : offset + (t - first + 1) * width]
        for k in range(width):
            out[k] = inverse * found[k]


@generic(part="rows", follows=(potentials,))
def rest_potentials(problem, i: int, w: Weights, penalty: ElasticNet, theta: Floats) -> None:
    """:func:`potentials` of rows with weights at rest, whatever they are in `w`."""


@rest_potentials.register(object)
@kernel
def _(problem, i, w, penalty, theta):
    set_at_rest(w, penalty)
    potentials(problem, i, w, theta)


# Positions in the sums of :func:`sum_weights`.
L1, L2, ALONG, SUBGRADIENT, YOUNG, LARGEST, SOFT, SOFT_SLOPE, SOFT_CURVE = range(9)


@inner_kernel
def _sum_row(table, share, j, penalty, sums):
    half = table.shape[1] // 2
    l1, l2 = penalty.l1 * share, penalty.l2
    inverse = 1.0 / l2 if l2 > 0.0 else 0.0
    weights, directions = table[j, :half], table[j, half:]
    size, square, along, subgradient, young = 0.0, 0.0, 0.0, 0.0, 0.0
    soft, slope, curve, larger, largest = 0.0, 0.0, 0.0, 0.0, sums[LARGEST] * share
    for k in range(half):
        v, g = weights[k], directions[k]
        height = abs(g)
        over = height - l1 if height > l1 else 0.0
        shrunk = math.copysign(over, g)
        inner = g - shrunk
        size += abs(v)
        square += v * v
        along += v * g
        least = l2 * v + g + math.copysign(l1, v) if v != 0.0 else shrunk
        subgradient += least * least
        # Fenchel-Young gap of the penalty, as two terms that are not negative.
        young += 0.5 * inverse * (l2 * v + shrunk) * (l2 * v + shrunk) + (l1 * abs(v) + v * inner)
        soft += over * over
        slope += height * over
        curve += height * height if over > 0.0 else 0.0
        larger += 1.0 if height > largest else 0.0
    if larger > 0.0:  # a loop with a maximum does not vectorise: few rows need it
        for k in range(half):
            height = abs(directions[k])
            largest = height if height > largest else largest
    sums[L1] += share * size
    sums[L2] += square
    sums[ALONG] += along
    sums[SUBGRADIENT] += subgradient
    sums[YOUNG] += young
    sums[LARGEST] = max(largest / share, sums[LARGEST])
    sums[SOFT] += soft
    sums[SOFT_SLOPE] += slope
    sums[SOFT_CURVE] += curve


@kernel
def sum_weights(w, penalty, sums):
    """Sum what certificates need of weights and mean gradient."""
    sums[:] = 0.0
    for table, shares in ((w.node, penalty.node), (w.pair, penalty.pair)):
        for j in range(table.shape[0]):
            _sum_row(table, shares[j], j, penalty, sums)


@kernel
def soft_sums(w, penalty, t):
    """``S, S'/2, S''/2`` of ``S(t) = |soft(t g)|**2``."""
    value, slope, curve = 0.0, 0.0, 0.0
    for table, shares in ((w.node, penalty.node), (w.pair, penalty.pair)):
        for j in range(table.shape[0]):
            directions, l1 = table[j, table.shape[1] // 2 :], penalty.l1 * shares[j]
            for k in range(directions.shape[0]):
                height = abs(directions[k])
                over = t * height - l1 if t * height > l1 else 0.0
                value += over * over
                slope += height * over
                curve += height * height if over > 0.0 else 0.0
    return value, slope, curve

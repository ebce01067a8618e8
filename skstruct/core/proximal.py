"""Weight rows under an L1 penalty, brought up to date when they are read.

Between two visits of a feature its gradient d_j is constant, and its weights follow the proximal
gradient flow ``w' = -(lam2 w + g + lam1 sign w)``, g the mean gradient, in closed form: a weight
moves in one direction, and at 0 stops or continues with the other sign. The flow is the limit of
the truncated gradient's soft thresholds (Langford, Li and Zhang 2009); lazy updates: Schmidt, Le
Roux and Bach 2017, section 3.5.
"""

import math
from typing import NamedTuple

import numpy as np

from .features import DenseFeatures, ObservedFeatures, SparseFeatures, scores
from .intrinsics import prefetch
from .jit.dispatch import generic, inner_kernel, kernel
from .jit.signatures import Floats, declare
from .oracles import potentials
from .weights import Weights, zero_weights

_FEW = 1e-2  # below, five terms of the series are accurate to 12 digits
_LONG = 750.0  # beyond, exp(-x) underflows: the start does not count
# Prefetch distance in rows, and floats in a cache line.
_AHEAD, _FLOATS = 8, 8


class Clock(NamedTuple):
    """The time of a flow, and when each row was last brought up to date."""

    # (2,): The sum of all steps, and of all steps over the number of gradients that ``d`` sums.
    now: np.ndarray
    # (n_rows, 3): `now` at the last update of each row of the two tables, and its factor of lam1.
    node: np.ndarray
    pair: np.ndarray
    # lam1, positive.
    l1: float
    # lam2, may be 0.
    l2: float


def start_clock(w, l1, l2):
    """A clock at 0: all rows are up to date."""
    stamps = [np.zeros((table.shape[0], 3)) for table in w.tables]
    for own in stamps:
        own[:, 2] = 1.0
    return Clock(np.zeros(2), *stamps, float(l1), float(l2))


declare(start_clock(zero_weights(((0, 0), (0, 0))), 0.0, 0.0))


@inner_kernel
def advance_row(table, stamps, j, clock):
    """Bring row j of a table up to date."""
    span = clock.now[0] - stamps[j, 0]
    if not span > 0.0:
        return
    ratio = (clock.now[1] - stamps[j, 1]) / span
    stamps[j, 0], stamps[j, 1] = clock.now[0], clock.now[1]
    l1, x = clock.l1 * stamps[j, 2], clock.l2 * span
    half = table.shape[1] // 2
    weights, directions = table[j, :half], table[j, half:]  # loops over slices vectorise
    if x > _LONG:
        inverse = -1.0 / clock.l2
        for k in range(half):
            g = ratio * directions[k]
            low = g if g > -l1 else -l1
            weights[k] = inverse * (g - (low if low < l1 else l1))
        return
    # Remaining fraction of a weight, and its change under a gradient of 1.
    if x < _FEW:
        reach = span * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0 * (1.0 - x / 5.0))))
    else:
        reach = -math.expm1(-x) / clock.l2
    left = 1.0 - clock.l2 * reach
    for k in range(half):
        v, g = weights[k], ratio * directions[k]
        sign = math.copysign(1.0, v if v != 0.0 else g)
        along = sign * g
        pull = along + l1
        end = left * abs(v) - reach * pull
        beyond = along - l1 if along > l1 else 0.0
        weights[k] = sign * (end if end > 0.0 else end * beyond / pull)


@generic
def catch_up_rows(features, first, stop, table, stamps, clock):
    """Bring the table rows of the features of rows `first` to `stop` up to date.

    `table` is ``w.node`` or ``w.pair``, and `stamps`, of shape (n_rows, 3), the field of `clock` of
    that name.
    """


@catch_up_rows.register(SparseFeatures)
@kernel
def _(features, first, stop, table, stamps, clock):
    if features.intercept >= 0 and stop > first:
        advance_row(table, stamps, features.intercept, clock)
    end = features.indptr[stop]
    for p in range(features.indptr[first], end):
        if p + _AHEAD < end:
            j = features.indices[p + _AHEAD]
            prefetch(stamps, j, 0)
            for k in range(0, table.shape[1], _FLOATS):
                prefetch(table, j, k)
        advance_row(table, stamps, features.indices[p], clock)


@catch_up_rows.register(DenseFeatures)
@kernel
def _(features, first, stop, table, stamps, clock):
    if stop > first:  # all rows have all features
        for j in range(features.values.shape[1]):
            advance_row(table, stamps, j, clock)
        if features.intercept >= 0:
            advance_row(table, stamps, features.intercept, clock)


@catch_up_rows.register(ObservedFeatures)
@kernel
def _(features, first, stop, table, stamps, clock):
    # A row is one weight; the padding stays 0.
    for p in range(features.indptr[first], features.indptr[stop]):
        for k in range(features.width):
            advance_row(table, stamps, features.indices[p] + k, clock)
    for p in range(features.few_ptr[first], features.few_ptr[stop]):
        advance_row(table, stamps, features.places[p], clock)


@generic(part="rows")
def catch_up(problem, i: int, w: Weights, clock: Clock) -> None:
    """Bring all rows of `w` that the potentials of sample i read up to date.

    `w` is lazy, with ``s = 1`` and ``b = 0``. The default brings all rows up to date, at the cost
    of a dense step.
    """


@catch_up.register(object)
@kernel
def _(problem, i, w, clock):
    for table, stamps in ((w.node, clock.node), (w.pair, clock.pair)):
        for j in range(table.shape[0]):
            advance_row(table, stamps, j, clock)


@generic
def rest_scores(features, first, stop, width, table, w, stamps, clock, acc, theta, offset):
    """:func:`skstruct.core.scores` where a flow whose ``d`` is the mean gradient is stationary."""


@rest_scores.register(object)
@kernel
def _(features, first, stop, width, table, w, stamps, clock, acc, theta, offset):
    catch_up_rows(features, first, stop, table, stamps, clock)
    scores(features, first, stop, width, table, w, acc, theta, offset)


@rest_scores.register(SparseFeatures)
@kernel
def _(features, first, stop, width, table, w, stamps, clock, acc, theta, offset):
    # The weights depend on d only: v, half of the memory, is neither read nor written.
    half, inverse, found = table.shape[1] // 2, -1.0 / clock.l2, acc[: table.shape[1] // 2]
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
            l1, directions = clock.l1 * stamps[j, 2], table[j, half:]
            for k in range(half):
                low = directions[k] if directions[k] > -l1 else -l1
                found[k] += x * (directions[k] - (low if low < l1 else l1))
        out = theta[offset + (t - first) * width : offset + (t - first + 1) * width]
        for k in range(width):
            out[k] = inverse * found[k]


@rest_scores.register(ObservedFeatures)
@kernel
def _(features, first, stop, width, table, w, stamps, clock, acc, theta, offset):
    # Rows of v and d, one per weight. In the padding, d = 0.
    inverse, l1, flat = -1.0 / clock.l2, clock.l1, table.reshape(table.size)
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


@generic(part="rows", follows=(potentials, catch_up))
def rest_potentials(problem, i: int, w: Weights, clock: Clock, theta: Floats) -> None:
    """:func:`rest_scores` of all parts, before any is forbidden; `w` need not be up to date."""


@rest_potentials.register(object)
@kernel
def _(problem, i, w, clock, theta):
    catch_up(problem, i, w, clock)
    potentials(problem, i, w, theta)


# Positions in the sums of :func:`catch_up_and_sum`.
L1, L2, ALONG, SUBGRADIENT, YOUNG, LARGEST, SOFT, SOFT_SLOPE, SOFT_CURVE = range(9)


@inner_kernel
def _sum_row(table, share, j, clock, inverse_n, sums):
    half = table.shape[1] // 2
    l1, l2 = clock.l1 * share, clock.l2
    inverse = 1.0 / l2 if l2 > 0.0 else 0.0
    weights, directions = table[j, :half], table[j, half:]
    size, square, along, subgradient, young = 0.0, 0.0, 0.0, 0.0, 0.0
    soft, slope, curve, larger, largest = 0.0, 0.0, 0.0, 0.0, sums[LARGEST] * share
    for k in range(half):
        v, g = weights[k], inverse_n * directions[k]
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
            height = abs(inverse_n * directions[k])
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
def catch_up_and_sum(w, clock, inverse_n, sums):
    """Bring all rows up to date, set the clock to 0, and sum what certificates need."""
    sums[:] = 0.0
    for table, stamps in ((w.node, clock.node), (w.pair, clock.pair)):
        for j in range(table.shape[0]):
            advance_row(table, stamps, j, clock)
            _sum_row(table, stamps[j, 2], j, clock, inverse_n, sums)
            stamps[j, 0] = stamps[j, 1] = 0.0
    clock.now[:] = 0.0


@kernel
def soft_sums(w, clock, scale):
    """``S, S'/2, S''/2`` of ``S(t) = |soft(t g)|**2``, g the mean of ``d``."""
    inverse_n, t = scale
    value, slope, curve = 0.0, 0.0, 0.0
    for table, stamps in ((w.node, clock.node), (w.pair, clock.pair)):
        for j in range(table.shape[0]):
            directions, l1 = table[j, table.shape[1] // 2 :], clock.l1 * stamps[j, 2]
            for k in range(directions.shape[0]):
                height = abs(inverse_n * directions[k])
                over = t * height - l1 if t * height > l1 else 0.0
                value += over * over
                slope += height * over
                curve += height * height if over > 0.0 else 0.0
    return value, slope, curve

"""Scalar and row primitives that every inference kernel shares."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.intrinsics import bits_of, float_of, scale_by_power_of_two
from ..core.jit.kernels import inner_kernel, kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SMALLEST = -708.0


@kernel
def fast_exp(x):
    """Exponential of ``x <= 700``, branch-free; relative error below 5e-14, 0 below -708."""
    y = _SMALLEST if x < _SMALLEST else x
    n = math.floor(y * _LOG2_E + 0.5)
    f = (y - n * _LN2_HIGH) - n * _LN2_LOW
    p = 2.511004920481866e-08
    p = p * f + 2.763265472252779e-07
    p = p * f + 2.755724088722987e-06
    p = p * f + 2.4801485441561313e-05
    p = p * f + 0.00019841269890076403
    p = p * f + 0.0013888888952352863
    p = p * f + 0.008333333333319589
    p = p * f + 0.04166666666648795
    p = p * f + 0.1666666666666668
    p = p * f + 0.5000000000000019
    p = p * f + 1.0
    p = p * f + 1.0
    scaled = scale_by_power_of_two(p, n)
    return 0.0 if x < _SMALLEST else scaled


_HALF_ROOT = int(np.sqrt(0.5).view(np.int64))


@inner_kernel(inline=True)
def fast_log(x):
    """Logarithm of a normal ``x > 0``, branch-free; absolute error below 1e-15 but for rounding."""
    n = (bits_of(x) - _HALF_ROOT) >> 52
    f = float_of(bits_of(x) - (n << 52)) - 1.0  # x = 2^n (1 + f), with f from -0.3 to 0.42
    s = f / (2.0 + f)
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 0.2
    p = p * z + 1.0 / 3.0
    p = p * z + 1.0
    exponent = np.float64(np.int32(n))  # vectorised, unlike that of int64
    return exponent * _LN2_HIGH + (2.0 * s * p + exponent * _LN2_LOW)


@kernel
def row_max(values, start, stop):
    """Largest of ``values[start:stop]``; -inf for an empty range."""
    best = -math.inf
    for k in range(start, stop):
        best = max(best, values[k])
    return best


@inner_kernel(inline=True)
def best_of(values, size):
    """Position of the first of the largest."""
    best = 0
    for e in range(1, size):
        if values[e] > values[best]:
            best = e
    return best


@kernel
def log_sum_exp(values, start, stop):
    """``log(sum(exp(values[start:stop])))`` with the maximum removed."""
    best = row_max(values, start, stop)
    if best == -math.inf:
        return best
    total = 0.0
    for k in range(start, stop):
        total += fast_exp(values[k] - best)
    return best + math.log(total)


class TopList(NamedTuple):
    """Scratch of a search for the n best: a heap of labellings that are not written out yet."""

    # (2 * n_best,): Their scores.
    scores: np.ndarray
    # (2 * n_best, 4): What describes each, see :func:`offer_top`, and how many came before it.
    codes: np.ndarray
    # (2,): How many there are, and how many came.
    counts: np.ndarray
    # (1,): What does not exceed this is not among those that are still asked for.
    least: np.ndarray


@inner_kernel
def draw(weights, first, step, size, u):
    """The index that a number u below 1 falls on, if each has a share as large as its weight."""
    total, chosen = 0.0, 0
    for k in range(size):
        total += weights[first + k * step]
    rest = u * total
    for k in range(size):
        weight = weights[first + k * step]
        if weight > 0.0:  # the last of these, where rounding leaves a rest
            chosen = k
            if rest < weight:
                return k
            rest -= weight
    return chosen


@inner_kernel
def conditional_entropy(table, first, row_step, step, n_rows, size):
    """Entropy of the column given the row, of joint probabilities, to their relative accuracy."""
    total = 0.0
    for j in range(n_rows):
        at, largest = first + j * row_step, 0
        for k in range(1, size):
            largest = k if table[at + k * step] > table[at + largest * step] else largest
        top, rest = table[at + largest * step], 0.0
        for k in range(size):
            rest += table[at + k * step] if k != largest else 0.0
        for k in range(size if rest > 0.0 else 0):
            p = table[at + k * step]
            if k == largest:
                total += p * math.log1p(rest / p)
            elif p > 0.0:
                total += p * math.log((top + rest) / p)
    return total


def top_list(n_best):
    """Room for a heap of `n_best`."""
    codes = np.empty((2 * n_best, 4), dtype=np.int64)
    return TopList(np.empty(2 * n_best), codes, np.zeros(2, dtype=np.int64), np.empty(1))


@inner_kernel(inline=True)
def clear_top(top):
    """Forget all candidates."""
    top.counts[0] = top.counts[1] = 0
    top.least[0] = -math.inf


@inner_kernel
def _move(top, source, target):
    top.scores[target] = top.scores[source]
    for c in range(4):
        top.codes[target, c] = top.codes[source, c]


@inner_kernel(inline=True)
def _precedes(top, p, score, age):
    """Return whether candidate p is before another one: larger scores first, then earlier ones."""
    return top.scores[p] > score or (top.scores[p] == score and top.codes[p, 3] < age)


@inner_kernel
def take_top(top):
    """Remove the best candidate: its score, -inf if there is none, and what describes it."""
    size = top.counts[0] - 1
    if size < 0:
        return -math.inf, np.int64(-1), np.int64(-1), np.int64(-1)
    score, parent, t, label = top.scores[0], top.codes[0, 0], top.codes[0, 1], top.codes[0, 2]
    top.counts[0] = size
    last, age, p, below = top.scores[size], top.codes[size, 3], 0, 1
    while below < size:
        if below + 1 < size and _precedes(top, below + 1, top.scores[below], top.codes[below, 3]):
            below += 1
        if not _precedes(top, below, last, age):
            break
        _move(top, below, p)
        p, below = below, 2 * below + 1
    if p < size:
        _move(top, size, p)
    return score, parent, t, label


@inner_kernel
def _keep_top(top, n_best):
    """Keep the `n_best` best candidates, of twice as many or more."""
    size = top.counts[0]
    for rank in range(n_best):
        last = size - 1 - rank
        age = top.codes[0, 3]
        score, parent, t, label = take_top(top)
        top.scores[last] = score
        row = top.codes[last]
        row[0], row[1], row[2], row[3] = parent, t, label, age
    for rank in range(n_best):  # in order, they are a heap
        _move(top, size - 1 - rank, rank)
    top.counts[0], top.least[0] = n_best, top.scores[n_best - 1]


@inner_kernel
def offer_top(top, n_best, score, parent, t, label):
    """Add `parent` with one label changed if it is among the `n_best`; the first of ties wins."""
    if top.counts[0] >= 2 * n_best:
        _keep_top(top, n_best)
    if not score > top.least[0]:
        return
    age, p = top.counts[1], top.counts[0]
    top.counts[0], top.counts[1] = p + 1, age + 1
    while p > 0 and not _precedes(top, (p - 1) // 2, score, age):
        _move(top, (p - 1) // 2, p)
        p = (p - 1) // 2
    top.scores[p] = score
    row = top.codes[p]
    row[0], row[1], row[2], row[3] = parent, t, label, age

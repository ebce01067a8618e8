"""Scalar and row primitives that every inference kernel shares."""

from __future__ import annotations

import math
import platform
import time
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.jit.numba_private import intrinsic

# The processor's clock, for kernels that measure a part of themselves.

_HAS_CLOCK = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic(time.perf_counter)
def cycles(typingctx):
    """The time-stamp counter as a float, in units of its own; 0 where there is none for users."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        if not _HAS_CLOCK:
            return ir.Constant(double, 0.0)
        int64 = ir.IntType(64)
        function = builder.module.declare_intrinsic(
            "llvm.readcyclecounter", fnty=ir.FunctionType(int64, [])
        )
        return builder.sitofp(builder.call(function, []), double)

    return types.float64(), codegen


_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SMALLEST = -708.0


def _plain_scale(value, exponent):
    return value if math.isnan(exponent) else math.ldexp(value, int(exponent))


@intrinsic(_plain_scale)
def _scale_by_power_of_two(typingctx, value, exponent):
    """``value * 2**exponent`` for an integral float `exponent`, by adding to the exponent bits.

    Written in IR because LLVM may fold the magic-number addition away under `reassoc`, and because
    a float-to-int64 conversion does not vectorise on AVX2. NaN stays NaN.
    """

    def codegen(context, builder, signature, args):
        double, int64 = ir.DoubleType(), ir.IntType(64)
        shifted = builder.fadd(args[1], ir.Constant(double, 6755399441055744.0))
        bits = builder.shl(builder.bitcast(shifted, int64), ir.Constant(int64, 52))
        return builder.bitcast(builder.add(builder.bitcast(args[0], int64), bits), double)

    return types.float64(types.float64, types.float64), codegen


@kernel
def fast_exp(x):
    """Exponential of ``x <= 700``, branch-free so that loops over it vectorise.

    Cody-Waite reduction by ln 2 and a polynomial of degree 11; relative error below 5e-14
    (``reassoc`` merges the two parts of ln 2).
    Arguments under -708 (and -inf) give exactly 0, NaN gives NaN.
    """
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
    scaled = _scale_by_power_of_two(p, n)
    return 0.0 if x < _SMALLEST else scaled


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
    """Scratch of a search for the n best: a descending list of labellings not written out yet."""

    # (k,): Their scores.
    scores: np.ndarray
    # (k, 3): What describes each, see :func:`insert_top`.
    codes: np.ndarray


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
    """Room for a list of `n_best`."""
    return TopList(np.empty(n_best), np.empty((n_best, 3), dtype=np.int64))


@inner_kernel
def insert_top(candidate, parent, t, label, scores, codes):
    """Insert into a descending list of candidates; equal scores keep their order."""
    position = scores.shape[0] - 1
    while position > 0 and scores[position - 1] < candidate:
        scores[position] = scores[position - 1]
        for q in range(3):
            codes[position, q] = codes[position - 1, q]
        position -= 1
    scores[position] = candidate
    codes[position, 0] = parent
    codes[position, 1] = t
    codes[position, 2] = label

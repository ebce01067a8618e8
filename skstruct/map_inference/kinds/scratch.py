"""Scratch of the operations of regions, and the sums and maxima that kinds share."""

import math
from typing import NamedTuple

import numpy as np

from ...core.jit.kernels import inner_kernel
from ...inference.numerics import fast_exp
from ..regions import CARDINALITY

#: Stands for -inf where that would be subtracted.
LOWEST = -1e300


class RegionScratch(NamedTuple):
    """Room for one region at a time; between calls only `order` is of use."""

    # (max(size, arity + 2): Reparametrised scores of a region, and numbers made of them.
    hat: np.ndarray
    weight: np.ndarray
    # (entries of a region's messages,): Sums that belong to the entries of messages.
    sums: np.ndarray
    # (arity,): Labels of the configuration that a walk through a table stands at.
    digits: np.ndarray
    # (slots of a region,): Configurations of the children there.
    base: np.ndarray
    # (2 * arity + 2,): Room of cardinality factors.
    keys: np.ndarray
    spare: np.ndarray
    # (arity,): Variables in order of what switching them on gains.
    order: np.ndarray
    spare_order: np.ndarray
    # (1,): The cardinality factor whose variables `order` holds, or -1.
    sorted_region: np.ndarray
    # Sums by count of halves, quarters, ... of a cardinality factor's variables.
    levels: np.ndarray


def region_scratch(regions):
    """Scratch for the operations of any region of a graph."""
    arities, n_slots = np.diff(regions.scope_ptr), np.diff(regions.slot_ptr)
    entries = np.diff(regions.message_ptr[regions.slot_ptr])
    arity = int(arities.max(initial=0))
    size = max(int(regions.size.max(initial=0)), arity + 2)
    counted = int(arities[regions.kind == CARDINALITY].max(initial=0))
    return RegionScratch(
        hat=np.empty(size),
        weight=np.empty(size),
        sums=np.empty(int(entries.max(initial=0))),
        digits=np.empty(arity, dtype=np.int64),
        base=np.empty(int(n_slots.max(initial=0)), dtype=np.int64),
        keys=np.empty(2 * counted + 2),
        spare=np.empty(2 * counted + 2),
        order=np.empty(counted, dtype=np.int64),
        spare_order=np.empty(counted, dtype=np.int64),
        sorted_region=np.full(1, -1),
        levels=np.empty((counted + 1) * (counted.bit_length() + 2)),
    )


@inner_kernel
def largest(values):
    """Maximum, in four strands that the processor runs side by side."""
    n, best, e = values.shape[0], -math.inf, 0
    if n >= 8:
        second, third, fourth = best, best, best
        while e + 4 <= n:
            best = max(best, values[e])
            second = max(second, values[e + 1])
            third = max(third, values[e + 2])
            fourth = max(fourth, values[e + 3])
            e += 4
        best = max(max(best, second), max(third, fourth))
    while e < n:
        best = max(best, values[e])
        e += 1
    return best


@inner_kernel
def top_two(values, start, stop, sign):
    """Largest of ``sign * values`` in a range and the next, each with its first position."""
    best, second, at, next_at = -math.inf, -math.inf, 0, 0
    for e in range(start, stop):
        value = sign * values[e]
        if value > best:
            best, at, second, next_at = value, e - start, best, at
        elif value > second:
            second, next_at = value, e - start
    return best, at, second, next_at


@inner_kernel
def log_add(a, b, gamma):
    """``gamma * log(exp(a / gamma) + exp(b / gamma))``; both may be -inf."""
    high, low = max(a, b), min(a, b)
    if low == -math.inf:
        return high
    return high + gamma * math.log1p(math.exp((low - high) / gamma))


@inner_kernel
def exponentials(values, top, gamma, out):
    """``exp((values - top) / gamma)`` and their sum; `top` is finite."""
    inverse, total = 1.0 / gamma, 0.0
    for e in range(values.shape[0]):
        out[e] = fast_exp((values[e] - top) * inverse)
        total += out[e]
    return total


@inner_kernel
def soft_maximum(values, gamma):
    """``gamma * log(sum(exp(values / gamma)))``; -inf if all are."""
    top = largest(values)
    if top == -math.inf:
        return top
    inverse, total = 1.0 / gamma, 0.0
    for e in range(values.shape[0]):
        total += fast_exp((values[e] - top) * inverse)
    return top + gamma * math.log(total)


@inner_kernel
def soft_rest(values, size, gamma, out):
    """Exponentials relative to the maximum: it, its place, their sum, soft maximum of others."""
    top, at, second, _ = top_two(values, 0, size, 1.0)
    total = exponentials(values[:size], top, gamma, out)
    rest = second
    if second > -math.inf:
        inverse, others = 1.0 / gamma, 0.0
        for e in range(size):
            if e != at:
                others += fast_exp((values[e] - second) * inverse)
        rest += gamma * math.log(others)
    return top, at, total, rest


@inner_kernel
def fill_own(p, r, down, value):
    """Set all entries of a region's own slots."""
    for m in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        down[m] = value


@inner_kernel
def fill_mu(p, r, mu, value):
    """Set a region's own marginals, unless the caller has no room for them."""
    if mu.shape[0] > 0:
        for e in range(p.size[r]):
            mu[e] = value

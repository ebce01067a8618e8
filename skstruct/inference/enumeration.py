"""Binary models of few nodes: all labellings in lexicographic order, two terms change in each."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import fast_exp


class EnumerationScratch(NamedTuple):
    """The labelling that an enumeration is at."""

    # (n,): The labelling.
    labels: np.ndarray
    # (n + 1,): Scores of its beginnings.
    sums: np.ndarray
    # (1,): The best score.
    value: np.ndarray


def enumeration_scratch(n):
    """Scratch for models of at most `n` nodes."""
    return EnumerationScratch(np.empty(n, dtype=np.int32), np.empty(n + 1), np.empty(1))


@inner_kernel
def _term(unary, tables, labels, j):
    """Return the score that node j adds, given the labels of the nodes before it."""
    own = labels[j]
    value = unary[j, own]
    for k in range(j):
        value += tables[k, j, labels[k], own]
    return value


@inner_kernel
def _start(unary, tables, scratch):
    labels, sums = scratch.labels, scratch.sums
    sums[0] = 0.0
    for j in range(unary.shape[0]):
        labels[j] = 0
        sums[j + 1] = sums[j] + _term(unary, tables, labels, j)


@inner_kernel
def _next(unary, tables, scratch):
    """The next labelling; False after the last."""
    labels, sums = scratch.labels, scratch.sums
    n = unary.shape[0]
    j = n - 1
    while j >= 0 and labels[j] == 1:
        labels[j] = 0
        j -= 1
    if j < 0:
        return False
    labels[j] = 1
    for t in range(j, n):
        sums[t + 1] = sums[t] + _term(unary, tables, labels, t)
    return True


@kernel
def enumerate_top_k(unary, tables, values, found, scratch):
    """The best labellings, best first."""
    n, k = unary.shape[0], values.shape[0]
    labels, sums = scratch.labels, scratch.sums
    for q in range(k):
        values[q] = -math.inf
        for j in range(n):
            found[q, j] = 0
    _start(unary, tables, scratch)
    more = True
    while more:
        if sums[n] > values[k - 1]:
            place = k - 1
            while place > 0 and values[place - 1] < sums[n]:
                values[place] = values[place - 1]
                for j in range(n):
                    found[place, j] = found[place - 1, j]
                place -= 1
            values[place] = sums[n]
            for j in range(n):
                found[place, j] = labels[j]
        more = _next(unary, tables, scratch)


@kernel
def enumerate_log_partition(unary, tables, temperature, scratch):
    """``temperature * log sum_y exp(score(y) / temperature)``."""
    n = unary.shape[0]
    sums = scratch.sums
    top, total = -math.inf, 0.0
    _start(unary, tables, scratch)
    more = True
    while more:
        value = sums[n] / temperature
        if value > top:
            total = total * fast_exp(top - value) + 1.0 if top > -math.inf else 1.0
            top = value
        elif value > -math.inf:
            total += fast_exp(value - top)
        more = _next(unary, tables, scratch)
    return temperature * (top + math.log(total)) if top > -math.inf else top


@kernel
def enumerate_marginals(unary, tables, temperature, node_mu, pair_mu, scratch):
    """Marginals of nodes and pairs."""
    n = unary.shape[0]
    labels, sums = scratch.labels, scratch.sums
    log_z = enumerate_log_partition(unary, tables, temperature, scratch)
    if not log_z > -math.inf:
        return log_z
    for j in range(n):
        node_mu[j] = 0.0
        for k in range(n):
            pair_mu[j, k] = 0.0
    _start(unary, tables, scratch)
    more = True
    while more:
        share = fast_exp(min((sums[n] - log_z) / temperature, 0.0))
        if share > 0.0:
            for j in range(n):
                if labels[j] == 1:
                    node_mu[j] += share
                    for k in range(j + 1, n):
                        pair_mu[j, k] += share * labels[k]
        more = _next(unary, tables, scratch)
    return log_z

"""Paths in a directed acyclic graph whose arcs are scored, and pairs of neighbouring arcs, too.

The vertices 0 to n are in topological order. A path leads from 0 to n; its score is the sum of the
scores of its arcs, and of ``table[right class of an arc, left class of the next]``. Everything
takes O(arcs + n * right classes * left classes). Ties go to the lowest right class of the arc
before, then to the arc that is listed first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import (
    TopList,
    best_of,
    clear_top,
    fast_exp,
    log_sum_exp,
    offer_top,
    row_max,
    take_top,
    top_list,
)

# Sums above it have lost nothing to underflow.
_SMALLEST_SUM = 1e-100


class Arcs(NamedTuple):
    """The arcs of a graph, sorted by where they end."""

    # (n_vertices + 1,): The arcs that end at vertex v are ``ptr[v]:ptr[v + 1]``.
    ptr: np.ndarray
    # (n_arcs,): Where each begins, and its classes on the left and on the right, of int32.
    begin: np.ndarray
    left: np.ndarray
    right: np.ndarray


class ArcScratch(NamedTuple):
    """Scratch of the kernels of this file."""

    # (n_vertices, n_right): Of the paths from 0 to a vertex whose last arc has a right class: the
    # best score, or the logarithm of the sum.
    arrive: np.ndarray
    # (n_vertices, n_left): The same with the connection to an arc of a left class.
    leave: np.ndarray
    # (n_vertices, n_left): Of the rest of paths that begins with an arc of a left class: the best
    # score, or its probability.
    rest: np.ndarray
    # (n_vertices, n_right), (n_vertices, n_left): The best arc that arrives, and class before.
    arc: np.ndarray
    before: np.ndarray
    # (n_right, n_left): Exponentials of the table.
    factors: np.ndarray
    # (n_right,), (n_right,), (n_left,): Of one vertex.
    tops: np.ndarray
    sums: np.ndarray
    shares: np.ndarray
    # Candidates for the n best.
    top: TopList


def arc_scratch(n_vertices: int, n_right: int, n_left: int, n_best: int = 1) -> ArcScratch:
    """Scratch for graphs of at most `n_vertices` vertices."""
    right, left = (n_vertices, n_right), (n_vertices, n_left)
    return ArcScratch(
        *(np.empty(shape) for shape in (right, left, left)),
        *(np.empty(shape, dtype=np.int32) for shape in (right, left)),
        *(np.empty(shape) for shape in ((n_right, n_left), n_right, n_right, n_left)),
        top_list(n_best),
    )


@kernel
def keep_paths(order, begin, end, keep, from_start, to_end):
    """Drop the arcs that are on no path: `keep`, of uint8, is set to 0 there.

    `order` has the arcs by where they end. `from_start` and `to_end`, of uint8, are 1 at first and
    at last vertices; the kernel sets them to 1 where paths from and to these lead.
    """
    for q in order:
        if keep[q] != 0 and from_start[begin[q]] != 0:
            from_start[end[q]] = 1
        else:
            keep[q] = 0
    for q in order[::-1]:
        if keep[q] != 0 and to_end[end[q]] != 0:
            to_end[begin[q]] = 1
        else:
            keep[q] = 0


@inner_kernel
def _best_forward(arcs, n, scores, table, work):
    """Best scores up to all vertices; returns the right class of the best path."""
    arrive, leave = work.arrive, work.leave
    n_right, n_left = table.shape
    for k in range(n_left):
        leave[0, k] = 0.0
    for v in range(1, n + 1):
        for j in range(n_right):
            arrive[v, j], work.arc[v, j] = -math.inf, -1
        for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
            value, j = leave[arcs.begin[q], arcs.left[q]] + scores[q], arcs.right[q]
            if value > arrive[v, j]:
                arrive[v, j], work.arc[v, j] = value, q
        for k in range(n_left if v < n else 0):
            leave[v, k], work.before[v, k] = -math.inf, 0
        for j in range(n_right if v < n else 0):
            for k in range(n_left if arrive[v, j] > -math.inf else 0):
                value = arrive[v, j] + table[j, k]
                if value > leave[v, k]:
                    leave[v, k], work.before[v, k] = value, j
    return best_of(arrive[n], n_right)


@inner_kernel
def _way_back(arcs, arc, v, path, work):
    """Write a path whose arc to vertex v is given, and which is best before it."""
    path[v] = arc
    while arcs.begin[path[v]] > 0:
        here = path[v]
        v = arcs.begin[here]
        path[v] = work.arc[v, work.before[v, arcs.left[here]]]


@kernel
def best_path(arcs, n, scores, table, path, work):
    """Write the best path, ``path[v]`` its arc to each vertex v on it; return its score, or -inf.

    `n` is the last vertex, at least 1; `scores` (>= n_arcs,) and `table` (n_right, n_left) are
    finite or -inf, and `path` (>= n + 1,) of int32.
    """
    last = _best_forward(arcs, n, scores, table, work)
    value = work.arrive[n, last]
    if value > -math.inf:
        _way_back(arcs, work.arc[n, last], n, path, work)
    return value


@kernel
def best_paths(arcs, n, scores, table, values, paths, work):
    """Write the ``len(values)`` best paths, best first, and their scores: -inf where there is none.

    `paths` is of shape (n_best, >= n + 1). By deviations, as in :mod:`skstruct.inference.viterbi`:
    one keeps the arcs after a vertex, takes another one to it, and has the best beginning.
    """
    size, top = values.shape[0], work.top
    _best_forward(arcs, n, scores, table, work)
    clear_top(top)
    for r in range(size):
        values[r] = -math.inf
    for q in range(arcs.ptr[n], arcs.ptr[n + 1]):
        offer_top(top, size, work.leave[arcs.begin[q], arcs.left[q]] + scores[q], -1, n, q)
    for r in range(size):
        value, parent, split, arc = take_top(top)
        if not value > -math.inf:
            return
        values[r] = value
        for v in range(split + 1, n + 1):
            paths[r, v] = paths[parent, v]
        _way_back(arcs, arc, split, paths[r], work)
        rest, v, room = 0.0, n, size - r - 1
        while room > 0 and arcs.begin[paths[r, v]] > 0:
            here = paths[r, v]
            v, k = arcs.begin[here], arcs.left[here]
            rest += scores[here]
            for q in range(arcs.ptr[v], arcs.ptr[v + 1] if v < split else 0):
                value = work.leave[arcs.begin[q], arcs.left[q]] + scores[q]
                value += table[arcs.right[q], k] + rest
                if q != paths[r, v] and value > top.least[0]:
                    offer_top(top, room, value, r, v, q)
            rest += table[arcs.right[paths[r, v]], k]


@inner_kernel
def _sums_of_leaving(work, v):
    """``shares <- sum over j of exp(arrive[v, j] - top) * factors[j]``; returns the top."""
    n_right, n_left = work.factors.shape
    top, shares = row_max(work.arrive[v], 0, n_right), work.shares
    for k in range(n_left):
        shares[k] = 0.0
    for j in range(n_right):
        weight = fast_exp(work.arrive[v, j] - top) if top > -math.inf else 0.0
        work.sums[j], factors = weight, work.factors[j]
        for k in range(n_left if weight > 0.0 else 0):
            shares[k] += weight * factors[k]
    return top


@inner_kernel
def _log_column(table, inverse, work, v, k):
    """The logarithm of the sum that leaves vertex v for left class k, whatever the scores."""
    for j in range(table.shape[0]):
        work.tops[j] = work.arrive[v, j] + table[j, k] * inverse
    return log_sum_exp(work.tops, 0, table.shape[0])


@inner_kernel
def _arrive(arcs, v, scores, inverse, shares, work):
    """Sums of the arcs to vertex v by right class; `shares` receives their ratios."""
    arrive, tops, sums = work.arrive[v], work.tops, work.sums
    first, stop, n_right = arcs.ptr[v], arcs.ptr[v + 1], arrive.shape[0]
    for j in range(n_right):
        tops[j], sums[j] = -math.inf, 0.0
    for q in range(first, stop):
        value, j = work.leave[arcs.begin[q], arcs.left[q]] + scores[q] * inverse, arcs.right[q]
        shares[q] = value
        tops[j] = value if value > tops[j] else tops[j]
    for j in range(n_right):
        tops[j] = tops[j] if tops[j] > -math.inf else 0.0
    for q in range(first, stop):
        shares[q] = fast_exp(shares[q] - tops[arcs.right[q]])
    for q in range(first, stop):
        sums[arcs.right[q]] += shares[q]
    for j in range(n_right):
        arrive[j] = tops[j] + math.log(sums[j]) if sums[j] > 0.0 else -math.inf


@inner_kernel
def _sum_forward(arcs, n, scores, table, inverse, shares, work):
    """Sums of the exponentials of paths, on logarithms; returns that of all paths."""
    arrive, leave = work.arrive, work.leave
    n_right, n_left = table.shape
    largest = -math.inf
    for j in range(n_right):
        for k in range(n_left):
            largest = max(largest, table[j, k] * inverse)
    for j in range(n_right):
        for k in range(n_left):
            known = table[j, k] > -math.inf
            work.factors[j, k] = fast_exp(table[j, k] * inverse - largest) if known else 0.0
    for k in range(n_left):
        leave[0, k] = 0.0
    for v in range(1, n + 1):
        _arrive(arcs, v, scores, inverse, shares, work)
        top = _sums_of_leaving(work, v) if v < n else -math.inf
        for k in range(n_left if v < n else 0):
            leave[v, k] = -math.inf
            if work.shares[k] > _SMALLEST_SUM:
                leave[v, k] = top + largest + math.log(work.shares[k])
            elif top > -math.inf:
                leave[v, k] = _log_column(table, inverse, work, v, k)
    return log_sum_exp(arrive[n], 0, n_right)


@inner_kernel
def _go_back(table, inverse, work, v, here, connections):
    """Divide the probability of what leaves vertex v among the right classes that arrive."""
    # Each left class divides what it has: probabilities add up without a difference of logarithms.
    n_right, n_left = table.shape
    rest, shares = work.rest[v], work.shares
    _sums_of_leaving(work, v)
    for k in range(n_left):
        shares[k] = rest[k] / shares[k] if shares[k] > _SMALLEST_SUM else 0.0
    for j in range(n_right):
        weight, factors, row, total = work.sums[j], work.factors[j], connections[j], 0.0
        for k in range(n_left):
            p = weight * factors[k] * shares[k]
            row[k] += p
            total += p
        here[j] = total
    for k in range(n_left):
        for j in range(n_right if shares[k] == 0.0 and rest[k] > 0.0 else 0):
            if work.arrive[v, j] + table[j, k] > -math.inf:
                value = work.arrive[v, j] + table[j, k] * inverse - work.leave[v, k]
                p = fast_exp(min(value, 0.0))  # by rounding of huge scores it may be above
                connections[j, k] += p * rest[k]
                here[j] += p * rest[k]


@kernel
def sum_paths(arcs, n, scores, table, temperature, marginals, connections, work):
    """Marginals of ``p(path) ~ exp(score / temperature)``; returns the log-partition, or -inf.

    `marginals` (>= n_arcs,) receives the probability of each arc, `connections` (n_right, n_left)
    the expected number of connections between classes. If that is empty, only the value is
    computed, and `marginals` is scratch.
    """
    inverse, rest, here = 1.0 / temperature, work.rest, work.tops
    log_z = _sum_forward(arcs, n, scores, table, inverse, marginals, work)
    for j in range(connections.shape[0]):
        for k in range(connections.shape[1]):
            connections[j, k] = 0.0
    for v in range(n):
        for k in range(rest.shape[1]):
            rest[v, k] = 0.0
    for v in range(n if connections.shape[0] > 0 else 0, 0, -1):
        if v < n:
            _go_back(table, inverse, work, v, here, connections)
        else:
            total = 0.0
            _sums_of_leaving(work, n)
            for j in range(here.shape[0]):
                total += work.sums[j]
            for j in range(here.shape[0]):
                here[j] = work.sums[j] / total if total > 0.0 else 0.0
        for j in range(here.shape[0]):
            work.sums[j] = 0.0
        for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
            work.sums[arcs.right[q]] += marginals[q]
        for j in range(here.shape[0]):
            here[j] = here[j] / work.sums[j] if work.sums[j] > 0.0 else 0.0
        for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
            marginals[q] *= here[arcs.right[q]]
            rest[arcs.begin[q], arcs.left[q]] += marginals[q]
    return log_z * temperature


@inner_kernel(inline=True)
def log_given_next(arcs, scores, table, inverse, log_z, work, q, v, k):
    """Log-probability of arc q to vertex v if the next has left class k; -1: if v is the last."""
    value = work.leave[arcs.begin[q], arcs.left[q]] + scores[q] * inverse
    value += table[arcs.right[q], k] * inverse - work.leave[v, k] if k >= 0 else -log_z
    return min(value, 0.0)


@kernel
def draw_path(arcs, n, scores, table, log_z, uniforms, d, path, work):
    """Draw a path in proportion to the exponential of its score, after :func:`sum_paths`.

    That was called for the temperature 1, and returned `log_z`, which is finite. Column d of
    `uniforms`, of shape (>= n, n_draws), holds numbers from [0, 1), row ``v - 1`` for the arc to
    vertex v; `path` is that of :func:`best_path`.
    """
    v, k = n, -1
    while v > 0:
        left, chosen = uniforms[v - 1, d], -1
        for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
            value = log_given_next(arcs, scores, table, 1.0, log_z, work, q, v, k)
            weight = fast_exp(value) if value > -math.inf else 0.0
            # The last one, where rounding leaves a rest.
            if weight > 0.0 or (chosen < 0 and value > -math.inf):
                chosen = q
                if left < weight:
                    break
                left -= weight
        path[v] = chosen
        v, k = arcs.begin[chosen], arcs.left[chosen]

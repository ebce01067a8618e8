"""The LP relaxation of one graph of nodes and edges, by messages that are kept between calls.

With ``hat = unary + sum of delta`` and edges ``table - delta - delta'``, the sum of all maxima
bounds every labelling for any messages. Sequential sweeps (TRW-S) lower it fast; where they stop
short of the LP's value, sweeps of the smoothed bound go on.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import fast_exp

# Factors of messages stay in this range until they are taken into the messages.
_TINY, _HUGE = 1e-100, 1e100


class PairwiseLP(NamedTuple):
    """A graph, a view of the arrays of many."""

    # (n_nodes, n_labels): Finite scores of nodes.
    unary: np.ndarray
    # (n_tables, n_labels, n_labels): Finite scores of edges, and the same transposed.
    tables: np.ndarray
    flipped: np.ndarray
    # (n_edges,): Which of the tables each edge has.
    table: np.ndarray
    # (n_edges, 2): The nodes of each edge.
    ends: np.ndarray
    # Edge e has node t as its end s if ``2 * e + s`` is in ``half[ptr[t]:ptr[t + 1]]``.
    ptr: np.ndarray
    half: np.ndarray
    # (n_edges, 2, n_labels): Messages to the two ends of each edge.
    delta: np.ndarray


class LPScratch(NamedTuple):
    """Scratch of one thread."""

    # (n_labels,): Scores of one node, and of the two ends of one edge.
    hat: np.ndarray
    row: np.ndarray
    column: np.ndarray
    # (n_nodes, n_labels): Marginals of nodes.
    beliefs: np.ndarray
    # (n_edges,): The temperature at which sweeps are smoothed along each edge.
    temper: np.ndarray
    # (n_edges, n_labels, n_labels): ``exp`` of the reparametrised scores of edges.
    base: np.ndarray
    # (n_edges, 2, n_labels): The messages then, and what they have changed by since, as factors.
    start: np.ndarray
    factor: np.ndarray
    # (n_labels, n_labels): Marginals of one edge.
    square: np.ndarray


def lp_scratch(n_nodes, n_edges, n_labels):
    """Scratch for graphs of at most this size."""
    return LPScratch(
        *np.empty((3, n_labels)),
        np.empty((n_nodes, n_labels)),
        np.empty(n_edges),
        np.empty((n_edges, n_labels, n_labels)),
        *np.empty((2, n_edges, 2, n_labels)),
        np.empty((n_labels, n_labels)),
    )


@inner_kernel
def _collect(table, other, out):
    """``out[y] <- max_x table[x, y] - other[x]``."""
    n = out.shape[0]
    for y in range(n):
        out[y] = -math.inf
    x = 0
    while x + 3 < n:
        d0, d1, d2, d3 = other[x], other[x + 1], other[x + 2], other[x + 3]
        for y in range(n):
            first = max(table[x, y] - d0, table[x + 1, y] - d1)
            second = max(table[x + 2, y] - d2, table[x + 3, y] - d3)
            out[y] = max(out[y], max(first, second))
        x += 4
    while x < n:
        d = other[x]
        for y in range(n):
            out[y] = max(out[y], table[x, y] - d)
        x += 1


@kernel
def lp_sweep(p, forward, labels, s):
    """One sweep of sequential coordinate descent with decoding (Kolmogorov 2006, section 3.3)."""
    n, n_labels = p.unary.shape
    hat, given = s.hat, s.row
    bound = 0.0
    for position in range(n):
        t = position if forward else n - 1 - position
        for k in range(n_labels):
            hat[k] = p.unary[t, k]
            given[k] = hat[k]
        before = after = 0
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e, side = p.half[q] >> 1, p.half[q] & 1
            o = p.ends[e, 1 - side]
            out = p.delta[e, side]
            if (o > t) == forward:
                after += 1
                for k in range(n_labels):
                    given[k] += out[k]
            else:
                before += 1
                table = p.tables[p.table[e]] if side == 1 else p.flipped[p.table[e]]
                _collect(table, p.delta[e, 1 - side], out)
                y = labels[o]
                for k in range(n_labels):
                    given[k] += table[y, k]
            for k in range(n_labels):
                hat[k] += out[k]
        best, chosen = hat[0], 0
        for k in range(1, n_labels):
            best = hat[k] if hat[k] > best else best
            chosen = k if given[k] > given[chosen] else chosen
        labels[t] = chosen
        bound += best
        share = 1.0 / max(before, after, 1)
        for k in range(n_labels):
            hat[k] = share * (hat[k] - best)
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e, side = p.half[q] >> 1, p.half[q] & 1
            if (p.ends[e, 1 - side] > t) == forward:
                for k in range(n_labels):
                    p.delta[e, side, k] -= hat[k]
    return bound


@inner_kernel
def _conditional(p, t, labels, out):
    """Scores of the labels of a node, its neighbours' given."""
    n_labels = p.unary.shape[1]
    for k in range(n_labels):
        out[k] = p.unary[t, k]
    for q in range(p.ptr[t], p.ptr[t + 1]):
        e, side = p.half[q] >> 1, p.half[q] & 1
        y = labels[p.ends[e, 1 - side]]
        row = p.tables[p.table[e], y] if side == 1 else p.flipped[p.table[e], y]
        for k in range(n_labels):
            out[k] += row[k]


@kernel
def lp_ascend(p, most, labels, s):
    """Change labels one by one as long as the score rises (iterated conditional modes)."""
    n, n_labels = p.unary.shape
    moved = True
    sweep = 0
    while moved and sweep < most:
        moved = False
        for t in range(n):
            _conditional(p, t, labels, s.hat)
            chosen = labels[t]
            for k in range(n_labels):
                chosen = k if s.hat[k] > s.hat[chosen] else chosen
            if chosen != labels[t]:
                labels[t] = chosen
                moved = True
        sweep += 1
    total = 0.0
    for t in range(n):
        total += p.unary[t, labels[t]]
    for e in range(p.ends.shape[0]):
        total += p.tables[p.table[e], labels[p.ends[e, 0]], labels[p.ends[e, 1]]]
    return total


@kernel
def lp_smooth(p, gamma, s):
    """Begin sweeps of the smoothed bound; a `gamma` of 0 stands for ``s.temper`` of edges."""
    n_labels = p.unary.shape[1]
    for e in range(p.ends.shape[0]):
        table, base = p.tables[p.table[e]], s.base[e]
        s.temper[e] = gamma if gamma > 0.0 else s.temper[e]
        top = -math.inf
        for x in range(n_labels):
            d = p.delta[e, 0, x]
            for y in range(n_labels):
                base[x, y] = table[x, y] - d - p.delta[e, 1, y]
            for y in range(n_labels):
                top = base[x, y] if base[x, y] > top else top
        for x in range(n_labels):
            p.delta[e, 0, x] += top
            s.start[e, 0, x], s.start[e, 1, x] = p.delta[e, 0, x], p.delta[e, 1, x]
            s.factor[e, 0, x] = s.factor[e, 1, x] = 1.0
            for y in range(n_labels):
                base[x, y] = fast_exp((base[x, y] - top) / s.temper[e])


@inner_kernel
def _gather(base, side, factor, out):
    """Sums of an edge's weights over the labels of the other end."""
    n = out.shape[0]
    if side == 1:
        for y in range(n):
            out[y] = 0.0
        for x in range(n):
            f = factor[x]
            for y in range(n):
                out[y] += f * base[x, y]
    else:
        for x in range(n):
            total = 0.0
            for y in range(n):
                total += base[x, y] * factor[y]
            out[x] = total


@inner_kernel(inline=True)
def _inside(x):
    return _TINY if x < _TINY else (_HUGE if x > _HUGE else x)


@kernel
def lp_soft_sweep(p, gamma, forward, s):
    """One sweep on the bound smoothed by entropies (Meltzer, Globerson, Weiss 2009, section 5).

    In the form of Schmitzer 2019, section 3.1. With a `gamma` of 0, edges have temperatures of
    their own, of which those through a node sum to 1.
    """
    n, n_labels = p.unary.shape
    for position in range(n):
        t = position if forward else n - 1 - position
        hat = s.beliefs[t]
        for k in range(n_labels):
            hat[k] = p.unary[t, k]
        before = after = 0
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e, side = p.half[q] >> 1, p.half[q] & 1
            delta = p.delta[e, side]
            if (p.ends[e, 1 - side] > t) == forward:
                after += 1
            else:
                before += 1
                out = s.factor[e, side]
                _gather(s.base[e], side, s.factor[e, 1 - side], out)
                for k in range(n_labels):
                    out[k] = _inside(out[k])
                    delta[k] = s.start[e, side, k] + s.temper[e] * math.log(out[k])
            for k in range(n_labels):
                hat[k] += delta[k]
        scale = 1.0 / (gamma * max(before, after, 1)) if gamma > 0.0 else 1.0
        top = -math.inf
        for k in range(n_labels):
            top = hat[k] if hat[k] > top else top
        for k in range(n_labels):
            s.hat[k] = scale * (hat[k] - top)
            hat[k] = fast_exp(s.hat[k])
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e, side = p.half[q] >> 1, p.half[q] & 1
            out, delta, start = s.factor[e, side], p.delta[e, side], s.start[e, side]
            if (p.ends[e, 1 - side] > t) == forward:
                for k in range(n_labels):
                    delta[k] -= s.temper[e] * s.hat[k]
                    out[k] = _inside(fast_exp(min((start[k] - delta[k]) / s.temper[e], 230.0)))
            else:
                for k in range(n_labels):
                    out[k] = _inside(hat[k] / out[k])
        total = 0.0
        for k in range(n_labels):
            total += hat[k]
        for k in range(n_labels):
            hat[k] /= total


@kernel
def lp_edge_beliefs(p, e, s):
    """Write an edge's marginals to ``s.square``, rounded as in Altschuler, Weed, Rigollet 2017."""
    square, row, column = s.square, s.row, s.column
    n = square.shape[0]
    left, right = s.beliefs[p.ends[e, 0]], s.beliefs[p.ends[e, 1]]
    base, factor = s.base[e], s.factor[e]
    for y in range(n):
        column[y] = 0.0
    for x in range(n):
        mass = 0.0
        for y in range(n):
            square[x, y] = base[x, y] * factor[1, y]
            mass += square[x, y]
        scale = left[x] / mass if mass > _TINY else 0.0
        for y in range(n):
            square[x, y] *= scale
            column[y] += square[x, y]
    for y in range(n):
        column[y] = right[y] / column[y] if column[y] > right[y] else 1.0
    missing = 0.0
    for x in range(n):
        mass = 0.0
        for y in range(n):
            square[x, y] *= column[y]
            mass += square[x, y]
        row[x] = max(left[x] - mass, 0.0)
        missing += row[x]
    for y in range(n):
        mass = 0.0
        for x in range(n):
            mass += square[x, y]
        column[y] = max(right[y] - mass, 0.0)
    if missing > 0.0:
        for x in range(n):
            for y in range(n):
                square[x, y] += row[x] * column[y] / missing


# The tree-reweighted bound on the log-partition.


@kernel
def reweighted_bound(p, rest, s):
    """An upper bound on ``log sum_y exp(score(y))``, whatever the messages; lowest after a sweep.

    Wainwright, Jaakkola, Willsky 2005, Theorem 1, for forests of monotonic chains; ``rest[t] >= 0``
    is 1 less the temperatures of the edges to later nodes.
    """
    n, n_labels = p.unary.shape
    hat, total = s.hat, 0.0
    for t in range(n):
        for k in range(n_labels):
            hat[k] = p.unary[t, k]
        for q in range(p.ptr[t], p.ptr[t + 1]):
            e, side = p.half[q] >> 1, p.half[q] & 1
            for k in range(n_labels):
                hat[k] += p.delta[e, side, k]
        total += _soft_max(hat, rest[t])
    for e in range(p.ends.shape[0]):
        later = 1 if p.ends[e, 1] > p.ends[e, 0] else 0
        table = p.flipped[p.table[e]] if later == 1 else p.tables[p.table[e]]
        own, other = p.delta[e, later], p.delta[e, 1 - later]
        top = -math.inf
        for y in range(n_labels):
            for x in range(n_labels):
                hat[x] = table[y, x] - other[x]
            value = _soft_max(hat, s.temper[e]) - own[y]
            top = value if value > top else top
        total += top
    return total


@inner_kernel
def _soft_max(values, temperature):
    """``temperature * log sum exp(values / temperature)``, the maximum where it is 0."""
    top = -math.inf
    for k in range(values.shape[0]):
        top = values[k] if values[k] > top else top
    if not temperature > 0.0 or top == -math.inf:
        return top
    total = 0.0
    for k in range(values.shape[0]):
        total += fast_exp((values[k] - top) / temperature)
    return top + temperature * math.log(total)


@inner_kernel
def _entropy(weights):
    total = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            total -= weights[k] * math.log(weights[k])
    return total


@kernel
def reweighted_value(p, own, s):
    """The objective of :func:`reweighted_bound` at the last sweep's marginals, repaired."""
    n, n_labels = p.unary.shape
    total = 0.0
    for t in range(n):
        own[t] = _entropy(s.beliefs[t])
        total += own[t]
        for k in range(n_labels):
            if s.beliefs[t, k] > 0.0:
                total += s.beliefs[t, k] * p.unary[t, k]
    for e in range(p.ends.shape[0]):
        lp_edge_beliefs(p, e, s)
        table = p.tables[p.table[e]]
        for x in range(n_labels):
            for y in range(n_labels):
                if s.square[x, y] > 0.0:
                    total += s.square[x, y] * table[x, y]
        shared = own[p.ends[e, 0]] + own[p.ends[e, 1]] - _entropy(s.square.reshape(-1))
        total -= s.temper[e] * shared
    return total

"""What the projections onto the polytope of assignments share.

Matrices without negative entries whose rows and columns sum to at most 1, or to 1 where a vertex
may not stay without a link: :mod:`.assignment_projections`, :mod:`.assignment_scaling`.

They start from a best assignment and its prices. Scores less prices are at most 0, and 0 where
there is a link, so that scores of any size and temperatures near 0 lose no digits. What is left is
a dual problem with a number for each vertex, for a Newton method with conjugate gradients over the
pairs that matter.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel


class ProjectionWork(NamedTuple):
    """Scratch of the projections, one per thread."""

    # (n_pairs,): Scores less prices over the temperature, and weights of pairs in a Newton step.
    reduced: np.ndarray
    weight: np.ndarray
    # The ends on the shorter side of pairs in a Newton step, by those on the longer one.
    column: np.ndarray
    # Where those of each vertex of the longer side begin.
    begin: np.ndarray
    # What is left of a Newton step's matrix without the longer side.
    factor: np.ndarray
    # (n_vertices,): Numbers of vertices: reduced scores of no link, dual variables and where they
    # go next, derivatives at both, and what conjugate gradients need.
    lone: np.ndarray
    dual: np.ndarray
    trial: np.ndarray
    slope: np.ndarray
    steep: np.ndarray
    step: np.ndarray
    diagonal: np.ndarray
    rest: np.ndarray
    search: np.ndarray
    image: np.ndarray


def projection_work(sizes):
    """Room for projections of problems of such sizes."""
    sizes = np.asarray(sizes, dtype=np.int64)
    n_pairs = int(sizes.prod(axis=1).max(initial=0))
    n_vertices = int(sizes.sum(axis=1).max(initial=0))
    longer, shorter = (int(ends.max(initial=0)) for ends in (sizes.max(axis=1), sizes.min(axis=1)))
    reduced, weight = np.empty((2, n_pairs))
    column, begin = np.empty(n_pairs, dtype=np.int32), np.empty(longer + 1, dtype=np.int64)
    factor, numbers = np.empty(shorter * shorter), np.empty((10, n_vertices))
    return ProjectionWork(reduced, weight, column, begin, factor, *numbers)


@inner_kernel(inline=True)
def sides(n, m):
    """Size of the longer side, and where the numbers of the longer and of the shorter one begin."""
    return (m, n, 0) if m > n else (n, 0, n)


@inner_kernel
def reduce(scores, n, m, alone, kept, temperature, price, solver, work):
    """Write scores less prices over the temperature; the sum of the prices."""
    reduced, lone, total = work.reduced, work.lone, 0.0
    for i in range(n):
        u = solver.u[i]
        total += u
        lone[i] = -u / temperature if alone else -math.inf
        for j in range(m):
            reduced[i * m + j] = (scores[i * m + j] - u - price[j]) / temperature
    for j in range(m):
        total += price[j]
        lone[n + j] = -price[j] / temperature if kept else -math.inf
    return total


@inner_kernel
def conjugate_gradients(n, m, slope, tolerance, n_most, work):
    """Write the Newton step, 0 where ``diagonal`` is inf, to ``step``; whether it is as good."""
    step, diagonal, rest = work.step, work.diagonal, work.rest
    search, image = work.search, work.image
    size, energy = n + m, 0.0
    for k in range(size):
        step[k] = 0.0
        rest[k] = -slope[k] if diagonal[k] < math.inf else 0.0
        search[k] = rest[k] / diagonal[k]
        energy += rest[k] * search[k]
    goal = tolerance * tolerance * energy
    for _ in range(n_most):
        if not energy > goal:
            return True
        _apply(n, m, search, image, work)
        curvature = 0.0
        for k in range(size):
            curvature += search[k] * image[k]
        if not curvature > 0.0:
            return False
        length, before = energy / curvature, energy
        energy = 0.0
        for k in range(size):
            step[k] += length * search[k]
            rest[k] -= length * image[k]
            energy += rest[k] * (rest[k] / diagonal[k])
        for k in range(size):
            search[k] = rest[k] / diagonal[k] + (energy / before) * search[k]
    return False


@inner_kernel
def _apply(n, m, search, image, work):
    """``image <- H search``, over vertices whose diagonal is finite."""
    column, weight, begin, diagonal = work.column, work.weight, work.begin, work.diagonal
    longer, first, other = sides(n, m)
    for k in range(n + m):
        image[k] = diagonal[k] * search[k] if diagonal[k] < math.inf else 0.0
    for i in range(longer):
        mine, total = search[first + i], 0.0
        for q in range(begin[i], begin[i + 1]):
            j = other + column[q]
            total += weight[q] * search[j]
            image[j] += weight[q] * mine
        image[first + i] += total
    for k in range(n + m):
        if diagonal[k] == math.inf:
            image[k] = 0.0


@inner_kernel
def list_pairs(n, m, mu, binary, work):
    """Pairs that a Newton step has to do with, and their weights."""
    column, weight, begin, q = work.column, work.weight, work.begin, 0
    longer, _, _ = sides(n, m)
    by_row, by_column = (1, m) if m > n else (m, 1)
    for i in range(longer):
        begin[i] = q
        for j in range(n + m - longer):
            share = mu[i * by_row + j * by_column]
            if share > (0.0 if binary else 1e-18):
                column[q] = j
                weight[q] = 1.0 if binary else share
                q += 1
    begin[longer] = q


@inner_kernel
def violation(size, low, dual, slope):
    """Largest violation of the optimality conditions."""
    worst = 0.0
    for k in range(size):
        g = slope[k]
        worst = max(worst, abs(g) if dual[k] > low[k] else -g)
    return worst


@inner_kernel
def shrink(n, m, mu, sums):
    """Bring sums of rows, then of columns, down to 1."""
    for j in range(m):
        sums[n + j] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += mu[i * m + j]
        scale = 1.0 / max(1.0, total)
        sums[i] = 0.0
        for j in range(m):
            mu[i * m + j] *= scale
            sums[n + j] += mu[i * m + j]
    for j in range(m):
        sums[n + j] = 1.0 / max(1.0, sums[n + j])
    for i in range(n):
        for j in range(m):
            mu[i * m + j] *= sums[n + j]
            sums[i] += mu[i * m + j]
    for j in range(m):
        sums[n + j] = 0.0
    for i in range(n):
        for j in range(m):
            sums[n + j] += mu[i * m + j]


@inner_kernel
def _find_room(k, size, alone, m, partner, sums, mu, work):
    """Where a path of changes from vertex k of the side that is linked may end, -1: nowhere.

    Each vertex takes more of its partner, at the cost of another that has some of that one.
    """
    queue, before, n = work.column, work.trial, sums.shape[0] - m
    for v in range(size):
        before[v] = -1.0
    before[k], queue[0] = k, k
    first, last = 0, 1
    while first < last:
        v = queue[first]
        first += 1
        far = partner[v]
        if sums[far if alone else n + far] < 1.0:
            return v
        for u in range(size):
            if before[u] < 0.0 and mu[far * m + u if alone else u * m + far] > 0.0:
                before[u] = v
                queue[last] = u
                last += 1
    return -1


@inner_kernel
def _change(k, end, alone, m, partner, sums, mu, work):
    """Change the entries along a path of :func:`_find_room`."""
    before, n, far = work.trial, sums.shape[0] - m, partner[end]
    room = far if alone else n + far
    near = n + k if alone else k
    amount, v = min(1.0 - sums[near], 1.0 - sums[room]), end
    while v != k:
        p = int(before[v])
        amount = min(amount, mu[partner[p] * m + v if alone else v * m + partner[p]])
        v = p
    sums[near] += amount
    sums[room] += amount
    v = end
    while True:
        mu[partner[v] * m + v if alone else v * m + partner[v]] += amount
        if v == k:
            return
        p = int(before[v])
        mu[partner[p] * m + v if alone else v * m + partner[p]] -= amount
        v = p


@inner_kernel
def complete(n, m, alone, match, mate, mu, sums, work):
    """Bring sums that must be 1 up to 1, where more than rounding is missing.

    What a vertex lacks comes along alternating paths of the best matching and of the entries above
    0, so that no entry becomes positive that should not.
    """
    size, partner = (m, mate) if alone else (n, match)
    for k in range(size):
        for _ in range(n * m):
            if not sums[n + k if alone else k] < 1.0 - 1e-13:
                break
            end = _find_room(k, size, alone, m, partner, sums, mu, work)
            if end < 0:
                break
            _change(k, end, alone, m, partner, sums, mu, work)


@inner_kernel
def nothing(n, m, value, mu):
    """Where there is no assignment."""
    for q in range(n * m):
        mu[q] = 0.0
    return value

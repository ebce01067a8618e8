"""Euclidean projections onto the polytope of assignments: convex quadratic flows."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .assignment import assignment


class ProjectionWork(NamedTuple):
    """Scratch of :func:`euclidean_assignment`, one per thread."""

    # (n_pairs,): Scores less prices over the temperature.
    reduced: np.ndarray
    # The ends on the shorter side of pairs in a Newton step, by those on the longer one.
    column: np.ndarray
    # Offsets of those of each vertex of the longer side.
    begin: np.ndarray
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
    longest = int(sizes.max(initial=0))
    column, begin = np.empty(n_pairs, dtype=np.int32), np.empty(longest + 1, dtype=np.int64)
    return ProjectionWork(np.empty(n_pairs), column, begin, *np.empty((10, n_vertices)))


@inner_kernel(inline=True)
def _sides(n, m):
    """Size of the longer side, and where the numbers of the longer and of the shorter one begin."""
    return (m, n, 0) if m > n else (n, 0, n)


@inner_kernel
def _reduce(scores, n, m, alone, kept, temperature, price, solver, work):
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
def _conjugate_gradients(n, m, tolerance, work):
    """Write the Newton step, 0 where ``diagonal`` is inf, to ``step``."""
    step, diagonal, rest = work.step, work.diagonal, work.rest
    search, image = work.search, work.image
    size, energy = n + m, 0.0
    for k in range(size):
        step[k] = 0.0
        rest[k] = -work.slope[k] if diagonal[k] < math.inf else 0.0
        search[k] = rest[k] / diagonal[k]
        energy += rest[k] * search[k]
    goal = tolerance * tolerance * energy
    for _ in range(2 * size + 20):
        if not energy > goal:
            return
        _apply(n, m, search, image, work)
        curvature = 0.0
        for k in range(size):
            curvature += search[k] * image[k]
        if not curvature > 0.0:
            return
        length, before = energy / curvature, energy
        energy = 0.0
        for k in range(size):
            step[k] += length * search[k]
            rest[k] -= length * image[k]
            energy += rest[k] * (rest[k] / diagonal[k])
        for k in range(size):
            search[k] = rest[k] / diagonal[k] + (energy / before) * search[k]


@inner_kernel
def _apply(n, m, search, image, work):
    """``image <- H search``, over vertices whose diagonal is finite."""
    column, begin, diagonal = work.column, work.begin, work.diagonal
    longer, first, other = _sides(n, m)
    for k in range(n + m):
        image[k] = diagonal[k] * search[k] if diagonal[k] < math.inf else 0.0
    for i in range(longer):
        mine, total = search[first + i], 0.0
        for q in range(begin[i], begin[i + 1]):
            j = other + column[q]
            total += search[j]
            image[j] += mine
        image[first + i] += total
    for k in range(n + m):
        if diagonal[k] == math.inf:
            image[k] = 0.0


@inner_kernel
def _list_pairs(n, m, mu, work):
    """Pairs above 0, which a Newton step has to do with."""
    column, begin, q = work.column, work.begin, 0
    longer, _, _ = _sides(n, m)
    by_row, by_column = (1, m) if m > n else (m, 1)
    for i in range(longer):
        begin[i] = q
        for j in range(n + m - longer):
            if mu[i * by_row + j * by_column] > 0.0:
                column[q] = j
                q += 1
    begin[longer] = q


@inner_kernel
def _violation(size, low, dual, slope):
    """Largest violation of the optimality conditions."""
    worst = 0.0
    for k in range(size):
        g = slope[k]
        worst = max(worst, abs(g) if dual[k] > low[k] else -g)
    return worst


@inner_kernel
def _find_room(k, size, alone, m, partner, sums, mu, work):
    """Return the end of a path along which linked vertex k can get more of its partner, or -1."""
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
def _into_polytope(n, m, null, alone, match, mate, mu, work):
    """Bring sums of rows, then columns, to at most 1, and those that must be 1 up to 1."""
    # Along alternating paths of the best matching and of entries above 0, so no wrong entry grows.
    sums = work.rest[: n + m]
    for j in range(m):
        sums[n + j] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += mu[i * m + j]
        scale = 1.0 / max(1.0, total)
        for j in range(m):
            mu[i * m + j] *= scale
            sums[n + j] += mu[i * m + j]
    for j in range(m):
        sums[n + j] = 1.0 / max(1.0, sums[n + j])
    for i in range(n):
        sums[i] = 0.0
        for j in range(m):
            mu[i * m + j] *= sums[n + j]
            sums[i] += mu[i * m + j]
    if null:
        return
    for j in range(m):
        sums[n + j] = 0.0
    for i in range(n):
        for j in range(m):
            sums[n + j] += mu[i * m + j]
    size, partner = (m, mate) if alone else (n, match)
    for k in range(size):
        for _ in range(n * m):
            if not sums[n + k if alone else k] < 1.0 - 1e-13:
                break
            end = _find_room(k, size, alone, m, partner, sums, mu, work)
            if end < 0:
                break
            _change(k, end, alone, m, partner, sums, mu, work)


_MOST_STEPS = 200
_RESIDUAL = 1e-14
# A step is taken back by this at least, and at most.
_LEAST_CUT, _MOST_CUT = 0.1, 0.7


@inner_kernel
def _positive_parts(n, m, dual, mu, slope, reduced):
    """Write the point that belongs to dual variables, and the derivatives; half its square."""
    square = 0.0
    for j in range(m):
        slope[n + j] = 1.0
    for i in range(n):
        total, own = 0.0, dual[i]
        for j in range(m):
            share = reduced[i * m + j] - own - dual[n + j]
            share = share if share > 0.0 else 0.0
            mu[i * m + j] = share
            slope[n + j] -= share
            total += share
            square += share * share
        slope[i] = 1.0 - total
    return 0.5 * square


@inner_kernel
def _newton_of_parts(n, m, damping, work):
    """Write a Newton step."""
    low, dual, slope, diagonal = work.lone, work.dual, work.slope, work.diagonal
    size = n + m
    for k in range(size):
        diagonal[k] = 0.0
    longer, first, other = _sides(n, m)
    for i in range(longer):
        diagonal[first + i] += work.begin[i + 1] - work.begin[i]
        for q in range(work.begin[i], work.begin[i + 1]):
            diagonal[other + work.column[q]] += 1.0
    for k in range(size):
        pinned = dual[k] <= low[k] and slope[k] >= 0.0
        diagonal[k] = math.inf if pinned else diagonal[k] * (1.0 + damping) + damping
    _conjugate_gradients(n, m, min(0.1, 0.01 * damping), work)


@inner_kernel
def _search_parts(n, m, mu, residual, work):
    """Follow the step, cut at bounds, until it does not climb; return the length, or 0."""
    low, dual, trial, slope = work.lone, work.dual, work.trial, work.slope
    steep, step, length = work.steep, work.step, 1.0
    for _ in range(30):
        start = end = 0.0
        for k in range(n + m):
            trial[k] = max(low[k], dual[k] + length * step[k])
            start += slope[k] * (trial[k] - dual[k])
        _positive_parts(n, m, trial, mu, steep, work.reduced)
        for k in range(n + m):
            end += steep[k] * (trial[k] - dual[k])
        if end <= 0.0 or _violation(n + m, low, trial, steep) <= 0.5 * residual:
            return length
        length *= min(max(-start / (end - start), _LEAST_CUT), _MOST_CUT) if start < 0.0 else 0.25
    return 0.0


@inner_kernel
def _settle(n, m, of_sources, low, dual, reduced):
    """The best dual variable of every source, those of targets fixed, or the other way round."""
    size, others, first, other = (n, m, 0, n) if of_sources else (m, n, n, 0)
    step, stride = (m, 1) if of_sources else (1, m)
    for i in range(size):
        top = -math.inf
        for j in range(others):
            top = max(top, reduced[i * step + j * stride] - dual[other + j])
        threshold, more = top - 1.0, top > -math.inf
        while more:
            total, count = 0.0, 0.0
            for j in range(others):
                over = reduced[i * step + j * stride] - dual[other + j] - threshold
                total += over if over > 0.0 else 0.0
                count += 1.0 if over > 0.0 else 0.0
            rise = (total - 1.0) / count
            threshold += rise
            more = rise > 1e-15 * (1.0 + abs(threshold))
        dual[first + i] = max(low[first + i], threshold)


@inner_kernel
def _start(n, m, match, low, dual):
    """Dual variables at which links have the share 1, or as much as prices allow."""
    for k in range(n + m):
        dual[k] = 0.0
    for i in range(n):
        if match[i] >= 0:
            j = n + match[i]
            dual[i] = max(low[i], -1.0)
            dual[j] = max(low[j], -1.0 - dual[i])


@inner_kernel
def _solve_parts(n, m, mu, work):
    """Solve the dual problem of the Euclidean projection; half the square of its point."""
    low, dual, slope, size = work.lone, work.dual, work.slope, n + m
    half, before = _positive_parts(n, m, dual, mu, slope, work.reduced), math.inf
    for _ in range(_MOST_STEPS):
        residual = _violation(size, low, dual, slope)
        if residual <= _RESIDUAL or (residual <= 1e-10 and residual >= 0.5 * before):
            return half
        before = residual
        _list_pairs(n, m, mu, work)
        _newton_of_parts(n, m, min(1e-3, max(1e-5, residual)), work)
        length = _search_parts(n, m, mu, residual, work)
        if length > 0.0:
            for k in range(size):
                dual[k] = work.trial[k]
        if length < 0.5:
            _settle(n, m, True, low, dual, work.reduced)
            _settle(n, m, False, low, dual, work.reduced)
        half = _positive_parts(n, m, dual, mu, slope, work.reduced)
    return half


@kernel
def euclidean_assignment(
    scores, n_sources, n_targets, null, temperature, price, match, mu, solver, work
):
    """Maximise ``<scores, mu> - temperature / 2 |mu|^2`` over the assignment polytope.

    A convex quadratic flow (Taskar, Lacoste-Julien and Jordan 2006, section 4), in the dual by
    projected Newton steps (Bertsekas 1982), or coordinate steps where these are cut.
    """
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, solver)
    if not value > -math.inf:
        for q in range(n * m):
            mu[q] = 0.0
        return value
    alone, kept = null or n > m, null or n < m
    total = _reduce(scores, n, m, alone, kept, temperature, price, solver, work)
    _start(n, m, match, work.lone, work.dual)
    half = _solve_parts(n, m, mu, work)
    for k in range(n + m):
        half += work.dual[k]
    _into_polytope(n, m, null, alone, match, solver.mate, mu, work)
    return total + temperature * half

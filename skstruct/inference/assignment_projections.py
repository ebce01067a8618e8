"""Euclidean projections onto the polytope of assignments: convex quadratic flows."""

import math

from ..core.dispatch import inner_kernel, kernel
from .assignment import assignment
from .assignment_polytope import (
    ProjectionWork,
    complete,
    conjugate_gradients,
    list_pairs,
    nothing,
    projection_work,
    reduce,
    shrink,
    sides,
    violation,
)

__all__ = ["ProjectionWork", "euclidean_assignment", "projection_work"]

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
    """A Newton step where every pair that is there weighs the same."""
    low, dual, slope, diagonal = work.lone, work.dual, work.slope, work.diagonal
    size = n + m
    for k in range(size):
        diagonal[k] = 0.0
    longer, first, other = sides(n, m)
    for i in range(longer):
        diagonal[first + i] += work.begin[i + 1] - work.begin[i]
        for q in range(work.begin[i], work.begin[i + 1]):
            diagonal[other + work.column[q]] += 1.0
    for k in range(size):
        pinned = dual[k] <= low[k] and slope[k] >= 0.0
        diagonal[k] = math.inf if pinned else diagonal[k] * (1.0 + damping) + damping
    conjugate_gradients(n, m, slope, min(0.1, 0.01 * damping), 2 * size + 20, work)


@inner_kernel
def _search_parts(n, m, mu, residual, work):
    """Go along the step, cut at bounds, until it does not climb; the length, 0 if there is none.

    Where rounding hides whether it climbs, half the residual will do.
    """
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
        if end <= 0.0 or violation(n + m, low, trial, steep) <= 0.5 * residual:
            return length
        length *= min(max(-start / (end - start), _LEAST_CUT), _MOST_CUT) if start < 0.0 else 0.25
    return 0.0


@inner_kernel
def _settle_rows(n, m, low, dual, reduced):
    """The best dual variable of every source, those of targets fixed."""
    for i in range(n):
        at, top = i * m, -math.inf
        for j in range(m):
            top = max(top, reduced[at + j] - dual[n + j])
        threshold, more = top - 1.0, top > -math.inf
        while more:
            total, count = 0.0, 0.0
            for j in range(m):
                over = reduced[at + j] - dual[n + j] - threshold
                total += over if over > 0.0 else 0.0
                count += 1.0 if over > 0.0 else 0.0
            rise = (total - 1.0) / count
            threshold += rise
            more = rise > 1e-15 * (1.0 + abs(threshold))
        dual[i] = max(low[i], threshold)


@inner_kernel
def _settle_columns(n, m, low, dual, reduced, work):
    """The same for every target; all go side by side."""
    total, count, threshold = work.rest, work.image, work.search
    for j in range(m):
        threshold[j] = -math.inf
    for i in range(n):
        for j in range(m):
            gain = reduced[i * m + j] - dual[i] - 1.0
            threshold[j] = gain if gain > threshold[j] else threshold[j]
    more = True
    while more:
        for j in range(m):
            total[j], count[j] = -1.0, 0.0
        for i in range(n):
            for j in range(m):
                over = reduced[i * m + j] - dual[i] - threshold[j]
                total[j] += over if over > 0.0 else 0.0
                count[j] += 1.0 if over > 0.0 else 0.0
        more = False
        for j in range(m):
            if count[j] > 0.0 and total[j] > 1e-15 * count[j] * (1.0 + abs(threshold[j])):
                threshold[j] += total[j] / count[j]
                more = True
    for j in range(m):
        dual[n + j] = max(low[n + j], threshold[j])


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
        residual = violation(size, low, dual, slope)
        if residual <= _RESIDUAL or (residual <= 1e-10 and residual >= 0.5 * before):
            return half
        before = residual
        list_pairs(n, m, mu, True, work)
        _newton_of_parts(n, m, min(1e-3, max(1e-5, residual)), work)
        length = _search_parts(n, m, mu, residual, work)
        if length > 0.0:
            for k in range(size):
                dual[k] = work.trial[k]
        if length < 0.5:
            _settle_rows(n, m, low, dual, work.reduced)
            _settle_columns(n, m, low, dual, work.reduced, work)
        half = _positive_parts(n, m, dual, mu, slope, work.reduced)
    return half


@kernel
def euclidean_assignment(
    scores, n_sources, n_targets, null, temperature, price, match, mu, solver, work
):
    """Point of the assignment polytope that is nearest to scores over a temperature.

    It maximises ``<scores, mu> - temperature / 2 |mu|^2`` over matrices without negative entries
    whose rows and columns sum to at most 1; to 1 on the smaller side (both if they are of one size)
    where `null` is False. A convex quadratic flow.

    The dual problem, in a variable for each vertex, is piecewise quadratic: Newton steps over the
    pairs that are above 0 end in finitely many steps. Where a step must be cut, the variables of
    all sources, then those of all targets are set to their best values.

    B. Taskar, S. Lacoste-Julien and M. I. Jordan 2006, Structured prediction, dual extragradient
    and Bregman projections, JMLR 7, section 4: projections by quadratic flows.

    D. P. Bertsekas 1982, Projected Newton methods for optimization problems with simple
    constraints, SIAM J. Control Optim. 20.
    """
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, solver)
    if not value > -math.inf:
        return nothing(n, m, value, mu)
    alone, kept = null or n > m, null or n < m
    total = reduce(scores, n, m, alone, kept, temperature, price, solver, work)
    _start(n, m, match, work.lone, work.dual)
    half = _solve_parts(n, m, mu, work)
    for k in range(n + m):
        half += work.dual[k]
    shrink(n, m, mu, work.rest)
    if not null:
        complete(n, m, alone, match, solver.mate, mu, work.rest[: n + m], work)
    return total + temperature * half

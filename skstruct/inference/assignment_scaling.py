"""Entropic projections onto the polytope of assignments: matrix scaling with a null."""

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
)
from .numerics import fast_exp

__all__ = ["ProjectionWork", "entropic_assignment", "projection_work"]

_MOST_STEPS = 300
_RESIDUAL = 1e-13
# Conjugate gradients give way to elimination after these.
_MOST_GRADIENTS = 40
# Exponents above this would be infinite: what is cut off there is far from a solution.
_LARGEST = 600.0


@inner_kernel
def _shares(n, m, shift, dual, mu, slope, work):
    """Write the point of dual variables, and what its sums have too much; its whole mass."""
    reduced, lone, mass = work.reduced, work.lone, 0.0
    for k in range(n + m):
        share = fast_exp(min(lone[k] + dual[k], _LARGEST))
        slope[k] = share - 1.0
        mass += share
    for i in range(n):
        total, own = 0.0, dual[i] + shift
        for j in range(m):
            exponent = reduced[i * m + j] + own + dual[n + j]
            share = fast_exp(exponent if exponent < _LARGEST else _LARGEST)
            mu[i * m + j] = share
            slope[n + j] += share
            total += share
        slope[i] += total
        mass += total
    return mass


@inner_kernel
def _worst(size, slope):
    """Largest error of a sum."""
    worst = 0.0
    for k in range(size):
        worst = max(worst, abs(slope[k]))
    return worst


@inner_kernel
def _scale(n, m, shift, dual, mu, work):
    """A step of matrix scaling: all sources, then all targets; the mass."""
    slope = work.slope
    for i in range(n):
        dual[i] -= math.log1p(slope[i])
    _shares(n, m, shift, dual, mu, slope, work)
    for j in range(m):
        dual[n + j] -= math.log1p(slope[n + j])
    return _shares(n, m, shift, dual, mu, slope, work)


@inner_kernel
def _eliminate(n, m, slope, work):
    """Write the Newton step by elimination, the longer side first."""
    column, weight, begin, factor = work.column, work.weight, work.begin, work.factor
    diagonal, step = work.diagonal, work.step
    longer, first, other = sides(n, m)
    size = n + m - longer
    for k in range(n + m):
        step[k] = -slope[k]
    for k in range(size):
        for q in range(k * size, (k + 1) * size):
            factor[q] = 0.0
        factor[k * size + k] = diagonal[other + k]
    for i in range(longer):
        for q in range(begin[i], begin[i + 1]):
            share, at = weight[q] / diagonal[first + i], column[q] * size
            step[other + column[q]] -= share * step[first + i]
            for p in range(q, begin[i + 1]):
                factor[at + column[p]] -= share * weight[p]
    _solve_symmetric(size, factor, step[other : other + size], diagonal[other : other + size])
    for i in range(longer):
        total = step[first + i]
        for q in range(begin[i], begin[i + 1]):
            total -= weight[q] * step[other + column[q]]
        step[first + i] = total / diagonal[first + i]


@inner_kernel
def _solve_symmetric(size, factor, answer, scale):
    """Solve a system of the upper half of a matrix, which is overwritten, in place."""
    for k in range(size):
        at, pivot = k * size, factor[k * size + k]
        # What is left of a direction in which nothing changes is rounding: do not go there.
        pivot = pivot if pivot > 1e-14 * scale[k] else math.inf
        factor[at + k] = pivot
        for j in range(k + 1, size):
            share = factor[at + j] / pivot
            if share != 0.0:
                answer[j] -= share * answer[k]
                for q in range(j, size):
                    factor[j * size + q] -= share * factor[at + q]
    for k in range(size - 1, -1, -1):
        total = answer[k]
        for j in range(k + 1, size):
            total -= factor[k * size + j] * answer[j]
        answer[k] = total / factor[k * size + k]


@inner_kernel
def _newton(n, m, shift, mu, residual, work):
    """Go a Newton step, cut until it does not climb; the mass, -1 if there was no step."""
    dual, trial, slope, steep = work.dual, work.trial, work.slope, work.steep
    step, size = work.step, n + m
    damping = min(1e-3, max(1e-13, 1e-3 * residual))
    list_pairs(n, m, mu, False, work)
    for k in range(size):
        work.diagonal[k] = (1.0 + slope[k]) * (1.0 + damping)
    if not conjugate_gradients(
        n, m, slope, min(0.1, max(1e-12, 0.1 * residual)), _MOST_GRADIENTS, work
    ):
        _eliminate(n, m, slope, work)
    length = 1.0
    for _ in range(12):
        climb = 0.0
        for k in range(size):
            trial[k] = dual[k] + length * step[k]
        mass = _shares(n, m, shift, trial, mu, steep, work)
        for k in range(size):
            climb += steep[k] * (trial[k] - dual[k])
        if climb <= 0.0 or _worst(size, steep) <= 0.5 * residual:
            for k in range(size):
                dual[k], slope[k] = trial[k], steep[k]
            return mass
        length *= 0.4
    return -1.0


@inner_kernel
def _solve_shares(n, m, shift, mu, work):
    """Solve the dual problem of the entropic projection; its mass."""
    dual, slope, size = work.dual, work.slope, n + m
    for k in range(size):
        dual[k] = 0.0
    _shares(n, m, shift, dual, mu, slope, work)
    mass, before = _scale(n, m, shift, dual, mu, work), math.inf
    for _ in range(_MOST_STEPS):
        residual = _worst(size, slope)
        if residual <= _RESIDUAL or (residual <= 1e-10 and residual >= 0.5 * before):
            return mass
        before = residual
        moved = _newton(n, m, shift, mu, residual, work)
        if moved >= 0.0:
            mass = moved
        else:
            _shares(n, m, shift, dual, mu, slope, work)
        if not _worst(size, slope) <= 0.5 * residual:
            mass = _scale(n, m, shift, dual, mu, work)
    return mass


@inner_kernel
def _drop_dead_pairs(scores, n, m, alone, match, mate, work):
    """Forbid what no assignment does, where all vertices of a side must be linked.

    Of the must-side, i takes the mate of k where k can go elsewhere: where k reaches i, or a
    vertex that is free; else that mate is always linked.
    """
    size, other = (m, n) if alone else (n, m)
    reduced, reached, queue = work.reduced, work.step, work.column
    for k in range(size):
        for q in range(size):
            reached[q] = 0.0
        reached[k], queue[0] = 1.0, k
        first, last, free = 0, 1, False
        while first < last and not free:
            v = queue[first]
            first += 1
            for w in range(other):
                pair = w * m + v if alone else v * m + w
                if scores[pair] > -math.inf:
                    owner = match[w] if alone else mate[w]
                    free = free or owner < 0
                    if owner >= 0 and reached[owner] == 0.0:
                        reached[owner] = 1.0
                        queue[last] = owner
                        last += 1
        mine = mate[k] if alone else match[k]
        if not free:
            work.lone[mine if alone else n + mine] = -math.inf
        for i in range(size):
            if reached[i] == 0.0 and not free:
                reduced[mine * m + i if alone else i * m + mine] = -math.inf


@kernel
def entropic_assignment(
    scores, n_sources, n_targets, null, temperature, price, match, mu, solver, work
):
    """Assignment polytope's point of largest score and entropy.

    It maximises ``<scores, mu> + temperature H`` over the matrices of
    :func:`skstruct.inference.assignment_projections.euclidean_assignment`, where H is the entropy
    ``-sum p log p`` of all entries, and of what each vertex that may stay without a link lacks of
    1: to have none is one more choice.

    Scaling rows and columns in turn (Sinkhorn), with a row and a column for no link, in the log
    domain; with Newton steps between, which converge also at temperatures where scaling does not.
    Where sums must be 1 and pairs are forbidden, the pairs of no assignment are found first: their
    share is 0, which scaling would only tend to.

    B. Taskar, S. Lacoste-Julien and M. I. Jordan 2006, Structured prediction, dual extragradient
    and Bregman projections, JMLR 7, section 4.

    J. Altschuler, J. Weed and P. Rigollet 2017, Near-linear time approximation algorithms for
    optimal transport via Sinkhorn iteration, algorithm 2: shrinking back into the polytope. Ours
    completes sums along alternating paths, which use no forbidden pair.
    """
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, solver)
    if not value > -math.inf:
        return nothing(n, m, value, mu)
    alone, kept = null or n > m, null or n < m
    total = reduce(scores, n, m, alone, kept, temperature, price, solver, work)
    if not null:
        forbidden = 0
        for q in range(n * m):
            forbidden += 1 if scores[q] == -math.inf else 0
        if forbidden > 0:
            _drop_dead_pairs(scores, n, m, alone, match, solver.mate, work)
    # To be both a source's and a target's choice makes a link's entropy count once, not twice.
    both = alone and kept
    mass = _solve_shares(n, m, 1.0 if both else 0.0, mu, work)
    mass -= n + m if both else (m if kept else n)
    for k in range(n + m):
        mass -= work.dual[k]
    shrink(n, m, mu, work.rest)
    if not null:
        complete(n, m, alone, match, solver.mate, mu, work.rest[: n + m], work)
    return total + temperature * mass

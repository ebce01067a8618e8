"""Projections onto the polytope of assignments.

Matrices without negative entries whose rows and columns sum to at most 1, or to 1 where a vertex
may not stay without a link: the Euclidean projections, and the entropic ones.

They start from a best assignment and its prices. Scores less prices are at most 0, and 0 where
there is a link, so that scores of any size and temperatures near 0 lose no digits. What is left is
a dual problem with a number for each vertex, for a Newton method with conjugate gradients over the
pairs that matter.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from .assignment import assignment
from .numerics import fast_exp


class ProjectionWork(NamedTuple):
    """Scratch of the projections, one per thread."""

    # (n_pairs,): Scores less prices over the temperature, and weights of pairs in a Newton step.
    reduced: np.ndarray
    weight: np.ndarray
    # The ends on the shorter side of pairs in a Newton step, by those on the longer one.
    column: np.ndarray
    # Offsets of those of each vertex of the longer side.
    begin: np.ndarray
    # Newton step's matrix after the elimination of the longer side.
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
def _find_room(k, size, alone, m, partner, sums, mu, work):
    """Return the end of a path of changes from vertex k of the side that is linked, -1 if none.

    Each vertex gets more of its partner, at the cost of another that has some of that partner.
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
def _into_polytope(n, m, null, alone, match, mate, mu, work):
    """Bring sums of rows, then of columns, down to 1, and those that must be 1 up to 1.

    What a vertex lacks by more than rounding comes along alternating paths of the best matching and
    of the entries above 0, so that no entry becomes positive that should not.
    """
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


@inner_kernel
def nothing(n, m, value, mu):
    """Write zeros and return `value`, where there is no assignment."""
    for q in range(n * m):
        mu[q] = 0.0
    return value


# Euclidean projections onto the polytope of assignments: convex quadratic flows.

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
    """Update every target; all steps are simultaneous."""
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
    _into_polytope(n, m, null, alone, match, solver.mate, mu, work)
    return total + temperature * half


# Entropic projections onto the polytope of assignments: matrix scaling with a null.

_MOST_SCALINGS = 300
_SCALING_RESIDUAL = 1e-13
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
        # The rest of a direction in which nothing changes is rounding: do not follow it.
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
    for _ in range(_MOST_SCALINGS):
        residual = _worst(size, slope)
        if residual <= _SCALING_RESIDUAL or (residual <= 1e-10 and residual >= 0.5 * before):
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
    :func:`skstruct.inference.assignment_polytope.euclidean_assignment`, where H is the entropy
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
    _into_polytope(n, m, null, alone, match, solver.mate, mu, work)
    return total + temperature * mass

"""Block-coordinate Frank-Wolfe, one epoch: sampling, caching, pairwise steps, line search.

``m_i - mu(y_i)`` is kept in part space, and some labellings of m_i one by one (the *cache*). The
weights are ``w = -1/(lam n) sum_i s_i A_i' (m_i - mu(y_i))``.
"""

from typing import NamedTuple

import numpy as np

from ...core.cone import project_rows
from ...core.jit.dispatch import generic
from ...core.jit.kernels import inner_kernel, kernel
from ...core.jit.solver_kernel import solver_kernel
from ...core.oracles import (
    accumulate,
    add_indicator,
    gram,
    loss_augmented_max,
    potentials,
    score,
    score_rows,
    task_loss,
)
from ...losses.operations import dot, expected_task_loss
from ..sampling import sample_leaf, set_leaf

# Entries of ``BCFWState.totals``.
N_STEPS, N_ORACLE, N_CACHED, GAP = range(4)


class BCFWState(NamedTuple):
    """The dual point and the cache."""

    # (n_parts,): ``m_i - mu(y_i)`` of every sample.
    residuals: np.ndarray
    # (n_samples,): ``<l_i, m_i>``, the task loss of the dual point.
    losses: np.ndarray
    # (n_samples,): Last known block gaps.
    gaps: np.ndarray
    # Sum tree over `gaps`, for sampling.
    tree: np.ndarray
    # (n_cached, n_nodes): Cached labellings, where the labels of the sample lie.
    labels: np.ndarray
    # (n_samples, n_cached): Their weights in ``m_i``; -1 for an empty slot.
    shares: np.ndarray
    # (n_samples, n_cached): Their task losses.
    costs: np.ndarray
    # (n_samples, n_cached (n_cached + 1): Inner products of ``A_i' (mu(y) - mu(y_i))`` for the
    # cached labellings y, the lower triangle row by row; of shape (n_samples, 0) where there are no
    # pairwise steps.
    inner: np.ndarray
    # (n_samples, n_cached): Shares of some passes ago, to extrapolate from; of shape (0, n_cached)
    # without extrapolation.
    past: np.ndarray
    # (n_weights,): Where a run ended with a mean of iterates: that.
    recent: np.ndarray
    # (4,): Steps, oracle calls, steps from the cache, sum of the block gaps seen (whoever begins a
    # pass sets it to 0).
    totals: np.ndarray


class BCFWOptions(NamedTuple):
    """Choices of one run."""

    # The regulariser.
    lam: float
    # 1 to sample in proportion to the last gaps, 0 to follow the given order.
    by_gap: int
    # Most pairwise steps a visit; 0 for one Frank-Wolfe step.
    pairwise: int
    # A cached labelling replaces the oracle when its gap is at least this fraction of the sample's
    # last exact gap; inf never.
    fresh: float
    # And at least this much.
    enough: float


@generic
def add_cached(cache, problem, i, c, share, out):
    """``out += share`` times what slot c of a cache holds for sample i."""


@add_cached.register(BCFWState)
@kernel
def _(cache, problem, i, c, share, out):
    labels = cache.labels[c, problem.label_ptr[i] : problem.label_ptr[i + 1]]
    add_indicator(problem, i, labels, share, out)


@inner_kernel
def forget_way(past, shares, slot):
    """Before a slot is filled again: how far its old labelling had come is not known any more."""
    if past[slot] > 0.0 or shares[slot] > 0.0:
        for c in range(shares.shape[0]):
            past[c] = shares[c] if shares[c] > 0.0 else 0.0
        past[slot] = 0.0


@inner_kernel
def enter(problem, i, w, theta, residual, state):
    """Potentials to `theta`; returns ``<theta, m_i>`` with the task loss of ``m_i``."""
    potentials(problem, i, w, theta)
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    base = dot(theta, residual, residual.shape[0]) + score(problem, i, theta, true)
    return base + state.losses[i]


@inner_kernel
def note_gap(state, options, i, gap):
    """Store the gap of sample i that the oracle found."""
    state.totals[N_ORACLE] += 1.0
    state.gaps[i] = 0.0 if gap < 0.0 else gap
    if options.by_gap == 1:
        set_leaf(state.tree, i, state.gaps[i])


@inner_kernel
def best_cached(problem, i, theta, state, values):
    """Scores of the cached labellings, task losses included, to `values`; the best slot, or -1."""
    best, labels = -1, state.labels.reshape(state.labels.size)
    score_rows(problem, i, theta, labels, state.shares[i], values)
    for c in range(values.shape[0]):
        if state.shares[i, c] >= 0.0:
            values[c] += state.costs[i, c]
            if best < 0 or values[c] > values[best]:
                best = c
    return best


@inner_kernel
def slot_of(problem, i, state, labels):
    """The slot that holds `labels`, and 1, else an empty one or that of least share, and 0."""
    first = problem.label_ptr[i]
    n = problem.label_ptr[i + 1] - first
    chosen = 0
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] >= 0.0:
            same = True
            for t in range(n):
                if state.labels[c, first + t] != labels[t]:
                    same = False
                    break
            if same:
                return c, 1
        if state.shares[i, c] < state.shares[i, chosen]:
            chosen = c
    return chosen, 0


@inner_kernel(inline=True)
def _pair(a, b):
    """Return the index of the inner product of two slots."""
    return a * (a + 1) // 2 + b if a > b else b * (b + 1) // 2 + a


@inner_kernel
def _note_products(problem, i, state, slot, near, labels, buffers):
    """Store products of the labelling in `slot` with cached ones, by its difference from `near`."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    direction, answer, inner = buffers[2], buffers[3], state.inner[i]
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        direction[q] = 0.0
    known = state.labels[near, first:stop]
    add_indicator(problem, i, labels, 1.0, direction)
    add_indicator(problem, i, known, -1.0, direction)
    gram(problem, i, direction, answer)
    origin = score(problem, i, answer, problem.labels[first:stop])
    square = inner[_pair(near, near)] - 2.0 * origin
    square += score(problem, i, answer, known) + score(problem, i, answer, labels)
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] >= 0.0 and c != slot:
            other = score(problem, i, answer, state.labels[c, first:stop]) - origin
            inner[_pair(slot, c)] = inner[_pair(near, c)] + other
    inner[_pair(slot, slot)] = square


@inner_kernel
def _all_products(problem, i, state, buffers):
    """Recompute the inner products of all cached labellings."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    direction, answer, true = buffers[2], buffers[3], problem.labels[first:stop]
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] >= 0.0:
            for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
                direction[q] = 0.0
            add_indicator(problem, i, state.labels[c, first:stop], 1.0, direction)
            add_indicator(problem, i, true, -1.0, direction)
            gram(problem, i, direction, answer)
            origin = score(problem, i, answer, true)
            for b in range(c + 1):
                if state.shares[i, b] >= 0.0:
                    other = score(problem, i, answer, state.labels[b, first:stop])
                    state.inner[i, _pair(c, b)] = other - origin


@inner_kernel
def admit(problem, i, state, slot, near, labels, buffers):
    """Put a labelling into a slot; what an evicted one contributes to ``m_i`` stays there."""
    if state.inner.shape[1] > 0:
        _note_products(problem, i, state, slot, near, labels, buffers)
    first = problem.label_ptr[i]
    if state.past.shape[0] > 0:
        forget_way(state.past[i], state.shares[i], slot)
    state.shares[i, slot] = 0.0
    for t in range(problem.label_ptr[i + 1] - first):
        state.labels[slot, first + t] = labels[t]
    state.costs[i, slot] = task_loss(problem, i, labels)


@inner_kernel
def line_search(problem, i, theta, residual, slope, scale, most, buffers):
    """Exact step along the direction in `buffers`; slope: ``<theta, direction>`` plus loss."""
    size = residual.shape[0]
    change, direction, answer = buffers[1], buffers[2], buffers[3]
    gram(problem, i, direction, answer)
    curvature = scale * dot(direction, answer, size)
    step = 0.0
    if curvature > 0.0:
        step = slope / curvature
        step = 0.0 if step < 0.0 else step
        step = most if most < step else step
    elif curvature == 0.0 and slope > 0.0:
        step = most
    for q in range(size):
        theta[q] -= step * scale * answer[q]
        residual[q] += step * direction[q]
        change[q] += step * direction[q]
    return step


@inner_kernel
def step_toward(problem, i, theta, state, slot, residual, scale, buffers):
    """A Frank-Wolfe step: share moves to the labelling in `slot` from all of ``m_i``; its size."""
    size, direction = residual.shape[0], buffers[2]
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    for q in range(size):
        direction[q] = -residual[q]
    gain = state.costs[i, slot] - state.losses[i]
    add_indicator(problem, i, state.labels[slot, first:stop], 1.0, direction)
    add_indicator(problem, i, problem.labels[first:stop], -1.0, direction)
    slope = dot(theta, direction, size) + gain
    step = line_search(problem, i, theta, residual, slope, scale, 1.0, buffers)
    state.losses[i] += step * gain
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] > 0.0:
            state.shares[i, c] *= 1.0 - step
    state.shares[i, slot] += step
    return step


@inner_kernel
def _exchange(shares, inner, values, n_steps, scale):
    """Up to `n_steps` pairwise steps by inner products; `shares` and `values` follow."""
    goal = 0.0
    for step in range(n_steps):
        best = away = -1
        for c in range(values.shape[0]):
            if shares[c] >= 0.0:
                if best < 0 or values[c] > values[best]:
                    best = c
                if shares[c] > 0.0 and (away < 0 or values[c] < values[away]):
                    away = c
        if away < 0 or best == away:
            break
        slope = values[best] - values[away]
        if step == 0:
            goal = 0.1 * slope
        elif not slope > goal:
            break
        curvature = inner[_pair(best, best)] + inner[_pair(away, away)]
        curvature = scale * (curvature - 2.0 * inner[_pair(best, away)])
        much = shares[away]
        if curvature > 0.0:
            best_step = slope / curvature
            much = best_step if best_step < much else much
        for c in range(values.shape[0]):
            if shares[c] >= 0.0:
                values[c] -= scale * much * (inner[_pair(c, best)] - inner[_pair(c, away)])
        shares[away] -= much
        shares[best] += much


@inner_kernel
def _block(problem, i, theta, state, residual, options, base, scale, values, buffers):
    """Steps on cached labellings, of scores `values`; `base` is the score of ``m_i`` with loss."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    shares, slots = state.shares[i], values.shape[1]
    now, before = values[0], values[1]
    kept, outside, best, away = 0.0, base, -1, -1
    for c in range(slots):
        if shares[c] >= 0.0:
            if best < 0 or now[c] > now[best]:
                best = c
            if shares[c] > 0.0:
                kept += shares[c]
                outside -= shares[c] * now[c]
                if away < 0 or now[c] < now[away]:
                    away = c
    # The part of m_i that no cached labelling explains only shrinks by a Frank-Wolfe step.
    rest = 1.0 - kept
    if rest > 1e-9 and (away < 0 or outside < now[away] * rest):
        step = step_toward(problem, i, theta, state, best, residual, scale, buffers)
        labels = state.labels.reshape(state.labels.size)
        score_rows(problem, i, buffers[3], labels, shares, before)
        for c in range(slots):
            if shares[c] >= 0.0:
                now[c] -= step * scale * before[c]
    for c in range(slots):
        before[c] = shares[c]
    _exchange(shares, state.inner[i], now, options.pairwise, scale)
    change, direction = buffers[1], buffers[2]
    for q in range(residual.shape[0]):
        direction[q] = 0.0
    for c in range(slots):
        move = shares[c] - before[c]
        if move != 0.0:
            add_indicator(problem, i, state.labels[c, first:stop], move, direction)
            state.losses[i] += move * state.costs[i, c]
    for q in range(residual.shape[0]):
        change[q] += direction[q]
        residual[q] += direction[q]


@solver_kernel
def bcfw_epoch(
    problem, w, cone, sample_weight, options, state, order, uniforms, buffers, values, labels
):
    """Visits of block-coordinate Frank-Wolfe, one for each of `uniforms`."""
    theta, change = buffers[0], buffers[1]
    totals = state.totals
    n_samples = sample_weight.shape[0]
    for visit in range(uniforms.shape[0]):
        i = sample_leaf(state.tree, uniforms[visit]) if options.by_gap == 1 else order[visit]
        part = problem.part_ptr[i]
        size = problem.part_ptr[i + 1] - part
        residual = state.residuals[part : part + size]
        scale = sample_weight[i] / (options.lam * n_samples)
        share = sample_weight[i] / n_samples

        base = enter(problem, i, w, theta, residual, state)
        slot = near = best_cached(problem, i, theta, state, values[0])
        gap = share * (values[0, slot] - base)
        totals[N_STEPS] += 1.0
        stale = gap < options.fresh * state.gaps[i] or gap < options.enough
        if stale or options.fresh == np.inf:
            value = loss_augmented_max(problem, i, theta, labels, buffers[3])
            gap = share * (value - base)
            note_gap(state, options, i, gap)
            if gap > 0.0:
                slot, known = slot_of(problem, i, state, labels)
                if known == 0:
                    admit(problem, i, state, slot, near, labels, buffers)
                values[0, slot] = value
        else:
            totals[N_CACHED] += 1.0
        totals[GAP] += gap
        if not gap > 0.0:
            continue
        for q in range(size):
            change[q] = 0.0
        if options.pairwise > 0:
            _block(problem, i, theta, state, residual, options, base, scale, values, buffers)
        else:
            step_toward(problem, i, theta, state, slot, residual, scale, buffers)
        later = 0.5 * totals[N_STEPS] * (totals[N_STEPS] - 1.0)
        accumulate(problem, i, change, (-scale, -scale * later), w)
        project_rows(cone, w, later, 1)


@solver_kernel
def rebuild(problem, sample_weight, lam, state, w, start, stop, buffers):
    """Compute w, task losses and cache products of a dual point for samples `start` to `stop`.

    Of the point's own loss only what :func:`expected_losses` explains counts: a lower bound.
    """
    for i in range(start, stop):
        residual = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        scale = sample_weight[i] / (lam * sample_weight.shape[0])
        accumulate(problem, i, residual, (-scale, 0.0), w)
        first, last = problem.label_ptr[i], problem.label_ptr[i + 1]
        state.losses[i] = 0.0
        for c in range(state.shares.shape[1]):
            if state.shares[i, c] >= 0.0:
                state.costs[i, c] = task_loss(problem, i, state.labels[c, first:last])
                state.losses[i] += state.shares[i, c] * state.costs[i, c]
        if state.inner.shape[1] > 0:
            _all_products(problem, i, state, buffers)


@solver_kernel
def expected_losses(problem, state, start, stop, trial):
    """Return task losses of a dual point, of a loss that is linear in parts."""
    for i in range(start, stop):
        residual = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        state.losses[i] = expected_task_loss(problem, i, residual, trial)

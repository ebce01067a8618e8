"""Block-coordinate Frank-Wolfe for structures whose oracle answers with points of a relaxation.

Points that are labellings are cached; the others are part of what no cached labelling explains.
"""

import numpy as np

from ...core.cone import project_rows
from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import accumulate, add_indicator, relaxed_oracle, score
from ...losses.hinge import expected_task_loss
from ...losses.verbs import augment_copy, dot
from ..sampling import sample_leaf
from .kernels import (
    GAP,
    N_CACHED,
    N_STEPS,
    best_cached,
    enter,
    line_search,
    note_gap,
    slot_of,
    step_toward,
)

# A smaller share of a dual point is rounding.
_LEAST_REST = 1e-7


@inner_kernel
def _unexplained(problem, i, theta, state, residual, values):
    """Share of ``m_i`` that is no cached labelling, and score and task loss of that part."""
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    rest, loss = 1.0, state.losses[i]
    total = dot(theta, residual, residual.shape[0]) + score(problem, i, theta, true) + loss
    for c in range(values.shape[0]):
        if state.shares[i, c] > 0.0:
            rest -= state.shares[i, c]
            total -= state.shares[i, c] * values[c]
            loss -= state.shares[i, c] * state.costs[i, c]
    if rest < _LEAST_REST:
        return 0.0, np.inf, 0.0
    return rest, total / rest, loss / rest


@inner_kernel
def _take_unexplained(problem, i, state, residual, rest, direction):
    """``direction -=`` the part of ``m_i`` that is no cached labelling."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    for q in range(residual.shape[0]):
        direction[q] -= residual[q] / rest
    add_indicator(problem, i, problem.labels[first:stop], -1.0 / rest, direction)
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] > 0.0:
            share = state.shares[i, c] / rest
            add_indicator(problem, i, state.labels[c, first:stop], share, direction)


@inner_kernel
def _relaxed_block(problem, i, theta, state, residual, n_steps, point, scale, values, buffers):
    """Steps on cached labellings; the part of ``m_i`` that is none is one more point to leave.

    `point` has score and task loss of the point in the third buffer, to which the first step goes;
    -inf if there is none.
    """
    direction, size = buffers[2], residual.shape[0]
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    goal = 0.0
    for step in range(n_steps):
        best = best_cached(problem, i, theta, state, values)
        rest, lowest, loss = _unexplained(problem, i, theta, state, residual, values)
        away, most = -1, rest
        for c in range(values.shape[0]):
            if state.shares[i, c] > 0.0 and values[c] < lowest:
                away, lowest = c, values[c]
        if away >= 0:
            most, loss = state.shares[i, away], state.costs[i, away]
        is_point = step == 0 and point[0] > -np.inf
        slope = (point[0] if is_point else values[best]) - lowest
        gain = (point[1] if is_point else state.costs[i, best]) - loss
        if step == 0:
            goal = 0.1 * slope
        elif slope <= goal:
            break
        if not is_point:
            for q in range(size):
                direction[q] = 0.0
            add_indicator(problem, i, state.labels[best, first:stop], 1.0, direction)
        if away >= 0:
            add_indicator(problem, i, state.labels[away, first:stop], -1.0, direction)
        else:
            _take_unexplained(problem, i, state, residual, rest, direction)
        moved = line_search(problem, i, theta, residual, slope, scale, most, buffers)
        state.losses[i] += moved * gain
        if away >= 0:
            state.shares[i, away] -= moved
        if not is_point:
            state.shares[i, best] += moved


@inner_kernel
def _toward_point(problem, i, theta, state, slope, loss, residual, scale, buffers):
    """A Frank-Wolfe step to the point in the third buffer, which is no labelling."""
    direction = buffers[2]
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    add_indicator(problem, i, true, -1.0, direction)
    for q in range(residual.shape[0]):
        direction[q] -= residual[q]
    step = line_search(problem, i, theta, residual, slope, scale, 1.0, buffers)
    state.losses[i] += step * (loss - state.losses[i])
    for c in range(state.shares.shape[1]):
        if state.shares[i, c] > 0.0:
            state.shares[i, c] *= 1.0 - step


@kernel
def relaxed_epoch(
    problem, w, cone, sample_weight, options, state, order, uniforms, buffers, values, labels
):
    """Visits as those of :func:`~skstruct.solvers.bcfw.kernels.bcfw_epoch`.

    Parameters
    ----------
    problem, w, cone, sample_weight, options, state : object
        As there.
    order, uniforms, buffers, values, labels : object
        As there.
    """
    theta, change = buffers[0], buffers[1]
    totals, n_samples = state.totals, sample_weight.shape[0]
    for visit in range(uniforms.shape[0]):
        i = sample_leaf(state.tree, uniforms[visit]) if options.by_gap == 1 else order[visit]
        part = problem.part_ptr[i]
        size = problem.part_ptr[i + 1] - part
        residual = state.residuals[part : part + size]
        scale = sample_weight[i] / (options.lam * n_samples)
        share = sample_weight[i] / n_samples

        base = enter(problem, i, w, theta, residual, state)
        slot, gap, value = -1, 0.0, 0.0
        if options.fresh < np.inf:
            slot = best_cached(problem, i, theta, state, values)
            gap = share * (values[slot] - base)
        totals[N_STEPS] += 1.0
        if slot < 0 or gap < options.fresh * state.gaps[i] or gap < options.enough:
            augment_copy(problem, i, theta, buffers[3])
            bound, value = relaxed_oracle(problem, i, buffers[3], labels, buffers[2])
            gap = share * max(bound - base, 0.0)
            slot = -1
            if labels[0] >= 0:
                lost = value - score(problem, i, buffers[3], labels)
                whole = lost <= 1e-12 * (1.0 + abs(value))
                slot = slot_of(problem, i, state, labels)
                slot = slot if whole else -1
            note_gap(state, options, i, gap)
        else:
            value = values[slot]
            totals[N_CACHED] += 1.0
        totals[GAP] += gap
        if not value > base:
            continue
        for q in range(size):
            change[q] = 0.0
        loss = expected_task_loss(problem, i, buffers[2], buffers[3]) if slot < 0 else 0.0
        if options.pairwise > 0:
            n_steps, point = options.pairwise, (value if slot < 0 else -np.inf, loss)
            _relaxed_block(
                problem, i, theta, state, residual, n_steps, point, scale, values, buffers
            )
        elif slot < 0:
            _toward_point(problem, i, theta, state, value - base, loss, residual, scale, buffers)
        else:
            step_toward(problem, i, theta, state, slot, -1, 0.0, residual, scale, buffers)
        later = 0.5 * totals[N_STEPS] * (totals[N_STEPS] - 1.0)
        accumulate(problem, i, change, (-scale, -scale * later), w)
        project_rows(cone, w, later, 1)

"""Block-coordinate Frank-Wolfe, one epoch: sampling, caching, pairwise steps, line search.

The dual point of sample i is ``m_i``, a convex combination of labellings. What is stored is
``m_i - mu(y_i)`` in part space; some of the labellings that make it up are also kept one by one
(the *cache*), with their weights, for pairwise steps and to save oracle calls. The weights are
``w = -1/(lam n) sum_i s_i A_i' (m_i - mu(y_i))``.
"""

from typing import NamedTuple

import numpy as np

from ...core.cone import project_rows
from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    accumulate,
    add_indicator,
    gram,
    loss_augmented_max,
    potentials,
    score,
    task_loss,
)
from ...losses.hinge import expected_task_loss
from ...losses.verbs import dot
from ..sampling import sample_leaf, set_leaf

# Entries of ``BCFWState.totals``.
N_STEPS, N_ORACLE, N_CACHED, GAP = range(4)
_ORDER, _BY_GAP = 0, 1


class BCFWState(NamedTuple):
    """The dual point and the cache.

    Parameters
    ----------
    residuals : ndarray of shape (n_parts,)
        ``m_i - mu(y_i)`` of every sample.
    losses : ndarray of shape (n_samples,)
        ``<l_i, m_i>``, the task loss of the dual point.
    gaps : ndarray of shape (n_samples,)
        Last known block gaps.
    tree : ndarray
        Sum tree over `gaps`, for sampling.
    labels : ndarray of shape (n_cached, n_nodes) of int32
        Cached labellings, where the labels of the sample lie.
    shares : ndarray of shape (n_samples, n_cached)
        Their weights in ``m_i``; -1 for an empty slot.
    costs : ndarray of shape (n_samples, n_cached)
        Their task losses.
    totals : ndarray of shape (4,)
        Steps, oracle calls, steps from the cache, sum of the block gaps seen (whoever begins a pass
        sets it to 0).
    """

    residuals: np.ndarray
    losses: np.ndarray
    gaps: np.ndarray
    tree: np.ndarray
    labels: np.ndarray
    shares: np.ndarray
    costs: np.ndarray
    totals: np.ndarray


class BCFWOptions(NamedTuple):
    """Choices of one run.

    Parameters
    ----------
    lam : float
        The regulariser.
    by_gap : int
        1 to sample in proportion to the last gaps, 0 to follow the given order.
    pairwise : int
        Most pairwise steps a visit; 0 for one Frank-Wolfe step.
    fresh : float
        A cached labelling replaces the oracle when its gap is at least this share of the sample's
        last exact gap; inf never.
    enough : float
        And at least this much.
    """

    lam: float
    by_gap: int
    pairwise: int
    fresh: float
    enough: float


@inner_kernel
def enter(problem, i, w, theta, residual, state):
    """Potentials to `theta`; returns ``<theta, m_i>`` with the task loss of ``m_i``."""
    potentials(problem, i, w, theta)
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    base = dot(theta, residual, residual.shape[0]) + score(problem, i, theta, true)
    return base + state.losses[i]


@inner_kernel
def note_gap(state, options, i, gap):
    """Remember what the oracle said of sample i."""
    state.totals[N_ORACLE] += 1.0
    state.gaps[i] = max(gap, 0.0)
    if options.by_gap == 1:
        set_leaf(state.tree, i, state.gaps[i])


@inner_kernel
def best_cached(problem, i, theta, state, values):
    """Scores of the cached labellings, task losses included, to `values`; the best slot, or -1."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    best = -1
    for c in range(values.shape[0]):
        if state.shares[i, c] >= 0.0:
            values[c] = score(problem, i, theta, state.labels[c, first:stop]) + state.costs[i, c]
            if best < 0 or values[c] > values[best]:
                best = c
    return best


@inner_kernel
def slot_of(problem, i, state, labels):
    """The slot that holds `labels`, else an empty one, else that of least share."""
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
                return c
        if state.shares[i, c] < state.shares[i, chosen]:
            chosen = c
    # What an evicted labelling contributes to m_i stays there.
    state.shares[i, chosen] = 0.0
    for t in range(n):
        state.labels[chosen, first + t] = labels[t]
    state.costs[i, chosen] = task_loss(problem, i, labels)
    return chosen


@inner_kernel
def line_search(problem, i, theta, residual, slope, scale, most, buffers):
    """Exact step along the direction in `buffers`; moves `theta`, `residual` and its change.

    `slope` is ``<theta, direction>`` plus what the task loss gains.
    """
    size = residual.shape[0]
    change, direction, answer = buffers[1], buffers[2], buffers[3]
    gram(problem, i, direction, answer)
    curvature = scale * dot(direction, answer, size)
    step = 0.0
    if curvature > 0.0:
        step = min(max(slope / curvature, 0.0), most)
    elif curvature == 0.0 and slope > 0.0:
        step = most
    for q in range(size):
        theta[q] -= step * scale * answer[q]
        residual[q] += step * direction[q]
        change[q] += step * direction[q]
    return step


@inner_kernel
def step_toward(problem, i, theta, state, slot, away, slope, residual, scale, buffers):
    """Share moves to the labelling in `slot`: from that in `away`, or with -1 from all of ``m_i``.

    `slope` is that of a pairwise step; the one of a Frank-Wolfe step is found here.
    """
    size, direction = residual.shape[0], buffers[2]
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    if away < 0:
        for q in range(size):
            direction[q] = -residual[q]
        left, most = problem.labels[first:stop], 1.0
        gain = state.costs[i, slot] - state.losses[i]
    else:
        for q in range(size):
            direction[q] = 0.0
        left, most = state.labels[away, first:stop], state.shares[i, away]
        gain = state.costs[i, slot] - state.costs[i, away]
    add_indicator(problem, i, state.labels[slot, first:stop], 1.0, direction)
    add_indicator(problem, i, left, -1.0, direction)
    if away < 0:
        slope = dot(theta, direction, size) + gain
    step = line_search(problem, i, theta, residual, slope, scale, most, buffers)
    state.losses[i] += step * gain
    if away < 0:
        for c in range(state.shares.shape[1]):
            if state.shares[i, c] > 0.0:
                state.shares[i, c] *= 1.0 - step
    else:
        state.shares[i, away] -= step
    state.shares[i, slot] += step


@inner_kernel
def _block(problem, i, theta, state, residual, n_steps, base, scale, values, buffers):
    """Up to `n_steps` steps on the labellings in the cache; `theta` follows without the weights.

    `base` is the score of ``m_i`` at the start, task loss included.
    """
    goal = 0.0
    for step in range(n_steps):
        best = best_cached(problem, i, theta, state, values)
        away, kept, outside = -1, 0.0, base
        for c in range(values.shape[0]):
            if state.shares[i, c] > 0.0:
                kept += state.shares[i, c]
                outside -= state.shares[i, c] * values[c]
                if away < 0 or values[c] < values[away]:
                    away = c
        # The part of m_i that no cached labelling explains only shrinks by a Frank-Wolfe step.
        rest = 1.0 - kept
        if step == 0 and rest > 1e-9 and away >= 0 and outside < values[away] * rest:
            away = -1
        slope = 0.0
        if away >= 0:
            slope = values[best] - values[away]
            if step == 0:
                goal = 0.1 * slope
            elif slope <= goal:
                break
        step_toward(problem, i, theta, state, best, away, slope, residual, scale, buffers)


@kernel
def bcfw_epoch(
    problem, w, cone, sample_weight, options, state, order, uniforms, buffers, values, labels
):
    """Visits of block-coordinate Frank-Wolfe, one for each of `uniforms`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem with the verbs of :mod:`skstruct.core.oracles` imported here.
    w : Weights
        The weights; lazy ones have them in ``v`` (``s = 1``, ``b = 0``), and in ``d`` the sum of
        ``tau (tau - 1) / 2`` times the change of step tau, from which the weighted average follows.
    cone : Cone
        Where the weights stay.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    options : BCFWOptions
        The choices.
    state : BCFWState
        The dual point.
    order : ndarray of int64
        Samples to visit, unless they are sampled by their gaps.
    uniforms : ndarray
        Uniform random numbers.
    buffers : ndarray of shape (4, max_parts)
        Scratch.
    values : ndarray of shape (n_cached,)
        Scratch.
    labels : ndarray of int32
        Scratch for one labelling.
    """
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
        slot, gap = -1, 0.0
        if options.fresh < np.inf:
            slot = best_cached(problem, i, theta, state, values)
            gap = share * (values[slot] - base)
        totals[N_STEPS] += 1.0
        if slot < 0 or gap < options.fresh * state.gaps[i] or gap < options.enough:
            gap = share * (loss_augmented_max(problem, i, theta, labels, buffers[3]) - base)
            slot = slot_of(problem, i, state, labels)
            note_gap(state, options, i, gap)
        else:
            totals[N_CACHED] += 1.0
        totals[GAP] += gap
        if not gap > 0.0:
            continue
        for q in range(size):
            change[q] = 0.0
        if options.pairwise > 0:
            n_steps = options.pairwise
            _block(problem, i, theta, state, residual, n_steps, base, scale, values, buffers)
        else:
            step_toward(problem, i, theta, state, slot, -1, 0.0, residual, scale, buffers)
        later = 0.5 * totals[N_STEPS] * (totals[N_STEPS] - 1.0)
        accumulate(problem, i, change, (-scale, -scale * later), w)
        project_rows(cone, w, later, 1)


@kernel
def rebuild(problem, sample_weight, lam, state, w, start, stop):
    """What a dual point implies for the present problem, from samples `start` to `stop`.

    ``w <- w - 1/(lam n) sum_i s_i A_i' (m_i - mu(y_i))``, and the task losses of the cached
    labellings. Of the dual point's own loss it counts what these explain: no more than it is, so
    that the dual objective stays a lower bound; see :func:`expected_losses`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    state : BCFWState
        The dual point; its losses and costs are written to.
    w : Weights
        Added to.
    start, stop : int
        The range of samples.
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


@kernel
def expected_losses(problem, state, start, stop, trial):
    """Task losses of a dual point where the loss is linear in parts: evicted labellings count, too.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    state : BCFWState
        The dual point; its losses are written to.
    start, stop : int
        The range of samples.
    trial : ndarray of shape (max_parts,)
        Scratch.
    """
    for i in range(start, stop):
        residual = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        state.losses[i] = expected_task_loss(problem, i, residual, trial)

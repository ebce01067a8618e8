"""SVRG on a smooth loss with a proximal term: the inner solver of Casimir."""

from typing import NamedTuple

import numpy as np

from ...core.cone import project_rows
from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import accumulate, potentials
from ...core.team import LEAD, LEAVE, fetch_add, meet, open_gate
from ...core.weights import decay_and_step
from ...losses.verbs import expected_loss, loss_curvature, loss_oracle

# Entries of ``Snapshot.totals``, and tasks of a pass.
LOSS, MAGNITUDE, TASK_LOSS = range(3)
SNAPSHOT, STEP = 0, 1


class Snapshot(NamedTuple):
    """What SVRG keeps of its reference point."""

    # (n_parts,): Residual of every sample there.
    residuals: np.ndarray
    # (n_samples,): Estimates of the smoothness of the losses, 0 where there is none.
    lipschitz: np.ndarray
    # (3,): Mean loss, mean size of the terms that the losses are differences of, and if asked for
    # the mean task loss that the residuals expect; 0 before a snapshot.
    totals: np.ndarray


class SVRGOptions(NamedTuple):
    """What a pass is to do."""

    # ``SNAPSHOT``: store the residuals at `w` and put their mean gradient into ``d``, which is 0
    # before. ``STEP``: SVRG steps with ``d`` fixed.
    task: int
    # 1 to raise the estimates of smoothness by what the pass meets.
    measure: int
    # 1 for a snapshot's task loss, the dual term of the hinge.
    task_loss: int
    # Learning rate of the steps.
    rate: float
    # lambda + kappa.
    decay: float


class Visits(NamedTuple):
    """What threads tell each other of a block of a snapshot."""

    # (1,): How many of the block's samples have been taken.
    counters: np.ndarray
    # (most, 3): Of each sample what is added to ``Snapshot.totals``.
    values: np.ndarray


@inner_kernel(inline=True)
def _visit(loss, problem, w, memory, options, i, values, r, buffers, labels):
    """Oracle and estimate of smoothness; `r` takes the residual."""
    theta, augmented, answer, trial = buffers[0], buffers[2], buffers[3], buffers[4]
    potentials(problem, i, w, theta)
    value, magnitude = loss_oracle(loss, problem, i, theta, labels, r, augmented)
    if options.measure == 1:
        memory.lipschitz[i] = loss_curvature(
            loss,
            problem,
            i,
            theta,
            value,
            labels,
            r,
            memory.lipschitz[i],
            answer,
            trial,
            augmented,
        )
    values[LOSS], values[MAGNITUDE], values[TASK_LOSS] = value, magnitude, 0.0
    if options.task_loss == 1:
        values[TASK_LOSS] = expected_loss(loss, problem, i, r, trial)


@inner_kernel(inline=True)
def _settle(sample_weight, memory, order, visits):
    """Add what was found at the samples of a block, in order."""
    n = sample_weight.shape[0]
    for k in range(order.shape[0]):
        share = sample_weight[order[k]] / n
        for q in range(memory.totals.shape[0]):
            memory.totals[q] += share * visits.values[k, q]
    visits.counters[0] = 0


@kernel
def svrg_pass(
    loss,
    problem,
    w,
    cone,
    sample_weight,
    memory,
    options,
    order,
    visits,
    buffers,
    labels,
    team,
):
    """Visit the samples in `order`, for a snapshot, which threads share, or for steps.

    One kernel for both: the oracles are most of its code, and are compiled once. A snapshot goes by
    blocks: oracles at samples of each thread's own, then each adds the residuals of all, in order,
    to its share of ``d``.
    """
    n, n_visits, most = sample_weight.shape[0], order.shape[0], visits.values.shape[0]
    stepping = options.task == STEP
    first = 0
    while first < n_visits:
        size = n_visits - first
        size = size if size < most else most
        size = 1 if stepping else size
        taken = fetch_add(visits.counters, 0, 1)
        while taken < size:
            i = order[first + taken]
            start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
            r = buffers[1] if stepping else memory.residuals[start:stop]
            _visit(loss, problem, w, memory, options, i, visits.values[taken], r, buffers, labels)
            taken = fetch_add(visits.counters, 0, 1)
        came = meet(team)
        if came == LEAVE:
            break
        if stepping:
            i = order[first]
            start = problem.part_ptr[i]
            r = buffers[1]
            for q in range(problem.part_ptr[i + 1] - start):
                r[q] -= memory.residuals[start + q]
            visits.counters[0] = 0
            decay_and_step(w, 1.0 - options.rate * options.decay, options.rate)
        elif came == LEAD:
            _settle(sample_weight, memory, order[first : first + size], visits)
            open_gate(team)
        # Who has no share adds nothing.
        for k in range(first, first + size if w.share[0] < w.share[1] else first):
            i = order[k]
            start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
            r = buffers[1] if stepping else memory.residuals[start:stop]
            weight = sample_weight[i]
            c = (-options.rate * weight, 0.0) if stepping else (0.0, weight / n)
            accumulate(problem, i, r, c, w)
        if stepping:
            project_rows(cone, w, 0.0, 0)
        first += size

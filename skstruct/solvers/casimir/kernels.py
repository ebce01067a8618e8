"""SVRG on a smooth loss with a proximal term: the inner solver of Casimir."""

from typing import NamedTuple

import numpy as np

from ...core.cone import project_rows
from ...core.dispatch import kernel
from ...core.oracles import accumulate, potentials
from ...core.weights import decay_and_step
from ...losses.verbs import expected_loss, loss_curvature, loss_oracle

# Entries of ``Snapshot.totals``, and tasks of a pass.
LOSS, MAGNITUDE, TASK_LOSS = range(3)
SNAPSHOT, STEP = 0, 1


class Snapshot(NamedTuple):
    """What SVRG keeps of its reference point.

    Parameters
    ----------
    residuals : ndarray of shape (n_parts,)
        Residual of every sample there.
    lipschitz : ndarray of shape (n_samples,)
        Estimates of the smoothness of the losses, 0 where there is none.
    totals : ndarray of shape (3,)
        Mean loss, mean size of the terms that the losses are differences of, and if asked for the
        mean task loss that the residuals expect; 0 before a snapshot.
    """

    residuals: np.ndarray
    lipschitz: np.ndarray
    totals: np.ndarray


class SVRGOptions(NamedTuple):
    """What a pass is to do.

    Parameters
    ----------
    task : int
        ``SNAPSHOT``: store the residuals at `w` and put their mean gradient into ``d``, which is 0
        before. ``STEP``: SVRG steps with ``d`` fixed.
    measure : int
        1 to raise the estimates of smoothness by what the pass meets.
    task_loss : int
        1 for a snapshot's task loss, the dual term of the hinge.
    rate : float
        Learning rate of the steps.
    decay : float
        lambda + kappa.
    """

    task: int
    measure: int
    task_loss: int
    rate: float
    decay: float


@kernel
def svrg_pass(loss, problem, w, cone, sample_weight, memory, options, order, buffers, labels):
    """Visit the samples in `order`, for a snapshot or for steps.

    One kernel for both: the oracles are most of its code, and are compiled once.

    Parameters
    ----------
    loss : NamedTuple
        A smooth loss, see :mod:`skstruct.losses.verbs`.
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights, folded for a snapshot; for steps ``d`` is the mean gradient at the snapshot
        minus kappa times the prox-center.
    cone : Cone
        Where steps stay.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    memory : Snapshot
        The snapshot.
    options : SVRGOptions
        What to do.
    order : ndarray of int64
        The samples.
    buffers : ndarray of shape (5, max_parts)
        Scratch.
    labels : ndarray of int32
        Scratch.
    """
    theta, r, augmented = buffers[0], buffers[1], buffers[2]
    answer, trial = buffers[3], buffers[4]
    n = sample_weight.shape[0]
    stepping = options.task == STEP
    for visit in range(order.shape[0]):
        i = order[visit]
        part = problem.part_ptr[i]
        share = sample_weight[i] / n
        potentials(problem, i, w, theta)
        value, magnitude = loss_oracle(loss, problem, i, theta, labels, r, augmented)
        if options.measure == 1:
            start = memory.lipschitz[i]
            memory.lipschitz[i] = loss_curvature(
                loss, problem, i, theta, value, labels, r, start, answer, trial, augmented
            )
        if not stepping:
            memory.totals[LOSS] += share * value
            memory.totals[MAGNITUDE] += share * magnitude
        if not stepping and options.task_loss == 1:
            memory.totals[TASK_LOSS] += share * expected_loss(loss, problem, i, r, trial)
        for q in range(problem.part_ptr[i + 1] - part):
            residual = r[q]
            if stepping:
                r[q] -= memory.residuals[part + q]
            else:
                memory.residuals[part + q] = residual
        if stepping:
            decay_and_step(w, 1.0 - options.rate * options.decay, options.rate)
            accumulate(problem, i, r, (-options.rate * sample_weight[i], 0.0), w)
            project_rows(cone, w, 0.0, 0)
        else:
            accumulate(problem, i, r, (0.0, share), w)

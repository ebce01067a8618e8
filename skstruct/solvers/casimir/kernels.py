"""SVRG on a smoothed hinge with a proximal term: the inner solver of Casimir; and SGD."""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import kernel
from ...core.oracles import accumulate, potentials
from ...core.weights import decay_and_step
from ...losses.smooth_hinge import expected_task_loss, hinge_curvature, hinge_oracle

# Entries of ``Snapshot.totals``, and tasks of a pass.
LOSS, TASK_LOSS = 0, 1
SNAPSHOT, STEP = 0, 1


class Snapshot(NamedTuple):
    """What SVRG keeps of its reference point.

    Parameters
    ----------
    residuals : ndarray of shape (n_parts,)
        Residual of every sample there.
    lipschitz : ndarray of shape (n_samples,)
        Estimates of the smoothness of the losses.
    totals : ndarray of shape (2,)
        Mean smoothed loss, and mean task loss that the residuals expect; 0 before a snapshot.
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
    rate : float
        Learning rate of the steps.
    decay : float
        lambda + kappa.
    """

    task: int
    measure: int
    rate: float
    decay: float


@kernel
def svrg_pass(how, problem, w, sample_weight, memory, options, order, buffers, labels):
    """Visit the samples in `order`, for a snapshot or for steps.

    One kernel for both: the oracles are most of its code, and are compiled once.

    Parameters
    ----------
    how : TopKHinge or EntropyHinge
        The loss.
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights, folded for a snapshot; for steps ``d`` is the mean gradient at the snapshot
        minus kappa times the prox-center.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    memory : Snapshot
        The snapshot.
    options : SVRGOptions
        What to do.
    order : ndarray of int64
        The samples.
    buffers : ndarray of shape (4, max_parts)
        Scratch.
    labels : ndarray of int32
        Scratch.
    """
    theta, r, answer, trial = buffers[0], buffers[1], buffers[2], buffers[3]
    n = sample_weight.shape[0]
    stepping = options.task == STEP
    for visit in range(order.shape[0]):
        i = order[visit]
        part = problem.part_ptr[i]
        share = sample_weight[i] / n
        potentials(problem, i, w, theta)
        value = hinge_oracle(how, problem, i, theta, labels, r)
        if options.measure == 1:
            start = memory.lipschitz[i]
            memory.lipschitz[i] = hinge_curvature(
                how, problem, i, theta, value, labels, r, start, answer, trial
            )
        if not stepping:
            memory.totals[LOSS] += share * value
            memory.totals[TASK_LOSS] += share * expected_task_loss(problem, i, r, trial)
        for q in range(problem.part_ptr[i + 1] - part):
            residual = r[q]
            if stepping:
                r[q] -= memory.residuals[part + q]
            else:
                memory.residuals[part + q] = residual
        if stepping:
            decay_and_step(w, 1.0 - options.rate * options.decay, options.rate)
            accumulate(problem, i, r, (-options.rate * sample_weight[i], 0.0), w)
        else:
            accumulate(problem, i, r, (0.0, share), w)


@kernel
def sgd_pass(how, problem, w, sample_weight, lam, schedule, average, order, buffers, labels):
    """Stochastic subgradient steps, with the weighted average of the iterates beside them.

    With weights c_t = t the sum of the iterates is ``average[1] v - d``, since each change of ``v``
    misses the earlier ones.

    Parameters
    ----------
    how : MaxHinge
        The loss.
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights ``s v``; ``b`` stays 0.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    schedule : tuple of three floats
        Rate ``first / (1 + floor(t / period))``, or with period 0 Pegasos' ``1 / (lam (t + 1))``;
        the third is not used.
    average : ndarray of shape (3,)
        Steps so far, the sum of ``c_t s_t``, the sum of ``c_t``.
    order : ndarray of int64
        The samples.
    buffers : ndarray of shape (4, max_parts)
        Scratch.
    labels : ndarray of int32
        Scratch.
    """
    theta, r = buffers[0], buffers[1]
    for step in range(order.shape[0]):
        i = order[step]
        average[0] += 1.0
        t = average[0]
        rate = 1.0 / (lam * (t + 1.0))
        if schedule[1] > 0.0:
            rate = schedule[0] / (1.0 + np.floor(t / schedule[1]))
        potentials(problem, i, w, theta)
        hinge_oracle(how, problem, i, theta, labels, r)
        rho = max(1.0 - rate * lam, 1e-3)
        scale = rho * w.scale[0]
        decay_and_step(w, rho, 0.0)
        if w.scale[0] != scale:  # folded
            average[1] /= scale
        change = -rate * sample_weight[i]
        accumulate(problem, i, r, (change, average[1] * change / w.scale[0]), w)
        average[1] += t * w.scale[0]
        average[2] += t

"""Losses of partial labels: over all labellings that fit them, or the best one."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.offsets import longest_item
from ..core.oracles import add_indicator, exp_oracle, loss_augmented_max, max_oracle, potentials
from .log import difference
from .operations import loss_oracle, minus_truth, truth_score


class Clamps(NamedTuple):
    """Parts of all samples that partial labels forbid."""

    # (n_parts,): 1 for parts of no labelling that fits the labels.
    forbidden: np.ndarray
    # (n_samples,): 1 for samples where several labellings may fit.
    partial: np.ndarray


class MarginalLogLoss(NamedTuple):
    """``-log p(y in Y_i | x_i)`` for labellings Y_i that fit the partial labels. Not convex."""

    # Parts that the labels forbid. A tuple, so that threads share it.
    clamps: tuple
    # (max_parts,): Scratch.
    mu: np.ndarray

    smooth = True
    convex = False


@loss_oracle.register(MarginalLogLoss)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    log_z = exp_oracle(problem, i, theta, 1.0, r)
    clamps = loss.clamps
    if clamps.partial[i] == 0:
        right = truth_score(problem, i, theta, labels)
        if r.shape[0] > 0:
            add_indicator(problem, i, labels, -1.0, r)
        return difference(log_z, right)
    first = problem.part_ptr[i]
    size = problem.part_ptr[i + 1] - first
    for q in range(size):
        augmented[q] = -math.inf if clamps.forbidden[first + q] == 1 else theta[q]
    if r.shape[0] == 0:
        return difference(log_z, exp_oracle(problem, i, augmented, 1.0, r))
    mu = loss.mu
    right = exp_oracle(problem, i, augmented, 1.0, mu)
    for q in range(size):
        r[q] -= mu[q]
    return difference(log_z, right)


@solver_kernel
def forbidden_parts(problem, w, start, stop, theta, out):
    """Write 1 to `out` for the parts of samples `start` to `stop` that are forbidden."""
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        first = problem.part_ptr[i]
        for q in range(problem.part_ptr[i + 1] - first):
            if theta[q] == -math.inf:
                out[first + q] = 1


def clamps_of(clamped, w, is_partial: np.ndarray) -> Clamps:
    """Find the parts that labels forbid."""
    forbidden = np.zeros(clamped.part_ptr[-1], dtype=np.uint8)
    theta = np.empty(max(longest_item(clamped.part_ptr), 1))
    forbidden_parts(clamped, w, 0, clamped.part_ptr.size - 1, theta, forbidden)
    return Clamps(forbidden, is_partial.astype(np.uint8))


class LatentHinge(NamedTuple):
    """``max_y [<theta, mu(y)> + Delta(Y_i, y)] - max_{y in Y_i} <theta, mu(y)>``. Not convex."""

    # Parts that the labels forbid. A tuple, so that threads share it.
    clamps: tuple

    convex = False


@loss_oracle.register(LatentHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    first = problem.part_ptr[i]
    for q in range(problem.part_ptr[i + 1] - first):
        augmented[q] = -math.inf if loss.clamps.forbidden[first + q] == 1 else theta[q]
    right = max_oracle(problem, i, augmented, labels)
    minus_truth(problem, i, labels, r)
    best = loss_augmented_max(problem, i, theta, labels, augmented)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, 1.0, r)
    return best - right, abs(best) + abs(right)

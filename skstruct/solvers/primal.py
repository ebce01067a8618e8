"""The structural hinge over all samples, and what its primal solvers share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.weights import Weights, squared_norm
from ..losses.hinge import hinge_losses
from ..losses.smooth_hinge import smoothing_of
from ..predict import make_scratch, over_samples
from .progress import SampleOverflow

_NO_MEMORY = np.empty(0)


class HingeValue(NamedTuple):
    """The objective of a structural SVM at some weights.

    Parameters
    ----------
    objective : float
        ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)``.
    gaps : ndarray of shape (n_samples,)
        Distance of each sample's dual point from the oracle's answer, but for the task loss of that
        point; the losses without one.
    magnitude : float
        Mean size of the scores that the losses are differences of, see
        :func:`skstruct.solvers.progress.relative_gap`.
    """

    objective: float
    gaps: np.ndarray
    magnitude: float


def compile_hinge(problem, w, memory=_NO_MEMORY) -> None:
    """Compile what :func:`hinge_value` calls.

    Parameters
    ----------
    problem, w, memory : object
        As for :func:`hinge_value`.
    """
    how = smoothing_of("none", 0.0, 1, problem)
    hinge_losses(how, problem, w, memory, 0, 0, make_scratch(problem), np.zeros((3, 0)))


def hinge_value(
    problem,
    w,
    sample_weight,
    lam,
    n_jobs,
    memory=_NO_MEMORY,
    advice="are the features scaled?",
) -> HingeValue:
    """``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)``, by one oracle call a sample.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    n_jobs : int or None
        Threads.
    memory : ndarray of shape (n_parts,), optional
        A dual point ``m_i - mu(y_i)`` of every sample.
    advice : str
        End of the error message.

    Returns
    -------
    HingeValue
        The objective and the gaps.

    Raises
    ------
    SampleOverflow
        If a loss is not finite.
    FloatingPointError
        If the objective is not.
    """
    n = sample_weight.size
    out = np.zeros((3, n))

    def piece(part, start, stop):
        how = smoothing_of("none", 0.0, 1, part)
        hinge_losses(how, part, w, memory, start, stop, make_scratch(part), out)

    over_samples(piece, problem, n_jobs)
    bad = np.flatnonzero(~np.isfinite(out[0]))
    if bad.size:
        raise SampleOverflow(int(bad[0]), float(out[0, bad[0]]), advice)
    # No loss is negative: what is below 0 is rounding of two scores.
    loss = float(np.maximum(out[0], 0.0) @ sample_weight) / n
    objective = 0.5 * lam * squared_norm(w) + loss
    if not np.isfinite(objective):
        raise FloatingPointError(f"the objective is {objective}: {advice}")
    magnitude = float(out[2] @ sample_weight) / n
    return HingeValue(objective, out[1] if memory.size else out[0], magnitude)


def hinge_objective(problem, w, sample_weight, lam, n_jobs) -> float:
    """The objective of :func:`hinge_value`, for solvers with a learning rate.

    Parameters
    ----------
    problem, w, sample_weight, lam, n_jobs : object
        As for :func:`hinge_value`.

    Returns
    -------
    float
        The objective.

    Raises
    ------
    FloatingPointError
        As :func:`hinge_value`.
    """
    advice = "are the features scaled, is the learning rate too large?"
    return hinge_value(problem, w, sample_weight, lam, n_jobs, advice=advice).objective


class Best:
    """The weights of smallest objective so far."""

    def __init__(self):
        self.objective, self.magnitude, self.weights = np.inf, 0.0, None

    def offer(self, objective: float, weights: Weights, magnitude: float = 0.0) -> None:
        """Keep a copy of `weights` if they are the best.

        Parameters
        ----------
        objective : float
            Their objective.
        weights : Weights
            The weights.
        magnitude : float
            Size of the terms that `objective` is a difference of.
        """
        if objective < self.objective:
            self.objective, self.magnitude = objective, magnitude
            self.weights = weights.copy()

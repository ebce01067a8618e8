"""What the primal solvers of structural SVMs share: the true objective and the best weights."""

from __future__ import annotations

import numpy as np

from ..weights import Weights, squared_norm
from .batch import make_scratch, over_samples
from .hinge import hinge_losses


def hinge_objective(problem, w, sample_weight, lam, n_jobs) -> float:
    """``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)``, by one oracle call a sample.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    w : LazyWeights
        The weights.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    n_jobs : int or None
        Threads.

    Returns
    -------
    float
        The objective.

    Raises
    ------
    FloatingPointError
        If a loss is not finite; names the sample.
    """
    out, nothing = np.zeros((2, sample_weight.size)), np.empty(0)

    def piece(part, start, stop):
        hinge_losses(part, w, nothing, start, stop, make_scratch(part), out)

    over_samples(piece, problem, n_jobs)
    bad = np.flatnonzero(~np.isfinite(out[0]))
    if bad.size:
        raise FloatingPointError(
            f"the loss of sample {bad[0]} is {out[0, bad[0]]}: are the features scaled, is the "
            "learning rate too large?"
        )
    return 0.5 * lam * squared_norm(w) + float(out[0] @ sample_weight) / sample_weight.size


class Best:
    """The weights of smallest objective so far."""

    def __init__(self):
        self.objective, self.weights = np.inf, None

    def offer(self, objective: float, weights: Weights) -> None:
        """Keep a copy of `weights` if they are the best.

        Parameters
        ----------
        objective : float
            Their objective.
        weights : Weights
            The weights.
        """
        if objective < self.objective:
            self.objective = objective
            self.weights = Weights(*(table.copy() for table in weights))

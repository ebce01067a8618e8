"""L-BFGS (SciPy) on the CRF objective: the deterministic reference solver."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from ..weights import Weights, zero_weights
from .batch import loss_gradient, make_scratch, over_samples
from .progress import Progress, Result, certified, relative_bound


def lbfgs(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    start=None,
    max_iter: int = 100,
    tol: float = 1e-3,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i NLL_i(w)`` by L-BFGS.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    start : Weights, optional
        Where to start.
    max_iter : int
        Largest number of iterations.
    tol : float
        Relative suboptimality to reach, certified by strong convexity.
    n_jobs : int or None
        Threads that share a batch gradient.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The weights and the history.
    """
    objective = _Objective(problem, shapes, sample_weight, lam, tol, n_jobs, after_epoch)
    found = minimize(
        objective,
        objective.flatten(zero_weights(shapes) if start is None else start),
        method="L-BFGS-B",
        jac=True,
        callback=objective.callback,
        options={
            "maxiter": max_iter,
            "gtol": 0.0,
            "ftol": 0.0,
            "maxls": 50,
            "maxfun": 15 * max_iter + 100,
        },
    )
    value, gradient = objective(found.x)
    if not np.isfinite(value):
        raise FloatingPointError(f"the objective is {value}: are the features scaled?")
    squared = float(gradient @ gradient)
    bound = relative_bound(squared, lam, value)
    if not objective.progress.history()["passes"].size:  # converged where it started
        objective.record(found.x, value)
    # A line search that can gain nothing more in floating point has converged too.
    converged = bound <= tol or (found.status != 1 and bound <= 1e-10)
    weights = Weights(*(np.array(table) for table in objective.tables(found.x)))
    history = objective.progress.history()
    return certified(weights, converged, objective.stopped, value, squared, lam, history)


class _Objective:
    """Value and gradient for SciPy, on flat weights, and its callback."""

    def __init__(self, problem, shapes, sample_weight, lam, tol, n_jobs, after_epoch):
        self.problem, self.shapes = problem, shapes
        self.sample_weight, self.lam, self.tol = sample_weight, lam, tol
        self.n_jobs = n_jobs
        self.n = sample_weight.size
        self.n_node = shapes[0][0] * shapes[0][1]
        self.n_calls = 0
        self.stopped = False
        self.progress = Progress(self.n, after_epoch)
        self._piece(problem, zero_weights(shapes), 0, 0)  # compiles outside the clock
        self.progress.start()

    @staticmethod
    def flatten(weights):
        return np.concatenate([table.ravel() for table in weights])

    def tables(self, flat):
        node, pair = flat[: self.n_node], flat[self.n_node :]
        return Weights(node.reshape(self.shapes[0]), pair.reshape(self.shapes[1]))

    def _piece(self, part, w, start, stop):
        gradient, scratch = zero_weights(self.shapes), make_scratch(part)
        loss = loss_gradient(part, w, self.sample_weight, start, stop, scratch, gradient)
        return loss, gradient

    def __call__(self, flat):
        w = self.tables(np.ascontiguousarray(flat))

        def run(part, start, stop):
            return self._piece(part, w, start, stop)

        self.n_calls += 1
        value, gradient = 0.5 * self.lam * (flat @ flat), self.lam * flat
        for loss, piece in over_samples(run, self.problem, self.n_jobs, cut=False):
            value += loss / self.n
            gradient += self.flatten(piece) / self.n
        self.bound = relative_bound(float(gradient @ gradient), self.lam, value)
        return value, gradient

    def record(self, x, value):
        flat = np.array(x)
        self.stopped = self.progress.record(
            self.n_calls * self.n, 0, value, lambda: self.tables(flat)
        )

    def callback(self, intermediate_result):
        self.record(intermediate_result.x, intermediate_result.fun)
        # SciPy calls back right after the evaluation of the point that it accepts.
        if self.stopped or self.bound <= self.tol:
            raise StopIteration

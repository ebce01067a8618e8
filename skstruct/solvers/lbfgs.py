"""L-BFGS (SciPy) on the CRF objective: the deterministic reference solver."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from ..weights import Weights, zero_weights
from .batch import loss_gradient, make_scratch, over_samples
from .progress import Progress, Result


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
        Bound on the largest entry of the gradient.
    n_jobs : int or None
        Threads that share a batch gradient.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The weights and the history.
    """
    n = sample_weight.size
    n_node = shapes[0][0] * shapes[0][1]
    progress = Progress(n, after_epoch)
    calls = 0
    stopped = False

    def tables(flat):
        return Weights(flat[:n_node].reshape(shapes[0]), flat[n_node:].reshape(shapes[1]))

    def run(part, first, last):
        gradient = zero_weights(shapes)
        w = tables(current)
        scratch = make_scratch(part)
        return loss_gradient(part, w, sample_weight, first, last, scratch, gradient), gradient

    def objective(flat):
        nonlocal calls, current
        current = np.ascontiguousarray(flat)
        calls += 1
        value, gradient = 0.5 * lam * (flat @ flat), lam * flat
        for loss, piece in progress.timed(over_samples, run, problem, n_jobs):
            value += loss / n
            gradient[:n_node] += piece.node.ravel() / n
            gradient[n_node:] += piece.pair.ravel() / n
        return value, gradient

    def callback(intermediate_result):
        nonlocal stopped
        flat = np.array(intermediate_result.x)
        stopped = progress.record(calls * n, 0, intermediate_result.fun, lambda: tables(flat))
        if stopped:
            raise StopIteration

    current = np.zeros(n_node + shapes[1][0] * shapes[1][1])
    if start is not None:
        current = np.concatenate([table.ravel() for table in start])
    run(problem, 0, 0)  # compiles outside the clock
    found = minimize(
        objective,
        current,
        method="L-BFGS-B",
        jac=True,
        callback=callback,
        options={
            "maxiter": max_iter,
            "gtol": tol,
            "ftol": 0.0,
            "maxls": 50,
            "maxfun": 15 * max_iter + 100,
        },
    )
    value, gradient = objective(found.x)
    if not np.isfinite(value):
        raise FloatingPointError(f"the objective is {value}: are the features scaled?")
    largest = float(np.abs(gradient).max(initial=0.0))
    if not progress.history()["passes"].size:  # converged where it started
        stopped = progress.record(calls * n, 0, value, lambda: tables(found.x))
    # A line search that can gain nothing more in floating point has converged too.
    exhausted = found.status != 1 and largest <= 1e-6
    weights = Weights(*(np.array(table) for table in tables(found.x)))
    return Result(weights, largest <= tol or exhausted, stopped, value, largest, progress.history())

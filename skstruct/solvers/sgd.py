"""Stochastic subgradient descent for structural SVMs: Pegasos and SGD with decaying rates."""

from __future__ import annotations

import numpy as np

from ..core.weights import lazy_weights, plain_weights, zero_weights
from ..losses.smooth_hinge import smoothing_of
from ..predict import make_scratch
from .casimir.kernels import sgd_pass
from .primal import Best, compile_hinge, hinge_objective
from .progress import Progress, Result

_PATIENCE = 5


def sgd(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    start=None,
    rate: float = 0.0,
    period: float = 0.0,
    averaging: bool = True,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` by stochastic subgradients.

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
    rate, period : float
        Rate ``rate / (1 + floor(t / (period n)))``; with period 0 Pegasos' ``1 / (lam (t + 1))``.
    averaging : bool
        Whether the weighted average of the iterates is returned.
    max_iter : int
        Largest number of passes.
    tol : float
        Stop when five passes have not improved the best objective by this fraction.
    rng : numpy.random.Generator
        Draws the samples.
    n_jobs : int or None
        Threads for objectives.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The best weights seen and the history.

    References
    ----------
    Shalev-Shwartz et al. 2011, Pegasos; Lacoste-Julien et al. 2013, section 5 (weighted averages).
    """
    n = sample_weight.size
    how = smoothing_of("none", 0.0, 1, problem)
    w = lazy_weights(zero_weights(shapes) if start is None else start)
    average = np.zeros(3)
    scratch = make_scratch(problem)
    buffers = np.empty((4, scratch.theta.size))
    schedule = (float(rate), float(period * n), 0.0)

    def visit(order):
        sgd_pass(
            how, problem, w, sample_weight, lam, schedule, average, order, buffers, scratch.labels
        )

    progress = Progress(n, after_epoch)
    visit(np.empty(0, dtype=np.int64))
    compile_hinge(problem, w)
    plain_weights(w, shapes)
    progress.start()
    best, trail = Best(), []
    for _ in range(max_iter):
        order = rng.integers(n, size=n)
        for first, last in progress.pieces.ranges(0, n):
            visit(order[first:last])
        scale = w.scale.copy()
        if averaging:
            w.scale[:] = average[1] / average[2], -1.0 / average[2]
        objective = hinge_objective(problem, w, sample_weight, lam, n_jobs)
        value = plain_weights(w, shapes)
        w.scale[:] = scale
        best.offer(objective, value)
        trail.append(best.objective)
        improvement = _improvement(trail)
        converged = improvement <= tol
        calls = how.counts[0]
        stopped = progress.record(calls, 0.0, objective, lambda value=value: value)
        if stopped or converged:
            break
    published = {"objective_": best.objective, "n_oracle_calls_": int(how.counts[0])}
    measure = f"relative improvement over {_PATIENCE} passes"
    history = progress.history()
    return Result(best.weights, converged, stopped, published, measure, improvement, history)


def _improvement(trail):
    """Of the best objective over the last passes, relative; inf before there are as many."""
    if len(trail) <= _PATIENCE:
        return np.inf
    return trail[-1 - _PATIENCE] / trail[-1] - 1.0 if trail[-1] > 0 else 0.0

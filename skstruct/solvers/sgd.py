"""Stochastic subgradient descent on any loss: Pegasos and SGD with decaying rates."""

from __future__ import annotations

import numpy as np

from ..core.dispatch import kernel
from ..core.oracles import accumulate, potentials
from ..core.weights import decay_and_step, lazy_weights, plain_weights, zero_weights
from ..losses.verbs import loss_oracle
from ..predict import make_scratch
from .primal import Best, compile_losses, objective_value
from .progress import Progress, Result

_PATIENCE = 5
_ADVICE = "are the features scaled, is the learning rate too large?"


@kernel
def sgd_pass(loss, problem, w, sample_weight, lam, schedule, average, order, buffers, labels):
    """Stochastic subgradient steps, with the weighted average of the iterates beside them.

    With weights c_t = t the sum of the iterates is ``average[1] v - d``, since each change of ``v``
    misses the earlier ones.

    Parameters
    ----------
    loss : NamedTuple
        A loss, see :mod:`skstruct.losses.verbs`.
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
    buffers : ndarray of shape (3, max_parts)
        Scratch.
    labels : ndarray of int32
        Scratch.
    """
    theta, r, augmented = buffers[0], buffers[1], buffers[2]
    for step in range(order.shape[0]):
        i = order[step]
        average[0] += 1.0
        t = average[0]
        rate = 1.0 / (lam * (t + 1.0))
        if schedule[1] > 0.0:
            rate = schedule[0] / (1.0 + np.floor(t / schedule[1]))
        potentials(problem, i, w, theta)
        loss_oracle(loss, problem, i, theta, labels, r, augmented)
        rho = max(1.0 - rate * lam, 1e-3)
        scale = rho * w.scale[0]
        decay_and_step(w, rho, 0.0)
        if w.scale[0] != scale:  # folded
            average[1] /= scale
        change = -rate * sample_weight[i]
        accumulate(problem, i, r, (change, average[1] * change / w.scale[0]), w)
        average[1] += t * w.scale[0]
        average[2] += t


def sgd(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    loss,
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
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by stochastic subgradients.

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
    loss : NamedTuple
        A loss, see :mod:`skstruct.losses.verbs`.
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
    w = lazy_weights(zero_weights(shapes) if start is None else start)
    average = np.zeros(3)
    scratch = make_scratch(problem)
    buffers = np.empty((3, scratch.theta.size))
    schedule = (float(rate), float(period * n), 0.0)

    def visit(order):
        arguments = loss, problem, w, sample_weight, lam, schedule, average, order
        sgd_pass(*arguments, buffers, scratch.labels)

    progress = Progress(n, after_epoch)
    visit(np.empty(0, dtype=np.int64))
    compile_losses(loss, problem, w)
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
        present = loss, problem, w, sample_weight, lam, n_jobs
        objective = objective_value(*present, advice=_ADVICE).objective
        value = plain_weights(w, shapes)
        w.scale[:] = scale
        best.offer(objective, value)
        trail.append(best.objective)
        improvement = _improvement(trail)
        converged = improvement <= tol
        # Every visit is a call and a step.
        stopped = progress.record(average[0], 0.0, objective, lambda value=value: value)
        if stopped or converged:
            break
    published = {"objective_": best.objective, "n_oracle_calls_": int(average[0])}
    measure = f"relative improvement over {_PATIENCE} passes"
    history = progress.history()
    return Result(best.weights, converged, stopped, published, measure, improvement, history)


def _improvement(trail):
    """Of the best objective over the last passes, relative; inf before there are as many."""
    if len(trail) <= _PATIENCE:
        return np.inf
    return trail[-1 - _PATIENCE] / trail[-1] - 1.0 if trail[-1] > 0 else 0.0

"""SAG with non-uniform sampling and SAGA for CRFs: epochs, step schedule, stopping."""

from __future__ import annotations

import numpy as np

from ..weights import (
    largest_gradient,
    lazy_weights,
    plain_weights,
    squared_norm,
    zero_weights,
)
from .batch import log_likelihoods, make_scratch, over_samples
from .progress import Progress, Result
from .sag_kernels import (
    MAX_L,
    N_FORWARD,
    N_ORACLE,
    N_STORED,
    SAGOptions,
    SAGState,
    fill_memory,
    sag_epoch,
)
from .sampling import sum_tree


def _objective(problem, w, sample_weight, lam, n_jobs):
    """``lam/2 |w|^2 + (1/n) sum_i s_i NLL_i(w)``; on the lazy weights, whose kernels exist."""
    values = np.empty(sample_weight.size)

    def run(part, start, stop):
        log_likelihoods(part, w, start, stop, make_scratch(part), values)

    over_samples(run, problem, n_jobs)
    return 0.5 * lam * squared_norm(w) - float(values @ sample_weight) / sample_weight.size


def _new_state(problem, uniform):
    n = problem.part_ptr.size - 1
    totals = np.zeros(6)
    if uniform:
        totals[MAX_L] = 1.0
    return SAGState(
        residuals=np.zeros(problem.part_ptr[-1]),
        lipschitz=np.zeros(n),
        streak=np.zeros(n, dtype=np.int64),
        skip=np.zeros(n, dtype=np.int64),
        tree=sum_tree(n),
        totals=totals,
    )


class _StepSchedule:
    """Factor on the paper's step size, for non-uniform SAG.

    Half a step while the memory still holds gradients of the starting point, 1.5 steps once the
    L_i have settled: on CoNLL-2000 that takes a third off the passes to 1e-3. A loss that rises
    halves it for good.
    """

    def __init__(self):
        self._largest = 1.5
        self._epoch = 0
        self._loss = np.inf

    def factor(self):
        return min(0.5 + 0.25 * self._epoch, self._largest)

    def epoch_done(self, loss):
        self._epoch += 1
        if loss > 1.2 * self._loss:
            self._largest = max(0.5 * self._largest, 0.2)
        self._loss = loss


def sag(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    start=None,
    saga: bool = False,
    uniform: bool = False,
    skipping: bool = True,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    track_objective: bool = False,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i NLL_i(w)`` by SAG or SAGA.

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
        Where to start; the memory is then filled by a pass of its own.
    saga : bool
        SAGA's step instead of SAG's.
    uniform : bool
        Uniform sampling and one Lipschitz constant.
    skipping : bool
        Skip the line search after successes.
    max_iter : int
        Largest number of epochs of n steps.
    tol : float
        Bound on the largest entry of the gradient that the memory holds.
    rng : numpy.random.Generator
        Draws the samples.
    track_objective : bool
        Evaluate the objective after every epoch.
    n_jobs : int or None
        Threads for that evaluation.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The weights and the history.

    Raises
    ------
    FloatingPointError
        If the loss is no longer finite.

    References
    ----------
    Schmidt et al. 2015, Non-Uniform Stochastic Average Gradient Method for Training CRFs,
    Algorithms 1 to 3.
    """
    n = sample_weight.size
    w = lazy_weights(zero_weights(shapes) if start is None else start)
    state = _new_state(problem, uniform)
    scratch = make_scratch(problem)
    buffers, labels = np.empty((4, scratch.theta.size)), scratch.labels
    schedule = _StepSchedule()
    progress = Progress(n, after_epoch)
    no_order = np.empty(0, dtype=np.int64)

    def epoch(order, uniforms):
        scale = 1.0 if saga or uniform else schedule.factor()
        options = SAGOptions(lam, scale, int(skipping and not uniform), int(uniform), int(saga))
        return sag_epoch(
            problem, w, sample_weight, options, state, order, uniforms, buffers, labels
        )

    epoch(no_order, np.empty((0, 2)))  # compiles outside the clock
    converged = stopped = False
    if start is not None:
        progress.timed(fill_memory, problem, w, sample_weight, state, buffers, labels)
        converged = largest_gradient(w, 1.0 / n, lam, tol) <= tol
    for iteration in range(max_iter):
        if not converged:
            order = rng.permutation(n) if iteration == 0 else no_order
            loss = progress.timed(epoch, order, rng.random((n, 2)))
            if not np.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} in epoch {iteration + 1}: are the features scaled?"
                )
            schedule.epoch_done(loss)
        objective = np.nan
        if track_objective:
            objective = _objective(problem, w, sample_weight, lam, n_jobs)
        totals = state.totals
        stopped = progress.record(
            totals[N_ORACLE], totals[N_FORWARD], objective, lambda: plain_weights(w, shapes)
        )
        if not converged and totals[N_STORED] == n:
            converged = largest_gradient(w, 1.0 / n, lam, tol) <= tol
        if converged or stopped:
            break
    if not track_objective:
        objective = _objective(problem, w, sample_weight, lam, n_jobs)
    gradient = largest_gradient(w, 1.0 / n, lam, np.inf)
    weights = plain_weights(w, shapes)
    return Result(weights, converged, stopped, objective, gradient, progress.history())

"""SAG with non-uniform sampling and SAGA for CRFs: epochs, step schedule, stopping."""

from __future__ import annotations

import numpy as np

from ..weights import lazy_weights, plain_weights, squared_gradient, squared_norm, zero_weights
from .batch import log_likelihoods, make_scratch, over_samples
from .progress import Pieces, Progress, Result, certified, relative_bound
from .sag_kernels import (
    FILL,
    LOSS,
    MAX_L,
    MOVE,
    N_FORWARD,
    N_ORACLE,
    N_STORED,
    SAGOptions,
    SAGState,
    sag_epoch,
)
from .sampling import sum_tree

_NO_ORDER = np.empty(0, dtype=np.int64)


def _new_state(problem, uniform):
    n = problem.part_ptr.size - 1
    totals = np.zeros(7)
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
    L_i have settled, and from epoch 16 to 40 back to the paper's step, with which SAG converges to
    full precision. On CoNLL-2000 that takes a third off the passes to 1e-3. A stored gradient that
    grows shrinks it for good: the L_i are then too small for directions that all samples share.
    (The loss at the visits is no such sign: it depends on which samples are drawn.)
    """

    def __init__(self, constant):
        self._constant = constant
        self._largest = 1.5
        self._epoch = 0
        self._smallest = np.inf

    def factor(self):
        if self._constant:
            return 1.0
        rising, falling = 0.5 + self._epoch / 4, 1.5 - (self._epoch - 16) / 48
        return min(rising, max(falling, 1.0), self._largest)

    def epoch_done(self, squared_gradient):
        growth = squared_gradient / self._smallest
        if growth > (4.0 if self._epoch >= 10 else 100.0):
            self._largest = max(0.7 * self.factor(), 0.1)
            self._smallest = squared_gradient
        self._smallest = min(squared_gradient, self._smallest)
        self._epoch += 1


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
        Relative suboptimality to reach, as strong convexity bounds it by the stored gradient.
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
    run = _Run(problem, shapes, sample_weight, lam, start, saga, uniform, skipping, n_jobs)
    progress = Progress(sample_weight.size, after_epoch)
    run.compile(track_objective)
    progress.start()
    bound, stopped = np.inf, False
    if start is not None:
        objective, squared = run.fill_memory()
        bound = relative_bound(squared, lam, objective)
    for iteration in range(max_iter):
        if bound > tol:
            order = rng.permutation(run.n) if iteration == 0 else _NO_ORDER
            loss = run.epoch(order, rng.random((run.n, 2)), progress.pieces)
            if not np.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} in epoch {iteration + 1}: are the features scaled?"
                )
            bound = run.stored_bound(loss)
        objective = np.nan
        if track_objective:
            with progress.paused():
                objective = run.objective()
        totals = run.state.totals
        stopped = progress.record(totals[N_ORACLE], totals[N_FORWARD], objective, run.weights)
        if bound <= tol or stopped:
            break
    history = progress.history()
    history["objective"][-1], squared = run.fill_memory()
    return certified(
        run.weights(), bound <= tol, stopped, history["objective"][-1], squared, lam, history
    )


class _Run:
    """Weights, memory and buffers of one run, and what is asked of them."""

    def __init__(self, problem, shapes, sample_weight, lam, start, saga, uniform, skipping, n_jobs):
        self.problem, self.shapes = problem, shapes
        self.sample_weight, self.lam, self.n_jobs = sample_weight, lam, n_jobs
        self.n = sample_weight.size
        self.w = lazy_weights(zero_weights(shapes) if start is None else start)
        self.state = _new_state(problem, uniform)
        self.schedule = _StepSchedule(constant=saga or uniform)
        self._flags = int(skipping and not uniform), int(uniform), int(saga)
        self._last = np.inf  # squared stored gradient after the previous epoch
        scratch = make_scratch(problem)
        self._scratch = np.empty((4, scratch.theta.size)), scratch.labels

    def compile(self, track_objective):
        """Compile outside the clock."""
        self.epoch(_NO_ORDER, np.empty((0, 2)), Pieces())
        squared_norm(self.w)
        squared_gradient(self.w, 1.0 / self.n, self.lam)
        if track_objective:
            scratch, values = make_scratch(self.problem), np.empty(self.n)
            log_likelihoods(self.problem, self.w, 0, 0, scratch, values)

    def epoch(self, order, uniforms, pieces):
        """One pass; returns the mean loss at the visits."""
        return self._pass(MOVE, order, uniforms, pieces)

    def _pass(self, task, order, uniforms, pieces):
        options = SAGOptions(self.lam, self.schedule.factor(), *self._flags, task)
        problem, w, weight, state = self.problem, self.w, self.sample_weight, self.state
        state.totals[LOSS], n_visits = 0.0, 0
        # An empty range compiles.
        for first, last in pieces.ranges(0, len(uniforms)) if len(uniforms) else [(0, 0)]:
            chosen, draws = order[first:last], uniforms[first:last]
            sag_epoch(problem, w, weight, options, state, chosen, draws, *self._scratch)
            n_visits = last
        return state.totals[LOSS] / max(n_visits, 1)

    def fill_memory(self):
        """Objective and squared gradient; the memory is filled at the present weights.

        Never between epochs: the stored gradient averages over past iterates, which oscillate
        around the optimum, and is much smaller than that of the present one. Filled with the
        latter, the memory throws the iterates far off.
        """
        self.state.totals[N_STORED] = self.n
        loss = self._pass(FILL, np.arange(self.n), np.zeros((self.n, 2)), Pieces())
        objective = loss + 0.5 * self.lam * squared_norm(self.w)
        return objective, squared_gradient(self.w, 1.0 / self.n, self.lam)

    def stored_bound(self, loss):
        """Relative suboptimality after an epoch of this mean loss, by the stored gradient."""
        if self.state.totals[N_STORED] < self.n:
            return np.inf
        squared = squared_gradient(self.w, 1.0 / self.n, self.lam)
        self.schedule.epoch_done(squared)
        # The larger of two epochs: the stored gradient may pass through 0 while w swings by.
        self._last, squared = squared, max(squared, self._last)
        return relative_bound(squared, self.lam, loss + 0.5 * self.lam * squared_norm(self.w))

    def objective(self):
        """The exact objective, on the lazy weights, whose kernels exist already."""
        values = np.empty(self.n)

        def run(part, start, stop):
            log_likelihoods(part, self.w, start, stop, make_scratch(part), values)

        over_samples(run, self.problem, self.n_jobs)
        mean = float(values @ self.sample_weight) / self.n
        return 0.5 * self.lam * squared_norm(self.w) - mean

    def weights(self):
        """The value of the weights."""
        return plain_weights(self.w, self.shapes)

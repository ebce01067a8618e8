"""Casimir: Catalyst acceleration of SVRG on a smoothed hinge (Pillutla et al. 2018)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..weights import Weights, fold, lazy_weights, plain_weights, zero_weights
from .batch import make_scratch
from .primal import Best, hinge_objective
from .progress import Progress, Result
from .smoothing import CALLS, EXACT, smoothing_of
from .svrg_kernels import LOSS, SNAPSHOT, STEP, TASK_LOSS, Snapshot, SVRGOptions, svrg_pass


class CasimirOptions(NamedTuple):
    """Choices of one run.

    Parameters
    ----------
    variant : {"adaptive", "constant", "svrg"}
        How the smoothing changes; "svrg" is not accelerated.
    smoothing : {"l2", "entropy"}
        Which smoothing.
    strength : float
        nu of the first iteration.
    n_best : int
        K of the top-K oracle.
    kappa : float or None
        Proximal term; None for Proposition 29 with measured smoothness.
    warm_start : {"prox-center", "extrapolation", "previous"}
        Where the inner solver starts.
    rate : float or None
        Learning rate; None for the inverse of the measured smoothness.
    """

    variant: str
    smoothing: str
    strength: float
    n_best: int
    kappa: float | None
    warm_start: str
    rate: float | None


class _Catalyst:
    """Smoothing, proximal terms, centers and extrapolation by iteration (Corollaries 17 to 20)."""

    def __init__(self, options, lam, start):
        self.options, self.lam = options, lam
        self.kappa0 = 0.0 if options.variant == "svrg" else options.kappa
        self.alpha = None
        self.center = self.older_center = self.previous = start

    def settle(self, lipschitz, n):
        """Choose kappa, and the first alpha, when the smoothness has been measured."""
        if self.options.variant != "svrg" and self.options.kappa is None:
            # A / (nu n) of Proposition 29, with A = nu times twice the mean smoothness constant:
            # the largest belongs to one long sample.
            proposed = lipschitz / n
            self.kappa0 = proposed - self.lam if proposed > 4.0 * self.lam else self.lam
            if self.options.variant == "adaptive":
                # With a smaller one the smoothing shrinks faster than the inner solver follows.
                self.kappa0 = max(self.kappa0, 9.0 * self.lam)
        self.alpha = math.sqrt(self.q) if self.lam > 0 else 0.5 * (math.sqrt(5.0) - 1.0)

    @property
    def q(self):
        return self.lam / (self.lam + self.kappa0) if self.lam + self.kappa0 > 0 else 1.0

    def kappa(self, k):
        grows = self.lam == 0 and self.options.variant == "adaptive"
        return self.kappa0 * k if grows else self.kappa0

    def strength(self, k, least):
        """nu_k, not below `least`."""
        nu = self.options.strength
        if k == 1 or self.options.variant != "adaptive":
            return nu
        if self.lam == 0:
            return min(nu, max(nu / k, least))
        return min(nu, max(nu * (1.0 - 0.5 * math.sqrt(self.q)) ** (0.5 * k), least))

    def first(self, k):
        """Where the inner solver starts."""
        if self.options.warm_start == "previous" or self.options.variant == "svrg":
            return self.previous
        if self.options.warm_start == "extrapolation" and k > 1:
            ratio = self.kappa(k) / (self.kappa(k) + self.lam)
            return _mix(self.previous, 1.0, self.center, ratio, self.older_center, -ratio)
        return self.center

    def advance(self, k, current):
        """Extrapolate the next center from the inner solver's result."""
        if self.options.variant == "svrg":
            self.center = self.previous = current
            return
        beta = self._extrapolation(k)
        self.older_center = self.center
        self.center = _mix(current, 1.0 + beta, self.previous, -beta)
        self.previous = current

    def _extrapolation(self, k):
        """beta_k; steps alpha."""
        lam, before = self.lam, self.alpha**2 * (self.kappa(k) + self.lam)
        after = self.kappa(k + 1) + lam
        if after == 0.0:
            return 0.0
        # after a^2 + (before - lam) a - before = 0
        slope = before - lam
        alpha = (-slope + math.sqrt(slope * slope + 4.0 * after * before)) / (2.0 * after)
        beta = self.alpha * (1.0 - self.alpha) * (self.kappa(k) + lam) / (before + alpha * after)
        self.alpha = alpha
        return beta


def casimir(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    options: CasimirOptions,
    *,
    start=None,
    max_iter: int = 100,
    tol: float = 1e-2,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` through smooth approximations.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser; may be 0.
    options : CasimirOptions
        The choices.
    start : Weights, optional
        Where to start.
    max_iter : int
        Largest number of outer iterations, of two passes each: snapshot and steps.
    tol : float
        Relative duality gap to reach.
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
    Pillutla, Roulet, Kakade, Harchaoui 2018, A Smoother Way to Train Structured Prediction Models,
    Algorithms 2 and 4.
    """
    run = _Run(problem, shapes, sample_weight, lam, options, start)
    run.compile()
    catalyst, n = _Catalyst(options, lam, run.value()), sample_weight.size
    fields = ("dual_gap", "dual_objective", "smoothed_objective", "exact_share")
    progress = Progress(n, after_epoch, *fields)
    progress.start()
    best, gap, stopped = Best(), np.inf, False
    for k in range(1, max_iter + 1):
        # Less smoothing than the tolerance can see would only shorten the steps.
        least = 0.2 * max(tol, 1e-6) * best.objective / run.bias if k > 1 else 0.0
        run.how.strength[0] = catalyst.strength(k, least)
        smoothed = run.snapshot(catalyst.first(k))
        dual = run.dual()
        if k == 1:
            catalyst.settle(run.steepness(), n)
        order = rng.integers(n, size=n)
        run.steps(catalyst.kappa(k), catalyst.center, order, k == 1)
        if k == 1:
            # At the start all labellings tie, and those found are close to each other.
            catalyst.settle(run.steepness(), n)
        current = run.value()
        objective = hinge_objective(problem, run.w, sample_weight, lam, n_jobs)
        best.offer(objective, current)
        catalyst.advance(k, current)
        gap = best.objective - dual
        calls, exact = run.how.counts[CALLS], run.how.counts[EXACT] / run.how.counts[CALLS]
        stopped = progress.record(
            calls,
            0.0,
            objective,
            lambda current=current: current,
            dual_gap=gap,
            dual_objective=dual,
            smoothed_objective=smoothed,
            exact_share=exact,
        )
        if stopped or gap <= tol * best.objective:
            break
    published = {
        "objective_": best.objective,
        "dual_objective_": dual,
        "dual_gap_": gap,
        "kappa_": catalyst.kappa0,
        "n_oracle_calls_": int(calls),
        "exact_share_": exact,
    }
    gap = gap / best.objective if best.objective > 0 else 0.0
    measure, history = "relative duality gap", progress.history()
    return Result(best.weights, gap <= tol, stopped, published, measure, gap, history)


def _mix(*terms):
    """Linear combination of weights: alternating weights and factors."""
    pairs = list(zip(terms[::2], terms[1::2], strict=True))
    return Weights(*(sum(c * w[table] for w, c in pairs) for table in (0, 1)))


class _Run:
    """Weights, snapshot and buffers of one run."""

    def __init__(self, problem, shapes, sample_weight, lam, options, start):
        self.problem, self.shapes, self.lam = problem, shapes, lam
        self.sample_weight, self.rate = sample_weight, options.rate
        self.how = smoothing_of(options.smoothing, options.strength, options.n_best, problem)
        self.w = lazy_weights(zero_weights(shapes) if start is None else start)
        n = sample_weight.size
        self.memory = Snapshot(np.zeros(problem.part_ptr[-1]), np.ones(n), np.zeros(2))
        # The smoothed hinge is at most this times nu above the hinge, on average.
        n_nodes = problem.labels.size / n
        self.bias = 0.5 if options.smoothing == "l2" else n_nodes * np.log(shapes[0][1])
        self._gradient, self._task_loss = zero_weights(shapes), 0.0
        scratch = make_scratch(problem)
        self._scratch = np.empty((4, scratch.theta.size)), scratch.labels

    def compile(self):
        """Compile outside the clock."""
        self._pass(SVRGOptions(STEP, 0, 0.0, 0.0), np.empty(0, dtype=np.int64))

    def _pass(self, options, order):
        problem, weight, memory = self.problem, self.sample_weight, self.memory
        svrg_pass(self.how, problem, self.w, weight, memory, options, order, *self._scratch)

    def value(self):
        """The value of the weights."""
        return plain_weights(self.w, self.shapes)

    def _halves(self):
        """The tables of v and of d, without their padding."""
        for table, shape in zip(self.w[:2], self.shapes, strict=True):
            half = table.shape[1] // 2
            yield table[:, : shape[1]], table[:, half : half + shape[1]]

    def snapshot(self, first):
        """Take the snapshot at `first`; returns the smoothed objective there."""
        self.w.scale[:] = 1.0, 0.0
        for (v, d), table in zip(self._halves(), first, strict=True):
            v[:] = table
            d[:] = 0.0
        self.memory.lipschitz[:] *= 0.9
        self._pass(SVRGOptions(SNAPSHOT, 1, 0.0, 0.0), np.arange(self.sample_weight.size))
        norm = sum(float(np.vdot(table, table)) for table in first)
        return 0.5 * self.lam * norm + self.memory.totals[LOSS]

    def dual(self):
        """A lower bound on the optimum: dual objective of a mixture of the snapshots' residuals.

        Any mixture of labellings is a dual point, whatever the smoothing. Each snapshot is mixed
        into the point by a batch Frank-Wolfe step; only its mean gradient and its expected task
        loss are needed.
        """
        if self.lam == 0:
            return -np.inf
        change = [d - g for (_, d), g in zip(self._halves(), self._gradient, strict=True)]
        gain = float(self.memory.totals[TASK_LOSS]) - self._task_loss
        slope = gain - sum(map(np.vdot, self._gradient, change)) / self.lam
        curvature = sum(np.vdot(c, c) for c in change) / self.lam
        step = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else 0.0
        self._task_loss += step * gain
        for g, c in zip(self._gradient, change, strict=True):
            g += step * c
        squared = sum(np.vdot(g, g) for g in self._gradient)
        return float(self._task_loss - squared / (2.0 * self.lam))

    def steepness(self):
        """Twice the mean smoothness: the largest is safe, but three times slower on OCR letters."""
        return 2.0 * float((self.memory.lipschitz * self.sample_weight).mean())

    def steps(self, kappa, center, order, measure=False):
        """SVRG steps around `center`."""
        for (_, d), table in zip(self._halves(), center, strict=True):
            d -= kappa * table
        rate = self.rate
        if rate is None:
            rate = 1.0 / (self.steepness() + self.lam + kappa)
        self._pass(SVRGOptions(STEP, int(measure), rate, self.lam + kappa), order)
        fold(self.w)

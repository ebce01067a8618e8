"""Casimir: Catalyst acceleration of SVRG on a smoothed hinge (Pillutla et al. 2018)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.weights import (
    Weights,
    fold,
    halves,
    lazy_weights,
    plain_weights,
    squared_norm,
    zero_weights,
)
from ...losses.smooth_hinge import CALLS, EXACT, TopKHinge, smoothing_of
from ...predict import make_scratch
from ..certificate import certify_pair
from ..primal import Best, compile_hinge, hinge_value
from ..progress import Pieces, Progress, Result
from .kernels import LOSS, SNAPSHOT, STEP, TASK_LOSS, Snapshot, SVRGOptions, svrg_pass


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


_ADVICE = "are the features scaled, is the learning rate too large?"
# Least n kappa by the measured steepness. Proposition 29 has 1, but that is an upper estimate: of
# those tried on text (0.05, 0.1, 0.2, 0.3) the second is nearest to the optimum at iteration 100.
_GROWTH = 0.1
# Share of the measured steepness that steps are made for where the top-K smoothing is exact.
_LEAST_CAUTION = 1.0 / 3.0


class _Catalyst:
    """Smoothing, proximal terms, centers and extrapolation by iteration (Algorithm 4).

    The settings are those of Corollaries 17 to 20, but for strong convexity with smoothing that
    shrinks. There Corollary 18 keeps kappa, and asks of the inner solver what one pass cannot do
    once the smoothness constant ``A / nu`` has outgrown ``n kappa``: the run stalls far from the
    optimum, the sooner the smaller n is. Here kappa grows in step with ``A / nu``. Algorithm 4
    allows for it, and its recursion for alpha then gives ``sqrt(q)`` of each new kappa.
    """

    def __init__(self, options, lam, n, start):
        self.options, self.lam, self.n = options, lam, n
        self.adaptive = options.variant == "adaptive"
        self.nu = options.strength
        given = options.variant != "svrg" and options.kappa is not None
        self.kappa = options.kappa if given else 0.0
        self.alpha = None
        self.center = self.older_center = self.previous = start

    def settle(self, steepness):
        """Choose kappa, and the first alpha, when the smoothness has been measured."""
        lam = self.lam
        if self.options.variant != "svrg" and self.options.kappa is None:
            # A / (nu n) of Proposition 29, with A = nu times twice the mean smoothness constant:
            # the largest belongs to one long sample.
            proposed = steepness / self.n
            self.kappa = proposed - lam if proposed > 4.0 * lam else lam
            if self.adaptive:
                # With a smaller one the smoothing shrinks faster than the inner solver follows.
                self.kappa = max(self.kappa, 9.0 * lam)
        self.first_kappa = self.kappa
        self.alpha = math.sqrt(self._q()) if lam > 0 else 0.5 * (math.sqrt(5.0) - 1.0)

    def _q(self):
        return self.lam / (self.lam + self.kappa) if self.lam + self.kappa > 0 else 1.0

    def first(self, k):
        """Where the inner solver starts."""
        if self.options.warm_start == "previous" or self.options.variant == "svrg":
            return self.previous
        if self.options.warm_start == "extrapolation" and k > 1:
            ratio = self.kappa / (self.kappa + self.lam)
            return _mix(self.previous, 1.0, self.center, ratio, self.older_center, -ratio)
        return self.center

    def advance(self, k, current, steepness, least):
        """Extrapolate the next center from the inner solver's result; step nu and kappa.

        `steepness` was measured under the present nu; the next is not below `least`.
        """
        if self.options.variant == "svrg":
            self.center = self.previous = current
            return
        kappa = self.kappa
        if self.adaptive:
            self._shrink(k, steepness, least)
        beta = self._extrapolation(kappa)
        self.older_center = self.center
        self.center = _mix(current, 1.0 + beta, self.previous, -beta)
        self.previous = current

    def _shrink(self, k, steepness, least):
        """Choose nu and kappa of iteration k + 1."""
        before, first = self.nu, self.options.strength
        if self.lam == 0:
            self.nu = min(first, max(first / (k + 1), least))
            self.kappa = self.first_kappa * (k + 1)
            return
        nu = before * math.sqrt(1.0 - 0.5 * math.sqrt(self._q()))
        self.nu = min(before, max(nu, least))
        if self.options.kappa is None:
            self.kappa = max(self.kappa, _GROWTH * steepness * before / (self.nu * self.n))

    def _extrapolation(self, kappa):
        """beta_k for the `kappa` of iteration k and the next one, which is set; steps alpha."""
        lam, before = self.lam, self.alpha**2 * (kappa + self.lam)
        after = self.kappa + lam
        if after == 0.0:
            return 0.0
        # after a^2 + (before - lam) a - before = 0
        slope = before - lam
        alpha = (-slope + math.sqrt(slope * slope + 4.0 * after * before)) / (2.0 * after)
        beta = self.alpha * (1.0 - self.alpha) * (kappa + lam) / (before + alpha * after)
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
    n = sample_weight.size
    fields = ("dual_gap", "dual_objective", "smoothed_objective", "exact_share")
    progress = Progress(n, after_epoch, *fields)
    run.compile()
    progress.start()
    catalyst, best = _Catalyst(options, lam, n, run.value()), Best()
    for k in range(1, max_iter + 1):
        run.how.strength[0] = catalyst.nu
        smoothed = run.iteration(k, catalyst, rng, progress.pieces)
        current = run.value()
        value = hinge_value(problem, run.w, sample_weight, lam, n_jobs, advice=_ADVICE)
        best.offer(value.objective, current, value.magnitude)
        certificate = certify_pair(best.objective, run.dual, best.magnitude + run.magnitude)
        calls, exact = run.how.counts[CALLS], run.how.counts[EXACT] / run.how.counts[CALLS]
        fields = {"smoothed_objective": smoothed, "exact_share": exact}
        fields |= certificate.record | {"objective": value.objective}
        stopped = progress.record(calls, 0.0, weights=lambda current=current: current, **fields)
        if stopped or certificate.relative <= tol or k == max_iter:
            break
        # Less smoothing than the tolerance can see would only shorten the steps.
        least = 0.2 * max(tol, 1e-6) * best.objective / run.bias
        catalyst.advance(k, current, run.steepness(), least)
    more = {"kappa_": catalyst.kappa, "smoothing_strength_": catalyst.nu}
    more |= {"n_oracle_calls_": int(calls), "exact_share_": exact}
    return certificate.result(best.weights, tol, stopped, progress, **more)


def _mix(*terms):
    """Linear combination of weights: alternating weights and factors."""
    pairs = list(zip(terms[::2], terms[1::2], strict=True))
    out = Weights(*(pairs[0][1] * table for table in pairs[0][0].tables))
    for w, factor in pairs[1:]:
        for total, table in zip(out.tables, w.tables, strict=True):
            total += factor * table
    return out


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
        #: Lower bound on the optimum, and the size of the terms that it is a difference of.
        self.dual, self.magnitude = -np.inf, 0.0
        self._gradient, self._task_loss = zero_weights(shapes), 0.0
        self._change, self._caution = zero_weights(shapes), 1.0
        scratch = make_scratch(problem)
        self._scratch = np.empty((4, scratch.theta.size)), scratch.labels

    def compile(self):
        """Compile outside the clock."""
        self._pass(SVRGOptions(STEP, 0, 0.0, 0.0), np.empty(0, dtype=np.int64), Pieces())
        compile_hinge(self.problem, self.w)
        fold(self.w)
        self.value()

    def _pass(self, options, order, pieces):
        problem, weight, memory = self.problem, self.sample_weight, self.memory
        for first, last in pieces.visits(order.size):
            visits = order[first:last]
            svrg_pass(self.how, problem, self.w, weight, memory, options, visits, *self._scratch)

    def value(self):
        """The value of the weights."""
        return plain_weights(self.w, self.shapes)

    def _halves(self):
        return halves(self.w, self.shapes)

    def iteration(self, k, catalyst, rng, pieces):
        """Snapshot and steps; returns the smoothed objective, NaN if the snapshot is cut short."""
        smoothed = self.snapshot(catalyst.first(k), pieces)
        if pieces.stopped:
            return np.nan
        self.raise_dual()
        if k == 1:
            catalyst.settle(self.steepness())
        order = rng.permutation(self.sample_weight.size)
        self.steps(catalyst.kappa, catalyst.center, order, pieces, k == 1)
        if k == 1:
            # At the start all labellings tie, and those found are close to each other.
            catalyst.settle(self.steepness())
        return smoothed

    def snapshot(self, first, pieces):
        """Take the snapshot at `first`; returns the smoothed objective there."""
        self.w.scale[:] = 1.0, 0.0
        for (v, d), table in zip(self._halves(), first.tables, strict=True):
            v[:] = table
            d[:] = 0.0
        self.memory.lipschitz[:] *= 0.9
        self.memory.totals[:] = 0.0
        before = self.how.counts.copy()
        self._pass(SVRGOptions(SNAPSHOT, 1, 0.0, 0.0), np.arange(self.sample_weight.size), pieces)
        if isinstance(self.how, TopKHinge):
            # Exact smoothing mostly mixes fewer labellings than those whose diameter is measured;
            # inexact smoothing mixes more.
            new = self.how.counts - before
            self._caution = 1.0 - (1.0 - _LEAST_CAUTION) * new[EXACT] / new[CALLS]
        return 0.5 * self.lam * squared_norm(first) + self.memory.totals[LOSS]

    def raise_dual(self):
        """Raise the dual bound by the snapshot.

        Any mixture of labellings is a dual point, whatever the smoothing. Each snapshot is mixed
        into the point by a batch Frank-Wolfe step; only its mean gradient and its expected task
        loss are needed.
        """
        if self.lam == 0:
            return
        gradient, both = self._gradient.tables, self._change.tables
        for (_, d), g, change in zip(self._halves(), gradient, both, strict=True):
            np.subtract(d, g, out=change)
        gain = float(self.memory.totals[TASK_LOSS]) - self._task_loss
        slope = gain - sum(map(np.vdot, gradient, both)) / self.lam
        curvature = squared_norm(self._change) / self.lam
        step = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else 0.0
        self._task_loss += step * gain
        for g, change in zip(gradient, both, strict=True):
            change *= step
            g += change
        half_norm = squared_norm(self._gradient) / (2.0 * self.lam)
        self.dual, self.magnitude = self._task_loss - half_norm, self._task_loss + half_norm

    def steepness(self):
        """Twice the mean smoothness: the largest is safe, but three times slower on OCR letters."""
        return 2.0 * float((self.memory.lipschitz * self.sample_weight).mean())

    def steps(self, kappa, center, order, pieces, measure=False):
        """SVRG steps around `center`."""
        both = center.tables, self._change.tables
        for (_, d), table, scaled in zip(self._halves(), *both, strict=True):
            np.multiply(table, kappa, out=scaled)
            d -= scaled
        rate = self.rate
        if rate is None:
            rate = 1.0 / (self._caution * self.steepness() + self.lam + kappa)
        self._pass(SVRGOptions(STEP, int(measure), rate, self.lam + kappa), order, pieces)
        fold(self.w)

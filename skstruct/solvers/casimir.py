"""Casimir: Catalyst acceleration of SVRG, on a smooth loss or on a hinge through smooth ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.cone import make_cone, project_rows, settle
from ..core.intrinsics import fetch_add
from ..core.jit.kernels import inner_kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.memory import check_memory
from ..core.oracles import accumulate, potentials
from ..core.parallel import LEAD, LEAVE, Pieces, count_threads, meet, open_gate
from ..core.weights import (
    Weights,
    decay_and_step,
    fold,
    halves,
    inner_product,
    lazy_weights,
    plain_weights,
    squared_norm,
    zero_weights,
)
from ..losses.hinge import CALLS, EXACT, TopKHinge
from ..losses.operations import (
    ROUNDING,
    expected_loss,
    least_term,
    loss_curvature,
    loss_oracle,
    private_loss,
    require_smooth,
)
from .certificate import DualMixture, certify, certify_pair, known_record
from .primal import Best, Workers, block_size, objective_value
from .run import Method

# Catalyst: smoothing, proximal terms, centers and extrapolation.

# The first kappa over lambda where the smoothing shrinks, and its factor by iteration down to
# lambda, the paper's. Lambda from the start is 40 times farther from the optimum of boxes where
# lambda n is 0.01; 10 lambda to the end is 9 times as far as the best of a grid on text there.
_KAPPA, _EASE = 10.0, 0.9
# Least n kappa by the measured steepness, late in a run: Proposition 29 has 1, but that is an upper
# estimate; of 0.05, 0.1, 0.2 and 0.3 the second is nearest to the optimum at iteration 100.
_LATE = 0.1
# First fraction of the rate in a `Pace` by n samples, its bounds, and the bound on all fractions.
_FIRST, _LEAST_FIRST, _MOST_FIRST, _MOST = 32.0, 1.0 / 16.0, 0.5, 1.0
# Factors of fractions: while the objective falls slowly, the same after its first rise, and at each
# rise. Steps that leave less than so much of the objective are long enough: longer ones overshoot.
_GROWTH, _REGROWTH, _FALL, _SLOW = 1.5, 1.1, 0.5, 0.6
# Rises after which a run is late. Before, nu is at least this times first value times fraction.
_RISES, _FLOOR = 3, 0.3
# Fraction of the objective that the regulariser has where shorter weights are tried, and the
# logarithm of their scale: at first, at least, at most.
_LONG, _SHORTER, _LEAST_SHORTER, _MOST_SHORTER = 0.5, 0.2, 0.01, 0.7


def _mix(a, w, b, other):
    """``a w + b other``."""
    pairs = zip(w.tables, other.tables, strict=True)
    return Weights(*(a * table + b * more for table, more in pairs))


def _scaled(a, w):
    """``a w``."""
    return Weights(*(a * table for table in w.tables))


class Catalyst:
    """Smoothing, proximal terms, centers, extrapolation (Lin, Mairal, Harchaoui 2015).

    Settings of Pillutla et al. 2019, Algorithm 4, Corollaries 17 to 20.
    """

    def __init__(self, options, lam, n, start):
        self.options, self.lam, self.n = options, lam, n
        self.adaptive = options.variant == "adaptive" and options.strength > 0
        self.nu = options.strength
        given = options.variant != "svrg" and options.kappa is not None
        self.kappa = options.kappa if given else 0.0
        self.alpha = None
        self.center = self.older_center = self.previous = start

    def settle(self, steepness):
        """Choose kappa, and the first alpha, when the smoothness has been measured."""
        lam, self.first_steepness = self.lam, steepness
        if self.adaptive and lam > 0 and self.options.kappa is None:
            self.kappa = _KAPPA * lam
        elif self.options.variant != "svrg" and self.options.kappa is None:
            # A / (nu n) of Proposition 29, with A = nu times twice the mean smoothness constant:
            # the largest belongs to one long sample.
            proposed = steepness / self.n
            self.kappa = proposed - lam if proposed > 4.0 * lam else lam
        self.first_kappa = self.kappa
        self.alpha = math.sqrt(self._q()) if lam > 0 else 0.5 * (math.sqrt(5.0) - 1.0)

    def _q(self):
        return self.lam / (self.lam + self.kappa) if self.lam + self.kappa > 0 else 1.0

    @property
    def accuracy(self):
        """delta_k of Corollaries 17 and 18, the relative accuracy of (26)."""
        root = math.sqrt(self._q())
        return root / (2.0 - root)

    def first(self, k):
        """Return the weights from which the inner solver starts."""
        if self.options.warm_start == "previous" or self.options.variant == "svrg":
            return self.previous
        if self.options.warm_start == "extrapolation" and k > 1:
            ratio = self.kappa / (self.kappa + self.lam)
            ahead = _mix(1.0, self.previous, ratio, self.center)
            return _mix(1.0, ahead, -ratio, self.older_center)
        return self.center

    def advance(self, k, current, least, steepness=0.0):
        """Extrapolate the next center; step nu (not below `least`) and, by `steepness`, kappa."""
        if self.options.variant == "svrg":
            self.center = self.previous = current
            return
        kappa = self.kappa
        if self.adaptive:
            self._shrink(k, least, steepness)
        beta = self._extrapolation(kappa)
        self.older_center = self.center
        self.center = _mix(1.0 + beta, current, -beta, self.previous)
        self.previous = current

    def _shrink(self, k, least, steepness):
        """Choose nu and kappa of iteration k + 1."""
        before, first = self.nu, self.options.strength
        if self.lam == 0:
            self.nu = min(first, max(first / (k + 1), least))
            self.kappa = self.first_kappa * (k + 1)
            return
        nu = before * math.sqrt(1.0 - 0.5 * math.sqrt(self._q()))
        self.nu = min(before, max(nu, least))
        if self.options.kappa is None:
            late = _LATE * steepness * before / (self.nu * self.n)
            self.kappa = max(self.lam, _EASE * self.kappa, late)

    def scale(self, factor):
        """Take `factor` times all weights that the next iterations begin from."""
        names = "center", "older_center", "previous"
        for name in names:
            setattr(self, name, _scaled(factor, getattr(self, name)))

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


class Pace:
    """Learning rates as the smoothing shrinks, as fractions of 1 / (the first steepness)."""

    # A rate that shrinks with nu is safe, but stalls where lambda is small; a constant one gets too
    # long, and where samples are separable, what the first steps overshoot is hardly ever
    # forgotten.

    def __init__(self, n):
        self.share = min(_MOST_FIRST, max(_LEAST_FIRST, _FIRST / n))
        self._last, self._n_rises = math.inf, 0

    @property
    def is_late(self):
        """True once the objective has risen a few times."""
        return self._n_rises >= _RISES

    def measured(self, objective):
        """Take note of the objective after a pass."""
        if objective > self._last:
            self.share, self._n_rises = _FALL * self.share, self._n_rises + 1
        elif _SLOW * self._last < objective and self._last < math.inf:
            self.share = min(_MOST, self.share * (_REGROWTH if self._n_rises else _GROWTH))
        self._last = objective


# SVRG on a smooth loss with a proximal term: the inner solver of Casimir.

# Entries of ``Snapshot.totals``, and tasks of a pass.
LOSS, MAGNITUDE, TASK_LOSS = range(3)
SNAPSHOT, STEP = 0, 1


class Snapshot(NamedTuple):
    """Residuals and totals at the reference point of SVRG."""

    # (n_parts,): Residual of every sample there.
    residuals: np.ndarray
    # (n_samples,): Estimates of the smoothness of the losses, 0 where there is none.
    lipschitz: np.ndarray
    # (3,): Mean loss, mean size of the terms that the losses are differences of, and if asked for
    # the mean task loss that the residuals expect; 0 before a snapshot.
    totals: np.ndarray


class SVRGOptions(NamedTuple):
    """Options of a pass."""

    # ``SNAPSHOT``: store the residuals at `w` and put their mean gradient into ``d``, which is 0
    # before. ``STEP``: SVRG steps with ``d`` fixed.
    task: int
    # 1 to raise the estimates of smoothness by what the pass meets.
    measure: int
    # 1 for a snapshot's task loss, the dual term of the hinge.
    task_loss: int
    # Learning rate of the steps.
    rate: float
    # lambda + kappa.
    decay: float


class Mean(NamedTuple):
    """Mean of a pass's iterates ``s v + b d``: ``(S v - offset + B d) / T``, S, B sums of s, b."""

    # What v has gained, times the sum of s before; tables without rows where there is no mean.
    offset: Weights
    # (3,): S, B and T; (0,) where there is no mean.
    sums: np.ndarray


@inner_kernel
def _settle_mean(w, mean):
    """Take the sums into the offset, and fold the weights, before v outgrows them."""
    s, b = w.scale[0], w.scale[1]
    for table, offset in ((w.node, mean.offset.node), (w.pair, mean.offset.pair)):
        half = table.shape[1] // 2
        for j in range(offset.shape[0]):
            for k in range(offset.shape[1]):
                v, d = table[j, k], table[j, half + k]
                offset[j, k] -= mean.sums[0] * v + mean.sums[1] * d
                table[j, k] = s * v + b * d
    w.scale[0], w.scale[1], mean.sums[0], mean.sums[1] = 1.0, 0.0, 0.0, 0.0


# The scale below which what v has gained would cancel digits of the mean.
_SETTLE_BELOW = 1e-3


class Visits(NamedTuple):
    """Data that threads exchange about a block of a snapshot."""

    # (1,): How many of the block's samples have been taken.
    counters: np.ndarray
    # (most, 3): Of each sample what is added to ``Snapshot.totals``.
    values: np.ndarray


@inner_kernel(inline=True)
def _visit(loss, problem, w, memory, options, i, values, r, buffers, labels):
    """Oracle and estimate of smoothness; `r` takes the residual."""
    theta, augmented, answer, trial = buffers[0], buffers[2], buffers[3], buffers[4]
    potentials(problem, i, w, theta)
    value, magnitude = loss_oracle(loss, problem, i, theta, labels, r, augmented)
    if options.measure == 1:
        before = memory.lipschitz[i]
        memory.lipschitz[i] = loss_curvature(
            loss, problem, i, theta, value, labels, r, before, answer, trial, augmented
        )
    values[LOSS], values[MAGNITUDE], values[TASK_LOSS] = value, magnitude, 0.0
    if options.task_loss == 1:
        values[TASK_LOSS] = expected_loss(loss, problem, i, r, trial)


@inner_kernel(inline=True)
def _settle(sample_weight, memory, order, visits):
    """Add what was found at the samples of a block, in order."""
    n = sample_weight.shape[0]
    for k in range(order.shape[0]):
        share = sample_weight[order[k]] / n
        for q in range(memory.totals.shape[0]):
            memory.totals[q] += share * visits.values[k, q]
    visits.counters[0] = 0


@solver_kernel
def svrg_pass(
    loss,
    problem,
    w,
    cone,
    sample_weight,
    memory,
    options,
    order,
    visits,
    mean,
    buffers,
    labels,
    team,
):
    """Visit the samples in `order`, for a snapshot, which threads share, or for steps."""
    # One kernel for both: the oracles are most of its code, and are compiled once. A snapshot goes
    # by blocks: oracles at samples of each thread's own, then each adds the residuals of all, in
    # order, to its share of `d`.
    n, n_visits, most = sample_weight.shape[0], order.shape[0], visits.values.shape[0]
    stepping = options.task == STEP
    first = 0
    while first < n_visits:
        size = n_visits - first
        size = size if size < most else most
        size = 1 if stepping else size
        taken = fetch_add(visits.counters, 0, 1)
        while taken < size:
            i = order[first + taken]
            start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
            r = buffers[1] if stepping else memory.residuals[start:stop]
            _visit(loss, problem, w, memory, options, i, visits.values[taken], r, buffers, labels)
            taken = fetch_add(visits.counters, 0, 1)
        came = meet(team)
        if came == LEAVE:
            break
        if stepping:
            i = order[first]
            start = problem.part_ptr[i]
            r = buffers[1]
            for q in range(problem.part_ptr[i + 1] - start):
                r[q] -= memory.residuals[start + q]
            visits.counters[0] = 0
            rho = 1.0 - options.rate * options.decay
            if mean.sums.shape[0] > 0 and abs(w.scale[0] * rho) < _SETTLE_BELOW:
                _settle_mean(w, mean)
            decay_and_step(w, rho, options.rate)
        elif came == LEAD:
            _settle(sample_weight, memory, order[first : first + size], visits)
            open_gate(team)
        # Threads without a share add nothing.
        for k in range(first, first + size if w.share[0] < w.share[1] else first):
            i = order[k]
            start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
            r = buffers[1] if stepping else memory.residuals[start:stop]
            weight = sample_weight[i]
            c = (-options.rate * weight, 0.0) if stepping else (0.0, weight / n)
            accumulate(problem, i, r, c, w)
            if stepping and mean.sums.shape[0] > 0:
                before = c[0] * mean.sums[0] / w.scale[0]
                accumulate(problem, i, r, (before, 0.0), mean.offset)
                mean.sums[0] += w.scale[0]
                mean.sums[1] += w.scale[1]
                mean.sums[2] += 1.0
        if stepping:
            project_rows(cone, w, 0.0, 0)
        first += size


class CasimirOptions(NamedTuple):
    """Choices of one run."""

    # Schedule of the smoothing; "svrg" is not accelerated.
    variant: str = "constant"
    # nu of the first iteration; 0 where nothing is smoothed.
    strength: float = 0.0
    # Proximal term; None for Proposition 29 with measured smoothness.
    kappa: float | None = None
    # Starting point of the inner solver.
    warm_start: str = "prox-center"
    # Learning rate; None for the inverse of the measured smoothness.
    rate: float | None = None
    # Whether a pass of steps ends at the mean of its iterates.
    average: bool = False
    # Most passes of steps an iteration; None for as many as the relative accuracy (26) takes.
    n_passes: int | None = 1
    # Whether steps draw samples with replacement.
    uniform: bool = False


# More passes for one subproblem are a sign that its learning rate is bad.
_MOST_PASSES = 20
_ADVICE = "are the features scaled, is the learning rate too large?"
# Fraction of the measured steepness that steps are made for where the top-K smoothing is exact.
_LEAST_CAUTION = 1.0 / 3.0


class _SVRG(Method):
    """Weights, snapshot, buffers and passes of a run (Pillutla et al. 2019, Algorithm 4)."""

    #: Whether the dual terms are those of the hinge.
    _OF_HINGE = False

    def __init__(self, *task, loss, options=None, start=None, cone=None):
        super().__init__(*task)
        require_smooth(loss, "Casimir")
        options, problem = options or CasimirOptions(), self.problem
        self.loss, self.rate = loss, options.rate
        self.w = lazy_weights(zero_weights(self.shapes) if start is None else start)
        self.cone = make_cone(cone, self.shapes[1][0])
        settle(self.cone, self.w)
        n_bytes, advice = 8 * int(problem.part_ptr[-1]), "use SubgradientSSVM, or SAGCRF with lbfgs"
        check_memory(n_bytes, "the snapshot of Casimir", advice)
        self.memory = Snapshot(np.zeros(problem.part_ptr[-1]), np.zeros(self.n), np.zeros(3))
        self.n_calls, self._caution, self._warm = 0, 1.0, start is not None
        self._mixture = DualMixture(self.lam, zero_weights(self.shapes), self.cone)
        self._workers = Workers(loss, problem, count_threads(problem, self.n_jobs))
        self._visits = Visits(np.zeros(1, dtype=np.int64), np.zeros((block_size(problem), 3)))
        self._n_passes, shapes = options.n_passes, self.shapes if options.average else 2 * [(0, 0)]
        self._mean = Mean(zero_weights(shapes), np.zeros(3 * options.average))
        #: The last weights, and the best ones.
        self.current, self.best = plain_weights(self.w, self.shapes), None
        #: Lower bound on the optimum.
        self.dual = -np.inf
        self.catalyst = Catalyst(options, self.lam, self.n, self.current)

    def _pass(self, options, order, pieces):
        alone, others = options.task == STEP, self._workers.all[1:]
        for worker in () if alone else others:  # they smooth as the loss does now
            worker.loss = private_loss(self.loss)
            if isinstance(self.loss, TopKHinge):
                worker.loss.counts[:] = 0
        for first, last in pieces.ranges(0, order.size):
            self._visits.counters[0] = 0
            task = self.memory, options, order[first:last], self._visits

            def arguments(own, share, task=task):
                weights = self.w._replace(share=share), self.cone, self.sample_weight
                return own.loss, own.problem, *weights, *task, self._mean, *own.scratch

            self._workers.call(svrg_pass, arguments, alone)
            self.n_calls += last - first
        if not alone and isinstance(self.loss, TopKHinge):
            self.loss.counts[:] += sum(worker.loss.counts for worker in others)

    def snapshot(self, first, pieces):
        """Take the snapshot at `first`."""
        self.w.scale[:] = 1.0, 0.0
        for (v, d), table in zip(halves(self.w, self.shapes), first.tables, strict=True):
            v[:] = table
            d[:] = 0.0
        self.memory.lipschitz[:] *= 0.9
        self.memory.totals[:] = 0.0
        options = SVRGOptions(SNAPSHOT, 1, int(self._OF_HINGE), 0.0, 0.0)
        self._pass(options, np.arange(self.n), pieces)

    def steepness(self):
        """Twice the mean smoothness: the largest is safe, but three times slower on OCR letters."""
        return 2.0 * float((self.memory.lipschitz * self.sample_weight).mean())

    def _automatic_rate(self):
        return 1.0 / (self._caution * self.steepness() + self.lam + self.catalyst.kappa)

    def steps(self, k, rng, pieces):
        """SVRG steps around the prox-center, in a new order or at new draws."""
        kappa, n = self.catalyst.kappa, self.n
        order = rng.integers(n, size=n) if self.catalyst.options.uniform else rng.permutation(n)
        both = self.catalyst.center.tables, self._mixture.change.tables
        for (_, d), table, scaled in zip(halves(self.w, self.shapes), *both, strict=True):
            np.multiply(table, kappa, out=scaled)
            d -= scaled
        rate = self._automatic_rate() if self.rate is None else self.rate
        self._pass(SVRGOptions(STEP, int(k == 1), 0, rate, self.lam + kappa), order, pieces)
        self._take_mean()
        fold(self.w)
        settle(self.cone, self.w)
        if k == 1:
            # At the start all labellings tie, and those found are close to each other.
            self.catalyst.settle(self.steepness())

    def _take_mean(self):
        """End at the mean of the iterates, if that is asked for."""
        offset, sums = self._mean
        if sums.size and sums[2] > 0.0:
            self.w.scale[:] = sums[:2] / sums[2]
            fold(self.w)
            for (v, _), table in zip(halves(self.w, self.shapes), offset.tables, strict=True):
                v -= table / sums[2]
                table.fill(0.0)
            sums[:] = 0.0

    def work(self):
        """Oracle calls; nothing else passes over the data."""
        return self.n_calls, 0.0

    def weights(self):
        """The last ones."""
        return self.current.copy()

    def solution(self):
        """The best ones seen."""
        return self.best.weights


class _Measured(NamedTuple):
    """Weights at which a snapshot was taken, and its objective and gradient there."""

    weights: Weights
    objective: float
    squared_gradient: float
    magnitude: float


class SmoothCasimir(_SVRG):
    """A run on a smooth loss; each snapshot, taken where a pass ends, certifies that point."""

    def begin(self, progress):
        """The first snapshot."""
        self._next = self.catalyst.first(1), progress.pieces
        self.certify()
        self.catalyst.settle(self.steepness())
        if not (self._warm or progress.stopped):
            # However large the tolerance: weights of 0 predict nothing.
            self.certificate = None

    def epoch(self, k, rng, progress):
        """Steps from the last snapshot."""
        self.steps(k, rng, progress.pieces)
        self.catalyst.advance(k, plain_weights(self.w, self.shapes), 0.0)
        self._next = self.catalyst.first(k + 1), progress.pieces

    def certify(self):
        """Take the next snapshot, in full even where a callback ends the run."""
        point, pieces = self._next
        self.snapshot(point, pieces)
        if pieces.stopped:
            self.snapshot(point, Pieces())
        loss, magnitude = self.memory.totals[[LOSS, MAGNITUDE]]
        direction, change = [d for _, d in halves(self.w, self.shapes)], self._mixture.change
        tables = point.tables
        term = loss - inner_product(tables, direction) - ROUNDING * magnitude
        self._mixture.offer(max(term, least_term(self.loss)), direction)
        for table, d, gradient in zip(tables, direction, change.tables, strict=True):
            np.multiply(table, self.lam, out=gradient)
            gradient += d
        objective = 0.5 * self.lam * squared_norm(point) + loss
        here = _Measured(point, objective, squared_norm(change), magnitude)
        self.dual = max(self.dual, self._mixture.value, self._certify(here).dual_objective)
        seen = [here] if self.best is None else [here, self.best]
        self.current, self.best = point, min(seen, key=lambda at: self._certify(at).dual_gap)
        self.certificate = self._certify(self.best)
        self._objective = objective

    def _certify(self, at):
        return certify(at.objective, at.squared_gradient, self.lam, self.dual, at.magnitude)

    def entry(self):
        """The objective of the last weights."""
        return known_record(self._objective, self.dual)


class HingeCasimir(_SVRG):
    """A run on smoothed hinges, certified by snapshots: their mixtures are dual points."""

    fields = (*_SVRG.fields, "smoothed_objective", "exact_share")
    _OF_HINGE = True

    def __init__(self, *task, target, tol, **options):
        super().__init__(*task, **options)
        self.target, self.best = target, Best()
        # The smoothed hinge is at most this times nu above the hinge, on average.
        n_nodes, n_parts = self.problem.labels.size / self.n, self.problem.part_ptr[-1] / self.n
        n_labels, top_k = self.shapes[0][1], isinstance(self.loss, TopKHinge)
        # For entropy, the logarithm of how many labellings there are; of candidates one is chosen.
        bias = n_nodes * np.log(n_labels) if n_labels > 1 else np.log1p(n_parts)
        bias = 0.5 if top_k else bias
        # Less smoothing than the tolerance can see would only shorten the steps.
        self._least = 0.2 * max(tol, 1e-6), bias
        shrinks = self.catalyst.adaptive and self.lam > 0
        self._pace = Pace(self.n) if shrinks and self.rate is None else None
        self._shorter = _SHORTER
        # Before anything is measured. Fractions are of a steepness that scales as the features do;
        # but backtracking for entropy tries steps of the inverse, which must not overflow.
        is_free = self._pace is not None and top_k
        self.memory.lipschitz[:] = 1e-12 if is_free else 1.0

    def epoch(self, k, rng, progress):
        """Snapshot and steps."""
        catalyst, pieces = self.catalyst, progress.pieces
        if k > 1:
            share, bias = self._least
            least, steepness = share * self.best.objective / bias, 0.0
            if self._is_paced:
                least = max(least, _FLOOR * self._pace.share * catalyst.options.strength)
            elif self._pace is not None:
                steepness = self.steepness()
            catalyst.advance(k - 1, self.current, least, steepness)
        self.loss.strength[0] = catalyst.nu or 1.0  # a hinge of one labelling does not look
        first = catalyst.first(k)
        if self.cone.coefficients.size:  # an extrapolated point may lie outside
            first = first.copy()
            settle(self.cone, first)
        self._smoothed = self.snapshot(first, pieces)
        if not pieces.stopped:
            if self.lam > 0:
                magnitude, task_loss = self.memory.totals[[MAGNITUDE, TASK_LOSS]]
                term = float(task_loss - ROUNDING * magnitude)
                self._mixture.offer(term, [d for _, d in halves(self.w, self.shapes)])
                self.dual = self._mixture.value
            if k == 1:
                catalyst.settle(self.steepness())
            self.steps(k, rng, pieces)
            self._more_steps(k, rng, pieces)
        self.current = plain_weights(self.w, self.shapes)

    def _more_steps(self, k, rng, pieces):
        """Further snapshots and passes of steps on the same subproblem."""
        most = _MOST_PASSES if self._n_passes is None else self._n_passes
        for _ in range(most - 1):
            point = plain_weights(self.w, self.shapes)
            self.snapshot(point, pieces)
            if pieces.stopped or (self._n_passes is None and self._is_accurate(point)):
                return
            self.steps(k, rng, pieces)

    def _is_accurate(self, point):
        """The stopping criterion (26), by the norm of the gradient of the snapshot at a point."""
        catalyst = self.catalyst
        convexity, ahead, squared = self.lam + catalyst.kappa, 0.0, 0.0
        tables = zip(point.tables, catalyst.center.tables, halves(self.w, self.shapes), strict=True)
        for w, z, (_, d) in tables:
            gradient = d + self.lam * w + catalyst.kappa * (w - z)
            squared += float(np.einsum("ij,ij->", gradient, gradient))
            ahead += float(np.einsum("ij,ij->", w - z, w - z))
        return squared <= catalyst.accuracy * catalyst.kappa * convexity * ahead

    def snapshot(self, first, pieces):
        """Take the snapshot at `first`; returns the smoothed objective, NaN where it is cut."""
        top_k = isinstance(self.loss, TopKHinge)
        before = self.loss.counts.copy() if top_k else None
        super().snapshot(first, pieces)
        if pieces.stopped:
            return np.nan
        if top_k:
            # Exact smoothing mostly mixes fewer labellings than those whose diameter is measured;
            # inexact smoothing mixes more.
            new = self.loss.counts - before
            self._caution = 1.0 - (1.0 - _LEAST_CAUTION) * new[EXACT] / new[CALLS]
        return 0.5 * self.lam * squared_norm(first) + self.memory.totals[LOSS]

    @property
    def _is_paced(self):
        return self._pace is not None and not self._pace.is_late

    def _automatic_rate(self):
        if not self._is_paced:
            return super()._automatic_rate()
        catalyst = self.catalyst
        return self._pace.share / (catalyst.first_steepness + self.lam + catalyst.kappa)

    def certify(self):
        """Objective of the last weights, and certificate of the best."""
        value, best = self._evaluate(self.current), self.best
        if self._pace is not None:
            value = self._shorten(value)
        magnitude = best.magnitude + self._mixture.magnitude
        self.certificate = certify_pair(best.objective, self.dual, magnitude)
        self._objective = value.objective
        if self._pace is not None:
            self._pace.measured(value.objective)

    def _evaluate(self, weights):
        """The objective of weights, which may be the best."""
        present = self.target, self.problem, lazy_weights(weights), self.sample_weight, self.lam
        value = objective_value(*present, self.n_jobs, advice=_ADVICE)
        self.best.offer(value.objective, weights, value.magnitude)
        return value

    def _shorten(self, value):
        """Return the objective, after shortening the weights if that lowers it."""
        # Where lambda is small, decay alone takes thousands of passes to shorten what is too long.
        if 0.5 * self.lam * squared_norm(self.current) <= _LONG * value.objective:
            return value
        factor = math.exp(-self._shorter)
        weights = _scaled(factor, self.current)
        found = self._evaluate(weights)
        if found.objective >= value.objective:
            self._shorter = max(0.5 * self._shorter, _LEAST_SHORTER)
            return value
        self._shorter = min(2.0 * self._shorter, _MOST_SHORTER)
        self.current = weights
        self.catalyst.scale(factor)
        return found

    def _exact_share(self):
        if not isinstance(self.loss, TopKHinge):
            return 1.0
        return self.loss.counts[EXACT] / self.loss.counts[CALLS]

    def entry(self):
        """The objective of the last weights, the bound on it, and what was smoothed."""
        share = {"smoothed_objective": self._smoothed, "exact_share": self._exact_share()}
        return super().entry() | {"objective": self._objective} | share

    def published(self):
        """Choices of the end, and counts."""
        return {
            "kappa_": self.catalyst.kappa,
            "smoothing_strength_": self.catalyst.nu,
            "n_oracle_calls_": self.n_calls,
            "exact_share_": self._exact_share(),
        }

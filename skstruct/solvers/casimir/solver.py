"""Casimir: Catalyst acceleration of SVRG, on a smooth loss or on a hinge through smooth ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.cone import make_cone, settle
from ...core.memory import check_memory
from ...core.pieces import Pieces
from ...core.team import ALONE, Crew
from ...core.threads import count_threads
from ...core.weights import (
    Weights,
    fold,
    halves,
    inner_product,
    lazy_weights,
    plain_weights,
    squared_norm,
    zero_weights,
)
from ...losses.smooth_hinge import CALLS, EXACT, TopKHinge
from ...losses.verbs import ROUNDING, least_term, private_loss, require_smooth
from ..certificate import DualMixture, certify, certify_pair
from ..primal import Best, compile_losses, objective_value
from ..progress import Result
from ..run import Method, run
from ..workers import Worker, block_size
from .catalyst import Catalyst
from .kernels import (
    LOSS,
    MAGNITUDE,
    SNAPSHOT,
    STEP,
    TASK_LOSS,
    Snapshot,
    SVRGOptions,
    Visits,
    svrg_pass,
)


class CasimirOptions(NamedTuple):
    """Choices of one run."""

    # How the smoothing changes; "svrg" is not accelerated.
    variant: str = "constant"
    # nu of the first iteration; 0 where nothing is smoothed.
    strength: float = 0.0
    # Proximal term; None for Proposition 29 with measured smoothness.
    kappa: float | None = None
    # Where the inner solver starts.
    warm_start: str = "prox-center"
    # Learning rate; None for the inverse of the measured smoothness.
    rate: float | None = None


_ADVICE = "are the features scaled, is the learning rate too large?"
# Share of the measured steepness that steps are made for where the top-K smoothing is exact.
_LEAST_CAUTION = 1.0 / 3.0


def casimir(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    options: CasimirOptions,
    *,
    loss,
    target=None,
    start=None,
    cone=None,
    max_iter: int = 100,
    tol: float = 1e-2,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by accelerated SVRG.

    Pillutla, Roulet, Kakade, Harchaoui 2018, A Smoother Way to Train Structured Prediction Models,
    Algorithms 2 and 4.
    """
    require_smooth(loss, "Casimir")
    task, choices = (problem, shapes, sample_weight, lam, n_jobs), (loss, options, start, cone)
    method = _Smooth(*task, *choices) if target is None else _Smoothed(*task, *choices, target, tol)
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class _SVRG(Method):
    """Weights, snapshot and buffers of one run, and the two kinds of passes."""

    #: Whether the dual terms are those of the hinge.
    _OF_HINGE = False

    def __init__(self, problem, shapes, sample_weight, lam, n_jobs, loss, options, start, cone):
        super().__init__(problem, shapes, sample_weight, lam, n_jobs)
        self.loss, self.rate = loss, options.rate
        self.w = lazy_weights(zero_weights(shapes) if start is None else start)
        self.cone = make_cone(cone, shapes[1][0])
        settle(self.cone, self.w)
        n_bytes, advice = 8 * int(problem.part_ptr[-1]), "use SubgradientSSVM, or SAGCRF with lbfgs"
        check_memory(n_bytes, "the snapshot of Casimir", advice)
        self.memory = Snapshot(np.zeros(problem.part_ptr[-1]), np.zeros(self.n), np.zeros(3))
        self.n_calls, self._caution, self._warm = 0, 1.0, start is not None
        self._mixture = DualMixture(lam, zero_weights(shapes), self.cone)
        n = count_threads(problem, n_jobs)
        self._workers = [Worker(loss, problem, k, n) for k in range(n)]
        self._crew, size = Crew(n), block_size(problem)
        self._visits = Visits(np.zeros(1, dtype=np.int64), np.zeros((size, 3)))
        #: The last weights, and the best ones.
        self.current, self.best = self._value(), None
        #: Lower bound on the optimum.
        self.dual = -np.inf
        self.catalyst = Catalyst(options, lam, self.n, self.current)

    def compile(self):
        """Compile outside the clock."""
        self._pass(SVRGOptions(STEP, 0, 0, 0.0, 0.0), np.empty(0, dtype=np.int64), Pieces())
        fold(self.w)
        self._value()

    def _pass(self, options, order, pieces):
        sequential = options.task == STEP or not order.size
        if not sequential:
            self._lend_losses()
        for first, last in pieces.visits(order.size):
            visits = order[first:last]
            task = self.cone, self.sample_weight, self.memory, options, visits, self._visits
            if sequential:
                self._visit(task, 1)(0, ALONE)
            else:
                self._crew.run(self._visit(task, self._crew.size))
            self.n_calls += visits.size
        if not sequential:
            self._take_counts()

    def _visit(self, task, n):
        """What one of n threads does."""
        self._visits.counters[0] = 0

        def visit(k, team):
            own = self._workers[k]
            w = own.share_of(self.w, n)
            svrg_pass(own.loss, own.problem, w, *task, *own.scratch, team)

        return visit

    def _lend_losses(self):
        """Threads smooth as the loss does now."""
        for worker in self._workers[1:]:
            worker.loss = private_loss(self.loss)
            if isinstance(self.loss, TopKHinge):
                worker.loss.counts[:] = 0

    def _take_counts(self):
        if isinstance(self.loss, TopKHinge):
            for worker in self._workers[1:]:
                self.loss.counts[:] += worker.loss.counts

    def _value(self):
        return plain_weights(self.w, self.shapes)

    def _halves(self):
        return halves(self.w, self.shapes)

    def snapshot(self, first, pieces):
        """Take the snapshot at `first`."""
        self.w.scale[:] = 1.0, 0.0
        for (v, d), table in zip(self._halves(), first.tables, strict=True):
            v[:] = table
            d[:] = 0.0
        self.memory.lipschitz[:] *= 0.9
        self.memory.totals[:] = 0.0
        options = SVRGOptions(SNAPSHOT, 1, int(self._OF_HINGE), 0.0, 0.0)
        self._pass(options, np.arange(self.n), pieces)

    def steepness(self):
        """Twice the mean smoothness: the largest is safe, but three times slower on OCR letters."""
        return 2.0 * float((self.memory.lipschitz * self.sample_weight).mean())

    def steps(self, k, rng, pieces):
        """SVRG steps around the prox-center, in a new order."""
        kappa, order = self.catalyst.kappa, rng.permutation(self.n)
        both = self.catalyst.center.tables, self._mixture.change.tables
        for (_, d), table, scaled in zip(self._halves(), *both, strict=True):
            np.multiply(table, kappa, out=scaled)
            d -= scaled
        rate = self.rate
        if rate is None:
            rate = 1.0 / (self._caution * self.steepness() + self.lam + kappa)
        self._pass(SVRGOptions(STEP, int(k == 1), 0, rate, self.lam + kappa), order, pieces)
        fold(self.w)
        settle(self.cone, self.w)
        if k == 1:
            # At the start all labellings tie, and those found are close to each other.
            self.catalyst.settle(self.steepness())

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
    """Weights at which a snapshot was taken, and what it said of them."""

    weights: Weights
    objective: float
    squared_gradient: float
    magnitude: float


class _Smooth(_SVRG):
    """A run on a smooth loss.

    After a pass of steps the snapshot is taken where the next one begins, which certifies that
    point: its residuals are a dual point, and give the exact gradient.
    """

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
        self.catalyst.advance(k, self._value(), self.steepness(), 0.0)
        self._next = self.catalyst.first(k + 1), progress.pieces

    @np.errstate(over="ignore", invalid="ignore")  # A number that overflows is refused.
    def certify(self):
        """Take the next snapshot, in full even where a callback ends the run."""
        point, pieces = self._next
        self.snapshot(point, pieces)
        if pieces.stopped:
            self.snapshot(point, Pieces())
        loss, magnitude = self.memory.totals[[LOSS, MAGNITUDE]]
        direction, change = [d for _, d in self._halves()], self._mixture.change
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
        gap = max(self._objective - self.dual, 0.0)
        return {"objective": self._objective, "dual_gap": gap, "dual_objective": self.dual}


class _Smoothed(_SVRG):
    """A run on smooth approximations of a hinge, whose smoothing may shrink.

    The hinge itself is evaluated after every iteration. Any mixture of labellings is a dual point,
    whatever the smoothing: of each snapshot only the mean gradient and the expected task loss are
    needed.
    """

    fields = (*_SVRG.fields, "smoothed_objective", "exact_share")
    _OF_HINGE = True

    def __init__(
        self, problem, shapes, sample_weight, lam, n_jobs, loss, options, start, cone, target, tol
    ):
        super().__init__(problem, shapes, sample_weight, lam, n_jobs, loss, options, start, cone)
        self.target, self.best = target, Best()
        self.memory.lipschitz[:] = 1.0
        # The smoothed hinge is at most this times nu above the hinge, on average.
        n_nodes, top_k = problem.labels.size / self.n, isinstance(loss, TopKHinge)
        bias = 0.5 if top_k else n_nodes * np.log(shapes[0][1])
        # Less smoothing than the tolerance can see would only shorten the steps.
        self._least = 0.2 * max(tol, 1e-6), bias

    def compile(self):
        """Compile outside the clock."""
        super().compile()
        compile_losses(self.target, self.problem, self.w)

    def epoch(self, k, rng, progress):
        """Snapshot and steps."""
        catalyst, pieces = self.catalyst, progress.pieces
        if k > 1:
            share, bias = self._least
            least = share * self.best.objective / bias
            catalyst.advance(k - 1, self.current, self.steepness(), least)
        self.loss.strength[0] = catalyst.nu
        self._smoothed = self.snapshot(self._inside(catalyst.first(k)), pieces)
        if not pieces.stopped:
            self._raise_dual()
            if k == 1:
                catalyst.settle(self.steepness())
            self.steps(k, rng, pieces)
        self.current = self._value()

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

    def _inside(self, point):
        """The point of the cone that is nearest: what is extrapolated may lie outside."""
        if self.cone.coefficients.size:
            point = point.copy()
            settle(self.cone, point)
        return point

    def _raise_dual(self):
        if self.lam > 0:
            magnitude, task_loss = self.memory.totals[[MAGNITUDE, TASK_LOSS]]
            term = float(task_loss - ROUNDING * magnitude)
            self._mixture.offer(term, [d for _, d in self._halves()])
            self.dual = self._mixture.value

    def certify(self):
        """Objective of the last weights, and certificate of the best."""
        present = self.target, self.problem, self.w, self.sample_weight, self.lam, self.n_jobs
        value = objective_value(*present, advice=_ADVICE)
        best = self.best
        best.offer(value.objective, self.current, value.magnitude)
        magnitude = best.magnitude + self._mixture.magnitude
        self.certificate = certify_pair(best.objective, self.dual, magnitude)
        self._objective = value.objective

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

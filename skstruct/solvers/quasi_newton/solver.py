"""L-BFGS on a smooth loss: exact batch gradients, and sweeps over the weights in threads."""

from __future__ import annotations

import numpy as np

from ...core.pieces import Pieces
from ...core.weights import flatten, view_flat, zero_weights
from ...losses.verbs import ROUNDING, is_convex, least_term, require_smooth
from ..batch import BatchGradient
from ..certificate import certify, stationarity
from ..progress import REMEDY, Result
from ..run import Method, run
from .kernels import BLOCK, N_COMBINED, N_MEASURED, combine, measure, mix, remember, step
from .memory import Pairs
from .search import wolfe
from .sweeps import Sweeps

_RESOLVED = "floating point resolves no more: increase tol, or scale the features"
_UNIT = 4.0 * float(np.finfo(np.float64).eps)
# Pairs; fewer where they would take gigabytes.
_MEMORY, _LARGE = 10, 1 << 25


def lbfgs(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    loss,
    start=None,
    max_iter: int = 100,
    tol: float = 1e-3,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by L-BFGS."""
    require_smooth(loss, "L-BFGS")
    method = QuasiNewton(problem, shapes, sample_weight, lam, n_jobs, loss=loss, start=start)
    # A number that overflows is refused by its certificate.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rng = np.random.default_rng(0)  # of no use here
        return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class _Point:
    """Weights, the gradient of the mean loss there, and their numbers."""

    def __init__(self, w):
        self.w, self.d = w, np.zeros_like(w)
        self.value = self.slope = self.squared = self.magnitude = self.gap = np.nan
        #: Whether the numbers are those of `w`.
        self.known = False


class QuasiNewton(Method):
    """Points, pairs and the best dual point of one run."""

    #: Factor of an L1 term, which :mod:`skstruct.solvers.quasi_newton.orthant` sets.
    l1 = 0.0
    # Where the samples are here: what sums their gradients, and their losses and magnitudes.
    _gradients = _out = None

    def __init__(self, *task, loss, start, memory=_MEMORY):
        super().__init__(*task)
        self._memory = memory
        self.loss, self.n_calls, self._is_convex = loss, 0, is_convex(loss)
        self._start(zero_weights(self.shapes) if start is None else start)

    def _start(self, weights):
        self._here = _Point(flatten(weights))
        size = self._here.w.size
        memory = self._memory if size <= _LARGE else _MEMORY // 2
        self._trial = _Point(np.zeros(size))
        self._p = np.zeros(size)
        self._sweeps, self._pairs = Sweeps(size, self.n_jobs), Pairs(size, memory)
        #: Length of the first step along -g, where something is known of it.
        self.first_step: float | None = None
        # The best lower bound among mixtures of the dual points met: its term, its direction.
        self._term, self._mixed, self.dual = 0.0, np.zeros(size), 0.0

    def take_dual(self, term, direction, dual):
        """Begin with a dual point and a lower bound that are known."""
        self._term, self.dual = term, dual
        np.concatenate(direction, out=self._mixed)

    def take_pairs(self, other, places):
        """Begin with the pairs of a run on fewer weights, which are at `places` among these."""
        self._pairs.take(other._pairs, places)
        if len(self._pairs):
            self.first_step = None

    def compile(self):
        """Compile outside the clock."""
        none, out = np.empty(0), np.zeros(6)
        pairs, live = np.empty((2, 0), dtype=np.float32), np.zeros(1, dtype=np.int64)
        measure(none, none, none, none, 1.0, 0.0, 0.0, 0, 0, np.zeros(N_MEASURED))
        mix(none, none, 0.0, 0, 0, out)
        step(none, none, none, 0.0, 0.0, 0.0, none, 0, 0, out)
        combine(pairs, np.zeros(2), 0.0, *3 * [none], 0.0, 0.0, 0.0, none, 0, 0, out)
        vectors, scratch = 4 * [none], np.empty((3, BLOCK))
        remember(pairs, live, 0, 1.0, *vectors, 0.0, 0.0, scratch, 0, 0, out)
        self._compile_gradient()

    def _compile_gradient(self):
        """Compile what :meth:`_add_gradient` calls here."""
        self._batch().compile(self.shapes)

    def _batch(self):
        return BatchGradient(self.loss, self.problem, self.sample_weight, self.n_jobs)

    def _add_gradient(self, w, gradient, pieces):
        """Add the gradient of the sum of the losses; their mean, and that of their magnitudes.

        None if a callback ended the pass. Whoever has the samples elsewhere overrides this.
        """
        if self._gradients is None:
            self._gradients, self._out = self._batch(), np.zeros((2, self.n))
        self._gradients.add(w, gradient, self._out, pieces)
        if pieces.stopped:
            return None
        return np.einsum("ki,i->k", self._out, self.sample_weight) / self.n

    def _evaluate(self, point, pieces):
        """Measure a point; False if a callback ended the pass."""
        point.known = False
        point.d.fill(0.0)
        w, gradient = view_flat(point.w, self.shapes), view_flat(point.d, self.shapes)
        means = self._add_gradient(w, gradient, pieces)
        if means is None:
            return False
        self.n_calls += 1
        loss, point.magnitude = means
        vectors = point.w, point.d, self._p, self._mixed
        sums = self._sweeps(measure, N_MEASURED, *vectors, 1.0 / self.n, self.lam, self.l1)
        point.value = 0.5 * self.lam * sums[0] + self.l1 * sums[6] + loss
        point.slope, point.squared, point.gap, point.known = sums[2], sums[3], sums[7], True
        if self._is_convex and np.isfinite(point.value) and np.isfinite(point.squared):
            term = max(loss - sums[1] - ROUNDING * point.magnitude, least_term(self.loss))
            self._offer(term, point.d, sums[4], sums[5])
        return True

    def _offer(self, term, direction, product, squared):
        """Mix one more dual point into the best one, by the share that is best."""
        gain = term - self._term
        slope, curvature = gain - product / self.lam, squared / self.lam
        share = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else float(gain > 0)
        if share > 0.0:
            self._term += share * gain
            half = self._sweeps(mix, 1, self._mixed, direction, share)[0] / (2.0 * self.lam)
            self.dual = max(self.dual, self._term - half)

    def begin(self, progress):
        """Measure the start; one iteration is made even from where the tolerance is reached."""
        self._evaluate(self._here, progress.pieces)

    def epoch(self, k, rng, progress):
        """One iteration: a direction and a search along it."""
        here, trial = self._here, self._trial
        if not (here.known or self._evaluate(here, progress.pieces)):
            return
        while not self._search(progress.pieces):
            if progress.pieces.stopped:
                return
            if not len(self._pairs):
                self.stalled = True
                return
            self._pairs.forget()
        self._here, self._trial = trial, here
        lengths = np.sqrt(self._moved * 2.0 * (here.squared + trial.squared))
        self._pairs.add(self._sweeps, trial, here, self.lam, self.l1, lengths)

    def _search(self, pieces):
        """Find the next point; False if there is none along this direction."""
        here, trial = self._here, self._trial
        coefficients, own = self._pairs.direction()
        # Nowhere is the objective flatter than its regulariser: no step along -g is longer.
        first = 1.0
        if not len(self._pairs):
            first = self.first_step or 1.0 / max(np.sqrt(here.squared), self.lam)
            self.first_step = None
        start, end = (here.w, here.d, self._p), (self.lam, self.l1, trial.w)
        rows = self._pairs.rows
        slope, squared, self._promised, self._moved = self._sweeps(
            combine, N_COMBINED, rows, coefficients, own, *start, first, *end
        )
        if not (slope < 0.0 and np.isfinite(squared)):
            return False
        made = first

        def evaluate(t):
            nonlocal made
            if t != made:
                _, _, self._promised, self._moved = self._sweeps(step, N_COMBINED, *start, t, *end)
                made = t
            if not self._evaluate(trial, pieces):
                raise _StoppedInPass
            return trial

        try:
            return self._look(evaluate, slope, first)
        except _StoppedInPass:
            return False

    def _look(self, evaluate, slope, first):
        """The line search; `evaluate` moves to a step and measures there."""

        def function(t):
            point = evaluate(t)
            return point.value, point.slope

        return wolfe(function, self._here.value, slope, first, self._rounding(self._here))

    def _rounding(self, point):
        return _UNIT * (abs(point.value) + point.magnitude)

    def _measured(self):
        """The last iterate: nearly always it is known."""
        if not self._here.known:
            self._evaluate(self._here, Pieces())
        return self._here

    def certify(self):
        """Of the last iterate."""
        here = self._measured()
        numbers = here.value, here.squared, self.lam
        if self._is_convex:
            self.certificate = certify(*numbers, self.dual, here.magnitude)
        else:
            self.certificate = stationarity(*numbers)

    def work(self):
        """Oracle calls: there is nothing else."""
        return self.n_calls * self.n, 0

    def weights(self):
        """Copies of the tables."""
        return view_flat(self._here.w, self.shapes).copy()

    def remedy(self):
        """What to do where the tolerance was not reached."""
        return _RESOLVED if self.stalled else REMEDY


class _StoppedInPass(Exception):
    """A callback ended the run in the middle of a gradient."""

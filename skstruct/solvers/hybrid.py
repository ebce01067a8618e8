"""SAG or OEG first, and L-BFGS from where it would be faster: what ``solver="auto"`` runs."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from ..core.features import SparseFeatures
from ..losses.verbs import require_smooth
from .oeg import OEG
from .quasi_newton.orthant import OrthantWise, SparseOrthantWise
from .quasi_newton.solver import QuasiNewton
from .run import REMEDY, Method, Result, run
from .sag.precision import reducible, takes_single
from .sag.proximal import ProximalSAG
from .sag.solver import SAG

# Before, SAG's steps grow and its memory fills: nothing is to be learnt of its rate.
_FIRST = 15
# What L-BFGS may need from a point that SAG left, in iterations: so many, and more for each factor
# of e that is missing. On text with C from 1 to 500 it needs half to twice as many.
_ITERATIONS, _MORE = 15.0, 5.0
# Work on its vectors beside a gradient: passes for each weight a part.
_VECTORS = 0.4
# Without a tolerance: where float64 ends.
_LEAST_TOL = 1e-12
# Node weights from which on OEG begins. Of words (measured down to 39,000 weights) it needs less
# than half of SAG's passes with C up to 50, and not more at 500; of few dense features with weak
# regularisation it needs more.
_MANY = 1 << 15


def hybrid(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    precision: str = "auto",
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
    **options,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)``, in the end perhaps by L-BFGS.

    At first by OEG, where sparse features have many weights, nothing is known to start from, and
    memory has room for its two numbers a part; else by SAG.
    """
    require_smooth(options["loss"], "SAG")
    options["single"] = takes_single(precision, shapes, max_iter)
    task, method = (problem, shapes, sample_weight, lam, n_jobs), None
    if _suits_dual(problem, shapes, options):
        names = "loss", "single", "track_objective"
        with contextlib.suppress(MemoryError):  # SAG takes half as much
            method = DualHybrid(*task, tol=tol, **{name: options[name] for name in names})
    if method is None:
        method = Hybrid(*task, tol=tol, saga=False, **options)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


def _suits_dual(problem, shapes, options):
    """Whether OEG is to begin; who chooses how SAG samples or searches has SAG."""
    is_sparse = isinstance(getattr(problem, "nodes", None), SparseFeatures)
    is_plain = options["start"] is None and options["skipping"] and not options["uniform"]
    return is_sparse and is_plain and math.prod(shapes[0]) >= _MANY


def proximal_hybrid(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    l1_ratio: float,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
    **options,
) -> Result:
    """Minimise ``lam2/2 |w|^2 + lam1 |w|_1 + (1/n) sum_i s_i loss_i(w)`` by SAG, then by OWL-QN."""
    require_smooth(options["loss"], "SAG")
    task = problem, shapes, sample_weight, (1.0 - l1_ratio) * lam, n_jobs
    method = ProximalHybrid(*task, tol=tol, l1=l1_ratio * lam, saga=False, **options)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class Hybrid(Method):
    """SAG, or what subclasses begin with, then L-BFGS: the present one is asked.

    When to change depends on passes and gaps, never on clocks: a seed gives the same weights.
    """

    def __init__(self, *task, tol, **options):
        #: The method of the first epochs; None from where L-BFGS goes on.
        self._early = self._make_early(*task, **options)
        self._now = self._early
        super().__init__(*task)
        self._tol = max(tol, _LEAST_TOL)
        self._gaps = []
        #: Cost of an iteration of L-BFGS, in passes.
        self._cost = 1.0
        self._before = 0.0, 0.0

    def _make_early(self, *task, **options):
        return SAG(*task, **options)

    def _make_late(self, task):
        """L-BFGS, from the weights so far and with their dual point."""
        early, point = self._early, self._early.leave()
        method = QuasiNewton(*task, loss=early.loss, start=early.weights())
        method.take_dual(*point, early.dual)
        method.first_step = self._first_step()
        return method

    def _first_step(self):
        """The length of the first step of L-BFGS: SAG knows the curvature."""
        return 1.0 / (self._early.state.lipschitz.mean() + self.lam)

    def _n_weights(self):
        """Length of the vectors that L-BFGS would work on."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def certificate(self):
        """That of the present method."""
        return self._now.certificate

    @certificate.setter
    def certificate(self, value):
        self._now.certificate = value

    @property
    def stalled(self):
        """Whether the present method is."""
        return self._now.stalled

    @stalled.setter
    def stalled(self, value):
        self._now.stalled = value

    def compile(self):
        """Compile the early method; L-BFGS where it is needed."""
        self._early.compile()

    def begin(self, progress):
        """That of the early method."""
        self._early.begin(progress)

    def epoch(self, k, rng, progress):
        """One of the present method."""
        if self._early is not None:
            share = self._n_weights() / max(int(self.problem.part_ptr[-1]), 1)
            self._cost = 1.0 + _VECTORS * share
            if self._is_slow():
                self._change(progress)
        self._now.epoch(k, rng, progress)
        if self._early is not None:
            self._gaps.append(self._early.stored_gap)

    def _is_slow(self):
        """Whether the early method, as its gap falls, needs more passes than L-BFGS may."""
        k = len(self._gaps)
        if k < _FIRST:
            return False
        span = max(5, k // 3)
        gap, before = self._gaps[-1], self._gaps[-1 - span]
        if not gap > self._tol:
            return False
        missing, rate = np.log(gap / self._tol), np.log(before / gap) / span
        return not rate * self._cost * (_ITERATIONS + _MORE * missing) > missing

    def _change(self, progress):
        """Go on by L-BFGS."""
        self._before = self._early.work()
        task = self.problem, self.shapes, self.sample_weight, self.lam, self.n_jobs
        method = self._make_late(task)
        self._now, self._early = method, None  # and its memory is free
        with progress.paused():
            method.compile()
        method.begin(progress)

    def due(self, k, tol):
        """Where the present method says so."""
        return self._now.due(k, tol)

    def certify(self):
        """Measure the present weights."""
        self._now.certify()

    def work(self):
        """That of both."""
        return tuple(map(sum, zip(self._before, self._now.work(), strict=True)))

    def entry(self):
        """The fields of the history."""
        return self._now.entry()

    def weights(self):
        """The present weights."""
        return self._now.weights()

    def remedy(self):
        """What to do where the tolerance was not reached."""
        # The early method alone would advise what is running already.
        return REMEDY if self._early is not None else self._now.remedy()


class DualHybrid(Hybrid):
    """OEG, then L-BFGS."""

    def _make_early(self, *task, **options):
        return OEG(*task, **options)

    def _first_step(self):
        return None  # it knows no curvature


class ProximalHybrid(Hybrid):
    """Proximal SAG, then OWL-QN, both on the rows that matter; ``lam`` is lam2."""

    def _make_early(self, *task, **options):
        return ProximalSAG(*task, **options)

    def _n_weights(self):
        tables = zip(self._early.w.tables, self.shapes, strict=True)
        return sum(table.shape[0] * shape[1] for table, shape in tables)

    def _make_late(self, task):
        sag = self._early
        options = {"loss": sag.loss, "start": sag.weights(), "l1": sag.l1}
        first_step = self._first_step()
        if reducible(self.problem):
            return SparseOrthantWise(*task, dual=sag.dual, first_step=first_step, **options)
        method = OrthantWise(*task, **options)
        method.dual, method.first_step = sag.dual, first_step
        return method

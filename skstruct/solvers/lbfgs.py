"""L-BFGS (SciPy) on a smooth loss: the deterministic reference solver.

It does not use :func:`skstruct.solvers.run.run`: SciPy has a loop of its own and calls back, so its
passes could be the loop's only in another thread. Clock, records and result are the same.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from ..core.pieces import Pieces
from ..core.threads import make_scratch
from ..core.weights import flatten, view_flat, zero_weights
from ..losses.verbs import ROUNDING, is_convex, least_term, private_loss, require_smooth
from .batch import sum_over_samples
from .certificate import DualMixture, certify, stationarity
from .primal import loss_gradient
from .progress import REMEDY, Progress, Result

_RESOLVED = "floating point resolves no more: increase tol, or scale the features"


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
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by L-BFGS.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser, positive.
    loss : NamedTuple
        A smooth loss, see :mod:`skstruct.losses.verbs`. One that is not convex has no dual bound.
    start : Weights, optional
        Where to start.
    max_iter : int
        Largest number of iterations.
    tol : float
        Relative duality gap to reach; of a loss that is not convex ``|P'|^2 / (2 lam P)``.
    n_jobs : int or None
        Threads that share a batch gradient: the weights are the same for any number, bit for bit.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The weights and the history.

    Raises
    ------
    FloatingPointError
        If the objective or its gradient is not finite.
    TypeError
        If the loss is not smooth.
    """
    require_smooth(loss, "L-BFGS")
    # A number that overflows is refused by its certificate. BLAS threads wait for each other in
    # SciPy's short vector operations, most of all where another process has the cores.
    with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(1, user_api="blas"):
        arguments = loss, problem, shapes, sample_weight, lam, tol, n_jobs, after_epoch
        objective = _Objective(*arguments)
        objective.accepted = flatten(zero_weights(shapes) if start is None else start)
        resolved = False
        try:
            found = minimize(
                objective,
                objective.accepted,
                method="L-BFGS-B",
                jac=True,
                callback=objective.callback,
                options={
                    "maxiter": max_iter,
                    "gtol": 0.0,
                    "ftol": 0.0,
                    "maxls": 50,
                    "maxfun": 15 * max_iter + 100,
                },
            )
            objective.accepted, resolved = found.x, found.status in (0, 2)
        except _StoppedInPass:
            pass
        return objective.result(resolved)


class _StoppedInPass(Exception):
    """A callback ended the run in the middle of a gradient."""


class _Objective:
    """Value and gradient for SciPy, on flat weights, and its callback."""

    def __init__(self, loss, problem, shapes, sample_weight, lam, tol, n_jobs, after_epoch):
        self.loss, self.problem, self.shapes = loss, problem, shapes
        self.sample_weight, self.lam, self.tol = sample_weight, lam, tol
        self.n_jobs, self.is_convex = n_jobs, is_convex(loss)
        self.n = sample_weight.size
        self.n_calls = 0
        #: The last iterate; the gradient, its norm and so on are of the last point evaluated.
        self.accepted = None
        self._evaluated = None
        self._out = np.zeros((2, self.n))
        self._mixture, self._dual = DualMixture(lam, zero_weights(shapes)), 0.0
        self.progress = Progress(self.n, after_epoch, "dual_gap", "dual_objective")
        w = zero_weights(shapes)
        self._visit(problem, w)(0, 0, w)  # compiles outside the clock
        self.progress.start()

    def tables(self, flat):
        return view_flat(flat, self.shapes)

    def _visit(self, part, w):
        """What one thread does with a range of samples."""
        scratch = make_scratch(part)
        own = private_loss(self.loss), part, w, self.sample_weight
        augmented = np.empty_like(scratch.theta)

        def visit(first, last, gradient):
            loss_gradient(*own, first, last, scratch, augmented, gradient, self._out)

        return visit

    def __call__(self, flat, pieces=None):
        """Value and gradient at `flat`; what they say of the optimum is kept."""
        pieces = self.progress.pieces if pieces is None else pieces
        w, direction = self.tables(np.ascontiguousarray(flat)), np.zeros_like(flat)
        visit, gradient = (lambda part: self._visit(part, w)), self.tables(direction)
        sum_over_samples(visit, self.problem, gradient, self.n_jobs, pieces)
        direction /= self.n
        if pieces.stopped:
            raise _StoppedInPass
        self.n_calls += 1
        loss, magnitude = self._out @ self.sample_weight / self.n
        value, gradient = 0.5 * self.lam * float(flat @ flat) + loss, self.lam * flat + direction
        term = loss - float(flat @ direction) - ROUNDING * magnitude
        squared = float(gradient @ gradient)
        if self.is_convex and np.isfinite(value) and np.isfinite(squared):
            self._mixture.offer(max(term, least_term(self.loss)), self.tables(direction).tables)
            self._dual = max(self._dual, self._mixture.value)
        self._evaluated = np.array(flat), value, squared, magnitude
        return value, gradient

    def certificate(self):
        """Of the last iterate."""
        # SciPy calls back right after the evaluation of the point that it accepts.
        if self._evaluated is None or not np.array_equal(self._evaluated[0], self.accepted):
            self(self.accepted, Pieces())
        _, value, squared, magnitude = self._evaluated
        if not self.is_convex:
            return stationarity(value, squared, self.lam)
        return certify(value, squared, self.lam, self._dual, magnitude)

    def _record(self):
        flat, certificate = np.array(self.accepted), self.certificate()
        work = self.n_calls * self.n, 0
        self.progress.record(*work, weights=self.tables(flat).copy, **certificate.record)
        return certificate

    def callback(self, intermediate_result):
        self.accepted = np.array(intermediate_result.x)
        if self._record().relative <= self.tol or self.progress.stopped:
            raise StopIteration

    def result(self, resolved):
        """The end of the run; `resolved` if its last line search could gain nothing more."""
        if not self.progress.history()["passes"].size:  # the start is the end
            self._record()
        n_calls, certificate = self.n_calls, self.certificate()
        if self.n_calls > n_calls:
            self.progress.amend(self.n_calls * self.n, 0)
        remedy, reached = _RESOLVED if resolved else REMEDY, certificate.relative <= self.tol
        weights = self.tables(self.accepted).copy()
        return self.progress.result(certificate, weights, reached, remedy=remedy)

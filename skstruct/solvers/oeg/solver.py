"""Online exponentiated gradient on a smooth loss: passes, dual objective, certificates."""

from __future__ import annotations

import numpy as np

from ...core.memory import check_memory
from ...core.pieces import Pieces
from ...core.weights import Weights, aligned, padded_width, squared_norm
from ...losses.verbs import least_term, require_smooth
from ..batch import BatchGradient
from ..certificate import certify
from ..primal import compile_losses, objective_value
from ..progress import Result
from ..run import Method, run
from ..sag.precision import takes_single
from ..workers import Worker
from .kernels import (
    N_ORACLE,
    N_TOTALS,
    SCORE,
    OEGOptions,
    OEGState,
    oeg_pass,
    sum_residuals,
)

_NO_ORDER = np.empty(0, dtype=np.int64)
_TINY = float(np.finfo(np.float64).tiny)
_FIRST_SCORE, _FIRST_RATE = 7.0, 0.9
# An epoch visits samples once more for each of these shares of the mean divergence that theirs
# exceeds; those below the first every third epoch.
_SHARES, _MOST_IDLE = (0.5, 2.0, 5.0, 10.0, 20.0, 40.0), 2
# Relative gaps: estimates of small divergences mislead before, single precision does not show.
_ROUGH, _CLOSE = 0.2, 1e-4


def oeg(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    loss,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    precision: str = "auto",
    track_objective: bool = False,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by online exponentiated gradient.

    Collins, Globerson, Koo, Carreras, Bartlett 2008, Exponentiated Gradient Algorithms for
    Conditional Random Fields and Max-Margin Markov Networks, figure 4 and section 7.
    """
    require_smooth(loss, "OEG")
    single = takes_single(precision, shapes, max_iter)
    task = problem, shapes, sample_weight, lam, n_jobs
    method = OEG(*task, loss=loss, single=single, track_objective=track_objective)
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


def _new_state(problem):
    n, n_parts = problem.part_ptr.size - 1, int(problem.part_ptr[-1])
    n_bytes = 16 * n_parts
    check_memory(n_bytes, "the potentials and mixtures of OEG", 'use solver="lbfgs"')
    return OEGState(
        phi=np.zeros(n_parts),
        residuals=np.zeros(n_parts),
        terms=np.zeros(n),
        rates=np.zeros(n),
        divergences=np.full(n, np.inf),
        totals=np.zeros(N_TOTALS),
    )


def _padded_weights(shapes):
    """Plain weights of zeros whose rows are whole cache lines."""
    tables = []
    for rows, width in shapes:
        columns = padded_width(width)
        tables.append(aligned(rows * columns).reshape(rows, columns))
    return Weights(*tables)


class OEG(Method):
    """Weights, the dual point behind them, and what is asked of them."""

    def __init__(self, *task, loss, single=False, track_objective=False):
        super().__init__(*task)
        self.loss, self._single, self.track_objective = loss, single, track_objective
        self.w, self.state = _padded_weights(self.shapes), _new_state(self.problem)
        inverse = 1.0 / (self.lam * self.n)
        self._options = OEGOptions(inverse, _FIRST_RATE, 0.0, least_term(loss))
        self.state.totals[SCORE] = _FIRST_SCORE
        self._worker = Worker(self.loss, self.problem, 0, 1)
        self._gradients = BatchGradient(self.loss, self.problem, self.sample_weight, self.n_jobs)
        #: The best lower bound on the optimum so far.
        self.dual = 0.0
        self._half_norm, self._estimated = 0.0, np.inf
        self._epoch = self._measured = 0
        # What a measured gap was of its estimate; the epoch from which to measure again.
        self._ratio, self._next = 0.8, 1
        self._idle = np.zeros(self.n, dtype=np.int64)

    def compile(self):
        """Compile outside the clock."""
        self._steps(_NO_ORDER)
        self._sum(self.w)
        self._gradients.compile(self.shapes)
        if self.track_objective:
            compile_losses(self.loss, self.problem, self.w)

    def epoch(self, k, rng, progress):
        """Steps at all samples, from the second epoch on where there is something to gain."""
        self._epoch = k
        if self._single and not self.w.single.size:
            node = self.w.node.astype(np.float32)
            self.w = self.w._replace(node=self.w.node[:0], single=node)
        order = self._choose(rng)
        for first, last in progress.pieces.visits(order.size):
            self._steps(order[first:last])
        dual = self._dual_objective()
        self._estimated = self._estimate(dual)
        if self.w.single.size:
            if self._estimated <= _CLOSE:
                self._end_single()
        else:
            self.dual = max(self.dual, dual)

    def _choose(self, rng):
        """Visits in random order: more of samples whose mixtures are far from the weights'."""
        left = self.sample_weight * self.state.divergences
        if not np.isfinite(left).all():
            return rng.permutation(self.n)
        little, *more = np.array(_SHARES) * left.mean()
        measured = little if self._estimated > _ROUGH else 0.0
        self._options = self._options._replace(little=measured)
        is_due = (left >= little) | (self._idle >= _MOST_IDLE)
        self._idle += 1
        self._idle[is_due] = 0
        times = is_due.astype(np.int64)
        for much in more:
            times += left >= much
        return rng.permutation(np.repeat(np.arange(self.n), times))

    def _steps(self, order):
        task = self.w, self.sample_weight, self._options, self.state, order
        oeg_pass(self.loss, self.problem, *task, *self._worker.scratch)

    def _sum(self, w, stop=0):
        task = self.sample_weight, self._options.inverse, self.state.residuals
        for cut in Pieces().visits(stop):
            sum_residuals(self.problem, *task, *cut, w)

    def _end_single(self):
        """The exact weights of the dual point, in double precision."""
        if self.w.single.size:
            self.w = _padded_weights(self.shapes)
            self._sum(self.w, self.n)
            self.dual = max(self.dual, self._dual_objective())

    def _dual_objective(self):
        squared = (np.einsum("ij,ij->", t, t, dtype=np.float64) for t in self.w.tables)
        self._half_norm = 0.5 * self.lam * float(sum(squared))
        dual = float(self.state.terms @ self.sample_weight) / self.n - self._half_norm
        if not np.isfinite(dual):
            raise FloatingPointError(
                f"the dual objective is {dual}: scale the features (sklearn.preprocessing), or "
                "lower C"
            )
        return dual

    def _estimate(self, dual):
        """Relative gap as the last visits let expect."""
        gap = float(self.state.divergences @ self.sample_weight) / self.n
        return gap / max(dual + gap, _TINY) if gap < np.inf else np.inf

    @property
    def stored_gap(self):
        """The relative gap as the last visits let expect."""
        return self._estimated

    def leave(self):
        """End the run: the dual point, its term and its direction."""
        self._end_single()
        weights = self.weights()
        directions = [-self.lam * table.ravel() for table in weights.tables]
        return float(self.state.terms @ self.sample_weight) / self.n, directions

    def due(self, k, tol):
        """Where the estimate promises the tolerance."""
        return k >= self._next and self._ratio * self._estimated <= tol

    def certify(self):
        """Certify the present weights, by a pass of its own."""
        if self._estimated <= _CLOSE:
            self._single = False
        self._end_single()
        gradient, out = _padded_weights(self.shapes), np.zeros((2, self.n))
        for table, w in zip(gradient.tables, self.w.tables, strict=True):
            np.multiply(w, self.lam * self.n, out=table)
        self._gradients.add(self.w, gradient, out, Pieces())
        self._measured += 1
        loss, magnitude = out @ self.sample_weight / self.n
        objective, magnitude = self._half_norm + float(loss), float(magnitude) + self._half_norm
        task = objective, squared_norm(gradient) / self.n**2, self.lam, self.dual, magnitude
        self.certificate = certify(*task)
        self.dual = max(self.dual, self.certificate.dual_objective)
        if 0.0 < self._estimated < np.inf:
            self._ratio = min(max(self.certificate.relative / self._estimated, 0.1), 10.0)
        self._next = self._epoch + max(2, (self._epoch - 1) // 8)

    def work(self):
        """Oracle calls."""
        return float(self.state.totals[N_ORACLE]) + self.n * self._measured, 0.0

    def entry(self):
        """The dual bound is known after every epoch."""
        objective = np.nan
        if self.certificate is not None:
            objective = self.certificate.objective
        elif self.track_objective:
            present = self.loss, self.problem, self.weights(), self.sample_weight, self.lam
            objective = objective_value(*present, self.n_jobs).objective
        gap = max(objective - self.dual, 0.0)
        return {"objective": objective, "dual_gap": gap, "dual_objective": self.dual}

    def weights(self):
        """The weights without their padding."""
        tables = zip(self.w.tables, self.shapes, strict=True)
        return Weights(*(table[:, :width].astype(np.float64) for table, (_, width) in tables))

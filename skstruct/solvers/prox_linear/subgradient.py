"""Stochastic subgradients through a score map: the baseline of prox-linear."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..progress import Result
from ..run import run
from .mapped import Linearised, MappedProblem, MapWeights
from .solver import MappedMethod

_PATIENCE = 5
# Share of the step that would bring a linear loss to 0, and how many batches are asked.
_CAREFUL, _ASKED = 0.1, 8


class SubgradientOptions(NamedTuple):
    """Choices of a run."""

    # The learning rate after t passes: ``rate``, ``rate / (1 + t)`` or ``rate / sqrt(1 + t)``.
    schedule: str
    # The first rate; None for a tenth of the step that would bring a linear loss to 0.
    rate: float | None
    # Samples of a step.
    batch_size: int


class Improvement(NamedTuple):
    """What is known of weights."""

    # The objective, and the smallest seen.
    objective: float
    best: float
    # Improvement of the best over the last passes.
    relative: float

    measure = f"relative improvement over {_PATIENCE} passes"

    @property
    def record(self):
        """Its field of the history."""
        return {"objective": self.objective}

    @property
    def published(self):
        """The attribute that it gives an estimator."""
        return {"objective_": self.best}


def mapped_subgradient(
    mapped: MappedProblem,
    sample_weight: np.ndarray,
    lam: float,
    options: SubgradientOptions,
    *,
    target,
    start: MapWeights,
    cone=None,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(scores_i(w))`` by stochastic subgradients.

    Davis, Drusvyatskiy 2018, Stochastic model-based minimization of weakly convex functions; the
    schedules are those of the experiments of Pillutla et al. 2018.
    """
    method = _Subgradient(mapped, sample_weight, lam, n_jobs, target, options, start, cone)
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class _Subgradient(MappedMethod):
    """One run."""

    fields = ("learning_rate",)

    def __init__(self, mapped, sample_weight, lam, n_jobs, target, options, start, cone):
        super().__init__(mapped, sample_weight, lam, n_jobs, target, target, start, cone)
        self.options, self.trail, self.rate = options, [], options.rate
        self._now = np.nan

    def begin(self, progress):
        """What the start is worth: no fit ends worse."""
        objective = self.losses.objective(self.target, self._scores(), self.vector, self.lam)
        self.best = objective, self.vector

    @np.errstate(over="ignore", invalid="ignore")  # A number that overflows is refused.
    def _scores(self):
        return Linearised(self.mapped, self.losses.params_of(self.vector)).all().scores

    @np.errstate(over="ignore", invalid="ignore")  # A number that overflows is refused.
    def _gradient(self, batch):
        """Of the mean loss of a batch, a subgradient."""
        here = self._linearised(batch)
        found = self.losses.at_batch(batch, here.scores, self.vector)
        if found is None:
            self.losses.refuse_overflow(here.scores, batch.rows)
            raise FloatingPointError("the weights are not finite: lower learning_rate")
        rows, tail = found
        return np.concatenate([here.vjp(rows), tail]) * batch.scale

    def _linearised(self, batch):
        mapped = self.mapped
        if mapped.score_map.rowwise:
            part = mapped._replace(rows=mapped.rows[batch.rows])
        else:
            lengths = np.diff(mapped.row_ptr)[batch.samples]
            ptr = np.append(0, np.cumsum(lengths))
            part = mapped._replace(rows=mapped.rows[batch.rows], row_ptr=ptr)
        return Linearised(part, self.losses.params_of(self.vector)).all()

    def _first_rate(self, batches):
        """From the gradients of a few batches."""
        steps = []
        for batch in batches[:_ASKED]:
            gradient = self._gradient(batch)
            squared = float(gradient @ gradient)
            if squared > 0.0:
                steps.append(self.losses.batch_loss(batch) / squared)
        return _CAREFUL * float(np.median(steps)) if steps else 1.0

    def epoch(self, k, rng, progress):
        """One pass."""
        batches = self.losses.draw_batches(rng, self.options.batch_size)
        if self.rate is None:
            self.rate = self._first_rate(batches)
        falls = {"constant": 0.0, "inverse": 1.0, "sqrt": 0.5}[self.options.schedule]
        for first, last in progress.pieces.ranges(0, len(batches)):
            for b in range(first, last):
                passes = k - 1 + b / len(batches)
                self._now = self.rate / (1.0 + passes) ** falls
                step = self._gradient(batches[b])
                step += self.lam * self.vector
                step *= self._now
                self.vector = self.vector - step
                self.settle(self.vector)

    def certify(self):
        """Objective of the present weights."""
        objective = self.losses.objective(self.target, self._scores(), self.vector, self.lam)
        if objective < self.best[0]:
            self.best = objective, self.vector
        self.trail.append(self.best[0])
        improvement = np.inf
        if len(self.trail) > _PATIENCE:
            last = self.trail[-1]
            improvement = self.trail[-1 - _PATIENCE] / last - 1.0 if last > 0 else 0.0
        self.certificate = Improvement(objective, self.best[0], improvement)

    def reached(self, tol):
        """Whether nothing has improved; with a tolerance of 0 all passes are run."""
        return tol > 0.0 and super().reached(tol)

    def entry(self):
        """Objective and rate."""
        return self.certificate.record | {"learning_rate": self._now}

    def published(self):
        """Count."""
        return {"n_oracle_calls_": self.losses.n_calls}

"""Stochastic subgradient descent on any loss: Pegasos and SGD with decaying rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.cone import make_cone, project_rows, settle
from ..core.dispatch import kernel
from ..core.oracles import accumulate, potentials
from ..core.threads import make_scratch
from ..core.weights import decay_and_step, lazy_weights, plain_weights, zero_weights
from ..losses.verbs import loss_oracle
from .primal import Best, compile_losses, objective_value
from .progress import Result
from .run import Method, run

_PATIENCE = 5
_ADVICE = "are the features scaled, is the learning rate too large?"


@kernel
def sgd_pass(loss, problem, w, cone, sample_weight, lam, schedule, average, order, buffers, labels):
    """Stochastic subgradient steps, with the weighted average of the iterates beside them.

    With weights c_t the sum of the iterates is ``average[1] v - d``, since each change of ``v``
    misses the earlier ones.
    """
    theta, r, augmented = buffers[0], buffers[1], buffers[2]
    for step in range(order.shape[0]):
        i = order[step]
        average[0] += 1.0
        t = average[0]
        rate = 1.0 / (lam * (t + 1.0))
        if schedule[1] > 0.0:
            rate = schedule[0] / (1.0 + np.floor(t / schedule[1]))
        elif schedule[1] < 0.0:
            rate = schedule[0] / np.sqrt(1.0 - t / schedule[1])
        potentials(problem, i, w, theta)
        loss_oracle(loss, problem, i, theta, labels, r, augmented)
        rho = max(1.0 - rate * lam, 1e-3)
        scale = rho * w.scale[0]
        decay_and_step(w, rho, 0.0)
        if w.scale[0] != scale:  # folded
            average[1] /= scale
        change = -rate * sample_weight[i]
        missed = average[1] / w.scale[0]
        accumulate(problem, i, r, (change, missed * change), w)
        project_rows(cone, w, missed, 0)
        share = t if schedule[1] >= 0.0 else t * t * t
        average[1] += share * w.scale[0]
        average[2] += share


def sgd(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    loss,
    start=None,
    cone=None,
    rate: float = 0.0,
    period: float = 0.0,
    averaging: bool = True,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by stochastic subgradients.

    Shalev-Shwartz et al. 2011, Pegasos; Lacoste-Julien et al. 2013, section 5 (weighted averages).
    """
    method = _SGD(
        problem,
        shapes,
        sample_weight,
        lam,
        n_jobs,
        loss=loss,
        start=start,
        cone=cone,
        rate=rate,
        period=period,
        averaging=averaging,
    )
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class _Improvement(NamedTuple):
    """What is known of weights without a dual bound."""

    objective: float
    best: float
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


class _SGD(Method):
    """Weights and averages of one run."""

    fields = ()

    def __init__(self, *task, loss, start, cone, rate, period, averaging):
        super().__init__(*task)
        self.loss, self.averaging = loss, averaging
        self.w = lazy_weights(zero_weights(self.shapes) if start is None else start)
        self.cone = make_cone(cone, self.shapes[1][0])
        settle(self.cone, self.w)  # what another fit has left may lie outside
        self.average, self.value = np.zeros(3), None
        self.best, self.trail = Best(), []
        self._schedule = (float(rate), float(period * self.n))
        scratch = make_scratch(self.problem)
        self._scratch = np.empty((3, scratch.theta.size)), scratch.labels

    def compile(self):
        """Compile outside the clock."""
        self._visit(np.empty(0, dtype=np.int64))
        compile_losses(self.loss, self.problem, self.w)

    def _visit(self, order):
        task = self.loss, self.problem, self.w, self.cone, self.sample_weight, self.lam
        sgd_pass(*task, self._schedule, self.average, order, *self._scratch)

    def epoch(self, k, rng, progress):
        """As many steps as there are samples."""
        order = rng.integers(self.n, size=self.n)
        for first, last in progress.pieces.ranges(0, self.n):
            self._visit(order[first:last])

    def certify(self):
        """Objective of the average, or of the last iterate."""
        w, average = self.w, self.average
        scale = w.scale.copy()
        if self.averaging:
            w.scale[:] = average[1] / average[2], -1.0 / average[2]
        self.value = plain_weights(w, self.shapes)
        w.scale[:] = scale
        settle(self.cone, self.value)  # of an average, what rounding has moved out
        present = self.loss, self.problem, self.value, self.sample_weight, self.lam, self.n_jobs
        objective = objective_value(*present, advice=_ADVICE).objective
        self.best.offer(objective, self.value)
        self.trail.append(self.best.objective)
        improvement = _improvement(self.trail)
        self.certificate = _Improvement(objective, self.best.objective, improvement)

    def reached(self, tol):
        """With a tolerance of 0 never: some passes improve nothing, and later ones do."""
        return tol > 0.0 and super().reached(tol)

    def work(self):
        """Every visit is a call and a step."""
        return self.average[0], 0.0

    def weights(self):
        """Those of the last objective."""
        return self.value.copy()

    def solution(self):
        """The best ones seen."""
        return self.best.weights

    def published(self):
        """Count."""
        return {"n_oracle_calls_": int(self.average[0])}


def _improvement(trail):
    """Of the best objective over the last passes, relative; inf before there are as many."""
    if len(trail) <= _PATIENCE:
        return np.inf
    return trail[-1 - _PATIENCE] / trail[-1] - 1.0 if trail[-1] > 0 else 0.0

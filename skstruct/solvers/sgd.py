"""Stochastic subgradient descent on any loss: Pegasos and SGD with decaying rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.cone import make_cone, project_rows, settle
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import accumulate, potentials
from ..core.parallel import Pieces, make_scratch
from ..core.weights import (
    Weights,
    decay_and_step,
    halves,
    lazy_weights,
    plain_weights,
    zero_weights,
)
from ..losses.verbs import loss_oracle
from .primal import Best, Uncertified, objective_value
from .run import Method

_PATIENCE = 5
_ADVICE = "are the features scaled, is the learning rate too large?"


@solver_kernel
def sgd_pass(loss, problem, w, cone, sample_weight, lam, schedule, average, order, buffers, labels):
    """Stochastic subgradient steps, and the average of the iterates: ``average[1] v - d``."""
    # Each change of `v` misses the earlier iterates: `d` has them.
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


def _mean(w, average, shapes, cone):
    """The weighted mean of the iterates."""
    scale = w.scale.copy()
    w.scale[:] = average[1] / average[2], -1.0 / average[2]
    mean = plain_weights(w, shapes)
    w.scale[:] = scale
    settle(cone, mean)  # rounding may have moved it out
    return mean


class SGD(Method):
    """Stochastic subgradients: Pegasos (Shalev-Shwartz et al. 2011), or weighted averages."""

    fields = ()

    def __init__(self, *task, loss, start=None, cone=None, rate=0.0, period=0.0, averaging=True):
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
        if self.averaging:
            self.value = _mean(self.w, self.average, self.shapes, self.cone)
        else:
            self.value = plain_weights(self.w, self.shapes)
            settle(self.cone, self.value)
        present = self.loss, self.problem, self.value, self.sample_weight, self.lam, self.n_jobs
        objective = objective_value(*present, advice=_ADVICE).objective
        self.best.offer(objective, self.value)
        self.trail.append(self.best.objective)
        self.certificate = improvement(objective, self.trail)

    def reached(self, tol):
        """Never with a tolerance of 0: a pass without improvement may precede better ones."""
        return tol > 0.0 and super().reached(tol)

    def work(self):
        """Oracle calls, one per step."""
        return self.average[0], 0.0

    def weights(self):
        """Return the weights of the last objective."""
        return self.value.copy()

    def solution(self):
        """The best ones seen."""
        return self.best.weights

    def published(self):
        """Count."""
        return {"n_oracle_calls_": int(self.average[0])}


def improvement(objective: float, trail: list) -> Uncertified:
    """The relative improvement over the last passes; inf before there are enough."""
    relative = np.inf
    if len(trail) > _PATIENCE:
        relative = trail[-1 - _PATIENCE] / trail[-1] - 1.0 if trail[-1] > 0 else 0.0
    measure = f"relative improvement over {_PATIENCE} passes"
    return Uncertified({"objective": objective}, trail[-1], relative, measure)


# Stochastic subgradients on a stream: one pass over each batch, from where the last one ended.

# Samples on which rates are tried, and steps after which the rate begins to fall.
_TRIED = 500
_FIRST_RATE, _FACTOR, _MOST_TRIES = 0.1, 2.0, 40


class StreamState(NamedTuple):
    """State of a stream."""

    # The weights after the last step.
    iterate: Weights
    # The mean of the weights after all steps, those after step t counted t cubed times.
    mean: Weights
    # Steps so far, which is samples.
    n_steps: int = 0
    # The first learning rate, 0 for one that has to be found.
    rate: float = 0.0
    # Samples on which it was found.
    n_tried: int = 0


def stream_start(shapes) -> StreamState:
    """The state before the first sample."""
    return StreamState(zero_weights(shapes), zero_weights(shapes))


class _Stream(SGD):
    """A batch, and what is minimised on it."""

    def steps(self, state, order, rate):
        """The state after a step for each sample of `order`."""
        self.w, t = lazy_weights(state.iterate), float(state.n_steps)
        # The kernel keeps the sum of the iterates as a multiple of v, now none, less d.
        self.average[:] = t, 0.0, (t * (t + 1.0) / 2.0) ** 2
        for (_, d), mean in zip(halves(self.w, self.shapes), state.mean.tables, strict=True):
            np.multiply(mean, -self.average[2], out=d)
        self._schedule = float(rate), -float(_TRIED)
        for first, last in Pieces().ranges(0, order.size):
            self._visit(order[first:last])
        mean = _mean(self.w, self.average, self.shapes, self.cone)
        iterate = plain_weights(self.w, self.shapes)
        return state._replace(iterate=iterate, mean=mean, n_steps=int(self.average[0]))

    def largest_rate(self, state):
        """The rate 4 C: above it weights shrink so much in a pass that their mean loses digits."""
        return 4.0 / (self.lam * (state.n_steps + self.sample_weight.size))

    def objective_after(self, state, order, rate):
        """The objective of the mean after a pass, over the samples of the pass; inf for none."""
        weight = np.zeros_like(self.sample_weight)
        weight[order] = self.sample_weight[order] * (weight.size / order.size)
        try:
            mean = self.steps(state, order, rate).mean
            arguments = self.problem, mean, weight, self.lam, self.n_jobs
            return objective_value(self.loss, *arguments).objective
        except FloatingPointError:
            return np.inf

    def find_rate(self, state, order):
        """The rate, among those a factor of two apart, after which the objective is smallest."""
        rate, most = state.rate or _FIRST_RATE, self.largest_rate(state)
        while rate > most:
            rate /= _FACTOR
        best = self.objective_after(state, order, rate)
        for factor in (_FACTOR, 1.0 / _FACTOR):
            start = rate
            for _ in range(_MOST_TRIES):
                if rate * factor > most:
                    break
                value = self.objective_after(state, order, rate * factor)
                if not (value < best or value == best == np.inf):
                    break
                rate, best = rate * factor, value
            if rate != start and np.isfinite(best):
                break
        if not np.isfinite(best):
            raise FloatingPointError(
                "the objective overflows at any rate: are the features scaled?"
            )
        return rate


def stream_pass(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    state: StreamState,
    *,
    loss,
    cone=None,
    rate: float | None = None,
    rng: np.random.Generator,
    n_jobs=None,
) -> StreamState:
    """One pass over a batch of a stream: ``w <- w - rate_t (lam w + s_i loss_i'(w))``.

    ``rate_t = rate / sqrt(1 + t / 500)``: Bottou 2012; Bach and Moulines 2013 (means).
    """
    stream = _Stream(problem, shapes, sample_weight, lam, n_jobs, loss=loss, cone=cone)
    for weights in (state.iterate, state.mean):
        settle(stream.cone, weights)
    order = rng.permutation(sample_weight.size)
    if rate is not None:
        state = state._replace(rate=min(float(rate), stream.largest_rate(state)))
    elif state.n_tried < min(order.size, _TRIED):
        found = stream.find_rate(state, order[:_TRIED])
        state = state._replace(rate=found, n_tried=min(order.size, _TRIED))
    after = stream.steps(state, order, state.rate)
    for table in (*after.iterate.tables, *after.mean.tables):
        if not np.isfinite(table).all():
            raise FloatingPointError("the weights overflow: are the features scaled?")
    return after


__all__ = ["StreamState", "stream_pass", "stream_start"]

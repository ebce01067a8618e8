"""Stochastic subgradients on a stream: one pass over each batch, from where the last one ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.cone import make_cone, settle
from ..core.pieces import Pieces
from ..core.threads import make_scratch
from ..core.weights import Weights, halves, lazy_weights, plain_weights, zero_weights
from .primal import objective_value
from .sgd import sgd_pass

# Samples on which rates are tried, and steps after which the rate begins to fall.
_TRIED = 500
_FIRST_RATE, _FACTOR, _MOST_TRIES = 0.1, 2.0, 40


class StreamState(NamedTuple):
    """Where a stream has come to."""

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


class _Pass(NamedTuple):
    """A batch, and what is minimised on it."""

    loss: NamedTuple
    problem: NamedTuple
    shapes: tuple
    sample_weight: np.ndarray
    lam: float
    cone: NamedTuple
    n_jobs: int | None

    def run(self, state, order, rate):
        """The state after a step for each sample of `order`."""
        w, t = lazy_weights(state.iterate), float(state.n_steps)
        # The kernel keeps the sum of the iterates as a multiple of v, now none, less d.
        average = np.array([t, 0.0, (t * (t + 1.0) / 2.0) ** 2])
        for (_, d), mean in zip(halves(w, self.shapes), state.mean.tables, strict=True):
            np.multiply(mean, -average[2], out=d)
        scratch = make_scratch(self.problem)
        buffers = np.empty((3, scratch.theta.size)), scratch.labels
        for first, last in Pieces().ranges(0, order.size):
            sgd_pass(
                self.loss,
                self.problem,
                w,
                self.cone,
                self.sample_weight,
                self.lam,
                (float(rate), -float(_TRIED)),
                average,
                order[first:last],
                *buffers,
            )
        scale = w.scale.copy()
        w.scale[:] = average[1] / average[2], -1.0 / average[2]
        mean = plain_weights(w, self.shapes)
        w.scale[:] = scale
        settle(self.cone, mean)  # what rounding has moved out
        iterate = plain_weights(w, self.shapes)
        return state._replace(iterate=iterate, mean=mean, n_steps=int(average[0]))

    def largest_rate(self, state):
        """4 C: with larger ones the weights shrink so much in a pass that their mean loses digits.

        (The optimum is a sum of gradients of samples with factors of at most C.)
        """
        return 4.0 / (self.lam * (state.n_steps + self.sample_weight.size))

    def objective_after(self, state, order, rate):
        """The objective of the mean after a pass, over the samples of the pass; inf for none."""
        weight = np.zeros_like(self.sample_weight)
        weight[order] = self.sample_weight[order] * (weight.size / order.size)
        try:
            mean = self.run(state, order, rate).mean
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
    """One pass of stochastic subgradients over a batch of a stream.

    The step of sample i, the t-th of the stream, is ``w <- w - rate_t (lam w + s_i loss_i'(w))``
    with ``rate_t = rate / sqrt(1 + t / 500)``.

    Bottou 2012, Stochastic Gradient Descent Tricks (rates tried on a few samples); Bach and
    Moulines 2013, Non-strongly-convex smooth stochastic approximation (falling rates, means).
    """
    cone = make_cone(cone, shapes[1][0])
    for weights in (state.iterate, state.mean):
        settle(cone, weights)
    task = _Pass(loss, problem, shapes, sample_weight, lam, cone, n_jobs)
    order = rng.permutation(sample_weight.size)
    if rate is not None:
        state = state._replace(rate=min(float(rate), task.largest_rate(state)))
    elif state.n_tried < min(order.size, _TRIED):
        found = task.find_rate(state, order[:_TRIED])
        state = state._replace(rate=found, n_tried=min(order.size, _TRIED))
    after = task.run(state, order, state.rate)
    for table in (*after.iterate.tables, *after.mean.tables):
        if not np.isfinite(table).all():
            raise FloatingPointError("the weights overflow: are the features scaled?")
    return after


__all__ = ["StreamState", "stream_pass", "stream_start"]

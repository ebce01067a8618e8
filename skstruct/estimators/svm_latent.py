"""Structural SVMs from partial labels: the latent hinge by the concave-convex procedure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..solvers.run import REMEDY, Result, run
from ..solvers.sgd import SGD

# Passes of stochastic subgradients on the latent hinge before the first round.
_START_PASSES = 10


class _Work(NamedTuple):
    """Work of the rounds so far."""

    passes: float
    oracle_calls: float
    seconds: float


class _Rounds:
    """The joint history of several runs."""

    def __init__(self, after_epoch, n_samples):
        self._after_epoch, self._n = after_epoch, n_samples
        self._before = _Work(0.0, 0.0, 0.0)
        self._histories, self.stopped = [], False
        if hasattr(after_epoch, "after_piece"):
            self.after_piece = after_epoch.after_piece

    def __call__(self, record, weights):
        """Report an epoch with what was done before it."""
        self.stopped |= bool(self._after_epoch(record | self._total(record), weights))
        return self.stopped

    def _total(self, record):
        return {name: record[name] + getattr(self._before, name) for name in _Work._fields}

    def add(self, history=None, n_oracle=0.0):
        """Count a run that has ended, and oracle calls outside of it."""
        work = self._before
        if history is not None:
            history = history | self._total(history)
            self._histories.append(history)
            work = _Work(*(float(history[name][-1]) for name in _Work._fields))
        self._before = work._replace(
            passes=work.passes + n_oracle / self._n, oracle_calls=work.oracle_calls + n_oracle
        )

    def add_start(self, history):
        """Count passes of two oracle calls a sample, which are no epochs."""
        self._before = _Work(
            2 * history["passes"][-1], 2 * history["oracle_calls"][-1], history["seconds"][-1]
        )

    @property
    def n_epochs(self):
        """Number of epochs."""
        return sum(history["passes"].size for history in self._histories)

    @property
    def n_oracle_calls(self):
        """Number of oracle calls, completions included."""
        return int(self._before.oracle_calls)

    def history(self):
        """The joint history, with the round of each entry."""
        sizes = [history["passes"].size for history in self._histories]
        joined = {
            name: np.concatenate([history[name] for history in self._histories])
            for name in self._histories[0]
        }
        return joined | {"round": np.repeat(np.arange(1, len(sizes) + 1), sizes)}


def first_weights(problem, shapes, data, rng, cone):
    """Train weights that complete the labels for the first round."""
    task = problem, shapes, data.sample_weight, data.lam, None
    method = SGD(*task, loss=data.completion.latent_hinge(), cone=cone)
    return run(
        method,
        max_iter=_START_PASSES,
        tol=0.0,
        rng=rng,
        after_epoch=lambda record, weights: False,
    )


def concave_convex(
    solve: Callable,
    carry_over: Callable,
    problem,
    data,
    start: Result | None,
    weights,
    state,
    *,
    max_iter: int,
    tol: float,
    after_epoch,
) -> Result:
    """Alternate between completing the labels and training on them (CCCP)."""
    n = data.sample_weight.size
    rounds = _Rounds(after_epoch, n)
    if start is not None:
        rounds.add_start(start.history)
    codes = data.completion.best(weights)
    rounds.add(n_oracle=n)
    best, decrease, n_rounds, done = None, np.inf, 0, False
    while not done and rounds.n_epochs < max_iter:
        problem = problem._replace(labels=codes)
        result, state = solve(problem, state, max_iter - rounds.n_epochs, rounds)
        n_rounds += 1
        rounds.add(result.history)
        objective = result.published["objective_"]
        if best is not None:
            before = best.published["objective_"]
            decrease = 1.0 - objective / before if before > 0.0 else 0.0
        # Training is exact up to its gap only: a round may gain less than that, or lose.
        if decrease > 0.0:
            best = result
        done = decrease <= tol
        if done or result.stopped:
            break
        after = data.completion.best(result.weights)
        rounds.add(n_oracle=n)
        done = np.array_equal(after, codes)
        if not done:
            state = carry_over(state, problem, after)
        codes = after
    return _joined(best, rounds, n_rounds, decrease, done)


def _joined(best, rounds, n_rounds, decrease, done):
    """The result of all rounds: `best`, and what led to it."""
    published = best.published | {"n_rounds_": n_rounds}
    if "n_oracle_calls_" in published:
        published["n_oracle_calls_"] = rounds.n_oracle_calls
    measure, distance = best.measure, best.distance
    if best.converged and not done:
        measure, distance = "relative decrease of the objective in the last round", decrease
    return best._replace(
        converged=best.converged and done,
        stopped=rounds.stopped,
        published=published,
        measure=measure,
        distance=distance,
        history=rounds.history(),
        remedy=best.remedy if not best.converged else REMEDY,
    )

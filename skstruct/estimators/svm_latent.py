"""Structural SVMs from partial labels: the latent hinge by the concave-convex procedure."""

from __future__ import annotations

import numpy as np

from ..solvers.run import REMEDY, Result, run
from ..solvers.sgd import SGD

# Passes of stochastic subgradients on the latent hinge before the first round.
_START_PASSES = 10

_WORK = "passes", "oracle_calls", "seconds"


class _Rounds:
    """The joint history of several runs."""

    def __init__(self, after_epoch, n_samples):
        self._after_epoch, self._n = after_epoch, n_samples
        #: Passes, oracle calls and seconds before the present run.
        self.before = 0.0, 0.0, 0.0
        self.histories, self.stopped = [], False
        if hasattr(after_epoch, "after_piece"):
            self.after_piece = after_epoch.after_piece

    def __call__(self, record, weights):
        """Report an epoch with what was done before it."""
        self.stopped |= bool(self._after_epoch(self._since_start(record), weights))
        return self.stopped

    def _since_start(self, record):
        totals = zip(_WORK, self.before, strict=True)
        return record | {name: record[name] + before for name, before in totals}

    def add(self, history):
        """Count a run that has ended."""
        self.histories.append(self._since_start(history))
        self.before = tuple(float(self.histories[-1][name][-1]) for name in _WORK)

    def add_completion(self):
        """Count an oracle call a sample, outside of the runs."""
        passes, oracle_calls, seconds = self.before
        self.before = passes + 1.0, oracle_calls + self._n, seconds

    @property
    def n_epochs(self):
        """Number of epochs."""
        return sum(history["passes"].size for history in self.histories)

    def history(self):
        """The joint history, with the round of each entry."""
        sizes = [history["passes"].size for history in self.histories]
        joined = {
            name: np.concatenate([history[name] for history in self.histories])
            for name in self.histories[0]
        }
        return joined | {"round": np.repeat(np.arange(1, len(sizes) + 1), sizes)}


def _first_weights(model, problem, shapes, data):
    """Train weights that complete the labels for the first round."""
    task = problem, shapes, data.sample_weight, data.lam, None
    cone = model.graph_.pair_cone(model.classes_)
    method = SGD(*task, loss=data.completion.latent_hinge(), cone=cone)
    options = {"max_iter": _START_PASSES, "tol": 0.0, "rng": model._generator()}
    return run(method, after_epoch=lambda record, weights: False, **options)


def concave_convex(
    model, problem, shapes, data, start, *, max_iter: int, tol: float, after_epoch
) -> Result:
    """Alternate between completing the labels and training on them (CCCP)."""
    rounds = _Rounds(after_epoch, data.sample_weight.size)
    if start is None:
        first = _first_weights(model, problem, shapes, data)
        start = first.weights
        # These passes, of two oracle calls a sample, are no epochs.
        passes, oracle_calls, seconds = (float(first.history[name][-1]) for name in _WORK)
        rounds.before = 2.0 * passes, 2.0 * oracle_calls, seconds
    codes, state = data.completion.best(start), model._first_state(start)
    rounds.add_completion()
    best, decrease, done = None, np.inf, False
    while not done and rounds.n_epochs < max_iter:
        problem = problem._replace(labels=codes)
        task = problem, shapes, data.sample_weight, data.lam
        options = {"max_iter": max_iter - rounds.n_epochs, "tol": tol, "after_epoch": rounds}
        result, state = model._solve_round(*task, start=state, **options)
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
        rounds.add_completion()
        done = np.array_equal(after, codes)
        if not done:
            state = model._carry_over(state, problem, after)
        codes = after
    return _joined(best, rounds, decrease, done)


def _joined(best, rounds, decrease, done):
    """The result of all rounds: `best`, and what led to it."""
    published = best.published | {"n_rounds_": len(rounds.histories)}
    if "n_oracle_calls_" in published:
        published["n_oracle_calls_"] = int(rounds.before[1])
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

"""Base class of all structural SVMs."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import ClassVar, Literal

import numpy as np

from ..core.oracles import (
    augment,
    exp_oracle,
    has_own_loss,
    loss_augmented_top_k,
    max_oracle,
    require_linear_loss,
    task_loss,
    top_k_oracle,
)
from ..core.sklearn_private import N_JOBS, Interval, StrOptions
from ..distributed.blocks import run_rounds
from ..graphs.base import Graph
from ..graphs.registry import NAMES
from ..losses.task import WeightedLoss, weighted
from ..solvers.run import REMEDY, Result, run
from ..solvers.sgd import SGD
from .base import StructuredEstimator
from .marginals import ProbabilisticPredictor

# Choices of several of them.
Smoothing = Literal["l2", "entropy"]
WarmStart = Literal["prox-center", "extrapolation", "previous"]

CONSTRAINTS = {
    "graph": [StrOptions(NAMES), Graph],
    "C": [Interval(Real, 0, None, closed="neither")],
    "loss": [StrOptions({"hamming", "normalized_hamming", "iou"}), Mapping, "array-like"],
    "class_weight": [None, StrOptions({"balanced"}), Mapping],
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "n_jobs": N_JOBS,
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}


# Methods of models that are distributions over labellings.
_OF_DISTRIBUTIONS = {name for name in vars(ProbabilisticPredictor) if name.startswith("predict_")}


class StructuralSVM(StructuredEstimator):
    """Base of structural SVMs: ``1/2 |w|^2 + C sum_i s_i hinge_i(w)``."""

    def __getattr__(self, name):
        if name in _OF_DISTRIBUTIONS:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: the scores of a structural SVM are not "
                "probabilities; train SAGCRF, or see predict_top_k and decision_function"
            )
        return object.__getattribute__(self, name)

    def _task_loss(self, data):
        """Return the parameter `loss`; of partial labels, allowed labels cost nothing."""
        if data.completion is not None:
            return WeightedLoss(self.loss, data.completion.loss_weights(self.loss))
        return weighted(self.loss, data.loss_weights)

    def _solve_partial(self, *task, **common):
        """Train in rounds, each with the labels that are best at the weights of the one before."""
        return concave_convex(self, *task, **common)

    #: The method that trains on shards, if there is one.
    _blocks = None
    #: Passes over a shard in a round; None for what its messages cost.
    _passes_of_round = None

    def _train_rounds(self, source, engine, shapes, *, start, lam, **common):
        return run_rounds(
            self._blocks,
            self._local(shapes[0][1]),
            *(source, engine, shapes, lam),
            seed=int(self._generator().integers(2**63)),
            gap_every=self.gap_every,
            n_passes=self._passes_of_round,
            **common,
        )

    #: The values of parameters with which it does.
    _on_shards: ClassVar[dict] = {}

    def _refuse_shards(self, shards):
        name = type(self).__name__
        if self._blocks is None:
            raise TypeError(
                f"{name} needs all samples in memory: on shards train BCFWSSVM or GDMMSSVM"
            )
        for parameter, value in self._on_shards.items():
            if getattr(self, parameter) != value:
                raise ValueError(
                    f"{name}.fit(Shards): {parameter} must be {value!r}, got "
                    f"{getattr(self, parameter)!r}"
                )
        # Graphs have their cone with their problem, which workers make.
        if getattr(shards.graph if self.graph == "auto" else self.graph, "attractive", False):
            raise ValueError(
                f"{name}.fit(Shards): interactions cannot be kept attractive in rounds over "
                "shards; use attractive=False"
            )

    def _first_state(self, weights):
        """Return what the first of several rounds starts from: by default weights."""
        return weights

    def _solve_round(self, *task, **common):
        """Train on complete labels; returns the result and what the next round starts from."""
        result = self._solve(*task, **common)
        return result, result.weights

    @staticmethod
    def _carry_over(state, problem, labels):
        """Return what the next round starts from, for its own labels."""
        return state

    def _check_problem(self, problem):
        super()._check_problem(problem)
        needed = [max_oracle, task_loss]
        # The default uses the operation `augment`.
        if not has_own_loss(problem):
            needed.append(augment)
        for verb in needed:
            self._require(verb, problem, "train SAGCRF")
        if getattr(problem.space, "method", None) == "tree-reweighted":
            raise TypeError(
                'inference="tree-reweighted" is for the marginals of SAGCRF: for '
                f'{type(self).__name__} use "auto" or "lp"'
            )

    def _check_smoothing(self, problem, otherwise):
        """Raise a TypeError for a smoothing of the hinge whose operation the structure lacks."""
        if not has_own_loss(problem, loss_augmented_top_k):
            require_linear_loss(problem, f"use {otherwise}")
        elif self.smoothing == "entropy":
            require_linear_loss(problem, f'use smoothing="l2" or {otherwise}')
        by_smoothing = {"entropy": exp_oracle, "l2": top_k_oracle}
        others = [kind for kind, verb in by_smoothing.items() if verb.supports(problem)]
        choices = [f'smoothing="{others[0]}"', otherwise] if others else [otherwise]
        self._require(by_smoothing[self.smoothing], problem, f"use {' or '.join(choices)}")


# Partial labels: the latent hinge by the concave-convex procedure.

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
        """Count one oracle call per sample, outside of the runs."""
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
        problem = problem.with_labels(codes)
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

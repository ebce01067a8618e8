"""Base class of all structural SVMs."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import ClassVar

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
from ..graphs.base import Graph
from ..graphs.registry import NAMES
from ..losses.task import WeightedLoss, weighted
from ..solvers.rounds.blocks import run_rounds
from .base import StructuredEstimator
from .marginals import ProbabilisticPredictor
from .svm_latent import concave_convex

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
        # The default is made of the verb `augment`.
        if not has_own_loss(type(problem)):
            needed.append(augment)
        for verb in needed:
            self._require(verb, problem, "train SAGCRF")
        if getattr(problem, "method", None) == "tree-reweighted":
            raise TypeError(
                'inference="tree-reweighted" is for the marginals of SAGCRF: for '
                f'{type(self).__name__} use "auto" or "lp"'
            )

    def _check_smoothing(self, problem, otherwise):
        """Refuse a smoothing of the hinge that the structure has no verb for."""
        if not has_own_loss(type(problem), loss_augmented_top_k):
            require_linear_loss(problem, f"use {otherwise}")
        elif self.smoothing == "entropy":
            require_linear_loss(problem, f'use smoothing="l2" or {otherwise}')
        by_smoothing = {"entropy": exp_oracle, "l2": top_k_oracle}
        others = [kind for kind, verb in by_smoothing.items() if verb.supports(type(problem))]
        choices = [f'smoothing="{others[0]}"', otherwise] if others else [otherwise]
        self._require(by_smoothing[self.smoothing], problem, f"use {' or '.join(choices)}")

"""What all structural SVMs share."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real

from ..core.oracles import augment, has_own_loss, max_oracle, task_loss
from ..core.sklearn_private import N_JOBS, Interval, StrOptions
from ..graphs.base import Graph
from ..graphs.registry import NAMES
from ..losses.task import WeightedLoss, weighted
from .base import StructuredEstimator
from .marginals import ProbabilisticPredictor
from .svm_latent import concave_convex, first_weights

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


# What models have that are distributions over labellings.
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

    def _solve_partial(self, problem, shapes, data, start, **common):
        """Train in rounds, each with the labels that are best at the weights of the one before."""
        given, tol = None, common["tol"]
        if start is None:
            given = first_weights(
                problem, shapes, data, self._generator(), self.graph_.pair_cone(self.classes_)
            )
            start = given.weights

        def solve(completed, state, max_iter, after_epoch):
            own = {"start": state, "max_iter": max_iter, "tol": tol, "after_epoch": after_epoch}
            return self._solve_round(completed, shapes, data.sample_weight, data.lam, **own)

        state = self._first_state(start)
        own = problem, data, given, start, state
        return concave_convex(solve, self._carry_over, *own, **common)

    #: Whether it trains on shards.
    _works_in_rounds = False

    def _refuse_shards(self):
        if not self._works_in_rounds:
            raise TypeError(
                f"{type(self).__name__} needs all samples in memory: on shards train BCFWSSVM or "
                "GDMMSSVM"
            )

    def _refuse_on_shards(self, **allowed):
        """Refuse values of parameters that training on shards does not support."""
        for name, value in allowed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{type(self).__name__}.fit(Shards): {name} must be {value!r}, got "
                    f"{getattr(self, name)!r}"
                )
        # Graphs have their cone with their problem, which workers make.
        if getattr(self.graph_, "attractive", False):
            raise ValueError(
                f"{type(self).__name__}.fit(Shards): interactions cannot be kept attractive in "
                "rounds over shards; use attractive=False"
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

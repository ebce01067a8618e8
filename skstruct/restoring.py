"""Certificates of other weights than those that a solver ended with."""

from __future__ import annotations

import numpy as np

from .core.pieces import Pieces
from .core.weights import squared_norm, zero_weights
from .losses.hinge import hinge_of
from .solvers.batch import BatchGradient
from .solvers.certificate import certify, certify_pair
from .solvers.primal import objective_value

#: What a solver knows of its last weights only.
_OF_THE_LAST = ("stationarity_",)


class Restoring:
    """Mixin of estimators: what is known of weights from the middle of their training."""

    def _loss_at(self, problem, data):
        """The loss whose mean the objective has; by default the hinge."""
        if data.completion is not None:
            return data.completion.latent_hinge()
        return hinge_of(problem)

    def _penalty(self, lam):
        """Factors of ``|w|^2 / 2`` and ``|w|_1`` in the objective."""
        ratio = float(getattr(self, "l1_ratio", 0.0))
        return (1.0 - ratio) * lam, ratio * lam

    def _mean_loss(self, problem, weights, data):
        """Mean loss at `weights`, and the size of the terms that it is a difference of."""
        loss = self._loss_at(problem, data)
        found = objective_value(loss, problem, weights, data.sample_weight, 0.0, self.n_jobs)
        return found.objective, found.magnitude

    def _certified(self, weights, published, problem, shapes, data):
        """What a result publishes, of other weights of the same run.

        A lower bound on the optimum is one whatever the weights; the rest is measured anew.
        """
        mean, magnitude = self._mean_loss(problem, weights, data)
        l2, l1 = self._penalty(data.lam)
        sizes = sum(np.abs(table).sum() for table in weights.tables) if l1 else 0.0
        norm = sum(float(np.einsum("i,i->", t, t)) for t in map(np.ravel, weights.tables))
        objective = mean + 0.5 * l2 * norm + l1 * float(sizes)
        known = {"objective_": objective}
        dual, squared = published.get("dual_objective_", np.nan), None
        if published.get("gradient_norm_") is not None and "stationarity_" not in published:
            squared = self._squared_gradient(problem, shapes, weights, data, l2, l1)
            known["gradient_norm_"] = float(np.sqrt(squared))
        if np.isfinite(dual) and data.completion is None:
            if squared is None or l1:
                known |= certify_pair(objective, dual, magnitude).published
            else:
                known |= certify(objective, squared, l2, dual, magnitude).published
        elif "dual_objective_" in published:
            known |= dict.fromkeys(("dual_gap_", "dual_objective_", "suboptimality_"), np.nan)
        kept = {name: value for name, value in published.items() if name not in _OF_THE_LAST}
        if "stationarity_" in published:
            kept.pop("gradient_norm_", None)
        return kept | known

    def _squared_gradient(self, problem, shapes, weights, data, l2, l1):
        """Squared norm of the gradient, or of the smallest subgradient under an L1 penalty."""
        loss, weight = self._loss_at(problem, data), data.sample_weight
        out, gradient = np.zeros((2, weight.size)), zero_weights(shapes)
        BatchGradient(loss, problem, weight, self.n_jobs).add(weights, gradient, out, Pieces())
        for g, w in zip(gradient.tables, weights.tables, strict=True):
            g /= weight.size
            g += l2 * w
            if l1:
                at_zero = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
                g[:] = np.where(w == 0.0, at_zero, g + l1 * np.sign(w))
        return squared_norm(gradient)

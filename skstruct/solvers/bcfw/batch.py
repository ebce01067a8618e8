"""Frank-Wolfe on all samples at once: a step towards the best labellings at the same weights."""

from __future__ import annotations

import numpy as np

from ...core.weights import inner_product, squared_norm, zero_weights
from ...losses.hinge import hinge_of
from ...losses.verbs import ROUNDING
from ..batch import BatchGradient
from ..certificate import DualMixture, certify_pair
from ..primal import Best, compile_hinge, hinge_value
from ..run import Method


class BatchFrankWolfe(Method):
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` through its dual.

    The dual point is a mixture of those that the best labellings at each pass are: it is known by
    its weights and its mean task loss, and nothing is stored of a sample.

    Lacoste-Julien et al. 2013, Block-Coordinate Frank-Wolfe Optimization for Structural SVMs,
    Algorithm 2; Boileau, Lamouchi, St-Arnaud 2019, Algorithm 2.
    """

    def __init__(self, *task, line_search=True):
        super().__init__(*task)
        self.line_search, self.n_calls, self.best = line_search, 0, Best()
        self.w, self._gradient = zero_weights(self.shapes), zero_weights(self.shapes)
        self._mixture = DualMixture(self.lam, zero_weights(self.shapes))
        #: The best lower bound on the optimum.
        self.dual, self._out = 0.0, np.zeros((2, self.n))
        task = hinge_of(self.problem), self.problem, self.sample_weight, self.n_jobs
        self._gradients = BatchGradient(*task)

    def compile(self):
        """Compile outside the clock."""
        self._gradients.compile(self.shapes)
        compile_hinge(self.problem, self.w)

    def epoch(self, k, rng, progress):
        """The best labellings at the present weights, which certify them; a step to these."""
        tables = self._gradient.tables
        for table in tables:
            table.fill(0.0)
        self._gradients.add(self.w, self._gradient, self._out, progress.pieces)
        if progress.pieces.stopped:
            return
        self.n_calls += self.n
        for table in tables:
            table /= self.n
        hinge, magnitude = (np.einsum("ki,i->k", self._out, self.sample_weight) / self.n).tolist()
        self.best.offer(0.5 * self.lam * squared_norm(self.w) + hinge, self.w, magnitude)
        task_loss = hinge - inner_product(self.w.tables, tables)
        step = None if self.line_search else 2.0 / (k + 1.0)
        self._mixture.offer(task_loss - ROUNDING * magnitude, tables, step)
        self.w, self.dual = self._mixture.weights, max(self.dual, self._mixture.value)

    def certify(self):
        """Of the best weights and the best bound; the passes have told both."""
        if self.best.weights is None:
            value = hinge_value(self.problem, self.w, self.sample_weight, self.lam, self.n_jobs)
            self.best.offer(value.objective, self.w, value.magnitude)
            self.n_calls += self.n
        magnitude = self.best.magnitude + self._mixture.magnitude
        self.certificate = certify_pair(self.best.objective, self.dual, magnitude)

    def work(self):
        """Oracle calls; nothing else passes over the data."""
        return self.n_calls, 0.0

    def published(self):
        """Counts."""
        return {"n_oracle_calls_": self.n_calls, "n_cached_steps_": 0}

    def weights(self):
        """The last ones."""
        return self.w.copy()

    def solution(self):
        """The best ones seen."""
        return self.best.weights

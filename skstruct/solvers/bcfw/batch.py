"""Frank-Wolfe on all samples at once: a step towards the best labellings at the same weights."""

from __future__ import annotations

import numpy as np

from ...core.weights import inner_product, squared_norm, zero_weights
from ...losses.hinge import hinge_of
from ...losses.verbs import ROUNDING
from ..batch import BatchGradient
from ..certificate import certify_pair
from ..primal import compile_hinge, hinge_value
from ..run import Method


class BatchFrankWolfe(Method):
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` through its dual.

    The dual point is known by its weights and its mean task loss: nothing is stored of a sample.

    Lacoste-Julien et al. 2013, Block-Coordinate Frank-Wolfe Optimization for Structural SVMs,
    Algorithm 2; Boileau, Lamouchi, St-Arnaud 2019, Algorithm 2.
    """

    def __init__(self, *task, line_search=True):
        super().__init__(*task)
        self.line_search, self.n_calls = line_search, 0
        self.w, self._corner = zero_weights(self.shapes), zero_weights(self.shapes)
        self._best, self._loss, self._out = (np.inf, 0.0, None), 0.0, np.zeros((2, self.n))
        #: The lower bound on the optimum.
        self.dual = 0.0
        task = hinge_of(self.problem), self.problem, self.sample_weight, self.n_jobs
        self._gradients = BatchGradient(*task)

    def compile(self):
        """Compile outside the clock."""
        self._gradients.compile(self.shapes)
        compile_hinge(self.problem, self.w)

    def epoch(self, k, rng, progress):
        """The corner that is best at the present weights, which certifies them; a step to it."""
        for table in self._corner.tables:
            table.fill(0.0)
        self._gradients.add(self.w, self._corner, self._out, progress.pieces)
        if progress.pieces.stopped:
            return
        self.n_calls += self.n
        hinge, magnitude = np.einsum("ki,i->k", self._out, self.sample_weight) / self.n
        square, products = squared_norm(self.w), inner_product(self.w.tables, self._corner.tables)
        objective = 0.5 * self.lam * square + float(hinge)
        if objective < self._best[0]:
            self._best = objective, float(magnitude), self.w.copy()
        # In place: the corner's weights less the present ones.
        for corner, now in zip(self._corner.tables, self.w.tables, strict=True):
            corner *= -1.0 / (self.lam * self.n)
            corner -= now
        loss = float(hinge) - products / self.n
        self._step(k, loss - self._loss, square)

    def _step(self, k, gain, square):
        """Move towards the corner, whose task loss is larger by `gain`."""
        slope = gain - self.lam * inner_product(self.w.tables, self._corner.tables)
        curvature = self.lam * squared_norm(self._corner)
        step = 2.0 / (k + 1.0)
        if self.line_search:
            step = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else 0.0
        for now, way in zip(self.w.tables, self._corner.tables, strict=True):
            way *= step
            now += way
        self._loss += step * gain
        square = squared_norm(self.w)
        bound = self._loss - 0.5 * self.lam * square
        # A sum of so many steps is off by their rounding.
        rounding = ROUNDING * (self._loss + self.lam * square + self._best[1])
        self.dual = max(self.dual, bound - rounding)

    def certify(self):
        """Of the best weights and the best bound; the passes have told both."""
        if self._best[2] is None:
            value = hinge_value(self.problem, self.w, self.sample_weight, self.lam, self.n_jobs)
            self._best = value.objective, value.magnitude, self.w.copy()
            self.n_calls += self.n
        self.certificate = certify_pair(self._best[0], self.dual, self._best[1])

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
        return self._best[2] or self.weights()

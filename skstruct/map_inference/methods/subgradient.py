"""Subgradient descent on the non-smooth dual."""

from __future__ import annotations

import numpy as np

from ..arguments import check_positive
from .driver import Method, Report, drive
from .hard import hard_start


class Subgradient(Method):
    """Steps against the disagreement of the regions' maximisers."""

    always = True

    def __init__(self, graph, tol, rng, step):
        super().__init__(graph, tol, rng)
        self.up = np.zeros(self.room.n_messages)
        self.delta = hard_start(self.room)
        self.relative, self.step, self.value = step, 0.0, 0.0

    def pieces(self):
        """The bound that is evaluated after each pass leaves what the next step needs."""
        np.subtract(self.up, self.room.down, out=self.up)
        self.passes += 1
        if self.passes == 1:
            self.step = self.relative * self._first_step()
        self.up *= self.step / np.sqrt(self.passes)
        self.delta -= self.up
        yield

    def _first_step(self):
        """Polyak's, as if the first labels' score were the optimum."""
        square = float(self.up @ self.up)
        distance = self.value - self.decoder.score
        if not (square > 0.0 and np.isfinite(distance)):
            return 0.5 * self.room.mean_range or 1.0
        return distance / square

    def report(self, maxima):
        """The bound is the objective; where all maximisers agree it is the optimum."""
        disagreement = float(np.linalg.norm(self.up - self.room.down))
        done = "" if disagreement else "the regions' maximisers agree"
        self.value = self.regions.offset + maxima
        return Report(self.value, done=done)


def solve_subgradient(graph, *, tol, max_iter, time_limit, rng, on_pass, step=1.0):
    """Subgradient descent on the dual, steps ``c / sqrt(t)``.

    Komodakis, Paragios, Tziritas 2007, MRF optimization via dual decomposition. Meshi, Mahdavi,
    Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, Table 1.
    """
    method = Subgradient(graph, tol, rng, check_positive("step", step))
    return drive("subgradient", method, tol=tol, max_iter=max_iter, on_pass=on_pass)

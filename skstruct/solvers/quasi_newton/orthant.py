"""OWL-QN: L-BFGS under an L1 penalty, orthant by orthant."""

from __future__ import annotations

import numpy as np

from .kernels import N_SOFT, mix, soft_sums
from .solver import QuasiNewton

# Sweeps that look for the best point on a line of dual points.
_SWEEPS = 4


class OrthantWise(QuasiNewton):
    """Points, pairs and best dual point of a run of OWL-QN (Andrew & Gao 2007); ``lam`` is lam2."""

    name = "OWL-QN"

    def __init__(self, *task, l1, **options):
        super().__init__(*task, **options)
        if not self._is_convex:
            name = type(self.loss).__name__
            raise TypeError(f"OWL-QN needs a convex loss, and {name} is not")
        self.l1 = l1

    def compile(self):
        """Compile outside the clock."""
        super().compile()
        none = np.empty(0)
        soft_sums(none, none, 0.0, 0.0, 0.0, 0, 0, np.zeros(N_SOFT))

    def _along(self, direction, origin, share):
        """See :func:`soft_sums`."""
        line = self._mixed, direction, origin, share, self.l1
        return self._sweeps(soft_sums, N_SOFT, *line, largest=3)

    def _climb(self, direction, origin, terms, share):
        """Newton's steps for the best point of a line of dual points: its share and its bound."""
        best, low, high = (-np.inf, 0.0), 0.0, 1.0
        for _ in range(_SWEEPS):
            value, slope, curve, _ = self._along(direction, origin, share)
            bound = terms[0] + share * (terms[1] - terms[0]) - value / (2.0 * self.lam)
            best = max(best, (bound, share))
            rise = terms[1] - terms[0] - slope / self.lam
            low, high = (share, high) if rise > 0.0 else (low, share)
            following = share + rise * self.lam / curve if curve > 0.0 else 0.5 * (low + high)
            if not low < following < high:
                following = high if following >= high == 1.0 > share else 0.5 * (low + high)
            if abs(following - share) <= 1e-3 * share:
                break
            share = following
        return best

    def _offer(self, term, direction, product, squared):
        """The bounds of a dual point, of its multiples, and of its mixtures with the best one."""
        largest = self._along(direction, 0.0, 1.0)[3]
        # Inside the box |g| <= lam1 no regulariser is asked for.
        inside = min(1.0, self.l1 / largest) if largest > 0.0 else 1.0
        self.dual = max(self.dual, inside * term)
        if self.lam == 0.0:
            return
        self.dual = max(self.dual, self._climb(direction, 0.0, (0.0, term), 1.0)[0])
        bound, share = self._climb(direction, 1.0, (self._term, term), 0.5)
        self.dual = max(self.dual, bound)
        if share > 0.0:
            self._sweeps(mix, 1, self._mixed, direction, share)
            self._term += share * (term - self._term)

    def weights(self):
        """Copies of the tables; 0 without a sign."""
        found = super().weights()
        for table in found.tables:
            table += 0.0
        return found

"""The two regularisers of the saddle point: half a squared norm, or a ball around 0."""

from __future__ import annotations

import math

import numpy as np

from ...core.cone import Cone, settle
from ...core.weights import Weights, inner_product, squared_norm, zero_weights
from ..certificate import DualMixture

# Of the range where the best share of a dual point may be: each leaves two thirds of it.
_SEARCH_STEPS = 60


def ascent_norm(cone: Cone, direction: Weights) -> float:
    """Squared norm of the point of the cone nearest to ``-direction``."""
    if cone.coefficients.size:
        direction = Weights(*(-table for table in direction.tables))
        settle(cone, direction)
    return squared_norm(direction)


class Ridge:
    """``lam/2 |w|^2``, over all weights or those of a cone."""

    def __init__(self, lam: float, shapes, cone: Cone):
        self.lam, self.cone = lam, cone
        #: The best lower bound met, see :class:`skstruct.solvers.certificate.DualMixture`.
        self.mixture = DualMixture(lam, zero_weights(shapes), cone)

    def first_weight(self, spread: float, loss: float) -> float:
        """How much the centre weighs at first, so that both blocks have about as far to go."""
        return self.lam * spread / loss if loss > 0.0 < spread else self.lam

    def next_weight(self, weight: float, total: float) -> float:
        """The same for the next block."""
        # Between keeping what the last block ended with and beginning anew.
        return 0.1 * (weight + self.lam * total)

    def bound(self, term: float, direction: Weights) -> float:
        """The lower bound of one dual point."""
        return term - ascent_norm(self.cone, direction) / (2.0 * self.lam)

    def settle(self, w: Weights) -> None:
        """The nearest feasible weights."""
        settle(self.cone, w)


class Ball:
    """``|w| <= radius``, over all weights or those of a cone."""

    lam = 0.0

    def __init__(self, radius: float, shapes, cone: Cone):
        self.radius, self.cone = radius, cone
        #: The best lower bound met.
        self.mixture = BallMixture(radius, zero_weights(shapes), cone)

    def first_weight(self, spread: float, loss: float) -> float:
        """As of :class:`Ridge`; the optimum is at most the radius away."""
        # Few samples end at the other side of the hull, where both divergences are this large.
        return 0.2 * max(spread, 1e-12) / self.radius**2

    def next_weight(self, weight: float, total: float) -> float:
        """The same for the next block: of both blocks there is less to go."""
        return weight

    def bound(self, term: float, direction: Weights) -> float:
        """The lower bound of one dual point."""
        return term - self.radius * math.sqrt(ascent_norm(self.cone, direction))

    def settle(self, w: Weights) -> None:
        """The nearest feasible weights: a cone's, shrunk into the ball."""
        settle(self.cone, w)
        norm = math.sqrt(squared_norm(w))
        if norm > self.radius:
            for table in w.tables:
                # Never outside by rounding.
                table *= self.radius / norm * (1.0 - 1e-13)


class BallMixture:
    """The best lower bound ``c - radius |g|`` among mixtures of the dual points met."""

    def __init__(self, radius: float, zeros: Weights, cone: Cone):
        self._radius, self._cone = radius, cone
        self._term, self._direction = 0.0, zeros
        #: The bound, and the size of the terms that it is a difference of.
        self.value = self.magnitude = 0.0

    def offer(self, term: float, direction) -> None:
        """Raise the bound by one more point, if its mixture with those before does."""
        mixed = self._direction
        change = Weights(*map(np.subtract, direction, mixed.tables))
        gain = term - self._term
        best = self._search_step if self._cone.coefficients.size else self._best_step
        step = best(gain, mixed, change)
        terms, norm, point = self._mixture(step, gain, mixed, change)
        if terms - norm > self.value:
            self._term, self._direction = terms, point
            self.value, self.magnitude = terms - norm, terms + norm

    def _mixture(self, step, gain, mixed, change):
        point = Weights(*(g + step * d for g, d in zip(mixed.tables, change.tables, strict=True)))
        norm = self._radius * math.sqrt(ascent_norm(self._cone, point))
        return self._term + step * gain, norm, point

    def _search_step(self, gain, mixed, change):
        """In a cone: the bound is concave, but not known in closed form."""
        low, high = 0.0, 1.0
        for _ in range(_SEARCH_STEPS):
            ends = low + (high - low) / 3.0, high - (high - low) / 3.0
            values = [self._mixture(end, gain, mixed, change)[:2] for end in ends]
            if values[0][0] - values[0][1] < values[1][0] - values[1][1]:
                low = ends[0]
            else:
                high = ends[1]
        return 0.5 * (low + high)

    def _best_step(self, gain, mixed, change):
        """The t in [0, 1] where ``t gain - radius |g + t change|`` is largest."""
        square, curvature = squared_norm(mixed), squared_norm(change)
        slope = inner_product(mixed.tables, change.tables)
        if not curvature > 0.0:
            return float(gain > 0.0)
        apart = max(square * curvature - slope * slope, 0.0)
        room = self._radius**2 * curvature - gain * gain
        if room <= 0.0:
            return float(gain > 0.0)
        return float(np.clip((gain * math.sqrt(apart / room) - slope) / curvature, 0.0, 1.0))

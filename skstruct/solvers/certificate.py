"""Duality gaps: what every solver's `tol` is compared with, and what every solver publishes.

For ``P(w) = lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` any mixtures m_i of labellings with terms c_i
(:mod:`skstruct.losses.operations`) and ``g = (1/n) sum_i s_i A_i' (m_i - mu(y_i))`` give
``(1/n) sum_i s_i c_i - |g|^2 / (2 lam) <= min P``; those at w itself the gap ``|P'|^2 / (2 lam)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.cone import NO_CONE, Cone, settle
from ..core.jit.kernels import kernel
from ..core.weights import Weights, inner_product, squared_norm, view_flat

# Rounding of a sum or difference of terms of size 1, as it usually is: four units in the last
# place. It always counts as gap.
_UNIT = 4.0 * float(np.finfo(np.float64).eps)
# A dual above its primal by more than this fraction of the terms is not rounding, even in sums over
# very long samples (45,000 units in the last place): something overflowed or is wrong. Below, the
# excess shows what rounding did, and counts as gap, too.
_LEAST_EXCESS = 1e-11
# The gap of a gradient needs no difference, and may be far below the last digit of the objective,
# whose own rounding counts for `tol` as soon as it touches more than its last four digits.
_LAST_DIGITS = 1e-12


def lower_bound(dual: float, terms: float = 0.0) -> float:
    """A bound on the optimum, at least 0, from a dual objective; `terms`: magnitudes, to round."""
    return max(float(dual) - _LEAST_EXCESS * terms, 0.0)


def known_record(objective: float, dual: float) -> dict[str, float]:
    """The fields of the history for an objective, NaN where it is not known, and a bound."""
    dual = lower_bound(dual)
    gap = max(objective - dual, 0.0)
    return {"objective": objective, "dual_gap": gap, "dual_objective": dual}


class Certificate(NamedTuple):
    """Objective, duality gap and norm of the gradient at one point."""

    # P(w).
    objective: float
    # An upper bound on ``P(w) - min P``, rounding included; NaN where nothing bounds it.
    dual_gap: float
    # The same as a fraction of P(w): what `tol` is compared with. See :data:`_LAST_DIGITS`.
    relative: float
    # ``|P'(w)|``, of smooth losses.
    gradient_norm: float | None = None
    # Description of `relative`.
    measure: str = "relative duality gap"

    @property
    def dual_objective(self) -> float:
        """A lower bound on ``min P``."""
        return lower_bound(self.objective - self.dual_gap)

    @property
    def record(self) -> dict[str, float]:
        """Its fields of the history."""
        names = "objective", "dual_gap", "dual_objective"
        return {name: getattr(self, name) for name in names}

    @property
    def published(self) -> dict[str, float]:
        """The attributes that it gives an estimator."""
        values = self.record | {"suboptimality": self.relative}
        if np.isnan(self.dual_gap):
            values["suboptimality"] = np.nan
        if self.gradient_norm is not None:
            values["gradient_norm"] = self.gradient_norm
        return {f"{name}_": value for name, value in values.items()}


#: Of an entry of the history without a measurement.
UNMEASURED = Certificate(np.nan, np.nan, np.nan)
_OVERFLOW = "the gradient overflows: scale the features (sklearn.preprocessing), or lower C"


def stationarity(objective: float, squared_gradient: float, lam: float) -> Certificate:
    """The certificate of a nonconvex objective: ``|P'(w)|^2 / (2 lam)`` as a fraction of P(w)."""
    if not np.isfinite(objective):
        raise FloatingPointError(f"the objective is {objective}: are the features scaled?")
    if not np.isfinite(squared_gradient):
        raise FloatingPointError(_OVERFLOW)
    relative = float(_relative(squared_gradient / (2.0 * lam), objective))
    measure = "squared norm of the gradient, over 2 lam and the objective,"
    return Certificate(
        float(objective), np.nan, relative, float(np.sqrt(squared_gradient)), measure
    )


def _relative(gap, objective):
    if objective > 0.0:
        return gap / objective
    return 0.0 if gap == 0.0 else np.inf


def certify_pair(objective: float, dual: float, magnitude: float = 0.0) -> Certificate:
    """The certificate of a primal and a dual objective; rounding of their gap counts as gap."""
    if not np.isfinite(objective):
        raise FloatingPointError(f"the objective is {objective}: are the features scaled?")
    if not dual < np.inf:
        raise FloatingPointError(f"the dual bound is {dual}: are the features scaled?")
    dual = lower_bound(dual)
    terms = abs(objective) + magnitude + dual
    excess = _LEAST_EXCESS * terms
    if not objective >= -excess:
        raise FloatingPointError(f"the objective {objective} is negative: are the features scaled?")
    if not objective - dual >= -excess:
        raise FloatingPointError(
            f"the dual bound {dual} exceeds the objective {objective}: are the features scaled?"
        )
    objective = max(float(objective), 0.0)
    gap = float(abs(objective - dual) + _UNIT * terms)
    relative = float(_relative(gap, objective))
    # The bound of 0 has no rounding.
    return Certificate(objective, min(gap, objective) if objective > 0.0 else gap, relative)


def certify(
    objective: float, squared_gradient: float, lam: float, dual: float, magnitude: float
) -> Certificate:
    """Certify weights under a smooth loss, by their own marginals or another dual point."""
    if not np.isfinite(squared_gradient):
        raise FloatingPointError(_OVERFLOW)
    value = max(float(objective), 0.0)
    rounding, own_gap = _UNIT * (value + magnitude), squared_gradient / (2.0 * lam)
    found = certify_l1(objective, squared_gradient, own_gap + rounding, dual, magnitude)
    seen = own_gap + max(rounding - _LAST_DIGITS * value, 0.0)
    return found._replace(relative=min(found.relative, float(_relative(seen, value))))


def certify_l1(
    objective: float, squared_subgradient: float, own_gap: float, dual: float, magnitude: float
) -> Certificate:
    """Certify weights under an L1 penalty, by their own marginals or another dual point."""
    objective, by_dual, *_ = certify_pair(objective, dual, magnitude)
    gap = min(float(own_gap), by_dual)
    gradient_norm = float(np.sqrt(squared_subgradient))
    return Certificate(objective, gap, float(_relative(gap, objective)), gradient_norm)


# Dual points that are kept for a mixture, and the floats that there is room for.
_MOST_POINTS, _POINT_ROOM = 16, 1 << 22
# Steps between two points at most, for each of them; the least rise, as a fraction of the terms.
_PAIR_STEPS, _LEAST_RISE = 300, 1e-12


@kernel
def best_shares(slopes, products, least, shares):
    """Move `shares` of points towards the highest bound by pairwise steps, until slopes agree."""
    n = slopes.shape[0]
    for _ in range(_PAIR_STEPS * n):
        up, down = 0, -1
        for i in range(n):
            if slopes[i] > slopes[up]:
                up = i
            if shares[i] > 0.0 and (down < 0 or slopes[i] < slopes[down]):
                down = i
        rise = slopes[up] - slopes[down]
        if not rise > least:
            break
        curvature = products[up, up] - 2.0 * products[up, down] + products[down, down]
        step = shares[down]
        if curvature * step > rise:
            step = rise / curvature
        shares[up] += step
        shares[down] = shares[down] - step if step < shares[down] else 0.0
        for i in range(n):
            slopes[i] -= step * (products[i, up] - products[i, down])


class DualMixture:
    """The best lower bound among mixtures of the dual points met: the dual of a bundle method.

    Terms are concave: a mixture's is at least the mean of theirs. Without `keeps`, a line search.
    """

    def __init__(self, lam: float, zeros: Weights, cone: Cone = NO_CONE, keeps: bool = True):
        self._lam, self._term, self._direction = lam, 0.0, zeros
        # What the rounding of all mixtures so far may have added to the bound.
        self._rounding = 0.0
        self._cone = cone
        # -g with the best multipliers, where there is a cone: the other tables are shared.
        self._ascent = zeros._replace(pair=zeros.pair.copy()) if cone.coefficients.size else zeros
        #: Scratch of the size of the weights, free between two calls.
        self.change = zeros.copy()
        #: The bound, and the size of the terms that it is a difference of.
        self.value = self.magnitude = 0.0
        size = sum(table.size for table in zeros.tables)
        keeps = keeps and not cone.coefficients.size
        n_points = min(_MOST_POINTS, _POINT_ROOM // max(size, 1)) if keeps else 0
        # The latest points, their g and terms.
        self._points, self._terms = np.zeros((n_points, size)), np.zeros(n_points)
        self._n_offers = 0

    @property
    def weights(self) -> Weights:
        """Weights of the mixture, without a cone."""
        return Weights(*(table / -self._lam for table in self._direction.tables))

    def offer(self, term: float, direction, step: float | None = None) -> None:
        """Raise the bound by one more point; where none are kept, with a given share."""
        if len(self._points):
            self._mix_all(term, direction)
        else:
            self._mix_one(term, direction, step)
        half_norm = squared_norm(self._ascent) / (2.0 * self._lam)
        self.value = self._term - half_norm - self._rounding
        self.magnitude = self._term + half_norm

    def _mix_all(self, term, direction):
        place = self._n_offers % len(self._points)
        self._points[place] = np.concatenate([table.ravel() for table in direction])
        self._terms[place] = term
        self._n_offers += 1
        known = min(self._n_offers, len(self._points))
        mixed = np.concatenate([table.ravel() for table in self._direction.tables])
        points = np.vstack([mixed, np.zeros_like(mixed), self._points[:known]])
        terms = np.r_[self._term, 0.0, self._terms[:known]]
        shares = np.zeros(terms.size)
        shares[0] = 1.0
        products = np.einsum("ij,kj->ik", points, points) / self._lam
        least = _LEAST_RISE * abs(terms).max()
        best_shares(terms - products[0], products, least, shares)
        if shares[0] == 1.0:
            return
        # Each of many steps rounds two shares; the truth has what is missing of a sum of 1.
        shares /= max(shares.sum(), 1.0)
        sizes = abs(terms) + products.diagonal()
        self._rounding = float(shares[0] * self._rounding + _UNIT * (shares @ sizes))
        self._term = float(shares @ terms)
        shapes = [table.shape for table in self._direction.tables]
        best = view_flat(np.einsum("i,ij->j", shares, points), shapes)
        for table, own in zip(self._direction.tables, best.tables, strict=True):
            table[:] = own

    def _mix_one(self, term, direction, step):
        mixed, changes = self._direction.tables, self.change.tables
        for new, g, change in zip(direction, mixed, changes, strict=True):
            np.subtract(new, g, out=change)
        gain = term - self._term
        slope = gain - inner_product(self._ascent.tables, changes) / self._lam
        curvature = squared_norm(self.change) / self._lam
        if step is None:
            best = np.clip(slope / curvature, 0.0, 1.0) if curvature > 0 else gain > 0
            step = float(best)
        size = abs(self._term) + step * abs(gain)
        size += squared_norm(self._direction) / self._lam + step * step * curvature
        self._rounding = float((1.0 - step) * self._rounding + _UNIT * size * (step > 0.0))
        self._term += step * gain
        for g, change in zip(mixed, changes, strict=True):
            change *= step
            g += change
        if self._cone.coefficients.size:
            pair = self._ascent.pair
            np.negative(self._direction.pair, out=pair)
            settle(self._cone, self._ascent)
            np.negative(pair, out=pair)

"""Catalyst: smoothing, proximal terms, centers and extrapolation."""

from __future__ import annotations

import math

from ...core.weights import Weights

# Least n kappa by the measured steepness. Proposition 29 has 1, but that is an upper estimate: of
# those tried on text (0.05, 0.1, 0.2, 0.3) the second is nearest to the optimum at iteration 100.
_GROWTH = 0.1


def _mix(*terms):
    """Linear combination of weights: alternating weights and factors."""
    pairs = list(zip(terms[::2], terms[1::2], strict=True))
    out = Weights(*(pairs[0][1] * table for table in pairs[0][0].tables))
    for w, factor in pairs[1:]:
        for total, table in zip(out.tables, w.tables, strict=True):
            total += factor * table
    return out


class Catalyst:
    """Smoothing, proximal terms, centers and extrapolation by iteration (Algorithm 4).

    The settings are those of Corollaries 17 to 20, but for strong convexity with smoothing that
    shrinks. There Corollary 18 keeps kappa, and asks of the inner solver what one pass cannot do
    once the smoothness constant ``A / nu`` has outgrown ``n kappa``: the run stalls far from the
    optimum, the sooner the smaller n is. Here kappa grows in step with ``A / nu``. Algorithm 4
    allows for it, and its recursion for alpha then gives ``sqrt(q)`` of each new kappa.
    """

    def __init__(self, options, lam, n, start):
        self.options, self.lam, self.n = options, lam, n
        self.adaptive = options.variant == "adaptive" and options.strength > 0
        self.nu = options.strength
        given = options.variant != "svrg" and options.kappa is not None
        self.kappa = options.kappa if given else 0.0
        self.alpha = None
        self.center = self.older_center = self.previous = start

    def settle(self, steepness):
        """Choose kappa, and the first alpha, when the smoothness has been measured."""
        lam = self.lam
        if self.options.variant != "svrg" and self.options.kappa is None:
            # A / (nu n) of Proposition 29, with A = nu times twice the mean smoothness constant:
            # the largest belongs to one long sample.
            proposed = steepness / self.n
            self.kappa = proposed - lam if proposed > 4.0 * lam else lam
            if self.adaptive:
                # With a smaller one the smoothing shrinks faster than the inner solver follows.
                self.kappa = max(self.kappa, 9.0 * lam)
        self.first_kappa = self.kappa
        self.alpha = math.sqrt(self._q()) if lam > 0 else 0.5 * (math.sqrt(5.0) - 1.0)

    def _q(self):
        return self.lam / (self.lam + self.kappa) if self.lam + self.kappa > 0 else 1.0

    def first(self, k):
        """Where the inner solver starts."""
        if self.options.warm_start == "previous" or self.options.variant == "svrg":
            return self.previous
        if self.options.warm_start == "extrapolation" and k > 1:
            ratio = self.kappa / (self.kappa + self.lam)
            return _mix(self.previous, 1.0, self.center, ratio, self.older_center, -ratio)
        return self.center

    def advance(self, k, current, steepness, least):
        """Extrapolate the next center from the inner solver's result; step nu and kappa.

        `steepness` was measured under the present nu; the next is not below `least`.
        """
        if self.options.variant == "svrg":
            self.center = self.previous = current
            return
        kappa = self.kappa
        if self.adaptive:
            self._shrink(k, steepness, least)
        beta = self._extrapolation(kappa)
        self.older_center = self.center
        self.center = _mix(current, 1.0 + beta, self.previous, -beta)
        self.previous = current

    def _shrink(self, k, steepness, least):
        """Choose nu and kappa of iteration k + 1."""
        before, first = self.nu, self.options.strength
        if self.lam == 0:
            self.nu = min(first, max(first / (k + 1), least))
            self.kappa = self.first_kappa * (k + 1)
            return
        nu = before * math.sqrt(1.0 - 0.5 * math.sqrt(self._q()))
        self.nu = min(before, max(nu, least))
        if self.options.kappa is None:
            self.kappa = max(self.kappa, _GROWTH * steepness * before / (self.nu * self.n))

    def _extrapolation(self, kappa):
        """beta_k for the `kappa` of iteration k and the next one, which is set; steps alpha."""
        lam, before = self.lam, self.alpha**2 * (kappa + self.lam)
        after = self.kappa + lam
        if after == 0.0:
            return 0.0
        # after a^2 + (before - lam) a - before = 0
        slope = before - lam
        alpha = (-slope + math.sqrt(slope * slope + 4.0 * after * before)) / (2.0 * after)
        beta = self.alpha * (1.0 - self.alpha) * (kappa + lam) / (before + alpha * after)
        self.alpha = alpha
        return beta

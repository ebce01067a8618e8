"""SAG under an L1 penalty: the epochs, and certificates of the elastic net."""

from __future__ import annotations

import numpy as np

from ...core.proximal import (
    ALONG,
    L1,
    L2,
    LARGEST,
    SOFT,
    SOFT_CURVE,
    SOFT_SLOPE,
    SUBGRADIENT,
    YOUNG,
    catch_up_and_sum,
    soft_sums,
    start_clock,
)
from ...losses.verbs import ROUNDING, least_term, require_smooth
from ..certificate import Certificate, certify_pair
from ..primal import objective_value
from ..progress import REMEDY
from ..run import run
from .kernels import N_STORED, STALENESS
from .proximal_kernels import proximal_epoch
from .solver import _SAG, _TINY

# Sweeps that look for the best multiple of a dual point.
_SWEEPS = 4


def proximal_sag(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    l1_ratio: float,
    loss,
    start=None,
    uniform: bool = False,
    skipping: bool = True,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    track_objective: bool = False,
    n_jobs=None,
    after_epoch,
):
    """Minimise ``lam2/2 |w|^2 + lam1 |w|_1 + (1/n) sum_i s_i loss_i(w)`` by proximal SAG.

    Parameters
    ----------
    problem, shapes, sample_weight : object
        As for :func:`skstruct.solvers.sag.solver.sag`.
    lam : float
        The regulariser: ``lam1 = l1_ratio lam, lam2 = (1 - l1_ratio) lam``.
    l1_ratio : float
        Share of the L1 penalty, above 0, at most 1.
    loss, start, uniform, skipping, max_iter, tol, rng, track_objective, n_jobs, after_epoch : object
        As there.

    Returns
    -------
    Result
        The weights, with exact zeros, and the history.

    Raises
    ------
    FloatingPointError
        If the objective or its gradient is no longer finite.
    TypeError
        If the loss is not smooth.

    References
    ----------
    Schmidt et al. 2015, as for SAG. Schmidt, Le Roux and Bach 2017, Minimizing finite sums with the
    stochastic average gradient, section 3.5 on lazy updates, section 6 on proximal steps.
    """
    require_smooth(loss, "SAG")
    method = _ProximalSAG(
        problem,
        shapes,
        sample_weight,
        (1.0 - l1_ratio) * lam,
        n_jobs,
        l1=l1_ratio * lam,
        loss=loss,
        start=start,
        saga=False,
        uniform=uniform,
        skipping=skipping,
        track_objective=track_objective,
    )
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class _ProximalSAG(_SAG):
    """Weights, memory and clock of one run; ``lam`` is lam2."""

    def __init__(self, *task, l1, **options):
        super().__init__(*task, **options)
        self.l1 = l1
        self.clock = start_clock(self.w, l1, self.lam)
        self._sums = np.zeros(9)

    def compile(self):
        """Compile outside the clock."""
        super().compile()
        self._best_multiple(0.0)

    def _steps(self, options, order, uniforms):
        task = self.loss, self.problem, self.w, self.clock, self.sample_weight
        proximal_epoch(*task, options, self.state, order, uniforms, *self._scratch)

    def _fold(self):
        """Nothing: the weights are v."""

    def _norms(self):
        """Bring all weights up to date; the sums of :func:`catch_up_and_sum`."""
        catch_up_and_sum(self.w, self.clock, 1.0 / self.n, self._sums)
        if not np.isfinite(self._sums).all():
            raise FloatingPointError(
                "the weights overflow: scale the features (sklearn.preprocessing), or lower C"
            )
        return self._sums

    def _best_multiple(self, terms):
        """The best lower bound among multiples ``t <= 1`` of a dual point, and its t.

        The truth, t = 0, is a dual point, and the terms are concave: ``t terms - |soft(t g)|**2 /
        (2 lam2)``; without lam2 t takes g into the box ``|g| <= lam1``.
        """
        sums, t = self._sums, 1.0
        inside = min(1.0, self.l1 / sums[LARGEST]) if sums[LARGEST] > 0.0 else 1.0
        best = inside * terms
        if self.lam == 0.0:
            return best
        soft = sums[SOFT], sums[SOFT_SLOPE], sums[SOFT_CURVE]
        for _ in range(_SWEEPS):
            value, slope, curve = soft
            best = max(best, t * terms - value / (2.0 * self.lam))
            rise = terms - slope / self.lam
            if rise >= 0.0 or curve == 0.0:
                break
            # From above, Newton's steps on this convex slope stay above its root.
            t = max(t + rise * self.lam / curve, inside)
            soft = soft_sums(self.w, self.l1, (1.0 / self.n, t))
        return best

    def _penalty(self):
        return 0.5 * self.lam * self._sums[L2] + self.l1 * self._sums[L1]

    def _estimate(self):
        """Relative gap after an epoch, as its visits let expect."""
        totals = self.state.totals
        sums = self._norms()
        if totals[N_STORED] < self.n:
            return np.inf
        self.schedule.epoch_done(sums[SUBGRADIENT])
        terms = float(self.state.terms.sum()) / self.n
        self.dual = max(self._best_multiple(terms), self.dual)
        # P(w) = penalty + <w, g> + terms + divergences
        objective = self._penalty() + sums[ALONG] + terms + totals[STALENESS] / self.n
        objective = max(objective, _TINY)
        return max(objective - self.dual, 0.0) / objective

    def _offer_memory(self):
        self._norms()
        self.dual = max(self._best_multiple(float(self.state.terms.sum()) / self.n), self.dual)

    def _certificate(self, loss, magnitude):
        """What the mixtures at the present weights, just measured, and the memory's say."""
        sums = self._norms()
        objective = self._penalty() + loss
        along = float(sums[ALONG])
        slack = ROUNDING * magnitude
        term = max(loss - along - slack, least_term(self.loss))
        self.dual = max(self._best_multiple(term), self.dual)
        known = certify_pair(objective, self.dual, magnitude)
        gap = known.dual_gap
        if self.lam > 0.0:
            gap = min(gap, sums[YOUNG] + slack)
        gap = min(gap, known.objective) if known.objective > 0.0 else gap
        relative = gap / known.objective if known.objective > 0.0 else known.relative
        return Certificate(known.objective, gap, relative, float(np.sqrt(sums[SUBGRADIENT])))

    def _objective(self):
        return super()._objective() + self.l1 * self._sums[L1]

    def weights(self):
        """The value of the weights; 0 without a sign."""
        found = super().weights()
        for table in found.tables:
            table += 0.0
        return found

    def remedy(self):
        """What to do where the tolerance was not reached."""
        return REMEDY

"""OEG under an L1 penalty: ``w = -soft(g, lam1) / lam2`` is read off the mean gradient g.

The dual's part ``-|soft(g, lam1)|^2 / (2 lam2)`` curves no more than without lam1, so steps are
tested as there.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.features import is_reducible, reduce_problem
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import forbid
from ..core.parallel import Pieces
from ..core.proximal import (
    ALONG,
    L1,
    L2,
    LARGEST,
    SOFT,
    SOFT_CURVE,
    SOFT_SLOPE,
    SUBGRADIENT,
    YOUNG,
    elastic_net,
    rest_potentials,
    set_at_rest,
    soft_sums,
    sum_weights,
)
from ..core.weights import aligned, halves, lazy_weights, zero_weights
from ..losses.verbs import ROUNDING, least_term
from .certificate import certify_l1
from .oeg import EPS, FIRST_FACTOR, LOST, OEG, ROUNDINGS, WARM_RATE, visit, visit_first
from .sag import OVERFLOW, TINY

# The pass before which rows are first left out, and the share of the threshold below which.
_FIRST_REFRESH, _STAYS = 4, 0.7
# Sweeps that look for the best multiple of a dual point.
_SWEEPS = 4


@solver_kernel
def proximal_oeg_pass(
    loss, problem, w, penalty, sample_weight, options, state, order, buffers, labels
):
    """Steps at the samples of an order; weights are read as they are at rest."""
    for step in range(order.shape[0]):
        i = order[step]
        weight = sample_weight[i]
        rest_potentials(problem, i, w, penalty, buffers[0])
        forbid(problem, i, buffers[0])
        if state.rates[i] == 0.0:
            visit_first(loss, problem, i, weight, w, options, state, buffers, labels)
        else:
            visit(loss, problem, i, weight, w, options, state, buffers, labels)


class ProximalOEG(OEG):
    """OEG on ``lam2/2 |w|^2 + lam1 |w|_1 + (1/n) sum_i s_i loss_i(w)``; ``lam`` is lam2.

    Rows of weights that are 0 rest between refreshes, which recompute all gradients.
    """

    least_inner = 0.02

    def __init__(self, *task, l1, start=None, **options):
        super().__init__(*task, **options)
        self.l1 = l1
        self.w = lazy_weights(zero_weights(self.shapes))
        start = None if start is None else self._own(start)
        if start is not None and any(map(np.any, start.tables)):
            # From the mixtures of these weights, which are the first proximal point.
            self.w, self._shift, self._resumes = lazy_weights(start), start, True
            self.state.rates[:] = WARM_RATE
        self._options = self._options._replace(on_weights=0.0, on_direction=1.0 / self.n)
        self._penalty = elastic_net(self.w, l1, self.lam)
        if self.copies is not None:
            self._penalty.node[:] = self.copies.roots
        #: Factors of lam1 of all rows.
        self._shares = self._penalty.node
        self._sums = np.zeros(9)
        #: The problem with all rows.
        self.whole = self.problem
        #: The rows of the node table that there are, None for all.
        self._rows, self._refresh = None, _FIRST_REFRESH
        self._set_rho(l1 + self.lam)
        self._first = FIRST_FACTOR

    def begin(self, progress):
        """The mixtures of the weights to start from."""
        super().begin(progress)
        if self._resumes:
            self._offer_memory()

    def epoch(self, k, rng, progress):
        """Steps on the rows that are not known to stay 0, towards a proximal point."""
        self._choose_rows(k)
        rho, whole = self._early(k) * self.rho, self._penalty
        self._penalty = whole._replace(l2=self.lam + rho)
        self._options = self._options._replace(inverse=1.0 / (self._penalty.l2 * self.n))
        pulls = [rho * v for v, _ in halves(self.w, self.shapes)]
        size = 0.0
        for (_, d), pull in zip(halves(self.w, self.shapes), pulls, strict=True):
            d -= pull
            size = math.hypot(size, np.linalg.norm(d))
        divergence = self._visits(rng, progress)
        set_at_rest(self.w, self._penalty)
        self._penalty = whole
        for (_, d), pull in zip(halves(self.w, self.shapes), pulls, strict=True):
            d += pull
        self._measure()
        self._rounding += EPS * (self._n_visits + ROUNDINGS) * size
        lost, terms = self._lost(), self._mean_term()
        estimates = self._estimate_gaps(terms - lost, divergence)
        if lost > LOST * estimates[0] * estimates[2]:
            self._sum_memory()
            self._measure()
            estimates = self._estimate_gaps(terms - self._lost(), divergence)
        self.estimate, gap, objective = estimates
        self._adapt_rho(gap, divergence, objective)
        self.gaps.append(gap)

    def _choose_rows(self, k):
        """Before epoch k: leave rows out, or look at all of them now and then."""
        if k >= self._refresh:
            self._refresh = k + max(3, k // 3)
            self._expand()
        if self._rows is None and (self._resumes or k >= _FIRST_REFRESH):
            self._shrink()

    def _shrink(self):
        """Leave out rows of weight 0 whose gradients are well inside the threshold."""
        if not is_reducible(self.whole):
            return
        table, stays = self.w.node, _STAYS * self.l1 * self._shares
        half = table.shape[1] // 2
        kept = table[:, :half].any(axis=1)
        # Not the sizes of all at once: that is a table more.
        kept |= table[:, half:].max(axis=1, initial=0.0) > stays
        kept |= table[:, half:].min(axis=1, initial=0.0) < -stays
        intercept = self.whole.rows.nodes.intercept
        if intercept >= 0:
            kept[intercept] = True
        rows = np.flatnonzero(kept)
        self.problem = reduce_problem(self.whole, rows, table.shape[0])
        self._use(table[rows], rows)

    def _use(self, node, rows):
        """Another node table."""
        table = aligned(node.size).reshape(node.shape)
        table[:] = node
        self.w, self._rows = self.w._replace(node=table), rows
        shares = self._shares if rows is None else self._shares[rows]
        self._penalty = self._penalty._replace(node=shares)

    def _expand(self):
        """Restore all rows, and update the bound on the optimum from the memory."""
        if self._rows is None:
            return
        table = np.zeros((self.shapes[0][0], self.w.node.shape[1]))
        half = table.shape[1] // 2
        table[self._rows, :half] = self.w.node[:, :half]
        self.problem = self.whole
        self._use(table, None)
        self._sum_memory()
        self._offer_memory()

    def _steps(self, order):
        task = self.w, self._penalty, self.sample_weight, self._options, self.state, order
        proximal_oeg_pass(self.loss, self.problem, *task, *self._scratch)

    def _sum_memory(self):
        for _, d in halves(self.w, self.shapes):
            d[:] = 0.0
        self._rounding = 0.0
        self._sum(self.w, self.n)

    def _measure(self):
        """The sums of :func:`sum_weights`."""
        sum_weights(self.w, self._penalty, self._sums)
        if not np.isfinite(self._sums).all():
            raise FloatingPointError(OVERFLOW)
        return self._sums

    def _best_multiple(self, terms, sweeps=_SWEEPS):
        """Best bound of multiples t <= 1: ``t terms - |soft(t g)|^2 / (2 lam2)``."""
        sums, t = self._sums, 1.0
        inside = min(1.0, self.l1 / sums[LARGEST]) if sums[LARGEST] > 0.0 else 1.0
        best = inside * terms
        if self.lam == 0.0:
            return best
        soft = sums[SOFT], sums[SOFT_SLOPE], sums[SOFT_CURVE]
        for k in range(sweeps):
            value, slope, curve = soft
            best = max(best, t * terms - value / (2.0 * self.lam))
            rise = terms - slope / self.lam
            if rise >= 0.0 or curve == 0.0:
                break
            # From above, Newton's steps on this convex slope stay above its root.
            t = max(t + rise * self.lam / curve, inside)
            if k + 1 < sweeps:
                soft = soft_sums(self.w, self._penalty, t)
        return best

    def _lost(self):
        """What rounding may have added to the bounds of :meth:`_best_multiple`."""
        lost = self._mean_term() / self.l1  # where g is taken into the box
        if self.lam > 0.0:
            lost += (math.sqrt(self._sums[SOFT]) + 0.5 * self._rounding) / self.lam
        return self._rounding * lost

    def _mean_term(self):
        return float(self.state.terms @ self.sample_weight) / self.n

    def _estimate_gaps(self, terms, divergence):
        """The relative gaps with all bounds and of the memory alone, and the objective."""
        sums = self._sums
        # Of fewer rows it is no bound for all of them, but what there is to estimate by.
        dual = self._best_multiple(terms, 1 if self._rows is None else _SWEEPS)
        if self._rows is None:
            self.dual = max(dual, self.dual)
        # P(w) = penalty + <w, g> + terms + divergences
        objective = self._penalty_value() + sums[ALONG] + terms + divergence
        if not objective < np.inf:
            return np.inf, np.inf, np.inf
        objective = max(objective, TINY)
        gap = float(max(objective - dual, 0.0) / objective)
        return max(objective - max(dual, self.dual), 0.0) / objective, gap, objective

    def _penalty_value(self):
        return 0.5 * self.lam * self._sums[L2] + self.l1 * self._sums[L1]

    def _offer_memory(self):
        self._measure()
        self.dual = max(self.dual, self._best_multiple(self._mean_term()))

    def certify(self):
        """Certify the present weights, on all rows, by a pass of its own."""
        self._expand()
        gradient, out = zero_weights(self.shapes), np.zeros((2, self.n))
        self._gradients.add(self.own_weights(), gradient, out, Pieces())
        self._measured += 1
        directions = [d for _, d in halves(self.w, self.shapes)]
        kept = [d.copy() for d in directions]
        for d, g in zip(directions, gradient.tables, strict=True):
            np.divide(g, self.n, out=d)
        loss, magnitude = map(float, out @ self.sample_weight / self.n)
        sums, slack = self._measure(), ROUNDING * magnitude
        least = max(loss - float(sums[ALONG]) - slack, least_term(self.loss))
        self.dual = max(self.dual, self._best_multiple(least))
        own_gap = sums[YOUNG] + slack if self.lam > 0.0 else np.inf
        objective = self._penalty_value() + loss
        self.certificate = certify_l1(objective, sums[SUBGRADIENT], own_gap, self.dual, magnitude)
        for d, own in zip(directions, kept, strict=True):
            d[:] = own
        self.dual = max(self.dual, self.certificate.dual_objective)
        self.certificate_schedule.measured(self.certificate.relative)

    def _objective(self, w):
        return super()._objective(w) + self.l1 * self._sums[L1]

    def own_weights(self):
        """The value of the weights; 0 without a sign."""
        found = zero_weights(self.shapes)
        rows = slice(None) if self._rows is None else self._rows
        found.node[rows] += self.w.node[:, : self.shapes[0][1]]
        found.pair[:] += self.w.pair[:, : self.shapes[1][1]]
        return found

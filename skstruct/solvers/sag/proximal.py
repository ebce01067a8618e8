"""SAG under an L1 penalty: the epochs, and certificates of the elastic net."""

from __future__ import annotations

import numpy as np

from ...core.features import is_reducible, reduce_problem
from ...core.jit.solver_kernel import solver_kernel
from ...core.oracles import accumulate
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
    catch_up,
    catch_up_and_sum,
    soft_sums,
    start_clock,
)
from ...core.weights import aligned, zero_weights
from ...losses.verbs import ROUNDING, least_term
from ..certificate import certify_l1
from .kernels import (
    IMPORTANCE,
    KEEPS,
    LOSS,
    MAGNITUDE,
    MOVE,
    N_STORED,
    STALENESS,
    TERMS,
    VALUE,
    _choose,
    _remember_visit,
    _step_size,
    _visit,
)
from .solver import OVERFLOW, SAG, TINY, _StepSchedule

# Problems on some of the feature rows: the others have weight 0 under an L1 penalty.


def rows_to_keep(problem, node: np.ndarray, direction: np.ndarray, stays) -> np.ndarray:
    """Return a mask of the rows of the node table that may matter; `stays` may be one a row."""
    kept = node.any(axis=1)
    # Not the sizes of all at once: that is a table more.
    kept |= direction.max(axis=1, initial=0.0) > stays
    kept |= direction.min(axis=1, initial=0.0) < -stays
    intercept = problem.rows.nodes.intercept
    if intercept >= 0:
        kept[intercept] = True
    return kept


# One pass of SAG with non-uniform sampling under an L1 penalty: proximal steps, taken lazily.
#
# The memory, the sampling and the line search are those of :mod:`skstruct.solvers.sag.kernels`; the
# weights are those of :mod:`skstruct.core.proximal`.


@solver_kernel
def proximal_epoch(
    loss,
    problem,
    w,
    clock,
    sample_weight,
    options,
    state,
    order,
    uniforms,
    block,
    buffers,
    labels,
    team,
):
    """Steps of proximal SAG, one a row of `uniforms`, by one thread."""
    totals, visit = state.totals, block.visits[0]
    for step in range(uniforms.shape[0]):
        i, visit[IMPORTANCE] = _choose(state, options, order, uniforms, step)
        visit[KEEPS] = 1.0
        weight = sample_weight[i]
        r = block.changes[: problem.part_ptr[i + 1] - problem.part_ptr[i]]
        catch_up(problem, i, w, clock)
        _visit(loss, problem, w, weight, options, state, i, visit, r, buffers, labels)
        totals[LOSS] += weight * visit[VALUE]
        totals[MAGNITUDE] += weight * visit[TERMS]
        _remember_visit(sample_weight, options, state, i, visit)
        accumulate(problem, i, r, (0.0, 1.0), w)
        if options.task == MOVE:
            alpha = _step_size(state, options)
            clock.now[0] += alpha
            clock.now[1] += alpha / totals[N_STORED]


# The pass before which rows are first left out, and the share of the threshold below which.
_FIRST_REFRESH, _STAYS = 4, 0.7
# Sweeps that look for the best multiple of a dual point.
_SWEEPS = 4


class _Steps(_StepSchedule):
    """Longer steps for longer: under an L1 penalty rare features have little else to move them.

    On 1,000 sentences of CoNLL-2000 (c1 = c2 = 0.1) that takes a quarter off the passes to 1e-3.
    """

    top, hold, fall = 2.0, 60, 60


class FewRows:
    """What methods under an L1 penalty share: most rows of the weights are 0 and stay so.

    Between refreshes the run is that of the problem without them; at a refresh the memory tells the
    gradients of all rows again, which is what lower bounds on the optimum need, and who comes in.
    """

    #: Factor that makes ``d`` the mean gradient.
    share = 1.0

    def _begin_with_all(self, l1, share):
        self.l1, self.share = l1, share
        self.clock = start_clock(self.w, l1, self.lam)
        if self.copies is not None:
            self.clock.node[:, 2] = self.copies.roots
        #: Shares of lam1 of all rows.
        self._shares = self.clock.node[:, 2].copy()
        self._sums = np.zeros(9)
        #: The problem with all rows.
        self.whole = self.problem
        #: The rows of the node table that there are, None for all.
        self._rows, self._refresh = None, _FIRST_REFRESH

    def _choose_rows(self, k, warm=False):
        """Before epoch k: leave rows out, or look at all of them now and then."""
        if k >= self._refresh:
            self._refresh = k + max(3, k // 3)
            self._expand()
        if self._rows is None and (warm or k >= _FIRST_REFRESH):
            self._shrink()

    def _shrink(self):
        """Leave out rows of weight 0 whose gradients are well inside the threshold."""
        if not is_reducible(self.whole):
            return
        table, stays = self.w.node, _STAYS * self.l1 / self.share * self._shares
        half = table.shape[1] // 2
        kept = rows_to_keep(self.whole, table[:, :half], table[:, half:], stays)
        rows = np.flatnonzero(kept)
        self.problem = reduce_problem(self.whole, rows, table.shape[0])
        self._take(table[rows], rows)

    def _take(self, node, rows):
        """Another node table, with up-to-date rows."""
        table = aligned(node.size).reshape(node.shape)
        table[:] = node
        self.w, self._rows = self.w._replace(node=table), rows
        stamps = np.zeros((node.shape[0], 3))
        stamps[:, 2] = self._shares if rows is None else self._shares[rows]
        self.clock = self.clock._replace(node=stamps)

    def _expand(self):
        """Restore all rows, and update the bound on the optimum from the memory."""
        if self._rows is None:
            return
        table = np.zeros((self.shapes[0][0], self.w.node.shape[1]))
        half = table.shape[1] // 2
        table[self._rows, :half] = self.w.node[:, :half]
        self.problem = self.whole
        self._take(table, None)
        self.w.pair[:, self.w.pair.shape[1] // 2 :] = 0.0
        self._sum_memory()
        self._offer_memory()

    def _norms(self):
        """Bring all weights up to date; the sums of :func:`catch_up_and_sum`."""
        catch_up_and_sum(self.w, self.clock, self.share, self._sums)
        if not np.isfinite(self._sums).all():
            raise FloatingPointError(OVERFLOW)
        return self._sums

    def _best_multiple(self, terms, sweeps=_SWEEPS):
        """The best lower bound among multiples ``t <= 1`` of a dual point.

        The truth, t = 0, is a dual point, and the terms are concave: ``t terms - |soft(t g)|**2 /
        (2 lam2)``; without lam2 t takes g into the box ``|g| <= lam1``.
        """
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
                soft = soft_sums(self.w, self.clock, (self.share, t))
        return best

    def _estimate_gaps(self, terms, divergence):
        """The relative gaps with all bounds and of the memory alone, and the objective."""
        sums = self._sums
        # Of fewer rows it is no bound for all of them, but what there is to estimate by.
        dual = self._best_multiple(terms, 1 if self._rows is None else _SWEEPS)
        if self._rows is None:
            self.dual = max(dual, self.dual)
        # P(w) = penalty + <w, g> + terms + divergences
        objective = self._penalty() + sums[ALONG] + terms + divergence
        if not objective < np.inf:
            return np.inf, np.inf, np.inf
        objective = max(objective, TINY)
        gap = float(max(objective - dual, 0.0) / objective)
        return max(objective - max(dual, self.dual), 0.0) / objective, gap, objective

    def _penalty(self):
        return 0.5 * self.lam * self._sums[L2] + self.l1 * self._sums[L1]

    def _certificate(self, loss, magnitude):
        """Return the certificate by the mixtures just measured at the weights and by the memory."""
        sums = self._norms()
        objective = self._penalty() + loss
        along = float(sums[ALONG])
        slack = ROUNDING * magnitude
        self.dual = max(
            self._best_multiple(max(loss - along - slack, least_term(self.loss))), self.dual
        )
        own_gap = sums[YOUNG] + slack if self.lam > 0.0 else np.inf
        return certify_l1(objective, sums[SUBGRADIENT], own_gap, self.dual, magnitude)

    def _objective(self, w):
        return super()._objective(w) + self.l1 * self._sums[L1]

    def own_weights(self):
        """The value of the weights; 0 without a sign."""
        found = zero_weights(self.shapes)
        rows = slice(None) if self._rows is None else self._rows
        found.node[rows] += self.w.node[:, : self.shapes[0][1]]
        found.pair[:] += self.w.pair[:, : self.shapes[1][1]]
        return found


class ProximalSAG(FewRows, SAG):
    """Weights, memory and clock of one run; ``lam`` is lam2.

    Minimises ``lam2/2 |w|^2 + lam1 |w|_1 + (1/n) sum_i s_i loss_i(w)``.

    Schmidt et al. 2015, as for SAG. Schmidt, Le Roux and Bach 2017, Minimizing finite sums with the
    stochastic average gradient, section 3.5 on lazy updates, section 6 on proximal steps.
    """

    in_blocks, steps, kernel = False, _Steps, staticmethod(proximal_epoch)

    def __init__(self, *task, l1, **options):
        super().__init__(*task, **options)
        self._begin_with_all(l1, 1.0 / self.n)

    def compile(self):
        """Compile outside the clock."""
        super().compile()
        soft_sums(self.w, self.clock, (self.share, 1.0))
        if is_reducible(self.whole):
            self._add_memory(0)

    def epoch(self, k, rng, progress):
        """One pass, over the rows that are not known to stay 0."""
        self._put_back()
        self._choose_rows(k, self._warm)
        super().epoch(k, rng, progress)

    def _sum_memory(self):
        self._add_memory(self.n)

    def certify(self):
        """Certify the present weights, on all rows, by a pass of its own."""
        self._expand()
        super().certify()

    def _weights_of(self, own, share):
        return self.problem, self.w, self.clock

    def _estimate(self):
        """Estimate the relative gaps after an epoch from its visits."""
        totals = self.state.totals
        sums = self._norms()
        if totals[N_STORED] < self.n:
            return np.inf, np.inf
        self.schedule.epoch_done(sums[SUBGRADIENT])
        return self._estimate_gaps(self._mean_term(), totals[STALENESS] / self.n)[:2]

    def _offer_memory(self):
        self._norms()
        self.dual = max(self._best_multiple(self._mean_term()), self.dual)

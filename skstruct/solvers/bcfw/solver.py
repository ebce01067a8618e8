"""Block-coordinate and batch Frank-Wolfe for structural SVMs: epochs, certificates, warm starts."""

from __future__ import annotations

import math
from typing import NamedTuple

import joblib
import numpy as np

from ...core.cone import make_cone, project_rows, settle
from ...core.jit.solver_kernel import solver_kernel
from ...core.memory import check_memory
from ...core.oracles import accumulate, add_indicator, loss_is_linear, relaxed_oracle
from ...core.parallel import Pieces, make_scratch
from ...core.problem import is_memory, tree_items
from ...core.weights import (
    Weights,
    flatten,
    inner_product,
    lazy_weights,
    plain_weights,
    squared_norm,
    view_flat,
    zero_weights,
)
from ...losses.hinge import hinge_of
from ...losses.operations import ROUNDING
from ..certificate import DualMixture, certify_pair, lower_bound
from ..primal import BatchGradient, Best, hinge_value
from ..run import Method
from ..sampling import set_leaf, sum_tree
from .kernels import (
    GAP,
    N_CACHED,
    N_ORACLE,
    N_STEPS,
    BCFWOptions,
    BCFWState,
    add_cached,
    bcfw_epoch,
    expected_losses,
    rebuild,
)
from .relaxed import new_points, relaxed_epoch

# Extrapolation of dual points: as far again as some passes went, where that is better.
#
# Near the optimum the passes of a coordinate method are a linear iteration, slow where blocks
# depend on one another: steps along the way it has gone make up for it (Bertrand and Massias 2021,
# Anderson acceleration of coordinate descent). Here the step is the best one for the dual
# objective, and what it would take from a labelling beyond its share stays.

AIM, FOLLOW = range(2)


@solver_kernel
def travel(problem, sample_weight, lam, state, cache, task, part, gain, start, stop, w, change):
    """Extrapolate shares (``AIM``), or go `part` of the way to these (``FOLLOW``).

    ``AIM``: past shares become those `part` times as far away as the present ones, `w` takes what
    the weights would gain; returns `gain` plus the gain of the weighted task losses.
    """
    for i in range(start, stop):
        shares, past = cache.shares[i], cache.past[i]
        target, step = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]], part
        if task == AIM:
            target, step = change[: target.shape[0]], 1.0
            before = after = 0.0
            for c in range(shares.shape[0]):
                if shares[c] >= 0.0:
                    goal = shares[c] + part * (shares[c] - past[c])
                    past[c] = 0.0 if goal < 0.0 else goal
                    before += shares[c]
                    after += past[c]
            lost = not after > 0.0
            for c in range(shares.shape[0]):
                if lost:
                    past[c] = shares[c] if shares[c] > 0.0 else 0.0
                elif shares[c] >= 0.0:
                    past[c] *= before / after
            for q in range(target.shape[0]):
                target[q] = 0.0
        moves = False
        for c in range(shares.shape[0]):
            if shares[c] >= 0.0:
                move = step * (past[c] - shares[c])
                if move != 0.0:
                    moves = True
                    add_cached(cache, problem, i, c, move, target)
                    gain += sample_weight[i] * move * cache.costs[i, c]
                    if task == FOLLOW:
                        state.losses[i] += move * cache.costs[i, c]
                        moved = shares[c] + move
                        shares[c] = 0.0 if moved < 0.0 else moved
                if task == FOLLOW:
                    past[c] = shares[c]
        if moves and task == AIM:
            scale = sample_weight[i] / (lam * sample_weight.shape[0])
            accumulate(problem, i, target, (-scale, 0.0), w)
    return gain


class Extrapolation:
    """The weights of some passes ago, and extrapolation from them."""

    def __init__(self, problem, sample_weight, lam, shapes, cone):
        self.task, self._cone = (problem, sample_weight, lam), cone
        self._past = zero_weights(shapes)
        self._loss = 0.0

    def _mean_loss(self, state):
        return float(np.einsum("i,i->", state.losses, self.task[1])) / self.task[1].size

    def begin(self, state, cache, w):
        """Note where the passes start."""
        np.maximum(cache.shares, 0.0, out=cache.past)
        self._note(state, w)

    def _note(self, state, w):
        for past, now in zip(self._past.tables, w.tables, strict=True):
            past[...] = now
        self._loss = self._mean_loss(state)

    def step(self, state, cache, w, change):
        """Extrapolate the last passes as far as is best, and store the new start."""
        way, lam, n = self._past, self.task[2], self.task[1].size
        for past, now in zip(way.tables, w.tables, strict=True):
            np.subtract(now, past, out=past)
        norm = lam * squared_norm(way)
        factor = (
            self._mean_loss(state) - self._loss - lam * inner_product(w.tables, way.tables)
        ) / max(norm, 1e-300)
        if not 0.0 < factor < np.inf:
            self.begin(state, cache, w)
            return
        for table in way.tables:
            table[...] = 0.0
        gain = 0.0
        for first, last in Pieces().ranges(0, n):
            gain = travel(*self.task, state, cache, AIM, factor, gain, first, last, way, change)
        # Where shares ran out the way has changed; never farther than to the shares aimed at.
        norm = lam * squared_norm(way)
        step = (gain / n - lam * inner_product(w.tables, way.tables)) / max(norm, 1e-300)
        step = min(max(step, 0.0), 1.0)
        for past, now in zip(way.tables, w.tables, strict=True):
            past *= step
            now += past
        if self._cone.coefficients.size:
            project_rows(self._cone, w, 0.0, 1)
        for first, last in Pieces().ranges(0, n):
            travel(*self.task, state, cache, FOLLOW, step, 0.0, first, last, way, change)
        self._note(state, w)


# A dual point of structural SVMs under other true labels.


@solver_kernel
def _move(problem, samples, before, after, residuals):
    """``m_i - mu(y_i)`` of some samples, for the labels `after` in place of those `before`."""
    for s in range(samples.shape[0]):
        i = samples[s]
        first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
        residual = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        add_indicator(problem, i, before[first:stop], 1.0, residual)
        add_indicator(problem, i, after[first:stop], -1.0, residual)


def with_truth(state, problem, labels: np.ndarray):
    """Return the dual point with its mixtures of labellings, for other true labels."""
    ptr = problem.label_ptr
    differ = np.append(0, np.cumsum(problem.labels != labels))[ptr]
    samples = np.flatnonzero(np.diff(differ))
    _move(problem, samples, problem.labels, labels, state.residuals)
    return state


_FRESH, _ENOUGH = 0.25, 0.01  # F and nu of Osokin et al. 2016, section 3.3
# Block gaps of a pass that add up to this much of the tolerance.
PROMISING = 1.3
# Passes between extrapolations, and the weight of each pass in the average that is certified: the
# objective of the last iterate is far above that of its neighbours' mean.
EXTRAPOLATE, RECENT = 3, 0.25


def dual_set(problem) -> str:
    """A fingerprint of the set of dual points, by fields but scratch and ``not_of_the_dual_set``.

    A field too many costs a warm start, one too few would make it wrong.
    """
    space = problem.space
    left_out = getattr(type(space), "not_of_the_dual_set", ("work",))
    fields = {"labels": problem.labels} | space._asdict()
    kept = [
        tree_items(value, field, is_memory)
        for field, value in fields.items()
        if field not in left_out
    ]
    named = [item for items in kept for item in items if not is_memory(item[1])]
    return joblib.hash([type(space).__module__, type(space).__qualname__, named])


def _new_state(problem, n_cached):
    n = problem.part_ptr.size - 1
    n_bytes = 8 * int(problem.part_ptr[-1]) + n_cached * (4 * problem.labels.size + 16 * n)
    check_memory(n_bytes, "the dual point of BCFWSSVM", "use SubgradientSSVM, or fewer n_cached")
    shares = np.full((n, n_cached), -1.0)
    shares[:, 0] = 1.0
    labels = np.zeros((n_cached, problem.labels.size), dtype=np.int32)
    labels[0] = problem.labels
    return BCFWState(
        residuals=np.zeros(problem.part_ptr[-1]),
        losses=np.zeros(n),
        gaps=np.full(n, np.inf),
        tree=sum_tree(n),
        labels=labels,
        shares=shares,
        costs=np.zeros((n, n_cached)),
        inner=np.empty((n, 0)),
        past=np.empty((0, n_cached)),
        recent=np.empty(0),
        totals=np.zeros(4),
    )


def _room(problem, n_cached):
    """The cache size, at most the number of labellings, where samples are one node."""
    if np.diff(problem.label_ptr).max(initial=0) > 1:
        return n_cached
    return min(n_cached, int(np.diff(problem.part_ptr).max(initial=1)))


class BCFWChoices(NamedTuple):
    """Options of the visits to samples."""

    # "permutation", "uniform" or "gap".
    sampling: str
    # Most pairwise steps a visit; 0 for one Frank-Wolfe step.
    pairwise: int
    # Labellings kept of each sample, and whether they may stand for the oracle.
    n_cached: int
    use_cache: bool


def share_of_new(n: int, share: float = 1.0) -> float:
    """The share of the n-th weights in a mean, one per pass or `part` of it; earlier ones fade."""
    return min(max(1.0 - (1.0 - RECENT) ** share, 2.0 / (n + 1.0)), 1.0)


def faded(mean, now: Weights, new: float) -> Weights:
    """The mean of weights with new ones, changed in place."""
    if new == 1.0:
        return now.copy()
    for old, table in zip(mean.tables, now.tables, strict=True):
        old *= 1.0 - new
        old += new * table
    return mean


class BCFW(Method):
    """The regularised mean hinge, by its dual (Lacoste-Julien et al. 2013, Algorithms 3 and 4)."""

    def __init__(self, *task, choices, start=None, cone=None, averaging=False, gap_every=1):
        super().__init__(*task)
        self.cone = make_cone(cone, self.shapes[1][0])
        self.relaxed = relaxed_oracle.supports(self.problem)
        self.n_cached = n_cached = _room(self.problem, choices.n_cached)
        self.sampling, self.averaging, self.gap_every = choices.sampling, averaging, gap_every
        self.pairwise, self.use_cache = choices.pairwise, choices.use_cache
        self.use_average, self._objective = False, np.inf
        self._extrapolation, self._recent, self._n_recent = None, None, 0
        if self.pairwise and not averaging:
            self._extrapolation = Extrapolation(
                self.problem, self.sample_weight, self.lam, self.shapes, self.cone
            )
        scratch = make_scratch(self.problem)
        values = np.zeros((2, n_cached))
        self._scratch = np.empty((4, scratch.theta.size)), values, scratch.labels
        if self.relaxed:
            self._points = new_points(self.problem, self.n_cached, scratch.theta)
        # A dual point must have a cache of this size, and be left by a run that went well.
        self._warm = start is not None and start.labels.shape[0] == n_cached
        self._warm = self._warm and bool(np.isfinite(start.residuals).all())
        self._begin_at(start if self._warm else None)
        n_weights = sum(map(math.prod, self.shapes))
        if self._warm and self._extrapolation is not None and start.recent.size == n_weights:
            # The mean that the run before ended with, which fits these weights.
            self._recent = view_flat(start.recent.copy(), self.shapes)
            settle(self.cone, self._recent)  # that run may have had none
            self._n_recent = math.ceil(2.0 / RECENT)

    def _begin_at(self, state):
        """Take a dual point, or the truth; its weights are 0 until they are rebuilt."""
        if state is None:
            state = _new_state(self.problem, self.n_cached)
        keeps = self.pairwise > 0 and not self.relaxed
        n_products = self.n_cached * (self.n_cached + 1) // 2 if keeps else 0
        n_past = self.n if self._extrapolation is not None and not self.relaxed else 0
        n_bytes = 8 * self.n * (n_products + self.n_cached)
        check_memory(n_bytes, "the inner products of BCFWSSVM", "take fewer n_cached")
        inner, past = np.zeros((self.n, n_products)), np.zeros((n_past, self.n_cached))
        self.state = state._replace(inner=inner, past=past, recent=np.empty(0))
        self.state.totals[:] = 0.0
        zero = zero_weights(self.shapes)
        # Only the average needs the second half of lazy rows.
        self.w = lazy_weights(zero) if self.averaging else zero
        self.cone.multipliers[:] = 0.0

    @property
    def cache(self):
        """The cache whose shares :func:`travel` extrapolates."""
        return self._points if self.relaxed else self.state

    def dual_point(self):
        """The state, with the mean that the certificate is of."""
        is_mean = self.use_average and self._recent is not None
        recent = flatten(self._recent) if is_mean else np.empty(0)
        return self.state._replace(recent=recent)

    def begin(self, progress):
        """Weights, task losses and certificate of the dual point to start from."""
        if self._warm:
            for first, last in Pieces().ranges(0, self.n):
                self._rebuild(first, last)
            if self.cone.coefficients.size:
                project_rows(self.cone, self.w, 0.0, 1)
            if not self._dual() >= 0.0:  # worse than no training: C or a weight has grown much
                self._begin_at(None)
                self._recent, self._n_recent = None, 0
        if self._warm or self.sampling == "gap":
            self.certify()
        if self._extrapolation is not None:
            self._extrapolation.begin(self.state, self.cache, self.w)

    def _rebuild(self, first, last):
        problem, state = self.problem, self.state
        task = problem, self.sample_weight, self.lam, state, self.w
        rebuild(*task, first, last, self._scratch[0])
        if loss_is_linear(problem):
            expected_losses(problem, state, first, last, self._scratch[0][0])

    def epoch(self, k, rng, progress):
        """Visit as many samples as there are."""
        if self.sampling == "permutation":
            order = rng.permutation(self.n)
        else:
            order = rng.integers(self.n, size=self.n)
        self._pass(order, rng.random(self.n), progress.pieces)
        if self._extrapolation is not None:
            self._n_recent += 1
            self._recent = faded(self._recent, self.w, share_of_new(self._n_recent))
            settle(self.cone, self._recent)  # a mean of points in the cone, but for rounding
            if k % EXTRAPOLATE == 0:
                self._extrapolation.step(self.state, self.cache, self.w, self._scratch[0][1])

    def _pass(self, order, uniforms, pieces):
        total = np.minimum(self.state.gaps, 1e300).sum()
        options = BCFWOptions(
            self.lam,
            int(self.sampling == "gap"),
            self.pairwise,
            _FRESH if self.use_cache else np.inf,
            _ENOUGH * total / self.n,
        )
        task = self.problem, self.w, self.cone, self.sample_weight, options, self.state
        buffers, values, labels = self._scratch
        self.state.totals[GAP] = 0.0
        for first, last in pieces.ranges(0, order.size):
            visits = order[first:last], uniforms[first:last]
            if self.relaxed:
                relaxed_epoch(*task, self._points, *visits, (buffers, values[0], labels))
            else:
                bcfw_epoch(*task, *visits, buffers, values, labels)

    def due(self, k, tol):
        """Every few passes, and where the block gaps of the pass suggest that `tol` is reached."""
        promising = self.state.totals[GAP] <= PROMISING * tol * self._objective
        return promising or k % self.gap_every == 0

    def _dual(self):
        loss = float(self.state.losses @ self.sample_weight) / self.n
        return loss - 0.5 * self.lam * squared_norm(self.w)

    def entry(self):
        """Without a certificate, a lower bound: the dual, less what rounding may add to it."""
        known = super().entry()
        if self.certificate is None:
            dual, norm = self._dual(), 0.5 * self.lam * squared_norm(self.w)
            known["dual_objective"] = lower_bound(dual, abs(dual) + 2.0 * norm)
        return known

    def _value(self, w, *memory):
        """Objective at some weights, and the block gaps."""
        return hinge_value(self.problem, w, self.sample_weight, self.lam, self.n_jobs, *memory)

    def _average(self):
        """The weighted average of the iterates."""
        k = self.state.totals[N_STEPS]
        self.w.scale[1] = -2.0 / (k * (k + 1.0))
        value = plain_weights(self.w, self.shapes)
        self.w.scale[1] = 0.0
        settle(self.cone, value)  # an average of points in the cone, but for rounding
        return value

    def certify(self):
        """Primal and dual objective, by one oracle call per sample."""
        dual, average, value = self._dual(), self._recent, None
        if self.averaging and self.state.totals[N_STEPS] > 0:
            average = self._average()
        self.use_average = average is not None
        if self.use_average:
            value = self._value(average)
        # The gap of the last iterate is about the sum of its blocks'. Sampling needs each of these.
        promised = self.state.totals[GAP]
        by_gap = self.averaging or self.sampling == "gap"
        if value is None or by_gap or not value.objective - dual < promised:
            last = self._value(self.w, self.state.residuals)
            gaps = np.maximum(last.gaps - self.state.losses, 0.0) * self.sample_weight / self.n
            self.state.gaps[:] = gaps
            if self.sampling == "gap":
                for i, gap in enumerate(gaps):
                    set_leaf(self.state.tree, i, gap)
            if value is None or not value.objective < last.objective:
                value, self.use_average, self._n_recent = last, False, 0
        self.certificate = certify_pair(value.objective, dual, value.magnitude)
        self._objective = self.certificate.objective
        self.state.totals[N_ORACLE] += self.n

    def work(self):
        """Oracle calls; nothing else passes over the data."""
        return self.state.totals[N_ORACLE], 0.0

    def published(self):
        """Counts."""
        totals = self.state.totals
        counts = {"n_oracle_calls_": totals[N_ORACLE], "n_cached_steps_": totals[N_CACHED]}
        return {name: int(count) for name, count in counts.items()}

    def weights(self):
        """The value of the weights: the last iterate or an average, whichever is better."""
        if self.use_average and self._recent is not None:
            return self._recent.copy()
        if not self.averaging:
            return self.w.copy()
        return self._average() if self.use_average else plain_weights(self.w, self.shapes)


# Frank-Wolfe on all samples at once: a step towards the best labellings at the same weights.


class BatchFrankWolfe(Method):
    """Whole passes: the dual point is known by its weights and its mean task loss only.

    Lacoste-Julien et al. 2013, Algorithm 2; Boileau, Lamouchi, St-Arnaud 2019, Algorithm 2.
    """

    def __init__(self, *task, line_search=True):
        super().__init__(*task)
        self.line_search, self.n_calls, self.best = line_search, 0, Best()
        self.w, self._gradient = zero_weights(self.shapes), zero_weights(self.shapes)
        self._mixture = DualMixture(self.lam, zero_weights(self.shapes), keeps=False)
        #: The best lower bound on the optimum.
        self.dual, self._out = 0.0, np.zeros((2, self.n))
        task = hinge_of(self.problem), self.problem, self.sample_weight, self.n_jobs
        self._gradients = BatchGradient(*task)

    def epoch(self, k, rng, progress):
        """Find the best labellings at the present weights, certify, and step to these."""
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
        """Certify the best weights by the best bound; passes computed both."""
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

"""SAG with non-uniform sampling and SAGA on a smooth loss: epochs, step schedule, stopping."""

from __future__ import annotations

import math

import numpy as np

from ..core.features import merge_copies
from ..core.jit.solver_kernel import solver_kernel
from ..core.memory import check_memory
from ..core.offsets import longest_item
from ..core.oracles import accumulate
from ..core.parallel import Pieces, count_threads, over_blocks
from ..core.weights import (
    fold,
    halves,
    in_double,
    in_single,
    lazy_weights,
    plain_weights,
    squared_norms,
    zero_weights,
)
from ..losses.operations import least_term, require_smooth
from .certificate import certify, known_record
from .primal import Workers, block_size, objective_value
from .run import REMEDY, Method
from .sag_kernels import (
    DECAY,
    DRAW,
    FILL,
    LOSS,
    MAGNITUDE,
    MAX_L,
    MEASURE,
    MOVE,
    N_FORWARD,
    N_ORACLE,
    N_STORED,
    N_TOTALS,
    N_VISIT_FIELDS,
    PAIRED,
    SHARE,
    STALENESS,
    Block,
    SAGOptions,
    SAGState,
    sag_epoch,
)
from .sampling import sum_tree

# Floats of a block of weights: what norms are summed by does not depend on the threads.
_BLOCK = 1 << 20


def norms_in_threads(w, inverse_n: float, lam: float, n_threads: int) -> np.ndarray:
    """:func:`skstruct.core.weights.squared_norms`, the same bits for any number of threads."""
    table = w.single if w.single.size else w.node
    size = max(_BLOCK // max(table.shape[1], 1), 1)

    def norms(b):
        rows = slice(b * size, (b + 1) * size)
        pair = w.pair if b == 0 else w.pair[:0]
        part = w._replace(node=w.node[rows], single=w.single[rows], pair=pair)
        return squared_norms(part, inverse_n, lam)

    return np.sum(over_blocks(norms, max(-(-len(table) // size), 1), n_threads), axis=0)


# Node weights are in single precision while the optimum is far; their direction is summed again
# where that ends.


@solver_kernel
def add_residuals(problem, residuals, first, stop, w, team):
    """Add the features of stored residuals to ``d``; threads do not meet, each has its share."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (0.0, 1.0), w)


# Node weights from which on single precision pays: fewer are in the cache in double precision, too.
_MANY = 1 << 18
# Passes that earn back the sum over all residuals by which single precision ends.
_FEWEST_PASSES = 4
# Relative gap: rounding to single precision does not show before.
CLOSE = 1e-4
# Largest size of v and b d, relative to their sum.
GROWTH = 8.0


def takes_single(precision, shapes, max_iter):
    """Return whether a run begins in single precision."""
    if precision == "auto":
        return math.prod(shapes[0]) >= _MANY and max_iter >= _FEWEST_PASSES
    return precision == "single"


# Passes with SAGA's steps at the start from given weights, see SAG.epoch.
_UNBIASED = 2

_NO_ORDER = np.empty(0, dtype=np.int64)
_UNIT = np.array([1.0, 0.0])
#: The least objective that relative gaps are shares of.
TINY = float(np.finfo(np.float64).tiny)
OVERFLOW = "the weights overflow: scale the features (sklearn.preprocessing), or lower C"


def _new_state(problem, uniform, published):
    n = problem.part_ptr.size - 1
    totals = np.zeros(N_TOTALS)
    if uniform:
        # Visits begin by lowering it, those of the paper end so.
        totals[MAX_L] = 2.0 ** (1.0 / n) if published else 1.0
    n_bytes = 8 * int(problem.part_ptr[-1])
    check_memory(n_bytes, "the stored residuals of SAG", 'use solver="lbfgs"')
    return SAGState(
        residuals=np.zeros(problem.part_ptr[-1]),
        terms=np.zeros(n),
        lipschitz=np.zeros(n),
        streak=np.zeros(n, dtype=np.int64),
        skip=np.zeros(n, dtype=np.int64),
        tree=sum_tree(n),
        totals=totals,
    )


def _new_block(problem, most):
    """Room for blocks of at most so many draws."""
    n = problem.part_ptr.size - 1
    mean = int(problem.part_ptr[-1]) // max(n, 1)
    room = max(2 * most * mean, longest_item(problem.part_ptr))
    return Block(
        counters=np.zeros(24, dtype=np.int64),
        samples=np.zeros(most, dtype=np.int64),
        first=np.zeros(most, dtype=np.int64),
        queue=np.zeros(most, dtype=np.int64),
        seen=np.zeros(n, dtype=np.int64),
        start=np.zeros(most + 1, dtype=np.int64),
        visits=np.zeros((most, N_VISIT_FIELDS)),
        coefficients=np.zeros((most, 2)),
        changes=np.zeros(room),
    )


class _StepSchedule:
    """Factor on the paper's step size, for non-uniform SAG: 1/2, then 1.5, and 1 from epoch 20 on.

    Long steps keep stored gradients noisy, and the dual bound low; a stored gradient that grows
    shrinks the factor for good: the L_i are then too small for directions that all samples share.
    """

    #: The largest factor, the epoch at which it begins to fall, and epochs in which it falls by 1.
    top, hold, fall = 1.5, 8, 24

    def __init__(self, constant):
        self._constant = constant
        self._largest = self.top
        self._epoch = 0
        self._smallest = np.inf

    def skip_start(self):
        """Begin with the paper's step: memory and L_i are those of another run."""
        self._epoch = 2

    def factor(self):
        if self._constant:
            return 1.0
        rising = 0.5 + self._epoch / 4
        falling = self.top - (self._epoch - self.hold) / self.fall
        return min(rising, max(falling, 1.0), self._largest)

    def epoch_done(self, squared_gradient):
        limit = 4.0 if self._epoch >= 10 else 100.0
        if squared_gradient > limit * self._smallest:
            self._largest = max(0.7 * self.factor(), 0.1)
            self._smallest = squared_gradient
        self._smallest = min(squared_gradient, self._smallest)
        self._epoch += 1


class CertificateSchedule:
    """When an estimate of the gap is worth the pass that measures it: at most 1/8 are in vain."""

    def __init__(self, least: float = 1.0):
        self._optimism, self._least = 1.0, least
        self._epoch, self._next, self._estimate = 0, 1, np.inf

    def due(self, estimate, tol):
        """Whether a certificate is due; call it once per epoch."""
        self._estimate, self._epoch = estimate, self._epoch + 1
        return self._epoch >= self._next and self._optimism * estimate <= tol

    def measured(self, relative):
        """Compare the last estimate with the measured gap, to correct later ones."""
        if 0.0 < self._estimate < np.inf:
            self._optimism = min(max(relative / self._estimate, self._least), 10.0)
        self._next = self._epoch + max(2, (self._epoch - 1) // 8)


class StoredMixtures(Method):
    """A method that stores mixtures of labellings: a dual point, which gives a bound each pass."""

    def __init__(self, problem, shapes, *task, loss, track_objective=False):
        #: The problem without copies of features, which is trained instead, or None.
        self.copies = merge_copies(problem, shapes)
        trained = (problem, shapes) if self.copies is None else self.copies[:2]
        super().__init__(*trained, *task)
        self.loss, self.track_objective = loss, track_objective
        #: The best lower bound on the optimum so far.
        self.dual = 0.0
        #: The relative gap after the last pass, as its visits let expect.
        self.estimate = np.inf
        #: The same of the stored mixtures alone, without better bounds of the past, of all passes.
        self.gaps = []

    def due(self, k, tol):
        """Return whether the estimate promises the tolerance."""
        return self.certificate_schedule.due(self.estimate, tol)

    def entry(self):
        """The dual bound is known after every epoch."""
        objective = np.nan
        if self.certificate is not None:
            objective = self.certificate.objective
        elif self.track_objective:
            # On lazy weights as they are: their kernels exist already.
            objective = self._objective(self.w if self.w.scale.size else self.own_weights())
        return known_record(objective, self.dual)

    def weights(self):
        """The weights of all features."""
        own = self.own_weights()
        return own if self.copies is None else self.copies.spread(own)

    def _own(self, start):
        return start if start is None or self.copies is None else self.copies.take(start)

    def _objective(self, w):
        present = self.loss, self.problem, w, self.sample_weight, self.lam, self.n_jobs
        return objective_value(*present).objective


class SAG(StoredMixtures):
    """Weights, memory and buffers of SAG or SAGA (Schmidt et al. 2015, Algorithms 1 and 2).

    `published`: without schedule, blocks and first permutation; `by_gradient`: stopped as there.
    SAG: Le Roux, Schmidt and Bach 2012; SAGA: Defazio, Bach and Lacoste-Julien 2014; the sampling:
    Needell, Srebro and Ward 2014.
    """

    def __init__(
        self,
        *task,
        start=None,
        saga=False,
        paired=False,
        uniform=False,
        skipping=True,
        single=False,
        memory=None,
        published=False,
        by_gradient=False,
        **options,
    ):
        super().__init__(*task, **options)
        require_smooth(self.loss, "SAGA" if saga else "SAG")
        start = self._own(start)
        self.w = lazy_weights(zero_weights(self.shapes) if start is None else start)
        self.state = _new_state(self.problem, uniform, published) if memory is None else memory
        self.schedule = _StepSchedule(constant=saga or uniform or published)
        self._resumes = memory is not None
        if self._resumes:
            self.state.totals[[N_FORWARD, N_ORACLE, DECAY]] = 0.0
            self.schedule.skip_start()
        self.certificate_schedule = CertificateSchedule()
        self._published, self._by_gradient, self._average = published, by_gradient, np.inf
        if by_gradient:
            self.fields = *self.fields, "average_gradient"
        # A memory that is not given is empty in the paper, wherever the weights begin.
        self._warm = start is not None and (self._resumes or not published)
        self._uniform = uniform
        self._flags = int(skipping and not uniform), int(uniform)
        #: 0 for SAG's steps, 1 for SAGA's, PAIRED; and whether SAG takes SAGA's in this pass.
        self._kind, self._unbiased = PAIRED if paired else int(saga), False
        # The best bound, where rounding to single precision may have raised it.
        self._likely_dual = 0.0
        #: The direction to go on with after a certificate; empty if it is summed again.
        self._direction = None
        # A pass may be cut at multiples of this.
        size = 1 if published else min(block_size(self.problem), self.n // SHARE)
        self._grain = 2 if paired else max(size, 1)
        self._block = _new_block(self.problem, self._grain)
        n_threads = min(count_threads(self.problem, self.n_jobs), self._grain)
        self._workers = Workers(self.loss, self.problem, n_threads)
        #: Whether the run is in single precision at first, and the memory of double precision.
        self._single, self._double = single, None

    def begin(self, progress):
        """Fill the memory, at the start only.

        Later, gradients at the present weights are far larger than their mean over past ones.
        """
        if self._warm:
            self.state.totals[N_STORED] = self.n
            if self._resumes:
                self._add_memory(self.n)
            else:
                self._measure(FILL)
            self._offer_memory()
        if self._single:
            # The method continues from the rounded weights.
            self._double, self.w = self.w, in_single(self.w)

    def _end_single(self):
        """Back to double precision; the direction is summed again, without its rounding errors."""
        if self.w.single.size:
            self.w, self._double = in_double(self.w, self._double), None
            self._add_memory(self.n)
            self._offer_memory()

    def _add_memory(self, stop):
        """Add the features of the residuals of samples before `stop` to ``d``."""
        for cut in Pieces().ranges(0, stop):

            def arguments(own, share, cut=cut):
                return own.problem, self.state.residuals, *cut, self.w._replace(share=share)

            self._workers.call(add_residuals, arguments)

    def epoch(self, k, rng, progress):
        """As many steps as samples; SAGA's after a warm start, as SAG's overshoot on old memory."""
        self._put_back()
        self._unbiased = self._warm and not self._resumes and k <= _UNBIASED
        if not self._uniform:
            self.state.totals[MAX_L] = self.state.lipschitz.max()
        is_drawn = k > 1 or (self._published and self._kind != PAIRED)
        order = _NO_ORDER if is_drawn else rng.permutation(self.n)
        self._pass(MOVE, order, rng.random((self.n, 2)), progress.pieces)
        self.estimate, gap = self._estimate()
        self.gaps.append(gap)
        if self._by_gradient and self.state.totals[N_STORED] == self.n:
            own = zip(self.own_weights().tables, halves(self.w, self.shapes), strict=True)
            entries = [self.lam * w + d / self.n for w, (_, d) in own]
            self._average = max(float(np.abs(table).max(initial=0.0)) for table in entries)

    def _pass(self, task, order, uniforms, pieces):
        """Visits of samples; returns the means of losses, divergences and magnitudes."""
        flags = *self._flags, max(self._kind, int(self._unbiased)), task, least_term(self.loss)
        options = SAGOptions(self.lam, self.schedule.factor(), *flags, int(self._published))
        sums, n_visits, size = [LOSS, STALENESS, MAGNITUDE], 0, self._grain
        self.state.totals[sums] = 0.0
        # Cut between blocks: where a pass is cut changes nothing.
        for first, last in pieces.ranges(0, -(-len(uniforms) // size)):
            cut = slice(first * size, last * size)
            visits = self.state, order[cut], uniforms[cut], self._block

            def arguments(own, share, visits=visits):
                # Steps are in the coefficients: `w` has moved on by all of the block.
                weights = self.w, self.w._replace(share=share, scale=_UNIT)
                task = own.loss, own.problem, *weights, self.sample_weight, options
                return *task, *visits, *own.scratch

            self._block.counters[DRAW] = 0
            self._workers.call(sag_epoch, arguments)
            n_visits = min(last * size, len(uniforms))
        means = self.state.totals[sums] / max(n_visits, 1)
        if not np.isfinite(means).all():
            raise FloatingPointError(
                f"the loss is {means[0]}: scale the features (sklearn.preprocessing), or lower C"
            )
        return means

    def _norms(self):
        norms = norms_in_threads(self.w, 1.0 / self.n, self.lam, self._workers.size)
        if not np.isfinite(norms).all():
            raise FloatingPointError(OVERFLOW)
        return norms

    def _mean_term(self):
        return float(self.state.terms.sum()) / self.n

    def _offer_dual(self, squared_direction):
        dual = self._mean_term() - squared_direction / (2.0 * self.lam)
        if not self.w.single.size:
            self.dual = max(dual, self.dual)
        self._likely_dual = max(dual, self._likely_dual)
        return dual

    def _estimate(self):
        """Estimate the relative gaps after an epoch from its visits: with all bounds, and without.

        ``P(w) - D(m) = |lam w + g|^2 / (2 lam) + (1/n) sum_i s_i divergence_i(m_i)``.
        """
        totals = self.state.totals
        if totals[N_STORED] < self.n:
            return np.inf, np.inf
        squared_norm, squared_direction, squared_gradient = self._norms()
        self.schedule.epoch_done(squared_gradient)
        dual = self._offer_dual(squared_direction)
        gap = squared_gradient / (2.0 * self.lam) + totals[STALENESS] / self.n
        objective = max(dual + gap, TINY)
        estimate = max(objective - max(self.dual, self._likely_dual), 0.0) / objective
        if self.w.single.size:
            # Where ``v`` and ``b d`` have grown large their sum loses digits.
            grown = self.w.scale[1] ** 2 * (self.n**2 * squared_direction)
            if grown > GROWTH**2 * squared_norm:
                fold(self.w)
            if estimate <= CLOSE:
                self._end_single()
        return estimate, float(gap) / float(objective)

    def _offer_memory(self):
        self._offer_dual(self._norms()[1])

    def certify(self):
        """Certify the present weights, by a pass of its own."""
        self._end_single()
        # With b = 0 the pass changes only d: only half a table must be restored.
        fold(self.w)
        self._direction = []
        if not self._single:
            self._direction = [table[:, table.shape[1] // 2 :].copy() for table in self.w.tables]
        self._measure(MEASURE)
        self.certificate_schedule.measured(self.certificate.relative)

    def due(self, k, tol):
        """As for all, and never where the average gradient decides."""
        return not self._by_gradient and super().due(k, tol)

    def distance(self):
        """Return the largest entry of the average gradient, if that decides."""
        if not self._by_gradient:
            return super().distance()
        return "largest entry of the average gradient", float(self._average)

    def entry(self):
        """As for all, and what ends the run."""
        average = {"average_gradient": self._average} if self._by_gradient else {}
        return super().entry() | average

    def _put_back(self):
        if self._direction is None:
            return
        for place, table in enumerate(self.w.tables):
            table[:, table.shape[1] // 2 :] = 0.0 if self._single else self._direction[place]
        if self._single:  # sooner summed than kept and copied
            self._add_memory(self.n)
        self._direction = None

    def _measure(self, task):
        loss, _, magnitude = self._pass(task, np.arange(self.n), np.zeros((self.n, 2)), Pieces())
        self.certificate = self._certificate(loss, magnitude)
        self.dual = max(self.dual, self.certificate.dual_objective)

    def _certificate(self, loss, magnitude):
        squared_norm, _, squared_gradient = self._norms()
        objective = 0.5 * self.lam * squared_norm + loss
        return certify(objective, squared_gradient, self.lam, self.dual, magnitude)

    def memory(self):
        """The stored mixtures and the L_i, for a run with another regulariser."""
        self._put_back()
        return self.state

    def work(self):
        """Oracle calls, and the passes of line searches."""
        return self.state.totals[N_ORACLE], self.state.totals[N_FORWARD]

    def leave(self):
        """End the run: the memory as a dual point, its term and its direction."""
        self._put_back()
        self._end_single()
        return self._mean_term(), [(d / self.n).ravel() for _, d in halves(self.w, self.shapes)]

    def release(self):
        """Free the memory of a run that has ended: the caller of fit still holds it."""
        self.w = self.state = self.problem = self._double = self._block = self._workers = None

    def own_weights(self):
        """The value of the weights."""
        return plain_weights(self.w, self.shapes)

    def remedy(self):
        """Return the advice for a run that has not reached the tolerance."""
        # Passes that SAG needs grow with L / (lam n), those of L-BFGS with the root of L / lam.
        steepness = 20.0 * self.state.lipschitz.mean() / self.lam
        if self.successor is None and steepness > self.n**2:
            return 'regularisation is weak for so few samples: try solver="auto", or ' + REMEDY
        return REMEDY

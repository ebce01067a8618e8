"""SAG with non-uniform sampling and SAGA on a smooth loss: epochs, step schedule, stopping."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.features import merge_copies
from ..core.intrinsics import fetch_add
from ..core.jit.dispatch import inner_kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.memory import check_memory
from ..core.offsets import longest_item
from ..core.oracles import accumulate, potentials
from ..core.parallel import LEAD, LEAVE, Pieces, count_threads, meet, open_gate, over_blocks
from ..core.weights import (
    decay,
    fold,
    fold_small,
    halves,
    in_double,
    in_single,
    lazy_weights,
    plain_weights,
    squared_norms,
    zero_weights,
)
from ..losses.verbs import ROUNDING, backtrack, least_term, loss_oracle, require_smooth
from .certificate import certify, known_record
from .primal import Workers, block_size, objective_value
from .run import REMEDY, Method
from .sampling import sample_leaf, set_leaf, sum_tree

# Positions in SAGState.totals.
N_STORED, N_KNOWN, MAX_L, N_FORWARD, N_ORACLE, LOSS, STALENESS, MAGNITUDE, DECAY, N_TOTALS = range(
    10
)

MOVE, FILL, MEASURE = range(3)
# Of ``SAGOptions.saga``: a step along one sample, and another one for the memory.
PAIRED = 2

# Positions in Block.counters, each in a cache line of its own.
DRAW, SIZE, CURSOR = 0, 8, 16
# Columns of Block.visits.
VALUE, TERMS, NOW, BEFORE, START, LIPSCHITZ, TESTS, IMPORTANCE, STEPS, KEEPS, N_VISIT_FIELDS = (
    range(11)
)
# A block has one draw for so many stored residuals: the iterates hardly notice.
SHARE = 512
# Sum of the shares that the steps of a block take away from the weights.
_MOST_DECAY = 8.0


class SAGState(NamedTuple):
    """State of SAG between epochs."""

    # (n_parts,): Stored residual of every sample, 0 at first.
    residuals: np.ndarray
    # (n_samples,): ``s_i c_i(m_i)`` of the mixture that it was made of (for a CRF the entropy of
    # marginals), a lower bound where rounding matters. The two are a point of the dual problem.
    terms: np.ndarray
    # (n_samples,): L_i where known, else 0.
    lipschitz: np.ndarray
    # (n_samples,): Consecutive visits whose first line-search test succeeded.
    streak: np.ndarray
    # (n_samples,): Visits for which the line search is still to be skipped.
    skip: np.ndarray
    # Sum tree over `lipschitz`.
    tree: np.ndarray
    # (9,): Residuals stored (m), L_i known, their maximum, forward passes, oracle calls; then sums
    # over the visits of a pass (whoever begins it sets them to 0): losses, divergences of the
    # stored mixtures from the present ones, and the sizes of the terms that losses are differences
    # of. The last is the share of the weights that the last step took away.
    totals: np.ndarray


class Block(NamedTuple):
    """Draws that are worked on together: oracles at one `w`, then their steps in order."""

    # (24,): The draw of the pass that comes next, how many draws the block has, and how many of
    # them have been taken.
    counters: np.ndarray
    # (most,): The sample of each draw.
    samples: np.ndarray
    # (most,): The first draw of the same sample in the block.
    first: np.ndarray
    # (most,): The draws in the order in which threads take them, samples of most parts first.
    queue: np.ndarray
    # (n_samples,): The first draw of each sample in the last block that had it.
    seen: np.ndarray
    # (most + 1,): Where the draws lie in `changes`.
    start: np.ndarray
    # (most, 10): What the oracle and the line search said of each; whether a step is made along it,
    # and whether the memory keeps it.
    visits: np.ndarray
    # (most, 2): What of each change ``v`` and ``d`` take.
    coefficients: np.ndarray
    # (room,): Changes of the stored residuals; the room ends a block early.
    changes: np.ndarray


class SAGOptions(NamedTuple):
    """Choices of one SAG run."""

    # Regulariser of the lambda form.
    lam: float
    # Factor on the step size.
    step_scale: float
    # 1 to skip the line search after successes, 0 to search at every visit.
    skipping: int
    # 1 for uniform sampling with one constant L, 0 for non-uniform with one L_i per sample.
    uniform: int
    # 1 for SAGA's unbiased step; 2 for that with one sample for the step and one for the memory.
    saga: int
    # ``MOVE``: the method. ``FILL``: store the residuals at the present weights, which stay.
    # ``MEASURE``: the same, but only ``d`` takes them, the memory stays, too.
    task: int
    # Lower bound on the dual terms of the loss.
    least_term: float


@inner_kernel(inline=True)
def _choose(state, options, order, uniforms, step):
    """The sample of this step, and 1 / (n p_i)."""
    n = state.lipschitz.shape[0]
    if order.shape[0] > 0:
        return order[step], 1.0
    u = uniforms[step, 1]
    i = np.int64(u * n)
    i = i if i < n else n - 1
    if options.saga == PAIRED:
        if step % 2 == 1:
            return i, 1.0
        i = sample_leaf(state.tree, u)
        return i, state.tree[1] / (n * state.lipschitz[i])
    if options.uniform == 1:
        return i, 1.0
    if uniforms[step, 0] >= 0.5:
        i = sample_leaf(state.tree, u)
    share = state.lipschitz[i] / state.tree[1]
    return i, 1.0 / (0.5 + 0.5 * n * share)


@inner_kernel(inline=True)
def _first_guess(state, options, i):
    """L_i to start the line search from (section 5 of the paper), or to keep if it is skipped."""
    totals = state.totals
    if options.uniform == 1:
        return totals[MAX_L] * 2.0 ** (-1.0 / state.lipschitz.shape[0])
    if state.lipschitz[i] == 0.0:
        return 0.5 * state.tree[1] / totals[N_KNOWN] if totals[N_KNOWN] > 0 else 1.0
    return state.lipschitz[i] if state.skip[i] > 0 else 0.9 * state.lipschitz[i]


@inner_kernel(inline=True)
def _remember(state, options, i, start, lipschitz, tests):
    """Store L_i, and after xi successes in a row skip the next 2^(xi - 1) searches."""
    totals = state.totals
    if state.skip[i] > 0:
        state.skip[i] -= 1
    elif lipschitz > start or options.skipping == 0:
        state.streak[i] = 0
    else:
        state.streak[i] += 1
        state.skip[i] = 1 << (state.streak[i] - 1 if state.streak[i] < 41 else 40)
    totals[N_FORWARD] += tests
    if options.uniform == 1:
        # Others of the block may have raised it since.
        lowered = totals[MAX_L] * 2.0 ** (-1.0 / state.lipschitz.shape[0])
        raised = lipschitz > start and lipschitz > lowered
        totals[MAX_L] = lipschitz if raised else lowered
    else:
        totals[MAX_L] = lipschitz if lipschitz > totals[MAX_L] else totals[MAX_L]
        set_leaf(state.tree, i, lipschitz)
    if state.lipschitz[i] == 0.0:
        totals[N_KNOWN] += 1.0
    state.lipschitz[i] = lipschitz


@inner_kernel(inline=True)
def _step_size(state, options):
    """The step: section 5 for non-uniform sampling; of SAGA those of Proposition 1."""
    totals, lam = state.totals, options.lam
    mean = state.tree[1] / totals[N_KNOWN]
    if options.saga == PAIRED:
        steepest = 4.0 * (mean + lam)
    elif options.uniform == 1:
        steepest = (3.0 if options.saga == 1 else 1.0) * (totals[MAX_L] + lam)
    elif options.saga == 1:
        # L_i / (n p_i) <= 2 L_mean under this sampling
        steepest = 3.0 * (2.0 * mean + lam)
    else:
        steepest = 2.0 / (1.0 / (totals[MAX_L] + lam) + 1.0 / (mean + lam))
    alpha = options.step_scale / steepest
    # One longer than 1 / lam would turn the weights around.
    return alpha if alpha * lam < 0.9 else 0.9 / lam


@inner_kernel(inline=True)
def _n_parts(block, k):
    """Parts of a draw; none where the sample was drawn before."""
    return block.start[k + 1] - block.start[k]


@inner_kernel(inline=True)
def _choose_block(problem, state, options, order, uniforms, block):
    """Draw the samples of the next block; its size is 0 after the last."""
    counters = block.counters
    draw = counters[DRAW]
    most = block.samples.shape[0]
    most -= draw % most  # a pass may be cut at multiples of this
    if options.task == MOVE:
        # At first the memory holds few gradients, and each step matters.
        stored = np.int64(state.totals[N_STORED]) // SHARE
        stored = stored if stored > 1 else 1
        most = stored if stored < most else most
        if options.saga == PAIRED and order.shape[0] == 0:
            most = 2 - draw % 2
        # The scalars of the weights are looked after between blocks.
        if state.totals[DECAY] * most > _MOST_DECAY:
            most = np.int64(_MOST_DECAY / state.totals[DECAY])
            most = most if most > 1 else 1
    left = uniforms.shape[0] - draw
    most = left if left < most else most
    size = 0
    while size < most:
        i, importance = _choose(state, options, order, uniforms, draw + size)
        first, n_parts = block.seen[i], 0
        if not (first < size and block.samples[first] == i):
            first, n_parts = size, problem.part_ptr[i + 1] - problem.part_ptr[i]
        stop = block.start[size] + n_parts
        if size > 0 and stop > block.changes.shape[0]:
            break
        block.seen[i] = first
        block.samples[size] = i
        block.first[size] = first
        block.start[size + 1] = stop
        block.visits[size, IMPORTANCE] = importance
        for_memory = options.saga == PAIRED and order.shape[0] == 0 and (draw + size) % 2 == 1
        paired = options.saga == PAIRED and order.shape[0] == 0 and options.task == MOVE
        block.visits[size, STEPS] = 0.0 if for_memory else 1.0
        block.visits[size, KEEPS] = 0.0 if paired and not for_memory else 1.0
        if for_memory:
            block.visits[first, KEEPS] = 1.0
        place = size
        while place > 0 and _n_parts(block, block.queue[place - 1]) < n_parts:
            block.queue[place] = block.queue[place - 1]
            place -= 1
        block.queue[place] = size
        size += 1
    counters[DRAW] = draw + size
    counters[SIZE] = size
    counters[CURSOR] = 0


@inner_kernel(inline=True)
def _visit(loss, problem, w, weight, options, state, i, visit, r, buffers, labels):
    """Oracle, line search and change of the residual, which `r` takes."""
    theta, augmented, answer, trial = buffers[0], buffers[1], buffers[2], buffers[3]
    size = r.shape[0]
    potentials(problem, i, w, theta)
    value, magnitude = loss_oracle(loss, problem, i, theta, labels, r, augmented)
    if options.task == MOVE:
        start = _first_guess(state, options, i)
        lipschitz, tests = start, 0
        if state.skip[i] == 0:
            lipschitz, tests = backtrack(
                loss, problem, i, weight, theta, value, labels, r, start, answer, trial, augmented
            )
        visit[START], visit[LIPSCHITZ], visit[TESTS] = start, lipschitz, tests
    keep = 0.0 if options.task == MEASURE else visit[KEEPS]
    now, before = 0.0, 0.0  # <theta, residual>
    memory = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
    for q in range(size):
        potential = theta[q] if theta[q] > -math.inf else 0.0  # no mass on what is forbidden
        stored = memory[q]
        change = weight * r[q] - stored
        now += potential * (stored + change)
        before += potential * stored
        memory[q] = stored + keep * change
        r[q] = change
    visit[VALUE], visit[TERMS], visit[NOW], visit[BEFORE] = value, magnitude, now, before


@inner_kernel(inline=True)
def _remember_mixture(state, options, i, weight, visit):
    """Store the dual term of the new residual; add up ``loss - <theta, r_i> - c_i`` of the old."""
    totals = state.totals
    value, magnitude = weight * visit[VALUE], weight * visit[TERMS]
    slack = ROUNDING * magnitude
    divergence = value - visit[BEFORE] - state.terms[i] - 2.0 * slack
    totals[STALENESS] += 0.0 if divergence < 0.0 else visit[IMPORTANCE] * divergence
    # Too small a term is a valid bound, one too large is not.
    term = value - visit[NOW] - slack
    if options.task != MEASURE and visit[KEEPS] > 0.0:
        state.terms[i] = options.least_term if term < options.least_term else term


@inner_kernel(inline=True)
def _remember_visit(sample_weight, options, state, i, visit):
    """Numbers of a visit: its L_i, its dual term."""
    totals = state.totals
    totals[N_ORACLE] += 1.0
    if options.task == MOVE:
        if state.lipschitz[i] == 0.0 and totals[N_STORED] < sample_weight.shape[0]:
            totals[N_STORED] += 1.0
        _remember(state, options, i, visit[START], visit[LIPSCHITZ], visit[TESTS])
    _remember_mixture(state, options, i, sample_weight[i], visit)


@inner_kernel(inline=True)
def _settle(w, sample_weight, options, state, block):
    """Numbers of all visits of a block, in order: constants, dual terms, and steps of `w`."""
    totals = state.totals
    for k in range(block.counters[SIZE]):
        i, first = block.samples[k], block.first[k]
        visit = block.visits[first]
        totals[LOSS] += sample_weight[i] * visit[VALUE]
        totals[MAGNITUDE] += sample_weight[i] * visit[TERMS]
        if first == k:  # drawn again, it finds its residual fresh
            _remember_visit(sample_weight, options, state, i, visit)
        moves = options.task == MOVE and block.visits[k, STEPS] > 0.0
        alpha = _step_size(state, options) if moves else 0.0
        rho, eta = 1.0 - alpha * options.lam, alpha / totals[N_STORED]
        totals[DECAY] = alpha * options.lam if moves else totals[DECAY]
        change = 0.0
        if options.saga > 0:
            decay(w, rho, eta)
            change = -alpha * block.visits[k, IMPORTANCE]
        # w = s v + b d: what d takes leaves w in place.
        kept = visit[KEEPS]
        block.coefficients[k, 0] = (change - kept * w.scale[1]) / w.scale[0]
        block.coefficients[k, 1] = kept
        if options.saga == 0:
            decay(w, rho, eta)


@solver_kernel
def sag_epoch(
    loss,
    problem,
    w,
    own,
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
    """Steps of SAG or SAGA, one per row of `uniforms`, in blocks that threads share."""
    while True:
        came = meet(team)
        if came == LEAVE:
            break
        if came == LEAD:
            fold_small(w)
            _choose_block(problem, state, options, order, uniforms, block)
            open_gate(team)
        size = block.counters[SIZE]
        if size == 0:
            break
        taken = fetch_add(block.counters, CURSOR, 1)
        while taken < size:
            k = block.queue[taken]
            if block.first[k] == k:
                i = block.samples[k]
                r = block.changes[block.start[k] : block.start[k + 1]]
                visit, weight = block.visits[k], sample_weight[i]
                _visit(loss, problem, w, weight, options, state, i, visit, r, buffers, labels)
            taken = fetch_add(block.counters, CURSOR, 1)
        came = meet(team)
        if came == LEAVE:
            break
        if came == LEAD:
            _settle(w, sample_weight, options, state, block)
            open_gate(team)
        # The last first: of their rows most are in the cache. Who has no share adds nothing.
        for back in range(size if own.share[0] < own.share[1] else 0):
            k = size - 1 - back
            if block.first[k] == k:
                c = block.coefficients[k, 0], block.coefficients[k, 1]
                r = block.changes[block.start[k] : block.start[k + 1]]
                accumulate(problem, block.samples[k], r, c, own)


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


# Node weights in single precision while the optimum is far, and the way back to double.


@solver_kernel
def add_residuals(problem, residuals, first, stop, w, team):
    """Add the features of stored residuals to ``d``; threads do not meet, each has its share."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (0.0, 1.0), w)


# Node weights: fewer, with their directions, are in the cache in double precision, too.
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


def _new_state(problem, uniform):
    n = problem.part_ptr.size - 1
    totals = np.zeros(N_TOTALS)
    if uniform:
        totals[MAX_L] = 1.0
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
    """Factor on the paper's step size, for non-uniform SAG: 1/2, 1.5, from epoch 8 to 20 back to 1.

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
        #: What is trained instead, or None.
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
        **options,
    ):
        super().__init__(*task, **options)
        require_smooth(self.loss, "SAGA" if saga else "SAG")
        start = self._own(start)
        self.w = lazy_weights(zero_weights(self.shapes) if start is None else start)
        self.state = _new_state(self.problem, uniform) if memory is None else memory
        self.schedule = _StepSchedule(constant=saga or uniform)
        self._resumes = memory is not None
        if self._resumes:
            self.state.totals[[N_FORWARD, N_ORACLE, DECAY]] = 0.0
            self.schedule.skip_start()
        self.certificate_schedule = CertificateSchedule()
        self._warm, self._uniform = start is not None, uniform
        self._flags = int(skipping and not uniform), int(uniform)
        #: 0 for SAG's steps, 1 for SAGA's, PAIRED; and whether SAG takes SAGA's in this pass.
        self._kind, self._unbiased = PAIRED if paired else int(saga), False
        # The best bound, where rounding to single precision may have raised it.
        self._likely_dual = 0.0
        #: The direction to go on with after a certificate; empty if it is summed again.
        self._direction = None
        # A pass may be cut at multiples of this.
        size = min(block_size(self.problem), self.n // SHARE)
        self._grain = 2 if paired else max(size, 1)
        self._block = _new_block(self.problem, self._grain)
        n_threads = min(count_threads(self.problem, self.n_jobs), self._grain)
        self._workers = Workers(self.loss, self.problem, n_threads)
        #: Whether the run is in single precision at first, and the memory of double precision.
        self._single, self._double = single, None

    def begin(self, progress):
        """Fill the memory, at the start only: a later gradient is far larger than its mean."""
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
        order = rng.permutation(self.n) if k == 1 else _NO_ORDER
        self._pass(MOVE, order, rng.random((self.n, 2)), progress.pieces)
        self.estimate, gap = self._estimate()
        self.gaps.append(gap)

    def _pass(self, task, order, uniforms, pieces):
        """Visits of samples; returns the means of losses, divergences and magnitudes."""
        flags = *self._flags, max(self._kind, int(self._unbiased)), task, least_term(self.loss)
        options = SAGOptions(self.lam, self.schedule.factor(), *flags)
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

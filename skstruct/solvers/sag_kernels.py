"""SAG's epoch: visits of samples, steps, sampling, and what it remembers of each sample."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.intrinsics import fetch_add
from ..core.jit.kernels import inner_kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import accumulate, potentials
from ..core.parallel import LEAD, LEAVE, meet, open_gate
from ..core.weights import (
    decay,
    fold_small,
)
from ..losses.operations import ROUNDING, backtrack, loss_oracle
from .sampling import sample_leaf, set_leaf

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
    # 1 for steps as long as published, by the largest of the present L_i.
    published: int = 0


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
    if options.uniform == 1 or state.tree[1] == 0.0:
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
        if options.published == 1 and state.lipschitz[i] == totals[MAX_L]:
            totals[MAX_L] = 0.0
            for j in range(state.lipschitz.shape[0]):
                if j != i and state.lipschitz[j] > totals[MAX_L]:
                    totals[MAX_L] = state.lipschitz[j]
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
    # One longer than 1 / lam would turn the weights around; none as published is.
    return alpha if alpha * lam < 0.9 or options.published == 1 else 0.9 / lam


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

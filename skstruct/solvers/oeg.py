"""Online exponentiated gradient on a smooth loss: passes, dual objective, certificates."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.features import square_features
from ..core.jit.kernels import inner_kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.memory import check_memory
from ..core.oracles import (
    accumulate,
    add_indicator,
    exp_slack,
    gram,
    potentials,
    truth,
)
from ..core.parallel import Pieces
from ..core.weights import (
    Weights,
    aligned,
    padded_width,
    squared_norm,
)
from ..losses.operations import ROUNDING, least_term, loss_oracle, loss_value, require_smooth
from .certificate import certify
from .primal import BatchGradient, Worker
from .sag import CLOSE, TINY, CertificateSchedule, StoredMixtures

# One pass of online exponentiated gradient (Collins et al. 2008, figure 4 and section 7).
#
# Sample i stores potentials phi_i, the residual ``m_i - mu(y_i)`` of the mixture that is best at
# them and its dual term. With the mean gradient ``g = (1 / n) sum_i s_i A_i' (m_i - mu(y_i))`` the
# weights are ``w = (rho v - g) / (lam + rho)`` all along, where ``rho/2 |w - v|^2`` is the proximal
# term of the epoch. A step takes phi_i to ``(1 - eta) phi_i + eta A_i w``: with ``eta = 1`` the
# mixture of the present weights.
#
# The residual is a function of phi_i, and need not be stored: one more oracle call at a visit finds
# it again. And the marginals of any potentials are a dual point, those of rounded ones too. So the
# *compact* state, for large pair tables, has phi_i in single precision, and the residuals of as
# many samples as there is room for. A rounded residual is that of no mixture, and its bound none:
# residuals are in single precision while the weights are, when there is no bound, and all are found
# again for the sum with which the weights return to double precision.

# Positions in OEGState.totals.
N_ORACLE, N_KNOWN, RATES, SCORE, N_TOTALS = range(5)
# Position of the buffer for residuals that are not stored.
MEMORY = 5

# Tests of a visit; rates stay above the least, from which they come back.
_MOST_TESTS = 20
_FIRST_RATE, WARM_RATE, _LEAST_RATE = 0.9, 0.5, 1e-4
_GROWTH = 1.5
# Increase in confidence in the truth at a first visit after one that lowered the dual.
_SURER = 1.0
# By how much of it one test lowers a rate, at least and at most.
_LEAST_CUT, _MOST_CUT = 0.5, 0.1


class OEGState(NamedTuple):
    """State of OEG between epochs."""

    # (n_parts,): Potentials of every sample; of a compact state in float32.
    phi: np.ndarray
    # (n_stored,): ``m_i - mu(y_i)`` of the best mixtures at them, 0 at first; of a compact state
    # those of the first samples alone, in float32 while the weights are.
    residuals: np.ndarray
    # (n_samples,): ``c_i(m_i)``, a lower bound where rounding matters.
    terms: np.ndarray
    # (n_samples,): Step sizes, 0 before the first visit.
    rates: np.ndarray
    # (n_samples,): How far, at its last visit, the mixture was from that of the weights; an
    # estimate.
    divergences: np.ndarray
    # (4,): Oracle calls, samples visited, the sum of their rates; what each part of the truth
    # scores before the next first visit.
    totals: np.ndarray
    # (n_samples,): Parts of the nodes, which come first; all where none are known to be of pairs.
    n_own: np.ndarray


class OEGOptions(NamedTuple):
    """Choices of one run."""

    # ``1 / ((lam + rho) n)``.
    inverse: float
    # Divergences whose estimates are below this are measured.
    little: float
    # Lower bound on the dual terms of the loss.
    least_term: float
    # What a residual of weight 1 adds to the weights and, under an L1 penalty, to ``d``.
    on_weights: float
    on_direction: float


@inner_kernel(inline=True)
def _begin_at_truth(problem, i, score, n_own, labels, trial, phi):
    """Potentials that favour the truth, by its nodes; `trial` is scratch."""
    # Those of pairs could favour another labelling: with Potts interactions all edges share the
    # part of equal labels, and unequal ones have none.
    truth(problem, i, labels)
    for q in range(phi.shape[0]):
        trial[q] = 0.0
    add_indicator(problem, i, labels, 1.0, trial)
    for q in range(phi.shape[0]):
        phi[q] = score if q < n_own and trial[q] > 0.0 else 0.0


@inner_kernel(inline=True)
def _mix(phi, theta, rate, trial):
    """``(1 - rate) phi + rate theta``, as `phi` will hold it; what is forbidden stays so."""
    for q in range(phi.shape[0]):
        allowed = theta[q] > -math.inf
        mixed = (1.0 - rate) * phi[q] + rate * theta[q] if allowed else -math.inf
        trial[q] = phi.dtype.type(mixed)


@inner_kernel
def _find_again(loss, problem, i, state, buffers, labels):
    """Recompute the residual of sample i at its potentials, into the last buffer."""
    first, size = problem.part_ptr[i], problem.part_ptr[i + 1] - problem.part_ptr[i]
    trial, memory = buffers[1], buffers[MEMORY]
    for q in range(size):
        trial[q] = state.phi[first + q]
        memory[q] = 0.0
    if state.rates[i] > 0.0:  # else the mixture is the truth
        loss_oracle(loss, problem, i, trial, labels, memory[:size], buffers[3])
        state.totals[N_ORACLE] += 1.0


@inner_kernel(inline=True)
def recall(loss, problem, i, state, buffers, labels):
    """Write the residual of sample i to ``buffers[MEMORY]``: stored, or recomputed."""
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    memory = buffers[MEMORY]
    if stop <= state.residuals.shape[0]:
        for q in range(stop - first):
            memory[q] = state.residuals[first + q]
    else:
        _find_again(loss, problem, i, state, buffers, labels)


@inner_kernel(inline=True)
def _store(problem, i, r, state):
    """Store the residual of sample i, if there is room for it."""
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    if stop <= state.residuals.shape[0]:
        own = state.residuals[first:stop]
        for q in range(own.shape[0]):
            own[q] = r[q]


@inner_kernel(inline=True)
def _compare(phi, theta, trial, r, memory, change):
    """Write ``r - memory`` to `change`; products: with theta, with theta - phi, of trial and r."""
    along, linear, product = 0.0, 0.0, 0.0
    for q in range(phi.shape[0]):
        moved = r[q] - memory[q]
        change[q] = moved
        if theta[q] > -math.inf:  # no mass on what is forbidden
            along += theta[q] * moved
            linear += (theta[q] - phi[q]) * moved
            product += trial[q] * r[q]
    return along, linear, product


@inner_kernel
def _try(loss, problem, i, weight, rate, options, state, memory, buffers, labels):
    """A step of sample i: its dual term, gain in the dual, gain by the slope, their rounding."""
    theta, trial, r, change, answer = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    phi, size = state.phi[first:stop], stop - first
    _mix(phi, theta, rate, trial)
    value, magnitude = loss_oracle(loss, problem, i, trial, labels, r[:size], change)
    along, linear, product = _compare(phi, theta, trial, r, memory, change)
    # Too small a term is a valid bound, one too large is not.
    term = value - product - ROUNDING * magnitude
    term = options.least_term if term < options.least_term else term
    gram(problem, i, change, answer)
    curvature = 0.0
    for q in range(size):
        curvature += change[q] * answer[q]
    gain = term - state.terms[i] + along - 0.5 * weight * options.inverse * curvature
    return term, gain, linear, 2.0 * ROUNDING * magnitude


@inner_kernel
def _take(problem, i, term, rate, weight, options, state, buffers, w):
    """Make the step of the last try."""
    trial, r, change = buffers[1], buffers[2], buffers[3]
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    phi = state.phi[first:stop]
    for q in range(stop - first):
        phi[q] = trial[q]
    _store(problem, i, r, state)
    state.terms[i] = term
    state.totals[RATES] += rate - state.rates[i]
    state.rates[i] = rate
    accumulate(problem, i, change, (weight * options.on_weights, weight * options.on_direction), w)


@inner_kernel(inline=True)
def _divergence(loss, problem, i, weight, linear, rate, options, state, memory, buffers, labels):
    """Divergence of the stored mixture from the weights', before the last trial step."""
    # Where the mixture is close to one labelling, the estimate from the slope is unreliable.
    estimate = 0.5 * max(linear, 0.0) / rate
    if weight * estimate >= options.little:
        return estimate
    theta = buffers[0]
    # The scratch of tries, which is free again.
    value, _ = loss_value(loss, problem, i, theta, labels, buffers[4])
    state.totals[N_ORACLE] += 1.0
    exact = value - state.terms[i]
    for q in range(memory.shape[0]):
        exact -= theta[q] * memory[q] if theta[q] > -math.inf else 0.0
    return max(exact, 0.0)


@inner_kernel(inline=True)
def visit(loss, problem, i, weight, w, options, state, buffers, labels):
    """A step of a sample that has been visited before."""
    rate = state.rates[i]
    recall(loss, problem, i, state, buffers, labels)
    memory = buffers[MEMORY][: problem.part_ptr[i + 1] - problem.part_ptr[i]]
    for _ in range(_MOST_TESTS):
        found = _try(loss, problem, i, weight, rate, options, state, memory, buffers, labels)
        term, gain, linear, noise = found
        state.totals[N_ORACLE] += 1.0
        # Where rounding hides the gain the rate grows: one that followed rounding errors would keep
        # them alive, and a low one would stay low.
        is_clear = linear > 8.0 * noise
        # The rate that would have been best, over this one.
        share = 0.5 * linear / max(linear - gain, 0.125 * linear) if is_clear else _GROWTH
        if gain >= -noise or not is_clear:
            state.divergences[i] = _divergence(
                loss, problem, i, weight, linear, rate, options, state, memory, buffers, labels
            )
            rate *= min(share, _GROWTH)
            rate = min(max(rate, _LEAST_RATE), 1.0)
            _take(problem, i, term, rate, weight, options, state, buffers, w)
            break
        rate *= min(max(share, _MOST_CUT), _LEAST_CUT)
        if rate < _LEAST_RATE:
            state.totals[RATES] += _LEAST_RATE - state.rates[i]
            state.rates[i] = _LEAST_RATE
            break


@inner_kernel(inline=True)
def visit_first(loss, problem, i, weight, w, options, state, buffers, labels):
    """First step of a sample: more weight on the truth until the dual does not fall."""
    totals = state.totals
    rate = totals[RATES] / totals[N_KNOWN] if totals[N_KNOWN] > 0 else _FIRST_RATE
    phi = state.phi[problem.part_ptr[i] : problem.part_ptr[i + 1]]
    recall(loss, problem, i, state, buffers, labels)
    memory = buffers[MEMORY][: phi.shape[0]]
    for _ in range(_MOST_TESTS):
        _begin_at_truth(problem, i, totals[SCORE], state.n_own[i], labels, buffers[1], phi)
        found = _try(loss, problem, i, weight, rate, options, state, memory, buffers, labels)
        term, gain, noise = found[0], found[1], found[3]
        totals[N_ORACLE] += 1.0
        if gain >= -noise:
            totals[N_KNOWN] += 1.0
            state.divergences[i] = math.inf
            _take(problem, i, term, rate, weight, options, state, buffers, w)
            break
        totals[SCORE] += _SURER
        rate *= _LEAST_CUT


@solver_kernel
def oeg_pass(loss, problem, w, sample_weight, options, state, order, buffers, labels):
    """Steps at the samples of an order, each tested by the exact gain in the epoch's dual."""
    # Its ratio to that of the slope gives the rate that would have been best; a step that lowers
    # the dual is made again at that rate.
    for step in range(order.shape[0]):
        i = order[step]
        weight = sample_weight[i]
        potentials(problem, i, w, buffers[0])
        if state.rates[i] == 0.0:
            visit_first(loss, problem, i, weight, w, options, state, buffers, labels)
        else:
            visit(loss, problem, i, weight, w, options, state, buffers, labels)


# With L1 or without, rho begins at ``sqrt((lam1 + lam2) s / n)``, s the mean weight of a sample: on
# text, with L1 (:mod:`benchmarks.bench_l1`) and without it for C from 1 to 500, half or twice as
# much is hardly better. It is raised where the gap does not fall and most of it is that of the
# epoch's own problem, and lowered where epochs solve theirs, up to a factor of a million each way.
# It is larger in the first epochs, whose mixtures are rough. By `FIRST_FACTOR` with L1: that saves
# a third of the epochs to 1e-2 on Dutch entities with c1 = 0.6 and c2 = 0.5, on other tasks few or
# none. Without, by the cube root of 1 / (n rho) but no more: a tenth of the passes to 1e-3 on these
# with C of 50 and 500 (POS tags with 50: 3 % more). With C = 1, where rho is 1 / n, it would cost
# passes, and is not.
FIRST_FACTOR, _FALL = 4.0, 0.7
_RAISE, _LOWER, _LEAST_RHO = 1.5, 0.8, 1e-6
_MOST_INNER = 0.5


@solver_kernel
def shift_potentials(loss, problem, shift, options, state, first, stop, buffers, labels):
    """Add the potentials of a change of the weights to those stored; the best mixtures at them."""
    theta, trial, change = buffers[0], buffers[1], buffers[3]
    for i in range(first, stop):
        if state.rates[i] == 0.0:  # the mixture is the truth
            continue
        start, end = problem.part_ptr[i], problem.part_ptr[i + 1]
        phi, memory = state.phi[start:end], buffers[MEMORY][: end - start]
        potentials(problem, i, shift, theta)
        for q in range(phi.shape[0]):
            phi[q] += theta[q]
            trial[q] = phi[q]  # as it is stored
        value, magnitude = loss_oracle(loss, problem, i, trial, labels, memory, change)
        _store(problem, i, memory, state)
        term = value - ROUNDING * magnitude
        for q in range(phi.shape[0]):
            term -= trial[q] * memory[q] if trial[q] > -math.inf else 0.0
        state.terms[i] = max(term, options.least_term)
        state.totals[N_ORACLE] += 1.0


@solver_kernel
def sum_residuals(
    loss, problem, sample_weight, options, state, again, first, stop, w, buffers, labels
):
    """Add the weights, or the direction, of all residuals to zeros; of those found `again`."""
    for i in range(first, stop):
        own = buffers[MEMORY][: problem.part_ptr[i + 1] - problem.part_ptr[i]]
        weight = sample_weight[i]
        if again:
            _find_again(loss, problem, i, state, buffers, labels)
            _store(problem, i, own, state)
        else:
            recall(loss, problem, i, state, buffers, labels)
        factors = weight * options.on_weights, weight * options.on_direction
        accumulate(problem, i, own, factors, w)


_NO_ORDER, _NOTHING = np.empty(0, dtype=np.int64), np.empty(0)
_FIRST_SCORE = 7.0
# An epoch visits samples once more for each of these fractions of the mean divergence that theirs
# exceeds; those below the first every third epoch.
_SHARES, _MOST_IDLE = (0.5, 2.0, 5.0, 10.0, 20.0, 40.0), 2
# Relative gap: estimates of small divergences mislead before.
_ROUGH = 0.2


# Parts from which on a state is compact if most belong to pairs, and those whose residuals have
# room then; in single precision twice as many.
_LARGE, _ROOM = 1 << 24, 1 << 26


def _parts_of_pairs(problem):
    """Parts of each sample that are known to be of pairs."""
    n_tables = getattr(
        problem.space, "n_tables", np.zeros(problem.part_ptr.size - 1, dtype=np.int64)
    )
    return n_tables * getattr(problem.space, "width", 0)


def is_compact(problem) -> bool:
    """Return whether marginals are recomputed at each visit, to save memory."""
    n_parts, of_pairs = int(problem.part_ptr[-1]), int(_parts_of_pairs(problem).sum())
    # An inexact oracle begins where it ended, and does not repeat its marginals.
    repeats = exp_slack.registry.keys().isdisjoint(type(problem.space).__mro__[:-1])
    return repeats and 2 * of_pairs > n_parts > _LARGE


def _room(n_parts, single):
    """Residuals of a compact state, zeros."""
    n_stored = min(n_parts, 2 * _ROOM if single else _ROOM)
    return np.zeros(n_stored, dtype=np.float32 if single else np.float64)


def _new_state(problem, single):
    n, n_parts = problem.part_ptr.size - 1, int(problem.part_ptr[-1])
    small = is_compact(problem)
    kind = np.float32 if small else np.float64
    residuals = _room(n_parts, single) if small else np.zeros(n_parts)
    n_bytes = np.dtype(kind).itemsize * n_parts + residuals.nbytes
    check_memory(n_bytes, "the potentials and mixtures of OEG", 'use solver="lbfgs"')
    return OEGState(
        phi=np.zeros(n_parts, dtype=kind),
        residuals=residuals,
        terms=np.zeros(n),
        rates=np.zeros(n),
        divergences=np.full(n, np.inf),
        totals=np.zeros(N_TOTALS),
        n_own=np.diff(problem.part_ptr) - _parts_of_pairs(problem),
    )


class OEGMemory(NamedTuple):
    """A dual point, the regulariser that it was found with, and its weights."""

    state: OEGState
    lam: float
    weights: Weights


def _padded_weights(shapes, start=None):
    """Plain weights, by default zeros, whose rows are whole cache lines."""
    tables = []
    for rows, width in shapes:
        columns = padded_width(width)
        tables.append(aligned(rows * columns).reshape(rows, columns))
    for table, own in zip(tables, () if start is None else start.tables, strict=False):
        table[:, : own.shape[1]] = own
    return Weights(*tables)


def _in_single(w):
    """The weights with the node table in single precision."""
    return w._replace(node=w.node[:0], single=w.node.astype(np.float32))


def _product(tables, others):
    """Inner product; of tables in single precision only the sum of a row is rounded to it."""
    pairs = zip(tables, others, strict=True)
    return float(sum(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64) for a, b in pairs))


# Fraction of the divergences at the visits of an epoch that is left at its end, about.
_LEFT = 0.8
# Rounding of a float, and roundings of a weight in an epoch but for those of its visits.
EPS, ROUNDINGS = float(np.finfo(np.float64).eps), 4
# Fraction of the gap that rounding may be, before g is summed again.
LOST = 0.1


class OEG(StoredMixtures):
    """Weights and the dual point behind them: online exponentiated gradient (Collins et al. 2008).

    Epochs are proximal point steps (Rockafellar 1976) on ``P(w) + rho/2 |w - v|^2``, v the weights
    at the start: with mean gradient g, ``(lam + rho) w = rho v - g``.
    """

    #: If less than this fraction of the gap is that of the epoch's own problem, rho falls. On
    #: chunks and entities with C = 500 fits take 37 to 49 epochs, with 0.02 45 to 58; with C = 1
    #: the same.
    least_inner = 0.1

    def __init__(self, *task, single=False, memory=None, start=None, **options):
        super().__init__(*task, **options)
        require_smooth(self.loss, "OEG")
        self._single, self._resumes = single, memory is not None
        self.w = _padded_weights(self.shapes)
        self.state = memory.state if self._resumes else _new_state(self.problem, single)
        self._set_rho(self.lam)
        #: ``lam w + g``; during an epoch v.
        self._gradient = _padded_weights(self.shapes)
        inverse = 1.0 / (max(self.lam, TINY) * self.n)
        self._options = OEGOptions(inverse, 0.0, least_term(self.loss), -inverse, 0.0)
        #: Prediction of what the weights gain on those of the memory; without padding.
        self._shift = None
        if self._resumes:
            changes = map(np.subtract, start.tables, memory.weights.tables)
            self._shift = self._own(Weights(*changes))
            # The first proximal point: ``-g / lam`` would be far off, were lam far from that of g.
            self.w = _padded_weights(self.shapes, self._own(start))
            # The curvature of the dual is in proportion to 1 / lam.
            scaled = self.state.rates * min(self.lam / memory.lam, 1.0)
            np.clip(scaled, _LEAST_RATE, 1.0, out=self.state.rates)
            self.state.totals[N_ORACLE] = 0.0
        else:
            self.state.totals[SCORE] = _FIRST_SCORE
        buffers, labels = Worker(self.loss, self.problem).scratch
        self._scratch = np.empty((MEMORY + 1, buffers.shape[1])), labels
        self._gradients = BatchGradient(self.loss, self.problem, self.sample_weight, self.n_jobs)
        self._half_norm, self._model, self._measured = 0.0, 0.0, 0
        #: Bound on the norm of what rounding has added to g since it was summed.
        self._rounding, self._n_visits = 0.0, 0
        self.certificate_schedule = CertificateSchedule(least=0.1)
        self._idle = np.zeros(self.n, dtype=np.int64)

    def begin(self, progress):
        """The gradient of a dual point that another run has left, moved where that is predicted."""
        if self._resumes:
            if any(map(np.any, self._shift.tables)):
                self._move(progress.pieces, self.n)
            self._sum_memory()

    def memory(self):
        """The dual point, for a run with another regulariser."""
        return OEGMemory(self.state, self.lam, self.weights())

    def _set_rho(self, convexity):
        share = self.sample_weight.mean() / self.n
        self.rho = math.sqrt(convexity * share)
        self._rhos = _LEAST_RHO * self.rho, self.rho / _LEAST_RHO
        self._first = min(max(math.cbrt(share / max(self.rho, TINY)), 1.0), FIRST_FACTOR)

    def _early(self, k):
        """Factor on rho in epoch `k`, which is larger while mixtures are rough."""
        return 1.0 if self._resumes else max(self._first * _FALL ** (k - 1), 1.0)

    def epoch(self, k, rng, progress):
        """Steps to a proximal point, from the second epoch on where there is something to gain."""
        if self._single and not self.w.single.size:
            self.w, self._gradient = _in_single(self.w), _in_single(self._gradient)
        rho = self._early(k) * self.rho
        inverse = 1.0 / max(self.lam + rho, TINY)
        for w, gradient in zip(self.w.tables, self._gradient.tables, strict=True):
            gradient *= -inverse
            gradient += w
        self.w, self._gradient = self._gradient, self.w
        inverse /= self.n
        self._options = self._options._replace(inverse=inverse, on_weights=-inverse)
        divergence = self._visits(rng, progress)
        for w, v in zip(self.w.tables, self._gradient.tables, strict=True):
            np.subtract(v, w, out=v)
            v *= rho
        # Every visit rounds the weights; g is known from their change.
        size = math.sqrt(_product(self.w.tables, self.w.tables))
        self._rounding += EPS * rho * (self._n_visits + ROUNDINGS) * size
        best = max(self._dual_objective(), self.dual)
        # About what the bound has lost so, and the gap.
        if self._rounding * size > LOST * (self._model + divergence - best) and not self._single:
            self._sum_memory()
            best = max(self._dual_objective(), self.dual)
        # Divergences are those at the visits, and have fallen since.
        objective, likely = self._model + divergence, self._model + _LEFT * divergence
        is_known = objective < np.inf
        self.estimate = max(likely - best, 0.0) / max(likely, TINY) if is_known else np.inf
        # A fraction of the bound: while that is low, a fraction of the objective hardly changes.
        gap = max(objective - best, 0.0) / max(best, TINY) if is_known else np.inf
        self._adapt_rho(gap, divergence, best)
        self.gaps.append(gap)
        if not self.w.single.size:
            self.dual = best
        elif self.estimate <= CLOSE:
            self._end_single()

    def _adapt_rho(self, gap, divergence, scale):
        """Change rho by the gap of the epoch's problem, as a fraction of the whole gap."""
        if gap < np.inf:
            inner = divergence / max(gap * scale, TINY)
            if inner > _MOST_INNER and self.gaps[-1:] <= [gap]:
                self.rho = min(_RAISE * self.rho, self._rhos[1])
            elif inner < self.least_inner:
                self.rho = max(_LOWER * self.rho, self._rhos[0])

    def _visits(self, rng, progress):
        """Make the steps of an epoch; the mean divergence, about the gap of the epoch's problem."""
        order = self._choose(rng)
        self._n_visits = order.size
        for first, last in progress.pieces.ranges(0, order.size):
            self._steps(order[first:last])
        return float(self.state.divergences @ self.sample_weight) / self.n

    def _choose(self, rng):
        """Visits in random order: more of samples whose mixtures are far from the weights'."""
        left = self.sample_weight * self.state.divergences
        if not np.isfinite(left).all():
            return rng.permutation(self.n)
        little, *more = np.array(_SHARES) * left.mean()
        measured = little if self.estimate > _ROUGH else 0.0
        self._options = self._options._replace(little=measured)
        is_due = (left >= little) | (self._idle >= _MOST_IDLE)
        self._idle += 1
        self._idle[is_due] = 0
        times = is_due.astype(np.int64)
        for much in more:
            times += left >= much
        return rng.permutation(np.repeat(np.arange(self.n), times))

    def _steps(self, order):
        task = self.w, self.sample_weight, self._options, self.state, order
        oeg_pass(self.loss, self.problem, *task, *self._scratch)

    def _move(self, pieces, stop):
        """Move the stored potentials of samples before `stop`."""
        task = _padded_weights(self.shapes, self._shift), self._options, self.state
        for cut in pieces.ranges(0, stop):
            shift_potentials(self.loss, self.problem, *task, *cut, *self._scratch)

    @property
    def _rounds(self):
        """Whether residuals are stored in single precision."""
        return self.state.residuals.dtype == np.float32

    def _sum(self, w, stop=0, again=False):
        task = self.loss, self.problem, self.sample_weight, self._options, self.state, again
        for cut in Pieces().ranges(0, stop):
            sum_residuals(*task, *cut, w, *self._scratch)

    def _sum_memory(self):
        again = self._rounds
        if again and not self._single:  # for good
            self.state = self.state._replace(residuals=_NOTHING)
            self.state = self.state._replace(residuals=_room(self.state.phi.size, False))
        self._options = self._options._replace(on_weights=1.0 / self.n)
        self._gradient, self._rounding = _padded_weights(self.shapes), 0.0
        self._sum(self._gradient, self.n, again)
        for w, gradient in zip(self.w.tables, self._gradient.tables, strict=True):
            gradient += self.lam * w

    def _end_single(self):
        """The weights in double precision, with the exact gradient of the dual point."""
        if self.estimate <= CLOSE:
            self._single = False
        if self.w.single.size:
            node = self.w.single.astype(np.float64)
            self.w = Weights(node, self.w.pair)
            self._sum_memory()
            self.dual = max(self.dual, self._dual_objective())

    def _dual_objective(self):
        """The bound by the best mixture of dual point and truth, whose terms are 0."""
        w, gradient = self.w.tables, self._gradient.tables
        along, squared = _product(w, gradient), _product(w, w)
        self._half_norm = 0.5 * self.lam * squared
        left = _product(gradient, gradient) - 2.0 * self.lam * along
        # |g|^2 / (2 lam), without a table for g.
        twice = 2.0 * max(self.lam, TINY)
        half = max(left / twice + self._half_norm, 0.0)
        root = math.sqrt(half) + self._rounding / math.sqrt(twice)
        half = root * root
        term = float(self.state.terms @ self.sample_weight) / self.n
        # The objective at w without the mean divergence.
        self._model = term + along - self._half_norm
        share = min(max(0.5 * term / half, 0.0), 1.0) if half > 0.0 else 1.0
        dual = share * (term - share * half)
        if not np.isfinite(dual):
            raise FloatingPointError(
                f"the dual objective is {dual}: scale the features (sklearn.preprocessing), or "
                "lower C"
            )
        return dual

    def leave(self):
        """End the run: the dual point, its term and its direction."""
        self._end_single()
        tables = zip(self.w.tables, self._gradient.tables, self.shapes, strict=True)
        directions = [(g - self.lam * w)[:, :width].ravel() for w, g, (_, width) in tables]
        return float(self.state.terms @ self.sample_weight) / self.n, directions

    def release(self):
        """Free the memory of a run that has ended: the caller of fit still holds it."""
        self.w = self.state = self.problem = self._gradient = self._gradients = None

    def scales(self):
        """Scales for L-BFGS (see :class:`Pairs`), which end the run; None for unknown features."""
        # The Hessian's diagonal adds up p (1 - p), which residuals bound: of the dual point, as
        # weights far from their optimum tell little. Its root does better, since features go
        # together.
        squared = square_features(self.problem)
        if squared is None:
            return None
        residuals, total = self.state.residuals, _padded_weights(self.shapes)
        np.abs(residuals, out=residuals)
        self.problem, self._options = squared, self._options._replace(on_weights=1.0 / self.n)
        # Those of a compact state are of the first samples.
        self._sum(total, int(np.searchsorted(self.problem.part_ptr, residuals.size, "right")) - 1)
        tables = zip(total.tables, self.shapes, strict=True)
        diagonal = np.concatenate([table[:, :width].ravel() for table, (_, width) in tables])
        return 1.0 / np.sqrt(np.sqrt((diagonal + self.lam).astype(np.float32)))

    def certify(self):
        """Certify the present weights, by a pass of its own."""
        self._end_single()
        gradient, out = _padded_weights(self.shapes), np.zeros((2, self.n))
        for table, w in zip(gradient.tables, self.w.tables, strict=True):
            np.multiply(w, self.lam * self.n, out=table)
        self._gradients.add(self.w, gradient, out, Pieces())
        self._measured += 1
        loss, magnitude = out @ self.sample_weight / self.n
        objective, magnitude = self._half_norm + float(loss), float(magnitude) + self._half_norm
        task = objective, squared_norm(gradient) / self.n**2, self.lam, self.dual, magnitude
        self.certificate = certify(*task)
        self.dual = max(self.dual, self.certificate.dual_objective)
        self.certificate_schedule.measured(self.certificate.relative)

    def work(self):
        """Oracle calls."""
        return float(self.state.totals[N_ORACLE]) + self.n * self._measured, 0.0

    def solution(self):
        """The weights; the gradient makes room for them."""
        self._gradient = None
        return self.weights()

    def own_weights(self):
        """The weights without their padding."""
        tables = zip(self.w.tables, self.shapes, strict=True)
        return Weights(*(table[:, :width].astype(np.float64) for table, (_, width) in tables))

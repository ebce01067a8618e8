"""The methods that Schmidt et al. 2015 compare SAG-NUS* with, and SAG-NUS* as they write it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skstruct.core.jit.kernels import inner_kernel, kernel
from skstruct.core.oracles import accumulate, potentials
from skstruct.core.parallel import make_scratch
from skstruct.core.weights import (
    decay_and_step,
    lazy_weights,
    plain_weights,
    view_flat,
    zero_weights,
)
from skstruct.losses.log import LogLoss
from skstruct.losses.operations import ROUNDING, backtrack, loss_oracle
from skstruct.solvers import oeg
from skstruct.solvers.primal import objective_value
from skstruct.solvers.quasi_newton import QuasiNewton
from skstruct.solvers.run import Method
from skstruct.solvers.sag import SAG, _StepSchedule
from skstruct.solvers.sag_kernels import MAX_L, N_KNOWN
from skstruct.solvers.sampling import sample_leaf, set_leaf, sum_tree

_NONE = np.empty(0, dtype=np.int64)


class Known(NamedTuple):
    """The objective, and nothing else."""

    objective: float
    relative: float = np.inf

    measure = "no gap: this baseline has none"

    @property
    def record(self):
        """Its field of the history."""
        return {"objective": self.objective}

    @property
    def published(self):
        """The attribute that it gives an estimator."""
        return {"objective_": self.objective}


class OffClock(Method):
    """What measures the objective of every pass while the clock stands still."""

    fields = ()

    def due(self, k, tol):
        """Never on the clock."""
        return False

    def entry(self):
        """The objective."""
        self.certify()
        return self.certificate.record

    def certify(self):
        """The objective of the present weights."""
        present = self.loss, self.problem, self.weights(), self.sample_weight, self.lam, self.n_jobs
        self.certificate = Known(objective_value(*present).objective)

    def reached(self, tol):
        """Never."""
        return False


class Primal(OffClock):
    """Steps at samples; `visit` makes them, and `draw` says at which."""

    def __init__(self, *task, rate=0.0):
        super().__init__(*task)
        self.loss, self.rate, self.calls, self.tests = LogLoss(), rate, 0.0, 0.0
        scratch = make_scratch(self.problem)
        self.buffers, self.labels = np.empty((6, scratch.theta.size)), scratch.labels

    def epoch(self, k, rng, progress):
        """A pass."""
        self.visit(self.draw(rng))

    def work(self):
        """Oracle calls and forward passes."""
        return self.calls, self.tests

    def weights(self):
        """A copy."""
        return plain_weights(self.w, self.shapes) if self.w.scale.size else self.w.copy()


# Sampling by Lipschitz constants.

# Positions in NonUniform.totals.
SEEN, LARGEST, TESTS, N_TOTALS = range(4)


class NonUniform(NamedTuple):
    """What methods know of samples that they draw by their L_i."""

    # (n_samples,): L_i.
    lipschitz: np.ndarray
    # (n_samples,): The samples, those seen first.
    samples: np.ndarray
    # (n_samples,): Where in `samples` they are.
    places: np.ndarray
    # Sum tree over the L_i of the samples seen.
    tree: np.ndarray
    # (3,): Samples seen, the largest L, forward passes.
    totals: np.ndarray


def non_uniform(n, first):
    """Of samples none of which is seen."""
    totals = np.zeros(N_TOTALS)
    totals[LARGEST] = first
    return NonUniform(np.full(n, first), np.arange(n), np.arange(n), sum_tree(n), totals)


@inner_kernel
def mark_seen(state, i):
    """Move a sample to those seen; whether it is the first time."""
    m, place = int(state.totals[SEEN]), state.places[i]
    if place < m:
        return False
    other = state.samples[m]
    state.samples[m], state.samples[place] = i, other
    state.places[i], state.places[other] = m, place
    state.totals[SEEN] = m + 1
    return True


@inner_kernel
def choose_2013(state, lam, u, v):
    """A new sample with probability 1 - m / n, else one of L_i + L_mean + 2 lam."""
    n, m = state.samples.shape[0], int(state.totals[SEEN])
    if u * n < n - m:
        return state.samples[m + min(int(v * (n - m)), n - m - 1)]
    mean, rest = state.tree[1] / m, (u * n - (n - m)) / m
    if rest < 0.5 * mean / (mean + lam):
        return sample_leaf(state.tree, v)
    return state.samples[min(int(v * m), m - 1)]


@inner_kernel
def step_2013(state, lam):
    """From 1 / L_max, when no sample is seen, to the mean of 1 / L_max and 1 / L_mean."""
    totals = state.totals
    m, steepest = totals[SEEN], 1.0 / (totals[LARGEST] + lam)
    share = m / state.samples.shape[0]
    nus = 0.5 * (steepest + 1.0 / (state.tree[1] / m + lam))
    alpha = (1.0 - share) * steepest + share * nus
    return alpha if alpha * lam < 0.9 else 0.9 / lam


@kernel
def nus_pass(loss, problem, w, weights, lam, state, own, uniforms, buffers, labels):
    """SAG with the sampling and steps of Schmidt, Le Roux and Bach 2013, section 5.5."""
    memory, cut = own
    theta, r, augmented, answer, trial = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    totals, n = state.totals, weights.shape[0]
    for step in range(uniforms.shape[0]):
        i = choose_2013(state, lam, uniforms[step, 0], uniforms[step, 1])
        potentials(problem, i, w, theta)
        value, _ = loss_oracle(loss, problem, i, theta, labels, r, augmented)
        start = state.lipschitz[i] * (1.0 if mark_seen(state, i) else cut)
        state.lipschitz[i], tests = backtrack(
            loss, problem, i, weights[i], theta, value, labels, r, start, answer, trial, augmented
        )
        totals[TESTS] += tests
        set_leaf(state.tree, i, state.lipschitz[i])
        totals[LARGEST] = max(totals[LARGEST], state.lipschitz[i])
        stored = memory[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        for q in range(stored.shape[0]):
            answer[q] = weights[i] * r[q] - stored[q]
            stored[q] += answer[q]
        accumulate(problem, i, answer, (0.0, 1.0), w)
        alpha = step_2013(state, lam)
        decay_and_step(w, 1.0 - alpha * lam, alpha / totals[SEEN])
        totals[LARGEST] *= 2.0 ** (-1.0 / n)


@kernel
def sg_nus_pass(loss, problem, w, weights, lam, state, rate, uniforms, buffers, labels):
    """Stochastic gradients under the sampling of section 5, made unbiased by 1 / (n p_i)."""
    theta, r, augmented, answer, trial = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    totals, n = state.totals, weights.shape[0]
    for step in range(uniforms.shape[0]):
        u, v = uniforms[step, 0], uniforms[step, 1]
        i = min(int(v * n), n - 1)
        if u >= 0.5 and totals[SEEN] > 0:
            i = sample_leaf(state.tree, v)
        new, importance = state.places[i] >= totals[SEEN], 1.0
        mean = 1.0
        if totals[SEEN] > 0:
            share = 0.0 if new else state.lipschitz[i] / state.tree[1]
            importance, mean = 1.0 / (0.5 + 0.5 * n * share), 0.5 * state.tree[1] / totals[SEEN]
        potentials(problem, i, w, theta)
        value, _ = loss_oracle(loss, problem, i, theta, labels, r, augmented)
        start = mean if mark_seen(state, i) else 0.9 * state.lipschitz[i]
        state.lipschitz[i], tests = backtrack(
            loss, problem, i, weights[i], theta, value, labels, r, start, answer, trial, augmented
        )
        totals[TESTS] += tests
        set_leaf(state.tree, i, state.lipschitz[i])
        decay_and_step(w, max(1.0 - rate * lam, 1e-3), 0.0)
        accumulate(problem, i, r, (-rate * importance * weights[i], 0.0), w)


class _Sampled(Primal):
    """Two random numbers a step, lazy weights."""

    def __init__(self, *task, rate=0.0):
        super().__init__(*task, rate=rate)
        self.w, self.state = lazy_weights(zero_weights(self.shapes)), non_uniform(self.n, 1.0)

    def draw(self, rng):
        """Random numbers of a pass."""
        return np.empty((0, 2)) if rng is None else rng.random((self.n, 2))

    def visit(self, uniforms):
        """Steps."""
        task = self.loss, self.problem, self.w, self.sample_weight, self.lam, self.state
        self.steps(*task, self.own(), uniforms, self.buffers, self.labels)
        self.calls, self.tests = self.calls + len(uniforms), self.state.totals[TESTS]


class SAGNUS(_Sampled):
    """SAG-NUS of Schmidt, Le Roux and Bach 2013, section 5.5, as in the first author's code.

    L_i begin at 1, and are multiplied by `cut` whenever their sample comes again.
    """

    steps = staticmethod(nus_pass)

    def __init__(self, *task, cut=0.5):
        super().__init__(*task)
        self.memory, self.cut = np.zeros(self.problem.part_ptr[-1]), cut

    def own(self):
        """What is stored."""
        return self.memory, self.cut


class SGNUS(_Sampled):
    """Stochastic gradients with non-uniform sampling (Schmidt et al. 2015, footnote 10)."""

    steps = staticmethod(sg_nus_pass)

    def own(self):
        """The rate."""
        return self.rate


class PaperSAG(SAG):
    """SAG and SAG-NUS* as published; `first` is the constant L that SAG begins with."""

    def __init__(self, *task, first=1.0, **options):
        super().__init__(*task, loss=LogLoss(), track_objective=True, published=True, **options)
        self.state.totals[MAX_L] *= first


class _SameStep(_StepSchedule):
    """The factor that makes the step of SAGA that of SAG, by the L_i at the begin of a pass."""

    def __init__(self, method):
        super().__init__(True)
        self.method = method

    def factor(self):
        """Divisor of SAGA's step over that of SAG's (`_step_size` of the package's kernels)."""
        state, lam = self.method.state, self.method.lam
        largest, known = state.totals[MAX_L] + lam, state.totals[N_KNOWN]
        if self.method._uniform or not known:
            return 3.0
        mean = state.tree[1] / known
        return 1.5 * (2.0 * mean + lam) * (1.0 / largest + 1.0 / (mean + lam))


class PaperSAGA(PaperSAG):
    """SAGA with the steps of SAG (footnote 10 does not name its steps).

    Nothing proves that such steps converge: with non-uniform sampling they stall on some tasks.
    """

    def __init__(self, *task, **options):
        super().__init__(*task, saga=True, **options)
        self.schedule = _SameStep(self)


# Stochastic meta-descent.

# Gain of the rates, memory of their history, samples a step.
_META, _MEMORY, _BATCH = 0.1, 1.0, 8
# Largest change of a potential in a difference of gradients.
_DIFFERENCE = 1e-6


@inner_kernel
def smd_step(w, v, rates, gradient, product, inverse, lam):
    """Rates, weights and their derivative by past rates; clears the sums."""
    for j in range(w.shape[0]):
        for k in range(w.shape[1]):
            slope = inverse * gradient[j, k] + lam * w[j, k]
            curved = inverse * product[j, k] + lam * v[j, k]
            rates[j, k] *= max(0.5, 1.0 - _META * slope * v[j, k])
            w[j, k] -= rates[j, k] * slope
            v[j, k] = _MEMORY * v[j, k] - rates[j, k] * (slope + _MEMORY * curved)
            gradient[j, k] = product[j, k] = 0.0


@kernel
def smd_pass(loss, problem, tables, weights, lam, order, buffers, labels):
    """Steps of stochastic meta-descent; the curvature along v is a difference of marginals."""
    w, v, rates, gradient, product = tables
    theta, r, augmented, moved, other = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    for first in range(0, order.shape[0], _BATCH):
        stop = min(first + _BATCH, order.shape[0])
        for k in range(first, stop):
            i = order[k]
            size = problem.part_ptr[i + 1] - problem.part_ptr[i]
            potentials(problem, i, w, theta)
            loss_oracle(loss, problem, i, theta, labels, r, augmented)
            accumulate(problem, i, r, (weights[i], 0.0), gradient)
            potentials(problem, i, v, moved)
            largest = 0.0
            for q in range(size):
                largest = max(largest, abs(moved[q]))
            if largest > 0.0:
                change = _DIFFERENCE / largest
                for q in range(size):
                    moved[q] = theta[q] + change * moved[q]
                loss_oracle(loss, problem, i, moved, labels, other, augmented)
                for q in range(size):
                    other[q] = (other[q] - r[q]) / change
                accumulate(problem, i, other, (weights[i], 0.0), product)
        inverse = 1.0 / (stop - first)
        smd_step(w.node, v.node, rates.node, gradient.node, product.node, inverse, lam)
        smd_step(w.pair, v.pair, rates.pair, gradient.pair, product.pair, inverse, lam)


class SMD(Primal):
    """Stochastic meta-descent (Vishwanathan, Schraudolph, Schmidt and Murphy 2006).

    Hessian-vector products are forward differences of gradients, so that a sample costs two oracle
    calls. Every step goes over all weights.
    """

    def __init__(self, *task, rate):
        super().__init__(*task, rate=rate)
        self.tables = tuple(zero_weights(self.shapes) for _ in range(5))
        self.w = self.tables[0]
        for table in self.tables[2].tables:
            table[:] = rate

    def draw(self, rng):
        """A new order."""
        return rng.permutation(self.n)

    def visit(self, order):
        """Steps."""
        task = self.loss, self.problem, self.tables, self.sample_weight, self.lam
        smd_pass(*task, order, self.buffers, self.labels)
        self.calls += 2 * order.size


# Batches that grow.


@kernel
def batch_gradient(loss, problem, w, weights, batch, gradient, buffers, labels):
    """Add the gradient of ``sum_i s_i loss_i`` over a batch; the sum of its losses and terms."""
    total, magnitude = 0.0, 0.0
    for k in range(batch.shape[0]):
        i = batch[k]
        potentials(problem, i, w, buffers[0])
        value, terms = loss_oracle(loss, problem, i, buffers[0], labels, buffers[1], buffers[2])
        accumulate(problem, i, buffers[1], (weights[i], 0.0), gradient)
        total, magnitude = total + weights[i] * value, magnitude + weights[i] * terms
    return total, magnitude


class Hybrid(OffClock, QuasiNewton):
    """L-BFGS on batches that grow: min(1.1 |B| + 1, n) samples (Friedlander and Schmidt 2012).

    A batch contains those before it, of which the gradient is known. Both gradients of a pair, and
    the values of a line search (for the Wolfe conditions, as in the package's L-BFGS), are of one
    batch. A pass is as many iterations as it takes to see n samples.
    """

    def __init__(self, *task):
        super().__init__(*task, loss=LogLoss())
        self.order, self.size, self.seen = None, 0, 0
        scratch = make_scratch(self.problem)
        self._buffers, self._labels = np.empty((3, scratch.theta.size)), scratch.labels
        # Samples of the batch whose sums at the present point are known, their gradients, losses.
        self._kept = 0, np.zeros(self._p.size), np.zeros(2)

    def _sum(self, batch, w, gradient):
        self.seen += batch.size
        task = self.loss, self.problem, w, self.sample_weight, batch, gradient
        return batch_gradient(*task, self._buffers, self._labels)

    def _add_gradient(self, w, gradient, pieces):
        known, direction, sums = self._kept
        sums = sums + np.array(self._sum(self.order[known : self.size], w, gradient))
        for table, kept in zip(
            gradient.tables, view_flat(direction, self.shapes).tables, strict=True
        ):
            table += kept
            table *= self.n / self.size
        return sums / self.size

    def _offer(self, *point):
        """The dual points of a batch bound its own optimum, not that of all samples."""

    def begin(self, progress):
        """Nothing is measured yet."""

    def epoch(self, k, rng, progress):
        """Iterations."""
        if self.order is None:
            self.order = rng.permutation(self.n)
        before = self.seen
        while self.seen - before < self.n and not self.stalled:
            if self.size < self.n:
                self.grow(min(math.ceil(1.1 * self.size + 1), self.n), progress)
            super().epoch(k, rng, progress)
            self.stalled &= self.size == self.n

    def grow(self, size, progress):
        """A larger batch; its gradient from that of what it had, and the pairs' products."""
        here, nothing = self._here, self._kept
        if here.known:
            loss = here.value - 0.5 * self.lam * float(here.w @ here.w)
            sums = self.size * np.array([loss, here.magnitude])
            self._kept = self.size, self.size * here.d, sums
        self.size = size
        self._evaluate(here, progress.pieces)
        self._kept, gradient = nothing, here.d + self.lam * here.w
        self._pairs._products = np.array([row @ gradient for row in self._pairs.rows])

    def work(self):
        """Gradients of samples."""
        return float(self.seen), 0.0


# Exponentiated gradients.

# First rate, what it is divided and multiplied by; tests after the first, in the first pass and
# later; potentials of the truth.
_RATE, _CUT, _RISE = 0.5, 2.0, 1.05
_TESTS = 2, 5
_SCORE, _SURER = 3.0, 10.0


@kernel
def oeg_start(loss, problem, w, weights, options, state, score, stop, buffers, labels):
    """Begin with potentials that favour the truth, and the weights that they give."""
    r, change = buffers[2], buffers[3]
    for i in range(stop):
        first, last = problem.part_ptr[i], problem.part_ptr[i + 1]
        phi = buffers[1][: last - first]
        oeg._begin_at_truth(problem, i, score, last - first, labels, r, phi)
        value, magnitude = loss_oracle(loss, problem, i, phi, labels, r, change)
        term = value - ROUNDING * magnitude
        for q in range(last - first):
            term -= phi[q] * r[q]
            state.phi[first + q] = phi[q]
            if last <= state.residuals.shape[0]:
                state.residuals[first + q] = r[q]
        state.terms[i] = max(term, options.least_term)
        state.rates[i] = _RATE
        state.totals[oeg.N_ORACLE] += 1.0
        accumulate(problem, i, r, (-weights[i] * options.inverse, 0.0), w)


@kernel
def oeg_steps(loss, problem, w, weights, options, state, most, order, buffers, labels):
    """Steps that are halved at most so often, and left out where the dual falls even then."""
    for step in range(order.shape[0]):
        i, rate = order[step], state.rates[order[step]]
        potentials(problem, i, w, buffers[0])
        oeg.recall(loss, problem, i, state, buffers, labels)
        memory = buffers[oeg.MEMORY][: problem.part_ptr[i + 1] - problem.part_ptr[i]]
        for _ in range(1 + most):
            term, gain, _linear, noise = oeg._try(
                loss, problem, i, weights[i], rate, options, state, memory, buffers, labels
            )
            state.totals[oeg.N_ORACLE] += 1.0
            if gain >= -noise:
                oeg._take(problem, i, term, rate, weights[i], options, state, buffers, w)
                break
            rate /= _CUT
        state.rates[i] = _RISE * rate


class PaperOEG(oeg.OEG):
    """Online exponentiated gradients as Schmidt et al. 2015 run them (footnote 9, appendix D).

    A random permutation first, then samples drawn with replacement; without the permutation that is
    OEG-noRP, and with a larger potential of the truth OEG-10. Like all of the package it keeps one
    table of transitions a chain, where Collins et al. have one for each edge.
    """

    def __init__(self, *task, score=_SCORE, permuted=True, **options):
        super().__init__(*task, loss=LogLoss(), track_objective=True, **options)
        self._score, self._permuted, self._begun = score, permuted, False

    def begin(self, progress):
        """The first mixtures: an oracle call a sample."""
        self._start(self.n)

    def _start(self, stop):
        task = self.loss, self.problem, self.w, self.sample_weight, self._options, self.state
        oeg_start(*task, self._score, stop, *self._scratch)

    def _choose(self, rng):
        self._begun, first = True, not self._begun
        self._most = _TESTS[0] if first else _TESTS[1]
        return rng.permutation(self.n) if first and self._permuted else rng.integers(
            self.n, size=self.n
        )  # fmt: skip

    def _steps(self, order):
        task = self.loss, self.problem, self.w, self.sample_weight, self._options, self.state
        oeg_steps(*task, self._most if self._begun else 0, order, *self._scratch)

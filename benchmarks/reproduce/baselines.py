"""Ways to train a CRF that the package does not offer, on its oracles: AdaGrad and OEG.

:class:`BaselineCRF` is a SAGCRF whose solver is one of them, or stochastic gradients of one of
three kinds by the package's own kernel. It has callbacks, histories and predictions like SAGCRF.
"""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from skstruct import SAGCRF
from skstruct.core.dispatch import kernel
from skstruct.core.oracles import accumulate, add_indicator, exp_oracle, gram, potentials, truth
from skstruct.core.threads import make_scratch
from skstruct.core.weights import zero_weights
from skstruct.losses.log import LogLoss
from skstruct.losses.verbs import dot, loss_oracle
from skstruct.sklearn_private import Interval, StrOptions
from skstruct.solvers.primal import compile_losses, objective_value
from skstruct.solvers.run import Method, run
from skstruct.solvers.sgd import sgd

METHODS = "pegasos", "sgd", "asg", "adagrad", "oeg"
# A rate that is constant is one that decays after so many passes.
_NEVER = 1e12
_MOST_HALVINGS = 30


@kernel
def shrink_row(w, squares, j, rate, lam, times):
    """What the regulariser does to a row of weights in steps that do not touch it otherwise."""
    for k in range(w.shape[1]):
        if w[j, k] != 0.0:
            steep = 1e-8 + np.sqrt(squares[j, k])
            w[j, k] *= (steep / (steep + rate * lam)) ** times


@kernel
def step_row(w, gradient, squares, j, rate, lam):
    """AdaGrad's step in a row, and that of the regulariser; clears the gradient."""
    for k in range(w.shape[1]):
        g = gradient[j, k]
        if g == 0.0 and w[j, k] == 0.0:
            continue
        squares[j, k] += g * g
        steep = 1e-8 + np.sqrt(squares[j, k])
        w[j, k] = (steep * w[j, k] - rate * g) / (steep + rate * lam)
        gradient[j, k] = 0.0


@kernel
def adagrad_pass(loss, problem, w, gradient, squares, seen, rate, lam, order, buffers, labels):
    """Steps of proximal AdaGrad (Duchi, Hazan and Singer 2011, section 3) on sparse chains.

    ``seen[j]`` is the number of steps that row j has been through, ``seen[-1]`` that of all.
    """
    theta, r, augmented = buffers[0], buffers[1], buffers[2]
    nodes, last = problem.nodes, seen.shape[0] - 1
    for step in range(order.shape[0]):
        i = order[step]
        now = seen[last]
        begin = nodes.indptr[problem.label_ptr[i]]
        end = nodes.indptr[problem.label_ptr[i + 1]]
        for p in range(begin, end):
            j = nodes.indices[p]
            if seen[j] < now:
                shrink_row(w.node, squares.node, j, rate, lam, now - seen[j])
                seen[j] = now
        potentials(problem, i, w, theta)
        loss_oracle(loss, problem, i, theta, labels, r, augmented)
        accumulate(problem, i, r, (1.0, 0.0), gradient)
        for p in range(begin, end):
            j = nodes.indices[p]
            if seen[j] == now:
                step_row(w.node, gradient.node, squares.node, j, rate, lam)
                seen[j] = now + 1
        if nodes.intercept >= 0:
            step_row(w.node, gradient.node, squares.node, nodes.intercept, rate, lam)
            seen[nodes.intercept] = now + 1
        step_row(w.pair, gradient.pair, squares.pair, 0, rate, lam)
        seen[last] = now + 1


@kernel
def catch_up(w, squares, seen, rate, lam):
    """Bring all rows up to date."""
    last = seen.shape[0] - 1
    for j in range(last):
        if seen[j] < seen[last]:
            shrink_row(w.node, squares.node, j, rate, lam, seen[last] - seen[j])
            seen[j] = seen[last]


@kernel
def oeg_start(problem, w, phi, mu, entropy, inverse, first, buffers, labels):
    """Dual points near the truth: `first` is the score of each of its parts."""
    change = buffers[0]
    for i in range(entropy.shape[0]):
        start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
        own, marginals = phi[start:stop], mu[start:stop]
        truth(problem, i, labels)
        add_indicator(problem, i, labels, 1.0, own)
        for q in range(stop - start):  # a transition that occurs ten times is no surer for that
            own[q] = first if own[q] > 0.0 else 0.0
        log_z = exp_oracle(problem, i, own, 1.0, marginals)
        entropy[i] = log_z - dot(own, marginals, stop - start)
        for q in range(stop - start):
            change[q] = marginals[q]
        add_indicator(problem, i, labels, -1.0, change)
        accumulate(problem, i, change, (-inverse, 0.0), w)


@kernel
def oeg_pass(problem, w, phi, mu, entropy, rates, inverse, order, calls, buffers):
    """Online exponentiated gradient (Collins et al. 2008, figure 4 and section 7).

    A step of sample i takes its log-potentials phi to ``(1 - eta) phi + eta A_i w``; eta is halved
    until the dual objective does not fall, and grows by 1.05 afterwards. `inverse` is ``1 / (lam
    n)``.
    """
    theta, trial, marginals, change = buffers[0], buffers[1], buffers[2], buffers[3]
    for step in range(order.shape[0]):
        i = order[step]
        start, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
        size = stop - start
        potentials(problem, i, w, theta)
        for _ in range(_MOST_HALVINGS):
            eta = rates[i]
            for q in range(size):
                trial[q] = (1.0 - eta) * phi[start + q] + eta * theta[q]
            log_z = exp_oracle(problem, i, trial, 1.0, marginals)
            calls[0] += 1.0
            found = log_z - dot(trial, marginals, size)
            for q in range(size):
                change[q] = marginals[q] - mu[start + q]
            gain = found - entropy[i] + dot(theta, change, size)
            answer = buffers[4]
            gram(problem, i, change, answer)
            gain -= 0.5 * inverse * dot(answer, change, size)
            if gain >= 0.0:
                for q in range(size):
                    phi[start + q] = trial[q]
                    mu[start + q] = marginals[q]
                entropy[i] = found
                accumulate(problem, i, change, (-inverse, 0.0), w)
                rates[i] = min(1.05 * eta, 1.0)
                break
            rates[i] = 0.5 * eta


class _Known(NamedTuple):
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


class _Baseline(Method):
    """Weights that are measured after each pass."""

    fields = ()

    def __init__(self, *task, n_buffers):
        super().__init__(*task)
        self.loss, self.calls = LogLoss(), np.zeros(1)
        self.w = zero_weights(self.shapes)
        scratch = make_scratch(self.problem)
        self.buffers, self.labels = np.empty((n_buffers, scratch.theta.size)), scratch.labels

    def compile(self):
        """Compile outside the clock."""
        self.visit(np.empty(0, dtype=np.int64))
        compile_losses(self.loss, self.problem, self.w)

    def epoch(self, k, rng, progress):
        """A pass in a new order."""
        self.visit(rng.permutation(self.n))

    def certify(self):
        """The objective of the present weights."""
        present = self.loss, self.problem, self.w, self.sample_weight, self.lam, self.n_jobs
        self.certificate = _Known(objective_value(*present).objective)

    def reached(self, tol):
        """Never."""
        return False

    def work(self):
        """Oracle calls."""
        return float(self.calls[0]), 0.0

    def weights(self):
        """A copy."""
        return self.w.copy()


class AdaGrad(_Baseline):
    """Proximal AdaGrad; rows are brought up to date when they are read."""

    def __init__(self, *task, rate):
        super().__init__(*task, n_buffers=3)
        if not hasattr(self.problem.nodes, "indptr"):
            raise TypeError("AdaGrad reads the columns of CSR features: X must be sparse")
        self.rate = rate
        self.gradient, self.squares = zero_weights(self.shapes), zero_weights(self.shapes)
        self.seen = np.zeros(self.shapes[0][0] + 1, dtype=np.int64)

    def visit(self, order):
        """Steps at the samples of an order."""
        state = self.w, self.gradient, self.squares, self.seen, self.rate, self.lam
        adagrad_pass(self.loss, self.problem, *state, order, self.buffers, self.labels)
        catch_up(self.w, self.squares, self.seen, self.rate, self.lam)
        self.calls[0] += order.size


class OEG(_Baseline):
    """Online exponentiated gradient in the dual, with a step size a sample."""

    def __init__(self, *task):
        super().__init__(*task, n_buffers=5)
        self.phi, self.mu = np.zeros((2, self.problem.part_ptr[-1]))
        self.entropy, self.rates = np.zeros(self.n), np.full(self.n, 0.5)
        self.inverse = 1.0 / (self.lam * self.n)

    def begin(self, progress):
        """Dual points near the truth."""
        state = self.w, self.phi, self.mu, self.entropy, self.inverse
        oeg_start(self.problem, *state, 5.0, self.buffers, self.labels)
        self.calls[0] += self.n

    def published(self):
        """How long its steps are."""
        return {"mean_rate_": float(self.rates.mean())}

    def visit(self, order):
        """Steps at the samples of an order."""
        state = self.w, self.phi, self.mu, self.entropy, self.rates, self.inverse
        oeg_pass(self.problem, *state, order, self.calls, self.buffers)


class BaselineCRF(SAGCRF):
    """A SAGCRF that is trained by a baseline.

    Parameters
    ----------
    method : {"pegasos", "sgd", "asg", "adagrad", "oeg"}
        Steps of ``1 / (lam t)`` (without the average of the iterates), constant steps, constant
        steps and the average with weights t, AdaGrad, or online exponentiated gradient.
    rate : float
        Step size of "sgd", "asg" and "adagrad".
    graph, C, fit_intercept, max_iter, random_state : object
        As in SAGCRF.
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **SAGCRF._parameter_constraints,
        "method": [StrOptions(set(METHODS))],
        "rate": [Interval(Real, 0, np.inf, closed="neither")],
    }

    # What SAGCRF reads and a baseline does not change.
    l1_ratio, margin, class_weight = 0.0, None, None
    solver, tol, warm_start, n_jobs, verbose = "auto", 0.0, False, None, 0

    def __init__(
        self, method="sgd", rate=0.1, *, graph="auto", C=1.0, fit_intercept=True, max_iter=50,
        random_state=None,
    ):  # fmt: skip
        self.method, self.rate, self.graph, self.C = method, rate, graph, C
        self.fit_intercept, self.max_iter, self.random_state = fit_intercept, max_iter, random_state

    def _solve(self, problem, shapes, sample_weight, lam, *, start, max_iter, tol, after_epoch):
        task = problem, shapes, sample_weight, lam
        rng = self._generator()
        common = {"max_iter": max_iter, "tol": 0.0, "rng": rng, "after_epoch": after_epoch}
        if self.method == "adagrad":
            return run(AdaGrad(*task, None, rate=self.rate), **common)
        if self.method == "oeg":
            return run(OEG(*task, None), **common)
        steps = {"rate": 0.0, "period": 0.0}
        if self.method != "pegasos":
            steps = {"rate": self.rate, "period": _NEVER}
        return sgd(*task, loss=LogLoss(), averaging=self.method == "asg", **steps, **common)

"""Ways to train a CRF that the package does not offer: stochastic gradients, AdaGrad, and rivals.

:class:`BaselineCRF` is a SAGCRF whose solver is AdaGrad or one of :mod:`rivals`, on the package's
oracles, or stochastic gradients of one of three kinds, by its kernel. It has callbacks, histories
and predictions as well.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from rivals import _SURER, SAGNUS, SGNUS, SMD, Hybrid, PaperOEG, PaperSAG, PaperSAGA, Primal

from skstruct import SAGCRF
from skstruct.core.jit.kernels import kernel
from skstruct.core.oracles import accumulate, potentials
from skstruct.core.sklearn_private import Interval, StrOptions
from skstruct.core.weights import zero_weights
from skstruct.losses.log import LogLoss
from skstruct.losses.operations import loss_oracle
from skstruct.solvers.run import run
from skstruct.solvers.sgd import SGD

# How rates decay, by the end of a name: after so many passes as 1 / t, or its root if below 0.
_PERIODS = {"": 1e12, "1/t": 1.0, "sqrt": -1.0}


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
    nodes, last = problem.rows.nodes, seen.shape[0] - 1
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


class AdaGrad(Primal):
    """Proximal AdaGrad; rows are brought up to date when they are read."""

    def __init__(self, *task, rate):
        super().__init__(*task, rate=rate)
        if not hasattr(self.problem.rows.nodes, "indptr"):
            raise TypeError("AdaGrad reads the columns of CSR features: X must be sparse")
        self.w = zero_weights(self.shapes)
        self.gradient, self.squares = zero_weights(self.shapes), zero_weights(self.shapes)
        self.seen = np.zeros(self.shapes[0][0] + 1, dtype=np.int64)

    def draw(self, rng):
        """A new order."""
        return np.empty(0, dtype=np.int64) if rng is None else rng.permutation(self.n)

    def visit(self, order):
        """Steps at the samples of an order."""
        state = self.w, self.gradient, self.squares, self.seen, self.rate, self.lam
        adagrad_pass(self.loss, self.problem, *state, order, self.buffers, self.labels)
        catch_up(self.w, self.squares, self.seen, self.rate, self.lam)
        self.calls += order.size


class Stochastic(SGD):
    """The package's, its objectives off the clock."""

    def due(self, k, tol):
        """Never on the clock."""
        return False

    def entry(self):
        """The objective."""
        self.certify()
        return self.certificate.record


#: Methods of their own, and what they are told but for the rate.
OWN = {
    "adagrad": (AdaGrad, {}),
    "smd": (SMD, {}),
    "sgd-nus": (SGNUS, {}),
    "hybrid": (Hybrid, {}),
    "sag-nus": (SAGNUS, {}),
    "sag-nus-kept": (SAGNUS, {"cut": 1.0}),
    "sag": (PaperSAG, {"uniform": True}),
    "sag-small": (PaperSAG, {"uniform": True, "first": 1e-3}),
    "sag-nus*": (PaperSAG, {}),
    "sag-nus*-search": (PaperSAG, {"skipping": False}),
    "saga": (PaperSAGA, {"uniform": True}),
    "saga-nus*": (PaperSAGA, {}),
    "oeg": (PaperOEG, {}),
    "oeg-norp": (PaperOEG, {"permuted": False}),
    "oeg-10": (PaperOEG, {"score": _SURER}),
}
_DECAYING = "sgd-1/t", "sgd-sqrt", "asg-1/t", "asg-sqrt"
METHODS = "pegasos", "pegasos-average", "sgd", "asg", *_DECAYING, *OWN
#: Those that need a rate.
RATED = "sgd", "asg", "adagrad", "smd", "sgd-nus", *_DECAYING


class BaselineCRF(SAGCRF):
    """A SAGCRF that is trained by a baseline.

    Parameters
    ----------
    method : str
        One of `METHODS`: steps of ``1 / (lam t)`` ("pegasos"), constant steps ("sgd"), constant
        steps and the average with weights t ("asg"), steps that decay after each pass ("-1/t",
        "-sqrt"), or one of `OWN`.
    rate : float
        Step size of the methods in `RATED`.
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
        if self.method in OWN:
            method, options = OWN[self.method]
            if self.method in RATED:
                options = options | {"rate": self.rate}
            return run(method(*task, None, **options), **common)
        steps = {"rate": 0.0, "period": 0.0}
        kind, _, variant = self.method.partition("-")
        if kind != "pegasos":
            steps = {"rate": self.rate, "period": _PERIODS[variant]}
        averaging = kind == "asg" or variant == "average"
        method = Stochastic(*task, None, loss=LogLoss(), averaging=averaging, **steps)
        return run(method, **common)

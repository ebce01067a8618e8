"""Prox-linear steps: linearise the scores, solve the smoothed problem, move."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.cone import make_cone, settle
from ...core.weights import Weights, flatten
from ...losses.verbs import require_smooth
from ..progress import REMEDY, Result
from ..run import Method, run
from .inner import CasimirSteps
from .mapped import Linearised, MappedLosses, MappedProblem, MapWeights

# A step is taken if the smoothed objective falls by this share of |change|^2 / eta, and the next
# may be longer if by that one. (A solved problem without error of linearisation: by all.)
_ENOUGH, _PLENTY = 0.05, 0.5
_MOST_TRIES = 6
_RESOLVED = "no step improves the weights any further: increase tol"
# The first eta is this times that of the step that would bring a linear loss to 0; a good step
# makes the next one so many times longer.
_START, _LONGER = 4.0, 4.0


class ProxLinearOptions(NamedTuple):
    """Choices of a run."""

    # nu, the smoothing.
    strength: float
    # Whether the smoothing of outer step k is ``nu / k``.
    shrinking: bool
    # The proximal term is ``1 / (2 eta)`` times the squared distance; None for a line search.
    eta: float | None
    # Passes of the inner solver.
    n_passes: int
    # Samples of a step.
    batch_size: int
    # Learning rate of the inner solver; None to measure it.
    rate: float | None


class Stationarity(NamedTuple):
    """What is known of weights without a dual bound."""

    # The objective.
    objective: float
    # The smallest objective seen.
    best: float
    # ``|w_k - w_{k+1}| / eta``.
    stationarity: float
    # Norm of the gradient of the smoothed objective.
    gradient_norm: float
    # The larger of the two, as a fraction of ``lam |w|``.
    relative: float

    measure = "relative stationarity"

    @property
    def record(self):
        """Its fields of the history."""
        names = "objective", "stationarity", "gradient_norm"
        return {name: getattr(self, name) for name in names}

    @property
    def published(self):
        """The attributes that it gives an estimator."""
        return {
            "objective_": self.best,
            "stationarity_": self.stationarity,
            "gradient_norm_": self.gradient_norm,
        }


def prox_linear(
    mapped: MappedProblem,
    sample_weight: np.ndarray,
    lam: float,
    options: ProxLinearOptions,
    *,
    loss,
    target,
    start: MapWeights,
    cone=None,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(scores_i(w))`` by prox-linear steps.

    Pillutla, Roulet, Kakade, Harchaoui 2018, A Smoother Way to Train Structured Prediction Models,
    section 6, Algorithm 5.
    """
    require_smooth(loss, "prox-linear")
    method = _ProxLinear(mapped, sample_weight, lam, n_jobs, loss, target, options, start, cone)
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class MappedMethod(Method):
    """Base of methods whose weights are a vector: objectives, the best, and what is returned."""

    def __init__(self, mapped, sample_weight, lam, n_jobs, loss, target, start, cone):
        super().__init__(mapped.problem, mapped.shapes, sample_weight, lam, n_jobs)
        self.mapped, self.target = mapped, target
        self.losses = MappedLosses(mapped, sample_weight, loss, n_jobs)
        self.cone = make_cone(cone, mapped.shapes[1][0])
        self.vector = flatten(start)
        self.settle(self.vector)
        #: The smallest objective seen, and its weights.
        self.best = np.inf, self.vector

    def settle(self, vector):
        """Project the pair table to where it must stay: in place."""
        if self.cone.coefficients.size:
            pair = np.ascontiguousarray(self.losses.pair_view(vector))
            w = Weights(np.zeros((0, 0)), pair)
            settle(self.cone, w)
            self.losses.pair_view(vector)[:] = w.pair

    def compile(self):
        """Compile outside the clock."""
        self.losses.compile()
        self.losses.compile_objective(self.target)

    def work(self):
        """Oracle calls; nothing else passes over the data."""
        return self.losses.n_calls, 0.0

    def weights(self):
        """The present ones."""
        return self.losses.weights(self.vector)

    def solution(self):
        """The best ones seen."""
        return self.losses.weights(self.best[1])


class _ProxLinear(MappedMethod):
    """One run."""

    fields = ("stationarity", "gradient_norm", "eta", "smoothing_strength")

    def __init__(self, mapped, sample_weight, lam, n_jobs, loss, target, options, start, cone):
        super().__init__(mapped, sample_weight, lam, n_jobs, loss, target, start, cone)
        self.options, self.eta = options, options.eta
        choices = options.n_passes, options.batch_size, options.rate
        self.inner = CasimirSteps(self.losses, lam, *choices, self.settle)
        self.nu, self.at, self._moved = options.strength, None, np.inf

    def begin(self, progress):
        """Scores of the start."""
        self.losses.set_strength(self.nu)
        self.linearised = Linearised(self.mapped, self.losses.params_of(self.vector))
        self.exact = self._exact(self.vector, self.linearised)
        self.best = self.exact, self.vector

    def _exact(self, vector, linearised):
        return self.losses.objective(self.target, linearised.all().scores, vector, self.lam)

    def _point(self, vector, linearised, rng, pieces):
        return self.inner.point(vector, linearised, rng, pieces)

    def epoch(self, k, rng, progress):
        """One outer step."""
        pieces = progress.pieces
        if self.at is None or (self.options.shrinking and k > 1):
            if self.options.shrinking:
                self._smooth_by(min(self.nu, self.options.strength / k))
            self.at = self._point(self.vector, self.linearised, rng, pieces)
            if self.at is None:
                return
        if self.eta is None:
            with np.errstate(over="ignore"):
                squared = float(self.at.gradient @ self.at.gradient)
            if not squared < np.inf:
                raise FloatingPointError(
                    "the gradient overflows: scale the features (sklearn.preprocessing), or raise C"
                )
            eta = self.at.objective / squared if squared > 0.0 else 1.0
            self.eta = min(_START * eta, 1.0 / self.lam)
        eta = self.eta
        for _ in range(_MOST_TRIES):
            if self._try(rng, pieces) or pieces.stopped:
                return
        # What the best labellings give is no gradient where they are too few for the smoothing.
        self.eta = eta
        if 0.5 * self.nu <= np.finfo(float).eps * max(self.exact, np.finfo(float).tiny):
            self.stalled = True  # smoothing is within rounding: less of it changes nothing
            return
        self._smooth_by(0.5 * self.nu)
        self.at = self._point(self.vector, self.linearised, rng, pieces)

    def _smooth_by(self, nu):
        self.inner.lipschitz *= self.nu / nu
        self.nu = nu
        self.losses.set_strength(nu)

    def _try(self, rng, pieces):
        """Solve, and move if the objective falls; returns whether it did."""
        w = self.inner.solve(self.at, self.eta, self.nu, rng, pieces)
        change = w - self.at.vector
        squared = float(change @ change)
        if pieces.stopped or squared == 0.0:
            return False
        linearised = Linearised(self.mapped, self.losses.params_of(w))
        point = self._point(w, linearised, rng, pieces)
        if pieces.stopped:
            return False
        given = self.options.eta is not None
        if point is None:
            if given:
                self.losses.refuse_overflow(linearised.all().scores)
                raise FloatingPointError("the weights are not finite: lower step_size")
            self.eta *= 0.25
            return False
        exact = self._exact(w, linearised)
        # The hinge itself speaks, too: K labellings may be too few for the smoothing.
        fall = max(self.at.objective - point.objective, self.exact - exact) * self.eta / squared
        if not given and not fall >= _ENOUGH:
            self.eta *= 0.5
            return False
        self.exact = exact
        self._moved = np.sqrt(squared) / self.eta
        if not given and fall >= _PLENTY:
            # The regulariser holds longer steps back, whatever eta.
            self.eta = min(_LONGER * self.eta, 1.0 / self.lam)
        self.at, self.vector, self.linearised = point, w, linearised
        return True

    def certify(self):
        """Stationarity of the present weights."""
        objective = self.exact
        if objective < self.best[0]:
            self.best = objective, self.vector
        gradient = np.inf
        if self.at is not None:
            # In a cone only what leads inside counts.
            ahead = self.vector - self.at.gradient
            self.settle(ahead)
            gradient = float(np.linalg.norm(self.vector - ahead))
        scale = self.lam * float(np.linalg.norm(self.vector))
        largest = max(self._moved, gradient)
        relative = largest / scale if scale > 0.0 else np.inf
        self.certificate = Stationarity(objective, self.best[0], self._moved, gradient, relative)

    def remedy(self):
        """More steps do not help where none improves the weights."""
        return _RESOLVED if self.stalled else REMEDY

    def entry(self):
        """Objective, stationarity, and what the step was."""
        return self.certificate.record | {"eta": self.eta, "smoothing_strength": self.nu}

    def published(self):
        """Choices of the end, and counts."""
        return {
            "step_size_": self.eta,
            "smoothing_strength_": self.nu,
            "n_oracle_calls_": self.losses.n_calls,
        }

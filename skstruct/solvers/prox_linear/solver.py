"""Prox-linear steps: linearise the scores, solve the smoothed problem, move."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.cone import make_cone, settle
from ...core.weights import Weights, flatten
from ...losses.verbs import require_smooth
from ..primal import Best, Uncertified, compile_losses
from ..run import REMEDY, Method
from ..sgd import improvement
from .mapped import Linearised, MappedLosses, Residuals

# Casimir-SVRG on the linearised problem, with mini-batches: the inner solver of prox-linear.

# Batches that are probed for a first estimate of the smoothness.
_PROBES = 3
# Without smoothing: a share of the strength that only breaks ties.
_NEARLY_NONE = 1e-6
# Where all labellings tie nothing is measured: this share of what a step away from the truth shows.
_AT_TIES = 0.1
# A pass that adds less than this share to what has been won is the last one.
_SOLVED = 0.02
# The learning rate grows by the one factor after a pass that succeeds, and falls by the other after
# one that fails; then it stays below what failed by some margin, which is slowly forgotten.
_BOLDER, _CAREFUL, _BELOW, _FORGET = 0.8, 2.0, 1.4, 0.97
# Shorter steps change no weight.
_MOST_CAREFUL = 2.0**52


class Point(NamedTuple):
    """Weights, and what the smoothed losses say of them."""

    # The weights.
    vector: np.ndarray
    # The map there.
    linearised: Linearised
    # Losses and residuals at its scores.
    found: Residuals
    # The smoothed objective.
    objective: float
    # Its gradient.
    gradient: np.ndarray


class CasimirSteps:
    """Accelerated SVRG on ``mean smoothed loss of linearised scores + quadratic terms``."""

    def __init__(self, losses: MappedLosses, lam, n_passes, batch_size, rate, settle):
        self.losses, self.lam = losses, lam
        self.n_passes, self.batch_size, self.rate = n_passes, batch_size, rate
        self.settle = settle
        #: Estimate of the smoothness of a sample's loss, at the present strength of smoothing.
        self.lipschitz = 0.0
        self._caution, self._least_caution = 1.0, 0.0

    def point(self, vector, linearised, rng, pieces) -> Point | None:
        """What the smoothed losses say of weights; None if they overflow or a callback stops."""
        batches = self.losses.draw_batches(rng, self.batch_size)
        found = self.losses.at_all(linearised.all().scores, vector, batches, pieces)
        if found is None:
            return None
        gradient = self.losses.gradient(linearised, found) + self.lam * vector
        objective = found.loss + 0.5 * self.lam * float(vector @ vector)
        return Point(vector, linearised, found, objective, gradient)

    def solve(self, at: Point, eta: float, strength: float, rng, pieces) -> np.ndarray:
        """Weights near the minimum around a point."""
        if self.lipschitz == 0.0:
            self.lipschitz = self._probe(at, rng, strength)
        strong = self.lam + 1.0 / eta
        center = before = at.vector
        snapshot, gradient, least = at.found, at.gradient - self.lam * at.vector, at.objective
        for k in range(self.n_passes):
            if k > 0:
                found = self._snapshot(at, center, rng, pieces)
                if pieces.stopped:
                    return before
                value = np.inf if found is None else self._model(at, found, center, eta)
                if value <= least:
                    if least - value < _SOLVED * (at.objective - value):
                        return center
                    snapshot, least, kept = found, value, center
                    gradient = self.losses.gradient(at.linearised, found)
                    self._least_caution *= _FORGET
                    self._caution = max(_BOLDER * self._caution, self._least_caution)
                else:
                    # Longer steps than the losses bear: once more from the last snapshot.
                    self._fail()
                    center = before = kept
            else:
                kept = center
            n_batches = len(snapshot.batches)
            kappa = max(self._caution * self.lipschitz / n_batches - strong, 0.0)
            w = self._steps(at, center, snapshot, gradient, eta, kappa, rng, pieces)
            if pieces.stopped:
                return before
            if w is None:
                self._fail()
                return kept
            root = np.sqrt(strong / (strong + kappa))
            center = w + (1.0 - root) / (1.0 + root) * (w - before)
            self.settle(center)
            before = w
        return before

    def _fail(self):
        self._least_caution = _BELOW * self._caution
        self._caution = min(_CAREFUL * self._caution, _MOST_CAREFUL)

    def _model(self, at, found, w, eta):
        change = w - at.vector
        return found.loss + 0.5 * self.lam * float(w @ w) + 0.5 / eta * float(change @ change)

    def _scores(self, linearised, change):
        return linearised.scores + linearised.jvp(self.losses.split(change).params)

    def _snapshot(self, at, w, rng, pieces):
        batches = self.losses.draw_batches(rng, self.batch_size)
        scores = self._scores(at.linearised.all(), w - at.vector)
        return self.losses.at_all(scores, w, batches, pieces)

    def _difference(self, at, snapshot, b, w):
        """How the gradient of a batch has changed since the snapshot; None if scores overflow."""
        batch = snapshot.batches[b]
        linearised = at.linearised.of(batch)
        found = self.losses.at_batch(batch, self._scores(linearised, w - at.vector), w)
        if found is None:
            return None
        rows, tail = found
        rows -= snapshot.rows[batch.rows]
        tail -= snapshot.tails[b]
        change = np.concatenate([linearised.vjp(rows), tail])
        change *= batch.scale
        return change

    def _probe(self, at, rng, strength):
        """Mean smoothness of the losses of a few batches.

        A loss that mixes two labellings in equal shares is as smooth as twice the squared distance
        of the mixture from the better one, over nu. Random signs keep samples apart: the expected
        square of the signed sum is the sum of squares.
        """
        near = far = n = 0.0
        batches = at.found.batches
        for b in range(min(_PROBES, len(batches))):
            batch = batches[b]
            linearised = at.linearised.of(batch)
            self.losses.set_strength(_NEARLY_NONE * strength)
            rows, tail = self.losses.at_batch(batch, linearised.scores, at.vector)
            self.losses.set_strength(strength)
            signs = rng.choice([-1.0, 1.0], size=batch.samples.size)
            signs = self.losses.spread(batch, signs)[:, np.newaxis]
            far += _square(linearised.vjp(signs * rows))
            rows -= at.found.rows[batch.rows]
            tail -= at.found.tails[b]
            near += _square(linearised.vjp(signs * rows)) + _square(tail) / batch.samples.size
            n += batch.samples.size
        largest = max(near, _AT_TIES * far)
        return 2.0 * largest / (n * strength) if largest > 0.0 else 1.0

    def _steps(self, at, center, snapshot, gradient, eta, kappa, rng, pieces):
        """A pass of SVRG steps from the prox-center; None if the scores overflow."""
        rate = 1.0 / self._caution * self.lipschitz if self.rate is None else self.rate
        pull = at.vector / eta + kappa * center - gradient
        pull *= rate
        shrink = 1.0 / (1.0 + rate * (self.lam + 1.0 / eta + kappa))
        w = center.copy()
        order = rng.permutation(len(snapshot.batches))
        for first, last in pieces.ranges(0, order.size):
            for b in order[first:last]:
                change = self._difference(at, snapshot, b, w)
                if change is None:
                    return None
                change *= rate
                w -= change
                w += pull
                w *= shrink
                self.settle(w)
        return w


def _square(vector):
    return float(vector @ vector)


# A step is taken if the smoothed objective falls by this share of |change|^2 / eta, and the next
# may be longer if by that one. (A solved problem without error of linearisation: by all.)
_ENOUGH, _PLENTY = 0.05, 0.5
_MOST_TRIES = 6
_RESOLVED = "no step improves the weights any further: increase tol"
# The first eta is this times that of the step that would bring a linear loss to 0; a good step
# makes the next one so many times longer.
_START, _LONGER = 4.0, 4.0


def _copied(w):
    return w._make(table.copy() for table in w)


class MappedMethod(Method):
    """Base of methods whose weights are a vector: objectives, the best, and what is returned."""

    def __init__(self, mapped, sample_weight, lam, n_jobs, *, loss, target, start, cone):
        super().__init__(mapped.problem, mapped.shapes, sample_weight, lam, n_jobs)
        self.mapped, self.target = mapped, target
        self.losses = MappedLosses(mapped, sample_weight, loss, n_jobs)
        self.cone = make_cone(cone, mapped.shapes[1][0])
        self.vector = flatten(start)
        self.settle(self.vector)
        #: The smallest objective seen, and its weights.
        self.best = Best()

    def settle(self, vector):
        """Project the pair table to where it must stay: in place."""
        if self.cone.coefficients.size:
            pair = self.losses.split(vector).pair
            w = Weights(np.zeros((0, 0)), np.ascontiguousarray(pair))
            settle(self.cone, w)
            pair[:] = w.pair

    def compile(self):
        """Compile outside the clock."""
        self.losses.compile()
        compile_losses(self.target, self.problem, self.losses.table)

    def work(self):
        """Oracle calls; nothing else passes over the data."""
        return self.losses.n_calls, 0.0

    def weights(self):
        """The present ones."""
        return _copied(self.losses.split(self.vector))

    def solution(self):
        """The best ones seen."""
        return _copied(self.losses.split(self.best.weights))


class ProxLinear(MappedMethod):
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(scores_i(w))`` by prox-linear steps.

    Pillutla, Roulet, Kakade, Harchaoui 2018, A Smoother Way to Train Structured Prediction Models,
    section 6, Algorithm 5.
    """

    fields = ("stationarity", "gradient_norm", "eta", "smoothing_strength")

    def __init__(
        self, *task, loss, strength, shrinking, eta, n_passes, batch_size, rate, **options
    ):
        require_smooth(loss, "prox-linear")
        super().__init__(*task, loss=loss, **options)
        # The smoothing; whether that of outer step k is ``nu / k``.
        self.strength, self.shrinking = strength, shrinking
        # The proximal term is ``1 / (2 eta)`` times the squared distance; None for a line search.
        self.fixed_eta = self.eta = eta
        choices = n_passes, batch_size, rate
        self.inner = CasimirSteps(self.losses, self.lam, *choices, self.settle)
        self.nu, self.at, self._moved = strength, None, np.inf

    def begin(self, progress):
        """Scores of the start."""
        self.losses.set_strength(self.nu)
        self.linearised = Linearised(self.mapped, self.losses.split(self.vector).params)
        self.exact = self._exact(self.vector, self.linearised)
        self.best.offer(self.exact, self.vector)

    def _exact(self, vector, linearised):
        return self.losses.objective(self.target, linearised.all().scores, vector, self.lam)

    def epoch(self, k, rng, progress):
        """One outer step."""
        pieces = progress.pieces
        if self.at is None or (self.shrinking and k > 1):
            if self.shrinking:
                self._smooth_by(min(self.nu, self.strength / k))
            self.at = self.inner.point(self.vector, self.linearised, rng, pieces)
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
        self.at = self.inner.point(self.vector, self.linearised, rng, pieces)

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
        linearised = Linearised(self.mapped, self.losses.split(w).params)
        point = self.inner.point(w, linearised, rng, pieces)
        if pieces.stopped:
            return False
        given = self.fixed_eta is not None
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
        self.best.offer(self.exact, self.vector)
        gradient = np.inf
        if self.at is not None:
            # In a cone only what leads inside counts.
            ahead = self.vector - self.at.gradient
            self.settle(ahead)
            gradient = float(np.linalg.norm(self.vector - ahead))
        scale = self.lam * float(np.linalg.norm(self.vector))
        largest = max(self._moved, gradient)
        relative = largest / scale if scale > 0.0 else np.inf
        record = {"objective": self.exact, "stationarity": self._moved, "gradient_norm": gradient}
        measure = "relative stationarity"
        self.certificate = Uncertified(record, self.best.objective, relative, measure)

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


# Stochastic subgradients through a score map: the baseline of prox-linear.

# Share of the step that would bring a linear loss to 0, and how many batches are asked.
_CAREFUL_RATE, _ASKED = 0.1, 8


class MappedSubgradient(MappedMethod):
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(scores_i(w))`` by stochastic subgradients.

    Davis, Drusvyatskiy 2018, Stochastic model-based minimization of weakly convex functions; the
    schedules are those of the experiments of Pillutla et al. 2018.
    """

    fields = ("learning_rate",)

    def __init__(self, *task, target, schedule, rate, batch_size, **options):
        super().__init__(*task, loss=target, target=target, **options)
        # The rate after t passes is the first one, divided by ``(1 + t)`` to some power; where none
        # is given, it is a tenth of the step that would bring a linear loss to 0.
        self.falls = {"constant": 0.0, "inverse": 1.0, "sqrt": 0.5}[schedule]
        self.rate, self.batch_size = rate, batch_size
        self.trail, self._now = [], np.nan

    def begin(self, progress):
        """What the start is worth: no fit ends worse."""
        self._measure()

    def _measure(self):
        objective = self.losses.objective(self.target, self._scores(), self.vector, self.lam)
        self.best.offer(objective, self.vector)
        return objective

    @np.errstate(over="ignore", invalid="ignore")  # A number that overflows is refused.
    def _scores(self):
        return Linearised(self.mapped, self.losses.split(self.vector).params).all().scores

    @np.errstate(over="ignore", invalid="ignore")  # A number that overflows is refused.
    def _gradient(self, batch):
        """Return a subgradient of the mean loss of a batch."""
        here = self._linearised(batch)
        found = self.losses.at_batch(batch, here.scores, self.vector)
        if found is None:
            self.losses.refuse_overflow(here.scores, batch.rows)
            raise FloatingPointError("the weights are not finite: lower learning_rate")
        rows, tail = found
        return np.concatenate([here.vjp(rows), tail]) * batch.scale

    def _linearised(self, batch):
        mapped = self.mapped
        if mapped.score_map.rowwise:
            part = mapped._replace(rows=mapped.rows[batch.rows])
        else:
            lengths = np.diff(mapped.row_ptr)[batch.samples]
            ptr = np.append(0, np.cumsum(lengths))
            part = mapped._replace(rows=mapped.rows[batch.rows], row_ptr=ptr)
        return Linearised(part, self.losses.split(self.vector).params).all()

    def _first_rate(self, batches):
        """From the gradients of a few batches."""
        steps = []
        for batch in batches[:_ASKED]:
            gradient = self._gradient(batch)
            squared = float(gradient @ gradient)
            if squared > 0.0:
                total = self.losses.values[batch.samples] @ self.sample_weight[batch.samples]
                steps.append(float(total) / batch.samples.size / squared)
        return _CAREFUL_RATE * float(np.median(steps)) if steps else 1.0

    def epoch(self, k, rng, progress):
        """One pass."""
        batches = self.losses.draw_batches(rng, self.batch_size)
        if self.rate is None:
            self.rate = self._first_rate(batches)
        for first, last in progress.pieces.ranges(0, len(batches)):
            for b in range(first, last):
                passes = k - 1 + b / len(batches)
                self._now = self.rate / (1.0 + passes) ** self.falls
                step = self._gradient(batches[b])
                step += self.lam * self.vector
                step *= self._now
                self.vector = self.vector - step
                self.settle(self.vector)

    def certify(self):
        """Objective of the present weights."""
        objective = self._measure()
        self.trail.append(self.best.objective)
        self.certificate = improvement(objective, self.trail)

    def reached(self, tol):
        """Whether nothing has improved; with a tolerance of 0 all passes are run."""
        return tol > 0.0 and super().reached(tol)

    def entry(self):
        """Objective and rate."""
        return self.certificate.record | {"learning_rate": self._now}

    def published(self):
        """Count."""
        return {"n_oracle_calls_": self.losses.n_calls}

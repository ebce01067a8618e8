"""Dual extragradient with projections that are oracles; potentials ``A_i z + c l_i``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.cone import Cone, make_cone, settle
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import accumulate, potentials
from ..core.parallel import make_scratch
from ..core.weights import Weights, flatten, inner_product, squared_norm, view_flat, zero_weights
from ..losses.hinge import hinge_of, projection_hinge
from ..losses.verbs import ROUNDING, expected_loss, loss_oracle, private_loss
from .certificate import DualMixture, certify_pair
from .primal import Best, objective_value, sum_over_samples
from .run import Method, SampleOverflow

# The oracle pass of the dual extragradient.

# Rows of ``out``.
VALUE, TASK_LOSS, MAGNITUDE = 0, 1, 2


@solver_kernel
def project_samples(
    loss, problem, w, sample_weight, start, stop, scratch, augmented, gradient, out
):
    """Project a range of samples, and add ``sum_i s_i A_i' (mu_i - mu(y_i))``."""
    theta, r = scratch.theta, scratch.mu
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        out[VALUE, i], out[MAGNITUDE, i] = loss_oracle(
            loss, problem, i, theta, scratch.labels, r, augmented
        )
        out[TASK_LOSS, i] = expected_loss(loss, problem, i, r, augmented)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)


# The two regularisers of the saddle point: half a squared norm, or a ball around 0.

# Of the range where the best share of a dual point may be: each leaves two thirds of it.
_SEARCH_STEPS = 60


def ascent_norm(cone: Cone, direction: Weights) -> float:
    """Squared norm of the point of the cone nearest to ``-direction``."""
    if cone.coefficients.size:
        direction = Weights(*(-table for table in direction.tables))
        settle(cone, direction)
    return squared_norm(direction)


class Ridge(DualMixture):
    """``lam/2 |w|^2``, over all weights or those of a cone, and the best lower bound met."""

    def first_weight(self, spread: float, loss: float) -> float:
        """Return the initial weight of the centre, so that both blocks have about as far to go."""
        return self._lam * spread / loss if loss > 0.0 < spread else self._lam

    def next_weight(self, weight: float, total: float) -> float:
        """Return the weight of the next block."""
        # Between keeping the last weight of the previous block and starting over.
        return 0.1 * (weight + self._lam * total)

    def bound(self, term: float, direction: Weights) -> float:
        """The lower bound of one dual point."""
        return term - ascent_norm(self._cone, direction) / (2.0 * self._lam)

    def settle(self, w: Weights) -> None:
        """The nearest feasible weights."""
        settle(self._cone, w)


class Ball:
    """``|w| <= radius``, over all weights or a cone, and the best bound ``c - radius |g|``."""

    def __init__(self, radius: float, zeros: Weights, cone: Cone):
        self._radius, self._cone = radius, cone
        self._term, self._direction = 0.0, zeros
        #: The bound, and the size of the terms that it is a difference of.
        self.value = self.magnitude = 0.0

    def first_weight(self, spread: float, loss: float) -> float:
        """Return the weight of the first block, as the optimum is within the radius."""
        # Few samples end at the other side of the hull, where both divergences are this large.
        return 0.2 * max(spread, 1e-12) / self._radius**2

    def next_weight(self, weight: float, total: float) -> float:
        """Return the weight of the next block: the distance to go has become less."""
        return weight

    def bound(self, term: float, direction: Weights) -> float:
        """The lower bound of one dual point."""
        return term - self._radius * math.sqrt(ascent_norm(self._cone, direction))

    def settle(self, w: Weights) -> None:
        """The nearest feasible weights: a cone's, shrunk into the ball."""
        settle(self._cone, w)
        norm = math.sqrt(squared_norm(w))
        if norm > self._radius:
            for table in w.tables:
                # Never outside by rounding.
                table *= self._radius / norm * (1.0 - 1e-13)

    def offer(self, term: float, direction) -> None:
        """Raise the bound by one more point, if its mixture with those before does."""
        mixed = self._direction
        change = Weights(*map(np.subtract, direction, mixed.tables))
        gain = term - self._term
        best = self._search_step if self._cone.coefficients.size else self._best_step
        step = best(gain, mixed, change)
        terms, norm, point = self._mixture(step, gain, mixed, change)
        if terms - norm > self.value:
            self._term, self._direction = terms, point
            self.value, self.magnitude = terms - norm, terms + norm

    def _mixture(self, step, gain, mixed, change):
        point = Weights(*(g + step * d for g, d in zip(mixed.tables, change.tables, strict=True)))
        norm = self._radius * math.sqrt(ascent_norm(self._cone, point))
        return self._term + step * gain, norm, point

    def _search_step(self, gain, mixed, change):
        """The best step in a cone, where the concave bound has no closed form."""
        low, high = 0.0, 1.0
        for _ in range(_SEARCH_STEPS):
            ends = low + (high - low) / 3.0, high - (high - low) / 3.0
            values = [self._mixture(end, gain, mixed, change)[:2] for end in ends]
            if values[0][0] - values[0][1] < values[1][0] - values[1][1]:
                low = ends[0]
            else:
                high = ends[1]
        return 0.5 * (low + high)

    def _best_step(self, gain, mixed, change):
        """The t in [0, 1] where ``t gain - radius |g + t change|`` is largest."""
        square, curvature = squared_norm(mixed), squared_norm(change)
        slope = inner_product(mixed.tables, change.tables)
        if not curvature > 0.0:
            return float(gain > 0.0)
        apart = max(square * curvature - slope * slope, 0.0)
        room = self._radius**2 * curvature - gain * gain
        if room <= 0.0:
            return float(gain > 0.0)
        return float(np.clip((gain * math.sqrt(apart / room) - slope) / curvature, 0.0, 1.0))


_ADVICE = "are the features scaled?"
# The step grows until the test stops it: steps are not those of the worst case, but of the data.
_GROWTH, _CUT = 1.1, 0.5
# Halved so often, a step compares rounding errors.
_MOST_CUTS = 60
# Effect of rounding on the test, as a fraction of the terms that it subtracts.
_ROUNDING = 1e-12
# Near 0: the projections of no potentials.
_FLAT = 1e-6
# Iterations between certificates, as a fraction of those so far.
_CERTIFY_EVERY = 0.05
# The averages are a new start when the gap of a block has fallen by this factor; before the gap is
# below a tenth there is more to gain from the growing steps.
_RESTART_AT, _FIRST_RESTART = 0.3, 0.1


class _Answer(NamedTuple):
    """Projections of potentials ``A_i z + c l_i``, as far as anybody needs them."""

    z: np.ndarray
    c: float
    #: Mean gradient, mean expected task loss, mean conjugate of the projection's entropy less the
    #: score of the truth, size of the terms of that.
    gradient: np.ndarray
    task_loss: float
    value: float
    magnitude: float

    def divergence(self, other):
        """Return the divergence of the other's projections from these."""
        moved = (self.z - other.z) @ self.gradient + (self.c - other.c) * self.task_loss
        return moved - self.value + other.value


class _Block:
    """The steps since the last restart: what their dual point and the next weights are made of."""

    def __init__(self, center, weight):
        self.center, self.weight = center, weight
        #: Sums of the steps, of the gradients that answered them, and of their task losses.
        self.total, self.answers, self.task_loss = 0.0, np.zeros_like(center), 0.0
        #: By how much the divergences have been more than the test asks for.
        self.bank = 0.0

    def point(self, lam, answers, total):
        """The weights that answers lead to, before they are made feasible."""
        return (self.weight * self.center - answers) / (self.weight + lam * total)


class Extragradient(Method):
    """The saddle point of weights and mixtures, by dual extrapolation (Nesterov 2007).

    Taskar, Lacoste-Julien, Jordan 2006, Figure 2, and section 5 for the memory.
    """

    fields = (*Method.fields, "step_size")

    def __init__(self, *task, start, cone, projection, radius, step_size, restarts=True):
        super().__init__(*task)
        cone = make_cone(cone, self.shapes[1][0])
        zeros = zero_weights(self.shapes)
        if radius is None:
            self.regulariser = Ridge(self.lam, zeros, cone)
        else:
            self.regulariser = Ball(radius, zeros, cone)
            self.lam = 0.0
        size = make_scratch(self.problem).theta.size
        self.loss, self.hinge = projection_hinge(projection, size), hinge_of(self.problem)
        # Of all steps, without a test; None for the largest that pass it.
        self._fixed = self.step = step_size
        self._euclidean, self._restarts = projection == "euclidean", restarts
        self._out = np.zeros((3, self.n))
        self.best, self.n_calls, self.n_restarts = Best(), 0, 0
        self._center = flatten(zero_weights(self.shapes) if start is None else start)
        self._warm = start is not None
        if self._warm:
            self.regulariser.settle(self._tables(self._center))
        #: The last projections, and the steps that lead there.
        self.at = self.block = None
        self._marks = ()
        self._last_gap, self._last_certified, self._k = None, 0, 0
        self._objective = np.nan

    def _tables(self, flat):
        return view_flat(flat, self.shapes)

    def _visit(self, part, w):
        """Return the function that one thread applies to a range of samples."""
        scratch = make_scratch(part)
        own = private_loss(self.loss), part, w, self.sample_weight
        augmented = np.empty_like(scratch.theta)

        def visit(first, last, gradient):
            project_samples(*own, first, last, scratch, augmented, gradient, self._out)

        return visit

    def _answer(self, z, c, pieces):
        """Project the potentials of z and c; None where a callback ended the pass."""
        self.loss.strength[0] = 1.0 / c
        w, gradient = self._tables(z / c), np.zeros_like(z)
        sum_over_samples(
            lambda part: self._visit(part, w),
            self.problem,
            self._tables(gradient),
            self.n_jobs,
            pieces,
        )
        if pieces.stopped:
            return None
        self.n_calls += self.n
        bad = np.flatnonzero(~np.isfinite(self._out[VALUE]))
        if bad.size:
            raise SampleOverflow(int(bad[0]), float(self._out[VALUE, bad[0]]), _ADVICE)
        gradient /= self.n
        if not np.isfinite(gradient @ gradient):
            raise FloatingPointError(
                "the gradient overflows: scale the features (sklearn.preprocessing), or lower C"
            )
        mean = self._out @ self.sample_weight / self.n
        value, magnitude = c * float(mean[VALUE]), c * float(mean[MAGNITUDE])
        return _Answer(z, c, gradient, float(mean[TASK_LOSS]), value, magnitude)

    def begin(self, progress):
        """Project zero potentials, or those of the starting weights; set the first step."""
        pieces, zero = progress.pieces, np.zeros_like(self._center)
        flat = self._answer(zero, _FLAT, pieces)
        if flat is None:
            return
        # From the first projections to any labelling: of entropies the value, of half a squared
        # norm at most that of a labelling.
        n_nodes = self.problem.labels.size / self.n
        spread = 0.5 * n_nodes if self._euclidean else flat.value
        weight = self.regulariser.first_weight(spread, flat.task_loss)
        # Features of 1e8 may need all iterations to get back to where they came from.
        loss = self._measure(self._center)
        if self._warm:
            # As where a run stands whose smoothing is off by a tenth of the objective.
            c = max(10.0 * spread / loss, _FLAT) if loss > 0.0 else 1.0
            flat = self._answer(c * self._center, c, pieces)
            if flat is None:
                return
            weight = max(weight, self.lam * c)
        self.at, self.block = flat, _Block(self._center, weight)
        if self._fixed is None:
            norm = math.sqrt(flat.gradient @ flat.gradient)
            by_loss = 1.0 / flat.task_loss if flat.task_loss > 0.0 else 1.0
            self.step = math.sqrt(weight) / norm if norm > 0.0 else by_loss

    def _point(self, answers, total):
        """The weights that the answers lead to."""
        w = self.block.point(self.lam, answers, total)
        self.regulariser.settle(self._tables(w))
        return w

    def epoch(self, k, rng, progress):
        """One step that passes the test, and those before it that do not."""
        self._k, cuts, pieces = k, 0, progress.pieces
        v = self._point(self.block.answers, self.block.total)
        while not pieces.stopped:
            anyhow = cuts >= _MOST_CUTS or self._fixed is not None
            if self._try(v, pieces, anyhow):
                self.step *= _GROWTH if self._fixed is None else 1.0
                return
            if not pieces.stopped:
                self.step *= _CUT
                cuts += 1

    def _try(self, v, pieces, anyhow):
        """Try a step from `v`; return whether it passed the test and no callback ended it."""
        at, step, block = self.at, self.step, self.block
        total, before = block.total + step, block.weight + self.lam * block.total
        u = self._point(block.answers + step * at.gradient, total)
        middle = self._answer(at.z + step * v, at.c + step, pieces)
        if middle is None:
            return False
        answers = block.answers + step * middle.gradient
        # Mirror-prox (Nemirovski 2004): what u and its answers leave of the divergences between v,
        # u and the next v. Their sum over the steps is what the averages' gap needs.
        room = block.bank + middle.divergence(at) + 0.5 * before * _square(u - v)
        back = u - self._point(answers, total)
        room += 0.5 * (block.weight + self.lam * total) * _square(back)
        room -= step * float((middle.gradient - at.gradient) @ back)
        least = -_ROUNDING * (middle.magnitude + at.magnitude + abs(room))
        if not (anyhow or room >= least):
            return False
        after = self._answer(at.z + step * u, middle.c, pieces)
        if after is None:
            return False
        room -= middle.divergence(after)
        if not (anyhow or room >= least):
            return False
        self.at, block.answers, block.total, block.bank = after, answers, total, max(room, 0.0)
        # Projections lie in the hull but for rounding.
        block.task_loss += step * (middle.task_loss - ROUNDING * middle.magnitude / middle.c)
        if self.lam == 0.0 and self._restarts:
            self._mark()
        return True

    def due(self, k, tol):
        """After a fraction of the iterations so far."""
        return k - self._last_certified >= 1.0 + _CERTIFY_EVERY * k

    def _measure(self, flat):
        """Objective of some weights, which may be the best."""
        w = self._tables(flat)
        present = self.hinge, self.problem, w, self.sample_weight, self.lam, self.n_jobs
        value = objective_value(*present, advice=_ADVICE)
        self.n_calls += self.n
        self.best.offer(value.objective, w, value.magnitude)
        return value.objective

    def _average(self):
        """The mean weights of all steps, or in a ball of the last half to three quarters."""
        # The regulariser makes early steps count for little. Means of one block only are far from
        # the optimum for longer. Without restarts in a ball, too, of all.
        w = self._center.copy()
        if self.at is not None:
            w = self.at.z / self.at.c
            if self._marks and self._marks[0].c < self.at.c:
                w = (self.at.z - self._marks[0].z) / (self.at.c - self._marks[0].c)
        self.regulariser.settle(self._tables(w))
        return w

    def _mark(self):
        """Note where the steps have doubled."""
        if not self._marks:
            self._marks = (self.at, self.at)
        elif self.at.c >= 2.0 * self._marks[1].c:
            self._marks = (self._marks[1], self.at)

    def certify(self):
        """Primal and dual objective at the averages."""
        average, block, regulariser = self._average(), self.block, self.regulariser
        self._objective = self._measure(average)
        moved = block is not None and block.total > 0.0
        if moved:
            answer = self._tables(block.answers / block.total)
            regulariser.offer(block.task_loss / block.total, answer.tables)
            bound = regulariser.bound(block.task_loss / block.total, answer)
        best = self.best
        magnitude = best.magnitude + regulariser.magnitude
        self.certificate = certify_pair(best.objective, regulariser.value, magnitude)
        self._last_certified = self._k
        if moved and self._restarts and self.certificate.relative <= _FIRST_RESTART:
            self._restart(average, self._objective - bound)

    def _restart(self, average, gap):
        """Restart at the averages if the gap of the block has fallen enough."""
        if self._last_gap is None:
            self._last_gap = gap
        if gap <= _RESTART_AT * self._last_gap:
            block, self._last_gap = self.block, gap
            weight = self.regulariser.next_weight(block.weight, block.total)
            self.block = _Block(average, weight)
            self.n_restarts += 1

    def entry(self):
        """The objective of the averages, the bounds so far, and the step."""
        step = {"step_size": np.nan if self.step is None else self.step}
        if self.certificate is None:
            return super().entry() | step
        return self.certificate.record | {"objective": self._objective} | step

    def work(self):
        """Oracle calls, those of steps that the test refused included."""
        return self.n_calls, 0.0

    def weights(self):
        """The averages."""
        return self._tables(self._average()).copy()

    def solution(self):
        """The best ones seen."""
        return self.best.weights

    def published(self):
        """Choices of the end, and counts."""
        return {
            "step_size_": np.nan if self.step is None else self.step,
            "n_restarts_": self.n_restarts,
            "n_oracle_calls_": self.n_calls,
        }


def _square(vector):
    return float(vector @ vector)

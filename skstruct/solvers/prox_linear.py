"""Prox-linear steps: linearise the scores, solve the smoothed problem, move."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..core.cone import make_cone, settle
from ..core.jit.solver_kernel import solver_kernel
from ..core.offsets import ends_of, places_of
from ..core.oracles import accumulate, potentials
from ..core.parallel import effective_threads, make_scratch, private_copy, run_team
from ..core.weights import Weights, flatten, zero_weights
from ..data.packing import sample_of
from ..losses.operations import loss_oracle, private_loss, require_smooth
from ..scores import Linearisation, ScoreMap, guarded
from .primal import Best, Uncertified, objective_value
from .run import REMEDY, Method, SampleOverflow
from .sgd import improvement

# Losses and residuals of a batch of samples whose rows are their scores.


@solver_kernel
def batch_residuals(loss, problem, w, sample_weight, samples, scratch, augmented, gradient, values):
    """Add the gradients of ``s_i loss_i`` of some samples."""
    theta, r = scratch.theta, scratch.mu
    for visit in range(samples.shape[0]):
        i = samples[visit]
        potentials(problem, i, w, theta)
        values[i], _ = loss_oracle(loss, problem, i, theta, scratch.labels, r, augmented)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)


_ADVICE = "are the features scaled, is the step or the learning rate too large?"
# Starting threads costs more than the oracles of fewer rows.
_ROWS_A_THREAD = 2000


class MappedProblem(NamedTuple):
    """A structure's problem whose rows are their scores, and the map that gives them."""

    # The problem, with labels, made from an identity matrix of CSR rows.
    problem: Any
    # Shapes of its weight tables: scores of rows, then of the ends, and of pairs.
    shapes: tuple
    # The map.
    score_map: ScoreMap
    # (n_rows, n_features): What it maps.
    rows: Any
    # (n_samples + 1,): Where the rows of each sample begin.
    row_ptr: np.ndarray


class MapWeights(NamedTuple):
    """Trained parameters of the map, the ends and the edges."""

    # (n_params,): Parameters of the map.
    params: np.ndarray
    # (n_end_rows, n_labels): Scores of labels at the ends of a sample.
    ends: np.ndarray
    # (n_pair_rows, n_pairs): Weights of edge features.
    pair: np.ndarray

    @property
    def tables(self):
        """All three."""
        return tuple(self)


class Batch(NamedTuple):
    """Some samples."""

    # Their positions.
    samples: np.ndarray
    # Their rows, sample by sample.
    rows: np.ndarray
    # What makes the sum over a batch an unbiased estimate of the mean over all samples, also where
    # batches are not equally large.
    scale: float


class Residuals(NamedTuple):
    """Losses of all samples at some scores, and their gradients."""

    # A partition of the samples.
    batches: list
    # (n_rows, n_columns): ``s_i`` times the residuals of the rows.
    rows: np.ndarray
    # (n_batches, n_tail): Gradients of each batch in the ends and the pair table, flat.
    tails: np.ndarray
    # Mean loss.
    loss: float


class Linearised:
    """The map at some parameters, on the rows of all samples."""

    def __init__(self, mapped: MappedProblem, params: np.ndarray):
        score_map, rows, params = mapped.score_map, mapped.rows, guarded(params)
        with np.errstate(over="ignore", invalid="ignore"):  # refused where they are used
            if score_map.rowwise:
                self._parts = score_map.linearise(params, rows)
            else:
                bounds = pairwise(mapped.row_ptr.tolist())
                self._parts = [score_map.linearise(params, rows[a:b]) for a, b in bounds]
        self._rowwise = score_map.rowwise

    def all(self) -> Linearisation | _Joined:
        """Linearise the scores of all rows."""
        return self._parts if self._rowwise else _Joined(self._parts)

    def of(self, batch: Batch) -> Linearisation | _Joined:
        """Linearise the scores of the rows of a batch."""
        if self._rowwise:
            return self._parts.take(batch.rows)
        return _Joined([self._parts[i] for i in batch.samples])


class _Joined:
    """Linearisations of samples, as one."""

    def __init__(self, parts):
        self.parts = parts

    @property
    def scores(self):
        return np.concatenate([part.scores for part in self.parts])

    def jvp(self, tangent):
        return np.concatenate([part.jvp(tangent) for part in self.parts])

    def vjp(self, cotangent):
        total, at = 0.0, 0
        for part in self.parts:
            stop = at + part.scores.shape[0]
            total = total + part.vjp(cotangent[at:stop])
            at = stop
        return total


class _Worker:
    """Loss, problem, scratch and gradient of one thread."""

    def __init__(self, loss, problem, shapes):
        self.loss, self.problem = loss, problem
        self.scratch = make_scratch(problem)
        self.augmented = np.empty_like(self.scratch.theta)
        self.gradient = zero_weights(shapes)


class MappedLosses:
    """One loss on all samples: values and residuals at scores, batch by batch."""

    def __init__(self, mapped: MappedProblem, sample_weight: np.ndarray, loss, n_jobs):
        self.mapped, self.sample_weight, self.n_jobs = mapped, sample_weight, n_jobs
        self.n, self.n_rows = sample_weight.size, mapped.rows.shape[0]
        self.n_calls = 0
        (height, self.n_columns), self.pair_shape = mapped.shapes
        self.ends_shape = height - self.n_rows, self.n_columns
        self._n_ends = math.prod(self.ends_shape)
        #: Number of weights of ends and pairs.
        self.n_tail = self._n_ends + math.prod(self.pair_shape)
        self.table = zero_weights(mapped.shapes)
        #: Losses of the samples at the last call.
        self.values = np.zeros(self.n)
        n_threads = min(effective_threads(n_jobs), max(1, self.n_rows // _ROWS_A_THREAD))
        problem = mapped.problem
        self._workers = [_Worker(loss, problem, mapped.shapes)]
        for _ in range(1, n_threads):
            self._workers.append(_Worker(private_loss(loss), private_copy(problem), mapped.shapes))

    def split(self, vector: np.ndarray) -> MapWeights:
        """Parameters of the map, ends and pairs, in one vector: views."""
        params, tail = np.split(vector, [vector.size - self.n_tail])
        ends, pair = np.split(tail, [self._n_ends])
        return MapWeights(params, ends.reshape(self.ends_shape), pair.reshape(self.pair_shape))

    def _place_tail(self, vector):
        """Put ends and pairs into the tables."""
        _, self.table.node[self.n_rows :], self.table.pair[:] = self.split(vector)

    # Batches

    def draw_batches(self, rng: np.random.Generator, size: int) -> list[Batch]:
        """A random partition into batches of about `size` samples."""
        n_batches = max(1, round(self.n / size))
        parts = np.array_split(rng.permutation(self.n), n_batches)
        return [self._batch(np.sort(part), n_batches / self.n) for part in parts]

    def _batch(self, samples, scale):
        ptr = self.mapped.row_ptr
        _, rows = places_of(ptr[samples], ptr[samples + 1] - ptr[samples])
        return Batch(samples.astype(np.int64), rows, scale)

    def spread(self, batch: Batch, values: np.ndarray) -> np.ndarray:
        """Numbers of the samples of a batch, on their rows."""
        ptr = self.mapped.row_ptr
        return np.repeat(values, ptr[batch.samples + 1] - ptr[batch.samples])

    def set_strength(self, strength: float) -> None:
        """Set the smoothing of a smoothed hinge."""
        for worker in self._workers:
            worker.loss.strength[0] = strength

    def _call(self, worker, samples):
        buffers = worker.scratch, worker.augmented, worker.gradient, self.values
        task = worker.problem, self.table, self.sample_weight, samples
        batch_residuals(worker.loss, *task, *buffers)

    def _residuals(self, worker, batch, rows, tail):
        """Residuals of a batch at the scores in the table."""
        self._call(worker, batch.samples)
        node, pair = worker.gradient.tables
        rows[:] = node[batch.rows]
        node[batch.rows] = 0.0
        tail[: self._n_ends], tail[self._n_ends :] = node[self.n_rows :].ravel(), pair.ravel()
        node[self.n_rows :] = 0.0
        pair[:] = 0.0

    def at_batch(self, batch: Batch, scores: np.ndarray, vector: np.ndarray):
        """Residuals of a batch's rows and the gradient of its tail; None on overflow."""
        if not (np.isfinite(scores).all() and np.isfinite(vector).all()):
            return None
        self.table.node[batch.rows] = scores
        self._place_tail(vector)
        rows, tail = np.empty_like(scores), np.empty(self.n_tail)
        self._residuals(self._workers[0], batch, rows, tail)
        self.n_calls += batch.samples.size
        return rows, tail

    def at_all(self, scores: np.ndarray, vector: np.ndarray, batches: list[Batch], pieces):
        """Residuals of all samples."""
        if not (np.isfinite(scores).all() and np.isfinite(vector).all()):
            return None
        self.table.node[: self.n_rows] = scores
        self._place_tail(vector)
        rows, tails = np.empty_like(scores), np.empty((len(batches), self.n_tail))

        def run(worker, some):
            for b in some:
                here = np.empty((batches[b].rows.size, self.n_columns))
                self._residuals(worker, batches[b], here, tails[b])
                rows[batches[b].rows] = here

        for start, stop in pieces.ranges(0, len(batches)):
            self._in_threads(run, start, stop)
            self.n_calls += sum(batch.samples.size for batch in batches[start:stop])
        if pieces.stopped:
            return None
        mean = float(self.values @ self.sample_weight) / self.n
        return Residuals(batches, rows, tails, mean) if np.isfinite(mean) else None

    def _in_threads(self, run, start, stop):
        n = min(len(self._workers), stop - start)
        run_team(lambda k, team: run(self._workers[k], range(start + k, stop, n)), n)

    def gradient(self, linearised: Linearised, found: Residuals) -> np.ndarray:
        """Mean gradient of the losses."""
        params = linearised.all().vjp(found.rows)
        return np.concatenate([params, found.tails.sum(axis=0)]) / self.n

    # The objective that is reported

    def objective(self, target, scores: np.ndarray, vector: np.ndarray, lam: float) -> float:
        """``lam/2 |w|^2`` and the mean of another loss."""
        self.refuse_overflow(scores)
        self.table.node[: self.n_rows] = scores
        self._place_tail(vector)
        arguments = self.mapped.problem, self.table, self.sample_weight, 0.0, self.n_jobs
        mean = objective_value(target, *arguments, advice=_ADVICE).objective
        return mean + 0.5 * lam * float(vector @ vector)

    def refuse_overflow(self, scores: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Raise an error for the first sample whose scores are not finite."""
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if bad.size:
            sample = sample_of(bad[0] if rows is None else rows[bad[0]], self.mapped.row_ptr)
            raise SampleOverflow(sample, float("nan"), f"its scores are not finite: {_ADVICE}")


# Casimir-SVRG on the linearised problem, with mini-batches: the inner solver of prox-linear.

# Batches that are probed for a first estimate of the smoothness.
_PROBES = 3
# Without smoothing: a fraction of the strength that only breaks ties.
_NEARLY_NONE = 1e-6
# Where all labellings tie, nothing is measured: this fraction of what a step from the truth shows.
_AT_TIES = 0.1
# A pass that adds less than this fraction to what has been won is the last one.
_SOLVED = 0.02
# The learning rate grows by the one factor after a pass that succeeds, and falls by the other after
# one that fails; then it stays below what failed by some margin, which is slowly forgotten.
_BOLDER, _CAREFUL, _BELOW, _FORGET = 0.8, 2.0, 1.4, 0.97
# Shorter steps change no weight.
_MOST_CAREFUL = 2.0**52


class Point(NamedTuple):
    """Weights, and the smoothed losses and gradient there."""

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

    def __init__(self, losses: MappedLosses, lam, n_passes, batch_size, rate, warm_start, settle):
        self.losses, self.lam, self.warm_start = losses, lam, warm_start
        self.n_passes, self.batch_size, self.rate = n_passes, batch_size, rate
        self.settle = settle
        #: Accuracy of the next solution (Algorithm 5); 0 to stop where passes add little.
        self.tol = 0.0
        #: Estimate of the smoothness of a sample's loss, at the present strength of smoothing.
        self.lipschitz = 0.0
        self._caution, self._least_caution = 1.0, 0.0

    def point(self, vector, linearised, rng, pieces) -> Point | None:
        """Evaluate the smoothed losses at weights; None if they overflow or a callback stops."""
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
        center = before = older = at.vector
        snapshot, gradient, least = at.found, at.gradient - self.lam * at.vector, at.objective
        for k in range(self.n_passes):
            if k > 0:
                found = self._snapshot(at, center, rng, pieces)
                if pieces.stopped:
                    return before
                value = np.inf if found is None else self._model(at, found, center, eta)
                if value <= least:
                    little = least - value < _SOLVED * (at.objective - value)
                    if little and not self.tol:
                        return center
                    snapshot, least, kept = found, value, center
                    gradient = self.losses.gradient(at.linearised, found)
                    slope = gradient + self.lam * center + (center - at.vector) / eta
                    # The smoothing takes half of the tolerance.
                    if _square(slope) <= strong * self.tol:
                        return center
                    self._least_caution *= _FORGET
                    self._caution = max(_BOLDER * self._caution, self._least_caution)
                else:
                    # Longer steps than the losses bear: once more from the last snapshot.
                    self._fail()
                    center = before = older = kept
            else:
                kept = center
            n_batches = len(snapshot.batches)
            kappa = max(self._caution * self.lipschitz / n_batches - strong, 0.0)
            start = self._start(center, older, before, kappa, strong)
            w = self._steps(at, center, start, snapshot, gradient, eta, kappa, rng, pieces)
            if pieces.stopped:
                return before
            if w is None:
                self._fail()
                return kept
            root = np.sqrt(strong / (strong + kappa))
            older, center = center, w + (1.0 - root) / (1.0 + root) * (w - before)
            self.settle(center)
            before = w
        return before

    def _start(self, center, older, before, kappa, strong):
        """Where a pass of steps starts: see section 7.3.1."""
        if self.warm_start == "previous":
            return before
        if self.warm_start == "extrapolation":
            return before + kappa / (kappa + strong) * (center - older)
        return center

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
        """Return the change of a batch's gradient since the snapshot; None if scores overflow."""
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
        """Mean smoothness of the losses of a few batches."""
        # A loss that mixes two labellings in equal shares is as smooth as twice the squared
        # distance of the mixture from the better one, over nu. Random signs keep samples apart: the
        # expected square of the signed sum is the sum of squares.
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

    def _steps(self, at, center, start, snapshot, gradient, eta, kappa, rng, pieces):
        """A pass of SVRG steps around the prox-center; None if the scores overflow."""
        rate = 1.0 / (self._caution * self.lipschitz) if self.rate is None else self.rate
        pull = at.vector / eta + kappa * center - gradient
        pull *= rate
        shrink = 1.0 / (1.0 + rate * (self.lam + 1.0 / eta + kappa))
        w = start.copy()
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
    """Base of methods whose weights are one vector: objectives, best weights, the result."""

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
        """Project the pair table onto its constraints, in place."""
        if self.cone.coefficients.size:
            pair = self.losses.split(vector).pair
            w = Weights(np.zeros((0, 0)), np.ascontiguousarray(pair))
            settle(self.cone, w)
            pair[:] = w.pair

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
    """Prox-linear steps on the regularised mean hinge (Pillutla et al. 2019, Algorithm 5)."""

    fields = ("stationarity", "gradient_norm", "eta", "smoothing_strength")

    def __init__(
        self,
        *task,
        loss,
        strength,
        shrinking,
        eta,
        n_passes,
        batch_size,
        rate,
        warm_start="prox-center",
        tol=None,
        **options,
    ):
        require_smooth(loss, "prox-linear")
        super().__init__(*task, loss=loss, **options)
        # The smoothing; whether that of outer step k is ``nu / k``.
        self.strength, self.shrinking = strength, shrinking
        # The proximal term is ``1 / (2 eta)`` times the squared distance; None for a line search.
        self.fixed_eta = self.eta = eta
        choices = n_passes, batch_size, rate, warm_start
        self.inner = CasimirSteps(self.losses, self.lam, *choices, self.settle)
        # epsilon_0; the subproblem of step k is solved to epsilon_0 / k.
        self.inner_tol = tol
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
        self.inner.tol = (self.inner_tol or 0.0) / k
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
        # The best labellings yield no gradient if they are too few for the smoothing.
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
        """Return the advice; more steps do not help where none improves the weights."""
        return _RESOLVED if self.stalled else REMEDY

    def entry(self):
        """Objective, stationarity, and what the step was."""
        eta = np.nan if self.eta is None else self.eta  # stopped before the first step
        return self.certificate.record | {"eta": eta, "smoothing_strength": self.nu}

    def published(self):
        """Choices of the end, and counts."""
        return {
            "step_size_": self.eta,
            "smoothing_strength_": self.nu,
            "n_oracle_calls_": self.losses.n_calls,
        }


# Stochastic subgradients through a score map: the baseline of prox-linear.

# Fraction of the step that would bring a linear loss to 0, and how many batches are asked.
_CAREFUL_RATE, _ASKED = 0.1, 8


class MappedSubgradient(MappedMethod):
    """Stochastic subgradients with score maps (Davis, Drusvyatskiy 2019)."""

    fields = ("learning_rate",)

    def __init__(self, *task, target, schedule, rate, batch_size, **options):
        super().__init__(*task, loss=target, target=target, **options)
        # The rate after t passes is the first one, divided by ``(1 + t)`` to some power; where none
        # is given, it is a tenth of the step that would bring a linear loss to 0.
        self.falls = {"constant": 0.0, "inverse": 1.0, "sqrt": 0.5}[schedule]
        self.rate, self.batch_size = rate, batch_size
        self.trail, self._now = [], np.nan

    def begin(self, progress):
        """Evaluate the starting weights, the first candidate for the best."""
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
        ptr = self.mapped.row_ptr
        ptr = ends_of(ptr[batch.samples + 1] - ptr[batch.samples])
        part = self.mapped._replace(rows=self.mapped.rows[batch.rows], row_ptr=ptr)
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
        """Return whether nothing has improved; with a tolerance of 0, run all passes."""
        return tol > 0.0 and super().reached(tol)

    def entry(self):
        """Objective and rate."""
        return self.certificate.record | {"learning_rate": self._now}

    def published(self):
        """Count."""
        return {"n_oracle_calls_": self.losses.n_calls}

"""Losses of scores that a map gives: what all solvers of this room call."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.jit.dispatch import kernel
from ...core.offsets import places_of
from ...core.oracles import accumulate, potentials
from ...core.parallel import effective_threads, make_scratch, private_copy, run_team
from ...core.weights import zero_weights
from ...data.packing import sample_of
from ...losses.verbs import loss_oracle, private_loss
from ...scores import Linearisation, ScoreMap
from ...scores.base import guarded
from ..primal import objective_value
from ..run import SampleOverflow

# Losses and residuals of a batch of samples whose rows are their scores.


@kernel
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
    """What is trained."""

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

    # Which.
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
    """What one thread has of its own."""

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
        #: How many weights are of ends and pairs.
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

    def compile(self) -> None:
        """Compile outside the clock."""
        self._call(self._workers[0], np.empty(0, dtype=np.int64))

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
        """Name the sample whose scores are not finite, if there is one."""
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if bad.size:
            sample = sample_of(bad[0] if rows is None else rows[bad[0]], self.mapped.row_ptr)
            raise SampleOverflow(sample, float("nan"), f"its scores are not finite: {_ADVICE}")

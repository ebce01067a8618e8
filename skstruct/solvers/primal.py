"""A loss over all samples: objectives, gradients, and the best weights seen."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core.intrinsics import fetch_add
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import accumulate, adds_by_columns, potentials
from ..core.parallel import (
    ALONE,
    LEAD,
    LEAVE,
    Crew,
    Pieces,
    Scratch,
    count_threads,
    make_scratch,
    meet,
    open_gate,
    over_samples,
    private_copy,
    run_team,
    split_samples,
    team_pieces,
    useful_threads,
)
from ..core.weights import Weights, squared_norm, zero_weights
from ..losses.hinge import hinge_of
from ..losses.verbs import dot, loss_oracle, loss_value, private_loss
from .run import SampleOverflow

_NO_MEMORY = np.empty(0)
_ADVICE = "are the features scaled?"


@solver_kernel
def loss_values(loss, problem, w, memory, start, stop, scratch, out):
    """Losses of samples `start` to `stop`, and how far `memory` is from the oracle's answer."""
    theta, augmented = scratch.theta, scratch.mu
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        out[0, i], out[2, i] = loss_value(loss, problem, i, theta, scratch.labels, augmented)
        if memory.shape[0] > 0:
            part = problem.part_ptr[i]
            size = problem.part_ptr[i + 1] - part
            out[1, i] = out[0, i] - dot(theta, memory[part : part + size], size)


class Block(NamedTuple):
    """Samples that threads work on together."""

    # (1,): How many of them have been taken.
    taken: np.ndarray
    # (2, n_parts): Theirs, and those of the block before, which slower threads may still be adding.
    residuals: np.ndarray
    # Number of these samples.
    size: int


def make_block(problem, size: int = 1) -> Block:
    """Room for so many consecutive samples."""
    ends = problem.part_ptr
    stops = np.minimum(np.arange(ends.size) + size, ends.size - 1)
    most = int((ends[stops] - ends).max(initial=0))
    return Block(np.zeros(1, dtype=np.int64), np.empty((2, most)), size)


@solver_kernel
def loss_gradient(
    loss, problem, w, sample_weight, start, stop, scratch, augmented, gradient, out, block, team
):
    """Add the gradient of ``sum_i s_i loss_i`` over a range of samples, which threads share."""
    # By blocks: oracles at samples of each thread's own, then each adds the residuals of all, in
    # the order of the samples, to its share of the gradient. The threads change no bit.
    theta, share = scratch.theta, gradient.share
    turn, first = 0, start
    while first < stop:
        last = first + block.size if first + block.size < stop else stop
        residuals, base = block.residuals[turn], problem.part_ptr[first]
        i = first + fetch_add(block.taken, 0, 1)
        while i < last:
            r = residuals[problem.part_ptr[i] - base : problem.part_ptr[i + 1] - base]
            potentials(problem, i, w, theta)
            found = loss_oracle(loss, problem, i, theta, scratch.labels, r, augmented)
            out[0, i], out[1, i] = found
            i = first + fetch_add(block.taken, 0, 1)
        came = meet(team)
        if came == LEAVE:
            break
        if came == LEAD:
            block.taken[0] = 0
            open_gate(team)
        # Threads without a share add nothing.
        for i in range(first, last if share.shape[0] == 0 or share[0] < share[1] else first):
            r = residuals[problem.part_ptr[i] - base : problem.part_ptr[i + 1] - base]
            accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)
        turn, first = 1 - turn, last


class ObjectiveValue(NamedTuple):
    """The objective at some weights."""

    # ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)``.
    objective: float
    # (n_samples,): Distance of each sample's dual point from the oracle's answer, but for the task
    # loss of that point; the losses without one.
    gaps: np.ndarray
    # Mean size of the terms that the losses are differences of, see
    # :func:`skstruct.solvers.certificate.certify_pair`.
    magnitude: float


def objective_value(
    loss, problem, w, sample_weight, lam, n_jobs, memory=_NO_MEMORY, advice=_ADVICE
) -> ObjectiveValue:
    """``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)``, by one oracle call per sample."""
    n = sample_weight.size
    out = np.zeros((3, n))

    def piece(part, start, stop):
        own = private_loss(loss)
        loss_values(own, part, w, memory, start, stop, make_scratch(part), out)

    over_samples(piece, problem, n_jobs)
    bad = np.flatnonzero(~np.isfinite(out[0]))
    if bad.size:
        raise SampleOverflow(int(bad[0]), float(out[0, bad[0]]), advice)
    # No loss is negative: what is below 0 is rounding of two scores.
    mean = float(np.maximum(out[0], 0.0) @ sample_weight) / n
    objective = 0.5 * lam * squared_norm(w) + mean
    if not np.isfinite(objective):
        raise FloatingPointError(f"the objective is {objective}: {advice}")
    magnitude = float(out[2] @ sample_weight) / n
    return ObjectiveValue(objective, out[1] if memory.size else out[0], magnitude)


def hinge_value(problem, w, sample_weight, lam, n_jobs, memory=_NO_MEMORY) -> ObjectiveValue:
    """:func:`objective_value` of the hinge that the structure is trained on."""
    loss = hinge_of(problem)
    return objective_value(loss, problem, w, sample_weight, lam, n_jobs, memory)


class Best:
    """The weights of smallest objective so far."""

    def __init__(self):
        self.objective, self.magnitude, self.weights = np.inf, 0.0, None

    def offer(self, objective: float, weights: Weights, magnitude: float = 0.0) -> None:
        """Keep a copy of `weights` if they are the best."""
        if objective < self.objective:
            self.objective, self.magnitude = objective, magnitude
            self.weights = weights.copy()


class Uncertified(NamedTuple):
    """Objective and stopping measure of weights without a dual bound."""

    # Fields of the history, the objective among them.
    record: dict[str, float]
    # The smallest objective seen.
    best: float
    # The quantity that `tol` bounds, and its description.
    relative: float
    measure: str

    @property
    def objective(self) -> float:
        """Their objective."""
        return self.record["objective"]

    @property
    def published(self) -> dict[str, float]:
        """The attributes that it gives an estimator."""
        values = self.record | {"objective": self.best}
        return {f"{name}_": value for name, value in values.items()}


# More threads than blocks would have nothing to do.
_MOST_BLOCKS = 16
# A block costs a sweep over the weights: there are fewer where that would take as long as its work.
_WEIGHTS_A_PART = 8

# Samples of a block have so many parts together, and are enough for two threads to end at about the
# same time. With more of them the weights' rows leave the cache before they are added to.
_PARTS_A_BLOCK = 1 << 12
_LEAST, _MOST = 8, 256


def block_size(problem) -> int:
    """Return the number of samples that threads process together, from the data alone."""
    mean = max(int(problem.part_ptr[-1]) // max(problem.part_ptr.size - 1, 1), 1)
    return min(max(_PARTS_A_BLOCK // mean, _LEAST), _MOST)


class Worker:
    """Loss, problem and scratch of one thread."""

    def __init__(self, loss, problem):
        self.loss, self.problem = loss, problem
        scratch = make_scratch(problem)
        #: Buffers of the longest sample's parts, and one for its labels.
        self.scratch = np.empty((5, scratch.theta.size)), scratch.labels


class Workers(Crew):
    """Threads that call one kernel together, each with scratch of its own."""

    def __init__(self, loss, problem, n_threads: int):
        super().__init__(n_threads)
        self._one_adds = not adds_by_columns(problem)
        self.all = [Worker(loss, problem if n_threads == 1 else private_copy(problem))]
        for _ in range(1, n_threads):
            self.all.append(Worker(private_loss(loss), private_copy(problem)))

    def call(self, kernel, arguments, alone: bool = False) -> None:
        """Call ``kernel(*arguments(worker, share), team)`` in each thread, with its share."""
        n = 1 if alone else self.size
        calls = []
        for k, own in enumerate(self.all[:n]):
            share = (int(k > 0), 1) if self._one_adds else (k, n)
            calls.append(arguments(own, np.array(share, dtype=np.int64)))
        if alone or len(self.all) == 1:
            kernel(*calls[0], ALONE)
        else:
            self.run(lambda k, team: kernel(*calls[k], team))


class BatchGradient:
    """The gradient of a smooth loss over all samples, in one array whatever the threads."""

    def __init__(self, loss, problem, sample_weight, n_jobs):
        n = count_threads(problem, n_jobs)
        self._workers, self._weight = Workers(loss, problem, n), sample_weight
        # One thread adds residuals while the rows of the weights are in its cache.
        self._block = make_block(problem, block_size(problem) if n > 1 else 1)

    def add(self, w, gradient, out, pieces: Pieces) -> None:
        """Add the gradient of ``sum_i s_i loss_i``."""
        for first, last in pieces.ranges(0, self._weight.size):
            self._add(w, first, last, gradient, out)

    def _add(self, w, first, last, gradient, out):
        """Add that of some samples."""

        def arguments(own, share):
            buffers, labels = own.scratch
            scratch = Scratch(buffers[0], buffers[1], labels), buffers[2]
            task = own.loss, own.problem, w, self._weight, first, last, *scratch
            return *task, gradient._replace(share=share), out, self._block

        self._block.taken[0] = 0
        self._workers.call(loss_gradient, arguments)


def sum_over_samples(make_visit, problem, gradient, n_jobs, pieces: Pieces) -> None:
    """Add the samples' contributions to a gradient; each thread first sums into one of its own."""
    shapes = tuple(table.shape for table in gradient.tables)
    # The number of blocks depends on the data, not on the threads.
    size = sum(rows * columns for rows, columns in shapes)
    worthwhile = max(2, _WEIGHTS_A_PART * int(problem.part_ptr[-1]) // max(size, 1))
    n_blocks = min(_MOST_BLOCKS, useful_threads(problem), worthwhile)
    blocks = list(pairwise(np.unique(split_samples(problem, n_blocks)).tolist()))
    n = min(count_threads(problem, n_jobs), len(blocks))
    visits = [make_visit(problem if n == 1 else private_copy(problem)) for _ in range(n)]
    sums = [zero_weights(shapes) for _ in range(n)]
    for done in range(0, len(blocks), n):
        now = blocks[done : done + n]

        def work(k, team, now=now):
            alone = n == 1
            cuts = pieces.ranges(*now[k], blocks[-1][1]) if alone else team_pieces(team, *now[k])
            for first, last in cuts:
                visits[k](first, last, sums[k])

        run_team(work, len(now))
        for own in sums[: len(now)]:
            for total, part in zip(gradient.tables, own.tables, strict=True):
                total += part
                part.fill(0.0)
        if pieces.stopped:
            return

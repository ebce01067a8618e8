"""Kernels on all samples in threads: sums of fixed blocks, added in order, hence equal bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..core.oracles import adds_by_columns
from ..core.parallel import (
    ALONE,
    Crew,
    Pieces,
    Scratch,
    count_threads,
    make_scratch,
    private_copy,
    run_team,
    split_samples,
    team_pieces,
    useful_threads,
)
from ..core.weights import zero_weights
from ..losses.verbs import private_loss
from .primal import loss_gradient, make_block

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
        for first, last in pieces.visits(self._weight.size):
            self._add(w, first, last, gradient, out)

    def _add(self, w, first, last, gradient, out):
        """Add that of some samples; none of them compile."""

        def arguments(own, share):
            buffers, labels = own.scratch
            scratch = Scratch(buffers[0], buffers[1], labels), buffers[2]
            task = own.loss, own.problem, w, self._weight, first, last, *scratch
            return *task, gradient._replace(share=share), out, self._block

        self._block.taken[0] = 0
        self._workers.call(loss_gradient, arguments, alone=first == last)

    def compile(self, shapes) -> None:
        """Compile outside the clock."""
        w = zero_weights(shapes)
        self._add(w, 0, 0, w, np.zeros((2, 0)))


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

"""Gradients over all samples in threads, with the same bits for any number of them.

Samples are summed in fixed blocks, whose sums are added in the order of the blocks: who computes
which block does not matter.
"""

from __future__ import annotations

from itertools import pairwise
from threading import Condition

import numpy as np
from joblib import Parallel, delayed

from ..core.oracles import adds_by_columns
from ..core.parallel import (
    ALONE,
    Crew,
    Pieces,
    Scratch,
    count_threads,
    make_scratch,
    private_copy,
    split_samples,
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
    """How many samples threads work on together: by the data alone."""
    mean = max(int(problem.part_ptr[-1]) // max(problem.part_ptr.size - 1, 1), 1)
    return min(max(_PARTS_A_BLOCK // mean, _LEAST), _MOST)


class Worker:
    """Scratch of one thread, and its share of the weights."""

    def __init__(self, loss, problem, k: int, n: int):
        self._number, self._alone = k, not adds_by_columns(problem)
        self.loss = loss if k == 0 else private_loss(loss)
        self.problem = problem if n == 1 else private_copy(problem)
        scratch = make_scratch(problem)
        self.scratch = np.empty((5, scratch.theta.size)), scratch.labels

    def share_of(self, w, n: int):
        """The weights with what this one of n threads adds to."""
        k = self._number
        share = (int(k > 0), 1) if self._alone else (k, n)
        return w._replace(share=np.array(share, dtype=np.int64))


def sum_over_samples(make_visit, problem, gradient, n_jobs, pieces: Pieces) -> None:
    """Add what samples contribute to a gradient.

    At most one more gradient a thread is alive, none where there is one thread and one block.
    """
    bounds = np.unique(split_samples(problem, _count_blocks(problem, gradient)))
    n_threads = min(count_threads(problem, n_jobs), bounds.size - 1)
    if n_threads > 1:
        _Queue(make_visit, problem, gradient, bounds).run(n_threads)
        return
    visit, blocks = make_visit(problem), list(pairwise(bounds.tolist()))
    own, block = gradient, 0
    for first, last in pieces.ranges(0, blocks[-1][1]):
        while first < last:
            end = min(last, blocks[block][1])
            visit(first, end, own)
            first = end
            if first == blocks[block][1]:
                block += 1
                own = _add(gradient, own, block < len(blocks))


class BatchGradient:
    """The gradient of a smooth loss over all samples, in one array whatever the threads."""

    def __init__(self, loss, problem, sample_weight, n_jobs):
        n = count_threads(problem, n_jobs)
        self._workers = [Worker(loss, problem, k, n) for k in range(n)]
        # One thread adds residuals while the rows of the weights are in its cache.
        self._block = make_block(problem, block_size(problem) if n > 1 else 1)
        self._crew, self._weight = Crew(n), sample_weight

    def add(self, w, gradient, out, pieces: Pieces) -> None:
        """Add the gradient of ``sum_i s_i loss_i``."""
        for first, last in pieces.visits(self._weight.size):
            self._block.taken[0] = 0
            self._crew.run(self._visit(w, first, last, gradient, out, self._crew.size))

    def _visit(self, w, first, last, gradient, out, n):
        """What one of n threads does."""

        def visit(k, team):
            own = self._workers[k]
            buffers, labels = own.scratch
            scratch = Scratch(buffers[0], buffers[1], labels)
            task = own.loss, own.problem, w, self._weight, first, last, scratch, buffers[2]
            loss_gradient(*task, own.share_of(gradient, n), out, self._block, team)

        return visit

    def compile(self, shapes) -> None:
        """Compile outside the clock."""
        w, none = zero_weights(shapes), np.zeros((2, 0))
        self._visit(w, 0, 0, w, none, 1)(0, ALONE)


def _count_blocks(problem, gradient):
    """How many blocks: by what the data are, not by the threads."""
    size = sum(table.size for table in gradient.tables)
    worthwhile = max(2, _WEIGHTS_A_PART * int(problem.part_ptr[-1]) // max(size, 1))
    return min(_MOST_BLOCKS, useful_threads(problem), worthwhile)


def _add(gradient, own, more):
    """Add a block's sum to that of those before; returns zeros for the next, if there is one."""
    if own is not gradient:
        for total, part in zip(gradient.tables, own.tables, strict=True):
            total += part
    if not more:
        return None
    if own is gradient:
        return zero_weights(tuple(table.shape for table in gradient.tables))
    for part in own.tables:
        part.fill(0.0)
    return own


class _Queue:
    """Blocks that threads take in turn, and add in order."""

    def __init__(self, make_visit, problem, gradient, bounds):
        self._make_visit, self._problem, self._gradient = make_visit, problem, gradient
        self._blocks = list(pairwise(bounds.tolist()))
        self._taken = self._added = 0
        self._failed, self._turn = False, Condition()

    def run(self, n_threads):
        """Work on all blocks."""
        tasks = (delayed(self._work)(private_copy(self._problem)) for _ in range(n_threads))
        try:
            Parallel(n_jobs=n_threads, backend="threading")(tasks)
        except BaseException:
            self._stop()
            raise

    def _stop(self):
        with self._turn:
            self._failed = True
            self._turn.notify_all()

    def _take(self):
        with self._turn:
            self._taken += 1
            return self._taken - 1

    def _work(self, problem):
        visit, own = self._make_visit(problem), None
        try:
            while (block := self._take()) < len(self._blocks) and not self._failed:
                if own is None:
                    own = zero_weights(tuple(table.shape for table in self._gradient.tables))
                for first, last in Pieces().ranges(*self._blocks[block]):
                    if self._failed:
                        return
                    visit(first, last, own)
                with self._turn:
                    self._turn.wait_for(lambda b=block: self._added == b or self._failed)
                    if self._failed:
                        return
                    own = _add(self._gradient, own, True)
                    self._added += 1
                    self._turn.notify_all()
        except BaseException:
            self._stop()
            raise

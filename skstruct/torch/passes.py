"""One pass over a batch: losses, and their gradients for scores and tables, in threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from ..core.team import ALONE
from ..core.threads import split_samples
from ..core.weights import Weights
from ..losses.verbs import private_loss
from ..predict import decode
from ..solvers.primal import loss_gradient, loss_values, make_block
from .problems import Task

_NO_MEMORY = np.empty(0)
# Below this a pass takes less time than threads take to start.
_FLOPS_A_BLOCK = 3_000_000
_MOST_BLOCKS = 8

_pool = None


def _forget_pool():
    """A forked process has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def _threads():
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="skstruct")
    return _pool


def blocks(task: Task) -> list[tuple[int, int]]:
    """Runs of samples, the same for any number of threads."""
    n_samples = task.problem.label_ptr.size - 1
    n_blocks = min(task.flops // _FLOPS_A_BLOCK, _MOST_BLOCKS, n_samples)
    if n_blocks <= 1:
        return [(0, n_samples)]
    bounds = split_samples(task.problem, n_blocks).tolist()
    return list(pairwise(bounds))


def in_threads(task: Task, function) -> None:
    """Call ``function(problem, room, block, start, stop)`` for all blocks."""
    runs = blocks(task)
    n_threads = min(torch.get_num_threads(), len(runs))

    def some(first):
        room = task.take()
        problem = task.problem._replace(work=room.work)
        for block in range(first, len(runs), n_threads):
            function(problem, room, block, *runs[block])
        task.give(room)

    futures = [_threads().submit(some, t) for t in range(1, n_threads)]
    try:
        some(0)
    finally:
        for future in futures:
            future.result()


def values_of(loss, task: Task, w: Weights) -> np.ndarray:
    """Losses of all samples."""
    out = np.zeros((3, task.problem.label_ptr.size - 1))

    def piece(problem, room, block, start, stop):
        loss_values(private_loss(loss), problem, w, _NO_MEMORY, start, stop, room.scratch, out)

    in_threads(task, piece)
    return out[0]


def gradient_of(loss, task: Task, w: Weights, sample_weight) -> tuple[np.ndarray, Weights]:
    """Losses of all samples, and the gradient of their weighted sum."""
    out = np.zeros((2, sample_weight.size))
    node = np.zeros_like(w.node)
    # Summed in the order of blocks: the same bits for any number of threads.
    pairs = np.zeros((len(blocks(task)), *w.pair.shape))

    def piece(problem, room, block, start, stop):
        gradient = Weights(node, pairs[block])
        rest = sample_weight, start, stop, room.scratch, room.augmented, gradient, out
        loss_gradient(private_loss(loss), problem, w, *rest, make_block(problem), ALONE)

    in_threads(task, piece)
    return out[0], Weights(node, pairs[0] if len(pairs) == 1 else pairs.sum(axis=0))


def labels_of(task: Task, w: Weights) -> np.ndarray:
    """Best labellings of all samples."""
    out = np.empty(task.problem.label_ptr[-1], dtype=np.int32)
    failed = np.full(len(blocks(task)), -1)

    def piece(problem, room, block, start, stop):
        failed[block] = decode(problem, w, start, stop, room.scratch, out)

    in_threads(task, piece)
    for i in failed[failed != -1].tolist():
        what = "no labelling is allowed" if i >= 0 else "the sums of scores overflow"
        raise ValueError(f"sample {i if i >= 0 else -2 - i}: {what}")
    return out

"""The losses as functions that torch differentiates once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from ..core.parallel import ALONE, run_team, split_samples, with_scratch
from ..core.weights import Weights
from ..data.packing import Layout, check_scores
from ..losses.log import LogPartition
from ..losses.operations import private_loss
from ..solvers.passes import decode, decode_top_k
from ..solvers.primal import loss_gradient, loss_values, make_block
from .batches import as_array
from .chains import result_type
from .problems import ROOMS, Task

# One pass over a batch: losses, and their gradients for scores and tables, in threads.

_NO_MEMORY = np.empty(0)
# Below this a pass takes less time than threads take to start.
_FLOPS_A_BLOCK = 3_000_000
_MOST_BLOCKS = 8


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

    def some(k, team):
        room = ROOMS.take(task.key, task.make_room)
        problem = with_scratch(task.problem, room.own)
        for block in range(k, len(runs), n_threads):
            function(problem, room, block, *runs[block])
        ROOMS.give(task.key, room)

    run_team(some, n_threads)


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


def best_of(task: Task, w: Weights, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the best labellings (n,), or of the `k` best (k, n), and scores (n_samples, k)."""
    ends = task.problem.label_ptr
    out = np.empty(ends[-1] if k is None else (k, ends[-1]), dtype=np.int32)
    values = np.empty((ends.size - 1, k or 0))
    failed = np.full(len(blocks(task)), -1)

    def piece(problem, room, block, start, stop):
        given = problem, w, start, stop, room.scratch
        if k is None:
            failed[block] = decode(*given, out)
        else:
            labels = np.empty((k, room.scratch.labels.size), dtype=np.int32)
            failed[block] = decode_top_k(*given, values, labels, out)

    in_threads(task, piece)
    for i in failed[failed != -1].tolist():
        what = "no labelling is allowed" if i >= 0 else "the sums of scores overflow"
        raise ValueError(f"sample {i if i >= 0 else -2 - i}: {what}")
    return out, values


class Batch(NamedTuple):
    """All that a pass over a batch needs but the scores."""

    # Layout of the samples.
    layout: Layout
    # The problem.
    task: Task
    # The loss.
    loss: NamedTuple
    # Shape of the table of pairs as kernels know it.
    pair_shape: tuple
    # Reduction of the losses of samples.
    reduction: str

    def weights(self, scores, pair, start, stop) -> Weights:
        """The tables that the kernels see, of detached tensors."""
        layout = self.layout
        given = as_array(scores)
        node = layout.pack(given)
        ends = {"start": (start, layout.offsets[:-1]), "stop": (stop, layout.offsets[1:] - 1)}
        if (start is not None or stop is not None) and np.may_share_memory(node, given):
            node = node.copy()
        for name, (end, rows) in ends.items():
            if end is not None:
                values = as_array(end)
                check_scores(values, None, name)
                node[rows] += values
        check_scores(node, layout, "scores")
        table = np.zeros(self.pair_shape)
        if pair is not None:
            table = as_array(pair)
            check_scores(table, None, "pair")
            table = table.reshape(self.pair_shape)
        return Weights(node, table)

    def shares(self) -> np.ndarray:
        """Return the weight of the loss of each sample."""
        n = self.layout.n_samples
        by = {"mean": n, "token_mean": int(self.layout.offsets[-1])}
        return np.full(n, 1.0 / by.get(self.reduction, 1))

    def check(self, values: np.ndarray) -> None:
        """Reject losses that are not finite."""
        bad = np.flatnonzero(~np.isfinite(values))
        if not bad.size:
            return
        i, why = bad[0], "no labelling is allowed, or the sums of scores overflow"
        if isinstance(self.loss, LogPartition):
            raise ValueError(f"sample {i}: {why}")
        self.task.explain(int(i), self.layout)
        raise ValueError(f"the loss of sample {i} is {values[i]}: its labels score -inf, {why}")


def _like(array, tensor, dtype):
    """A tensor of an array, with the device and shape of another."""
    made = torch.from_numpy(np.ascontiguousarray(array)).reshape(tensor.shape)
    return made.to(device=tensor.device, dtype=dtype)


def _gradients(batch, w, shares, tensors, wanted):
    """Values, and the gradient for each tensor that requires one, in the type of the loss."""
    dtype = result_type(*tensors)
    values, found = gradient_of(batch.loss, batch.task, w, shares)
    batch.check(values)
    offsets = batch.layout.offsets
    parts = (
        lambda: batch.layout.unpack(found.node),
        lambda: found.pair,
        lambda: found.node[offsets[:-1]].sum(axis=0),
        lambda: found.node[offsets[1:] - 1].sum(axis=0),
    )
    return values, [
        _like(part(), tensor, dtype) if want else None
        for part, tensor, want in zip(parts, tensors, wanted, strict=True)
    ]


class _FirstOnly(torch.autograd.Function):
    """The gradient as a function of the upstream one, which is not differentiated again."""

    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """The gradient as it is."""
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> None:
        """Refused."""
        raise RuntimeError(
            "the losses of skstruct.torch have first derivatives only: differentiating their "
            "gradient (create_graph=True, double backward) is not possible; of chains "
            'backend="torch" has all derivatives'
        )


class StructuredLoss(torch.autograd.Function):
    """The losses of a batch; unreduced, their gradients are computed in the backward step."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, *tensors: torch.Tensor | None) -> torch.Tensor:
        """Losses of the batch for scores, table of pairs, scores of the first and the last node."""
        wanted = ctx.needs_input_grad[1:]
        w = batch.weights(*tensors)
        deferred = batch.reduction == "none"
        if deferred or not any(wanted):
            values, gradients = values_of(batch.loss, batch.task, w), None
            batch.check(values)
        else:
            values, gradients = _gradients(batch, w, batch.shares(), tensors, wanted)
        ctx.batch, ctx.gradients = batch, gradients
        ctx.save_for_backward(*tensors)
        reduced = values if deferred else values @ batch.shares()
        return torch.as_tensor(reduced, dtype=result_type(*tensors), device=tensors[0].device)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple:
        """The gradients, scaled, each in the type of its tensor."""
        tensors, batch = ctx.saved_tensors, ctx.batch
        with torch.no_grad():
            if ctx.gradients is None:
                w, shares = batch.weights(*tensors), as_array(upstream)
                found = _gradients(batch, w, shares, tensors, ctx.needs_input_grad[1:])[1]
            else:
                found = [g if g is None else g * upstream.to(g) for g in ctx.gradients]
            # Only here: 1 / n of a mean and the factor of a GradScaler may not fit into float16.
            pairs = zip(found, tensors, strict=True)
            found = [g if g is None else g.to(tensor.dtype) for g, tensor in pairs]
        if torch.is_grad_enabled():
            inputs = [upstream, *(t for t in tensors if t is not None)]
            found = [g if g is None else _FirstOnly.apply(g, *inputs) for g in found]
        return None, *found

"""The losses as functions that torch differentiates once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ..core.weights import Weights
from .batches import Layout, as_array, check_finite
from .passes import gradient_of, values_of
from .problems import Task

REDUCTIONS = "sum", "mean", "token_mean", "none"


class Batch(NamedTuple):
    """All that a pass over a batch needs but the scores."""

    # Where the samples lie.
    layout: Layout
    # The problem.
    task: Task
    # The loss.
    loss: NamedTuple
    # Shape of the table of pairs as kernels know it.
    pair_shape: tuple
    # What is made of the losses of samples.
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
                check_finite(values, None, name)
                node[rows] += values
        check_finite(node, layout.offsets, "scores")
        table = np.zeros(self.pair_shape)
        if pair is not None:
            table = as_array(pair).reshape(self.pair_shape)
            check_finite(table, None, "pair")
        return Weights(node, table)

    def shares(self) -> np.ndarray:
        """What the loss of each sample counts."""
        n = self.layout.n_samples
        by = {"mean": n, "token_mean": int(self.layout.offsets[-1])}
        return np.full(n, 1.0 / by.get(self.reduction, 1))

    def check(self, values: np.ndarray) -> None:
        """Refuse losses that are not finite."""
        bad = np.flatnonzero(~np.isfinite(values))
        if not bad.size:
            return
        self.task.explain(int(bad[0]))
        raise ValueError(
            f"the loss of sample {bad[0]} is {values[bad[0]]}: its labels score -inf, no labelling "
            "is allowed, or the sums of scores overflow"
        )


def _like(array, tensor):
    """A tensor of an array, with the type, device and shape of another."""
    made = torch.from_numpy(np.ascontiguousarray(array)).reshape(tensor.shape)
    return made.to(device=tensor.device, dtype=tensor.dtype)


def _gradients(batch, w, shares, tensors, wanted):
    """Values, and the gradient for each tensor that wants one."""
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
        _like(part(), tensor) if want else None
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
            "gradient (create_graph=True, double backward) is not possible"
        )


class StructuredLoss(torch.autograd.Function):
    """The reduced losses of a batch.

    With a reduction their gradient comes from the same pass as their values. Without one the pass
    for the gradient runs in the backward step, when what each sample counts is known: keeping a
    table of pairs for each sample would take more memory than time.
    """

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
        scores = tensors[0]
        return torch.as_tensor(reduced, dtype=scores.dtype, device=scores.device)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple:
        """The gradients, scaled."""
        tensors, batch = ctx.saved_tensors, ctx.batch
        with torch.no_grad():
            if ctx.gradients is None:
                w, shares = batch.weights(*tensors), as_array(upstream)
                found = _gradients(batch, w, shares, tensors, ctx.needs_input_grad[1:])[1]
            else:
                found = [g if g is None else g * upstream.to(g) for g in ctx.gradients]
        if torch.is_grad_enabled():
            inputs = [upstream, *(t for t in tensors if t is not None)]
            found = [g if g is None else _FirstOnly.apply(g, *inputs) for g in found]
        return None, *found

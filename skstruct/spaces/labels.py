"""Labels of nodes: base classes of users' spaces."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.gram import gram_of, not_stored
from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import (
    add_indicator,
    count_states,
    exp_oracle,
    forbid,
    max_marginals,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..core.problem import Problem
from ..core.typing import LossLike
from ..inference.numerics import draw
from ..rows.blocks import BlockRows, feature_rows
from ..targets.costs import NO_CODES, node_target
from .n_best import NBestScratch, max_marginals_by_maxima, n_best_scratch, top_k_by_max_marginals


class LabelScratch(NamedTuple):
    """Scratch of :class:`LabelSpace`."""

    # (max_parts,): An indicator.
    parts: np.ndarray
    # For max-marginals, and the n best labellings by them.
    n_best: NBestScratch
    # For the structure's own oracles: a NamedTuple of arrays, or ``()``.
    own: tuple


class LabelSpace(NamedTuple):
    """Labels of nodes, and parts of any kind: the labellings of a user's structure.

    A subclass registers :func:`~skstruct.core.oracles.add_indicator`, the parts of a labelling, and
    :func:`~skstruct.core.oracles.max_oracle`, :func:`~skstruct.core.oracles.exp_oracle` or both.
    Everything else follows: scores from the indicator, max-marginals by maxima under forced labels,
    and the n best labellings by max-marginals. Register kernels for those that take too long.

    The node parts come first: with K labels, the potential of label k at node t is ``theta[t * K +
    k]``. The structure defines the layout of the rest.

    Parameters
    ----------
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts and the nodes of each sample begin.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels allowed for each node; no rows when all are. ``forbid`` makes others -inf.
    own : tuple
        Data of the structure, a NamedTuple of arrays and numbers, or ``()``.
    work : NamedTuple
        Scratch of one thread: ``work.own`` for the structure's own oracles.
    """

    part_ptr: np.ndarray
    label_ptr: np.ndarray
    allowed: np.ndarray
    own: tuple
    work: LabelScratch

    @classmethod
    def make_problem(
        cls,
        graph: Any,
        samples: Any,
        classes: Any,
        fit_intercept: bool,
        n_parts: np.ndarray,
        *,
        rows: type = BlockRows,
        own: tuple = (),
        scratch: tuple = (),
        target: tuple | None = None,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Return the problem of packed samples, for ``make_problem`` of a structure.

        `n_parts` (n_samples,) are the numbers of parts; `rows` is a class,
        :class:`~skstruct.rows.blocks.BlockRows` or one derived from it for nodes only, else derived
        from :class:`~skstruct.graphs.OwnRows`; `own` and `scratch` are NamedTuples of the
        structure, the data and the scratch of its oracles; `target` has
        :func:`~skstruct.core.oracles.task_loss`, by default :class:`~skstruct.graphs.NodeCosts` of
        `loss`. The other arguments are those of :meth:`skstruct.graphs.Graph.make_problem`.
        """
        shapes = graph.weight_shapes(samples, len(classes), fit_intercept)
        part_ptr, label_ptr = ends_of(n_parts), samples.offsets
        n_best = max(n_best, 2)  # max-marginals are found in the same scratch
        is_training = codes is not None
        nodes = feature_rows(samples.features, shapes[0][0], fit_intercept, is_training)
        if issubclass(rows, BlockRows):
            grams = (gram_of(nodes, label_ptr, shapes[0][0]), not_stored()) if is_training else ()
            rows = rows.of(nodes, label_ptr, shapes, grams=grams)
        else:
            rows = rows.of(nodes, label_ptr, shapes, is_training)
        space = cls(
            part_ptr=part_ptr,
            label_ptr=label_ptr,
            allowed=node_mask(allowed, len(classes)),
            own=own,
            work=LabelScratch(
                parts=np.zeros(longest_item(part_ptr)),
                n_best=n_best_scratch(part_ptr, label_ptr, len(classes), n_best),
                own=scratch,
            ),
        )
        if target is None:
            target = node_target(classes, codes, loss, label_ptr)
        return Problem.of(rows, space, target, NO_CODES if codes is None else codes)


class NodeSpace(LabelSpace):
    """Labels of nodes, each of which is a part, and no other parts.

    A subclass registers oracles only; ``weight_shapes`` are ``((n_rows, n_classes), (0, 0))``.
    """


def node_mask(allowed, n_labels: int) -> np.ndarray:
    """Labels allowed for each node; no rows when all are."""
    return np.empty((0, n_labels), dtype=np.uint8) if allowed is None else allowed


@inner_kernel(inline=True)
def forbid_labels(space, i, theta):
    """Write -inf for labels that are not allowed."""
    if space.allowed.shape[0] > 0:
        first, n_labels = space.label_ptr[i], space.allowed.shape[1]
        for t in range(space.label_ptr[i + 1] - first):
            for k in range(n_labels):
                if space.allowed[first + t, k] == 0:
                    theta[t * n_labels + k] = -math.inf


@forbid.register(LabelSpace)
@kernel
def _(space, i, theta):
    forbid_labels(space, i, theta)


@add_indicator.register(NodeSpace)
@kernel
def _(space, i, labels, c, mu):
    n_labels = space.allowed.shape[1]
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        mu[t * n_labels + labels[t]] += c


@score.register(NodeSpace)
@kernel
def _(space, i, theta, labels):
    n_labels, total = space.allowed.shape[1], 0.0
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        total += theta[t * n_labels + labels[t]]
    return total


@score.register(LabelSpace)
@kernel
def _(space, i, theta, labels):
    n_parts = space.part_ptr[i + 1] - space.part_ptr[i]
    parts, total = space.work.parts, 0.0
    for q in range(n_parts):
        parts[q] = 0.0
    add_indicator(space, i, labels, 1.0, parts)
    for q in range(n_parts):
        if parts[q] != 0.0:
            total += parts[q] * theta[q]
    return total


@count_states.register(LabelSpace)
@kernel
def _(space, i):
    return space.allowed.shape[1]


max_marginals.register(LabelSpace)(max_marginals_by_maxima)
top_k_oracle.register(LabelSpace)(top_k_by_max_marginals)


@inner_kernel
def draw_by_conditioning(space, i, theta, mu, room, uniforms, labels, layout):
    """Draw labels node by node, each given those before, by an exact ``exp_oracle``.

    State k of node t is part ``first + t * step + k * between`` of `layout`.
    """
    n_states, first, step, between = layout
    value = -math.inf
    for d in range(labels.shape[0]):
        for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
            room[q] = theta[q]
        for t in range(labels.shape[1]):
            at = first + t * step
            of_rest = exp_oracle(space, i, room, 1.0, mu)
            value = of_rest if t == 0 else value
            if not value > -math.inf:
                return value
            labels[d, t] = draw(mu, at, between, n_states, uniforms[t, d])
            for k in range(n_states):
                if k != labels[d, t]:
                    room[at + k * between] = -math.inf
    return value


@sample_oracle.register(LabelSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    n_states = count_states(space, i)
    layout = n_states, 0, n_states, 1
    return draw_by_conditioning(space, i, theta, mu, room, uniforms, labels, layout)

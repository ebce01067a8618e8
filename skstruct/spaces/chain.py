"""Labellings of chains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    add_indicator,
    chunk_marginals,
    edge_marginals,
    entropy,
    exp_oracle,
    max_marginals,
    max_oracle,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..core.problem import Problem
from ..inference.allowed_steps import (
    AllowedSteps,
    StepScratch,
    allowed_steps,
    best_allowed,
    draw_allowed,
    n_best_allowed,
    step_scratch,
    sum_allowed,
)
from ..inference.forward_backward import chain_chunks, forward_backward
from ..inference.viterbi import (
    ViterbiScratch,
    best_in_ranges,
    chain_max_marginals,
    n_best_in_ranges,
    viterbi,
    viterbi_top_k,
)
from .labels import NodeSpace
from .pairwise import (
    PairwiseSpace,
    blocks,
    draw_along_edges,
    edge_above,
    entropy_along_edges,
    shape_of,
)


class ChainScratch(NamedTuple):
    """Scratch of chains."""

    # For best labellings.
    best: ViterbiScratch
    # For :func:`~skstruct.inference.forward_backward.forward_backward`.
    sums: np.ndarray


class SequenceSpace(PairwiseSpace):
    """Nodes in a row, with edges between neighbours; no oracles that subclasses could inherit."""


class ChainSpace(SequenceSpace):
    """Chains packed for kernels, with all labellings."""

    structure, has_one_table = "Chain", True


@inner_kernel(inline=True)
def _step(n, n_labels, n_tables, labels, t):
    """Part of the transition to node t."""
    table = 0 if n_tables == 1 else t - 1
    return (n + table * n_labels + labels[t - 1]) * n_labels + labels[t]


@add_indicator.register(SequenceSpace)
@kernel
def _(space, i, labels, c, mu):
    _, n, n_labels, n_tables = shape_of(space, i)
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
        if t > 0:
            mu[_step(n, n_labels, n_tables, labels, t)] += c


@score.register(SequenceSpace)
@kernel
def _(space, i, theta, labels):
    _, n, n_labels, n_tables = shape_of(space, i)
    total = theta[labels[0]]
    for t in range(1, n):
        step = theta[_step(n, n_labels, n_tables, labels, t)]
        total += step + theta[t * n_labels + labels[t]]
    return total


@max_oracle.register(ChainSpace)
@kernel
def _(space, i, theta, labels):
    unary, pair = blocks(space, i, theta)
    return viterbi(unary, pair, labels, space.work.best)


@top_k_oracle.register(ChainSpace)
@kernel
def _(space, i, theta, values, labels):
    unary, pair = blocks(space, i, theta)
    viterbi_top_k(unary, pair, values, labels, space.work.best)


@exp_oracle.register(ChainSpace)
@kernel
def _(space, i, theta, temperature, mu):
    unary, pair = blocks(space, i, theta)
    node_mu, pair_mu = unary[:0], pair[:0]
    if mu.shape[0] > 0:
        node_mu, pair_mu = blocks(space, i, mu)
    return forward_backward(unary, pair, temperature, node_mu, pair_mu, space.work.sums)


@edge_marginals.register(ChainSpace)
@kernel
def _(space, i, theta, mu, out):
    unary, pair = blocks(space, i, theta)
    n, n_labels = unary.shape
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    node_mu = blocks(space, i, mu)[0]
    return forward_backward(unary, pair, 1.0, node_mu, tables, space.work.sums)


@edge_above.register(ChainSpace)
@kernel
def _(space, i, position):
    n_labels = space.allowed.shape[1]
    return position, position - 1, (position - 1) * n_labels * n_labels, n_labels, 1


sample_oracle.register(ChainSpace)(draw_along_edges)
entropy.register(ChainSpace)(entropy_along_edges)


@chunk_marginals.register(ChainSpace)
@kernel
def _(space, i, theta, rules, chunks, mu, out):
    unary, pair = blocks(space, i, theta)
    node_mu = blocks(space, i, mu)[0]
    return chain_chunks(unary, pair, rules, chunks, node_mu, out, space.work.sums)


@max_marginals.register(ChainSpace)
@kernel
def _(space, i, theta, out):
    unary, pair = blocks(space, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    chain_max_marginals(unary, pair, best, space.work.best)


# Transitions that a chain has apart from its parts, those of nodes only: at known weights.

_SOME_LABELS = 16
# For best labellings, sums and draws: fractions of steps to look at up to which that is faster.
_MOST = {"best": 0.7, "sums": 0.45, "draws": 1.0}


class FixedChainSpace(PairwiseSpace):
    """Chains and their transition scores (`own`); parts are those of nodes only."""

    structure = "Chain"


add_indicator.register(FixedChainSpace)(add_indicator.registry[NodeSpace])


@score.register(FixedChainSpace)
@kernel
def _(space, i, theta, labels):
    unary, table = blocks(space, i, theta)[0], space.own.table
    total = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        total += table[labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total


class RangedTable(NamedTuple):
    """Transition scores, and what they are at least and at most after each label."""

    # (n_labels, n_labels), and (n_labels,) twice.
    table: np.ndarray
    lows: np.ndarray
    tops: np.ndarray


class RangedChainSpace(FixedChainSpace):
    """Chains for best labellings; `own` is a :class:`RangedTable`, found once for all samples."""


@inner_kernel(inline=True)
def _ranged(space):
    """The table as :func:`viterbi` takes it, and scratch with its ranges."""
    own, work = space.own, space.work
    scratch = ViterbiScratch(work.best, work.kept, own.lows, own.tops, work.top)
    return own.table.reshape(1, *own.table.shape), scratch


@max_oracle.register(RangedChainSpace)
@kernel
def _(space, i, theta, labels):
    tables, scratch = _ranged(space)
    return best_in_ranges(blocks(space, i, theta)[0], tables, labels, scratch)


@top_k_oracle.register(RangedChainSpace)
@kernel
def _(space, i, theta, values, labels):
    tables, scratch = _ranged(space)
    n_best_in_ranges(blocks(space, i, theta)[0], tables, values, labels, scratch)


class AllowedChainSpace(FixedChainSpace):
    """Chains most of whose transitions are forbidden: best labellings; `own` is AllowedSteps."""


@max_oracle.register(AllowedChainSpace)
@kernel
def _(space, i, theta, labels):
    return best_allowed(blocks(space, i, theta)[0], space.own, labels, space.work)


@top_k_oracle.register(AllowedChainSpace)
@kernel
def _(space, i, theta, values, labels):
    n_best_allowed(blocks(space, i, theta)[0], space.own, values, labels, space.work)


class BothWays(NamedTuple):
    """Allowed steps to the next node, and to the one before; or scratch for both."""

    into: AllowedSteps | StepScratch
    out: AllowedSteps | StepScratch


class AllowedSumSpace(PairwiseSpace):
    """The same for sums and draws; `own` and `work` are :class:`BothWays`."""

    structure = "Chain"


@exp_oracle.register(AllowedSumSpace)
@kernel
def _(space, i, theta, temperature, mu):
    unary, own, work = blocks(space, i, theta)[0], space.own, space.work
    node_mu = blocks(space, i, mu)[0] if mu.shape[0] > 0 else unary[:0]
    return sum_allowed(unary, own.into, own.out, temperature, node_mu, work.into, work.out)


@sample_oracle.register(AllowedSumSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    unary, own = blocks(space, i, theta)[0], space.own
    return draw_allowed(unary, own.into, own.out, uniforms, labels, space.work.out)


def fixed_chains(problem, pair_weights, task):
    """The problem of a task, "best", "sums" or "draws", with its transitions apart if that pays."""
    space, most = problem.space, _MOST[task]
    n_labels = space.allowed.shape[1]
    if n_labels < _SOME_LABELS or type(space) is not ChainSpace:
        return problem
    table = pair_weights.reshape(n_labels, n_labels)
    if not np.isfinite(space.transition_mask).all():
        table = table + space.transition_mask
    table = np.ascontiguousarray(table)
    if np.count_nonzero(table > -np.inf) <= most * table.size:
        into = allowed_steps(table)
        if into.share <= most and task == "best":
            return _apart(problem, AllowedChainSpace, into, space.work.best)
        if into.share <= most:
            longest = max(longest_item(space.label_ptr), 1)
            own = BothWays(into, allowed_steps(table.T))
            work = BothWays(*(step_scratch(steps, longest) for steps in own))
            return _apart(problem, AllowedSumSpace, own, work)
    if task != "best":
        return problem
    own = RangedTable(table, table.min(axis=1), table.max(axis=1))
    return _apart(problem, RangedChainSpace, own, space.work.best)


def _apart(problem, kind, own, work):
    """The problem with a space of chains whose transitions are in `own`."""
    space = problem.space
    no_tables = np.zeros_like(space.n_tables)
    part_ptr = space.label_ptr * space.allowed.shape[1]
    new = {"part_ptr": part_ptr, "n_tables": no_tables, "own": own, "work": work}
    rows = problem.rows._replace(n_tables=no_tables)
    return Problem.of(rows, kind(**space._asdict() | new), problem.target, problem.labels)

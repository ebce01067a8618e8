"""Labellings of chains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.jit.dispatch import inner_kernel, kernel
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
from ..inference.forward_backward import chain_chunks, forward_backward
from ..inference.viterbi import (
    ViterbiScratch,
    chain_max_marginals,
    sparse_viterbi,
    sparse_viterbi_scratch,
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


_MANY_LABELS = 64
_FEW = 0.25


class SparseTransitions(NamedTuple):
    """Transition weights that are mostly 0."""

    # (n_labels, n_labels): All of them.
    table: np.ndarray
    # The nonzero ones, see :func:`skstruct.inference.viterbi.sparse_viterbi`.
    ptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    tops: np.ndarray


class SparseChainSpace(PairwiseSpace):
    """Chains and their transition weights (`own`); parts are those of nodes only."""

    structure = "Chain"


def sparse_chains(problem, pair_weights):
    """The problem with its transitions in sparse form, if that pays."""
    space = problem.space
    n_labels = space.allowed.shape[1]
    if n_labels < _MANY_LABELS or type(space) is not ChainSpace:
        return problem
    table = pair_weights.reshape(n_labels, n_labels)
    if not np.isfinite(space.transition_mask).all():
        table = table + space.transition_mask
    stored = sparse.csr_matrix(table)
    if stored.nnz > _FEW * table.size:
        return problem
    longest, no_tables = max(longest_item(space.label_ptr), 1), np.zeros_like(space.n_tables)
    own = SparseTransitions(
        table=np.ascontiguousarray(table),
        ptr=stored.indptr.astype(np.int64),
        columns=stored.indices.astype(np.int32),
        values=stored.data,
        tops=np.maximum(stored.max(axis=1).toarray().ravel(), 0.0),
    )
    fields = space._asdict() | {
        "part_ptr": space.label_ptr * n_labels,
        "n_tables": no_tables,
        "own": own,
        "work": sparse_viterbi_scratch(longest, n_labels),
    }
    rows = problem.rows._replace(n_tables=no_tables)
    return Problem.of(rows, SparseChainSpace(**fields), problem.target, problem.labels)


add_indicator.register(SparseChainSpace)(add_indicator.registry[NodeSpace])


@score.register(SparseChainSpace)
@kernel
def _(space, i, theta, labels):
    unary = blocks(space, i, theta)[0]
    total = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        total += space.own.table[labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total


@max_oracle.register(SparseChainSpace)
@kernel
def _(space, i, theta, labels):
    unary = blocks(space, i, theta)[0]
    own, work = space.own, space.work
    return sparse_viterbi(unary, own.ptr, own.columns, own.values, own.tops, labels, work)

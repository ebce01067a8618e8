"""Chains with many labels, for decoding at given weights where most transitions score 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.jit.dispatch import kernel
from ..core.offsets import longest_item
from ..core.oracles import add_indicator, max_oracle, score
from ..core.problem import Problem
from ..inference.viterbi import sparse_viterbi, sparse_viterbi_scratch
from .chain import ChainSpace
from .labels import NodeSpace
from .pairwise import PairwiseSpace, blocks

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

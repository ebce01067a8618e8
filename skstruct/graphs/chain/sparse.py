"""Chains with many labels, for decoding at given weights: most transitions score 0."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.dispatch import kernel
from ...core.offsets import longest_item
from ...core.oracles import add_indicator, max_oracle, score
from ...inference.sparse_viterbi import SparseViterbiScratch, sparse_viterbi, sparse_viterbi_scratch
from ..arrays import TableScratch
from ..pairwise.verbs import PairwiseProblem, blocks
from .kernels import ChainProblem

_MANY_LABELS = 64
_FEW = 0.25


class SparseTransitions(NamedTuple):
    """Transition weights most of which are 0."""

    # (n_labels, n_labels): All of them.
    table: np.ndarray
    # Those that are not 0, see :func:`skstruct.inference.sparse_viterbi.sparse_viterbi`.
    ptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    tops: np.ndarray


class SparseChainScratch(NamedTuple):
    """Scratch of chains with sparse transitions."""

    # For weight tables.
    tables: TableScratch
    # For best labellings.
    best: SparseViterbiScratch


class SparseChainProblem(PairwiseProblem):
    """Chains and their transition weights (`own`); parts are those of nodes only."""

    structure = "Chain"


def sparse_chains(problem, pair_weights):
    """The problem with its transitions in sparse form, if that pays."""
    n_labels = problem.cost.shape[0]
    if n_labels < _MANY_LABELS or type(problem) is not ChainProblem:
        return problem
    table = pair_weights.reshape(n_labels, n_labels)
    if not np.isfinite(problem.transition_mask).all():
        table = table + problem.transition_mask
    stored = sparse.csr_matrix(table)
    if stored.nnz > _FEW * table.size:
        return problem
    tops = np.maximum(stored.max(axis=1).toarray().ravel(), 0.0)
    longest = max(longest_item(problem.label_ptr), 1)
    own = SparseTransitions(
        table=np.ascontiguousarray(table),
        ptr=stored.indptr.astype(np.int64),
        columns=stored.indices.astype(np.int32),
        values=stored.data,
        tops=np.append(tops, tops.max(initial=0.0)),
    )
    fields = problem._asdict() | {
        "part_ptr": problem.label_ptr * n_labels,
        "n_tables": np.zeros_like(problem.n_tables),
        "own": own,
        "work": SparseChainScratch(problem.work.tables, sparse_viterbi_scratch(longest, n_labels)),
    }
    return SparseChainProblem(**fields)


@add_indicator.register(SparseChainProblem)
@kernel
def _(problem, i, labels, c, mu):
    unary = blocks(problem, i, mu)[0]
    for t in range(unary.shape[0]):
        unary[t, labels[t]] += c


@score.register(SparseChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary = blocks(problem, i, theta)[0]
    total = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        total += problem.own.table[labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total


@max_oracle.register(SparseChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary = blocks(problem, i, theta)[0]
    own = problem.own
    best = problem.work.best
    return sparse_viterbi(unary, own.ptr, own.columns, own.values, own.tops, labels, best)

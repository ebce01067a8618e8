"""The pairwise part of a factor graph, flat, for algorithms that choose between two labellings."""

from __future__ import annotations

import numpy as np

from ..inference.choices import Pairs
from .factors import Cardinality, Potts, Table


def tables_of(batch):
    """Scores of a batch of arity 2 as tables of shape (n or 1, states, states)."""
    if isinstance(batch, Table):
        return batch.tables
    counts = np.arange(2)[:, None] + np.arange(2)
    if isinstance(batch, Cardinality):
        return batch.scores_by_count[:, counts]
    first, second = (batch.negated[:, k, None] != np.arange(2) for k in (0, 1))
    n_true = first[:, :, None].astype(int) + second[:, None, :]
    return np.where(batch.holds(n_true), 0.0, -np.inf)


def is_pairwise(batch):
    """Whether a batch has two variables a factor."""
    return batch.arity == 2


def pairs_of(graph):
    """The unaries and all factors of two variables."""
    ends, columns, starts, scores = [np.empty((2, 0), dtype=np.int32)], [], [], []
    n_scores = 0
    for batch in filter(is_pairwise, graph.factors):
        ends.append(batch.scopes.T.astype(np.int32))
        if isinstance(batch, Potts):
            rows, n_columns = batch.weights[:, None], 0
        else:
            tables = tables_of(batch)
            rows, n_columns = tables.reshape(len(tables), -1), tables.shape[2]
        step = rows.shape[1] if len(rows) == len(batch) else 0
        starts.append(n_scores + step * np.arange(len(batch), dtype=np.int64))
        columns.append(np.full(len(batch), n_columns, dtype=np.int64))
        scores.append(rows.reshape(-1))
        n_scores += rows.size
    none = np.empty(0, dtype=np.int64)
    return Pairs(
        state_ptr=graph.state_ptr,
        unary=graph.unary,
        ends=np.ascontiguousarray(np.concatenate(ends, axis=1)),
        columns=np.concatenate([none, *columns]),
        score_ptr=np.concatenate([none, *starts]),
        scores=np.concatenate([np.empty(0), *scores]),
    )


def in_larger_factors(graph):
    """Which variables are in factors of three and more."""
    found = np.zeros(graph.n_variables, dtype=bool)
    for batch in graph.factors:
        if not is_pairwise(batch):
            found[batch.scopes] = True
    return found

"""Problems on the weights of pairs that occur in the training data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.features import DenseFeatures, ObservedFeatures
from ...core.gram import not_stored
from ...core.offsets import ends_of
from ...core.problem import Problem
from ...core.weights import Weights, padded_width, zero_weights
from ...rows.blocks import TableScratch

# Features with more than this fraction of the labels have room for all.
_MANY_LABELS = 0.25


class Observed(NamedTuple):
    """A problem on some of the weights, each table as a column; the others are 0."""

    problem: Problem
    # The same with the Gram matrices of all weights, whose squared norms are upper bounds.
    bounding: Problem
    # Shapes of the tables of all weights, and where those of the problem are in them; -1 for what
    # stays 0.
    whole: tuple
    places: tuple

    @classmethod
    def of(cls, problem, whole, rows, pairs) -> Observed:
        """On the rows of nodes and edges as CSR matrices, and the pairs that have weights."""
        (nodes, of_nodes), (edges, of_edges) = map(_observed_rows, rows, pairs)
        places = of_nodes, of_edges
        scratch = (np.zeros((where.size, 1)) for where in places)
        before = problem.rows
        own = before._replace(
            nodes=nodes,
            edges=edges,
            node_gram=not_stored(),
            pair_gram=not_stored(),
            work=TableScratch(before.work.row, *scratch),
        )
        bounding = own
        if before.node_gram.is_whole and before.pair_gram.is_whole:
            names = "node_gram", "pair_gram", "work"
            bounding = own._replace(**{name: getattr(before, name) for name in names})
        problems = (problem._replace(rows=one) for one in (own, bounding))
        return cls(*problems, tuple(whole), places)

    @property
    def shapes(self):
        """The shapes of its own tables."""
        return tuple((where.size, 1) for where in self.places)

    def take(self, w: Weights | None) -> Weights | None:
        """Of all weights those of the problem."""
        if w is None:
            return None
        tables = zip(w.tables, self.places, strict=True)
        return Weights(*(np.append(table.ravel(), 0.0)[where][:, None] for table, where in tables))

    def spread(self, w: Weights) -> Weights:
        """All weights, from those of the problem."""
        full = zero_weights(self.whole)
        for table, column, where in zip(full.tables, w.tables, self.places, strict=True):
            has = where >= 0
            table.ravel()[where[has]] = column[has, 0]
        return full


def _observed_rows(rows, pairs):
    """Rows whose features have the weights of some pairs, and where these are in a whole table."""
    width, counts = pairs.shape[1], np.diff(pairs.indptr)
    stride, has_many = padded_width(width), counts > _MANY_LABELS * width
    many = np.flatnonzero(has_many)
    # Places of weights: those of features with many labels, then the rest.
    begins = np.zeros(counts.size, dtype=np.int64)
    begins[many] = np.arange(many.size) * stride
    of_many = np.repeat(has_many, counts)
    feature = np.repeat(np.arange(counts.size), counts)
    at = begins[feature] + pairs.indices
    at[~of_many] = many.size * stride + np.arange(at.size - of_many.sum())
    where = np.full(many.size * stride + at.size - of_many.sum(), -1, dtype=np.int64)
    where[at] = feature * width + pairs.indices
    mask = (where[: many.size * stride] >= 0).astype(np.float32)
    # Values: those of features with many labels, and of the rest one for each weight.
    wide = has_many[rows.indices]
    times = np.where(wide, 0, counts[rows.indices])
    ends, few_ends = (np.append(0, np.cumsum(size))[rows.indptr] for size in (wide, times))
    few = np.repeat(pairs.indptr[rows.indices] - ends_of(times)[:-1], times)
    few += np.arange(few.size)
    features = ObservedFeatures(
        data=rows.data[wide],
        indices=begins[rows.indices[wide]],
        indptr=ends,
        few_data=np.repeat(rows.data, times),
        places=at[few].astype(np.int32),
        labels=pairs.indices[few].astype(np.int32),
        few_ptr=few_ends,
        mask=mask,
        width=width,
        stride=stride,
    )
    return features, where


def _csr_rows(features, shape):
    """Feature rows as a CSR matrix, the constant feature in its last column."""
    has_constant = features.intercept >= 0
    if isinstance(features, DenseFeatures):
        rows = sparse.csr_matrix(features.values)
    else:
        parts = features.data, features.indices, features.indptr
        rows = sparse.csr_matrix(parts, shape=(len(parts[2]) - 1, shape[0] - has_constant))
    if not has_constant:
        return rows
    return sparse.hstack([rows, np.ones((rows.shape[0], 1))], format="csr")


def _all_pairs(shape):
    """Every feature with every label."""
    return sparse.csr_matrix(np.ones(shape))


def _occurring(rows, labels):
    """The features of some rows with the labels of these rows."""
    has = (rows.data != 0.0).astype(np.float64)
    pattern = sparse.csr_matrix((has, rows.indices, rows.indptr), shape=rows.shape)
    found = sparse.csr_matrix(pattern.T @ labels)
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _occurring_steps(problem, edges, allowed, ends):
    """The features of edges with the label pairs at their ends."""
    first, second = (allowed[nodes] for nodes in ends)
    space = problem.space
    if space.shares_tables:  # all share rows: the one of their type
        edges = edges[getattr(space.own, "table", np.zeros(len(ends[0]), dtype=np.int64))]
    begins = sparse.csc_matrix(first)
    steps = []
    for label in range(allowed.shape[1]):
        here = begins.indices[begins.indptr[label] : begins.indptr[label + 1]]
        steps.append(_occurring(edges[here], second[here]))
    steps = sparse.hstack(steps, format="csr")
    column = getattr(space.own, "column", None)
    if column is not None:  # some label pairs share weights, or have none
        column = column.ravel()
        has = np.flatnonzero(column >= 0)
        shape = column.size, space.width
        steps = steps @ sparse.csr_matrix((np.ones(has.size), (has, column[has])), shape=shape)
    steps.sort_indices()
    return steps

"""What is left of a factor graph when some variables have their labels; no loop over factors."""

from __future__ import annotations

import numpy as np

from .factors import Potts, Table
from .graph import FactorGraph
from .pairwise import is_pairwise, tables_of


class Conditioned:
    """A factor graph given the labels of some variables."""

    def __init__(self, graph, labels, fixed):
        self._labels = np.where(fixed, labels, 0)
        self._kept = np.flatnonzero(~fixed)
        self._index = np.full(fixed.size, -1)
        self._index[self._kept] = np.arange(self._kept.size)
        self._state_ptr, self._factors = graph.state_ptr, []
        self._unary = graph.unary.copy()
        at = graph.state_ptr[:-1][fixed] + self._labels[fixed]
        self._offset = graph.offset + float(graph.unary[at].sum())
        for batch in graph.factors:
            if is_pairwise(batch):
                self._take_pairs(batch, ~fixed[batch.scopes])
            else:
                self._take_larger(batch, ~fixed[batch.scopes])
        self.graph = None
        if self._offset > -np.inf:
            is_left = np.repeat(~fixed, graph.n_states)
            self.graph = FactorGraph(
                graph.n_states[self._kept],
                self._factors,
                unaries=self._unary[is_left],
                offset=self._offset,
                regions="pairs" if graph.nested else "variables",
            )

    def _take_pairs(self, batch, is_open):
        """Factors of two open variables stay, of one they become unaries, of none the offset."""
        both, neither = is_open.all(axis=1), ~is_open.any(axis=1)
        if both.any():
            self._factors.append(self._subset(batch, both))
        self._offset += float(batch.score(self._labels)[neither].sum())
        for k in (0, 1):
            rows = np.flatnonzero(is_open[:, k] & ~is_open[:, 1 - k])
            own, other = batch.scopes[rows, k], self._labels[batch.scopes[rows, 1 - k]]
            if isinstance(batch, Potts):
                exists = other < np.diff(self._state_ptr)[own]
                places = (self._state_ptr[own] + other)[exists]
                np.add.at(self._unary, places, batch.weights[rows][exists])
            elif rows.size:
                tables = tables_of(batch)
                which = np.zeros_like(rows) if len(tables) == 1 else rows
                scores = tables[which, :, other] if k == 0 else tables[which, other]
                places = self._state_ptr[own][:, None] + np.arange(scores.shape[1])
                np.add.at(self._unary, places, scores)

    def _take_larger(self, batch, is_open):
        """Larger factors count for the offset."""
        some = np.flatnonzero(is_open.any(axis=1))
        if some.size:
            raise ValueError(
                f"fixed: not all variables of the {type(batch).__name__} of the variables "
                f"{batch.scopes[some[0]].tolist()} are"
            )
        self._offset += float(batch.score(self._labels).sum())

    def _subset(self, batch, rows):
        """Some factors of a batch, of the variables that are left."""
        scopes = self._index[batch.scopes[rows]]
        if isinstance(batch, Potts):
            return Potts(*scopes.T, batch.weights[rows])
        tables = tables_of(batch)
        return Table(scopes, tables[0] if len(tables) == 1 else tables[rows])

    def lift(self, labels):
        """The labelling of all variables."""
        whole = self._labels.copy()
        whole[self._kept] = labels
        return whole

    def lower(self, labels):
        """The labels of the variables that are left."""
        return labels[self._kept]

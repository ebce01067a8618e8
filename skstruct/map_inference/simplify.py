"""A smaller factor graph with the same best labelling, and the way back."""

from __future__ import annotations

import numpy as np

from .factors import AtMostOne, Cardinality, Or, Potts, Table, table_of
from .graph import FactorGraph
from .search.costs import Costs, Infeasible

_SMALL_ARITY = 4


class Simplified:
    """The graph without labels, factors and variables that need no search."""

    def __init__(self, graph, fixed=None, growth=1.0, most_variables=3, check=None):
        self._whole = graph
        unaries = np.split(graph.unary, graph.state_ptr[1:-1]) if graph.n_variables else []
        tables, self._implicit, pinned = [], [], set()
        for batch in graph.factors:
            for row, scope in enumerate(batch.scopes.tolist()):
                if batch.arity <= _SMALL_ARITY or isinstance(batch, Table | Potts):
                    tables.append((scope, table_of(batch, row, graph.n_states)))
                else:
                    pinned.update(scope)
                    self._implicit.append((batch, row))
        # Implicit factors need their variables.
        self._costs = Costs(unaries, tables, graph.offset, check, pinned)
        self.is_feasible, self.graph = True, None
        try:
            for v, label in (fixed or {}).items():
                self._costs.keep(v, self._costs.domains[v] == label)
            self._costs.simplify(growth, most_variables)
            self._build()
        except Infeasible:
            self.is_feasible = False

    def _build(self):
        """The graph of what is left."""
        costs = self._costs
        self._settle_implicit()
        left = np.flatnonzero(~costs.gone)
        sizes = np.array([len(costs.domains[v]) for v in left], dtype=np.int64)
        self._kept = left
        index = np.full(costs.gone.size, -1)
        index[left] = np.arange(left.size)
        shapes = {}
        for key in sorted(costs.scopes):
            scope, table = costs.scopes[key], costs.tables[key]
            scopes, tables = shapes.setdefault(table.shape, ([], []))
            scopes.append(index[list(scope)])
            tables.append(-table)
        factors = [Table(np.array(s), np.stack(t)) for s, t in shapes.values()]
        factors += [make(index) for make in self._rest]
        unaries = np.concatenate([-costs.unaries[v] for v in left] + [np.zeros(0)])
        self.graph = FactorGraph(sizes, factors, unaries=unaries, offset=-costs.constant)

    def _settle_implicit(self):
        """Take the variables that have one label left out of implicit factors."""
        costs = self._costs
        while True:
            self._rest = []
            before = [len(d) for d in costs.domains]
            for batch, row in self._implicit:
                self._settle(batch, row)
            if before == [len(d) for d in costs.domains]:
                return
            costs.normalise()

    def _settle(self, batch, row):
        costs, scope = self._costs, batch.scopes[row]
        negated = getattr(batch, "negated", None)
        flags = np.zeros(scope.size, dtype=bool) if negated is None else negated[row]
        is_open = np.array([len(costs.domains[v]) > 1 for v in scope])
        labels = np.array([costs.domains[v][0] for v in scope])
        n_true = int((labels.astype(bool) != flags)[~is_open].sum())
        rest, flags = scope[is_open], flags[is_open]
        if isinstance(batch, Cardinality):
            scores = batch.scores_by_count[row % len(batch.scores_by_count)]
            scores = scores[n_true : n_true + rest.size + 1]
            if not np.isfinite(scores).any():
                raise Infeasible
            self._rest.append(lambda index: Cardinality(index[rest][None], scores[None]))
            return
        kind = type(batch)
        if n_true > 1 and kind is not Or:
            raise Infeasible
        if n_true and kind is not Or:
            for v, flag in zip(rest, flags, strict=True):
                costs.keep(v, costs.domains[v] == int(flag))
        elif n_true == 0 and rest.size == 0 and kind is not AtMostOne:
            raise Infeasible
        elif n_true == 0 and rest.size == 1 and kind is not AtMostOne:
            costs.keep(rest[0], costs.domains[rest[0]] == 1 - int(flags[0]))
        elif n_true == 0 and rest.size:
            self._rest.append(lambda index: kind(index[rest][None], flags[None]))

    def lift(self, labels):
        """The labelling of all variables that is best given that of the simplified graph."""
        costs = self._costs
        whole = np.zeros(self._whole.n_variables, dtype=np.int64)
        for v, label in zip(self._kept, labels, strict=True):
            whole[v] = costs.domains[v][label]
        return costs.expand(whole)

    def lower(self, labels):
        """A labelling of the simplified graph: as near as may be to one of the whole."""
        found = np.zeros(self._kept.size, dtype=np.int64)
        for k, v in enumerate(self._kept):
            found[k] = np.argmax(self._costs.domains[v] == labels[v])
        return found

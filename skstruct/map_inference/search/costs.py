"""Costs of a factor graph (best score minus score), simplified before the search."""

import copy
import heapq
from itertools import pairwise
from math import prod

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..elimination import chain_entries, write_out
from ..factors import Potts, Table, numbered, spread, table_of

_STEPS = 1000  # between two looks at the clock
_LARGE = 4096  # cells; no table grows beyond that
_NO_LABELLING = "no labelling has a finite score"


class Infeasible(Exception):
    """No labelling has a finite score (or one better than the known one)."""


class Costs:
    """Tables of costs over sorted scopes, with the labels that each variable still has."""

    def __init__(self, unaries, tables, offset=0.0, check=None, pinned=()):
        self.steps, self.check, self.pinned = 0, check, set(pinned)
        self.constant = -float(offset)
        self.domains = [np.arange(len(scores)) for scores in unaries]
        self.unaries = [-np.asarray(scores, dtype=np.float64) for scores in unaries]
        self.scopes, self.tables = {}, {}
        self.by_scope = {}
        self.of = [set() for _ in unaries]
        self.gone = np.zeros(len(unaries), dtype=bool)
        self.eliminated = []
        self.next_id = 0
        self.queue = set()
        for scope, scores in tables:
            self.add(tuple(int(i) for i in scope), -np.asarray(scores, dtype=np.float64))

    def add(self, scope, costs):
        """Add a table; what has the same scope is one table."""
        if len(scope) == 0:
            self.constant += float(costs)
            return
        if len(scope) == 1:
            self.unaries[scope[0]] = self.unaries[scope[0]] + costs
            return
        order = np.argsort(scope)
        scope = tuple(scope[d] for d in order)
        costs = costs.transpose(order)
        if scope in self.by_scope:
            key = self.by_scope[scope]
            self.tables[key] = self.tables[key] + costs
        else:
            key, self.next_id = self.next_id, self.next_id + 1
            self.by_scope[scope] = key
            self.scopes[key], self.tables[key] = scope, costs
            for i in scope:
                self.of[i].add(key)
        self.queue.add(key)

    def _drop(self, key):
        scope = self.scopes.pop(key)
        del self.by_scope[scope]
        self.queue.discard(key)
        for i in scope:
            self.of[i].discard(key)
        return scope, self.tables.pop(key)

    def _step(self):
        """Check at times whether to stop: the costs are then valid, but may be below zero."""
        self.steps += 1
        if self.check is not None and self.steps % _STEPS == 0:
            self.check()

    def least(self):
        """No labelling costs less."""
        total = self.constant + sum(float(table.min()) for table in self.tables.values())
        left = (costs for i, costs in enumerate(self.unaries) if not self.gone[i])
        return total + sum(float(costs.min()) for costs in left)

    def keep(self, i, mask):
        """Keep the labels of variable `i` that `mask` names."""
        if mask.all():
            return
        if not mask.any():
            raise Infeasible(_NO_LABELLING)
        self.domains[i] = self.domains[i][mask]
        self.unaries[i] = self.unaries[i][mask]
        for key in self.of[i]:
            axis = self.scopes[key].index(i)
            self.tables[key] = np.compress(mask, self.tables[key], axis=axis)
            self.queue.add(key)

    def _project(self, key):
        """Move what a table costs at least, label by label, to its variables."""
        for axis, i in enumerate(self.scopes[key]):
            table = self.tables[key]
            least = table.min(axis=tuple(d for d in range(table.ndim) if d != axis))
            mask = least < np.inf
            if not mask.all():
                self.keep(i, mask)
                table, least = self.tables[key], least[mask]
            if least.any():
                shape = [1] * table.ndim
                shape[axis] = -1
                self.tables[key] = table - least.reshape(shape)
                self.unaries[i] = self.unaries[i] + least

    def normalise(self):
        """Make all costs at least zero, without labels that nothing allows."""
        for i, costs in enumerate(self.unaries):
            if not self.gone[i]:
                self.keep(i, costs < np.inf)
        while self.queue:
            self._step()
            key = self.queue.pop()
            self._project(key)
            self.queue.discard(key)
            if not self.tables[key].any():
                self._drop(key)
        for i, costs in enumerate(self.unaries):
            if not self.gone[i]:
                least = costs.min()
                self.constant += float(least)
                self.unaries[i] = costs - least

    def merge(self):
        """Add each table to one whose scope holds its own."""
        for key in sorted(self.scopes, key=lambda key: len(self.scopes[key])):
            scope = self.scopes[key]
            first = min(scope, key=lambda i: len(self.of[i]))
            larger = [
                other
                for other in self.of[first]
                if len(self.scopes[other]) > len(scope) and set(scope) <= set(self.scopes[other])
            ]
            if larger:
                target = min(larger, key=lambda other: (self.tables[other].size, other))
                _, table = self._drop(key)
                full = self.scopes[target]
                self.tables[target] = self.tables[target] + spread(table, scope, full)
                self.queue.add(target)

    def _neighbours(self, i):
        return tuple(sorted({j for key in self.of[i] for j in self.scopes[key]} - {i}))

    def _price(self, i, growth, most_variables):
        """Return the cells that an elimination makes; None if it costs too much or is forbidden."""
        others = self._neighbours(i)
        if len(others) > most_variables or i in self.pinned:
            return None
        cells = prod(len(self.domains[j]) for j in others)
        now = sum(self.tables[key].size for key in self.of[i])
        most = max(now, min(growth * now, _LARGE))
        if len(others) > 1 and len(self.domains[i]) > 1 and cells > max(most, 16):
            return None
        return cells

    def _eliminate(self, i):
        others = self._neighbours(i)
        full = (*others, i)
        total = np.zeros([len(self.domains[j]) for j in others] + [1]) + self.unaries[i]
        for key in sorted(self.of[i]):
            scope, table = self._drop(key)
            total = total + spread(table, scope, full)
        self.gone[i] = True
        choice = total.argmin(axis=-1).astype(np.int32)
        self.eliminated.append((i, others, [self.domains[j] for j in others], choice))
        least = total.min(axis=-1)
        if len(others) == 0 and not np.isfinite(least):
            raise Infeasible(_NO_LABELLING)
        self.add(others, least)
        return others

    def eliminate(self, growth=1.0, most_variables=3):
        """Eliminate variables while no table gets larger than those that it replaces."""
        heap = []
        for i in np.flatnonzero(~self.gone):
            price = self._price(i, growth, most_variables)
            if price is not None:
                heap.append((price, int(i)))
        heapq.heapify(heap)
        while heap:
            self._step()
            price, i = heapq.heappop(heap)
            if self.gone[i] or self._price(i, growth, most_variables) != price:
                continue
            for j in self._eliminate(i):
                again = self._price(j, growth, most_variables)
                if again is not None:
                    heapq.heappush(heap, (again, j))

    def simplify(self, growth=1.0, most_variables=3):
        """Normalise, merge and eliminate until nothing changes."""
        while True:
            before = self.gone.sum(), len(self.tables)
            self.normalise()
            self.merge()
            self.eliminate(growth, most_variables)
            if (self.gone.sum(), len(self.tables)) == before and not self.queue:
                return

    def components(self):
        """Connected components of the variables that are left, as sorted lists."""
        ends = [(scope[0], other) for scope in self.scopes.values() for other in scope]
        rows, columns = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        edges = coo_array((np.ones(len(ends)), (rows, columns)), shape=2 * (len(self.of),))
        left = np.flatnonzero(~self.gone)
        parts = {}
        for i, part in zip(left, connected_components(edges, directed=False)[1][left], strict=True):
            parts.setdefault(part, []).append(int(i))
        return list(parts.values())

    def expand(self, labels):
        """Give the eliminated variables their best labels, in place."""
        for i, others, domains, choice in reversed(self.eliminated):
            at = tuple(map(np.searchsorted, domains, labels[list(others)]))
            labels[i] = self.domains[i][choice[at]]
        return labels


# Tables of a factor graph: implicit factors become chains of hidden counters.

_MOST_CELLS = 1 << 22  # of the tables of one implicit factor
_LARGEST_INTEGER = 1e9  # whose sums are still exact
_SMALL = 4  # variables; up to here a table holds all configurations


class TooManyVariables(TypeError):
    """A factor has too many variables for a table or a chain of counters."""


class Expanded:
    """Unaries and tables with the scores of a graph."""

    def __init__(self, graph, duals=None):
        n = graph.n_variables
        self.unaries = [graph.unary[a:b].copy() for a, b in pairwise(graph.state_ptr)]
        self.tables, self.hidden = [], []
        region_table, large = {}, []
        for first, batch in numbered(graph.factors):
            if not isinstance(batch, Table | Potts) and batch.arity > _SMALL:
                large.append(batch)
                if chain_entries(batch, one=True) > _MOST_CELLS:
                    raise TooManyVariables(
                        f"branch and bound does not take factor {first}: "
                        f"{type(batch).__name__} of {batch.arity} variables"
                    )
            else:
                for row, scope in enumerate(batch.scopes.tolist()):
                    if isinstance(batch, Table | Potts):
                        region_table[n + first + row] = len(self.tables)
                    self.tables.append((tuple(scope), table_of(batch, row, graph.n_states)))
        if duals is not None:
            self._move(graph.regions, np.asarray(duals, dtype=np.float64), region_table)
        if large:
            self._add_chains(graph, large)

    def _add_chains(self, graph, factors):
        """Implicit factors of many variables; their messages are left out."""
        n, chains = graph.n_variables, copy.copy(graph)
        chains.factors = factors
        written = write_out(chains, np.inf)
        self.unaries += [np.zeros(size) for size in written.n_states[n:]]
        for f, (begin, end) in enumerate(pairwise(written.scope_ptr)):
            scope = tuple(written.scope[begin:end].tolist())
            if f >= n:
                shape, start = written.n_states[list(scope)], written.table_ptr[f]
                table = written.scores[start : start + shape.prod()].reshape(shape)
                self.tables.append((scope, table))
                if scope[-1] >= n:
                    self.hidden.append((scope[2], scope[0], scope[1], table.argmax(axis=2)))

    def _move(self, regions, duals, region_table):
        """Reparametrise by messages in the layout of the regions; implicit factors keep theirs."""
        tables = {region: self.tables[at][1].copy() for region, at in region_table.items()}
        for region, at in region_table.items():
            scope = self.tables[at][0]
            for slot in range(regions.slot_ptr[region], regions.slot_ptr[region + 1]):
                child = int(regions.child[slot])
                delta = duals[regions.message_ptr[slot] : regions.message_ptr[slot + 1]]
                inner = (child,)
                if child < regions.n_variables:
                    self.unaries[child] += delta
                else:
                    inner = self.tables[region_table[child]][0]
                    delta = delta.reshape(tables[child].shape)
                    tables[child] += delta
                tables[region] -= spread(delta, inner, scope)
        for region, at in region_table.items():
            self.tables[at] = self.tables[at][0], tables[region]

    def with_hidden(self, labels):
        """Labels of a labelling's variables and of the hidden ones that follow from them."""
        labels = np.concatenate([labels, np.zeros(len(self.hidden), dtype=np.int64)])
        for itself, before, variable, after in self.hidden:
            labels[itself] = after[labels[before], labels[variable]]
        return labels


def unit_of(graph):
    """The largest number that the scores of all labellings are apart by multiples of, or 0."""
    scores = graph.regions.scores
    scores = scores[scores > -np.inf]
    if (np.abs(scores) > _LARGEST_INTEGER).any() or (scores != np.trunc(scores)).any():
        return 0.0
    return float(np.gcd.reduce(scores.astype(np.int64), initial=0))

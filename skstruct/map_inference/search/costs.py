"""Costs of a factor graph (best score minus score), simplified before the search."""

import heapq

import numpy as np

_STEPS = 1000  # between two looks at the clock
_LARGE = 4096  # cells; no table grows beyond that
_NO_LABELLING = "no labelling has a finite score"


class Infeasible(Exception):
    """No labelling has a finite score (or one better than the known one)."""


def spread(table, scope, full):
    """A view of a table with one axis for each variable of `full` (1 where it is not in scope)."""
    order = sorted(range(len(scope)), key=lambda d: full.index(scope[d]))
    table = table.transpose(order)
    shape, d = [], 0
    for variable in full:
        if variable in scope:
            shape.append(table.shape[d])
            d += 1
        else:
            shape.append(1)
    return table.reshape(shape)


class Stopped(Exception):
    """The simplification is to end; the costs are valid, but not yet at least zero."""


class Costs:
    """Tables of costs over sorted scopes, with the labels that each variable still has."""

    def __init__(self, unaries, tables, offset=0.0):
        self.steps, self.stop = 0, None
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
        """Ask at times whether to stop."""
        self.steps += 1
        if self.stop is not None and self.steps % _STEPS == 0 and self.stop():
            raise Stopped

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
        """How many cells an elimination makes; None where it would cost too much."""
        others = self._neighbours(i)
        if len(others) > most_variables:
            return None
        cells = 1
        for j in others:
            cells *= len(self.domains[j])
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
        seen = self.gone.copy()
        for first in range(len(self.of)):
            if seen[first]:
                continue
            seen[first] = True
            part = [first]
            for i in part:
                for key in self.of[i]:
                    for j in self.scopes[key]:
                        if not seen[j]:
                            seen[j] = True
                            part.append(j)
            yield sorted(part)

    def expand(self, labels):
        """Give the eliminated variables their best labels, in place."""
        for i, others, domains, choice in reversed(self.eliminated):
            at = tuple(
                int(np.searchsorted(domain, labels[j]))
                for j, domain in zip(others, domains, strict=True)
            )
            labels[i] = self.domains[i][choice[at]]
        return labels

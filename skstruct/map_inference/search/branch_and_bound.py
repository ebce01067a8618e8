"""``"branch-and-bound"``: the best labelling of small and medium models, with a proof."""

from __future__ import annotations

import numpy as np

from ...inference.numerics import check_integer
from ..arguments import check_duals, check_real, check_start
from ..budget import Budget, Stopped
from ..scoring import Incumbent
from .costs import Costs, Expanded, Infeasible, unit_of
from .hybrid import Component

_NODES_A_PASS = 1000
_SECONDS = 0.02  # between two looks at the clock
_GAP = 0.1  # share of the tolerance that the search may leave open


class _Search:
    """All components of a graph, their bounds and labellings together."""

    def __init__(self, graph, tol, max_iter, budget, duals):
        self.graph, self.max_iter = graph, max_iter
        self.best = Incumbent(graph, tol, budget)
        self.passes, self.components, self.is_split, self.asked = 0, [], False, -np.inf
        self.expanded, self.unit = Expanded(graph, duals), unit_of(graph)
        tables = [table for _, table in self.expanded.tables]
        scores = [np.abs(s[np.isfinite(s)]).max(initial=0) for s in self.expanded.unaries + tables]
        self.rounding = 1e-15 * (abs(graph.offset) + float(np.sum(scores)))
        self.costs = Costs(self.expanded.unaries, self.expanded.tables, graph.offset, self.check)
        self.first_bound = -self.costs.least()

    @property
    def bound(self):
        """No labelling has a higher score."""
        score = self.best.score
        if not self.is_split:
            return max(self.first_bound + self.rounding, score)
        total = -self.costs.constant - sum(part.bound for part in self.components)
        if self.unit and np.isfinite(total - score):  # better ones are whole units better
            return score + self.unit * max(0.0, (total - score + 1e-4 * self.unit) // self.unit)
        return max(total + self.rounding, score)

    def take(self, labels):
        """Keep a labelling of the graph if it is the best."""
        self.best.offer(labels, float(self.graph.score(labels)))

    def prepare(self, growth, most_variables):
        """Simplify, split, and bound the root of each component."""
        self.costs.simplify(growth, most_variables)
        known = self.expanded.with_hidden(self.best.labels)
        for variables in self.costs.components():
            self.components.append(Component(self.costs, variables, self.unit))
            if self.best.score > -np.inf:
                self.components[-1].adopt(known)
        self.is_split = True
        self.set_gaps()
        for part in self.components:
            part.diffuse(self.check)
        self.gather()

    def set_gaps(self):
        """What each component may leave open."""
        score = self.best.score
        gap = _GAP * self.best.tol * max(1.0, abs(score) if score > -np.inf else 0.0)
        for part in self.components:
            part.set_gap(gap / len(self.components))

    def gather(self):
        """Put the labellings of the components together."""
        labels = self.expanded.with_hidden(self.best.labels)
        for part in self.components:
            part.write(labels)
        self.take(self.costs.expand(labels)[: self.graph.n_variables])

    def check(self, *_):
        """Raise `Stopped` if it is time to stop; called after each piece of work."""
        now = self.best.budget.seconds
        if now - self.asked >= _SECONDS:
            self.asked = now
            self.best.budget.check(self.passes / self.max_iter, self.bound, self.best.score)

    def search(self):
        """Passes over the open components."""
        while self.passes < self.max_iter and any(part.is_open for part in self.components):
            self.passes += 1
            for part in self.components:
                if part.is_open:
                    part.run(_NODES_A_PASS, self.check)
                    if part.upper == np.inf and not part.is_open:
                        raise Infeasible
            self.gather()
            self.set_gaps()
            self.best.record(self.passes, self.bound)


def solve_branch_and_bound(
    graph,
    *,
    tol=1e-6,
    max_iter=1000,
    rng=None,
    budget=None,
    start=None,
    duals=None,
    growth=16.0,
    most_variables=7,
):
    """Branch and bound with soft local consistency, hybrid best-first.

    M. Cooper, S. de Givry, M. Sanchez, T. Schiex, M. Zytnicki, T. Werner: Soft arc consistency
    revisited, Artificial Intelligence 174, 2010 (sections 4 to 6: full directional and existential
    arc consistency).

    D. Allouche, S. de Givry, G. Katsirelos, T. Schiex, M. Zytnicki: Anytime hybrid best-first
    search with tree decomposition for weighted CSP, CP 2015 (section 3).

    V. Kolmogorov: A new look at reweighted message passing, PAMI 2015 (the root's bound).
    """
    growth = check_real("growth", growth, 0)
    most_variables = check_integer("most_variables", most_variables, 0)
    start, duals = check_start(graph, start), check_duals(graph, duals)
    search = _Search(graph, tol, max_iter, Budget() if budget is None else budget, duals)
    best, message = search.best, "stopped with open nodes"
    if start is not None:
        search.take(start)
    try:
        search.prepare(growth, most_variables)
        search.search()
    except Infeasible:
        best.score = -np.inf
        best.record(search.passes, -np.inf)
        message = "no labelling has a finite score"
        return best.result("branch-and-bound", message, search.passes, True)
    except Stopped:
        if search.is_split:
            search.gather()
    best.record(search.passes, search.bound)
    if best.is_proved:
        message = "the search is complete"
    return best.result("branch-and-bound", message, search.passes, best.is_proved)

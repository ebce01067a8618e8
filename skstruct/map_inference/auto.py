"""The method "auto": cheap methods first, thorough ones while the labelling is not proved."""

from __future__ import annotations

import numpy as np

from .budget import Stopped
from .scoring import HISTORY_FIELDS, Incumbent
from .trws import solve_trws

_FIRST_SWEEPS = 60  # of the whole model
_SWEEPS, _MORE_SWEEPS = 300, 3000  # of the simplified one
_MOST_FACTORS = 50_000  # that Python looks at one by one
_MOST_ENTRIES = 2.0**28  # of all tables of an elimination, a second or two
_MOST_TABLE = 2.0**25  # of one
_FIRST_NODES, _MORE_NODES = 4, 100  # thousands, of branch and bound
_STRIPS = 200  # passes
_MOVES, _MORE_MOVES = 50, 400  # passes without a time limit
_MUCH_TIGHTER = 0.7


class _Stages:
    """The stages, each with a fraction of the time left, on the user's graph, then simplified."""

    def __init__(self, graph, tol, max_iter, rng, budget):
        self.graph, self.max_iter, self.rng, self.budget = graph, max_iter, rng, budget
        self.best = Incumbent(graph, tol, budget)
        self.best.begin()
        self.lift = self.lower = np.copy
        self.sweeps_duals, self.duals, self.passes, self.how = None, None, 0, "inspection"

    @property
    def is_over(self):
        """True if nothing is left to do, or no time to do it."""
        return self.best.is_proved or bool(self.budget.reason) or self.budget.seconds_left <= 0

    def found(self, how, bound, labels):
        """Take over what a stage has found."""
        self.how = how
        self.best.offer(self.lift(labels))
        self.best.record(self.passes, bound)

    def stage(self, method, max_iter=1, share=1.0, **parameters):
        """Run a method; its result, None if the time is over."""
        if self.is_over:
            return None
        best, passes = self.best, self.passes
        common = {"tol": best.tol, "rng": self.rng, "budget": self.budget}
        with self.budget.part(share * self.budget.seconds_left):
            max_iter = min(max_iter, self.max_iter)
            result = method(self.graph, max_iter=max_iter, **common, **parameters)
        columns = [result.history_[name] for name in HISTORY_FIELDS[:5]]
        for done, seconds, bound, score, infeasibility in np.transpose(columns).tolist():
            best.bound, score = min(best.bound, bound), max(best.score, score)
            best.rows.append((passes + done, seconds, best.bound, score, infeasibility))
        self.passes += result.n_iter
        self.found(result.method, float(result.bound), result.labels)
        return result

    def cut(self):
        """Models of two labels: a minimum cut, or the labels that the roof dual is sure of."""
        graph = self.graph
        if (graph.n_states > 2).any() or any(b.arity != 2 for b in graph.factors):
            return {}
        from .cuts import solve_roof_dual

        result = self.stage(solve_roof_dual) if graph.factors else None
        if result is None or result.beliefs is None:
            return {}
        sure = ((v, b) for v, b in enumerate(result.beliefs) if b.size == 2 and b.max() == 1.0)
        return {v: int(b.argmax()) for v, b in sure}

    def sweep(self, passes):
        """Sweeps in the order of TRW-S, from where the last ones ended."""
        result = self.stage(solve_trws, passes, duals=self.sweeps_duals)
        self.sweeps_duals = None if result is None else result.duals

    def simplify(self, sure):
        """Go on with a smaller graph; whether there is something left to do."""
        from .simplify import Simplified

        try:
            simple = Simplified(self.graph, sure, check=self.budget.check)
        except Stopped:
            return False
        if not simple.is_feasible:
            self.found("propagation of constraints", -np.inf, self.best.labels)
            return False
        self.graph, self.lift, self.lower = simple.graph, simple.lift, simple.lower
        self.sweeps_duals = None
        if simple.graph.n_variables == 0:
            self.found("simplification", simple.graph.offset, np.zeros(0, dtype=np.int64))
            return False
        return True

    def eliminate(self):
        """Elimination where its tables are small."""
        from .elimination import elimination_cost, solve_junction_tree

        if elimination_cost(self.graph, _MOST_TABLE) <= _MOST_ENTRIES:
            self.stage(solve_junction_tree, max_table=_MOST_TABLE)

    def search(self, thousands, share):
        """Branch and bound; the bound that it reaches."""
        from .search.branch_and_bound import solve_branch_and_bound
        from .search.costs import TooManyVariables

        start = self.lower(self.best.labels)
        start = start if np.isfinite(self.graph.score(start)) else None
        try:
            result = self.stage(
                solve_branch_and_bound, thousands, share, start=start, duals=self.sweeps_duals
            )
        except TooManyVariables:
            return np.inf
        return np.inf if result is None else result.bound

    def tighten(self, share):
        """Strips that are solved exactly, unless they are too wide; their bound."""
        if self.is_over:
            return np.inf
        from .tighten import tighten

        with self.budget.part(share * self.budget.seconds_left):
            bound, labels = tighten(self.graph, self.budget, max_iter=_STRIPS)
        if bound < np.inf:
            self.found("exact strips", bound, labels)
        return bound

    def move(self, share, passes):
        """Moves of many variables at once; so many passes if there is no time limit."""
        if self.is_over:
            return
        from .blocks import reoptimise
        from .cuts import expand

        with self.budget.part(share * self.budget.seconds_left):
            labels = expand(self.graph, self.lower(self.best.labels), self.rng, self.budget)
            labels = reoptimise(self.graph, labels, self.rng, self.budget, passes)
        self.found(self.how, np.inf, labels)

    def run(self):
        """Run stages until the labelling is proved, or the time is over."""
        sure = self.cut()
        self.sweep(_FIRST_SWEEPS)
        self.duals = self.sweeps_duals
        if self.is_over or self.graph.n_factors > _MOST_FACTORS or not self.simplify(sure):
            return
        self.eliminate()
        self.sweep(_SWEEPS)
        searched = self.search(_FIRST_NODES, 0.15)
        tightened = self.tighten(0.25)
        self.move(0.15, _MOVES)
        if searched == tightened == np.inf:
            self.sweep(_MORE_SWEEPS)
        elif tightened - self.best.score < _MUCH_TIGHTER * (searched - self.best.score):
            # The search would have to prove by branching what the strips know at once.
            self.move(1.0, _MORE_MOVES)
        else:
            self.search(_MORE_NODES, 1.0)


def solve_auto(graph, *, tol, max_iter, rng, budget):
    """Cheap methods first, thorough ones while the labelling is not proved to be optimal.

    Minimum cut or roof dual; sweeps of TRW-S; simplification; elimination; then sweeps, strips,
    moves and branch and bound, whichever promises more.
    """
    stages = _Stages(graph.of_variables(), tol, max_iter, rng, budget)
    stages.run()
    best = stages.best
    # Scores of simplified graphs are rounded differently.
    best.rows = [(*row[:3], min(row[3], best.score), row[4]) for row in best.rows]
    best.bound = max(best.bound, best.score)
    message = f"{'proved' if best.is_proved else 'stopped'} by {stages.how}"
    return best.result("auto", message, stages.passes, best.is_proved, duals=stages.duals)

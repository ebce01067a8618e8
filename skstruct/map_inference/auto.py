"""The method "auto": from what is cheap to what is thorough, until the labelling is proved."""

from __future__ import annotations

import numpy as np

from .blocks import reoptimise
from .cuts import expand, solve_roof_dual
from .elimination import elimination_cost, solve_junction_tree
from .factors import Potts, Table
from .graph import is_pairwise
from .minibuckets import solve_mini_buckets
from .result import HISTORY_FIELDS, MAPResult, is_proved
from .scoring import score_labels, sum_of_maxima
from .search.branch_and_bound import solve_branch_and_bound
from .search.costs import Stopped, TooManyVariables
from .simplify import Simplified
from .tighten import tighten
from .trws import solve_trws
from .watch import Part

_FIRST_SWEEPS = 60  # of the whole model
_SWEEPS, _MORE_SWEEPS = 300, 3000  # of the simplified one
_MOST_FACTORS = 50_000  # that Python looks at one by one
_MOST_ENTRIES = 2.0**28  # of all tables of an elimination, a second or two
_MOST_TABLE = 2.0**25  # of one
_FIRST_NODES, _MORE_NODES = 4, 100  # thousands, of branch and bound
_STRIPS = 200  # passes
_MOVES, _MORE_MOVES = 50, 400  # passes without a time limit
_BUCKETS = 1 << 18  # cells
_MUCH_TIGHTER = 0.7


class _Run:
    """The best of all stages, for the graph that the user gave."""

    def __init__(self, graph, tol, rng, watch):
        self.graph, self.tol, self.rng, self.watch = graph, tol, rng, watch
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)
        self.score = score_labels(graph.regions, self.labels)
        self.bound = sum_of_maxima(graph.regions)
        self.duals, self.passes, self.rows, self.how = None, 0, [], ""
        self.note()

    def note(self):
        self.rows.append((self.passes, self.watch.seconds, self.bound, self.score, np.nan))

    @property
    def is_proved(self):
        """Whether the labelling is known to be optimal."""
        return is_proved(self.score, self.bound, self.tol)

    @property
    def is_over(self):
        """Whether there is nothing left to do, or no time to do it."""
        return self.is_proved or bool(self.watch.reason) or self.watch.seconds_left <= 0

    def offer(self, labels):
        """Keep a labelling of the whole graph if it is the best."""
        score = score_labels(self.graph.regions, labels)
        if score > self.score:
            self.labels, self.score = labels.copy(), score

    def stage(self, method, graph, lift=None, seconds=None, **parameters):
        """Run a method on the graph or on a simplified one, and take over what it finds."""
        part = Part(self.watch, seconds=seconds)
        began = self.watch.seconds
        limit = part.seconds_left
        result = method(
            graph,
            tol=self.tol,
            time_limit=None if np.isinf(limit) else max(limit, 1e-3),
            rng=self.rng,
            on_pass=part,
            **parameters,
        )
        lift = (lambda labels: labels) if lift is None else lift
        history = result.history_
        for row in zip(*(history[name] for name in HISTORY_FIELDS), strict=True):
            passes, seconds, bound, score, infeasibility = map(float, row)
            self.bound, at = min(self.bound, bound), max(seconds, began)
            best = max(self.score, score)
            self.rows.append((self.passes + passes, at, self.bound, best, infeasibility))
        self.passes += result.n_iter
        self.bound = min(self.bound, float(result.bound))
        self.how = result.method
        self.offer(lift(result.labels))
        self.note()
        return result

    def result(self):
        """What is known at the end."""
        columns = np.array(self.rows).T
        # Scores of simplified graphs are rounded differently.
        columns[3] = np.minimum(columns[3], self.score)
        message = f"{'proved' if self.is_proved else 'stopped'} by {self.how or 'inspection'}"
        return MAPResult(
            labels=self.labels,
            score=self.score,
            bound=max(self.bound, self.score),
            optimal=self.is_proved,
            duals=self.duals,
            history_={n: c.copy() for n, c in zip(HISTORY_FIELDS, columns, strict=True)},
            method="auto",
            n_iter=self.passes,
            converged=self.is_proved,
            message=message,
        )


def _cut(run):
    """Models of two labels: a minimum cut, or labels that the roof dual is sure of."""
    graph = run.graph
    two = (graph.n_states <= 2).all() and all(is_pairwise(batch) for batch in graph.factors)
    if not two or not graph.factors:
        return {}
    result = run.stage(solve_roof_dual, graph, max_iter=1)
    if run.is_over or result.beliefs is None:
        return {}
    sure = ((v, b) for v, b in enumerate(result.beliefs) if b.size == 2 and b.max() == 1.0)
    return {v: int(b.argmax()) for v, b in sure}


class _Small:
    """Stages on the simplified graph."""

    def __init__(self, run, simple, max_iter):
        self.run, self.graph, self.max_iter = run, simple.graph, max_iter
        self.lift, self.lower = simple.lift, simple.lower
        self.duals = None

    def _stage(self, method, passes=1, share=1.0, **parameters):
        """A stage with a share of the time that is left; its result, None if the time is over."""
        if self.run.is_over:
            return None
        seconds = self._seconds(share)
        passes = min(self.max_iter, passes)
        return self.run.stage(method, self.graph, self.lift, seconds, max_iter=passes, **parameters)

    def eliminate(self):
        """Elimination where its tables are small."""
        if elimination_cost(self.graph, _MOST_TABLE)[2] <= _MOST_ENTRIES:
            self._stage(solve_junction_tree, max_table=_MOST_TABLE)

    def sweep(self, passes):
        """Sweeps in the order of TRW-S, from where the last ones ended."""
        result = self._stage(solve_trws, passes, duals=self.duals)
        self.duals = None if result is None else result.duals

    def search(self, passes, share):
        """Branch and bound; the bound that it reaches."""
        start = self.lower(self.run.labels)
        start = start if np.isfinite(self.graph.score(start)) else None
        try:
            result = self._stage(
                solve_branch_and_bound, passes, share, start=start, duals=self.duals
            )
        except TooManyVariables:
            return np.inf
        return np.inf if result is None else result.bound

    def _seconds(self, share):
        left = self.run.watch.seconds_left
        return None if np.isinf(left) else share * left

    def tighten(self, share):
        """Strips that are solved exactly, mini-buckets where those are too wide; their bound."""
        run = self.run
        if run.is_over:
            return np.inf
        seconds = self._seconds(share)
        part = Part(run.watch, seconds=seconds)
        bound, labels = tighten(self.graph, part, seconds, max_iter=_STRIPS)
        if bound < np.inf:
            run.bound, run.how = min(run.bound, bound), "exact strips"
            run.offer(self.lift(labels))
            run.note()
            return bound
        if not all(isinstance(b, Table | Potts) for b in self.graph.factors):
            return np.inf
        options = {"most_cells": _BUCKETS, "duals": self.duals, "start": self.lower(run.labels)}
        result = self._stage(solve_mini_buckets, 30, share, **options)
        return np.inf if result is None else result.bound

    def move(self, share, passes):
        """Moves of many variables at once; so many passes if there is no time limit."""
        run = self.run
        if run.is_over:
            return
        part = Part(run.watch, seconds=self._seconds(share))
        labels = expand(self.graph, self.lower(run.labels), run.rng, part)
        asked = 0

        def stop(_):
            nonlocal asked
            asked += 1
            return part(asked / passes) or (np.isinf(part.seconds_left) and asked >= passes)

        seconds = max(part.seconds_left, 1e-3)
        labels = reoptimise(self.graph, labels, run.rng, stop, time_limit=seconds)
        run.offer(self.lift(labels))
        run.note()


def _stages(run, max_iter):
    """Run stages until the labelling is proved, or the time is over."""
    sure = _cut(run)
    if run.is_over:
        return
    first = run.stage(solve_trws, run.graph, max_iter=min(max_iter, _FIRST_SWEEPS))
    run.duals = first.duals
    if run.is_over or run.graph.n_factors > _MOST_FACTORS:
        return
    try:
        simple = Simplified(run.graph, sure, stop=lambda: run.watch(0.0))
    except Stopped:
        return
    if not simple.is_feasible:
        run.bound, run.how = -np.inf, "propagation of constraints"
        run.note()
        return
    if simple.graph.n_variables == 0:
        run.bound, run.how = simple.graph.offset, "simplification"
        run.offer(simple.lift(np.zeros(0, dtype=np.int64)))
        run.bound = max(run.bound, run.score)
        run.note()
        return
    small = _Small(run, simple, max_iter)
    small.eliminate()
    small.sweep(_SWEEPS)
    searched = small.search(_FIRST_NODES, 0.15)
    tightened = small.tighten(0.25)
    small.move(0.15, _MOVES)
    if searched == tightened == np.inf:
        small.sweep(_MORE_SWEEPS)
    elif tightened - run.score < _MUCH_TIGHTER * (searched - run.score):
        # The search would have to prove by branching what the strips know at once.
        small.move(1.0, _MORE_MOVES)
    else:
        small.search(_MORE_NODES, 1.0)


def solve_auto(graph, *, tol, max_iter, time_limit, rng, on_pass):
    """Cheap methods first, thorough ones while the labelling is not proved to be optimal.

    1. Two labels: a minimum cut where all factors attract, else the roof dual, which fixes labels.
    2. Sweeps in the order of TRW-S, which decode on the way: they prove what the LP proves.
    3. Simplification: labels that no factor allows, leaves and evidence, factors within others.
    4. Elimination, if all of its tables are small.
    5. More sweeps on the simplified model; a short branch and bound; bounds by exact strips, or by
       mini-buckets; moves of many variables; then more moves or branch and bound, whatever is the
       more promising.

    The stages' own: ``"roof-dual"``, ``"trws"``, ``"junction-tree"``, ``"branch-and-bound"``,
    ``"mini-buckets"``.
    """
    run = _Run(graph.of_variables(), tol, rng, on_pass)
    if not run.is_proved:
        _stages(run, max_iter)
    return run.result()

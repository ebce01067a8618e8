"""The method "auto": from what is cheap to what is thorough, until the labelling is proved."""

from __future__ import annotations

import numpy as np

from .exact.cuts import solve_max_flow, solve_roof_dual
from .exact.elimination import elimination_cost, solve_junction_tree
from .expansion import expand
from .factors import Table
from .minibuckets.solver import solve_mini_buckets
from .pairwise import is_pairwise
from .result import HISTORY_FIELDS, MAPResult, is_proved
from .scoring import score_labels, sum_of_maxima
from .search.branch_and_bound import solve_branch_and_bound
from .sequential.solver import solve_trws
from .simplify import Simplified
from .watch import Part

_FIRST_PASSES = 60  # of sweeps before anything else
_MOST_FACTORS = 50_000  # that Python looks at one by one


class _Run:
    """The best of all stages, for the graph that the user gave.

    Parameters
    ----------
    graph : FactorGraph
        Factors contain variables.
    tol : float
        Relative gap of a proof.
    rng : numpy.random.Generator
        For stages that draw.
    watch : Watch
        The clock.
    """

    def __init__(self, graph, tol, rng, watch):
        self.graph, self.tol, self.rng, self.watch = graph, tol, rng, watch
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)
        self.score = score_labels(graph.regions, self.labels)
        self.bound = sum_of_maxima(graph.regions)
        self.duals, self.passes, self.rows, self.how = None, 0, [], ""
        self._note()

    def _note(self):
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
            self._note()

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
            self.bound, self.score = min(self.bound, bound), max(self.score, score)
            at = max(seconds, began)
            self.rows.append((self.passes + passes, at, self.bound, self.score, infeasibility))
        self.passes += result.n_iter
        was_proved = self.is_proved
        self.bound = min(self.bound, float(result.bound))
        labels = lift(result.labels)
        score = score_labels(self.graph.regions, labels)
        if score >= self.score or not np.isfinite(self.score):
            self.labels, self.score = labels.copy(), max(score, self.score)
        self.how = result.method
        if self.is_proved and not was_proved:
            self._note()
        return result

    def result(self):
        """What is known at the end."""
        columns = np.array(self.rows).T
        # Stages report their own seconds and scores: the best until then counts.
        columns[1] = np.maximum.accumulate(columns[1])
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


def _two_labels(graph):
    return (graph.n_states <= 2).all() and all(is_pairwise(batch) for batch in graph.factors)


def _persistent(graph, result):
    """Labels that the roof dual proves to be in a best labelling."""
    sure = {}
    for v, belief in enumerate(result.beliefs):
        if graph.n_states[v] == 2 and belief.max() == 1.0:
            sure[v] = int(belief.argmax())
    return sure

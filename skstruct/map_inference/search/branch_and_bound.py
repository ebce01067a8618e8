"""``"branch-and-bound"``: the best labelling of small and medium models, with a proof."""

from __future__ import annotations

import numpy as np

from ...inference.numerics import check_integer
from ..arguments import check_duals, check_real, check_start
from ..result import MAPResult, Records, is_proved
from ..watch import solving_time
from .costs import Costs, Expanded, Infeasible, Stopped, unit_of
from .hybrid import Part

_NODES_A_PASS = 1000
_SECONDS = 0.02  # between two looks at the clock
_GAP = 0.1  # share of the tolerance that the search may leave open


class _Clock:
    def __init__(self, time_limit):
        self._began = solving_time()
        self._end = np.inf if time_limit is None else time_limit

    @property
    def seconds(self):
        """Since the beginning."""
        return solving_time() - self._began

    @property
    def is_over(self):
        """Whether the time limit is reached."""
        return self.seconds >= self._end


class _Run:
    """All components of a graph, their bounds and labellings together."""

    def __init__(self, graph, tol, max_iter, time_limit, on_pass, start, duals):
        self.graph, self.tol, self.max_iter, self.on_pass = graph, tol, max_iter, on_pass
        self.clock = _Clock(time_limit)
        self.records = Records(self.clock)
        self.passes, self.stopped, self.parts = 0, False, []
        self.is_split, self.asked = False, -np.inf
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)
        self.score = -np.inf
        self.expanded, self.unit = Expanded(graph, duals), unit_of(graph)
        scores = [np.abs(s[np.isfinite(s)]).max(initial=0) for s in self.expanded.unaries]
        scores += [np.abs(t[np.isfinite(t)]).max(initial=0) for _, t in self.expanded.tables]
        self.rounding = 1e-15 * (abs(graph.offset) + float(np.sum(scores)))
        self.costs = Costs(self.expanded.unaries, self.expanded.tables, graph.offset)
        self.costs.stop = self.interrupted
        self.first_bound = -self.costs.least()
        if start is not None:
            self._take(start)

    @property
    def bound(self):
        """No labelling has a higher score."""
        if not self.is_split:
            return max(self.first_bound + self.rounding, self.score)
        total = -self.costs.constant - sum(part.bound for part in self.parts)
        if self.unit and np.isfinite(total - self.score):  # better ones are whole units better
            return self.score + self.unit * max(
                0.0, (total - self.score + 1e-4 * self.unit) // self.unit
            )
        return max(total + self.rounding, self.score)

    def _take(self, labels):
        score = float(self.graph.score(labels))
        if score > self.score:
            self.labels, self.score = labels, score

    def prepare(self, growth, most_variables):
        """Simplify, split, and bound the root of each component."""
        self.costs.simplify(growth, most_variables)
        known = None
        if self.score > -np.inf:
            known = self.expanded.with_hidden(self.labels)
        for variables in self.costs.components():
            part = Part(self.costs, variables, self.unit)
            self.parts.append(part)
            if known is not None:
                part.adopt(known)
        self.is_split = True
        self.set_gaps()
        for part in self.parts:
            part.diffuse(self.interrupted)
        self.gather()

    def set_gaps(self):
        """What each component may leave open."""
        gap = _GAP * self.tol * max(1.0, abs(self.score) if self.score > -np.inf else 0.0)
        for part in self.parts:
            part.set_gap(gap / len(self.parts))

    def gather(self):
        """Put the labellings of the components together."""
        labels = self.expanded.with_hidden(self.labels)
        for part in self.parts:
            part.write(labels)
        labels = self.costs.expand(labels)[: self.graph.n_variables]
        self._take(labels)

    def interrupted(self):
        """Whether to stop, asked after each piece of work."""
        now = self.clock.seconds
        if not self.stopped and now - self.asked >= _SECONDS:
            self.asked = now
            self.stopped = self.clock.is_over
            if self.on_pass is not None:
                share = self.passes / self.max_iter
                self.stopped |= bool(self.on_pass(share, self.bound, self.score))
        return self.stopped

    def search(self):
        """Passes over the open components."""
        while not self.stopped:
            still = [part for part in self.parts if part.is_open]
            if not still or self.passes >= self.max_iter:
                break
            self.passes += 1
            for part in still:
                if not self.stopped:
                    part.run(_NODES_A_PASS, self.interrupted)
                if part.upper == np.inf and not part.is_open:
                    raise Infeasible
            self.gather()
            self.set_gaps()
            self.records.add(self.passes, self.bound, self.score)

    def result(self):
        """What was found; if the tolerance is reached, that is the proof."""
        bound = self.bound
        self.records.add(self.passes, bound, self.score)
        proved = is_proved(self.score, bound, self.tol)
        message = "the search is complete" if proved else "stopped with open nodes"
        return self._pack(bound, proved, message)

    def infeasible(self):
        """No labelling has a finite score."""
        self.score = -np.inf
        self.records.add(self.passes, -np.inf, -np.inf)
        return self._pack(-np.inf, True, "no labelling has a finite score")

    def _pack(self, bound, proved, message):
        return MAPResult(
            self.labels,
            self.score,
            bound,
            proved,
            history_=self.records.history(),
            method="branch-and-bound",
            n_iter=self.passes,
            converged=proved,
            message=message,
        )


def solve_branch_and_bound(
    graph,
    *,
    tol=1e-6,
    max_iter=1000,
    time_limit=None,
    rng=None,
    on_pass=None,
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
    run = _Run(graph, tol, max_iter, time_limit, on_pass, start, duals)
    try:
        run.prepare(growth, most_variables)
        run.search()
    except Infeasible:
        return run.infeasible()
    except Stopped:
        pass
    return run.result()

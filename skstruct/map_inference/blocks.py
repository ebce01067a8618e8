"""Better labellings by exact moves: all variables but a random cutset become optimal at once."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..inference.bucket_elimination import score_factors
from ..inference.elimination_order import elimination_order, primal_graph
from ..inference.junction_tree import Tables
from .elimination import Eliminator, write_out

_PLANS, _FRESH = 24, 0.05
_PATIENCE = 6
_FIRST_CYCLE, _LONGER = 12, 1.5
_DISTURBANCE = 0.1
_MOST_COUNTERS = 1e6


class Reoptimiser:
    """Labellings of one graph, made better by exact optimisation of most variables at a time."""

    def __init__(self, graph, rng, max_table=2**14):
        self._graph, self._rng, self._max_table = graph, rng, max_table
        hard = write_out(graph, _MOST_COUNTERS)
        finite = hard.scores[np.isfinite(hard.scores)]
        span = float(np.ptp(finite)) if finite.size else 0.0
        # Forbidden entries become dear ones, so that a broken start can be mended.
        low = (finite.min() if finite.size else 0.0) - 10.0 * (span + 1.0)
        self._tables = Tables(*hard[:4], np.maximum(hard.scores, low))
        self._all = primal_graph(hard.n_states, hard.scope_ptr, hard.scope)
        starts = np.unique(hard.table_ptr)
        finite = np.isfinite(hard.scores)
        top = np.maximum.reduceat(np.where(finite, hard.scores, -np.inf), starts)
        bottom = np.minimum.reduceat(np.where(finite, hard.scores, np.inf), starts)
        spans = (top - bottom)[top > bottom]
        #: Mean range of the finite scores of a table.
        self._scale = float(spans.mean()) if spans.size else 0.0
        self._blocks = []
        incidence = np.ones(len(hard.scope), dtype=np.int8), hard.scope, hard.scope_ptr
        shape = len(hard.table_ptr), len(hard.n_states)
        self._factor_of = csr_array(incidence, shape=shape)
        self.is_exact = False

    def _block(self):
        """A plan that leaves a cutset out: an earlier one, or a new one."""
        rng = self._rng
        if len(self._blocks) >= _PLANS and rng.random() >= _FRESH:
            return self._blocks[rng.integers(len(self._blocks))]
        ranks = rng.permutation(len(self._tables.n_states))
        options = {"max_table": self._max_table, "rank": ranks, "leave_out": True}
        found = elimination_order(self._all, self._tables.n_states, **options)
        self.is_exact = len(found.fixed) == 0
        block = Eliminator(self._tables, found.order)
        if len(self._blocks) < _PLANS:
            self._blocks.append(block)
        else:
            self._blocks[rng.integers(_PLANS)] = block
        return block

    def _complete(self, labels):
        """The labels with those of counters."""
        n = self._graph.n_variables
        whole = np.zeros(len(self._tables.n_states), dtype=np.int64)
        whole[:n] = labels
        if len(whole) > n:
            keep = np.arange(len(whole)) >= n
            tables = self._tables
            chains = primal_graph(tables.n_states, tables.scope_ptr, tables.scope, keep)
            order = elimination_order(chains, tables.n_states, keep=keep).order
            Eliminator(tables, order).run(tables, whole)
        return whole

    def _scores(self, labels):
        """Score of each factor."""
        out = np.empty(len(self._tables.table_ptr))
        score_factors(self._tables, labels, out)
        return out

    def _fuse(self, best, other):
        """`best` with those independent parts of `other` that are better."""
        differs = np.flatnonzero(best != other)
        if not len(differs):
            return best
        gains = self._scores(other) - self._scores(best)
        inside = self._factor_of[:, differs]
        n_parts, part = connected_components(inside.T @ inside, directed=False)
        touched = np.diff(inside.indptr) > 0
        # All variables of a factor that differ are in one part.
        of_factor = part[inside.indices[inside.indptr[:-1][touched]]]
        gain = np.bincount(of_factor, weights=gains[touched], minlength=n_parts)
        fused = best.copy()
        better = differs[gain[part] > 0.0]
        fused[better] = other[better]
        return fused

    def _descend(self, labels, stops):
        """Passes until several in a row gain nothing."""
        value, idle = self._scores(labels).sum(), 0
        while idle < _PATIENCE:
            trial = labels.copy()
            self._block().run(self._tables, trial)
            gained = self._scores(trial).sum()
            idle = 0 if gained > value + 1e-12 * abs(value) else idle + 1
            if gained > value:
                labels, value = trial, gained
            if self.is_exact or stops():
                break
        return labels

    def _cycle(self, labels, length, stops):
        """Passes on scores that are disturbed less and less."""
        labels = labels.copy()
        for k in range(length):
            noise = self._rng.standard_normal(self._tables.scores.size)
            noise *= _DISTURBANCE * (1.0 - k / length) * self._scale
            disturbed = self._tables._replace(scores=self._tables.scores + noise)
            self._block().run(disturbed, labels)
            if stops():
                break
        for _ in range(_PATIENCE // 2):
            self._block().run(self._tables, labels)
        return labels

    def run(self, labels, stops, more=True):
        """A labelling that is at least as good."""
        n = self._graph.n_variables
        labels = np.ascontiguousarray(labels, dtype=np.int64)
        best = self._descend(self._complete(labels), stops)
        length = float(_FIRST_CYCLE)
        while more and not self.is_exact and not stops():
            best = self._fuse(best, self._cycle(best, int(length), stops))
            length *= _LONGER
        score = self._graph.score
        return best[:n].copy() if score(best[:n]) >= score(labels) else labels


def reoptimise(graph, labels, rng, budget=None, passes=np.inf, max_table=2**14):
    """Improve a labelling by elimination of all but a random cutset, in passes while they gain.

    With a budget, passes go on from disturbed labellings (Bidyuk and Dechter 2007; Hamze and de
    Freitas 2004).
    """
    asked, is_over = 0, False

    def stops():
        nonlocal asked, is_over
        if budget is not None and not is_over:
            asked += 1
            is_over = budget(asked / passes)
            is_over |= asked >= passes and np.isinf(budget.seconds_left)
        return is_over

    try:
        optimiser = Reoptimiser(graph, rng, max_table)
    except ValueError:
        return np.array(labels, dtype=np.int64)
    return optimiser.run(labels, stops, more=budget is not None)

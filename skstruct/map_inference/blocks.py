"""Better labellings by exact moves: all variables but a few are made optimal at once.

The few that keep their labels are chosen so that the others have small tables: a cutset of small
induced width, a different one each pass. Where no cutset helps any more, passes on disturbed scores
lead away, less and less disturbed; of what they find, each independent part that is better is kept.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..inference.bucket_elimination import (
    EliminationScratch,
    best_labels,
    elimination_scratch,
    max_buckets,
    place_factors,
    score_factors,
)
from ..inference.elimination_order import elimination_order, primal_graph
from ..inference.junction_tree import JunctionTree, Tables, junction_tree
from .to_tables import write_out
from .watch import solving_time

_PLANS, _FRESH = 24, 0.05
_PATIENCE = 6
_FIRST_CYCLE, _LONGER = 12, 1.5
_DISTURBANCE = 0.1
_MOST_COUNTERS = 1e6


class _Block(NamedTuple):
    """A plan to optimise all variables but a cutset."""

    plan: JunctionTree
    scratch: EliminationScratch
    base: np.ndarray
    slots: np.ndarray
    back: np.ndarray


def _make_block(tables, order):
    plan = junction_tree(tables, order)
    base = np.empty(len(tables.table_ptr), dtype=np.int64)
    back = np.empty(plan.back_ptr[-1], dtype=np.uint8)
    return _Block(plan, elimination_scratch(plan), base, np.zeros(plan.room[0]), back)


def _optimise(tables, block, labels):
    """Make the variables of a block optimal, given the others."""
    plan = block.plan
    place_factors(tables, plan, tables.table_ptr, labels, block.base)
    n = len(plan.variable)
    max_buckets(
        tables, plan, block.base, plan.live_ptr, block.slots, block.back, 0, n, block.scratch
    )
    best_labels(tables, plan, block.back, 0, n, labels)


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
        self._scale = self._mean_span(hard)
        self._blocks = []
        self._factor_of = csr_array(
            (
                np.ones(len(hard.scope), dtype=np.int8),
                hard.scope,
                hard.scope_ptr,
            ),
            shape=(len(hard.table_ptr), len(hard.n_states)),
        )
        self.is_exact = False

    def _mean_span(self, hard):
        """Mean range of the finite scores of a table."""
        starts = np.unique(hard.table_ptr)
        finite = np.isfinite(hard.scores)
        top = np.maximum.reduceat(np.where(finite, hard.scores, -np.inf), starts)
        bottom = np.minimum.reduceat(np.where(finite, hard.scores, np.inf), starts)
        spans = (top - bottom)[np.isfinite(top - bottom)]
        return float(spans[spans > 0].mean()) if (spans > 0).any() else 0.0

    def _block(self):
        """A block: one of those there are, or a new one."""
        rng = self._rng
        if len(self._blocks) >= _PLANS and rng.random() >= _FRESH:
            return self._blocks[rng.integers(len(self._blocks))]
        ranks = rng.permutation(len(self._tables.n_states))
        found = elimination_order(
            self._all,
            self._tables.n_states,
            max_table=self._max_table,
            rank=ranks,
            leave_out=True,
        )
        self.is_exact = len(found.fixed) == 0
        block = _make_block(self._tables, found.order)
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
            _optimise(tables, _make_block(tables, order), whole)
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

    def _disturbed(self, amount):
        """The tables with noise on every score."""
        noise = self._rng.standard_normal(self._tables.scores.size)
        return self._tables._replace(scores=self._tables.scores + amount * self._scale * noise)

    def _descend(self, labels, stops):
        """Passes until several in a row gain nothing."""
        value, idle = self._scores(labels).sum(), 0
        while idle < _PATIENCE:
            trial = labels.copy()
            _optimise(self._tables, self._block(), trial)
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
            tables = self._disturbed(_DISTURBANCE * (1.0 - k / length))
            _optimise(tables, self._block(), labels)
            if stops():
                break
        for _ in range(_PATIENCE // 2):
            _optimise(self._tables, self._block(), labels)
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


def reoptimise(graph, labels, rng, on_pass=None, max_table=2**14, time_limit=None):
    """Make a labelling better by exact optimisation of most variables at a time.

    Each pass leaves out a random cutset, which keeps its labels, such that elimination of all other
    variables needs no table above `max_table`. It ends when passes gain nothing; with a time limit
    it goes on from disturbed labellings.

    Bidyuk and Dechter 2007, Cutset sampling for Bayesian networks (the cutsets); Hamze and de
    Freitas 2004, From fields to trees (blocks of all but a few variables).
    """
    began, is_over = solving_time(), False

    def stops():
        nonlocal is_over
        share = 0.0
        if time_limit is not None:
            share = (solving_time() - began) / time_limit
        if not is_over:
            is_over = share >= 1.0 or (on_pass is not None and bool(on_pass(share)))
        return is_over

    try:
        optimiser = Reoptimiser(graph, rng, max_table)
    except ValueError:
        return np.array(labels, dtype=np.int64)
    return optimiser.run(labels, stops, more=time_limit is not None)

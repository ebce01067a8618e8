"""Tables of a factor graph: implicit factors become chains of hidden counters."""

from itertools import pairwise

import numpy as np

from ..constraints import AtMostOne, ExactlyOne, Or
from ..factors import Cardinality, Potts, Table
from .costs import spread

_MOST_CELLS = 1 << 22  # of the tables of one implicit factor
_LARGEST_INTEGER = 1e9  # whose sums are still exact
_SMALL = 4  # variables; up to here a table holds all configurations


class TooManyVariables(TypeError):
    """A factor has too many variables for a table or a chain of counters."""


class Expanded:
    """Unaries and tables with the scores of a graph."""

    def __init__(self, graph, duals=None):
        ends = graph.state_ptr
        self.unaries = [graph.unary[a:b].copy() for a, b in pairwise(ends)]
        self.tables, self.hidden = [], []
        region_table = {}
        region = graph.n_variables
        for batch in graph.factors:
            for row in range(len(batch)):
                if isinstance(batch, (Table, Potts)):
                    region_table[region] = len(self.tables)
                    self.tables.append(_table(batch, row, graph.n_states))
                else:
                    self._implicit(batch, row, region - graph.n_variables)
                region += 1
        if duals is not None:
            self._move(graph.regions, np.asarray(duals, dtype=np.float64), region_table)

    def _implicit(self, batch, row, number):
        scope = batch.scopes[row]
        if len(scope) <= _SMALL:
            self.tables.append((tuple(scope.tolist()), _all_scores(batch, row)))
            return
        n_counts, last = _counts(batch, row)
        if 2 * (n_counts**2).sum() > _MOST_CELLS:
            raise TooManyVariables(
                f"branch and bound does not take factor {number}: {type(batch).__name__} of "
                f"{len(scope)} variables"
            )
        flip = _negated(batch, row)
        before, counts = int(scope[0]), np.array([flip[0], 1 - flip[0]])
        for d in range(1, len(scope)):
            after = counts[:, None] + np.array([flip[d], 1 - flip[d]])
            if isinstance(batch, Or):
                after = np.minimum(after, 1)
            size = int(n_counts[d])
            scores = np.where(after[:, :, None] == np.arange(size), 0.0, -np.inf)
            itself = len(self.unaries)
            self.unaries.append(last if d == len(scope) - 1 else np.zeros(size))
            self.tables.append(((before, int(scope[d]), itself), scores))
            self.hidden.append((itself, before, int(scope[d]), np.minimum(after, size - 1)))
            before, counts = itself, np.arange(size)

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
    unit = 0
    for scores in (graph.unary, *map(_numbers_of, graph.factors)):
        scores = scores[scores > -np.inf]
        if (np.abs(scores) > _LARGEST_INTEGER).any() or (scores != np.trunc(scores)).any():
            return 0.0
        unit = int(np.gcd.reduce(scores.astype(np.int64), initial=unit, axis=None))
    return float(unit)


def _numbers_of(batch):
    if isinstance(batch, Table):
        return batch.tables
    if isinstance(batch, Potts):
        return batch.weights
    return batch.scores_by_count if isinstance(batch, Cardinality) else np.zeros(0)


def _table(batch, row, n_states):
    scope = tuple(batch.scopes[row].tolist())
    if isinstance(batch, Table):
        return scope, batch.tables[0 if batch.shared else row]
    shape = n_states[list(scope)]
    same = np.arange(shape[0])[:, None] == np.arange(shape[1])
    return scope, np.where(same, batch.weights[row], 0.0)


def _negated(batch, row):
    flags = getattr(batch, "negated", None)
    return np.zeros(batch.arity, dtype=np.int64) if flags is None else flags[row].astype(np.int64)


def _counts(batch, row):
    """States of the counter after each variable, and scores of the last one's."""
    arity = batch.arity
    if isinstance(batch, Cardinality):
        scores = batch.scores_by_count
        return np.arange(2, arity + 2), scores[row % len(scores)].copy()
    last = np.zeros(2)
    if isinstance(batch, (ExactlyOne, Or)):
        last[0] = -np.inf
    elif not isinstance(batch, AtMostOne):
        raise TypeError(f"branch and bound does not know the factors {type(batch).__name__}")
    return np.full(arity, 2), last


def _all_scores(batch, row):
    """The table of a small implicit factor."""
    arity = batch.arity
    literals = np.indices((2,) * arity) ^ _negated(batch, row).reshape(-1, *[1] * arity)
    count = literals.sum(axis=0)
    if isinstance(batch, Cardinality):
        scores = batch.scores_by_count
        return scores[row % len(scores)][count]
    return np.where(batch.holds(count), 0.0, -np.inf)

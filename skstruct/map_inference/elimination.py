"""The best labelling by elimination: max-product on forests, junction trees else."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..core.offsets import ends_of
from ..inference.bucket_elimination import (
    best_labels,
    elimination_scratch,
    max_buckets,
    place_factors,
)
from ..inference.elimination_order import best_elimination_order, elimination_order, primal_graph
from ..inference.junction_tree import junction_tree
from .arguments import check_real
from .budget import Stopped
from .scoring import Incumbent
from .to_tables import write_out

# About half a second of work: Ctrl-C and the time limit come through between pieces.
_PIECE = 2e8
_LARGEST_TABLE = 2.0**62  # sizes are counted in integers


def elimination_cost(graph, max_table=2.0**30):
    """What elimination would cost, without making a table."""
    try:
        tables = write_out(graph, max_table)
    except ValueError:
        return np.inf, np.inf, np.inf
    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    found = best_elimination_order(primal, tables.n_states, max_table=max_table)
    if not found.largest < np.inf:
        return np.inf, np.inf, np.inf
    # Without variables to eliminate the largest table is the constant.
    largest = np.log10(max(found.largest, 1.0))
    return float(found.width), round(float(largest), 3), found.total


def is_forest(graph):
    """Whether the graph of variables and factors has no cycle."""
    n, first, ends = graph.n_variables, graph.n_variables, [np.empty((0, 2), dtype=np.int64)]
    for batch in graph.factors:
        factors = np.repeat(np.arange(first, first + len(batch)), batch.arity)
        ends.append(np.stack((factors, batch.scopes.ravel()), axis=1))
        first += len(batch)
    rows, columns = np.concatenate(ends).T
    if len(rows) > n + graph.n_factors:
        return False
    edges = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(first, first))
    return len(rows) == first - connected_components(edges, directed=False)[0]


class Eliminator:
    """Elimination in one order, of tables of one form."""

    def __init__(self, tables, order):
        self.plan = plan = junction_tree(tables, order)
        self._scratch = elimination_scratch(plan)
        self._base = np.empty(len(tables.table_ptr), dtype=np.int64)
        self._slots = np.zeros(plan.room[0])
        self._back = np.empty(plan.back_ptr[-1], dtype=np.uint8)

    def run(self, tables, labels, check=None):
        """Make the variables of the order optimal given the others, in place; the score."""
        plan, base, slots, back = self.plan, self._base, self._slots, self._back
        place_factors(tables, plan, tables.table_ptr, labels, base)
        done, n, begin = ends_of(plan.size), len(plan.variable), 0
        while begin < n:
            end = min(max(int(np.searchsorted(done, done[begin] + _PIECE)), begin + 1), n)
            max_buckets(tables, plan, base, plan.live_ptr, slots, back, begin, end, self._scratch)
            begin = end
            if begin < n and check is not None:
                check(done[begin] / done[n])
        best_labels(tables, plan, back, labels)
        return float(slots[0] + tables.scores[base[plan.constant]].sum())


def _solve(method, graph, tables, order, tol, budget):
    """The result of an elimination."""
    incumbent = Incumbent(graph, tol, budget)
    labels = np.zeros(len(tables.n_states), dtype=np.int64)
    try:
        value = Eliminator(tables, order).run(tables, labels, budget.check)
    except Stopped:
        incumbent.begin()
        return incumbent.result(method, "stopped before the elimination was done", 0, False)
    labels = labels[: graph.n_variables]
    score = incumbent.offer(labels, graph.score(labels))
    incumbent.record(1, max(score, value + graph.offset))
    return incumbent.result(method, "solved by elimination", 1, True)


def solve_junction_tree(graph, *, tol, max_iter, rng, budget, max_table=2**24):
    """The best labelling by bucket elimination along a junction tree.

    Dechter 1999, Bucket elimination: a unifying framework for reasoning.
    """
    max_table = min(check_real("max_table", max_table, 1), _LARGEST_TABLE)
    tables = write_out(graph, max_table)
    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    found = best_elimination_order(primal, tables.n_states, max_table=max_table)
    if not found.largest < np.inf:
        raise ValueError(
            f"the junction tree would need a table of more than max_table={max_table:g} entries: "
            'try method="auto", or a larger max_table'
        )
    return _solve("junction-tree", graph, tables, found.order, tol, budget)


def solve_max_product(graph, *, tol, max_iter, rng, budget):
    """The best labelling of a forest of variables and factors, by max-product.

    Kschischang, Frey, Loeliger 2001, Factor graphs and the sum-product algorithm.
    """
    if not is_forest(graph):
        raise ValueError(
            'max-product is for graphs without cycles, this one has some: try method="auto" or '
            '"junction-tree"'
        )
    tables = write_out(graph, np.inf)
    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    order = elimination_order(primal, tables.n_states).order
    return _solve("max-product", graph, tables, order, tol, budget)

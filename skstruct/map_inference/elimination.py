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
from .result import MAPResult, Records
from .scoring import sum_of_maxima
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


def eliminate(tables, order, on_pass=None):
    """The best labelling and its score, by one elimination; None if `on_pass` stops it."""
    plan = junction_tree(tables, order)
    scratch = elimination_scratch(plan)
    labels = np.zeros(len(tables.n_states), dtype=np.int64)
    base = np.empty(len(tables.table_ptr), dtype=np.int64)
    place_factors(tables, plan, tables.table_ptr, labels, base)
    slots, back = np.zeros(plan.room[0]), np.empty(plan.back_ptr[-1], dtype=np.uint8)
    done, n = ends_of(plan.size), len(plan.variable)
    begin = 0
    while begin < n:
        end = min(max(int(np.searchsorted(done, done[begin] + _PIECE)), begin + 1), n)
        max_buckets(tables, plan, base, plan.live_ptr, slots, back, begin, end, scratch)
        begin = end
        if begin < n and on_pass is not None and on_pass(done[begin] / done[n]):
            return None
    best_labels(tables, plan, back, 0, n, labels)
    return labels, float(slots[0] + tables.scores[base[plan.constant]].sum())


def _as_result(graph, tables, order, on_pass, method):
    """The result of an elimination."""
    records = Records(on_pass)
    found = eliminate(tables, order, on_pass)
    if found is None:
        labels = np.zeros(graph.n_variables, dtype=np.int64)
        records.add(0, sum_of_maxima(graph.regions), graph.score(labels))
        message = "stopped before the elimination was done"
    else:
        labels = found[0][: graph.n_variables]
        score = graph.score(labels)
        records.add(1, max(score, found[1] + graph.offset), score)
        message = "solved by elimination"
    return MAPResult(
        labels=labels,
        score=records.score,
        bound=records.bound,
        optimal=found is not None,
        history_=records.history(),
        method=method,
        n_iter=int(found is not None),
        converged=found is not None,
        message=message,
    )


def solve_junction_tree(graph, *, tol, max_iter, time_limit, rng, on_pass, max_table=2**24):
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
    return _as_result(graph, tables, found.order, on_pass, "junction-tree")


def solve_max_product(graph, *, tol, max_iter, time_limit, rng, on_pass):
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
    return _as_result(graph, tables, order, on_pass, "max-product")

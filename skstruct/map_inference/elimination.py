"""The best labelling by elimination: max-product on forests, junction trees else."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..core.arguments import check_real
from ..core.offsets import ends_of
from ..inference.bucket_elimination import (
    best_labels,
    elimination_scratch,
    max_buckets,
    place_factors,
)
from ..inference.elimination_order import best_elimination_order, elimination_order, primal_graph
from ..inference.junction_tree import Tables, junction_tree
from .budget import Stopped
from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table, binary_tables, numbered
from .scoring import Incumbent

# Factor graphs as tables only: what elimination works on.

_SMALL_ARITY = 8


class _Writer:
    """Collects scopes and tables of factors."""

    def __init__(self, graph):
        self.n_states = [graph.n_states]
        self.n_variables = graph.n_variables
        n = graph.n_variables
        self.arities, self.scopes = [np.ones(n, dtype=np.int64)], [np.arange(n)]
        self.starts, self.scores = [graph.state_ptr[:-1]], [graph.unary]
        self.n_scores = graph.unary.size

    def add(self, scopes, tables, rows=None):
        """Factors of one arity; `rows`: which table each has, by default its own or the one."""
        m, arity = scopes.shape
        if rows is None:
            rows = np.zeros(m, dtype=np.int64) if len(tables) == 1 else np.arange(m)
        rows = rows.reshape(m)
        flat = tables.reshape(len(tables), -1)
        self.arities.append(np.full(m, arity))
        self.scopes.append(scopes.ravel())
        self.starts.append(self.n_scores + rows * flat.shape[1])
        self.scores.append(flat.ravel())
        self.n_scores += flat.size

    def counters(self, m, states):
        """New variables, one for each of m factors."""
        first = self.n_variables
        self.n_states.append(np.full(m, states))
        self.n_variables += m
        return np.arange(first, first + m)

    def tables(self):
        """All of it."""
        return Tables(
            np.concatenate(self.n_states),
            ends_of(np.concatenate(self.arities)),
            np.concatenate(self.scopes).astype(np.int32),
            np.concatenate(self.starts),
            np.concatenate(self.scores),
        )


def _write_potts(writer, batch, n_states):
    """Each weight's table once for each pair of state counts."""
    sizes = n_states[batch.scopes]
    for pair in np.unique(sizes, axis=0):
        of_pair = (sizes == pair).all(axis=1)
        weights, rows = np.unique(batch.weights[of_pair], return_inverse=True)
        tables = np.where(np.eye(*pair, dtype=bool), weights[:, None, None], 0.0)
        writer.add(batch.scopes[of_pair], tables, rows)


def _write_chain(writer, batch):
    """A chain of counters: each is the one before plus a literal."""
    m, arity = batch.scopes.shape
    is_count = isinstance(batch, Cardinality)
    before = batch.scopes[:, 0]
    negated = np.zeros(batch.scopes.shape, dtype=bool) if is_count else batch.negated
    for j in range(1, arity):
        count, literal = np.ogrid[: j + 1 if is_count else 2, :2]
        total, scopes = count + literal, [before, batch.scopes[:, j]]
        if j < arity - 1:
            # A second true literal is forbidden by having no state to go to; of Or one counts.
            total = np.minimum(total, 1) if isinstance(batch, Or) else total
            states = j + 2 if is_count else 2
            tables = np.where(total[..., None] == np.arange(states), 0.0, -np.inf)[None]
            before = writer.counters(m, states)
            scopes.append(before)
        elif is_count:
            tables = batch.scores_by_count[:, total]
        else:
            tables = np.where(batch.holds(total), 0.0, -np.inf)[None]
        rows = None
        if not is_count:
            # Literals that are negated have the table with their axis reversed.
            tables = np.concatenate(
                [tables, tables[:, :, ::-1], tables[:, ::-1], tables[:, ::-1, ::-1]]
            )
            rows = negated[:, j] + 2 * (negated[:, 0] if j == 1 else 0)
        writer.add(np.stack(scopes, axis=1), tables, rows)


def chain_entries(batch, one=False):
    """Entries of the tables of a batch's chains of counters, or of those of one of its factors."""
    arity = batch.arity
    if arity <= _SMALL_ARITY:
        return 0
    if isinstance(batch, Cardinality):
        n_last = 1 if one else len(batch.scores_by_count)
        return arity**3 * 2 // 3 + n_last * 2 * arity
    return 32 * arity


def write_out(graph, max_table):
    """Tables of all factors; implicit ones through counters, new variables after the others."""
    writer = _Writer(graph)
    for first, batch in numbered(graph.factors):
        if isinstance(batch, Table):
            writer.add(batch.scopes, batch.tables)
        elif isinstance(batch, Potts):
            _write_potts(writer, batch, graph.n_states)
        elif not isinstance(batch, (Cardinality, ExactlyOne, AtMostOne, Or)):
            raise ValueError(f"factor {first}: {type(batch).__name__} has no tables")
        elif chain_entries(batch) > max_table:
            raise ValueError(
                f"factor {first}: {type(batch).__name__} of {batch.arity} variables would need "
                f"counters of {chain_entries(batch)} entries, max_table is {max_table:g}"
            )
        elif batch.arity <= _SMALL_ARITY:
            rows, of_row = None, slice(None)
            if not isinstance(batch, Cardinality):
                _, of_row, rows = np.unique(
                    batch.negated, axis=0, return_index=True, return_inverse=True
                )
            writer.add(batch.scopes, binary_tables(batch, of_row), rows)
        else:
            _write_chain(writer, batch)
    return writer.tables()


# About half a second of work: Ctrl-C and the time limit come through between pieces.
_PIECE = 2e8
_LARGEST_TABLE = 2.0**62  # sizes are counted in integers


def elimination_cost(graph, max_table=2.0**30):
    """Return the entries of all tables of an elimination, without making one."""
    try:
        tables = write_out(graph, max_table)
    except ValueError:
        return np.inf
    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    found = best_elimination_order(primal, tables.n_states, max_table=max_table)
    return found.total if found.largest < np.inf else np.inf


def is_forest(graph):
    """Return whether the graph of variables and factors has no cycle."""
    n, ends = graph.n_variables, [np.empty((0, 2), dtype=np.int64)]
    for first, batch in numbered(graph.factors):
        factors = n + first + np.repeat(np.arange(len(batch)), batch.arity)
        ends.append(np.stack((factors, batch.scopes.ravel()), axis=1))
    rows, columns = np.concatenate(ends).T
    n_nodes = n + graph.n_factors
    if len(rows) > n_nodes:
        return False
    edges = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=2 * (n_nodes,))
    return len(rows) == n_nodes - connected_components(edges, directed=False)[0]


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
        best_labels(tables, plan, back, 0, n, labels)
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
    """The best labelling by bucket elimination along a junction tree (Dechter 1999)."""
    max_table = min(check_real("max_table", max_table, 1, finite=False), _LARGEST_TABLE)
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
    """The best labelling of a forest by max-product (Kschischang, Frey, Loeliger 2001)."""
    if not is_forest(graph):
        raise ValueError(
            'max-product is for graphs without cycles, this one has some: try method="auto" or '
            '"junction-tree"'
        )
    tables = write_out(graph, np.inf)
    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    order = elimination_order(primal, tables.n_states).order
    return _solve("max-product", graph, tables, order, tol, budget)

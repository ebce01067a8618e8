"""Factor graphs as tables only: what elimination works on."""

import numpy as np

from ..core.offsets import ends_of
from ..inference.junction_tree import Tables
from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table, binary_tables

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


def chain_entries(batch):
    """Entries of the tables of a batch's chains of counters."""
    arity = batch.arity
    if arity <= _SMALL_ARITY:
        return 0
    if isinstance(batch, Cardinality):
        return arity**3 * 2 // 3 + len(batch.scores_by_count) * 2 * arity
    return 32 * arity


def write_out(graph, max_table):
    """Tables of all factors; implicit ones through counters, new variables after the others."""
    writer, first = _Writer(graph), 0
    for batch in graph.factors:
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
        first += len(batch)
    return writer.tables()

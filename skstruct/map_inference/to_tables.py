"""Factor graphs as tables only: what elimination works on."""

import numpy as np

from ..core.offsets import ends_of
from ..inference.junction_tree import Tables
from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table

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


def _write_small(writer, batch):
    """The table of every factor of few binary variables."""
    arity, m = batch.arity, len(batch)
    labels = np.indices((2,) * arity).reshape(arity, -1)
    if isinstance(batch, Cardinality):
        writer.add(batch.scopes, batch.scores_by_count[:, labels.sum(axis=0)])
        return
    kinds, rows = np.unique(batch.negated, axis=0, return_inverse=True)
    counts = (labels[None] != kinds[:, :, None]).sum(axis=1)
    writer.add(batch.scopes, np.where(batch.holds(counts), 0.0, -np.inf), rows.reshape(m))


def _steps(before, after, most):
    """Table over a count, a literal and the next count; counts stop at `most` (None: do not)."""
    count, literal, following = np.ogrid[:before, :2, :after]
    total = count + literal if most is None else np.minimum(count + literal, most)
    return np.where(following == total, 0.0, -np.inf)


def _write_chain(writer, batch):
    """A chain of counters: each is the one before plus a literal."""
    m, arity = batch.scopes.shape
    is_count = isinstance(batch, Cardinality)
    # A second true literal is forbidden by having no state to go to; of Or only one counts.
    most = 1 if isinstance(batch, Or) else None
    before = batch.scopes[:, 0]
    negated = np.zeros(batch.scopes.shape, dtype=bool) if is_count else batch.negated
    flip = negated[:, 0]
    for j in range(1, arity):
        states = j + 1 if is_count else 2
        is_last = j == arity - 1
        if is_last:
            count, literal = np.ogrid[:states, :2]
            total = count + literal
            if is_count:
                tables = batch.scores_by_count[:, total]
            else:
                tables = np.where(batch.holds(total), 0.0, -np.inf)[None]
        else:
            tables = _steps(states, j + 2 if is_count else 2, most)[None]
        variants = np.stack(
            [tables, tables[:, ::-1], tables[:, :, ::-1], tables[:, ::-1, ::-1]], axis=1
        ).reshape(4 * len(tables), *tables.shape[1:])
        which = 2 * negated[:, j] + (flip if j == 1 else 0)
        rows = which + 4 * (np.arange(m) if len(tables) > 1 else 0)
        scopes = [before, batch.scopes[:, j]]
        if not is_last:
            before = writer.counters(m, tables.shape[-1])
            scopes.append(before)
        if is_count:
            variants, rows = tables, None
        writer.add(np.stack(scopes, axis=1), variants, rows)


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
            _write_small(writer, batch)
        else:
            _write_chain(writer, batch)
        first += len(batch)
    return writer.tables()

"""Factors that lie one after the other in a file, gathered by shape into batches of tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..factors import Cardinality, Table
from .text import Numbers

# What a few bytes may ask for, by a number of states or a default cost, and each further byte.
_STATES, _CELLS, _PER_BYTE = 2**22, 2**24, 64
MOST_AXES = 31  # of numpy's arrays, with one for the factors of a batch


def most_states(n_bytes: int) -> int:
    """How many states the variables of a text of `n_bytes` may have in all."""
    return _STATES + _PER_BYTE * n_bytes


def check_states(numbers: Numbers, at: np.ndarray, n_states: np.ndarray) -> None:
    """Raise at the first of the places `at` where the states are too many in all."""
    most = most_states(len(numbers.text))
    numbers.check(at, np.cumsum(n_states) > most, f"variables of at most {most} states in all")


def check_cells(numbers: Numbers, at: np.ndarray, arity: np.ndarray, cells: np.ndarray) -> None:
    """Raise at the first of the places `at` where a table, or all before it, are too large."""
    numbers.check(at, arity > MOST_AXES, f"a table of at most {MOST_AXES} variables")
    most = most_cells(len(numbers.text))
    numbers.check(at, np.cumsum(cells) > most, f"tables of at most {most} cells in all")


def most_cells(n_bytes: int) -> int:
    """How many cells the tables of a text of `n_bytes` may have in all."""
    return _CELLS + _PER_BYTE * n_bytes


def ragged(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """start[0], ..., start[0] + length[0] - 1, start[1], ..."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(start - (ends - length), length)


def check_scopes(
    numbers: Numbers, arity: np.ndarray, scope: np.ndarray, starts: np.ndarray
) -> None:
    """Raise where a variable stands twice in a scope; `starts`: the scopes' places."""
    first = np.cumsum(arity) - arity
    for a in np.unique(arity[arity > 1]):
        members = np.flatnonzero(arity == a)
        found = _first_repeated(scope[first[members][:, None] + np.arange(a)])
        if found is not None:
            numbers.fail(
                int(starts[members[found[0]]]) + found[1],
                f"different variables in the scope of factor {members[found[0]]}",
            )


def _first_repeated(scopes):
    """Row and column of the first variable that stands twice in its row."""
    order = np.argsort(scopes, axis=1, kind="stable")
    ordered = np.take_along_axis(scopes, order, axis=1)
    rows = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if rows.size == 0:
        return None
    row = int(rows[0])
    again = np.flatnonzero(ordered[row, 1:] == ordered[row, :-1]) + 1
    return row, int(order[row, again].min())


def table_sizes(n_states: np.ndarray, arity: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Cells of each factor's table, as floats: they may be too many for an integer."""
    sizes = np.ones(arity.size)
    starts = np.cumsum(arity) - arity
    filled = arity > 0
    if filled.any():
        states = n_states[scope].astype(np.float64)
        sizes[filled] = np.multiply.reduceat(states, starts[filled])
    return sizes


def by_shape(
    n_states: np.ndarray, arity: np.ndarray, scope: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, ...]]]:
    """Factors of one shape at a time: which, their scopes (m, arity) and the shape."""
    starts = np.cumsum(arity) - arity
    groups = []
    for a in np.unique(arity):
        members = np.flatnonzero(arity == a)
        scopes = scope[starts[members][:, None] + np.arange(a)]
        shapes = n_states[scopes]
        if a == 0:
            inverse = np.zeros(members.size, dtype=np.int64)
        elif shapes.max() ** float(a) < 2**62:
            keys = np.zeros(members.size, dtype=np.int64)
            for column in shapes.T:
                keys = keys * int(shapes.max()) + column - 1
            inverse = np.unique(keys, return_inverse=True)[1]
        else:
            inverse = np.unique(shapes, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(inverse, kind="stable")
        cuts = np.flatnonzero(np.diff(inverse[order])) + 1
        groups += [
            (members[rows], scopes[rows], tuple(shapes[rows[0]].tolist()))
            for rows in np.split(order, cuts)
        ]
    yield from sorted(groups, key=lambda group: int(group[0][0]))


def tables(scopes: np.ndarray, scores: np.ndarray, n_states: np.ndarray) -> Table:
    """A batch of tables; a constant of -inf forbids the states of the first variable instead."""
    if scopes.shape[1] == 0:
        if np.isneginf(scores).any():
            return Table([0], np.full(n_states[0], -np.inf))
        scores = np.broadcast_to(scores, len(scopes))
    return Table(scopes, scores)


def counts_or_tables(scopes, scores, n_states, counted):
    """Tables, or scores of how many variables have label 1."""
    scopes = np.asarray(scopes, dtype=np.int64)
    return Cardinality(scopes, scores) if counted else tables(scopes, scores, n_states)


def forced_states(n_states: np.ndarray, evidence: dict[int, int]) -> list[Table]:
    """Unary tables that are 0 at the observed state and -inf elsewhere."""
    variables = np.array(sorted(evidence), dtype=np.int64)
    factors = []
    for n in np.unique(n_states[variables]):
        chosen = variables[n_states[variables] == n]
        scores = np.full((chosen.size, n), -np.inf)
        scores[np.arange(chosen.size), [evidence[v] for v in chosen.tolist()]] = 0.0
        factors.append(Table(chosen[:, None], scores))
    return factors

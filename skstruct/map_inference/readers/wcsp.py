"""Weighted constraint satisfaction problems: costs in tables with a default."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import FactorGraph
from .tables import MOST_CELLS, by_shape, check_scopes, ragged, table_sizes, tables
from .text import Numbers, read_bytes

_HINT = "cost functions in intension (a default cost of -1 and a keyword) are not read"


def read_wcsp(path: Any) -> FactorGraph:
    """Read a weighted constraint satisfaction problem (``.wcsp``) of cost functions in extension.

    The score of a labelling is minus its cost. A cost of at least the problem's upper bound is a
    hard constraint: its score is -inf. (The sum of allowed costs may pass the bound: nothing
    forbids such labellings, whose score is at most minus the bound.)

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip or xz.

    Returns
    -------
    FactorGraph
        The model. Tables of one shape form one batch, so factors are not in the file's order.

    Raises
    ------
    ValueError
        If the file is malformed (the message names the line and the token), or if it has cost
        functions in intension (keywords such as ``salldiff``) or interval variables, which are no
        tables.

    See Also
    --------
    skstruct.map_inference.read_uai : Reads UAI files.
    skstruct.map_inference.read_cfn : Reads CFN files.
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.

    References
    ----------
    toulbar2, Weighted Constraint Satisfaction Problem file format (wcsp).
    https://toulbar2.github.io/toulbar2/formats/wcspformat.html

    Examples
    --------
    >>> from io import StringIO
    >>> from skstruct.map_inference import read_wcsp
    >>> graph = read_wcsp(StringIO("name 2 3 1 10   2 3   2 0 1 4 2   0 0 1   1 2 10"))
    >>> graph.score([[0, 0], [0, 1], [1, 2]])
    array([ -1.,  -4., -inf])
    """
    name, text = read_bytes(path)
    numbers = Numbers(name, text, n_words=1, hint=_HINT)
    n = numbers.integer(0, 1, len(numbers), "the number of variables, at least 1")
    most = numbers.integer(1, 1, np.inf, "the largest number of states")
    n_functions = numbers.integer(2, 0, np.inf, "the number of cost functions")
    numbers.need(3, 1, "the upper bound")
    top = numbers.values.item(3)
    numbers.check(np.array([3]), np.array([not top > 0]), "an upper bound > 0")
    numbers.need(4, n, f"the numbers of states of {n} variables")
    n_states = numbers.integers(
        slice(4, 4 + n), 1, most, "a number of states (no interval variable), from 1 to {high}"
    )
    if most != n_states.max():
        numbers.fail(1, f"{n_states.max()}, the largest number of states")
    head, scope_at, n_tuples, tuples = _functions(numbers, n, n_functions, 4 + n)
    arity = np.abs(numbers.values[head]).astype(np.int64)
    default = numbers.values[scope_at + arity]
    places = ragged(scope_at, arity)
    scope = numbers.integers(places, 0, n - 1, "a variable of a scope, from 0 to {high}")
    check_scopes(numbers, arity, scope, scope_at)
    numbers.check(scope_at + arity, ~(default >= 0), "a default cost >= 0")
    too_many = table_sizes(n_states, arity, scope) > MOST_CELLS
    numbers.check(head, too_many, f"a cost function of at most {MOST_CELLS} tuples")
    factors = []
    for members, scopes, shape in by_shape(n_states, arity, scope):
        costs = _costs(numbers, tuples[members], n_tuples[members], default[members], shape)
        scores = np.where(costs >= top, -np.inf, 0.0 - costs)
        factors.append(tables(scopes, scores.reshape(members.size, *shape), n_states))
    return FactorGraph(n_states, factors)


def _functions(numbers, n, n_functions, at):
    """Where each function and its scope begin, how many tuples it has, and where they begin."""
    numbers.need(at, 3 * n_functions, f"{n_functions} cost functions")
    head, scope_at, n_tuples, tuples = np.empty((4, n_functions), dtype=np.int64)
    shared = []
    for f in range(n_functions):
        head[f] = at
        signed = numbers.integer(at, -n, n, f"the number of variables of function {f}, at most {n}")
        scope_at[f] = at + 1
        at += 2 + abs(signed)
        count = numbers.integer(
            at, -n_functions, len(numbers), f"the number of tuples of function {f}"
        )
        if count < 0:
            if -count > len(shared):
                numbers.fail(at, f"the number of tuples, or one of {len(shared)} shared functions")
            of = shared[-count - 1]
            if abs(signed) != int(abs(numbers.values[head[of]])):
                numbers.fail(at, f"a shared function of {abs(signed)} variables")
            n_tuples[f], tuples[f] = n_tuples[of], tuples[of]
        else:
            n_tuples[f], tuples[f] = count, at + 1
        if signed < 0:
            shared.append(f)
        at += 1 + max(count, 0) * (abs(signed) + 1)
        numbers.need(at, 0, f"the {count} tuples and costs of function {f}")
    numbers.end(at, "the last cost function")
    return head, scope_at, n_tuples, tuples


def _costs(numbers, start, count, default, shape):
    """The tables of functions of one shape, flat."""
    size, width = int(np.prod(shape, dtype=np.int64)), len(shape) + 1
    costs = np.repeat(default[:, None], size, axis=1)
    at = ragged(start, count * width)[::width]
    cells = np.zeros(at.size, dtype=np.int64)
    for d, n in enumerate(shape):
        cells = cells * n + numbers.integers(at + d, 0, n - 1, "a state from 0 to {high}")
    cells += np.repeat(np.arange(start.size), count) * size
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if again.size:
        numbers.fail(int(at[order[again[0] + 1]]), "a tuple that was not given before")
    given = at + len(shape)
    numbers.check(given, ~(numbers.values[given] >= 0), "a cost >= 0")
    costs.ravel()[cells] = numbers.values[given]
    return costs

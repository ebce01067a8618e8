"""Weighted constraint satisfaction problems: costs in tables with a default."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.offsets import places_of
from ...core.text_files import read_bytes
from ..graph import FactorGraph
from .intension import PARAMETERS, fits, parameters, pieces
from .text import (
    Numbers,
    by_shape,
    check_cells,
    check_scopes,
    check_states,
    counts_or_tables,
    fill_cells,
    most_cells,
    table_sizes,
    tables,
)

_MOST_SHARED = 3  # variables of a function whose default cost a reference may leave out


def read_wcsp(path: Any) -> FactorGraph:
    """Read a weighted constraint satisfaction problem (``.wcsp``).

    The score of a labelling is minus its cost. Costs of at least the problem's upper bound are hard
    constraints, with score -inf. Sums of allowed costs that reach the bound are allowed, unlike in
    toulbar2; their score is at most minus the bound. Read more in the :ref:`User Guide
    <map-files>`.

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip, bzip2 or xz.

    Returns
    -------
    FactorGraph
        The model, with factors batched by the shape of tables. Functions that share a table have
        the default cost of the first. Functions in intension become tables of at most 65536 cells,
        or factors of pairs or of counts.

    Raises
    ------
    ValueError
        If the file is malformed, or has interval variables, an unsupported function, or domains or
        tables out of proportion to its size. The message names the line and the token.

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
    >>> text = "name 2 3 2 10   2 3   2 0 1 4 2   0 0 1   1 2 10   2 1 0 -1 >= 1 0"
    >>> graph = read_wcsp(StringIO(text))
    >>> graph.score([[0, 0], [0, 1], [1, 2]])
    array([-inf,  -4., -inf])
    """
    name, text = read_bytes(path)
    numbers = Numbers(name, text, n_words=1, keywords=True)
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
    check_states(numbers, 4 + np.arange(n), n_states)
    functions = _functions(numbers, n, n_functions, 4 + n)
    head, arity = functions.head, functions.arity
    places = places_of(head + 1, arity)[1]
    scope = numbers.integers(places, 0, n - 1, "a variable of a scope, from 0 to {high}")
    check_scopes(numbers, arity, scope, head + 1)
    factors = _in_extension(numbers, functions, scope, n_states, top)
    factors += _in_intension(numbers, functions, scope, n_states, top)
    return FactorGraph(n_states, factors)


class _Functions(NamedTuple):
    """Start, size and costs of each function; those in extension have the tuples of `owner`."""

    head: np.ndarray
    arity: np.ndarray
    owner: np.ndarray
    n_tuples: np.ndarray
    tuples: np.ndarray
    calls: dict[int, dict[str, Any]]


def _functions(numbers, n, n_functions, at):
    """Walk through the functions."""
    numbers.need(at, 3 * n_functions, f"{n_functions} cost functions")
    head, arity, owner, n_tuples, tuples = np.zeros((5, n_functions), dtype=np.int64)
    calls: dict[int, dict[str, Any]] = {}
    shared: list[int] = []
    for f in range(n_functions):
        signed = numbers.integer(at, -n, n, f"the number of variables of function {f}, at most {n}")
        head[f], arity[f], owner[f] = at, abs(signed), f
        at += 2 + abs(signed)
        n_tuples[f], tuples[f] = 0, at + 1
        numbers.need(at, 1, f"the number of tuples of function {f}")
        if numbers.values[at - 1] == -1 and at in numbers.keywords:
            calls[f], at = _call(numbers, at, signed)
            continue
        count = numbers.integer(
            at, -n_functions, len(numbers), f"the number of tuples of function {f}"
        )
        if count < 0:
            if -count > len(shared):
                numbers.fail(at, f"the number of tuples, or one of {len(shared)} shared functions")
            owner[f] = shared[-count - 1]
            if arity[owner[f]] != arity[f]:
                numbers.fail(at, f"a shared function of {arity[f]} variables")
        else:
            n_tuples[f] = count
            if signed < 0:
                shared.append(f)
        at += 1 + max(count, 0) * (abs(signed) + 1)
        numbers.need(at, 0, f"the {count} tuples and costs of function {f}")
    numbers.end(at, "the last cost function")
    return _Functions(head, arity, owner, n_tuples, tuples, calls)


def _call(numbers, at, signed):
    """The parameters of a function in intension, and where the next function begins."""
    keyword = numbers.keywords[at]
    if keyword not in PARAMETERS:
        numbers.fail(at, "the keyword of a cost function in intension that is read")
    if signed < 0:
        numbers.fail(at, "a number of tuples: functions in intension cannot be shared")
    source = _Source(numbers, at + 1, keyword)
    return parameters(keyword, abs(signed), source), source.at


class _Source:
    """The parameters of a function in intension, one after the other."""

    def __init__(self, numbers: Numbers, at: int, keyword: str) -> None:
        self.numbers, self.at, self.keyword = numbers, at, keyword

    def word(self, name: str, choices: list[str]) -> str:
        found = self.numbers.keywords.get(self.at)
        if found not in choices:
            self.numbers.fail(self.at, f"{name} of {self.keyword}, one of {', '.join(choices)}")
        self.at += 1
        return found

    def number(self, name: str, kind: str) -> float:
        return self._take(name, kind, 1).item()

    def rows(self, names: list[str], kinds: str, length: int | None) -> list[np.ndarray]:
        lengths = [self._length(name) if length is None else length for name in names]
        return [self._take(*of) for of in zip(names, [kinds] * len(names), lengths, strict=True)]

    def sets(self, name: str, arity: int) -> list[np.ndarray]:
        return [self.rows([name], "i", None)[0][:, 0] for _ in range(arity)]

    def _length(self, name):
        what = f"how many {name} of {self.keyword}"
        self.at += 1
        return self.numbers.integer(self.at - 1, 0, len(self.numbers), what)

    def _take(self, name, kinds, length):
        size = length * len(kinds)
        self.numbers.need(self.at, size, f"{size} numbers, {name} of {self.keyword}")
        values = self.numbers.values[self.at : self.at + size].reshape(length, len(kinds))
        wrong = ~fits(values, kinds).ravel()
        places = np.arange(self.at, self.at + size)
        self.numbers.check(places, wrong, f"an integer or a cost, {name} of {self.keyword}")
        self.at += size
        return values


def _in_extension(numbers, functions, scope, n_states, top):
    """The tables, a batch for those of one shape and for those that share one."""
    head, arity, owner, n_tuples, tuples, calls = functions
    first = np.cumsum(arity) - arity
    is_table = np.ones(head.size, dtype=bool)
    is_table[list(calls)] = False
    own = np.flatnonzero(is_table & (owner == np.arange(head.size)))
    default_at = head + 1 + arity
    default = numbers.values[default_at]
    numbers.check(default_at, is_table & ~(default >= 0), "a default cost >= 0")
    users: dict[int, list[int]] = {}
    for f in np.flatnonzero(owner != np.arange(head.size)).tolist():
        of = owner[f]
        users.setdefault(of, [of]).append(f)
        shapes = [n_states[scope[first[g] : first[g] + arity[g]]] for g in (f, of)]
        if (shapes[0] != shapes[1]).any():
            numbers.fail(default_at[f] + 1, f"a shared function of {shapes[0].tolist()} states")
        if arity[f] > _MOST_SHARED and default[f] != default[of]:
            numbers.fail(default_at[f], f"{default[of]:g}, the default cost of the shared function")
    owned = scope[places_of(first[own], arity[own])[1]]
    check_cells(numbers, head[own], arity[own], table_sizes(n_states, arity[own], owned))
    factors = []
    for rows, scopes, shape in by_shape(n_states, arity[own], owned):
        members = own[rows]
        costs = _costs(numbers, tuples[members], n_tuples[members], default[members], shape)
        scores = np.where(costs >= top, -np.inf, 0.0 - costs).reshape(members.size, *shape)
        alone = np.array([f not in users for f in members.tolist()])
        if alone.any():
            factors.append(tables(scopes[alone], scores[alone], n_states))
        for row in np.flatnonzero(~alone):
            of = np.array(users[members[row]])
            shared = scope[first[of][:, None] + np.arange(len(shape))]
            factors.append(tables(shared, scores[row], n_states))
    return factors


def _in_intension(numbers, functions, scope, n_states, top):
    """The factors of functions that a keyword defines."""
    first = np.cumsum(functions.arity) - functions.arity
    factors: list = []
    n_cells, most = 0, most_cells(len(numbers.text))
    for f, found in functions.calls.items():
        at = int(functions.head[f] + 2 + functions.arity[f])
        variables = scope[first[f] : first[f] + functions.arity[f]].tolist()
        try:
            parts = pieces(numbers.keywords[at], variables, n_states, found, top)
        except ValueError as error:
            numbers.fail(at, str(error))
        n_cells += sum(part.costs.size + np.size(part.scopes) for part in parts)
        if n_cells > most:
            numbers.fail(at, f"tables of at most {most} cells in all")
        for part in parts:
            scores = np.where(part.costs >= top, -np.inf, 0.0 - part.costs)
            factors.append(counts_or_tables(part.scopes, scores, n_states, part.counted))
    return factors


def _costs(numbers, start, count, default, shape):
    """The tables of functions of one shape, flat."""
    size, width = int(np.prod(shape, dtype=np.int64)), len(shape) + 1
    costs = np.repeat(default[:, None], size, axis=1)
    at = places_of(start, count * width)[1][::width]
    cells = np.zeros(at.size, dtype=np.int64)
    for d, n in enumerate(shape):
        cells = cells * n + numbers.integers(at + d, 0, n - 1, "a state from 0 to {high}")
    cells += np.repeat(np.arange(start.size), count) * size
    given = at + len(shape)
    fill_cells(
        numbers, costs.ravel(), at, cells, given, lambda v: ~(v >= 0), "a tuple", "a cost >= 0"
    )
    return costs

"""Cost function networks: toulbar2's format in the manner of JSON, with names."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import numpy as np

from ..factors import Table
from ..graph import FactorGraph
from .items import Group, Numeric, Parsed, Word, parse
from .tables import MOST_CELLS, tables
from .text import read_bytes

_MUST_BE = re.compile(r"([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)?")


def read_cfn(
    path: Any, *, return_names: bool = False
) -> FactorGraph | tuple[FactorGraph, dict[str, list[str]]]:
    """Read a cost function network (``.cfn``) of tables.

    The score of a labelling is minus its cost, or, where ``mustbe`` begins with ``>``, its value.
    An entry with which every labelling reaches the bound of ``mustbe``, even if all other
    functions were at their best (at least as good as 0), is a hard constraint: its score is -inf.
    Where no cost is negative these are the costs of at least the bound. (Nothing forbids
    labellings of allowed entries whose sum passes the bound.)

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip or xz. Quotes, commas and colons may be missing.
    return_names : bool, default=False
        Whether to return the names of variables and values, too.

    Returns
    -------
    graph : FactorGraph
        The model; variables and their states are in the file's order. Functions of one shape, and
        those that share a table, form one batch: factors are not in the file's order.
    names : dict of str to list of str
        Only with `return_names`: the names of the variables, in order, each with those of its
        values; numbers where there are no names.

    Raises
    ------
    ValueError
        If the file is malformed (the message names the line), or has functions that are no tables
        (with a ``type``) or interval variables.

    See Also
    --------
    skstruct.map_inference.read_wcsp : Reads WCSP files.
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.

    References
    ----------
    toulbar2, CFN format (.cfn suffix).
    https://toulbar2.github.io/toulbar2/formats/cfnformat.html

    Examples
    --------
    >>> from io import StringIO
    >>> from skstruct.map_inference import read_cfn
    >>> text = '''{"problem": {"name": "two", "mustbe": "<10"},
    ...  "variables": {"x": ["a", "b"], "y": 3},
    ...  "functions": {"f": {"scope": ["x", "y"], "defaultcost": 0, "costs": ["b", 2, 10]}}}'''
    >>> graph, names = read_cfn(StringIO(text), return_names=True)
    >>> graph.score([[0, 0], [1, 2]])
    array([  0., -inf])
    >>> names
    {'x': ['a', 'b'], 'y': ['0', '1', '2']}
    """
    name, content = read_bytes(path)
    parsed = parse(name, content)
    problem, variables, functions = _sections(parsed)
    sign, top = _objective(parsed, problem)
    names = _variables(parsed, variables)
    network = _Network(parsed, names)
    for label, body in _named(parsed, functions, "a function: a group with its scope"):
        network.add(label, body)
    graph = network.graph(sign, top)
    return (graph, names) if return_names else graph


def _sections(parsed):
    """The three parts of a network, with or without their names before them."""
    if len(parsed.root) != 1 or not isinstance(parsed.root[0], Group):
        at = parsed.root[1].at if len(parsed.root) > 1 else 0
        parsed.fail(at, "one group with a problem, variables and functions")
    items = iter(parsed.root[0].items)
    end = len(parsed.text)
    parts = []
    for part in ("problem", "variables", "functions"):
        item = next(items, None)
        if isinstance(item, Word) and item.text == part:
            item = next(items, None)
        if not isinstance(item, (Group, Numeric)):
            parsed.fail(end if item is None else item.at, f"the {part}, a group")
        parts.append(item)
    for item in items:
        parsed.fail(item.at, "the end of the network after its functions")
    return parts


def _tagged(parsed, group, tags):
    """The fields of a group by their names."""
    found = {}
    items = iter(group.items)
    for tag in items:
        if not (isinstance(tag, Word) and tag.text in tags):
            parsed.fail(tag.at, f"one of the fields {', '.join(tags)}")
        if tag.text in found:
            parsed.fail(tag.at, f"the field {tag.text} once")
        value = next(items, None)
        if value is None:
            parsed.fail(tag.at, f"a value of the field {tag.text}")
        found[tag.text] = value
    return found


def _objective(parsed, problem):
    """1 and the upper bound of costs, or -1 and minus the lower bound of values."""
    if not isinstance(problem, Group):
        parsed.fail(problem.at, "a problem with a name and mustbe")
    words = [item.text for item in problem.items if isinstance(item, Word)]
    if "mustbe" in words:
        fields = _tagged(parsed, problem, ("name", "mustbe"))
        bound = fields.get("mustbe", problem)
    elif len(problem.items) == 2:
        bound = problem.items[1]
    else:
        parsed.fail(problem.at, "a problem with a name and mustbe")
    found = _MUST_BE.fullmatch(bound.text) if isinstance(bound, Word) else None
    if found is None:
        parsed.fail(bound.at, 'mustbe, "<" or ">" and a number')
    sign = 1.0 if found.group(1) == "<" else -1.0
    return sign, np.inf if found.group(2) is None else sign * float(found.group(2))


def _variables(parsed, section):
    """The names of the values by that of their variable, in the file's order."""
    if isinstance(section, Numeric):
        items = [Word(section.at, f"{size:.17g}") for size in section.values.tolist()]
        section = Group(section.at, items)
    names: dict[str, list[str]] = {}
    items = iter(section.items)
    for item in items:
        is_name = isinstance(item, Word) and not item.text.lstrip("+-").isdigit()
        label = item.text if is_name else str(len(names))
        domain = next(items, None) if is_name else item
        if domain is None:
            parsed.fail(item.at, f"the domain of the variable {label}")
        if label in names:
            parsed.fail(item.at, "a variable's name that was not given before")
        names[label] = _domain(parsed, label, domain)
    if not names:
        parsed.fail(section.at, "at least one variable")
    return names


def _domain(parsed, label, domain):
    """The names of a variable's values."""
    if isinstance(domain, Word):
        size = parsed.number(domain, f"the number of values of {label}, or their names")
        if not (size.is_integer() and 1 <= size < 2**31):
            parsed.fail(domain.at, f"at least 1 value of {label} (interval variables are not read)")
        return [str(k) for k in range(int(size))]
    if isinstance(domain, Numeric):
        values = [f"{value:.17g}" for value in domain.values.tolist()]
    else:
        for item in domain.items:
            if not isinstance(item, Word):
                parsed.fail(item.at, f"the name of a value of {label}")
        values = [item.text for item in domain.items]
    if not values or len(set(values)) < len(values):
        parsed.fail(domain.at, f"different names of the values of {label}, at least 1")
    for k, value in enumerate(values):
        # A number in a tuple would be a position as well as a name.
        if value != str(k) and value[:1] in "0123456789-.+":
            parsed.fail(domain.at, f"names of values that do not begin as numbers do, not {value}")
    return values


def _named(parsed, section, expected):
    """The groups of a section, each with its name or None."""
    label = None
    for item in section.items if isinstance(section, Group) else [section]:
        if isinstance(item, Word) and label is None:
            label = item.text
        elif isinstance(item, Group):
            yield label, item
            label = None
        else:
            parsed.fail(item.at, expected)
    if label is not None:
        parsed.fail(section.at, f"{expected}, after {label}")


class _Network:
    """The cost functions of a file, gathered."""

    def __init__(self, parsed: Parsed, names: dict[str, list[str]]) -> None:
        self.parsed = parsed
        self.values = [{value: k for k, value in enumerate(of)} for of in names.values()]
        self.positions = {label: v for v, label in enumerate(names)}
        self.n_states = np.array([len(of) for of in names.values()], dtype=np.int64)
        self.scopes: list[list[int]] = []
        self.costs: list = []
        self.by_name: dict[str, int] = {}

    def fail(self, item: Any, label: str | None, expected: str) -> NoReturn:
        """Raise an error that also names the function."""
        of = f"function {len(self.costs)}" if label is None else f"function {label}"
        self.parsed.fail(item.at, f"{expected} ({of})")

    def add(self, label: str | None, body: Group) -> None:
        """Take a function: its table, or the word that names the function that has it."""
        tags = ("scope", "defaultcost", "costs", "type", "params", "parameters")
        fields = _tagged(self.parsed, body, tags)
        for tag in tags[3:]:
            if tag in fields:
                self.fail(fields[tag], label, "a table of costs: other functions are not read")
        for tag in ("scope", "costs"):
            if tag not in fields:
                self.fail(body, label, f"the field {tag}")
        if label is not None and self.by_name.setdefault(label, len(self.costs)) < len(self.costs):
            self.fail(body, label, "a function's name that was not given before")
        scope = self._scope(label, fields["scope"])
        shape = tuple(self.n_states[scope].tolist())
        if math.prod(shape) > MOST_CELLS:
            self.fail(body, label, f"a function of at most {MOST_CELLS} tuples")
        costs, default = fields["costs"], fields.get("defaultcost")
        if isinstance(costs, Word):
            if default is not None:
                self.fail(default, label, "no defaultcost beside the name of a function")
            table = costs
        elif default is None:
            table = self._dense(label, costs, shape)
        else:
            table = self._sparse(label, costs, default, scope, shape)
        self.scopes.append(scope)
        self.costs.append(table)

    def _scope(self, label, item):
        if isinstance(item, Numeric):
            scope = [int(value) for value in item.values.clip(-1, self.n_states.size).tolist()]
            different = len(set(scope)) == len(scope) and scope == item.values.tolist()
            inside = different and min(scope) >= 0 and max(scope) < self.n_states.size
            if inside and self.positions.keys().isdisjoint(map(str, scope)):
                return scope
            words = [Word(item.at, f"{value:.17g}") for value in item.values.tolist()]
        else:
            words = item.items if isinstance(item, Group) else [item]
        scope = []
        for word in words:
            text = word.text if isinstance(word, Word) else ""
            v = self.positions.get(text, int(text) if text.isdecimal() else -1)
            if not 0 <= v < self.n_states.size:
                n = self.n_states.size
                self.fail(word, label, f"a variable of the scope, a name or from 0 to {n - 1}")
            scope.append(v)
        if len(set(scope)) < len(scope):
            self.fail(item, label, "different variables in the scope")
        return scope

    def _dense(self, label, costs, shape):
        expected = f"{math.prod(shape)} costs, one a tuple"
        numbers = self._numbers(label, costs, expected)
        if numbers.size != math.prod(shape):
            self.fail(costs, label, f"{expected}, not {numbers.size}")
        return numbers.reshape(shape)

    def _sparse(self, label, costs, default, scope, shape):
        width = len(shape) + 1
        table = np.full(shape, self._numbers(label, default, "a default cost")[0])
        if isinstance(costs, Group):
            items = [
                Word(item.at, self._value(label, item, scope[k % width])) if k % width < width - 1
                else item
                for k, item in enumerate(costs.items)
            ]  # fmt: skip
            numbers = self._numbers(label, Group(costs.at, items), "a cost")
        else:
            numbers = costs.values
        if numbers.size % width:
            self.fail(costs, label, f"tuples of {len(shape)} values and a cost")
        rows = numbers.reshape(-1, width)
        given = rows[:, :-1]
        if ((given != np.floor(given)) | (given < 0) | (given >= shape)).any():
            self.fail(costs, label, f"positions of values below {list(shape)}")
        tuples = given.astype(np.int64)
        if np.unique(tuples, axis=0).shape[0] < len(tuples):
            self.fail(costs, label, "each tuple once")
        if not np.isfinite(numbers).all():
            self.fail(costs, label, "finite costs")
        table[tuple(tuples.T)] = rows[:, -1]
        return table

    def _value(self, label, item, v):
        """The position of a value, from its name or itself."""
        if not isinstance(item, Word):
            self.fail(item, label, "the name or the position of a value")
        return str(self.values[v].get(item.text, item.text))

    def _numbers(self, label, item, expected):
        if isinstance(item, Numeric):
            numbers = item.values
        else:
            items = item.items if isinstance(item, Group) else [item]
            for word in items:
                if not isinstance(word, Word):
                    self.fail(word, label, expected)
            numbers = np.array([self.parsed.number(word, expected) for word in items])
        if not np.isfinite(numbers).all():
            self.fail(item, label, "finite costs")
        return numbers

    def _owner(self, f):
        """The function that has the table of function f."""
        seen = {f}
        while isinstance(self.costs[f], Word):
            word = self.costs[f]
            if word.text not in self.by_name or self.by_name[word.text] in seen:
                self.parsed.fail(word.at, "costs, or the name of another function that has them")
            f = self.by_name[word.text]
            seen.add(f)
        return f

    def graph(self, sign: float, top: float) -> FactorGraph:
        """The factor graph: functions of one table, and of one shape, in batches."""
        users: dict[int, list[int]] = {}
        for f, costs in enumerate(self.costs):
            owner = self._owner(f)
            if self.costs[owner].shape != tuple(self.n_states[self.scopes[f]].tolist()):
                self.parsed.fail(costs.at, "a function with the same numbers of values")
            users.setdefault(owner, []).append(f)
        by_shape: dict[tuple, list[int]] = {}
        for f in users:
            by_shape.setdefault(self.costs[f].shape, []).append(f)
        stacks = {of[0]: sign * np.stack([self.costs[f] for f in of]) for of in by_shape.values()}
        best = np.zeros(len(self.costs))
        for of in by_shape.values():
            lowest = stacks[of[0]].reshape(len(of), -1).min(axis=1)
            best[of] = np.minimum(lowest, 0.0)
        total = math.fsum(best[f] * len(of) for f, of in users.items())
        factors: list[Table] = []
        for of in by_shape.values():
            costs = stacks[of[0]]
            room = top - (total - best[of]).reshape(-1, *[1] * (costs.ndim - 1))
            scores = np.where(costs >= room, -np.inf, 0.0 - costs)
            alone = [row for row, f in enumerate(of) if len(users[f]) == 1]
            batches = [([of[row] for row in alone], scores[alone])] if alone else []
            batches += [(users[f], scores[row]) for row, f in enumerate(of) if len(users[f]) > 1]
            for members, stacked in batches:
                scopes = np.array([self.scopes[f] for f in members], dtype=np.int64)
                factors.append(tables(scopes, stacked, self.n_states))
        return FactorGraph(self.n_states, factors)

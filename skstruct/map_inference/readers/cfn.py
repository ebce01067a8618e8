"""Cost function networks: toulbar2's format in the manner of JSON, with names."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.text_files import read_bytes
from ..factors import Factors
from ..graph import FactorGraph
from .intension import ARITHMETIC, PARAMETERS, fits, parameters, pieces
from .text import MOST_AXES, counts_or_tables, most_cells, most_states

# The syntax of cost function networks: nested groups of words and numbers, and their lines.


class Word(NamedTuple):
    """A string or a number."""

    at: int
    text: str


class Numeric(NamedTuple):
    """A group of numbers only."""

    at: int
    values: np.ndarray

    @property
    def items(self):
        """The numbers as words."""
        return [Word(self.at, f"{value:.17g}") for value in self.values.tolist()]


class Group(NamedTuple):
    """Items between brackets or braces, and their position in the text."""

    at: int
    items: list


# A group of numbers is one token: tables are read at numpy's speed.
_TOKENS = re.compile(
    r"""(?P<skip>[\s,:]+|^\#[^\n]*|//[^\n]*)
    |(?P<numbers>[\[{][\s,]*[-+.0-9][-+.0-9eE\s,]*[\]}])
    |(?P<open>[\[{])|(?P<close>[\]}])
    |"(?P<quoted>(?:[^"\\\n]|\\.)*)"
    |(?P<bare>(?:(?!//)[^\s,:\[\]{}"\#])+)""",
    re.X | re.M,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MOST_NESTED = 100


class Parsed:
    """A text as nested groups, and the line of each for messages."""

    def __init__(self, name: str, content: bytes) -> None:
        try:
            self.name, self.text = name, content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: not a UTF-8 text: {error}") from None
        self.root = self._nested()

    def fail(self, at: int, expected: str) -> NoReturn:
        """Raise the error that names the file and the line."""
        line = self.text.count("\n", 0, at) + 1
        found = self.text[at : at + 40].split("\n")[0]
        got = f"got {found!r}" if at < len(self.text) else "but the file ends"
        raise ValueError(f"{self.name}, line {line}: expected {expected}, {got}")

    def number(self, item: Any, expected: str) -> float:
        """The number that a word is."""
        if not isinstance(item, Word) or not _NUMBER.fullmatch(item.text):
            self.fail(item.at, expected)
        return float(item.text)

    def _nested(self):
        root: list = []
        stack = [Group(0, root)]
        at = 0
        while at < len(self.text):
            found = _TOKENS.match(self.text, at)
            if found is None:
                self.fail(at, "a string, a number, a bracket or a brace")
            kind, start, at = found.lastgroup, at, found.end()
            if kind == "numbers":
                stack[-1].items.append(Numeric(start, self._values(found.group(), start)))
            elif kind == "open":
                if len(stack) > _MOST_NESTED:
                    self.fail(start, f"at most {_MOST_NESTED} levels of brackets and braces")
                inner = Group(start, [])
                stack[-1].items.append(inner)
                stack.append(inner)
            elif kind == "close":
                if len(stack) == 1:
                    self.fail(start, "no bracket or brace that closes nothing")
                opened = self.text[stack.pop().at]
                if "[{".index(opened) != "]}".index(found.group()):
                    self.fail(start, f"what closes {opened!r}")
            elif kind == "quoted":
                text = self._unescaped(found.group("quoted"), start)
                stack[-1].items.append(Word(start, text))
            elif kind == "bare":
                stack[-1].items.append(Word(start, found.group()))
        if len(stack) > 1:
            line = self.text.count("\n", 0, stack[-1].at) + 1
            self.fail(len(self.text), f"what closes {self.text[stack[-1].at]!r} of line {line}")
        return root

    def _unescaped(self, text, start):
        """A quoted string without its escapes."""
        try:
            return json.loads(f'"{text}"') if "\\" in text else text
        except ValueError:
            self.fail(start, "a string with valid JSON escapes")

    def _values(self, text, start):
        """The numbers of a group of numbers."""
        inside = text[1:-1].replace(",", " ")
        words = inside.split()
        if "[{".index(text[0]) != "]}".index(text[-1]):
            self.fail(start + len(text) - 1, f"what closes {text[0]!r}")
        try:
            return np.array(words, dtype=np.float64)
        except ValueError:
            at = start + 1
            for word in words:
                at = self.text.index(word, at)
                if not _NUMBER.fullmatch(word):
                    break
                at += len(word)
            self.fail(at, "a number")


_MUST_BE = re.compile(r"([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)?")


def read_cfn(
    path: Any, *, return_names: bool = False
) -> FactorGraph | tuple[FactorGraph, dict[str, list[str]]]:
    """Read a cost function network (``.cfn``).

    The score of a labelling is minus its cost, or its value if ``mustbe`` begins with ``>``.
    ``inf``, and entries with which every labelling reaches the bound of ``mustbe`` even if all
    other functions were at their best (at least as good as 0), are hard constraints, with score
    -inf: without negative costs, those of at least the bound. Sums of allowed entries that pass the
    bound are allowed. Costs keep all their digits, unlike in toulbar2. Read more in the :ref:`User
    Guide <map-files>`.

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip, bzip2 or xz. Quotes, commas and colons may be
        missing.
    return_names : bool, default=False
        Whether to return the names of variables and values, too.

    Returns
    -------
    graph : FactorGraph
        The model, with variables and states in the file's order, and factors batched by the shape
        of tables. Functions with a ``type`` become tables of at most 65536 cells, or factors of
        pairs or of counts.
    names : dict of str to list of str
        Only with `return_names`: the names of variables, in order, each with those of its values,
        or numbers.

    Raises
    ------
    ValueError
        If the file is malformed, or has interval variables, an unsupported function, or domains or
        tables out of proportion to its size. The message names the line.

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
    parsed = Parsed(name, content)
    problem, variables, functions = _sections(parsed)
    sign, top = _objective(parsed, problem)
    domains = _variables(parsed, variables)
    network = _Network(parsed, domains, sign)
    for label, body in _named(parsed, functions, "a function: a group with its scope"):
        network.add(label, body)
    graph = network.graph(top)
    if not return_names:
        return graph
    return graph, {
        label: [str(k) for k in range(of)] if isinstance(of, int) else of
        for label, of in domains.items()
    }


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
    """The values of each variable by its name, in the file's order: their names, or how many."""
    names: dict[str, list[str] | int] = {}
    n_states, most = 0, most_states(len(parsed.text))
    items = iter(section.items)
    for item in items:
        is_name = isinstance(item, Word) and not item.text.lstrip("+-").isdigit()
        label = item.text if is_name else str(len(names))
        domain = next(items, None) if is_name else item
        if domain is None:
            parsed.fail(item.at, f"the domain of the variable {label}")
        if label in names:
            parsed.fail(item.at, "a variable's name that was not given before")
        names[label] = values = _domain(parsed, label, domain)
        n_states += values if isinstance(values, int) else len(values)
        if n_states > most:
            parsed.fail(domain.at, f"variables of at most {most} values in all")
    if not names:
        parsed.fail(section.at, "at least one variable")
    return names


def _domain(parsed, label, domain):
    """The names of a variable's values, or how many they are."""
    if isinstance(domain, Word):
        size = parsed.number(domain, f"the number of values of {label}, or their names")
        if not (size.is_integer() and 1 <= size < 2**31):
            parsed.fail(domain.at, f"at least 1 value of {label} (interval variables are not read)")
        return int(size)
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
    """The cost functions of a file, gathered; `sign` is -1 where values are maximised."""

    def __init__(self, parsed: Parsed, domains: dict[str, Any], sign: float) -> None:
        self.parsed, self.sign = parsed, sign
        lists = [[] if isinstance(of, int) else of for of in domains.values()]
        self.values = [{value: k for k, value in enumerate(of)} for of in lists]
        self.positions = {label: v for v, label in enumerate(domains)}
        sizes = [of if isinstance(of, int) else len(of) for of in domains.values()]
        self.n_states = np.array(sizes, dtype=np.int64)
        self.scopes: list[list[int]] = []
        self.costs: list = []
        self.counted: list[bool] = []
        self.by_name: dict[str, list[int]] = {}
        self.n_cells = 0

    def fail(self, item: Any, label: str | None, expected: str) -> NoReturn:
        """Raise an error that also names the function."""
        of = f"function {len(self.costs)}" if label is None else f"function {label}"
        self.parsed.fail(item.at, f"{expected} ({of})")

    def add(self, label: str | None, body: Group) -> None:
        """Take a function: its table, the name of the function that has it, or its type."""
        tags = ("scope", "defaultcost", "costs", "type", "params", "parameters")
        fields = _tagged(self.parsed, body, tags)
        if "scope" not in fields:
            self.fail(body, label, "the field scope")
        scope = self._scope(label, fields["scope"])
        if "type" in fields:
            self._add_call(label, body, fields, scope)
            return
        if "costs" not in fields:
            self.fail(body, label, "the field costs")
        shape = tuple(self.n_states[scope].tolist())
        costs, default = fields["costs"], fields.get("defaultcost")
        if isinstance(costs, Word):
            if default is not None:
                self.fail(default, label, "no defaultcost beside the name of a function")
            self._take(label, scope, costs)
            return
        if len(shape) > MOST_AXES:
            self.fail(fields["scope"], label, f"a table of at most {MOST_AXES} variables")
        self._count(label, body, math.prod(shape))
        if default is None:
            table = self._dense(label, costs, shape)
        else:
            table = self._sparse(label, costs, default, scope, shape)
        self._take(label, scope, table)

    def _count(self, label, body, n_cells):
        """Reject tables out of proportion to the file."""
        self.n_cells += n_cells
        most = most_cells(len(self.parsed.text))
        if self.n_cells > most:
            self.fail(body, label, f"tables of at most {most} tuples in all")

    def _take(self, label, scope, costs, counted=False):
        if label is not None:
            self.by_name.setdefault(label, []).append(len(self.costs))
        self.scopes.append(scope)
        self.costs.append(costs)
        self.counted.append(counted)

    def _add_call(self, label, body, fields, scope):
        """Take a function in intension."""
        kind = fields["type"]
        keyword = kind.text if isinstance(kind, Word) else ""
        if keyword not in PARAMETERS or keyword in ARITHMETIC:
            self.fail(kind, label, "a type of functions that is read")
        group = fields.get("params", fields.get("parameters"))
        if not isinstance(group, Group):
            self.fail(kind if group is None else group, label, f"params of {keyword}, a group")
        found = parameters(keyword, len(scope), _Source(self, label, keyword, group))
        try:
            parts = pieces(keyword, scope, self.n_states, found, np.inf)
        except ValueError as error:
            self.fail(kind, label, str(error))
        self._count(label, body, sum(part.costs.size * len(part.scopes) for part in parts))
        for part in parts:
            hard = np.isinf(part.costs)
            if self.sign < 0 and part.costs[~hard].any():
                self.fail(kind, label, f"no costs of {keyword}, since values are maximised")
            costs = np.where(hard, self.sign * np.inf, part.costs)
            for own in part.scopes:
                self._take(label, own, costs, part.counted)

    def _scope(self, label, item):
        scope = []
        for word in [item] if isinstance(item, Word) else item.items:
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
            numbers = self._numbers(label, costs, "a cost")
        if numbers.size % width:
            self.fail(costs, label, f"tuples of {len(shape)} values and a cost")
        rows = numbers.reshape(-1, width)
        given = rows[:, :-1]
        if ((given != np.floor(given)) | (given < 0) | (given >= shape)).any():
            self.fail(costs, label, f"positions of values below {list(shape)}")
        cells = np.zeros(len(rows), dtype=np.int64)
        for values, n in zip(given.T, shape, strict=True):
            cells = cells * n + values.astype(np.int64)
        if np.unique(cells).size < len(cells):
            self.fail(costs, label, "each tuple once")
        table.reshape(-1)[cells] = rows[:, -1]
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
            forbidden = np.array([word.text == "inf" for word in items], dtype=bool)
            items = [Word(word.at, "0") if word.text == "inf" else word for word in items]
            numbers = np.array([self.parsed.number(word, expected) for word in items])
        if not np.isfinite(numbers).all():
            self.fail(item, label, "finite costs, or inf")
        if not isinstance(item, Numeric):
            numbers[forbidden] = self.sign * np.inf
        return numbers

    def _owner(self, f, owners):
        """The function that has the table of function f, stored in `owners` for all on the way."""
        seen = {f}
        while f not in owners and isinstance(word := self.costs[f], Word):
            named = self.by_name.get(word.text, [])
            if len(named) != 1 or named[0] in seen or self.counted[named[0]]:
                expected = "costs, or the name of another function that has them, the only one"
                self.parsed.fail(word.at, expected)
            f = named[0]
            seen.add(f)
        f = owners.get(f, f)
        owners.update(dict.fromkeys(seen, f))
        return f

    def graph(self, top: float) -> FactorGraph:
        """The factor graph: functions of one table, and of one shape, in batches."""
        users: dict[int, list[int]] = {}
        owners: dict[int, int] = {}
        for f, costs in enumerate(self.costs):
            owner = self._owner(f, owners)
            shape = tuple(self.n_states[self.scopes[f]].tolist())
            if self.costs[owner].shape != shape and not self.counted[f]:
                self.parsed.fail(costs.at, "a function with the same numbers of values")
            users.setdefault(owner, []).append(f)
        by_shape: dict[tuple, list[int]] = {}
        for f in users:
            by_shape.setdefault((self.counted[f], self.costs[f].shape), []).append(f)
        stacks = {of[0]: np.stack([self.costs[f] for f in of]) for of in by_shape.values()}
        best = np.zeros(len(self.costs))
        for of in by_shape.values():
            stacks[of[0]] *= self.sign
            best[of] = stacks[of[0]].reshape(len(of), -1).min(axis=1, initial=0.0)
        total = math.fsum(best[f] * len(of) for f, of in users.items())
        factors: list[Factors] = []
        for (counted, _), of in by_shape.items():
            costs = stacks[of[0]]
            room = top - (total - best[of]).reshape(-1, *[1] * (costs.ndim - 1))
            scores = np.where(costs >= room, -np.inf, 0.0 - costs)
            alone = [row for row, f in enumerate(of) if len(users[f]) == 1]
            batches = [([of[row] for row in alone], scores[alone])] if alone else []
            batches += [(users[f], scores[row]) for row, f in enumerate(of) if len(users[f]) > 1]
            for members, stacked in batches:
                scopes = [self.scopes[f] for f in members]
                factors.append(counts_or_tables(scopes, stacked, self.n_states, counted))
        return FactorGraph(self.n_states, factors)


class _Source:
    """The parameters of a function in intension, by their names."""

    def __init__(self, network: _Network, label: str | None, keyword: str, group: Group) -> None:
        self.network, self.label, self.keyword, self.group = network, label, keyword, group
        fields = [field.split(":")[0] for field in PARAMETERS[keyword].split()]
        tags = [name for names in fields for name in names.split(",")]
        self.fields = _tagged(network.parsed, group, tags)

    def word(self, name: str, choices: list[str]) -> str:
        """Read one of some words."""
        item = self._field(name)
        if not isinstance(item, Word) or item.text not in choices:
            self._fail(item, f"{name}, one of {', '.join(choices)}")
        return item.text

    def number(self, name: str, kind: str) -> float:
        """A number."""
        return self._row(name, Group(0, [self._field(name)]), kind)[0]

    def rows(self, names: list[str], kinds: str, length: int | None) -> list[np.ndarray]:
        """A list of rows for each name."""
        found = []
        for name in names:
            item = self._field(name)
            items = self._items(name, item)
            if length is not None and len(items) != length:
                self._fail(item, f"{name} of {length} variables")
            rows = [
                self._row(name, row if len(kinds) > 1 else Group(item.at, [row]), kinds)
                for row in items
            ]
            found.append(np.array(rows, dtype=np.float64).reshape(len(rows), len(kinds)))
        return found

    def sets(self, name: str, arity: int) -> list[np.ndarray]:
        """Integers for each variable."""
        item = self._field(name)
        sets = self._items(name, item)
        if len(sets) != arity:
            self._fail(item, f"{name} of {arity} variables")
        return [np.array(self._row(name, row, "i" * len(self._items(name, row)))) for row in sets]

    def _field(self, name):
        if name not in self.fields:
            self._fail(self.group, f"the parameter {name}")
        return self.fields[name]

    def _items(self, name, item):
        if isinstance(item, Word):
            self._fail(item, f"{name}, a list")
        return item.items

    def _row(self, name, item, kinds):
        items = self._items(name, item)
        if len(items) != len(kinds):
            self._fail(item, f"{name}, {len(kinds)} numbers")
        row = []
        for word, kind in zip(items, kinds, strict=True):
            text = word.text if isinstance(word, Word) else ""
            if kind == "v" and text in self.network.positions:
                row.append(float(self.network.positions[text]))
            elif kind in "cC" and text == "inf":
                row.append(np.inf)
            else:
                row.append(self.network.parsed.number(word, f"a number in {name}"))
        if not fits(np.array([row]), kinds).all():
            self._fail(item, f"integers and costs in {name}")
        return row

    def _fail(self, item, expected):
        at = item if item.at else self.group
        self.network.fail(at, self.label, f"{expected} of {self.keyword}")

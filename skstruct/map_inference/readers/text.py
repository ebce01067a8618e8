"""Texts of numbers, and errors with the place of a wrong one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from ...core.offsets import places_of
from ..factors import Cardinality, Table

_WORD = re.compile(rb"\S+")
_KEYWORD = re.compile(rb"(?<!\S)(?!(?:inf(?:inity)?|nan)(?!\S))[a-z<>=!]\S*", re.I)
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)", re.I)


class Numbers:
    """The numbers of a text behind its first `n_words` words; NaN stands for `keywords`."""

    def __init__(self, name: str, text: bytes, n_words: int = 0, *, keywords: bool = False) -> None:
        self.name, self.text = name, text
        self.words: list[str] = []
        self.keywords: dict[int, str] = {}
        at = 0
        for _ in range(n_words):
            found = _WORD.search(text, at)
            if found is None:
                raise ValueError(f"{name}: the file is empty or ends after {len(self.words)} words")
            self.words.append(found.group().decode(errors="replace"))
            at = found.end()
        text = text[at:] if at else text
        self.values = self._parsed(self._without_keywords(text) if keywords else text)

    def _without_keywords(self, text):
        """The text with NaN for its keywords."""
        index = at = 0
        for found in _KEYWORD.finditer(text):
            index += _n_words(text[at : found.start()])
            at = found.start()
            self.keywords[index] = found.group().decode(errors="replace")
        return _KEYWORD.sub(b"nan", text) if self.keywords else text

    def _parsed(self, text):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                values = np.fromstring(text, sep=" ")
        except (ValueError, DeprecationWarning):
            values = None
        # numpy reads "3-4" as two numbers: the words must be as many as the numbers.
        if values is None or values.size != _n_words(text):
            for index, found in enumerate(_WORD.finditer(text)):
                if not _NUMBER.fullmatch(found.group()):
                    self.fail(index, "a number")
            raise ValueError(f"{self.name}: not a text of numbers separated by white space")
        return values

    def __len__(self) -> int:
        return self.values.size

    def fail(self, index: int, expected: str) -> NoReturn:
        """Raise the error that names the file, the line and the token."""
        token = index + len(self.words)
        for number, found in enumerate(_WORD.finditer(self.text)):
            if number == token:
                line = self.text.count(b"\n", 0, found.start()) + 1
                word = found.group()[:40].decode(errors="replace")
                raise ValueError(
                    f"{self.name}, line {line}, token {token + 1}: expected {expected}, "
                    f"got {word!r}"
                )
        raise ValueError(f"{self.name}: expected {expected}, but the file ends after token {token}")

    def need(self, start: int, count: int, expected: str) -> None:
        """Raise unless there are `count` numbers from `start` on."""
        if start + count > self.values.size:
            self.fail(self.values.size, expected)

    def end(self, at: int, last: str) -> None:
        """Raise unless the text ends here."""
        if at < self.values.size:
            self.fail(at, f"the end of the file after {last}")

    def integer(self, at: int, low: float, high: float, expected: str) -> int:
        """The integer at a place, between `low` and `high`."""
        self.need(at, 1, expected)
        value = self.values.item(at)
        if not (value.is_integer() and low <= value <= high):
            self.fail(at, expected)
        return int(value)

    def integers(self, at, low: int, high, expected: str) -> np.ndarray:
        """The integers at the places `at` (a slice or indices), each between `low` and `high`."""
        values = self.values[at]
        wrong = ~((values == np.floor(values)) & (values >= low) & (values <= high))
        if wrong.any():
            first = int(np.argmax(wrong))
            places = np.arange(len(self))[at] if isinstance(at, slice) else at
            limit = np.broadcast_to(high, values.shape)[first]
            self.fail(int(places[first]), expected.format(high=int(limit) if limit < 1e18 else ""))
        return values.astype(np.int64)

    def check(self, at: np.ndarray, wrong: np.ndarray, expected: str) -> None:
        """Raise at the first of the places `at` where the mask `wrong` is set."""
        if wrong.any():
            self.fail(int(at[np.argmax(wrong)]), expected)


def _n_words(text):
    """Count the words of a text without making them."""
    letters = np.frombuffer(text, dtype=np.uint8)
    # what bytes.split takes for white space
    is_space = (letters == 32) | ((letters >= 9) & (letters <= 13))
    starts = np.count_nonzero(is_space[:-1] & ~is_space[1:])
    return int(starts) + int(letters.size > 0 and not is_space[0])


# Factors that lie one after the other in a file, gathered by shape into batches of tables.

# Limits for a few bytes, which may give a number of states or a default cost, and per byte.
_STATES, _CELLS, _PER_BYTE = 2**22, 2**24, 64
MOST_AXES = 31  # of numpy's arrays, with one for the factors of a batch


def most_states(n_bytes: int) -> int:
    """Return the limit on the states of all variables of a text of `n_bytes`."""
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
    """Return the limit on the cells of all tables of a text of `n_bytes`."""
    return _CELLS + _PER_BYTE * n_bytes


def check_scopes(
    numbers: Numbers, arity: np.ndarray, scope: np.ndarray, starts: np.ndarray
) -> None:
    """Raise where a variable stands twice in a scope; `starts`: the scopes' places."""
    owner, places = places_of(starts, arity)
    order = np.lexsort((scope, owner))
    same = (np.diff(owner[order]) == 0) & (np.diff(scope[order]) == 0)
    if same.any():
        again = int(order[1:][same].min())
        expected = f"different variables in the scope of factor {owner[again]}"
        numbers.fail(int(places[again]), expected)


def table_sizes(n_states: np.ndarray, arity: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Cells of each factor's table, as floats: they may be too many for an integer."""
    sizes = np.ones(arity.size)
    np.multiply.at(sizes, np.repeat(np.arange(arity.size), arity), n_states[scope])
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
        order = np.lexsort(shapes.T) if a else np.arange(members.size)
        cuts = np.flatnonzero(np.diff(shapes[order], axis=0).any(axis=1)) + 1
        groups += [
            (members[rows], scopes[rows], tuple(shapes[rows[0]].tolist()))
            for rows in np.split(order, cuts)
        ]
    yield from sorted(groups, key=lambda group: int(group[0][0]))


def is_no_potential(values: np.ndarray) -> np.ndarray:
    """Return a mask of the numbers that are not potentials."""
    return ~((values >= 0) & (values < np.inf))


def fill_cells(numbers, table, at, cells, given, wrong, once, expected) -> None:
    """Write numbers into cells of a table; `at`: the entries' places, `given` those of numbers."""
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if again.size:
        numbers.fail(int(at[order[again[0] + 1]]), f"{once} that was not given before")
    numbers.check(given, wrong(numbers.values[given]), expected)
    table[cells] = numbers.values[given]


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

"""The syntax of cost function networks: nested groups of words and numbers, and their lines."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np


class Word(NamedTuple):
    """A string or a number."""

    at: int
    text: str


class Numeric(NamedTuple):
    """A group of numbers only."""

    at: int
    values: np.ndarray


class Group(NamedTuple):
    """What stands between brackets or braces."""

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

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
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


def parse(name: str, content: bytes) -> Parsed:
    """The text of a file as nested groups."""
    try:
        return Parsed(name, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not a UTF-8 text: {error}") from None

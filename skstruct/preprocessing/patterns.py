"""Feature templates of CRF++ and Wapiti: their syntax, and a readable form in Python."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ..core.arguments import warn_user
from ..core.text_files import split_lines

_MACRO = re.compile(
    r'%([xtmXTM])\[\s*(@?)([+-]?\d+)\s*,\s*(\d+)\s*(?:,\s*"((?:[^"\\]|\\.)*)"\s*)?\]'
)
# Digits of offsets and columns, with a sign.
_LONGEST = 10
_LONGEST_REGEX = 1000
_SPACE = " \t\v\f"  # as in C: U+00A0 is none
# Syntax that other regular expressions read as sets, groups, repetitions and alternatives.
_LITERAL = re.compile(r"\[[^\]]+\]|\([^)]+\)|\{\d|[^|]\||[^+^]\+")
# Wapiti's character classes, ASCII as in its C locale; upper case is the complement.
_CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "u": "A-Z",
    "w": "A-Za-z0-9",
    "p": "!-/:-@\\[-`{-~",
    "s": " \\t-\\r",
}


class Macro(NamedTuple):
    """One place in a template that depends on the tokens."""

    # The token itself, whether a regular expression matches it, or what it matches.
    command: str
    # Whether the result is lower-cased.
    lower: bool
    # Offset of the token from the current one.
    offset: int
    # Column of the token.
    column: int
    # For "t" and "m".
    regex: str = ""
    # Whether `offset` counts from an end of the sequence instead: 1 is the first token, -1 the last
    # one.
    absolute: bool = False


class Template(NamedTuple):
    """One line of a template file."""

    # The line as written.
    line: str
    # "U" (features of a node), "B" (features of an edge) or both.
    kinds: str
    # Text before, between and after the macros.
    texts: tuple
    # The macros.
    macros: tuple


@lru_cache(maxsize=2**10)
def python_regex(pattern: str) -> str:
    """A regular expression of Wapiti's subset as one of Python's, with DOTALL."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern):
            name = pattern[i + 1]
            if name.lower() in _CLASSES:
                negated = "^" if name.isupper() else ""
                out.append(f"[{negated}{_CLASSES[name.lower()]}]")
            else:
                out.append(re.escape(name))
            i += 1
        elif char == ".":
            out.append(".")
        elif char == "*":
            out.append("*?")
        elif char == "?":
            out.append("?")
        elif (char == "^" and i == 0) or (char == "$" and i == len(pattern) - 1):
            out.append("^" if char == "^" else r"\Z")
        else:
            out.append(re.escape(char))
        i += 1
    return "".join(out)


def parse_line(line: str, where: str) -> Template:
    """One template from its line."""
    kinds = {"U": "U", "u": "U", "B": "B", "b": "B", "*": "UB"}.get(line[:1])
    if kinds is None:
        raise ValueError(f"{where}: a template begins with U, B or *, got {line!r}")
    texts, macros, end = [], [], 0
    for found in _MACRO.finditer(line):
        command, at, offset, column, regex = found.groups()
        if len(offset) > _LONGEST or len(column) > _LONGEST:
            raise ValueError(f"{where}: the offset or column of {found.group()!r} is out of range")
        if (command.lower() == "x") != (regex is None):
            needs = "takes no" if command.lower() == "x" else "needs a"
            raise ValueError(f"{where}: %{command} {needs} regular expression: {line!r}")
        if regex is not None:
            _check_regex(regex, where)
        lower = command.isupper()
        macros.append(
            Macro(command.lower(), lower, int(offset), int(column), regex or "", at == "@")
        )
        texts.append(line[end : found.start()])
        end = found.end()
    texts.append(line[end:])
    rest = next((text for text in texts if "%" in text), None)
    if rest is not None:
        raise ValueError(f"{where}: malformed macro in {line!r}, near {rest[rest.index('%') :]!r}")
    return Template(line, kinds, tuple(texts), tuple(macros))


def _check_regex(regex, where):
    if len(regex) > _LONGEST_REGEX:
        raise ValueError(
            f"{where}: a regular expression of {len(regex)} characters; at most {_LONGEST_REGEX} "
            "are possible"
        )
    try:
        re.compile(python_regex(regex), re.DOTALL)
    except re.error as error:
        raise ValueError(f"{where}: bad regular expression {regex!r}: {error}") from None
    literal = _LITERAL.search(re.sub(r"\\.", "_", regex))
    if literal:
        warn_user(
            f"{where}: in {regex!r}, {literal.group()!r} stands for these very characters: the "
            "regular expressions of templates know . * ? ^ $ and classes such as \\u only, as in "
            "Wapiti. If that is meant, escape it with \\."
        )


def _without_comment(line):
    """The line up to a ``#`` that follows a space, outside of macros."""
    spans = [found.span() for found in _MACRO.finditer(line)]
    for found in re.finditer(rf"(?:^|[{_SPACE}])#", line):
        if not any(start < found.start() < stop for start, stop in spans):
            return line[: found.start()].strip(_SPACE)
    return line.strip(_SPACE)


def parse(text: str, name: str | None = None) -> list[Template]:
    r"""All templates of a CRF++ or Wapiti template file, whose name is for messages."""
    where = "" if name is None else f"{name}, "
    templates = [
        parse_line(line, f"{where}line {number}")
        for number, line in enumerate(
            map(_without_comment, split_lines(text.removeprefix("\ufeff"))), start=1
        )
        if line
    ]
    if not templates:
        raise ValueError(f"{where}there is no template")
    return templates


def from_tuples(specs) -> list[Template]:
    """Templates from the readable form."""
    templates = []
    for number, spec in enumerate(specs):
        if isinstance(spec, str):
            templates.append(parse_line(spec, f"template {number}"))
            continue
        pairs = (spec,) if _is_pair(spec) else spec
        if not isinstance(pairs, tuple) or not pairs or not all(map(_is_pair, pairs)):
            raise ValueError(
                f"template {number}: a pair (offset, column), a tuple of pairs or a string was "
                f"expected, got {spec!r}"
            )
        macros = "/".join(f"%x[{offset},{column}]" for offset, column in pairs)
        templates.append(parse_line(f"U{number}:{macros}", f"template {number}"))
    if not templates:
        raise ValueError("there is no template")
    return templates


def _is_pair(spec):
    return isinstance(spec, tuple) and len(spec) == 2 and all(isinstance(v, int) for v in spec)

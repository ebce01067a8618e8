"""Feature templates of CRF++ and Wapiti: their syntax, and a readable form in Python."""

from __future__ import annotations

import re
from typing import NamedTuple

_MACRO = re.compile(r'%([xtmXTM])\[\s*(-?\d+)\s*,\s*(\d+)\s*(?:,\s*"((?:[^"\\]|\\.)*)"\s*)?\]')
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
    """One place in a template that depends on the tokens.

    Parameters
    ----------
    command : {"x", "t", "m"}
        The token itself, whether a regular expression matches it, or what it matches.
    lower : bool
        Whether the result is lower-cased.
    offset : int
        Which token, relative to the current one.
    column : int
        Which column of it.
    regex : str
        For "t" and "m".
    """

    command: str
    lower: bool
    offset: int
    column: int
    regex: str = ""


class Template(NamedTuple):
    """One line of a template file.

    Parameters
    ----------
    line : str
        The line as written.
    kinds : str
        "U" (features of a node), "B" (features of an edge) or both.
    texts : tuple of str
        What stands before, between and after the macros.
    macros : tuple of Macro
        The macros.
    """

    line: str
    kinds: str
    texts: tuple
    macros: tuple


def compile_regex(pattern: str) -> re.Pattern:
    r"""A regular expression of Wapiti's subset as one of Python's.

    Parameters
    ----------
    pattern : str
        With ``.``, ``*`` (shortest), ``?``, ``^``, ``$`` and the classes ``\a \d \l \p \s \u \w``.

    Returns
    -------
    re.Pattern
        The compiled expression.

    Examples
    --------
    >>> from skstruct.preprocessing.patterns import compile_regex
    >>> compile_regex(r"^\u\l*$").search("Paris").group()
    'Paris'
    """
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
    return re.compile("".join(out), re.DOTALL)


def parse_line(line: str, where: str) -> Template:
    """One template from its line.

    Parameters
    ----------
    line : str
        Such as ``U05:%x[-1,0]/%x[0,0]``, ``B`` or ``*:%x[0,0]``.
    where : str
        For messages, such as ``"line 3"``.

    Returns
    -------
    Template
        The template.

    Raises
    ------
    ValueError
        If the line is malformed.

    Examples
    --------
    >>> from skstruct.preprocessing.patterns import parse_line
    >>> parse_line("U05:%x[-1,0]/%x[0,0]", "line 1").texts
    ('U05:', '/', '')
    """
    kinds = {"U": "U", "u": "U", "B": "B", "b": "B", "*": "UB"}.get(line[:1])
    if kinds is None:
        raise ValueError(f"{where}: a template begins with U, B or *, got {line!r}")
    texts, macros, end = [], [], 0
    for found in _MACRO.finditer(line):
        command, offset, column, regex = found.groups()
        if (command.lower() == "x") != (regex is None):
            needs = "takes no" if command.lower() == "x" else "needs a"
            raise ValueError(f"{where}: %{command} {needs} regular expression: {line!r}")
        if regex is not None:
            try:
                compile_regex(regex)
            except re.error as error:
                raise ValueError(f"{where}: bad regular expression {regex!r}: {error}") from None
        lower = command.isupper()
        macros.append(Macro(command.lower(), lower, int(offset), int(column), regex or ""))
        texts.append(line[end : found.start()])
        end = found.end()
    texts.append(line[end:])
    rest = next((text for text in texts if "%" in text), None)
    if rest is not None:
        raise ValueError(f"{where}: malformed macro in {line!r}, near {rest[rest.index('%') :]!r}")
    return Template(line, kinds, tuple(texts), tuple(macros))


def parse(text: str) -> list[Template]:
    r"""All templates of a CRF++ or Wapiti template file.

    Parameters
    ----------
    text : str
        The file's text; blank lines and lines that begin with ``#`` are skipped.

    Returns
    -------
    list of Template
        The templates, in order.

    Raises
    ------
    ValueError
        If a line is malformed (names it), or there is no template.

    Examples
    --------
    >>> from skstruct.preprocessing.patterns import parse
    >>> [template.kinds for template in parse("# words\nU00:%x[0,0]\n\nB\n")]
    ['U', 'B']
    """
    templates = [
        parse_line(line.strip(), f"line {number}")
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not templates:
        raise ValueError("there is no template")
    return templates


def from_tuples(specs) -> list[Template]:
    """Templates from the readable form.

    Parameters
    ----------
    specs : iterable
        Each one node template: a pair (offset, column), or a tuple of such pairs for a
        combination; or a string in the file syntax.

    Returns
    -------
    list of Template
        The templates.

    Raises
    ------
    ValueError
        If an entry is none of these.

    Examples
    --------
    >>> from skstruct.preprocessing.patterns import from_tuples
    >>> [template.line for template in from_tuples([(0, 0), ((-1, 0), (0, 0)), "B"])]
    ['U0:%x[0,0]', 'U1:%x[-1,0]/%x[0,0]', 'B']
    """
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

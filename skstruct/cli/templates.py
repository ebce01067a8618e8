"""Templates of the command line: those of a file, or the usual ones."""

from __future__ import annotations

from pathlib import Path

from ..preprocessing import TemplateVectorizer
from ..preprocessing.patterns import parse
from .files import naming, say

_WINDOW = range(-2, 3)
_MOST_COLUMNS = 1000

# Capitals alone, a digit, punctuation.
_KINDS = [("C", r"^\u*$"), ("d", r"\d"), ("p", r"\p")]

# Beginnings and ends of up to four characters, capitals.
_SPELLING = [
    "Ul:%X[0,0]",
    *(rf'Ub{n}:%m[0,0,"^.{".?" * (n - 1)}"]' for n in range(1, 5)),
    *(rf'Ue{n}:%m[0,0,"{".?" * (n - 1)}.$"]' for n in range(1, 5)),
    *(rf'Uc{o}:%t[{o},0,"^\u"]' for o in (-1, 0, 1)),
    *(f'U{name}:%t[0,0,"{regex}"]' for name, regex in _KINDS),
]

_DOC = """\
Print the template that train takes without -t, to be edited. Column 0 should have the words: their
windows, pairs, beginnings and ends, capitals, digits. Other columns: windows, pairs and triples."""


def _windows(name, column, longest):
    """Templates of single columns of neighbours, and of runs of them."""
    lines = [f"U{name}{o}:%x[{o},{column}]" for o in _WINDOW]
    for length in range(2, longest + 1):
        for o in _WINDOW[: len(_WINDOW) - length + 1]:
            steps = "/".join(f"%x[{o + k},{column}]" for k in range(length))
            lines.append(f"U{name}{o}-{length}:{steps}")
    return lines


def default_template(n_columns: int) -> str:
    """The template for files of words, parts of speech and the like."""
    words = _windows("w", 0, 1) + [f"Uw{o}-2:%x[{o},0]/%x[{o + 1},0]" for o in (-1, 0)]
    others = [line for j in range(1, n_columns) for line in _windows(f"{j}_", j, 3)]
    return "\n".join([*words, *_SPELLING, *others, "B"])


def read_template(name: str) -> str:
    """The text of a template file, after a look at all lines."""
    try:
        with naming(name):
            text = TemplateVectorizer.read_templates(Path(name))
        parse(text)
    except ValueError as error:  # UnicodeDecodeError is one
        raise ValueError(f"{name}, {error}") from None
    return text


def add_template(commands):
    """The command and its options."""
    parser = commands.add_parser("template", help="print the default template", description=_DOC)
    parser.add_argument(
        "--columns", type=int, default=2, metavar="N", help="columns without the label; default 2"
    )
    parser.set_defaults(run=_template)


def _template(given):
    if not 1 <= given.columns <= _MOST_COLUMNS:
        raise ValueError(f"--columns must be between 1 and {_MOST_COLUMNS}, got {given.columns}")
    say(default_template(given.columns))
    return 0

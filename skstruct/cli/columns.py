"""Column files, read as a stream, with the lines as they are; ``-`` is standard input."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ..datasets.conll import split_line
from .files import naming, standard


class Sentence(NamedTuple):
    """Consecutive lines of tokens."""

    # As they were read, without their ends.
    lines: list
    # Their columns.
    tokens: list
    # Where it begins, for messages.
    place: str
    # The line without a token that ended it; None at the end of the file.
    end: str | None


def encoding_name(text: str) -> str:
    """The argument of ``--encoding``."""
    try:
        # A mark at the beginning is skipped in any case; this codec would write one a batch.
        if codecs.lookup(text).name == "utf-8-sig":
            return "utf-8"
        end = "\n".encode(text)
    except (LookupError, UnicodeError):
        end = b""
    if end != b"\n":
        raise ValueError(text)
    return text


encoding_name.__name__ = "encoding"  # as argparse shows it


def _opened(name):
    if name == "-":
        return standard(sys.stdin, "input")
    return gzip.open(name) if name.endswith(".gz") else open(name, "rb")


def _lines(name, encoding):
    """Decoded lines with their numbers."""
    shown = "standard input" if name == "-" else name
    lines, number = _opened(name), 0
    try:
        with naming(shown):
            for number, line in enumerate(lines, start=1):
                text = line.decode(encoding).rstrip("\r\n")
                text = text.removeprefix("\ufeff") if number == 1 else text
                yield f"{shown}, line {number}", text
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown}, line {number}: {error} (--encoding says another)") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{shown}, line {number + 1}: {error}") from None
    finally:
        if name != "-":
            lines.close()


def read_sentences(
    name: str, widths: tuple[int, ...] | None, encoding: str
) -> Iterator[Sentence | str]:
    """Sentences of a file, and what stands between them."""
    lines, tokens, begin = [], [], ""
    for place, line in _lines(name, encoding):
        if not line.strip(" \t") or begins_document(line):
            yield Sentence(lines, tokens, begin, line) if lines else line
            lines, tokens = [], []
            continue
        token = tuple(split_line(line))
        if widths is None or len(token) not in widths:
            widths = _checked_widths(place, len(token), widths)
        elif len(widths) > 1:
            widths = (len(token),)
        if not lines:
            begin = place
        lines.append(line)
        tokens.append(token)
    if lines:
        yield Sentence(lines, tokens, begin, None)


def begins_document(line: str) -> bool:
    """Whether a line stands between documents, as those of CoNLL-2003 do."""
    return line.startswith("-DOCSTART-")


def _checked_widths(place, n_columns, widths):
    if widths is None:
        return (n_columns,)
    expected = " or ".join(map(str, widths))
    raise ValueError(f"{place}: {n_columns} columns, but {expected} were expected")


def batches(found: Iterator[Sentence | str], size: int) -> Iterator[list]:
    """Several sentences at a time, and the lines between them."""
    part, n = [], 0
    for one in found:
        part.append(one)
        n += isinstance(one, Sentence)
        if n == size:
            yield part
            part, n = [], 0
    if part:
        yield part

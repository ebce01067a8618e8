"""Counts of right labels and chunks, sentence by sentence, as conlleval prints them."""

from __future__ import annotations

import codecs
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..datasets.text import Lines
from ..metrics import chunks
from ..metrics.terms import has_chunk_tags
from .files import naming, standard

# Types of arguments; argparse calls them by their names in its messages.


def _number(name: str, kind: type, is_allowed: Callable) -> Callable:
    """A type of numbers, some of which are allowed."""

    def read(text):
        value = kind(text)
        if not is_allowed(value):
            raise ValueError
        return value

    read.__name__, read.__doc__ = name, f"Return the {name} that a text stands for."
    return read


number = _number("number", float, lambda value: 0 <= value < math.inf)
positive_number = _number("positive number", float, lambda value: 0 < value < math.inf)
count = _number("count", int, lambda value: value >= 1)
# What numpy takes.
seed = _number("seed", int, lambda value: 0 <= value < 2**32)
# Below 0 how many cores to leave out, as joblib counts them.
n_threads = _number("number of threads", int, lambda value: value != 0)

# Column files, read as a stream, with the lines as they are; ``-`` is standard input.


class Sentence(NamedTuple):
    """Consecutive lines of tokens."""

    # As they were read, without their ends.
    lines: list
    # Their columns.
    tokens: list
    # Position of its beginning, for messages.
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


def separator(text: str) -> str:
    """The argument of ``--separator``, where backslash and t are a tab, too."""
    found = text.replace("\\t", "\t")
    if not found or "\n" in found:
        raise ValueError(text)
    return found


def read_sentences(
    name: str, widths: tuple[int, ...] | None, encoding: str, separator: str | None = None
) -> Iterator[Sentence | str]:
    """Sentences of a file, and what stands between them."""
    source, name = (standard(sys.stdin, "input"), "standard input") if name == "-" else (name, name)
    found = Lines(source, widths, separator, encoding, name)
    lines, tokens, begin = [], [], ""
    with naming(name):
        for line, columns in found:
            if columns is None:
                yield Sentence(lines, tokens, begin, line) if lines else line
                lines, tokens = [], []
                continue
            if not lines:
                begin = found.place
            lines.append(line)
            tokens.append(tuple(columns))
    if lines:
        yield Sentence(lines, tokens, begin, None)


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


class Check:
    """Counts of tokens, sentences and chunks, and of the correct ones so far."""

    def __init__(self, of_chunks: bool) -> None:
        self.of_chunks = of_chunks
        self.n_tokens = self.n_right = self.n_sentences = self.n_whole = 0
        self._counters = self.gold, self.found, self.correct = Counter(), Counter(), Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count a sentence."""
        right = sum(a == b for a, b in zip(gold, predicted, strict=True))
        self.n_tokens += len(gold)
        self.n_right += right
        self.n_sentences += 1
        self.n_whole += right == len(gold)
        # With a mark of a beginning, so that a sentence of O alone is one of chunks.
        if self.of_chunks and not has_chunk_tags([[*gold, "B-"]]):
            self.of_chunks = False
        if self.of_chunks:
            true, found = set(chunks(gold)), set(chunks(predicted))
            for counts, some in zip(self._counters, (true, found, true & found), strict=True):
                counts.update(kind for _, _, kind in some)

    def lines(self) -> list[str]:
        """The report."""
        said = [
            f"{self.n_tokens} tokens, {self.n_sentences} sentences; accuracy: "
            f"{_percent(self.n_right, self.n_tokens)}; whole sentences: "
            f"{_percent(self.n_whole, self.n_sentences)}"
        ]
        if self.of_chunks:
            gold, found, correct = (counts.total() for counts in self._counters)
            rates = _rates(correct, found, gold)
            said.append(f"{gold} chunks, found: {found}, correct: {correct}; {rates}")
            kinds = sorted({*self.gold, *self.found})
            width = max(map(len, kinds), default=0)
            said += [
                f"{kind:>{width}}: "
                + _rates(self.correct[kind], self.found[kind], self.gold[kind])
                + f"  {self.gold[kind]}"
                for kind in kinds
            ]
        return said


def _percent(part, whole):
    return f"{100 * part / whole if whole else 0.0:.2f}%"


def _rates(correct, found, gold):
    return (
        f"precision: {_percent(correct, found)}; recall: {_percent(correct, gold)}; "
        f"F1: {_percent(2 * correct, found + gold)}"
    )

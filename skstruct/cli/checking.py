"""Counts of right labels and chunks, sentence by sentence, as conlleval prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..metrics import chunks


def are_chunks(labels: Iterable[str]) -> bool:
    """Whether labels are those of chunks: ``O``, or a tag, a dash and a kind."""
    others = [label for label in labels if label != "O"]
    return bool(others) and all(label[:1] in "BIOESLU" and label[1:2] == "-" for label in others)


class Check:
    """What is right so far."""

    def __init__(self, of_chunks: bool) -> None:
        self.of_chunks = of_chunks
        self.n_tokens = self.n_right = self.n_sentences = self.n_whole = 0
        self.found, self.gold, self.correct = Counter(), Counter(), Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count a sentence."""
        right = sum(a == b for a, b in zip(gold, predicted, strict=True))
        self.n_tokens += len(gold)
        self.n_right += right
        self.n_sentences += 1
        self.n_whole += right == len(gold)
        # With a mark of a beginning, so that a sentence of O alone is one of chunks.
        if self.of_chunks and not are_chunks({*gold, "B-"}):
            self.of_chunks = False
        if self.of_chunks:
            true, found = set(chunks(gold)), set(chunks(predicted))
            for counts, some in (
                (self.gold, true),
                (self.found, found),
                (self.correct, true & found),
            ):
                counts.update(kind for _, _, kind in some)

    def lines(self) -> list[str]:
        """The report."""
        said = [
            f"{self.n_tokens} tokens, {self.n_sentences} sentences; accuracy: "
            f"{_percent(self.n_right, self.n_tokens)}; whole sentences: "
            f"{_percent(self.n_whole, self.n_sentences)}"
        ]
        if self.of_chunks:
            said += [
                f"{self.gold.total()} chunks, found: {self.found.total()}, correct: "
                f"{self.correct.total()}; "
                + _rates(self.correct.total(), self.found.total(), self.gold.total())
            ]
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

"""What the parts of a corpus have of each template: counts that add up."""

from __future__ import annotations

import numpy as np

from .template_codes import Coder, by_text, combine


class TemplateCounts:
    """How often each combination of strings occurs, by what stands around the macros."""

    def __init__(self, templates: tuple, tokens) -> None:
        self.templates = templates
        self.tokens = tokens._replace(
            values=[[] for _ in tokens.values], offsets=np.zeros(1, dtype=np.int64)
        )
        self.vocabulary, self.results, self.steps = {}, {}, {}
        self.rows, self.n_tokens = {}, int(tokens.offsets[-1])

    @classmethod
    def of(cls, templates: tuple, tokens, outside: str) -> TemplateCounts:
        """Those of one part."""
        counts = cls(templates, tokens)
        source = Coder(tokens, counts.vocabulary, True, outside)
        for kind, own in enumerate(templates):
            source.base(own)
            for texts, members in by_text(own).items():
                rows = np.concatenate([source.local_rows(template) for template in members])
                counts.rows[kind, texts] = [_distinct(rows, np.ones(len(rows), dtype=np.int64))]
        counts.results, counts.steps = source.results, source.steps
        return counts

    def add(self, other: TemplateCounts) -> None:
        """Add those of the next part."""
        n, given = len(self.tokens.values), len(other.tokens.values)
        if n != given:
            raise ValueError(f"X has {given} columns, but before {n}")
        if self.tokens.are_words != other.tokens.are_words:
            raise ValueError("X has tokens that are words, and others that are tuples")
        codes = self.vocabulary
        place = np.array(
            [codes.setdefault(string, len(codes)) for string in other.vocabulary], dtype=np.int64
        )
        for key, found in other.results.items():
            self.results.setdefault(key, {}).update(found)
        for macro, found in other.steps.items():
            mine = self.steps.setdefault(macro, {"-": set(), "+": set()})
            for sign, steps in found.items():
                mine[sign] |= steps
        for key, pieces in other.rows.items():
            mine = self.rows.setdefault(key, [])
            mine += [(place[rows], number) for rows, number in pieces]
            # Joined when there are twice as many as the last time, so that all this stays linear.
            if sum(len(rows) for rows, _ in mine[1:]) > len(mine[0][0]):
                mine[:] = [_joined(mine)]

    def keys(self, kind: int, texts: tuple, vocabulary: dict, base: int, tables: list) -> tuple:
        """Keys of all combinations, and how often each occurs."""
        rows, number = _joined(self.rows[kind, texts])
        place = np.array([vocabulary.get(s, -1) for s in self.vocabulary], dtype=np.int64)
        codes = list(place[rows].T)
        keys = combine(codes, len(rows), base, tables, True)
        order = np.argsort(keys)
        return keys[order], number[order]


def _joined(pieces):
    rows, numbers = zip(*pieces, strict=True)
    return _distinct(np.concatenate(rows), np.concatenate(numbers))


def _distinct(rows, numbers):
    """Each row once, and the sum of its numbers."""
    if not rows.shape[1]:
        return rows[:1], numbers.sum(keepdims=True)[: len(rows)]
    order = np.lexsort(rows.T)
    rows = rows[order]
    is_first = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)]
    sums = np.add.reduceat(numbers[order], np.flatnonzero(is_first)) if len(rows) else numbers
    return rows[is_first], sums

"""Codes of strings by column, and their combinations by template."""

from __future__ import annotations

import numpy as np

from .patterns import compile_regex

_LARGEST_KEY = 2**62


def by_text(templates: list) -> dict:
    """Templates by what stands around their macros: those without identifiers share features."""
    groups = {}
    for template in templates:
        groups.setdefault(template.texts, []).append(template)
    return groups


class Coder:
    """Codes of strings by column, and their combinations by template."""

    def __init__(self, tokens, vocabulary, grow, outside):
        self.columns, self.vocabulary, self.grow = tokens.values, vocabulary, grow
        self.outside = outside
        offsets = tokens.offsets
        lengths = np.diff(offsets)
        self.n_tokens = int(offsets[-1])
        self.start = np.repeat(offsets[:-1], lengths)
        self.position = np.arange(self.n_tokens) - self.start
        self.length = np.repeat(lengths, lengths)
        self.sources, self.shifted = {}, {}
        #: What macros gave, in order, and how far beyond which end they looked: see `order_codes`.
        self.results, self.steps = {}, {}

    def _code(self, string):
        if self.grow:
            return self.vocabulary.setdefault(string, len(self.vocabulary))
        return self.vocabulary.get(string, -1)

    def _source(self, macro):
        """Codes of what a macro gives at its own token, one a token."""
        key = own_token(macro)
        if key not in self.sources:
            strings, local = {}, []
            for string in self.columns[macro.column]:
                local.append(strings.setdefault(string, len(strings)))
            results = [_result(macro, string) for string in strings]
            codes = [*map(self._code, results)]
            self.results[key] = dict.fromkeys(results)
            local = np.array(local, dtype=np.int64)
            self.sources[key] = np.array(codes, dtype=np.int64)[local]
        return self.sources[key]

    def _shifted(self, macro):
        """Codes at the macro's offset, marks beyond the ends, -1 for what is unknown."""
        if macro not in self.shifted:
            self.shifted[macro] = self._shift(macro)
        return self.shifted[macro]

    def _shift(self, macro):
        own = self._source(macro)
        if not macro.absolute:
            target = self.position + macro.offset
        elif macro.offset < 0:
            target = self.length + macro.offset
        else:
            target = np.full(self.n_tokens, macro.offset - 1)
        inside = (target >= 0) & (target < self.length)
        codes = np.full(own.size, -1, dtype=np.int64)
        rows = np.flatnonzero(inside)
        codes[rows] = own[(self.start + target)[rows]]
        if self.outside == "drop":
            return codes
        before = np.flatnonzero(target < 0)
        after = np.flatnonzero(target >= self.length)
        self.steps[macro] = {}
        for rows, distance, sign in (
            (before, -target[before], "-"),
            (after, target[after] - self.length[after] + 1, "+"),
        ):
            steps = np.unique(distance)
            self.steps[macro][sign] = set(steps.tolist())
            for step in steps:
                codes[rows[distance == step]] = self._code(mark(macro, sign, step, self.outside))
        return codes

    def base(self, templates):
        """Number of codes once all macros of the templates have been read."""
        for template in templates:
            for macro in template.macros:
                self._shifted(macro)
        return max(len(self.vocabulary), 1)

    def keys(self, template, base, tables, learn):
        """One integer a token for the combination of all macros; -1 if any is unknown.

        Combinations too many for 62 bits are compacted: their sorted keys are kept in `tables`.
        """
        codes = [self._shifted(macro) for macro in template.macros]
        return combine(codes, self.n_tokens, base, tables, learn)

    def local_rows(self, template) -> np.ndarray:
        """Codes of the macros, one row a token whose macros are all there."""
        if not template.macros:
            return np.zeros((self.n_tokens, 0), dtype=np.int64)
        rows = np.stack([self._shifted(macro) for macro in template.macros], axis=1)
        return rows[(rows >= 0).all(axis=1)]


def combine(codes: list, n: int, base: int, tables: list, learn: bool) -> np.ndarray:
    """One integer a token for the codes of all macros; -1 if any is unknown."""
    if not codes:
        return np.zeros(n, dtype=np.int64)
    keys, bound = codes[0], base
    for q, own in enumerate(codes[1:], start=1):
        if bound > _LARGEST_KEY // base:
            if learn:
                table = np.unique(keys[keys >= 0])
                tables[q] = table if tables[q] is None else np.union1d(tables[q], table)
            keys, bound = _position(tables[q], keys), tables[q].size
        keys = np.where((keys < 0) | (own < 0), -1, keys * base + own)
        bound *= base
    return keys


def own_token(macro):
    """The macro at its own token, whatever its offset: what it gives is coded once."""
    return macro._replace(offset=0, absolute=False)


def mark(macro, sign: str, step: int, outside: str) -> str:
    """What a macro gives `step` tokens before the first or after the last one."""
    if outside == "mark":
        return f"_B{sign}{step}"
    return _result(macro, f"_x{sign}{step if step <= 4 else '#'}")


def order_codes(templates, results: dict, steps: dict, vocabulary: dict, outside: str) -> int:
    """Give all strings the codes that a coder gives them which sees all tokens at once."""
    for template in templates:
        for macro in template.macros:
            for string in results[own_token(macro)]:
                vocabulary.setdefault(string, len(vocabulary))
            for sign, found in steps.get(macro, {}).items():
                for step in sorted(found):
                    vocabulary.setdefault(mark(macro, sign, step, outside), len(vocabulary))
    return max(len(vocabulary), 1)


def _position(table, keys):
    if table.size == 0:
        return np.full(keys.size, -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(table, keys), table.size - 1)
    return np.where(table[position] == keys, position, -1)


def _result(macro, string):
    if macro.command != "x":
        found = compile_regex(macro.regex).search(string)
        if macro.command == "t":
            string = "false" if found is None else "true"
        else:
            string = "" if found is None else found.group()
    return string.lower() if macro.lower else string

"""Dictionaries, and the words of a string: those of the dictionary, and unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Ideographs, with their iteration marks; the syllabaries of Japanese.
_RANGES = (
    *((0x3005, 0x3007, "HAN"), (0x3400, 0x4DBF, "HAN"), (0x4E00, 0x9FFF, "HAN")),
    *((0xF900, 0xFAFF, "HAN"), (0x20000, 0x3FFFF, "HAN"), (0x3041, 0x309F, "HIRAGANA")),
    *((0x30A0, 0x30FF, "KATAKANA"), (0x31F0, 0x31FF, "KATAKANA"), (0xFF66, 0xFF9F, "KATAKANA")),
)
#: Kinds of characters where no file defines others.
PLAIN_KINDS = "HAN", "HIRAGANA", "KATAKANA", "LETTER", "DIGIT", "OTHER"
# MeCab's option --max-grouping-size: characters after the first.
_LONGEST_RUN = 24
# Lengths that are told apart, and first fields that are features.
_LONGEST, _FIELDS = 4, 4


class Dictionary(NamedTuple):
    """Words and kinds of characters, as in MeCab's files."""

    # (surface, field, ...) of each word.
    words: list
    # By name: whether there are unknown words beside those of the dictionary, whether runs are
    # unknown words, and up to which length all beginnings of a run are.
    kinds: dict
    # (first, last, names): kinds of code points, the one of unknown words first; a later entry
    # overrides earlier ones, and without one a character is of kind DEFAULT.
    ranges: list
    # (kind, field, ...) of each unknown word.
    unknown: list

    @classmethod
    def of_words(cls, words: Iterable, longest: int) -> Dictionary:
        """A dictionary without fields: unknown words are runs, and all of `longest` characters."""
        if isinstance(words, str) or not hasattr(words, "__len__"):
            raise TypeError(f"dictionary must be a list of words, got a {type(words).__name__}")
        words = sorted(words, key=str) if isinstance(words, (set, frozenset)) else words
        for q, word in enumerate(words):
            if not isinstance(word, str) or not word:
                hint = "; words with fields come from WordLattice.from_mecab"
                raise ValueError(
                    f"dictionary: word {q} must be a string of characters: {word!r}"
                    + hint * isinstance(word, (tuple, list))
                )
        kinds = dict.fromkeys(PLAIN_KINDS, (True, True, longest))
        return cls([(word,) for word in dict.fromkeys(words)], kinds, [], [*zip(PLAIN_KINDS)])

    @property
    def is_plain(self) -> bool:
        """Whether these are words without fields."""
        return "DEFAULT" not in self.kinds

    def __deepcopy__(self, memo: dict) -> Dictionary:
        return self  # it never changes, and clones of structures need not have their own

    def __repr__(self) -> str:
        return f"<Dictionary of {len(self.words)} words>"


class Lookup:
    """The words at each place of a string, by the rules of MeCab; their classes and features."""

    def __init__(self, dictionary: Dictionary, n_fields: int) -> None:
        self.dictionary, self._known, index = dictionary, {}, {}
        self._entries, self.n_words = dictionary.words + dictionary.unknown, len(dictionary.words)
        for q, (surface, *_) in enumerate(dictionary.words):
            for size in range(1, len(surface)):
                index.setdefault(surface[:size], ())
            index[surface] = (*index.get(surface, ()), q)
        self._index = index
        #: Numbers of the unknown words of each kind; they follow those of the dictionary.
        self.unknown = {kind: [] for kind in dictionary.kinds}
        for q, (kind, *_) in enumerate(dictionary.unknown):
            self.unknown[kind].append(self.n_words + q)

        #: Names of the classes of words: their first fields, or kinds and lengths.
        self.classes = [f"{kind} {n}" for kind in PLAIN_KINDS for n in range(1, _LONGEST + 1)]
        if not dictionary.is_plain:
            own = [",".join(fields[:n_fields]) for _, *fields in self._entries]
            self.classes = sorted({*own})
            number = {name: c for c, name in enumerate(self.classes)}
            self._class = [number[name] for name in own]

    def class_of(self, number: int, surface: str) -> int:
        """Class of a word."""
        if not self.dictionary.is_plain:
            return self._class[number]
        kind = PLAIN_KINDS.index(self.kinds(surface[0])[0])
        return kind * _LONGEST + min(len(surface), _LONGEST) - 1

    def features(self, number: int, surface: str) -> tuple[str, list]:
        """Name of a word as a feature ("" for unknown ones), and names of others that it has.

        Unknown words of MeCab have no surface: all of a kind cost the same.
        """
        first, *fields = self._entries[number]
        is_known = number < self.n_words
        names = [] if is_known else [f"unknown={first}"]
        names += [f"fields={','.join(fields[: k + 1])}" for k in range(min(len(fields), _FIELDS))]
        if surface:
            kind = " ".join(dict.fromkeys(self.kinds(char)[0] for char in surface))
            names += [f"length={min(len(surface), _LONGEST + 1)}", f"kind={kind}"]
        if self.dictionary.is_plain:
            names += [f"first={surface[0]}", f"last={surface[-1]}"]
            names += [f"inside={surface[k : k + 2]}" for k in range(len(surface) - 1)]
        return f"word={','.join((first, *fields))}" if is_known else "", names

    def fits(self, number: int, fields: list) -> bool:
        """Whether these are the first fields of a word."""
        return [*self._entries[number][1 : 1 + len(fields)]] == fields

    def kinds(self, char: str) -> tuple:
        """All kinds of a character, the one of its unknown words first."""
        if char not in self._known:
            code, found = ord(char), ("DEFAULT",)
            if self.dictionary.is_plain:
                among = (kind for first, last, kind in _RANGES if first <= code <= last)
                other = "DIGIT" if char.isdigit() else "LETTER" if char.isalpha() else "OTHER"
                found = (next(among, other),)
            for first, last, names in reversed(self.dictionary.ranges):
                if first <= code <= last:
                    found = names
                    break
            self._known[char] = found
        return self._known[char]

    def words(self, text: str, boundaries: Iterable = ()) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and number of the words that begin where others end, or at `boundaries`.

        As MeCab's ``Tokenizer::lookup`` finds them (T. Kudo, MeCab 0.996, tokenizer.cpp), but for
        white space, which it skips.
        """
        kinds, reached = [self.kinds(char) for char in text], {0, *boundaries}
        for begin in range(len(text)):
            if begin not in reached:
                continue
            is_known, end = False, begin + 1
            while end <= len(text) and (found := self._index.get(text[begin:end])) is not None:
                for q in found:
                    is_known = True
                    reached.add(end)
                    yield begin, end, q
                end += 1
            for end in self._unknown_ends(kinds, begin, is_known):
                if self.dictionary.is_plain and self._index.get(text[begin:end]):
                    continue
                reached.add(end)
                for q in self.unknown[kinds[begin][0]]:
                    yield begin, end, q

    def _unknown_ends(self, kinds, begin, is_known):
        """Where unknown words end that begin at a place."""
        invoke, group, length = self.dictionary.kinds[kinds[begin][0]]
        if is_known and not invoke:
            return []
        ends, run, first = [], begin + 1, begin + 1
        while group and run < len(kinds) and not set(kinds[run - 1]).isdisjoint(kinds[run]):
            run += 1
        if group and run - first <= _LONGEST_RUN:
            ends.append(run)
        beginnings = range(first, min(first + length, len(kinds) + 1))
        if self.dictionary.is_plain:  # of any kinds, such as a number and its unit
            return sorted({*ends, *beginnings})
        for end in beginnings:
            if group and end == run:
                break
            ends.append(end)
            if end == len(kinds) or set(kinds[begin]).isdisjoint(kinds[end]):
                break
        return ends if ends or is_known else [first]

"""Features of the pairs of words of two sentences, as arrays (n_source, n_target)."""

from __future__ import annotations

import numpy as np

from ...core.offsets import ends_of
from .kernels import common_letters

# Translation probabilities below this are as good as none.
_LEAST = 1e-6

# Words that occur at most so often are rare, those of at most so many letters short.
_RARE, _SHORT = 5, 3

_PLACES = ("distance", "distance_square", "distance_root")
_SPELLING = ("equal", "equal_long", "prefix", "subsequence", "both_signs", "one_sign", "numbers")
_FREQUENCY = ("rank", "both_rare", "one_rare", "both_short", "one_short", "unknown")
_WORDS = ("dice", "dice_root", "dice_excess", "forward", "backward")
_LINKS = ("forward_link", "backward_link", "both_link")
_MODELS = tuple(
    f"{model}_{kind}"
    for model in ("plain", "diagonal")
    for kind in ("forward", "backward", "both", "excess")
)
_NEXT = {
    "next": (1, 1), "previous": (-1, -1), "cross_next": (1, -1), "cross_previous": (-1, 1),
    "below": (1, 0), "above": (-1, 0), "right": (0, 1), "left": (0, -1),
}  # fmt: skip
_NEIGHBOURS = ("dice_next", "dice_previous", *(f"diagonal_both_{name}" for name in _NEXT))


def feature_names():
    """Names of the features."""
    groups = _WORDS, _LINKS, _MODELS, _NEIGHBOURS, _PLACES, _SPELLING, _FREQUENCY
    return np.array([name for group in groups for name in group], dtype=object)


def find_pairs(keys, source, target, width):
    """Where the pairs of two sentences are in a table of pairs."""
    wanted = source[:, None] * width + target
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    known = (source >= 0)[:, None] & (target >= 0) & (keys[at] == wanted)
    return np.where(known, at, -1)


def best_links(table, codes, at):
    """Links of IBM model 1 in either direction."""
    t, back = _look_up(table.forward, at), _look_up(table.backward, at)
    nulls = _look_up(table.forward_null, codes[1]), _look_up(table.backward_null, codes[0])
    forward, backward = np.zeros(t.shape, dtype=bool), np.zeros(t.shape, dtype=bool)
    columns = np.flatnonzero(t.max(axis=0) > nulls[0])
    forward[t.argmax(axis=0)[columns], columns] = True
    rows = np.flatnonzero(back.max(axis=1) > nulls[1])
    backward[rows, back.argmax(axis=1)[rows]] = True
    return forward, backward


def features_of_pair(table, words, codes, at, diagonal):
    """All features."""
    n, m = at.shape
    place = (np.arange(n) + 0.5)[:, None] / n - (np.arange(m) + 0.5) / m
    dice = _look_up(table.dice, at)
    forward, backward = best_links(table, codes, at)
    columns = [dice, np.sqrt(dice), _excess(dice)]
    columns += [_log(_look_up(t, at)) for t in (table.forward, table.backward)]
    columns += [forward, backward, forward & backward]
    for strength in (0.0, diagonal):
        models = _posteriors(table, codes, at, np.exp(-strength * np.abs(place)))
        both = np.sqrt(models[0] * models[1])
        columns += [*models, both, _excess(both)]
    columns += [_shifted(dice, 1, 1), _shifted(dice, -1, -1)]
    columns += [_shifted(both, *step) for step in _NEXT.values()]
    distance = np.abs(place)
    columns += [distance, distance**2, np.sqrt(distance)]
    columns += _spelling(*words) + _frequency(table, words, codes)
    return np.stack(columns, axis=2, dtype=np.float64)


def _look_up(values, at):
    """Values, 0 where there is none."""
    return np.where(at >= 0, values[at], 0.0)


def _log(t):
    """Logarithms from 0 (as good as none) to 1."""
    return 1.0 - np.log(np.maximum(t, _LEAST)) / np.log(_LEAST)


def _excess(values):
    """How much larger an entry is than the others in its row and its column."""
    out = values.copy()
    for axis in (0, 1):
        if values.shape[axis] > 1:
            two = np.partition(values, -2, axis=axis)
            largest, second = (np.take(two, [k], axis=axis) for k in (-1, -2))
            out -= 0.5 * np.where(values == largest, second, largest)
    return out


def _posteriors(table, codes, at, prior):
    """Probabilities of links given the sentences, in both directions."""
    out = []
    for t, null, given, axis in (
        (table.forward, table.forward_null, codes[1][None, :], 0),
        (table.backward, table.backward_null, codes[0][:, None], 1),
    ):
        joint = _look_up(t, at) * prior
        # As in training each word of the sentence, and the word that is none, are as probable.
        joint *= at.shape[axis] / prior.sum(axis=axis, keepdims=True)
        norm = joint.sum(axis=axis, keepdims=True) + _look_up(null, given)
        out.append(joint / np.where(norm > 0.0, norm, 1.0))
    return out


def _shifted(values, down, right):
    """At (i, j) what is at (i + down, j + right); 0 outside."""
    n, m = values.shape
    padded = np.zeros((n + 2, m + 2))
    padded[1:-1, 1:-1] = values
    return padded[1 + down : n + 1 + down, 1 + right : m + 1 + right]


def _letters(words):
    """Letters of all words in one array, and where each begins."""
    letters = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return letters, ends_of(np.array([len(word) for word in words]))


def _spelling(source, target):
    sides = _letters(source), _letters(target)
    sizes = [np.diff(ends) for _, ends in sides]
    shape = len(source), len(target)
    prefix, common = np.empty(shape), np.empty(shape)
    row = np.empty(int(sizes[1].max()) + 1, dtype=np.int64)
    common_letters(*sides[0], *sides[1], row, prefix, common)
    n, m = sizes[0][:, None], sizes[1][None, :]
    longest = np.maximum(np.maximum(n, m), 1)
    equal = (n == m) & (prefix == n)
    sign = [_are(words, lambda word: not any(map(str.isalnum, word))) for words in (source, target)]
    number = [_are(words, lambda word: any(map(str.isdigit, word))) for words in (source, target)]
    signs, numbers = sign[0][:, None] & sign[1], number[0][:, None] & number[1]
    return [
        equal,
        equal & (n > _SHORT),
        prefix / longest,
        2.0 * common / np.maximum(n + m, 1),
        signs,
        sign[0][:, None] ^ sign[1],
        numbers,
    ]


def _are(words, has):
    return np.array([has(word) for word in words])


def _frequency(table, words, codes):
    """Words that translate each other are about as frequent."""
    counts = [_look_up(counts, side) for counts, side in zip(table.counts, codes, strict=True)]
    rare = [c <= _RARE for c in counts]
    short = [_are(side, lambda word: len(word) <= _SHORT) for side in words]
    logs = [
        np.log(np.maximum(c, 1.0)) / max(np.log(t.max()), 1.0)
        for c, t in zip(counts, table.counts, strict=True)
    ]
    return [
        np.abs(logs[0][:, None] - logs[1]),
        rare[0][:, None] & rare[1],
        rare[0][:, None] ^ rare[1],
        short[0][:, None] & short[1],
        short[0][:, None] ^ short[1],
        (codes[0] < 0)[:, None] | (codes[1] < 0),
    ]

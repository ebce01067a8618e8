"""Forbidden transitions: from a tagging scheme, or from pairs of labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..lite import SCHEME_NAMES, scheme_name
from .values import UNKNOWN, family

# Labels that need no prefix: those of chunks without a kind.
_ALONE = set("OBIESLU.")


def without_prefix(labels: Iterable[str]) -> str | None:
    """The first label that is most likely no label of chunks."""
    return next((v for v in labels if v not in _ALONE and v[1:2] != "-"), None)


class TransitionMask(NamedTuple):
    """0 where a step is allowed, -inf where it is not."""

    # (n_classes, n_classes): Of (label, next label).
    pairs: np.ndarray
    # (n_classes,): Of a label at the first and at the last node.
    start: np.ndarray
    stop: np.ndarray

    @property
    def bounds_ends(self) -> bool:
        """True if any label is forbidden at an end."""
        return bool(np.count_nonzero(self.start) or np.count_nonzero(self.stop))


# Of each scheme: the tags that may follow "outside" (or the start, or another chunk), and for each
# tag inside a chunk the tags that go on with the same chunk; tags that may end a chunk.
_SCHEMES = {
    "iob1": {"opens": "I", "goes_on": {"I": "IB", "B": "IB"}, "closes": "IB"},
    "iob2": {"opens": "B", "goes_on": {"B": "I", "I": "I"}, "closes": "BI"},
    "ioe1": {"opens": "IE", "goes_on": {"I": "IE", "E": "IE"}, "closes": "I"},
    "ioe2": {"opens": "IE", "goes_on": {"I": "IE", "E": ""}, "closes": "E"},
    "iobes": {"opens": "BS", "goes_on": {"B": "IE", "I": "IE", "E": "", "S": ""}, "closes": "ES"},
    "bilou": {"opens": "BU", "goes_on": {"B": "IL", "I": "IL", "L": "", "U": ""}, "closes": "LU"},
}


def _split(label, scheme):
    tag, _, kind = str(label).partition("-")
    if tag == "O" and not kind:
        return "O", ""
    if tag not in _SCHEMES[scheme]["goes_on"]:
        hint = "" if any(map(str.isalnum, str(label))) else f"; {UNKNOWN}"  # as "?"
        raise ValueError(f"forbidden={scheme!r}: {label!r} is not a label of this scheme{hint}")
    return tag, kind


def _allowed_by_scheme(scheme, before, after):
    """Return whether label `after` may follow `before` (None is an end of the sequence)."""
    rules = _SCHEMES[scheme]
    tag, kind = ("O", "") if before is None else _split(before, scheme)
    next_tag, next_kind = ("O", "") if after is None else _split(after, scheme)
    if tag != "O" and next_tag in rules["goes_on"][tag] and kind == next_kind and next_tag != "O":
        return True
    may_close = tag == "O" or tag in rules["closes"]
    return may_close and (next_tag == "O" or next_tag in rules["opens"])


def transition_mask(forbidden, classes: np.ndarray) -> TransitionMask:
    """The mask of a `forbidden` argument."""
    rules = tuple(_rules(forbidden))
    labels = tuple(classes.tolist() if rules else range(len(classes)))
    try:
        return _mask(rules, labels)
    except TypeError:  # a label, or what stands for a pair, cannot be hashed
        return _mask.__wrapped__(rules, labels)


@lru_cache(maxsize=16)
def _mask(rules, labels):
    """The mask of rules: found again by every call of predict."""
    n = len(labels)
    mask = TransitionMask(np.zeros((n, n)), np.zeros(n), np.zeros(n))
    pairs = []
    for rule in rules:
        if isinstance(rule, str):
            scheme, ends = scheme_name(rule, "forbidden"), [*labels, None]
            pairs += [(a, b) for a in ends for b in ends if not _allowed_by_scheme(scheme, a, b)]
        else:
            pairs.append(rule)
    position = {}  # a label may have several states
    for k, label in enumerate(labels):
        position.setdefault(label, []).append(k)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"forbidden: {pair!r} is not a pair (label, next label)")
        for label in pair:
            if label is not None and label not in position:
                known = [*position]
                raise ValueError(f"forbidden: unknown label {label!r}; the classes are {known}")
        before, after = (None if label is None else position[label] for label in pair)
        if before is None and after is None:
            raise ValueError("forbidden: (None, None) would forbid nothing but the empty sequence")
        if before is None:
            mask.start[after] = -math.inf
        elif after is None:
            mask.stop[before] = -math.inf
        else:
            for k in before:
                mask.pairs[k, after] = -math.inf
    return mask


def _rules(forbidden):
    """The schemes and pairs of a `forbidden` argument."""
    if forbidden is None:
        return []
    if isinstance(forbidden, str):
        return [forbidden]
    if isinstance(forbidden, Mapping):
        raise TypeError(f"forbidden must be a list of pairs and schemes, got the dict {forbidden}")
    if not isinstance(forbidden, Iterable):
        raise ValueError(f"forbidden must be a list of pairs of labels, got {forbidden!r}")
    if isinstance(forbidden, Iterator):
        raise ValueError(
            "forbidden is an iterator, which can be read only once: pass a list of pairs"
        )
    rules = list(forbidden)
    if len(rules) == 2 and all(_is_label(v) and str(v).lower() not in SCHEME_NAMES for v in rules):
        raise ValueError(f"forbidden must be a list of pairs: [{tuple(rules)}]")
    return rules


def _is_label(value):
    return value is None or family(type(value)) is not None


def step_mask(forbidden, classes: np.ndarray, kind: str) -> TransitionMask:
    """The mask of steps alone, for structures without a first and a last node."""
    names = [rule for rule in _rules(forbidden) if isinstance(rule, str)]
    if names:
        raise ValueError(f"forbidden={names[0]!r}: tagging schemes are for chains, not for {kind}")
    mask = transition_mask(forbidden, classes)
    if mask.bounds_ends:
        raise ValueError(f"forbidden: {kind} have no first and last node, None is not allowed")
    return mask


def allowed_at_ends(mask: TransitionMask, offsets, allowed=None) -> np.ndarray:
    """Masks of each node's labels, without those that are forbidden at an end."""
    size = offsets[-1], mask.start.size
    allowed = np.ones(size, dtype=np.uint8) if allowed is None else allowed.copy()
    allowed[offsets[:-1]] &= mask.start > -math.inf
    allowed[offsets[1:] - 1] &= mask.stop > -math.inf
    return allowed


def other_scheme(forbidden, codes, first, second, offsets, classes) -> str:
    """A hint, if the labels follow another tagging scheme than the one asked for."""
    named = next((rule for rule in _rules(forbidden) if isinstance(rule, str)), None)
    if named is None:
        return ""
    labels = classes.tolist()
    pairs = np.unique(np.stack([codes[first], codes[second]], axis=1), axis=0)
    steps = [(labels[a], labels[b]) for a, b in pairs]
    filled = np.diff(offsets) > 0
    steps += [(None, labels[k]) for k in np.unique(codes[offsets[:-1][filled]])]
    steps += [(labels[k], None) for k in np.unique(codes[offsets[1:][filled] - 1])]
    asked = scheme_name(named)
    for scheme in (asked, *_SCHEMES):
        try:
            follows = all(_allowed_by_scheme(scheme, *step) for step in steps)
        except ValueError:  # a label that the scheme does not have
            continue
        if follows:
            follow = "" if scheme == asked else f"; all labels follow {scheme!r}"
            return f" (forbidden={forbidden!r}{follow})"
    return f" (forbidden={forbidden!r})"


def check_steps(
    mask: TransitionMask, codes, first, second, offsets, classes, forbidden=None
) -> None:
    """Reject training labels with a forbidden step along an edge."""
    broken = np.flatnonzero(np.isinf(mask.pairs[codes[first], codes[second]]))
    if broken.size:
        row = first[broken[0]]
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        pair = (classes[codes[row]].item(), classes[codes[second[broken[0]]]].item())
        hint = other_scheme(forbidden, codes, first, second, offsets, classes)
        raise ValueError(
            f"y: sample {i}, node {row - offsets[i]} has the forbidden step {pair}{hint}"
        )


def check_ends(
    mask: TransitionMask, codes, first, second, offsets, classes, forbidden=None
) -> None:
    """Reject training labels that are forbidden at the first or last node."""
    filled = np.flatnonzero(np.diff(offsets))
    for ends, rows, where in (
        (mask.start, offsets[filled], "first"),
        (mask.stop, offsets[filled + 1] - 1, "last"),
    ):
        broken = np.flatnonzero(np.isinf(ends[codes[rows]]))
        if broken.size:
            i = filled[broken[0]]
            label = classes[codes[rows[broken[0]]]].item()
            hint = other_scheme(forbidden, codes, first, second, offsets, classes)
            raise ValueError(
                f"y: sample {i} has the label {label!r}, forbidden at its {where} node{hint}"
            )

"""Segments of sequences: from labels and to labels, in y as in predictions."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import check_integer
from .labels import read_sequence_labels
from .packing import sample_of
from .ragged import RaggedArray, object_array

_OUTSIDE = "O"
#: Roles of labels: in any place; at the first node of a segment only; at others only.
ANYWHERE, FIRST, FURTHER = 0, 1, 2


class Kinds(NamedTuple):
    """Kinds of segments, and the labels that stand for their nodes."""

    # (n_kinds,): Their names.
    names: np.ndarray
    # (n_kinds,): The label of the first node, and that of the others.
    first: np.ndarray
    further: np.ndarray
    # (n_labels,): Kind and role of each label.
    of_label: np.ndarray
    role: np.ndarray
    # (n_kinds,): Whether segments of the kind are single nodes, whatever the labels.
    is_single: np.ndarray

    @classmethod
    def of(cls, classes: np.ndarray, scheme: str | None) -> Kinds:
        """The kinds of sorted labels: the labels, or the kinds of tags "B-X", "I-X", "O"."""
        own = np.arange(len(classes))
        if scheme is None:
            role = np.full(own.size, ANYWHERE, dtype=np.uint8)
            return cls(np.asarray(classes), own, own, own, role, np.zeros(own.size, dtype=bool))
        tags = [_split(label) for label in np.asarray(classes).tolist()]
        names = [name for tag, name in tags if tag != "I"]
        for tag, name in tags:
            if name not in names:
                raise ValueError(
                    f"scheme={scheme!r}: y has {_joined(tag, name)!r} but never "
                    f"{_joined('B', name)!r}, which begins a chunk"
                )
        at = {tag: k for k, tag in enumerate(tags)}
        first = np.array([k for k, (tag, _) in enumerate(tags) if tag != "I"])
        further = [at.get(("I", tags[k][1]), k) for k in first.tolist()]
        role = np.array([FURTHER if tag == "I" else FIRST for tag, _ in tags], dtype=np.uint8)
        of_label = np.array([names.index(name) for _, name in tags])
        further = np.array(further)
        return cls(object_array(names), first, further, of_label, role, first == further)


def _split(label):
    """The tag of a label and the kind of its chunk; "O" is a kind of its own."""
    tag, dash, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == _OUTSIDE:
        return "O", _OUTSIDE
    if tag not in ("B", "I") or bool(dash) != bool(kind) or kind == _OUTSIDE:
        raise ValueError(f"scheme='bio': the label {label!r} is not O, B-... or I-...")
    return tag, kind


def _joined(tag, kind):
    return f"{tag}-{kind}" if kind else tag


class Segments(NamedTuple):
    """Where the segments of packed labels begin and stop, their kinds, and nodes that are wrong."""

    start: np.ndarray
    stop: np.ndarray
    kind: np.ndarray
    # (n_nodes,): Whether a segment begins there that may not.
    is_wrong: np.ndarray

    @classmethod
    def of(
        cls, codes: np.ndarray, offsets: np.ndarray, kinds: Kinds, is_single: np.ndarray
    ) -> Segments:
        """The segments that codes of labels stand for; `is_single`: kinds of single nodes."""
        kind, role = kinds.of_label[codes], kinds.role[codes]
        begins = (role == FIRST) | is_single[kind]
        begins[1:] |= kind[1:] != kind[:-1]
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        start = np.flatnonzero(begins)
        stop = np.append(start, codes.size)[1:]
        return cls(start, stop, kind[start], begins & (role == FURTHER))

    @property
    def length(self) -> np.ndarray:
        """Number of nodes of each segment."""
        return self.stop - self.start


def read_max_length(max_length: Any, kinds: Kinds) -> np.ndarray:
    """Longest segment of each kind: 0 where they are single nodes in any number, -1 if unknown."""
    names = kinds.names.tolist()
    given = max_length if isinstance(max_length, Mapping) else dict.fromkeys(names, max_length)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"max_length: unknown kind {unknown[0]!r}; the kinds are {names}")
    limits = np.full(len(names), -1, dtype=np.int64)
    for c, name in enumerate(names):
        value = given.get(name)
        if value is not None:
            is_endless = isinstance(max_length, Mapping) and value == np.inf
            limits[c] = 0 if is_endless else check_integer("max_length", value)
    limits[kinds.is_single] = 1
    if kinds.role.any() and _OUTSIDE in names:
        if isinstance(max_length, Mapping) and given.get(_OUTSIDE, np.inf) != np.inf:
            raise ValueError("max_length: with scheme='bio' the length of 'O' has no limit")
        limits[names.index(_OUTSIDE)] = 0
    return limits


def has_segments(y: Any) -> bool:
    """Return whether y holds tuples (start, stop, label), not labels."""
    if isinstance(y, RaggedArray) or not isinstance(y, (list, tuple, np.ndarray)):
        return False
    filled = (item for item in y if isinstance(item, (list, tuple)) and len(item))
    first = next(filled, ())
    return len(first) > 0 and all(isinstance(one, tuple) and len(one) >= 3 for one in first)


def read_segments(y: Any, offsets: np.ndarray, scheme: str | None, endless: Any) -> np.ndarray:
    """The labels of packed nodes from segments; `endless` are labels that may follow themselves."""
    if len(y) != offsets.size - 1:
        raise ValueError(f"X has {offsets.size - 1} samples, but y has {len(y)}")
    labels = [
        _labels_of(own, i, int(n), scheme, endless)
        for i, (own, n) in enumerate(zip(y, np.diff(offsets), strict=True))
    ]
    return read_sequence_labels(labels, offsets)


def _labels_of(segments, i, n, scheme, endless):
    """The labels of one sample of n nodes."""
    read = sorted((_read_one(one, i, n, scheme) for one in segments), key=lambda one: one[:2])
    labels, end, last = [], 0, None
    for one in read:
        start, stop, label = one
        if start < end:
            raise ValueError(f"y: sample {i}: {one!r} overlaps the segment before it")
        if scheme is None and start == end > 0 and label == last and label not in endless:
            raise ValueError(
                f"y: sample {i}: {one!r} follows a segment of the same label: their labels would "
                "be those of one segment"
            )
        labels += _gap(i, end, start, scheme)
        length = stop - start
        if scheme is None:
            labels += [label] * length
        else:
            labels += [_joined("B", label)] + [_joined("I", label)] * (length - 1)
        end, last = stop, label
    return labels + _gap(i, end, n, scheme)


def _read_one(one, i, n, scheme):
    """A segment as (start, stop, label); what follows these in its tuple is ignored."""
    try:
        start, stop, label = one[:3]
        start, stop = index(start), index(stop)
        is_inside = 0 <= start < stop <= n
    except (TypeError, ValueError):
        is_inside = False
    if not is_inside:
        raise ValueError(
            f"y: sample {i}: {one!r} is not (start, stop, label), where 0 <= start < stop <= {n}"
        )
    if scheme is not None and not isinstance(label, str):
        raise TypeError(f"y: sample {i}: the label of {one!r} must be a str")
    return start, stop, label


def _gap(i, start, stop, scheme):
    """Labels of nodes in no segment."""
    if scheme is None and start < stop:
        raise ValueError(
            f"y: sample {i}: nodes {start} to {stop - 1} are in no segment (only with scheme='bio' "
            "are they outside)"
        )
    return [_OUTSIDE] * (stop - start)


def listed_segments(codes: np.ndarray, offsets: np.ndarray, kinds: Kinds) -> np.ndarray:
    """Segments (start, stop, label) of each sample; neighbours of one label are one."""
    found = Segments.of(codes, offsets, kinds, np.zeros(kinds.names.size, dtype=bool))
    names, out = kinds.names.tolist(), [[] for _ in range(offsets.size - 1)]
    for start, stop, kind in zip(found.start, found.stop, found.kind, strict=True):
        if not (kinds.role.any() and names[kind] == _OUTSIDE):
            i = sample_of(start, offsets)
            first = offsets[i]
            out[i].append((int(start - first), int(stop - first), names[kind]))
    return object_array(out)

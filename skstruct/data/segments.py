"""Segments of sequences: from labels and to labels, in y as in predictions."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import check_integer
from .labels import read_sequence_labels
from .ragged import RaggedArray, object_array
from .values import is_missing

_OUTSIDE = "O"
_MOST = 2**62
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

    @classmethod
    def of(cls, classes: np.ndarray, scheme: str | None) -> Kinds:
        """The kinds of sorted labels: the labels, or the kinds of tags "B-X", "I-X", "O"."""
        own = np.arange(len(classes))
        if scheme is None:
            anywhere = np.full(own.size, ANYWHERE, dtype=np.uint8)
            return cls(np.asarray(classes), own, own, own, anywhere)
        tags = [_split(label) for label in np.asarray(classes).tolist()]
        names = [name for tag, name in tags if tag != "I"]
        for tag, name in tags:
            if name not in names:
                raise ValueError(
                    f"scheme={scheme!r}: y has {_joined(tag, name)!r} but never "
                    f"{_joined('B', name)!r}, which begins a chunk"
                )
        is_further = np.array([tag == "I" for tag, _ in tags])
        first = np.flatnonzero(~is_further)
        at = {tag: k for k, tag in enumerate(tags)}
        further = np.array([at.get(("I", tags[k][1]), k) for k in first.tolist()])
        of_label = np.array([names.index(name) for _, name in tags])
        role = np.where(is_further, FURTHER, FIRST).astype(np.uint8)
        return cls(object_array(names), first, further, of_label, role)

    @property
    def opens(self) -> np.ndarray:
        """Whether each label always begins a segment."""
        return self.role == FIRST

    @property
    def outside(self) -> int:
        """The kind of nodes in no segment, -1 if there is none."""
        names = self.names.tolist()
        return names.index(_OUTSIDE) if self.role.any() and _OUTSIDE in names else -1


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
        """The segments of codes, of kind -1 where these are; `is_single`: kinds of single nodes."""
        kind, is_known = np.where(codes < 0, -1, kinds.of_label[codes]), codes >= 0
        role = np.where(is_known, kinds.role[codes], FURTHER)
        begins = is_known & ((role == FIRST) | is_single[kind])
        begins[1:] |= kind[1:] != kind[:-1]
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        start = np.flatnonzero(begins)
        stop = np.append(start, codes.size)[1:]
        return cls(start, stop, kind[start], begins & is_known & (role == FURTHER))

    @property
    def length(self) -> np.ndarray:
        """Number of nodes of each segment."""
        return self.stop - self.start


def read_max_length(max_length: Any, kinds: Kinds) -> np.ndarray:
    """Longest segment of each kind: 0 where they are single nodes in any number, -1 if unknown."""
    names, is_dict = kinds.names.tolist(), isinstance(max_length, Mapping)
    given = max_length if is_dict else dict.fromkeys(names, max_length)
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"max_length: unknown kind {unknown[0]!r}; the kinds are {names}")
    limits = np.full(len(names), -1, dtype=np.int64)
    for c, name in enumerate(names):
        if (value := given.get(name)) is not None:
            is_endless = is_dict and isinstance(value, Real) and value == np.inf
            # Of more nodes than there can be.
            limits[c] = 0 if is_endless else min(check_integer("max_length", value), _MOST)
    if kinds.role.any():  # without a tag of further nodes
        limits[kinds.first == kinds.further] = 1
        if (endless := np.flatnonzero(limits == 0)).size:
            raise ValueError(
                f"max_length: {names[endless[0]]!r} must have a limit, or None for that of "
                "training; with scheme='bio' only 'O' has none"
            )
    if kinds.outside >= 0:
        if is_dict and given.get(_OUTSIDE, np.inf) != np.inf:
            raise ValueError("max_length: with scheme='bio' the length of 'O' has no limit")
        limits[kinds.outside] = 0
    return limits


def has_segments(y: Any, if_empty: bool = False) -> bool:
    """Return whether y holds tuples or lists (start, stop, label); `if_empty`: if all is []."""
    if isinstance(y, RaggedArray) or not isinstance(y, (list, tuple, np.ndarray)):
        return False
    first = next((own for own in y if isinstance(own, (list, tuple)) and len(own)), None)
    if first is None:
        return if_empty and all(isinstance(own, list) for own in y)
    # Lists may also be rows of labels of an image.
    is_row = any(isinstance(one, list) and {*map(type, one[:2])} != {int} for one in first)
    return not is_row and all(isinstance(one, (tuple, list)) and len(one) >= 3 for one in first)


def read_segments(y: Any, offsets: np.ndarray, scheme: str | None, endless: Any) -> np.ndarray:
    """The labels of packed nodes from segments; `endless` are labels that may follow themselves."""
    if len(y) != offsets.size - 1:
        raise ValueError(f"X has {offsets.size - 1} samples, but y has {len(y)}")
    labels = [
        _labels_of(own, f"y: sample {i}", n, scheme, endless)
        for i, (own, n) in enumerate(zip(y, np.diff(offsets).tolist(), strict=True))
    ]
    return read_sequence_labels(labels, offsets)


def _labels_of(segments, where, n, scheme, endless):
    """The labels of one sample of n nodes."""
    if not hasattr(segments, "__iter__"):
        raise TypeError(f"{where} must be a list of (start, stop, label), got {segments!r}")
    labels, last = [None] * n, (0, 0, None)
    for one in sorted((read_segment(one, where, n) for one in segments), key=lambda one: one[:2]):
        (start, stop, label), (_, end, before) = one, last
        if start < end:
            raise ValueError(f"{where}: {one!r} overlaps the segment before it")
        if scheme is not None and not isinstance(label, str):
            raise TypeError(f"{where}: the label of {one!r} must be a str")
        if scheme is None and start == end > 0 and label == before and label not in endless:
            raise ValueError(
                f"{where}: {one!r} follows a segment of the same label: their labels would be "
                "those of one segment"
            )
        tags = [label] * 2 if scheme is None else [_joined("B", label), _joined("I", label)]
        labels[start:stop] = tags[:1] + tags[1:] * (stop - start - 1)
        last = one
    if scheme is None and None in labels:
        raise ValueError(
            f"{where}: node {labels.index(None)} is in no segment (only with scheme='bio' are such "
            "nodes outside)"
        )
    return [_OUTSIDE if label is None else label for label in labels]


def read_segment(one: Any, where: str, n: int = _MOST) -> tuple[int, int, Any]:
    """A segment as (start, stop, label); what follows these in its tuple is ignored."""
    try:
        start, stop, label = one[:3]
        hash(label)
        if 0 <= index(start) < index(stop) <= n and not is_missing(label):
            return index(start), index(stop), label
    except (TypeError, ValueError):
        pass
    most = f" <= {n}" * (n < _MOST)
    raise ValueError(f"{where}: {one!r} is not (start, stop, label), where 0 <= start < stop{most}")


def listed_segments(codes: np.ndarray, offsets: np.ndarray, kinds: Kinds) -> np.ndarray:
    """Segments (start, stop, label) of each sample; neighbours of one label are one."""
    found = Segments.of(codes, offsets, kinds, np.zeros(kinds.names.size, dtype=bool))
    names, out = kinds.names.tolist(), [[] for _ in range(offsets.size - 1)]
    owner = np.searchsorted(offsets, found.start, side="right") - 1
    for i, start, stop, kind in zip(owner.tolist(), *found[:3], strict=True):
        if kind != kinds.outside:
            out[i].append((int(start - offsets[i]), int(stop - offsets[i]), names[kind]))
    return object_array(out)

"""Many short lists in one arena: the active sets of GDMM.

A list is a run of the arena with some room to grow. One that outgrows its room moves to the end;
when the arena is full, Python makes a larger one (:func:`packed`) between two calls of a kernel.
"""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel

_ROOM = 4


class ActiveSets(NamedTuple):
    """Lists of (key, share, price)."""

    # (n_lists,): Where each list lies in the arena, its length, and the length it may have there.
    start: np.ndarray
    size: np.ndarray
    room: np.ndarray
    # (n,): What an entry is about: a label, or a pair of labels.
    key: np.ndarray
    # (n,): Its two numbers.
    share: np.ndarray
    price: np.ndarray
    # (n, n_more): Further numbers of an entry.
    more: np.ndarray
    # (1,): Length of the used part of the arena.
    used: np.ndarray


def empty_sets(n, n_more):
    """Lists without entries."""
    return ActiveSets(
        start=np.zeros(n, dtype=np.int64),
        size=np.zeros(n, dtype=np.int64),
        room=np.zeros(n, dtype=np.int64),
        key=np.zeros(1024, dtype=np.int64),
        share=np.zeros(1024),
        price=np.zeros(1024),
        more=np.zeros((1024, n_more)),
        used=np.zeros(1, dtype=np.int64),
    )


def one_entry_each(keys, share):
    """Lists of one entry."""
    n = len(keys)
    length = 2 * _ROOM * n + 1024
    sets = ActiveSets(
        start=np.arange(n, dtype=np.int64) * _ROOM,
        size=np.ones(n, dtype=np.int64),
        room=np.full(n, _ROOM, dtype=np.int64),
        key=np.zeros(length, dtype=np.int64),
        share=np.zeros(length),
        price=np.zeros(length),
        more=np.zeros((length, 0)),
        used=np.array([n * _ROOM]),
    )
    sets.key[sets.start] = keys
    sets.share[sets.start] = share
    return sets


def layout(size, headroom=1024):
    """Starts and rooms of packed lists of these sizes, the used part, and the arena's length."""
    room = np.maximum(size + (size + 1) // 2, _ROOM)
    ends = np.cumsum(room)
    used = int(ends[-1]) if ends.size else 0
    return ends - room, room, np.array([used]), 2 * used + headroom


def packed(sets, headroom=1024):
    """The same lists in an arena with as much free room as they use, and some more."""
    start, room, used, length = layout(sets.size, headroom)
    out = ActiveSets(
        start=start,
        size=sets.size.copy(),
        room=room,
        key=np.zeros(length, dtype=np.int64),
        share=np.zeros(length),
        price=np.zeros(length),
        more=np.zeros((length, sets.more.shape[1])),
        used=used,
    )
    _copy(sets, out)
    return out


@inner_kernel
def _move(source, a, target, b):
    """Copy the entry at place `a` to place `b`."""
    target.key[b] = source.key[a]
    target.share[b] = source.share[a]
    target.price[b] = source.price[a]
    for c in range(source.more.shape[1]):
        target.more[b, c] = source.more[a, c]


@kernel
def _copy(source, target):
    for n in range(source.size.shape[0]):
        for e in range(source.size[n]):
            _move(source, source.start[n] + e, target, target.start[n] + e)


@inner_kernel
def fits(sets, which, more):
    """Whether a list can take `more` entries without a larger arena."""
    wanted = sets.size[which] + more
    return wanted <= sets.room[which] or sets.used[0] + 4 * wanted + 8 <= sets.key.shape[0]


@inner_kernel
def append(sets, which, key, share, price):
    """Add an entry; the caller has made sure that it :func:`fits`."""
    size = sets.size[which]
    if size == sets.room[which]:
        old, new = sets.start[which], sets.used[0]
        for e in range(size):
            _move(sets, old + e, sets, new + e)
        sets.start[which] = new
        sets.room[which] = 2 * size if size > 0 else 2
        sets.used[0] = new + sets.room[which]
    place = sets.start[which] + size
    sets.key[place] = key
    sets.share[place] = share
    sets.price[place] = price
    sets.size[which] = size + 1


@inner_kernel
def drop_empty(sets, which, first):
    """Drop the entries from position `first` on whose share and price are 0."""
    start = sets.start[which]
    kept = first
    for e in range(first, sets.size[which]):
        if sets.share[start + e] != 0.0 or sets.price[start + e] != 0.0:
            _move(sets, start + e, sets, start + kept)
            kept += 1
    sets.size[which] = kept

"""Offsets of packed items."""

import numpy as np


def ends_of(lengths):
    """Return the offsets of packed items of these lengths, the end included."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.add.accumulate(lengths, out=ends[1:])
    return ends


def longest_item(ptr):
    """Length of the longest of packed items."""
    return int(ptr[1] - ptr[0]) if ptr.size == 2 else int((ptr[1:] - ptr[:-1]).max(initial=0))


def places_of(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each element of consecutive runs its run, and its index among all elements."""
    owner = np.repeat(np.arange(lengths.size), lengths)
    within = np.arange(owner.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, starts[owner] + within

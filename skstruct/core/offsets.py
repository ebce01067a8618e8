"""Where packed items begin and end."""

import numpy as np


def ends_of(lengths):
    """Where items of these lengths begin and end when they are packed."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def longest_item(ptr):
    """Length of the longest_item of packed items."""
    return int((ptr[1:] - ptr[:-1]).max(initial=0))

"""Where packed items begin and end."""

import numpy as np


def ends_of(lengths):
    """Where items of these lengths begin and end when they are packed.

    Parameters
    ----------
    lengths : ndarray of shape (n,)
        The lengths.

    Returns
    -------
    ndarray of shape (n + 1,) of int64
        Their sums up to each item.

    Examples
    --------
    >>> from skstruct.core.offsets import ends_of
    >>> ends_of([2, 1]).tolist()
    [0, 2, 3]
    """
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def longest_item(ptr):
    """Length of the longest_item of packed items.

    Parameters
    ----------
    ptr : ndarray of shape (n_items + 1,)
        Where they begin, and where the last one ends.

    Returns
    -------
    int
        The length; 0 if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.core.offsets import longest_item
    >>> longest_item(np.array([0, 3, 4]))
    3
    """
    return int((ptr[1:] - ptr[:-1]).max(initial=0))

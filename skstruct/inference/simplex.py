"""Projection onto the probability simplex."""

from ..core.dispatch import kernel


@kernel
def project(values, size):
    """Project the first `size` of `values` onto the probability simplex, in place.

    Drops entries under the threshold and renews it until none is left to drop: a few sweeps, no
    sorting.

    Parameters
    ----------
    values : ndarray of shape (>= size,)
        Values, replaced by their projection; those of -inf by 0, one is finite.
    size : int
        How many, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.simplex import project
    >>> values = np.array([1.0, 0.5, -3.0])
    >>> project(values, 3)
    >>> values
    array([0.75, 0.25, 0.  ])

    References
    ----------
    Michelot 1986, A finite algorithm for finding the projection of a point onto the canonical
    simplex of R^n.
    """
    top = values[0]
    for e in range(1, size):
        top = max(top, values[e])
    # Relative to the largest, so that large values do not cancel, and stored as such, so that the
    # compiler cannot add up the two offsets; entries 1 below it end at 0.
    for e in range(size):
        values[e] -= top
    threshold, count = -1.0, size + 1
    while True:
        total, kept = 0.0, 0
        for e in range(size):
            if values[e] > threshold:
                total += values[e]
                kept += 1
        threshold = (total - 1.0) / kept
        # Rounding may bring back an entry at the threshold: that must not go on for ever.
        if kept >= count:
            break
        count = kept
    for e in range(size):
        values[e] = max(values[e] - threshold, 0.0)

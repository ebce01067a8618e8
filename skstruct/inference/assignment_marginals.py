"""Best score of an assignment with each pair in it, and with each pair left out."""

import math

from ..core.dispatch import inner_kernel, kernel
from .assignment import assignment


@kernel
def assignment_max_marginals(
    scores, n_sources, n_targets, null, price, match, work, best, lone, detour
):
    """Best score with every pair, without every pair, and of every source alone.

    After one best assignment, forcing a pair costs its reduced cost and the shortest chain of
    exchanges that makes room for it. All chains are shortest paths between sources, here by Floyd
    and Warshall in O(n_sources^3).

    Parameters
    ----------
    scores, n_sources, n_targets, null, price, match, work
        As for :func:`.assignment.assignment`, which is called first.
    best : ndarray of shape (2 * n_sources * n_targets,)
        Overwritten, for every pair in turn: the best score without it, and with it; -inf where
        there is none, NaN where that assignment gives NaN.
    lone : ndarray of shape (n_sources,)
        Overwritten: the best score in which a source has no link.
    detour : ndarray of shape ((n_sources + 1) * (n_sources + 1),)
        Scratch.

    Returns
    -------
    float
        The score of the best assignment.

    References
    ----------
    J. Duchi, D. Tarlow, G. Elidan and D. Koller 2006, Using combinatorial optimization within
    max-product belief propagation, NIPS, section 4: max-marginals of matchings by shortest paths.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.assignment import assignment_work
    >>> from skstruct.inference.assignment_marginals import assignment_max_marginals
    >>> scores, match = np.array([5.0, 4.0, 4.0, 1.0]), np.full(2, -1, dtype=np.int32)
    >>> best, lone, work = np.empty(8), np.empty(2), assignment_work(2, 2)
    >>> assignment_max_marginals(
    ...     scores, 2, 2, True, np.zeros(2), match, work, best, lone, np.empty(9)
    ... )
    8.0
    >>> best.reshape(2, 2, 2)[..., 1]
    array([[6., 8.],
           [8., 6.]])
    >>> lone
    array([4., 5.])
    """
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, work)
    if not value > -math.inf:
        for q in range(2 * n * m):
            best[q] = value
        for i in range(n):
            lone[i] = value
        return value
    alone, kept = null or n > m, null or n < m
    _exchanges(scores, n, m, alone, kept, price, match, work, detour)
    shortest_paths(n + 1, detour)
    for i in range(n):
        mine, without = match[i], -math.inf
        lone[i] = value
        if mine >= 0:
            lone[i] = value - (max(work.u[i], 0.0) + detour[n * (n + 1) + i])
            if not alone:
                lone[i] = -math.inf
            without = lone[i]
        for j in range(m):
            at = 2 * (i * m + j)
            best[at] = best[at + 1] = value
            if j != mine:
                other = work.mate[j] if work.mate[j] >= 0 else n
                slack = max(work.u[i] + price[j] - scores[i * m + j], 0.0)
                best[at + 1] = value - (slack + detour[other * (n + 1) + i])
                without = max(without, best[at + 1])
        if mine >= 0:
            best[2 * (i * m + mine)] = without
    return value


@inner_kernel
def _exchanges(scores, n, m, alone, kept, price, match, work, detour):
    """What it costs that one source takes the place of another; place n is to stay alone."""
    u, taken = work.u, work.mate
    for k in range(n):
        row = k * (n + 1)
        for other in range(n + 1):
            detour[row + other] = math.inf
        if alone:
            detour[row + n] = max(u[k], 0.0)
        for j in range(m):
            other = taken[j] if taken[j] >= 0 else n
            slack = max(u[k] + price[j] - scores[k * m + j], 0.0)
            if slack < detour[row + other]:
                detour[row + other] = slack
        detour[row + k] = 0.0
        free = 0.0 if match[k] < 0 else math.inf
        if kept and match[k] >= 0:
            free = max(price[match[k]], 0.0)
        detour[n * (n + 1) + k] = free
    detour[n * (n + 1) + n] = 0.0


@inner_kernel
def shortest_paths(n, distance):
    """All shortest paths, in place."""
    for k in range(n):
        through = distance[k * n : k * n + n]
        for i in range(n):
            first = distance[i * n + k]
            if first < math.inf and i != k:
                row = distance[i * n : i * n + n]
                for j in range(n):
                    length = first + through[j]
                    row[j] = length if length < row[j] else row[j]

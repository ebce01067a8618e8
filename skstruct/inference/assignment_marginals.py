"""Best score of an assignment with each pair in it, and with each pair left out."""

import math

from ..core.dispatch import inner_kernel, kernel


@kernel
def assignment_max_marginals(scores, n_sources, n_targets, null, price, match, work, best, detour):
    """Best score through every pair, through every lone source, and without every pair.

    From one best assignment and its prices (:func:`.assignment.assignment`, called just before with
    the same arguments): forcing a pair costs its reduced cost and the shortest chain of exchanges
    that makes room for it; all chains are shortest paths between sources (Duchi, Tarlow, Elidan and
    Koller 2006, Using combinatorial optimization within max-product belief propagation, section
    4.2), here by Floyd and Warshall in O(n_sources^3).

    Parameters
    ----------
    scores, n_sources, n_targets, null, price, match, work
        As they were given to :func:`.assignment.assignment`, and what it left in them.
    best : ndarray of shape (2 * n_sources * n_targets + n_sources,)
        Overwritten: for every pair the best score without and with it, then for every source that
        without any link of it; -inf where there is none.
    detour : ndarray of shape ((n_sources + 1) * (n_sources + 1),)
        Scratch.

    Returns
    -------
    float
        The largest score; -inf if nothing is feasible. All of `best` is NaN if `price` holds NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.assignment import assignment, assignment_work
    >>> from skstruct.inference.assignment_marginals import assignment_max_marginals
    >>> problem = np.array([5.0, 4.0, 4.0, 1.0]), 2, 2, True, np.zeros(2)
    >>> match, work, best = np.full(2, -1, dtype=np.int32), assignment_work(2, 2), np.empty(10)
    >>> assignment(*problem, match, work)
    8.0
    >>> assignment_max_marginals(*problem, match, work, best, np.empty(9))
    8.0
    >>> best[:8].reshape(2, 2, 2)[..., 1], best[8:]
    (array([[6., 8.],
           [8., 6.]]), array([4., 5.]))
    """

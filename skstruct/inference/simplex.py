"""Projection onto the probability simplex."""

import math

from ..core.jit.dispatch import kernel


@kernel
def project(values, size):
    """Project the first `size` of `values` onto the probability simplex, in place.

    Drops entries under the threshold and renews it until none is left to drop: a few sweeps, no
    sorting.

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


@kernel
def best_mixture(scores, temperature, mu, size):
    """Mixture of largest score less half its squared norm times a temperature.

    It maximises ``<scores, mu> - temperature / 2 |mu|^2`` over the probability simplex: `mu` is the
    projection of ``scores / temperature``.

    Taskar, Lacoste-Julien and Jordan 2006, Structured prediction, dual extragradient and Bregman
    projections, section 3.1.
    """
    top = scores[0]
    for e in range(1, size):
        top = max(top, scores[e])
    if top == -math.inf:
        for e in range(size):
            mu[e] = 0.0
        return top
    for e in range(size):
        mu[e] = (scores[e] - top) / temperature
    project(mu, size)
    # Relative to the largest score: large ones would swamp the rest.
    lack, squares = 0.0, 0.0
    for e in range(size):
        if mu[e] > 0.0:
            lack += mu[e] * (scores[e] - top)
            squares += mu[e] * mu[e]
    return top + lack - 0.5 * temperature * squares

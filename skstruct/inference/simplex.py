"""One choice among several: the best, the n best, and projections onto the probability simplex."""

import math

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import fast_exp, row_max


@kernel
def project(values, size):
    """Project the first `size` of `values` onto the simplex in place (Michelot 1986), unsorted."""
    top = row_max(values, 0, size)
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
    """Maximise ``<scores, mu> - temperature / 2 |mu|^2`` over the probability simplex."""
    top = row_max(scores, 0, size)
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


@kernel
def soft_mixture(scores, temperature, mu, size):
    """Write the mixture of largest score plus entropy, if `mu` has room; the value of it."""
    top, total = row_max(scores, 0, size), 0.0
    for e in range(size):
        share = fast_exp((scores[e] - top) / temperature)
        total += share
        if mu.shape[0] > 0:
            mu[e] = share
    for e in range(min(size, mu.shape[0])):
        mu[e] /= total
    return top + temperature * math.log(total)


@inner_kernel
def best_after(scores, size, last_score, last):
    """The next one after `last` in the order of score, then of position; -1 if there is none."""
    best, best_score = -1, -math.inf
    for e in range(size):
        after = scores[e] < last_score or (scores[e] == last_score and e > last)
        if after and scores[e] > best_score:
            best, best_score = e, scores[e]
    return best, best_score

"""The structural hinge and its smooth forms, as oracles that solvers call by one verb.

A NamedTuple says which form is meant, so that each solver is compiled for the one it uses.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import generic, inner_kernel, kernel
from ..core.oracles import (
    add_indicator,
    augment,
    exp_oracle,
    gram,
    log_partition,
    loss_augmented_max,
    relaxed_oracle,
    score,
    top_k_oracle,
    truth,
)
from .hinge import augmented_bound, dot

# Entries of ``TopKHinge.counts`` and ``EntropyHinge.counts``.
CALLS, EXACT = 0, 1


class MaxHinge(NamedTuple):
    """The hinge itself: ``max_y <theta + l, mu(y)> - <theta, mu(y_i)>``.

    Parameters
    ----------
    counts : ndarray of shape (2,)
        Oracle calls, and those that were exact.
    """

    counts: np.ndarray


class RelaxedHinge(NamedTuple):
    """The hinge over the LP relaxation, for structures whose oracle is fractional.

    Parameters
    ----------
    counts : ndarray of shape (2,)
        Oracle calls, and those that were exact.
    mu : ndarray of shape (max_parts,)
        Scratch.
    """

    counts: np.ndarray
    mu: np.ndarray


class TopKHinge(NamedTuple):
    """The L2-smoothed hinge over the K best labellings (Pillutla et al. 2018, section 3).

    Parameters
    ----------
    counts : ndarray of shape (2,)
        Oracle calls, and those for which K labellings gave the exact projection.
    strength : ndarray of shape (1,)
        nu.
    values : ndarray of shape (K + 1,)
        Scratch: scores of the best labellings.
    shares : ndarray of shape (K + 1,)
        Scratch: their weights.
    labels : ndarray of shape (K + 1, max_nodes) of int32
        Scratch: the labellings.
    """

    counts: np.ndarray
    strength: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    labels: np.ndarray


class EntropyHinge(NamedTuple):
    """The entropy-smoothed hinge: a log-partition at temperature nu.

    Parameters
    ----------
    counts : ndarray of shape (2,)
        Oracle calls, all of them exact.
    strength : ndarray of shape (1,)
        nu.
    """

    counts: np.ndarray
    strength: np.ndarray


@generic
def hinge_oracle(how, problem, i, theta, labels, r):
    """Value of the loss at potentials `theta`, which may become loss-augmented.

    `r` takes the residual ``m - mu(y_i)``: the loss has the gradient ``A_i' r``.
    """


@generic
def hinge_curvature(how, problem, i, theta, value, labels, r, start, answer, trial):
    """An estimate of the smoothness constant of the loss of sample i, no less than `start`.

    To be called after :func:`hinge_oracle`, with the `theta` that it left and its value.
    """


@inner_kernel(inline=True)
def _begin(problem, i, theta, labels, r):
    """``r = -mu(y_i)``, `theta` augmented; returns the score of the truth."""
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = 0.0
    truth(problem, i, labels)
    right = score(problem, i, theta, labels)
    add_indicator(problem, i, labels, -1.0, r)
    augment(problem, i, theta)
    return right


@augmented_bound.register(MaxHinge)
@kernel
def _(how, problem, i, theta, labels, augmented):
    return loss_augmented_max(problem, i, theta, labels, augmented)


@augmented_bound.register(RelaxedHinge)
@kernel
def _(how, problem, i, theta, labels, augmented):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)
    bound, _ = relaxed_oracle(problem, i, augmented, labels, how.mu)
    return bound


@hinge_oracle.register(MaxHinge)
@kernel
def _(how, problem, i, theta, labels, r):
    value = augmented_bound(how, problem, i, theta, labels, r)
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = 0.0
    add_indicator(problem, i, labels, 1.0, r)
    truth(problem, i, labels)
    add_indicator(problem, i, labels, -1.0, r)
    how.counts[CALLS] += 1.0
    how.counts[EXACT] += 1.0
    return value - score(problem, i, theta, labels)


@hinge_oracle.register(RelaxedHinge)
@kernel
def _(how, problem, i, theta, labels, r):
    value = augmented_bound(how, problem, i, theta, labels, r)
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = how.mu[q]
    truth(problem, i, labels)
    add_indicator(problem, i, labels, -1.0, r)
    how.counts[CALLS] += 1.0
    how.counts[EXACT] += 1.0
    return value - score(problem, i, theta, labels)


@kernel
def project_simplex(values, scale, shares, size):
    """Projection of ``values / scale`` onto the simplex, for values in descending order.

    Parameters
    ----------
    values : ndarray of shape (>= size,)
        Scores, best first; -inf at the end where there are fewer.
    scale : float
        Positive.
    shares : ndarray of shape (>= size,)
        Receives the projection.
    size : int
        How many.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.losses.smooth_hinge import project_simplex
    >>> shares = np.empty(3)
    >>> project_simplex(np.array([1.0, 0.5, -np.inf]), 1.0, shares, 3)
    >>> shares
    array([0.75, 0.25, 0.  ])
    """
    total, threshold = 0.0, 0.0
    for q in range(size):
        if values[q] == -math.inf:
            break
        # Relative to the best, so that large scores do not cancel.
        step = (values[q] - values[0]) / scale
        total += step
        candidate = (total - 1.0) / (q + 1.0)
        if step > candidate:
            threshold = candidate
    for q in range(size):
        step = (values[q] - values[0]) / scale
        shares[q] = max(step - threshold, 0.0)


@hinge_oracle.register(TopKHinge)
@kernel
def _(how, problem, i, theta, labels, r):
    right = _begin(problem, i, theta, labels, r)
    size = how.values.shape[0] - 1
    nu = how.strength[0]
    top_k_oracle(problem, i, theta, how.values, how.labels)
    project_simplex(how.values, nu, how.shares, size)
    value, squares, lead = 0.0, 0.0, 0.0
    for q in range(size):
        if how.shares[q] > 0.0:
            value += how.shares[q] * how.values[q]
            squares += how.shares[q] * how.shares[q]
            add_indicator(problem, i, how.labels[q], how.shares[q], r)
        lead += how.values[q] - how.values[size] if how.values[q] > -math.inf else math.inf
    how.counts[CALLS] += 1.0
    how.counts[EXACT] += 1.0 if nu <= lead else 0.0
    return value - 0.5 * nu * (squares - 1.0) - right


@hinge_oracle.register(EntropyHinge)
@kernel
def _(how, problem, i, theta, labels, r):
    truth(problem, i, labels)
    right = score(problem, i, theta, labels)
    augment(problem, i, theta)
    value = exp_oracle(problem, i, theta, how.strength[0], r)
    add_indicator(problem, i, labels, -1.0, r)
    how.counts[CALLS] += 1.0
    how.counts[EXACT] += 1.0
    return value - right


@hinge_curvature.register(TopKHinge)
@kernel
def _(how, problem, i, theta, value, labels, r, start, answer, trial):
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    largest = start
    for q in range(1, how.values.shape[0] - 1):
        if how.values[q] > -math.inf:
            for p in range(size):
                trial[p] = 0.0
            add_indicator(problem, i, how.labels[q], 1.0, trial)
            add_indicator(problem, i, how.labels[0], -1.0, trial)
            gram(problem, i, trial, answer)
            diameter = dot(trial, answer, size)
            largest = max(largest, diameter / (2.0 * how.strength[0]))
    return largest


@hinge_curvature.register(EntropyHinge)
@kernel
def _(how, problem, i, theta, value, labels, r, start, answer, trial):
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    gram(problem, i, r, answer)
    squared = dot(r, answer, size)
    truth(problem, i, labels)
    lipschitz, tests = max(start, 1e-12), 0
    while squared > 1e-8 and tests < 60:
        for p in range(size):
            trial[p] = theta[p] - answer[p] / lipschitz
        # The truth has no task loss, so its augmented score is its score.
        after = log_partition(problem, i, trial, how.strength[0])
        after -= score(problem, i, trial, labels)
        tests += 1
        if not after - value > -0.5 * squared / lipschitz:
            break
        lipschitz *= 2.0
    return lipschitz


@kernel
def expected_task_loss(problem, i, r, trial):
    """``<l_i, m_i>`` for the residual ``r = m_i - mu(y_i)``.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    i : int
        The sample.
    r : ndarray
        The residual.
    trial : ndarray
        Scratch.

    Returns
    -------
    float
        The task loss that the mixture of labellings expects.
    """
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    for q in range(size):
        trial[q] = 0.0
    augment(problem, i, trial)
    return dot(trial, r, size)


def smoothing_of(kind, strength, n_best, problem):
    """The oracle of a smoothing option.

    Parameters
    ----------
    kind : {"none", "l2", "entropy"}
        Which.
    strength : float
        nu.
    n_best : int
        K of the top-K oracle.
    problem : NamedTuple
        For the size of buffers.

    Returns
    -------
    MaxHinge, RelaxedHinge, TopKHinge or EntropyHinge
        The oracle.
    """
    counts = np.zeros(2)
    if kind == "none":
        if relaxed_oracle.supports(type(problem)):
            return RelaxedHinge(counts, np.zeros(int(np.diff(problem.part_ptr).max(initial=1))))
        return MaxHinge(counts)
    nu = np.array([float(strength)])
    if kind == "entropy":
        return EntropyHinge(counts, nu)
    longest = int(np.diff(problem.label_ptr).max(initial=1))
    labels = np.zeros((n_best + 1, longest), dtype=np.int32)
    return TopKHinge(counts, nu, np.zeros(n_best + 1), np.zeros(n_best + 1), labels)

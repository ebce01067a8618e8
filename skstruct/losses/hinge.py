"""The structural hinge, and smooth ones: of the K best, of entropies, of projections.

Pillutla et al. 2019, sections 2.2 and 2.3; Taskar, Lacoste-Julien and Jordan 2006.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import generic, require
from ..core.jit.kernels import kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    add_indicator,
    euclidean_oracle,
    exp_oracle,
    gram,
    loss_augmented_max,
    loss_augmented_top_k,
    loss_is_linear,
    relaxed_oracle,
    require_linear_loss,
    task_loss,
)
from ..inference.simplex import project
from .operations import (
    augment_copy,
    dot,
    expected_loss,
    loss_curvature,
    loss_oracle,
    minus_truth,
    truth_score,
)


class MaxHinge(NamedTuple):
    """The hinge: ``max_y <theta, mu(y)> + Delta(y_i, y) - <theta, mu(y_i)>``."""


class RelaxedHinge(NamedTuple):
    """The hinge over the LP relaxation, for structures whose oracle is fractional."""

    # (max_parts,): Scratch.
    mu: np.ndarray


@loss_oracle.register(MaxHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    minus_truth(problem, i, labels, r)
    best = loss_augmented_max(problem, i, theta, labels, augmented)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, 1.0, r)
    return best - right, abs(best) + abs(right)


@loss_oracle.register(RelaxedHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    minus_truth(problem, i, labels, r)
    augment_copy(problem, i, theta, augmented)
    best, _ = relaxed_oracle(problem, i, augmented, labels, loss.mu)
    if r.shape[0] > 0:
        for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
            r[q] += loss.mu[q]
    return best - right, abs(best) + abs(right)


def hinge_of(problem):
    """The hinge that a structure is trained on: relaxed if its oracle is fractional."""
    if relaxed_oracle.supports(problem):
        return RelaxedHinge(np.zeros(max(longest_item(problem.part_ptr), 1)))
    return MaxHinge()


# Entries of ``TopKHinge.counts``.
CALLS, EXACT = 0, 1


class TopKHinge(NamedTuple):
    """Max over p of ``sum_q p_q z_q + nu/2 (1 - |p|^2)``, z_q the K best loss-augmented margins.

    At most ``nu / 2`` above the hinge; too low if K do not suffice (``counts``).
    """

    # (2,): Number of residuals, and number of those where K labellings gave the full projection.
    counts: np.ndarray
    # (1,): nu.
    strength: np.ndarray
    # 1 to count the distance from the truth as a diameter, too: for task losses that are not linear
    # in parts.
    far: int
    # (K + 1,): Scratch: scores of the best labellings.
    values: np.ndarray
    # (K + 1,): Scratch: their shares p.
    shares: np.ndarray
    # (K + 1, max_nodes): Scratch: the labellings.
    labels: np.ndarray

    smooth = True


class EntropyHinge(NamedTuple):
    """The entropy-smoothed hinge: a loss-augmented log-partition at temperature nu."""

    # (1,): nu.
    strength: np.ndarray
    # (max_parts,): Scratch of projections: a mixture that is not returned.
    mu: np.ndarray = np.empty(0)

    smooth = True


class EuclideanHinge(EntropyHinge):
    """Max over the hull of ``<theta + l, m> - nu/2 |m|^2 - <theta, mu(y_i)>``: below the hinge."""


@loss_oracle.register(TopKHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    minus_truth(problem, i, labels, r)
    size, nu = loss.values.shape[0] - 1, loss.strength[0]
    loss_augmented_top_k(problem, i, theta, loss.values, loss.labels, augmented)
    for q in range(size):
        loss.shares[q] = (loss.values[q] - loss.values[0]) / nu
    project(loss.shares, size)
    best, squares, lead = 0.0, 0.0, 0.0
    for q in range(size):
        if loss.shares[q] > 0.0:
            best += loss.shares[q] * loss.values[q]
            squares += loss.shares[q] * loss.shares[q]
            if r.shape[0] > 0:
                add_indicator(problem, i, loss.labels[q], loss.shares[q], r)
        lead += loss.values[q] - loss.values[size] if loss.values[q] > -math.inf else math.inf
    if r.shape[0] > 0:
        loss.counts[CALLS] += 1.0
        loss.counts[EXACT] += 1.0 if nu <= lead else 0.0
    best -= 0.5 * nu * (squares - 1.0)
    return best - right, abs(best) + abs(right)


@loss_curvature.register(TopKHinge)
@kernel
def _(loss, problem, i, theta, value, labels, r, start, answer, trial, augmented):
    # The diameters of the set of labellings found.
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    largest = start
    for q in range(1 - loss.far, loss.values.shape[0] - 1):
        if loss.values[q] > -math.inf:
            for p in range(size):
                trial[p] = 0.0
            add_indicator(problem, i, loss.labels[q] if q > 0 else labels, 1.0, trial)
            add_indicator(problem, i, loss.labels[0], -1.0, trial)
            gram(problem, i, trial, answer)
            diameter = dot(trial, answer, size)
            largest = max(largest, diameter / (2.0 * loss.strength[0]))
    return largest


@expected_loss.register(TopKHinge)
@kernel
def _(loss, problem, i, r, trial):
    total = 0.0
    for q in range(loss.values.shape[0] - 1):
        if loss.shares[q] > 0.0:
            total += loss.shares[q] * task_loss(problem, i, loss.labels[q])
    return total


@generic
def smoothed_max(loss, problem, i, theta, mu):
    """Write the mixture of largest smoothed score to `mu`, and return that score."""


@smoothed_max.register(EntropyHinge)
@kernel
def _(loss, problem, i, theta, mu):
    return exp_oracle(problem, i, theta, loss.strength[0], mu)


@smoothed_max.register(EuclideanHinge)
@kernel
def _(loss, problem, i, theta, mu):
    return euclidean_oracle(problem, i, theta, loss.strength[0], mu)


@loss_oracle.register(EntropyHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    augment_copy(problem, i, theta, augmented)
    # Projections are always written; `loss.mu` is empty where marginals can be left out.
    best = smoothed_max(loss, problem, i, augmented, r if r.shape[0] > 0 else loss.mu)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    return best - right, abs(best) + abs(right)


def smooth_hinge(kind, strength, n_best, problem):
    """A smoothed hinge with buffers for a problem."""
    nu = np.array([float(strength)])
    if kind == "entropy":
        return EntropyHinge(nu)
    longest = max(longest_item(problem.label_ptr), 1)
    labels = np.zeros((n_best + 1, longest), dtype=np.int32)
    # The best boxes differ by one line, and at zero weights neighbours tie: steps for their
    # diameters only would be far too long. On chains, the truth differs in many nodes, and steps
    # for the distance from it would be too short.
    far = int(not loss_is_linear(problem))
    return TopKHinge(np.zeros(2), nu, far, np.zeros(n_best + 1), np.zeros(n_best + 1), labels)


# The projections of the structured extragradient.

_ADVICE = "use BCFWSSVM"

#: Names of the projections, in order of preference, with the operation of each.
PROJECTIONS = {"gibbs": exp_oracle, "euclidean": euclidean_oracle}


def choose_projection(projection, problem, given=None):
    """The name of the projection: the given one, or for "auto" the first that is supported."""
    require_linear_loss(problem, _ADVICE)
    kind = type(problem.space)
    structure = getattr(kind, "structure", kind.__name__)
    if relaxed_oracle.supports(problem):
        raise TypeError(
            f"there are no projections onto the relaxation that {structure} is trained on; "
            f"{_ADVICE}{getattr(kind, 'remedy', '')}"
        )
    available = [name for name, verb in PROJECTIONS.items() if verb.supports(problem)]
    if projection == "auto" and available:
        return available[0]
    advice = f'use projection="{available[0]}"' if available else _ADVICE
    if projection == "auto":
        projection = "gibbs"
        advice = f"nor Euclidean projections; {_ADVICE}"
    require(PROJECTIONS[projection], problem, advice, given)
    return projection


def projection_hinge(projection, size):
    """The smoothed hinge whose mixtures are projections."""
    if projection == "gibbs":
        return EntropyHinge(np.ones(1))
    return EuclideanHinge(np.ones(1), np.zeros(max(size, 1)))

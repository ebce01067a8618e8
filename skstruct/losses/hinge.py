"""The structural hinge, over labellings or over a relaxation of their hull."""

from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import kernel
from ..core.offsets import longest_item
from ..core.oracles import add_indicator, loss_augmented_max, relaxed_oracle
from .verbs import augment_copy, loss_oracle, minus_truth, truth_score


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

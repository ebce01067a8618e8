"""Hinges smoothed by the projections of the structured extragradient."""

from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import kernel, require
from ..core.oracles import (
    add_indicator,
    entropic_oracle,
    euclidean_oracle,
    exp_oracle,
    relaxed_oracle,
    require_linear_loss,
)
from .smooth_hinge import EntropyHinge
from .verbs import augment_copy, loss_oracle, truth_score

_ADVICE = "use BCFWSSVM"


class EuclideanHinge(NamedTuple):
    """The hinge less half a squared norm: ``max <theta + l, m> - nu/2 |m|^2 - <theta, mu(y_i)>``.

    m ranges over the hull of labellings and |.| is the norm that the structure names. It is below
    the hinge, by ``nu/2 |m|^2`` at most.
    """

    # (1,): nu.
    strength: np.ndarray
    # (max_parts,): Scratch: a projection that nobody asked for.
    mu: np.ndarray

    smooth = True


class EntropicHinge(NamedTuple):
    """The hinge smoothed by the entropy of the parts, each for itself.

    ``max <theta + l, m> - nu sum_q m_q log m_q - <theta, mu(y_i)>`` over the hull of labellings;
    where no part says that a vertex of a matching has no link, the sum has a term for that, too. Of
    single nodes it is the entropy-smoothed hinge.
    """

    # (1,): nu.
    strength: np.ndarray
    # (max_parts,): Scratch: a projection that nobody asked for.
    mu: np.ndarray

    smooth = True


@loss_oracle.register(EuclideanHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    augment_copy(problem, i, theta, augmented)
    # The verb projects, always.
    mu = r if r.shape[0] > 0 else loss.mu
    best = euclidean_oracle(problem, i, augmented, loss.strength[0], mu)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    return best - right, abs(best) + abs(right)


@loss_oracle.register(EntropicHinge)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    augment_copy(problem, i, theta, augmented)
    mu = r if r.shape[0] > 0 else loss.mu
    best = entropic_oracle(problem, i, augmented, loss.strength[0], mu)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    return best - right, abs(best) + abs(right)


#: Names of the projections, the ones preferred first, with the verb of each.
PROJECTIONS = {"gibbs": exp_oracle, "euclidean": euclidean_oracle, "entropic": entropic_oracle}
_LOSSES = {"euclidean": EuclideanHinge, "entropic": EntropicHinge}


def choose_projection(projection, problem, given=None):
    """The name of the projection that is meant, one that the structure has."""
    require_linear_loss(problem, _ADVICE)
    kind = type(problem)
    structure = getattr(kind, "structure", kind.__name__)
    if relaxed_oracle.supports(kind):
        raise TypeError(
            f"there are no projections onto the relaxation that {structure} is trained on; "
            f"{_ADVICE}{getattr(kind, 'remedy', '')}"
        )
    available = [name for name, verb in PROJECTIONS.items() if verb.supports(kind)]
    if projection == "auto" and available:
        return available[0]
    advice = f'use projection="{available[0]}"' if available else _ADVICE
    if projection == "auto":
        projection = "gibbs"
        advice = f"nor Euclidean or entropic projections; {_ADVICE}"
    require(PROJECTIONS[projection], problem, advice, given)
    return projection


def projection_hinge(projection, size):
    """The smoothed hinge whose mixtures are projections."""
    if projection == "gibbs":
        return EntropyHinge(np.ones(1))
    return _LOSSES[projection](np.ones(1), np.zeros(max(size, 1)))

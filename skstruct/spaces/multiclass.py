"""Labels of single nodes."""

from __future__ import annotations

import math

from ..core.jit.dispatch import kernel
from ..core.oracles import euclidean_oracle, exp_oracle, max_marginals, max_oracle, top_k_oracle
from ..inference.numerics import best_of
from ..inference.simplex import best_after, best_mixture, soft_mixture
from .labels import NodeSpace


class MultiClassSpace(NodeSpace):
    """Single nodes packed for kernels."""

    structure = "MultiClass"


@max_oracle.register(MultiClassSpace)
@kernel
def _(space, i, theta, labels):
    labels[0] = best_of(theta, space.allowed.shape[1])
    return theta[labels[0]]


@top_k_oracle.register(MultiClassSpace)
@kernel
def _(space, i, theta, values, labels):
    last_score, last = math.inf, -1
    for q in range(values.shape[0]):
        last, last_score = best_after(theta, space.allowed.shape[1], last_score, last)
        values[q], labels[q, 0] = last_score, max(last, 0)


@exp_oracle.register(MultiClassSpace)
@kernel
def _(space, i, theta, temperature, mu):
    return soft_mixture(theta, temperature, mu, space.allowed.shape[1])


@euclidean_oracle.register(MultiClassSpace)
@kernel
def _(space, i, theta, temperature, mu):
    return best_mixture(theta, temperature, mu, space.allowed.shape[1])


@max_marginals.register(MultiClassSpace)
@kernel
def _(space, i, theta, out):
    for k in range(space.allowed.shape[1]):
        out[k] = theta[k]

"""One of several: labels of single nodes, candidates of a sample."""

from __future__ import annotations

import math

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import (
    euclidean_oracle,
    exp_oracle,
    max_marginals,
    max_oracle,
    sample_oracle,
    top_k_oracle,
)
from ..inference.numerics import best_of, draw
from ..inference.simplex import best_after, best_mixture, soft_mixture
from .items import ItemSpace, counts_of
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


class CandidatesSpace(ItemSpace):
    """Candidates packed for kernels: a labelling chooses exactly one."""

    structure = "Candidates"


@inner_kernel
def _choose(n, best, labels):
    for q in range(n):
        labels[q] = 1 if q == best else 0


@max_oracle.register(CandidatesSpace)
@kernel
def _(space, i, theta, labels):
    n, _ = counts_of(space, i)
    best = best_of(theta, n)
    _choose(n, best, labels)
    return theta[best]


@top_k_oracle.register(CandidatesSpace)
@kernel
def _(space, i, theta, values, labels):
    n, _ = counts_of(space, i)
    last_score, last = math.inf, -1
    for rank in range(values.shape[0]):
        last, last_score = best_after(theta, n, last_score, last)
        values[rank] = last_score
        _choose(n, last, labels[rank])


@exp_oracle.register(CandidatesSpace)
@kernel
def _(space, i, theta, temperature, mu):
    n, _ = counts_of(space, i)
    return soft_mixture(theta, temperature, mu, n)


@sample_oracle.register(CandidatesSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    n, _ = counts_of(space, i)
    value = exp_oracle(space, i, theta, 1.0, mu)
    for d in range(labels.shape[0] if value > -math.inf else 0):
        _choose(n, draw(mu, 0, 1, n, uniforms[0, d]), labels[d])
    return value


@euclidean_oracle.register(CandidatesSpace)
@kernel
def _(space, i, theta, temperature, mu):
    n, _ = counts_of(space, i)
    return best_mixture(theta, temperature, mu, n)

"""One choice among candidates, for compiled solvers: the problem and the kernels of its verbs."""

import math
from typing import NamedTuple

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import euclidean_oracle, exp_oracle, max_oracle, top_k_oracle
from ...inference.numerics import fast_exp, row_max
from ...inference.simplex import best_mixture
from ..arrays import TableScratch
from ..items.verbs import ChoiceProblem, counts_of


class CandidatesScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch


class CandidatesProblem(ChoiceProblem):
    """Candidates packed for kernels: a labelling chooses exactly one."""

    structure = "Candidates"


@inner_kernel
def _choose(n, best, labels):
    for q in range(n):
        labels[q] = 1 if q == best else 0


@max_oracle.register(CandidatesProblem)
@kernel
def _(problem, i, theta, labels):
    n, _ = counts_of(problem, i)
    best = 0
    for q in range(1, n):
        if theta[q] > theta[best]:
            best = q
    _choose(n, best, labels)
    return theta[best]


@top_k_oracle.register(CandidatesProblem)
@kernel
def _(problem, i, theta, values, labels):
    n, _ = counts_of(problem, i)
    last_score, last = math.inf, -1
    for rank in range(values.shape[0]):
        best, best_score = -1, -math.inf
        for q in range(n):
            # After the last one in the order of score, then of position.
            after = theta[q] < last_score or (theta[q] == last_score and q > last)
            if after and theta[q] > best_score:
                best, best_score = q, theta[q]
        values[rank] = best_score
        last_score, last = best_score, best
        _choose(n, best, labels[rank])


@exp_oracle.register(CandidatesProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, _ = counts_of(problem, i)
    top = row_max(theta, 0, n)
    total = 0.0
    for q in range(n):
        share = fast_exp((theta[q] - top) / temperature)
        total += share
        if mu.shape[0] > 0:
            mu[q] = share
    for q in range(min(n, mu.shape[0])):
        mu[q] /= total
    return top + temperature * math.log(total)


@euclidean_oracle.register(CandidatesProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, _ = counts_of(problem, i)
    return best_mixture(theta, temperature, mu, n)

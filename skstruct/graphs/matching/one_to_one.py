"""One link at most for each source and each target: assignments."""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    entropic_oracle,
    euclidean_oracle,
    max_marginals,
    max_oracle,
    top_k_oracle,
)
from ...inference.assignment import assignment
from ...inference.assignment_marginals import assignment_max_marginals
from ...inference.assignment_projections import (
    ProjectionWork,
    euclidean_assignment,
    projection_work,
)
from ...inference.assignment_scaling import entropic_assignment
from ...inference.murty import BestAssignmentsWork, best_assignments, best_assignments_work
from ..arrays import TableScratch
from ..items.verbs import counts_of
from .kernels import MatchingProblem


class OneToOneScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch
    # Of assignments.
    best: BestAssignmentsWork
    # (n_best, max_sources): The n best of them.
    matches: np.ndarray
    # (max_sources,): Max-marginals of sources without links.
    lone: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray
    # Of projections.
    projection: ProjectionWork


def one_to_one_scratch(tables: TableScratch, sizes: np.ndarray, n_best: int) -> OneToOneScratch:
    """Room for the largest sample."""
    n, m = sizes.max(axis=0, initial=0).tolist()
    best, matches = best_assignments_work(n, m, n_best), np.empty((n_best, n), dtype=np.int32)
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    projection = projection_work(sizes)
    return OneToOneScratch(tables, best, matches, np.empty(n), detour, projection)


class OneToOneProblem(MatchingProblem):
    """Pairs of which no two that are linked share an end."""


@inner_kernel
def _write_match(n, m, match, labels):
    """Links of an assignment."""
    for q in range(n * m):
        labels[q] = 0
    for s in range(n):
        if match[s] >= 0:
            labels[s * m + match[s]] = 1


@inner_kernel
def _memory(problem, i):
    """Prices and links of the sample's last best matching."""
    own = problem.own
    price = own.price[own.target_ptr[i] : own.target_ptr[i + 1]]
    return price, own.match[own.source_ptr[i] : own.source_ptr[i + 1]]


@max_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, labels):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    price, match = _memory(problem, i)
    value = assignment(theta, n, m, problem.own.null, price, match, problem.work.best.solver)
    _write_match(n, m, match, labels)
    return value + theta[counts_of(problem, i)[0]]


@max_marginals.register(OneToOneProblem)
@kernel
def _(problem, i, theta, out):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    work, solver = problem.work, problem.work.best.solver
    assignment_max_marginals(theta, n, m, null, price, match, solver, out, work.lone, work.detour)
    constant = theta[counts_of(problem, i)[0]]
    for q in range(2 * n * m):
        out[q] += constant


@top_k_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, values, labels):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    work, constant = problem.work, theta[counts_of(problem, i)[0]]
    best_assignments(theta, n, m, problem.own.null, values, work.matches, work.best)
    for r in range(values.shape[0]):
        values[r] += constant
        _write_match(n, m, work.matches[r], labels[r])


@inner_kernel(inline=True)
def _with_constant(problem, i, theta, value, mu):
    """The last part is always there, and no projection moves it: it is not in the norm."""
    last = counts_of(problem, i)[0]
    mu[last] = 1.0
    return value + theta[last]


@euclidean_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    solver, work = problem.work.best.solver, problem.work.projection
    value = euclidean_assignment(theta, n, m, null, temperature, price, match, mu, solver, work)
    return _with_constant(problem, i, theta, value, mu)


@entropic_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    solver, work = problem.work.best.solver, problem.work.projection
    value = entropic_assignment(theta, n, m, null, temperature, price, match, mu, solver, work)
    return _with_constant(problem, i, theta, value, mu)

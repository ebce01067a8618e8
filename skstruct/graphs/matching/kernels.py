"""Links between two sides, for compiled solvers: the problem and what all its kinds share."""

import math
from typing import NamedTuple

import numpy as np

from ...core.jit.dispatch import inner_kernel, kernel
from ...core.oracles import (
    entropic_oracle,
    euclidean_oracle,
    max_marginals,
    max_oracle,
    task_loss,
    top_k_oracle,
)
from ...inference.assignment import assignment, assignment_max_marginals
from ...inference.assignment_polytope import (
    ProjectionWork,
    entropic_assignment,
    euclidean_assignment,
    projection_work,
)
from ...inference.fertility import (
    FertilityWork,
    fertile_links,
    fertile_max_marginals,
    fertility_work,
)
from ...inference.n_best import (
    BestAssignmentsWork,
    Branches,
    best_assignments,
    best_assignments_work,
    branch_scratch,
    confine,
    note_second,
    split_best,
)
from ..items import ChoiceProblem, counts_of
from ..layout import TableScratch

# What a pair is in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class Links(NamedTuple):
    """What matchings need beside items: the field ``own`` of a problem."""

    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # The largest number of links at a vertex.
    max_degree: int
    # Whether every vertex may stay without one.
    null: bool
    # (n_items or 0,): What each pair is in the gold standard.
    kind: np.ndarray
    # (n_samples or 0,): Cost of a sure link that is missed, and of a link that is none.
    missed: np.ndarray
    extra: np.ndarray
    # (n_samples or 0,): Cost of the labelling that is trained toward, which counts as 0.
    base: np.ndarray
    # (n_samples + 1,): Where the vertices of each sample begin.
    source_ptr: np.ndarray
    target_ptr: np.ndarray
    # (n_all_sources,): Memory of samples: the target of each source in the last best matching.
    match: np.ndarray
    # (n_all_targets,): Memory of samples: the targets' prices then. It changes the time, never the
    # answer.
    price: np.ndarray


class MatchingProblem(ChoiceProblem):
    """Pairs of sources and targets packed for kernels: a labelling says which are linked."""

    structure = "Matching"
    remedy = (
        " (sums over matchings are #P-hard); predict_top_k gives the best matchings, the verb "
        "max_marginals the best score with and without every link"
    )


@task_loss.register(MatchingProblem)
@kernel
def _(problem, i, labels):
    own, first = problem.own, problem.item_ptr[i]
    missed, extra = 0, 0
    for q in range(problem.item_ptr[i + 1] - first):
        kind = own.kind[first + q]
        if labels[q] == 1:
            extra += 1 if kind == OTHER else 0
        else:
            missed += 1 if kind == SURE else 0
    # Of the labelling that is trained toward this is exactly 0; rounding may leave others under it.
    return max(0.0, own.missed[i] * missed + own.extra[i] * extra - own.base[i])


# One link at most for each source and each target: assignments.


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


# Several links a source or target: bounded degrees.


class FertileScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch
    # Of best links.
    flow: FertilityWork
    # Of the n best.
    branches: Branches
    # (2 * max_pairs,): Max-marginals, or scores of both states of every pair.
    states: np.ndarray
    # (max_pairs,): Scores where some links are forbidden.
    confined: np.ndarray
    # (max_pairs,): Links that must be there.
    fixed: np.ndarray
    # (max_pairs,): Links that nobody asked for.
    links: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray


def fertile_scratch(tables: TableScratch, sizes: np.ndarray, n_best: int) -> FertileScratch:
    """Room for the largest sample."""
    flow = fertility_work(*sizes.max(axis=0, initial=0).tolist())
    n_pairs = int(np.prod(sizes, axis=1).max(initial=0))
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    fixed, links = np.empty(n_pairs, dtype=np.uint8), np.empty(n_pairs, dtype=np.int32)
    floats = np.empty(2 * n_pairs), np.empty(n_pairs)
    branches = branch_scratch(n_best)
    return FertileScratch(tables, flow, branches, *floats, fixed, links, detour)


class FertileProblem(MatchingProblem):
    """Pairs of which an end may have several links."""


@max_oracle.register(FertileProblem)
@kernel
def _(problem, i, theta, labels):
    own, work = problem.own, problem.work
    n, m, none = own.sizes[i, 0], own.sizes[i, 1], work.fixed[:0]
    value = fertile_links(theta, n, m, own.null, own.max_degree, none, labels, work.flow)
    return value + theta[counts_of(problem, i)[0]]


@max_marginals.register(FertileProblem)
@kernel
def _(problem, i, theta, out):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    _max_marginals(n, m, theta, problem.work.fixed[:0], out, problem.own, problem.work)
    constant = theta[counts_of(problem, i)[0]]
    for q in range(2 * n * m):
        out[q] += constant


@inner_kernel
def _max_marginals(n, m, theta, fixed, out, own, work):
    """Return max-marginals of all pairs, given that some must be linked."""
    null, degree = own.null, own.max_degree
    fertile_max_marginals(theta, n, m, null, degree, fixed, work.links, work.flow, out, work.detour)


@top_k_oracle.register(FertileProblem)
@kernel
def _(problem, i, theta, values, labels):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    _best_links(n, m, theta, values, labels, problem.own, problem.work)
    constant = theta[counts_of(problem, i)[0]]
    for r in range(values.shape[0]):
        values[r] += constant


@inner_kernel
def _best_links(n, m, theta, values, labels, own, work):
    """The best links in turn, best max-marginal first."""
    none, fixed = work.fixed[:0], work.fixed[: n * m]
    for r in range(values.shape[0]):
        values[r] = -math.inf
    values[0] = fertile_links(theta, n, m, own.null, own.max_degree, none, labels[0], work.flow)
    if values.shape[0] == 1 or not values[0] > -math.inf:
        return
    _find_second(n, m, theta, 0, 1, labels, own, work)
    for r in range(1, values.shape[0]):
        parent = split_best(work.branches, r)
        if parent < 0:
            return
        _confine(n * m, theta, r, r + 1, work)
        value = fertile_links(
            work.confined, n, m, own.null, own.max_degree, fixed, labels[r], work.flow
        )
        # Rounding must not put one above the one before it.
        values[r] = min(value, values[r - 1])
        if r + 1 < values.shape[0]:
            _find_second(n, m, theta, parent, r + 1, labels, own, work)
            _find_second(n, m, theta, r, r + 1, labels, own, work)


@inner_kernel
def _confine(n_pairs, theta, s, count, work):
    """Scores and links that must be there of set s, of which there are `count`."""
    states = work.states[: 2 * n_pairs].reshape(n_pairs, 2)
    for q in range(n_pairs):
        states[q, 0], states[q, 1] = 0.0, theta[q]
    confine(work.branches, s, count, states)
    for q in range(n_pairs):
        work.confined[q] = states[q, 1]
        work.fixed[q] = 1 if states[q, 0] == -math.inf else 0


@inner_kernel
def _find_second(n, m, theta, s, count, labels, own, work):
    """The second best of set s by its max-marginals."""
    _confine(n * m, theta, s, count, work)
    _max_marginals(n, m, work.confined, work.fixed[: n * m], work.states, own, work)
    note_second(work.branches, s, labels[s], work.states[: 2 * n * m].reshape(n * m, 2))

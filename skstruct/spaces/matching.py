"""Links between two sides."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import (
    euclidean_oracle,
    max_marginals,
    max_oracle,
    top_k_oracle,
)
from ..inference.assignment import assignment, assignment_max_marginals
from ..inference.assignment_polytope import (
    ProjectionWork,
    euclidean_assignment,
    projection_work,
)
from ..inference.best_assignments import (
    BestAssignmentsWork,
    best_assignments,
    best_assignments_work,
)
from ..inference.fertility import (
    FertilityWork,
    fertile_links,
    fertile_max_marginals,
    fertility_work,
)
from .items import ItemSpace, counts_of
from .n_best import Branches, branch_scratch, confine, note_second, split_best


class LastMatchings(NamedTuple):
    """Prices and links of the last assignments, to start the next one from."""

    # (n_all_sources,): The target of each source in the last best matching.
    match: np.ndarray
    # (n_all_targets,): The targets' prices then.
    price: np.ndarray

    #: Changes the time, never the answer.
    is_memory = True

    def forget(self) -> None:
        """Delete what is stored of earlier assignments."""
        self.match[...], self.price[...] = -1, 0.0


class Links(NamedTuple):
    """Data of matchings in addition to items: the field ``own`` of a space."""

    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # The largest number of links at a vertex.
    max_degree: int
    # Whether every vertex may stay without one.
    null: bool
    # (n_samples + 1,): Where the vertices of each sample begin.
    source_ptr: np.ndarray
    target_ptr: np.ndarray
    last: LastMatchings


class MatchingSpace(ItemSpace):
    """Pairs of sources and targets packed for kernels: a labelling defines which are linked."""

    structure = "Matching"
    remedy = (
        " (sums over matchings are #P-hard); predict_top_k gives the best matchings, "
        "skstruct.core.oracles.max_marginals the best score with and without every link"
    )


# One link at most for each source and each target: assignments.


class AssignmentScratch(NamedTuple):
    """Scratch of one thread."""

    # Of assignments.
    best: BestAssignmentsWork
    # (n_best, max_sources): The n best of them.
    matches: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray
    # Of Euclidean projections.
    projection: ProjectionWork


def assignment_scratch(sizes: np.ndarray, n_best: int) -> AssignmentScratch:
    """Room for the largest sample."""
    n, m = sizes.max(axis=0, initial=0).tolist()
    best, matches = best_assignments_work(n, m, n_best), np.empty((n_best, n), dtype=np.int32)
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    projection = projection_work(sizes)
    return AssignmentScratch(best, matches, detour, projection)


class AssignmentSpace(MatchingSpace):
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
def _memory(space, i):
    """Prices and links of the sample's last best matching."""
    own, last = space.own, space.own.last
    price = last.price[own.target_ptr[i] : own.target_ptr[i + 1]]
    return price, last.match[own.source_ptr[i] : own.source_ptr[i + 1]]


@max_oracle.register(AssignmentSpace)
@kernel
def _(space, i, theta, labels):
    n, m = space.own.sizes[i, 0], space.own.sizes[i, 1]
    price, match = _memory(space, i)
    value = assignment(theta, n, m, space.own.null, price, match, space.work.best.solver)
    _write_match(n, m, match, labels)
    return value + theta[counts_of(space, i)[0]]


@max_marginals.register(AssignmentSpace)
@kernel
def _(space, i, theta, out):
    n, m, null = space.own.sizes[i, 0], space.own.sizes[i, 1], space.own.null
    price, match = _memory(space, i)
    work, solver = space.work, space.work.best.solver
    assignment_max_marginals(theta, n, m, null, price, match, solver, out, work.detour)
    constant = theta[counts_of(space, i)[0]]
    for q in range(2 * n * m):
        out[q] += constant


@top_k_oracle.register(AssignmentSpace)
@kernel
def _(space, i, theta, values, labels):
    n, m = space.own.sizes[i, 0], space.own.sizes[i, 1]
    work, constant = space.work, theta[counts_of(space, i)[0]]
    best_assignments(theta, n, m, space.own.null, values, work.matches, work.best)
    for r in range(values.shape[0]):
        values[r] += constant
        _write_match(n, m, work.matches[r], labels[r])


@euclidean_oracle.register(AssignmentSpace)
@kernel
def _(space, i, theta, temperature, mu):
    n, m, null = space.own.sizes[i, 0], space.own.sizes[i, 1], space.own.null
    price, match = _memory(space, i)
    solver, work = space.work.best.solver, space.work.projection
    value = euclidean_assignment(theta, n, m, null, temperature, price, match, mu, solver, work)
    # The last part is always there, and no projection moves it: it is not in the norm.
    last = counts_of(space, i)[0]
    mu[last] = 1.0
    return value + theta[last]


# Several links a source or target: bounded degrees.


class BMatchingScratch(NamedTuple):
    """Scratch of one thread."""

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
    # (max_pairs,): Scratch for links that are not returned.
    links: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray


def bmatching_scratch(sizes: np.ndarray, n_best: int) -> BMatchingScratch:
    """Room for the largest sample."""
    flow = fertility_work(*sizes.max(axis=0, initial=0).tolist())
    n_pairs = int(np.prod(sizes, axis=1).max(initial=0))
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    fixed, links = np.empty(n_pairs, dtype=np.uint8), np.empty(n_pairs, dtype=np.int32)
    floats = np.empty(2 * n_pairs), np.empty(n_pairs)
    branches = branch_scratch(n_best)
    return BMatchingScratch(flow, branches, *floats, fixed, links, detour)


class BMatchingSpace(MatchingSpace):
    """Pairs of which an end may have several links."""


@max_oracle.register(BMatchingSpace)
@kernel
def _(space, i, theta, labels):
    value = _best_links(space, i, theta, space.work.fixed[:0], labels)
    return value + theta[counts_of(space, i)[0]]


@max_marginals.register(BMatchingSpace)
@kernel
def _(space, i, theta, out):
    n_pairs, _ = counts_of(space, i)
    _max_marginals(space, i, theta, space.work.fixed[:0], out)
    for q in range(2 * n_pairs):
        out[q] += theta[n_pairs]


@inner_kernel
def _max_marginals(space, i, theta, fixed, out):
    """Return max-marginals of all pairs, given that some must be linked."""
    own, work = space.own, space.work
    n, m, null, degree = own.sizes[i, 0], own.sizes[i, 1], own.null, own.max_degree
    fertile_max_marginals(theta, n, m, null, degree, fixed, work.links, work.flow, out, work.detour)


@inner_kernel
def _best_links(space, i, theta, fixed, links):
    """The best links, given that some must be there; their score."""
    own = space.own
    n, m, null, degree = own.sizes[i, 0], own.sizes[i, 1], own.null, own.max_degree
    return fertile_links(theta, n, m, null, degree, fixed, links, space.work.flow)


@top_k_oracle.register(BMatchingSpace)
@kernel
def _(space, i, theta, values, labels):
    n_pairs, _ = counts_of(space, i)
    n_best, work = values.shape[0], space.work
    for r in range(n_best):
        values[r] = -math.inf
    values[0] = _best_links(space, i, theta, work.fixed[:0], labels[0])
    if n_best > 1 and values[0] > -math.inf:
        _find_second(space, i, theta, 0, 1, labels)
    for r in range(1, n_best if values[0] > -math.inf else 1):
        parent = split_best(work.branches, r)
        if parent < 0:
            break
        _confine(n_pairs, theta, r, r + 1, work)
        value = _best_links(space, i, work.confined, work.fixed[:n_pairs], labels[r])
        # Rounding must not put one above the one before it.
        values[r] = min(value, values[r - 1])
        if r + 1 < n_best:
            _find_second(space, i, theta, parent, r + 1, labels)
            _find_second(space, i, theta, r, r + 1, labels)
    for r in range(n_best):
        values[r] += theta[n_pairs]


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
def _find_second(space, i, theta, s, count, labels):
    """The second best of set s by its max-marginals."""
    n_pairs, _ = counts_of(space, i)
    work = space.work
    _confine(n_pairs, theta, s, count, work)
    _max_marginals(space, i, work.confined, work.fixed[:n_pairs], work.states)
    note_second(work.branches, s, labels[s], work.states[: 2 * n_pairs].reshape(n_pairs, 2))

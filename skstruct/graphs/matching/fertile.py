"""Several links a source or target: bounded degrees."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import max_marginals, max_oracle, top_k_oracle
from ...inference.bmmf import Branches, branch_scratch, confine, note_second, split_best
from ...inference.fertility import (
    FertilityWork,
    fertile_links,
    fertile_max_marginals,
    fertility_work,
)
from ..arrays import TableScratch
from ..items.verbs import counts_of
from .kernels import MatchingProblem


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
    """Of all pairs, where some must be linked."""
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

"""Links between two sides, for compiled solvers: the problem and the kernels of its verbs."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import max_marginals, max_oracle, task_loss, top_k_oracle
from ...inference.assignment import assignment
from ...inference.assignment_marginals import assignment_max_marginals
from ...inference.bmmf import Branches, branch_scratch, confine, note_second, split_best
from ...inference.fertility import (
    FertilityWork,
    fertile_links,
    fertile_max_marginals,
    fertility_work,
)
from ...inference.murty import BestAssignmentsWork, best_assignments, best_assignments_work
from ..arrays import TableScratch
from ..items.verbs import ChoiceProblem, counts_of

# What a pair is in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class Links(NamedTuple):
    """What matchings need beside items: the field ``own`` of a problem.

    Parameters
    ----------
    sizes : ndarray of shape (n_samples, 2) of int64
        Sources and targets of each sample.
    max_degree : int
        The largest number of links at a vertex.
    null : bool
        Whether every vertex may stay without one.
    kind : ndarray of shape (n_items or 0,) of uint8
        What each pair is in the gold standard.
    missed, extra : ndarray of shape (n_samples or 0,)
        Cost of a sure link that is missed, and of a link that is none.
    base : ndarray of shape (n_samples or 0,)
        Cost of the labelling that is trained toward, which counts as 0.
    source_ptr, target_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the vertices of each sample begin.
    match : ndarray of shape (n_all_sources,) of int32
        Memory of samples: the target of each source in the last best matching.
    price : ndarray of shape (n_all_targets,)
        Memory of samples: the targets' prices then. It changes the time, never the answer.
    """

    sizes: np.ndarray
    max_degree: int
    null: bool
    kind: np.ndarray
    missed: np.ndarray
    extra: np.ndarray
    base: np.ndarray
    source_ptr: np.ndarray
    target_ptr: np.ndarray
    match: np.ndarray
    price: np.ndarray


class MatchingScratch(NamedTuple):
    """Scratch of one thread.

    Parameters
    ----------
    tables : TableScratch
        For weight tables.
    best : BestAssignmentsWork
        Of assignments.
    matches : ndarray of shape (n_best, max_sources) or (1, max_pairs) of int32
        Of the n best assignments, or links.
    fertile : FertilityWork
        Where vertices may have several links.
    branches : Branches
        Of their n best.
    pairs : ndarray of shape (2 * max_pairs,)
        Max-marginals, or scores of both states.
    confined : ndarray of shape (max_pairs or 0,)
        Scores where some links are forbidden.
    fixed : ndarray of shape (max_pairs or 0,) of uint8
        Links that must be there.
    lone : ndarray of shape (max_sources,)
        Max-marginals of sources without links.
    detour : ndarray
        Lengths of shortest paths.
    """

    tables: TableScratch
    best: BestAssignmentsWork
    matches: np.ndarray
    fertile: FertilityWork
    branches: Branches
    pairs: np.ndarray
    confined: np.ndarray
    fixed: np.ndarray
    lone: np.ndarray
    detour: np.ndarray


def matching_scratch(
    tables: TableScratch, sizes: np.ndarray, max_degree: int, n_best: int
) -> MatchingScratch:
    """Room for the largest sample.

    Parameters
    ----------
    tables : TableScratch
        For weight tables.
    sizes : ndarray of shape (n_samples, 2) of int64
        Sources and targets of each sample.
    max_degree : int
        The largest number of links at a vertex.
    n_best : int
        Largest number of matchings asked for at once.

    Returns
    -------
    MatchingScratch
        The scratch.
    """
    n, m = sizes.max(axis=0, initial=0).tolist()
    n_pairs = int(np.prod(sizes, axis=1).max(initial=0))
    one_to_one, several = ((n, m), (0, 0)) if max_degree == 1 else ((0, 0), (n, m))
    n_nodes = n + 1 if max_degree == 1 else int(sizes.sum(axis=1).max(initial=0)) + 1
    n_forced = 0 if max_degree == 1 else n_pairs
    return MatchingScratch(
        tables,
        best_assignments_work(*one_to_one, n_best if max_degree == 1 else 1),
        np.empty((n_best, n) if max_degree == 1 else (1, n_pairs), dtype=np.int32),
        fertility_work(*several),
        branch_scratch(1 if max_degree == 1 else n_best),
        np.empty(2 * n_pairs),
        np.empty(n_forced),
        np.empty(n_forced, dtype=np.uint8),
        np.empty(n),
        np.empty(n_nodes * n_nodes),
    )


class MatchingProblem(ChoiceProblem):
    """Pairs of sources and targets packed for kernels: a labelling says which are linked."""

    structure = "Matching"
    remedy = (
        " (sums over matchings are #P-hard); predict_top_k gives the best matchings, the verb "
        "max_marginals the best score with and without every link"
    )


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


@max_oracle.register(MatchingProblem)
@kernel
def _(problem, i, theta, labels):
    own, work = problem.own, problem.work
    n, m = own.sizes[i, 0], own.sizes[i, 1]
    constant = theta[counts_of(problem, i)[0]]
    if own.max_degree > 1:
        none = work.fixed[:0]
        return constant + fertile_links(
            theta, n, m, own.null, own.max_degree, none, labels, work.fertile
        )
    price, match = _memory(problem, i)
    value = assignment(theta, n, m, own.null, price, match, work.best.solver)
    _write_match(n, m, match, labels)
    return constant + value


@max_marginals.register(MatchingProblem)
@kernel
def _(problem, i, theta, out):
    own, work = problem.own, problem.work
    n, m = own.sizes[i, 0], own.sizes[i, 1]
    if own.max_degree > 1:
        none, links = work.fixed[:0], work.matches[0]
        fertile_max_marginals(
            theta, n, m, own.null, own.max_degree, none, links, work.fertile, out, work.detour
        )
    else:
        price, match = _memory(problem, i)
        solver = work.best.solver
        assignment_max_marginals(
            theta, n, m, own.null, price, match, solver, out, work.lone, work.detour
        )
    constant = theta[counts_of(problem, i)[0]]
    for q in range(2 * n * m):
        out[q] += constant


@top_k_oracle.register(MatchingProblem)
@kernel
def _(problem, i, theta, values, labels):
    own, work = problem.own, problem.work
    n, m = own.sizes[i, 0], own.sizes[i, 1]
    if own.max_degree > 1:
        _best_fertile(n, m, theta, values, labels, own, work)
    else:
        best_assignments(theta, n, m, own.null, values, work.matches, work.best)
        for r in range(values.shape[0]):
            _write_match(n, m, work.matches[r], labels[r])
    constant = theta[counts_of(problem, i)[0]]
    for r in range(values.shape[0]):
        values[r] += constant


@inner_kernel
def _best_fertile(n, m, theta, values, labels, own, work):
    """The best links in turn, best max-marginal first."""
    none, fixed = work.fixed[:0], work.fixed[: n * m]
    for r in range(values.shape[0]):
        values[r] = -math.inf
    values[0] = fertile_links(theta, n, m, own.null, own.max_degree, none, labels[0], work.fertile)
    if values.shape[0] == 1 or not values[0] > -math.inf:
        return
    _find_second(n, m, theta, 0, 1, labels, own, work)
    for r in range(1, values.shape[0]):
        parent = split_best(work.branches, r)
        if parent < 0:
            return
        _confine(n * m, theta, r, r + 1, work)
        value = fertile_links(
            work.confined, n, m, own.null, own.max_degree, fixed, labels[r], work.fertile
        )
        # Rounding must not put one above the one before it.
        values[r] = min(value, values[r - 1])
        if r + 1 < values.shape[0]:
            _find_second(n, m, theta, parent, r + 1, labels, own, work)
            _find_second(n, m, theta, r, r + 1, labels, own, work)


@inner_kernel
def _confine(n_pairs, theta, s, count, work):
    """Scores and links that must be there of set s, of which there are `count`."""
    states = work.pairs[: 2 * n_pairs].reshape(n_pairs, 2)
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
    fixed, links = work.fixed[: n * m], work.matches[0]
    fertile_max_marginals(
        work.confined,
        n,
        m,
        own.null,
        own.max_degree,
        fixed,
        links,
        work.fertile,
        work.pairs,
        work.detour,
    )
    note_second(work.branches, s, labels[s], work.pairs[: 2 * n * m].reshape(n * m, 2))

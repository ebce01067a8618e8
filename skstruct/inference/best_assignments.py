"""The best assignments in turn."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .assignment import AssignmentWork, Side, assignment, assignment_work, augment, total_score
from .numerics import TopList, clear_top, offer_top, take_top, top_list


class BestAssignmentsWork(NamedTuple):
    """Scratch of :func:`best_assignments`, one per thread."""

    # Scratch of the first assignment.
    solver: AssignmentWork
    # (n_best, n_sources): Prices of every assignment found.
    u: np.ndarray
    v: np.ndarray
    # (n_best,): Which assignment each is a change of, and at which source.
    parent: np.ndarray
    row: np.ndarray
    # The best changes that have not been made.
    top: TopList
    # (n_sources * n_targets,): The scores, with what is excluded.
    held: np.ndarray
    # (n_targets,): Of the change that is being tried.
    price: np.ndarray
    match: np.ndarray


def best_assignments_work(n_sources, n_targets, n_best):
    """Room for so many assignments of at most so many sources and targets."""
    parent, row = np.empty((2, n_best), dtype=np.int64)
    prices = np.empty((n_best, n_sources)), np.empty((n_best, n_targets))
    held, price = np.empty(n_sources * n_targets), np.empty(n_targets)
    solver, top = assignment_work(n_sources, n_targets), top_list(n_best)
    match = np.empty(n_sources, dtype=np.int32)
    return BestAssignmentsWork(solver, *prices, parent, row, top, held, price, match)


@kernel
def best_assignments(scores, n_sources, n_targets, null, values, matches, work):
    """Write the best assignments (Murty 1968), by Miller, Stone and Cox 1997, section III."""
    n, m, n_best = n_sources, n_targets, values.shape[0]
    match, offers = work.match[:n], work.top
    clear_top(offers)
    for r in range(n_best):
        values[r] = -math.inf
        for i in range(n):
            matches[r, i] = -1
    for j in range(m):
        work.price[j] = 0.0
    for i in range(n):
        match[i] = -1
    value = assignment(scores, n, m, null, work.price, match, work.solver)
    if math.isnan(value):
        for r in range(n_best):
            values[r] = value
        return
    for q in range(n * m):
        work.held[q] = scores[q]
    parent, row = -1, 0
    for r in range(n_best):
        if value == -math.inf:
            return
        # Rounding must not put one above the one before it.
        values[r] = min(value, values[r - 1]) if r > 0 else value
        work.parent[r], work.row[r] = parent, row
        for i in range(n):
            matches[r, i], work.u[r, i] = match[i], work.solver.u[i]
        for j in range(m):
            work.v[r, j] = work.price[j]
        left = n_best - r - 1
        if left == 0:
            return
        for i in range(row, n):
            offer_top(offers, left, _change(r, i, scores, n, m, null, matches, work), r, i, 0)
        value, parent, row, _ = take_top(offers)
        if value > -math.inf:
            value = _change(parent, row, scores, n, m, null, matches, work)


@inner_kernel
def _change(r, i, scores, n, m, null, matches, work):
    """Best assignment like number r up to source i, with another target there; its score."""
    match, price, mate, u = work.match, work.price, work.solver.mate, work.solver.u
    for j in range(m):
        price[j] = work.v[r, j]
        mate[j] = -1
    for k in range(n):
        u[k] = work.u[r, k]
        match[k] = matches[r, k]
        if match[k] >= 0:
            mate[match[k]] = k
    free = _exclude(r, i, m, null or n > m, matches, work)
    left = match[i]
    match[i] = -1
    if left >= 0:
        mate[left] = -1
    sources = Side(n, m, i, u[:n], match[:n])
    targets = Side(m, 1, 0, price[:m], mate[:m])
    alone, kept = null or n > m, null or n < m
    found = augment(i, work.held, sources, targets, alone, free, work.solver)
    if found and left >= 0 and mate[left] < 0 and not (kept and price[left] <= 0.0):
        found = augment(left, work.held, targets, sources, kept, kept, work.solver)
    for j in range(m):
        work.held[i * m + j] = scores[i * m + j]
    return total_score(scores, n, m, match) if found else -math.inf


@inner_kernel
def _exclude(r, i, m, free, matches, work):
    """Forbid what source i has had on the way to number r; whether it may stay alone."""
    while True:
        j = matches[r, i]
        if j >= 0:
            work.held[i * m + j] = -math.inf
        else:
            free = False
        if work.parent[r] < 0 or work.row[r] != i:
            return free
        r = work.parent[r]

"""Graphs decoded along junction trees: the plans of all samples, scratch, and the oracles."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    top_k_oracle,
)
from ...inference.bucket_elimination import EliminationScratch, follow, max_buckets
from ...inference.calibration import sum_range, tell_range
from ...inference.junction_tree import JunctionTree, Tables
from ..arrays import TableScratch
from ..n_best import NBestScratch, top_k_by_max_marginals
from ..pairwise.verbs import shape_of
from .kernels import NetworkProblem, expand_tables, fold_tables


class Plans(NamedTuple):
    """Plans of elimination, one after the other: samples with equal edges share one."""

    # All buckets. Variables, factors (the nodes, then the edges), bytes and messages are counted
    # within each plan, slots over all; slot 0 is that of all roots.
    tree: JunctionTree
    # (n_plans + 1,): Where the buckets of each plan begin.
    bucket_ptr: np.ndarray
    # (n_plans,): Entries of the messages of each plan.
    n_messages: np.ndarray
    # (n_samples,): The plan of each sample.
    plan: np.ndarray


class JunctionScratch(NamedTuple):
    """Scratch of graphs decoded along junction trees."""

    # For weight tables.
    tables: TableScratch
    # Scores of the nodes and of the label pairs; the scopes are not used.
    factors: Tables
    # (n_factors,): Where factors begin in the scores and in `beliefs`.
    base: np.ndarray
    target: np.ndarray
    # (1,): What the roots are told.
    one: np.ndarray
    # Messages.
    up: np.ndarray
    down: np.ndarray
    # Best states.
    back: np.ndarray
    # Marginals, or max-marginals.
    beliefs: np.ndarray
    # (n_nodes,): A labelling.
    best: np.ndarray
    # For blocks of tables.
    elimination: EliminationScratch
    # For the n best.
    n_best: NBestScratch


class JunctionProblem(NetworkProblem):
    """Graphs of small tree width; `own.inference` are their :class:`Plans`."""

    method = "junction-tree"


@inner_kernel
def _load(problem, i, theta, temperature):
    """Write the factors of sample i to scratch."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    own, work = problem.own, problem.work
    scores, size = work.factors.scores, n * n_labels
    square = n_labels * n_labels
    for q in range(size):
        scores[q] = theta[q]
    expand_tables(problem, i, theta, scores[size:])
    if temperature != 1.0:
        for q in range(size + n_tables * square):
            scores[q] /= temperature
    for t in range(n):
        work.factors.n_states[t] = n_labels
        work.base[t] = t * n_labels
    first = own.ptr[i]
    for e in range(own.ptr[i + 1] - first):
        work.base[n + e] = size + own.table[first + e] * square


@inner_kernel
def _maximise(problem, i, labels):
    """Write the best labelling for the scores in scratch, return its score."""
    plans, work = problem.own.inference, problem.work
    p = plans.plan[i]
    begin, end = plans.bucket_ptr[p], plans.bucket_ptr[p + 1]
    tree, factors, at = plans.tree, work.factors, plans.tree.live_ptr
    max_buckets(factors, tree, work.base, at, work.up, work.back, begin, end, work.elimination)
    follow(factors, tree, work.back, begin, end, work.best)
    for t in range(end - begin):
        labels[t] = work.best[t]
    return work.up[0]


@inner_kernel
def _tell(problem, i, is_sum, size):
    """Messages down: what `target` asks for goes to the first `size` beliefs."""
    plans, work = problem.own.inference, problem.work
    p = plans.plan[i]
    begin, end = plans.bucket_ptr[p], plans.bucket_ptr[p + 1]
    beliefs, down = work.beliefs, work.down[: plans.n_messages[p]]
    nothing = 0.0 if is_sum else -math.inf
    for q in range(size):
        beliefs[q] = nothing
    tree, factors, scratch = plans.tree, work.factors, work.elimination
    places = (work.base, work.target, tree.slot_ptr)
    work.one[0] = 1.0 if is_sum else work.up[0]
    tell_range(factors, tree, places, is_sum, work.one, work.up, down, beliefs, begin, end, scratch)


@inner_kernel
def _max_marginals(problem, i):
    """Max-marginals of the nodes, for the scores in scratch, to the beliefs."""
    _, n, n_labels, _, _ = shape_of(problem, i)
    plans, work = problem.own.inference, problem.work
    p = plans.plan[i]
    begin, end = plans.bucket_ptr[p], plans.bucket_ptr[p + 1]
    tree, at = plans.tree, plans.tree.slot_ptr
    max_buckets(work.factors, tree, work.base, at, work.up, work.back, begin, end, work.elimination)
    for f in range(n + problem.own.ptr[i + 1] - problem.own.ptr[i]):
        work.target[f] = work.base[f] if f < n else -1
    _tell(problem, i, False, n * n_labels)


@inner_kernel
def _marginals(problem, i, shares_tables):
    """Marginals of nodes and tables (or of each edge) to the beliefs; returns the log-partition."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    plans, work = problem.own.inference, problem.work
    p = plans.plan[i]
    begin, end = plans.bucket_ptr[p], plans.bucket_ptr[p + 1]
    tree, at = plans.tree, plans.tree.slot_ptr
    sum_range(work.factors, tree, work.base, at, work.up, begin, end, work.elimination)
    value = work.up[0]
    size, square = n * n_labels, n_labels * n_labels
    n_edges = problem.own.ptr[i + 1] - problem.own.ptr[i]
    for f in range(n + n_edges):
        apart = f >= n and not shares_tables
        work.target[f] = size + (f - n) * square if apart else work.base[f]
    _tell(problem, i, True, size + square * (n_tables if shares_tables else n_edges))
    return value


@max_oracle.register(JunctionProblem)
@kernel
def _(problem, i, theta, labels):
    _load(problem, i, theta, 1.0)
    return _maximise(problem, i, labels)


@exp_oracle.register(JunctionProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    _, n, n_labels, _, _ = shape_of(problem, i)
    own, work = problem.own, problem.work
    _load(problem, i, theta, temperature)
    if mu.shape[0] == 0:
        plans = own.inference
        begin, end = plans.bucket_ptr[plans.plan[i]], plans.bucket_ptr[plans.plan[i] + 1]
        tree, at = plans.tree, plans.tree.live_ptr
        sum_range(work.factors, tree, work.base, at, work.up, begin, end, work.elimination)
        return temperature * work.up[0]
    value = _marginals(problem, i, True)
    size, beliefs = n * n_labels, work.beliefs
    for q in range(size):
        mu[q] = beliefs[q]
    fold_tables(problem, i, beliefs[size:], mu)
    return temperature * value


@edge_marginals.register(JunctionProblem)
@kernel
def _(problem, i, theta, mu, out):
    _, n, n_labels, _, _ = shape_of(problem, i)
    _load(problem, i, theta, 1.0)
    value = _marginals(problem, i, False)
    size, beliefs = n * n_labels, problem.work.beliefs
    for q in range(size):
        mu[q] = beliefs[q]
    n_edges = problem.own.ptr[i + 1] - problem.own.ptr[i]
    for q in range(n_edges * n_labels * n_labels):
        out[q] = beliefs[size + q]
    return value


@max_marginals.register(JunctionProblem)
@kernel
def _(problem, i, theta, out):
    _, n, n_labels, _, _ = shape_of(problem, i)
    _load(problem, i, theta, 1.0)
    _max_marginals(problem, i)
    for q in range(n * n_labels):
        out[q] = problem.work.beliefs[q]


top_k_oracle.register(JunctionProblem)(top_k_by_max_marginals)

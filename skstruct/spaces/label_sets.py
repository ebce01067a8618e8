"""Label sets: any subset of the labels, which may interact."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import (
    add_indicator,
    exp_oracle,
    forbid,
    max_marginals,
    max_oracle,
    relaxed_oracle,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..inference.enumeration import (
    EnumerationScratch,
    enumerate_log_partition,
    enumerate_marginals,
    enumerate_top_k,
    enumeration_scratch,
)
from ..inference.qpbo import HALF, Neighbours, RoofScratch, complete, roof_dual, roof_scratch
from ..inference.tree import (
    TreeScratch,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
    tree_top_k,
)
from .labels import draw_by_conditioning

# Parts of a sample of L labels and m edges: L parts "label j is on", L parts "label j is off"
# (without weights, for task losses and constraints), then for each edge one part "both ends are
# on", or four parts (first end, second end) with full tables. The first end of the edges of a
# hierarchy, which come first, implies the second.


class LabelSetSpace(NamedTuple):
    """Label sets packed for kernels; subclasses define how labels interact."""

    # (n_samples + 1,): Multiples of the number of parts, and of the number of labels.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # (n_samples * n_labels or 0, 2): Whether each label may be off, and on; no rows if all may.
    allowed: np.ndarray
    # (n_edges, 2): The labels of each edge.
    ends: np.ndarray
    # The first so many edges are implications.
    n_implied: int
    # 1 where edges have full 2 x 2 tables.
    full: int
    # The edges in the form in which the subclass takes them.
    own: tuple
    # Scratch of one thread.
    work: tuple


@inner_kernel(inline=True)
def n_labels_of(space):
    """Number of labels."""
    return space.label_ptr[1]


@inner_kernel(inline=True)
def pair_width(space):
    """Number of pair parts."""
    return space.ends.shape[0] * (4 if space.full == 1 else 1)


@inner_kernel(inline=True)
def _pair_part(space, e, a, b):
    """The part of labels (a, b) at the ends of edge e, -1 if there is none."""
    n = n_labels_of(space)
    if space.full == 1:
        return 2 * n + 4 * e + 2 * a + b
    return 2 * n + e if a + b == 2 else -1


@inner_kernel(inline=True)
def _pair_score(space, theta, e, a, b):
    """The score of that part; -inf where an implication is broken."""
    if e < space.n_implied and a > b:
        return -math.inf
    q = _pair_part(space, e, a, b)
    return theta[q] if q >= 0 else 0.0


@forbid.register(LabelSetSpace)
@kernel
def _(space, i, theta):
    if space.allowed.shape[0] > 0:
        n = n_labels_of(space)
        for j in range(n):
            if space.allowed[i * n + j, 1] == 0:
                theta[j] = -math.inf
            if space.allowed[i * n + j, 0] == 0:
                theta[n + j] = -math.inf


@add_indicator.register(LabelSetSpace)
@kernel
def _(space, i, labels, c, mu):
    n = n_labels_of(space)
    for j in range(n):
        mu[j if labels[j] == 1 else n + j] += c
    for e in range(space.ends.shape[0]):
        a, b = labels[space.ends[e, 0]], labels[space.ends[e, 1]]
        q = _pair_part(space, e, a, b)
        if q >= 0:
            mu[q] += c


@score.register(LabelSetSpace)
@kernel
def _(space, i, theta, labels):
    n = n_labels_of(space)
    total = 0.0
    for j in range(n):
        total += theta[j if labels[j] == 1 else n + j]
    for e in range(space.ends.shape[0]):
        a, b = labels[space.ends[e, 0]], labels[space.ends[e, 1]]
        total += _pair_score(space, theta, e, a, b)
    return total


class LabelForestScratch(NamedTuple):
    """Scratch of label sets on a forest, whose potentials take the form of trees."""

    # (n_labels, 2): Potentials and marginals of labels.
    unary: np.ndarray
    node_mu: np.ndarray
    # (n_edges, 2, 2): Those of edges.
    pair: np.ndarray
    pair_mu: np.ndarray
    # For the oracles.
    tree: TreeScratch


@sample_oracle.register(LabelSetSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    n = n_labels_of(space)
    return draw_by_conditioning(space, i, theta, mu, room, uniforms, labels, (2, n, 1, -n))


def label_forest_scratch(n_labels, n_edges, n_best):
    """Scratch of a :class:`LabelForestSpace`."""
    nodes, edges = np.empty((2, n_labels, 2)), np.empty((2, n_edges, 2, 2))
    return LabelForestScratch(*nodes, *edges, tree_scratch(n_labels, 2, n_best))


class LabelForestSpace(LabelSetSpace):
    """Labels that interact along a :class:`~skstruct.inference.tree.Forest`, or not at all."""

    structure = "MultiLabel without cycles"


@inner_kernel
def _tables(space, theta):
    """Potentials in the form of trees, in the scratch: (n, 2) and (m, 2, 2)."""
    n, m = n_labels_of(space), space.ends.shape[0]
    unary, pair = space.work.unary, space.work.pair
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
    for e in range(m):
        for a in range(2):
            for b in range(2):
                pair[e, a, b] = _pair_score(space, theta, e, a, b)
    return unary, pair


@max_oracle.register(LabelForestSpace)
@kernel
def _(space, i, theta, labels):
    n = n_labels_of(space)
    if space.ends.shape[0] == 0:
        total = 0.0
        for j in range(n):
            labels[j] = 1 if theta[j] > theta[n + j] else 0
            total += max(theta[j], theta[n + j])
        return total
    unary, pair = _tables(space, theta)
    return tree_max(unary, pair, space.own, labels, space.work.tree)


@top_k_oracle.register(LabelForestSpace)
@kernel
def _(space, i, theta, values, labels):
    unary, pair = _tables(space, theta)
    tree_top_k(unary, pair, space.own, values, labels, space.work.tree)


@exp_oracle.register(LabelForestSpace)
@kernel
def _(space, i, theta, temperature, mu):
    n, m = n_labels_of(space), space.ends.shape[0]
    unary, pair = _tables(space, theta)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, space.own, space.work.tree)
    node_mu, pair_mu = space.work.node_mu, space.work.pair_mu
    log_z = tree_marginals(
        unary,
        pair,
        temperature,
        space.own,
        node_mu,
        pair_mu,
        space.own.link,
        space.work.tree,
    )
    for j in range(n):
        mu[j] = node_mu[j, 1]
        mu[n + j] = node_mu[j, 0]
    for e in range(m):
        for a in range(2):
            for b in range(2):
                q = _pair_part(space, e, a, b)
                if q >= 0:
                    mu[q] = pair_mu[e, a, b]
    return log_z


@max_marginals.register(LabelForestSpace)
@kernel
def _(space, i, theta, out):
    unary, pair = _tables(space, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pair, space.own, best, space.work.tree)


# Label sets whose edges have cycles: exact by enumeration for few labels, else relaxed.

# Minimum number of labels for a flow before the enumeration.
_FLOW_PAYS = 8


class LoopScratch(NamedTuple):
    """Scratch of label sets with cycles: potentials in the form of roof duals, and of tables."""

    # (n_labels,): Score of 1 minus score of 0 at each label.
    unary: np.ndarray
    # (n_edges,): Score of (1, 1) on each edge.
    pair: np.ndarray
    # For the relaxation.
    roof: RoofScratch
    # (n_labels, 2): Potentials of labels; this and what follows are empty without enumeration.
    states: np.ndarray
    # (n_labels, n_labels, 2, 2): Potentials of all pairs of labels, and marginals of (1, 1).
    tables: np.ndarray
    both: np.ndarray
    # For enumerations.
    at: EnumerationScratch


def loop_scratch(n_labels, n_edges, enumerated):
    """Scratch of label sets with cycles."""
    few = n_labels if enumerated else 0
    return LoopScratch(
        unary=np.empty(n_labels),
        pair=np.empty(n_edges),
        roof=roof_scratch(n_labels, n_edges),
        states=np.empty((few, 2)),
        tables=np.empty((few, few, 2, 2)),
        both=np.empty((few, few)),
        at=enumeration_scratch(few),
    )


class FewLabelsSpace(LabelSetSpace):
    """At most 16 labels with any edges (`own`: their `Neighbours`): exact."""

    structure = "MultiLabel with cycles"


class ManyLabelsSpace(LabelSetSpace):
    """Label sets with any edges, by the LP relaxation over the local polytope."""

    structure = "MultiLabel with cycles (relaxed, or more than 16 labels)"
    inference = "relaxed"
    remedy = ", or take MultiLabel(edges='tree')"


@inner_kernel
def _few(space, theta):
    """Potentials as (n, 2) and (n, n, 2, 2), in the scratch."""
    n = n_labels_of(space)
    unary, tables = space.work.states, space.work.tables
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
        for k in range(n):
            for a in range(2):
                for b in range(2):
                    tables[j, k, a, b] = 0.0
    for e in range(space.ends.shape[0]):
        j, k = space.ends[e, 0], space.ends[e, 1]
        for a in range(2):
            for b in range(2):
                value = _pair_score(space, theta, e, a, b)
                if j < k:
                    tables[j, k, a, b] = value
                else:
                    tables[k, j, b, a] = value
    return unary, tables


@top_k_oracle.register(FewLabelsSpace)
@kernel
def _(space, i, theta, values, labels):
    unary, tables = _few(space, theta)
    enumerate_top_k(unary, tables, values, labels, space.work.at)


@exp_oracle.register(FewLabelsSpace)
@kernel
def _(space, i, theta, temperature, mu):
    n = n_labels_of(space)
    unary, tables = _few(space, theta)
    if mu.shape[0] == 0:
        return enumerate_log_partition(unary, tables, temperature, space.work.at)
    both = space.work.both
    log_z = enumerate_marginals(unary, tables, temperature, mu, both, space.work.at)
    for j in range(n):
        mu[n + j] = 1.0 - mu[j]
    for e in range(space.ends.shape[0]):
        j, k = space.ends[e, 0], space.ends[e, 1]
        _write_pair(space, mu, e, mu[j], mu[k], both[min(j, k), max(j, k)])
    return log_z


@inner_kernel
def _write_pair(space, mu, e, first, second, both):
    """Parts of an edge from the marginals of its ends and of (1, 1)."""
    at = 2 * n_labels_of(space)
    if space.full == 0:
        mu[at + e] = both
        return
    mu[at + 4 * e] = max(1.0 - first - second + both, 0.0)
    mu[at + 4 * e + 1] = max(second - both, 0.0)
    mu[at + 4 * e + 2] = max(first - both, 0.0)
    mu[at + 4 * e + 3] = both


@inner_kernel
def _reduce(space, theta, unary, pair, states):
    """Score of 1 minus score of 0 per label, of (1, 1) per edge; returns the score of all zeros."""
    n = n_labels_of(space)
    constant = 0.0
    for j in range(n):
        on, off = theta[j], theta[n + j]
        states[j] = HALF
        unary[j] = on - off
        if on == -math.inf or off == -math.inf:
            # A forced label is fixed first; if it is on, its score is added.
            states[j] = 0 if on == -math.inf else 1
            unary[j] = 0.0 if on == -math.inf else on
        constant += off if states[j] != 1 else 0.0
    for e in range(space.ends.shape[0]):
        if space.full == 0:
            pair[e] = theta[2 * n + e]
            continue
        at = 2 * n + 4 * e
        constant += theta[at]
        unary[space.ends[e, 1]] += theta[at + 1] - theta[at]
        unary[space.ends[e, 0]] += theta[at + 2] - theta[at]
        pair[e] = theta[at + 3] + theta[at] - theta[at + 1] - theta[at + 2]
    return constant


@inner_kernel
def _relax(space, theta, states):
    """Write the half-integral optimum to `states`; return its score, and whether it has halves."""
    n = n_labels_of(space)
    unary, pair = space.work.unary, space.work.pair
    constant = _reduce(space, theta, unary, pair, states)
    if not constant > -math.inf:
        for j in range(n):
            states[j] = 0
        return constant, False
    value = roof_dual(unary, pair, space.own, states, space.work.roof)
    halves = False
    for j in range(n):
        halves |= states[j] == HALF
    return constant + value, halves


@max_oracle.register(FewLabelsSpace)
@kernel
def _(space, i, theta, labels):
    if n_labels_of(space) > _FLOW_PAYS and space.n_implied == 0:
        value, halves = _relax(space, theta, labels)
        if not halves:
            return value
    unary, tables = _few(space, theta)
    at = space.work.at
    enumerate_top_k(unary, tables, at.value, labels.reshape(1, labels.shape[0]), at)
    return at.value[0]


@relaxed_oracle.register(ManyLabelsSpace)
@kernel
def _(space, i, theta, labels, mu):
    n = n_labels_of(space)
    value, halves = _relax(space, theta, labels)
    pair = space.work.pair
    for j in range(n):
        mu[j] = 0.5 if labels[j] == HALF else float(labels[j])
        mu[n + j] = 1.0 - mu[j]
    for e in range(space.ends.shape[0]):
        j, k = space.ends[e, 0], space.ends[e, 1]
        first, second = mu[j], mu[k]
        both = max(0.0, first + second - 1.0) if pair[e] <= 0.0 else min(first, second)
        _write_pair(space, mu, e, first, second, both)
    if halves:
        labels[0] = -1
    # The LP is solved exactly: its optimum attains the bound.
    return value, value


@max_oracle.register(ManyLabelsSpace)
@kernel
def _(space, i, theta, labels):
    n = n_labels_of(space)
    _, halves = _relax(space, theta, labels)
    if halves:
        unary = space.work.unary
        for j in range(n):
            if theta[j] == -math.inf:
                unary[j] = -math.inf
            elif theta[n + j] == -math.inf:
                unary[j] = math.inf
        complete(unary, space.work.pair, space.own, labels)
    return score(space, i, theta, labels)


def neighbours(edges: np.ndarray, n: int) -> Neighbours:
    """Neighbours of each of `n` labels and the edges to them."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    which = np.tile(np.arange(len(edges)), 2)
    links = sparse.coo_matrix((which, tuple(ends.T)), (n, n)).tocsr()
    links.sort_indices()
    kinds = np.int64, np.int32, np.int32
    parts = zip((links.indptr, links.indices, links.data), kinds, strict=True)
    return Neighbours(*(part.astype(kind) for part, kind in parts))

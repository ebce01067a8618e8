"""MultiLabel: a table of samples with any subset of the labels each, labels may interact."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import BaseEstimator

from ..core.factors import BinaryFactors
from ..core.features import add_outer, constant_rows, scores
from ..core.jit.dispatch import inner_kernel, kernel
from ..core.oracles import (
    accumulate,
    add_indicator,
    augment,
    exp_oracle,
    gram,
    max_marginals,
    max_oracle,
    potentials,
    relaxed_oracle,
    sample_oracle,
    score,
    task_loss,
    top_k_oracle,
)
from ..core.proximal import catch_up, catch_up_rows
from ..core.typing import LossLike, SamplesLike
from ..data.labels import read_indicator
from ..data.matrices import refuse_masked, row_squares, writable
from ..data.node_weights import balanced_weights, given_weights, read_table_weights
from ..data.partial import read_table_mask
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
    root_forests,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
    tree_top_k,
)
from ..losses.task import UNWEIGHTED, LossWeights, label_cost
from .base import Graph, kept_positions
from .items import ItemGraph
from .layout import (
    Rows,
    example_sequences,
    feature_rows,
    label_fields,
    no_rows,
    read_rows,
    row_scratch,
)
from .problem import Problem, draw_by_conditioning

# Label sets for compiled solvers: their problem, the verbs that all share, those of forests.
#
# Parts of a sample of L labels and m edges: L parts "label j is on", L parts "label j is off" (they
# have no weights, but the task loss and constraints need them), then for each edge one part "both
# ends are on", or four parts (first end, second end) with full tables.


class LabelSetProblem(NamedTuple):
    """Label sets packed for kernels; subclasses define how labels interact."""

    # A feature row a sample.
    nodes: tuple
    # The row that all edges have.
    edges: tuple
    # (n_samples + 1,): Multiples of the number of parts, and of the number of labels.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # (n_samples * n_labels,): Ones where a label is on; empty when unknown.
    labels: np.ndarray
    # (n_samples * n_labels or 0, 2): Whether each label may be off, and on; no rows when all may.
    allowed: np.ndarray
    # (2, 2): Task loss of a label that is j and predicted as k.
    cost: np.ndarray
    # 1 to divide the task loss by the number of labels.
    normalize: int
    # (n_samples,): Squared norms of the feature rows, the constant feature included.
    squared_norms: np.ndarray
    # (n_edges, 2): The labels of each edge.
    ends: np.ndarray
    # 1 where edges have full 2 x 2 tables.
    full: int
    # The edges in the form in which the subclass takes them.
    own: tuple
    # Scratch of one thread.
    work: tuple
    # Effect of label weights on the task loss.
    loss_weights: LossWeights = UNWEIGHTED

    adds_by_columns = True


@inner_kernel(inline=True)
def n_labels_of(problem):
    """Number of labels."""
    return problem.label_ptr[1]


@inner_kernel(inline=True)
def pair_width(problem):
    """Number of pair parts."""
    return problem.ends.shape[0] * (4 if problem.full == 1 else 1)


@inner_kernel(inline=True)
def _pair_part(problem, e, a, b):
    """The part of labels (a, b) at the ends of edge e, -1 if there is none."""
    n = n_labels_of(problem)
    if problem.full == 1:
        return 2 * n + 4 * e + 2 * a + b
    return 2 * n + e if a + b == 2 else -1


@inner_kernel(inline=True)
def _pair_score(problem, theta, e, a, b):
    """The score of that part."""
    q = _pair_part(problem, e, a, b)
    return theta[q] if q >= 0 else 0.0


@potentials.register(LabelSetProblem)
@kernel
def _(problem, i, w, theta):
    n, width = n_labels_of(problem), pair_width(problem)
    scores(problem.nodes, i, i + 1, n, w.node, w, problem.work.row, theta, 0)
    for j in range(n):
        theta[n + j] = 0.0
    if width > 0:
        scores(problem.edges, 0, 1, width, w.pair, w, problem.work.row, theta, 2 * n)
    if problem.allowed.shape[0] > 0:
        for j in range(n):
            if problem.allowed[i * n + j, 1] == 0:
                theta[j] = -math.inf
            if problem.allowed[i * n + j, 0] == 0:
                theta[n + j] = -math.inf


@accumulate.register(LabelSetProblem)
@kernel
def _(problem, i, r, c, w):
    n, width = n_labels_of(problem), pair_width(problem)
    add_outer(problem.nodes, i, i + 1, n, r, 0, c, w.node, w, problem.work.row)
    if width > 0:
        add_outer(problem.edges, 0, 1, width, r, 2 * n, c, w.pair, w, problem.work.row)


@catch_up.register(LabelSetProblem)
@kernel
def _(problem, i, w, clock):
    catch_up_rows(problem.nodes, i, i + 1, w.node, clock.node, clock)
    if pair_width(problem) > 0:
        catch_up_rows(problem.edges, 0, 1, w.pair, clock.pair, clock)


@gram.register(LabelSetProblem)
@kernel
def _(problem, i, r, out):
    n = n_labels_of(problem)
    for j in range(n):
        out[j] = problem.squared_norms[i] * r[j]
        out[n + j] = 0.0
    for q in range(2 * n, 2 * n + pair_width(problem)):
        out[q] = r[q]


@add_indicator.register(LabelSetProblem)
@kernel
def _(problem, i, labels, c, mu):
    n = n_labels_of(problem)
    for j in range(n):
        mu[j if labels[j] == 1 else n + j] += c
    for e in range(problem.ends.shape[0]):
        a, b = labels[problem.ends[e, 0]], labels[problem.ends[e, 1]]
        q = _pair_part(problem, e, a, b)
        if q >= 0:
            mu[q] += c


@score.register(LabelSetProblem)
@kernel
def _(problem, i, theta, labels):
    n = n_labels_of(problem)
    total = 0.0
    for j in range(n):
        total += theta[j if labels[j] == 1 else n + j]
    for e in range(problem.ends.shape[0]):
        a, b = labels[problem.ends[e, 0]], labels[problem.ends[e, 1]]
        total += _pair_score(problem, theta, e, a, b)
    return total


@augment.register(LabelSetProblem)
@kernel
def _(problem, i, theta):
    n = n_labels_of(problem)
    cost, weights = problem.cost, problem.loss_weights
    share = 1.0 / n if problem.normalize == 1 else 1.0
    for j in range(n):
        t = i * n + j
        y = problem.labels[t]
        theta[j] += label_cost(cost, weights, share, t, y, 1)
        theta[n + j] += label_cost(cost, weights, share, t, y, 0)


task_loss.register(LabelSetProblem)(task_loss.registry[Problem])


class LabelForestScratch(NamedTuple):
    """Scratch of label sets on a forest, whose potentials take the form of trees."""

    # A row of a weight table.
    row: np.ndarray
    # (n_labels, 2): Potentials and marginals of labels.
    unary: np.ndarray
    node_mu: np.ndarray
    # (n_edges, 2, 2): Those of edges.
    pair: np.ndarray
    pair_mu: np.ndarray
    # For the oracles.
    tree: TreeScratch


@sample_oracle.register(LabelSetProblem)
@kernel
def _(problem, i, theta, mu, room, uniforms, labels):
    n = n_labels_of(problem)
    return draw_by_conditioning(problem, i, theta, mu, room, uniforms, labels, (2, n, 1, -n))


def label_forest_scratch(row, n_labels, n_edges, n_best):
    """Scratch of a :class:`LabelForestProblem`; `row` is that of its weights."""
    nodes, edges = np.empty((2, n_labels, 2)), np.empty((2, n_edges, 2, 2))
    return LabelForestScratch(row, *nodes, *edges, tree_scratch(n_labels, 2, n_best))


class LabelForestProblem(LabelSetProblem):
    """Labels that interact along a :class:`~skstruct.inference.tree.Forest`, or not at all."""

    structure = "MultiLabel without cycles"


@inner_kernel
def _tables(problem, theta):
    """Potentials in the form of trees, in the scratch: (n, 2) and (m, 2, 2)."""
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair = problem.work.unary, problem.work.pair
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
    for e in range(m):
        for a in range(2):
            for b in range(2):
                pair[e, a, b] = _pair_score(problem, theta, e, a, b)
    return unary, pair


@max_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, labels):
    n = n_labels_of(problem)
    if problem.ends.shape[0] == 0:
        total = 0.0
        for j in range(n):
            labels[j] = 1 if theta[j] > theta[n + j] else 0
            total += max(theta[j], theta[n + j])
        return total
    unary, pair = _tables(problem, theta)
    return tree_max(unary, pair, problem.own, labels, problem.work.tree)


@top_k_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = _tables(problem, theta)
    tree_top_k(unary, pair, problem.own, values, labels, problem.work.tree)


@exp_oracle.register(LabelForestProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m = n_labels_of(problem), problem.ends.shape[0]
    unary, pair = _tables(problem, theta)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, problem.own, problem.work.tree)
    node_mu, pair_mu = problem.work.node_mu, problem.work.pair_mu
    log_z = tree_marginals(
        unary,
        pair,
        temperature,
        problem.own,
        node_mu,
        pair_mu,
        problem.own.link,
        problem.work.tree,
    )
    for j in range(n):
        mu[j] = node_mu[j, 1]
        mu[n + j] = node_mu[j, 0]
    for e in range(m):
        for a in range(2):
            for b in range(2):
                q = _pair_part(problem, e, a, b)
                if q >= 0:
                    mu[q] = pair_mu[e, a, b]
    return log_z


@max_marginals.register(LabelForestProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = _tables(problem, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pair, problem.own, best, problem.work.tree)


# Label sets whose edges have cycles: exact by enumeration for few labels, else relaxed.

# From this many labels on a flow is tried before the enumeration.
_FLOW_PAYS = 8


class LoopScratch(NamedTuple):
    """Scratch of label sets with cycles: potentials in the form of roof duals, and of tables."""

    # A row of a weight table.
    row: np.ndarray
    # (n_labels,): Score of 1 minus score of 0 at each label.
    unary: np.ndarray
    # (n_edges,): Score of (1, 1) on each edge.
    pair: np.ndarray
    # For the relaxation.
    roof: RoofScratch
    # (n_labels, 2): Potentials of labels; of no labels, as what follows, where nothing is
    # enumerated.
    states: np.ndarray
    # (n_labels, n_labels, 2, 2): Potentials of all pairs of labels, and marginals of (1, 1).
    tables: np.ndarray
    both: np.ndarray
    # For enumerations.
    at: EnumerationScratch


def loop_scratch(row, n_labels, n_edges, enumerated):
    """Scratch of a problem of this file; `row` is that of its weights."""
    few = n_labels if enumerated else 0
    return LoopScratch(
        row=row,
        unary=np.empty(n_labels),
        pair=np.empty(n_edges),
        roof=roof_scratch(n_labels, n_edges),
        states=np.empty((few, 2)),
        tables=np.empty((few, few, 2, 2)),
        both=np.empty((few, few)),
        at=enumeration_scratch(few),
    )


class FewLabelsProblem(LabelSetProblem):
    """At most 16 labels with any edges (`own`: their `Neighbours`): exact."""

    structure = "MultiLabel with cycles"


class ManyLabelsProblem(LabelSetProblem):
    """The same for any number of labels, by the LP relaxation over the local polytope."""

    structure = "MultiLabel with cycles (relaxed, or more than 16 labels)"
    inference = "relaxed"
    remedy = ", or take MultiLabel(edges='tree')"


@inner_kernel
def _few(problem, theta):
    """Potentials as (n, 2) and (n, n, 2, 2), in the scratch."""
    n = n_labels_of(problem)
    unary, tables = problem.work.states, problem.work.tables
    for j in range(n):
        unary[j, 0] = theta[n + j]
        unary[j, 1] = theta[j]
        for k in range(n):
            for a in range(2):
                for b in range(2):
                    tables[j, k, a, b] = 0.0
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        for a in range(2):
            for b in range(2):
                value = _pair_score(problem, theta, e, a, b)
                if j < k:
                    tables[j, k, a, b] = value
                else:
                    tables[k, j, b, a] = value
    return unary, tables


@top_k_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, tables = _few(problem, theta)
    enumerate_top_k(unary, tables, values, labels, problem.work.at)


@exp_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n = n_labels_of(problem)
    unary, tables = _few(problem, theta)
    if mu.shape[0] == 0:
        return enumerate_log_partition(unary, tables, temperature, problem.work.at)
    both = problem.work.both
    log_z = enumerate_marginals(unary, tables, temperature, mu, both, problem.work.at)
    for j in range(n):
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        _write_pair(problem, mu, e, mu[j], mu[k], both[min(j, k), max(j, k)])
    return log_z


@inner_kernel
def _write_pair(problem, mu, e, first, second, both):
    """Parts of an edge from the marginals of its ends and of (1, 1)."""
    at = 2 * n_labels_of(problem)
    if problem.full == 0:
        mu[at + e] = both
        return
    mu[at + 4 * e] = max(1.0 - first - second + both, 0.0)
    mu[at + 4 * e + 1] = max(second - both, 0.0)
    mu[at + 4 * e + 2] = max(first - both, 0.0)
    mu[at + 4 * e + 3] = both


@inner_kernel
def _reduce(problem, theta, unary, pair, states):
    """Score of 1 minus score of 0 per label, of (1, 1) per edge; returns the score of all zeros."""
    n = n_labels_of(problem)
    constant = 0.0
    for j in range(n):
        on, off = theta[j], theta[n + j]
        states[j] = HALF
        unary[j] = on - off
        if on == -math.inf or off == -math.inf:
            # A forced label is fixed before anything else; where it is on, its score counts there.
            states[j] = 0 if on == -math.inf else 1
            unary[j] = 0.0 if on == -math.inf else on
        constant += off if states[j] != 1 else 0.0
    for e in range(problem.ends.shape[0]):
        if problem.full == 0:
            pair[e] = theta[2 * n + e]
            continue
        at = 2 * n + 4 * e
        constant += theta[at]
        unary[problem.ends[e, 1]] += theta[at + 1] - theta[at]
        unary[problem.ends[e, 0]] += theta[at + 2] - theta[at]
        pair[e] = theta[at + 3] + theta[at] - theta[at + 1] - theta[at + 2]
    return constant


@inner_kernel
def _relax(problem, theta, states):
    """Half-integral optimum of the relaxation, to `states`; its score, whether it has halves."""
    n = n_labels_of(problem)
    unary, pair = problem.work.unary, problem.work.pair
    constant = _reduce(problem, theta, unary, pair, states)
    if not constant > -math.inf:
        for j in range(n):
            states[j] = 0
        return constant, False
    value = roof_dual(unary, pair, problem.own, states, problem.work.roof)
    halves = False
    for j in range(n):
        halves |= states[j] == HALF
    return constant + value, halves


@max_oracle.register(FewLabelsProblem)
@kernel
def _(problem, i, theta, labels):
    if n_labels_of(problem) > _FLOW_PAYS:
        value, halves = _relax(problem, theta, labels)
        if not halves:
            return value
    unary, tables = _few(problem, theta)
    at = problem.work.at
    enumerate_top_k(unary, tables, at.value, labels.reshape(1, labels.shape[0]), at)
    return at.value[0]


@relaxed_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels, mu):
    n = n_labels_of(problem)
    value, halves = _relax(problem, theta, labels)
    pair = problem.work.pair
    for j in range(n):
        mu[j] = 0.5 if labels[j] == HALF else float(labels[j])
        mu[n + j] = 1.0 - mu[j]
    for e in range(problem.ends.shape[0]):
        j, k = problem.ends[e, 0], problem.ends[e, 1]
        first, second = mu[j], mu[k]
        both = max(0.0, first + second - 1.0) if pair[e] <= 0.0 else min(first, second)
        _write_pair(problem, mu, e, first, second, both)
    if halves:
        labels[0] = -1
    # The LP is solved to its end: its optimum attains the bound.
    return value, value


@max_oracle.register(ManyLabelsProblem)
@kernel
def _(problem, i, theta, labels):
    n = n_labels_of(problem)
    _, halves = _relax(problem, theta, labels)
    if halves:
        unary = problem.work.unary
        for j in range(n):
            if theta[j] == -math.inf:
                unary[j] = -math.inf
            elif theta[n + j] == -math.inf:
                unary[j] = math.inf
        complete(unary, problem.work.pair, problem.own, labels)
    return score(problem, i, theta, labels)


# Edges between labels: given by users, learnt, or read from a model that nobody vouches for.


def check_edges(edges, n_labels, n_classes: int) -> None:
    """Refuse labels and edges that a damaged file or a user has changed since fit."""
    if not isinstance(n_labels, (int, np.integer)) or n_labels != n_classes:
        raise ValueError(f"graph_.n_labels_ is {n_labels!r}, but there are {n_classes} labels")
    ordinary = isinstance(edges, np.ndarray) and edges.dtype == np.int32 and edges.ndim == 2
    if not ordinary or edges.shape[1] != 2 or not edges.flags.c_contiguous:
        raise ValueError("graph_.edges_ must be a C-contiguous array (n_edges, 2) of int32")
    if edges.size and (edges.min() < 0 or edges.max() >= n_labels):
        raise ValueError(f"graph_.edges_ has labels that are not among 0 to {n_labels - 1}")
    keys = np.sort(edges, axis=1) @ np.array([n_labels, 1], dtype=np.int64)
    if (edges[:, 0] == edges[:, 1]).any() or np.unique(keys).size < len(edges):
        raise ValueError("graph_.edges_ joins a label to itself, or two labels twice")


def read_edges(edges, n: int) -> np.ndarray:
    """The pairs of `n` labels that a user gave, checked; of shape (n_edges, 2)."""
    refuse_masked(edges, "edges")
    try:
        array = np.asarray(edges)
    except ValueError:
        raise ValueError("edges must be pairs of labels, but its rows differ in length") from None
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"edges must be integers of shape (n_edges, 2), got dtype {array.dtype}, shape "
            f"{array.shape}"
        )
    wrong = np.flatnonzero(((array < 0) | (array >= n)).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"edges: row {wrong[0]} is {array[wrong[0]].tolist()}, but labels are 0 to {n - 1}"
        )
    loops = np.flatnonzero(array[:, 0] == array[:, 1])
    if loops.size:
        raise ValueError(f"edges: row {loops[0]} joins label {array[loops[0], 0]} to itself")
    ordered = np.sort(array, axis=1)
    _, first = np.unique(ordered, axis=0, return_index=True)
    if first.size < len(array):
        row = np.setdiff1d(np.arange(len(array)), first)[0]
        raise ValueError(f"edges: row {row}, {array[row].tolist()}, occurs twice")
    return array


def chow_liu(table: np.ndarray) -> np.ndarray:
    """The spanning tree of largest mutual information between labels; -1 is a missing label."""
    information = _information(table) if (table >= 0).all() else _information_where_known(table)
    # The tree of least weight, all weights positive: entries of 0 would count as no edge.
    weight = information.max() + 1.0 - information
    tree = csgraph.minimum_spanning_tree(np.triu(weight, 1)).tocoo()
    return np.sort(np.stack([tree.row, tree.col], axis=1), axis=1)


def _information(table):
    """Mutual information of pairs of labels."""
    n_samples, n = table.shape
    on = table.astype(np.float64)
    p = on.mean(axis=0)
    both = on.T @ on / n_samples
    information = np.zeros((n, n))
    joints = {
        (0, 0): 1.0 - p[:, None] - p + both,
        (0, 1): p[None, :] - both,
        (1, 0): p[:, None] - both,
        (1, 1): both,
    }
    for (a, b), joint in joints.items():
        outer = (p if a else 1.0 - p)[:, None] * (p if b else 1.0 - p)[None, :]
        used = (joint > 1e-15) & (outer > 0)
        information[used] += joint[used] * np.log(joint[used] / outer[used])
    return information


def _information_where_known(table):
    """The same, of each pair over the samples that have both labels."""
    states = [(table == a).astype(np.float64) for a in (0, 1)]
    joint = np.array([[rows.T @ columns for columns in states] for rows in states])
    joint /= np.maximum(joint.sum(axis=(0, 1)), 1.0)
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    used = joint > 1e-15
    terms = np.zeros_like(joint)
    terms[used] = joint[used] * np.log(joint[used] / outer[used])
    return terms.sum(axis=(0, 1))


def neighbours(edges: np.ndarray, n: int) -> Neighbours:
    """Neighbours of each of `n` labels and the edges to them."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    which = np.tile(np.arange(len(edges)), 2)
    links = sparse.coo_matrix((which, tuple(ends.T)), (n, n)).tocsr()
    links.sort_indices()
    kinds = np.int64, np.int32, np.int32
    parts = zip((links.indptr, links.indices, links.data), kinds, strict=True)
    return Neighbours(*(part.astype(kind) for part, kind in parts))


__all__ = ["MultiLabel"]

_FEW_LABELS = 16


class MultiLabel(Graph):
    """Any number of labels for each row of a table; pairs of labels may interact.

    The score of a label set is the sum of the scores of its labels, and of the interactions of
    pairs in it. Without edges a CRF is one LogisticRegression per label, a structural SVM one
    LinearSVC. Inference is exact without edges, on a forest, and with at most 16 labels. With more
    labels and cycles, structural SVMs are trained on the LP relaxation (an upper bound on the
    hinge; it is tight where interactions attract), predictions are decoded from it, and CRFs are
    not available. GDMMSSVM uses it wherever there are cycles. Read more in the :ref:`User Guide
    <structures_guide>`.

    Parameters
    ----------
    edges : {None, "tree", "full"} or array-like of shape (n_edges, 2), default=None
        Labels that interact: none, the tree of largest mutual information in the training labels
        (Chow and Liu), all pairs, or the given pairs of label indices.
    tables : bool, default=False
        Whether an edge scores all four combinations of its labels, not only "both".
    inference : {"auto", "relaxed"}, default="auto"
        "relaxed" uses the LP relaxation even where enumeration would be exact.

    Attributes
    ----------
    n_labels_ : int
        Number of labels (of a structure inside a fitted estimator).
    edges_ : ndarray of shape (n_edges, 2)
        The edges.
    inference_, training_inference_ : {"exact", "relaxed"}
        Inference of predictions, and of the training objective and its bounds: over all label sets,
        or the LP relaxation. They differ for GDMMSSVM with cycles.

    See Also
    --------
    skstruct.MultiClass : The structure of plain tables.
    skstruct.datasets.make_label_sets : Generated documents with label sets.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Notes
    -----
    Of scikit-learn's two conventions for y with several columns, this is that of label sets, as in
    ``OneVsRestClassifier`` and ``MLPClassifier``: ``classes_`` has the numbers of the labels, 0 to
    n_labels - 1; ``predict``, ``predict_proba`` and ``decision_function`` return one array of shape
    (n_samples, n_labels), for a label the probability that it is on. (The other one, that of
    ``MultiOutputClassifier``, is a list with an entry a column, for columns of many classes.)

    If y is a data frame, ``label_names_in_`` of the fitted estimator and the tables of
    :mod:`skstruct.inspection` have the names of its columns. Predictions are arrays, as those of
    scikit-learn: ``pd.DataFrame(model.predict(X), columns=model.label_names_in_)`` names them.

    References
    ----------
    .. [1] Finley, Joachims (2008). Training Structural SVMs when Exact Inference is Intractable.
       ICML.
    .. [2] Chow, Liu (1968). Approximating discrete probability distributions with dependence trees.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, MultiLabel
    >>> X = np.repeat(np.eye(2), 4, axis=0)
    >>> Y = np.repeat([[1, 1, 0], [0, 0, 1]], 4, axis=0)
    >>> svm = BCFWSSVM(MultiLabel(edges="tree"), C=10, random_state=0).fit(X, Y)
    >>> svm.predict(X[[0, 7]])
    array([[1, 1, 0],
           [0, 0, 1]])
    """

    is_table = has_label_sets = takes_partial_labels = has_node_weights = True

    def __init__(
        self, edges: str | ArrayLike | None = None, tables: bool = False, inference: str = "auto"
    ) -> None:
        self.edges = edges
        self.tables = tables
        self.inference = inference

    # Reading

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[Rows, np.ndarray]:
        """Pack X and y; sets ``n_labels_``."""
        if self.inference not in ("auto", "relaxed"):
            raise ValueError(f"inference must be 'auto' or 'relaxed', got {self.inference!r}")
        table = read_indicator(y, None)
        self.n_labels_ = table.shape[1]
        samples = self.read_X(estimator, X, reset=True)
        read_indicator(y, samples.offsets.size - 1)
        return samples, table.ravel()

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Rows:
        """Check the table; every row has as many nodes as there are labels."""
        return read_rows(estimator, X, self.n_labels_, reset)

    def no_samples(self, estimator: BaseEstimator) -> Rows:
        """No rows."""
        return no_rows(estimator)

    def read_y(self, y: SamplesLike, samples: Rows) -> np.ndarray:
        """Check the label sets; zeros and ones, row by row."""
        table = read_indicator(y, samples.offsets.size - 1)
        if table.shape[1] != self.n_labels_:
            raise ValueError(f"y has {table.shape[1]} labels, expected {self.n_labels_}")
        return table.ravel()

    def find_classes(self, labels: np.ndarray, samples: Rows) -> Any:
        """Labels have numbers, see :class:`MultiLabel`; learns the edges."""
        n = self.n_labels_
        table = labels.reshape(-1, n)
        if isinstance(self.edges, str) and self.edges not in ("tree", "full"):
            raise ValueError(
                f"edges must be None, 'tree', 'full' or an array of pairs, got {self.edges!r}"
            )
        if self.edges is None:
            edges = np.empty((0, 2), dtype=np.int32)
        elif isinstance(self.edges, str) and self.edges == "full":
            edges = np.stack(np.triu_indices(n, 1), axis=1)
        elif isinstance(self.edges, str):
            edges = chow_liu(table)
        else:
            edges = read_edges(self.edges, n)
        self.edges_ = np.ascontiguousarray(edges, dtype=np.int32)
        return np.arange(n)

    encode, decode = ItemGraph.encode, ItemGraph.decode

    def n_states(self, classes: Any) -> int:
        """Off and on."""
        return 2

    def n_marginals(self, classes: Any) -> int:
        """One number per label: the probability that it is on."""
        return 1

    def wrap(self, flat: np.ndarray, samples: Rows) -> np.ndarray:
        """One row per sample."""
        return flat.reshape(-1, self.n_labels_)

    def read_allowed(self, allowed: Any, samples: Rows, classes: Any) -> np.ndarray:
        """The mask of shape (n_samples, n_labels, 2): may a label be off, may it be on."""
        return read_table_mask(allowed, (samples.offsets.size - 1, len(classes), 2))

    def read_node_weight(self, node_weight: Any, samples: Rows) -> np.ndarray:
        """One weight for each label of each row."""
        return read_table_weights(node_weight, (samples.offsets.size - 1, self.n_labels_))

    def read_class_weight(
        self, class_weight: Any, classes: Any, codes: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read weights of labels from a mapping; "balanced" weighs on and off."""
        n = len(classes)
        factor, class_factors = np.ones(n), np.ones((n, 2))
        if isinstance(class_weight, str):
            class_factors = balanced_weights(codes, counts, (n, 2))
        elif class_weight is not None:
            factor = given_weights(class_weight, list(range(n)))
        return np.tile(factor, codes.size // n), class_factors

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """Return each label's gain in score from being on, given the other predictions."""
        if not len(self.edges_):
            return scores
        scores, on = scores.copy(), estimator.predict(X)
        pairs = self.pair_tables(estimator.pair_weights_, self.n_labels_)
        for (j, k), pair in zip(self.edges_, pairs, strict=True):
            table = pair if self.tables else np.array([[0.0, 0.0], [0.0, pair]])
            scores[:, j] += (table[1] - table[0])[on[:, k]]
            scores[:, k] += (table[:, 1] - table[:, 0])[on[:, j]]
        return scores

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Scores of "both", of shape (n_edges,), or full tables (n_edges, 2, 2): a view."""
        flat = pair_weights.reshape(-1)
        return flat.reshape(-1, 2, 2) if self.tables else flat

    # Problems

    def weight_shapes(
        self, samples: Rows, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x labels, and 1 x edges (4 edges with full tables)."""
        width = len(self.edges_) * (4 if self.tables else 1)
        n_rows = samples.features.shape[1] + bool(fit_intercept)
        return (n_rows, n_classes), (1 if width else 0, width)

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels have no names: all stay if there are as many; edges by the labels at their ends.

        Weights of pairs start from 0 if `tables` has changed.
        """
        n = len(classes)
        if len(previous_classes) != n:
            return np.full(n, -1), None
        before = previous.edges_.tolist()
        edges = kept_positions(map(tuple, before), map(tuple, self.edges_.tolist()))
        back = kept_positions([(k, j) for j, k in before], map(tuple, self.edges_.tolist()))
        edges = np.where(edges < 0, back, edges)
        if self.tables != previous.tables:
            return np.arange(n), None
        if not self.tables:
            return np.arange(n), edges
        # The table of an edge that is given the other way round is transposed.
        entries = np.where((edges == back)[:, None], [0, 2, 1, 3], [0, 1, 2, 3])
        kept = np.where(edges[:, None] >= 0, 4 * edges[:, None] + entries, -1)
        return np.arange(n), kept.ravel()

    def make_problem(
        self,
        samples: Rows,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem; its class defines how it is decoded."""
        check_edges(self.edges_, self.n_labels_, len(classes))
        n, m = self.n_labels_, len(self.edges_)
        shapes = self.weight_shapes(samples, n, fit_intercept)
        width = shapes[1][1]
        squares = np.zeros(0)
        if codes is not None:
            squares = row_squares(samples.features) + bool(fit_intercept)
        n_samples = samples.offsets.size - 1
        nodes = feature_rows(samples.features, shapes[0][0] - 1 if fit_intercept else -1)
        fields = {
            "nodes": nodes,
            "edges": constant_rows(nodes, 1),
            "part_ptr": np.arange(n_samples + 1, dtype=np.int64) * (2 * n + width),
            "label_ptr": np.arange(n_samples + 1, dtype=np.int64) * n,
            "squared_norms": squares,
            "ends": writable(np.asarray(self.edges_), np.int32),
            "full": int(bool(self.tables)),
            **label_fields(np.array([0, 1]), codes, loss, allowed),
        }
        row = row_scratch(shapes)
        if self._is_forest():
            work = label_forest_scratch(row, n, m, n_best)
            forest, _ = root_forests(self.edges_, np.array([0, m]), np.array([0, n]))
            return LabelForestProblem(**fields, own=forest, work=work)
        few = n <= _FEW_LABELS and self.inference == "auto"
        problem = FewLabelsProblem if few else ManyLabelsProblem
        own = neighbours(self.edges_, n)
        return problem(**fields, own=own, work=loop_scratch(row, n, m, few))

    def relaxation(self, problem: NamedTuple) -> NamedTuple:
        """With cycles the LP relaxation takes the place of enumeration."""
        few = isinstance(problem, FewLabelsProblem)
        return ManyLabelsProblem(*problem) if few else problem

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, np.ndarray]:
        """The nodes of random sequences with random label sets."""
        given = self.edges is not None and not isinstance(self.edges, str)
        n_labels = 1 + int(np.max(self.edges, initial=3)) if given else 4
        X = example_sequences(rng, sparse_X)[0]
        X = sparse.vstack(X) if sparse_X else np.vstack(X)
        return X, rng.integers(2, size=(X.shape[0], n_labels))

    def factors(self, problem: NamedTuple, samples: Rows) -> BinaryFactors:
        """The labels, and the edges that all samples share."""
        n = self.n_labels_
        return BinaryFactors(
            nodes=problem.nodes,
            labels=problem.labels.reshape(-1, n),
            cost=problem.cost / n if problem.normalize == 1 else problem.cost,
            squares=problem.squared_norms,
            ends=problem.ends,
            full=problem.full,
            factor=problem.loss_weights.factor.reshape(-1, n),
        )

    def _is_forest(self):
        n, m = self.n_labels_, len(self.edges_)
        if m >= n or (self.inference == "relaxed" and m > 0):
            return False
        link = sparse.coo_matrix((np.ones(m), self.edges_.T), (n, n))
        return csgraph.connected_components(link, directed=False)[0] == n - m

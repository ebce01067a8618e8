"""Graphs of nodes and pairwise edges for compiled solvers: the problem and its operations."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.factors import PairwiseFactors
from ...core.features import DenseFeatures, ObservedFeatures, add_outer, constant_rows, scores
from ...core.gram import gram_of, gram_of_constant, gram_product, not_stored
from ...core.jit.dispatch import generic, inner_kernel, kernel
from ...core.offsets import ends_of
from ...core.oracles import (
    accumulate,
    add_indicator,
    augment,
    count_states,
    edge_marginals,
    gram,
    potentials,
    sample_oracle,
    score,
    task_loss,
)
from ...core.proximal import catch_up, catch_up_rows
from ...core.weights import Weights, padded_width, zero_weights
from ...inference.numerics import conditional_entropy, draw
from ...losses.task import UNWEIGHTED, LossWeights
from ..layout import TableScratch, feature_rows, label_fields, table_scratch
from ..problem import NodeGraph, Problem, forbid

# Graphs of nodes and pairwise edges: what chains and trees share in Python.


class PairwiseGraph(NodeGraph):
    """A structure with labelled nodes and edges that score pairs of labels.

    Subclasses have a parameter ``edge_features``, and packed samples with such a field.

    See Also
    --------
    skstruct.graphs.Graph : Base class of structures.
    skstruct.Pairwise : The structure of graphs, with cycles or without.
    skstruct.testing.check_structure : Checks the operations of a structure.

    Examples
    --------
    >>> from skstruct import Chain, Matching
    >>> from skstruct.graphs import PairwiseGraph
    >>> isinstance(Chain(), PairwiseGraph), isinstance(Matching(), PairwiseGraph)
    (True, False)
    """

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of the node and the pair table.

        (Features, then ``n_end_rows``, then the intercept) x labels, and (edge features or 1) x
        label pairs.
        """
        n_rows = samples.features.shape[1] + self.n_end_rows + bool(fit_intercept)
        n_pair_rows = samples.edge_features.shape[1] if self.edge_features else 1
        return (n_rows, n_classes), (n_pair_rows, n_classes * n_classes)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (label, next label): one table, or one for each edge feature or row."""
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables if self.edge_features or len(tables) > 1 else tables[0]

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences, of pairs of features if edges have features, too."""
        X, y = super().example(rng, sparse_X)
        if self.edge_features:
            kind = sparse.csr_matrix if sparse_X else np.asarray
            X = [(x, kind(rng.normal(size=(x.shape[0] - 1, 2)))) for x in X]
        return X, y

    def observed(
        self,
        problem: NamedTuple,
        samples: Any,
        allowed: np.ndarray | None,
        all_states: bool,
        all_transitions: bool,
    ) -> Observed:
        """The problem on some of the weights."""
        n_labels = problem.cost.shape[0]
        shapes = self.weight_shapes(samples, n_labels, problem.nodes.intercept >= 0)
        if allowed is None:
            n = problem.labels.size
            parts = np.ones(n), problem.labels, np.arange(n + 1)
            allowed = sparse.csr_matrix(parts, shape=(n, n_labels))
        allowed = sparse.csr_matrix(allowed, dtype=np.float64)
        nodes, edges = _csr_rows(problem.nodes, shapes[0]), _csr_rows(problem.edges, shapes[1])
        states = _all_pairs(shapes[0]) if all_states else _occurring(nodes, allowed)
        if all_transitions:
            steps = _all_pairs(shapes[1])
        else:
            steps = _occurring_steps(problem, edges, allowed, self.edge_ends(samples))
        return Observed.of(problem, shapes, (nodes, edges), (states, steps))

    def factors(self, problem: NamedTuple, samples: Any) -> PairwiseFactors:
        """The nodes and edges of the problem."""
        ends = np.stack(self.edge_ends(samples), axis=1)
        lengths, factor = samples.lengths, problem.loss_weights.factor
        share = 1.0 / lengths if problem.normalize == 1 else np.ones(lengths.size)
        edges, column, n = self._edge_factors(problem, samples), None, problem.cost.shape[0]
        if edges is not None:
            column = getattr(problem.own, "column", np.arange(n * n).reshape(n, n)).astype(np.int64)
        return PairwiseFactors(
            nodes=problem.nodes,
            node_ptr=problem.label_ptr,
            edge_ptr=ends_of(samples.n_edges),
            ends=np.ascontiguousarray(ends, dtype=np.int64),
            labels=problem.labels,
            allowed=problem.allowed,
            cost=problem.cost,
            share=np.repeat(share, lengths) * factor if factor.size else share,
            mask=problem.transition_mask if len(ends) else None,
            edges=edges,
            column=column,
        )

    def _edge_factors(self, problem, samples):
        """Feature rows of the edges for :meth:`factors`, None where all score by one table."""
        return problem.edges if self.edge_features and samples.n_edges.sum() else None

    def _no_features(self, estimator):
        """Features, offsets and edge features of no samples."""
        edges = np.empty((0, estimator.n_edge_features_in_)) if self.edge_features else None
        return np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64), edges

    def _node_rows(self, samples):
        """Features in the rows of the node table that they belong to."""
        return samples.features

    def _edge_rows(self, samples):
        """Edge features in the rows of the pair table that they belong to."""
        return samples.edge_features

    def _fields(self, samples, classes, fit_intercept, codes, loss, mask, allowed):
        """Fields of a problem that do not depend on the order of nodes, and scratch for weights."""
        n_classes = len(classes)
        shapes = self.weight_shapes(samples, n_classes, fit_intercept)
        offsets, lengths = samples.offsets, samples.lengths
        for_training = codes is not None
        intercept = shapes[0][0] - 1 if fit_intercept else -1
        nodes = feature_rows(self._node_rows(samples), intercept, for_training)
        if self.edge_features:
            edges, n_tables = feature_rows(self._edge_rows(samples), -1), samples.n_edges
            edge_ptr = ends_of(n_tables)
        else:
            n_shared = shapes[1][0]
            edges, n_tables = constant_rows(nodes, n_shared), np.full(lengths.size, n_shared)
            edge_ptr = np.zeros(offsets.size, dtype=np.int64)
        n_parts = lengths * n_classes + n_tables * shapes[1][1]
        node_gram = pair_gram = not_stored()
        if for_training:
            node_gram = gram_of(nodes, offsets, shapes[0][0])
            pair_gram = (
                pair_gram if self.edge_features else gram_of_constant(lengths.size, n_shared)
            )
        fields = {
            "nodes": nodes,
            "edges": edges,
            "part_ptr": ends_of(n_parts),
            "label_ptr": offsets,
            "edge_ptr": edge_ptr,
            "n_tables": n_tables,
            "width": shapes[1][1],
            "transition_mask": mask.pairs,
            "node_gram": node_gram,
            "pair_gram": pair_gram,
            **label_fields(classes, codes, loss, allowed),
        }
        grams = (node_gram, pair_gram) if for_training else ()
        return fields, table_scratch(shapes, *grams)


class PairwiseProblem(NamedTuple):
    """Graphs of nodes and pairwise edges packed for kernels.

    Structures define subclasses, which inherit the operations of this file.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Feature rows of all nodes.
    edges : DenseFeatures or SparseFeatures
        Feature rows of all edges, or the one row that they share.
    part_ptr, label_ptr, edge_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts, the nodes and the edge rows of each sample begin; `edge_ptr` is all zeros
        when edges share one row.
    n_tables : ndarray of shape (n_samples,) of int64
        Number of transition tables in the parts of each sample: its edges, or those they share.
    width : int
        Entries of a table: ``n_labels ** 2``, or fewer where label pairs share weights.
    labels : ndarray of shape (n_nodes,) of int32
        True labels; empty when unknown.
    transition_mask : ndarray of shape (n_labels, n_labels)
        0, or -inf for a forbidden transition.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels allowed at each node; no rows when all are.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of predicting column k at a node whose label is row j.
    normalize : int
        1 to divide the task loss by the number of nodes.
    node_gram, pair_gram : Gram
        Products of the feature rows of a sample, for line searches.
    own : tuple
        Data of the structure, a tuple or NamedTuple of arrays and numbers, or ``()``.
    work : NamedTuple
        Scratch of one thread: ``tables`` for weights, and what the structure's oracles need.
    loss_weights : LossWeights
        Effect of weights of nodes on the task loss.

    See Also
    --------
    skstruct.graphs.SequenceProblem : Nodes in a row.
    skstruct.graphs.PairwiseGraph : The structures that make such problems.

    Notes
    -----
    Parts of a sample of T nodes and K labels: the node block, label k of node t at ``t * K + k``;
    then ``n_tables[i]`` tables of transitions, (j, k) of table e at ``T * K + e * K * K + j * K +
    k``. With one shared table its indicators are summed over the edges.

    Examples
    --------
    Three nodes of two labels, and one table of transitions for both edges, make ten parts:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> problem.part_ptr, problem.labels
    (array([ 0, 10]), array([0, 1, 0], dtype=int32))
    """

    nodes: tuple
    edges: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    edge_ptr: np.ndarray
    n_tables: np.ndarray
    width: int
    labels: np.ndarray
    transition_mask: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    normalize: int
    node_gram: tuple
    pair_gram: tuple
    own: tuple
    work: tuple
    loss_weights: LossWeights = UNWEIGHTED

    adds_by_columns = True


@inner_kernel(inline=True)
def shape_of(problem, i):
    """First node, numbers of nodes and labels, first edge row, number of transition tables."""
    first = problem.label_ptr[i]
    n = problem.label_ptr[i + 1] - first
    return first, n, problem.cost.shape[0], problem.edge_ptr[i], problem.n_tables[i]


@inner_kernel(inline=True)
def blocks(problem, i, theta):
    """Node block and transition block of part-space array `theta`, shaped."""
    n_labels, n_tables = problem.cost.shape[0], problem.n_tables[i]
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    size = n * n_labels
    unary = theta[:size].reshape(n, n_labels)
    pair = theta[size : size + n_tables * n_labels * n_labels]
    return unary, pair.reshape(n_tables, n_labels, n_labels)


@potentials.register(PairwiseProblem)
@kernel
def _(problem, i, w, theta):
    _scores_of_parts(problem, i, w, theta)
    forbid_parts(problem, i, theta)


@inner_kernel(inline=True)
def forbid_parts(problem, i, theta):
    """Write -inf to the potentials of labels and transitions that are forbidden."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    for e in range(n_tables):
        for j in range(n_labels):
            o = (n + e * n_labels + j) * n_labels
            for k in range(n_labels):
                theta[o + k] += problem.transition_mask[j, k]
    forbid(problem, i, theta)


@inner_kernel(inline=True)
def _scores_of_parts(problem, i, w, theta):
    """The potentials, but for what is forbidden."""
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    row = problem.work.tables.row
    scores(problem.nodes, first, first + n, n_labels, w.node, w, row, theta, 0)
    scores(problem.edges, e0, e0 + n_tables, width, w.pair, w, row, theta, size)


@accumulate.register(PairwiseProblem)
@kernel
def _(problem, i, r, c, w):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    row = problem.work.tables.row
    add_outer(problem.nodes, first, first + n, n_labels, r, 0, c, w.node, w, row)
    add_outer(problem.edges, e0, e0 + n_tables, width, r, size, c, w.pair, w, row)


@catch_up.register(PairwiseProblem)
@kernel
def _(problem, i, w, clock):
    first, n, _, e0, n_tables = shape_of(problem, i)
    catch_up_rows(problem.nodes, first, first + n, w.node, clock.node, clock)
    catch_up_rows(problem.edges, e0, e0 + n_tables, w.pair, clock.pair, clock)


@gram.register(PairwiseProblem)
@kernel
def _(problem, i, r, out):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    of_nodes, of_edges, tables = problem.node_gram, problem.pair_gram, problem.work.tables
    nodes, edges, stop = problem.nodes, problem.edges, e0 + n_tables
    gram_product(of_nodes, nodes, i, first, first + n, n_labels, r, out, 0, tables.node)
    gram_product(of_edges, edges, i, e0, stop, width, r, out, size, tables.pair)


for _verb in (augment, count_states, sample_oracle, task_loss):
    _verb.register(PairwiseProblem)(_verb.registry[Problem])


# Draws and entropies from marginals of edges, where these have no cycles.


@generic
def edge_above(problem, i, position):
    """A node and its parent (-1: none), in an order in which parents come before their children.

    Returns also where the marginals of the edge between them begin, and what a label of the parent
    and one of the node add to that.
    """


@kernel
def draw_along_edges(problem, i, theta, mu, room, uniforms, labels):
    """A kernel for :func:`~skstruct.core.oracles.sample_oracle`: each label given the parent's."""
    n_labels = problem.cost.shape[0]
    value = edge_marginals(problem, i, theta, mu, room)
    for d in range(labels.shape[0] if value > -math.inf else 0):
        for position in range(labels.shape[1]):
            c, p, begin, row, step = edge_above(problem, i, position)
            if p < 0:
                labels[d, c] = draw(mu, c * n_labels, 1, n_labels, uniforms[c, d])
            else:
                begin += labels[d, p] * row
                labels[d, c] = draw(room, begin, step, n_labels, uniforms[c, d])
    return value


@kernel
def entropy_along_edges(problem, i, theta, mu, room):
    """A kernel for :func:`~skstruct.core.oracles.entropy`: of each label given the parent's."""
    n_labels, total = problem.cost.shape[0], 0.0
    if not edge_marginals(problem, i, theta, mu, room) > -math.inf:
        return math.nan
    for position in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        c, p, begin, row, step = edge_above(problem, i, position)
        if p < 0:
            total += conditional_entropy(mu, c * n_labels, 0, 1, 1, n_labels)
        else:
            total += conditional_entropy(room, begin, row, step, n_labels, n_labels)
    return total


# Graphs of any edges: what all ways of inference share.


class Network(NamedTuple):
    """The edges of all samples."""

    # (n_edges, 2): Nodes of each edge, counted within its sample.
    ends: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    ptr: np.ndarray
    # (n_edges,): Which table of the sample's parts an edge has: that of its type, or its own.
    table: np.ndarray
    # (n_labels, n_labels): Entry of a table that a pair of labels has; -1 if it scores 0.
    column: np.ndarray
    # Additional data of the oracles.
    inference: tuple


class NetworkProblem(PairwiseProblem):
    """Graphs packed for kernels; `own` is their :class:`Network`.

    Forbidden pairs are not in the potentials, which hold a number for several pairs: the oracles
    add them.
    """

    structure, inference = "Pairwise", "exact"
    remedy = ', or inference="junction-tree" where tables are small'


@inner_kernel(inline=True)
def pair_score(problem, theta, begin, j, k):
    """Score of labels (j, k) on an edge whose table begins at `begin`."""
    column = problem.own.column[j, k]
    value = theta[begin + column] if column >= 0 else 0.0
    return value + problem.transition_mask[j, k]


@inner_kernel
def add_pair(problem, mu, begin, j, k, c):
    """Add to the entry of a pair of labels in the table at `begin`, if it has one."""
    column = problem.own.column[j, k]
    if column >= 0:
        mu[begin + column] += c


@inner_kernel
def expand_tables(problem, i, theta, out):
    """Write all tables of sample i in full, label pairs row-major, to `out`."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    o = 0
    for e in range(n_tables):
        begin = n * n_labels + e * problem.width
        for j in range(n_labels):
            for k in range(n_labels):
                out[o] = pair_score(problem, theta, begin, j, k)
                o += 1


@inner_kernel
def fold_tables(problem, i, full, mu):
    """Write the tables of `mu`: sums of full ones over the label pairs that share an entry."""
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    size, width = n * n_labels, problem.width
    for q in range(size, size + n_tables * width):
        mu[q] = 0.0
    o = 0
    for e in range(n_tables):
        for j in range(n_labels):
            for k in range(n_labels):
                add_pair(problem, mu, size + e * width, j, k, full[o])
                o += 1


@potentials.register(NetworkProblem)
@kernel
def _(problem, i, w, theta):
    _scores_of_parts(problem, i, w, theta)
    forbid(problem, i, theta)


@add_indicator.register(NetworkProblem)
@kernel
def _(problem, i, labels, c, mu):
    _, n, n_labels, _, _ = shape_of(problem, i)
    own = problem.own
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * problem.width
        add_pair(problem, mu, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]], c)


@score.register(NetworkProblem)
@kernel
def _(problem, i, theta, labels):
    _, n, n_labels, _, _ = shape_of(problem, i)
    own = problem.own
    total = 0.0
    for t in range(n):
        total += theta[t * n_labels + labels[t]]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = n * n_labels + own.table[e] * problem.width
        total += pair_score(problem, theta, begin, labels[own.ends[e, 0]], labels[own.ends[e, 1]])
    return total


# Problems on the weights of pairs that occur in the training data.


# Features with more than this share of the labels have room for all.
_MANY_LABELS = 0.25


class Observed(NamedTuple):
    """A problem on some of the weights, each table as a column; the others are 0."""

    problem: PairwiseProblem
    # The same with the Gram matrices of all weights, whose squared norms are upper bounds.
    bounding: PairwiseProblem
    # Shapes of the tables of all weights, and where those of the problem are in them; -1 for what
    # stays 0.
    whole: tuple
    places: tuple

    @classmethod
    def of(cls, problem, whole, rows, pairs) -> Observed:
        """On the rows of nodes and edges as CSR matrices, and the pairs that have weights."""
        (nodes, of_nodes), (edges, of_edges) = map(_observed_rows, rows, pairs)
        places = of_nodes, of_edges
        scratch = (np.zeros((where.size, 1)) for where in places)
        own = problem._replace(
            nodes=nodes,
            edges=edges,
            node_gram=not_stored(),
            pair_gram=not_stored(),
            work=problem.work._replace(tables=TableScratch(problem.work.tables.row, *scratch)),
        )
        grams = problem.node_gram, problem.pair_gram
        bounding = own
        if all(one.is_whole for one in grams):
            known = {"node_gram": grams[0], "pair_gram": grams[1], "work": problem.work}
            bounding = own._replace(**known)
        return cls(own, bounding, tuple(whole), places)

    @property
    def shapes(self):
        """The shapes of its own tables."""
        return tuple((where.size, 1) for where in self.places)

    def take(self, w: Weights | None) -> Weights | None:
        """Of all weights those of the problem."""
        if w is None:
            return None
        tables = zip(w.tables, self.places, strict=True)
        return Weights(*(np.append(table.ravel(), 0.0)[where][:, None] for table, where in tables))

    def spread(self, w: Weights) -> Weights:
        """All weights, from those of the problem."""
        full = zero_weights(self.whole)
        for table, column, where in zip(full.tables, w.tables, self.places, strict=True):
            has = where >= 0
            table.ravel()[where[has]] = column[has, 0]
        return full


def _observed_rows(rows, pairs):
    """Rows whose features have the weights of some pairs, and where these are in a whole table."""
    width, counts = pairs.shape[1], np.diff(pairs.indptr)
    stride, has_many = padded_width(width), counts > _MANY_LABELS * width
    many = np.flatnonzero(has_many)
    # Places of weights: those of features with many labels, then the rest.
    begins = np.zeros(counts.size, dtype=np.int64)
    begins[many] = np.arange(many.size) * stride
    of_many = np.repeat(has_many, counts)
    feature = np.repeat(np.arange(counts.size), counts)
    at = begins[feature] + pairs.indices
    at[~of_many] = many.size * stride + np.arange(at.size - of_many.sum())
    where = np.full(many.size * stride + at.size - of_many.sum(), -1, dtype=np.int64)
    where[at] = feature * width + pairs.indices
    mask = (where[: many.size * stride] >= 0).astype(np.float32)
    # Values: those of features with many labels, and of the rest one for each weight.
    wide = has_many[rows.indices]
    times = np.where(wide, 0, counts[rows.indices])
    ends, few_ends = (np.append(0, np.cumsum(size))[rows.indptr] for size in (wide, times))
    few = np.repeat(pairs.indptr[rows.indices] - ends_of(times)[:-1], times)
    few += np.arange(few.size)
    features = ObservedFeatures(
        data=rows.data[wide],
        indices=begins[rows.indices[wide]],
        indptr=ends,
        few_data=np.repeat(rows.data, times),
        places=at[few].astype(np.int32),
        labels=pairs.indices[few].astype(np.int32),
        few_ptr=few_ends,
        mask=mask,
        width=width,
        stride=stride,
    )
    return features, where


def _csr_rows(features, shape):
    """Feature rows as a CSR matrix, the constant feature in its last column."""
    has_constant = features.intercept >= 0
    if isinstance(features, DenseFeatures):
        rows = sparse.csr_matrix(features.values)
    else:
        parts = features.data, features.indices, features.indptr
        rows = sparse.csr_matrix(parts, shape=(len(parts[2]) - 1, shape[0] - has_constant))
    if not has_constant:
        return rows
    return sparse.hstack([rows, np.ones((rows.shape[0], 1))], format="csr")


def _all_pairs(shape):
    """Every feature with every label."""
    return sparse.csr_matrix(np.ones(shape))


def _occurring(rows, labels):
    """The features of some rows with the labels of these rows."""
    has = (rows.data != 0.0).astype(np.float64)
    pattern = sparse.csr_matrix((has, rows.indices, rows.indptr), shape=rows.shape)
    found = sparse.csr_matrix(pattern.T @ labels)
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _occurring_steps(problem, edges, allowed, ends):
    """The features of edges with the label pairs at their ends."""
    first, second = (allowed[nodes] for nodes in ends)
    if problem.edge_ptr[-1] == 0:  # all share rows: the one of their type
        edges = edges[getattr(problem.own, "table", np.zeros(len(ends[0]), dtype=np.int64))]
    begins = sparse.csc_matrix(first)
    steps = []
    for label in range(allowed.shape[1]):
        here = begins.indices[begins.indptr[label] : begins.indptr[label + 1]]
        steps.append(_occurring(edges[here], second[here]))
    steps = sparse.hstack(steps, format="csr")
    column = getattr(problem.own, "column", None)
    if column is not None:  # some label pairs share weights, or have none
        column = column.ravel()
        has = np.flatnonzero(column >= 0)
        shape = column.size, problem.width
        steps = steps @ sparse.csr_matrix((np.ones(has.size), (has, column[has])), shape=shape)
    steps.sort_indices()
    return steps

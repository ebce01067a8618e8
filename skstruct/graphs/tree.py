"""Trees and forests: nodes whose labels interact along edges without cycles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import BaseEstimator

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import (
    add_indicator,
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    score,
    top_k_oracle,
)
from ..core.typing import LossLike, SamplesLike
from ..data.constraints import check_steps, step_mask
from ..data.matrices import refuse_masked
from ..data.packing import as_list, pack_nodes, read_edge_features, take_rows
from ..inference.tree import (
    Forest,
    TreeScratch,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
    tree_top_k,
)
from .layout import TableScratch
from .pairwise.verbs import PairwiseGraph, PairwiseProblem, blocks

# Rooted forests for compiled solvers: the problem type and the kernels of its oracles.
#
# The verbs that do not depend on the edges are in :mod:`skstruct.graphs.pairwise.verbs`.


class ForestScratch(NamedTuple):
    """Scratch of forests."""

    # For weight tables.
    tables: TableScratch
    # For the oracles.
    tree: TreeScratch


class TreeProblem(PairwiseProblem):
    """Rooted forests packed for kernels.

    `own` is the :class:`~skstruct.inference.tree.Forest` of all nodes, counted within each sample.
    """

    structure = "Tree"


@inner_kernel(inline=True)
def _forest(problem, i):
    """The forest of sample i."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    own = problem.own
    return Forest(
        own.order[first:stop], own.parent[first:stop], own.link[first:stop], own.flip[first:stop]
    )


@add_indicator.register(TreeProblem)
@kernel
def _(problem, i, labels, c, mu):
    unary, pair = blocks(problem, i, mu)
    forest = _forest(problem, i)
    shared = pair.shape[0] == 1
    for t in range(unary.shape[0]):
        unary[t, labels[t]] += c
        p = forest.parent[t]
        if p >= 0:
            e = 0 if shared else forest.link[t]
            if forest.flip[t] == 1:
                pair[e, labels[t], labels[p]] += c
            else:
                pair[e, labels[p], labels[t]] += c


@score.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    forest = _forest(problem, i)
    shared = pair.shape[0] == 1
    total = 0.0
    for t in range(unary.shape[0]):
        total += unary[t, labels[t]]
        p = forest.parent[t]
        if p >= 0:
            e = 0 if shared else forest.link[t]
            total += (
                pair[e, labels[t], labels[p]]
                if forest.flip[t] == 1
                else pair[e, labels[p], labels[t]]
            )
    return total


@max_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    return tree_max(unary, pair, _forest(problem, i), labels, problem.work.tree)


@top_k_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = blocks(problem, i, theta)
    tree_top_k(unary, pair, _forest(problem, i), values, labels, problem.work.tree)


@exp_oracle.register(TreeProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = blocks(problem, i, theta)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pair, temperature, _forest(problem, i), problem.work.tree)
    node_mu, pair_mu = blocks(problem, i, mu)
    forest, scratch = _forest(problem, i), problem.work.tree
    return tree_marginals(unary, pair, temperature, forest, node_mu, pair_mu, forest.link, scratch)


@edge_marginals.register(TreeProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = blocks(problem, i, theta)
    n_labels = unary.shape[1]
    forest = _forest(problem, i)
    n_edges = 0
    for t in range(unary.shape[0]):
        n_edges += 1 if forest.parent[t] >= 0 else 0
    tables = out[: n_edges * n_labels * n_labels].reshape(n_edges, n_labels, n_labels)
    node_mu = blocks(problem, i, mu)[0]
    return tree_marginals(unary, pair, 1.0, forest, node_mu, tables, forest.link, problem.work.tree)


@max_marginals.register(TreeProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = blocks(problem, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pair, _forest(problem, i), best, problem.work.tree)


__all__ = ["Forests", "Tree", "TreeProblem"]


class Forests(NamedTuple):
    """Packed nodes and the edges between them."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray
    # (n_edges, 2): Nodes of each edge, counted within the sample.
    edges: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    edge_ptr: np.ndarray
    # (n_edges, n_edge_features): As `features`, of edges.
    edge_features: np.ndarray | sparse.csr_matrix | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Number of nodes of each sample."""
        return np.diff(self.offsets)

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sample."""
        return np.diff(self.edge_ptr)

    def take(self, keep: np.ndarray) -> Forests:
        """The samples where the mask `keep` is True."""
        edges = self.edge_features
        return Forests(
            take_rows(self.features, keep, self.lengths),
            ends_of(self.lengths[keep]),
            self.edges[np.repeat(keep, self.n_edges)],
            ends_of(self.n_edges[keep]),
            None if edges is None else take_rows(edges, keep, self.n_edges),
        )

    def without_empty(self) -> Forests:
        """The samples that have nodes; nothing is copied."""
        keep = np.append(True, self.lengths > 0)
        return self._replace(offsets=self.offsets[keep], edge_ptr=self.edge_ptr[keep])


class Tree(PairwiseGraph):
    """Nodes with edges that form a tree, or several: parses, taxonomies, skeletons.

    A sample of X is a tuple (features, structure). The structure is either the parents, one a node
    and -1 for a root, or an array (n_edges, 2) of edges in any order and orientation. The weights
    of an edge are those of (label of the parent, label of the child), or of (label of the first
    end, label of the second).

    Parameters
    ----------
    forest : bool, default=True
        Whether a sample may have several roots (or unconnected nodes).
    edge_features : bool, default=False
        Whether edges have features. A sample is then a tuple (features, structure, edge features of
        shape (n_edges, n_edge_features)), rows in the order of the edges, or of the children.
    forbidden : list of pairs, default=None
        Pairs (label of the first end, label of the second) that may not occur, in training and in
        prediction.

    See Also
    --------
    skstruct.Chain : The structure of sequences.
    skstruct.Pairwise : The structure of graphs, with cycles or without.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Tree
    >>> X = [(np.eye(3), [-1, 0, 0]), (np.eye(3)[:2], [1, -1])]
    >>> svm = BCFWSSVM(Tree(), C=10, random_state=0).fit(X, [["a", "b", "c"], ["a", "b"]])
    >>> svm.predict(X)[0].tolist()
    ['a', 'b', 'c']
    """

    def __init__(
        self, forest: bool = True, edge_features: bool = False, forbidden: Iterable | None = None
    ) -> None:
        self.forest = forest
        self.edge_features = edge_features
        self.forbidden = forbidden

    def no_samples(self, estimator: BaseEstimator) -> Forests:
        """No samples."""
        nodes, offsets, edges = self._no_features(estimator)
        return Forests(nodes, offsets, np.empty((0, 2), dtype=np.int32), offsets, edges)

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Forests:
        """Pack the samples; their edges must be trees."""
        items = as_list(X, "X")
        wanted = "(features, structure, edge_features)" if self.edge_features else None
        wanted = wanted or "(features, parents or edges)"
        for i, item in enumerate(items):
            if not isinstance(item, tuple) or len(item) != 2 + bool(self.edge_features):
                raise ValueError(f"X: sample {i} must be a tuple {wanted}")
        features, offsets = pack_nodes([item[0] for item in items], "X")
        lengths = np.diff(offsets)
        edges = [_read_structure(item[1], lengths[i], i) for i, item in enumerate(items)]
        n_edges = np.array([len(rows) for rows in edges])
        edge_ptr = ends_of(n_edges)
        flat = np.concatenate(edges).astype(np.int32)
        self._check_cycles(flat, edge_ptr, offsets)
        edge_features = None
        if self.edge_features:
            edge_features = read_edge_features([item[2] for item in items], lengths, n_edges, "X")
        samples = Forests(features, offsets, flat, edge_ptr, edge_features)
        self._check_counts(estimator, samples, reset)
        return samples

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """The same with each node below the one before it."""
        X, y = super().example(rng, sparse_X)
        parts = [x if self.edge_features else (x,) for x in X]
        chains = [np.arange(len(labels)) - 1 for labels in y]
        return [(x[0], up, *x[1:]) for x, up in zip(parts, chains, strict=True)], y

    def _check_cycles(self, edges, edge_ptr, offsets):
        """Refuse samples whose edges have a cycle, or more than one tree where one is asked for."""
        first, second = _global_ends(edges, edge_ptr, offsets)
        n = int(offsets[-1])
        link = sparse.coo_matrix((np.ones(first.size), (first, second)), (n, n))
        n_trees, tree = csgraph.connected_components(link, directed=False)
        surplus = np.bincount(tree[first], minlength=n_trees) - np.bincount(tree, minlength=n_trees)
        if (surplus >= 0).any():
            node = np.flatnonzero(surplus[tree] >= 0)[0]
            i = int(np.searchsorted(offsets, node, side="right")) - 1
            raise ValueError(f"X: the edges of sample {i} have a cycle")
        several = np.flatnonzero(np.diff(offsets) - np.diff(edge_ptr) > 1)
        if not self.forest and several.size:
            i = several[0]
            n_roots = np.diff(offsets)[i] - np.diff(edge_ptr)[i]
            raise ValueError(
                f"X: sample {i} has {n_roots} roots: expected one, or Tree(forest=True)"
            )

    def make_problem(
        self,
        samples: Forests,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem; true labels are checked against `forbidden`."""
        mask = step_mask(self.forbidden, classes, "trees")
        if codes is not None:
            check_steps(mask, codes, *self.edge_ends(samples), samples.offsets, classes)
        n_classes = len(classes)
        fields, tables = self._fields(
            samples, samples.features, classes, fit_intercept, codes, loss
        )
        longest = max(longest_item(samples.offsets), 1)
        work = ForestScratch(
            tables=tables,
            tree=tree_scratch(longest, n_classes, n_best),
        )
        return TreeProblem(
            **fields,
            transition_mask=mask.pairs,
            allowed=np.empty((0, n_classes), dtype=np.uint8) if allowed is None else allowed,
            own=rooted(samples),
            work=work,
        )

    def edge_ends(self, samples: Forests) -> tuple[np.ndarray, np.ndarray]:
        """The ends of every edge as they were given."""
        return _global_ends(samples.edges, samples.edge_ptr, samples.offsets)


def _read_structure(structure, n, i):
    """Edges (first end, second end) of sample i with n nodes."""
    refuse_masked(structure, f"X: the structure of sample {i}")
    try:
        array = np.asarray(structure)
    except ValueError:
        raise ValueError(
            f"X: the edges of sample {i} must be pairs of nodes, but its rows differ in length"
        ) from None
    if array.size == 0 and array.ndim in (1, 2):
        array = np.empty((0, 2), dtype=np.int64)  # no edges, however they are written
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise ValueError(
            f"X: the structure of sample {i} must be integers: parents of shape (n_nodes,) or "
            f"edges of shape (n_edges, 2), got dtype {array.dtype}, shape {array.shape}"
        )
    if array.ndim == 1:
        if array.size != n:
            raise ValueError(f"X: sample {i} has {n} nodes, but {array.size} parents")
        children = np.flatnonzero(array != -1)
        edges = np.stack([array[children], children], axis=1)
    else:
        edges = array
        if edges.shape[1] != 2:
            raise ValueError(f"X: the edges of sample {i} have {edges.shape[1]} columns, not 2")
    wrong = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=1))
    if wrong.size:
        pair = tuple(int(node) for node in edges[wrong[0]])
        raise ValueError(f"X: sample {i} has the edge {pair}, but its nodes are 0 to {n - 1}")
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise ValueError(f"X: sample {i} has an edge from node {edges[loops[0], 0]} to itself")
    return edges


def _global_ends(edges, edge_ptr, offsets):
    shift = np.repeat(offsets[:-1], np.diff(edge_ptr))
    return edges[:, 0] + shift, edges[:, 1] + shift


def rooted(samples):
    """An order of the nodes of each sample, and the edge of each node to its parent.

    One breadth-first search over all samples, from a node that is linked to one root of each tree:
    that which is the second end of no edge, if there is one, so that most edges keep their
    orientation.
    """
    offsets, n = samples.offsets, int(samples.offsets[-1])
    first, second = _global_ends(samples.edges, samples.edge_ptr, offsets)
    link = sparse.coo_matrix((np.ones(first.size), (first, second)), (n, n))
    n_trees, tree = csgraph.connected_components(link, directed=False)
    rank = np.isin(np.arange(n), second).astype(np.int64) * n + np.arange(n)
    root = np.full(n_trees, 2 * n)
    np.minimum.at(root, tree, rank)
    root %= n
    rows = np.concatenate([first, np.full(n_trees, n)])
    columns = np.concatenate([second, root])
    whole = sparse.csr_matrix((np.ones(rows.size), (rows, columns)), (n + 1, n + 1))
    found, before = csgraph.breadth_first_order(whole, n, directed=False)
    before = before[:n]
    sample = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    found = found[1:]
    found = found[np.argsort(sample[found], kind="stable")]
    start = offsets[:-1][sample]
    is_root = before == n
    edge, flip = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.uint8)
    child = np.where(before[first] == second, first, second)
    within = np.arange(first.size) - np.repeat(samples.edge_ptr[:-1], samples.n_edges)
    edge[child] = within
    flip[child] = child == first
    return Forest(
        order=(found - start).astype(np.int32),
        parent=np.where(is_root, -1, before - start).astype(np.int32),
        link=edge,
        flip=flip,
    )

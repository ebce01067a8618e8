"""Trees and forests: nodes whose labels interact along edges without cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.constraints import check_steps, step_mask
from ..data.matrices import refuse_masked
from ..data.packing import as_list, pack_nodes
from ..inference.tree import find_trees
from ..spaces.forest import TreeSpace
from .pairwise.base import PairwiseGraph
from .pairwise.graph import (
    Networks,
    check_ends,
    check_tuple,
    network_of,
    no_networks,
    pack,
    pair_columns,
)

__all__ = ["Tree"]


class Tree(PairwiseGraph):
    """Nodes with edges that form a tree, or several: parses, taxonomies, skeletons.

    A sample of X is a tuple (features, structure). The structure is either the parents, one per
    node and -1 for a root, or an array (n_edges, 2) of edges in any order and orientation. The
    weights of an edge are those of (label of the parent, label of the child), or of (label of the
    first end, label of the second). Read more in the :ref:`User Guide <structures_guide>`.

    Parameters
    ----------
    forest : bool, default=True
        Whether a sample may have several roots (or unconnected nodes).
    edge_features : bool, default=False
        Whether edges have features. A sample is then a tuple (features, structure, edge features of
        shape (n_edges, n_edge_features)), rows in the order of the edges, or of the children.
    forbidden : list of pairs, default=None
        Pairs (label of the first end, label of the second) that are forbidden, in training and in
        prediction.
    states_per_label : int or dict, default=1
        Number of hidden states of each label, or a dict from label to number (1 where it has none):
        see :ref:`hidden_states`.

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
        self,
        forest: bool = True,
        edge_features: bool = False,
        forbidden: Iterable | None = None,
        states_per_label: int | Mapping = 1,
    ) -> None:
        self.forest = forest
        self.edge_features = edge_features
        self.forbidden = forbidden
        self.states_per_label = states_per_label

    def no_samples(self, estimator: BaseEstimator) -> Networks:
        """No samples."""
        return no_networks(*self._no_features(estimator))._replace(types=None)

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Networks:
        """Pack the samples; their edges must be trees."""
        items = as_list(X, "X")
        wanted = "(features, structure, edge_features)" if self.edge_features else None
        wanted = wanted or "(features, parents or edges)"
        for i, item in enumerate(items):
            check_tuple(item, i, 2 + bool(self.edge_features), wanted)
        features, offsets = pack_nodes([item[0] for item in items], "X")
        lengths = np.diff(offsets)
        edges = [_read_structure(item[1], lengths[i], i) for i, item in enumerate(items)]
        rows = [item[2] for item in items] if self.edge_features else None
        # All edges are of one type: packed samples do not say it, nor do shards.
        samples = pack(features, offsets, edges, rows)._replace(types=None)
        self._check_cycles(samples)
        self._check_counts(estimator, samples, reset)
        return samples

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Return example chains as trees: each node is the child of the previous one."""
        X, y = super().example(rng, sparse_X)
        parts = [x if self.edge_features else (x,) for x in X]
        chains = [np.arange(len(labels)) - 1 for labels in y]
        return [(x[0], up, *x[1:]) for x, up in zip(parts, chains, strict=True)], y

    def _check_cycles(self, samples):
        """Reject samples whose edges have a cycle, or more than one tree where one is asked for."""
        *_, cyclic = find_trees(samples.edges, samples.edge_ptr, samples.offsets)
        if cyclic >= 0:
            raise ValueError(f"X: the edges of sample {cyclic} have a cycle")
        n_roots = samples.lengths - samples.n_edges
        several = np.flatnonzero(n_roots > 1)
        if not self.forest and several.size:
            i = several[0]
            raise ValueError(
                f"X: sample {i} has {n_roots[i]} roots: expected one, or Tree(forest=True)"
            )

    def make_problem(
        self,
        samples: Networks,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem; true labels are checked against `forbidden`."""
        mask = step_mask(self.forbidden, classes, "trees")
        if codes is not None:
            check_steps(mask, codes, *self.edge_ends(samples), samples.offsets, classes)
        make, fields = self._parts(samples, classes, fit_intercept, codes, loss, mask, allowed)
        network = network_of(self, samples, pair_columns("full", len(classes)))
        space = TreeSpace.make(self, samples, fields, network, n_best)
        if isinstance(space, str):
            raise ValueError(f"X: {space}")
        return make(space=space)

    factors = PairwiseGraph.factors

    def edge_ends(self, samples: Networks) -> tuple[np.ndarray, np.ndarray]:
        """The ends of every edge as they were given."""
        return samples.global_ends()


def _read_structure(structure, n, i):
    """Edges (first end, second end) of sample i with n nodes, and that they are of one type."""
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
    check_ends(edges, n, i)
    return edges.astype(np.int32), np.zeros(len(edges), dtype=np.int32)

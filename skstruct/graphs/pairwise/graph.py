"""Graphs with cycles: nodes whose labels interact along any edges."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ...core.factors import PairwiseFactors
from ...core.features import DenseFeatures, SparseFeatures
from ...core.offsets import ends_of
from ...core.problem import Problem
from ...core.typing import LossLike, SamplesLike
from ...data.constraints import check_steps, step_mask
from ...data.matrices import refuse_masked
from ...data.packing import as_list, pack_nodes, packed, read_edge_features
from ...data.ragged import object_array
from ...spaces.cuts import CutSpace, RoofSpace
from ...spaces.forest import ForestSpace
from ...spaces.junction import JunctionSpace
from ...spaces.lp import LPSpace
from ...spaces.pairwise import Network
from ...spaces.reweighted import ReweightedSpace
from ..base import Graph
from .base import PairwiseGraph
from .typed import (
    allowed_labels,
    check_pairs,
    labels_by_type,
    marginals_by_type,
    read_by_type,
    read_graphs,
    read_labels,
    read_types,
)

# Pairs of labels that share weights.

Interactions = Literal["full", "symmetric", "potts"]
INTERACTIONS = get_args(Interactions)

# Up to so many types of edges, types are dense features where those of nodes are: solvers then
# compile one kind of features.
_FEW_TYPES = 4


def check_interactions(interactions: str) -> None:
    """Raise ValueError for unknown names of interactions."""
    if interactions not in INTERACTIONS:
        raise ValueError(f"interactions must be one of {INTERACTIONS}, got {interactions!r}")


def attraction(interactions: str) -> np.ndarray:
    """Return the attraction (preference for equal labels) as a linear form of a table's entries."""
    columns = pair_columns(interactions, 2)
    coefficients = np.zeros(columns.max() + 1)
    for column, sign in zip(columns.flat, (1.0, -1.0, -1.0, 1.0), strict=True):
        if column >= 0:
            coefficients[column] += sign
    return coefficients


def pair_columns(interactions: str, n_classes: int) -> np.ndarray:
    """Column of the pair table for each pair of labels."""
    if interactions == "full":
        return np.arange(n_classes**2, dtype=np.int32).reshape(n_classes, n_classes)
    if interactions == "potts":
        return np.eye(n_classes, dtype=np.int32) - 1
    columns = np.empty((n_classes, n_classes), dtype=np.int32)
    upper = np.triu_indices(n_classes)
    columns[upper] = np.arange(len(upper[0]))
    columns.T[upper] = columns[upper]
    return columns


# Inference methods of a graph: `make` of each class returns the space or the reason why not.

_WAYS = {
    space.method: space
    for space in (ForestSpace, CutSpace, JunctionSpace, RoofSpace, LPSpace, ReweightedSpace)
}
METHODS = tuple(_WAYS)
Inference = Literal[
    "auto", "tree", "max-flow", "junction-tree", "roof-dual", "lp", "tree-reweighted"
]
# Fields in which the methods differ.
_OWN = "own", "work"
# Candidates of "auto" for best labellings, and for marginals.
_OF_LABELLINGS, _OF_MARGINALS = METHODS[:-1], ("tree", "junction-tree", "tree-reweighted")


def choose_space(graph: Any, *parts: Any) -> NamedTuple:
    """The space of the inference method of the graph, or of the first that applies."""
    asked = graph.inference
    if asked != "auto" and asked not in METHODS:
        raise ValueError(f'inference must be "auto" or one of {METHODS}, got {asked!r}')
    refusals = []
    ways = _OF_MARGINALS if graph._prefers_marginals else _OF_LABELLINGS
    for method in ways if asked == "auto" else (asked,):
        made = _WAYS[method].make(graph, *parts)
        if not isinstance(made, str):
            return made
        refusals.append(made)
    raise ValueError(f'inference="{asked}": {"; ".join(refusals)}')


def network_of(graph: Any, samples: Any, column: np.ndarray) -> Network:
    """The edges of packed samples, for kernels."""
    table = samples.numbers() if graph.edge_features else samples.types
    if table is None:
        table = np.zeros(len(samples.edges), dtype=np.int32)
    return Network(samples.edges, samples.edge_ptr, table, column, inference=())


# Read and pack graphs of nodes and edges, with or without cycles.


@packed(edges=("edges", "types", "edge_features"), samples=("shapes", "type_counts"))
class Networks(NamedTuple):
    """Packed nodes, and the edges between them."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray
    # (n_edges, 2): Nodes of each edge, as indices within the sample.
    edges: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    edge_ptr: np.ndarray
    # (n_edges,): Type of each edge, if there are several.
    types: np.ndarray | None = None
    # (n_edges, n_edge_features): As `features`, of edges.
    edge_features: np.ndarray | sparse.csr_matrix | None = None
    # (n_samples, 2): Height and width of each image.
    shapes: np.ndarray | None = None
    # (n_samples, n_types): Number of nodes of each type.
    type_counts: np.ndarray | None = None

    def numbers(self) -> np.ndarray:
        """Indices of the edges within each sample."""
        every = np.arange(len(self.edges), dtype=np.int32)
        return every - np.repeat(self.edge_ptr[:-1].astype(np.int32), self.n_edges)

    def global_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of all edges, as indices over all samples."""
        shift = np.repeat(self.offsets[:-1], self.n_edges)
        return self.edges[:, 0] + shift, self.edges[:, 1] + shift


def read_edges(edges, n: int, n_types: int, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends and types of the edges of sample i."""
    refuse_masked(edges, f"X: the edges of sample {i}")
    n_columns = 2 + (n_types > 1)
    wanted = f"integers of shape (n_edges, {n_columns})"
    try:
        array = np.asarray(edges)
    except ValueError:
        raise ValueError(
            f"X: the edges of sample {i} must be {wanted}, but its rows differ in length"
        ) from None
    if array.size == 0 and array.ndim in (1, 2) and len(array) == 0:
        array = np.empty((0, n_columns), dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != n_columns:
        last = ", the last column the type" if n_types > 1 else ""
        if array.ndim == 2 and array.shape[1] == 3 > n_columns:
            last = " (a third column, the type, needs edge_types above 1)"
        raise ValueError(
            f"X: the edges of sample {i} must be {wanted}{last}, got dtype {array.dtype}, shape "
            f"{array.shape}"
        )
    ends, types = array[:, :2], array[:, 2] if n_types > 1 else np.zeros(len(array), dtype=int)
    check_ends(ends, n, i)
    wrong = np.flatnonzero((types < 0) | (types >= n_types))
    if wrong.size:
        raise ValueError(
            f"X: sample {i} has an edge of type {types[wrong[0]]}, but the types are 0 to "
            f"{n_types - 1} (edge_types={n_types})"
        )
    _refuse_duplicates(ends, types, i)
    return ends.astype(np.int32), types.astype(np.int32)


def check_ends(ends: np.ndarray, n: int, i: int) -> None:
    """Raise ValueError for edges of sample i that do not join two of its nodes."""
    wrong = np.flatnonzero(((ends < 0) | (ends >= n)).any(axis=1))
    if wrong.size:
        pair = tuple(int(node) for node in ends[wrong[0]])
        nodes = f"its nodes are 0 to {n - 1}" if n else "no nodes"
        raise ValueError(f"X: sample {i} has the edge {pair}, but {nodes}")
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise ValueError(f"X: sample {i} has an edge from node {ends[loops[0], 0]} to itself")


def _refuse_duplicates(ends, types, i):
    """Raise ValueError for two edges of one type, in either direction, between two nodes."""
    low, high = np.minimum(*ends.T), np.maximum(*ends.T)
    order = np.lexsort((types, high, low))
    keys = np.stack([low, high, types])[:, order]
    again = np.flatnonzero((keys[:, 1:] == keys[:, :-1]).all(axis=0))
    if again.size:
        pair = tuple(int(node) for node in ends[order[again[0] + 1]])
        raise ValueError(
            f"X: sample {i} has the edge {pair} twice (one edge stands for both directions); edges "
            "of the same nodes must differ in type"
        )


def neighbours(image: np.ndarray, neighborhood: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Views of the pixels at the first and at the second end of each edge, by direction."""
    pairs = [(image[:, :-1], image[:, 1:]), (image[:-1], image[1:])]
    if neighborhood == 8:
        pairs += [(image[:-1, :-1], image[1:, 1:]), (image[:-1, 1:], image[1:, :-1])]
    return pairs


def grid_edges(height: int, width: int, neighborhood: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges between neighbouring pixels, and their directions.

    Read more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    height, width : int
        Size of the image; pixel (r, c) is node ``r * width + c``.
    neighborhood : {4, 8}
        Neighbours of a pixel, with or without diagonal ones.

    Returns
    -------
    ends : ndarray of shape (n_edges, 2) of int32
        The edges: horizontal ones, vertical ones, then diagonals downward to the right and to the
        left. The first end is the upper one, of two in one row the left one.
    directions : ndarray of shape (n_edges,) of int32
        0, 1, 2, 3 in this order.

    See Also
    --------
    skstruct.Pairwise : The structure of graphs, with cycles or without.
    skstruct.Grid : The structure of images.

    Examples
    --------
    >>> from skstruct.graphs.pairwise.graph import grid_edges
    >>> grid_edges(2, 2, 4)[0].tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    node = np.arange(height * width, dtype=np.int32).reshape(height, width)
    pairs = neighbours(node, neighborhood)
    ends = [np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]
    return np.concatenate(ends), np.repeat(
        np.arange(len(ends), dtype=np.int32), [len(e) for e in ends]
    )


__all__ = ["Networks", "Pairwise"]

_MOST = np.iinfo(np.int32).max
# Maximum number of table entries for decoding a single sample by a junction tree as a fallback.
_LARGE_TABLE = 2**20


class Pairwise(PairwiseGraph):
    """Nodes with labels and edges between any of them: meshes, social graphs, superpixels.

    A sample of X is a tuple (features, edges): features of shape (n_nodes, n_features), dense or
    CSR, and an integer array (n_edges, 2) of nodes. Nodes without edges and graphs of several
    components are valid; duplicate edges, in either direction, and loops are not. The weights of an
    edge are those of (label of its first end, label of its second end). Read more in the :ref:`User
    Guide <graphs_guide>`.

    Parameters
    ----------
    edge_features : bool, default=False
        Whether edges have features. A sample is then a tuple (features, edges, edge features of
        shape (n_edges, n_edge_features)), and each edge feature has a table of weights.
    edge_types : int, default=1
        Number of types of edges, each with its own weights. If it is above 1, edges have a third
        column, the type, 0 to ``edge_types - 1``; edges of different types may link the same nodes.
    interactions : {"full", "symmetric", "potts"}, default="full"
        Entries of a table of weights: one per pair of labels, one per unordered pair, or a single
        one for equal labels.
    forbidden : list of pairs, default=None
        Pairs (label of the first end, label of the second) that are forbidden, in training and in
        prediction.
    attractive : bool, default=False
        Whether training keeps interactions of two labels attractive, ``w(0, 0) + w(1, 1) >= w(0, 1)
        + w(1, 0)`` in each table, so that a minimum cut is an exact MAP labelling (all SSVMs except
        GDMMSSVM). Edge features must be nonnegative.
    inference : {"auto", "tree", "max-flow", "junction-tree", "roof-dual", "lp", \
            "tree-reweighted"}, default="auto"
        Inference algorithm. "auto" uses the first that applies: linear passes, where no sample has
        a cycle ("tree"); minimum cuts, where `attractive` makes them exact ("max-flow"); junction
        trees, where their tables are small (see `max_table`); all these are exact. Else, for two
        labels, the roof dual: the LP relaxation by one maximum flow, exact where interactions
        attract; else "lp": the LP relaxation by sweeps of messages. Training then minimises the
        relaxed hinge, with messages kept per sample and solved as exactly as the training gap
        requires; predictions are the best labellings that the sweeps find. For CRFs, which need
        marginals, "auto" uses linear passes, junction trees, or else "tree-reweighted", an upper
        bound on the log-partition function [1]_: training then minimises an upper bound on the
        negative log-likelihood, which is convex; see Notes.
    max_table : int, default=65536
        Largest table of a junction tree, in entries; nodes have the classes of all types in it.
        With "auto", estimators that can also train on relaxations use a junction tree only if all
        its tables have at most 256 entries per score of a node or an edge; a visit then takes up to
        about 4 times as long as with the relaxation.
    states_per_label : int or dict, default=1
        Number of hidden states of each label, or a dict from label to number (1 where it has none):
        see :ref:`hidden_states`.
    node_types : list of str, default=None
        Types of nodes, each with features and labels of its own: see :ref:`node_types`. A sample is
        then a dict with ``"nodes"``, a table per type, ``"edges"``, an array (n_edges, 2) per pair
        of types, and with `edge_features` those, per pair; y and predictions are a dict from type
        to labels per sample, and ``classes_`` has pairs (type, label).

    See Also
    --------
    Grid : Images.
    skstruct.inspection.transition_frame : The table of one type or edge feature.
    Tree : Graphs without cycles.

    Notes
    -----
    The ``pairwise_coef_`` of an estimator has the shape ([edge_types,] [n_edge_features,]
    n_classes, n_classes): ``pairwise_coef_[t, f, j, k]`` is what edge feature f of an edge of type
    t is multiplied by where the first end has label j and the second k. The axis of types exists if
    ``edge_types > 1``, that of edge features if ``edge_features=True``. Symmetric and Potts
    interactions are expanded, with zeros for unlike labels under Potts, and read-only.
    ``pair_weights_`` stores the weights: one row per type and edge feature (all features of the
    first type first), one column per entry of the table.

    With tree-reweighted marginals the certificate of a CRF is for the bounded likelihood: the bound
    and the dual point range over the local polytope, as those of relaxed structural SVMs.
    ``predict_marginals`` gives the pseudo-marginals of the bound, which agree along edges but need
    not be those of a distribution, and ``predict_log_likelihood`` a lower bound on ``log p(y |
    x)``. The trees are chains along which the numbers of nodes grow, each edge in as many of them
    as its ends allow (on images in about half, as under uniform weights). Forbidden pairs and
    partial labels need exact marginals.

    References
    ----------
    .. [1] Wainwright, Jaakkola, Willsky (2005). A New Class of Upper Bounds on the Log Partition
       Function. IEEE Transactions on Information Theory 51(7). Section 7 of Schmidt et al. (2015)
       has CRFs on any graph by approximate marginals.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Pairwise
    >>> triangle = np.array([[0, 1], [1, 2], [2, 0]])
    >>> X = [(np.eye(3), triangle), (np.eye(3)[::-1], triangle)]
    >>> y = [["a", "a", "b"], ["b", "a", "a"]]
    >>> svm = BCFWSSVM(Pairwise(interactions="potts"), random_state=0).fit(X, y)
    >>> svm.predict(X)[0].tolist()
    ['a', 'a', 'b']
    """

    takes = "graphs: expected a list of tuples (features, edges)"
    node_types = None

    def __init__(
        self,
        edge_features: bool = False,
        edge_types: int = 1,
        interactions: Interactions = "full",
        forbidden: Iterable | None = None,
        attractive: bool = False,
        inference: Inference = "auto",
        max_table: int = 2**16,
        states_per_label: int | Mapping = 1,
        node_types: list | None = None,
    ) -> None:
        self.edge_features = edge_features
        self.edge_types = edge_types
        self.interactions = interactions
        self.forbidden = forbidden
        self.attractive = attractive
        self.inference = inference
        self.max_table = max_table
        self.states_per_label = states_per_label
        self.node_types = node_types

    # What the estimator of :meth:`suited` needs where inference is "auto".
    _prefers_exact = _prefers_marginals = False

    def suited(self, takes_relaxations: bool, needs_marginals: bool) -> Graph:
        """Return a copy that chooses inference so."""
        own = copy.copy(self)
        own._prefers_exact, own._prefers_marginals = not takes_relaxations, needs_marginals
        return own

    def exactly(self) -> Graph:
        """Return this structure with a junction tree, whose tables may be larger."""
        exact = copy.copy(self)
        exact.inference, exact.max_table = "junction-tree", max(self.max_table, _LARGE_TABLE)
        return exact

    # Reading

    def no_samples(self, estimator: BaseEstimator) -> Networks:
        """No samples."""
        samples = no_networks(*self._no_features(estimator))
        if self.node_types is None:
            return samples
        return samples._replace(type_counts=np.empty((0, len(self._types())), dtype=np.int64))

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Networks:
        """Pack the samples."""
        n_types = self._n_types()
        if not isinstance(self.edge_features, (bool, np.bool_)):
            raise ValueError(f"edge_features must be a bool, got {self.edge_features!r}")
        items, counts = as_list(X, "X"), None
        if self.node_types is not None:
            widths = dict(getattr(self, "widths_", ()))  # of all batches of a stream
            how = 2 + (n_types > 1), bool(self.edge_features), widths, reset
            items, counts = read_graphs(
                items, self._types(), *how, is_symmetric=self.interactions == "symmetric"
            )
            self.widths_ = list(widths.items())  # skops stores no dict with tuples as keys
        wanted = "(features, edges, edge_features)" if self.edge_features else "(features, edges)"
        for i, item in enumerate(items):
            check_tuple(item, i, 2 + bool(self.edge_features), wanted)
        features, offsets = pack_nodes([item[0] for item in items], "X")
        lengths = np.diff(offsets)
        read = [read_edges(item[1], lengths[i], n_types, i) for i, item in enumerate(items)]
        rows = [item[2] for item in items] if self.edge_features else None
        samples = pack(features, offsets, read, rows)._replace(type_counts=counts)
        self._check_counts(estimator, samples, reset)
        return samples

    def _types(self):
        return read_types(self.node_types)

    def read_y(self, y: SamplesLike, samples: Networks) -> np.ndarray:
        """Labels, with `node_types` pairs (type, label)."""
        if self.node_types is None:
            return super().read_y(y, samples)
        return read_labels(y, self._types(), samples.type_counts)

    def read_allowed(self, allowed: Any, samples: Networks, classes: Any) -> np.ndarray:
        """Masks, with `node_types` perhaps dicts of those of each type."""
        if self.node_types is not None:
            allowed = read_by_type(allowed, "allowed", self._types(), samples.type_counts, classes)
        return super().read_allowed(allowed, samples, classes)

    def read_node_weight(self, node_weight: Any, samples: Networks) -> np.ndarray:
        """Weights, with `node_types` perhaps dicts of those of each type."""
        if self.node_types is not None:
            node_weight = read_by_type(
                node_weight, "node_weight", self._types(), samples.type_counts
            )
        return super().read_node_weight(node_weight, samples)

    def answers(self, codes: np.ndarray, classes: Any, samples: Networks) -> np.ndarray:
        """Labels, with `node_types` a dict per sample."""
        if self.node_types is None:
            return super().answers(codes, classes, samples)
        each = enumerate(self.wrap(codes, samples))
        return object_array([*(self.ranked(own, classes, samples, i) for i, own in each)])

    def ranked(self, codes: np.ndarray, classes: Any, samples: Networks, i: int) -> np.ndarray:
        """Labels of sample i, with `node_types` a dict."""
        if self.node_types is None:
            return super().ranked(codes, classes, samples, i)
        return labels_by_type(codes, self._types(), samples.type_counts[i], classes)

    def wrap_marginals(self, table: np.ndarray, classes: Any, samples: Networks) -> np.ndarray:
        """Marginals, with `node_types` a dict per sample."""
        found = self.wrap(table, samples)
        if self.node_types is None:
            return found
        types = self._types()
        rows = zip(found, samples.type_counts, strict=True)
        return object_array([marginals_by_type(own, types, n, classes) for own, n in rows])

    def _n_types(self):
        n = self.edge_types
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"edge_types must be an integer of at least 1, got {n!r}")
        return int(n)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences whose ends are linked, too."""
        if self.node_types is not None:
            return Graph.example(self, rng, sparse_X)
        X, y = super().example(rng, sparse_X)
        parts = [x if self.edge_features else (x,) for x in X]
        samples = []
        for x, labels in zip(parts, y, strict=True):
            n = len(labels)
            edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
            if n > 2 and not self.edge_features:
                edges = np.concatenate([edges, [[n - 1, 0]]])
            if self._n_types() > 1:
                edges = np.column_stack([edges, np.arange(len(edges)) % self.edge_types])
            samples.append((x[0], edges, *x[1:]))
        return samples, y

    def _check_counts(self, estimator, samples, reset):
        """Raise ValueError for negative edge features if tables must stay attractive."""
        super()._check_counts(estimator, samples, reset)
        rows = samples.edge_features
        if not self.attractive or rows is None:
            return
        data = rows.data if sparse.issparse(rows) else rows
        if not (data < 0).any():
            return
        edge = int((rows < 0).nonzero()[0].min())
        i = int(np.searchsorted(samples.edge_ptr, edge, side="right")) - 1
        raise ValueError(
            f"X: sample {i} has edge features below 0 (edge {edge - samples.edge_ptr[i]}), where "
            "attractive tables repel: with attractive=True they must be 0 or more"
        )

    # Weights

    def weight_shapes(
        self, samples: Networks, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x labels; types (times edge features) x table entries."""
        check_interactions(self.interactions)
        n_rows = samples.features.shape[1] + bool(fit_intercept)
        n_columns = int(pair_columns(self.interactions, n_classes).max()) + 1
        n_features = samples.edge_features.shape[1] if self.edge_features else 1
        return (n_rows, n_classes), (self._n_types() * n_features, n_columns)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (label of the first end, label of the second): a view, or an expanded copy."""
        if self.interactions == "full":
            tables = pair_weights.reshape(-1, n_classes, n_classes)
        else:
            padded = np.append(pair_weights, np.zeros((len(pair_weights), 1)), axis=1)
            tables = padded[:, pair_columns(self.interactions, n_classes)]  # column -1 is the zero
            tables.flags.writeable = False
        n_types = self._n_types()
        kinds = (n_types,) * (n_types > 1)
        rows = (len(pair_weights) // n_types,) * bool(self.edge_features)
        return tables.reshape(*kinds, *rows, n_classes, n_classes)

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels and pairs; interactions that have become less general start from 0."""
        node, pairs = super().kept_columns(previous, classes, previous_classes)
        now, before = self.interactions, previous.interactions
        if INTERACTIONS.index(now) > INTERACTIONS.index(before):
            return node, None
        own = pair_columns(now, len(classes)).ravel()
        old = np.append(pair_columns(before, len(previous_classes)).ravel(), -1)
        kept = np.full(own.max() + 1, -1, dtype=np.int64)
        np.maximum.at(kept, own[own >= 0], old[pairs][own >= 0])
        return node, kept

    def kept_pair_rows(self, previous: Any, kept: np.ndarray, n_before: int) -> np.ndarray:
        """Edge types, by number, times edge features."""
        types = np.arange(self._n_types())[:, None]
        known = (types < previous._n_types()) & (kept >= 0)
        return np.where(known, types * n_before + kept, -1).ravel()

    def edge_type_names(self) -> list[str]:
        """Numbers."""
        return [f"type {t}" for t in range(self._n_types())]

    # Problems

    def _edge_rows(self, samples):
        n_types, rows = self._n_types(), samples.edge_features
        return rows if n_types == 1 else _by_type(rows, samples.types, n_types)

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
        """Build the problem; the class of its space defines how it is decoded."""
        if self.node_types is not None:
            own = allowed_labels(self._types(), samples.type_counts, classes)
            allowed = own if allowed is None else own & allowed
        mask = step_mask(self.forbidden, classes, "graphs")
        if codes is not None and self.node_types is not None:
            check_pairs(self, self._types(), samples, mask.pairs, classes)
        if codes is not None and np.isneginf(mask.pairs).any():
            check_steps(mask, codes, *self.edge_ends(samples), samples.offsets, classes)
        n_classes = len(classes)
        self.pair_cone(classes)  # refuses what cannot attract
        make, fields = self._parts(samples, classes, fit_intercept, codes, loss, mask, allowed)
        network = network_of(self, samples, pair_columns(self.interactions, n_classes))
        return make(space=choose_space(self, samples, fields, network, n_best))

    def pair_cone(self, classes: Any) -> np.ndarray | None:
        """Coefficients of attraction, if required."""
        if not isinstance(self.attractive, (bool, np.bool_)):
            raise ValueError(f"attractive must be a bool, got {self.attractive!r}")
        if not self.attractive:
            return None
        labels = np.asarray(classes).tolist()
        if len(labels) != 2:
            raise ValueError(
                f"attractive=True needs two labels, here are {len(labels)}, {labels}: with more a "
                "minimum cut is not a best labelling, however their interactions attract"
            )
        mask = step_mask(self.forbidden, np.asarray(classes), "graphs")
        equal = np.flatnonzero(np.isinf(np.diag(mask.pairs)))
        if equal.size:
            pair = (labels[equal[0]],) * 2
            raise ValueError(f"attractive=True: forbidden has the pair of equal labels {pair}")
        check_interactions(self.interactions)
        return attraction(self.interactions)

    def edge_ends(self, samples: Networks) -> tuple[np.ndarray, np.ndarray]:
        """The ends of every edge as they were given."""
        return samples.global_ends()

    def relaxation(self, problem: Problem) -> Problem:
        """With cycles, the LP relaxation in place of the chosen method."""
        space = problem.space
        if space.method in ("tree", "lp"):
            return problem
        fields = {name: value for name, value in space._asdict().items() if name not in _OWN}
        return problem._replace(space=LPSpace.of(fields, space.own._replace(inference=())))

    def factors(self, problem: Problem, samples: Any) -> PairwiseFactors:
        """The nodes and edges, if messages can respect forbidden pairs."""
        kind = type(self).__name__
        space = problem.space
        if space.method != "tree" and np.isneginf(space.transition_mask).any():
            raise TypeError(
                f"GDMMSSVM does not take {kind} with cycles and forbidden pairs: use BCFWSSVM"
            )
        return super().factors(problem, samples)

    def _edge_factors(self, problem, samples):
        """The type of an edge is a feature of it, too."""
        shared = self._n_types() == 1 and self.interactions == "full"
        if self.edge_features or shared or not len(samples.edges):
            return super()._edge_factors(problem, samples)
        n, types = len(samples.edges), samples.types
        types = np.zeros(n, dtype=np.int32) if types is None else types
        if isinstance(problem.rows.nodes, DenseFeatures) and self._n_types() <= _FEW_TYPES:
            return DenseFeatures(np.eye(self._n_types())[types], -1)
        return SparseFeatures(np.ones(n), types.astype(np.int32), np.arange(n + 1), -1)


def check_tuple(item, i, n_parts, wanted):
    """Raise TypeError unless a sample is a tuple of so many parts."""
    if isinstance(item, tuple) and len(item) == n_parts:
        return
    got = f"a tuple of {len(item)}" if isinstance(item, tuple) else type(item).__name__
    raise ValueError(
        f"X: sample {i} must be a tuple {wanted}, got {got}; edge features are there if and only "
        "if edge_features=True, and X is a list of samples: for one sample x that is [x]"
    )


def pack(features, offsets, read, edge_rows):
    """Packed samples."""
    n_edges = np.array([len(ends) for ends, _ in read], dtype=np.int64)
    # Kernels have 32-bit indices of nodes within a sample, and of edges.
    many = np.flatnonzero(np.diff(offsets) > _MOST)
    if many.size:
        raise ValueError(
            f"X: sample {many[0]} has {np.diff(offsets)[many[0]]} nodes, above {_MOST}"
        )
    if n_edges.sum() > _MOST:
        raise ValueError(f"X has {n_edges.sum()} edges, above {_MOST}: fit on fewer samples")
    edges = np.concatenate([ends for ends, _ in read])
    types = np.concatenate([kinds for _, kinds in read])
    rows = None
    if edge_rows is not None:
        rows = read_edge_features(edge_rows, np.diff(offsets), n_edges, "X")
    return Networks(features, offsets, edges, ends_of(n_edges), types, rows)


def no_networks(nodes, offsets, edge_rows):
    """No packed samples."""
    none = np.empty((0, 2), dtype=np.int32)
    return Networks(nodes, offsets, none, offsets, none[:, 0].copy(), edge_rows)


def _by_type(rows, types, n_types):
    """Edge features in the columns of the edge's type, as CSR."""
    rows = sparse.csr_matrix(rows)
    n_columns = rows.shape[1]
    if n_types * n_columns > _MOST:
        raise ValueError(
            f"edge_types={n_types} times {n_columns} edge features are more than {_MOST} tables"
        )
    shift = np.repeat(types.astype(np.int64) * n_columns, np.diff(rows.indptr))
    indices = (rows.indices + shift).astype(np.int32)
    shape = (rows.shape[0], n_types * n_columns)
    return sparse.csr_matrix((rows.data, indices, rows.indptr.astype(np.int64)), shape)

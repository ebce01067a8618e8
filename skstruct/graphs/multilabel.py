"""MultiLabel: a table of samples with any subset of the labels each, labels may interact."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from scipy.special import rel_entr
from sklearn.base import BaseEstimator

from ..core.factors import BinaryFactors
from ..core.gram import gram_of_constant, not_stored
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.labels import read_indicator
from ..data.matrices import refuse_masked, row_squares, writable
from ..data.node_weights import balanced_weights, given_weights, read_table_weights
from ..data.partial import read_table_mask
from ..inference.tree import root_forests
from ..rows.blocks import BlockRows, feature_rows
from ..spaces.label_sets import (
    FewLabelsSpace,
    LabelForestSpace,
    ManyLabelsSpace,
    label_forest_scratch,
    loop_scratch,
    neighbours,
)
from ..spaces.labels import node_mask
from ..targets.costs import LabelSetCosts, node_target
from .base import Graph, kept_positions
from .items import ItemGraph
from .nodes import Rows, example_sequences, no_rows, read_rows

# Edges between labels: given by users, learned, or read from a stored model.


def check_edges(edges, hierarchy, n_labels, n_classes: int) -> None:
    """Raise ValueError for labels and edges that were changed since fit."""
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
    if not isinstance(hierarchy, np.ndarray) or not np.array_equal(
        edges[: len(hierarchy)], hierarchy
    ):
        raise ValueError("graph_.hierarchy_ must be an array of the first edges")


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


def read_hierarchy(hierarchy, columns, n: int) -> np.ndarray:
    """The pairs (child, parent) that a user gave, as numbers of labels; `columns` may name them."""
    names, rows = {name: j for j, name in enumerate(columns) if isinstance(name, str)}, []
    is_list = hierarchy is None or isinstance(hierarchy, Iterable)
    if isinstance(hierarchy, str) or not is_list:
        raise ValueError(f"hierarchy must be a list of pairs (child, parent), got {hierarchy!r}")
    for row, pair in enumerate(() if hierarchy is None else hierarchy):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"hierarchy: row {row} is {pair!r}, not a pair (child, parent)")
        unknown = [name for name in pair if isinstance(name, str) and name not in names]
        if unknown:
            raise ValueError(
                f"hierarchy: row {row} names the label {unknown[0]!r}, but the columns of y are "
                f"{[*names] or 'not named: labels are numbers'}"
            )
        for name in pair:
            if isinstance(name, str) and list(columns).count(name) > 1:
                raise ValueError(f"hierarchy: row {row}: several columns of y are named {name!r}")
        rows.append([names[name] if isinstance(name, str) else name for name in pair])
    try:
        _refuse_cycle(rows, columns)
        return read_edges(rows, n).astype(np.int32)
    except ValueError as error:
        raise ValueError(str(error).replace("edges", "hierarchy", 1)) from None


def _refuse_cycle(pairs, columns):
    """Raise ValueError if labels imply each other."""
    order, names = TopologicalSorter(), dict(enumerate(columns))
    for child, parent in (pair for pair in pairs if pair[0] != pair[1]):
        order.add(child, parent)
    try:
        order.prepare()
    except CycleError as error:
        way = " -> ".join(str(names.get(j, j)) for j in reversed(error.args[1]))
        raise ValueError(f"edges: {way} is a cycle, in which labels imply each other") from None


def closing_edges(edges: np.ndarray, n: int) -> np.ndarray:
    """Positions of the edges that close a cycle with edges before them."""
    order = np.arange(1, len(edges) + 1)
    tree = csgraph.minimum_spanning_tree(sparse.coo_matrix((order, edges.T), (n, n)))
    return np.setdiff1d(order, tree.data) - 1


def chow_liu(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The spanning tree of largest mutual information between labels, among those with `wanted`.

    -1 is a missing label.
    """
    information = _information(table)
    # The minimum spanning tree, with positive weights: an entry of 0 would be a missing edge.
    weight = information.max() + 1.0 - information
    weight[wanted.min(axis=1), wanted.max(axis=1)] = 0.5
    tree = csgraph.minimum_spanning_tree(np.triu(weight, 1)).tocoo()
    return np.sort(np.stack([tree.row, tree.col], axis=1), axis=1)


def _information(table):
    """Mutual information of pairs of labels, for each over the samples that have both."""
    on, known = (table == 1).astype(np.float64), (table >= 0).astype(np.float64)
    known = known[:, :1] if known.all() else known  # one column for all: fewer products
    both, one, size = on.T @ on, on.T @ known, known.T @ known
    joint = np.array([[size - one - one.T + both, one.T - both], [one - both, both]])
    joint /= np.maximum(size, 1.0)
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return rel_entr(joint, outer).sum(axis=(0, 1))


__all__ = ["MultiLabel"]

_FEW_LABELS = 16


class MultiLabel(Graph):
    """Any number of labels for each row of a table; pairs of labels may interact.

    The score of a label set is the sum of the scores of its labels, and of the interactions of
    pairs in it. Without edges a CRF is one LogisticRegression per label, a structural SVM one
    LinearSVC (but for class weights, see :ref:`weights`). Inference is exact without edges, on a
    forest, and with at most 16 labels. With more labels and cycles, structural SVMs are trained on
    the LP relaxation (an upper bound on the hinge; it is tight where interactions attract),
    predictions are decoded from it, and CRFs are not available. GDMMSSVM uses it wherever there are
    cycles. Read more in the :ref:`User Guide <structures_guide>`.

    Parameters
    ----------
    edges : {None, "tree", "full"} or array-like of shape (n_edges, 2), default=None
        Labels that interact: none, the tree of largest mutual information in the training labels
        (Chow and Liu), all pairs, or the given pairs of label indices.
    tables : bool, default=False
        Whether an edge scores all four combinations of its labels, not only "both".
    inference : {"auto", "relaxed"}, default="auto"
        "relaxed" uses the LP relaxation even where enumeration would be exact.
    hierarchy : list of pairs, default=None
        Pairs (child, parent) of labels, by number or by the names of the columns of y: a label set
        with the child has the parent, too, in training and in prediction. The pairs are edges, as
        those of `edges` are; the tree of "tree" contains them. Exact where all edges form a forest,
        or with at most 16 labels.

    Attributes
    ----------
    n_labels_ : int
        Number of labels (of a structure inside a fitted estimator).
    edges_ : ndarray of shape (n_edges, 2)
        The edges, those of the hierarchy first.
    hierarchy_ : ndarray of shape (n_implications, 2)
        Children and parents, as numbers of labels.

    See Also
    --------
    skstruct.MultiClass : The structure of plain tables.
    skstruct.datasets.make_label_sets : Generated documents with label sets.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Notes
    -----
    Results are as those of scikit-learn's ``OneVsRestClassifier``: ``classes_`` has the numbers of
    the labels, 0 to n_labels - 1; ``predict``, ``predict_proba`` and ``decision_function`` return
    one array of shape (n_samples, n_labels), for a label the probability that it is on.

    If y is a data frame, ``label_names_in_`` of the fitted estimator and the tables of
    :mod:`skstruct.inspection` have the names of its columns. Predictions are arrays, as those of
    scikit-learn: ``pd.DataFrame(model.predict(X), columns=model.label_names_in_)`` names them
    (``model[-1].label_names_in_`` in a pipeline).

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
    # Names of the labels, where y has some.
    _columns = ()

    def __init__(
        self,
        edges: Literal["tree", "full"] | ArrayLike | None = None,
        tables: bool = False,
        inference: Literal["auto", "relaxed"] = "auto",
        hierarchy: Iterable | None = None,
    ) -> None:
        self.edges = edges
        self.tables = tables
        self.inference = inference
        self.hierarchy = hierarchy

    # Reading

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[Rows, np.ndarray]:
        """Pack X and y; sets ``n_labels_``."""
        if self.inference not in ("auto", "relaxed"):
            raise ValueError(f"inference must be 'auto' or 'relaxed', got {self.inference!r}")
        # Where labels are missing, y is read again without its names.
        self._columns = tuple(getattr(y, "columns", self._columns))
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
        self.hierarchy_ = read_hierarchy(self.hierarchy, self._columns, n)
        if isinstance(self.edges, str) and self.edges not in ("tree", "full"):
            raise ValueError(
                f"edges must be None, 'tree', 'full' or an array of pairs, got {self.edges!r}"
            )
        if self.edges is None:
            edges = np.empty((0, 2), dtype=np.int32)
        elif isinstance(self.edges, str) and self.edges == "full":
            edges = np.stack(np.triu_indices(n, 1), axis=1)
        elif isinstance(self.edges, str):
            edges = chow_liu(table, self.hierarchy_)
        else:
            edges = read_edges(self.edges, n)
        known = set(map(frozenset, self.hierarchy_.tolist()))
        others = [edge for edge in edges.tolist() if frozenset(edge) not in known]
        edges = np.concatenate([self.hierarchy_, np.reshape(others, (-1, 2))])
        self.edges_ = np.ascontiguousarray(edges, dtype=np.int32)
        self._refuse_cycles()
        return np.arange(n)

    def _refuse_cycles(self):
        """Raise ValueError where implications cannot be kept exactly."""
        m = len(self.hierarchy_)
        if m and self.inference == "relaxed":
            raise ValueError("inference='relaxed' does not keep a hierarchy: use 'auto'")
        edges, is_tree = self.edges_, isinstance(self.edges, str) and self.edges == "tree"
        closing = closing_edges(edges[:m] if is_tree else edges, self.n_labels_)
        if m and closing.size and (is_tree or self.n_labels_ > _FEW_LABELS):
            where = "edges='tree'" if is_tree else f"more than {_FEW_LABELS} labels"
            raise ValueError(
                f"hierarchy: with {where} its pairs, and other edges, must form a forest, but the "
                f"pair {tuple(edges[closing[0]].tolist())} closes a cycle"
            )

    encode, decode = ItemGraph.encode, ItemGraph.decode

    def labels_per_node(self, classes: Any) -> int:
        """Off and on."""
        return 2

    def n_marginals(self, classes: Any) -> int:
        """One number per label: the probability that it is on."""
        return 1

    def wrap(self, flat: np.ndarray, samples: Rows) -> np.ndarray:
        """One row per sample."""
        return flat.reshape(-1, self.n_labels_)

    def read_allowed(self, allowed: Any, samples: Rows, classes: Any) -> np.ndarray:
        """The mask of shape (n_samples, n_labels, 2): whether a label may be off, and on."""
        return read_table_mask(allowed, (samples.offsets.size - 1, len(classes), 2))

    def read_node_weight(self, node_weight: Any, samples: Rows) -> np.ndarray:
        """One weight for each label of each row."""
        return read_table_weights(node_weight, (samples.offsets.size - 1, self.n_labels_))

    def read_class_weight(
        self, class_weight: Any, classes: Any, codes: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read weights of labels, by number or by name; "balanced" weighs on and off."""
        n = len(classes)
        factor, class_factors = np.ones(n), np.ones((n, 2))
        if isinstance(class_weight, str):
            class_factors = balanced_weights(codes, counts, (n, 2))
        elif class_weight is not None:
            by_name = any(isinstance(label, str) for label in class_weight)
            factor = given_weights(class_weight, self._names() if by_name else list(range(n)))
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
        """All labels, if equally many; edges by the labels at their ends, for equal `tables`."""
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
        # The table of an edge in the other direction is transposed.
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
    ) -> Problem:
        """Build the problem; the class of its space defines how it is decoded."""
        check_edges(self.edges_, self.hierarchy_, self.n_labels_, len(classes))
        if codes is not None:
            self._check_implications(codes)
        n, m = self.n_labels_, len(self.edges_)
        shapes = self.weight_shapes(samples, n, fit_intercept)
        width = shapes[1][1]
        n_samples = samples.offsets.size - 1
        label_ptr, options = np.arange(n_samples + 1, dtype=np.int64) * n, {}
        if codes is not None:
            options = {
                "squares": row_squares(samples.features) + bool(fit_intercept),
                "grams": (not_stored(), gram_of_constant(n_samples, 1)),
            }
        rows = BlockRows.of(
            feature_rows(samples.features, shapes[0][0], fit_intercept),
            np.arange(n_samples + 1, dtype=np.int64),
            shapes,
            n_tables=np.full(n_samples, int(m > 0)),
            n_free=n,
            **options,
        )
        fields = {
            "part_ptr": np.arange(n_samples + 1, dtype=np.int64) * (2 * n + width),
            "label_ptr": label_ptr,
            "ends": writable(np.asarray(self.edges_), np.int32),
            "n_implied": len(self.hierarchy_),
            "full": int(bool(self.tables)),
            "allowed": node_mask(allowed, 2),
        }
        states = np.array([0, 1])
        target = node_target(states, codes, loss, label_ptr, LabelSetCosts)
        make = partial(Problem.of, rows=rows, target=target, labels=target.labels)
        if self._is_forest():
            work = label_forest_scratch(n, m, n_best)
            forest, _ = root_forests(self.edges_, np.array([0, m]), np.array([0, n]))
            return make(space=LabelForestSpace(**fields, own=forest, work=work))
        few = n <= _FEW_LABELS and self.inference == "auto"
        space = FewLabelsSpace if few else ManyLabelsSpace
        own = neighbours(self.edges_, n)
        return make(space=space(**fields, own=own, work=loop_scratch(n, m, few)))

    def _names(self):
        """Names of the labels, numbers where they have none."""
        names = [name if isinstance(name, str) else j for j, name in enumerate(self._columns)]
        return names or list(range(self.n_labels_))

    def _check_implications(self, codes):
        child, parent = self.hierarchy_.T
        table = codes.reshape(-1, self.n_labels_)
        names = self._names()
        for i, e in np.argwhere(table[:, child] > table[:, parent])[:1]:
            child, parent = names[child[e]], names[parent[e]]
            raise ValueError(
                f"y: sample {i} has the label {child!r} without its parent {parent!r} (hierarchy)"
            )

    def relaxation(self, problem: Problem) -> Problem:
        """With cycles, the LP relaxation in place of enumeration."""
        space = problem.space
        few = isinstance(space, FewLabelsSpace)
        return problem._replace(space=ManyLabelsSpace(*space)) if few else problem

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, np.ndarray]:
        """The nodes of random sequences with random label sets."""
        given = self.edges is not None and not isinstance(self.edges, str)
        n_labels = 1 + int(np.max(self.edges, initial=3)) if given else 4
        X = example_sequences(rng, sparse_X)[0]
        X = sparse.vstack(X) if sparse_X else np.vstack(X)
        return X, rng.integers(2, size=(X.shape[0], n_labels))

    def factors(self, problem: Problem, samples: Rows) -> BinaryFactors:
        """The labels, and the edges that all samples share."""
        n, target = self.n_labels_, problem.target
        if len(self.hierarchy_):
            raise TypeError("GDMMSSVM does not take MultiLabel(hierarchy=...): use BCFWSSVM")
        return BinaryFactors(
            nodes=problem.rows.nodes,
            labels=problem.labels.reshape(-1, n),
            cost=target.cost / n if target.normalize == 1 else target.cost,
            squares=problem.rows.squares,
            ends=problem.space.ends,
            full=problem.space.full,
            factor=target.weights.factor.reshape(-1, n),
        )

    def _is_forest(self):
        n, m = self.n_labels_, len(self.edges_)
        if m >= n or (self.inference == "relaxed" and m > 0):
            return False
        link = sparse.coo_matrix((np.ones(m), self.edges_.T), (n, n))
        return csgraph.connected_components(link, directed=False)[0] == n - m

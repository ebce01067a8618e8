"""MultiLabel: a table of samples with any subset of the labels each, labels may interact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import BaseEstimator

from ...core.features import constant_row
from ...data.labels import read_indicator
from ...data.matrices import refuse_masked, row_squares, writable
from ...data.packing import Samples
from ...inference.roof_dual import Neighbours
from ...losses.task import cost_matrix
from ...typing import LossLike, SamplesLike
from ..base import Graph, feature_rows, no_codes, read_table, row_scratch
from ..tree.graph import rooted
from .kernels import LabelForestProblem, label_forest_scratch
from .loops import FewLabelsProblem, ManyLabelsProblem, loop_scratch

__all__ = ["MultiLabel"]

_FEW_LABELS = 16


class MultiLabel(Graph):
    """Any number of labels for each row of a table; pairs of labels may interact.

    The score of a label set is the sum of the scores of its labels, and of the interactions of
    pairs in it. Without edges a CRF is one LogisticRegression a label, a structural SVM one
    LinearSVC. Without edges, on a forest, and with at most 16 labels everything is exact. With more
    labels and cycles, structural SVMs are trained on the LP relaxation (an upper bound on the
    hinge; it is tight where interactions attract), predictions are decoded from it, and CRFs are
    not available. GDMMSSVM trains on it wherever there are cycles.

    Parameters
    ----------
    edges : {None, "tree", "full"} or array-like of shape (n_edges, 2), default=None
        Which labels interact: none, the tree of largest mutual information in the training labels
        (Chow and Liu), all pairs, or the given pairs of label indices.
    tables : bool, default=False
        Whether an edge scores all four combinations of its labels, and not only "both".
    inference : {"auto", "relaxed"}, default="auto"
        "relaxed" takes the LP relaxation even where enumeration would be exact.

    Attributes
    ----------
    n_labels_ : int
        Number of labels (of a structure inside a fitted estimator).
    edges_ : ndarray of shape (n_edges, 2)
        The edges.
    inference_, training_inference_ : {"exact", "relaxed"}
        What predictions are decoded by, and what the training objective and its bounds are maxima
        over: all label sets, or the LP relaxation. They differ for GDMMSSVM with cycles.

    References
    ----------
    .. [1] Finley, Joachims (2008). Training Structural SVMs when Exact Inference is Intractable.
       ICML.
    .. [2] Chow, Liu (1968). Approximating discrete probability distributions with dependence trees.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import MultiLabel, SAGCRF
    >>> X = np.repeat(np.eye(2), 4, axis=0)
    >>> Y = np.repeat([[1, 1, 0], [0, 0, 1]], 4, axis=0)
    >>> SAGCRF(MultiLabel(edges="tree"), C=10).fit(X, Y).predict(X[[0, 7]])
    array([[1, 1, 0],
           [0, 0, 1]])
    """

    is_table = True

    def __init__(
        self, edges: str | ArrayLike | None = None, tables: bool = False, inference: str = "auto"
    ) -> None:
        self.edges = edges
        self.tables = tables
        self.inference = inference

    # Reading

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[Samples, np.ndarray]:
        """Pack X and y for fit.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes ``n_features_in_``.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The table.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            Ones where a label is on.

        Returns
        -------
        samples : Samples
            As many nodes a sample as there are labels.
        labels : ndarray of shape (n_samples * n_labels,)
            Zeros and ones.
        """
        if self.inference not in ("auto", "relaxed"):
            raise ValueError(f"inference must be 'auto' or 'relaxed', got {self.inference!r}")
        table = read_indicator(y, None)
        self.n_labels_ = table.shape[1]
        samples = self.read_X(estimator, X, reset=True)
        read_indicator(y, samples.offsets.size - 1)
        return samples, table.ravel()

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Samples:
        """Check the table; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes or has ``n_features_in_``.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The table.
        reset : bool
            True in fit.

        Returns
        -------
        Samples
            As many nodes a sample as there are labels.
        """
        features = read_table(estimator, X, reset)
        offsets = np.arange(features.shape[0] + 1, dtype=np.int64) * self.n_labels_
        return Samples(features, offsets, one_row=True)

    def read_y(self, y: SamplesLike, samples: Samples) -> np.ndarray:
        """Check the labels.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            Ones where a label is on.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_samples * n_labels,)
            Zeros and ones.
        """
        table = read_indicator(y, samples.offsets.size - 1)
        if table.shape[1] != self.n_labels_:
            raise ValueError(f"y has {table.shape[1]} labels, expected {self.n_labels_}")
        return table.ravel()

    def find_classes(self, labels: np.ndarray, samples: Samples) -> Any:
        """The values of each label; learns the edges.

        Parameters
        ----------
        labels : ndarray of shape (n_samples * n_labels,)
            All labels of the samples that count.
        samples : Samples
            The samples.

        Returns
        -------
        list of ndarray
            0 and 1 for each label, as multi-output classifiers of scikit-learn have it.
        """
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
            edges = _chow_liu(table)
        else:
            edges = _read_edges(self.edges, n)
        self.edges_ = np.ascontiguousarray(edges, dtype=np.int32)
        exact = self._is_forest() or self._is_few()
        self.inference_ = self.training_inference_ = "exact" if exact else "relaxed"
        return [np.array([0, 1])] * n

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Labels are their own codes.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            Zeros and ones.
        classes : list
            Not used here.
        offsets : ndarray
            Not used here.
        unseen : int, optional
            Not used here.

        Returns
        -------
        ndarray of int32
            The same.
        """
        return labels.astype(np.int32)

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Codes are the labels.

        Parameters
        ----------
        codes : ndarray of int32
            Zeros and ones.
        classes : list
            Not used here.

        Returns
        -------
        ndarray of int
            The same.
        """
        return codes.astype(np.int64)

    def n_marginals(self, classes: Any) -> int:
        """One number a label: the probability that it is on.

        Parameters
        ----------
        classes : list
            Not used here.

        Returns
        -------
        int
            1.
        """
        return 1

    def wrap(self, flat: np.ndarray, samples: Samples) -> np.ndarray:
        """One row a sample.

        Parameters
        ----------
        flat : ndarray of shape (n_samples * n_labels, ...)
            Results.
        samples : Samples
            What they belong to.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            The results.
        """
        return flat.reshape(-1, self.n_labels_)

    def allowed_shape(self, n_samples: int, n_classes: int) -> tuple[int, ...]:
        """Shape of the mask of allowed labels.

        Parameters
        ----------
        n_samples, n_classes : int
            The sizes.

        Returns
        -------
        tuple of int
            (n_samples, n_labels, 2): may it be off, may it be on.
        """
        return n_samples, n_classes, 2

    def decision(self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike) -> np.ndarray:
        """What ``decision_function`` returns: what each label adds, given the other predictions.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_labels)
            Scores of the labels alone.
        estimator : StructuredEstimator
            Fitted; predicts the other labels.
        X : object
            The samples.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Positive where switching the label on raises the score.
        """
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
        """Weights of the edges: a view.

        Parameters
        ----------
        pair_weights : ndarray
            The table of pair weights.
        n_classes : int
            Number of labels.

        Returns
        -------
        ndarray of shape (n_edges,) or (n_edges, 2, 2)
            Score of "both", or of the four combinations; edges as in ``edges_``.
        """
        flat = pair_weights.reshape(-1)
        return flat.reshape(-1, 2, 2) if self.tables else flat

    # Problems

    def weight_shapes(
        self, samples: Samples, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the pair table.

        Parameters
        ----------
        samples : Samples
            For the number of features.
        n_classes : int
            Number of labels.
        fit_intercept : bool
            Whether there is a constant feature.

        Returns
        -------
        tuple of two tuples of int
            (features, then the intercept) x labels, and 1 x (edges, or 4 edges with full tables).
        """
        width = len(self.edges_) * (4 if self.tables else 1)
        n_rows = samples.features.shape[1] + bool(fit_intercept)
        return (n_rows, n_classes), (1 if width else 0, width)

    def make_problem(
        self,
        samples: Samples,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem for kernels.

        Parameters
        ----------
        samples : Samples
            The table.
        classes : list of n_labels
            As from :meth:`find_classes`.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_samples * n_labels,) of int32, optional
            True labels, for training.
        loss : object
            Task loss of 0 and 1 at each label, see :func:`skstruct.losses.task.cost_matrix`.
        allowed : ndarray of shape (n_samples * n_labels, 2) of uint8, optional
            Whether labels may be off, and on.
        n_best : int
            Largest number of labellings that will be asked for at once.

        Returns
        -------
        LabelForestProblem, FewLabelsProblem or ManyLabelsProblem
            The problem.
        """
        self._check_fitted_state(classes)
        n, m = self.n_labels_, len(self.edges_)
        shapes = self.weight_shapes(samples, n, fit_intercept)
        width = shapes[1][1]
        cost, normalize = cost_matrix(loss, np.array([0, 1]))
        squares = np.zeros(0)
        if codes is not None:
            squares = row_squares(samples.features) + bool(fit_intercept)
        n_samples = samples.offsets.size - 1
        nodes = feature_rows(samples.features, shapes[0][0] - 1 if fit_intercept else -1)
        fields = {
            "nodes": nodes,
            "edges": constant_row(nodes),
            "part_ptr": np.arange(n_samples + 1, dtype=np.int64) * (2 * n + width),
            "label_ptr": np.arange(n_samples + 1, dtype=np.int64) * n,
            "labels": no_codes() if codes is None else codes,
            "allowed": np.empty((0, 2), dtype=np.uint8) if allowed is None else allowed,
            "cost": cost,
            "normalize": int(normalize),
            "squared_norms": squares,
            "ends": writable(np.asarray(self.edges_), np.int32),
            "full": int(bool(self.tables)),
        }
        row = row_scratch(shapes)
        if self._is_forest():
            work = label_forest_scratch(row, n, m, n_best)
            return LabelForestProblem(**fields, own=self._rooted(), work=work)
        few = self._is_few()
        problem = FewLabelsProblem if few else ManyLabelsProblem
        own = _neighbours(self.edges_, n)
        return problem(**fields, own=own, work=loop_scratch(row, n, m, few))

    def relaxation(self, problem: NamedTuple) -> NamedTuple:
        """The problem over distributions of labels and edges that agree: the local polytope.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned.

        Returns
        -------
        LabelForestProblem or ManyLabelsProblem
            With cycles the LP relaxation takes the place of enumeration.
        """
        few = isinstance(problem, FewLabelsProblem)
        return ManyLabelsProblem(*problem) if few else problem

    def _is_few(self):
        return self.n_labels_ <= _FEW_LABELS and self.inference == "auto"

    def _check_fitted_state(self, classes):
        """Refuse labels and edges that a damaged file or a user has changed since fit."""
        n, edges = self.n_labels_, self.edges_
        if not isinstance(n, (int, np.integer)) or n != len(classes):
            raise ValueError(f"graph_.n_labels_ is {n!r}, but there are {len(classes)} labels")
        ordinary = isinstance(edges, np.ndarray) and edges.dtype == np.int32 and edges.ndim == 2
        if not ordinary or edges.shape[1] != 2 or not edges.flags.c_contiguous:
            raise ValueError("graph_.edges_ must be a C-contiguous array (n_edges, 2) of int32")
        if edges.size and (edges.min() < 0 or edges.max() >= n):
            raise ValueError(f"graph_.edges_ has labels that are not among 0 to {n - 1}")
        keys = np.sort(edges, axis=1) @ np.array([n, 1], dtype=np.int64)
        if (edges[:, 0] == edges[:, 1]).any() or np.unique(keys).size < len(edges):
            raise ValueError("graph_.edges_ joins a label to itself, or two labels twice")

    def _is_forest(self):
        n, m = self.n_labels_, len(self.edges_)
        if m >= n or (self.inference == "relaxed" and m > 0):
            return False
        link = sparse.coo_matrix((np.ones(m), self.edges_.T), (n, n))
        return csgraph.connected_components(link, directed=False)[0] == n - m

    def _rooted(self):
        n, m = self.n_labels_, len(self.edges_)
        ends = np.array([0, n], dtype=np.int64), np.array([0, m], dtype=np.int64)
        return rooted(Samples(np.empty((n, 0)), ends[0], None, self.edges_, ends[1]))


def _read_edges(edges, n):
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


def _chow_liu(table):
    """The spanning tree of largest mutual information between labels."""
    n_samples, n = table.shape
    on = table.astype(np.float64)
    p = on.mean(axis=0)
    both = on.T @ on / n_samples
    information = np.zeros((n, n))
    for a in (0, 1):
        for b in (0, 1):
            pa, pb = (p if a else 1.0 - p), (p if b else 1.0 - p)
            joint = (
                both
                if a and b
                else (
                    p[:, None] - both
                    if a
                    else p[None, :] - both
                    if b
                    else 1.0 - p[:, None] - p + both
                )
            )
            outer = pa[:, None] * pb[None, :]
            used = (joint > 1e-15) & (outer > 0)
            information[used] += joint[used] * np.log(joint[used] / outer[used])
    # The tree of least weight, all weights positive: entries of 0 would count as no edge.
    weight = information.max() + 1.0 - information
    tree = csgraph.minimum_spanning_tree(np.triu(weight, 1)).tocoo()
    return np.sort(np.stack([tree.row, tree.col], axis=1), axis=1)


def _neighbours(edges, n):
    """Neighbours of each label and the edges to them."""
    m = len(edges)
    own = np.concatenate([edges[:, 0], edges[:, 1]])
    other = np.concatenate([edges[:, 1], edges[:, 0]])
    which = np.tile(np.arange(m, dtype=np.int32), 2)
    order = np.lexsort((other, own))
    counts = np.bincount(own, minlength=n)
    return Neighbours(
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        neighbour=other[order].astype(np.int32),
        edge=which[order],
    )

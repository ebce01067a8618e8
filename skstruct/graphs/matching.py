"""Matching: links between the sources and the targets of a sample."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.offsets import ends_of
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.matrices import numeric, refuse_masked
from ..data.packing import as_list, pack_nodes, packed
from ..data.ragged import object_array
from ..inference.assignment import assignment, assignment_work
from ..inference.fertility import fertile_links, fertility_work
from ..losses.task import cost_matrix
from ..spaces.matching import (
    AssignmentSpace,
    BMatchingSpace,
    LastMatchings,
    Links,
    assignment_scratch,
    bmatching_scratch,
)
from ..targets.costs import OTHER, POSSIBLE, SURE, LinkCosts
from .items import ItemGraph

# Reading pairs and links as users give them.


@packed(nodes=("features", "kind"), samples=("sizes",))
class PairTables(NamedTuple):
    """Packed pairs."""

    # (n_pairs, n_features): A row a pair, source by source.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the pairs of each sample begin.
    item_ptr: np.ndarray
    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # (n_pairs,): What each pair is in the gold standard, where y says so.
    kind: np.ndarray | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the labels of each sample: one per pair."""
        return self.item_ptr

    def matrices(self, flat: np.ndarray) -> list:
        """Numbers of all pairs as a view of shape (n_sources, n_targets) per sample."""
        starts = self.item_ptr[:-1].tolist()
        shapes = self.sizes.tolist()
        return [
            flat[at : at + n * m].reshape(n, m) for at, (n, m) in zip(starts, shapes, strict=True)
        ]


def read_pairs(X: SamplesLike) -> PairTables:
    """Pack arrays (n_sources, n_targets, n_features), or tuples (rows of all pairs, sizes)."""
    tables, sizes = zip(*(_read_sample(x, i) for i, x in enumerate(as_list(X, "X"))), strict=True)
    features, item_ptr = pack_nodes(list(tables), "X")
    return PairTables(features, item_ptr, np.array(sizes, dtype=np.int64).reshape(-1, 2))


def _read_sample(x, i):
    """Rows of all pairs of a sample, and how many sources and targets it has."""
    if isinstance(x, tuple):
        size = np.asarray(x[1]) if len(x) == 2 else np.empty(0)
        if size.shape != (2,) or size.dtype.kind not in "iu":
            raise ValueError(
                f"X: sample {i} is a tuple, which must be (rows of features of all pairs, "
                "(n_sources, n_targets))"
            )
        n, m = size.tolist()
        table = x[0] if sparse.issparse(x[0]) else numeric(x[0], f"X: sample {i}")
        _refuse_empty_side(n, m, i)
        if table.ndim != 2 or table.shape[0] != n * m:
            raise ValueError(
                f"X: sample {i} has features of shape {table.shape}, but {n} x {m} pairs need "
                f"({n * m}, n_features)"
            )
        return table, (n, m)
    if sparse.issparse(x):
        raise ValueError(
            f"X: sample {i} is a sparse matrix: give the tuple (matrix, (n_sources, n_targets))"
        )
    table = numeric(x, f"X: sample {i}")
    if table.ndim != 3:
        raise ValueError(
            f"X: sample {i} must be of shape (n_sources, n_targets, n_features), or a tuple (rows "
            f"of features of all pairs, (n_sources, n_targets)); it has {table.ndim} dimensions"
        )
    n, m, width = table.shape
    _refuse_empty_side(n, m, i)
    return table.reshape(n * m, width), (n, m)


def _refuse_empty_side(n, m, i):
    if min(n, m) < 1:
        side = "sources" if n < 1 else "targets"
        raise ValueError(f"X: sample {i} has no {side}")


def read_links(y: SamplesLike, samples: PairTables) -> np.ndarray:
    """Read the kind of each pair in the gold standard."""
    refuse_masked(y, "y")
    items = as_list(y, "y")
    if len(items) != len(samples.sizes):
        raise ValueError(f"X has {len(samples.sizes)} samples, but y has {len(items)}")
    kind = np.full(samples.item_ptr[-1], OTHER, dtype=np.uint8)
    for i, (item, pairs) in enumerate(zip(items, samples.matrices(kind), strict=True)):
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"y: sample {i} is a tuple, which must be (sure links, possible links)"
                )
            _mark(pairs, item[1], POSSIBLE, f"y: the possible links of sample {i}", False)
            _mark(pairs, item[0], SURE, f"y: the sure links of sample {i}", False)
        else:
            _mark(pairs, item, SURE, f"y: sample {i}", True)
    return kind


def _mark(pairs, links, kind, name, may_be_targets):
    """Write `kind` at the links, which are rows (source, target), booleans or targets."""
    refuse_masked(links, name)
    n, m = pairs.shape
    try:
        links = np.asarray(links)
    except ValueError:
        raise ValueError(f"{name}: its links are not all of two numbers") from None
    if links.size == 0 and links.dtype != bool:
        return
    if links.dtype == bool:
        if links.shape != (n, m):
            raise ValueError(f"{name} are booleans of shape {links.shape}, but it has {n} x {m}")
        pairs[links] = kind
        return
    if links.dtype.kind not in "iu" or not (
        (links.ndim == 2 and links.shape[1] == 2) or (links.ndim == 1 and may_be_targets)
    ):
        more = f", or {n} targets (-1 for none)" if may_be_targets else ""
        raise ValueError(
            f"{name} must be integers of shape (n_links, 2), booleans of shape ({n}, {m}){more}; "
            f"got {links.dtype} of shape {links.shape}"
        )
    if links.ndim == 1:
        if links.size != n:
            raise ValueError(f"{name} has {links.size} targets for {n} sources")
        if links.min() < -1:
            raise ValueError(f"{name} has the target {links.min()}; a source without one has -1")
        links = np.column_stack([np.arange(n), links])[links >= 0]
    wrong = ((links < 0) | (links >= (n, m))).any(axis=1)
    if wrong.any():
        s, t = links[wrong][0].tolist()
        raise ValueError(f"{name} has the link ({s}, {t}), but {n} sources and {m} targets")
    pairs[links[:, 0], links[:, 1]] = kind


__all__ = ["Matching"]


class Matching(ItemGraph):
    """Links between two sides: word alignment, tracking, assignment of any kind.

    A sample of X is an array (n_sources, n_targets, n_features), or a tuple (rows, (n_sources,
    n_targets)) with one row of features per pair, source by source, dense or CSR. A sample of y is
    its links: an integer array (n_links, 2) of rows (source, target); a boolean matrix (n_sources,
    n_targets); an integer array (n_sources,) of targets, -1 for none; or a tuple (sure links,
    possible links) of arrays or matrices. Possible links cost nothing, predicted or not. The score
    of a link is linear in its features. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    max_degree : int, default=1
        Maximum number of links per source and per target.
    null : bool, default=True
        Whether sources and targets may have no link, at score 0. Otherwise every source, or if
        there are fewer targets every target, has at least one.
    repair : bool, default=False
        Whether to train toward the allowed links of least loss where y has more sure links than
        `max_degree`, or too few for ``null=False``; their cost is subtracted from the loss of all
        others. By default such samples raise an error.

    See Also
    --------
    Candidates : One choice among several.

    Notes
    -----
    The task loss of structural SVMs is the number of sure links missed plus the number of links
    that are neither sure nor possible; with ``loss={1: 2.0, 0: 0.5}`` a missed link costs 2, a
    wrong one 0.5. ``predict`` returns one array (n_links, 2) per sample, ``score`` the F1 of links:
    sure links count for recall, sure and possible ones for precision (Och and Ney 2003, A
    systematic comparison of various statistical alignment models, section 6). Among several best
    matchings the prediction depends on the weights and the sample alone.

    References
    ----------
    B. Taskar, S. Lacoste-Julien and D. Klein 2005, A discriminative matching approach to word
    alignment, EMNLP, section 2.

    S. Lacoste-Julien, B. Taskar, D. Klein and M. I. Jordan 2006, Word alignment via quadratic
    assignment, NAACL, section 2: several links per word.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Matching
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(3, 4, 2)) for _ in range(20)]
    >>> y = [np.argwhere(x[:, :, 0] == x[:, :, 0].max()) for x in X]
    >>> svm = BCFWSSVM(Matching(), C=10.0, random_state=0).fit(X, y)
    >>> [links.tolist() for links in svm.predict(X[:2])] == [links.tolist() for links in y[:2]]
    True
    """

    has_items = True
    takes = "lists of pairs: expected a list of 3-D arrays, or of tuples (rows of pairs, sizes)"

    def __init__(self, max_degree: int = 1, null: bool = True, repair: bool = False) -> None:
        self.max_degree = max_degree
        self.null = null
        self.repair = repair

    # Reading

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> PairTables:
        """Pack the pairs."""
        degree = self.max_degree
        if not isinstance(degree, Integral) or isinstance(degree, bool) or degree < 1:
            raise ValueError(f"max_degree must be an integer of at least 1, got {degree!r}")
        for name in ("null", "repair"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        return self._counted(read_pairs(X), estimator, reset)

    def no_samples(self, estimator: BaseEstimator) -> PairTables:
        """No samples."""
        rows = np.empty((0, estimator.n_features_in_))
        return PairTables(rows, np.zeros(1, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))

    def read_y(self, y: SamplesLike, samples: PairTables) -> np.ndarray:
        """0 for no link, 1 for a sure one, 2 for a possible one."""
        return read_links(y, samples).astype(np.int64)

    def read_labelling(self, y: SamplesLike, samples: PairTables) -> np.ndarray:
        """1 for a sure link."""
        return (read_links(y, samples) == SURE).astype(np.int64)

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[PairTables, np.ndarray]:
        """Pack X and y; what is possible goes with the samples."""
        samples = self.read_X(estimator, X, reset=True)
        samples = samples._replace(kind=read_links(y, samples))
        labels = (samples.kind == SURE).astype(np.int32)
        if self.repair:
            return samples, self._nearest(samples, np.array([[0.0, 1.0], [1.0, 0.0]]), labels)
        for i, pairs in enumerate(samples.matrices(labels)):
            if wrong := self._infeasible(pairs):
                raise ValueError(
                    f"y: sample {i}: {wrong}; Matching(repair=True) trains toward the nearest "
                    "links that are allowed"
                )
        return samples, labels

    def _infeasible(self, pairs):
        """Describe a vertex with too many sure links, or none; return "" if all are feasible."""
        n, m = pairs.shape
        for axis, side in ((1, "source"), (0, "target")):
            degrees = pairs.sum(axis=axis)
            if degrees.max() > self.max_degree:
                return (
                    f"{side} {degrees.argmax()} has {degrees.max()} sure links, but max_degree is "
                    f"{self.max_degree}"
                )
            needed = n <= m if side == "source" else n > m
            if not self.null and needed and degrees.min() == 0:
                return f"{side} {degrees.argmin()} has no sure link, but null is False"
        return ""

    def _nearest(self, samples, cost, labels):
        """The links of least loss that are allowed, where those of y are not."""
        labels = labels.copy()
        feasible = self.is_labelling(labels, samples, None)
        score = np.array([-cost[0, 1], cost[1, 0], 0.0])[samples.kind]
        for i in np.flatnonzero(~feasible):
            (n, m), first = samples.sizes[i].tolist(), samples.item_ptr[i]
            theta, links = score[first : first + n * m], np.zeros(n * m, dtype=np.int32)
            if self.max_degree == 1:
                match = np.full(n, -1, dtype=np.int32)
                work = assignment_work(n, m)
                assignment(theta, n, m, bool(self.null), np.zeros(m), match, work)
                rows = np.flatnonzero(match >= 0)
                links[rows * m + match[rows]] = 1
            else:
                none, work = np.empty(0, dtype=np.uint8), fertility_work(n, m)
                degree = int(self.max_degree)
                fertile_links(theta, n, m, bool(self.null), degree, none, links, work)
            labels[first : first + n * m] = links
        return labels

    def is_labelling(self, codes: np.ndarray, samples: PairTables, classes: Any) -> np.ndarray:
        """No vertex has too many links, or none where it needs one."""
        return np.array([not self._infeasible(pairs) for pairs in samples.matrices(codes)], bool)

    def read_allowed(self, allowed: Any, samples: PairTables, classes: Any) -> np.ndarray:
        """Masks of shape (n_sources, n_targets), one per sample."""
        return self._read_masks(allowed, [(n, m) for n, m in samples.sizes.tolist()])

    # Problems

    def make_problem(
        self,
        samples: PairTables,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem."""
        kind, costs, losses = np.empty(0, dtype=np.uint8), np.empty((3, 0)), np.empty((2, 0))
        if codes is not None:
            cost, normalize = cost_matrix(loss, np.array([0, 1]))
            kind = samples.kind
            if self.repair:
                codes = self._nearest(samples, cost, (kind == SURE).astype(np.int32))
            costs = self._costs(samples, cost, normalize, codes)
            losses = _linear_loss(samples, costs)
        make, fields = self._parts(samples, fit_intercept, codes, allowed, 1)
        target = LinkCosts(fields["item_ptr"], fields["part_ptr"], *losses, kind, *costs)
        ends = [ends_of(side) for side in samples.sizes.T]
        last = LastMatchings(np.full(ends[0][-1], -1, dtype=np.int32), np.zeros(ends[1][-1]))
        degree = int(self.max_degree)
        own = Links(samples.sizes, degree, bool(self.null), *ends, last)
        space, scratch = AssignmentSpace, assignment_scratch
        if degree > 1:
            space, scratch = BMatchingSpace, bmatching_scratch
        space = space(**fields, own=own, work=scratch(samples.sizes, n_best))
        return make(space=space, target=target)

    @staticmethod
    def _costs(samples, cost, normalize, codes):
        """Return the costs of a missed and of an extra link, and of the target labelling."""
        share = 1.0 / samples.lengths if normalize else np.ones(samples.lengths.size)
        missed, extra, starts = cost[1, 0] * share, cost[0, 1] * share, samples.item_ptr[:-1]
        n_missed, n_extra = (
            np.add.reduceat((samples.kind == kind) & (codes == code), starts, dtype=np.int64)
            for kind, code in ((SURE, 0), (OTHER, 1))
        )
        return missed, extra, missed * n_missed + extra * n_extra

    # Answers

    def answers(self, codes: np.ndarray, classes: Any, samples: PairTables) -> np.ndarray:
        """Rows (source, target) of the links of each sample."""
        return object_array([np.argwhere(pairs) for pairs in samples.matrices(codes)])

    def ranked(self, codes: np.ndarray, classes: Any, samples: PairTables, i: int) -> np.ndarray:
        """Return the n best matchings of one sample, best first."""
        size = samples.sizes[i].tolist()
        return object_array([np.argwhere(pairs.reshape(size)) for pairs in codes])

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: PairTables,
        weight: np.ndarray | None,
    ) -> float:
        """F1 of links; 1 if there are none and none are predicted."""
        of_pairs = np.ones(truth.size) if weight is None else np.repeat(weight, samples.lengths)
        linked, sure = predicted == 1, truth == SURE
        n_linked, n_sure = of_pairs[linked].sum(), of_pairs[sure].sum()
        right = of_pairs[linked & (truth != OTHER)].sum(), of_pairs[linked & sure].sum()
        shares = [r / n if n > 0 else 1.0 for r, n in zip(right, (n_linked, n_sure), strict=True)]
        return float(2.0 * math.prod(shares) / sum(shares)) if sum(shares) > 0 else 0.0

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: PairTables
    ) -> np.ndarray:
        """Scores of all pairs, a matrix per sample."""
        return object_array(samples.matrices(scores[:, 0]))

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random pairs."""
        X = [rng.normal(size=(n, m, 3)) for n, m in ((2, 3), (1, 4), (3, 3))]
        y = [np.column_stack([np.arange(len(x))] * 2) for x in X]
        if sparse_X:
            X = [(sparse.csr_matrix(x.reshape(-1, 3)), x.shape[:2]) for x in X]
        return X, y


def _linear_loss(samples, costs):
    """Return the change of the loss by linking each pair, and the loss without links."""
    of_pairs = [np.repeat(cost, samples.lengths) for cost in costs[:2]]
    loss = np.where(samples.kind == SURE, -of_pairs[0], of_pairs[1])
    loss[samples.kind == POSSIBLE] = 0.0
    sure = np.add.reduceat(samples.kind == SURE, samples.item_ptr[:-1], dtype=np.int64)
    return loss, costs[0] * sure - costs[2]

"""Lattices: paths through directed acyclic graphs, whose arcs have features."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.matrices import refuse_masked
from ..data.packing import as_list, pack_nodes, packed, sample_of
from ..data.ragged import object_array
from ..inference.arcs import keep_paths
from ..losses.task import cost_matrix
from ..spaces.lattice import LatticeSpace, lattice_scratch, lattice_table
from ..targets.costs import LinkCosts
from .items import ItemGraph, targets_of

__all__ = ["Lattice"]


@packed(nodes=("features", "arcs", "steps"), samples=("given",))
class LatticeArcs(NamedTuple):
    """Packed arcs."""

    # (n_arcs, n_features): One row per arc.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the arcs of each sample begin.
    item_ptr: np.ndarray
    # (n_arcs, >= 4): Begin, end, left class, right class, and perhaps more.
    arcs: np.ndarray
    # (n_arcs, 2): Begin and end among the ends of arcs; -1 for arcs on no path.
    steps: np.ndarray
    # (n_samples,): What arcs were made from.
    given: np.ndarray | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the labels of each sample: one per arc."""
        return self.item_ptr

    @property
    def owner(self) -> np.ndarray:
        """Sample of each arc."""
        return np.repeat(np.arange(self.item_ptr.size - 1), np.diff(self.item_ptr))

    def chosen(self, codes: np.ndarray) -> np.ndarray:
        """Arcs that labellings choose, sample by sample, by where they end."""
        arcs = np.flatnonzero(codes == 1)
        return arcs[np.lexsort((self.arcs[arcs, 1], self.owner[arcs]))]


class Lattice(ItemGraph):
    """A path through a directed acyclic graph: word lattices, speech, readings of a scanned line.

    A sample of X is a pair (arcs, features). `arcs` is an integer array (n_arcs, 2) of (begin,
    end), or (n_arcs, 4) with the class of each arc's left and right side; without classes they are
    0. Vertices are numbered such that begin < end. `features`, (n_arcs, n_features), is dense or
    CSR. A sample of y is a path from vertex 0 to the largest one: the positions of its arcs, in
    order; ``predict`` returns the same. The score of a path is the sum of the scores of its arcs,
    linear in their features, and of a weight for each pair (right class of an arc, left class of
    the next). Read more in the :ref:`User Guide <lattices>`.

    See Also
    --------
    WordLattice : Lattices of the words in a string.
    SemiChain : Segments of a sequence, whose labels follow each other.

    Notes
    -----
    The task loss of structural SVMs is the number of true arcs missed plus the number of wrong
    ones; with ``loss={1: 2.0, 0: 0.5}`` a missed arc costs 2, a wrong one 0.5. ``score`` is the F1
    of arcs. ``pairwise_coef_`` has the weights of pairs, of shape (n_right, n_left): as many
    classes as in training. ``predict_marginals`` has the probability of each arc. Everything takes
    O(n_arcs + n_vertices * n_right * n_left).

    References
    ----------
    T. Kudo, K. Yamamoto and Y. Matsumoto 2004, Applying conditional random fields to Japanese
    morphological analysis, EMNLP.

    Examples
    --------
    Two ways from 0 to 2, of one arc and of two:

    >>> import numpy as np
    >>> from skstruct import SAGCRF, Lattice
    >>> arcs = np.array([[0, 1], [1, 2], [0, 2]])
    >>> X = [(arcs, np.array([[1.0], [0.0], [0.0]])), (arcs, np.array([[0.0], [0.0], [1.0]]))]
    >>> y = [[0, 1], [2]]
    >>> crf = SAGCRF(Lattice(), C=10.0, random_state=0).fit(X, y)
    >>> [path.tolist() for path in crf.predict(X)]
    [[0, 1], [2]]
    """

    has_items = True
    takes = "lists of lattices: expected a list of tuples (arcs, features)"

    # Reading

    def no_samples(self, estimator: BaseEstimator) -> LatticeArcs:
        """No samples."""
        rows, ptr = np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64)
        return LatticeArcs(rows, ptr, *(np.empty((0, n), dtype=np.int64) for n in (4, 2)))

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> LatticeArcs:
        """Pack the arcs; their numbers of classes are learned."""
        pairs = as_list(X, "X")
        for i, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"X: sample {i} must be a pair (arcs, features)")
        arcs = [_read_arcs(pair[0], i) for i, pair in enumerate(pairs)]
        features, item_ptr = pack_nodes([pair[1] for pair in pairs], "X", "arc")
        for i, (own, n) in enumerate(zip(arcs, np.diff(item_ptr), strict=True)):
            if len(own) != n:
                raise ValueError(f"X: sample {i} has {len(own)} arcs, but {n} rows of features")
        return self._made(features, item_ptr, np.concatenate(arcs), estimator, reset)

    def _made(self, features, item_ptr, arcs, estimator, reset, given=None):
        """Samples of checked arcs."""
        most = arcs[:, [3, 2]].max(axis=0, initial=0) + 1  # numbers of right and of left classes
        if reset:
            if (np.diff(item_ptr) == 0).any():
                empty = np.flatnonzero(np.diff(item_ptr) == 0)[0]
                raise ValueError(f"X: sample {empty} is empty, a sample needs at least one arc")
            self.n_sides_ = tuple(np.maximum(getattr(self, "n_sides_", 1), most).tolist())
        for side, n, known in zip((3, 2), most, self.n_sides_, strict=True):
            if n > known:
                i = sample_of(arcs[:, side].argmax(), item_ptr)
                raise ValueError(
                    f"X: sample {i} has an arc of {('left', 'right')[side - 2]} class {n - 1}, but "
                    f"in fit there were only {known}, from 0 on"
                )
        samples = LatticeArcs(features, item_ptr, arcs, _steps(arcs, item_ptr), given)
        return self._counted(samples, estimator, reset)

    def read_y(self, y: SamplesLike, samples: LatticeArcs) -> np.ndarray:
        """1 for the arcs of the true paths, else 0."""
        labels, ends = np.zeros(samples.item_ptr[-1], dtype=np.int64), samples.item_ptr.tolist()
        for i, path in enumerate(targets_of(y, samples.lengths.size)):
            own, n = samples.arcs[ends[i] : ends[i + 1]], ends[i + 1] - ends[i]
            refuse_masked(path, f"y: sample {i}")
            found = np.asarray(path)
            if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
                raise ValueError(f"y: sample {i} must be the positions of its arcs, got {path!r}")
            found = found.astype(np.int64)
            if found.size and not 0 <= found.min() <= found.max() < n:
                raise ValueError(f"y: sample {i} has positions outside 0 to {n - 1}: {path!r}")
            before, at = np.append(0, own[found, 1]), own[found, 0]
            wrong = np.flatnonzero(at != before[:-1])
            if wrong.size:
                q = wrong[0]
                raise ValueError(
                    f"y: sample {i} is not a path: arc {found[q]} begins at vertex {at[q]}, but "
                    f"the path has come to {before[q]}"
                )
            if before[-1] != (last := own[:, 1].max(initial=0)):
                raise ValueError(
                    f"y: sample {i} is not a path: it ends at vertex {before[-1]}, not {last}"
                )
            labels[ends[i] + found] = 1
        return labels

    def is_labelling(self, codes: np.ndarray, samples: LatticeArcs, classes: Any) -> np.ndarray:
        """Whether the chosen arcs are a path."""
        chosen, last = samples.chosen(codes), np.zeros(samples.lengths.size, dtype=np.int64)
        np.maximum.at(last, samples.owner, samples.arcs[:, 1])
        owner, (begin, end) = samples.owner[chosen], samples.arcs[chosen, :2].T
        before = np.where(np.diff(owner, prepend=-1) > 0, 0, np.roll(end, 1))
        came = np.zeros_like(last)
        came[owner] = end  # the last one stays
        gaps = np.bincount(owner[begin != before], minlength=last.size)
        return (gaps == 0) & (came == last)

    def read_allowed(self, allowed: Any, samples: LatticeArcs, classes: Any) -> np.ndarray:
        """Masks of shape (n_arcs,), one per sample."""
        return self._read_masks(allowed, [(n,) for n in samples.lengths.tolist()])

    # Problems

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x 1, and one row of pairs of classes."""
        n_right, n_left = self.n_sides_
        return super().weight_shapes(samples, n_classes, fit_intercept)[0], (1, n_right * n_left)

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (right class, left class of the next arc)."""
        return pair_weights[0].reshape(self.n_sides_)

    def pair_names(self, classes: Any) -> tuple[list, list]:
        """Numbers of right and of left classes."""
        return tuple([*range(n)] for n in self.n_sides_)

    def other_terms(self, estimator: BaseEstimator, codes: np.ndarray, samples: Any) -> list:
        """Terms of pairs of arcs: the second arc, and the right class of the first."""
        chosen, table = samples.chosen(codes), estimator.pairwise_coef_
        right, left = samples.arcs[chosen[:-1], 3], samples.arcs[chosen[1:], 2]
        names = (str(self.pair_names(estimator.classes_)[0][k]) for k in right)
        return [
            (arc, name, "<transition>", 1.0, weight)
            for arc, name, weight in zip(chosen[1:], names, table[right, left], strict=True)
        ]

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """The one column stays, and pairs of classes that there were."""
        (n_right, n_left), (right, left) = previous.n_sides_, np.indices(self.n_sides_)
        known = (right < n_right) & (left < n_left)
        pairs = np.where(known, right * n_left + left, -1)
        return np.zeros(1, dtype=np.int64), pairs.ravel()

    def make_problem(
        self,
        samples: LatticeArcs,
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
            kind, size = codes.astype(np.uint8), samples.lengths
            each = 1.0 / size if normalize else np.ones(size.size)
            costs = cost[1, 0] * each, cost[0, 1] * each, 0.0 * each
            missed, extra = np.repeat(costs[0], size), np.repeat(costs[1], size)
            n_true = np.add.reduceat(codes, samples.item_ptr[:-1], dtype=np.int64)
            losses = np.where(kind == 1, -missed, extra), costs[0] * n_true
        make, fields = self._parts(samples, fit_intercept, codes, allowed, 1)
        target = LinkCosts(fields["item_ptr"], fields["part_ptr"], *losses, kind, *costs)
        own = lattice_table(samples.steps, samples.arcs[:, 2:4], samples.item_ptr, self.n_sides_)
        space = LatticeSpace(**fields, own=own, work=lattice_scratch(own, n_best))
        return make(space=space, target=target)

    # Answers

    def answers(self, codes: np.ndarray, classes: Any, samples: LatticeArcs) -> np.ndarray:
        """Positions of the arcs of each path."""
        ends = pairwise(samples.item_ptr.tolist())
        return object_array([self._path(codes[a:b], samples, i) for i, (a, b) in enumerate(ends)])

    def ranked(self, codes: np.ndarray, classes: Any, samples: LatticeArcs, i: int) -> np.ndarray:
        """The same for the n best of one sample, best first."""
        return object_array([self._path(path, samples, i) for path in codes])

    def _path(self, codes, samples, i):
        """Positions of the arcs that a labelling of sample i chooses, in the order of the path."""
        chosen = np.flatnonzero(codes == 1)
        return chosen[np.argsort(samples.arcs[samples.item_ptr[i] + chosen, 1])]

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: LatticeArcs,
        weight: np.ndarray | None,
    ) -> float:
        """F1 of arcs."""
        each = np.ones(truth.size) if weight is None else np.repeat(weight, samples.lengths)
        both = each @ ((predicted == 1) & (truth == 1))
        return float(2.0 * both / (each @ (predicted == 1) + each @ (truth == 1)))

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: LatticeArcs
    ) -> np.ndarray:
        """Scores of the arcs, an array per sample."""
        return self.wrap(scores, samples)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random lattices."""
        arcs = np.array([[0, 1, 0, 1], [1, 3, 1, 0], [0, 2, 1, 1], [1, 2, 0, 0], [2, 3, 0, 0]])
        X = [(arcs[order], rng.normal(size=(5, 3))) for order in (slice(None), [0, 1, 2, 4, 3])]
        X = [(own, sparse.csr_matrix(x) if sparse_X else x) for own, x in X]
        return X, [[0, 1], [2, 3]]


def _read_arcs(given, i):
    """Rows (begin, end, left class, right class) of a sample."""
    refuse_masked(given, f"X: the array of arcs of sample {i}")
    arcs = np.asarray(given)
    if arcs.size == 0:
        return np.empty((0, 4), dtype=np.int64)
    if arcs.dtype.kind not in "iu" or arcs.ndim != 2 or arcs.shape[1] not in (2, 4):
        raise ValueError(
            f"X: the arcs of sample {i} must be integers of shape (n_arcs, 2) or (n_arcs, 4), got "
            f"{arcs.dtype} of shape {arcs.shape}"
        )
    arcs = np.pad(arcs.astype(np.int64), ((0, 0), (0, 4 - arcs.shape[1])))
    for wrong, what in (
        ((arcs < 0).any(axis=1), "has a negative number"),
        (arcs[:, 0] >= arcs[:, 1], "would close a cycle: its end must be larger than its begin"),
    ):
        if wrong.any():
            q = np.flatnonzero(wrong)[0]
            raise ValueError(f"X: sample {i}: arc {q}, {arcs[q, :2].tolist()}, {what}")
    return arcs


def _steps(arcs, item_ptr):
    """Begin and end of each arc among the ends of its sample, -1 for arcs on no path."""
    n = item_ptr.size - 1
    owner, samples = np.repeat(np.arange(n), np.diff(item_ptr)), np.arange(n + 1)
    # A vertex of a sample is one number; those at which no arc ends, but for 0, are on no path.
    names, number = np.unique(np.append(0, arcs[:, :2]), return_inverse=True)
    ends = owner[:, None] * names.size + number[1:].reshape(-1, 2)
    vertices = np.unique(np.append(samples[:-1] * names.size, ends[:, 1]))
    begin, end = np.searchsorted(vertices, ends).T
    first = np.searchsorted(vertices, samples * names.size)
    keep = (vertices[begin] == ends[:, 0]).astype(np.uint8)
    reached, leads = np.zeros((2, vertices.size), dtype=np.uint8)
    reached[first[:-1]], leads[first[1:] - 1] = 1, 1
    order = np.argsort(end, kind="stable")
    keep_paths(order, begin.copy(), end.copy(), keep, reached, leads)
    for i in np.flatnonzero(reached[first[1:] - 1] == 0)[:1]:
        stop = first[i] + np.flatnonzero(reached[first[i] : first[i + 1]])[-1]
        last, stop = (names[vertices[v] - i * names.size] for v in (first[i + 1] - 1, stop))
        raise ValueError(
            f"X: sample {i} has no path from vertex 0 to {last}, the last: paths stop at {stop}"
        )
    steps = np.column_stack([begin, end]) - first[owner][:, None]
    steps[keep == 0] = -1
    return steps

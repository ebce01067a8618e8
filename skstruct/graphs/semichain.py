"""Semi-Markov chains: sequences that fall into segments, whose lengths and features score, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.arguments import check_choice, warn_user
from ..core.features import constant_rows
from ..core.gram import gram_of, gram_of_constant
from ..core.memory import check_memory
from ..core.offsets import ends_of, longest_item
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..core.wrappers import innermost
from ..data.constraints import allowed_at_ends, check_ends, check_steps, transition_mask
from ..data.matrices import normal_csr, numeric
from ..data.packing import as_list, packed, read_sequences
from ..data.ragged import object_array
from ..data.segments import (
    FURTHER,
    Kinds,
    Segments,
    has_segments,
    listed_segments,
    read_max_length,
    read_segments,
)
from ..rows.blocks import BlockRows, feature_rows
from ..spaces.labels import node_mask
from ..spaces.segments import (
    SegmentSpace,
    n_segments,
    n_shared,
    segment_scratch,
    segment_table,
)
from ..targets.costs import node_target
from .base import kept_positions
from .nodes import NodeGraph

__all__ = ["SemiChain"]

# Longest segment of a kind, where no limit is given: the quantile of the lengths in training. Where
# lengths are geometric, as those of a chain, about 1 % of the nodes are beyond it: no news.
_QUANTILE, _FEW = 0.99, 0.05
Scheme = Literal["bio", "iob2"]
Lengths = Literal["table", "curve"]
# Memory of training, at least: for each kind and length of a table, or length of a curve.
_BYTES = 40


@packed(samples=("given",))
class SegmentNodes(NamedTuple):
    """Packed sequences, and what features of segments are made from."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where each sequence begins.
    offsets: np.ndarray
    # (n_samples,): Samples as the user gave them, or their arrays of features of segments.
    given: np.ndarray | None = None


def _are_finite(values, shape):
    """Whether these are finite real numbers, in an array of that shape."""
    try:
        values = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    is_real = values.shape == shape and values.dtype.kind in "biuf"
    return is_real and bool(np.isfinite(values).all())


class SemiChain(NodeGraph):
    """A sequence of nodes that falls into segments; each segment has a label and scores as a whole.

    The score of a segmentation is the sum of the scores of its nodes, of the lengths of segments,
    of their features, and of pairs of neighbouring segments (a semi-Markov CRF, Sarawagi and Cohen
    2004). Best labellings, n best, marginals and draws are exact, in O(n L K + n K^2) for n nodes,
    K kinds of segments and at most L nodes in a segment. Read more in the :ref:`User Guide
    <structures_guide>`.

    Parameters
    ----------
    max_length : int or dict, default=None
        Number of nodes of the longest segment; for each kind, if it is a dict. ``np.inf`` in a dict
        is for labels such as a background whose nodes are segments of their own, in any number.
        Longer segments in training raise an error. By default, and for kinds that a dict lacks, the
        0.99 quantile of the lengths in training; if some are longer, longer segments remain
        possible in prediction, too, and their further nodes score the same each (with a warning if
        these are more than 5 % of the nodes of a kind).
    scheme : {None, "bio", "iob2"}, default=None
        Labels of nodes. By default segments are the maximal runs of equal labels. "bio" is for tags
        of chunks: "B-X" and "I-X" for the first and for the other nodes of a segment of kind X, "O"
        for nodes in none.
    lengths : {"table", "curve"}, default="table"
        Scores of lengths: a weight for each kind and length, or for each kind those of the length
        and of its logarithm. The length is relative to the largest of all limits, so that a larger
        limit (as further batches may bring) makes the same weight a smaller slope.
    segment_features : callable or True, default=None
        Features of segments. A function ``f(x, start, stop)`` of the sample as given and of its
        nodes ``start:stop`` returns a 1-D array of fixed length. It is called for all segments up
        to the largest limit, one by one, which may take longer than the training. With True, a
        sample of X is a pair (features, segment features of shape (n_nodes, longest,
        n_segment_features)), where ``[t, l - 1]`` is for the l nodes from t on; such arrays are
        read at once.
    forbidden : list of pairs, default=None
        Pairs (kind, next kind) of segments that are not neighbours, in training and in prediction;
        None is an end of the sequence.

    See Also
    --------
    skstruct.Chain : Labels of nodes, without lengths.
    skstruct.metrics.chunks : Chunks of a label sequence.

    Notes
    -----
    y has one label per node, or a list of segments ``(start, stop, label)`` per sample: of all
    nodes, with ``scheme="bio"`` of those in chunks. Segments are tuples, or lists as from JSON;
    labels are strings or numbers. Predictions have the form that y had in fit.
    Pairwise weights of an estimator (``pairwise_coef_``) are those of neighbouring kinds; see
    :meth:`length_weights` for the others. Where labels are missing, a quantile is that of the nodes
    with known labels, and longer segments are possible. Shards
    (:func:`skstruct.datasets.pack_shards`) hold labels of nodes and no features of segments.

    References
    ----------
    S. Sarawagi and W. W. Cohen 2004, Semi-Markov conditional random fields for information
    extraction.

    Examples
    --------
    Two activities that look alike, of 3 and of 6 nodes:

    >>> import numpy as np
    >>> from skstruct import SAGCRF, SemiChain
    >>> X = [np.ones((9, 1)), np.ones((12, 1))]
    >>> y = [["short"] * 3 + ["long"] * 6, ["long"] * 6 + ["short"] * 3 + ["rest"] * 3]
    >>> crf = SAGCRF(SemiChain(max_length=6), C=100, random_state=0).fit(X, y)
    >>> crf.predict([np.ones((9, 1))])[0].tolist() == y[0]
    True
    """

    learns = True
    n_segment_features_ = 0
    longest_given_ = math.inf
    is_listed_ = hides_ = False

    def __init__(
        self,
        max_length: int | Mapping | None = None,
        scheme: Scheme | None = None,
        lengths: Lengths = "table",
        segment_features: Callable | bool | None = None,
        forbidden: Iterable | None = None,
    ) -> None:
        self.max_length = max_length
        self.scheme = scheme
        self.lengths = lengths
        self.segment_features = segment_features
        self.forbidden = forbidden

    @property
    def chunk_schemes(self) -> tuple:
        """Those of the tags, or runs of equal labels."""
        return ("runs",) if self.scheme is None else (None, "iob2", "bio")

    # Reading

    @property
    def n_end_rows(self) -> int:
        """Weights of segment features, below those of nodes."""
        return self.n_segment_features_

    @property
    def end_names(self) -> list:
        """Names of these rows."""
        return [f"<segment {j}>" for j in range(self.n_segment_features_)]

    def no_samples(self, estimator: BaseEstimator) -> SegmentNodes:
        """No sequences."""
        given = None if self.segment_features is None else np.empty(0, dtype=object)
        return SegmentNodes(*super().no_samples(estimator), given)

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> SegmentNodes:
        """Pack the sequences, and keep what features of segments are made from."""
        how, given = self.segment_features, None
        if how is True:
            X, given = self._read_pairs(X, reset)
        elif callable(how):
            given = object_array(as_list(X, "X"))
        elif how is not None:
            raise TypeError(f"segment_features must be a function, True or None, got {how!r}")
        samples = SegmentNodes(*read_sequences(X)[:2], given)
        self._check_counts(estimator, samples, reset)
        if reset and callable(how) and not self.n_segment_features_:
            self.n_segment_features_ = np.size(how(given[0], 0, 1))
        return samples

    def _read_pairs(self, X, reset):
        """Features of nodes, and the arrays of those of segments."""
        nodes, given = [], []
        for i, pair in enumerate(as_list(X, "X")):
            is_pair = isinstance(pair, tuple) and len(pair) == 2
            if not is_pair or not hasattr(pair[0], "__len__"):
                raise ValueError(f"X: sample {i} must be a pair (features, segment_features)")
            own = numeric(pair[1], f"X: sample {i} (segment features)")
            n = pair[0].shape[0] if hasattr(pair[0], "shape") else len(pair[0])
            width = self.n_segment_features_ or "n_segment_features"
            is_sound = own.ndim == 3 and len(own) == n and 0 not in own.shape[1:]
            if not is_sound or width not in (own.shape[2], "n_segment_features"):
                raise ValueError(
                    f"X: segment features of sample {i} must be of shape ({n}, longest, {width}), "
                    f"got {own.shape}"
                )
            self.n_segment_features_ = own.shape[2]
            nodes.append(pair[0])
            given.append(own)
        if reset and not hasattr(self, "limits_"):  # nor by later batches
            self.longest_given_ = max(own.shape[1] for own in given)
        return nodes, object_array(given)

    def read_y(self, y: SamplesLike, samples: SegmentNodes) -> np.ndarray:
        """The labels of all nodes, from labels or segments."""
        is_listed = has_segments(y, if_empty=self.is_listed_)
        if not hasattr(self, "limits_"):  # predictions have the form that y has in training
            self.is_listed_ = is_listed
        if not is_listed:
            return super().read_y(y, samples)
        given = self.max_length if isinstance(self.max_length, Mapping) else {}
        endless = [label for label, limit in given.items() if limit == np.inf]
        return read_segments(y, samples.offsets, self.scheme, endless)

    # What is learned from labels

    def _kinds(self, classes):
        return Kinds.of(classes, check_choice("scheme", self.scheme, (None, *get_args(Scheme))))

    def learn(self, codes: np.ndarray, offsets: np.ndarray, classes: Any) -> None:
        """Learn the longest segment of each kind where `max_length` does not say it."""
        kinds, tails, said = self._kinds(classes), [], []
        limits, names = read_max_length(self.max_length, kinds), kinds.names.tolist()
        found = Segments.of(codes, offsets, kinds, limits == 0)
        # What goes on from an unknown node has one more at least.
        length = found.length + found.is_wrong[found.start]
        seen = np.column_stack([found.kind, length, np.ones_like(length)])
        seen = seen[(found.kind >= 0) & (limits[found.kind] < 0)]
        seen = np.concatenate([getattr(self, "seen_", seen[:0]), seen])
        rows, which = np.unique(seen[:, :2], axis=0, return_inverse=True)
        counts = np.bincount(which.ravel(), seen[:, 2], len(rows)).astype(np.int64)
        self.seen_ = np.column_stack([rows, counts])
        # Known nodes may lie in segments that are longer than what is known of any.
        self.hides_ = self.hides_ or bool((codes < 0).any())
        for c in np.flatnonzero(limits < 0):
            own = rows[:, 0] == c
            # Where no segment is known: as those of all kinds.
            length = np.repeat(rows[:, 1], np.where(own.any(), own, 1) * counts)
            if not length.size:
                raise ValueError(f"max_length must be given: no label tells that of {names[c]!r}")
            limits[c] = min(math.ceil(np.quantile(length, _QUANTILE)), self.longest_given_)
            further = np.maximum(length - limits[c], 0)
            n_long = int(np.count_nonzero(further))
            tails += [c] * (n_long > 0 or self.hides_)
            if further.sum() > _FEW * length.sum() and own.any():
                said.append(
                    f"{n_long} of {length.size} {names[c]!r} are longer than {limits[c]} nodes, "
                    f"the longest has {length.max()}"
                )
        # Of shards only those are told that the ones before have not.
        if said and not {*tails} <= {*getattr(self, "tails_", ())}:
            warn_user(
                f"segments: {'; '.join(said)}. All further nodes of these score the same; "
                "max_length sets other limits"
            )
        self.limits_, self.tails_ = limits, np.array(tails, dtype=np.int64)
        is_table, most = self.lengths == "table", self._longest
        check_memory(
            _BYTES * most * (limits.size if is_table else 1),
            f"max_length: scores of lengths up to {most:,} nodes of {limits.size} kinds",
            "lower it" + ' or take lengths="curve"' * is_table,
        )

    @property
    def _longest(self):
        """Number of nodes of the longest piece of a segment."""
        if not hasattr(self, "limits_"):
            raise ValueError(f"{self}: lengths are those of training labels, and there are none")
        return max(int(self.limits_.max()), 1)

    def _faults(self, codes, samples, classes):
        """Mask of the nodes at which what begins is no segment."""
        found = Segments.of(codes, samples.offsets, self._kinds(classes), self.limits_ == 0)
        most = np.where(self.limits_ > 0, self.limits_, codes.size)
        most[self.tails_] = codes.size
        found.is_wrong[found.start] |= found.length > most[found.kind]
        return found.is_wrong

    def is_labelling(
        self, codes: np.ndarray, samples: SegmentNodes, classes: np.ndarray
    ) -> np.ndarray:
        """Whether the labels of each sample are those of segments, none of them too long."""
        wrong = self._faults(codes, samples, classes)
        return np.diff(np.append(0, np.cumsum(wrong))[samples.offsets]) == 0

    def why_no_labelling(
        self, codes: np.ndarray, samples: SegmentNodes, classes: np.ndarray, i: int
    ) -> str:
        """Where the first segment of sample i that is wrong begins."""
        t = self._faults(codes, samples, classes)[samples.offsets[i] :].argmax()
        code = codes[samples.offsets[i] + t]
        label, kinds = np.asarray(classes)[code].item(), self._kinds(classes)
        if kinds.role[code] == FURTHER:
            return f"has {label!r} at node {t}, but no segment that it goes on with"
        most = f"at most {self.limits_[kinds.of_label[code]]} nodes (max_length)"
        return f"has {label!r} at node {t}, where no segment of {most} begins"

    # The problem

    def pair_mask(self, classes: Any) -> np.ndarray:
        """-inf, too, where a kind would follow itself: runs are as long as they can be."""
        kinds = self._kinds(classes)
        mask = transition_mask(self.forbidden, kinds.names).pairs
        return np.where(np.diag((self.limits_ > 0) & ~kinds.role.any()), -math.inf, mask)

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, those of segments, intercept) x labels; steps, lengths and tails in a row."""
        n_rows = samples.features.shape[1] + self.n_end_rows + bool(fit_intercept)
        width = n_shared(self._n_lengths(), self.limits_.size, self.tails_.size)
        return (n_rows, n_classes), (1, width)

    def _n_lengths(self):
        """Number of weights of lengths of each kind."""
        check_choice("lengths", self.lengths, get_args(Lengths))
        return self._longest if self.lengths == "table" else 2

    def _basis(self):
        """Functions of the length; none if each has a weight of its own."""
        if self.lengths == "table":
            return np.empty((self._longest, 0))
        size = np.arange(1.0, self._longest + 1)
        return np.column_stack([size / size.size, np.log(size)])

    def make_problem(
        self,
        samples: SegmentNodes,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem; true segments are checked against `forbidden`."""
        shapes = self.weight_shapes(samples, len(classes), fit_intercept)
        kinds, limits, offsets = self._kinds(classes), self.limits_, samples.offsets
        mask, n = transition_mask(self.forbidden, kinds.names), samples.lengths.size
        if codes is not None and self.forbidden is not None:
            start = Segments.of(codes, offsets, kinds, limits == 0).start
            start = start[~np.isin(start, offsets)]
            steps = kinds.of_label[codes], start - 1, start, offsets, kinds.names
            check_steps(mask, *steps)
            check_ends(mask, *steps)
        if mask.bounds_ends:
            ends = mask._replace(start=mask.start[kinds.of_label], stop=mask.stop[kinds.of_label])
            allowed = allowed_at_ends(ends, offsets, allowed)
        table = self.pair_mask(classes), self._basis(), longest_item(offsets)
        own = segment_table(kinds, limits, self.tails_, *table)
        nodes, row_ptr = self._rows(samples, shapes[0][0], fit_intercept, codes is not None)
        grams = ()
        if codes is not None:
            grams = gram_of(nodes, row_ptr, shapes[0][0]), gram_of_constant(n, 1)
        shared = {"edges": constant_rows(nodes, 1), "n_tables": np.ones(n, dtype=np.int64)}
        rows = BlockRows.of(nodes, row_ptr, shapes, **shared, grams=grams)
        part_ptr = ends_of(rows.n_parts)
        space = SegmentSpace(
            part_ptr=part_ptr,
            label_ptr=offsets,
            allowed=node_mask(allowed, len(classes)),
            own=own,
            work=segment_scratch(own, part_ptr, offsets, n_best),
        )
        target = node_target(classes, codes, loss, offsets)
        return Problem.of(rows, space, target, target.labels)

    def _rows(self, samples, n_rows, fit_intercept, for_training):
        """Feature rows of nodes and of segments, sample by sample, and where samples begin."""
        if self.segment_features is None:
            rows = feature_rows(samples.features, n_rows, fit_intercept, for_training)
            return rows, samples.offsets
        found, lengths = [], samples.lengths
        for i, n in enumerate(lengths.tolist()):
            stop, size = np.nonzero(np.tri(n, self._longest, dtype=bool))
            stop += 1
            own = self._features_of(samples.given, i, stop - size - 1, stop)
            found.append(sparse.csr_matrix(own))
        segments = sparse.vstack([sparse.csr_matrix((0, self.n_segment_features_)), *found])
        nodes = samples.features
        if sparse.issparse(nodes):  # SciPy wants one type of indices
            nodes = sparse.csr_matrix((nodes.data, nodes.indices, nodes.indptr), nodes.shape)
        # The intercept is a column of its own, since segments have none.
        ones = [sparse.csr_matrix(np.ones((nodes.shape[0], 1)))] if fit_intercept else []
        blocks = [[nodes, None, *ones], [None, segments, *(None for _ in ones)]]
        counts, each = n_segments(lengths, self._longest), np.arange(lengths.size)
        order = np.argsort(np.repeat([*each, *each], [*lengths, *counts]), kind="stable")
        matrix = normal_csr(sparse.bmat(blocks, format="csr")[order])
        return feature_rows(matrix, n_rows, False), ends_of(lengths + counts)

    def _features_of(self, given, i, start, stop):
        """Features of segments of sample i, (n_segments, n_segment_features)."""
        shape = (self.n_segment_features_,)
        if self.segment_features is True:
            most, longest = given[i].shape[1], (stop - start).max()
            if most < longest:
                raise ValueError(
                    f"X: sample {i} has features of segments of at most {most} nodes, but segments "
                    f"may have {longest} (max_length)"
                )
            rows = given[i][start, stop - start - 1]
        else:
            places = zip(start.tolist(), stop.tolist(), strict=True)
            rows = [self.segment_features(given[i], *place) for place in places]
        if _are_finite(rows, (len(rows), *shape)):
            return np.array(rows, dtype=np.float64)
        q = next(q for q, row in enumerate(rows) if not _are_finite(row, shape))
        raise ValueError(
            f"segment_features: sample {i}, start {start[q]}, stop {stop[q]}: expected "
            f"{shape[0]} finite numbers, got {rows[q]!r}"
        )

    # Weights and outputs

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (kind, next kind)."""
        n = self.limits_.size
        return pair_weights[0, : n * n].reshape(n, n)

    def pair_names(self, classes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Kinds of segments."""
        return (self._kinds(classes).names,) * 2

    def other_terms(self, estimator: BaseEstimator, codes: np.ndarray, samples: Any) -> Iterator:
        """Terms of segments, each at the node where it begins, with the kind before it."""
        kinds, n = self._kinds(estimator.classes_), self.limits_.size
        found = Segments.of(codes, samples.offsets, kinds, self.limits_ == 0)
        size = np.where(self.limits_ > 0, self.limits_, 1)[found.kind]
        size = np.minimum(found.length, size)
        names, steps = kinds.names.tolist(), self.pair_tables(estimator.pair_weights_, n)
        weights, before = self.length_weights(estimator), None
        each = zip(*found[:3], size, found.length - size, strict=True)
        if self.segment_features is not None:
            rows = self._features_of(samples.given, 0, found.start, found.start + size)
        for q, (start, _, kind, length, more) in enumerate(each):
            if before is not None:
                yield start, names[before], "<transition>", 1.0, steps[before, kind]
            if self.limits_[kind] > 0:
                yield start, "", f"<length {length}>", 1.0, weights[names[kind]][length - 1]
            if more:
                yield start, "", "<further nodes>", float(more), weights[names[kind]][-1]
            for j in np.flatnonzero(rows[q]) if self.segment_features is not None else ():
                weight = estimator.boundary_coef_[j, kinds.first[kind]]
                yield start, "", self.end_names[j], rows[q, j], weight
            before = kind

    def length_weights(self, estimator: BaseEstimator) -> dict:
        """Scores of the lengths of segments.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted, with this structure as its ``graph_``.

        Returns
        -------
        dict
            For each kind an array of the scores of 1, 2, ... nodes, up to its limit; where longer
            segments are possible, one more number: the score of each further node. Nothing for
            kinds of single nodes.
        """
        estimator = innermost(estimator)[1]
        n, n_lengths, basis = self.limits_.size, self._n_lengths(), self._basis()
        weights = estimator.pair_weights_[0, n * n :]
        tables = weights[: n * n_lengths].reshape(n, n_lengths)
        tables = tables if self.lengths == "table" else tables @ basis.T
        further = dict(zip(self.tails_.tolist(), weights[n * n_lengths :, None], strict=True))
        return {
            name: np.append(tables[c, : self.limits_[c]], further.get(c, ()))
            for c, name in enumerate(self._kinds(estimator.classes_).names.tolist())
        }

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Labels by value; steps, lengths and tails by their kinds."""
        node, _ = super().kept_columns(previous, classes, previous_classes)
        before = previous._columns(previous_classes)
        return node, kept_positions(before, self._columns(classes))

    def _columns(self, classes):
        """What each column of the pair table is for."""
        names, n = self._kinds(classes).names.tolist(), self._n_lengths()
        steps = [("step", a, b) for a in names for b in names]
        lengths = [(self.lengths, a, m) for a in names for m in range(n)]
        return steps + lengths + [("tail", names[c]) for c in self.tails_.tolist()]

    def answers(self, codes: np.ndarray, classes: Any, samples: SegmentNodes) -> np.ndarray:
        """Labels, or lists of segments where y had them in fit."""
        if not self.is_listed_:
            return super().answers(codes, classes, samples)
        return listed_segments(codes, samples.offsets, self._kinds(classes))

    def ranked(self, codes: np.ndarray, classes: Any, samples: SegmentNodes, i: int) -> np.ndarray:
        """The same for the labellings of one sample."""
        if not self.is_listed_:
            return super().ranked(codes, classes, samples, i)
        ends = np.arange(len(codes) + 1) * codes.shape[1]
        return listed_segments(codes.ravel(), ends, self._kinds(classes))

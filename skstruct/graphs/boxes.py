"""Boxes: the location of an object in an image."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from ..core.arguments import warn_user
from ..core.offsets import ends_of
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.boxes import LARGEST, overlaps, read_positions
from ..data.matrices import csr_from_parts, numeric
from ..data.packing import as_list, pack_nodes, packed
from ..inference.subwindow import ALL_OR_NOTHING, OVERLAP, make_frontier, make_subwindows
from ..losses.task import NamedLoss
from ..spaces.boxes import BoxesData, BoxesScratch, BoxesSpace
from ..targets.boxes import BoxTarget
from ..targets.costs import NO_CODES
from .items import ItemGraph, targets_of

# Reading images, as maps or as points, and the boxes in them.

_EXPECTED = (
    "must be a map (height, width, n_features), a map (height, width) of integer codes, or a tuple "
    "(positions, features or codes, (height, width))"
)


@packed(nodes=("features", "places"), samples=("shapes", "gaps"))
class Points(NamedTuple):
    """Packed images."""

    # (n_points, n_features): A row a point.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the points of each sample begin.
    item_ptr: np.ndarray
    # (n_points, 2): Row and column of each.
    places: np.ndarray
    # (n_samples, 2): Heights and widths.
    shapes: np.ndarray
    # (n_samples,): Receives the possible suboptimality of boxes.
    gaps: np.ndarray

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the labels of each sample: four per sample."""
        return 4 * np.arange(self.item_ptr.size, dtype=np.int64)


def read_points(X, n_codes: int | None, least: int) -> Points:
    """Pack images."""
    values, places, shapes = [], [], []
    for i, item in enumerate(as_list(X, "X")):
        where = f"X: sample {i}"
        read = _read_points(item, where) if isinstance(item, tuple) else _read_map(item, where)
        for into, part in zip((values, places, shapes), read, strict=True):
            into.append(part)
        if min(shapes[i]) < least:
            raise ValueError(
                f"{where} has {shapes[i][0]} x {shapes[i][1]} pixels: there is no box with sides "
                f"of min_size={least}"
            )
        if values[i].ndim != values[0].ndim:
            kinds = ("features", "codes") if values[0].ndim == 2 else ("codes", "features")
            raise ValueError(f"{where} must have {kinds[0]} like sample 0, it has {kinds[1]}")
    if values[0].ndim == 2:
        features, item_ptr = pack_nodes(values, "X")
    else:
        features, item_ptr = _one_hot(values, n_codes)
    return Points(
        features,
        item_ptr,
        np.concatenate(places).astype(np.int32),
        np.array(shapes, dtype=np.int64),
        np.zeros(len(shapes)),
    )


def _read_map(item, where):
    """Values, places and shape of a map, dense."""
    array = None if sparse.issparse(item) else numeric(item, where)
    if array is None or array.ndim not in (2, 3) or (array.ndim == 2 and array.dtype.kind == "f"):
        got = "a sparse matrix" if array is None else f"an array {array.shape} of {array.dtype}"
        raise ValueError(f"{where} {_EXPECTED}, got {got}")
    height, width = array.shape[:2]
    if height == 0 or width == 0:
        raise ValueError(f"{where} is an image of {height} x {width} pixels: it has no box")
    places = np.indices((height, width)).reshape(2, -1).T
    values = array.reshape(height * width, *array.shape[2:])
    return _codes(values, where) if array.ndim == 2 else values, places, (height, width)


def _read_points(item, where):
    """Values, places and shape of points."""
    if len(item) != 3:
        raise ValueError(f"{where} {_EXPECTED}, got a tuple of {len(item)}")
    positions, values, shape = item
    positions, shape = read_positions(positions, shape, where)
    if not sparse.issparse(values):
        values = numeric(values, where)
        values = _codes(values, where) if values.ndim == 1 else values
    if values.shape[0] != len(positions):
        raise ValueError(
            f"{where} has {len(positions)} positions, but {values.shape[0]} rows of features or "
            "codes"
        )
    return values, positions, shape


def _codes(values, where):
    """Integer codes."""
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{where}: codes must be integers, their dtype is {values.dtype}")
    if values.min() < 0:
        raise ValueError(f"{where} has the code {values.min()}: codes begin with 0")
    if values.max() >= LARGEST:
        raise ValueError(f"{where} has the code {values.max()}: codes must be below {LARGEST}")
    return values.astype(np.int64)


def _one_hot(values, n_codes):
    """One row per point, with a 1 at its code."""
    largest = [int(codes.max(initial=-1)) for codes in values]
    if n_codes is None:
        n_codes = max(largest) + 1
    for i, code in enumerate(largest):
        if code >= n_codes:
            raise ValueError(f"X: sample {i} has the code {code}, but there are {n_codes} codes")
    codes = np.concatenate(values).astype(np.int32)
    rows = csr_from_parts(
        (codes.size, n_codes), np.ones(codes.size), codes, np.arange(codes.size + 1, dtype=np.int64)
    )
    return rows, ends_of(np.array([len(part) for part in values]))


def read_truth(y, shapes: np.ndarray) -> np.ndarray:
    """Flat labels (top, left, bottom, right) of all samples."""
    items = targets_of(y, len(shapes))
    boxes = np.empty((len(items), 4), dtype=np.int64)
    for i, (item, (height, width)) in enumerate(zip(items, shapes.tolist(), strict=True)):
        box = numeric(item, f"y: sample {i}")
        if box.shape != (4,) or not np.isfinite(box).all() or (box != np.floor(box)).any():
            raise ValueError(
                f"y: sample {i} must be a box of whole numbers (xmin, ymin, xmax, ymax), got "
                f"{item!r}"
            )
        xmin, ymin, xmax, ymax = box.tolist()
        if not (xmin < xmax and ymin < ymax):
            raise ValueError(
                f"y: sample {i} is an empty box, (xmin, ymin, xmax, ymax) = {tuple(box.tolist())}"
            )
        if xmin < 0 or ymin < 0 or xmax > width or ymax > height:
            raise ValueError(
                f"y: sample {i} is a box outside its image of {height} x {width} pixels, "
                f"(xmin, ymin, xmax, ymax) = {tuple(box.tolist())}"
            )
        boxes[i] = ymin, xmin, ymax, xmax
    return boxes.ravel()


__all__ = ["Boxes"]

_LOSSES = {"hamming": ALL_OR_NOTHING, "iou": OVERLAP}

# Of the overlap with the true box: less is no detection (Everingham et al. 2010, The PASCAL visual
# object classes challenge, section 4.2).
_DETECTED = 0.5

_TO_USERS = [1, 0, 3, 2]

# Of an image: a search takes 32 bytes a cell, 4 GB.
_MOST_CELLS = 2**27


class Boxes(ItemGraph):
    """Box around an object, whose score is the sum of the scores of the points inside.

    A sample of X is an image: a map (height, width, n_features); a map (height, width) of integer
    codes, which stand for indicator features (visual words); or a tuple (positions, values,
    (height, width)) of points at integer positions (row, column), with values (n_points,
    n_features), dense or CSR, or (n_points,) integer codes. A sample of y is a box (xmin, ymin,
    xmax, ymax) of whole pixels, half-open, so that its width is xmax - xmin. Read more in the
    :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    min_size : int, default=1
        Minimum width and height of a box, in pixels.
    stride : int, default=1
        Boxes begin and end at multiples of `stride`, or at the far end of the image.
    max_expansions : int, default=None
        Maximum number of sets of boxes that a prediction may split per image; a search that reaches
        it warns. By default the search ends at the best box. Training has no such limit.
    n_codes : int, default=None
        Number of codes, by default one more than the largest in fit.

    See Also
    --------
    Candidates : One of several boxes that are given.

    Notes
    -----
    Branch and bound on sets of boxes [1]_ [2]_ searches all boxes on the lines of `stride` exactly,
    also with the loss. The loss-augmented search includes a true box that is not on the lines, or
    smaller than `min_size`, so that the hinge is at least 0.

    With ``loss="iou"`` the task loss is ``1 - IoU`` with the true box [3]_; with "hamming" every
    other box costs 1. Neither is a sum over points: BCFWSSVM, SubgradientSSVM and CasimirSSVM with
    L2 smoothing train with them, other estimators raise an error. ``score`` is the fraction of
    samples with an overlap of at least 0.5, ``decision_function`` returns the best score and its
    margin over the second best box, which usually differs by one line.

    References
    ----------
    .. [1] Lampert, Blaschko, Hofmann (2008). Beyond sliding windows: object localization by
       efficient subwindow search. CVPR, section 2.
    .. [2] An, Peursum, Liu, Venkatesh (2009). Efficient algorithms for subwindow search in object
       detection and localization. CVPR, section 3.
    .. [3] Blaschko, Lampert (2008). Learning to localize objects with structured output regression.
       ECCV, sections 3.1 and 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Boxes
    >>> rng = np.random.default_rng(0)
    >>> X, y = [], []
    >>> for left, top in [(1, 2), (4, 0), (3, 3), (0, 1)]:
    ...     codes = rng.integers(0, 2, size=(8, 9))
    ...     codes[top : top + 4, left : left + 5] += 2
    ...     X.append(codes)
    ...     y.append([left, top, left + 5, top + 4])
    >>> svm = BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, y)
    >>> svm.score(X, y)
    1.0
    """

    takes = "images: expected a list of maps (height, width, n_features), or of tuples of points"

    def __init__(
        self,
        min_size: int = 1,
        stride: int = 1,
        max_expansions: int | None = None,
        n_codes: int | None = None,
    ) -> None:
        self.min_size = min_size
        self.stride = stride
        self.max_expansions = max_expansions
        self.n_codes = n_codes

    def _check_parameters(self):
        for name in ("min_size", "stride", "max_expansions", "n_codes"):
            value, optional = getattr(self, name), name in ("max_expansions", "n_codes")
            if optional and value is None:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                also = " or None" if optional else ""
                raise ValueError(f"{name} must be an integer of at least 1{also}, got {value!r}")
            if value > LARGEST:
                raise ValueError(f"{name} must be at most {LARGEST}, got {value!r}")

    def _check_cells(self, shapes):
        """Raise ValueError for images with too many cells between the lines."""
        large = np.flatnonzero((-(-shapes // self.stride)).prod(axis=1) > _MOST_CELLS)
        if large.size:
            height, width = shapes[large[0]].tolist()
            raise ValueError(
                f"X: sample {large[0]} has {height} x {width} pixels: with stride={self.stride} "
                f"boxes end at the borders of more than {_MOST_CELLS} cells; use a larger stride"
            )

    # Reading

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Points:
        """Pack the points of images."""
        self._check_parameters()
        n_codes = self.n_codes if reset else estimator.n_features_in_
        samples = read_points(X, n_codes, self.min_size)
        self._check_cells(samples.shapes)
        return self._counted(samples, estimator, reset)

    def no_samples(self, estimator: BaseEstimator) -> Points:
        """No samples."""
        none = np.empty((0, 2), dtype=np.int64)
        features, item_ptr = np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64)
        return Points(features, item_ptr, none.astype(np.int32), none, np.empty(0))

    def read_y(self, y: SamplesLike, samples: Points) -> np.ndarray:
        """Top, left, bottom and right of the boxes."""
        return read_truth(y, samples.shapes)

    def chosen_items(self, codes: np.ndarray, samples: Points) -> np.ndarray:
        """Mask of the points inside."""
        n_points = np.diff(samples.item_ptr)
        first, last = np.repeat(codes.reshape(-1, 2, 2), n_points, axis=0).transpose(1, 0, 2)
        return ((samples.places >= first) & (samples.places < last)).all(axis=1)

    def labels_per_node(self, classes: Any) -> int:
        """Beyond any pixel."""
        return int(np.iinfo(np.int32).max)

    def read_allowed(self, allowed: Any, samples: Points, classes: Any) -> np.ndarray:
        """Raise ValueError: a box has no labels that could be forbidden individually."""
        raise ValueError("allowed: Boxes() has no constrained decoding; use min_size and stride")

    # Problems

    def make_problem(
        self,
        samples: Points,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem."""
        loss, name = loss if isinstance(loss, NamedLoss) else (loss, "loss")
        if not isinstance(loss, str) or loss not in _LOSSES:
            raise ValueError(f"{name} of boxes must be 'hamming' (0 or 1) or 'iou', got {loss!r}")
        make, fields = self._parts(samples, fit_intercept, codes, allowed, 0)
        stride, row, column = self.stride, samples.places[:, 0], samples.places[:, 1]
        cells = -(-samples.shapes // stride)
        across = np.repeat(cells[:, 1], np.diff(samples.item_ptr))
        predicting = codes is None and self.max_expansions is not None
        own = BoxesData(
            np.ascontiguousarray(row),
            np.ascontiguousarray(column),
            ((row // stride) * across + column // stride).astype(np.int32),
            samples.shapes,
            samples.gaps,
            int(stride),
            int(self.min_size),
            int(self.max_expansions) if predicting else -1,
        )
        largest = *cells.max(axis=0, initial=0).tolist(), int(cells.prod(axis=1).max(initial=0))
        work = BoxesScratch(make_subwindows(*largest), make_frontier(max(n_best, 1)), np.zeros(1))
        target = BoxTarget(NO_CODES if codes is None else codes, _LOSSES[loss])
        return make(space=BoxesSpace(**fields, own=own, work=work), target=target)

    # Answers

    def _warn_of_cut(self, gaps, first):
        """Warn of searches that were cut."""
        cut = np.flatnonzero(gaps > 0)
        if cut.size:
            names = ", ".join(str(first + i) for i in cut[:10].tolist())
            names += ", ..." if cut.size > 10 else ""
            warn_user(
                f"max_expansions={self.max_expansions} cut the search for boxes in sample"
                f"{'s' if cut.size > 1 else ''} {names}: a better one may score up to "
                f"{gaps[cut].max():.3g} more",
                ConvergenceWarning,
            )

    def answers(self, codes: np.ndarray, classes: Any, samples: Points) -> np.ndarray:
        """Boxes (xmin, ymin, xmax, ymax), a row per sample."""
        self._warn_of_cut(samples.gaps, 0)
        return codes.reshape(-1, 4)[:, _TO_USERS].astype(np.int64)

    def ranked(self, codes: np.ndarray, classes: Any, samples: Points, i: int) -> np.ndarray:
        """Boxes of one sample, a row each, best first."""
        self._warn_of_cut(samples.gaps[i : i + 1], i)
        return codes[:, _TO_USERS].astype(np.int64)

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: Points,
        weight: np.ndarray | None,
    ) -> float:
        """Fraction of samples whose box overlaps the true one by half."""
        self._warn_of_cut(samples.gaps, 0)
        both = overlaps(*(codes.reshape(-1, 4).astype(float) for codes in (predicted, truth)))
        return float(np.average(both >= _DETECTED, weights=weight))

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random maps, or points with codes."""
        shapes = [(3, 2), (2, 4), (1, 3)]
        y = [[0, 1, 1, 3], [1, 0, 3, 2], [0, 0, 3, 1]]
        if not sparse_X:
            return [rng.normal(size=(*shape, 3)) for shape in shapes], y
        X = []
        for shape in shapes:
            places = np.column_stack([rng.integers(side, size=4) for side in shape])
            X.append((places, sparse.csr_matrix(np.eye(3)[rng.integers(3, size=4)]), shape))
        return X, y

"""Boxes: where in an image the object is."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from ...data.boxes import overlaps
from ...data.packing import check_n_features
from ...inference.branch_and_bound import make_frontier
from ...inference.subwindow import ALL_OR_NOTHING, NO_LOSS, OVERLAP, make_subwindows
from ...losses.task import NamedLoss
from ...typing import LossLike, SamplesLike
from ..items.fields import ItemGraph
from .inputs import LARGEST, Points, no_points, read_points, read_truth
from .kernels import BoxesData, BoxesProblem, BoxesScratch

__all__ = ["Boxes", "BoxesProblem"]

_LOSSES = {"hamming": ALL_OR_NOTHING, "iou": OVERLAP}

# Of the overlap with the true box: less is no detection (Everingham et al. 2010, The PASCAL visual
# object classes challenge, section 4.2).
_DETECTED = 0.5

_TO_USERS = [1, 0, 3, 2]

# Of an image: a search takes 32 bytes a cell, 4 GB.
_MOST_CELLS = 2**27


class Boxes(ItemGraph):
    """The box around an object: the score of a box is the sum of the scores of the points inside.

    A sample of X is an image: a map (height, width, n_features); a map (height, width) of integer
    codes, which stand for indicator features (visual words); or a tuple (positions, values,
    (height, width)) of points at integer positions (row, column), with values (n_points,
    n_features), dense or CSR, or (n_points,) integer codes. A sample of y is a box (xmin, ymin,
    xmax, ymax) of whole pixels, half-open, so that its width is xmax - xmin.

    Parameters
    ----------
    min_size : int, default=1
        Least pixels of a box's width and height.
    stride : int, default=1
        Boxes begin and end at multiples of this, or at the far end of the image.
    max_expansions : int, default=None
        How many sets of boxes predictions may split, an image. By default as many as it takes for
        the best box; with a limit, a search that is cut warns. Training is never cut.
    n_codes : int, default=None
        How many codes there are, by default one more than the largest in fit.

    See Also
    --------
    Candidates : One of several boxes that are given.

    Notes
    -----
    All boxes on the lines of `stride` are searched, by branch and bound on sets of boxes [1]_ [2]_:
    exact, also with the loss. A true box that is not on the lines, or smaller than `min_size`, is
    one more box that the loss-augmented search looks at, so that the hinge is at least 0.

    With ``loss="iou"`` structural SVMs count ``1 - IoU`` with the true box [3]_; with "hamming"
    every box but the true one costs 1. Neither adds up over points: BCFWSSVM, SubgradientSSVM and
    CasimirSSVM with L2 smoothing train with them, others say that they cannot. ``score`` is the
    share of samples with an overlap of at least 0.5, ``decision_function`` has the best score and
    its lead over the second best box, which mostly differs from the best by a line.

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
        """Refuse images with more cells between the lines than a search has room for."""
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
        if reset:
            estimator.n_features_in_ = samples.features.shape[1]
        name = type(estimator).__name__
        check_n_features(samples.features.shape[1], estimator.n_features_in_, name)
        return samples

    def no_samples(self, estimator: BaseEstimator) -> Points:
        """No samples."""
        return no_points(estimator.n_features_in_)

    def read_y(self, y: SamplesLike, samples: Points) -> np.ndarray:
        """Top, left, bottom and right of the boxes."""
        return read_truth(y, samples.shapes)

    def chosen_items(self, codes: np.ndarray, samples: Points) -> np.ndarray:
        """Mask of the points inside."""
        n_points = np.diff(samples.item_ptr)
        first, last = np.repeat(codes.reshape(-1, 2, 2), n_points, axis=0).transpose(1, 0, 2)
        return ((samples.places >= first) & (samples.places < last)).all(axis=1)

    def n_states(self, classes: Any) -> int:
        """Beyond any pixel."""
        return int(np.iinfo(np.int32).max)

    def read_allowed(self, allowed: Any, samples: Points, classes: Any) -> np.ndarray:
        """Refused: a box has no labels that could be forbidden one by one."""
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
    ) -> NamedTuple:
        """Build the problem."""
        loss, name = loss if isinstance(loss, NamedLoss) else (loss, "loss")
        if not isinstance(loss, str) or loss not in _LOSSES:
            raise ValueError(f"{name} of boxes must be 'hamming' (0 or 1) or 'iou', got {loss!r}")
        fields, tables = self._fields(samples, fit_intercept, codes, None, allowed, 0)
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
            NO_LOSS if codes is None else _LOSSES[loss],
            int(self.max_expansions) if predicting else -1,
        )
        largest = *cells.max(axis=0, initial=0).tolist(), int(cells.prod(axis=1).max(initial=0))
        work = BoxesScratch(
            tables, make_subwindows(*largest), make_frontier(8, max(n_best, 1)), np.zeros(1)
        )
        return BoxesProblem(**fields, own=own, work=work)

    # Answers

    def _warn_of_cut(self, gaps, first):
        """Say which searches did not come to an end."""
        cut = np.flatnonzero(gaps > 0)
        if cut.size:
            names = ", ".join(str(first + i) for i in cut[:10].tolist())
            names += ", ..." if cut.size > 10 else ""
            warnings.warn(
                f"max_expansions={self.max_expansions} cut the search for boxes in sample"
                f"{'s' if cut.size > 1 else ''} {names}: a better one may score up to "
                f"{gaps[cut].max():.3g} more",
                ConvergenceWarning,
                stacklevel=5,
            )

    def answers(self, codes: np.ndarray, classes: Any, samples: Points) -> np.ndarray:
        """Boxes (xmin, ymin, xmax, ymax), a row a sample."""
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
        """Share of samples whose box overlaps with the true one by half.

        Parameters
        ----------
        predicted : ndarray of shape (n_nodes,) of int32
            The best labellings.
        truth : ndarray of shape (n_nodes,) of int32
            The labels that :meth:`read_y` has read.
        samples : NamedTuple
            The packed samples.
        weight : ndarray of shape (n_samples,) or None
            Weights of samples.

        Returns
        -------
        float
            The score, weighted.

        See Also
        --------
        Graph.score : What it overrides, with an example.
        """
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

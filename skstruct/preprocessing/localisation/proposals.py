"""BoxProposals: from points with visual words to candidates, one a box of a sliding grid."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ...data.packing import as_list, is_empty_list
from ...data.ragged import object_array
from ...typing import SamplesLike
from ..ragged_transformer import RaggedTransformer
from .patches import integral

_GEOMETRY = ("area", "root_area", "height", "width", "tall", "from_middle_x", "from_middle_y")


class BoxProposals(RaggedTransformer, BaseEstimator):
    """Turn points into candidates: the boxes of a sliding grid, with histograms of what is inside.

    The boxes are all pairs of a vertical and a horizontal interval. Intervals have `n_sizes`
    lengths, from `smallest` of the side of the image to all of it, each a constant multiple of the
    one before; they begin about `step` of their length apart. The defaults make 36 intervals a
    side, 1,296 boxes.

    Parameters
    ----------
    smallest : float, default=0.2
        Length of the shortest intervals as a share of the side of the image, at most 1.
    n_sizes : int, default=6
        Number of lengths; with 1 only `smallest`.
    step : float, default=1/3
        How far intervals of one length lie apart, as a share of it.
    levels : int, default=1
        Level k cuts a box into k x k parts of equal size with a histogram each.

    Attributes
    ----------
    n_words_ : int
        Number of words of the points.

    See Also
    --------
    PatchWords : From images to points.
    skstruct.Candidates : Which of the boxes is right; its loss "iou" compares them.

    Notes
    -----
    A histogram has the square roots of the shares of the words, so its length is 1, or 0 where
    there is no point (Hellinger's kernel). Seven more features tell where the box lies and how
    large it is, as shares of the image. The table of an image is dense: number of boxes times
    number of features times 8 bytes.

    References
    ----------
    K. van de Sande, J. Uijlings, T. Gevers, A. Smeulders: Segmentation as selective search for
    object recognition. ICCV 2011, section 4: histograms of proposals, cut into parts.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.preprocessing import BoxProposals, PatchWords
    >>> images = [np.random.default_rng(0).random((20, 24, 3))]
    >>> points = PatchWords(n_colours=2, n_edges=3, random_state=0).fit_transform(images)
    >>> table, boxes = BoxProposals().fit_transform(points)[0]
    >>> table.shape, boxes.shape
    ((1296, 12), (1296, 4))
    """

    def __init__(
        self, smallest: float = 0.2, n_sizes: int = 6, *, step: float = 1 / 3, levels: int = 1
    ) -> None:
        self.smallest = smallest
        self.n_sizes = n_sizes
        self.step = step
        self.levels = levels

    def fit_transform(self, X: SamplesLike, y: Any = None) -> np.ndarray:
        """Check the parameters, then transform.

        Parameters
        ----------
        X : list of tuples (positions, words, (height, width))
            Points, as :class:`PatchWords` puts them out.
        y : object, default=None
            Ignored.

        Returns
        -------
        object array of shape (n_samples,)
            A tuple (features, boxes) an image: (n_boxes, n_features) and (n_boxes, 4), (xmin, ymin,
            xmax, ymax).

        Raises
        ------
        ValueError
            If a sample is no such tuple (names it), or a parameter is out of range.
        """
        for name in ("n_sizes", "levels"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        for name in ("smallest", "step"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}"
                )
        images = [_read(sample, i) for i, sample in enumerate(as_list(X, "X"))]
        self.n_words_ = images[0][1].shape[1]
        return self._transform(images)

    def transform(self, X: SamplesLike) -> np.ndarray:
        """Boxes of the grid, with their features.

        Parameters
        ----------
        X : list of tuples (positions, words, (height, width))
            Points, as :class:`PatchWords` puts them out.

        Returns
        -------
        object array of shape (n_samples,)
            A tuple (features, boxes) an image: (n_boxes, n_features) and (n_boxes, 4), (xmin, ymin,
            xmax, ymax).

        Raises
        ------
        ValueError
            If a sample is no such tuple, or has another number of words than those of `fit`.
        """
        check_is_fitted(self)
        samples = [] if is_empty_list(X) else as_list(X, "X")
        return self._transform([_read(sample, i) for i, sample in enumerate(samples)])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the features.

        Parameters
        ----------
        input_features : array-like of str of shape (n_words,), default=None
            Names of the words; default "word0" and so on.

        Returns
        -------
        ndarray of str of shape (n_features,)
            The names.

        Raises
        ------
        ValueError
            If there are more or fewer names than words.
        """
        check_is_fitted(self)
        words = [f"word{k}" for k in range(self.n_words_)]
        if input_features is not None:
            words = [str(name) for name in input_features]
            if len(words) != self.n_words_:
                raise ValueError(f"there are {self.n_words_} words, but {len(words)} names")
        names = list(words)
        for level in range(2, self.levels + 1):
            places = [(r, c) for r in range(level) for c in range(level)]
            names += [f"{word}[{level}:{r},{c}]" for r, c in places for word in words]
        return np.array([*names, *_GEOMETRY], dtype=object)

    def _intervals(self):
        """First and last end of the intervals, shares of a side."""
        n, ends = int(self.n_sizes), []
        ratio = self.smallest ** (1.0 / (n - 1)) if n > 1 else 1.0
        for k in range(n):
            length = self.smallest / ratio**k if k < n - 1 or n == 1 else 1.0
            count = 1 + int(np.ceil((1.0 - length) / (self.step * length) - 1e-9))
            starts = np.linspace(0.0, 1.0 - length, count)
            ends += [(start, start + length) for start in starts.tolist()]
        return np.array(ends)

    def _transform(self, images):
        intervals = self._intervals()
        n = len(intervals)
        rows, columns = np.repeat(intervals, n, axis=0), np.tile(intervals, (n, 1))
        shares = np.column_stack([columns[:, 0], rows[:, 0], columns[:, 1], rows[:, 1]])
        out = []
        for i, (positions, words, size) in enumerate(images):
            if words.shape[1] != self.n_words_:
                raise ValueError(f"X: image {i} has {words.shape[1]} words, not {self.n_words_}")
            boxes = shares * np.tile(size[::-1], 2)
            counts = _Counts(positions, words)
            tables = [
                table
                for level in range(1, self.levels + 1)
                for table in _histograms(counts, boxes, level)
            ]
            out.append((np.column_stack([*tables, _geometry(shares, size)]), boxes))
        return object_array(out)


class _Counts:
    """How often each word is shown in a box, by sums over rectangles of the grid of points."""

    def __init__(self, positions, words):
        self.rows, row = np.unique(positions[:, 0], return_inverse=True)
        self.columns, column = np.unique(positions[:, 1], return_inverse=True)
        shape = self.rows.size, self.columns.size
        cell = sparse.csr_matrix(
            (np.ones(row.size), (row * shape[1] + column, np.arange(row.size))),
            (shape[0] * shape[1], row.size),
        )
        self.sums = integral((cell @ words).toarray().reshape(*shape, -1))

    def __call__(self, boxes):
        left, top, right, bottom = (
            np.searchsorted(lines, ends)
            for lines, ends in zip((self.columns, self.rows) * 2, boxes.T, strict=True)
        )
        sums = self.sums
        return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]


def _histograms(counts, boxes, level):
    """Roots of the shares of the words in each part of the boxes."""
    corner, size = boxes[:, :2], (boxes[:, 2:] - boxes[:, :2]) / level
    for r in range(level):
        for c in range(level):
            first, last = corner + size * [c, r], corner + size * [c + 1, r + 1]
            found = np.maximum(counts(np.concatenate([first, last], axis=1)), 0.0)
            total = found.sum(axis=1, keepdims=True)
            yield np.sqrt(found / np.where(total > 0.0, total, 1.0))


def _geometry(shares, size):
    """Size and place of boxes."""
    width, height = (shares[:, 2:] - shares[:, :2]).T
    middle = 0.5 * (shares[:, :2] + shares[:, 2:]) - 0.5
    tall = np.arctan2(height * size[0], width * size[1]) / (0.5 * np.pi)
    area = width * height
    return np.column_stack([area, np.sqrt(area), height, width, tall, np.abs(middle)])


def _read(sample, i):
    """Positions, words and size of a sample."""
    where = f"X: image {i}"
    if not isinstance(sample, tuple) or len(sample) != 3:
        raise ValueError(f"{where} must be a tuple (positions, words, (height, width))")
    positions, words, size = np.asarray(sample[0]), sample[1], sample[2]
    words = words if sparse.issparse(words) else np.asarray(words, dtype=np.float64)
    if words.ndim != 2 or positions.shape != (words.shape[0], 2):
        raise ValueError(
            f"{where} must have positions (n_points, 2) and words (n_points, n_words), got the "
            f"shapes {positions.shape} and {words.shape}"
        )
    if np.shape(size) != (2,) or min(size) < 1:
        raise ValueError(f"{where}: its size must be (height, width), got {size!r}")
    words = sparse.csr_matrix(words)
    if words.data.min(initial=0.0) < 0.0:
        raise ValueError(f"{where} counts a word less than 0 times")
    return positions, words, tuple(int(side) for side in size)

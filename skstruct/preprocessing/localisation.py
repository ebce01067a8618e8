"""PatchWords: images as points that show visual words."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, product
from math import isqrt
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.typing import RandomStateLike, SamplesLike
from ..data.boxes import read_positions
from ..data.matrices import as_configured, csr_from_parts, normal_csr, numeric
from ..data.ragged import object_array
from .ragged_transformer import RaggedTransformer, check_integers, samples_of

# A patch is described by its halves in both directions, edges by so many directions.
_CELLS, _DIRECTIONS = 2, 8

# Of a colour: sums over an image, and their squares, are finite.
_LARGEST = 1e100


class PatchWords(RaggedTransformer, BaseEstimator):
    """Transform images into points with visual words: clusters of the colours and edges of patches.

    Square patches are cut on a regular grid. Words are the clusters of their colours and those of
    their edges, found by k-means; the point at the middle of a patch has one of each. Strengths of
    gradients can be added, unclustered. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    n_colours : int, default=32
        Number of words for colours: means of the quarters of a patch. 0 for none.
    n_edges : int, default=64
        Number of words for edges: histograms of the gradients' directions in the quarters, of
        length 1. 0 for none.
    n_directions : int, default=0
        Number of directions for strengths of gradients: means over the `stride` pixels around a
        point, which no k-means rounds. 0 for none.
    patch_size : int, default=8
        Pixels of the side of a patch, at least 2.
    stride : int, default=4
        Pixels between patches.
    n_patches : int, default=20000
        Number of patches, drawn from all images, for the clustering.
    random_state : int, RandomState instance or None, default=None
        Controls the patches and the initial centres. Pass an int for reproducible results.

    Attributes
    ----------
    colours_, edges_ : KMeans or None
        The clusters.
    n_channels_ : int
        Number of channels of the images.

    See Also
    --------
    BoxProposals : From these points to sets of candidates.

    Notes
    -----
    The output suits :class:`~skstruct.Boxes`: one tuple (positions, words, (height, width)) per
    image, positions (row, column) of points as integers (n_points, 2), words a CSR matrix
    (n_points, n_colours + n_edges + n_directions): ones, and strengths of gradients.

    References
    ----------
    C. Lampert, M. Blaschko, T. Hofmann: Beyond sliding windows: object localization by efficient
    subwindow search. CVPR 2008, section 4.1: bags of visual words in boxes.

    N. Dalal, B. Triggs: Histograms of oriented gradients for human detection. CVPR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.preprocessing import PatchWords
    >>> images = [np.random.default_rng(0).random((20, 24, 3))]
    >>> words = PatchWords(n_colours=2, n_edges=3, random_state=0)
    >>> positions, codes, size = words.fit_transform(images)[0]
    >>> positions[:2].tolist(), codes.shape, size
    ([[4, 4], [4, 8]], (20, 5), (20, 24))
    """

    def __init__(
        self,
        n_colours: int = 32,
        n_edges: int = 64,
        *,
        n_directions: int = 0,
        patch_size: int = 8,
        stride: int = 4,
        n_patches: int = 20_000,
        random_state: RandomStateLike = None,
    ) -> None:
        self.n_colours = n_colours
        self.n_edges = n_edges
        self.n_directions = n_directions
        self.patch_size = patch_size
        self.stride = stride
        self.n_patches = n_patches
        self.random_state = random_state

    def _check_parameters(self):
        check_integers(self, n_colours=0, n_edges=0, n_directions=0)
        check_integers(self, patch_size=_CELLS, stride=1, n_patches=1)
        if not self.n_colours + self.n_edges + self.n_directions:
            raise ValueError("n_colours, n_edges and n_directions are 0: there are no words")

    def fit_transform(self, X: SamplesLike, y: Any = None) -> np.ndarray:
        """Find the words, and where images show them.

        Parameters
        ----------
        X : list of ndarray of shape (height, width, n_channels) or (height, width)
            The images; sizes may differ.
        y : object, default=None
            Ignored.

        Returns
        -------
        object array of shape (n_samples,)
            A tuple (positions, words, (height, width)) per image.

        Raises
        ------
        ValueError
            If an image is smaller than a patch, has other channels than the first or values that
            are not finite, or a parameter is out of range.
        """
        self._check_parameters()
        images = self._images(X, True)
        self.n_channels_ = images[0].shape[2]
        shown = [self._describe(image) for image in images]
        rng = check_random_state(self.random_state)
        n = sum(len(positions) for positions, *_ in shown)
        keep = rng.choice(n, min(n, self.n_patches), replace=False)
        found = []
        for k, n_words in enumerate((self.n_colours, self.n_edges), start=1):
            seed = rng.randint(np.iinfo(np.int32).max)
            rows = np.concatenate([patches[k] for patches in shown])[keep]
            if n_words > len(rows):
                raise ValueError(f"there are {len(rows)} patches for {n_words} words")
            means = KMeans(n_words, n_init=1, random_state=seed) if n_words else None
            found.append(None if means is None else means.fit(rows))
        self.colours_, self.edges_ = found
        return self._words(images, shown)

    def transform(self, X: SamplesLike) -> np.ndarray:
        """Find where images show the words.

        Parameters
        ----------
        X : list of ndarray of shape (height, width, n_channels) or (height, width)
            The images; sizes may differ.

        Returns
        -------
        object array of shape (n_samples,)
            A tuple (positions, words, (height, width)) per image.

        Raises
        ------
        ValueError
            If an image is smaller than a patch, has other channels than those of `fit` or values
            that are not finite.
        """
        check_is_fitted(self)
        self._check_parameters()
        images = self._images(X, False)
        return self._words(images, [self._describe(image) for image in images])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the words.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_words,)
            The names.
        """
        check_is_fitted(self)
        kinds = {"colour": self.colours_, "edge": self.edges_}
        names = [
            f"{kind}{k}"
            for kind, means in kinds.items()
            for k in range(0 if means is None else means.n_clusters)
        ]
        names += [f"direction{k}" for k in range(self.n_directions)]
        return np.array(names, dtype=object)

    def _images(self, X, fitting):
        """Images as arrays (height, width, n_channels)."""
        images, n_channels = [], None if fitting else self.n_channels_
        for i, image in enumerate(samples_of(X, fitting)):
            where = f"X: image {i}"
            array = None if sparse.issparse(image) else numeric(image, where)
            if array is None or array.ndim not in (2, 3) or not all(array.shape[2:]):
                raise ValueError(f"{where} must be an array (height, width, n_channels)")
            if min(array.shape[:2]) < self.patch_size:
                raise ValueError(
                    f"{where} has {array.shape[0]} x {array.shape[1]} pixels, a patch "
                    f"{self.patch_size} x {self.patch_size}"
                )
            array = array.reshape(*array.shape[:2], -1).astype(np.float64)
            n_channels = array.shape[2] if n_channels is None else n_channels
            if array.shape[2] != n_channels:
                raise ValueError(f"{where} has {array.shape[2]} channels, not {n_channels}")
            if not (np.abs(array) <= _LARGEST).all():
                raise ValueError(f"{where} has a value that is not finite or beyond {_LARGEST:g}")
            images.append(array)
        return images

    def _describe(self, image):
        """Positions of the patches, their colours, their edges, gradients around their middles."""
        size, (height, width) = int(self.patch_size), image.shape[:2]
        stride = min(int(self.stride), max(height, width))
        top = np.arange(0, height - size + 1, stride)
        left = np.arange(0, width - size + 1, stride)
        positions = np.stack(np.meshgrid(top, left, indexing="ij"), axis=2).reshape(-1, 2)
        colours = _cell_means(image, top, left, size)
        grey = image.mean(axis=2)
        edges = _cell_means(_gradients(grey, _DIRECTIONS), top, left, size)
        length = np.linalg.norm(edges, axis=1, keepdims=True)
        # Noise of flat patches is not blown up to edges.
        edges = edges / (length + 0.01 * (image.max() - image.min()) + (length == 0.0))
        positions = positions + size // 2
        around = np.empty((len(positions), 0))
        if self.n_directions:
            around = _means_around(_gradients(grey, self.n_directions), positions, stride)
        return positions, colours, edges, around

    def _words(self, images, shown):
        """The output for images whose patches are described."""
        kinds = [(k, means) for k, means in enumerate((self.colours_, self.edges_), 1) if means]
        found, n_words, out = [], 0, []
        if not images:
            return object_array(out)
        for k, means in kinds:
            codes = means.predict(np.concatenate([of[k] for of in shown]))
            found.append(codes.astype(np.int32) + np.int32(n_words))
            n_words += means.n_clusters
        n_points, n = [len(of[0]) for of in shown], int(self.n_directions)
        found += [np.full(sum(n_points), n_words + k, dtype=np.int32) for k in range(n)]
        columns = np.split(np.stack(found, axis=1), np.cumsum(n_points)[:-1])
        for image, (positions, *_, around), rows in zip(images, shown, columns, strict=True):
            starts = rows.shape[1] * np.arange(len(positions) + 1, dtype=np.int64)
            values = np.concatenate([np.ones((len(positions), len(kinds))), around], axis=1)
            shape = len(positions), n_words + n
            words = csr_from_parts(shape, values.ravel(), rows.ravel(), starts)
            out.append((positions, as_configured(words), image.shape[:2]))
        return object_array(out)


def _gradients(grey, n):
    """Return the strength of the gradient in each of n directions, (height, width, n)."""
    down, right = np.gradient(grey)
    strength = np.hypot(down, right)
    # An edge from dark to bright and one from bright to dark are alike.
    turn = (np.arctan2(down, right) / np.pi % 1.0) * n
    lower = np.floor(turn)
    share = turn - lower
    out = np.zeros((*grey.shape, n))
    rows, columns = np.indices(grey.shape)
    np.add.at(out, (rows, columns, lower.astype(int) % n), strength * (1.0 - share))
    np.add.at(out, (rows, columns, (lower.astype(int) + 1) % n), strength * share)
    return out


def _cell_means(maps, top, left, size):
    """Means of the cells of each patch, a row a patch."""
    summed = integral(maps)
    ends = [(k * size) // _CELLS for k in range(_CELLS + 1)]
    cells = []
    for a, b in pairwise(ends):
        for c, d in pairwise(ends):
            corners = (
                summed[np.ix_(top + p, left + q)] * sign
                for p, q, sign in ((b, d, 1), (a, d, -1), (b, c, -1), (a, c, 1))
            )
            cells.append(sum(corners) / ((b - a) * (d - c)))
    return np.concatenate(cells, axis=2).reshape(top.size * left.size, -1)


def _means_around(maps, positions, side):
    """Means of squares around positions, as far as they are inside, a row a position."""
    first = np.maximum(positions - side // 2, 0)
    last = np.minimum(positions - side // 2 + side, maps.shape[:2])
    sums = sums_between(integral(maps), first, last)
    return np.maximum(sums, 0.0) / (last - first).prod(axis=1, keepdims=True)


def sums_between(summed: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Sums over rectangles."""
    (top, left), (bottom, right) = first.T, last.T
    return summed[bottom, right] - summed[top, right] - summed[bottom, left] + summed[top, left]


def integral(maps: np.ndarray) -> np.ndarray:
    """Sums over all rectangles that begin at the upper left corner."""
    out = np.zeros((maps.shape[0] + 1, maps.shape[1] + 1, maps.shape[2]))
    np.cumsum(np.cumsum(maps, axis=0), axis=1, out=out[1:, 1:])
    return out


# BoxProposals: from points with visual words to candidates, one a box of a sliding grid.

_GEOMETRY = ("root_area", "tall", "middle_x", "middle_y", "width", "height")

# Numbers in the table of an image: 8 GB.
_MOST_NUMBERS = 2**30


class BoxProposals(RaggedTransformer, BaseEstimator):
    """Transform points into candidates: boxes of a grid, with histograms of the points inside.

    The boxes are all pairs of a vertical and a horizontal interval. Intervals have `n_sizes`
    lengths, from `smallest` of the side of the image to all of it, each a constant multiple of the
    one before; they begin about `step` of their length apart. The defaults give 36 intervals per
    side and 1,296 boxes. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    smallest : float, default=0.2
        Length of the shortest intervals as a fraction of the side of the image, at most 1.
    n_sizes : int, default=6
        Number of lengths; with 1 only `smallest`.
    step : float, default=1/3
        Distance of intervals of one length, as a fraction of it.
    levels : int, default=1
        Level k cuts a box into k x k parts of equal size with a histogram each.
    n_directions : int, default=0
        Number of last columns of the points that are strengths of gradients (see
        :class:`PatchWords`): they go into a template of the box, not into histograms.
    cells : int, default=5
        A template has cells x cells parts.
    margin : float, default=0.25
        Fraction of the sides by which a template extends beyond its box at each end, since the
        surroundings show where an object ends.

    Attributes
    ----------
    n_words_ : int
        Number of columns of the points.

    See Also
    --------
    PatchWords : From images to points.
    skstruct.Candidates : Which of the boxes is right; its loss "iou" compares them.

    Notes
    -----
    A histogram has the square roots of the relative frequencies of words, so its norm is 1, or 0
    without points (Hellinger's kernel). So has a template, relative to the sum over all cells and
    directions (Dalal and Triggs normalise by blocks of cells). Six more features are the position
    and size of the box relative to the image, and 21 their squares and products, so that a score
    can peak in the middle. The table of an image is dense: 8 bytes per box and feature.

    References
    ----------
    N. Dalal, B. Triggs: Histograms of oriented gradients for human detection. CVPR 2005.

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
    ((1296, 32), (1296, 4))
    """

    def __init__(
        self,
        smallest: float = 0.2,
        n_sizes: int = 6,
        *,
        step: float = 1 / 3,
        levels: int = 1,
        n_directions: int = 0,
        cells: int = 5,
        margin: float = 0.25,
    ) -> None:
        self.smallest = smallest
        self.n_sizes = n_sizes
        self.step = step
        self.levels = levels
        self.n_directions = n_directions
        self.cells = cells
        self.margin = margin

    def _check_parameters(self):
        check_integers(self, n_sizes=1, levels=1, n_directions=0, cells=1)
        for name in ("smallest", "step"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0.0 < value <= 1.0:
                raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}")
        if not isinstance(self.margin, Real) or not 0.0 <= self.margin <= 10.0:
            raise ValueError(f"margin must be from 0 to 10, got {self.margin!r}")

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
            A tuple (features, boxes) per image: (n_boxes, n_features) and (n_boxes, 4), (xmin,
            ymin, xmax, ymax).

        Raises
        ------
        ValueError
            If a sample is not such a tuple (names it), or a parameter is out of range.
        """
        self._check_parameters()
        images = [_read(sample, i) for i, sample in enumerate(samples_of(X, True))]
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
            As :meth:`fit_transform`.

        Raises
        ------
        ValueError
            If a sample is not such a tuple, or has another number of words than those of `fit`.
        """
        check_is_fitted(self)
        self._check_parameters()
        return self._transform([_read(s, i) for i, s in enumerate(samples_of(X, False))])

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
        n = self.n_words_ - self._n_directions()
        words, directions, names = words[:n], words[n:], []
        for level in range(1, self.levels + 1):
            places = [f"[{level}:{r},{c}]" for r in range(level) for c in range(level)]
            names += [f"{word}{place if level > 1 else ''}" for place in places for word in words]
        places = [f"[{r},{c}]" for r in range(self.cells) for c in range(self.cells)]
        names += [f"{direction}{place}" for place in places for direction in directions]
        products = [f"{a} {b}" for a, b in combinations_with_replacement(_GEOMETRY, 2)]
        return np.array([*names, *_GEOMETRY, *products], dtype=object)

    def _n_directions(self):
        """Return the number of columns that are strengths of gradients."""
        if self.n_directions > self.n_words_:
            raise ValueError(
                f"n_directions={self.n_directions}, but the points have {self.n_words_} columns"
            )
        return int(self.n_directions)

    def _intervals(self, most):
        """First and last end of the intervals, fractions of a side; None if there are more."""
        n, ends = int(self.n_sizes), []
        if n > most:
            return None
        ratio = self.smallest ** (1.0 / (n - 1)) if n > 1 else 1.0
        for k in range(n):
            length = self.smallest / ratio**k if k < n - 1 or n == 1 else 1.0
            count = 1.0 + np.ceil((1.0 - length) / (self.step * length) - 1e-9)
            if len(ends) + count > most:
                return None
            starts = np.linspace(0.0, 1.0 - length, int(count))
            ends += [(start, start + length) for start in starts.tolist()]
        return np.array(ends)

    def _shares(self):
        """The boxes, as fractions of an image."""
        n = self._n_directions()
        n_histograms = self.levels * (self.levels + 1) * (2 * self.levels + 1) // 6
        n_features = (self.n_words_ - n) * n_histograms + n * self.cells**2 + 27
        intervals = self._intervals(isqrt(_MOST_NUMBERS // int(n_features)))
        if intervals is None:
            raise ValueError(
                f"n_sizes={self.n_sizes}, smallest={self.smallest}, step={self.step}, "
                f"levels={self.levels}, cells={self.cells}: with {n_features} features "
                f"the boxes of an image are more than {_MOST_NUMBERS} numbers"
            )
        n = len(intervals)
        rows, columns = np.repeat(intervals, n, axis=0), np.tile(intervals, (n, 1))
        return np.column_stack([columns[:, 0], rows[:, 0], columns[:, 1], rows[:, 1]])

    def _transform(self, images):
        shares, out = self._shares(), []
        n = self.n_words_ - self._n_directions()
        sides = shares[:, 2:] - shares[:, :2]
        grown = shares + self.margin * np.concatenate([-sides, sides], axis=1)
        for i, (positions, words, size) in enumerate(images):
            if words.shape[1] != self.n_words_:
                raise ValueError(f"X: image {i} has {words.shape[1]} words, not {self.n_words_}")
            scale = np.tile(size[::-1], 2).astype(np.float64)
            counts = _Counts(positions, words, f"X: image {i}")
            tables = [
                _roots(part, part.sum(axis=1, keepdims=True))
                for level in range(1, self.levels + 1)
                for part in counts.parts(shares * scale, level, slice(0, n))
            ]
            if n < self.n_words_:
                parts = counts.parts(grown * scale, self.cells, slice(n, None))
                template = np.concatenate(list(parts), axis=1)
                tables.append(_roots(template, template.sum(axis=1, keepdims=True)))
            out.append((np.column_stack([*tables, _geometry(shares, size)]), shares * scale))
        return object_array(out)


class _Counts:
    """Counts of each word in a box, by sums over rectangles of the grid of points."""

    def __init__(self, positions, words, where):
        self.rows, row = np.unique(positions[:, 0], return_inverse=True)
        self.columns, column = np.unique(positions[:, 1], return_inverse=True)
        shape = self.rows.size, self.columns.size
        if shape[0] * shape[1] * words.shape[1] > _MOST_NUMBERS:
            raise ValueError(
                f"{where}: its points lie on a grid of {shape[0]} x {shape[1]} places, with "
                f"{words.shape[1]} words more than {_MOST_NUMBERS} numbers"
            )
        cell = sparse.csr_matrix(
            (np.ones(row.size), (row * shape[1] + column, np.arange(row.size))),
            (shape[0] * shape[1], row.size),
        )
        self.sums = integral((cell @ words).toarray().reshape(*shape, words.shape[1]))

    def parts(self, boxes, n, columns):
        """Sums of some columns in each of the n x n parts of boxes."""
        corner, size = boxes[:, :2], (boxes[:, 2:] - boxes[:, :2]) / n
        sums = self.sums[..., columns]
        for place in product(range(n), range(n)):
            shift = size * place[::-1]
            ends = [
                np.column_stack([np.searchsorted(self.rows, y), np.searchsorted(self.columns, x)])
                for x, y in ((corner + shift).T, (corner + shift + size).T)
            ]
            yield np.maximum(sums_between(sums, *ends), 0.0)


def _roots(found, total):
    """Roots of fractions of a total."""
    return np.sqrt(found / np.where(total > 0.0, total, 1.0))


def _geometry(shares, size):
    """Size and place of boxes, and products of two."""
    width, height = (shares[:, 2:] - shares[:, :2]).T
    middle = 0.5 * (shares[:, :2] + shares[:, 2:]) - 0.5
    tall = np.arctan2(height * size[0], width * size[1]) / (0.5 * np.pi)
    plain = np.column_stack([np.sqrt(width * height), tall, middle, width, height])
    pairs = np.transpose(list(combinations_with_replacement(range(plain.shape[1]), 2)))
    return np.column_stack([plain, plain[:, pairs[0]] * plain[:, pairs[1]]])


def _read(sample, i):
    """Positions, words and size of a sample."""
    where = f"X: image {i}"
    if not isinstance(sample, tuple) or len(sample) != 3:
        raise ValueError(f"{where} must be a tuple (positions, words, (height, width))")
    positions, size = read_positions(sample[0], sample[2], where)
    words = sample[1] if sparse.issparse(sample[1]) else numeric(sample[1], f"{where}: its words")
    if words.ndim != 2 or positions.shape != (words.shape[0], 2):
        raise ValueError(
            f"{where} must have positions (n_points, 2) and words (n_points, n_words), got the "
            f"shapes {positions.shape} and {words.shape}"
        )
    words = normal_csr(words if sparse.issparse(words) else sparse.csr_matrix(words), where)
    with np.errstate(over="ignore"):
        total = words.data.sum()
    if not np.isfinite(total):
        raise ValueError(f"{where}: its words have a sum that is not finite")
    if words.data.min(initial=0.0) < 0.0:
        raise ValueError(f"{where} counts a word less than 0 times")
    return positions, words, size

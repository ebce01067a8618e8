"""PatchWords: images as points that show visual words."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...data.matrices import csr_from_parts, numeric
from ...data.packing import as_list, is_empty_list
from ...data.ragged import object_array
from ...typing import RandomStateLike, SamplesLike
from ..ragged_transformer import RaggedTransformer

# A patch is described by its halves in both directions, edges by so many directions.
_CELLS, _DIRECTIONS = 2, 8

# Of a colour: sums over an image, and their squares, are finite.
_LARGEST = 1e100


class PatchWords(RaggedTransformer, BaseEstimator):
    """Turn images into points with visual words: what colours and what edges a patch shows.

    Square patches are cut on a regular grid. Words are the clusters of their colours and those of
    their edges, found by k-means; the point at the middle of a patch has one of each. Gradients may
    go with the points as they are, too.

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
        Clusters are found on so many patches, drawn from all images.
    random_state : int, RandomState instance or None, default=None
        Draws the patches and the first centres.

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
    Output is what a structure of boxes takes: a tuple (positions, words, (height, width)) an image,
    positions (row, column) of points as integers (n_points, 2), words a CSR matrix (n_points,
    n_colours + n_edges + n_directions): ones, and strengths of gradients.

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
        least = {"n_colours": 0, "n_edges": 0, "n_directions": 0}
        least |= {"patch_size": _CELLS, "stride": 1, "n_patches": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
                raise ValueError(f"{name} must be an integer of at least {smallest}, got {value!r}")
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
            A tuple (positions, words, (height, width)) an image.

        Raises
        ------
        ValueError
            If an image is smaller than a patch, has other channels than the first or values that
            are not finite, or a parameter is out of range.

        See Also
        --------
        skstruct.preprocessing.PatchWords.transform : Of other images.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.preprocessing import PatchWords
        >>> images = [np.random.default_rng(0).random((20, 24, 3))]
        >>> words = PatchWords(n_colours=2, n_edges=3, random_state=0)
        >>> positions, codes, size = words.fit_transform(images)[0]
        >>> codes.shape, size  # twenty patches, five words
        ((20, 5), (20, 24))
        """
        self._check_parameters()
        images = self._images(X, None)
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
            A tuple (positions, words, (height, width)) an image.

        Raises
        ------
        ValueError
            If an image is smaller than a patch, has other channels than those of `fit` or values
            that are not finite.

        See Also
        --------
        skstruct.preprocessing.BoxProposals : Takes what it puts out.
        skstruct.Boxes : So does this.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.preprocessing import PatchWords
        >>> images = [np.random.default_rng(0).random((20, 24, 3))]
        >>> words = PatchWords(n_colours=2, n_edges=3, random_state=0)
        >>> smaller = images[0][:8, :8]  # one patch
        >>> words.fit(images).transform([smaller])[0][0].tolist()
        [[4, 4]]
        """
        check_is_fitted(self)
        self._check_parameters()
        images = [] if is_empty_list(X) else self._images(X, self.n_channels_)
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

        See Also
        --------
        skstruct.preprocessing.BoxProposals.get_feature_names_out : Takes such names.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.preprocessing import PatchWords
        >>> images = [np.random.default_rng(0).random((20, 24, 3))]
        >>> words = PatchWords(n_colours=2, n_edges=3, random_state=0)
        >>> words.fit(images).get_feature_names_out().tolist()
        ['colour0', 'colour1', 'edge0', 'edge1', 'edge2']
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

    def _images(self, X, n_channels):
        """Images as arrays (height, width, n_channels)."""
        images = []
        for i, image in enumerate(as_list(X, "X")):
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
            out.append((positions, words, image.shape[:2]))
        return object_array(out)


def _gradients(grey, n):
    """How strong the gradient is in each of n directions, an array (height, width, n)."""
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

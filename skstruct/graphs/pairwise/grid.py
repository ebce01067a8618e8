"""Images: pixels whose labels interact with those of their neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ...core.offsets import ends_of
from ...core.typing import SamplesLike
from ...data.labels import rows_of_image
from ...data.matrices import feature_dtype, numeric, refuse_masked
from ...data.node_weights import is_flat
from ...data.packing import as_list, check_finite
from ...data.ragged import RaggedArray, object_array
from .graph import (
    Inference,
    Interactions,
    Networks,
    Pairwise,
    check_tuple,
    grid_edges,
    neighbours,
    pack,
)


class Grid(Pairwise):
    """Pixels of images, linked to their neighbours.

    A sample of X is an array (height, width, n_features), one of y an array (height, width) of
    labels; sizes may differ from sample to sample. Predictions are arrays (height, width). Read
    more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    neighborhood : {4, 8}, default=4
        Neighbours of a pixel, without or with diagonal ones.
    directions : bool, default=False
        Whether horizontal, vertical and the two kinds of diagonal edges have weights of their own.
        Edges go to the right and downward: with weights of ordered pairs of labels it matters which
        of two pixels is the upper or the left one.
    edge_features : False, True or "contrast", default=False
        "contrast": edges have two features, 1 and ``exp(-|x_u - x_v|^2 / (2 m))`` of the features
        of their pixels, m the mean of ``|x_u - x_v|^2`` over the image (Rother et al. 2004,
        "GrabCut": Interactive foreground extraction using iterated graph cuts). True: a sample of X
        is a tuple (image, edge features), with one row per edge in the order of
        :func:`skstruct.graphs.pairwise.grid_edges`.
    interactions : {"full", "symmetric", "potts"}, default="full"
        Entries of a table of weights; see :class:`Pairwise`.
    forbidden : list of pairs, default=None
        Forbidden pairs (label of the left or upper pixel, label of the other).
    attractive : bool, default=False
        Whether training keeps interactions of two labels attractive; see :class:`Pairwise`.
    inference : {"auto", "tree", "max-flow", "junction-tree", "roof-dual", "lp", \
            "tree-reweighted"}, default="auto"
        Algorithm for MAP labellings, and for marginals in CRFs; see :class:`Pairwise`.
    max_table : int, default=65536
        Largest table of a junction tree, in entries; see :class:`Pairwise`.

    See Also
    --------
    Pairwise : Nodes and edges of any kind; the shape of ``pairwise_coef_``.
    skstruct.inspection.TransitionDisplay : Plot of the weights of label pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Grid
    >>> y = np.zeros((2, 4, 5), dtype=int)
    >>> y[:, 1:3, 1:4] = 1
    >>> X = y[..., None] + np.random.default_rng(0).normal(scale=0.5, size=(2, 4, 5, 1))
    >>> svm = BCFWSSVM(Grid(interactions="potts"), random_state=0).fit(list(X), list(y))
    >>> svm.predict(list(X))[0].shape
    (4, 5)
    """

    takes = "images: expected a list of arrays (height, width, n_features)"
    hint_of_scale = ": for images search C from 1 / pixels upwards by a validation score"

    def __init__(
        self,
        neighborhood: Literal[4, 8] = 4,
        directions: bool = False,
        edge_features: bool | Literal["contrast"] = False,
        interactions: Interactions = "full",
        forbidden: Iterable | None = None,
        attractive: bool = False,
        inference: Inference = "auto",
        max_table: int = 2**16,
    ) -> None:
        self.neighborhood = neighborhood
        self.directions = directions
        self.edge_features = edge_features
        self.interactions = interactions
        self.forbidden = forbidden
        self.attractive = attractive
        self.inference = inference
        self.max_table = max_table

    def _n_types(self):
        if not isinstance(self.neighborhood, (int, np.integer)) or self.neighborhood not in (4, 8):
            raise ValueError(f"neighborhood must be 4 or 8, got {self.neighborhood!r}")
        if not isinstance(self.directions, (bool, np.bool_)):
            raise ValueError(f"directions must be a bool, got {self.directions!r}")
        return self.neighborhood // 2 if self.directions else 1

    def edge_type_names(self) -> list[str]:
        """The directions, as :func:`grid_edges` numbers them."""
        names = ["to the right", "down", "down to the right", "down to the left"]
        return names[: self._n_types()] if self.directions else super().edge_type_names()

    def edge_feature_names(self) -> list[str] | None:
        """Those of "contrast"."""
        return ["1", "likeness"] if self.edge_features == "contrast" else None

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Networks:
        """Pack the images."""
        n_types, given = self._n_types(), self.edge_features
        by_contrast = isinstance(given, str) and given == "contrast"
        if not (isinstance(given, (bool, np.bool_)) or by_contrast):
            raise ValueError(f'edge_features must be a bool or "contrast", got {given!r}')
        items = list(X) if getattr(X, "ndim", 0) == 4 else as_list(X, "X")
        rows = None
        if given and not by_contrast:
            for i, item in enumerate(items):
                check_tuple(item, i, 2, "(image, edge features)")
            items, rows = zip(*items, strict=True) if items else ((), ())
        images = [_read_image(item, i) for i, item in enumerate(items)]
        _check_channels(images)
        features = np.concatenate([image.reshape(-1, image.shape[2]) for image in images])
        shapes = np.array([image.shape[:2] for image in images], dtype=np.int64)
        offsets = ends_of(shapes.prod(axis=1))
        check_finite(features, offsets, "X")
        known = {}
        for size in map(tuple, shapes.tolist()):
            if size not in known:
                known[size] = grid_edges(*size, self.neighborhood)
        read = [known[size] for size in map(tuple, shapes.tolist())]
        if by_contrast:
            rows = [_contrast(image, self.neighborhood) for image in images]
        if n_types == 1:
            read = [(ends, np.zeros_like(kinds)) for ends, kinds in read]
        samples = pack(features, offsets, read, rows)._replace(shapes=shapes)
        self._check_counts(estimator, samples, reset)
        return samples

    def no_samples(self, estimator: BaseEstimator) -> Networks:
        """No images."""
        return super().no_samples(estimator)._replace(shapes=np.empty((0, 2), dtype=np.int64))

    def read_y(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Flat labels of all pixels, row by row."""
        items = list(y) if isinstance(y, np.ndarray) and y.ndim == 3 else y
        is_list = hasattr(items, "__len__") and not sparse.issparse(items)
        if is_list and not isinstance(items, (str, bytes)):
            n = len(samples.shapes)
            if len(items) != n:
                raise ValueError(
                    f"X has {n} images, but y has {len(items)}; y is a list of arrays (height, "
                    "width) of labels: for one image that is [labels]"
                )
            items = _flat_images(items, "y", samples.shapes)
        return super().read_y(items, samples)

    def read_node_weight(self, node_weight: Any, samples: Any) -> np.ndarray:
        """Weights of pixels, an array (height, width) per image."""
        if isinstance(node_weight, RaggedArray) or is_flat(node_weight):
            return super().read_node_weight(node_weight, samples)
        flat = _flat_images(as_list(node_weight, "node_weight"), "node_weight", samples.shapes)
        return super().read_node_weight(flat, samples)

    def wrap(self, flat: np.ndarray, samples: Any) -> np.ndarray:
        """An object array of one array (height, width, ...) a sample."""
        results = super().wrap(flat, samples)
        shapes = samples.shapes.tolist()
        return object_array(
            [
                row.reshape(*shape, *row.shape[1:])
                for row, shape in zip(results, shapes, strict=True)
            ]
        )

    def read_allowed(self, allowed: Any, samples: Any, classes: Any) -> np.ndarray:
        """Masks of shape (height, width, n_classes), one per sample."""
        flat, shapes = [], samples.shapes.tolist()
        for i, item in enumerate(as_list(allowed, "allowed")):
            refuse_masked(item, f"allowed: sample {i}")
            mask = np.asarray(item)
            if i < len(shapes) and mask.shape != (*shapes[i], len(classes)):
                raise ValueError(
                    f"allowed: sample {i} must have the shape (height, width, n_classes) of its "
                    f"image, {(*shapes[i], len(classes))}, got {mask.shape}"
                )
            flat.append(mask.reshape(-1, *mask.shape[2:]))
        return super().read_allowed(flat, samples, classes)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Small random images."""
        if sparse_X:
            raise TypeError("images are dense arrays")
        sizes = (2, 3), (3, 2), (1, 4)
        X = [rng.normal(size=(*size, 3)) for size in sizes]
        if self.edge_features and self.edge_features != "contrast":
            ends = (grid_edges(*size, self.neighborhood)[0] for size in sizes)
            X = [(x, rng.normal(size=(len(e), 2))) for x, e in zip(X, ends, strict=True)]
        return X, [np.arange(h * w).reshape(h, w) % 2 for h, w in sizes]


def _read_image(item, i):
    """One image as float32, if it is, or float64."""
    if sparse.issparse(item) or isinstance(item, tuple):
        raise ValueError(
            f"X: sample {i} must be a dense array (height, width, n_features), got "
            f"{type(item).__name__}"
        )
    refuse_masked(item, f"X: sample {i}")
    image = numeric(item, f"X: sample {i}")
    if image.ndim != 3 or 0 in image.shape:
        raise ValueError(
            f"X: sample {i} must be an image of shape (height, width, n_features), none of them 0, "
            f"got the shape {image.shape}; X is a list of images: for one image x that is [x], for "
            "grey ones [x[..., None], ...]"
        )
    return np.asarray(image, dtype=feature_dtype(image.dtype))


def _flat_images(items, name, shapes):
    """Return the values of `items` at the pixels of each image, row by row."""
    flat = []
    for i, item in enumerate(items):
        values, size = rows_of_image(item, f"{name}: sample {i}")
        if i < len(shapes) and size != tuple(shapes[i].tolist()):
            raise ValueError(
                f"{name}: sample {i} must have the shape of its image, "
                f"{tuple(shapes[i].tolist())}, got {size}"
            )
        flat.append(values)
    return object_array(flat)


def _check_channels(images):
    """All images have as many features as the first."""
    for i, image in enumerate(images):
        if image.shape[2] != images[0].shape[2]:
            raise ValueError(
                f"X: sample {i} has {image.shape[2]} features a pixel, sample 0 has "
                f"{images[0].shape[2]}"
            )


def _contrast(image, neighborhood):
    """1 and the likeness of the two pixels of each edge."""
    changes = [a / 2 - b / 2 for a, b in neighbours(image, neighborhood)]
    # Only ratios matter, and squares overflow.
    largest = max(np.abs(change).max(initial=0.0) for change in changes) or 1.0
    squares = np.concatenate([((change / largest) ** 2).sum(axis=2).ravel() for change in changes])
    mean = squares.mean() if squares.size else 0.0
    rows = np.ones((squares.size, 2))
    if mean > 0.0:
        np.exp(squares / (-2.0 * mean), out=rows[:, 1])
    return rows

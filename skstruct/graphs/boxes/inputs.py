"""Reading images, as maps or as points, and the boxes in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.offsets import ends_of
from ...data.matrices import csr_from_parts, numeric, refuse_masked
from ...data.packing import as_list, pack_nodes, take_rows
from ...data.points import LARGEST, read_positions

_EXPECTED = (
    "must be a map (height, width, n_features), a map (height, width) of integer codes, or a tuple "
    "(positions, features or codes, (height, width))"
)


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
    # (n_samples,): Kernels write here what a box may lack of the best one.
    gaps: np.ndarray

    @property
    def offsets(self) -> np.ndarray:
        """Where the labels of each sample begin: four each."""
        return 4 * np.arange(self.item_ptr.size, dtype=np.int64)

    @property
    def lengths(self) -> np.ndarray:
        """Number of labels of each sample."""
        return np.full(self.item_ptr.size - 1, 4, dtype=np.int64)

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sample: none."""
        return np.zeros(self.item_ptr.size - 1, dtype=np.int64)

    def take(self, keep: np.ndarray) -> Points:
        """The samples where the mask `keep` is True."""
        counts = np.diff(self.item_ptr)
        return Points(
            take_rows(self.features, keep, counts),
            ends_of(counts[keep]),
            self.places[np.repeat(keep, counts)],
            self.shapes[keep],
            self.gaps[keep],
        )

    def without_empty(self) -> Points:
        """The samples that have labels: all of them."""
        return self


def no_points(n_features: int) -> Points:
    """Packed images, none of them."""
    return Points(
        np.empty((0, n_features)),
        np.zeros(1, dtype=np.int64),
        np.empty((0, 2), dtype=np.int32),
        np.empty((0, 2), dtype=np.int64),
        np.empty(0),
    )


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
    """A row a point with a 1 at its code."""
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
    refuse_masked(y, "y")
    if hasattr(y, "columns"):
        y = numeric(y, "y")
    items = list(y) if isinstance(y, np.ndarray) and y.ndim > 0 else as_list(y, "y")
    if len(items) != len(shapes):
        raise ValueError(f"X has {len(shapes)} samples, but y has {len(items)}")
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

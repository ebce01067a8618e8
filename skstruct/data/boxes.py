"""Boxes: reading them, and how much two of them overlap."""

from __future__ import annotations

import numpy as np

from .matrices import numeric, refuse_masked

# Points in images: reading where they are.

#: Pixels of a side, and codes, are int32.
LARGEST = int(np.iinfo(np.int32).max)


def read_positions(positions, shape, where: str) -> tuple[np.ndarray, tuple[int, int]]:
    """Positions of points, and the size of the image."""
    shape = numeric(shape, f"{where}: its (height, width)")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise ValueError(f"{where}: its (height, width) must be two integers of 1 or more")
    if (shape > LARGEST).any():
        raise ValueError(f"{where}: its (height, width) must be integers up to {LARGEST}")
    positions = numeric(positions, f"{where}: its positions")
    if positions.size == 0:
        positions = np.empty((0, 2), dtype=np.int64)
    if positions.ndim != 2 or positions.shape[1] != 2 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"{where}: its positions must be integers (row, column) of shape (n_points, 2), got "
            f"shape {positions.shape} of {positions.dtype}"
        )
    outside = np.flatnonzero(((positions < 0) | (positions >= shape)).any(axis=1))
    if outside.size:
        raise ValueError(
            f"{where}: point {outside[0]} at (row, column) = "
            f"{tuple(positions[outside[0]].tolist())} is outside the image of "
            f"{shape[0]} x {shape[1]} pixels"
        )
    return positions, tuple(shape.tolist())


# Sides of boxes are finite then.
_LARGEST = 1e300


def read_boxes(boxes, name: str, n: int | None = None) -> np.ndarray:
    """Boxes as an array."""
    refuse_masked(boxes, name)
    try:
        array = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers of shape (n_boxes, 4)") from None
    if array.ndim != 2 or array.shape[1] != 4 or (n is not None and len(array) != n):
        wanted = "n_boxes" if n is None else n
        raise ValueError(f"{name} must have the shape ({wanted}, 4), got {array.shape}")
    if not (np.abs(array) <= _LARGEST).all():
        raise ValueError(f"{name} have a value that is not finite or beyond {_LARGEST:g}")
    empty = np.flatnonzero(~(array[:, :2] < array[:, 2:]).all(axis=1))
    if empty.size:
        raise ValueError(
            f"{name}: box {empty[0]} is empty, (xmin, ymin, xmax, ymax) = "
            f"{tuple(array[empty[0]].tolist())}"
        )
    return np.ascontiguousarray(array)


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes, one by one."""
    low = np.maximum(first[:, :2], second[:, :2])
    high = np.minimum(first[:, 2:], second[:, 2:])
    sides = [boxes[:, 2:] - boxes[:, :2] for boxes in (first, second)]
    # In units of about the longer side, and powers of two round nothing: areas do not overflow.
    unit = -np.frexp(np.maximum(*sides))[1]
    areas = [np.ldexp(side, unit).prod(axis=1) for side in sides]
    both = np.ldexp(np.clip(high - low, 0, None), unit).prod(axis=1)
    union = areas[0] + areas[1] - both
    return np.divide(both, union, out=np.zeros(both.size), where=union > 0.0)

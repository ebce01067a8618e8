"""Boxes: reading them, and how much two of them overlap."""

from __future__ import annotations

import numpy as np

from .matrices import refuse_masked

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

"""Points in images: reading where they are."""

from __future__ import annotations

import numpy as np

from .matrices import numeric

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

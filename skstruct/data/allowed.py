"""Read masks of allowed labels, for constrained decoding."""

from __future__ import annotations

import numpy as np

from .packing import as_list
from .ragged import RaggedArray


def read_table_mask(allowed, shape: tuple[int, ...]) -> np.ndarray:
    """The labels allowed in each row of a table."""
    mask = _boolean(allowed, "allowed")
    if mask.shape != shape:
        raise ValueError(f"allowed must be of shape {shape}, got {mask.shape}")
    return np.ascontiguousarray(mask.reshape(-1, shape[-1])).view(np.uint8)


def read_sample_masks(allowed, offsets: np.ndarray, n_classes: int) -> np.ndarray:
    """The labels allowed at each node, one mask a sample."""
    n = offsets.size - 1
    packed = isinstance(allowed, RaggedArray)
    masks = list(allowed) if packed or n == 0 else as_list(allowed, "allowed")
    if len(masks) != n:
        raise ValueError(f"X has {n} samples, but allowed has {len(masks)}")
    read = []
    for i, mask in enumerate(masks):
        read.append(_boolean(mask, f"allowed: sample {i}"))
        expected = (int(offsets[i + 1] - offsets[i]), n_classes)
        if read[i].shape != expected:
            raise ValueError(
                f"allowed: sample {i} must be of shape (n_nodes, n_classes) = {expected}, got "
                f"{read[i].shape}"
            )
    return np.concatenate([np.empty((0, n_classes), dtype=bool), *read]).view(np.uint8)


def _boolean(mask, name):
    if isinstance(mask, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: fill it first")
    try:
        array = np.asarray(mask)
    except ValueError as error:
        raise ValueError(f"{name} is no array of booleans: {error}") from None
    # NaN and "False" are true to Python.
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans, or zeros and ones")
    return array.astype(bool)

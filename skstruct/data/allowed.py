"""Read masks of allowed labels, for constrained decoding."""

from __future__ import annotations

import numpy as np

from .packing import as_list
from .ragged import RaggedArray


def read_allowed(allowed, graph, samples, n_classes: int) -> np.ndarray:
    """The labels allowed at each node.

    Parameters
    ----------
    allowed : list of array-like of shape (n_nodes, n_classes), or one array for a table
        True (or 1) where a label is allowed.
    graph : Graph
        The fitted structure.
    samples : Samples
        What the masks belong to.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_nodes, n_classes) of uint8
        The masks of all samples.

    Raises
    ------
    ValueError
        If a mask has the wrong shape, or is neither boolean nor of zeros and ones.
    """
    n = samples.offsets.size - 1
    if graph.is_table:
        expected = graph.allowed_shape(n, n_classes)
        mask = _boolean(allowed, "allowed")
        if mask.shape != expected:
            raise ValueError(f"allowed must be of shape {expected}, got {mask.shape}")
        return np.ascontiguousarray(mask.reshape(-1, expected[-1])).view(np.uint8)
    packed = isinstance(allowed, RaggedArray)
    masks = list(allowed) if packed or n == 0 else as_list(allowed, "allowed")
    if len(masks) != n:
        raise ValueError(f"X has {n} samples, but allowed has {len(masks)}")
    read = []
    for i, mask in enumerate(masks):
        read.append(_boolean(mask, f"allowed: sample {i}"))
        expected = (int(samples.offsets[i + 1] - samples.offsets[i]), n_classes)
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

"""Read masks of allowed labels, for constrained decoding."""

from __future__ import annotations

import numpy as np

from .packing import as_list
from .ragged import RaggedArray


def read_table_mask(allowed, shape: tuple[int, ...]) -> np.ndarray:
    """The labels allowed in each row of a table.

    Parameters
    ----------
    allowed : array-like
        True (or 1) where a label is allowed.
    shape : tuple of int
        The shape that it must have; a row at the end for each node.

    Returns
    -------
    ndarray of shape (n_nodes, shape[-1]) of uint8
        The masks of all nodes.

    Raises
    ------
    ValueError
        If it has another shape, or is neither boolean nor of zeros and ones.

    Examples
    --------
    >>> from skstruct.data.allowed import read_table_mask
    >>> read_table_mask([[True, False]], (1, 2))
    array([[1, 0]], dtype=uint8)
    """
    mask = _boolean(allowed, "allowed")
    if mask.shape != shape:
        raise ValueError(f"allowed must be of shape {shape}, got {mask.shape}")
    return np.ascontiguousarray(mask.reshape(-1, shape[-1])).view(np.uint8)


def read_sample_masks(allowed, offsets: np.ndarray, n_classes: int) -> np.ndarray:
    """The labels allowed at each node, one mask a sample.

    Parameters
    ----------
    allowed : list of array-like of shape (n_nodes, n_classes)
        True (or 1) where a label is allowed.
    offsets : ndarray of shape (n_samples + 1,)
        Where each sample begins.
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

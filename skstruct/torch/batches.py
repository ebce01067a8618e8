"""Batches as torch users have them, packed or padded, and how they lie in packed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..data.packing import Layout, padded_layout, place
from ..data.packing import read_layout as layout_of


def as_array(tensor: torch.Tensor, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """A C-contiguous array of the values of a tensor; a view where possible."""
    return tensor.detach().to(device="cpu", dtype=dtype).contiguous().numpy()


def check_scores(scores: Any, name: str, dims: tuple[int, ...]) -> None:
    """Reject what is not a tensor of floats with so many axes."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise TypeError(f"{name} must be a tensor of floats, got {scores.dtype}")
    if scores.dim() not in dims:
        wanted = " or ".join(map(str, dims))
        raise ValueError(f"{name} must have {wanted} axes, got the shape {tuple(scores.shape)}")


def read_layout(scores: torch.Tensor, lengths: Any, mask: Any, batch_first: bool) -> Layout:
    """The layout of a batch of scores, packed (n_rows, K) or padded (B, T, K)."""
    if scores.dim() == 2:
        if mask is not None:
            raise ValueError("mask is for padded scores (B, T, K); packed ones need lengths")
        if lengths is None:
            raise ValueError(
                "lengths is missing: packed scores (n_rows, K) need the length of each sample; of "
                "one sample pass lengths=[n_rows]"
            )
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.detach().cpu().numpy()
    if mask is not None:
        if not isinstance(mask, torch.Tensor) or mask.dtype not in (torch.bool, torch.uint8):
            got = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
            hint = "; pass mask.bool()" if isinstance(mask, torch.Tensor) else ""
            raise TypeError(f"mask must be a tensor of bool or uint8, got {got}{hint}")
        mask = mask.detach().cpu().numpy() != 0
    layout = layout_of(tuple(scores.shape), lengths, mask, batch_first)
    empty = np.flatnonzero(np.diff(layout.offsets) == 0)
    if empty.size:
        raise ValueError(f"sample {empty[0]} is empty: a sample needs at least one node")
    if not layout.n_samples:
        raise ValueError("scores has no samples")
    return layout


def read_labels(labels: Any, layout: Layout, n_labels: int) -> np.ndarray:
    """Packed codes of labels, packed or padded; values in the padding do not matter."""
    if not isinstance(labels, torch.Tensor):
        raise TypeError(f"labels must be a torch.Tensor, got {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be a tensor of integers, got {labels.dtype}")
    values = labels.detach().cpu().numpy()
    n_rows = int(layout.offsets[-1])
    if tuple(labels.shape) == layout.shape:
        codes = layout.pack(values)
    elif labels.dim() == 1 and labels.shape[0] == n_rows:
        codes = values
    elif (
        labels.dim() == 2
        and len(layout.shape) == 1
        and labels.shape[0] == layout.n_samples
        and labels.shape[1] >= np.diff(layout.offsets).max()
    ):
        codes = padded_layout(np.diff(layout.offsets), tuple(labels.shape), True).pack(values)
    else:
        raise ValueError(
            f"labels has the shape {tuple(labels.shape)}, but scores has "
            f"{' x '.join(map(str, layout.shape))} rows ({n_rows} without padding)"
        )
    wrong = np.flatnonzero((codes < 0) | (codes >= n_labels))
    if wrong.size:
        i, t = place(layout.offsets, wrong[0])
        raise ValueError(
            f"labels: sample {i} has the label {codes[wrong[0]]} at node {t}; labels are 0 to "
            f"{n_labels - 1}"
        )
    return np.ascontiguousarray(codes, dtype=np.int32)

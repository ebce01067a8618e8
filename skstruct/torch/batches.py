"""Batches as torch users have them, packed or padded, and how they lie in packed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..data.packing import Layout, padded_layout
from ..data.packing import read_layout as layout_of
from .chains import is_traced

_MASK = ", 0 and 1, or bool"


def as_array(tensor: torch.Tensor, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """A C-contiguous array of the values of a tensor; a view where possible."""
    return tensor.detach().to(device="cpu", dtype=dtype).contiguous().numpy()


def check_scores(scores: Any, name: str, dims: tuple[int, ...]) -> None:
    """Reject what is not a dense tensor of floats with so many axes, or is empty."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise TypeError(f"{name} must be a tensor of floats, got {scores.dtype}")
    if scores.is_nested or scores.layout != torch.strided:
        kind = "nested" if scores.is_nested else scores.layout
        raise TypeError(f"{name} must be a dense tensor, got a {kind} one")
    shape = tuple(scores.shape)
    if dims and len(shape) not in dims:
        raise ValueError(f"{name} must have {' or '.join(map(str, dims))} axes, got {shape}")
    if 0 in shape:
        raise ValueError(f"{name} is empty, of the shape {shape}")


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
        check_integers(mask, "mask", _MASK)
        mask = mask.detach().cpu().numpy()
        wrong = np.argwhere(mask.astype(np.int64) >> 1)
        if wrong.size:
            at = tuple(wrong[0].tolist())
            raise ValueError(f"mask must be 0 or 1, got {mask[at]} at {at}")
        mask = mask != 0
    return _not_empty(layout_of(tuple(scores.shape), lengths, mask, batch_first))


def _not_empty(layout):
    """The layout, unless a sample has no nodes."""
    empty = np.flatnonzero(np.diff(layout.offsets) == 0)
    if empty.size:
        raise ValueError(f"sample {empty[0]} is empty: a sample needs at least one node")
    return layout


def check_integers(values: Any, name: str, what: str = "") -> None:
    """Reject what is not a tensor of integers; masks may be of bool."""
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}")
    is_bool = values.dtype == torch.bool
    if values.is_floating_point() or values.is_complex() or (is_bool and not what):
        raise TypeError(f"{name} must be a tensor of integers{what}, got {values.dtype}")


def check_labels(labels: Any, shape: tuple, n_rows: int | None, counts: Any) -> None:
    """Reject labels that are neither as scores, nor one a node (None if unknown), nor padded."""
    check_integers(labels, "labels")
    own = tuple(labels.shape)
    is_padded = len(shape) == 1 and len(own) == 2 and own[0] == len(counts)
    is_flat = len(own) == 1 and n_rows in (None, own[0])
    if own != shape and not is_flat and not (is_padded and own[1] >= counts.max()):
        rows = f"{' x '.join(map(str, shape))} rows"
        known = "" if n_rows is None else f" ({n_rows} without padding)"
        raise ValueError(f"labels has the shape {own}, but scores has {rows}{known}")


def read_labels(
    labels: Any, layout: Layout, n_labels: int, ignored: int | None
) -> tuple[np.ndarray, Layout]:
    """Packed codes of labels, packed or padded, and the layout of those that are not ignored.

    Values in the padding do not matter.
    """
    counts = np.diff(layout.offsets)
    check_labels(labels, layout.shape, int(layout.offsets[-1]), counts)
    codes = labels.detach().cpu().numpy()
    if codes.ndim == 2:
        is_like = len(layout.shape) == 2
        codes = (layout if is_like else padded_layout(counts, codes.shape, True)).pack(codes)
    kept = np.ones(len(codes), dtype=bool) if ignored is None else codes != ignored
    wrong = np.flatnonzero(kept & ((codes < 0) | (codes >= n_labels)))
    if wrong.size:
        i, t = layout.place(wrong[0])
        raise ValueError(
            f"labels: sample {i} has the label {codes[wrong[0]]} at node {t}; labels are 0 to "
            f"{n_labels - 1}"
        )
    if not kept.all():
        codes, layout = codes[kept], _not_empty(layout.keep(kept))
    return np.ascontiguousarray(codes, dtype=np.int32), layout


class Padded:
    """A batch as tensors (B, T, ...), and the way back; it looks at no values."""

    def __init__(self, scores, lengths, mask, labels, ignored, batch_first):
        shape, device, self.rows = tuple(scores.shape[:-1]), scores.device, None
        if mask is not None:
            check_integers(mask, "mask", _MASK)
            if len(shape) == 2 and mask.shape != shape:
                raise ValueError(f"mask has the shape {tuple(mask.shape)}, but scores {shape}")
        is_known = not isinstance(lengths, torch.Tensor) or (
            lengths.device.type == "cpu" and not is_traced(lengths)
        )
        if len(shape) == 1 or (lengths is not None and (mask is not None or is_known)):
            lengths = np.diff(read_layout(scores, lengths, mask, batch_first).offsets)
        self.batch_first = batch_first or len(shape) == 1
        longest = lengths.max() if len(shape) == 1 else shape[1 if batch_first else 0]
        if mask is not None:
            self.inside = self._turn(mask) != 0
        elif lengths is None:
            self.inside = torch.ones_like(self._turn(scores)[..., 0], dtype=torch.bool)
        else:
            counts = torch.as_tensor(lengths, device=device)
            if len(shape) == 2 and counts.shape != (n := shape[0 if batch_first else 1],):
                raise ValueError(f"lengths has the shape {tuple(counts.shape)} for {n} samples")
            self.inside = torch.arange(longest, device=device) < counts[:, None]
        if len(shape) == 1:
            rows = np.flatnonzero(np.arange(longest) < lengths[:, None])
            self.rows = torch.from_numpy(rows).to(device)
        self.scores = self._turn(scores) if self.rows is None else self._spread(scores)
        self.is_prefix = mask is None and (labels is None or ignored is None)
        if labels is not None:
            n_rows = self.inside.numel() if mask is lengths is None else None
            if isinstance(lengths, np.ndarray):
                n_rows = int(lengths.sum())
            check_labels(labels, shape, n_rows, lengths)
            labels = self._spread(labels) if labels.dim() == 1 else self._turn(labels)[:, :longest]
            if ignored is not None:
                self.inside = self.inside & (labels != ignored)
        self.labels = labels

    def _turn(self, table):
        """A padded table with the samples first, and back."""
        return table if self.batch_first else table.transpose(0, 1)

    def _spread(self, table):
        """Rows of nodes, one sample after another, at their places."""
        rows = self.inside.flatten().cumsum(0).view_as(self.inside) - 1
        return table[rows.clamp(min=0)]

    def as_given(self, table):
        """A table (B, T, ...) in the form of the scores."""
        return self._turn(table) if self.rows is None else table.flatten(0, 1)[self.rows]

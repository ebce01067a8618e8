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
        check_integers(mask, "mask", _MASK)
        mask = mask.detach().cpu().numpy()
        wrong = np.argwhere(mask.astype(np.int64) >> 1)
        if wrong.size:
            at = tuple(wrong[0].tolist())
            raise ValueError(f"mask must be 0 or 1, got {mask[at]} at {at}")
        mask = mask != 0
    layout = layout_of(tuple(scores.shape), lengths, mask, batch_first)
    refuse_empty(layout)
    if not layout.n_samples:
        raise ValueError("scores has no samples")
    return layout


def refuse_empty(layout: Layout) -> None:
    """Raise for a sample without nodes."""
    empty = np.flatnonzero(np.diff(layout.offsets) == 0)
    if empty.size:
        raise ValueError(f"sample {empty[0]} is empty: a sample needs at least one node")


def check_integers(values: Any, name: str, what: str = "") -> None:
    """Reject what is not a tensor of integers; masks may be of bool."""
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}")
    is_bool = values.dtype == torch.bool
    if values.is_floating_point() or values.is_complex() or (is_bool and not what):
        raise TypeError(f"{name} must be a tensor of integers{what}, got {values.dtype}")


def read_labels(
    labels: Any, layout: Layout, n_labels: int, ignored: int | None
) -> tuple[np.ndarray, Layout]:
    """Packed codes of labels, packed or padded, and the layout of those that are not ignored.

    Values in the padding do not matter.
    """
    check_integers(labels, "labels")
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
    kept = np.ones(len(codes), dtype=bool) if ignored is None else codes != ignored
    if np.count_nonzero(kept) < len(codes):
        codes, layout = codes[kept], layout.keep(kept)
        refuse_empty(layout)
    wrong = np.flatnonzero((codes < 0) | (codes >= n_labels))
    if wrong.size:
        i, t = layout.place(wrong[0])
        raise ValueError(
            f"labels: sample {i} has the label {codes[wrong[0]]} at node {t}; labels are 0 to "
            f"{n_labels - 1}"
        )
    return np.ascontiguousarray(codes, dtype=np.int32), layout


class Padded:
    """A batch as tensors (B, T, ...), and the way back; it looks at no values."""

    def __init__(self, scores, lengths, mask, labels, ignored, batch_first):
        self.batch_first, self.layout, shape = batch_first, None, tuple(scores.shape[:-1])
        for name, other, what in (("mask", mask, _MASK), ("labels", labels, "")):
            if other is None:
                continue
            check_integers(other, name, what)
            if len(shape) == 2 and other.shape != shape and (other.dim() > 1 or other is mask):
                got = f"{name} has the shape {tuple(other.shape)}"
                raise ValueError(f"{got}, but scores has {' x '.join(map(str, shape))} rows")
        there = isinstance(lengths, torch.Tensor) and (
            lengths.device.type != "cpu" or is_traced(lengths)
        )
        if len(shape) == 1 or (lengths is not None and (mask is not None or not there)):
            counts = lengths = np.diff(read_layout(scores, lengths, mask, batch_first).offsets)
        if len(shape) == 1:
            self.layout = padded_layout(counts, (counts.size, counts.max()), True)
            rows = torch.from_numpy(self.layout.unpack(np.arange(shape[0]))).to(scores.device)
            inside = torch.from_numpy(self.layout.unpack(np.ones(shape[0], dtype=bool), False))
            self.scores, self.inside = scores[rows], inside.to(scores.device)
        else:
            self.scores = self._turn(scores)
            self.inside = torch.ones_like(self.scores[..., 0], dtype=torch.bool)
            if lengths is not None:
                counts = torch.as_tensor(lengths, device=scores.device)
                self.inside = self.inside.cumsum(1) <= counts[:, None]
            elif mask is not None:
                self.inside = self._turn(mask) != 0
        self.is_prefix = mask is None and labels is None
        if labels is not None:
            if labels.dim() == 1:  # of the nodes, one sample after another
                rows = self.inside.flatten().cumsum(0).view_as(self.inside) - 1
                labels = labels[rows.clamp(min=0)]
            else:
                labels = self._turn(labels)[:, : self.inside.shape[1]]
            if ignored is not None:
                self.inside = self.inside & (labels != ignored)
        self.labels = labels

    def _turn(self, table):
        """A padded table with the samples first, and back."""
        return table if self.batch_first or self.layout is not None else table.transpose(0, 1)

    def as_given(self, table):
        """A table (B, T, ...) in the form of the scores."""
        if self.layout is None:
            return self._turn(table)
        flat = table.flatten(0, 1)
        rows = self.layout.rows
        return flat if rows is None else flat[torch.from_numpy(rows).to(flat.device)]

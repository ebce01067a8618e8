"""Batches as torch users have them, packed or padded, and how they lie in packed arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ..core.offsets import ends_of
from ..data.packing import sample_of

_LARGEST_SCORE = 1e300  # as in skstruct.solvers.passes


class Layout(NamedTuple):
    """Layout of the samples of a batch."""

    # (n_samples + 1,): Where the rows of each sample begin when they are packed.
    offsets: np.ndarray
    # (n_rows,) of a packed batch, the first two axes of a padded one.
    shape: tuple
    # (n_rows,): Of a padded batch: position of each packed row, when its first two axes are one;
    # None where packed and padded rows are the same.
    rows: np.ndarray | None
    # Whether the first axis of a padded batch is that of samples.
    batch_first: bool

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.offsets.size - 1

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Packed rows of an array that has this layout; a view where possible."""
        flat = array.reshape(-1, *array.shape[len(self.shape) :])
        return flat if self.rows is None else flat[self.rows]

    def unpack(self, packed: np.ndarray, fill: float = 0) -> np.ndarray:
        """The inverse of :meth:`pack`, with `fill` in the padding."""
        shape = (*self.shape, *packed.shape[1:])
        if self.rows is None:
            return packed.reshape(shape)
        out = np.full((int(np.prod(self.shape)), *packed.shape[1:]), fill, dtype=packed.dtype)
        out[self.rows] = packed
        return out.reshape(shape)


def as_array(tensor: torch.Tensor, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """A C-contiguous array of the values of a tensor; a view where possible."""
    return tensor.detach().to(device="cpu", dtype=dtype).contiguous().numpy()


def check_scores(scores: Any, name: str, dims: tuple[int, ...]) -> None:
    """Refuse what is no tensor of floats with so many axes."""
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
        counts = _read_lengths(lengths)
        if counts.sum() != scores.shape[0]:
            raise ValueError(
                f"lengths add up to {counts.sum()}, but scores has {scores.shape[0]} rows"
            )
        return Layout(ends_of(counts), (scores.shape[0],), None, True)
    shape = tuple(scores.shape[:2])
    n_samples, longest = shape if batch_first else shape[::-1]
    if lengths is not None and mask is not None:
        raise ValueError("give lengths or mask, not both")
    if mask is not None:
        counts = _lengths_of_mask(mask, shape, batch_first)
    elif lengths is not None:
        counts = _read_lengths(lengths)
    else:
        counts = np.full(n_samples, longest, dtype=np.int64)
    if counts.size != n_samples:
        raise ValueError(f"lengths has {counts.size} entries, but scores has {n_samples} samples")
    _refuse_empty(counts)
    long = np.flatnonzero(counts > longest)
    if long.size:
        raise ValueError(
            f"lengths: sample {long[0]} has length {counts[long[0]]}, but scores is padded to "
            f"{longest}"
        )
    return _padded(counts, shape, batch_first)


def _padded(counts, shape, batch_first):
    """The layout of padded rows."""
    n_samples, longest = shape if batch_first else shape[::-1]
    if batch_first and (counts == longest).all():
        return Layout(ends_of(counts), shape, None, True)
    valid = np.arange(longest) < counts[:, None]
    sample, t = np.nonzero(valid)
    rows = sample * longest + t if batch_first else t * n_samples + sample
    return Layout(ends_of(counts), shape, rows, batch_first)


def _read_lengths(lengths):
    """Lengths of samples, all of them positive."""
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.detach().cpu().numpy()
    counts = np.asarray(lengths)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.size == 0:
        raise ValueError(
            "lengths must be integers, one a sample and at least one, got "
            f"dtype {counts.dtype}, shape {counts.shape}"
        )
    _refuse_empty(counts)
    return counts.astype(np.int64)


def _refuse_empty(counts):
    if counts.size == 0:
        raise ValueError("scores has no samples")
    empty = np.flatnonzero(counts < 1)
    if empty.size:
        raise ValueError(
            f"sample {empty[0]} is empty (its length is {counts[empty[0]]}): a sample needs at "
            "least one node"
        )


def _lengths_of_mask(mask, shape, batch_first):
    """Lengths of the samples of a mask without holes."""
    if not isinstance(mask, torch.Tensor) or mask.dtype not in (torch.bool, torch.uint8):
        got = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a tensor of bool or uint8, got {got}")
    if tuple(mask.shape) != shape:
        raise ValueError(f"mask has the shape {tuple(mask.shape)}, but scores {shape}")
    table = mask.detach().cpu().numpy() != 0
    table = table if batch_first else table.T
    counts = table.sum(axis=1)
    wrong = (table != (np.arange(table.shape[1]) < counts[:, None])).any(axis=1)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"mask: sample {i} has a hole at position {int(np.argmin(table[i]))}: the nodes of a "
            "sample must come first, its padding after them"
        )
    return counts


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
        codes = _padded(np.diff(layout.offsets), tuple(labels.shape), True).pack(values)
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


def place(offsets: np.ndarray, row: int) -> tuple[int, int]:
    """Sample and node of a packed row."""
    i = sample_of(row, offsets)
    return i, int(row - offsets[i])


def check_finite(scores: np.ndarray, offsets: np.ndarray | None, name: str) -> None:
    """Refuse NaN and infinite scores; -inf is a label that is not allowed."""
    # One comparison of a maximum: NaN fails it, too.
    if scores.size == 0 or scores.max() <= _LARGEST_SCORE:
        return
    at = np.argwhere(~(scores <= _LARGEST_SCORE))[0]
    value = scores[tuple(at)]
    if offsets is None:
        raise ValueError(f"{name} has the value {value} at {tuple(map(int, at))}")
    i, t = place(offsets, at[0])
    raise ValueError(f"{name}: sample {i} has the value {value} at node {t}, label {at[1]}")

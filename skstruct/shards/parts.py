"""Samples a part at a time, from lists, arrays and streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..data.matrices import as_array
from ..data.packing import read_sample_weight
from ..data.ragged import RaggedArray
from .reading import Shards


def relocated(error: Exception, first: int) -> Exception:
    """The same error with the numbers that samples have among all."""
    if type(error) not in (ValueError, TypeError, FloatingPointError):
        return error

    def moved(found):
        return f"{found[1]} {int(found[2]) + first}"

    return type(error)(re.sub(r"\b(sample|sequence) (\d+)", moved, str(error)))


class Batch(NamedTuple):
    """Some of the samples."""

    # Position of the first one in what the user gave.
    first: int
    # The samples, and their labels or None.
    X: Any
    y: Any
    # (n_samples,): Their weights.
    sample_weight: np.ndarray | None


class _Slices:
    """Parts of what can be sliced."""

    def __init__(self, values, shard_size):
        values = values.tocsr() if sparse.issparse(values) else values
        self.values, self.size, self.at = values, shard_size, 0

    def next(self):
        """The next part, perhaps an empty one."""
        rows = slice(self.at, self.at + self.size)
        self.at += self.size
        return self.values.iloc[rows] if hasattr(self.values, "iloc") else self.values[rows]


class _Stream:
    """Parts of what can be gone through once."""

    def __init__(self, values, shard_size):
        self.values, self.size = iter(values), shard_size

    def next(self):
        """The next part, perhaps an empty one."""
        return list(islice(self.values, self.size))


def _n_samples(part):
    return part.shape[0] if hasattr(part, "shape") else len(part)


def _source(values, name, shard_size):
    """Parts of X, y or sample_weight."""
    values = as_array(values)
    if isinstance(values, (str, bytes, Mapping, Set, Shards)) or values is None:
        raise TypeError(f"{name} must be samples, got a {type(values).__name__}")
    sliced = isinstance(values, (list, tuple, np.ndarray, RaggedArray)) or sparse.issparse(values)
    if sliced or any(hasattr(values, name) for name in ("iloc", "to_list", "columns")):
        return _Slices(values, shard_size)
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be samples or an iterator, got a {type(values).__name__}")
    return _Stream(values, shard_size)


def pieces_of(X: Any, size: int) -> Iterator[tuple[int, Any]]:
    """Go through samples once, some at a time."""
    source, first = _source(X, "X", size), 0
    while n := _n_samples(piece := source.next()):
        yield first, piece
        first += n


def _refuse_other_lengths(sources):
    """Refuse y and weights of another length than X, where it is known before."""
    known = {
        name: _n_samples(source.values)
        for name, source in sources.items()
        if isinstance(source, _Slices)
    }
    for name, n in known.items():
        if n != known.get("X", n):
            raise ValueError(f"X has {known['X']} samples, but {name} has {n}")


def parts_of(X: Any, y: Any, sample_weight: Any, shard_size: int) -> Iterator[Batch]:
    """Go through the samples once."""
    given = {"X": X} | {
        name: values
        for name, values in (("y", y), ("sample_weight", sample_weight))
        if values is not None
    }
    sources = {name: _source(values, name, shard_size) for name, values in given.items()}
    _refuse_other_lengths(sources)
    first = 0
    while True:
        read = {name: source.next() for name, source in sources.items()}
        n = _n_samples(read["X"])
        for name, part in read.items():
            if _n_samples(part) != n:
                longer, shorter = ("X", name) if _n_samples(part) < n else (name, "X")
                end = first + min(n, _n_samples(part))
                raise ValueError(f"{shorter} ends after {end} samples, {longer} goes on")
        if n == 0:
            break
        weight = read.get("sample_weight")
        yield Batch(first, read["X"], read.get("y"), _weights(weight, n, first))
        first += n
        del read, weight  # before the next ones are made
    if first == 0:
        raise ValueError("X is empty: at least one sample is needed")


def _weights(weight, n, first):
    """Weights of a part, all of them positive."""
    if weight is None:
        return None
    zero = np.flatnonzero(np.asarray(weight) == 0)
    if zero.size:
        raise ValueError(
            f"sample_weight: sample {first + zero[0]} has weight 0: leave such samples out"
        )
    return read_sample_weight(weight, n)

"""What members of a union put out, packed, and set side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ..data.names import FeatureNames, names_of
from ..data.packing import as_list, is_empty_list
from ..data.ragged import RaggedArray
from ..data.sequences import read_sequences


class Block(NamedTuple):
    """What one member put out, packed."""

    name: str
    features: np.ndarray | sparse.csr_matrix
    offsets: np.ndarray
    edge_features: np.ndarray | sparse.csr_matrix | None
    names: tuple[FeatureNames | None, FeatureNames | None]


class Learned(NamedTuple):
    """What fit found out of one member: shapes and kinds of its output, without rows."""

    features: np.ndarray | sparse.csr_matrix
    edge_features: np.ndarray | sparse.csr_matrix | None


def read_block(name, output, learned=None):
    """A member's output, packed; an output without samples takes its shapes from `learned`."""
    if learned is not None and is_empty_list(output):
        none = np.zeros(1, dtype=np.int64)
        return Block(name, learned.features, none, learned.edge_features, (None, None))
    names = names_of(output)
    if not isinstance(output, (RaggedArray, np.ndarray)):
        output = as_list(output, f"output of {name!r}")
    pairs = not isinstance(output, RaggedArray) and any(isinstance(row, tuple) for row in output)
    packed = read_sequences(output, f"output of {name!r}", edge_features=pairs)
    block = Block(name, *packed, names)
    if learned is not None:
        for kind in ("features", "edge_features"):
            now, before = (getattr(own, kind) for own in (block, learned))
            width = [None if table is None else table.shape[1] for table in (now, before)]
            if width[0] != width[1]:
                raise ValueError(
                    f"{name!r} has {width[0]} {kind.replace('_', ' ')}, in fit {width[1]}"
                )
    return block


def without_rows(table):
    """The shape and kind of a table, without keeping it in memory."""
    return None if table is None else table[:0].copy()


def check_lengths(first, other):
    """Refuse members that disagree about samples or their nodes."""
    if first.offsets.size != other.offsets.size:
        raise ValueError(
            f"{first.name!r} has {first.offsets.size - 1} samples, {other.name!r} "
            f"{other.offsets.size - 1}"
        )
    wrong = np.flatnonzero(np.diff(first.offsets) != np.diff(other.offsets))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"sample {i}: {first.name!r} has {np.diff(first.offsets)[i]} nodes, {other.name!r} has "
            f"{np.diff(other.offsets)[i]}"
        )


def side_by_side(tables):
    """Tables next to each other."""
    if any(sparse.issparse(table) for table in tables):
        return sparse.hstack(tables, format="csr")
    return np.hstack(tables)


def check_pairs(members):
    """Refuse members that are no pairs (name, transformer)."""
    wanted = "transformer_list must be a list of pairs (name, transformer)"
    if not isinstance(members, (list, tuple)):
        raise TypeError(f"{wanted}, got {members!r}")
    for member in members:
        if not isinstance(member, (list, tuple)) or len(member) != 2:
            raise TypeError(f"{wanted}, got the entry {member!r}")


def check_weights(weights):
    """Refuse weights of members that are no numbers by name."""
    if weights is None:
        return
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"transformer_weights must be a dict from names to numbers, got {weights!r}"
        )
    for name, weight in weights.items():
        if not isinstance(weight, Real) or not math.isfinite(weight):
            raise ValueError(
                f"transformer_weights[{name!r}] must be a finite number, got {weight!r}"
            )


def fit_transform(member, X, y, routed):
    """Fit a clone of a member."""
    if member == "passthrough":
        return member, X
    member = clone(member)
    if hasattr(member, "fit_transform"):
        return member, member.fit_transform(X, y, **routed.get("fit_transform", {}))
    member.fit(X, y, **routed.get("fit", {}))
    return member, member.transform(X, **routed.get("transform", {}))


def transform(member, X):
    """Transform by a fitted member."""
    return X if member == "passthrough" else member.transform(X)

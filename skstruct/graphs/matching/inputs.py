"""Reading pairs and links as users give them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.offsets import ends_of
from ...data.matrices import numeric, refuse_masked
from ...data.packing import as_list, pack_nodes, take_rows
from ...typing import SamplesLike
from .kernels import OTHER, POSSIBLE, SURE


class PairTables(NamedTuple):
    """Packed pairs."""

    # (n_pairs, n_features): A row a pair, source by source.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the pairs of each sample begin.
    item_ptr: np.ndarray
    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # (n_pairs,): What each pair is in the gold standard, where y says so.
    kind: np.ndarray | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Where the labels of each sample begin: one a pair."""
        return self.item_ptr

    @property
    def lengths(self) -> np.ndarray:
        """Number of pairs of each sample."""
        return np.diff(self.item_ptr)

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sample: none."""
        return np.zeros(self.item_ptr.size - 1, dtype=np.int64)

    def take(self, keep: np.ndarray) -> PairTables:
        """The samples where the mask `keep` is True."""
        kind = None if self.kind is None else self.kind[np.repeat(keep, self.lengths)]
        rows = take_rows(self.features, keep, self.lengths)
        return PairTables(rows, ends_of(self.lengths[keep]), self.sizes[keep], kind)

    def without_empty(self) -> PairTables:
        """The samples that have pairs: all of them."""
        return self

    def matrices(self, flat: np.ndarray) -> list:
        """Numbers of all pairs as a view of shape (n_sources, n_targets) a sample."""
        starts = self.item_ptr[:-1].tolist()
        shapes = self.sizes.tolist()
        return [
            flat[at : at + n * m].reshape(n, m) for at, (n, m) in zip(starts, shapes, strict=True)
        ]


def read_pairs(X: SamplesLike) -> PairTables:
    """Pack arrays (n_sources, n_targets, n_features), or tuples (rows of all pairs, sizes)."""
    tables, sizes = zip(*(_read_sample(x, i) for i, x in enumerate(as_list(X, "X"))), strict=True)
    features, item_ptr = pack_nodes(list(tables), "X")
    return PairTables(features, item_ptr, np.array(sizes, dtype=np.int64).reshape(-1, 2))


def _read_sample(x, i):
    """Rows of all pairs of a sample, and how many sources and targets it has."""
    if isinstance(x, tuple):
        size = np.asarray(x[1]) if len(x) == 2 else np.empty(0)
        if size.shape != (2,) or size.dtype.kind not in "iu":
            raise ValueError(
                f"X: sample {i} is a tuple, which must be (rows of features of all pairs, "
                "(n_sources, n_targets))"
            )
        n, m = size.tolist()
        table = x[0] if sparse.issparse(x[0]) else numeric(x[0], f"X: sample {i}")
        _refuse_empty_side(n, m, i)
        if table.ndim != 2 or table.shape[0] != n * m:
            raise ValueError(
                f"X: sample {i} has features of shape {table.shape}, but {n} x {m} pairs need "
                f"({n * m}, n_features)"
            )
        return table, (n, m)
    if sparse.issparse(x):
        raise ValueError(
            f"X: sample {i} is a sparse matrix: give the tuple (matrix, (n_sources, n_targets))"
        )
    table = numeric(x, f"X: sample {i}")
    if table.ndim != 3:
        raise ValueError(
            f"X: sample {i} must be of shape (n_sources, n_targets, n_features), or a tuple (rows "
            f"of features of all pairs, (n_sources, n_targets)); it has {table.ndim} dimensions"
        )
    n, m, width = table.shape
    _refuse_empty_side(n, m, i)
    return table.reshape(n * m, width), (n, m)


def _refuse_empty_side(n, m, i):
    if min(n, m) < 1:
        side = "sources" if n < 1 else "targets"
        raise ValueError(f"X: sample {i} has no {side}")


def read_links(y: SamplesLike, samples: PairTables) -> np.ndarray:
    """What each pair is in the gold standard."""
    refuse_masked(y, "y")
    items = as_list(y, "y")
    if len(items) != len(samples.sizes):
        raise ValueError(f"X has {len(samples.sizes)} samples, but y has {len(items)}")
    kind = np.full(samples.item_ptr[-1], OTHER, dtype=np.uint8)
    for i, (item, pairs) in enumerate(zip(items, samples.matrices(kind), strict=True)):
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"y: sample {i} is a tuple, which must be (sure links, possible links)"
                )
            _mark(pairs, item[1], POSSIBLE, f"y: the possible links of sample {i}", False)
            _mark(pairs, item[0], SURE, f"y: the sure links of sample {i}", False)
        else:
            _mark(pairs, item, SURE, f"y: sample {i}", True)
    return kind


def _mark(pairs, links, kind, name, may_be_targets):
    """Write `kind` at the links, which are rows (source, target), booleans or targets."""
    refuse_masked(links, name)
    n, m = pairs.shape
    try:
        links = np.asarray(links)
    except ValueError:
        raise ValueError(f"{name}: its links are not all of two numbers") from None
    if links.size == 0 and links.dtype != bool:
        return
    if links.dtype == bool:
        if links.shape != (n, m):
            raise ValueError(f"{name} are booleans of shape {links.shape}, but it has {n} x {m}")
        pairs[links] = kind
        return
    if links.dtype.kind not in "iu" or not (
        (links.ndim == 2 and links.shape[1] == 2) or (links.ndim == 1 and may_be_targets)
    ):
        more = f", or {n} targets (-1 for none)" if may_be_targets else ""
        raise ValueError(
            f"{name} must be integers of shape (n_links, 2), booleans of shape ({n}, {m}){more}; "
            f"got {links.dtype} of shape {links.shape}"
        )
    if links.ndim == 1:
        if links.size != n:
            raise ValueError(f"{name} has {links.size} targets for {n} sources")
        if links.min() < -1:
            raise ValueError(f"{name} has the target {links.min()}; a source without one has -1")
        links = np.column_stack([np.arange(n), links])[links >= 0]
    wrong = ((links < 0) | (links >= (n, m))).any(axis=1)
    if wrong.any():
        s, t = links[wrong][0].tolist()
        raise ValueError(f"{name} has the link ({s}, {t}), but {n} sources and {m} targets")
    pairs[links[:, 0], links[:, 1]] = kind

"""Packed samples: what the records of all structures can do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from ..core.offsets import ends_of
from .packing import take_rows

_POINTERS = ("offsets", "item_ptr", "edge_ptr")


def _lengths(self) -> np.ndarray:
    """Number of labels of each sample."""
    return np.diff(self.offsets)


def _n_edges(self) -> np.ndarray:
    """Number of edges of each sample."""
    if "edge_ptr" in self._fields:
        return np.diff(self.edge_ptr)
    return np.zeros(self.offsets.size - 1, dtype=np.int64)


def packed(
    nodes: tuple[str, ...] = ("features",),
    edges: tuple[str, ...] = (),
    samples: tuple[str, ...] = (),
) -> Callable[[type], type]:
    """Give a NamedTuple of packed samples ``lengths``, ``n_edges``, ``take``, ``without_empty``.

    Named are the fields that have a row a node (an item, where there is ``item_ptr``), an edge, or
    a sample; they may be None. What the class itself defines stays.
    """

    def take(self, keep: np.ndarray):
        """The samples where the mask `keep` is True."""
        items = np.diff(self.item_ptr) if "item_ptr" in self._fields else self.lengths
        kept = {}
        for names, counts in ((nodes, items), (edges, self.n_edges), (samples, 1)):
            for name in names:
                table = getattr(self, name)
                if table is None:
                    continue
                if sparse.issparse(table) or table.dtype.kind == "f":
                    kept[name] = take_rows(table, keep, counts)
                else:
                    kept[name] = table[np.repeat(keep, counts)]
        for name in _POINTERS:
            if name in self._fields:
                kept[name] = ends_of(np.diff(getattr(self, name))[keep])
        return self._replace(**kept)

    def without_empty(self):
        """The samples that have nodes; nothing is copied but pointers."""
        keep = self.lengths > 0
        if keep.all():
            return self
        ends = np.append(True, keep)
        kept = {name: getattr(self, name)[ends] for name in _POINTERS if name in self._fields}
        for name in samples:
            rows = getattr(self, name)
            kept[name] = None if rows is None else rows[keep]
        return self._replace(**kept)

    def add(cls):
        for name, member in {
            "lengths": property(_lengths),
            "n_edges": property(_n_edges),
            "take": take,
            "without_empty": without_empty,
        }.items():
            if name not in vars(cls):
                setattr(cls, name, member)
        return cls

    return add

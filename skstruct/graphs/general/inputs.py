"""Read and pack graphs of nodes and edges, with or without cycles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.offsets import ends_of
from ...data.matrices import refuse_masked
from ...data.packing import take_rows


class Networks(NamedTuple):
    """Packed nodes, and the edges between them."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray
    # (n_edges, 2): Nodes of each edge, counted within the sample.
    edges: np.ndarray
    # (n_samples + 1,): Where the edges of each sample begin.
    edge_ptr: np.ndarray
    # (n_edges,): Type of each edge.
    types: np.ndarray
    # (n_edges, n_edge_features): As `features`, of edges.
    edge_features: np.ndarray | sparse.csr_matrix | None = None
    # (n_samples, 2): Height and width of each image.
    shapes: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Number of nodes of each sample."""
        return np.diff(self.offsets)

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sample."""
        return np.diff(self.edge_ptr)

    def numbers(self) -> np.ndarray:
        """The edges, counted within each sample."""
        every = np.arange(len(self.edges), dtype=np.int32)
        return every - np.repeat(self.edge_ptr[:-1].astype(np.int32), self.n_edges)

    def take(self, keep: np.ndarray) -> Networks:
        """The samples where the mask `keep` is True."""
        edges = np.repeat(keep, self.n_edges)
        rows = self.edge_features
        return Networks(
            take_rows(self.features, keep, self.lengths),
            ends_of(self.lengths[keep]),
            self.edges[edges],
            ends_of(self.n_edges[keep]),
            self.types[edges],
            None if rows is None else take_rows(rows, keep, self.n_edges),
            None if self.shapes is None else self.shapes[keep],
        )

    def without_empty(self) -> Networks:
        """The samples that have nodes; nothing is copied."""
        keep = self.lengths > 0
        ends = np.append(True, keep)
        return self._replace(
            offsets=self.offsets[ends],
            edge_ptr=self.edge_ptr[ends],
            shapes=None if self.shapes is None else self.shapes[keep],
        )

    def global_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of all edges, counted over all samples."""
        shift = np.repeat(self.offsets[:-1], self.n_edges)
        return self.edges[:, 0] + shift, self.edges[:, 1] + shift


def read_edges(edges, n: int, n_types: int, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends and types of the edges of sample i."""
    refuse_masked(edges, f"X: the edges of sample {i}")
    n_columns = 2 + (n_types > 1)
    wanted = f"integers of shape (n_edges, {n_columns})"
    try:
        array = np.asarray(edges)
    except ValueError:
        raise ValueError(
            f"X: the edges of sample {i} must be {wanted}, but its rows differ in length"
        ) from None
    if array.size == 0 and array.ndim in (1, 2) and len(array) == 0:
        array = np.empty((0, n_columns), dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != n_columns:
        last = ", the last column the type" if n_types > 1 else ""
        if array.ndim == 2 and array.shape[1] == 3 > n_columns:
            last = " (a third column, the type, needs edge_types above 1)"
        raise ValueError(
            f"X: the edges of sample {i} must be {wanted}{last}, got dtype {array.dtype}, shape "
            f"{array.shape}"
        )
    ends, types = array[:, :2], array[:, 2] if n_types > 1 else np.zeros(len(array), dtype=int)
    wrong = np.flatnonzero(((ends < 0) | (ends >= n)).any(axis=1))
    if wrong.size:
        pair = tuple(int(node) for node in ends[wrong[0]])
        nodes = f"its nodes are 0 to {n - 1}" if n else "no nodes"
        raise ValueError(f"X: sample {i} has the edge {pair}, but {nodes}")
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise ValueError(f"X: sample {i} has an edge from node {ends[loops[0], 0]} to itself")
    wrong = np.flatnonzero((types < 0) | (types >= n_types))
    if wrong.size:
        raise ValueError(
            f"X: sample {i} has an edge of type {types[wrong[0]]}, but the types are 0 to "
            f"{n_types - 1} (edge_types={n_types})"
        )
    _refuse_duplicates(ends, types, i)
    return ends.astype(np.int32), types.astype(np.int32)


def _refuse_duplicates(ends, types, i):
    """One edge twice, in whichever direction, is a mistake; of another type it is not."""
    low, high = np.minimum(*ends.T), np.maximum(*ends.T)
    order = np.lexsort((types, high, low))
    keys = np.stack([low, high, types])[:, order]
    again = np.flatnonzero((keys[:, 1:] == keys[:, :-1]).all(axis=0))
    if again.size:
        pair = tuple(int(node) for node in ends[order[again[0] + 1]])
        raise ValueError(
            f"X: sample {i} has the edge {pair} twice (one edge stands for both directions); edges "
            "of the same nodes must differ in type"
        )


def neighbours(image: np.ndarray, neighborhood: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Views of the pixels at the first and at the second end of each edge, by direction."""
    pairs = [(image[:, :-1], image[:, 1:]), (image[:-1], image[1:])]
    if neighborhood == 8:
        pairs += [(image[:-1, :-1], image[1:, 1:]), (image[:-1, 1:], image[1:, :-1])]
    return pairs


def grid_edges(height: int, width: int, neighborhood: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges between neighbouring pixels, and their directions.

    Parameters
    ----------
    height, width : int
        Size of the image; pixel (r, c) is node ``r * width + c``.
    neighborhood : {4, 8}
        Neighbours of a pixel, with or without diagonal ones.

    Returns
    -------
    ends : ndarray of shape (n_edges, 2) of int32
        The edges: horizontal ones, vertical ones, then diagonals downward to the right and to the
        left. The first end is the upper one, of two in one row the left one.
    directions : ndarray of shape (n_edges,) of int32
        0, 1, 2, 3 in this order.

    See Also
    --------
    skstruct.Pairwise : The structure of graphs, with cycles or without.
    skstruct.Grid : The structure of images.

    Examples
    --------
    >>> from skstruct.graphs.general.inputs import grid_edges
    >>> grid_edges(2, 2, 4)[0].tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    node = np.arange(height * width, dtype=np.int32).reshape(height, width)
    pairs = neighbours(node, neighborhood)
    ends = [np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]
    return np.concatenate(ends), np.repeat(
        np.arange(len(ends), dtype=np.int32), [len(e) for e in ends]
    )

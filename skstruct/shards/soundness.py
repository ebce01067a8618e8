"""What kernels read without a look at bounds, looked at when a shard is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..graphs import Graph
from .files import Damage


def check_samples(samples: Any, graph: Graph, entry: dict, folder: Path) -> None:
    """Refuse packed samples that a structure has not packed."""
    check_ends(samples.offsets, entry["samples"], entry["nodes"], folder / "offsets.npy")
    if graph.is_table and (np.diff(samples.offsets) != 1).any():
        raise Damage(f"{folder / 'offsets.npy'} is damaged: a sample of a table is one row")
    rows = entry["samples"] if graph.is_table else entry["nodes"]
    if samples.features.ndim != 2 or samples.features.shape[0] != rows:
        raise Damage(f"{folder}: there must be {rows} rows of features")
    edges = getattr(samples, "edges", None)
    if edges is not None and hasattr(samples, "edge_ptr"):
        _check_edges(samples, edges, entry["samples"], folder)
        types = getattr(samples, "types", None)
        if types is not None and (types.size != len(edges) or _beyond(types, graph._n_types())):
            raise Damage(f"{folder / 'types.npy'} is damaged: edges have other types")
    rows, shapes = getattr(samples, "edge_features", None), getattr(samples, "shapes", None)
    if rows is not None and rows.shape[:1] != (samples.n_edges.sum(),):
        raise Damage(f"{folder}: there must be a row of edge features for each edge")
    if shapes is not None and not np.array_equal(shapes.prod(axis=-1), samples.lengths):
        raise Damage(f"{folder / 'shapes.npy'} is damaged: images have other sizes")


def check_ends(ends: np.ndarray, n: int, total: int, path: Path) -> None:
    """Refuse pointers that do not go from 0 to a total."""
    sound = ends.shape == (n + 1,) and ends.dtype == np.int64 and ends[0] == 0
    if not sound or (ends[1:] < ends[:-1]).any() or ends[-1] != total:
        raise Damage(f"{path} is damaged: it must have the ends of {n} samples")


def _check_edges(samples, edges, n, folder):
    """Refuse edges between nodes that are not there."""
    check_ends(samples.edge_ptr, n, len(edges), folder / "edge_ptr.npy")
    sound = edges.ndim == 2 and edges.shape[1] == 2 and edges.dtype == np.int32
    ends = np.repeat(samples.lengths, samples.n_edges)[:, None]
    if not sound or _beyond(edges, ends) or (edges[:, 0] == edges[:, 1]).any():
        raise Damage(f"{folder / 'edges.npy'} is damaged: edges must be between nodes of a sample")


def _beyond(numbers, ends):
    return numbers.dtype.kind not in "iu" or bool(((numbers < 0) | (numbers >= ends)).any())

"""Read sequences, in any of the forms that users have them in."""

from __future__ import annotations

import numpy as np

from .matrices import refuse_masked, writable
from .packing import as_list, check_finite, pack_nodes, read_edge_features, read_flat
from .ragged import RaggedArray, rows_of


def read_sequences(X, name: str = "X", edge_features: bool = False):
    """Pack sequences."""
    if not isinstance(edge_features, (bool, np.bool_)):
        raise ValueError(f"edge_features must be a bool, got {edge_features!r}")
    edges = None
    if edge_features:
        pairs = as_list(X, name)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"{name}: sample {i} must be a pair (features, edge_features)")
        features, offsets = pack_nodes([pair[0] for pair in pairs], name)
        lengths = np.diff(offsets)
        n_edges = np.maximum(lengths - 1, 0)
        edges = read_edge_features([pair[1] for pair in pairs], lengths, n_edges, name)
    elif isinstance(X, RaggedArray):
        if len(X) == 0:
            raise ValueError(f"{name} is empty: at least one sample is needed")
        # Offsets of a RaggedArray are read-only: to numba another type, and another compile.
        features, offsets = read_flat(rows_of(X), f"{name}.flat"), writable(X.offsets, np.int64)
        check_finite(features, offsets, name)
    elif isinstance(X, np.ndarray) and X.ndim == 3 and len(X):
        refuse_masked(X, name)
        n, length, width = X.shape
        features = read_flat(X.reshape(n * length, width), name)
        offsets = np.arange(n + 1, dtype=np.int64) * length
        check_finite(features, offsets, name)
    else:
        samples = as_list(X, name)
        if any(isinstance(sample, tuple) for sample in samples):
            raise ValueError(
                f"{name} has tuples: use Chain(edge_features=True), Tree() or Pairwise() as the "
                "graph, for images Grid(edge_features=True)"
            )
        features, offsets = pack_nodes(samples, name)
    return features, offsets, edges

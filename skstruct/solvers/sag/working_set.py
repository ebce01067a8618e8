"""Problems on some of the feature rows: the others have weight 0 under an L1 penalty."""

from __future__ import annotations

import numpy as np

from ...core.dispatch import kernel
from ...core.features import SparseFeatures
from ...core.oracles import accumulate

_NAMES = ("nodes", "items")


def reducible(problem) -> str | None:
    """Name of the field with the sparse rows that the node table has weights for."""
    for name in _NAMES:
        if isinstance(getattr(problem, name, None), SparseFeatures):
            return name
    return None


def rows_to_keep(problem, node: np.ndarray, direction: np.ndarray, stays: float) -> np.ndarray:
    """Which rows of the node table may matter."""
    kept = node.any(axis=1)
    # Not the sizes of all at once: that is a table more.
    kept |= direction.max(axis=1, initial=0.0) > stays
    kept |= direction.min(axis=1, initial=0.0) < -stays
    intercept = getattr(problem, reducible(problem)).intercept
    if intercept >= 0:
        kept[intercept] = True
    return kept


def reduce_problem(problem, rows, n_rows: int):
    """The problem on some rows of the node table."""
    name = reducible(problem)
    features = getattr(problem, name)
    place = np.full(n_rows, -1, dtype=features.indices.dtype)
    place[rows] = np.arange(len(rows))
    indices = place[features.indices]
    kept = indices >= 0
    ends = np.zeros(kept.size + 1, dtype=features.indptr.dtype)
    np.cumsum(kept, out=ends[1:])
    intercept = int(place[features.intercept]) if features.intercept >= 0 else -1
    reduced = SparseFeatures(features.data[kept], indices[kept], ends[features.indptr], intercept)
    return problem._replace(**{name: reduced})


@kernel
def add_residuals(problem, residuals, first, stop, w):
    """Add the features of stored residuals to ``d``."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (0.0, 1.0), w)

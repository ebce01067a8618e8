"""Node weights in single precision while the optimum is far, and the way back to double."""

from __future__ import annotations

import math

import numpy as np

from ...core.features import SparseFeatures
from ...core.jit.dispatch import kernel
from ...core.oracles import accumulate

# Problems on some of the feature rows: the others have weight 0 under an L1 penalty.

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
def add_residuals(problem, residuals, first, stop, w, team):
    """Add the features of stored residuals to ``d``; threads do not meet, each has its share."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (0.0, 1.0), w)


# Node weights: fewer, with their directions, are in the cache in double precision, too.
_MANY = 1 << 18
# Passes that earn back the sum over all residuals by which single precision ends.
_FEWEST_PASSES = 4
# Relative gap: rounding to single precision does not show before.
CLOSE = 1e-4
# How much larger than their sum v and b d may become.
GROWTH = 8.0


def takes_single(precision, shapes, max_iter):
    """Whether a run is to begin in single precision."""
    if precision == "auto":
        return math.prod(shapes[0]) >= _MANY and max_iter >= _FEWEST_PASSES
    return precision == "single"

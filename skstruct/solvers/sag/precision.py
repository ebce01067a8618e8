"""Node weights in single precision while the optimum is far, and the way back to double."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...core.features import SparseFeatures
from ...core.jit.dispatch import kernel
from ...core.oracles import accumulate
from ...core.parallel import Pieces
from ...core.weights import fold, in_double, in_single

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
def add_residuals(problem, residuals, first, stop, w):
    """Add the features of stored residuals to ``d``."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (0.0, 1.0), w)


# Node weights: fewer, with their directions, are in the cache in double precision, too.
_MANY = 1 << 18
# Passes that earn back the sum over all residuals by which single precision ends.
_FEWEST_PASSES = 4
# Relative gap: rounding to single precision does not show before.
_CLOSE = 1e-4
# How much larger than their sum v and b d may become.
_GROWTH = 8.0


def takes_single(precision, shapes, max_iter):
    """Whether a run is to begin in single precision."""
    if precision == "auto":
        return math.prod(shapes[0]) >= _MANY and max_iter >= _FEWEST_PASSES
    return precision == "single"


class SinglePrecision:
    """The part of a run in single precision.

    The weights are what rounding makes of them: the method goes on from there. Their direction is a
    running sum that gathers rounding errors for good, so it gives no bounds, and in the end it is
    summed anew.
    """

    def __init__(self, problem, residuals, workers, crew):
        self._problem, self._residuals, self._memory = problem, residuals, None
        self._workers, self._crew = workers, crew

    def compile(self, w):
        """Call the kernel on nothing."""
        add_residuals(self._problem, self._residuals, 0, 0, w)

    def begin(self, w):
        """Weights in single precision with the value of `w`, which is not to be used any more."""
        self._memory = w
        return in_single(w)

    def end(self, w):
        """Weights in double precision with the value of `w`, and the exact direction."""
        w, self._memory = in_double(w, self._memory), None
        self._sum(w)
        return w

    def restore(self, w):
        """Sum the direction of `w`, in double precision, anew: sooner done than kept and copied."""
        for table in w.tables:
            table[:, table.shape[1] // 2 :] = 0.0
        self._sum(w)

    def _sum(self, w):
        for cut in Pieces().ranges(0, self._problem.part_ptr.size - 1):
            self._crew.run(partial(self._add, cut, w))

    def _add(self, cut, w, k, team):
        own = self._workers[k]
        add_residuals(own.problem, self._residuals, *cut, own.share_of(w, self._crew.size))


def is_close(estimate):
    """Whether a relative gap is so small that single precision is to end."""
    return estimate <= _CLOSE


def fold_large(w, squared_norm, squared_direction):
    """Fold weights where ``v`` and ``b d`` have grown so large that their sum loses digits."""
    if w.scale[1] ** 2 * squared_direction > _GROWTH**2 * squared_norm:
        fold(w)

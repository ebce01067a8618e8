"""Node weights in single precision while the optimum is far, and the way back to double."""

from __future__ import annotations

import math
from functools import partial

from ...core.pieces import Pieces
from ...core.single import in_double, in_single
from ...core.weights import fold
from .working_set import add_residuals

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

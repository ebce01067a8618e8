"""Extrapolation of dual points: as far again as some passes went, where that is better.

Near the optimum the passes of a coordinate method are a linear iteration, slow where blocks depend
on one another: steps along the way it has gone make up for it (Bertrand and Massias 2021, Anderson
acceleration of coordinate descent). Here the step is the best one for the dual objective, and what
it would take from a labelling beyond its share stays.
"""

import numpy as np

from ...core.dispatch import kernel
from ...core.oracles import accumulate, add_indicator
from ...core.pieces import Pieces
from ...core.weights import inner_product, squared_norm, zero_weights

_AIM, _FOLLOW = range(2)


@kernel
def _travel(problem, sample_weight, lam, state, task, part, gain, start, stop, w, change):
    """Aim at extrapolated shares, or follow a part of the way to them.

    ``_AIM``: these take the place of the past ones, `w` takes what the weights would gain, and what
    the sum of the weighted task losses would gain is added to `gain`, which is returned. `part` is
    how far they lie, in ways from the past shares. ``_FOLLOW``: they become the past ones.
    """
    for i in range(start, stop):
        shares, past = state.shares[i], state.past[i]
        first, last = problem.label_ptr[i], problem.label_ptr[i + 1]
        target, step = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]], part
        if task == _AIM:
            target, step = change[: target.shape[0]], 1.0
            before = after = 0.0
            for c in range(shares.shape[0]):
                if shares[c] >= 0.0:
                    goal = shares[c] + part * (shares[c] - past[c])
                    past[c] = 0.0 if goal < 0.0 else goal
                    before += shares[c]
                    after += past[c]
            lost = not after > 0.0
            for c in range(shares.shape[0]):
                if lost:
                    past[c] = shares[c] if shares[c] > 0.0 else 0.0
                elif shares[c] >= 0.0:
                    past[c] *= before / after
            for q in range(target.shape[0]):
                target[q] = 0.0
        moves = False
        for c in range(shares.shape[0]):
            if shares[c] >= 0.0:
                move = step * (past[c] - shares[c])
                if move != 0.0:
                    moves = True
                    add_indicator(problem, i, state.labels[c, first:last], move, target)
                    gain += sample_weight[i] * move * state.costs[i, c]
                    if task == _FOLLOW:
                        state.losses[i] += move * state.costs[i, c]
                        moved = shares[c] + move
                        shares[c] = 0.0 if moved < 0.0 else moved
                if task == _FOLLOW:
                    past[c] = shares[c]
        if moves and task == _AIM:
            scale = sample_weight[i] / (lam * sample_weight.shape[0])
            accumulate(problem, i, target, (-scale, 0.0), w)
    return gain


class Extrapolation:
    """The weights of some passes ago, and the steps away from there."""

    def __init__(self, problem, sample_weight, lam, shapes):
        self.task = problem, sample_weight, lam
        self._past = zero_weights(shapes)
        self._loss = 0.0

    def compile(self, state, change):
        """Compile outside the clock."""
        _travel(*self.task, state, _AIM, 0.0, 0.0, 0, 0, self._past, change)

    def _mean_loss(self, state):
        return float(np.einsum("i,i->", state.losses, self.task[1])) / self.task[1].size

    def begin(self, state, w):
        """Note where the passes start."""
        np.maximum(state.shares, 0.0, out=state.past)
        self._note(state, w)

    def _note(self, state, w):
        for past, now in zip(self._past.tables, w.tables, strict=True):
            past[...] = now
        self._loss = self._mean_loss(state)

    def step(self, state, w, change):
        """From where the last passes led as far as is best, and note it."""
        way, lam, n = self._past, self.task[2], self.task[1].size
        for past, now in zip(way.tables, w.tables, strict=True):
            np.subtract(now, past, out=past)
        norm = lam * squared_norm(way)
        factor = (
            self._mean_loss(state) - self._loss - lam * inner_product(w.tables, way.tables)
        ) / max(norm, 1e-300)
        if not 0.0 < factor < np.inf:
            self.begin(state, w)
            return
        for table in way.tables:
            table[...] = 0.0
        gain = 0.0
        for first, last in Pieces().ranges(0, n):
            gain = _travel(*self.task, state, _AIM, factor, gain, first, last, way, change)
        # Where shares ran out the way has changed; never farther than to the shares aimed at.
        norm = lam * squared_norm(way)
        step = (gain / n - lam * inner_product(w.tables, way.tables)) / max(norm, 1e-300)
        step = min(max(step, 0.0), 1.0)
        for past, now in zip(way.tables, w.tables, strict=True):
            past *= step
            now += past
        for first, last in Pieces().ranges(0, n):
            _travel(*self.task, state, _FOLLOW, step, 0.0, first, last, way, change)
        self._note(state, w)

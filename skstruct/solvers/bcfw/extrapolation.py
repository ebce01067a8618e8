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


@kernel
def _aim(problem, sample_weight, lam, state, factor, gain, start, stop, w, change):
    """Extrapolated shares take the place of the past ones; `w` takes what the weights would gain.

    Returns `gain` and what the sum of the weighted task losses would gain.
    """
    for i in range(start, stop):
        shares, past = state.shares[i], state.past[i]
        first, last = problem.label_ptr[i], problem.label_ptr[i + 1]
        before = after = 0.0
        for c in range(shares.shape[0]):
            if shares[c] >= 0.0:
                goal = shares[c] + factor * (shares[c] - past[c])
                past[c] = 0.0 if goal < 0.0 else goal
                before += shares[c]
                after += past[c]
        if not after > 0.0:
            before = after = 1.0
            for c in range(shares.shape[0]):
                past[c] = shares[c] if shares[c] > 0.0 else 0.0
        size = problem.part_ptr[i + 1] - problem.part_ptr[i]
        for q in range(size):
            change[q] = 0.0
        moves = False
        for c in range(shares.shape[0]):
            if shares[c] >= 0.0:
                past[c] *= before / after
                move = past[c] - shares[c]
                if move != 0.0:
                    moves = True
                    add_indicator(problem, i, state.labels[c, first:last], move, change)
                    gain += sample_weight[i] * move * state.costs[i, c]
        if moves:
            scale = sample_weight[i] / (lam * sample_weight.shape[0])
            accumulate(problem, i, change[:size], (-scale, 0.0), w)
    return gain


@kernel
def _follow(problem, state, step, start, stop):
    """The part `step` of the way to the extrapolated shares, which become the past ones."""
    for i in range(start, stop):
        shares, past = state.shares[i], state.past[i]
        first, last = problem.label_ptr[i], problem.label_ptr[i + 1]
        residual = state.residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        for c in range(shares.shape[0]):
            if shares[c] >= 0.0:
                move = step * (past[c] - shares[c])
                if move != 0.0:
                    add_indicator(problem, i, state.labels[c, first:last], move, residual)
                    state.losses[i] += move * state.costs[i, c]
                    moved = shares[c] + move
                    shares[c] = 0.0 if moved < 0.0 else moved
                past[c] = shares[c]


class Extrapolation:
    """The weights of some passes ago, and the steps away from there.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    """

    def __init__(self, problem, sample_weight, lam, shapes):
        self.task = problem, sample_weight, lam
        self._past = zero_weights(shapes)
        self._loss = 0.0

    def compile(self, state, change):
        """Compile outside the clock."""
        _aim(*self.task, state, 0.0, 0.0, 0, 0, self._past, change)
        _follow(self.task[0], state, 0.0, 0, 0)

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
        """From where the last passes led as far as is best, and note it.

        Parameters
        ----------
        state : BCFWState
            The dual point; it is moved.
        w : Weights
            Its weights, plain ones; they follow.
        change : ndarray of shape (max_parts,)
            Scratch.
        """
        problem, sample_weight, lam = self.task
        way, n = self._past, sample_weight.size
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
            gain = _aim(*self.task, state, factor, gain, first, last, way, change)
        # Where shares ran out the way has changed; never farther than to the shares aimed at.
        norm = lam * squared_norm(way)
        step = (gain / n - lam * inner_product(w.tables, way.tables)) / max(norm, 1e-300)
        step = min(max(step, 0.0), 1.0)
        for past, now in zip(way.tables, w.tables, strict=True):
            past *= step
            now += past
        for first, last in Pieces().ranges(0, n):
            _follow(problem, state, step, first, last)
        self._note(state, w)

"""Casimir-SVRG on the linearised problem, with mini-batches: the inner solver of prox-linear."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .mapped import Linearised, MappedLosses, Residuals

# Batches that are probed for a first estimate of the smoothness.
_PROBES = 3
# Without smoothing: a share of the strength that only breaks ties.
_NEARLY_NONE = 1e-6
# Where all labellings tie nothing is measured: this share of what a step away from the truth shows.
_AT_TIES = 0.1
# A pass that adds less than this share to what has been won is the last one.
_SOLVED = 0.02
# The learning rate grows by the one factor after a pass that succeeds, and falls by the other after
# one that fails; then it stays below what failed by some margin, which is slowly forgotten.
_BOLDER, _CAREFUL, _BELOW, _FORGET = 0.8, 2.0, 1.4, 0.97
# Shorter steps change no weight.
_MOST_CAREFUL = 2.0**52


class Point(NamedTuple):
    """Weights, and what the smoothed losses say of them."""

    # The weights.
    vector: np.ndarray
    # The map there.
    linearised: Linearised
    # Losses and residuals at its scores.
    found: Residuals
    # The smoothed objective.
    objective: float
    # Its gradient.
    gradient: np.ndarray


class CasimirSteps:
    """Accelerated SVRG on ``mean smoothed loss of linearised scores + quadratic terms``."""

    def __init__(self, losses: MappedLosses, lam, n_passes, batch_size, rate, settle):
        self.losses, self.lam = losses, lam
        self.n_passes, self.batch_size, self.rate = n_passes, batch_size, rate
        self.settle = settle
        #: Estimate of the smoothness of a sample's loss, at the present strength of smoothing.
        self.lipschitz = 0.0
        self._caution, self._least_caution = 1.0, 0.0

    def point(self, vector, linearised, rng, pieces) -> Point | None:
        """What the smoothed losses say of weights; None if they overflow or a callback stops."""
        batches = self.losses.draw_batches(rng, self.batch_size)
        found = self.losses.at_all(linearised.all().scores, vector, batches, pieces)
        if found is None:
            return None
        gradient = self.losses.gradient(linearised, found) + self.lam * vector
        objective = found.loss + 0.5 * self.lam * float(vector @ vector)
        return Point(vector, linearised, found, objective, gradient)

    def solve(self, at: Point, eta: float, strength: float, rng, pieces) -> np.ndarray:
        """Weights near the minimum around a point."""
        if self.lipschitz == 0.0:
            self.lipschitz = self._probe(at, rng, strength)
        strong = self.lam + 1.0 / eta
        center = before = at.vector
        snapshot, gradient, least = at.found, at.gradient - self.lam * at.vector, at.objective
        for k in range(self.n_passes):
            if k > 0:
                found = self._snapshot(at, center, rng, pieces)
                if pieces.stopped:
                    return before
                value = np.inf if found is None else self._model(at, found, center, eta)
                if value <= least:
                    if least - value < _SOLVED * (at.objective - value):
                        return center
                    snapshot, least, kept = found, value, center
                    gradient = self.losses.gradient(at.linearised, found)
                    self._succeed()
                else:
                    # Longer steps than the losses bear: once more from the last snapshot.
                    self._fail()
                    center = before = kept
            else:
                kept = center
            n_batches = len(snapshot.batches)
            kappa = max(self._steepness() / n_batches - strong, 0.0)
            w = self._steps(at, center, snapshot, gradient, eta, kappa, rng, pieces)
            if pieces.stopped:
                return before
            if w is None:
                self._fail()
                return kept
            root = np.sqrt(strong / (strong + kappa))
            center = w + (1.0 - root) / (1.0 + root) * (w - before)
            self.settle(center)
            before = w
        return before

    def _steepness(self):
        return self._caution * self.lipschitz

    def _succeed(self):
        self._least_caution *= _FORGET
        self._caution = max(_BOLDER * self._caution, self._least_caution)

    def _fail(self):
        self._least_caution = _BELOW * self._caution
        self._caution = min(_CAREFUL * self._caution, _MOST_CAREFUL)

    def _model(self, at, found, w, eta):
        change = w - at.vector
        return found.loss + 0.5 * self.lam * float(w @ w) + 0.5 / eta * float(change @ change)

    def _scores(self, linearised, change):
        return linearised.scores + linearised.jvp(self.losses.params_of(change))

    def _snapshot(self, at, w, rng, pieces):
        batches = self.losses.draw_batches(rng, self.batch_size)
        scores = self._scores(at.linearised.all(), w - at.vector)
        return self.losses.at_all(scores, w, batches, pieces)

    def _difference(self, at, snapshot, b, w):
        """How the gradient of a batch has changed since the snapshot; None if scores overflow."""
        batch = snapshot.batches[b]
        linearised = at.linearised.of(batch)
        found = self.losses.at_batch(batch, self._scores(linearised, w - at.vector), w)
        if found is None:
            return None
        rows, tail = found
        rows -= snapshot.rows[batch.rows]
        tail -= snapshot.tails[b]
        change = np.concatenate([linearised.vjp(rows), tail])
        change *= batch.scale
        return change

    def _probe(self, at, rng, strength):
        """Mean smoothness of the losses of a few batches.

        A loss that mixes two labellings in equal shares is as smooth as twice the squared distance
        of the mixture from the better one, over nu. Random signs keep samples apart: the expected
        square of the signed sum is the sum of squares.
        """
        near = far = n = 0.0
        batches = at.found.batches
        for b in range(min(_PROBES, len(batches))):
            batch = batches[b]
            linearised = at.linearised.of(batch)
            self.losses.set_strength(_NEARLY_NONE * strength)
            rows, tail = self.losses.at_batch(batch, linearised.scores, at.vector)
            self.losses.set_strength(strength)
            signs = rng.choice([-1.0, 1.0], size=batch.samples.size)
            signs = self.losses.spread(batch, signs)[:, np.newaxis]
            far += _square(linearised.vjp(signs * rows))
            rows -= at.found.rows[batch.rows]
            tail -= at.found.tails[b]
            near += _square(linearised.vjp(signs * rows)) + _square(tail) / batch.samples.size
            n += batch.samples.size
        largest = max(near, _AT_TIES * far)
        return 2.0 * largest / (n * strength) if largest > 0.0 else 1.0

    def _steps(self, at, center, snapshot, gradient, eta, kappa, rng, pieces):
        """A pass of SVRG steps from the prox-center; None if the scores overflow."""
        rate = 1.0 / self._steepness() if self.rate is None else self.rate
        pull = at.vector / eta + kappa * center - gradient
        pull *= rate
        shrink = 1.0 / (1.0 + rate * (self.lam + 1.0 / eta + kappa))
        w = center.copy()
        order = rng.permutation(len(snapshot.batches))
        for first, last in pieces.ranges(0, order.size):
            for b in order[first:last]:
                change = self._difference(at, snapshot, b, w)
                if change is None:
                    return None
                change *= rate
                w -= change
                w += pull
                w *= shrink
                self.settle(w)
        return w


def _square(vector):
    return float(vector @ vector)

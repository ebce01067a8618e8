"""The loop that all relaxations share: passes, bounds and labels when due, records, ends."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...core.jit.dispatch import kernel
from ..kinds.verbs import region_project, region_soft_max
from ..result import MAPResult, is_proved
from ..scoring import Decoder
from ..watch import solving_time
from .bounds import Room, best_labels, spread, variable_beliefs

# Smoothed duals: values, and the marginals that are their gradients.

_NOTHING = np.zeros(0)


@kernel
def soft_max_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch):
    """Add up the soft-maxima of some regions."""
    total = 0.0
    for r in range(start, stop):
        total += region_soft_max(p, r, delta, gamma, mu, down, scratch)
        if up.shape[0] > 0:
            spread(p, r, mu, up)
    totals[0] += total


@kernel
def project_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch):
    """Add up the L2-smoothed maxima of some regions."""
    total = 0.0
    for r in range(start, stop):
        total += region_project(p, r, delta, gamma, mu, down, scratch)
        if up.shape[0] > 0:
            spread(p, r, mu, up)
    totals[0] += total


def smoothed_pieces(room, delta, gamma, smoothing, up):
    """A smoothed dual without the offset, piece by piece."""
    one_pass = soft_max_pass if smoothing == "softmax" else project_pass
    totals = np.zeros(1)
    p, mu, down, scratch = room.regions, room.mu, room.down, room.scratch
    for start, stop in pairwise(room.cuts):
        one_pass(p, start, stop, delta, gamma, mu, down, up, totals, scratch)
        yield
    return float(totals[0])


def smoothed_dual(room, delta, gamma, smoothing="softmax", up=_NOTHING):
    """A smoothed dual without the offset, in one go."""
    pieces = smoothed_pieces(room, delta, gamma, smoothing, up)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


#: One entry a record; `objective` is the method's own, `dual_gap` bounds its suboptimality.
FIELDS = ("passes", "seconds", "bound", "score", "objective", "infeasibility", "dual_gap")
_ALWAYS, _THEN_EVERY, _NEXT_IMPROVEMENT = 20, 5, 1.3


class Report(NamedTuple):
    """What a method knows of its own objective."""

    # Its value.
    objective: float
    # Norm of what the marginals of regions and children disagree by; NaN where there are none.
    infeasibility: float = math.nan
    # How far `objective` is from its optimum, at most; NaN where that is not known.
    dual_gap: float = math.nan
    # Why the method ends by itself, or empty.
    done: str = ""


class Method(ABC):
    """A relaxation, as :func:`drive` sees it: messages, and passes that improve them."""

    always = False
    monotone_bound = False

    def __init__(self, graph, tol, rng):
        self.graph, self.tol, self.rng = graph, tol, rng
        self.regions = graph.regions
        self.room = Room(self.regions)
        self.decoder = Decoder(graph.of_variables())
        self.delta = np.zeros(self.room.n_messages)
        self.up = np.zeros(0)
        self.passes = 0.0

    def begin(self):
        """Work before the first pass, piece by piece."""
        yield from ()

    @abstractmethod
    def pieces(self):
        """One pass, a generator that stops between pieces."""

    def report(self, maxima):
        """What is known after a bound was evaluated, a :class:`Report`; `maxima` without offset."""
        return Report(self.regions.offset + maxima)

    def labellings(self):
        """Labellings that the present state suggests."""
        labels = np.zeros(self.graph.n_variables, dtype=np.int64)
        best_labels(self.regions, self.delta, self.room.mu, labels)
        yield labels

    def beliefs(self):
        """Flat beliefs of the variables, or None."""
        return None

    def smooth_beliefs(self, gamma, entropic):
        """Beliefs of a smoothed dual."""
        out = np.zeros(self.graph.unary.size)
        variable_beliefs(self.regions, self.delta, gamma, entropic, self.room.mu, out)
        return out


class _Run:
    """Best bound and labelling of a run, and its records."""

    def __init__(self, graph, method, tol, on_pass, max_iter):
        self.graph, self.method, self.tol = graph, method, tol
        self.on_pass, self.max_iter = on_pass, max_iter
        self.bound, self.decoder = math.inf, method.decoder
        self.duals, self.rows, self.n_iter = method.delta, [], 0
        self.next_improvement = 0.0
        self.message, self.converged = "", False
        self.began = solving_time()

    def advance(self, pieces):
        """Run a generator to its end; whether the run is to stop before."""
        while True:
            try:
                next(pieces)
            except StopIteration:
                return False
            if self.is_stopped():
                return True

    def is_stopped(self):
        share = min(1.0, self.method.passes / self.max_iter)
        stop = self.on_pass is not None and self.on_pass(share, self.bound, self.decoder.score)
        if stop:
            self.message = "stopped between passes"
        return bool(stop)

    def is_due(self):
        passes = self.method.passes
        return self.method.always or passes <= _ALWAYS or self.n_iter % _THEN_EVERY == 0

    def evaluate(self):
        """Bound, labels and report at the present messages; whether the run is at its end."""
        method, room = self.method, self.method.room
        pieces = room.maxima(method.delta, method.up)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                totals = end.value
                break
        bound = room.bound(totals)
        if bound < self.bound:
            if method.delta is not self.duals:
                np.copyto(self.duals, method.delta)
            self.bound = bound
        self._decode()
        known = method.report(totals[0]) if bound > -math.inf else Report(-math.inf)
        seconds = solving_time() - self.began
        self.rows.append(
            (method.passes, seconds, self.bound, self.decoder.score, *known[:3]),
        )
        return self._is_at_end(known)

    def _decode(self):
        """Offer the method's labellings, and now and then what the better one can become."""
        best, best_score = None, -math.inf
        for labels in self.method.labellings():
            score = self.decoder.offer(labels)
            if best is None or score > best_score:
                best, best_score = labels, score
        if self.method.passes >= self.next_improvement:
            self.decoder.improve(best)
            self.next_improvement = 1.0 + _NEXT_IMPROVEMENT * self.method.passes

    def _is_at_end(self, known):
        if is_proved(self.decoder.score, self.bound, self.tol):
            self.message, self.converged = "the labelling is proved to be optimal", True
        elif known.done:
            self.message, self.converged = known.done, True
        return self.converged

    def result(self, name):
        columns = np.array(self.rows, dtype=float).reshape(-1, len(FIELDS)).T
        beliefs = self.method.beliefs()
        if beliefs is not None:
            beliefs = np.split(np.clip(beliefs, 0.0, 1.0), self.graph.state_ptr[1:-1])
        return MAPResult(
            labels=self.decoder.labels,
            score=self.decoder.score,
            bound=self.bound,
            optimal=is_proved(self.decoder.score, self.bound, self.tol),
            duals=self.duals,
            beliefs=beliefs,
            history_={f: c.copy() for f, c in zip(FIELDS, columns, strict=True)},
            method=name,
            n_iter=self.n_iter,
            converged=self.converged,
            message=self.message or "the largest number of passes is reached",
        )


def drive(name, method, *, tol, max_iter, on_pass):
    """Run a method until its end, a proof, the last pass, or a stop from outside."""
    run = _Run(method.graph, method, tol, on_pass, max_iter)
    stopped = run.advance(method.begin())
    if not method.monotone_bound:
        run.duals = method.delta.copy()
    at_end = run.evaluate()
    while not (at_end or stopped or method.passes >= max_iter):
        stopped = run.advance(method.pieces())
        run.n_iter += 1
        stopped = stopped or run.is_stopped()
        if stopped or run.is_due() or method.passes >= max_iter:
            at_end = run.evaluate()
    return run.result(name)

"""Structural SVMs in rounds: groups of shards ascend in their own dual blocks, one after another.

A round takes w to a *group*, shards that fit into a worker together, which trains with ``lam n /
n_k`` and returns w, always a dual point. In parallel (Jaggi et al. 2014; Ma et al. 2015) two groups
took 1.7 to 8.7 times the passes of one on 2,000 sentences of NER.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.weights import Weights, squared_norm, zero_weights
from ..solvers.bcfw.solver import faded
from ..solvers.certificate import Certificate
from ..solvers.primal import hinge_value
from ..solvers.run import Method, run
from .checkpoint import DualFiles, dual_files, like
from .shard import Tables, leased

# Samples of a part of a turn.
_PART = 32
# Bytes that the shards of a round may take, their dual points included.
OPEN = 1 << 29


class Turn(NamedTuple):
    """Task of a shard, in addition to the weights."""

    # Number of the shard.
    k: int
    # The accepted rounds before.
    number: int
    # File of its dual point; None for that of the truth.
    before: Path | None
    # File for the new one.
    after: Path | None
    # Passes over the shard, and the parts of the turn, between which other shards have theirs.
    n_passes: int
    n_parts: int
    # Of the fit.
    seed: int
    # The regulariser of all samples.
    lam: float
    # Their number.
    n_samples: int
    # How far the dual point before is to be extrapolated first: factor and step.
    ahead: tuple[float, float] = (0.0, 0.0)
    # Weights of the passes of the turn in a mean, each with what is left of those before.
    fades: tuple[float, ...] = ()


class Local(ABC):
    """Part of a method that runs in a shard; it is sent with each task, and is small."""

    #: Most parts of a pass.
    n_parts = 1

    @abstractmethod
    def visit(self, shard, w: Weights, turn: Turn, part: int) -> tuple:
        """Move w and the dual point by part of a turn; ``sum_i s_i c_i`` and what was measured."""

    def point(self, shard, turn: Turn) -> tuple | None:
        """``sum_i s_i c_i`` and weights of a dual point for the bound, if not the present one."""
        return None

    def decoding(self, problem, w: Weights):
        """The problem in the form in which these weights are decoded fastest."""
        return problem


def ascend(local: Local, source, turns: list[Turn], tables: Tables) -> tuple:
    """The task: turns of shards of a group; new weights, ``visit`` results, sums for the mean."""
    w, fades = tables.weights().copy(), turns[0].fades
    mean = Weights(*map(np.zeros_like, w.tables)) if fades else None
    with contextlib.ExitStack() as leases:
        shards = [leases.enter_context(leased(source, turn.k)) for turn in turns]
        for part in range(turns[0].n_parts):
            pairs = zip(shards, turns, strict=True)
            measured = [local.visit(shard, w, turn, part) for shard, turn in pairs]
            n_done, rest = divmod((part + 1) * len(fades), turns[0].n_parts)
            if fades and not rest:
                mean = faded(mean, w, fades[n_done - 1])
    return Tables(*w.tables), measured, None if mean is None else Tables(*mean.tables)


def measure(local: Local, source, turns: list[Turn], tables: Tables) -> tuple:
    """The task: weighted hinges of shards, their magnitudes, and the sum of their ``point``."""
    w, values, sums = tables.weights(), [], None
    for turn in turns:
        with leased(source, turn.k) as shard:
            weight = shard.sample_weight
            problem = local.decoding(shard.problem, w)
            try:
                value = hinge_value(problem, w, weight, 0.0, 1)
            except FloatingPointError as error:
                raise FloatingPointError(f"shard {turn.k}: {error}") from None
            point = None if turn.before is None else local.point(shard, turn)
        values.append((value.objective * weight.size, value.magnitude * weight.size))
        sums = point if sums is None else _sum(sums, point)
    return values, sums


def _sum(one, other):
    """The sum of points: of losses and of weights, or of pair tables alone."""
    if other is None:
        return one
    loss, w = one
    for table, more in zip(w.tables, other[1].tables, strict=True):
        table += more
    return loss + other[0], w


class Blocks(Method):
    """Rounds of a method whose dual has a block for each sample."""

    fields = (*Method.fields, "rounds", "bytes")
    #: Names of the fields of a state, in addition to the weights.
    numbers = ("n_attempts", "n_bytes", "n_oracle", "seed")
    arrays = ("losses", "current", "n_turns")
    #: Passes of a round, where there is but one group.
    n_round = 1

    def __init__(
        self,
        local: Local,
        source: Any,
        engine: Any,
        shapes: tuple,
        lam: float,
        *,
        files: DualFiles,
        seed: int,
        gap_every: int,
        n_passes: int | None = None,
    ):
        super().__init__(None, shapes, np.broadcast_to(1.0, source.n_samples), lam, None)
        self.local, self.source, self.engine = local, source, engine
        self.files, self.seed, self.gap_every = files, seed, gap_every
        self.w = zero_weights(shapes)
        self.losses = np.zeros(source.n_shards)
        # Attempts at rounds; of each shard the attempt whose file is its dual point, and its turns.
        self.n_attempts = 0
        self.current, self.n_turns = (np.zeros(source.n_shards, dtype=np.int64) for _ in range(2))
        self.n_bytes, self.n_oracle = 0.0, 0.0
        # Shards that a worker has open together.
        span = int(min(max(OPEN * source.n_shards // source.n_bytes, 1), source.n_shards))
        self.groups = np.array_split(np.arange(source.n_shards), -(-source.n_shards // span))
        # A group that is visited for long forgets the others.
        self.n_passes = (n_passes or self.n_round) if len(self.groups) == 1 else 1
        n_parts = min(local.n_parts, self.n // (source.n_shards * _PART)) if span > 1 else 1
        self.n_parts = n_parts * self.n_passes if n_parts > 1 else 1

    def _turn(self, k):
        files = self.files.path(int(self.current[k]), k), self.files.path(self.n_attempts, k)
        number, passes = int(self.n_turns[k]), (self.n_passes, self.n_parts)
        return Turn(k, number, *files, *passes, self.seed, self.lam, self.n)

    def _over_groups(self, task, groups, *arguments, turn=None):
        """Call a task on each group of shards; yields the group and the result."""
        # A group goes where it was before, in whatever order its shards are visited.
        groups, turn = {int(min(group)): list(group) for group in groups}, turn or self._turn

        def message(key):
            return self.local, self.source, [turn(int(k)) for k in groups[key]], *arguments

        with contextlib.closing(self.engine.map(task, list(groups), message)) as results:
            yield from zip(groups.values(), results, strict=True)

    def _sent(self, w):
        """Weights for the messages of a call."""
        tables = Tables(*w.tables)
        self.n_bytes += float(tables.nbytes)
        return tables

    def _round(self, shards):
        """A round of a group."""
        self.n_attempts += 1
        ((_, result),) = self._over_groups(ascend, [shards], self._sent(self.w))
        tables, measured, mean = result
        self.n_bytes += float(tables.nbytes)
        measured, self.w = np.array(measured), tables.weights()
        self.losses = self.losses.copy()
        self.losses[shards] = measured[:, 0]
        self.note(shards, measured)
        self.n_turns[shards] += 1
        self._replace(shards)
        self.accepted(len(shards) / self.source.n_shards, mean)

    def _replace(self, members):
        """Take the files of the last attempt in place of those before."""
        for k in members:
            self.files.drop(int(self.current[k]), k)
        self.current[members] = self.n_attempts

    @property
    def loss(self):
        """Mean task loss of the dual point."""
        return float(self.losses.sum()) / self.n

    def epoch(self, k, rng, progress):
        """A round of each group, which is a pass, or several if there is but one."""
        rng = np.random.default_rng([self.seed, k])
        rounds = [rng.permutation(group).tolist() for group in self.groups]
        order = rng.permutation(len(rounds))
        for first, last in progress.pieces.ranges(0, len(rounds)):
            for j in order[first:last]:
                self._round(rounds[j])

    @abstractmethod
    def note(self, members, measured):
        """Take what the shards have measured, sum of losses first, in one row each."""

    def accepted(self, share, mean):
        """Follow the new weights, after a round of this fraction of the shards."""

    def dual_of(self, loss, w):
        """The dual objective, and the size of its terms."""
        norm = 0.5 * self.lam * squared_norm(w)
        return loss - norm, abs(loss) + norm

    def value(self, w, has_point=False):
        """Objective at some weights, its magnitude, and of each group the sum of dual points."""
        sums, points = np.zeros((self.source.n_shards, 2)), []

        def turn(k):
            return self._turn(k) if has_point else self._turn(k)._replace(before=None)

        for shards, result in self._over_groups(measure, self.groups, self._sent(w), turn=turn):
            sums[shards] = result[0]
            points.append(result[1])
        self.n_oracle += self.n
        hinge, magnitude = sums.sum(axis=0) / self.n
        return hinge + 0.5 * self.lam * squared_norm(w), magnitude, points

    @abstractmethod
    def certify(self):
        """Measure the present weights; changes nothing that later rounds depend on."""

    def _is_time(self, k):
        """Return whether a certificate every so many passes is due after epoch k."""
        size = self.n_passes
        return k * size // self.gap_every > (k - 1) * size // self.gap_every

    def state(self):
        """Return the state of :meth:`take_state`, for :mod:`skstruct.distributed.checkpoint`."""
        numbers = {name: getattr(self, name) for name in self.numbers}
        numbers["certificate"] = self.certificate and list(self.certificate)
        if self.n_attempts:
            self.files.keep(self.current.tolist())
        return numbers, self._arrays(), {}

    def _arrays(self):
        """Return the arrays to save, by name."""
        own = {name: getattr(self, name) for name in self.arrays}
        return {"node": self.w.node, "pair": self.w.pair} | own

    def take_state(self, numbers, arrays):
        """Restore a saved state; a ValueError, and no change, if it does not fit."""
        found = {name: like(arrays[name], known, name) for name, known in self._arrays().items()}
        self.files.require(found["current"].tolist())
        for name in self.numbers:
            setattr(self, name, numbers[name])
        for name in self.arrays:
            setattr(self, name, found[name])
        self.w = Weights(found["node"], found["pair"])
        known = numbers["certificate"]
        self.certificate = known and Certificate(*known)

    def work(self):
        """Return the numbers of oracle calls and of visits that replace them."""
        return self.n_oracle, 0.0

    def entry(self):
        """Return the entry of the history, with what has been sent."""
        sent = {"rounds": float(self.n_attempts), "bytes": self.n_bytes}
        return super().entry() | sent

    def weights(self):
        """A copy of the weights."""
        return self.w.copy()

    def published(self):
        """Rounds, and bytes between driver and workers."""
        return {"n_rounds_": self.n_attempts, "n_bytes_": int(self.n_bytes)}


def run_rounds(kind, *task, max_iter: int, keeper, **options):
    """Train by a kind of :class:`Blocks`; `options` are its own and those of ``run``."""
    common = {name: options.pop(name) for name in ("tol", "after_epoch")}
    with dual_files(*task[1:3], keeper) as files:
        method = kind(*task, files=files, **options)
        max_iter = math.ceil(max_iter / method.n_passes)
        return run(method, max_iter=max_iter, keeper=keeper, **common)

"""Structural SVMs in rounds: shards ascend in their own dual blocks, and all changes are added.

The dual objective is that of all samples: ``w = -1/(lam n) sum_i s_i A_i' (m_i - mu(y_i))``, whose
blocks m_i belong to one shard each. In a round some shards start from w, and each ascends, by the
method that trains in memory, in what bounds its share of the objective from below while ``|sum_k
dw_k|^2 <= sigma sum_k |dw_k|^2``::

    (1/n) sum_{i in k} s_i c_i  -  lam/2 (2 <w, dw_k> + sigma |dw_k|^2)

With ``u = w + sigma dw_k`` that is, but for a constant and the factor ``n_k / n``, the dual of the
shard alone with the regulariser ``lam n / (sigma n_k)``, at the weights u. The changes ``(u - w) /
sigma`` are added: every block has only moved in its own set, so that the sum is a dual point, and
its bound a bound. With sigma the number of shards in the round nothing can go wrong. A smaller one
is tried first; a round that did not ascend is thrown away, and repeated with the safe one.

Shards of a round do not hear of one another, and a shard that is visited for long forgets the
others: rounds of a few, drawn afresh, that visit a share of each, need far fewer passes than rounds
of all shards that visit them whole.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.weights import Weights, squared_norm, zero_weights
from ..primal import hinge_value
from ..run import Method, run
from .checkpoint import DualFiles, dual_files
from .engine import as_weights, gather, leased, scatter_add
from .soundness import close, like, numbers_like, require, require_below

# sigma of a round by the number of its shards. What all shards agree on then overshoots by a third.
COMMON = 0.75
# Of the terms of a dual objective: what rounding may take from it.
ROUNDING = 1e-11
# The cost of a visit, for each feature and label, in that of a byte that is sent or kept; messages
# may cost several times as much as visits, since short rounds need fewer of them.
_VISIT, _SEVERAL = 4.0, 8.0
_LEAST, _MOST = -3, 3


class Turn(NamedTuple):
    """Task of a shard, in addition to the weights."""

    # The accepted rounds before.
    number: int
    # File of its dual point; None for that of the truth.
    before: Path | None
    # File for the new one.
    after: Path | None
    # Assumed bound on how much the shards have in common.
    sigma: float
    # Passes over the shard.
    n_passes: float
    # Of the fit.
    seed: int
    # The regulariser of all samples.
    lam: float
    # Their number.
    n_samples: int


class Local(ABC):
    """Part of a method that runs in a shard; it is sent with each task, and is small."""

    @abstractmethod
    def compile(self, shard) -> None:
        """Call every kernel on nothing."""

    @abstractmethod
    def visit(self, shard, k: int, w: Weights, turn: Turn) -> tuple:
        """Move w and the dual point by a turn; ``sum_i s_i c_i`` and what was measured."""

    @abstractmethod
    def implied(self, shard, turn: Turn) -> tuple:
        """``sum_i s_i c_i`` and weights of the dual point before, or ValueError if invalid."""

    def point(self, shard, k: int, turn: Turn) -> tuple:
        """A dual point for the bound, where it is not the present one."""
        return ()

    def decoding(self, problem, w: Weights):
        """The problem in the form in which these weights are decoded fastest."""
        return problem


def ascend(local: Local, source, k: int, turn: Turn, node, pair) -> tuple:
    """The task: a turn of shard k from its rows of the weights.

    Returns what it adds to these, the squared norm of that, and what ``visit`` returned.
    """
    w = as_weights(node, pair)
    u = w.copy()
    with leased(source, k) as shard:
        measured = local.visit(shard, k, u, turn)
    for new, old in zip(u.tables, w.tables, strict=True):
        new -= old
        new /= turn.sigma
    return u.node, u.pair, squared_norm(u), measured


def measure(local: Local, source, k: int, turn: Turn, node, pair) -> tuple:
    """The task: sums of the weighted hinges of a shard and of their magnitudes, and ``point``.

    ``turn.before`` is None if only hinges are asked for; a loss that is not finite is a
    FloatingPointError.
    """
    w = as_weights(node, pair)
    with leased(source, k) as shard:
        weight = shard.sample_weight
        problem = local.decoding(shard.problem, w)
        try:
            value = hinge_value(problem, w, weight, 0.0, 1)
        except FloatingPointError as error:
            raise FloatingPointError(f"shard {k}: {error}") from None
        point = () if turn.before is None else local.point(shard, k, turn)
    return value.objective * weight.size, value.magnitude * weight.size, *point


def implied(local: Local, source, k: int, turn: Turn) -> tuple:
    """The task: ``sum_i s_i c_i`` and the weights of a dual point, if it is one of the shard."""
    with leased(source, k) as shard:
        try:
            loss, w = local.implied(shard, turn)
        except ValueError as error:
            raise ValueError(f"{turn.before} is not a dual point of shard {k}: {error}") from error
    return loss, w.node, w.pair


def warm_up(local: Local, source, k: int) -> None:
    """The task: open a shard, and compile or load the kernels."""
    with leased(source, k) as shard:
        local.compile(shard)


def passes_of_round(n_bytes: float, n_visited: float) -> float:
    """Passes of a round over its shards, by what messages and visits cost; no clock decides."""
    ratio = max(n_bytes, 1.0) / (_SEVERAL * _VISIT * max(n_visited, 1.0))
    return 2.0 ** min(max(math.ceil(math.log2(ratio)), _LEAST), _MOST)


def shards_of_round(n_shards: int) -> int:
    """Return the number of shards that ascend at once: few, since more need more passes."""
    return min(n_shards, max(2, math.isqrt(n_shards)))


class Blocks(Method):
    """Rounds of a method whose dual has a block for each sample."""

    fields = (*Method.fields, "sigma", "rounds", "bytes")
    #: Names of the fields of a state, in addition to the weights.
    numbers = ("n_attempts", "n_bytes", "n_oracle", "sigma", "seed")
    arrays = ("losses", "current", "n_turns")

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
        n_passes: float | None = None,
        group: int | None = None,
    ):
        super().__init__(None, shapes, np.broadcast_to(1.0, source.n_samples), lam, None)
        self.local, self.source, self.engine = local, source, engine
        self.files, self.seed, self.gap_every = files, seed, gap_every
        self.w = zero_weights(shapes)
        self.losses, self.sigma = np.zeros(source.n_shards), 1.0
        self.group = min(group or shards_of_round(source.n_shards), source.n_shards)
        # Attempts at rounds; of each shard the attempt whose file is its dual point, and its turns.
        self.n_attempts = 0
        self.current, self.n_turns = (np.zeros(source.n_shards, dtype=np.int64) for _ in range(2))
        self.n_bytes, self.n_oracle = 0.0, 0.0
        if n_passes is None:
            rows = source.n_columns + (shapes[0][0] - source.n_features) * source.n_shards
            floats = rows * shapes[0][1] + source.n_shards * math.prod(shapes[1])
            # To and from all shards in a round.
            n_passes = passes_of_round(16.0 * floats, source.n_visited * shapes[0][1])
        self.n_passes = n_passes

    def compile(self):
        """Compile outside the clock."""
        n = min(self.engine.n_workers, self.source.n_shards)
        for _ in self.engine.map(warm_up, n, lambda k: (self.local, self.source, k)):
            pass

    def _turn(self, k, after, sigma):
        files = self.files.path(int(self.current[k]), k), self.files.path(after, k)
        number = int(self.n_turns[k])
        return Turn(number, *files, sigma, self.n_passes, self.seed, self.lam, self.n)

    def _map(self, task, w, members, turns, take):
        """Call a task on some shards."""
        source = self.source

        def arguments(j):
            k = members[j]
            tables = gather(w, source.columns(k), source.n_features)
            self.n_bytes += float(sum(table.nbytes for table in tables))
            return self.local, source, k, turns(k), *tables

        with contextlib.closing(self.engine.map(task, len(members), arguments)) as results:
            for k in members:
                take(k, next(results))

    def _attempt(self, members, sigma):
        """A round; its change of the weights, their squared norms, and what was measured."""
        self.n_attempts += 1
        change, measured, squares = zero_weights(self.shapes), [], []

        def take(k, result):
            node, pair, square, measures = result
            self.n_bytes += float(node.nbytes + pair.nbytes)
            scatter_add(change, self.source.columns(k), self.source.n_features, node, pair)
            squares.append(square)
            measured.append(measures)

        self._map(ascend, self.w, members, lambda k: self._turn(k, self.n_attempts, sigma), take)
        return change, sum(squares), np.array(measured)

    def _round(self, members):
        """A round of some shards, again if it is not good."""
        most = float(len(members))
        sigma = max(1.0, COMMON * most)
        while True:
            change, squares, measured = self._attempt(members, sigma)
            common = squared_norm(change) / squares if squares > 0.0 else 1.0
            losses = self.losses.copy()
            losses[members] = measured[:, 0]
            new = Weights(self.w.node + change.node, self.w.pair + change.pair)
            if self.is_good(new, float(losses.sum()) / self.n, common, sigma) or sigma >= most:
                break
            self.note(members, measured, False)
            self._drop(members, [self.n_attempts] * len(members))
            sigma = most
        self.note(members, measured, True)
        self.w, self.losses, self.sigma = new, losses, sigma
        self._drop(members, self.current[members].tolist())
        self.current[members] = self.n_attempts
        self.n_turns[members] += 1
        self.accepted(len(members) / self.source.n_shards * self.n_passes)

    def _drop(self, members, numbers):
        for k, number in zip(members, numbers, strict=True):
            self.files.drop(number, k)

    @property
    def loss(self):
        """Mean task loss of the dual point."""
        return float(self.losses.sum()) / self.n

    def epoch(self, k, rng, progress):
        """Make a pass: all shards in groups drawn at random; several if a round has several."""
        n, size = self.source.n_shards, self.group
        rng = np.random.default_rng([self.seed, k])
        rounds = []
        for _ in range(max(1, round(1.0 / self.n_passes))):
            order = rng.permutation(n)
            rounds += [np.sort(order[first : first + size]).tolist() for first in range(0, n, size)]
        for first, last in progress.pieces.ranges(0, len(rounds)):
            for members in rounds[first:last]:
                self._round(members)

    @abstractmethod
    def is_good(self, new, loss, common, sigma):
        """Return whether to keep a round: its weights, mean loss, and what shards had in common."""

    @abstractmethod
    def note(self, members, measured, is_kept):
        """Take what the shards have measured, sum of losses first, in one row each."""

    def accepted(self, share):
        """Follow the new weights, after a round of this share of a pass."""

    def dual_of(self, loss, w):
        """The dual objective, and the size of its terms."""
        norm = 0.5 * self.lam * squared_norm(w)
        return loss - norm, abs(loss) + norm

    def value(self, w, point=None):
        """Objective at some weights, and its magnitude; `point` takes the shards of dual points."""
        sums = np.zeros(2)

        def take(k, result):
            sums[:] += result[:2]
            if point is not None:
                point(k, *result[2:])

        def turns(k):
            turn = self._turn(k, 0, 1.0)
            return turn._replace(before=None) if point is None else turn

        self._map(measure, w, range(self.source.n_shards), turns, take)
        self.n_oracle += self.n
        hinge, magnitude = sums / self.n
        return hinge + 0.5 * self.lam * squared_norm(w), magnitude

    @abstractmethod
    def certify(self):
        """Measure the present weights; changes nothing that later rounds depend on."""

    def _is_time(self, k):
        """Return whether a certificate every so many passes is due after epoch k."""
        size = max(self.n_passes, 1)
        return k * size // self.gap_every > (k - 1) * size // self.gap_every

    def state(self):
        """Return the state of :meth:`take_state`, for :mod:`skstruct.solvers.rounds.checkpoint`."""
        numbers = {name: getattr(self, name) for name in self.numbers}
        numbers |= {"certified": self.certificate is not None}
        if self.n_attempts:
            self.files.keep(self.current.tolist())
        return numbers, self._arrays(), {}

    def _arrays(self):
        """Return the arrays to save, by name."""
        own = {name: getattr(self, name) for name in self.arrays}
        return {"node": self.w.node, "pair": self.w.pair} | own

    def take_state(self, numbers, arrays, bound):
        """Become what another run was; ValueError, and nothing changes, if it cannot be so."""
        before = dict(vars(self))
        try:
            self._take(numbers, arrays)
            taken = dict(vars(self))
            self.certify()
            require_below(bound, self.certificate.objective)
            # What was measured counts where the run before has measured, but not the work.
            more = ("n_oracle", "n_bytes") if numbers["certified"] else taken
            vars(self).update({name: taken[name] for name in more})
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if isinstance(error, FloatingPointError):
                raise ValueError(str(error)) from error
            raise

    def _take(self, numbers, arrays):
        numbers_like(numbers, {name: getattr(self, name) for name in self.numbers})
        numbers_like(numbers, {"certified": True})
        found = {name: like(arrays[name], known, name) for name, known in self._arrays().items()}
        current, n_turns = found["current"], found["n_turns"]
        for counts in (current, n_turns):
            sound = (counts >= 0) & (counts <= numbers["n_attempts"])
            require(sound.all(), "current or n_turns are not counts of rounds")
        require(((current > 0) == (n_turns > 0)).all(), "current and n_turns disagree")
        require(numbers["sigma"] >= 1.0, "sigma is below 1")
        self.files.require(current.tolist())
        for name in self.numbers:
            setattr(self, name, numbers[name])
        for name in self.arrays:
            setattr(self, name, found[name])
        self.w = Weights(found["node"], found["pair"])
        self._require_implied()

    def _require_implied(self):
        """Refuse weights and losses that are not those of the dual points."""
        source, losses, w = self.source, np.zeros_like(self.losses), zero_weights(self.shapes)
        members, size = np.flatnonzero(self.current).tolist(), [0.0, 0.0]

        def arguments(j):
            return self.local, source, members[j], self._turn(members[j], 0, 1.0)

        with contextlib.closing(self.engine.map(implied, len(members), arguments)) as results:
            for k in members:
                losses[k], *tables = next(results)
                scatter_add(w, source.columns(k), source.n_features, *tables)
                largest = [float(np.abs(table).max(initial=0.0)) for table in tables]
                size = np.maximum(size, largest)
        require(close(self.losses, losses), "losses are not those of the dual points")
        for name, found, known, most in zip(
            ("node", "pair"), self.w.tables, w.tables, size, strict=True
        ):
            require(close(found, known, float(most)), f"{name} is not that of the dual points")

    def work(self):
        """Return the numbers of oracle calls and of visits that replace them."""
        return self.n_oracle, 0.0

    def entry(self):
        """Return the entry of the history, with what has been sent."""
        sent = {"sigma": self.sigma, "rounds": float(self.n_attempts), "bytes": self.n_bytes}
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
        max_iter = math.ceil(max_iter / max(method.n_passes, 1.0))
        return run(method, max_iter=max_iter, keeper=keeper, **common)

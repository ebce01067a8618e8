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

Shards that fit into a worker together are a *group*. They hear of one another: visits go around
among them, since a shard that is visited for long forgets the others. The groups of a round do not,
so that few at once need far fewer passes than many: a set that fits into one worker is trained
there, in as many passes as in memory (on 2,000 sentences of NER two groups at once take 2 to 9
times the passes, four 5 to 25 times). A group goes to the worker that had it before, which still
has its dual points; they are in files, too, for whoever comes next.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.weights import Weights, squared_norm, zero_weights
from ..bcfw.solver import faded
from ..engines.messages import Tables
from ..primal import hinge_value
from ..run import Method, run
from .checkpoint import DualFiles, dual_files
from .shard import leased
from .soundness import close, like, numbers_like, require, require_below

# sigma of a round by the number of its shards. What all shards agree on then overshoots by a third.
COMMON = 0.75
# Of the terms of a dual objective: what rounding may take from it.
ROUNDING = 1e-11
# The cost of a visit, for each feature and label, in that of a byte that is sent or kept; messages
# may cost several times as much as visits, since short rounds need fewer of them.
_VISIT, _SEVERAL = 4.0, 8.0
_LEAST, _MOST = -3, 3
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
    # Assumed bound on how much the lanes have in common.
    sigma: float
    # Passes over the shard, and the parts of the turn, between which other shards have theirs.
    n_passes: float
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
    def compile(self, shard) -> None:
        """Call every kernel on nothing."""

    @abstractmethod
    def visit(self, shard, w: Weights, turn: Turn, part: int) -> tuple:
        """Move w and the dual point by part of a turn; ``sum_i s_i c_i`` and what was measured."""

    @abstractmethod
    def implied(self, shard, turn: Turn) -> tuple:
        """``sum_i s_i c_i`` and weights of the dual point before, or ValueError if invalid."""

    def point(self, shard, turn: Turn) -> tuple | None:
        """``sum_i s_i c_i`` and weights of a dual point for the bound, if not the present one."""
        return None

    def decoding(self, problem, w: Weights):
        """The problem in the form in which these weights are decoded fastest."""
        return problem


def ascend(local: Local, source, turns: list[Turn], tables: Tables) -> tuple:
    """The task: turns of the shards of a lane.

    Returns what they add to the weights, the squared norm of that, what ``visit`` returned of each,
    and what passes add to the mean, if that is asked for.
    """
    w, fades = tables.weights(), turns[0].fades
    u, mean = w.copy(), None if not fades else Weights(*map(np.zeros_like, w.tables))
    with contextlib.ExitStack() as leases:
        shards = [leases.enter_context(leased(source, turn.k)) for turn in turns]
        for part in range(turns[0].n_parts):
            pairs = zip(shards, turns, strict=True)
            measured = [local.visit(shard, u, turn, part) for shard, turn in pairs]
            n_done, rest = divmod((part + 1) * len(fades), turns[0].n_parts)
            if fades and not rest:
                mean = faded(mean, u, fades[n_done - 1])
    for new, old in zip(u.tables, w.tables, strict=True):
        new -= old
        new /= turns[0].sigma
    added = None if mean is None else Tables(*mean.tables)
    return Tables(*u.tables), squared_norm(u), measured, added


def measure(local: Local, source, turns: list[Turn], tables: Tables) -> tuple:
    """The task: weighted hinges of shards and their magnitudes, and the sum of their ``point``.

    ``turn.before`` is None if only hinges are asked for; a loss that is not finite is a
    FloatingPointError.
    """
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


def implied(local: Local, source, turns: list[Turn]) -> tuple:
    """The task: ``sum_i s_i c_i`` of dual points and their weights, if they are of the shards."""
    losses, w = [], None
    for turn in turns:
        with leased(source, turn.k) as shard:
            try:
                found = local.implied(shard, turn)
            except ValueError as error:
                text = f"{turn.before} is not a dual point of shard {turn.k}: {error}"
                raise ValueError(text) from error
        losses.append(found[0])
        w = _sum((0.0, found[1]) if w is None else (0.0, w), None if w is None else found)[1]
    return losses, Tables(*w.tables)


def warm_up(local: Local, source, k: int) -> None:
    """The task: open a shard, and compile or load the kernels."""
    with leased(source, k) as shard:
        local.compile(shard)


def passes_of_round(n_bytes: float, n_visited: float) -> float:
    """Passes of a round over its shards, by what messages and visits cost; no clock decides."""
    ratio = max(n_bytes, 1.0) / (_SEVERAL * _VISIT * max(n_visited, 1.0))
    return 2.0 ** min(max(math.ceil(math.log2(ratio)), _LEAST), _MOST)


def lanes_of(n_groups: int) -> int:
    """Return the number of groups that ascend at once: few, since more need more passes."""
    return math.isqrt(n_groups)


class Blocks(Method):
    """Rounds of a method whose dual has a block for each sample."""

    fields = (*Method.fields, "sigma", "rounds", "bytes")
    #: Names of the fields of a state, in addition to the weights.
    numbers = ("n_attempts", "n_bytes", "n_oracle", "sigma", "seed")
    arrays = ("losses", "current", "n_turns")
    #: Passes of a round, where there is but one lane.
    n_round = 1.0

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
        n_lanes: int | None = None,
    ):
        super().__init__(None, shapes, np.broadcast_to(1.0, source.n_samples), lam, None)
        self.local, self.source, self.engine = local, source, engine
        self.files, self.seed, self.gap_every = files, seed, gap_every
        self.w = zero_weights(shapes)
        self.losses, self.sigma = np.zeros(source.n_shards), 1.0
        # Attempts at rounds; of each shard the attempt whose file is its dual point, and its turns.
        self.n_attempts = 0
        self.current, self.n_turns = (np.zeros(source.n_shards, dtype=np.int64) for _ in range(2))
        self.n_bytes, self.n_oracle = 0.0, 0.0
        # Shards that a worker has open together.
        span = int(min(max(OPEN * source.n_shards // source.n_bytes, 1), source.n_shards))
        self.groups = np.array_split(np.arange(source.n_shards), -(-source.n_shards // span))
        self.n_lanes = min(n_lanes or lanes_of(len(self.groups)), len(self.groups))
        if n_passes is None:
            n_passes = self.n_round
            if self.n_lanes > 1:
                visited = source.n_visited * shapes[0][1] / len(self.groups)
                n_passes = passes_of_round(16.0 * sum(map(math.prod, shapes)), visited)
        self.n_passes = n_passes
        n_parts = min(local.n_parts, self.n // (source.n_shards * _PART)) if span > 1 else 1
        self.n_parts = max(n_parts, 1) * max(round(n_passes), 1)

    def compile(self):
        """Compile outside the clock."""
        n = min(self.engine.n_workers, self.source.n_shards)
        for _ in self.engine.map(warm_up, range(n), lambda k: (self.local, self.source, k)):
            pass

    def _turn(self, k, sigma=1.0):
        files = self.files.path(int(self.current[k]), k), self.files.path(self.n_attempts, k)
        number, passes = int(self.n_turns[k]), (self.n_passes, self.n_parts)
        return Turn(k, number, *files, sigma, *passes, self.seed, self.lam, self.n)

    def _over_groups(self, task, groups, *arguments, turn=None):
        """Call a task on each group of shards; yields the group and the result."""
        # A group goes where it was before, in whatever order its shards are visited.
        groups, turn = {int(min(group)): list(group) for group in groups}, turn or self._turn

        def message(key):
            return self.local, self.source, [turn(int(k)) for k in groups[key]], *arguments

        with contextlib.closing(self.engine.map(task, list(groups), message)) as results:
            yield from zip(groups.values(), results, strict=True)

    def _sent(self, w):
        """Weights for a message to each lane."""
        tables = Tables(*w.tables)
        self.n_bytes += float(tables.nbytes)
        return tables

    def _attempt(self, groups, sigma):
        """A round; its change of the weights, their squared norms, and what was measured."""
        self.n_attempts += 1
        change, measured, squares, mean = zero_weights(self.shapes), [], 0.0, None
        turn = partial(self._turn, sigma=sigma)
        for _, result in self._over_groups(ascend, groups, self._sent(self.w), turn=turn):
            tables, square, measures, mean = result
            change.node[...] += tables.node
            change.pair[...] += tables.pair
            self.n_bytes += float(tables.nbytes)
            squares += square
            measured += measures
        return change, squares, np.array(measured), mean

    def _round(self, groups):
        """A round of some groups, again if it is not good."""
        most, members = float(len(groups)), [k for shards in groups for k in shards]
        sigma = max(1.0, COMMON * most)
        while True:
            change, squares, measured, mean = self._attempt(groups, sigma)
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
        self.n_turns[members] += 1
        self._replace(members)
        self.accepted(len(members) / self.source.n_shards * self.n_passes, mean)

    def _replace(self, members):
        """Take the files of the last attempt in place of those before."""
        self._drop(members, self.current[members].tolist())
        self.current[members] = self.n_attempts

    def _drop(self, members, numbers):
        for k, number in zip(members, numbers, strict=True):
            self.files.drop(number, k)

    @property
    def loss(self):
        """Mean task loss of the dual point."""
        return float(self.losses.sum()) / self.n

    def epoch(self, k, rng, progress):
        """Make a pass: all shards in groups drawn at random; several if a round has several."""
        rng, rounds = np.random.default_rng([self.seed, k]), []
        for _ in range(max(1, round(1.0 / self.n_passes))):
            order = rng.permutation(len(self.groups))
            groups = [rng.permutation(self.groups[j]).tolist() for j in order]
            rounds += [groups[j : j + self.n_lanes] for j in range(0, len(groups), self.n_lanes)]
        for first, last in progress.pieces.ranges(0, len(rounds)):
            for groups in rounds[first:last]:
                self._round(groups)

    @abstractmethod
    def is_good(self, new, loss, common, sigma):
        """Return whether to keep a round: its weights, mean loss, and what shards had in common."""

    @abstractmethod
    def note(self, members, measured, is_kept):
        """Take what the shards have measured, sum of losses first, in one row each."""

    def accepted(self, share, mean):
        """Follow the new weights, after a round of this share of a pass."""

    def dual_of(self, loss, w):
        """The dual objective, and the size of its terms."""
        norm = 0.5 * self.lam * squared_norm(w)
        return loss - norm, abs(loss) + norm

    def value(self, w, has_point=False):
        """Objective at some weights, its magnitude, and of each lane the sum of dual points."""
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
        losses, w, size = np.zeros_like(self.losses), zero_weights(self.shapes), [0.0, 0.0]
        groups = [shards[self.current[shards] > 0] for shards in self.groups]
        for shards, result in self._over_groups(implied, [g for g in groups if g.size]):
            losses[shards], tables = result
            for at, (table, more) in enumerate(
                zip(w.tables, (tables.node, tables.pair), strict=True)
            ):
                table += more
                size[at] = max(size[at], float(np.abs(more).max(initial=0.0)))
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

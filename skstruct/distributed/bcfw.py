"""Block-coordinate Frank-Wolfe in rounds over shards."""

from __future__ import annotations

import math

import numpy as np

from ..core.parallel import Pieces
from ..core.problem import tree_leaves
from ..core.weights import Weights, inner_product, squared_norm, zero_weights
from ..data.store import read_tree
from ..solvers.bcfw.kernels import GAP, N_CACHED, N_ORACLE
from ..solvers.bcfw.solver import (
    AIM,
    BCFW,
    EXTRAPOLATE,
    FOLLOW,
    PROMISING,
    BCFWChoices,
    faded,
    share_of_new,
    travel,
)
from ..solvers.certificate import certify_pair, lower_bound
from .blocks import Blocks, Local
from .checkpoint import like, write_dual
from .shard import Tables, leased

_MEAN, _PAST = ("mean-node", "mean-pair"), ("past-node", "past-pair")
# Factor and step of no extrapolation.
_NOWHERE = 0.0, 0.0


class _OnShard(BCFW):
    """A temporary run on one shard; weights and dual point belong to the round."""

    def __init__(self, shard, choices):
        super().__init__(shard.problem, shard.shapes, shard.sample_weight, 1.0, 1, choices=choices)
        if not self.relaxed:
            self._points = ()
        # The driver alone sees how far all have gone.
        self.extrapolates, self._extrapolation = self._extrapolation is not None, None
        past = self.cache.past
        np.maximum(self.cache.shares[: len(past)], 0.0, out=past)

    @property
    def dual(self):
        """Dual point, as files store it."""
        return self.state, self._points

    def travel(self, shard, ahead, way=None):
        """Extrapolate shares, or go a part of the way to these; returns the gain in task losses."""
        factor, step = ahead
        if not self.extrapolates or ahead == _NOWHERE:
            return 0.0
        way = zero_weights(shard.shapes) if way is None else way
        task = self.problem, self.sample_weight, self.lam, self.state, self.cache
        ends, change = (0, self.n), self._scratch[0][1]
        gain = travel(*task, AIM, factor, 0.0, *ends, way, change)
        if step is not None:
            travel(*task, FOLLOW, step, 0.0, *ends, way, change)
        return gain

    def ascend(self, w, first, last, seed):
        """Visits `first` to `last` of those of all rounds."""
        self.w = w
        while first < last:
            k, at = divmod(first, self.n)
            take = min(last - first, self.n - at)
            rng = np.random.default_rng([*seed, k])
            if self.sampling == "permutation":
                order = rng.permutation(self.n)
            else:
                order = rng.integers(self.n, size=self.n)
            self._pass(order[at : at + take], np.zeros(take), Pieces())
            first += take


class LocalBCFW(Local):
    """Visits of BCFW to the samples of a shard."""

    n_parts = 32

    def __init__(self, choices: BCFWChoices):
        self.choices = choices

    def _method(self, shard, turn):
        """The run at the dual point before a turn, from the turn before or from a file."""
        path, ahead, method = shard.memory.pop("dual", (None, _NOWHERE, None))
        if method is None or path != turn.before or ahead not in (_NOWHERE, turn.ahead):
            method, ahead = _OnShard(shard, self.choices), _NOWHERE
            if turn.before is not None:
                method.state, method._points = read_tree(turn.before, method.dual)
        method.lam = turn.lam * turn.n_samples / method.n
        if ahead != turn.ahead:
            method.travel(shard, turn.ahead)
        return method

    def _keep(self, shard, path, ahead, method):
        """Keep a dual point here: that of a file, extrapolated or not."""
        shard.memory["dual"] = path, ahead, method
        shard.memory["n_bytes"] = sum(array.nbytes for array in tree_leaves(method.dual))

    def visit(self, shard, w, turn, part):
        """Some visits; sum of losses, block gaps of the last pass, oracle calls, cached steps."""
        if part == 0:
            method = self._method(shard, turn)
            method.state.totals[:] = 0.0
        else:
            method = shard.memory.pop("visited")
        ends = [turn.number + p / turn.n_parts for p in (part, part + 1)]
        visits = [math.ceil(end * turn.n_passes * method.n) for end in ends]
        totals = method.state.totals
        # That of the last pass counts.
        gap = 0.0 if part * turn.n_passes % turn.n_parts == 0 else float(totals[GAP])
        method.ascend(w, *visits, (turn.seed, turn.k))
        totals[GAP] += gap
        if part + 1 < turn.n_parts:
            shard.memory["visited"] = method
            return ()
        losses = float(np.einsum("i,i->", method.state.losses, shard.sample_weight))
        gap, n_oracle, n_cached = map(float, totals[[GAP, N_ORACLE, N_CACHED]])
        write_dual(turn.after, method.dual)
        self._keep(shard, turn.after, _NOWHERE, method)
        return losses, gap * method.n / turn.n_samples, n_oracle, n_cached

    def aim(self, shard, turn, factor, way):
        """Extrapolate the dual point; add the resulting change of the weights."""
        method = self._method(shard, turn)
        past = method.cache.past.copy()
        gain = method.travel(shard, (factor, None), way)
        method.cache.past[...] = past
        self._keep(shard, turn.before, turn.ahead, method)
        return gain


def extrapolate(local: LocalBCFW, source, turns, factor: float) -> tuple:
    """The task: :meth:`LocalBCFW.aim` of some shards; gains of their losses, and the way."""
    gains, way = [], None
    for turn in turns:
        with leased(source, turn.k) as shard:
            way = zero_weights(shard.shapes) if way is None else way
            gains.append(local.aim(shard, turn, factor, way))
    return gains, Tables(*way.tables)


class BCFWBlocks(Blocks):
    """Rounds of BCFW (Lacoste-Julien et al. 2013): the dual point is a bound as it is."""

    numbers = (
        *(*Blocks.numbers, "n_cached_steps", "n_mean", "use_mean"),
        *("dual", "gap", "_objective", "past_loss"),
    )
    arrays = (*Blocks.arrays, "ahead")
    n_round = EXTRAPOLATE

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.gap, self.n_cached_steps = np.inf, 0.0
        self.mean, self.n_mean, self.use_mean = None, 0, False
        self.dual, self._objective = 0.0, np.inf
        # The weights of some passes ago, and their mean task loss. Of each shard how far its dual
        # point is to be extrapolated: factor and step of what its next turn begins with.
        self.past, self.past_loss = None, 0.0
        self.ahead = np.zeros((self.source.n_shards, 2))
        if self.local.choices.pairwise:
            self.past = self.w

    def _arrays(self):
        known = zip((_MEAN, _PAST), (self.mean, self.past), strict=True)
        more = [zip(names, w.tables, strict=True) for names, w in known if w is not None]
        return super()._arrays() | {name: table for pairs in more for name, table in pairs}

    def _turn(self, k):
        ahead, fades = tuple(self.ahead[k].tolist()), self._fades(self.n_mean)
        return super()._turn(k)._replace(ahead=ahead, fades=fades)

    def take_state(self, numbers, arrays):
        """Restore a saved state; a ValueError, and no change, if it does not fit."""

        def found(names):
            tables = zip(names, self.w.tables, strict=True)
            return Weights(*(like(arrays[name], known, name) for name, known in tables))

        mean = found(_MEAN) if numbers["n_mean"] else None
        past = None if self.past is None else found(_PAST)
        super().take_state(numbers, arrays)
        self.mean, self.past = mean, past

    def note(self, members, measured):
        """Count the work, and the block gaps."""
        _, gap, n_oracle, n_cached = map(float, measured.sum(axis=0))
        self.n_oracle += n_oracle
        self.n_cached_steps += n_cached
        self.gap += gap

    def epoch(self, k, rng, progress):
        """A pass, and the sum of the block gaps that it sees."""
        self.gap = 0.0
        super().epoch(k, rng, progress)
        # Not where a callback has ended the pass: the shards of before have not moved yet.
        is_time = k * self.n_passes % EXTRAPOLATE == 0 and not self.ahead.any()
        if self.past is not None and is_time:
            self._extrapolate()

    def _extrapolate(self):
        """Extrapolate the last passes where that is better, as in memory."""
        way = Weights(self.w.node - self.past.node, self.w.pair - self.past.pair)
        ahead = self.loss - self.past_loss - self.lam * inner_product(self.w.tables, way.tables)
        factor = ahead / max(self.lam * squared_norm(way), 1e-300)
        step = 0.0
        if 0.0 < factor < np.inf:
            gains, way = np.zeros(self.source.n_shards), zero_weights(self.shapes)
            for shards, result in self._over_groups(extrapolate, self.groups, factor):
                gains[shards], tables = result
                way.node[...] += tables.node
                way.pair[...] += tables.pair
                self.n_bytes += float(tables.nbytes)
            ahead = gains.sum() / self.n - self.lam * inner_product(self.w.tables, way.tables)
            step = min(max(ahead / max(self.lam * squared_norm(way), 1e-300), 0.0), 1.0)
            self.w = Weights(self.w.node + step * way.node, self.w.pair + step * way.pair)
            self.losses = self.losses + step * gains
        # With a step of 0 the shares of now become the past ones.
        self.ahead[:] = factor if 0.0 < factor < np.inf else 1.0, step
        self.past, self.past_loss = self.w, self.loss
        self.dual, _ = self.dual_of(self.loss, self.w)

    def _replace(self, members):
        super()._replace(members)
        self.ahead[members] = 0.0

    def accepted(self, share, mean):
        """The dual point, and for pairwise steps the mean of the last weights, which fades."""
        self.dual, _ = self.dual_of(self.loss, self.w)
        if not self.local.choices.pairwise:
            return
        self.n_mean += 1
        if mean is None:
            self.mean = faded(self.mean, self.w, share_of_new(self.n_mean, share))
            return
        left = math.prod(1.0 - new for new in self._fades(self.n_mean - 1))
        before = zero_weights(self.shapes) if self.mean is None else self.mean
        self.mean = Weights(left * before.node + mean.node, left * before.pair + mean.pair)

    def _fades(self, n):
        """Weights in the mean of the passes of the n-th round."""
        if len(self.groups) > 1 or not self.local.choices.pairwise:
            return ()
        return tuple(share_of_new(n * self.n_passes + j + 1) for j in range(self.n_passes))

    def due(self, k, tol):
        """Every few passes, and where the block gaps suggest that `tol` is reached."""
        # Gaps of groups that others have moved away from promise too much, and too often.
        is_sure = len(self.groups) == 1 or k % 2 == 0
        promising = is_sure and self.gap <= PROMISING * tol * self._objective
        return promising or self._is_time(k)

    def certify(self):
        """One oracle call per sample for the mean; where it is worse, one for the last weights."""
        best = None
        self.use_mean = self.mean is not None
        if self.use_mean:
            best = self.value(self.mean)
        if best is None or not best[0] - self.dual < self.gap:
            last = self.value(self.w)
            if best is None or not best[0] < last[0]:
                best, self.use_mean = last, False
        self.certificate = certify_pair(best[0], self.dual, best[1])
        self._objective = self.certificate.objective

    def entry(self):
        """Without a certificate, a lower bound: the dual, less what rounding may add to it."""
        known = super().entry()
        if self.certificate is None:
            _, terms = self.dual_of(self.loss, self.w)
            known["dual_objective"] = lower_bound(self.dual, terms)
        return known

    def weights(self):
        """Return the weights of the certificate."""
        return (self.mean if self.use_mean else self.w).copy()

    def published(self):
        """Counts."""
        counts = {"n_oracle_calls_": self.n_oracle, "n_cached_steps_": self.n_cached_steps}
        return super().published() | {name: int(count) for name, count in counts.items()}

"""Block-coordinate Frank-Wolfe in rounds over shards."""

from __future__ import annotations

import math

import numpy as np

from ...core.parallel import Pieces
from ...core.weights import Weights
from ...data.store import read_tree
from ..bcfw.kernels import GAP, N_CACHED, N_ORACLE
from ..bcfw.solver import BCFW, PROMISING, BCFWChoices, faded
from ..certificate import certify_pair
from ..primal import compile_hinge
from .blocks import ROUNDING, Blocks, Local
from .checkpoint import write_dual
from .soundness import close, like, require, require_dual_point

_MEAN = "mean-node", "mean-pair"


class _OnShard(BCFW):
    """A run on a shard, which takes the place of neither weights nor dual point for long."""

    def __init__(self, shard, lam, choices):
        super().__init__(
            shard.problem,
            shard.shapes,
            shard.sample_weight,
            lam,
            1,
            choices=choices,
        )
        # A round is too short for it, and others' weights move, too.
        self._extrapolation = None
        self.state = self.state._replace(past=np.empty((0, self.n_cached)))
        if not self.relaxed:
            self._points = ()

    @property
    def dual(self):
        """Dual point, as files store it."""
        return self.state, self._points

    def ascend(self, w, first, last, seed):
        """Visits `first` to `last` of those of all rounds."""
        self.w, totals = w, self.state.totals
        totals[:] = 0.0
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
        return totals


class LocalBCFW(Local):
    """Visits of BCFW to the samples of a shard."""

    def __init__(self, choices: BCFWChoices):
        self.choices = choices

    def compile(self, shard):
        """Call every kernel on nothing."""
        method = _OnShard(shard, 1.0, self.choices)
        method._pass(np.empty(0, dtype=np.int64), np.empty(0), Pieces())
        compile_hinge(shard.problem, method.w)

    def visit(self, shard, k, w, turn):
        """Some visits; sum of losses, block gaps of the last pass, oracle calls, cached steps."""
        weight = shard.sample_weight
        n = weight.size
        method = _OnShard(shard, turn.lam * turn.n_samples / (turn.sigma * n), self.choices)
        if turn.before is not None:
            method.state, method._points = read_tree(turn.before, method.dual)
        visits = [math.ceil(r * turn.n_passes * n) for r in (turn.number, turn.number + 1)]
        totals = method.ascend(w, *visits, (turn.seed, k))
        write_dual(turn.after, method.dual)
        losses = float(np.einsum("i,i->", method.state.losses, weight))
        gap, n_oracle, n_cached = map(float, totals[[GAP, N_ORACLE, N_CACHED]])
        return losses, gap * n / turn.n_samples, n_oracle, n_cached

    def implied(self, shard, turn):
        """Task losses and weights of a dual point that is one of the shard."""
        n = shard.sample_weight.size
        method = _OnShard(shard, turn.lam * turn.n_samples / n, self.choices)
        known = method.dual
        state, points = read_tree(turn.before, known)
        follows = require_dual_point(shard, state, points, known)
        names = "losses", "costs", "inner"
        again = state._replace(**{name: getattr(state, name).copy() for name in names})
        method.state, method._points = again, points
        method._rebuild(0, n)
        require(close(state.losses[follows], again.losses[follows]), "losses are wrong")
        require(close(state.costs, again.costs), "costs are wrong")
        # These only choose steps, and have the rounding of many differences.
        require(close(state.inner, again.inner, tolerance=1e-6), "inner is wrong")
        return float(np.einsum("i,i->", state.losses, shard.sample_weight)), method.w


class BCFWBlocks(Blocks):
    """Rounds of BCFW: the dual point is a bound as it is.

    Jaggi et al. 2014, Communication-Efficient Distributed Dual Coordinate Ascent, Algorithm 1; Ma
    et al. 2015, Adding vs. Averaging in Distributed Primal-Dual Optimization, Algorithm 1;
    Lacoste-Julien et al. 2013, Block-Coordinate Frank-Wolfe Optimization for Structural SVMs.
    """

    numbers = (*Blocks.numbers, "n_cached_steps", "n_mean", "use_mean", "dual", "gap", "_objective")

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.gap, self.n_cached_steps = np.inf, 0.0
        self.mean, self.n_mean, self.use_mean = None, 0, False
        self.dual, self._objective = 0.0, np.inf

    def _arrays(self):
        mean = {} if self.mean is None else dict(zip(_MEAN, self.mean.tables, strict=True))
        return super()._arrays() | mean

    def _take(self, numbers, arrays):
        super()._take(numbers, arrays)
        # Rounding may differ on another machine, the bound may not.
        dual = self.dual_of(self.loss, self.w)[0]
        require(close(self.dual, dual), "the dual objective is not that of the dual points")
        require((self.n_mean > 0) == (_MEAN[0] in arrays), "n_mean is not what the training has")
        if self.n_mean:
            tables = zip(_MEAN, self.w.tables, strict=True)
            self.mean = Weights(*(like(arrays[name], known, name) for name, known in tables))
        require(self.n_mean or not self.use_mean, "use_mean is not what the training has")

    def note(self, members, measured, is_kept):
        """Count the work, and the block gaps."""
        _, gap, n_oracle, n_cached = map(float, measured.sum(axis=0))
        self.n_oracle += n_oracle
        self.n_cached_steps += n_cached
        if is_kept:
            self.gap += gap

    def epoch(self, k, rng, progress):
        """A pass, and the sum of the block gaps that it sees."""
        self.gap = 0.0
        super().epoch(k, rng, progress)

    def is_good(self, new, loss, common, sigma):
        """Return whether the dual objective has not decreased."""
        dual, terms = self.dual_of(loss, new)
        before, _ = self.dual_of(self.loss, self.w)
        return dual >= before - ROUNDING * terms

    def accepted(self, share):
        """The dual, and the mean of the last weights, where steps are pairwise ones.

        As in memory it fades by the pass; but more of them, since weights lean to the last shards.
        """
        self.dual, _ = self.dual_of(self.loss, self.w)
        if not self.local.choices.pairwise:
            return
        self.n_mean += 1
        self.mean = faded(self.mean, self.w, self.n_mean, share)

    def due(self, k, tol):
        """Now and then, and where the block gaps promise the tolerance."""
        # Gaps of shards that others have moved away from promise too much, and too often.
        promising = k % 2 == 0 and self.gap <= PROMISING * tol * self._objective
        return promising or self._is_time(k)

    def certify(self):
        """By one oracle call a sample, or two: of the mean, and where it is worse of the last."""
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
            known["dual_objective"] = self.dual - ROUNDING * terms
        return known

    def weights(self):
        """Return the weights of the certificate."""
        return (self.mean if self.use_mean else self.w).copy()

    def published(self):
        """Counts."""
        counts = {"n_oracle_calls_": self.n_oracle, "n_cached_steps_": self.n_cached_steps}
        return super().published() | {name: int(count) for name, count in counts.items()}

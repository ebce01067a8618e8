"""L-BFGS and OWL-QN whose gradients are mapped over the shards of a problem."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from joblib import cpu_count

from ..core.parallel import Pieces
from ..core.weights import zero_weights
from ..solvers.primal import BatchGradient
from ..solvers.quasi_newton import OrthantWise, QuasiNewton
from .checkpoint import like
from .shard import Tables, gather, leased, scatter_add

# State of a run, in addition to its vectors and pairs.
_NUMBERS = ("_term", "dual", "n_calls", "first_step", "stalled")
_OF_POINTS = ("value", "slope", "squared", "magnitude", "gap", "known")


def shard_gradient(source, k: int, tables: Tables):
    """The task: sum of the losses of a shard, of their magnitudes, and the gradient."""
    with leased(source, k) as shard:
        w, gradient = tables.weights(), zero_weights(shard.shapes)
        out = np.zeros((2, shard.sample_weight.size))
        task = shard.loss, shard.problem, shard.sample_weight
        BatchGradient(*task, n_jobs=1).add(w, gradient, out, Pieces())
        loss, magnitude = np.einsum("ki,i->k", out, shard.sample_weight)
    return Tables(*gradient.tables), float(loss), float(magnitude)


class Mapped:
    """Mixin of :class:`QuasiNewton`: samples are in the shards of a source."""

    def __init__(self, source, engine, shapes, lam, **options):
        self.source, self.engine = source, engine
        # Nothing here is of the size of the samples.
        ones = np.broadcast_to(1.0, source.n_samples)
        # The driver waits for the workers otherwise.
        n_threads = min(engine.n_workers, cpu_count())
        super().__init__(None, shapes, ones, lam, n_threads, **options)

    def _add_gradient(self, w, gradient, pieces):
        source, n_features = self.source, self.source.n_features

        def arguments(k):
            return source, k, gather(w, source.columns(k), n_features)

        sums, shards = np.zeros(2), range(source.n_shards)
        with closing(self.engine.map(shard_gradient, shards, arguments)) as results:
            for first, last in pieces.ranges(0, source.n_shards):
                for k in range(first, last):
                    tables, *means = next(results)
                    scatter_add(gradient, source.columns(k), n_features, tables)
                    sums += means
        return None if pieces.stopped else sums / self.n

    def state(self):
        """Return the state of :meth:`take_state`, for :mod:`skstruct.distributed.checkpoint`."""
        here = self._here
        pairs, constant = self._pairs.state()
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        numbers |= {"pairs": pairs, "point": {name: getattr(here, name) for name in _OF_POINTS}}
        return numbers, {"w": here.w, "d": here.d, "mixed": self._mixed}, constant

    def take_state(self, numbers, arrays):
        """Restore a saved state; a ValueError, and no change, if it does not fit."""
        here = self._here
        w, d, mixed = (like(arrays[name], here.w, name) for name in ("w", "d", "mixed"))
        self._pairs.take_state(numbers["pairs"], arrays)
        for name in _NUMBERS:
            setattr(self, name, numbers[name])
        for name in _OF_POINTS:
            setattr(here, name, numbers["point"][name])
        here.w[:], here.d[:], self._mixed[:] = w, d, mixed
        self.certify()


class QuasiRounds(Mapped, QuasiNewton):
    """L-BFGS; an iteration is a round or more."""


class OrthantRounds(Mapped, OrthantWise):
    """OWL-QN; an iteration is a round or more."""

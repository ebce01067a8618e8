"""L-BFGS and OWL-QN whose gradients are mapped over the shards of a problem."""

from __future__ import annotations

import zlib
from contextlib import closing

import numpy as np
from joblib import cpu_count

from ...core.parallel import Pieces
from ...core.weights import view_flat, zero_weights
from ..batch import BatchGradient
from ..engines.messages import Tables, gather, scatter_add
from ..quasi_newton.kernels import N_MEASURED, measure
from ..quasi_newton.orthant import OrthantWise
from ..quasi_newton.solver import QuasiNewton
from .shard import leased
from .soundness import TOLERANCE, close, like, numbers_like, require, require_below

# State of a run, in addition to its vectors and pairs.
_NUMBERS = ("_term", "dual", "n_calls", "first_step", "stalled")
_OF_POINTS = ("value", "slope", "squared", "magnitude", "gap", "known")


def _sum_of(array):
    return zlib.crc32(np.ascontiguousarray(array))


def shard_gradient(source, k: int, tables: Tables):
    """The task: sum of the losses of a shard, of their magnitudes, and the gradient."""
    with leased(source, k) as shard:
        w, gradient = tables.weights(), zero_weights(shard.shapes)
        out = np.zeros((2, shard.sample_weight.size))
        task = shard.loss, shard.problem, shard.sample_weight
        BatchGradient(*task, n_jobs=1).add(w, gradient, out, Pieces())
        loss, magnitude = np.einsum("ki,i->k", out, shard.sample_weight)
    return Tables(*gradient.tables), float(loss), float(magnitude)


def warm_up(source, k: int) -> None:
    """A task: open a shard, and compile or load the kernels."""
    with leased(source, k) as shard:
        BatchGradient(shard.loss, shard.problem, shard.sample_weight, n_jobs=1).compile(
            shard.shapes
        )


class Mapped:
    """Mixin of :class:`QuasiNewton`: samples are in the shards of a source."""

    def __init__(self, source, engine, shapes, lam, **options):
        self.source, self.engine = source, engine
        # Nothing here is of the size of the samples.
        ones = np.broadcast_to(1.0, source.n_samples)
        # The driver waits for the workers otherwise.
        n_threads = min(engine.n_workers, cpu_count())
        super().__init__(None, shapes, ones, lam, n_threads, **options)

    def _compile_gradient(self):
        n = min(self.engine.n_workers, self.source.n_shards)
        for _ in self.engine.map(warm_up, range(n), lambda k: (self.source, k)):
            pass

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
        """Return the state of :meth:`take_state`, for :mod:`skstruct.solvers.rounds.checkpoint`."""
        here = self._here
        pairs, constant = self._pairs.state()
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        numbers |= {"pairs": pairs, "point": {name: getattr(here, name) for name in _OF_POINTS}}
        # No later run can know whether the mixture of earlier dual points is one.
        numbers["mixed"] = _sum_of(self._mixed)
        return numbers, {"w": here.w, "d": here.d, "mixed": self._mixed}, constant

    def take_state(self, numbers, arrays, bound):
        """Become what another run was; ValueError, and nothing changes, if it cannot be so."""
        here, numbers_here = self._here, numbers["point"]
        found = {n: like(arrays[n], here.w, n) for n in ("w", "d", "mixed")}
        first = numbers["first_step"]
        require(first is None or (type(first) is float and first > 0.0), "first_step is negative")
        known = {n: getattr(self, n) for n in _NUMBERS if n != "first_step"}
        numbers_like(numbers, known | {"mixed": 0})
        numbers_like(numbers_here, dict.fromkeys(_OF_POINTS, 0.0) | {"known": True})
        require(numbers["mixed"] == _sum_of(found["mixed"]), "mixed is not what was saved")
        with np.errstate(all="ignore"):
            self._require_implied(numbers, numbers_here, found)
        require_below(bound, numbers_here["value"])
        self._pairs.take_state(numbers["pairs"], arrays)
        for name in _NUMBERS:
            setattr(self, name, numbers[name])
        for name in _OF_POINTS:
            setattr(here, name, numbers_here[name])
        here.w[:], here.d[:], self._mixed[:] = found["w"], found["d"], found["mixed"]
        self.certify()

    def _require_implied(self, numbers, point, found):
        """Refuse a point that is not measured as it was, and a bound that it contradicts."""
        trial, mixed = self._trial, found["mixed"]
        trial.w[:], trial.d[:] = found["w"], 0.0
        tables = view_flat(trial.w, self.shapes), view_flat(trial.d, self.shapes)
        loss, magnitude = self._add_gradient(*tables, Pieces())
        self._p[:] = 0.0
        vectors = trial.w, trial.d, self._p, mixed
        sums = self._sweeps(measure, N_MEASURED, *vectors, 1.0 / self.n, self.lam, self.l1)
        value = 0.5 * self.lam * sums[0] + self.l1 * sums[6] + loss
        size = float(np.abs(found["w"]).max()) * (self.lam + self.l1)
        require(close(found["d"], trial.d, size), "d is not the gradient at w")
        squares = float(np.abs(trial.d).max() + size) ** 2 * found["w"].size
        same = close(point["value"], value, magnitude), close(point["magnitude"], magnitude)
        same += close(point["squared"], sums[3], squares), close(point["gap"], sums[7], magnitude)
        require(all(same), "value, squared, magnitude or gap are not those of w")
        # A bound of rounds before: what is known of its dual point must agree.
        dual, term = numbers["dual"], numbers["_term"]
        require(dual <= value + TOLERANCE * (abs(value) + magnitude), "dual is above the value")
        soft = np.maximum(np.abs(mixed) - self.l1, 0.0)
        half = float(soft @ soft) / (2.0 * self.lam) if self.lam > 0.0 else 0.0
        terms = abs(term) + half
        require(term - half <= dual + TOLERANCE * terms, "mixed contradicts the bound")
        slack = loss - term - float(mixed @ found["w"])
        require(slack >= -TOLERANCE * (magnitude + terms), "mixed contradicts the samples")


class QuasiRounds(Mapped, QuasiNewton):
    """L-BFGS; an iteration is a round or more."""


class OrthantRounds(Mapped, OrthantWise):
    """OWL-QN; an iteration is a round or more."""

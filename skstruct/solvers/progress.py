"""What a run of a solver reports: one record an epoch, a way to stop it, the final weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ..core.pieces import Pieces
from ..core.weights import Weights

_FIELDS = ("passes", "oracle_calls", "seconds", "objective")
#: What to do, for most solvers, where the tolerance was not reached.
REMEDY = "increase max_iter or tol"


class SampleOverflow(FloatingPointError):
    """The loss of one sample is not a number."""

    def __init__(self, sample: int, value: float, advice: str):
        super().__init__(sample, value, advice)
        self.sample, self.value, self.advice = sample, value, advice

    def __str__(self) -> str:
        return f"the loss of sample {self.sample} is {self.value}: {self.advice}"


class Result(NamedTuple):
    """The end of a run."""

    # The weights.
    weights: Weights
    # Whether the tolerance was reached.
    converged: bool
    # Whether a callback ended the run.
    stopped: bool
    # Attributes for the estimator: ``objective_``, exact, and its certificates.
    published: dict
    # What `tol` bounds.
    measure: str
    # Its value at the end.
    distance: float
    # One entry an epoch.
    history: dict
    # What to do where the tolerance was not reached.
    remedy: str = REMEDY


class Progress:
    """Clock and records of one run.

    The clock shows the time that a user waits for the solver. It runs from :meth:`start`, which
    comes after the kernels are compiled, and stands still in :meth:`paused` and in callbacks.
    """

    def __init__(self, n_samples: int, after_epoch: Callable[[dict, Callable], bool], *more: str):
        self._n_samples = n_samples
        self._after_epoch = after_epoch
        self._after_piece = getattr(after_epoch, "after_piece", None)
        self._records = {field: [] for field in (*_FIELDS, *more)}
        self._since, self._before = None, 0.0
        self._stopped = False
        #: How to cut the passes.
        self.pieces = Pieces(None if self._after_piece is None else self._piece_done)

    def start(self) -> None:
        """Start the clock, or let it go on."""
        self._since = time.perf_counter()

    def go_on(self, k: int, records: dict) -> None:
        """Take over the records of a run that was stopped."""
        for field, values in records.items():
            self._records[field][:] = values
        self._before += records["seconds"][-1]
        if hasattr(self._after_epoch, "count"):
            self._after_epoch.count = k

    @property
    def seconds(self) -> float:
        """What the clock shows."""
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._before + running

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, for work that the solver does not need: evaluation only asked for."""
        running = self._since is not None
        self._before, self._since = self.seconds, None
        try:
            yield
        finally:
            if running:
                self.start()

    def _piece_done(self, share):
        with self.paused():
            return self._after_piece(share)

    def record(self, n_oracle: float, n_forward: float, objective: float, weights, **more) -> bool:
        """Add one entry and tell the caller of the solver."""
        values = self._work(n_oracle, n_forward) | {"objective": objective} | more
        for field, value in values.items():
            self._records[field].append(float(value))
        with self.paused():
            self._stopped |= bool(self._after_epoch(values, weights))
        return self.stopped

    @property
    def stopped(self) -> bool:
        """Whether a callback has asked for the end of the run."""
        return self._stopped or self.pieces.stopped

    def _work(self, n_oracle, n_forward):
        passes = (n_oracle + n_forward) / self._n_samples
        return {"passes": passes, "oracle_calls": n_oracle, "seconds": self.seconds}

    def amend(self, n_oracle: float, n_forward: float) -> None:
        """Add to the last entry the work that was done since: a measurement after a stop."""
        for field, value in self._work(n_oracle, n_forward).items():
            self._records[field][-1] = float(value)

    def history(self) -> dict:
        """The records as arrays."""
        return {field: np.array(values) for field, values in self._records.items()}

    def result(
        self, known, weights: Weights, converged: bool, *, remedy: str = REMEDY, **more: float
    ) -> Result:
        """The end of the run."""
        history = self.history()
        for name, value in known.record.items():
            history[name][-1] = value
        published = known.published | more
        end = converged, self.stopped, published, known.measure, known.relative, history, remedy
        return Result(weights, *end)

"""The loop of all training algorithms: passes, certificates when due, records, callbacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ..core.jit.compiling import solving_time
from ..core.parallel import Pieces
from ..core.weights import Weights
from .certificate import UNMEASURED, Certificate

# Report of a solver's run: one record per epoch, a way to stop it, the final weights.

_FIELDS = ("passes", "oracle_calls", "seconds", "objective")
#: Advice of most solvers where the tolerance was not reached.
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
    # Description of the quantity that `tol` bounds.
    measure: str
    # Its value at the end.
    distance: float
    # One entry an epoch.
    history: dict
    # Advice where the tolerance was not reached.
    remedy: str = REMEDY


class Progress:
    """Clock and records of one run.

    The clock stands still while kernels are compiled, in :meth:`paused` and in callbacks.
    """

    def __init__(self, n_samples: int, after_epoch: Callable[[dict, Callable], bool], *more: str):
        self._n_samples = n_samples
        self._after_epoch = after_epoch
        self._after_piece = getattr(after_epoch, "after_piece", None)
        self._records = {field: [] for field in (*_FIELDS, *more)}
        self._since, self._before = None, 0.0
        self._stopped = False
        #: Oracle calls and forward passes of methods that others have gone on for.
        self.work_before = 0.0, 0.0
        #: The pieces into which passes are cut.
        self.pieces = Pieces(None if self._after_piece is None else self._piece_done)

    def start(self) -> None:
        """Start the clock, or resume it."""
        self._since = solving_time()

    def resume(self, k: int, records: dict) -> None:
        """Take over the records of a run that was stopped."""
        for field, values in records.items():
            self._records[field][:] = values
        self._before += records["seconds"][-1]
        if hasattr(self._after_epoch, "count"):
            self._after_epoch.count = k

    @property
    def seconds(self) -> float:
        """Elapsed time of the run."""
        return self._before + (0.0 if self._since is None else solving_time() - self._since)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, for evaluations that the solver does not need."""
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
        """Add one entry and notify the caller of the solver."""
        values = self._work(n_oracle, n_forward) | {"objective": objective} | more
        for field, value in values.items():
            self._records[field].append(float(value))
        with self.paused():
            self._stopped |= bool(self._after_epoch(values, weights))
        return self.stopped

    @property
    def stopped(self) -> bool:
        """True if a callback has requested the end of the run."""
        return self._stopped or self.pieces.stopped

    def _work(self, n_oracle, n_forward):
        n_oracle, n_forward = n_oracle + self.work_before[0], n_forward + self.work_before[1]
        passes = (n_oracle + n_forward) / self._n_samples
        return {"passes": passes, "oracle_calls": n_oracle, "seconds": self.seconds}

    def update_last(self, n_oracle: float, n_forward: float) -> None:
        """Add to the last entry the work that was done since: a measurement after a stop."""
        for field, value in self._work(n_oracle, n_forward).items():
            self._records[field][-1] = float(value)

    def history(self) -> dict:
        """The records as arrays."""
        return {field: np.array(values) for field, values in self._records.items()}


class Method(ABC):
    """A training algorithm, as :func:`run` sees it: weights, a pass, and a certificate."""

    #: Fields of the history, in addition to those of every solver.
    fields = ("dual_gap", "dual_objective")
    #: Called with the method before each pass: another one, which goes on from there, or None.
    successor: Callable[[Method], Method | None] | None = None

    def __init__(self, problem, shapes, sample_weight, lam, n_jobs):
        self.problem, self.shapes, self.lam = problem, shapes, lam
        self.sample_weight, self.n_jobs = sample_weight, n_jobs
        self.n = sample_weight.size
        self.certificate: Certificate | None = None
        self.stalled = False

    def begin(self, progress: Progress) -> None:  # noqa: B027 - most have nothing to do
        """Work before the first pass, such as a warm start's; it may certify the start already."""

    @abstractmethod
    def epoch(self, k: int, rng: np.random.Generator, progress: Progress) -> None:
        """One pass over the data."""

    def due(self, k: int, tol: float) -> bool:
        """Return whether to certify after pass `k`; after the last one it is always done."""
        return True

    @abstractmethod
    def certify(self) -> None:
        """Measure the present weights: sets ``certificate``."""

    def distance(self) -> tuple[str, float]:
        """Return what `tol` bounds, in words, and its value: NaN where it is not known."""
        known = self.certificate
        return ("", np.nan) if known is None else (known.measure, known.relative)

    def reached(self, tol: float) -> bool:
        """Return whether the present weights are known to be within the tolerance."""
        return self.distance()[1] <= tol

    @abstractmethod
    def work(self) -> tuple[float, float]:
        """Oracle calls and forward passes so far, certificates included."""

    def entry(self) -> dict[str, float]:
        """Return the fields of the history for a pass, with the clock paused."""
        return (UNMEASURED if self.certificate is None else self.certificate).record

    @abstractmethod
    def weights(self) -> Weights:
        """Return the present weights, in arrays of their own."""

    def solution(self) -> Weights:
        """Return the weights that ``certificate`` is about, the result of the run."""
        return self.weights()

    def published(self) -> dict[str, float]:
        """Return attributes for the estimator, in addition to those of the certificate."""
        return {}

    def remedy(self) -> str:
        """Return the advice for a run that has not reached the tolerance."""
        return REMEDY


def _set_target_gap(problem, certificate) -> None:
    """Set the accuracy of inference that stops early."""
    told = getattr(getattr(problem, "space", None), "set_target_gap", None)
    if told is not None:
        known = certificate is not None
        told(getattr(certificate, "dual_gap", 0.1 * certificate.objective) if known else 0.0)


# The next certificate refuses an overflow.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def run(
    method: Method,
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator | None = None,
    after_epoch: Callable[[dict, Callable], bool],
    keeper=None,
) -> Result:
    """Train until the tolerance, `max_iter` or a callback ends it; certify the last weights."""
    progress = Progress(method.n, after_epoch, *method.fields)
    _set_target_gap(method.problem, None)
    progress.start()
    done = 0 if keeper is None else keeper.restore(method, progress)
    if not done:
        method.begin(progress)
    ended = done and (method.stalled or method.reached(tol))
    for k in range(done + 1, 0 if ended else max_iter + 1):
        # A start that is good enough, or a stop at the start, is recorded, but not trained.
        if not (method.reached(tol) or progress.stopped):
            work = method.work()
            other = method.successor and method.successor(method)
            if other:
                progress.work_before, method = work, other
                method.begin(progress)
            method.certificate = None
            method.epoch(k, rng, progress)
            if method.due(k, tol) or k == max_iter:
                method.certify()
                _set_target_gap(method.problem, method.certificate)
        with progress.paused():
            entry = method.entry()
        stopped = progress.record(*method.work(), weights=method.weights, **entry)
        last = stopped or method.stalled or method.reached(tol) or k == max_iter
        # What is left of a pass in the middle of which a callback stopped is not gone on with.
        if keeper is not None and not progress.pieces.stopped:
            with progress.paused():
                keeper.keep(k, method, progress, last)
        if last:
            break
    if method.certificate is None:
        method.certify()
        progress.update_last(*method.work())
    known, history = method.certificate, progress.history()
    for name, value in known.record.items():
        history[name][-1] = value
    return Result(
        method.solution(),
        method.reached(tol),
        progress.stopped,
        known.published | method.published(),
        *method.distance(),
        history,
        method.remedy(),
    )

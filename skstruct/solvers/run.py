"""The loop of all training algorithms: passes, certificates when due, records, callbacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ..core.weights import Weights
from .certificate import UNMEASURED, Certificate
from .progress import REMEDY, Progress, Result


class Method(ABC):
    """A training algorithm, as :func:`run` sees it: weights, a pass, and what is known of them."""

    #: Fields of the history, beside those of every solver.
    fields = ("dual_gap", "dual_objective")

    def __init__(self, problem, shapes, sample_weight, lam, n_jobs):
        self.problem, self.shapes, self.lam = problem, shapes, lam
        self.sample_weight, self.n_jobs = sample_weight, n_jobs
        self.n = sample_weight.size
        self.certificate: Certificate | None = None
        self.stalled = False

    @abstractmethod
    def compile(self) -> None:
        """Call every kernel on nothing, before the clock runs."""

    def begin(self, progress: Progress) -> None:  # noqa: B027 - most have nothing to do
        """Work of the method before its first pass, such as that of a warm start.

        It may certify the start: weights that are good enough are not trained any more.
        """

    @abstractmethod
    def epoch(self, k: int, rng: np.random.Generator, progress: Progress) -> None:
        """One pass over the data."""

    def due(self, k: int, tol: float) -> bool:
        """Return whether to certify after pass `k`; after the last one it is always done."""
        return True

    @abstractmethod
    def certify(self) -> None:
        """Measure the present weights: sets ``certificate``."""

    def reached(self, tol: float) -> bool:
        """Whether the present weights are known to be good enough."""
        return self.certificate is not None and self.certificate.relative <= tol

    @abstractmethod
    def work(self) -> tuple[float, float]:
        """Oracle calls and forward passes so far, certificates included."""

    def entry(self) -> dict[str, float]:
        """The fields of the history for a pass; the clock stands still meanwhile."""
        return (UNMEASURED if self.certificate is None else self.certificate).record

    @abstractmethod
    def weights(self) -> Weights:
        """The present weights, in arrays that nobody else holds."""

    def solution(self) -> Weights:
        """What the run returns: the weights that ``certificate`` is about."""
        return self.weights()

    def published(self) -> dict[str, float]:
        """Attributes for the estimator, beside those of the certificate."""
        return {}

    def remedy(self) -> str:
        """What to do where the tolerance was not reached."""
        return REMEDY


def heed(problem, certificate) -> None:
    """Tell inference that stops early how exact it needs to be."""
    told = getattr(problem, "heed_gap", None)
    if told is not None:
        known = certificate is not None
        told(getattr(certificate, "dual_gap", 0.1 * certificate.objective) if known else 0.0)


def run(
    method: Method,
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    after_epoch: Callable[[dict, Callable], bool],
    keeper=None,
) -> Result:
    """Train until the tolerance is reached, the passes are used up or a callback stops.

    Each pass adds an entry to the history, and is certified where the method says so. The weights
    at the end always are: work for that after the last entry is added to it.
    """
    progress = Progress(method.n, after_epoch, *method.fields)
    method.compile()
    heed(method.problem, None)
    progress.start()
    done = 0 if keeper is None else keeper.restore(method, progress)
    if not done:
        method.begin(progress)
    ended = done and (method.stalled or method.reached(tol))
    for k in range(done + 1, 0 if ended else max_iter + 1):
        # A start that is good enough, or a stop at the start, is recorded, but not trained.
        if not (method.reached(tol) or progress.stopped):
            method.certificate = None
            method.epoch(k, rng, progress)
            if method.due(k, tol) or k == max_iter:
                method.certify()
                heed(method.problem, method.certificate)
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
        progress.amend(*method.work())
    return progress.result(
        method.certificate,
        method.solution(),
        method.reached(tol),
        remedy=method.remedy(),
        **method.published(),
    )

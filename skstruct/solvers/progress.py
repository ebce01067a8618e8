"""What a run of a solver reports: one record an epoch, a way to stop it, the final weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ..weights import Weights

_FIELDS = ("passes", "oracle_calls", "seconds", "objective")


class Result(NamedTuple):
    """The end of a run.

    Parameters
    ----------
    weights : Weights
        The weights.
    converged : bool
        Whether the tolerance was reached.
    stopped : bool
        Whether a callback ended the run.
    published : dict
        Attributes for the estimator: ``objective_``, exact, and its certificates.
    measure : str
        What `tol` bounds.
    distance : float
        Its value at the end.
    history : dict of ndarray
        One entry an epoch.
    remedy : str
        What to do where the tolerance was not reached.
    """

    weights: Weights
    converged: bool
    stopped: bool
    published: dict
    measure: str
    distance: float
    history: dict
    remedy: str = "increase max_iter or tol"


class Pieces:
    """Cut a pass into calls of about half a second.

    Between two calls Python runs: Ctrl-C comes through, and callbacks hear of the share that is
    done. A pass must give the same result wherever it is cut.

    Parameters
    ----------
    after_piece : callable, optional
        ``after_piece(share)`` between two calls; True to end the pass early.

    Examples
    --------
    >>> from skstruct.solvers.progress import Pieces
    >>> list(Pieces().ranges(0, 50))
    [(0, 50)]
    """

    #: Seconds a call is to take; calls before their speed is known visit this many samples.
    SECONDS, FIRST = 0.5, 64

    def __init__(self, after_piece: Callable[[float], bool] | None = None):
        self._after_piece = after_piece
        self._size = self.FIRST
        #: Whether a callback has ended a pass.
        self.stopped = False

    def ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Consecutive ranges from `start` to `stop`, sized by the time the last ones took.

        Parameters
        ----------
        start, stop : int
            The visits of the pass.

        Yields
        ------
        tuple of int
            The bounds of a range, to be worked on before the next is asked for.
        """
        first = start
        while first < stop:
            last = min(first + self._size, stop)
            began = time.perf_counter()
            yield first, last
            rate = (last - first) / max(time.perf_counter() - began, 1e-9)
            # Grown in steps: the first samples may be short ones.
            self._size = int(max(1, min(rate * self.SECONDS, 8 * self._size)))
            first = last
            if first < stop and self._after_piece is not None and self._after_piece(first / stop):
                self.stopped = True
                return


class Progress:
    """Clock and records of one run.

    The clock shows the time that a user waits for the solver. It runs from :meth:`start`, which
    comes after the kernels are compiled, and stands still in :meth:`paused` and in callbacks.

    Parameters
    ----------
    n_samples : int
        Size of one pass.
    after_epoch : callable
        ``after_epoch(record, weights)``, with a dict and a function that returns the current
        weights; True to stop. It may have a method ``after_piece(share)``, see :class:`Pieces`.
    *more : str
        Names of further fields.
    """

    def __init__(self, n_samples: int, after_epoch: Callable[[dict, Callable], bool], *more: str):
        self._n_samples = n_samples
        self._after_epoch = after_epoch
        self._after_piece = getattr(after_epoch, "after_piece", None)
        self._records = {field: [] for field in (*_FIELDS, *more)}
        self._since, self._before = None, 0.0
        #: How to cut the passes.
        self.pieces = Pieces(None if self._after_piece is None else self._piece_done)

    def start(self) -> None:
        """Start the clock, or let it go on."""
        self._since = time.perf_counter()

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
        """Add one entry and tell the caller of the solver.

        Parameters
        ----------
        n_oracle, n_forward : float
            Oracle calls and forward passes (line search) so far.
        objective : float
            The objective, NaN if it was not evaluated.
        weights : callable
            Returns the current weights.
        **more : float
            The further fields.

        Returns
        -------
        bool
            True to stop.
        """
        passes = (n_oracle + n_forward) / self._n_samples
        values = dict(zip(_FIELDS, (passes, n_oracle, self.seconds, objective), strict=True))
        values |= more
        for field, value in values.items():
            self._records[field].append(float(value))
        with self.paused():
            return bool(self._after_epoch(values, weights)) or self.pieces.stopped

    def history(self) -> dict:
        """The records as arrays.

        Returns
        -------
        dict of ndarray
            ``passes``, ``oracle_calls``, ``seconds``, ``objective``, and the further fields.
        """
        return {field: np.array(values) for field, values in self._records.items()}


_UNIT = 4.0 * float(np.finfo(np.float64).eps)
_LEAST_EXCESS = 1e-11


def relative_gap(objective: float, dual: float, magnitude: float = 0.0) -> float:
    """Duality gap as a fraction of the objective: what every solver's `tol` is compared with.

    What rounding may have left of the gap counts as gap, so that it is small only where the numbers
    can tell.

    Parameters
    ----------
    objective : float
        Primal objective of a loss that is never negative.
    dual : float
        Lower bound on the optimum of the same problem; -inf when there is none.
    magnitude : float
        Size of the terms that `objective` and `dual` are differences of (scores, norms), where that
        is larger than the two.

    Returns
    -------
    float
        ``(objective - dual) / objective``, rounding added; for an objective of 0 it is 0 if the
        dual is 0, too, else inf.

    Raises
    ------
    FloatingPointError
        If the objective is not finite or negative, or the dual NaN or above the objective, by more
        than rounding. Such a pair certifies nothing.

    Examples
    --------
    >>> from skstruct.solvers.progress import relative_gap
    >>> round(relative_gap(2.0, 1.5), 12), relative_gap(0.0, 0.0), relative_gap(1.0, -float("inf"))
    (0.25, 0.0, inf)
    >>> relative_gap(1.0, 1.1)
    Traceback (most recent call last):
        ...
    FloatingPointError: the dual bound 1.1 exceeds the objective 1.0: are the features scaled?
    """
    if not np.isfinite(objective):
        raise FloatingPointError(f"the objective is {objective}: are the features scaled?")
    if not dual < np.inf:
        raise FloatingPointError(f"the dual bound is {dual}: are the features scaled?")
    terms = abs(objective) + magnitude
    if dual > -np.inf:
        terms += abs(dual)
    excess = _LEAST_EXCESS * terms
    if not objective >= -excess:
        raise FloatingPointError(f"the objective {objective} is negative: are the features scaled?")
    if not objective - dual >= -excess:
        raise FloatingPointError(
            f"the dual bound {dual} exceeds the objective {objective}: are the features scaled?"
        )
    gap = max(objective - dual, 0.0) + _UNIT * terms
    if objective > 0.0:
        return float(gap / objective)
    return 0.0 if gap == 0.0 else np.inf

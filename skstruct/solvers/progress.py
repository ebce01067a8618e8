"""What a run of a solver reports: one record an epoch, a way to stop it, the final weights."""

from __future__ import annotations

import time
from collections.abc import Callable
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
    """

    weights: Weights
    converged: bool
    stopped: bool
    published: dict
    measure: str
    distance: float
    history: dict


def relative_bound(squared_gradient: float, lam: float, objective: float) -> float:
    """Bound ``|f'(w)|^2 / (2 lam f(w))`` on ``(f(w) - min f) / f(w)`` of a strongly convex f.

    Parameters
    ----------
    squared_gradient : float
        Squared Euclidean norm of the gradient.
    lam : float
        The regulariser.
    objective : float
        The objective, positive.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from skstruct.solvers.progress import relative_bound
    >>> relative_bound(0.01, 0.5, 2.0)
    0.005
    """
    return squared_gradient / (2.0 * lam * objective)


class Progress:
    """Clock and records of one run.

    Parameters
    ----------
    n_samples : int
        Size of one pass.
    after_epoch : callable
        ``after_epoch(record, weights)``, with a dict and a function that returns the current
        weights; True to stop.
    *more : str
        Names of further fields.
    """

    def __init__(self, n_samples: int, after_epoch: Callable[[dict, Callable], bool], *more: str):
        self._n_samples = n_samples
        self._after_epoch = after_epoch
        self._records = {field: [] for field in (*_FIELDS, *more)}
        #: Wall time inside epochs so far.
        self.seconds = 0.0

    def timed(self, function: Callable, *args):
        """Call ``function(*args)`` and add its time to the clock.

        Parameters
        ----------
        function : callable
            An epoch.
        *args : object
            Its arguments.

        Returns
        -------
        object
            What it returns.
        """
        start = time.perf_counter()
        value = function(*args)
        self.seconds += time.perf_counter() - start
        return value

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
        return bool(self._after_epoch(values, weights))

    def history(self) -> dict:
        """The records as arrays.

        Returns
        -------
        dict of ndarray
            ``passes``, ``oracle_calls``, ``seconds``, ``objective``, and the further fields.
        """
        return {field: np.array(values) for field, values in self._records.items()}


def certified(weights, converged, stopped, objective, squared_gradient, lam, history) -> Result:
    """The end of a run of a solver for smooth losses.

    Parameters
    ----------
    weights : Weights
        The weights.
    converged, stopped : bool
        How it ended.
    objective, squared_gradient : float
        Exact at these weights.
    lam : float
        The regulariser.
    history : dict of ndarray
        One entry an epoch.

    Returns
    -------
    Result
        With ``objective_``, ``gradient_norm_`` and ``suboptimality_``.
    """
    bound = relative_bound(squared_gradient, lam, objective)
    published = {
        "objective_": float(objective),
        "gradient_norm_": float(np.sqrt(squared_gradient)),
        "suboptimality_": float(bound),
    }
    measure = "certified relative suboptimality"
    return Result(weights, converged, stopped, published, measure, bound, history)

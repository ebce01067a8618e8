"""What a solver of MAP problems returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: What `history_` holds, one entry a record; the last two for methods that have them only.
HISTORY_FIELDS = "passes", "seconds", "bound", "score", "infeasibility", "objective", "dual_gap"


@dataclass(frozen=True, repr=False, eq=False)
class MAPResult:
    """The best labelling that was found, and how much better another one could be.

    Parameters
    ----------
    labels, score, bound, optimal : object
        Those of the attributes below that must be given.
    duals, beliefs, history_, method, n_iter, converged, message, compile_seconds : object, optional
        The others.

    Attributes
    ----------
    labels : ndarray of shape (n_variables,) of int64
        The best labelling.
    score : float
        Its score, evaluated on the graph that was given; -inf if it breaks a hard constraint.
    bound : float
        No labelling has a higher score.
    gap : float
        ``bound - score``.
    optimal : bool
        Whether the labelling is proved to be optimal, up to the tolerance.
    duals : ndarray or None
        Messages with the layout of ``graph.regions``, for methods that have them; ``"auto"`` and
        ``"trws"``, which see variables only, have that of ``graph.of_variables().regions``.
    beliefs : list of ndarray or None
        One array of ``n_states[i]`` values a variable, for methods that have them: marginals of the
        relaxed solution, or reparametrised scores.
    history_ : dict of ndarray
        Equally long arrays: ``passes``, ``seconds``, ``bound`` and ``score`` (the best by then) and
        ``infeasibility`` (NaN where it is not known). Subgradients, coordinate descent, gradients,
        Frank-Wolfe, SDCA and decreasing smoothing also have ``objective``, their own, and
        ``dual_gap``, how far that is from its optimum at most (NaN likewise).
    method : str
        What solved the problem.
    n_iter : int
        Passes.
    converged : bool
        Whether the method ended by itself: proved, at its tolerance or stalled; False if it was
        stopped, or `max_iter` was reached.
    message : str
        Why it ended.
    compile_seconds : float
        Time in which kernels were compiled or loaded from the cache: neither the limit nor the
        seconds of ``history_`` count it.

    See Also
    --------
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.
    skstruct.inspection.MAPConvergenceDisplay : Score and bound of MAP inference against time.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.map_inference import MAPResult
    >>> MAPResult(np.array([0, 1]), 1.5, 1.5, True, method="trws")
    MAPResult(score=1.5, optimal, method='trws')
    """

    labels: np.ndarray
    score: float
    bound: float
    optimal: bool
    duals: np.ndarray | None = None
    beliefs: list | None = None
    history_: dict = field(default_factory=lambda: dict.fromkeys(HISTORY_FIELDS[:5], np.zeros(0)))
    method: str = ""
    n_iter: int = 0
    converged: bool = False
    message: str = ""
    compile_seconds: float = 0.0

    @property
    def gap(self) -> float:
        """How much better than `score` the best labelling could be."""
        return 0.0 if self.bound == self.score else self.bound - self.score

    def __repr__(self):
        known = "optimal" if self.optimal else f"gap={self.gap:.6g}"
        return f"MAPResult(score={self.score:.10g}, {known}, method={self.method!r})"


def is_proved(score, bound, tol):
    """Whether `bound` proves that a labelling of this score is optimal."""
    finite = np.isfinite(score) and np.isfinite(bound)
    return bound == score or bool(finite and bound - score <= tol * max(1.0, abs(score)))

"""The duality gap of ``P(w) = lam/2 |w|^2 + (1/n) sum_i s_i NLL_i(w)``.

For marginals mu_i of any distributions over labellings, with entropies H_i, and ``g = (1/n) sum_i
s_i A_i' (mu_i - mu(y_i))``::

    D(mu) = (1/n) sum_i s_i H_i - |g|^2 / (2 lam)  <=  min P  <=  P(w)

The marginals at w itself give the gap ``|P'(w)|^2 / (2 lam)``, which no cancellation spoils.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .progress import Result, relative_gap


class Certificate(NamedTuple):
    """What is known of one point.

    Parameters
    ----------
    objective : float
        P(w), exact.
    dual_gap : float
        An upper bound on ``P(w) - min P``.
    relative : float
        The same as a fraction of P(w): what `tol` is compared with.
    gradient_norm : float
        ``|P'(w)|``, exact.
    """

    objective: float
    dual_gap: float
    relative: float
    gradient_norm: float

    @property
    def dual_objective(self) -> float:
        """A lower bound on ``min P``."""
        return self.objective - self.dual_gap

    def result(self, weights, tol: float, stopped: bool, history: dict, remedy: str) -> Result:
        """The end of a run at the certified weights.

        Parameters
        ----------
        weights : Weights
            The weights.
        tol : float
            The relative gap to reach.
        stopped : bool
            Whether a callback ended the run.
        history : dict of ndarray
            One entry an epoch; the last is made to agree.
        remedy : str
            What to do where `tol` was not reached.

        Returns
        -------
        Result
            With ``objective_``, ``dual_objective_``, ``dual_gap_``, ``suboptimality_`` and
            ``gradient_norm_``.
        """
        for name in ("objective", "dual_gap", "dual_objective"):
            history[name][-1] = getattr(self, name)
        published = {
            "objective_": self.objective,
            "dual_objective_": self.dual_objective,
            "dual_gap_": self.dual_gap,
            "suboptimality_": self.relative,
            "gradient_norm_": self.gradient_norm,
        }
        reached, measure = self.relative <= tol, "relative duality gap"
        return Result(weights, reached, stopped, published, measure, self.relative, history, remedy)


def certify(
    objective: float, squared_gradient: float, lam: float, dual: float, magnitude: float
) -> Certificate:
    """The certificate of a point, by its own marginals or by another dual point.

    Parameters
    ----------
    objective : float
        P(w).
    squared_gradient : float
        ``|P'(w)|^2``.
    lam : float
        The regulariser.
    dual : float
        A lower bound on ``min P``.
    magnitude : float
        Mean size of the terms that the losses are differences of.

    Returns
    -------
    Certificate
        With the smaller gap of the two.

    Raises
    ------
    FloatingPointError
        If a number is not finite, or `dual` is above `objective` by more than rounding.

    Examples
    --------
    >>> from skstruct.solvers.certificate import certify
    >>> round(certify(2.0, 0.5, 0.5, 1.75, 10.0).dual_objective, 12)
    1.75
    """
    if not np.isfinite(squared_gradient):
        raise FloatingPointError(
            "the gradient overflows: scale the features (sklearn.preprocessing), or lower C"
        )
    by_dual = relative_gap(objective, dual, magnitude) * objective
    # No objective is negative, so the gap is never larger than it.
    gap = float(min(max(objective, 0.0), squared_gradient / (2.0 * lam), by_dual))
    relative = gap / objective if objective > 0.0 else 0.0
    return Certificate(float(objective), gap, float(relative), float(np.sqrt(squared_gradient)))

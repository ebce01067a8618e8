"""Interface of score maps: scores of rows, and products with their Jacobian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..core.docstrings import inherit_sections


class Linearisation:
    """The scores of a score map at some parameters, and products with its Jacobian.

    It calls the map again for each product; a map may return one that stores intermediate results.

    Parameters
    ----------
    score_map : ScoreMap
        The map.
    params : ndarray of shape (n_params,)
        Its parameters.
    rows : ndarray or CSR matrix of shape (n_rows, n_features)
        The rows.
    scores : ndarray of shape (n_rows, n_columns), optional
        Their scores, if known; also an attribute.
    """

    def __init__(
        self, score_map: ScoreMap, params: np.ndarray, rows: Any, scores: np.ndarray | None = None
    ) -> None:
        self.score_map, self.params, self.rows = score_map, params, rows
        # A copy: a map may return the same buffer each time.
        self.scores = np.array(score_map.scores(params, rows)) if scores is None else scores

    def jvp(self, tangent: np.ndarray) -> np.ndarray:
        """Return the Jacobian times `tangent` (n_params,), of shape (n_rows, n_columns)."""
        return self.score_map.jvp(self.params, self.rows, tangent)

    def vjp(self, cotangent: np.ndarray) -> np.ndarray:
        """Return the transposed Jacobian times `cotangent` (n_rows, n_columns), (n_params,)."""
        return self.score_map.vjp(self.params, self.rows, cotangent)

    def take(self, index: Any) -> Linearisation:
        """Return the linearisation of some rows (a slice or indices), without recomputation."""
        return type(self)(self.score_map, self.params, self.rows[index], self.scores[index])


class ScoreMap(BaseEstimator, ABC):
    """A differentiable function from rows of features to rows of scores.

    Its configuration is estimator-style (``__init__`` stores parameters unchanged), so that
    ``score_map__name`` can be searched over. The numbers that training finds are one vector
    `params` (n_params,), which the map does not store: :meth:`initialise` draws it, all other
    methods receive it. `rows` are an ndarray or CSR matrix of shape (n_rows, n_features).

    Attributes
    ----------
    rowwise : bool
        Whether a row's scores depend on that row alone, so that one call may have rows of many
        samples. If not, each call has the rows of one sample.
    takes_sparse : bool
        Whether rows may be a CSR matrix.

    Notes
    -----
    A map **must** define :meth:`initialise`, :meth:`scores`, :meth:`jvp` and :meth:`vjp`. It
    **may** define :meth:`linearise` to store intermediate results that the products share. The
    scores must depend on parameters and rows only: no randomness, no statistics of several samples.
    Methods must not change their arguments: estimators pass read-only arrays.
    """

    rowwise = True
    takes_sparse = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        inherit_sections(cls, ScoreMap)

    @abstractmethod
    def initialise(
        self,
        n_features: int,
        n_columns: int,
        rng: np.random.Generator,
        fit_intercept: bool = True,
    ) -> np.ndarray:
        """Return a new float64 vector of parameters; set the attributes that depend on the data.

        `n_features` and `n_columns` are the columns of the rows and of the scores; `rng`, a NumPy
        generator, draws; `fit_intercept`: whether there are constant terms. A ValueError if the map
        does not take rows of that length.
        """

    @abstractmethod
    def scores(self, params: np.ndarray, rows: Any) -> np.ndarray:
        """Return the scores of rows, (n_rows, n_columns)."""

    @abstractmethod
    def jvp(self, params: np.ndarray, rows: Any, tangent: np.ndarray) -> np.ndarray:
        """Return the Jacobian times `tangent` (n_params,), of shape (n_rows, n_columns)."""

    @abstractmethod
    def vjp(self, params: np.ndarray, rows: Any, cotangent: np.ndarray) -> np.ndarray:
        """Return the transposed Jacobian times `cotangent` (n_rows, n_columns): (n_params,)."""

    def linearise(self, params: np.ndarray, rows: Any) -> Linearisation:
        """Return scores and Jacobian at `params`, which stay unchanged, for several products."""
        return Linearisation(self, params, rows)


# Checks of a score map before training.

# Relative error allowed in float32; a wrong sign or a missing term exceeds it.
_AGREES = 1e-3


def guarded(array: Any) -> Any:
    """A read-only view of an array, since rows may be the user's X."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def check_products(score_map: ScoreMap, params: np.ndarray, rows: Any, forward: bool) -> None:
    """Raise ValueError unless products are with one Jacobian and scores are rowwise as declared."""
    name, rng = type(score_map).__name__, np.random.default_rng(0)
    there = score_map.linearise(guarded(params), rows)
    _check_scores_again(score_map, params, rows, there.scores)
    tangent, cotangent = rng.normal(size=params.shape), rng.normal(size=there.scores.shape)
    back = _product(there.vjp(guarded(cotangent)), params.shape, f"{name}.vjp")
    if not forward:
        return
    change = _product(there.jvp(guarded(tangent)), cotangent.shape, f"{name}.jvp")
    one, other = np.vdot(cotangent, change), np.vdot(back, tangent)
    size = _length(cotangent) * _length(change) + _length(back) * _length(tangent)
    if abs(one - other) > _AGREES * size:
        raise ValueError(f"score_map: jvp and vjp of {name} are not products with one Jacobian")


def _check_scores_again(score_map, params, rows, scores):
    """Check scores of the last row again if rows are independent, else of all."""
    name, last = type(score_map).__name__, max(rows.shape[0] - 1, 0) if score_map.rowwise else 0
    again = score_map.scores(guarded(params), rows[last:])
    if np.abs(again - scores[last:]).max(initial=0.0) <= _AGREES * np.abs(scores).max(initial=0.0):
        return
    if last:
        raise ValueError(
            f"score_map: {name} says rowwise=True, but a row alone has other scores than with "
            "others: set rowwise=False"
        )
    raise ValueError(f"score_map: {name} gives other scores when it is asked again")


def _length(array):
    return float(np.linalg.norm(array))


def _product(found, shape, name):
    """Return the product if its shape is right and it is finite."""
    if np.shape(found) != shape:
        raise ValueError(f"score_map: {name} must return the shape {shape}, got {np.shape(found)}")
    if not np.isfinite(found).all():
        raise ValueError(f"score_map: {name} is not finite: are the features scaled?")
    return found

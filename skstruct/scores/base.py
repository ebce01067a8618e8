"""Interface of score maps: scores of rows, and products with their Jacobian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..core.docstrings import inherit_sections


class Linearisation:
    """A score map at some parameters: its scores there, and its Jacobian.

    This one calls the map again for each product; a map may return one that keeps what it has
    computed.

    Parameters
    ----------
    score_map : ScoreMap
        The map.
    params : ndarray of shape (n_params,)
        Its parameters.
    rows : ndarray or CSR matrix of shape (n_rows, n_features)
        The rows.
    scores : ndarray of shape (n_rows, n_columns), optional
        Their scores, where they are known.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_columns)
        The scores of the rows.
    """

    def __init__(
        self, score_map: ScoreMap, params: np.ndarray, rows: Any, scores: np.ndarray | None = None
    ) -> None:
        self.score_map, self.params, self.rows = score_map, params, rows
        # A copy: a map may return the same buffer each time.
        self.scores = np.array(score_map.scores(params, rows)) if scores is None else scores

    def jvp(self, tangent: np.ndarray) -> np.ndarray:
        """Return the change of the scores along a direction of the parameters.

        Parameters
        ----------
        tangent : ndarray of shape (n_params,)
            The direction.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The Jacobian times the direction.
        """
        return self.score_map.jvp(self.params, self.rows, tangent)

    def vjp(self, cotangent: np.ndarray) -> np.ndarray:
        """The gradient of a weighted sum of the scores.

        Parameters
        ----------
        cotangent : ndarray of shape (n_rows, n_columns)
            The weights.

        Returns
        -------
        ndarray of shape (n_params,)
            The transposed Jacobian times the weights.
        """
        return self.score_map.vjp(self.params, self.rows, cotangent)

    def take(self, index: Any) -> Linearisation:
        """The same for some of the rows.

        Parameters
        ----------
        index : slice or ndarray of int
            Which.

        Returns
        -------
        Linearisation
            The linearisation of these rows, without recomputation.
        """
        return type(self)(self.score_map, self.params, self.rows[index], self.scores[index])


class ScoreMap(BaseEstimator, ABC):
    """A differentiable function from rows of features to rows of scores.

    What it is made of are estimator-style parameters (``__init__`` stores them as they are), so
    that ``score_map__name`` can be searched over. The numbers that training finds are one vector,
    which the map does not hold: :meth:`initialise` draws it, all other methods take it.

    Attributes
    ----------
    rowwise : bool
        Whether a row's scores depend on that row alone, so that rows of many samples may come in
        one call. If not, each call has the rows of one sample.
    takes_sparse : bool
        Whether rows may be a CSR matrix.

    Notes
    -----
    A map **must** define :meth:`initialise`, :meth:`scores`, :meth:`jvp` and :meth:`vjp`. It
    **may** define :meth:`linearise` to keep between the products what they share. The scores must
    not depend on anything but parameters and rows: nothing random, no statistics of a batch. What
    methods are given they must not change: estimators pass arrays that are read-only.
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
        """Return initial parameters, and set the attributes that depend on the data.

        Parameters
        ----------
        n_features : int
            Columns of the rows.
        n_columns : int
            Columns of the scores.
        rng : numpy.random.Generator
            Draws them.
        fit_intercept : bool
            Whether there are constant terms.

        Returns
        -------
        ndarray of shape (n_params,)
            A new array of float64.

        Raises
        ------
        ValueError
            If the map does not take rows of that length.
        """

    @abstractmethod
    def scores(self, params: np.ndarray, rows: Any) -> np.ndarray:
        """The scores of rows.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters.
        rows : ndarray or CSR matrix of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The scores.
        """

    @abstractmethod
    def jvp(self, params: np.ndarray, rows: Any, tangent: np.ndarray) -> np.ndarray:
        """Return the change of the scores along a direction of the parameters.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters.
        rows : ndarray or CSR matrix of shape (n_rows, n_features)
            The rows.
        tangent : ndarray of shape (n_params,)
            The direction.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The Jacobian times the direction.
        """

    @abstractmethod
    def vjp(self, params: np.ndarray, rows: Any, cotangent: np.ndarray) -> np.ndarray:
        """The gradient of a weighted sum of the scores.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters.
        rows : ndarray or CSR matrix of shape (n_rows, n_features)
            The rows.
        cotangent : ndarray of shape (n_rows, n_columns)
            The weights.

        Returns
        -------
        ndarray of shape (n_params,)
            The transposed Jacobian times the weights.
        """

    def linearise(self, params: np.ndarray, rows: Any) -> Linearisation:
        """Scores and Jacobian at some parameters, for several products.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters; the map may keep them, and nobody changes them meanwhile.
        rows : ndarray or CSR matrix of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        Linearisation
            The scores and the products.
        """
        return Linearisation(self, params, rows)


# Checks of a score map before training.

# Products in float32 agree by this; a wrong sign or a forgotten term does not.
_AGREES = 1e-3


def guarded(array: Any) -> Any:
    """A view of an array that cannot be written to: maps get these, as rows may be the user's X."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def check_products(score_map: ScoreMap, params: np.ndarray, rows: Any, forward: bool) -> None:
    """Refuse a map that breaks its contract: products with one Jacobian, rows for themselves."""
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
            f"score_map: {name} says rowwise=True, but a row alone has other scores than beside "
            "others: set rowwise=False"
        )
    raise ValueError(f"score_map: {name} gives other scores when it is asked again")


def _length(array):
    return float(np.linalg.norm(array))


def _product(found, shape, name):
    """The product, if it is one."""
    if np.shape(found) != shape:
        raise ValueError(f"score_map: {name} must return the shape {shape}, got {np.shape(found)}")
    if not np.isfinite(found).all():
        raise ValueError(f"score_map: {name} is not finite: are the features scaled?")
    return found

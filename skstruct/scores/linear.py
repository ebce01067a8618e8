"""LinearMap: the scores of all other estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import ScoreMap


class LinearMap(ScoreMap):
    """Scores linear in the features: a weight for each feature and column, and a constant.

    See Also
    --------
    skstruct.scores.MLPMap : Scores of a network with one hidden layer.
    skstruct.scores.ConvMap : Scores of a convolution over patches.
    skstruct.ProxLinearSSVM : Structural SVMs with non-linear scores.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.scores import LinearMap
    >>> LinearMap().initialise(2, 3, np.random.default_rng(0)).shape
    (9,)
    """

    takes_sparse = True

    def initialise(
        self,
        n_features: int,
        n_columns: int,
        rng: np.random.Generator,
        fit_intercept: bool = True,
    ) -> np.ndarray:
        """Normal weights (Glorot and Bengio 2010): of zeros all labellings would tie."""
        self.shape_ = n_features + bool(fit_intercept), n_columns
        self.n_features_in_ = n_features
        table = np.zeros(self.shape_)
        scale = np.sqrt(2.0 / (n_features + n_columns))
        table[:n_features] = rng.normal(scale=scale, size=(n_features, n_columns))
        return table.ravel()

    def tables(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights and the constants: views.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters.

        Returns
        -------
        weights : ndarray of shape (n_features, n_columns)
            The weights.
        constants : ndarray of shape (n_columns,)
            The constants; zeros that are no view without an intercept.

        See Also
        --------
        skstruct.scores.MLPMap.layers : The same of a network.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.scores import LinearMap
        >>> score_map = LinearMap()
        >>> params = score_map.initialise(2, 3, np.random.default_rng(0))
        >>> weights, constants = score_map.tables(params)
        >>> weights.shape, constants
        ((2, 3), array([0., 0., 0.]))
        """
        table = params.reshape(self.shape_)
        d = self.n_features_in_
        return table[:d], (table[d] if self.shape_[0] > d else np.zeros(self.shape_[1]))

    def scores(self, params: np.ndarray, rows: Any) -> np.ndarray:
        """A product."""
        weights, constants = self.tables(params)
        return np.asarray(rows @ weights) + constants

    def jvp(self, params: np.ndarray, rows: Any, tangent: np.ndarray) -> np.ndarray:
        """The scores that the tangent gives."""
        return self.scores(tangent, rows)

    def vjp(self, params: np.ndarray, rows: Any, cotangent: np.ndarray) -> np.ndarray:
        """The transposed product."""
        out = np.empty(self.shape_)
        d = self.n_features_in_
        out[:d] = rows.T @ cotangent
        out[d:] = cotangent.sum(axis=0)
        return out.ravel()

"""LinearMap: the scores of all other estimators."""

from __future__ import annotations

from abc import abstractmethod
from math import isqrt
from numbers import Integral
from typing import Any, Self

import numpy as np

from ..core.arguments import check_integer
from .base import Linearisation, ScoreMap

# Maps with one hidden layer: what the dense and the convolutional one share.

# Floats of a block of lifted rows: a few dozen MB at most, however many rows there are.
_BLOCK = 1 << 21


def elu(z: np.ndarray) -> np.ndarray:
    """``z`` where it is positive, else ``exp(z) - 1``: in place."""
    below = np.minimum(z, 0.0)
    np.maximum(z, np.expm1(below, out=below), out=z)
    return z


class HiddenLayerMap(ScoreMap):
    """Base of maps ``elu(lift(x) W + b)`` at one or several places of a row, then linear."""

    takes_sparse = False

    def _check_sizes(self, *names):
        """Refuse parameters that are no integers of at least 1."""
        for name in names:
            check_integer(f"{name} of {type(self).__name__}", getattr(self, name))

    @abstractmethod
    def _plan(self, n_features: int) -> tuple[int, int, int]:
        """Places of a row, what is lifted to each, and hidden units at each."""

    @abstractmethod
    def _lift(self, rows: Any) -> Any:
        """Return the inputs of the units of each place: (n_rows * places, lifted)."""

    def initialise(
        self,
        n_features: int,
        n_columns: int,
        rng: np.random.Generator,
        fit_intercept: bool = True,
    ) -> np.ndarray:
        """Normal weights: He et al. (2015) for the hidden layer, Glorot and Bengio (2010) above."""
        places, lifted, units = self._plan(n_features)
        self.n_features_in_, self._has_constants = n_features, bool(fit_intercept)
        self._places = places
        self._shapes = (lifted, units), (places * units, n_columns)
        first = rng.normal(scale=np.sqrt(2.0 / lifted), size=self._shapes[0])
        scale = np.sqrt(2.0 / (places * units + n_columns))
        second = rng.normal(scale=scale, size=self._shapes[1])
        return self._join(first, np.zeros(units), second, np.zeros(n_columns))

    def _join(self, first, below, second, above):
        parts = [first, below, second, above] if self._has_constants else [first, second]
        return np.concatenate([np.ravel(part) for part in parts])

    def layers(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights and constants of the hidden, then of the linear layer: views."""
        out, at = [], 0
        for shape in self._shapes:
            stop = at + shape[0] * shape[1]
            out.append(params[at:stop].reshape(shape))
            at = stop + shape[1] * self._has_constants
            out.append(params[stop:at] if self._has_constants else np.zeros(shape[1]))
        return tuple(out)

    def _activations(self, first, below, lifted):
        return elu(np.asarray(lifted @ first) + below).reshape(-1, self._shapes[1][0])

    def _blocks(self, n_rows):
        per_row = self._places * (self._shapes[0][0] if self._places > 1 else 1)
        size = max(1, _BLOCK // (per_row + self._shapes[1][0]))
        return [slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size)]

    def linearise(self, params: np.ndarray, rows: Any) -> Linearisation:
        """Scores and Jacobian; the hidden layer's activations are kept."""
        first, below, _, _ = self.layers(params)
        hidden = np.empty((rows.shape[0], self._shapes[1][0]))
        for block in self._blocks(rows.shape[0]):
            hidden[block] = self._activations(first, below, self._lift(rows[block]))
        return HiddenLinearisation(self, params, rows, hidden)

    def scores(self, params: np.ndarray, rows: Any) -> np.ndarray:
        """Both layers, in blocks of rows."""
        first, below, second, above = self.layers(params)
        out = np.empty((rows.shape[0], self._shapes[1][1]))
        for block in self._blocks(rows.shape[0]):
            out[block] = self._activations(first, below, self._lift(rows[block])) @ second
        out += above
        return out

    def jvp(self, params: np.ndarray, rows: Any, tangent: np.ndarray) -> np.ndarray:
        """By :meth:`linearise`."""
        return self.linearise(params, rows).jvp(tangent)

    def vjp(self, params: np.ndarray, rows: Any, cotangent: np.ndarray) -> np.ndarray:
        """By :meth:`linearise`."""
        return self.linearise(params, rows).vjp(cotangent)


class HiddenLinearisation(Linearisation):
    """A map with a hidden layer at some parameters, with the activations of that layer."""

    def __init__(
        self,
        score_map: HiddenLayerMap,
        params: np.ndarray,
        rows: Any,
        hidden: np.ndarray,
        scores: np.ndarray | None = None,
    ):
        self._hidden = hidden
        self._layers = score_map.layers(params)
        self._lifted = None
        if scores is None:
            scores = hidden @ self._layers[2] + self._layers[3]
        super().__init__(score_map, params, rows, scores)

    def take(self, index: Any) -> Self:
        """The same for some of the rows."""
        parts = (part[index] for part in (self.rows, self._hidden, self.scores))
        return type(self)(self.score_map, self.params, *parts)

    def _inputs(self):
        # Of a batch, which asks twice, the lifted rows are kept; of all rows they are recomputed.
        if self._lifted is None:
            self._lifted = self.score_map._lift(self.rows)
        return self._lifted

    def _in_blocks(self):
        blocks = self.score_map._blocks(self.rows.shape[0])
        return [self] if len(blocks) <= 1 else [self.take(block) for block in blocks]

    def jvp(self, tangent: np.ndarray) -> np.ndarray:
        """A forward pass of the tangent."""
        pieces = [part._jvp(tangent) for part in self._in_blocks()]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _jvp(self, tangent):
        first, below, second, above = self.score_map.layers(tangent)
        change = np.asarray(self._inputs() @ first) + below
        change = change.reshape(self._hidden.shape)
        change *= self._slopes()
        return change @ self._layers[2] + self._hidden @ second + above

    def _slopes(self):
        # Of elu, from its value: 1 above 0, else exp(z) = elu(z) + 1.
        return np.minimum(self._hidden, 0.0) + 1.0

    def vjp(self, cotangent: np.ndarray) -> np.ndarray:
        """A backward pass."""
        total, at = 0.0, 0
        for part in self._in_blocks():
            stop = at + part.scores.shape[0]
            total = total + part._vjp(cotangent[at:stop])
            at = stop
        return total

    def _vjp(self, cotangent):
        change = cotangent @ self._layers[2].T
        change *= self._slopes()
        change = change.reshape(-1, self._layers[0].shape[1])
        return self.score_map._join(
            self._inputs().T @ change,
            change.sum(axis=0),
            self._hidden.T @ cotangent,
            cotangent.sum(axis=0),
        )


# MLPMap: one hidden layer.


class MLPMap(HiddenLayerMap):
    """One hidden layer of ELU units, then linear.

    Read more in the :ref:`User Guide <nonlinear_guide>`.

    Parameters
    ----------
    n_hidden : int, default=100
        Units of the hidden layer.

    See Also
    --------
    ConvMap : The same at each place of an image.

    References
    ----------
    Clevert, Unterthiner, Hochreiter (2016). Fast and Accurate Deep Network Learning by Exponential
    Linear Units (ELUs). ICLR. Initial weights: He, Zhang, Ren, Sun (2015). Delving Deep into
    Rectifiers, section 2.2, and Glorot, Bengio (2010), section 4.2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.scores import MLPMap
    >>> MLPMap(n_hidden=5).initialise(2, 3, np.random.default_rng(0)).shape
    (33,)
    """

    takes_sparse = True

    def __init__(self, n_hidden: int = 100) -> None:
        self.n_hidden = n_hidden

    def _plan(self, n_features):
        self._check_sizes("n_hidden")
        return 1, n_features, self.n_hidden

    def _lift(self, rows: Any) -> Any:
        return rows


# ConvMap: one strided convolution.


class ConvMap(HiddenLayerMap):
    """One strided convolution with ELU, then linear: the head of the paper's localisation.

    Read more in the :ref:`User Guide <nonlinear_guide>`.

    Parameters
    ----------
    shape : tuple of three ints, default=None
        Height, width and channels of the image that a row of features is, flattened in this order.
        By default a square of one channel.
    n_filters : int, default=16
        Filters, each a unit at every place of the image.
    size : int, default=3
        Height and width of a filter.
    stride : int, default=1
        Step between places.

    See Also
    --------
    MLPMap : A hidden layer that sees all features.

    References
    ----------
    Pillutla, Roulet, Kakade, Harchaoui (2019). A Smoother Way to Train Structured Prediction
    Models. arXiv:1902.03228. Section 7.1.2: visual object localisation.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.scores import ConvMap
    >>> score_map = ConvMap(shape=(6, 6, 2), n_filters=4, size=3, stride=3)
    >>> params = score_map.initialise(72, 1, np.random.default_rng(0))
    >>> params.size  # 18 * 4 weights and 4 constants, then 4 places of 4 filters and a constant
    93
    """

    def __init__(
        self,
        shape: tuple[int, int, int] | None = None,
        n_filters: int = 16,
        size: int = 3,
        stride: int = 1,
    ) -> None:
        self.shape = shape
        self.n_filters = n_filters
        self.size = size
        self.stride = stride

    def _plan(self, n_features):
        self._check_sizes("n_filters", "size", "stride")
        side = isqrt(n_features)
        shape = (side, side, 1) if self.shape is None else self.shape
        sizes = tuple(shape) if isinstance(shape, tuple | list) else ()
        if len(sizes) != 3 or any(not isinstance(s, Integral) or s < 1 for s in sizes):
            raise ValueError(
                f"shape of ConvMap must be (height, width, channels), got {self.shape!r}"
            )
        if np.prod(sizes) != n_features:
            is_for = "a square of one channel" if self.shape is None else f"shape={sizes}"
            raise ValueError(
                f"X has {n_features} features, but {is_for} of ConvMap has {np.prod(sizes)}: pass "
                "ConvMap(shape=(height, width, channels))"
            )
        if self.size > min(sizes[:2]):
            raise ValueError(f"size={self.size} of ConvMap is larger than the image {sizes}")
        self._image = sizes
        places = [(s - self.size) // self.stride + 1 for s in sizes[:2]]
        return places[0] * places[1], self.size**2 * sizes[2], self.n_filters

    def _lift(self, rows: Any) -> np.ndarray:
        images = rows.reshape(-1, *self._image)
        windows = np.lib.stride_tricks.sliding_window_view(
            images, (self.size, self.size), axis=(1, 2)
        )
        windows = windows[:, :: self.stride, :: self.stride]
        return windows.reshape(-1, self._shapes[0][0])


class LinearMap(ScoreMap):
    """Scores linear in the features: a weight for each feature and column, and a constant.

    Read more in the :ref:`User Guide <nonlinear_guide>`.

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

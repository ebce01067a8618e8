"""Score maps: differentiable functions from feature rows to the scores of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isqrt
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from .core.arguments import check_integer
from .core.docstrings import inherit_sections
from .core.sklearn_private import Documented

__all__ = ["ConvMap", "LinearMap", "Linearisation", "MLPMap", "ScoreMap"]


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


class ScoreMap(Documented, BaseEstimator, ABC):
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
        """Reject parameters that are not integers of at least 1."""
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
            The constants; zeros, not a view, without an intercept.
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

"""ConvMap: one strided convolution."""

from __future__ import annotations

from math import isqrt
from numbers import Integral
from typing import Any

import numpy as np

from .hidden import HiddenLayerMap


class ConvMap(HiddenLayerMap):
    """One strided convolution with ELU, then linear: the head of the paper's localisation.

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
    Pillutla, Roulet, Kakade, Harchaoui (2018). A Smoother Way to Train Structured Prediction
    Models. NeurIPS. Section 6 and the experiments on visual object localisation.

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

"""MLPMap: one hidden layer."""

from __future__ import annotations

from typing import Any

from .hidden import HiddenLayerMap


class MLPMap(HiddenLayerMap):
    """One hidden layer of ELU units, then linear.

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

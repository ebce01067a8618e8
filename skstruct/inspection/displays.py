"""Pictures: convergence of solvers, transition tables, marginals of one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..core.wrappers import innermost, split_model
from ..data.frames import axes_of
from .tables import _label_names, _words, transition_frame


class ConvergenceDisplay:
    """Plot of the objective, or of its bounds, during training.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    curves : dict of str to (ndarray, ndarray)
        Abscissae and ordinates by name.
    xlabel, ylabel : str
        Labels of the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.
    lines_ : list of matplotlib lines
        One line per curve.

    See Also
    --------
    skstruct.estimators.bcfw_path : Fits a sequence of C, each from the one before.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inspection import ConvergenceDisplay
    >>> curve = np.arange(3), np.array([1.0, 0.1, 0.02])
    >>> display = ConvergenceDisplay({"SAGCRF": curve}, xlabel="epochs", ylabel="duality gap")
    >>> display.curves["SAGCRF"][1].tolist()
    [1.0, 0.1, 0.02]
    """

    def __init__(
        self, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], *, xlabel: str, ylabel: str
    ) -> None:
        self.curves = curves
        self.xlabel = xlabel
        self.ylabel = ylabel

    @classmethod
    def from_estimators(
        cls,
        estimators: Any,
        *,
        x: str = "passes",
        y: str = "objective",
        optimum: float | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the ``history_`` of one or several fitted estimators.

        Parameters
        ----------
        estimators : estimator, Pipeline, list or dict of them by name
            Fitted, with ``history_``.
        x : str, default="passes"
            A key of ``history_`` for the abscissa: "passes" or "seconds".
        y : str, default="objective"
            A key of ``history_`` for the ordinate: "dual_objective", "validation_score" (with
            :class:`~skstruct.callbacks.EarlyStopping`), "objective" or "dual_gap" (of a SAGCRF with
            ``track_objective=True``). Or "excess": the objective's distance from the `optimum`, as
            a fraction of it. This is not a certificate (``suboptimality_`` is) unless `optimum` is
            a lower bound, such as a ``dual_objective_``.
        optimum : float, default=None
            For "excess"; default the smallest objective of all the curves.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If a history has no such key, or the values were not tracked.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import ConvergenceDisplay
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(track_objective=True, random_state=0).fit(X, y)
        >>> display = ConvergenceDisplay.from_estimators(crf, ax=Figure().subplots())
        >>> list(display.curves), display.ax_.get_yscale()
        (['SAGCRF'], 'log')
        """
        if not isinstance(estimators, Mapping):
            many = estimators if isinstance(estimators, (list, tuple)) else [estimators]
            names = [type(innermost(model, own=False)[1]).__name__ for model in many]
            if len(set(names)) < len(names):
                names = [f"{name} {i}" for i, name in enumerate(names)]
            estimators = dict(zip(names, many, strict=True))
        key = "objective" if y == "excess" else y
        curves = {}
        for name, model in estimators.items():
            model = innermost(model)[1]
            for wanted in (x, key):
                if wanted not in model.history_:
                    raise ValueError(
                        f"{name} has no {wanted!r} in history_, only {sorted(model.history_)}"
                    )
            values = np.asarray(model.history_[key], dtype=float)
            # Some solvers evaluate every few passes: the others are left out of the curve.
            if values.size > 1 and not np.isfinite(values[:-1]).any():
                raise ValueError(_unrecorded(name, model, key))
            curves[name] = np.asarray(model.history_[x], dtype=float), values
        if y == "excess":
            lowest = min(np.nanmin(values) for _, values in curves.values())
            optimum = lowest if optimum is None else optimum
            curves = {
                name: (at, (values - optimum) / abs(optimum))
                for name, (at, values) in curves.items()
            }
        return cls(curves, xlabel=x, ylabel=y).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw, on a logarithmic scale if all values are positive or zero (but validation scores).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        ax = axes_of(ax)
        self.lines_ = []
        for name, (at, values) in self.curves.items():
            shown = np.isfinite(values)
            self.lines_ += ax.plot(at[shown], values[shown], marker=".", label=name)
        drawn = np.concatenate([values for _, values in self.curves.values()])
        is_score = self.ylabel == "validation_score"
        if not is_score and np.nanmin(drawn) >= 0 and np.nanmax(drawn) > 0:
            ax.set_yscale("log")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _unrecorded(name, model, key):
    """Return the error about a key of which a history has the last value alone, or none."""
    options = ("track_objective", True), ("gap_every", 1)
    known = [f"{name}={value}" for name, value in options if hasattr(model, name)]
    numbers = {k: np.asarray(v, dtype=float) for k, v in model.history_.items()}
    others = [k for k, v in numbers.items() if "objective" in k and np.isfinite(v[:-1]).any()]
    return (
        f"{name} did not record {key!r} at each pass"
        + "".join(f": fit with {option}" for option in known[:1])
        + "".join(f", or draw y={k!r}" for k in others)
    )


class _HeatMap:
    """A matrix as a picture with named rows and columns."""

    def _draw(self, ax, values, rows, columns, step=1, **options):
        ax = axes_of(ax)
        self.image_ = ax.imshow(values, **options)
        ax.set_xticks(range(0, len(columns), step), columns[::step], rotation=90)
        ax.set_yticks(range(len(rows)), rows)
        ax.figure.colorbar(self.image_, ax=ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class TransitionDisplay(_HeatMap):
    """Heat map of the weights of (label, next label).

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    weights : ndarray of shape (n_classes, n_classes)
        The weights, -inf for forbidden pairs.
    classes : array-like of shape (n_classes,)
        The labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.
    image_ : matplotlib AxesImage
        The heat map.

    See Also
    --------
    skstruct.inspection.transition_frame : Weights of label pairs as a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inspection import TransitionDisplay
    >>> TransitionDisplay(np.array([[0.5, -0.5], [0.0, 1.0]]), ["a", "b"]).weights.shape
    (2, 2)
    """

    def __init__(self, weights: np.ndarray, classes: ArrayLike) -> None:
        self.weights = weights
        self.classes = classes

    @classmethod
    def from_estimator(cls, model: BaseEstimator, *, ax: Any = None, **options: Any) -> Self:
        """Draw the transitions of a fitted model.

        Parameters
        ----------
        model : estimator or Pipeline
            Fitted, of a structure with edges.
        ax : matplotlib Axes, default=None
            Where to draw.
        **options : object
            Which of several tables: `edge_feature` and `edge_type` of :func:`transition_frame`.

        Returns
        -------
        TransitionDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import TransitionDisplay
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> display = TransitionDisplay.from_estimator(crf, ax=Figure().subplots())
        >>> display.weights.shape, display.ax_.get_xlabel()
        ((2, 2), 'next label')
        """
        weights = np.asarray(transition_frame(model, **options))
        return cls(weights, _label_names(innermost(model)[1])).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; 0 is the middle of the colours, forbidden pairs are grey.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        TransitionDisplay
            The display itself.
        """
        weights = np.ma.masked_invalid(self.weights)  # shows the background
        bound = float(abs(weights).max(fill_value=0.0)) or 1.0
        self._draw(ax, weights, self.classes, self.classes, cmap="RdBu", vmin=-bound, vmax=bound)
        self.ax_.set(xlabel="next label", ylabel="label", facecolor="darkgray")
        return self


class MarginalsDisplay(_HeatMap):
    """Heat map of one sample's marginals, labels x positions.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    marginals : ndarray of shape (n_nodes, n_classes)
        The marginals.
    classes : array-like of shape (n_classes,)
        The labels.
    tokens : sequence of str of length n_nodes, default=None
        Labels of the positions; at most 30 are shown, evenly spaced.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.
    image_ : matplotlib AxesImage
        The heat map.

    See Also
    --------
    skstruct.SAGCRF : Conditional random fields, with probabilities.
    skstruct.inspection.explain : Feature contributions to the score of a sample's labelling.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inspection import MarginalsDisplay
    >>> display = MarginalsDisplay(np.array([[0.9, 0.1], [0.2, 0.8]]), ["D", "N"], ["the", "dog"])
    >>> list(display.tokens)
    ['the', 'dog']
    """

    def __init__(
        self, marginals: np.ndarray, classes: ArrayLike, tokens: Sequence[str] | None = None
    ) -> None:
        self.marginals = marginals
        self.classes = classes
        self.tokens = tokens

    @classmethod
    def from_estimator(
        cls, model: BaseEstimator, x: Any, *, tokens: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Draw the marginals of a sample.

        Parameters
        ----------
        model : estimator or Pipeline
            Fitted, with ``predict_marginals``.
        x : sample
            One element of X; a Pipeline takes the raw sample.
        tokens : sequence of str of length n_nodes, default=None
            Labels of the positions; by default the words of a raw sample (strings, or rows whose
            first column is one), else their numbers.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MarginalsDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import MarginalsDisplay
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> display = MarginalsDisplay.from_estimator(crf, X[0], ax=Figure().subplots())
        >>> display.marginals.shape
        (2, 2)
        """
        tokens = _words(x) if tokens is None else tokens
        own, X = split_model(model, [x])
        return cls(own.predict_marginals(X)[0], _label_names(innermost(own)[1]), tokens).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw, from 0 to 1.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MarginalsDisplay
            The display itself.

        Raises
        ------
        ValueError
            If the marginals are those of an image or of types of nodes, or of no nodes with labels.
        """
        if isinstance(self.marginals, dict):
            raise ValueError(
                f"marginals are those of nodes of the types {[*self.marginals]}: draw one type, "
                "MarginalsDisplay(marginals[name], its_labels).plot()"
            )
        if np.ndim(self.marginals) != 2:
            raise ValueError(
                f"marginals must be of shape (n_nodes, n_classes), got {np.shape(self.marginals)}; "
                "of an image draw those of one label k: imshow(marginals[..., k])"
            )
        tokens = range(len(self.marginals)) if self.tokens is None else self.tokens
        options = {"cmap": "Blues", "vmin": 0, "vmax": 1, "aspect": "auto"}
        step = max(1, -(-len(tokens) // 30))
        self._draw(ax, self.marginals.T, self.classes, tokens, step, **options)
        self.ax_.set(xlabel="node", ylabel="label")
        return self

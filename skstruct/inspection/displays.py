"""Pictures: convergence of solvers, transition tables, marginals of one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .tables import _parts


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("displays need matplotlib: pip install matplotlib") from None
    return plt


def _axes(ax):
    plt = _pyplot()
    return plt.subplots()[1] if ax is None else ax


class ConvergenceDisplay:
    """How the objective, or what bounds it, fell during training.

    Parameters
    ----------
    curves : dict of str to (ndarray, ndarray)
        Abscissae and ordinates by name.
    xlabel, ylabel : str
        What they are.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib lines
        One a curve.

    See Also
    --------
    skstruct.inspection.MAPConvergenceDisplay : Score and bound of MAP inference against time.
    skstruct.ssvm.bcfw_path : Fits a sequence of C, each from the one before.

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
            A key of ``history_`` for the ordinate ("objective" if it was tracked, "dual_gap",
            "dual_objective"), or "excess": the objective's distance from the `optimum`, as a
            fraction of it. That is no certificate (``suboptimality_`` is) unless `optimum` is a
            lower bound, such as a ``dual_objective_``.
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

        See Also
        --------
        skstruct.inspection.ConvergenceDisplay.plot : Draws other curves.

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
        models = _named(estimators)
        key = "objective" if y == "excess" else y
        curves = {}
        for name, model in models.items():
            for wanted in (x, key):
                if wanted not in model.history_:
                    raise ValueError(
                        f"{name} has no {wanted!r} in history_, only {sorted(model.history_)}"
                    )
            values = np.asarray(model.history_[key], dtype=float)
            # Some solvers evaluate every few passes: the others are left out of the curve.
            if values.size > 1 and not np.isfinite(values[:-1]).any():
                raise ValueError(f"{name} did not record {key!r}: fit with track_objective=True")
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
        """Draw, on a logarithmic scale if all values are positive or zero.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay
            The display itself.

        See Also
        --------
        skstruct.inspection.ConvergenceDisplay.from_estimators : Takes curves from models.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import ConvergenceDisplay
        >>> curve = np.arange(3), np.array([1.0, 0.1, 0.02])
        >>> display = ConvergenceDisplay({"SAGCRF": curve}, xlabel="epochs", ylabel="duality gap")
        >>> len(display.plot(Figure().subplots()).lines_)
        1
        """
        ax = _axes(ax)
        self.lines_ = []
        for name, (at, values) in self.curves.items():
            shown = np.isfinite(values)
            self.lines_ += ax.plot(at[shown], values[shown], marker=".", label=name)
        drawn = np.concatenate([values for _, values in self.curves.values()])
        if np.nanmin(drawn) >= 0 and np.nanmax(drawn) > 0:
            ax.set_yscale("log")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _named(estimators):
    if not isinstance(estimators, Mapping):
        many = estimators if isinstance(estimators, (list, tuple)) else [estimators]
        names = [type(_last(model)).__name__ for model in many]
        if len(set(names)) < len(names):
            names = [f"{name} {i}" for i, name in enumerate(names)]
        estimators = dict(zip(names, many, strict=True))
    return {name: _last(model) for name, model in estimators.items()}


def _last(model):
    return model[-1] if isinstance(model, Pipeline) else model


class _HeatMap:
    """A matrix as a picture with named rows and columns."""

    def _draw(self, ax, values, rows, columns, **options):
        ax = _axes(ax)
        self.image_ = ax.imshow(values, **options)
        ax.set_xticks(range(len(columns)), columns, rotation=90)
        ax.set_yticks(range(len(rows)), rows)
        ax.figure.colorbar(self.image_, ax=ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class TransitionDisplay(_HeatMap):
    """Heat map of the weights of (label, next label).

    Parameters
    ----------
    weights : ndarray of shape (n_classes, n_classes)
        The weights.
    classes : array-like of shape (n_classes,)
        The labels.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
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
    def from_estimator(
        cls,
        model: BaseEstimator,
        *,
        edge_feature: int | str | None = None,
        edge_type: int | str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the transitions of a fitted model.

        Parameters
        ----------
        model : estimator or Pipeline
            Fitted, of a structure with edges.
        edge_feature : int or str, default=None
            Which table, for a model with edge features: its number or its name.
        edge_type : int or str, default=None
            Which table, for a model whose edges have types or directions: its number or its name,
            see :func:`transition_frame`.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        TransitionDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.transition_frame : The numbers.

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
        from .tables import transition_frame

        weights = np.asarray(transition_frame(model, edge_feature, edge_type=edge_type))
        return cls(weights, _last(model).classes_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; 0 is the middle of the colours.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        TransitionDisplay
            The display itself.

        See Also
        --------
        skstruct.inspection.TransitionDisplay.from_estimator : Takes weights from a model.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import TransitionDisplay
        >>> display = TransitionDisplay(np.array([[0.5, -0.5], [0.0, 1.0]]), ["a", "b"])
        >>> display.plot(Figure().subplots()).image_.get_clim()
        (-1.0, 1.0)
        """
        bound = float(np.abs(self.weights).max()) or 1.0
        self._draw(
            ax, self.weights, self.classes, self.classes, cmap="RdBu", vmin=-bound, vmax=bound
        )
        self.ax_.set(xlabel="next label", ylabel="label")
        return self


class MarginalsDisplay(_HeatMap):
    """Heat map of one sample's marginals, labels x positions.

    Parameters
    ----------
    marginals : ndarray of shape (n_nodes, n_classes)
        The marginals.
    classes : array-like of shape (n_classes,)
        The labels.
    tokens : sequence of str of length n_nodes, default=None
        What to write below the positions.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    image_ : matplotlib AxesImage
        The heat map.

    See Also
    --------
    skstruct.SAGCRF : Conditional random fields, with probabilities.
    skstruct.inspection.explain : What drove each label of a sample.

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
            What to write below the positions.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MarginalsDisplay
            The display, drawn.

        See Also
        --------
        skstruct.SAGCRF.predict_marginals : The numbers.

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
        model, before, _ = _parts(model, None)
        X = [x] if before is None else before.transform([x])
        return cls(model.predict_marginals(X)[0], model.classes_, tokens).plot(ax)

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
            If the marginals are those of an image, or of no nodes with labels.

        See Also
        --------
        skstruct.inspection.MarginalsDisplay.from_estimator : Takes marginals from a model.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import MarginalsDisplay
        >>> marginals, tokens = np.array([[0.9, 0.1], [0.2, 0.8]]), ["the", "dog"]
        >>> display = MarginalsDisplay(marginals, ["D", "N"], tokens)
        >>> [text.get_text() for text in display.plot(Figure().subplots()).ax_.get_xticklabels()]
        ['the', 'dog']
        """
        if np.ndim(self.marginals) != 2:
            raise ValueError(
                f"marginals must be of shape (n_nodes, n_classes), got {np.shape(self.marginals)}; "
                "of an image draw those of one label k: imshow(marginals[..., k])"
            )
        tokens = range(len(self.marginals)) if self.tokens is None else self.tokens
        options = {"cmap": "Blues", "vmin": 0, "vmax": 1, "aspect": "auto"}
        self._draw(ax, self.marginals.T, self.classes, tokens, **options)
        self.ax_.set(xlabel="node", ylabel="label")
        return self

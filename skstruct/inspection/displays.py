"""Pictures: convergence of solvers, transition tables, marginals of one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.calibration import calibration_curve

from ..data.labels import rows_of_image
from ..data.matrices import refuse_masked
from ..data.values import as_labels, join_values
from ..metrics.calibration import (
    chunk_confidences,
    expected_calibration_error,
    innermost,
    node_confidences,
    split_model,
)
from .tables import _label_names, transition_frame


def _name_of(model):
    """The name of a model in a legend: that of its last step."""
    return type(innermost(model, own=False)[1]).__name__


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("displays need matplotlib: pip install matplotlib") from None
    return plt


def _axes(ax):
    plt = _pyplot()
    return plt.subplots(layout="constrained")[1] if ax is None else ax


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
    skstruct.inspection.MAPConvergenceDisplay : Score and bound of MAP inference against time.
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
            A key of ``history_`` for the ordinate ("objective" if it was tracked, "dual_gap",
            "dual_objective"), or "excess": the objective's distance from the `optimum`, as a
            fraction of it. This is not a certificate (``suboptimality_`` is) unless `optimum` is a
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
        models = {name: innermost(model)[1] for name, model in _named(estimators, _name_of).items()}
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

    @classmethod
    def from_estimator(
        cls, estimator: Any, name: str | None = None, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the ``history_`` of one fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted, with ``history_``.
        name : str, default=None
            Its name in the legend; by default that of its class.
        ax : matplotlib Axes, default=None
            Where to draw.
        **options : object
            `x`, `y` and `optimum` of :meth:`from_estimators`.

        Returns
        -------
        ConvergenceDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.ConvergenceDisplay.from_estimators : Draws several on one axis.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import ConvergenceDisplay
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf, ax = SAGCRF(random_state=0).fit(X, y), Figure().subplots()
        >>> display = ConvergenceDisplay.from_estimator(crf, "mine", y="dual_objective", ax=ax)
        >>> list(display.curves)
        ['mine']
        """
        models = [estimator] if name is None else {name: estimator}
        return cls.from_estimators(models, ax=ax, **options)

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


def _named(many, name_of):
    """Return what to draw, by name; several of one name are numbered."""
    if isinstance(many, Mapping):
        return dict(many)
    many = many if isinstance(many, (list, tuple)) else [many]
    names = [name_of(one) for one in many]
    if len(set(names)) < len(names):
        names = [f"{name} {i}" for i, name in enumerate(names)]
    return dict(zip(names, many, strict=True))


class _HeatMap:
    """A matrix as a picture with named rows and columns."""

    def _draw(self, ax, values, rows, columns, step=1, **options):
        ax = _axes(ax)
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
            Number or name of the table, for a model with edge features.
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
        weights = np.asarray(transition_frame(model, edge_feature, edge_type=edge_type))
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
        step = max(1, -(-len(tokens) // 30))
        self._draw(ax, self.marginals.T, self.classes, tokens, step, **options)
        self.ax_.set(xlabel="node", ylabel="label")
        return self


def _words(x):
    """The words of a raw sample, None where it holds none."""
    rows = x if isinstance(x, (list, tuple)) else getattr(x, "tolist", list)()
    words = [row[0] if isinstance(row, (list, tuple)) and row else row for row in rows]
    return words if words and all(isinstance(word, str) for word in words) else None


# Pictures of images whose pixels have been labelled.


class GridDisplay:
    """Plot of images, true labels, predicted labels and errors in a grid.

    Read more in the :ref:`User Guide <graphs_guide>`.

    Parameters
    ----------
    images : list of ndarray of shape (height, width, n_features), or None
        First column: one feature is grey, three are red, green and blue, otherwise the mean is
        shown. None omits the column.
    y_true, y_pred : list of ndarray of shape (height, width), or None
        Labels, at least one of the two; both give a column of errors.
    classes : array-like of shape (n_classes,), default=None
        All labels, in the order of their colours, by default those that occur, sorted.

    Attributes
    ----------
    axes_ : ndarray of shape (n_images, n_columns) of matplotlib Axes
        The axes of the plot.
    figure_ : matplotlib Figure
        The figure of the plot.
    columns_ : list of str
        Contents of the columns: "image", "y_true", "y_pred", "errors".

    Raises
    ------
    ValueError
        If there are neither labels nor predictions, numbers of images or shapes differ, or a label
        is not among `classes`.

    See Also
    --------
    MarginalsDisplay : Marginals of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inspection import GridDisplay
    >>> truth = [np.array([["sky", "sky"], ["sea", "sky"]])]
    >>> display = GridDisplay(None, truth, [np.full((2, 2), "sky")])
    >>> display.classes.tolist()
    ['sea', 'sky']
    >>> int(display.errors(0).sum())
    1
    """

    def __init__(
        self,
        images: Sequence[Any] | None = None,
        y_true: Sequence[Any] | None = None,
        y_pred: Sequence[Any] | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> None:
        given = {"images": images, "y_true": y_true, "y_pred": y_pred}
        given = {name: list(items) for name, items in given.items() if items is not None}
        labelled = {
            name: [_label_image(item, f"{name}: image {i}") for i, item in enumerate(items)]
            for name, items in given.items()
            if name != "images"
        }
        if not labelled:
            raise ValueError("y_true and y_pred are None: at least one of them is needed")
        shown = labelled
        if "images" in given:
            shown = {"images": [_pixels(x, i) for i, x in enumerate(given["images"])], **labelled}
        _check_shapes(shown)
        flat = [labels.reshape(-1) for items in labelled.values() for labels in items]
        if classes is None:
            classes = np.unique(join_values(flat, "y", "image {}".format))
        self.classes = np.asarray(classes)
        self.codes = {
            name: [_codes(labels, self.classes, f"{name}: image {i}") for i, labels in enumerate(l)]
            for name, l in labelled.items()  # noqa: E741
        }
        self.images = shown.get("images")
        self.y_true, self.y_pred = labelled.get("y_true"), labelled.get("y_pred")

    def errors(self, i: int) -> np.ndarray:
        """Return a mask of the pixels where the prediction of an image is wrong.

        Parameters
        ----------
        i : int
            The image.

        Returns
        -------
        ndarray of shape (height, width) of bool
            True at wrong pixels.

        Raises
        ------
        ValueError
            If there are no true or no predicted labels.

        See Also
        --------
        skstruct.metrics.node_accuracy_score : Fraction of correct pixels.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.inspection import GridDisplay
        >>> truth, predicted = np.eye(2, dtype=int), np.ones((2, 2), dtype=int)
        >>> GridDisplay(y_true=[truth], y_pred=[predicted]).errors(0)
        array([[False,  True],
               [ True, False]])
        """
        if len(self.codes) < 2:
            raise ValueError("errors need both y_true and y_pred")
        return self.codes["y_true"][i] != self.codes["y_pred"][i]

    @classmethod
    def from_predictions(
        cls,
        images: Sequence[Any] | None = None,
        y_true: Sequence[Any] | None = None,
        y_pred: Sequence[Any] | None = None,
        *,
        classes: ArrayLike | None = None,
        axes: Any = None,
    ) -> Self:
        """Draw labels that are there already.

        Parameters
        ----------
        images : list of ndarray of shape (height, width, n_features), default=None
            The images; samples that are tuples (image, edge features) are fine, too.
        y_true, y_pred : list of ndarray of shape (height, width), default=None
            Labels; at least one of the two.
        classes : array-like of shape (n_classes,), default=None
            All labels, in the order of their colours, by default those that occur, sorted.
        axes : array of matplotlib Axes of shape (n_images, n_columns), default=None
            Where to draw.

        Returns
        -------
        GridDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.GridDisplay.from_estimator : Predicts, too.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import GridDisplay
        >>> truth, predicted = np.eye(2, dtype=int), np.ones((2, 2), dtype=int)
        >>> axes = Figure().subplots(1, 3)
        >>> GridDisplay.from_predictions(y_true=[truth], y_pred=[predicted], axes=axes).columns_
        ['y_true', 'y_pred', 'errors']
        """
        return cls(images, y_true, y_pred, classes=classes).plot(axes)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Sequence[Any], y: Sequence[Any] | None = None, *, axes: Any = None
    ) -> Self:
        """Predict and draw.

        Parameters
        ----------
        model : estimator or Pipeline
            Fitted on images; a Pipeline takes raw ones, and those are shown.
        X : list of ndarray of shape (height, width, n_features)
            The images.
        y : list of ndarray of shape (height, width), default=None
            Their true labels.
        axes : array of matplotlib Axes of shape (n_images, n_columns), default=None
            Where to draw.

        Returns
        -------
        GridDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.GridDisplay.from_predictions : The same for given labels.

        Examples
        --------
        Anything that has ``predict`` and ``classes_``:

        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import GridDisplay
        >>> def predict(X):
        ...     return [x[..., 0] > 0.5 for x in X]
        >>> model = SimpleNamespace(predict=predict, classes_=[False, True])
        >>> X, axes = [np.eye(2)[..., None]], Figure().subplots(1, 2)
        >>> GridDisplay.from_estimator(model, X, axes=axes).columns_
        ['image', 'y_pred']
        """
        classes = model.classes_
        if y is not None:  # the model need not know them all
            seen = [_label_image(item, f"y: image {i}").reshape(-1) for i, item in enumerate(y)]
            classes = np.unique(join_values([classes, *seen], "y", "image {}".format))
        return cls.from_predictions(X, y, model.predict(X), classes=classes, axes=axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw a row per image, with one legend of the labels.

        Parameters
        ----------
        axes : array of matplotlib Axes of shape (n_images, n_columns), default=None
            Where to draw.

        Returns
        -------
        GridDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `axes` has another shape.

        See Also
        --------
        skstruct.inspection.GridDisplay.from_predictions : Makes and draws.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import GridDisplay
        >>> display = GridDisplay(y_true=[np.eye(2, dtype=int)])
        >>> display.plot(Figure().subplots()).axes_.shape
        (1, 1)
        """
        plt = _pyplot()
        self.columns_ = ["image"] * (self.images is not None) + list(self.codes)
        self.columns_ += ["errors"] * (len(self.codes) == 2)
        n_rows, n_columns = len(next(iter(self.codes.values()))), len(self.columns_)
        if axes is None:
            size = 2.0 * n_columns + 1.2, 2.0 * n_rows
            _, axes = plt.subplots(
                n_rows, n_columns, squeeze=False, figsize=size, layout="constrained"
            )
        axes = np.array(axes, dtype=object)
        if axes.size != n_rows * n_columns:
            raise ValueError(f"axes must be of shape {(n_rows, n_columns)}, got {axes.shape}")
        self.axes_ = axes.reshape(n_rows, n_columns)
        self.figure_ = self.axes_[0, 0].figure
        n = len(self.classes)
        table = plt.get_cmap("tab10" if n <= 10 else "tab20" if n <= 20 else "turbo")
        colours = table(np.arange(n) if n <= 20 else np.linspace(0.0, 1.0, n))
        for i, row in enumerate(self.axes_):
            for name, ax in zip(self.columns_, row, strict=True):
                self._draw(ax, name, i, colours)
                ax.set(xticks=[], yticks=[])
                if i == 0:
                    ax.set_title(name)
        labels = zip(colours, self.classes, strict=True)
        patches = [plt.Rectangle((0, 0), 1, 1, color=c, label=str(label)) for c, label in labels]
        self.figure_.legend(handles=patches, loc="outside right center")
        return self

    def _draw(self, ax, name, i, colours):
        """One picture."""
        if name == "image":
            ax.imshow(self.images[i], cmap="gray", interpolation="nearest")
        elif name == "errors":
            wrong = self.errors(i)
            ax.imshow(wrong, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
            ax.set_xlabel(f"{wrong.sum()} of {wrong.size} pixels")
        else:
            ax.imshow(colours[self.codes[name][i]], interpolation="nearest")


def _label_image(item, where):
    """The labels of an image, checked."""
    labels, shape = rows_of_image(item, where)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{where} must be labels of shape (height, width), got {shape}")
    return as_labels(labels, where, "pixel {}".format).reshape(shape)


def _codes(labels, classes, where):
    """Positions of labels in `classes`."""
    known = {label: k for k, label in enumerate(classes.tolist())}
    try:
        codes = [known[label] for label in labels.reshape(-1).tolist()]
    except KeyError as error:
        raise ValueError(f"{where} has the label {error.args[0]!r}, not in classes") from None
    return np.array(codes, dtype=int).reshape(labels.shape)


def _pixels(item, i):
    """Return the grey values or colours of an image, from 0 to 1."""
    x = item[0] if isinstance(item, tuple) else item
    refuse_masked(x, f"images: image {i}")
    x = np.asarray(x)
    if x.ndim == 2:
        x = x[:, :, None]
    if x.ndim != 3 or 0 in x.shape or x.dtype.kind not in "biuf":
        raise ValueError(
            f"images: image {i} must be numbers of shape (height, width[, n_features]), got dtype "
            f"{x.dtype}, shape {x.shape}"
        )
    x = x.astype(float) if x.shape[2] in (1, 3) else x.mean(axis=2, keepdims=True)
    low, high = np.nanmin(x), np.nanmax(x)
    x = (x - low) / (high - low) if high > low else np.zeros_like(x)
    return x[:, :, 0] if x.shape[2] == 1 else x


def _check_shapes(shown):
    """All that is shown of an image is of one size."""
    (first, items), *others = shown.items()
    if not items:
        raise ValueError(f"{first} is empty: at least one image is needed")
    for name, other in others:
        if len(other) != len(items):
            raise ValueError(f"{first} has {len(items)} images, {name} {len(other)}")
        for i, (a, b) in enumerate(zip(items, other, strict=True)):
            if a.shape[:2] != b.shape[:2]:
                raise ValueError(
                    f"image {i}: {first} has the shape {a.shape[:2]}, {name} {b.shape[:2]}"
                )


# A picture of MAP inference: bounds that fall and scores that rise.


class CalibrationDisplay:
    """Reliability diagram: accuracy of predictions against their confidence.

    Read more in the :ref:`User Guide <calibration>`.

    Parameters
    ----------
    curves : dict of str to (ndarray of bool, ndarray)
        For each model, correctness of its predictions, and their probabilities.
    n_bins : int, default=10
        Number of bins of equal size.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.
    lines_ : list of matplotlib lines
        One line per curve.

    See Also
    --------
    skstruct.metrics.expected_calibration_error : The distance from the diagonal, as a number.
    skstruct.TemperatureScaling : Calibration of probabilities.
    sklearn.calibration.CalibrationDisplay : The same for one class of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inspection import CalibrationDisplay
    >>> curve = np.array([True, False, True]), np.array([0.9, 0.6, 0.7])
    >>> display = CalibrationDisplay({"SAGCRF": curve})
    >>> display.curves["SAGCRF"][0].mean().round(2)
    np.float64(0.67)
    """

    def __init__(self, curves: Mapping[str, tuple[ArrayLike, ArrayLike]], n_bins: int = 10) -> None:
        self.curves = curves
        self.n_bins = n_bins

    @classmethod
    def from_estimators(
        cls,
        models: Any,
        X: Any,
        y: Any,
        *,
        of: str = "nodes",
        scheme: str | None = None,
        n_bins: int = 10,
        ax: Any = None,
    ) -> Self:
        """Draw the predictions of one or several models for samples with known labels.

        Parameters
        ----------
        models : estimator, Pipeline, list or dict of them by name
            Fitted, with probabilities.
        X, y : list, object array or RaggedArray
            Samples that the models have not seen, and their labels. Nodes without a label do not
            count, and of chunks samples with such nodes.
        of : {"nodes", "chunks"}, default="nodes"
            Predictions to assess: the most probable label of each node, by its marginal
            probability; or the chunks of the best labelling, by ``predict_chunks``.
        scheme : str, default=None
            For chunks, see :func:`skstruct.metrics.chunks`.
        n_bins : int, default=10
            Number of bins of equal size.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        CalibrationDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If `of` is something else, or nothing is predicted.
        TypeError
            If a model has no probabilities.

        See Also
        --------
        skstruct.SAGCRF.predict_chunks : Chunks with probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import CalibrationDisplay
        >>> from skstruct.testing import random_sequences
        >>> X, y = random_sequences(np.random.default_rng(0), 60)
        >>> crf = SAGCRF(random_state=0).fit(X[:40], y[:40])
        >>> ax = Figure().subplots()
        >>> display = CalibrationDisplay.from_estimators(crf, X[40:], y[40:], ax=ax)
        >>> display.curves["SAGCRF"][0].size == sum(map(len, y[40:]))
        True
        """
        if of not in ("nodes", "chunks"):
            raise ValueError(f"of must be 'nodes' or 'chunks', got {of!r}")
        models = _named(models, _name_of)
        find = node_confidences if of == "nodes" else partial(chunk_confidences, scheme=scheme)
        curves = {name: find(*split_model(model, X), y) for name, model in models.items()}
        for name, (_, confidence) in curves.items():
            if not confidence.size:
                raise ValueError(f"{name}: no {of} are predicted for samples with labels")
        return cls(curves, n_bins).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        name: str | None = None,
        *,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the predictions of one model for samples with known labels.

        Parameters
        ----------
        model : estimator or Pipeline
            Fitted, with probabilities.
        X, y : list, object array or RaggedArray
            Samples that the model has not seen, and their labels.
        name : str, default=None
            Its name in the legend; by default that of its class.
        ax : matplotlib Axes, default=None
            Where to draw.
        **options : object
            `of`, `scheme` and `n_bins` of :meth:`from_estimators`.

        Returns
        -------
        CalibrationDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.CalibrationDisplay.from_estimators : Draws several on one axis.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct import SAGCRF
        >>> from skstruct.inspection import CalibrationDisplay
        >>> from skstruct.testing import random_sequences
        >>> X, y = random_sequences(np.random.default_rng(0), 60)
        >>> crf = SAGCRF(random_state=0).fit(X[:40], y[:40])
        >>> ax = Figure().subplots()
        >>> display = CalibrationDisplay.from_estimator(crf, X[40:], y[40:], "mine", ax=ax)
        >>> list(display.curves)
        ['mine']
        """
        models = [model] if name is None else {name: model}
        return cls.from_estimators(models, X, y, ax=ax, **options)

    def plot(self, ax: Any = None) -> Self:
        """Draw the curves, and the diagonal of a calibrated model.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        CalibrationDisplay
            The display itself.

        See Also
        --------
        skstruct.inspection.CalibrationDisplay.from_estimators : Takes predictions from models.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import CalibrationDisplay
        >>> curve = np.array([True, False, True]), np.array([0.9, 0.6, 0.7])
        >>> len(CalibrationDisplay({"SAGCRF": curve}).plot(Figure().subplots()).lines_)
        1
        """
        ax, self.lines_ = _axes(ax), []
        ax.plot([0, 1], [0, 1], color="gray", linestyle=":")
        for name, (correct, confidence) in self.curves.items():
            share, mean = calibration_curve(
                np.asarray(correct, dtype=int), confidence, n_bins=self.n_bins, strategy="quantile"
            )
            error = expected_calibration_error(correct, confidence)
            self.lines_ += ax.plot(mean, share, marker="o", label=f"{name} (ECE {error:.3f})")
        ax.set(xlabel="probability under the model", ylabel="fraction that is right")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


class MAPCurve(NamedTuple):
    """Bounds and scores recorded by one run of :func:`~skstruct.map_inference.solve_map`."""

    at: np.ndarray
    bound: np.ndarray
    score: np.ndarray


class MAPConvergenceDisplay:
    """Plot of bounds and scores of MAP inference, for several runs.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    curves : dict of str to MAPCurve
        Abscissae, bounds and scores by name. A curve without abscissae has one bound and one
        score, drawn as horizontal lines.
    xlabel : str
        Label of the abscissa.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.
    bound_lines_ : dict of str to matplotlib line
        The bounds by name, drawn through.
    score_lines_ : dict of str to matplotlib line
        The scores by name, dashed, in the same colour.

    Raises
    ------
    ValueError
        If a curve's parts are not of one length.

    See Also
    --------
    ConvergenceDisplay : Convergence of training.

    Examples
    --------
    >>> from skstruct.inspection import MAPConvergenceDisplay
    >>> curve = ([0.1, 0.2], [3.0, 2.0], [1.5, 2.0])
    >>> display = MAPConvergenceDisplay({"method": curve}, xlabel="seconds")
    >>> display.curves["method"].bound
    array([3., 2.])
    """

    def __init__(self, curves: Mapping[str, Any], *, xlabel: str) -> None:
        self.curves = {
            name: MAPCurve(*(np.atleast_1d(np.asarray(part, dtype=float)) for part in curve))
            for name, curve in curves.items()
        }
        for name, curve in self.curves.items():
            one = curve.at.size == 0 and curve.bound.size == curve.score.size == 1
            if not (one or curve.at.shape == curve.bound.shape == curve.score.shape):
                raise ValueError(
                    f"curves[{name!r}] must have equally many abscissae, bounds and scores, got "
                    f"{curve.at.size}, {curve.bound.size} and {curve.score.size}"
                )
        self.xlabel = xlabel

    @classmethod
    def from_results(cls, results: Any, *, x: str = "seconds", ax: Any = None) -> Self:
        """Draw the ``history_`` of one or several results.

        Parameters
        ----------
        results : MAPResult, list or dict of them by name
            What :func:`~skstruct.map_inference.solve_map` returned. Without names a result has
            that of its method. One without a history, of an exact method, is drawn across.
        x : {"seconds", "passes"}, default="seconds"
            The abscissa.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MAPConvergenceDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If `x` is neither.

        See Also
        --------
        skstruct.map_inference.solve_map : Makes results.

        Examples
        --------
        A result of an exact method has no history and is drawn across:

        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import MAPConvergenceDisplay
        >>> from skstruct.map_inference import MAPResult
        >>> result = MAPResult(np.array([0, 1]), 1.5, 1.5, True, method="tree")
        >>> display = MAPConvergenceDisplay.from_results(result, ax=Figure().subplots())
        >>> list(display.score_lines_)
        ['tree']
        """
        if x not in ("seconds", "passes"):
            raise ValueError(f'x must be "seconds" or "passes", got {x!r}')
        curves = {}
        for name, result in _named(results, attrgetter("method")).items():
            history = result.history_
            curves[name] = (
                MAPCurve(history[x], history["bound"], history["score"])
                if len(history[x])
                else MAPCurve(np.empty(0), np.array([result.bound]), np.array([result.score]))
            )
        return cls(curves, xlabel=x).plot(ax)

    @classmethod
    def from_result(
        cls, result: Any, name: str | None = None, *, x: str = "seconds", ax: Any = None
    ) -> Self:
        """Draw the ``history_`` of one result.

        Parameters
        ----------
        result : MAPResult
            What :func:`~skstruct.map_inference.solve_map` returned.
        name : str, default=None
            Its name in the legend; by default that of its method.
        x : {"seconds", "passes"}, default="seconds"
            The abscissa.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MAPConvergenceDisplay
            The display, drawn.

        See Also
        --------
        skstruct.inspection.MAPConvergenceDisplay.from_results : Draws several on one axis.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import MAPConvergenceDisplay
        >>> from skstruct.map_inference import MAPResult
        >>> result = MAPResult(np.array([0, 1]), 1.5, 1.5, True, method="tree")
        >>> ax = Figure().subplots()
        >>> MAPConvergenceDisplay.from_result(result, "exact", ax=ax).curves["exact"].bound
        array([1.5])
        """
        return cls.from_results([result] if name is None else {name: result}, x=x, ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; what is not finite (nothing is known yet) is left out.

        The ordinate shows the range of each curve without the first tenth of its points, if it has
        five or more, since the first passes would hide the final gap.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        MAPConvergenceDisplay
            The display itself.

        See Also
        --------
        skstruct.inspection.MAPConvergenceDisplay.from_results : Takes curves from results.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from skstruct.inspection import MAPConvergenceDisplay
        >>> curve = ([0.1, 0.2], [3.0, 2.0], [1.5, 2.0])
        >>> display = MAPConvergenceDisplay({"method": curve}, xlabel="seconds")
        >>> display.plot(Figure().subplots()).ax_.get_ylabel()
        'score and bound'
        """
        ax, shown = _axes(ax), []
        self.bound_lines_, self.score_lines_ = {}, {}
        for name, curve in self.curves.items():
            line = _line(ax, curve.at, curve.bound, label=f"{name}, bound", marker=".")
            self.bound_lines_[name] = line
            self.score_lines_[name] = _line(
                ax, curve.at, curve.score, label=f"{name}, score", marker=".", linestyle="--",
                color=line.get_color(),
            )  # fmt: skip
            first = -(-curve.at.size // 10) if curve.at.size > 4 else 0
            shown += [*curve.bound[first:], *curve.score[first:]]
        shown = np.array(shown)[np.isfinite(shown)]
        if shown.size and (margin := 0.05 * np.ptp(shown)):
            ax.set_ylim(shown.min() - margin, shown.max() + margin)
        ax.set(xlabel=self.xlabel, ylabel="score and bound")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _line(ax, at, values, **style):
    """A curve, or a line across where there are no abscissae."""
    if at.size == 0:
        level = values[0] if np.isfinite(values[0]) else np.nan
        across = style | {"marker": "", "transform": ax.get_yaxis_transform()}
        return ax.plot([0, 1], [level, level], **across)[0]
    shown = np.isfinite(values)
    return ax.plot(at[shown], values[shown], **style)[0]

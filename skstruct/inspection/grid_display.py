"""Pictures of images whose pixels have been labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..data.labels import rows_of_image
from ..data.matrices import refuse_masked
from ..data.values import as_labels, join_values
from .displays import _pyplot


class GridDisplay:
    """Images beside their true labels, the predicted ones, and the pixels where these differ.

    Parameters
    ----------
    images : list of ndarray of shape (height, width, n_features), or None
        What to show first: one feature is grey, three are red, green and blue; of another number
        the mean is shown. None leaves the column out.
    y_true, y_pred : list of ndarray of shape (height, width), or None
        Labels; at least one of the two. With both there is a column of errors.
    classes : array-like of shape (n_classes,), default=None
        All labels, in the order of their colours; default those that occur, sorted.

    Attributes
    ----------
    axes_ : ndarray of shape (n_images, n_columns) of matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    columns_ : list of str
        What the columns show: "image", "y_true", "y_pred", "errors".

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
        """Where the prediction of an image is wrong.

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
        skstruct.metrics.node_accuracy_score : The share of pixels that are right.

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
            All labels, in the order of their colours; default those that occur, sorted.
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
        skstruct.inspection.GridDisplay.from_predictions : Of labels that are there already.

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
        """Draw a row an image, with one legend of the labels.

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
        for i, row in enumerate(self.axes_):
            for name, ax in zip(self.columns_, row, strict=True):
                self._draw(ax, name, i, plt)
                ax.set(xticks=[], yticks=[])
                if i == 0:
                    ax.set_title(name)
        self._name_colours(plt)
        return self

    def _colours(self, plt):
        """A colour a label."""
        n = len(self.classes)
        table = plt.get_cmap("tab10" if n <= 10 else "tab20" if n <= 20 else "turbo")
        return table(np.arange(n) if n <= 20 else np.linspace(0.0, 1.0, n))

    def _draw(self, ax, name, i, plt):
        """One picture."""
        if name == "image":
            ax.imshow(self.images[i], cmap="gray", interpolation="nearest")
        elif name == "errors":
            wrong = self.errors(i)
            ax.imshow(wrong, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
            ax.set_xlabel(f"{wrong.sum()} of {wrong.size} pixels")
        else:
            ax.imshow(self._colours(plt)[self.codes[name][i]], interpolation="nearest")

    def _name_colours(self, plt):
        """The legend."""
        from matplotlib.patches import Patch

        names = [str(label) for label in self.classes]
        colours = self._colours(plt)
        patches = [Patch(color=c, label=n) for c, n in zip(colours, names, strict=True)]
        self.figure_.legend(handles=patches, loc="outside right center")


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
    """What is shown of an image: grey values or colours from 0 to 1."""
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

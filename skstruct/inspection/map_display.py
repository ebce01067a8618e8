"""A picture of MAP inference: bounds that fall and scores that rise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from .displays import _axes


class MAPCurve(NamedTuple):
    """What one run of :func:`~skstruct.map_inference.solve_map` recorded."""

    at: np.ndarray
    bound: np.ndarray
    score: np.ndarray


class MAPConvergenceDisplay:
    """Bounds and scores of MAP inference, of several runs on one axis.

    Parameters
    ----------
    curves : dict of str to MAPCurve
        Abscissae, bounds and scores by name. A curve without abscissae has one bound and one
        score, drawn across.
    xlabel : str
        What the abscissae are.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
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
    ConvergenceDisplay : The same of training.

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
        for name, result in _named(results).items():
            history = result.history_
            curves[name] = (
                MAPCurve(history[x], history["bound"], history["score"])
                if len(history[x])
                else MAPCurve(np.empty(0), np.array([result.bound]), np.array([result.score]))
            )
        return cls(curves, xlabel=x).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; what is not finite (nothing is known yet) is left out.

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
        ax = _axes(ax)
        self.bound_lines_, self.score_lines_ = {}, {}
        for name, curve in self.curves.items():
            line = _line(ax, curve.at, curve.bound, label=f"{name}, bound", marker=".")
            self.bound_lines_[name] = line
            self.score_lines_[name] = _line(
                ax, curve.at, curve.score, label=f"{name}, score", marker=".", linestyle="--",
                color=line.get_color(),
            )  # fmt: skip
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


def _named(results):
    """Results by name; of one method several are numbered."""
    if isinstance(results, Mapping):
        return dict(results)
    many = results if isinstance(results, (list, tuple)) else [results]
    names = [result.method for result in many]
    if len(set(names)) < len(names):
        names = [f"{name} {i}" for i, name in enumerate(names)]
    return dict(zip(names, many, strict=True))

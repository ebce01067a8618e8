"""Figures of the papers' results; run as a script it draws those that are there anew."""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import numpy as np
from _paths import RESULTS

_DPI = 85
# No colour twice, each of contrast 3 on white, and styles that can be told apart in print.
_COLOURS = "#0072b2 #d55e00 #009e73 #c0699a #b97a00 #0097b5 #000000 #8c510a #7570b3 #5f9c10".split()
_COLOURS += ["#e6002e", "#8c8c8c", "#1f1f8f"]
_STYLES = ["-", "--", "-.", ":"]
#: Curves with this in their name are dotted, in the colour of the name before it.
DOTTED = ", second"
_LONG = 13  # letters of a name for each column: of longer ones four do not fit side by side
_FEW = 30.0  # from the lowest to the highest value on an axis, for ticks without exponents
_MANY = 10  # curves, of which colours alone are hard to tell apart


class Panel(NamedTuple):
    """One pair of axes: curves ``{name: [[x...], [y...]]}``, third a half width of a band."""

    title: str
    xlabel: str
    ylabel: str
    curves: dict
    log: str = "y"
    top: float | None = None
    legend: bool = False  # of its own, inside, with colours of its own


def _looks(names, styles=_STYLES):
    """Colour and style of each name; of many, those that agree up to a comma share the colour."""
    families = {}
    for name in names:
        families.setdefault(name.partition(",")[0], []).append(name)
    largest = max(map(len, families.values()), default=0)
    if len(names) > _MANY and len(families) <= len(_COLOURS) and 1 < largest <= len(styles):
        return {
            name: (colour, styles[k])
            for colour, family in zip(_COLOURS, families.values(), strict=False)
            for k, name in enumerate(family)
        }
    styles = styles if len(names) > _MANY else styles[:1]
    return {
        name: (_COLOURS[k % len(_COLOURS)], styles[k % len(styles)]) for k, name in enumerate(names)
    }


def draw(path, panels, columns=2):
    """A figure of all panels, with one legend."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    plt.rcParams |= {"font.size": 10}
    n_rows = -(-len(panels) // columns)
    names = [name for panel in panels if not panel.legend for name in panel.curves]
    styles = _STYLES[:-1] if any(DOTTED in name for name in names) else _STYLES
    names = list(dict.fromkeys(name.partition(DOTTED)[0] for name in names))
    # As many columns of the legend as its longest name leaves room for.
    ncols = 3 if max(map(len, names), default=0) > _LONG * columns else 4
    is_free = len(panels) < n_rows * columns  # a place that the legend fits into
    size = 4.6 * columns, 3.1 * n_rows + (0.0 if is_free else 0.22 * (-(-len(names) // ncols)))
    fig, axes = plt.subplots(n_rows, columns, figsize=size, squeeze=False, layout="constrained")
    lines, looks = {}, _looks(names, styles)
    for ax, panel in zip(axes.flat, panels, strict=False):
        for name, (x, y, *band) in panel.curves.items():
            base, variant, _ = name.partition(DOTTED)
            if panel.legend:
                k = list(panel.curves).index(base)
                colour, style = _COLOURS[k % len(_COLOURS)], _STYLES[k % len(_STYLES)]
            else:
                colour, style = looks[base]
            style, width = (":", 0.8) if variant else (style, 1.3)
            (line,) = ax.plot(x, y, style, color=colour, lw=width)
            if panel.legend:
                line.set_label(name)
            elif not variant:
                lines[base] = line
            for half in band:
                low, high = np.subtract(y, half), np.add(y, half)
                # On a logarithmic axis a band that reaches 0 would take all of it.
                low = np.maximum(low, 0.1 * np.asarray(y)) if "y" in panel.log else low
                ax.fill_between(x, low, high, color=line.get_color(), alpha=0.2, lw=0)
        ax.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        if "x" in panel.log:
            ax.set_xscale("log")
            _numbers(ax.xaxis)
        if "y" in panel.log:
            ax.set_yscale("log")
            _numbers(ax.yaxis)
        if panel.top is not None:
            least = min(min(y) for _, y, *_ in panel.curves.values())
            ax.set_ylim(least - 0.05 * (panel.top - least), panel.top)
        ax.grid(color="#d9d9d9", lw=0.6)
        if panel.legend:
            ax.legend(fontsize=8, framealpha=0.7, edgecolor="none")
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    shown = [name for name in names if name in lines]
    if shown:
        own = [lines[name] for name in shown]
        if is_free:
            axes.flat[len(panels)].legend(own, shown, loc="center left", frameon=False)
        else:
            fig.legend(own, shown, loc="outside lower center", ncols=ncols, frameon=False)
    drawn = io.BytesIO()
    fig.savefig(drawn, dpi=_DPI, format="png")
    plt.close(fig)
    # A palette takes a third of the bytes, and SVG three times as many. Without means thin lines of
    # two colours become one.
    palette = Image.open(drawn).convert("RGB")
    palette = palette.quantize(144, Image.Quantize.MAXCOVERAGE, kmeans=1)
    palette.save(path, optimize=True)


def _numbers(axis):
    """Numbers without exponents on a logarithmic axis of few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_data_interval()
    if high < _FEW * low:
        subs = (1.0, 2.0, 5.0) if high > 4.0 * low else np.arange(1.0, 10.0)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    # Those of an axis of two powers of ten lie on each other.
    axis.set_minor_formatter(NullFormatter())


def redraw(folder=RESULTS):
    """The figures of results that are there."""
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        panels = [Panel(**panel) for panel in found["panels"]]
        draw(path.with_suffix(".png"), panels, found["columns"])


if __name__ == "__main__":
    redraw()

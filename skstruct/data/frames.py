"""Results as data frames or structured arrays, as tables in HTML and text, and on axes."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import Any

import numpy as np


def find_pandas() -> Any:
    """Return pandas, or None where it is not installed."""
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def as_frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of named columns, or a structured array."""
    pandas = find_pandas()
    if pandas is not None:
        return pandas.DataFrame(columns)
    return np.rec.fromarrays([*map(np.asarray, columns.values())], names=[*columns])


def _cell(value):
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return "" if value is None else str(value)


def _cells(columns, n):
    """The names of columns, and the first n rows, as strings."""
    rows = islice(zip(*columns.values(), strict=True), n)
    return [list(columns), *([*map(_cell, row)] for row in rows)]


def as_text(columns: dict[str, Any], n: int | None = None) -> str:
    """Return the first n rows as lines of aligned text."""
    cells = _cells(columns, n)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in cells)


def as_html(columns: dict[str, Any], n: int | None = None) -> str:
    """Return the first n rows as HTML."""
    head, *rows = _cells(columns, n)
    marked = [("th", head), *(("td", row) for row in rows)]
    lines = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for tag, row in marked)
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


class Table:
    """Base of results that show as a table of their `_columns` under a `_title`."""

    _columns: dict[str, Any]
    _title: str

    @property
    def table(self) -> Any:
        """The results: a data frame, or a structured array where pandas is not installed."""
        return as_frame(self._columns)

    def __repr__(self) -> str:
        return f"{self._title}\n{as_text(self._columns)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._title)}</p>{as_html(self._columns)}"


def axes_of(ax: Any) -> Any:
    """The axes to draw on, new ones unless they are given."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("displays need matplotlib: pip install matplotlib") from None
    return plt.subplots(layout="constrained")[1] if ax is None else ax

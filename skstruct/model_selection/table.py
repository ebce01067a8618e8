"""Results that show as tables."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np


class Table:
    """Base of results: `_columns`, as a data frame where pandas is installed."""

    _columns: dict[str, Any]
    _title: str

    @property
    def table(self) -> Any:
        """The results: a data frame, or a dict of lists where pandas is not installed."""
        columns = {name: np.asarray(values).tolist() for name, values in self._columns.items()}
        try:
            import pandas
        except ImportError:
            return columns
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        names = list(self._columns)
        rows = [
            names,
            *zip(*(map(_shown, column) for column in self._columns.values()), strict=True),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.rjust, row, widths)) for row in rows)
        return "\n".join([self._title, *lines])

    def _repr_html_(self) -> str:
        names, columns = list(self._columns), self._columns.values()
        rows = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"]
        for row in zip(*(map(_shown, column) for column in columns), strict=True):
            rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
        return f"<table><caption>{escape(self._title)}</caption>{''.join(rows)}</table>"


def _shown(value):
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)

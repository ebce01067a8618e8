"""Results that show as tables."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np


class Table:
    """Base of results: `_columns`, as a data frame where pandas is installed, and a `_title`."""

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
        return f"{self._title}\n{self._shown('to_string')}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._title)}</p>\n{self._shown('to_html')}"

    def _shown(self, form):
        table = self.table
        if not hasattr(table, form):
            return "\n".join(f"{name}: {values}" for name, values in table.items())
        return getattr(table, form)(index=False, float_format="{:.4g}".format, na_rep="")

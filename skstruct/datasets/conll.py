"""Column files: one token a line, white space between columns, a blank line after a sentence."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..data.ragged import RaggedArray
from ..typing import PathLike

_BLANKS = re.compile(r"[ \t]+")


def _split(line, separator):
    if separator is not None or line.isascii():
        return line.split(separator)
    # str.split would also break words at a no-break space.
    return _BLANKS.split(line.strip(" \t"))


def load_conll(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Bunch:
    """Read a file in the CoNLL column format (also the format of CRF++ and Wapiti).

    Parameters
    ----------
    path : str or Path
        The file; ``.gz`` is unpacked. A line that begins with ``-DOCSTART-`` ends a sentence.
    columns : sequence of str, default=None
        Names of the columns, for instance ``("word", "pos", "chunk")``. Default: ``"column_0"``
        and so on.
    separator : str, default=None
        What stands between columns; default blanks and tabs.
    encoding : str, default="utf-8"
        Of the file.

    Returns
    -------
    Bunch
        A :class:`RaggedArray` of strings for each column name, one sample a sentence.

    Raises
    ------
    ValueError
        If a line has another number of columns (names the line), or there is no sentence.
    """
    opener = gzip.open if Path(path).suffix == ".gz" else open
    fields_of_all, n_rows, ends = [], 0, [0]
    width = None if columns is None else len(columns)
    with opener(path, "rt", encoding=encoding) as lines:
        for number, line in enumerate(lines, start=1):
            line = line.rstrip("\r\n")
            if not line.strip(" \t") or line.startswith("-DOCSTART-"):
                if n_rows > ends[-1]:
                    ends.append(n_rows)
                continue
            fields = _split(line, separator)
            width = len(fields) if width is None else width
            if len(fields) != width:
                raise ValueError(
                    f"{path}, line {number}: {len(fields)} columns, but {width} were expected"
                )
            fields_of_all += fields
            n_rows += 1
    if n_rows > ends[-1]:
        ends.append(n_rows)
    if not n_rows:
        raise ValueError(f"{path} has no sentence")
    names = [f"column_{j}" for j in range(width)] if columns is None else columns
    return Bunch(
        **{
            name: RaggedArray(np.array(fields_of_all[j::width]), ends)
            for j, name in enumerate(names)
        }
    )

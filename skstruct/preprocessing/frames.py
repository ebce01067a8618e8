"""Data frames with a sequence-id column: consecutive rows of one id are one sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.ragged import RaggedArray
from ..shards.reading import Shards


def is_frame(X) -> bool:
    """Whether `X` is a pandas or polars data frame."""
    if isinstance(X, Shards):
        raise TypeError(
            "X is Shards, whose samples are vectorized: fit the last step of the pipeline on them, "
            "crf.fit(shards); pack_shards(X, y, folder, vectorizer=...) vectorizes while it writes"
        )
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def sequence_offsets(ids) -> np.ndarray:
    """Where sequences begin in a column of ids."""
    ids = np.asarray(ids)
    if ids.size == 0:
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    first, counts = np.unique(ids[starts], return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"the rows of sequence {first[counts > 1][0]!r} are not consecutive: sort by the id"
        )
    return np.concatenate([starts, [ids.size]]).astype(np.int64)


def frame_column(frame: Any, sequence_id: str, column: str) -> RaggedArray:
    """One column of a data frame as label sequences.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        One row a node.
    sequence_id : str
        Column of sequence ids.
    column : str
        The column wanted, for instance the labels.

    Returns
    -------
    RaggedArray
        Its values by sequence.

    Raises
    ------
    ValueError
        If a column is missing.

    See Also
    --------
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.RaggedArray : Samples of different lengths in one array.

    Examples
    --------
    >>> import pandas as pd
    >>> from skstruct.preprocessing.frames import frame_column
    >>> frame = pd.DataFrame({"sentence": [1, 1, 2], "tag": ["A", "B", "A"]})
    >>> [tags.tolist() for tags in frame_column(frame, "sentence", "tag")]
    [['A', 'B'], ['A']]
    """
    _require(frame, sequence_id, column)
    values = np.asarray(frame[column].to_numpy())
    if values.dtype == object and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    return RaggedArray(values, sequence_offsets(frame[sequence_id].to_numpy()))


def _require(frame, *names):
    missing = [name for name in names if name not in list(frame.columns)]
    if missing:
        raise ValueError(f"the data frame has no column {missing[0]!r}: {list(frame.columns)}")


def frame_columns(frame, sequence_id, columns=None) -> tuple[list, np.ndarray, list]:
    """Values of several columns, and the offsets of sequences."""
    if sequence_id is None:
        raise ValueError("X is a data frame: set sequence_id to its column of sequence ids")
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got {columns!r}: write [{columns!r}]")
    names = [c for c in frame.columns if c != sequence_id] if columns is None else list(columns)
    _require(frame, sequence_id, *names)
    values = [np.asarray(frame[name].to_numpy()) for name in names]
    return values, sequence_offsets(frame[sequence_id].to_numpy()), names

"""Columns of tokens, from lists of words or of tuples, ragged arrays, or data frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..data.matrices import refuse_masked
from ..data.packing import sample_of
from ..data.ragged import RaggedArray
from ..shards.reading import Shards
from .ragged_transformer import check_sequence, sequences_of

# Data frames with a sequence-id column: consecutive rows of one id are one sequence.


def is_frame(X) -> bool:
    """Return whether `X` is a pandas or polars data frame."""
    if isinstance(X, Shards):
        raise TypeError(
            "X is Shards, whose samples are vectorized: fit the last step of the pipeline on them, "
            "crf.fit(shards); pack_shards(X, y, folder, vectorizer=...) vectorizes while it writes"
        )
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def sequence_offsets(ids) -> np.ndarray:
    """Return the offsets of the sequences in a column of ids, the end included."""
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

    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        One row per node.
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
    >>> from skstruct.preprocessing.columns import frame_column
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


_MISSING = {"nan", "None", "<NA>", "NaT"}
_ONE = "X is a list of sequences: for one sequence pass [x]"


class TokenColumns(NamedTuple):
    """The columns of all tokens."""

    # By column each of its strings once, and which of them each token has.
    values: list
    # (n_sequences + 1,): Where sequences begin.
    offsets: np.ndarray
    # Whether tokens were strings, which are one column, rather than tuples.
    are_words: bool

    def none(self, n_sequences: int = 0) -> TokenColumns:
        """The same columns without a token, in so many sequences."""
        offsets = np.zeros(n_sequences + 1, dtype=np.int64)
        return self._replace(values=[_coded([]) for _ in self.values], offsets=offsets)


def read_columns(X, sequence_id, names, fitted: TokenColumns | None = None) -> TokenColumns:
    """Columns of tokens of every form."""
    are_words = False
    if is_frame(X):
        values, offsets, _ = frame_columns(X, sequence_id, names)
        values = [column.tolist() for column in values]
    elif isinstance(X, RaggedArray):
        table = np.asarray(X.flat)
        if table.ndim not in (1, 2):
            raise ValueError("X.flat must hold strings: tokens, or tokens x columns")
        values = table.reshape(len(table), -1).T.tolist() if len(table) else []
        offsets = X.offsets
    else:
        rows, offsets = _rows(sequences_of(X, fitted is None))
        are_words = bool(rows) and all(issubclass(kind, str) for kind in set(map(type, rows)))
        # Tuples of strings are tokens if fit saw such tokens: X is then one sequence.
        unlike = are_words and fitted is not None and not fitted.are_words
        if unlike and any(isinstance(sample, tuple) for sample in X):
            raise ValueError(
                "X holds tuples of strings, which were the tokens in fit, in place of sequences of "
                f"them; {_ONE}"
            )
        values = [rows] if are_words else _transposed(rows, offsets, fitted)
    if not len(offsets) > 1 or not offsets[-1]:
        if fitted is None:
            raise ValueError("X has no tokens")
        return fitted.none(len(offsets) - 1)
    if fitted is not None and len(values) != len(fitted.values):
        hint = f"; {_ONE}" if are_words else ""
        raise ValueError(f"X has {len(values)} columns, but fit saw {len(fitted.values)}{hint}")
    values = [_texts(column, j, offsets) for j, column in enumerate(values)]
    return TokenColumns(values, offsets, are_words)


def _rows(samples):
    rows, ends = [], [0]
    for i, sample in enumerate(samples):
        if type(sample) is not list:
            check_sequence(sample, i)
            refuse_masked(sample, f"X: sequence {i}")
        rows.extend(sample)
        ends.append(len(rows))
    return rows, np.array(ends)


def _transposed(rows, ends, fitted):
    if not all(map(_holds_columns, set(map(type, rows)))) or len(set(map(len, rows))) > 1:
        _refuse_tokens(rows, ends, fitted)
    return [[*map(itemgetter(j), rows)] for j in range(len(rows[0]))] if rows else []


def _holds_columns(kind):
    return hasattr(kind, "__len__") and not issubclass(kind, (str, bytes, Mapping, Set))


def _is_tuple(token):
    return _holds_columns(type(token))


def _refuse_tokens(rows, ends, fitted):
    """Tell of the first token that is neither a str nor a tuple, or another one than the rest."""
    width = next((len(row) for row in rows if _is_tuple(row)), None)
    if width is None:
        wanted = "a str, or a tuple of columns, was expected"
        wrong = (q for q, row in enumerate(rows) if not isinstance(row, str))
    else:
        width = width if fitted is None else len(fitted.values)
        wanted = f"a tuple of {width} columns was expected"
        wrong = (q for q, row in enumerate(rows) if not _is_tuple(row) or len(row) != width)
    q = next(wrong)
    i = sample_of(q, ends)
    got = f"has {len(rows[q])} columns" if _is_tuple(rows[q]) else f"is {rows[q]!r}"
    raise ValueError(f"X: sequence {i}, token {q - ends[i]} {got}; {wanted}")


def _coded(column):
    """Each value of a column once, and which of them each token has: by look-ups in C."""
    seen = defaultdict()
    seen.default_factory = seen.__len__
    places = np.fromiter(map(seen.__getitem__, column), np.int64, len(column))
    return [*seen], places


def _texts(column, j, offsets):
    """A column as strings, coded."""
    with suppress(TypeError):  # what has no hash is no string
        coded = _coded(column)
        if {*map(type, coded[0])} == {str}:
            return coded
    for row, value in enumerate(column):
        if isinstance(value, str):
            continue
        missing = str(value) in _MISSING
        if missing or hasattr(value, "__len__"):
            i = sample_of(row, offsets)
            what = "is missing" if missing else f"is of type {type(value).__name__}, not str"
            raise ValueError(f"X: sequence {i}, token {row - offsets[i]}: column {j} {what}")
    # Members of an Enum have another str().
    return _coded([str.__str__(v) if isinstance(v, str) else str(v) for v in column])

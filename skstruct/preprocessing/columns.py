"""Columns of tokens, from lists of words or of tuples, ragged arrays, or data frames."""

from __future__ import annotations

import reprlib
from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..data.matrices import refuse_masked
from ..data.packing import sample_of
from ..data.ragged import RaggedArray
from ..data.values import is_missing, read_keys
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
    if not hasattr(X, "columns") or not hasattr(X, "__getitem__"):
        return False
    if not hasattr(X, "to_numpy") or not hasattr(X, "__len__"):  # such as LazyFrame, pyarrow.Table
        raise TypeError(
            f"X is a {type(X).__name__}; a data frame of pandas or polars was expected: try "
            "X.collect() or X.to_pandas()"
        )
    return True


def _is_table(sample):
    """Return whether a sample is a data frame, or an array whose columns have names."""
    if type(sample) is list:
        return False
    return getattr(getattr(sample, "dtype", None), "names", None) is not None or is_frame(sample)


def _names_in(table):
    return list(table.columns) if hasattr(table, "columns") else list(table.dtype.names)


def _offsets(frame, sequence_id):
    """Return the offsets of the sequences that a column of keys names, the end included."""
    column = f"the column {sequence_id!r} of the data frame"
    how = f"df[{sequence_id!r}] = df[{sequence_id!r}].ffill()"
    if not hasattr(frame, "iloc"):
        how = f"df = df.with_columns(pl.col({sequence_id!r}).forward_fill())"
    fill = (
        "each row needs the key of its sequence; where it is in the first row of a sequence only, "
        f"fill the others: {how} (make empty strings missing values first)"
    )
    ids = read_keys(frame[sequence_id].to_numpy(), column, "row", fill)
    if ids.size == 0:
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    seen = set()
    for row in starts.tolist():
        if ids[row] in seen:
            raise ValueError(
                f"the rows of sequence {ids[row]!r} are not consecutive: it comes again in row "
                f"{row}; sort by the id"
            )
        seen.add(ids[row])
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
        If a column is missing, a key of a sequence is missing (names the row) or of another type
        than the first, or the rows of a sequence are not consecutive.

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
    return RaggedArray(values, _offsets(frame, sequence_id))


def _require(frame, *names, where="the data frame"):
    own = _names_in(frame)
    for name in names:
        if own.count(name) != 1:
            many = "no column" if name not in own else f"{own.count(name)} columns"
            raise ValueError(f"{where} has {many} {name!r}: {own}")


def _chosen(table, sequence_id, columns):
    """Names of the columns of a table that have tokens."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got {columns!r}: write [{columns!r}]")
    names = _names_in(table) if columns is None else list(columns)
    names = [name for name in names if columns is not None or name != sequence_id]
    if not names:
        raise ValueError(f"no column of the data frame has tokens: it has {_names_in(table)}")
    return names


def values_of(column) -> list:
    """The values of a column as Python's own."""
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


def frame_columns(frame, sequence_id, columns=None) -> tuple[list, np.ndarray, list]:
    """Several columns, and the offsets of sequences."""
    if sequence_id is None:
        raise ValueError(
            "X is a data frame: set sequence_id to its column of sequence ids (or pass a list with "
            "one frame per sequence)"
        )
    names = _chosen(frame, sequence_id, columns)
    _require(frame, sequence_id, *names)
    return [frame[name] for name in names], _offsets(frame, sequence_id), names


def table_names(samples: list, sequence_id, columns) -> list | None:
    """Names of the columns of tokens if samples are tables, one per sequence; None if not."""
    tables = [*map(_is_table, samples)]
    if not any(tables):
        return None
    i = tables.index(True)
    if not all(tables):
        j = tables.index(False)
        raise TypeError(
            f"X: sequence {i} is a {type(samples[i]).__name__}, sequence {j} a "
            f"{type(samples[j]).__name__}: data frames and other sequences do not go together"
        )
    names = _chosen(samples[0], sequence_id, columns)
    for i, table in enumerate(samples):
        _require(table, *names, where=f"X: sequence {i}")
        others = set(_names_in(table)) - {*names, sequence_id}
        if columns is None and others:
            raise ValueError(
                f"X: sequence {i} has the columns {_names_in(table)!r}, but sequence 0 "
                f"{_names_in(samples[0])!r}"
            )
    return names


def token_lists(samples: list, names: list, as_dicts: bool = False) -> list:
    """The rows of tables, one per sequence, as tuples or as dicts."""
    keys, sequences = [*map(str, names)], []
    for table in samples:
        rows = [*zip(*(values_of(table[name]) for name in names), strict=True)]
        sequences.append([dict(zip(keys, row, strict=True)) for row in rows] if as_dicts else rows)
    return sequences


_ONE = "X is a list of sequences: for one sequence pass [x]"


class TokenColumns(NamedTuple):
    """The columns of all tokens."""

    # By column each of its strings once, and which of them each token has.
    values: list
    # (n_sequences + 1,): Where sequences begin.
    offsets: np.ndarray
    # Whether tokens were strings, which are one column, rather than tuples.
    are_words: bool
    # Names of the columns if tokens were rows of data frames: other frames have them in any order.
    names: list | None = None
    # How a transformer has made columns of its own, which follow the others.
    settings: Any = None

    def none(self, n_sequences: int = 0) -> TokenColumns:
        """The same columns without a token, in so many sequences."""
        offsets = np.zeros(n_sequences + 1, dtype=np.int64)
        return self._replace(values=[coded([]) for _ in self.values], offsets=offsets)


def read_columns(X, sequence_id, names, fitted: TokenColumns | None = None) -> TokenColumns:
    """Columns of tokens of every form."""
    are_words = False
    if fitted is not None and fitted.names is not None:
        names = fitted.names
    if is_frame(X):
        values, offsets, names = frame_columns(X, sequence_id, names)
        values = [*map(values_of, values)]
    elif isinstance(X, RaggedArray):
        table = np.asarray(X.flat)
        if table.ndim not in (1, 2):
            raise ValueError("X.flat must hold strings: tokens, or tokens x columns")
        values = table.reshape(len(table), -1).T.tolist() if len(table) else []
        offsets, names = X.offsets, None
    else:
        samples = sequences_of(X, fitted is None)
        names = table_names(samples, sequence_id, names)
        rows, offsets = _rows(samples if names is None else token_lists(samples, names))
        are_words = bool(rows) and all(issubclass(kind, str) for kind in set(map(type, rows)))
        # Tuples of strings are tokens if fit saw such tokens: X is then one sequence.
        unlike = are_words and fitted is not None and not fitted.are_words
        if unlike and any(isinstance(sample, tuple) for sample in samples):
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
        raise ValueError(
            f"X has {len(values)} columns per token, but fit saw {len(fitted.values)}{hint}"
        )
    values = [_texts(column, j, offsets) for j, column in enumerate(values)]
    return TokenColumns(values, offsets, are_words, names)


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
    if issubclass(kind, (str, bytes, Mapping, Set)):
        return False
    # Rows of data frames, and frames in the place of tokens, are indexed by names.
    return hasattr(kind, "__len__") and not hasattr(kind, "to_numpy")


def _is_tuple(token):
    return _holds_columns(type(token))


def _refuse_tokens(rows, ends, fitted):
    """Tell of the first token that is neither a str nor a tuple, or another one than the rest."""
    width = next((len(row) for row in rows if _is_tuple(row)), None)
    if width is None or (fitted is not None and fitted.are_words):
        wanted = "a str, or a tuple of columns, was expected"
        wrong = (q for q, row in enumerate(rows) if not isinstance(row, str))
    else:
        width = width if fitted is None else len(fitted.values)
        wanted = f"a tuple of {width} columns was expected"
        wrong = (q for q, row in enumerate(rows) if not _is_tuple(row) or len(row) != width)
    q = next(wrong)
    i = sample_of(q, ends)
    got = f"has {len(rows[q])} columns" if _is_tuple(rows[q]) else f"is {reprlib.repr(rows[q])}"
    if isinstance(rows[q], (Mapping, list)):
        wanted += " (SequenceVectorizer takes dicts of features and lists of attributes)"
    if hasattr(rows[q], "to_numpy"):
        got = f"is a {type(rows[q]).__name__}"
    raise ValueError(f"X: sequence {i}, token {q - ends[i]} {got}; {wanted}")


def coded(column):
    """Each value of a column once, and which of them each token has: by look-ups in C."""
    seen = defaultdict()
    seen.default_factory = seen.__len__
    places = np.fromiter(map(seen.__getitem__, column), np.int64, len(column))
    return [*seen], places


def _texts(column, j, offsets):
    """A column as strings, coded."""
    with suppress(TypeError):  # what has no hash is no string
        found = coded(column)
        if {*map(type, found[0])} == {str}:
            return found
    for row, value in enumerate(column):
        if isinstance(value, str):
            continue
        missing = is_missing(value)
        if missing or hasattr(value, "__len__"):
            i = sample_of(row, offsets)
            what = "is missing" if missing else f"is of type {type(value).__name__}, not str"
            hint = (
                "; pandas reads words such as NA and null as missing values: "
                "read_csv(..., keep_default_na=False) keeps them; for others, fill the column"
            )
            raise ValueError(
                f"X: sequence {i}, token {row - offsets[i]}: column {j} {what}{hint * missing}"
            )
    # Members of an Enum have another str().
    return coded([str.__str__(v) if isinstance(v, str) else str(v) for v in column])

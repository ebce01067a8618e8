"""RaggedArray: samples of different sizes in one packed array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..core.offsets import ends_of
from .matrices import (
    as_configured,
    check_sparse,
    csr_from_parts,
    for_users,
    is_sound_csr,
    refuse_masked,
    stack_csr,
)
from .names import FeatureNames, as_names
from .values import as_labels, family, join_values


def object_array(items: Sequence) -> np.ndarray:
    """A 1-D object array of `items`, also when they have equal shapes."""
    return np.fromiter(items, dtype=object, count=len(items))


def _locked(array):
    view = array.view()
    view.flags.writeable = False
    return view


def _checked_offsets(offsets, n_rows):
    """Return a read-only copy of `offsets`."""
    offsets = np.asarray(offsets)
    is_list = offsets.ndim == 1 and offsets.size > 0 and offsets.dtype.kind in "iu"
    if not is_list or offsets[0] != 0:
        raise ValueError("offsets must be a 1-D array of integers that begins with 0")
    decreasing = np.flatnonzero(offsets[1:] < offsets[:-1])
    if decreasing.size:
        raise ValueError(f"offsets decrease after sample {decreasing[0]}")
    if offsets[-1] != n_rows:
        raise ValueError(f"offsets end at {offsets[-1]}, but flat has {n_rows} rows")
    return _frozen(offsets)


def _frozen(offsets):
    """A copy over bytes, so that its lock cannot be taken off."""
    return np.frombuffer(offsets.astype(np.int64).tobytes(), dtype=np.int64)


def rows_of(ragged: RaggedArray):
    """The rows as the user gave them, not locked: reading them copies nothing."""
    n_rows = ragged._given.shape[0]
    if ragged.offsets[-1] != n_rows:
        raise ValueError(f"offsets end at {ragged.offsets[-1]}, but flat has {n_rows} rows")
    return ragged._given


def _dense_rows(sample, name):
    """Rows as an array, their values unchanged."""
    if np.ma.is_masked(sample) or (
        isinstance(sample, (list, tuple)) and any(map(np.ma.is_masked, sample))
    ):
        refuse_masked(np.ma.masked_all(1), name)
    if isinstance(sample, (str, bytes, Mapping, Set)):
        raise TypeError(f"{name} must be an array of rows, got a {type(sample).__name__}")
    try:
        array = np.asarray(sample)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None
    if array.ndim == 0:
        raise ValueError(f"{name} must be an array of rows, got a {type(sample).__name__}")
    is_object = array.ndim == 1 and array.size and array.dtype == object
    if array.ndim > 1 or (is_object and not any(map(family, map(type, array.tolist())))):
        return array
    return as_labels(sample, name, "row {}".format, any_values=True)


class RaggedArray:
    """Samples of different sizes in one array of rows, with the offset of each sample.

    Every estimator accepts it in place of a list, for X (rows are nodes) and for y (a 1-D array of
    labels). scikit-learn's splitters keep it packed, so a grid search ships one buffer to its
    workers rather than thousands of small arrays. Read more in the :ref:`User Guide
    <data_formats>`.

    Parameters
    ----------
    flat : ndarray or sparse matrix of shape (n_rows, ...)
        The rows of all samples, one sample after another. Shared, not copied, and read-only through
        ``flat``.
    offsets : array-like of shape (n_samples + 1,) of int
        Sample i is ``flat[offsets[i]:offsets[i + 1]]``; copied.
    feature_names : array-like of str of shape (n_columns,), default=None
        Names of the columns, ``feature_names_in_`` of models. The vectorizers of
        :mod:`skstruct.preprocessing` set them by reference.

    Raises
    ------
    ValueError
        If the offsets do not begin at 0, decrease, or do not end at the number of rows; if rows are
        masked, a sparse matrix is damaged, or there are more or fewer names than columns.

    See Also
    --------
    skstruct.datasets.Shards : Samples in a folder of shards.
    skstruct.datasets.load_conll : Reads a file of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.data.ragged import RaggedArray
    >>> y = RaggedArray.from_list([np.array([1, 2, 3]), np.array([4])])
    >>> len(y), y.lengths
    (2, array([3, 1]))
    >>> y[np.array([1, 0])][1]
    array([1, 2, 3])
    """

    def __init__(
        self, flat: ArrayLike, offsets: ArrayLike, feature_names: ArrayLike | None = None
    ) -> None:
        if sparse.issparse(flat):
            check_sparse(flat, "flat")
            flat = flat if flat.format == "csr" else flat.tocsr()
            # All three arrays are the user's: what SciPy tidies up in place, it does to all.
            flat = csr_from_parts(flat.shape, flat.data, flat.indices, flat.indptr, type(flat))
        else:
            refuse_masked(flat, "flat")
            lists = isinstance(flat, (list, tuple))
            flat = _dense_rows(flat, "flat") if lists else np.asarray(flat)
            if flat.ndim == 0:
                raise ValueError("flat must be an array of rows, got a scalar")
        self._given = flat
        self._offsets = _checked_offsets(offsets, flat.shape[0])
        width = flat.shape[1] if flat.ndim == 2 else 1
        self._names = as_names(feature_names, width, "feature_names")

    @classmethod
    def _of_parts(cls, flat, offsets, names):
        """Pack rows and offsets that a transformer has made itself: only names are checked."""
        ragged = cls.__new__(cls)
        ragged._given, ragged._offsets = as_configured(flat), _frozen(offsets)
        ragged._names = as_names(names, flat.shape[1], "feature_names")
        return ragged

    @cached_property
    def _flat(self):
        """A view of the rows that cannot be written to."""
        flat = self._given
        if not sparse.issparse(flat):
            return _locked(flat)
        parts = map(_locked, (flat.data, flat.indices, flat.indptr))
        return csr_from_parts(flat.shape, *parts, type(flat))

    @property
    def feature_names(self) -> FeatureNames | None:
        """Names of the columns, if there are any: ``np.asarray`` makes an array of them."""
        return self._names

    @property
    def flat(self) -> Any:
        """The rows of all samples: a read-only view of the user's array."""
        flat = self._flat
        if sparse.issparse(flat) and flat.indptr[-1] < flat.data.size:
            # The user's matrix has been tidied up, and has spare room now.
            parts = (part[: flat.indptr[-1]] for part in (flat.data, flat.indices))
            return csr_from_parts(flat.shape, *parts, flat.indptr, type(flat))
        return flat

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the samples, the end included: a read-only array of int64."""
        return self._offsets

    def __reduce__(self):
        # A copy or a pickle is checked like a new one.
        return type(self), (self._given, self._offsets, self._names)

    @classmethod
    def from_list(cls, samples: Sequence) -> RaggedArray:
        """Pack a list of samples.

        Parameters
        ----------
        samples : sequence of array-like or sparse matrix
            All 1-D, or all 2-D with the same number of columns.

        Returns
        -------
        RaggedArray
            The packed samples.

        Raises
        ------
        ValueError, TypeError
            If there are no samples, their shapes do not fit together, entries are masked or
            missing, or values are of types that an array cannot hold side by side unchanged; names
            the sample.
        """
        samples = list(samples)
        if not samples:
            raise ValueError("cannot pack an empty list of samples")
        arrays = [
            sample if sparse.issparse(sample) else _dense_rows(sample, f"sample {i}")
            for i, sample in enumerate(samples)
        ]
        for i, array in enumerate(arrays):
            if array.ndim != arrays[0].ndim or array.shape[1:] != arrays[0].shape[1:]:
                raise ValueError(
                    f"sample {i} has shape {tuple(array.shape)}, sample 0 "
                    f"{tuple(arrays[0].shape)}: samples are all 1-D, or all 2-D with the same "
                    "number of columns"
                )
        if any(map(sparse.issparse, samples)):
            is_array = any(isinstance(sample, sparse.sparray) for sample in samples)
            flat = for_users(stack_csr(arrays, "samples"), is_array)
        else:
            flat = join_values(arrays, "samples")
        return cls(flat, ends_of([array.shape[0] for array in arrays]))

    @classmethod
    def stack_columns(cls, columns: Sequence[RaggedArray]) -> RaggedArray:
        """Put ragged 1-D arrays side by side, for instance the words and tags of tokens.

        Parameters
        ----------
        columns : sequence of RaggedArray
            RaggedArrays of 1-D values, with equal lengths.

        Returns
        -------
        RaggedArray
            Samples of shape (n_rows, len(columns)).

        Raises
        ------
        ValueError
            If there are no columns, or their lengths differ.
        """
        columns = list(columns)
        if not columns:
            raise ValueError("there are no columns")
        for q, column in enumerate(columns):
            if not np.array_equal(column.offsets, columns[0].offsets):
                raise ValueError(f"column {q} has other lengths than column 0")
        return cls(np.stack([column.flat for column in columns], axis=1), columns[0].offsets)

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each sample."""
        return np.diff(self.offsets)

    @property
    def shape(self) -> tuple[int]:
        """``(n_samples,)``, so that scikit-learn slices samples, not rows."""
        return (self.offsets.size - 1,)

    @property
    def ndim(self) -> int:
        """1: an array of samples."""
        return 1

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # scikit-learn asks for X[indices, ...]
            rest = [part for part in key[1:] if part is not Ellipsis]
            if rest:
                raise IndexError("RaggedArray has one axis; index the samples one by one")
            key = key[0]
        if isinstance(key, (int, np.integer)):
            i = int(key)
            if not -len(self) <= i < len(self):
                raise IndexError(f"sample {i} of {len(self)}")
            i %= len(self)
            return self._rows(self.offsets[i], self.offsets[i + 1])
        return self._take(np.arange(len(self))[key])

    def _rows(self, start, stop):
        flat = self._flat
        if not sparse.issparse(flat):
            return flat[start:stop]
        # SciPy's own slices check nothing, and the user may have changed the matrix.
        first, last = flat.indptr[start], flat.indptr[stop]
        shape = (int(stop - start), flat.shape[1])
        parts = (flat.data[first:last], flat.indices[first:last])
        rows = flat.indptr[start : stop + 1] - first
        if not 0 <= first <= last <= flat.data.size or not is_sound_csr(shape, *parts, rows):
            raise ValueError(
                "flat is a damaged CSR matrix: it has been changed since it was packed"
            )
        return type(flat)((*parts, rows), shape, copy=True)

    def _take(self, chosen):
        lengths = self.lengths[chosen]
        offsets = ends_of(lengths)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        rows = np.repeat(self.offsets[:-1][chosen], lengths) + within
        if sparse.issparse(self.flat):
            check_sparse(self.flat, "flat")
        return RaggedArray(self.flat[rows], offsets, self._names)

    def __sizeof__(self):
        # Dask sends what is small with each task, and what is large once.
        flat = self._given
        parts = (flat.data, flat.indices, flat.indptr) if sparse.issparse(flat) else (flat,)
        return object.__sizeof__(self) + sum(part.nbytes for part in (*parts, self._offsets))

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise ValueError(
                "a RaggedArray converts to an array of objects only; for a transformer of tables "
                "wrap it in PerNode(...)"
            )
        return object_array(list(self))

    def __repr__(self) -> str:
        return f"RaggedArray({len(self)} samples, {self.flat.shape[0]} rows)"

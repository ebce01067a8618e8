"""RaggedArray: samples of different sizes in one packed array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse


def object_array(items: Sequence) -> np.ndarray:
    """A 1-D object array of `items`, also when they have equal shapes.

    Parameters
    ----------
    items : sequence
        Any objects.

    Returns
    -------
    ndarray of shape (len(items),) of object
        The array.

    Examples
    --------
    >>> from skstruct.ragged import object_array
    >>> object_array([[1, 2], [3, 4]]).shape
    (2,)
    """
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


class RaggedArray:
    """Samples of different sizes, packed: all rows in one array, and where each sample begins.

    Every estimator accepts it in place of a list, for X (rows are nodes) and for y (a 1-D array of
    labels). scikit-learn's splitters keep it packed, so a grid search ships one buffer to its
    workers rather than thousands of small arrays.

    Parameters
    ----------
    flat : ndarray or CSR matrix of shape (n_rows, ...)
        The rows of all samples, one sample after another.
    offsets : array-like of shape (n_samples + 1,) of int
        Sample i is ``flat[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    ValueError
        If the offsets do not begin at 0, decrease, or do not end at the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.ragged import RaggedArray
    >>> y = RaggedArray.from_list([np.array([1, 2, 3]), np.array([4])])
    >>> len(y), y.lengths
    (2, array([3, 1]))
    >>> y[np.array([1, 0])][1]
    array([1, 2, 3])
    """

    def __init__(self, flat, offsets):
        offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        n_rows = flat.shape[0]
        if offsets.ndim != 1 or offsets.size == 0 or offsets[0] != 0:
            raise ValueError("offsets must be a 1-D array that begins with 0")
        if (np.diff(offsets) < 0).any():
            i = int(np.flatnonzero(np.diff(offsets) < 0)[0])
            raise ValueError(f"offsets decrease after sample {i}")
        if offsets[-1] != n_rows:
            raise ValueError(f"offsets end at {offsets[-1]}, but flat has {n_rows} rows")
        self.flat = flat
        self.offsets = offsets

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
        """
        samples = list(samples)
        if not samples:
            raise ValueError("cannot pack an empty list of samples")
        if any(sparse.issparse(sample) for sample in samples):
            flat = sparse.csr_matrix(sparse.vstack(samples, format="csr"))
            lengths = [sample.shape[0] for sample in samples]
        else:
            samples = [np.asarray(sample) for sample in samples]
            flat = np.concatenate(samples)
            lengths = [len(sample) for sample in samples]
        return cls(flat, np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def stack_columns(cls, columns: Sequence[RaggedArray]) -> RaggedArray:
        """Put ragged 1-D arrays side by side, for instance the words and tags of tokens.

        Parameters
        ----------
        columns : sequence of RaggedArray
            Of 1-D values, with the same lengths.

        Returns
        -------
        RaggedArray
            Samples of shape (n_rows, len(columns)).

        Raises
        ------
        ValueError
            If there are no columns, or their lengths differ.

        Examples
        --------
        >>> from skstruct.datasets import make_annotated_sentences
        >>> from skstruct.ragged import RaggedArray
        >>> data = make_annotated_sentences(2, 1).train
        >>> RaggedArray.stack_columns([data.word, data.pos])[0].shape[1]
        2
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

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key):
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
            return self.flat[self.offsets[i] : self.offsets[i + 1]]
        return self._take(np.arange(len(self))[key])

    def _take(self, chosen):
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        rows = np.repeat(self.offsets[:-1][chosen], lengths) + within
        return RaggedArray(self.flat[rows], offsets)

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise ValueError("a RaggedArray converts to an array of objects only")
        return object_array(list(self))

    def __repr__(self) -> str:
        return f"RaggedArray({len(self)} samples, {self.flat.shape[0]} rows)"

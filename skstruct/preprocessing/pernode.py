"""PerNode: any transformer of tables, applied to the nodes of sequences."""

from __future__ import annotations

import itertools
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.offsets import ends_of
from ..data.matrices import check_sparse
from ..data.ragged import RaggedArray
from ..typing import SamplesLike
from .frames import frame_columns, is_frame
from .ragged_transformer import RaggedTransformer, check_sequence, samples_of


def _has(name):
    def check(self):
        return hasattr(getattr(self, "transformer_", self.transformer), name)

    return check


class PerNode(RaggedTransformer, BaseEstimator):
    """Apply a 2-D scikit-learn transformer to the nodes of sequences.

    The nodes of all sequences are concatenated, given to the transformer, and split again. It works
    for StandardScaler, PCA, DictVectorizer (sequences of dicts) and any other transformer whose
    output has a row for each input row. It runs with scikit-learn's default output, whatever the
    global ``transform_output`` says; data frames between its own steps need its own ``set_output``.

    Parameters
    ----------
    transformer : transformer
        Fitted on a clone. Its parameters are tunable as ``transformer__...``.
    sequence_id : str, default=None
        If X is a pandas or polars data frame: its column of sequence ids. The transformer gets the
        other columns as an array.
    columns : list of str, default=None
        If X is a data frame: its columns to use, default all but `sequence_id`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skstruct.preprocessing import PerNode
    >>> X = [np.array([[1.0], [2.0]]), np.array([[3.0]])]
    >>> PerNode(StandardScaler()).fit_transform(X)[1]
    array([[1.22474487]])
    """

    def __init__(
        self, transformer: Any, sequence_id: str | None = None, columns: Any = None
    ) -> None:
        self.transformer = transformer
        self.sequence_id = sequence_id
        self.columns = columns

    def _nodes(self, X, fitting):
        """All nodes in one piece, and the offsets of sequences."""
        if isinstance(X, RaggedArray):
            if sparse.issparse(X.flat):
                check_sparse(X.flat, "X.flat")
            return X.flat, X.offsets
        if is_frame(X):
            values, offsets, _ = frame_columns(X, self.sequence_id, self.columns)
            return np.column_stack(values), offsets
        samples = samples_of(X, fitting)
        for i, sample in enumerate(samples):
            check_sequence(sample, i)
        lengths = [s.shape[0] if sparse.issparse(s) else len(s) for s in samples]
        offsets = ends_of(lengths)
        if not offsets[-1]:
            return np.empty((0, 0)), offsets
        first = next((s for s in samples if not sparse.issparse(s) and len(s)), None)
        if any(sparse.issparse(s) for s in samples):
            return sparse.vstack(samples, format="csr"), offsets
        if first is not None and not isinstance(first, np.ndarray) and _is_record(first[0]):
            return list(itertools.chain.from_iterable(samples)), offsets
        try:
            return np.concatenate([np.asarray(s) for s in samples if len(s)]), offsets
        except ValueError as error:
            raise ValueError(f"X: samples do not fit together: {error}") from None

    def _wrap(self, rows, offsets):
        if hasattr(rows, "to_numpy"):
            rows = rows.to_numpy()
        rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else np.asarray(rows)
        if rows.shape[0] != offsets[-1]:
            raise ValueError(
                f"the transformer returned {rows.shape[0]} rows for {offsets[-1]} nodes"
            )
        return RaggedArray(rows, offsets)

    def fit(self, X: SamplesLike, y: Any = None) -> Self:
        """Fit the transformer on all nodes.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences.
        y : list of label sequences, default=None
            Concatenated and passed on.

        Returns
        -------
        PerNode
            The transformer itself.
        """
        nodes, _ = self._training_nodes(X)
        with config_context(transform_output="default"):
            transformer = clone(self.transformer).fit(nodes, *_flat_labels(y))
        self.transformer_, self._first = transformer, copy(nodes[:1])
        return self

    def _training_nodes(self, X):
        nodes, offsets = self._nodes(X, True)
        if not offsets[-1]:
            raise ValueError("X has no nodes: every sequence is empty")
        return nodes, offsets

    def fit_transform(self, X: SamplesLike, y: Any = None) -> RaggedArray:
        """Fit and transform in one go.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences.
        y : list of label sequences, default=None
            Concatenated and passed on.

        Returns
        -------
        RaggedArray
            The transformed sequences.
        """
        nodes, offsets = self._training_nodes(X)
        transformer = clone(self.transformer)
        with config_context(transform_output="default"):
            rows = transformer.fit_transform(nodes, *_flat_labels(y))
        self.transformer_, self._first = transformer, copy(nodes[:1])
        return self._wrap(rows, offsets)

    def transform(self, X: SamplesLike) -> RaggedArray:
        """Transform the nodes of sequences; those without nodes, and X without sequences, stay so.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences.

        Returns
        -------
        RaggedArray
            The transformed sequences.
        """
        check_is_fitted(self)
        nodes, offsets = self._nodes(X, False)
        with config_context(transform_output="default"):
            if not offsets[-1]:
                # Transformers refuse tables without rows: the first training row tells the width.
                none = self._wrap(self.transformer_.transform(self._first), np.array([0, 1]))
                return RaggedArray(none.flat[:0], offsets)
            return self._wrap(self.transformer_.transform(nodes), offsets)

    @available_if(_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the transformer's output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Passed on.

        Returns
        -------
        ndarray of str
            The names.
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)


def _is_record(token):
    return isinstance(token, (dict, str))


def _flat_labels(y):
    if y is None:
        return ()
    return (
        (y.flat,) if isinstance(y, RaggedArray) else (np.concatenate([np.asarray(v) for v in y]),)
    )

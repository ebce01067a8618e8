"""PerNode: any transformer of tables, applied to the nodes of sequences."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..packing import as_list
from ..ragged import RaggedArray
from .frames import frame_columns, is_frame


def _has(name):
    def check(self):
        return hasattr(getattr(self, "transformer_", self.transformer), name)

    return check


class PerNode(TransformerMixin, BaseEstimator):
    """Apply a 2-D scikit-learn transformer to the nodes of sequences.

    The nodes of all sequences are concatenated, given to the transformer, and split again. It works
    for StandardScaler, PCA, DictVectorizer (sequences of dicts) and any other transformer whose
    output has a row for each input row.

    Parameters
    ----------
    transformer : transformer
        Fitted on a clone. Its parameters are tunable as ``transformer__...``.
    sequence_id : str, default=None
        If X is a pandas or polars data frame: its column of sequence ids. The transformer gets the
        other columns as an array.

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

    def __init__(self, transformer, sequence_id=None):
        self.transformer = transformer
        self.sequence_id = sequence_id

    def _nodes(self, X):
        """All nodes in one piece, and the offsets of sequences."""
        if isinstance(X, RaggedArray):
            return X.flat, X.offsets
        if is_frame(X):
            values, offsets, _ = frame_columns(X, self.sequence_id)
            return np.column_stack(values), offsets
        samples = as_list(X, "X")
        lengths = [s.shape[0] if sparse.issparse(s) else len(s) for s in samples]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
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

    def fit(self, X, y=None):
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
        nodes, _ = self._nodes(X)
        self.transformer_ = clone(self.transformer).fit(nodes, *_flat_labels(y))
        return self

    def fit_transform(self, X, y=None):
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
        nodes, offsets = self._nodes(X)
        self.transformer_ = clone(self.transformer)
        return self._wrap(self.transformer_.fit_transform(nodes, *_flat_labels(y)), offsets)

    def transform(self, X):
        """Transform the nodes of sequences.

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
        nodes, offsets = self._nodes(X)
        return self._wrap(self.transformer_.transform(nodes), offsets)

    @available_if(_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
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

    def set_output(self, *, transform=None):
        """Accepted for pipelines; the output is always a RaggedArray.

        Parameters
        ----------
        transform : str, default=None
            Ignored.

        Returns
        -------
        PerNode
            The transformer itself.
        """
        return self


def _is_record(token):
    return isinstance(token, (dict, str))


def _flat_labels(y):
    if y is None:
        return ()
    return (
        (y.flat,) if isinstance(y, RaggedArray) else (np.concatenate([np.asarray(v) for v in y]),)
    )

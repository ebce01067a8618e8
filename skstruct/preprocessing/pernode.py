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
from ..core.typing import SamplesLike
from ..data.matrices import check_sparse, refuse_masked
from ..data.names import ListedNames, names_of, names_of_output, with_names
from ..data.packing import refuse_types
from ..data.ragged import RaggedArray, object_array
from .columns import frame_columns, is_frame, table_names
from .ragged_transformer import RaggedTransformer, check_sequence, sequences_of


def _has_names(per_node):
    own = getattr(per_node, "transformer_", per_node.transformer)
    return hasattr(own, "get_feature_names_out")


class PerNode(RaggedTransformer, BaseEstimator):
    """Apply a 2-D scikit-learn transformer to the nodes of sequences, graphs or images.

    The nodes of all sequences are concatenated, transformed, and split again. This works for
    StandardScaler, PCA, DictVectorizer (sequences of dicts) and any other transformer with one
    output row per input row. In tuples (features, edges, ...), as for :class:`~skstruct.Tree` and
    :class:`~skstruct.Pairwise`, it transforms the features; in images (height, width, n_features),
    as for :class:`~skstruct.Grid`, the pixels. The global ``transform_output`` has no effect on the
    transformer; data frames between its own steps need its own ``set_output``. Read more in the
    :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    transformer : transformer
        Is cloned and fitted. Its parameters can be set as ``transformer__...``.
    sequence_id : str, default=None
        If X is a pandas or polars data frame: its column of sequence ids. The transformer gets the
        other columns as an array; from a list of data frames, one per sequence, it gets a frame.
    columns : list of str, default=None
        If X is a data frame, or a list of these: its columns to use, default all but `sequence_id`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.

    See Also
    --------
    skstruct.preprocessing.SequenceUnion : Several vectorizers side by side.
    skstruct.preprocessing.SequenceVectorizer : Features from dicts and lists of attributes.

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
        """All nodes in one piece, the offsets of samples, and the form of each, if it has one."""
        columns = self.columns
        if fitting:
            self._frame_names = None
        elif columns is None:
            columns = getattr(self, "_frame_names", None)
        if isinstance(X, RaggedArray):
            if sparse.issparse(X.flat):
                check_sparse(X.flat, "X.flat")
                # Compiled transformers of scikit-learn refuse arrays that are locked.
                return X.flat.copy(), X.offsets, None
            return X.flat, X.offsets, None
        if is_frame(X):
            values, offsets, names = frame_columns(X, self.sequence_id, columns)
            if fitting:
                self._frame_names = names
            return np.column_stack([column.to_numpy() for column in values]), offsets, None
        samples, forms = _take_apart(sequences_of(X, fitting))
        for i, sample in enumerate(samples):
            check_sequence(sample, i)
        lengths = [s.shape[0] if sparse.issparse(s) else len(s) for s in samples]
        offsets = ends_of(lengths)
        if not offsets[-1]:
            return np.empty((0, 0)), offsets, forms
        first = next((s for s in samples if not sparse.issparse(s) and len(s)), None)
        if any(sparse.issparse(s) for s in samples):
            return sparse.vstack(samples, format="csr"), offsets, forms
        names = table_names(samples, self.sequence_id, columns)
        if names is not None:
            if fitting:
                self._frame_names = names
            return _joined(samples, names), offsets, forms
        is_array = first is None or isinstance(first, np.ndarray)
        if not is_array and _is_record(next(iter(first))):
            return list(itertools.chain.from_iterable(samples)), offsets, forms
        try:
            return np.concatenate([np.asarray(s) for s in samples if len(s)]), offsets, forms
        except ValueError as error:
            raise ValueError(f"X: samples do not fit together: {error}") from None

    def _wrap(self, rows, offsets, forms=None, X=None):
        is_image = isinstance(X, np.ndarray) and X.ndim > 2
        rows = _checked(rows, offsets[-1], (2,) if is_image or forms is not None else (1, 2))
        names = getattr(self, "_names", None)  # SmoothedClassifier wraps before it is fitted
        if names is not None and rows.shape[1:] != (len(names),):
            names = None
        if is_image and not sparse.issparse(rows):
            return with_names(rows.reshape(X.shape[:-1] + rows.shape[1:]), names)
        ragged = RaggedArray(rows, offsets, names)
        if forms is None:
            return ragged
        samples = [_rebuilt(*pair) for pair in zip(ragged, forms, strict=True)]
        return with_names(object_array(samples), names)

    def _keep(self, transformer, nodes, X):
        """Keep what was fitted, and the names of its output where it or the input has some."""
        self.transformer_, self._first = transformer, copy(nodes[:1])
        names_in, _ = names_of(X)
        if is_frame(X):
            names_in = ListedNames([*map(str, self._frame_names)])
        self._names = names_of_output(transformer, names_in)

    def fit(self, X: SamplesLike, y: Any = None) -> Self:
        """Fit the transformer on all nodes.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences, graphs or images.
        y : list of label sequences, default=None
            Concatenated and passed on.

        Returns
        -------
        PerNode
            The transformer itself.
        """
        nodes, _, _ = self._training_nodes(X)
        with config_context(transform_output="default"):
            transformer = clone(self.transformer).fit(nodes, *_flat_labels(y))
        self._keep(transformer, nodes, X)
        return self

    def _training_nodes(self, X):
        nodes, offsets, forms = self._nodes(X, True)
        if not offsets[-1]:
            raise ValueError("X has no nodes: every sequence is empty")
        return nodes, offsets, forms

    def fit_transform(self, X: SamplesLike, y: Any = None) -> RaggedArray | np.ndarray:
        """Fit and transform in one go.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences, graphs or images.
        y : list of label sequences, default=None
            Concatenated and passed on.

        Returns
        -------
        RaggedArray or array
            As :meth:`transform`.
        """
        nodes, offsets, forms = self._training_nodes(X)
        transformer = clone(self.transformer)
        with config_context(transform_output="default"):
            if hasattr(transformer, "fit_transform"):
                rows = transformer.fit_transform(nodes, *_flat_labels(y))
            else:
                rows = transformer.fit(nodes, *_flat_labels(y)).transform(nodes)
        self._keep(transformer, nodes, X)
        return self._wrap(rows, offsets, forms, X)

    def transform(self, X: SamplesLike) -> RaggedArray | np.ndarray:
        """Transform the nodes of sequences; those without nodes, and X without sequences, stay so.

        Parameters
        ----------
        X : list of samples, RaggedArray or data frame
            The sequences, graphs or images.

        Returns
        -------
        RaggedArray or array
            The transformed sequences; of graphs and images an object array of samples as in X. If X
            is a 3-D or 4-D array, it is one, too.
        """
        check_is_fitted(self)
        nodes, offsets, forms = self._nodes(X, False)
        if getattr(nodes, "ndim", 0) == 1 and getattr(self._first, "ndim", 0) == 2:
            raise ValueError(
                "X: sequence 0 has 1 dimension, in fit 2; X is a list of sequences: for one "
                "sequence pass [x]"
            )
        with config_context(transform_output="default"):
            if not offsets[-1]:
                # Transformers refuse tables without rows: the first training row tells the width.
                none = self._wrap(self.transformer_.transform(self._first), np.array([0, 1]))
                return self._wrap(none.flat[:0], offsets, forms, X)
            return self._wrap(self.transformer_.transform(nodes), offsets, forms, X)

    @available_if(_has_names)
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


def _checked(rows, n_nodes, dims):
    """Return the output of a transformer of whatever package, if it has a row for each node."""
    if hasattr(rows, "to_numpy"):
        rows = rows.to_numpy()
    if not sparse.issparse(rows):
        try:
            rows = np.asarray(rows)
        except ValueError as error:
            raise ValueError(f"the transformer did not return a table: {error}") from None
    if rows.ndim not in dims:
        raise ValueError(
            "the transformer must return a table of shape (n_nodes, n_features), its output has "
            f"{rows.ndim} dimensions"
        )
    if rows.shape[0] != n_nodes:
        raise ValueError(f"the transformer returned {rows.shape[0]} rows for {n_nodes} nodes")
    return rows


def _joined(tables, names):
    """One table of all nodes, its columns in one order."""
    kinds = sorted({type(table).__module__.partition(".")[0] for table in tables})
    if kinds == ["pandas"]:
        import pandas

        return pandas.concat([table[names] for table in tables], ignore_index=True)
    if kinds == ["polars"]:
        import polars

        try:
            return polars.concat([t.select(names) for t in tables], how="vertical_relaxed")
        except polars.exceptions.PolarsError as error:
            raise ValueError(f"X: data frames do not fit together: {error}") from None
    if kinds == ["numpy"]:
        return np.concatenate([table[names] for table in tables])
    raise TypeError(f"X: its data frames are of {' and '.join(kinds)}: pass those of one package")


def _is_record(token):
    return isinstance(token, (dict, str))


def _has_parts(sample):
    """Return whether a sample is a tuple (features, ...) or an image, not a sequence of tokens."""
    if not isinstance(sample, tuple):
        return isinstance(sample, np.ndarray) and sample.ndim == 3
    first = sample[0] if sample else None
    records = isinstance(first, list) and bool(first) and _is_record(first[0])
    return records or getattr(first, "ndim", 0) >= 2 or hasattr(first, "columns")


def _take_apart(samples):
    """The nodes of each sample, and what else it is made of; None for sequences."""
    if not any(map(_has_parts, samples)):
        return samples, None
    nodes, forms = [], []
    for sample in samples:
        first, *rest = sample if isinstance(sample, tuple) and _has_parts(sample) else (sample,)
        is_image = isinstance(first, np.ndarray) and first.ndim == 3
        size = first.shape[:2] if is_image else None
        nodes.append(first.reshape(-1, first.shape[2]) if is_image else first)
        forms.append((size, tuple(rest)))
    return nodes, forms


def _rebuilt(rows, form):
    """A sample of transformed nodes."""
    size, rest = form
    if size is not None:
        if sparse.issparse(rows):
            raise TypeError("images are dense: the transformer must not return sparse matrices")
        rows = rows.reshape(*size, rows.shape[1])
    return (rows, *rest) if rest else rows


def _flat_labels(y):
    if y is None:
        return ()
    if isinstance(y, RaggedArray):
        return (y.flat,)
    refuse_types(y, "y")
    for i, own in enumerate(y):
        refuse_masked(own, f"y: sample {i}")
    return (np.concatenate([np.asarray(v).reshape(-1) for v in y]),)

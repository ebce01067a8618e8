"""SequenceVectorizer: sequences of feature dicts or attribute lists to sparse features."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from numbers import Integral, Number

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.utils.validation import check_is_fitted

from ..packing import as_list
from ..ragged import RaggedArray
from .frames import frame_columns, is_frame


class SequenceVectorizer(TransformerMixin, BaseEstimator):
    """Turn sequences of feature dicts, or of attribute lists, into a RaggedArray over CSR.

    The input is sklearn-crfsuite's: a sequence is a list of tokens, a token a dict from names to
    values, or a list of attribute strings. A string value stands for the feature ``name=value``,
    a list of strings for one such feature each, a number or bool for itself.

    Parameters
    ----------
    hashing : bool, default=False
        Hash the names into `n_features` columns (FeatureHasher) instead of keeping a vocabulary
        (DictVectorizer). Nothing is learned then, and names are lost.
    n_features : int, default=2**20
        Columns in hashing mode.
    min_count : int, default=1
        Drop features that occur in fewer training tokens.
    separator : str, default="="
        Between name and value; ":" gives the attribute names of sklearn-crfsuite.
    sequence_id : str, default=None
        If X is a pandas or polars data frame: its column of sequence ids. Each other column is
        then a feature of the token.

    Attributes
    ----------
    vectorizer_ : DictVectorizer or FeatureHasher
        What does the work.
    n_features_out_ : int
        Number of columns.

    Notes
    -----
    Tokens are read one at a time, so there is never a second copy of the input. Features not seen
    in fit are ignored.

    Examples
    --------
    >>> from skstruct.preprocessing import SequenceVectorizer
    >>> X = [[{"word": "He", "title": True}, {"word": "runs"}], [["word=He"]]]
    >>> vectorizer = SequenceVectorizer().fit(X)
    >>> vectorizer.get_feature_names_out().tolist()
    ['title', 'word=He', 'word=runs']
    >>> vectorizer.transform(X)[1].toarray()
    array([[0., 1., 0.]])
    """

    def __init__(
        self, *, hashing=False, n_features=2**20, min_count=1, separator="=", sequence_id=None
    ):
        self.hashing = hashing
        self.n_features = n_features
        self.min_count = min_count
        self.separator = separator
        self.sequence_id = sequence_id

    def fit(self, X, y=None):
        """Learn the vocabulary.

        Parameters
        ----------
        X : list of sequences of dicts or of lists of str, or data frame
            The sequences.
        y : object, default=None
            Ignored.

        Returns
        -------
        SequenceVectorizer
            The transformer itself.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X, y=None):
        """Learn the vocabulary and transform.

        Parameters
        ----------
        X : list of sequences of dicts or of lists of str, or data frame
            The sequences.
        y : object, default=None
            Ignored.

        Returns
        -------
        RaggedArray
            CSR features of all tokens.

        Raises
        ------
        ValueError, TypeError
            If X is empty or a value has an unsupported type; names the sequence and the token.
        """
        if not isinstance(self.min_count, Integral) or self.min_count < 1:
            raise ValueError(f"min_count must be an integer of at least 1, got {self.min_count!r}")
        if self.hashing and self.min_count > 1:
            raise ValueError("min_count needs a vocabulary: it does not go with hashing=True")
        if self.hashing:
            self.vectorizer_ = FeatureHasher(self.n_features, input_type="pair")
            self.n_features_out_ = self.n_features
            return self.transform(X)
        self.vectorizer_ = DictVectorizer(separator=self.separator, sort=True)
        source, lengths = self._sequences(X)
        flat = self.vectorizer_.fit_transform(map(dict, _tokens(source, lengths, self.separator)))
        self._keep = None
        if self.min_count > 1:
            counts = np.bincount(flat.indices, minlength=flat.shape[1])
            self._keep = np.flatnonzero(counts >= self.min_count)
        return self._wrap(flat, lengths)

    def transform(self, X):
        """Transform sequences.

        Parameters
        ----------
        X : list of sequences of dicts or of lists of str, or data frame
            The sequences.

        Returns
        -------
        RaggedArray
            CSR features of all tokens.

        Raises
        ------
        ValueError, TypeError
            If X is empty or a value has an unsupported type; names the sequence and the token.
        """
        check_is_fitted(self)
        source, lengths = self._sequences(X)
        tokens = _tokens(source, lengths, self.separator)
        if self.hashing:
            return self._wrap(self.vectorizer_.transform(tokens), lengths)
        return self._wrap(self.vectorizer_.transform(map(dict, tokens)), lengths)

    def _sequences(self, X):
        """An iterable of sequences, and a list that will hold their lengths."""
        if is_frame(X):
            values, offsets, names = frame_columns(X, self.sequence_id)
            rows = zip(*(column.tolist() for column in values), strict=True)
            tokens = [dict(zip(names, row, strict=True)) for row in rows]
            return (tokens[start:stop] for start, stop in pairwise(offsets)), []
        return iter(as_list(X, "X")), []

    def _wrap(self, flat, lengths):
        flat = sparse.csr_matrix(flat)
        if not self.hashing:
            if self._keep is not None:
                flat = sparse.csr_matrix(flat[:, self._keep])
            self.n_features_out_ = flat.shape[1]
        return RaggedArray(flat, np.concatenate([[0], np.cumsum(lengths)]))

    def get_feature_names_out(self, input_features=None):
        """Names of the columns.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_columns,)
            The names.

        Raises
        ------
        ValueError
            In hashing mode, which keeps no names.
        """
        check_is_fitted(self)
        if self.hashing:
            raise ValueError("hashing keeps no feature names: use hashing=False")
        names = self.vectorizer_.get_feature_names_out()
        return names if self._keep is None else names[self._keep]

    def set_output(self, *, transform=None):
        """Accepted for pipelines; the output is always a RaggedArray.

        Parameters
        ----------
        transform : str, default=None
            Ignored.

        Returns
        -------
        SequenceVectorizer
            The transformer itself.
        """
        return self


def _tokens(sequences, lengths, separator):
    """Every token as (name, value) pairs; appends the length of each sequence to `lengths`."""
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, (str, Mapping)) or not hasattr(sequence, "__len__"):
            raise TypeError(
                f"X: sequence {i} must be a list of tokens, not {type(sequence).__name__}"
            )
        if len(sequence) == 0:
            raise ValueError(f"X: sequence {i} is empty")
        lengths.append(len(sequence))
        for t, token in enumerate(sequence):
            yield list(_pairs(token, i, t, separator))


def _pairs(token, i, t, separator):
    if isinstance(token, Mapping):
        for name, value in token.items():
            if isinstance(value, str):
                yield f"{name}{separator}{value}", 1.0
            elif isinstance(value, Number):
                yield name, float(value)
            elif isinstance(value, (list, tuple, set)) and all(isinstance(v, str) for v in value):
                for v in value:
                    yield f"{name}{separator}{v}", 1.0
            else:
                raise TypeError(
                    f"X: sequence {i}, token {t}: the value of {name!r} is of type "
                    f"{type(value).__name__}; str, number, bool or list of str was expected"
                )
    elif isinstance(token, (list, tuple, set)) and all(isinstance(a, str) for a in token):
        for attribute in token:
            yield attribute, 1.0
    else:
        raise TypeError(
            f"X: sequence {i}, token {t} is of type {type(token).__name__}; a dict of features or "
            "a list of attribute strings was expected"
        )

"""AlignmentFeatures: from sentence pairs to features of all pairs of their words."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ...data.packing import as_list, is_empty_list
from ...data.ragged import object_array
from ...typing import SamplesLike
from ..ragged_transformer import RaggedTransformer
from .statistics import best_links, feature_names, features_of_pair, find_pairs
from .translation import learn_translations


class AlignmentFeatures(RaggedTransformer, BaseEstimator):
    """Turn sentences and their translations into samples of a matching of words.

    A sample of X is a tuple (source, target) of lists of words, or of strings that are split at
    white space; it becomes an array (n_source, n_target, n_features). What words mean is learned
    without any alignment, from pairs of sentences: those of `parallel_text` and those that `fit`
    is given. All features lie between -1 and 1.

    Parameters
    ----------
    parallel_text : (sources, targets), default=None
        Sentences and their translations, as in X. They are copied when the transformer is cloned;
        strings fastest.
    n_iter : int, default=5
        Steps of EM for IBM model 1.
    lowercase : bool, default=True
        Whether words that differ in case only are the same.
    diagonal : float, default=4.0
        How much the ``diagonal_`` features favour words at like places: the prior probability of a
        link falls with ``exp(-diagonal * |i / n_source - j / n_target|)``.

    Attributes
    ----------
    vocabularies_ : (dict, dict)
        Number of each word of the sources and of the targets.
    translations_ : NamedTuple
        For all pairs of words that occur together: their Dice coefficient and their translation
        probabilities in both directions.
    log_likelihood_ : ndarray of shape (n_iter, 2)
        Of the text under IBM model 1 before each step, in both directions.

    See Also
    --------
    skstruct.datasets.load_word_alignment : Reads sentence pairs and their links.

    Notes
    -----
    The features are Dice coefficients and probabilities of IBM model 1 in both directions, with and
    without a prior for the diagonal; the same of the neighbouring pairs of words; distance from the
    diagonal; likeness of spelling; and how rare or short words are. Words that were not in the text
    have spelling and place only. `intersection` needs no training at all.

    References
    ----------
    B. Taskar, S. Lacoste-Julien, D. Klein: A discriminative matching approach to word alignment.
    EMNLP 2005, section 3.2.

    P. Brown, S. Della Pietra, V. Della Pietra, R. Mercer: The mathematics of statistical machine
    translation. Computational Linguistics 19(2), 1993, section 4.1.

    C. Dyer, V. Chahuneau, N. Smith: A simple, fast, and effective reparameterization of IBM model
    2. NAACL 2013, section 2: the prior of the ``diagonal_`` features.

    Examples
    --------
    >>> from skstruct.preprocessing import AlignmentFeatures
    >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
    >>> features = AlignmentFeatures().fit(pairs)
    >>> features.transform(pairs)[0].shape == (2, 2, len(features.get_feature_names_out()))
    True
    >>> features.intersection([("ein Haus", "a house")])[0].tolist()
    [[0, 0], [1, 1]]
    """

    def __init__(
        self,
        parallel_text: tuple[Any, Any] | None = None,
        *,
        n_iter: int = 5,
        lowercase: bool = True,
        diagonal: float = 4.0,
    ) -> None:
        self.parallel_text = parallel_text
        self.n_iter = n_iter
        self.lowercase = lowercase
        self.diagonal = diagonal

    def fit_transform(self, X: SamplesLike, y: Any = None) -> np.ndarray:
        """Learn from the text, then transform.

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.
        y : object, default=None
            Ignored: alignments are not needed.

        Returns
        -------
        object array of shape (n_samples,)
            An array (n_source, n_target, n_features) a sample.

        Raises
        ------
        ValueError, TypeError
            If a sample is no pair of sentences, a sentence is empty, `parallel_text` has sides of
            different lengths, or a parameter is out of range.

        See Also
        --------
        skstruct.preprocessing.AlignmentFeatures.transform : Of other text.

        Examples
        --------
        One array a pair of sentences, a row a word of the source, a column a word of the target:

        >>> from skstruct.preprocessing import AlignmentFeatures
        >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> features = AlignmentFeatures(n_iter=2)
        >>> features.fit_transform(pairs)[0].shape[:2]
        (2, 2)
        """
        if isinstance(self.n_iter, bool) or not isinstance(self.n_iter, Integral):
            raise TypeError(f"n_iter must be an integer, got {self.n_iter!r}")
        if self.n_iter < 1:
            raise ValueError(f"n_iter must be at least 1, got {self.n_iter!r}")
        if not isinstance(self.lowercase, (bool, np.bool_)):
            raise TypeError(f"lowercase must be True or False, got {self.lowercase!r}")
        if isinstance(self.diagonal, bool) or not isinstance(self.diagonal, Real):
            raise TypeError(f"diagonal must be a number, got {self.diagonal!r}")
        if not 0.0 <= self.diagonal <= sys.float_info.max:
            raise ValueError(f"diagonal must be finite and at least 0, got {self.diagonal!r}")
        pairs = self._pairs(X)
        sides = [[*a, *b] for a, b in zip(self._text(), zip(*pairs, strict=True), strict=True)]
        vocabularies = {}, {}
        codes = [
            [np.array([known.setdefault(word, len(known)) for word in words]) for words in side]
            for known, side in zip(vocabularies, sides, strict=True)
        ]
        self.translations_ = learn_translations(
            *codes, tuple(map(len, vocabularies)), int(self.n_iter)
        )
        self.vocabularies_ = vocabularies
        self.log_likelihood_ = self.translations_.log_likelihood
        return self._transform(pairs)

    def transform(self, X: SamplesLike) -> np.ndarray:
        """Features of all pairs of words.

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.

        Returns
        -------
        object array of shape (n_samples,)
            An array (n_source, n_target, n_features) a sample.

        Raises
        ------
        ValueError, TypeError
            If a sample is no pair of sentences, or a sentence is empty.

        See Also
        --------
        skstruct.Matching : Takes what it puts out.

        Examples
        --------
        Words that were not in the text have no statistics:

        >>> from skstruct.preprocessing import AlignmentFeatures
        >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> features = AlignmentFeatures().fit(pairs)
        >>> features.transform([("das neue Haus", "the new house")])[0].shape[:2]
        (3, 3)
        """
        check_is_fitted(self)
        return self._transform([] if is_empty_list(X) else self._pairs(X))

    def intersection(self, X: SamplesLike) -> list[np.ndarray]:
        """Links on which IBM model 1 agrees in both directions.

        A word is linked to that word of the other side which most probably stands behind it, the
        first of several, or to none where none is more probable. What both directions link is kept.

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.

        Returns
        -------
        list of ndarray of shape (n_links, 2) of int
            Word of the source and of the target, counted from 0.

        See Also
        --------
        skstruct.metrics.alignment_error_rate : Compares links with true ones.

        References
        ----------
        F. J. Och, H. Ney: A systematic comparison of various statistical alignment models.
        Computational Linguistics 29(1), 2003, section 4.3.

        Examples
        --------
        >>> from skstruct.preprocessing import AlignmentFeatures
        >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> AlignmentFeatures().fit(pairs).intersection([("ein Haus", "a house")])[0].tolist()
        [[0, 0], [1, 1]]
        """
        check_is_fitted(self)
        pairs = [] if is_empty_list(X) else self._pairs(X)
        return [
            np.argwhere(np.logical_and(*best_links(self.translations_, *self._codes(pair))))
            for pair in pairs
        ]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the features.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_features,)
            The names.

        See Also
        --------
        skstruct.inspection.top_features : Names weights by them.

        Examples
        --------
        >>> from skstruct.preprocessing import AlignmentFeatures
        >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> features = AlignmentFeatures().fit(pairs)
        >>> len(features.get_feature_names_out()) == features.transform(pairs)[0].shape[2]
        True
        """
        check_is_fitted(self)
        return feature_names()

    def _transform(self, pairs):
        return object_array(
            [
                features_of_pair(self.translations_, pair, *self._codes(pair), self.diagonal)
                for pair in pairs
            ]
        )

    def _codes(self, pair):
        """Words of a pair of sentences as numbers, and where their pairs are in the tables."""
        codes = [
            np.array([known.get(word, -1) for word in words])
            for known, words in zip(self.vocabularies_, pair, strict=True)
        ]
        return codes, find_pairs(self.translations_.keys, *codes, len(self.vocabularies_[1]))

    def _pairs(self, X):
        """Pairs of lists of words."""
        pairs = []
        for i, sample in enumerate(as_list(X, "X")):
            if not isinstance(sample, (tuple, list)) or len(sample) != 2:
                raise TypeError(
                    f"X: sample {i} must be a tuple (source, target) of lists of words, got "
                    f"{type(sample).__name__}"
                )
            names = "source", "target"
            pair = tuple(
                self._words(side, f"X: sample {i}: its {name}")
                for side, name in zip(sample, names, strict=True)
            )
            for words, name in zip(pair, names, strict=True):
                if not words:
                    raise ValueError(f"X: sample {i}: its {name} is empty")
            pairs.append(pair)
        return pairs

    def _text(self):
        """Both sides of the parallel text, without pairs that have an empty side."""
        text = self.parallel_text
        if text is None:
            return [], []
        if not isinstance(text, (tuple, list)) or len(text) != 2:
            raise TypeError("parallel_text must be a tuple (sources, targets)")
        sides = []
        for side, name in zip(text, ("sources", "targets"), strict=True):
            where = f"parallel_text: {name}"
            items = [] if is_empty_list(side) else as_list(side, where)
            sides.append([self._words(s, f"{where}: sentence {i}") for i, s in enumerate(items)])
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                f"parallel_text has {len(sides[0])} sources, but {len(sides[1])} targets"
            )
        full = [pair for pair in zip(*sides, strict=True) if pair[0] and pair[1]]
        return tuple(zip(*full, strict=True)) if full else ([], [])

    def _words(self, sentence, where):
        """The words of a sentence."""
        if isinstance(sentence, str):
            words = sentence.split()
        elif hasattr(sentence, "__len__") and not isinstance(sentence, (bytes, Mapping, set)):
            words = list(sentence)
        else:
            raise TypeError(f"{where} must be a list of words, got {type(sentence).__name__}")
        wrong = next((word for word in words if not isinstance(word, str)), None)
        if wrong is not None:
            raise TypeError(f"{where} has the word {wrong!r}, which is no str")
        return [word.lower() for word in words] if self.lowercase else [str(w) for w in words]

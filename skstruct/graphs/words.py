"""Lattices of the words in a string: segmentation with a dictionary."""

from __future__ import annotations

import itertools
from array import array
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.arguments import check_integer, check_real, warn_user
from ..core.offsets import ends_of
from ..core.typing import PathLike, SamplesLike
from ..data.dictionary import Dictionary, Lookup
from ..data.matrices import normal_csr
from ..data.mecab import read_mecab, write_mecab
from ..data.names import VocabularyNames
from ..data.packing import as_list
from ..data.ragged import object_array
from .items import targets_of
from .lattice import Lattice, LatticeArcs

__all__ = ["WordLattice"]

# Words that a warning names.
_SHOWN = 3


class WordLattice(Lattice):
    """Words in a string, from a dictionary and from runs of characters.

    A sample of X is a string, one of y the list of its words, which is what ``predict`` returns.
    Each word of the dictionary is an arc wherever it occurs, and so are unknown words, by kinds of
    characters (ideographs, syllabaries, letters, digits, others), as in MeCab. The score of an arc
    depends on the word itself if the training data have it, its length, kinds, characters and
    pairs of them, and the two characters around its beginning; for MeCab's dictionaries on the
    word, its fields, length and kinds. Pairs of neighbouring words score by kinds and lengths, or
    first fields. Read more in the :ref:`User Guide <lattices>`.

    Parameters
    ----------
    dictionary : list of str
        The words; :meth:`from_mecab` reads files instead.
    longest_unknown : int, default=4
        Number of characters up to which all strings can be words, besides whole runs of one kind.
        MeCab's files define their own.
    n_fields : int, default=1
        Number of fields of MeCab's entries (parts of speech) that define the classes of neighbours.

    Attributes
    ----------
    vocabulary_ : object
        Names of the features, learned in fit.

    See Also
    --------
    Lattice : Arcs and features of your own.
    Chain : With labels of characters, which begin or continue a word.

    Notes
    -----
    In a seed of MeCab one string may have several entries. A word of y is a string, whose first
    entry is the true one, or a tuple (string, field, ...), whose first entry with these first
    fields is. True words that a lattice lacks become arcs in training, with a warning that counts
    them; ``predict`` cannot return them. Unknown words are learned only where true words are not in
    the dictionary: leave out rare ones. ``score`` is the F1 of words.

    References
    ----------
    T. Kudo, K. Yamamoto and Y. Matsumoto 2004, Applying conditional random fields to Japanese
    morphological analysis, EMNLP.

    Examples
    --------
    >>> from skstruct import SAGCRF, WordLattice
    >>> X, y = ["thecat", "thecats", "acat"], [["the", "cat"], ["the", "cats"], ["a", "cat"]]
    >>> crf = SAGCRF(WordLattice(["a", "cat", "cats", "the", "he"]), random_state=0).fit(X, y)
    >>> crf.predict(["acats", "thedog"]).tolist()
    [['a', 'cats'], ['the', 'dog']]
    """

    takes = "lists of strings"

    def __init__(self, dictionary: Any, longest_unknown: int = 4, n_fields: int = 1) -> None:
        self.dictionary = dictionary
        self.longest_unknown = longest_unknown
        self.n_fields = n_fields

    @classmethod
    def from_mecab(
        cls, seed: Any, char_def: PathLike, unk_def: PathLike, **parameters: Any
    ) -> Self:
        """Return a structure with the dictionary of MeCab's files, in UTF-8 or EUC-JP.

        Parameters
        ----------
        seed : str, Path or list of these
            Words: lines ``surface,left,right,cost,field,...``. Numbers are not used.
        char_def, unk_def : str or Path
            Kinds of characters, and unknown words of each kind.
        **parameters
            Those of the class.

        Returns
        -------
        WordLattice
            The structure.

        Raises
        ------
        ValueError
            If a line is broken; the message names the file and the line.
        """
        return cls(read_mecab(seed, char_def, unk_def), **parameters)

    # The dictionary

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_found"}

    @property
    def _lookup(self):
        """What finds words, for the present parameters: not stored in pickles."""
        given = own, longest, n_fields = self.dictionary, self.longest_unknown, self.n_fields
        known, lookup = vars(self).get("_found", ((), None))
        if not known or any(one is not other for one, other in zip(known, given, strict=True)):
            n_fields = check_integer("n_fields", n_fields, 0)
            if not isinstance(own, Dictionary):
                own = Dictionary.of_words(own, check_integer("longest_unknown", longest, 1))
            lookup = Lookup(own, n_fields)
            self._found = given, lookup
        return lookup

    def pair_names(self, classes: Any) -> tuple[list, list]:
        """Classes of words: first fields, or kind and length."""
        return self._lookup.classes, self._lookup.classes

    def words(self, text: str) -> list[tuple]:
        """Return the words in a string, in the order of marginals, masks and scores of its arcs.

        Parameters
        ----------
        text : str
            A sample of X.

        Returns
        -------
        list of tuples
            (begin, end, word) of each arc, such that the word is ``text[begin:end]``; for MeCab's
            dictionaries (begin, end, word, field, ...).

        Examples
        --------
        >>> from skstruct import WordLattice
        >>> WordLattice(["a", "cat", "at"], longest_unknown=1).words("cat")[:3]
        [(0, 3, 'cat'), (0, 1, 'c'), (1, 2, 'a')]
        """
        entries = self._lookup.dictionary.words + self._lookup.dictionary.unknown
        found = self._lookup.words(text)
        return [(begin, end, text[begin:end], *entries[q][1:]) for begin, end, q in found]

    # Reading

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> LatticeArcs:
        """The lattices of strings."""
        return self._read(estimator, X, None, reset)[0]

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[LatticeArcs, np.ndarray]:
        """The lattices with all true words; learns the vocabulary of features."""
        return self._read(estimator, X, y, True)

    def _read(self, estimator, X, y, reset):
        """Lattices, and with y the labels of their arcs."""
        lookup, texts = self._lookup, as_list(X, "X")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"X: sample {i} must be a string, got {text!r}")
        words = [()] * len(texts) if y is None else _read_words(y, texts)
        units, starts = {}, {}
        found, counts, true = self._find(texts, words, units, starts)
        begin, end, number, unit, start = found.T
        labels = np.zeros(begin.size, dtype=np.int64)
        labels[true] = 1
        names = [*itertools.starmap(lookup.features, units)]
        is_plain = lookup.dictionary.is_plain
        around = [[f"around={pair}"] if is_plain and len(pair) > 1 else [] for pair in starts]
        if reset:
            seen = {*unit[true].tolist()}
            kept = (
                [own, *more] if own and u in seen else more for u, (own, more) in enumerate(names)
            )
            self._learn_names(itertools.chain.from_iterable([*kept, *around]))
            self.n_sides_ = (len(lookup.classes),) * 2
            estimator._feature_names = self.vocabulary_
        features = self._table([own, *more] for own, more in names)[unit]
        features += self._table(around)[start]
        side = np.array([*itertools.starmap(lookup.class_of, units)], dtype=np.int64)[unit]
        arcs, ends = np.column_stack([begin, end, side, side, number]), ends_of(np.array(counts))
        given = object_array(texts)
        return self._made(normal_csr(features), ends, arcs, estimator, reset, given), labels

    def _find(self, texts, words, units, starts):
        """Arcs, their numbers by sample, and positions of the true ones.

        A row of an arc has its begin, end, number of the word, and places in `units`, pairs of
        that number and a surface where features depend on it, and in `starts`, the characters
        around its begin: each of these is added once.
        """
        lookup, flat, counts, true, lacking = self._lookup, array("q"), [], [], []
        is_plain = lookup.dictionary.is_plain
        for i, (text, own) in enumerate(zip(texts, words, strict=True)):
            ends = np.cumsum([0, *(len(word[0]) for word in own)]).tolist()
            arcs, first = [*lookup.words(text, ends[1:-1])], len(flat) // 5
            matched = self._match(arcs, own)
            for word, at, *span in zip(own, matched, ends[:-1], ends[1:], strict=True):
                true.append(first + (at if at >= 0 else len(arcs)))
                if at < 0:
                    lacking.append(f"{word if word[1:] else word[0]!r} (sample {i})")
                    arcs.append((*span, lookup.unknown[lookup.kinds(text[span[0]])[0]][0]))
            for begin, end, number in arcs:
                surface = text[begin:end] if is_plain or number < lookup.n_words else ""
                unit = units.setdefault((number, surface), len(units))
                start = starts.setdefault(text[max(begin - 1, 0) : begin + 1], len(starts))
                flat.extend((begin, end, number, unit, start))
            counts.append(len(arcs))
        if lacking:
            more = f" and {len(lacking) - _SHOWN} more" * (len(lacking) > _SHOWN)
            warn_user(
                f"y: {len(lacking)} of {len(true)} words are not in the lattices of their strings: "
                f"{', '.join(lacking[:_SHOWN])}{more}. They are arcs in training, but cannot be "
                "predicted; the dictionary lacks them, or their fields"
            )
        return np.array(flat, dtype=np.int64).reshape(-1, 5), counts, true

    def _match(self, arcs, words):
        """Positions of words among arcs, -1 for none: the first with their fields."""
        found, begin, spans, fits = [], 0, {}, self._lookup.fits
        for q, (first, end, number) in enumerate(arcs if words else ()):
            spans.setdefault((first, end), []).append((q, number))
        for surface, *fields in words:
            end = begin + len(surface)
            right = (q for q, n in spans.get((begin, end), ()) if fits(n, fields))
            found.append(next(right, -1))
            begin = end
        return found

    def _learn_names(self, names):
        """Number the names of features, those of earlier batches first."""
        known = dict(self.vocabulary_.positions()) if hasattr(self, "vocabulary_") else {}
        for name in names:
            known.setdefault(name, len(known))
        self.vocabulary_ = VocabularyNames(known)

    def _table(self, rows):
        """CSR rows of the known ones among names."""
        known, counts = self.vocabulary_.positions(), []
        columns = array("q")
        for names in rows:
            found = [known[name] for name in names if name in known]
            columns.extend(found)
            counts.append(len(found))
        shape, columns = (len(counts), len(known)), np.array(columns)
        return sparse.csr_matrix((np.ones(columns.size), columns, ends_of(counts)), shape)

    def read_y(self, y: SamplesLike, samples: LatticeArcs) -> np.ndarray:
        """1 for true arcs; the first arc of a sample has 2 more for each word that is no arc."""
        labels, ends = np.zeros(samples.item_ptr[-1], dtype=np.int64), samples.item_ptr.tolist()
        for i, own in enumerate(_read_words(y, samples.given)):
            arcs = samples.arcs[ends[i] : ends[i + 1]][:, [0, 1, 4]].tolist()
            for at in self._match(arcs, own):
                labels[ends[i] + max(at, 0)] += 1 if at >= 0 else 2
        return labels

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: LatticeArcs,
        weight: np.ndarray | None,
    ) -> float:
        """F1 of words."""
        each = np.ones(truth.size) if weight is None else np.repeat(weight, samples.lengths)
        own, size = samples.owner, samples.arcs[:, 1].max() + 1
        span = (own * size + samples.arcs[:, 0]) * size + samples.arcs[:, 1]
        is_right = (predicted == 1) & np.isin(span, span[truth % 2 == 1])
        total = each @ (predicted == 1) + each @ (truth % 2 + truth // 2)
        return float(2.0 * (each @ is_right) / total)

    def _path(self, codes, samples, i):
        """The words that a labelling of sample i chooses."""
        arcs = samples.arcs[samples.item_ptr[i] + super()._path(codes, samples, i), :2].tolist()
        return [samples.given[i][begin:end] for begin, end in arcs]

    def export_mecab(
        self, estimator: BaseEstimator, folder: PathLike, factor: float = 700.0
    ) -> float:
        """Write what an estimator has learned as a dictionary of MeCab, in UTF-8.

        ``fugashi-build-dict`` and ``mecab-dict-index`` compile the folder. MeCab then segments
        strings without white space as ``predict`` does, but for rounding and ties.

        Parameters
        ----------
        estimator : estimator
            Fitted, with this structure as its ``graph_``.
        folder : str or Path
            Where to write lex.csv, unk.def, matrix.def, char.def and dicrc; it is made.
        factor : float, default=700.0
            Costs are scores times it, rounded, with the sign changed.

        Returns
        -------
        float
            The factor, which is smaller where costs would exceed 32,767.

        Raises
        ------
        ValueError
            If the dictionary is not from MeCab's files, whose unknown words have one cost per kind;
            if the estimator is not fitted with this structure, or its weights are not finite.
        """
        lookup = self._lookup
        if lookup.dictionary.is_plain:
            raise ValueError(
                "export_mecab is for WordLattice.from_mecab: for MeCab all unknown words of one "
                "kind cost the same, but those of a plain list score by their characters"
            )
        if getattr(estimator, "graph_", None) is not self:
            raise ValueError("export_mecab takes the fitted estimator whose graph_ this is")
        surfaces = [word[0] for word in lookup.dictionary.words]
        units = [*enumerate(surfaces + [""] * len(lookup.dictionary.unknown))]
        rows = self._table([own, *more] for own, more in itertools.starmap(lookup.features, units))
        scores = rows @ estimator.coef_[0] + estimator.intercept_[0]
        classes = [lookup.class_of(*unit) for unit in units]
        table = estimator.pairwise_coef_
        factor = check_real("factor", factor, positive=True)
        return write_mecab(folder, lookup.dictionary, scores, classes, table, factor)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Strings of one letter."""
        words = [["a"] * n for n in rng.integers(1, 4, 3)]
        return ["".join(own) for own in words], words


def _read_words(y, texts):
    """Tuples (surface, field, ...) of the words of each string."""
    read = []
    for i, (words, text) in enumerate(zip(targets_of(y, len(texts)), texts, strict=True)):
        is_list = isinstance(words, (list, tuple, np.ndarray))
        own = [(word,) if isinstance(word, str) else word for word in words] if is_list else [None]
        for q, word in enumerate(own):
            is_word = isinstance(word, tuple) and all(isinstance(part, str) for part in word)
            if not is_word or not word or not word[0]:
                what = f"word {q} is {word!r}" if is_list else f"it is {words!r}"
                raise ValueError(f"y: sample {i} must be a list of words, but {what}")
        if (made := "".join(word[0] for word in own)) != text:
            raise ValueError(f"y: the words of sample {i} make {made!r}, but X has {text!r}")
        read.append(own)
    return read

"""TokenFeatures: features of words, from lists that one can read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..core.text_files import lines_of, split_line
from ..core.typing import SamplesLike
from ..data.names import JoinedNames, ListedNames, VocabularyNames
from ..data.ragged import RaggedArray
from ..lite import derived_column, grams_of
from .columns import coded, is_frame
from .patterns import Macro, Template
from .ragged_transformer import check_sequence, sequences_of
from .template import ExpandedTemplates, TemplateCounts, TemplateNames

# Lists of features.


def _at(names, *places):
    """One feature per name and place, which is an offset or a tuple of offsets."""
    return [
        "|".join(f"{name}[{offset}]" for offset in np.atleast_1d(place).tolist())
        for name in names.split()
        for place in places
    ]


def _affixes(sizes, *places):
    return _at(" ".join(f"{end}{k}" for k in sizes for end in ("prefix", "suffix")), *places)


_PAIRS = (-1, 0), (0, 1)
_MORE_PAIRS = (-2, -1), (1, 2), (-1, 1)
_TRIPLES = (-2, -1, 0), (-1, 0, 1), (0, 1, 2)

_PRESETS = {
    "chunks": [
        *_at("lower", *range(-2, 3), *_PAIRS, *_MORE_PAIRS),
        *_at("tag", *range(-3, 4), *_PAIRS, *_MORE_PAIRS[:2], *_TRIPLES),
        *_at("tag", (-2, -1, 0, 1), (-1, 0, 1, 2), (-2, -1, 0, 1, 2)),
        *(f"lower[{a}]|tag[{b}]" for a, b in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))),
        *_at("shape short", -1, 0, 1),
        *_affixes((2, 3, 4), 0),
        "ngrams2-5",
    ],
    "ner": [
        *_at("word lower shape short tag", *range(-2, 3)),
        *_at("lower", *_PAIRS, *_MORE_PAIRS),
        *_at("short tag", *_PAIRS, (-1, 0, 1)),
        *_at("short", (-2, -1, 0, 1, 2)),
        *_affixes((1, 2, 3, 4, 5), 0),
        *_affixes((1, 2, 3), -1, 1),
        "ngrams2-5",
    ],
    "pos": [
        *_at("word", 0),
        *_at("lower", *range(-2, 3), *_PAIRS),
        *_at("shape short tag", -1, 0, 1),
        *_affixes((1, 2, 3, 4, 5), 0),
    ],
    "words": [
        *_at("word", *range(-2, 3), *_PAIRS, *_MORE_PAIRS, *_TRIPLES),
        *_at("shape", -1, 0, 1, *_PAIRS, (-1, 0, 1)),
    ],
}
_PART = re.compile(r"([^\[\]|]+)\[([+-]?\d{1,9})\]")
_SIZED = re.compile(r"(prefix|suffix|cluster)([1-9]\d?)")
_GRAMS = re.compile(r"ngrams([1-9]\d?)-([1-9]\d?)")
_NUMBER = re.compile(r" [-+]?[\d.]*\d(e[-+]?\d+)?$")
_BITS = 4, 6, 10, 20  # of paths in a tree of clusters, as is usual for names


def _read_features(preset) -> list:
    """The features of a preset, or those that are listed."""
    if isinstance(preset, str):
        if preset not in _PRESETS:
            raise ValueError(f"preset must be a list or one of {[*_PRESETS]}, got {preset!r}")
        return _PRESETS[preset]
    if not isinstance(preset, (list, tuple)) or not preset:
        raise TypeError(f"preset must be a name or a list of features, got {preset!r}")
    for feature in preset:
        text = feature if isinstance(feature, str) else ""
        if not _gram_sizes([text]) and not all(map(_PART.fullmatch, text.split("|"))):
            raise ValueError(
                f"preset: {feature!r} is no feature such as 'lower[0]', 'suffix3[-1]', "
                "'word[0]|word[1]' or 'ngrams2-5'"
            )
    return list(preset)


def _sources(names, derived) -> dict:
    """What the names of features stand for: command, lower-casing, column, pattern."""
    found = {"word": ("x", False, 0, ""), "lower": ("x", True, 0, "")}
    for column, name in enumerate([*names[1:], *derived], start=1):
        if name in found or _SIZED.fullmatch(name):
            raise ValueError(
                f"two kinds of features are named {name!r}: rename the column of X or the gazetteer"
            )
        found[name] = ("x", False, column, "")
    return found


def _macro(name, offset, sources):
    """What a part of a feature gives; None if there is no such column."""
    sized = _SIZED.fullmatch(name)
    if sized and sized[1] != "cluster":
        dots = "." * int(sized[2])
        return Macro("m", False, offset, 0, f"^{dots}" if sized[1] == "prefix" else f"{dots}$")
    source = sources.get(sized[1] if sized else name)
    if source is None:
        return None
    command, lower, column, regex = source
    if sized:
        command, regex = "m", "^" + ".?" * int(sized[2])
    return Macro(command, lower, offset, column, regex)


def _templates(features, names, derived) -> list:
    """Templates of the features; "tag" stands for every column after the first."""
    sources, templates = _sources(names, derived), {}
    for feature in features:
        if _GRAMS.fullmatch(feature):
            continue
        parts = _PART.findall(feature)
        uses_tags = any(name == "tag" for name, _ in parts)
        for tag in names[1:] if uses_tags else [""]:
            own = [(tag if name == "tag" else name, int(offset)) for name, offset in parts]
            macros = [_macro(*part, sources) for part in own]
            if None in macros:
                raise ValueError(
                    f"preset: {feature!r} needs {own[macros.index(None)][0]!r}, but there are "
                    f"{[*sources]}, prefixes and suffixes such as 'suffix3', and clusters if given"
                )
            text = "|".join(f"{name}[{offset}]" for name, offset in own)
            texts = f"{text}=", *["|"] * (len(own) - 1), ""
            templates[texts] = Template(feature, "U", texts, tuple(macros))
    return [*templates.values()]


# What users bring.


def _read_clusters(clusters) -> dict:
    """Clusters by words, from a mapping or a file."""
    if isinstance(clusters, Mapping):
        wrong = [own for own in clusters.items() if not all(isinstance(s, str) for s in own)]
        if wrong or not clusters:
            what = "that of {!r} is {!r}".format(*wrong[0]) if wrong else "it is empty"
            raise ValueError(f"clusters must give strings for strings: {what}")
        return dict(clusters)
    if not isinstance(clusters, (str, os.PathLike)):
        raise TypeError(f"clusters must be a mapping or a path, got {type(clusters).__name__}")
    rows = []
    for number, line in enumerate(lines_of(clusters), start=1):
        fields = split_line(line, "\t" if "\t" in line else None)
        if line.strip() and len(fields) < 2:
            raise ValueError(f"{clusters}, line {number}: a word and its cluster were expected")
        rows += [fields] if line.strip() else []
    if all(set(row[0]) <= {"0", "1"} for row in rows):  # Brown's program writes paths first
        rows = [(word, path) for path, word, *_ in rows]
    found = {word: own for word, own, *_ in rows}
    if not found:
        raise ValueError(f"{clusters} has no clusters")
    return found


def _vector(vectors, word):
    """The vector of a word, empty if it is not of numbers."""
    try:
        return np.asarray(vectors[word], dtype=float)
    except (TypeError, ValueError):
        return np.empty(0)


def _read_vectors(vectors) -> tuple[Any, int]:
    """Vectors by words, and their length."""
    if not isinstance(vectors, (str, os.PathLike)):
        if not isinstance(vectors, Mapping) and not hasattr(vectors, "key_to_index"):
            raise TypeError(f"vectors must be a mapping or a path, got {type(vectors).__name__}")
        words = vectors if isinstance(vectors, Mapping) else vectors.key_to_index
        size = next((_vector(vectors, word).size for word in words), 0)
        if not size:
            raise ValueError("vectors is empty, or its first vector is not of numbers")
        return vectors, size
    found, size = {}, None
    for number, line in enumerate(lines_of(vectors), start=1):
        # Some words of GloVe's have spaces.
        word, *numbers = line.rstrip().rsplit(" ", size or -1)
        # word2vec's first line says how many vectors follow, and their length.
        if (number == 1 and len(numbers) == 1) or not line.strip():
            continue
        try:
            if not numbers or _NUMBER.search(word):
                raise ValueError
            found[word] = np.array(numbers, dtype=np.float32)
        except ValueError:
            raise ValueError(
                f"{vectors}, line {number}: a word and numbers were expected"
            ) from None
        size = size or len(numbers)
        if len(numbers) != size:
            raise ValueError(f"{vectors}, line {number}: {len(numbers)} numbers, before {size}")
    if not found:
        raise ValueError(f"{vectors} has no vectors")
    return found, size


def _read_phrases(name, phrases, split) -> dict:
    """The rests of phrases in lower case, by their first word: a list per size, longest first."""
    if isinstance(phrases, (str, bytes)) or not hasattr(phrases, "__iter__"):
        raise TypeError(f"gazetteers[{name!r}] must be a list of words or phrases")
    index = {}
    for phrase in phrases:
        words = split(phrase) if isinstance(phrase, str) else phrase
        if not isinstance(words, (list, tuple)) or not all(isinstance(w, str) for w in words):
            raise TypeError(f"gazetteers[{name!r}]: {phrase!r} is no phrase")
        words = [word.lower() for word in words]
        if not words:
            raise ValueError(f"gazetteers[{name!r}] has an empty phrase")
        index.setdefault(words[0], {}).setdefault(len(words), []).append(words[1:])
    return {
        first: [sorted(own[size]) for size in sorted(own, reverse=True)]
        for first, own in index.items()
    }


class _Settings(NamedTuple):
    """What a transformer makes of tokens."""

    features: list
    characters: bool  # whether samples may be strings, whose tokens are characters
    attributes: list  # names, for tokens that are objects
    derived: dict  # kind and data of the columns that are made of words, by name
    n_given: int = 0  # number of all other columns


def _as_rows(X, settings, fitting):
    """Characters of strings, attributes of objects; all else as it is."""
    if is_frame(X) or isinstance(X, RaggedArray):
        return X
    samples = sequences_of(X, fitting)
    if settings.characters:
        samples = [list(x) if isinstance(x, str) else x for x in samples]
    token = next((token for x in samples if hasattr(x, "__iter__") for token in x), None)
    if not hasattr(token, "text"):
        return samples
    rows = []
    for i, x in enumerate(samples):
        check_sequence(x, i)
        try:
            rows.append([tuple(getattr(t, name) for name in settings.attributes) for t in x])
        except AttributeError as error:
            raise ValueError(f"columns: tokens of sequence {i} lack one: {error}") from None
    return rows


def _made_columns(tokens, derived):
    """The columns that are made of words."""
    words, places = tokens.values[0]
    for kind, data in derived:
        if kind != "phrases":
            values, own = coded(derived_column(kind, data, words))
            yield values, own[places]
            continue
        # Only sequences that have the first word of a phrase are searched.
        marks = ["O"] * len(places)
        begins = [word.lower() in data for word in words]
        first = np.flatnonzero(np.array(begins, dtype=bool)[places])
        rows = np.unique(np.searchsorted(tokens.offsets, first, side="right") - 1)
        for i in rows.tolist():
            start, stop = tokens.offsets[i : i + 2].tolist()
            own = [words[q] for q in places[start:stop].tolist()]
            marks[start:stop] = derived_column(kind, data, own)
        yield coded(marks)


def _gram_sizes(features):
    """The sizes of n-grams, sorted."""
    found = [map(int, grams.groups()) for grams in map(_GRAMS.fullmatch, features) if grams]
    return sorted({size for first, last in found for size in range(first, last + 1)})


def _word_grams(words, settings):
    """The n-grams of each word."""
    sizes = _gram_sizes(settings.features)
    if not sizes:
        return [()] * len(words)
    found = (grams_of(word, sizes[0], sizes[-1]) for word in words)
    return ([gram for gram in grams if len(gram) in sizes] for grams in found)


# The transformer.


class TokenFeatures(ExpandedTemplates):
    """Features of words ready to use: words, affixes, shapes, windows, lists, clusters, vectors.

    ``make_pipeline(TokenFeatures("ner"), SAGCRF())`` is a tagger. Read more in the :ref:`User Guide
    <text_features>`.

    Parameters
    ----------
    preset : {"ner", "chunks", "pos", "words"} or list of str, default="ner"
        What to make of tokens; ``TokenFeatures.presets`` has the lists. A feature is a
        kind with an offset, such as ``"lower[-1]"``, or several joined by ``|``; kinds are "word",
        "lower" (in lower case), "prefix1" and so on, "suffix1" and so on, "shape" (``Xxx-dd``),
        "short" (``Xx-d``), "tag" (every further column of a token), the name of a column or of a
        gazetteer, "cluster" and its first characters "cluster4". ``"ngrams2-5"`` are all character
        n-grams of the word, ``^`` and ``$`` being its ends. "words" is for segmentation: tokens are
        characters, and a sample may be a str.
    gazetteers : dict of str to list of str, default=None
        Lists of words and phrases by name; the longest phrase is marked, in any case.
    clusters : mapping of str to str, str or Path, default=None
        Cluster of each word: any name, or a path of bits (Brown), whose first 4, 6, 10 and 20 bits
        are features, too. Lines of a file hold a word and its cluster, or a path and its word, as
        Brown's program writes them. Words are also looked up in lower case.
    vectors : mapping of str to array, str or Path, default=None
        Vector of each word: its numbers are features, 0 for unknown words. Lines of a file hold a
        word and its numbers, separated by one space, as word2vec and GloVe write them.
    min_count : int, default=1
        Drop features that occur in fewer training tokens.
    sequence_id : str, default=None
        If X is a data frame: its column of sequence ids.
    columns : list of str, default=None
        If X is a data frame: its columns, the word first; default all but `sequence_id`. If tokens
        are objects: their attributes, default ``["text"]``. Ignored for strings and tuples.

    Attributes
    ----------
    presets : dict of str to list of str
        The features of each preset, of the class.
    features_ : list of str
        The features in use.
    n_features_out_ : int
        Number of columns.
    n_columns_ : int
        Number of columns of a token.
    vocabulary_ : dict of str to int
        Codes of strings.

    See Also
    --------
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.preprocessing.SequenceVectorizer : Features from dicts and lists of attributes.

    Notes
    -----
    Beyond the ends of a sentence words are ``_B-1`` and ``_B+1`` and so on. Clusters and vectors
    are part of a pickle. Phrases of gazetteers are split at spaces, with "words" into characters.
    In names of joined features a backslash is before each ``|`` and each backslash of words.
    scikit-learn writes out a dict of arrays whenever it shows an estimator, which takes minutes for
    100,000 vectors: pass a path or ``KeyedVectors`` in notebooks.

    Examples
    --------
    >>> from skstruct.preprocessing import TokenFeatures
    >>> X = [["Anna", "flies", "to", "New", "York"]]
    >>> features = TokenFeatures(["lower[0]", "suffix2[0]"], gazetteers={"city": ["New York"]})
    >>> features.fit(X).get_feature_names_out()[-3:].tolist()
    ['city[1]=B', 'city[1]=I', 'city[1]=_B+1']
    >>> [*features.attributes([["York"]])[0][0]][:3]
    ['lower[0]=york', 'suffix2[0]=rk', 'city[-1]=_B-1']
    """

    presets = _PRESETS

    def __init__(
        self,
        preset: str | list = "ner",
        *,
        gazetteers: Any = None,
        clusters: Any = None,
        vectors: Any = None,
        min_count: int = 1,
        sequence_id: str | None = None,
        columns: Any = None,
    ) -> None:
        self.preset = preset
        self.gazetteers = gazetteers
        self.clusters = clusters
        self.vectors = vectors
        self.min_count = min_count
        self.sequence_id = sequence_id
        self.columns = columns

    def _checked(self):
        """Settings, from the parameters."""
        features, characters = [*_read_features(self.preset)], self.preset == "words"
        gazetteers = {} if self.gazetteers is None else self.gazetteers
        if not isinstance(gazetteers, Mapping):
            raise TypeError("gazetteers must be a dict of lists of words and phrases")
        columns = ["text"] if self.columns is None else self.columns
        if isinstance(columns, str) or not isinstance(columns, Iterable) or not [*columns]:
            raise TypeError(f"columns must be a list of names, got {columns!r}")
        derived = {"shape": ("shape", None), "short": ("short", None)}
        if self.clusters is not None:
            derived["cluster"] = "clusters", _read_clusters(self.clusters)
            is_path = all(set(own) <= {"0", "1"} for own in derived["cluster"][1].values())
            kinds = ["cluster", *(f"cluster{k}" for k in _BITS if is_path)]
            features += _at(" ".join(kinds), *range(-2, 3))
        for name, phrases in gazetteers.items():
            taken = name in derived or name in ("", "tag")
            if not isinstance(name, str) or taken or re.search(r"[\[\]|]", name):
                raise ValueError(f"gazetteers: a list cannot be named {name!r}")
            derived[name] = (
                "phrases",
                _read_phrases(name, phrases, list if characters else str.split),
            )
            features += [f"{name}[{offset}]" for offset in (-1, 0, 1)]
        return _Settings([*dict.fromkeys(features)], characters, [*map(str, columns)], derived)

    def _read_both(self, X):
        tokens = self._read(X)
        features, _, _, derived, n_given = tokens.settings
        names = tokens.names or ["word", "tag", *(f"tag{k}" for k in range(2, n_given))]
        templates = _templates(features, [*map(str, names[:n_given])], derived)
        if not templates and not _gram_sizes(features) and self.vectors is None:
            raise ValueError("preset: tokens have no column of tags, and there is no other feature")
        return templates, tokens

    @property
    def n_columns_(self) -> int:
        """Number of columns of a token."""
        check_is_fitted(self)
        return self._tokens.settings.n_given

    def _read(self, X, fitted=None):
        settings = self._checked() if fitted is None else fitted.settings
        if fitted is not None:  # X has the given columns alone
            fitted = fitted._replace(values=fitted.values[: settings.n_given])
        tokens = super()._read(_as_rows(X, settings, fitted is None), fitted)
        settings = settings._replace(n_given=len(tokens.values))
        values = [*tokens.values, *_made_columns(tokens, settings.derived.values())]
        return tokens._replace(values=values, settings=settings)

    def _count(self, templates, tokens, source):
        counts = TemplateCounts(templates, tokens, source)
        words, places = tokens.values[0]
        grams = _word_grams(words, tokens.settings)
        for own, number in zip(grams, np.bincount(places).tolist(), strict=True):
            for gram in own:
                counts.grams[gram] += number
        return counts

    def _fit_counts(self, counts):
        vectors, size = (None, 0) if self.vectors is None else _read_vectors(self.vectors)
        super()._fit_counts(counts)
        self._names = TemplateNames(self._names[0]._vocabulary, self._node_features, join="|"), None
        self._vectors, self._n_numbers = vectors, size
        self.features_ = counts.tokens.settings.features
        known = (gram for gram, n in counts.grams.items() if n >= self.min_count)
        self._grams = VocabularyNames({f"ngram={gram}": j for j, gram in enumerate(known)})
        vectors = ListedNames([f"vector[{j}]" for j in range(self._n_numbers)])
        self._all_names = JoinedNames([("", n) for n in (self._names[0], self._grams, vectors)])
        self.n_features_out_ = len(self._all_names)

    def _known(self, source):
        known, n = super()._known(source)
        words, places = source.columns[0]
        grams = _word_grams(words, self._tokens.settings)
        position = self._grams.positions()
        for own, number in zip(grams, np.bincount(places, minlength=len(words)), strict=True):
            known += number * sum("ngram=" + gram in position for gram in own)
            n += number * len(own)
        return known, n

    def _expand(self, source, offsets):
        templates = super()._expand(source, offsets)
        words, places = source.columns[0]
        blocks = [templates.flat]
        if _gram_sizes(self.features_):
            known, found = self._grams.positions(), []
            for grams in _word_grams(words, self._tokens.settings):
                own = (known.get("ngram=" + gram) for gram in grams)
                found.append(sorted(j for j in own if j is not None))
            ends = np.cumsum([0, *map(len, found)])
            columns = np.array([j for own in found for j in own], dtype=np.int32)
            shape = len(words), len(known)
            blocks.append(sparse.csr_matrix((np.ones(columns.size), columns, ends), shape)[places])
        if self._n_numbers:
            blocks.append(sparse.csr_matrix(self._numbers(words))[places])
        flat = sparse.hstack(blocks, format="csr") if len(blocks) > 1 else blocks[0]
        return RaggedArray._of_parts(flat, offsets, self._all_names)

    def _numbers(self, words):
        """Vectors of words."""
        table, known = np.zeros((len(words), self._n_numbers)), self._vectors
        for row, word in zip(table, words, strict=True):
            key = word if word in known else word.lower()
            if key in known:
                vector = _vector(known, key)
                if vector.shape != row.shape or not np.isfinite(vector).all():
                    raise ValueError(
                        f"vectors: that of {key!r} must be {self._n_numbers} finite numbers"
                    )
                row[:] = vector
        return table

    def _for_export(self, keep):
        """Settings for :mod:`skstruct.lite`, and the n-grams of characters that are kept."""
        grams = self._grams.strings()
        kept = keep[len(keep) - len(grams) :]
        grams = [gram.partition("=")[2] for gram, own in zip(grams, kept, strict=True) if own]
        sizes = _gram_sizes(self.features_)
        ends = (sizes[0], sizes[-1]) if sizes else None
        return {"derived": [*self._tokens.settings.derived.values()], "grams": ends}, grams

    def attributes(self, X: SamplesLike) -> list:
        """Names and values of the features of each token, as CRFsuite takes them.

        Parameters
        ----------
        X : list of sequences or data frame
            As for :meth:`transform`.

        Returns
        -------
        list of list of dict
            For each token the features that fit has learned.
        """
        found = self.transform(X)
        flat, n = found.flat, len(self._names[0])
        used = np.unique(flat.indices)  # names of all features would take long
        columns = used[: np.searchsorted(used, n)]
        names = dict(zip(columns.tolist(), self._names[0].at(columns), strict=True))
        others = [*self._grams.strings(), *(f"vector[{j}]" for j in range(self._n_numbers))]
        names |= enumerate(others, start=n)
        rows = [
            {names[j]: float(v) for j, v in zip(flat.indices[a:b], flat.data[a:b], strict=True)}
            for a, b in pairwise(flat.indptr.tolist())
        ]
        return [rows[a:b] for a, b in pairwise(found.offsets.tolist())]

    def _node_names(self):
        return self._all_names

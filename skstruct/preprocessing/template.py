"""TemplateVectorizer: CRF++ and Wapiti templates over token columns, vectorised."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.offsets import ends_of
from ..core.text_files import read_text
from ..core.typing import PathLike, SamplesLike
from ..data.matrices import as_configured
from ..data.names import FeatureNames, VocabularyNames, with_names
from ..data.ragged import RaggedArray, object_array
from ..lite import search
from .columns import read_columns
from .patterns import from_tuples, parse, python_regex
from .ragged_transformer import RaggedTransformer, check_integers

# Codes of strings by column, and their combinations by template.

_LARGEST_KEY = 2**62
_FEW = 8  # per token: so many keys are worth a table of all, others are searched for
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # spreads keys over the slots of a table


def by_text(templates: list) -> dict:
    """Templates by what stands around their macros: those without identifiers share features."""
    groups = {}
    for template in templates:
        groups.setdefault(template.texts, []).append(template)
    return groups


class Coder:
    """Codes of strings by column, and their combinations by template."""

    def __init__(self, tokens, vocabulary, grow, outside):
        self.columns, self.vocabulary, self.grow = tokens.values, vocabulary, grow
        self.outside = outside
        offsets = tokens.offsets
        lengths = np.diff(offsets)
        self.n_tokens = int(offsets[-1])
        self.start = np.repeat(offsets[:-1], lengths)
        self.position = np.arange(self.n_tokens) - self.start
        self.length = np.repeat(lengths, lengths)
        self.sources, self.shifted, self.ranks = {}, {}, {}
        #: Results of macros, in order, and how far beyond which end they looked: see `order_codes`.
        self.results, self.steps = {}, {}

    def _codes(self, strings):
        if self.grow:
            return [self.vocabulary.setdefault(s, len(self.vocabulary)) for s in strings]
        return [self.vocabulary.get(string, -1) for string in strings]

    def _source(self, macro):
        """Codes of what a macro gives at its own token, one per token."""
        key = own_token(macro)
        if key not in self.sources:
            results, places = self.columns[macro.column]
            if macro.command != "x" or macro.lower:
                results = [_result(macro, string) for string in results]
            codes = np.array(self._codes(results), dtype=np.int64)
            self.results[key], self.sources[key] = dict.fromkeys(results), codes[places]
        return self.sources[key]

    def _shifted(self, macro):
        """Codes at the macro's offset, marks beyond the ends, -1 for what is unknown."""
        if macro in self.shifted:
            return self.shifted[macro]
        own = self._source(macro)
        if not macro.absolute:
            target = self.position + macro.offset
        elif macro.offset < 0:
            target = self.length + macro.offset
        else:
            target = np.full(self.n_tokens, macro.offset - 1)
        self.shifted[macro] = codes = own.take(self.start + target, mode="clip")
        codes[(target < 0) | (target >= self.length)] = -1
        if self.outside == "drop":
            return codes
        before = np.flatnonzero(target < 0)
        after = np.flatnonzero(target >= self.length)
        self.steps[macro] = {}
        for rows, distance, sign in (
            (before, -target[before], "-"),
            (after, target[after] - self.length[after] + 1, "+"),
        ):
            steps = np.unique(distance)
            self.steps[macro][sign] = set(steps.tolist())
            for step in steps:
                string = mark(macro, sign, step, self.outside)
                codes[rows[distance == step]] = self._codes([string])[0]
        return codes

    def base(self, templates):
        """Number of codes once all macros of the templates have been read."""
        for template in templates:
            for macro in template.macros:
                self._shifted(macro)
        return max(len(self.vocabulary), 1)

    def keys(self, template, base, tables, learn=False):
        """One integer a token for the combination of all macros; -1 if any is unknown."""
        codes = [self._shifted(macro) for macro in template.macros]
        return combine(codes, self.n_tokens, base, tables, learn)

    def _ranks(self, macro, base):
        """The codes that a macro has here, the rank of each, -1 for others; of each token."""
        if macro not in self.ranks:
            codes, ranks = self._shifted(macro), np.full(base + 1, -1, dtype=np.int64)
            ranks[codes] = 0  # the last one is that of the unknown
            here = np.flatnonzero(ranks[:base] == 0)
            ranks[here], ranks[base] = np.arange(here.size), -1
            self.ranks[macro] = here, ranks, ranks[codes]
        return self.ranks[macro]

    def _few(self, template, base):
        """The ranks of all macros, and their numbers, if a table can have all combinations."""
        if template.macros and base < self.n_tokens:
            here, ranks, own = zip(*(self._ranks(m, base) for m in template.macros), strict=True)
            sizes = [codes.size for codes in here]
            if np.prod(sizes, dtype=float) < _FEW * self.n_tokens:
                return here, ranks, _cells(own, sizes), sizes
        return None

    def find(self, template, base, features):
        """Which of the learned features of a template each token has, -1 for none."""
        is_small = features.keys.size < _FEW * self.n_tokens
        if len(template.macros) > 1 and is_small and (few := self._few(template, base)):
            _, ranks, cells, sizes = few
            codes = decode_keys(features.keys, features.tables, base)
            codes = [rank[code] for rank, code in zip(ranks, codes, strict=True)]
            places = np.full(int(np.prod(sizes)) + 1, -1, dtype=np.int32)
            places[_cells(codes, sizes)] = np.arange(features.keys.size)
            places[-1] = -1
            return places[cells]
        return _position(features.keys, self.keys(template, base, features.tables))

    def count(self, template, base) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the macros, one row a combination that occurs, and how many tokens have it."""
        if few := self._few(template, base):
            here, _, cells, sizes = few
            number = np.bincount(cells + 1)[1:]
            found = np.flatnonzero(number)
            ranks = np.unravel_index(found, sizes)
            codes = [own[rank] for own, rank in zip(here, ranks, strict=True)]
            return np.stack(codes, axis=1), number[found]
        tables = [None] * len(template.macros)
        keys, number = np.unique(self.keys(template, base, tables, True), return_counts=True)
        known = keys >= 0
        codes = decode_keys(keys[known], tables, base)
        return np.stack(codes, axis=1)[:, : len(template.macros)], number[known]


def combine(codes: list, n: int, base: int, tables: list, learn: bool) -> np.ndarray:
    """One integer per token for the codes of all macros, -1 if any is unknown."""
    # Combinations too many for 62 bits are compacted: their sorted keys are kept in `tables`.
    if not codes:
        return np.zeros(n, dtype=np.int64)
    keys, bound = codes[0], base
    for q, own in enumerate(codes[1:], start=1):
        if bound > _LARGEST_KEY // base:
            if learn:
                table = np.unique(keys[keys >= 0])
                tables[q] = table if tables[q] is None else np.union1d(tables[q], table)
            keys, bound = _position(tables[q], keys).astype(np.int64), tables[q].size
        unknown = (keys | own) < 0
        keys = keys * base + own
        keys[unknown] = -1
        bound *= base
    return keys


def _cells(ranks, sizes):
    """Cells of a table of all combinations; -1 where a rank is."""
    cells, unknown = ranks[0], ranks[0]
    for rank, size in zip(ranks[1:], sizes[1:], strict=True):
        cells, unknown = cells * size + rank, unknown | rank
    cells[unknown < 0] = -1
    return cells


def own_token(macro):
    """The macro at its own token, whatever its offset: what it gives is coded once."""
    return macro._replace(offset=0, absolute=False)


def mark(macro, sign: str, step: int, outside: str) -> str:
    """Return the string of a macro `step` tokens before the first or after the last one."""
    if outside == "mark":
        return f"_B{sign}{step}"
    return _result(macro, f"_x{sign}{step if step <= 4 else '#'}")


def order_codes(templates, results: dict, steps: dict, vocabulary: dict, outside: str) -> int:
    """Give all strings the codes that a coder gives them which sees all tokens at once."""
    for template in templates:
        for macro in template.macros:
            for string in results.pop(own_token(macro), ()):
                vocabulary.setdefault(string, len(vocabulary))
            for sign, found in steps.get(macro, {}).items():
                for step in sorted(found):
                    vocabulary.setdefault(mark(macro, sign, step, outside), len(vocabulary))
    return max(len(vocabulary), 1)


def _position(table, keys):
    """The place of each key in a sorted table, -1 for others."""
    if table.size == 0:
        return np.full(keys.size, -1, dtype=np.int64)
    if table.size > _FEW * keys.size:  # whatever is made of the whole table would take longer
        places = np.minimum(np.searchsorted(table, keys), table.size - 1)
        return np.where(table[places] == keys, places, -1)
    if table[-1] < keys.size:  # keys are few: by a table of all
        places = np.full(table[-1] + 2, -1, dtype=np.int32)
        places[table] = np.arange(table.size)
        return places[np.minimum(keys, table[-1] + 1)]
    # A table of hashes finds most; the keys whose slots others took are searched for.
    shift = np.uint64(61 - table.size.bit_length())
    slots, own = ((k.astype(np.uint64) * _GOLDEN >> shift).astype(np.intp) for k in (table, keys))
    places = np.zeros(2 ** int(64 - shift), dtype=np.int32)
    places[slots] = np.arange(table.size)
    found = places[own]
    found[table[found] != keys] = -1
    rest, lost = np.flatnonzero(found < 0), np.flatnonzero(table[places[slots]] != table)
    if lost.size:
        near = lost[np.minimum(np.searchsorted(table[lost], keys[rest]), lost.size - 1)]
        found[rest] = np.where(table[near] == keys[rest], near, -1)
    return found


def _result(macro, string):
    if macro.command != "x":
        found = search(python_regex(macro.regex), string)
        if macro.command == "t":
            string = "false" if found is None else "true"
        else:
            string = "" if found is None else found.group()
    return string.lower() if macro.lower else string


# Counts of each template in the parts of a corpus, which add up.


class TemplateCounts:
    """Counts of each combination of strings, by the text around the macros."""

    def __init__(self, templates: tuple, tokens, source: Coder) -> None:
        self.templates, self.tokens = templates, tokens.none()
        self.vocabulary, self.rows = source.vocabulary, {}
        for kind, own in enumerate(templates):
            base = source.base(own)
            for texts, members in by_text(own).items():
                self.rows[kind, texts] = [source.count(template, base) for template in members]
        self.results, self.steps = source.results, source.steps
        #: Of n-grams of characters, where a transformer counts them.
        self.grams = Counter()

    def add(self, other: TemplateCounts) -> None:
        """Add those of the next part."""
        n, given = len(self.tokens.values), len(other.tokens.values)
        if n != given:
            raise ValueError(f"X has {given} columns, but before {n}")
        if self.tokens.names != other.tokens.names:
            names, other_names = self.tokens.names, other.tokens.names
            raise ValueError(f"X has the columns {other_names}, but before {names}")
        if self.tokens.are_words != other.tokens.are_words:
            raise ValueError("X has tokens that are words, and others that are tuples")
        self.grams.update(other.grams)
        codes = self.vocabulary
        place = np.array(
            [codes.setdefault(string, len(codes)) for string in other.vocabulary], dtype=np.int64
        )
        for key, found in other.results.items():
            self.results.setdefault(key, {}).update(found)
        for macro, found in other.steps.items():
            mine = self.steps.setdefault(macro, {"-": set(), "+": set()})
            for sign, steps in found.items():
                mine[sign] |= steps
        for key, pieces in other.rows.items():
            mine = self.rows.setdefault(key, [])
            mine += [(place[rows], number) for rows, number in pieces]
            # Joined when there are twice as many as the last time, so that all this stays linear.
            if sum(len(rows) for rows, _ in mine[1:]) > len(mine[0][0]):
                mine[:] = [_joined(mine)]

    def keys(self, kind: int, texts: tuple, place, base: int, tables: list) -> tuple:
        """Keys of all combinations, and how often each occurs; `place` has the codes of strings."""
        rows, number = _joined(self.rows[kind, texts])
        codes = list(place[rows].T)
        keys = combine(codes, len(rows), base, tables, True)
        order = np.argsort(keys)
        return keys[order], number[order]


def _joined(pieces):
    if len(pieces) == 1:
        return pieces[0]
    rows, numbers = zip(*pieces, strict=True)
    return _distinct(np.concatenate(rows), np.concatenate(numbers))


def _distinct(rows, numbers):
    """Each row once, and the sum of its numbers."""
    if not rows.shape[1]:
        return rows[:1], numbers.sum(keepdims=True)[: len(rows)]
    order = np.lexsort(rows.T)
    rows = rows[order]
    is_first = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)]
    sums = np.add.reduceat(numbers[order], np.flatnonzero(is_first)) if len(rows) else numbers
    return rows[is_first], sums


# Names of the features that templates expand to, made when they are asked for.


class TemplateNames(FeatureNames):
    """The templates with their macros replaced."""

    def __init__(
        self, vocabulary: FeatureNames, features: tuple, constant: str | None = None, join: str = ""
    ) -> None:
        self._vocabulary, self._features, self._constant = vocabulary, features, constant
        #: What stands between strings that are joined, and has a backslash within them.
        self._join = join

    def __len__(self) -> int:
        return self._features[2] + (self._constant is not None)

    def strings(self) -> list[str]:
        """All names."""
        first = [] if self._constant is None else [self._constant]
        return [*first, *self.at(np.arange(self._features[2]))]

    def at(self, columns: np.ndarray) -> list[str]:
        """Names of sorted columns, the constant left out."""
        codes = np.asarray(self._vocabulary)
        learned, base, _ = self._features
        names = np.empty(columns.size, dtype=object)
        for own in learned:
            texts = own.texts
            start, stop = np.searchsorted(columns, [own.first, own.first + own.keys.size])
            if len(texts) == 1:
                names[start:stop] = texts[0]
                continue
            keys = own.keys[columns[start:stop] - own.first]
            parts = [codes[code] for code in decode_keys(keys, own.tables, base)]
            if self._join and len(parts) > 1:
                special = re.compile(rf"[\\{self._join}]")
                parts = [[special.sub(r"\\\g<0>", text) for text in part] for part in parts]
            names[start:stop] = [
                "".join(a + b for a, b in zip(texts, row, strict=False)) + texts[-1]
                for row in zip(*parts, strict=True)
            ]
        return names.tolist()


def decode_keys(keys, tables, base):
    """Codes of each macro from combined keys: the inverse of the vectorizer's coder."""
    codes = []
    for table in reversed(tables[1:]):
        keys, last = np.divmod(keys, base)
        codes.append(last)
        if table is not None:
            keys = table[keys]
    return [keys, *reversed(codes)]


class _Features(NamedTuple):
    """Learned features of templates of one text (templates without identifiers share it)."""

    texts: tuple  # text around the macros
    tables: list  # per combination step that was compacted, the sorted keys; else None
    keys: np.ndarray  # sorted keys of the known features
    first: int  # column of the first


def _has_edge_features(vectorizer):
    return bool(getattr(vectorizer, "_edge", None))


class ExpandedTemplates(RaggedTransformer, BaseEstimator):
    """Base of transformers whose features are templates, expanded over columns of tokens.

    Subclasses have `_read_both`, which checks the parameters and returns the templates and the
    columns of all tokens of X.
    """

    outside = "mark"

    def _read(self, X, fitted=None):
        """The columns of all tokens."""
        return read_columns(X, self.sequence_id, self.columns, fitted)

    @property
    def n_columns_(self) -> int:
        """Number of columns of a token."""
        check_is_fitted(self)
        return len(self._tokens.values)

    def fit_transform(self, X: SamplesLike, y: Any = None) -> RaggedArray | np.ndarray:
        """Learn the features and transform.

        Parameters
        ----------
        X : list of sequences of str or of tuples of str, RaggedArray of str, or data frame
            The columns of every token; a str is one column.
        y : object, default=None
            Ignored.

        Returns
        -------
        RaggedArray or ndarray of object
            As :meth:`transform`.

        Raises
        ------
        ValueError, TypeError
            If a template is malformed or names a missing column, or tokens have different numbers
            of columns; names the line, or the sequence and the token.
        """
        templates, tokens, source = self._read_training(X)
        self._fit_counts(self._count(templates, tokens, source))
        return self._expand(source, tokens.offsets)

    def _read_training(self, X):
        """Check all parameters; return templates of nodes and of edges, and the tokens."""
        check_integers(self, min_count=1)
        templates, tokens = self._read_both(X)
        node_templates = [t for t in templates if "U" in t.kinds]
        edge_templates = [t for t in templates if "B" in t.kinds and t.macros]
        return (node_templates, edge_templates), tokens, Coder(tokens, {}, True, self.outside)

    def _count_part(self, X):
        """Count the strings in a part of the training sequences: see :func:`fit_vectorizer`."""
        return self._count(*self._read_training(X))

    def _count(self, templates, tokens, source):
        return TemplateCounts(templates, tokens, source)

    def _fit_counts(self, counts):
        """Learn from the counts of all parts."""
        vocabulary, features = {}, [None, None]
        for kind, templates in enumerate(counts.templates):
            if kind == 1 and not templates:
                continue
            base = order_codes(templates, counts.results, counts.steps, vocabulary, self.outside)
            place = [vocabulary.get(string, -1) for string in counts.vocabulary]
            place, learned, first = np.array(place, dtype=np.int64), [], 0
            for texts, members in by_text(templates).items():
                tables = [None] * len(members[0].macros)
                keys, number = counts.keys(kind, texts, place, base, tables)
                if len(members) > 1 and any(table is not None for table in tables):
                    raise ValueError(
                        f"template {members[0].line!r}: too many combinations to share one name; "
                        "give the templates identifiers (U01:, U02:)"
                    )
                keys = keys[(keys >= 0) & (number >= self.min_count)]
                learned.append(_Features(texts, tables, keys, first))
                first += keys.size
            features[kind] = (learned, base, first)
        self.vocabulary_, self.n_features_out_ = vocabulary, features[0][2]
        self._node, self._edge = counts.templates
        self._node_features, self._edge_features = features
        strings, edge_names = VocabularyNames(vocabulary), None
        if features[1] is not None:
            edge_names = TemplateNames(strings, features[1], "B")
        self._names = TemplateNames(strings, features[0]), edge_names
        self._tokens, self._outside = counts.tokens, self.outside

    def __getstate__(self):
        state = super().__getstate__()
        names = state.get("_names", (None,))[0]
        if names is not None and names._vocabulary.positions() is state["vocabulary_"]:
            state = {name: value for name, value in state.items() if name != "vocabulary_"}
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "_names" in state and "vocabulary_" not in state:
            self.vocabulary_ = self._names[0]._vocabulary.positions()

    def transform(self, X: SamplesLike) -> RaggedArray | np.ndarray:
        """Expand the templates on new sequences; features not seen in fit are ignored.

        Parameters
        ----------
        X : list of sequences of str or of tuples of str, RaggedArray of str, or data frame
            The columns of every token; a str is one column.

        Returns
        -------
        RaggedArray or ndarray of object
            CSR features of all tokens; with ``B`` templates that have macros one pair (features,
            edge features) per sequence, the first edge feature being constant.
        """
        check_is_fitted(self)
        tokens = self._read(X, self._tokens)
        source = Coder(tokens, self.vocabulary_, False, self._outside)
        return self._expand(source, tokens.offsets)

    def unknown_share(self, X: SamplesLike) -> float:
        """Fraction of the features of new sequences that fit has not learned, to watch for drift.

        Parameters
        ----------
        X : list of sequences, RaggedArray or data frame
            As for :meth:`transform`.

        Returns
        -------
        float
            From 0 (all are known) to 1; NaN without tokens.
        """
        check_is_fitted(self)
        tokens = self._read(X, self._tokens)
        source = Coder(tokens, self.vocabulary_, False, self._outside)
        known, n = self._known(source)
        return float(1.0 - known / n) if n else math.nan

    def _known(self, source):
        """How many features of all tokens fit has learned, and how many there are."""
        found = _found(source, self._node, *self._node_features)
        return np.count_nonzero(found >= 0), found.size

    def _expand(self, source, offsets):
        """The features of all tokens, of the edges before them where templates make some."""
        names, node = self._names, _matrix(source, self._node, *self._node_features)
        if not self._edge:
            return RaggedArray._of_parts(node, offsets, names[0])
        edge = _matrix(source, self._edge, *self._edge_features)
        constant = sparse.csr_matrix(np.ones((edge.shape[0], 1)))
        node, edge = map(as_configured, (node, sparse.hstack([constant, edge], format="csr")))
        # The features of the edge between t - 1 and t are those of its second token.
        pairs = [(node[start:stop], edge[start + 1 : stop]) for start, stop in pairwise(offsets)]
        return with_names(object_array(pairs), *names)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the node features, such as ``lower[-1]=the``, or templates with macros replaced.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_columns,)
            The names.
        """
        check_is_fitted(self)
        return np.asarray(self._node_names())

    def _node_names(self):
        return self._names[0]

    @available_if(_has_edge_features)
    def get_edge_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the edge features, if there is a ``B`` template with macros.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_edge_features,)
            "B" for the constant, then the templates with their macros replaced.
        """
        strings = VocabularyNames(self.vocabulary_)
        return np.asarray(TemplateNames(strings, self._edge_features, "B"))


class TemplateVectorizer(ExpandedTemplates):
    r"""Expand feature templates over the columns of tokens, as CRF++ and Wapiti do.

    The strings of each column are coded by integers once; a template then combines arrays of codes,
    without Python code per token and template. Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    templates : str, Path or list
        The text of a template file; a Path to one; or a list of pairs (offset, column), of tuples
        of pairs for combinations, and of strings in the file syntax. Macros are ``%x``, ``%t`` and
        ``%m``; the upper-case forms (``%X``, ``%T``, ``%M``) lower-case their result. ``B`` lines
        are accepted, although a chain always has transitions. A ``B`` line with macros makes them
        depend on the tokens: the output is then one pair (features, edge features) per sequence,
        for ``Chain(edge_features=True)``. A ``U`` line without macros is a feature of every token.
    outside : {"mark", "wapiti", "drop"}, default="mark"
        Value of a macro beyond an end of the sequence. "mark": ``_B-1``, ``_B+2`` and so on, as in
        CRF++, hidden from regular expressions. "wapiti": Wapiti's marks, ``_x-1`` to ``_x-4`` and
        ``_x-#`` beyond, which ``%t`` and ``%m`` match like any token. "drop": no feature, as in
        CRFsuite's tutorials.
    min_count : int, default=1
        Drop features that occur in fewer training tokens.
    sequence_id : str, default=None
        If X is a pandas or polars data frame, or a list with one per sequence: its column of
        sequence ids. The other columns are the token's, in order.
    columns : list of str, default=None
        If X is a data frame: its columns to use, in the order in which templates count them;
        default all but `sequence_id`.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Codes of strings.
    n_features_out_ : int
        Number of columns of the node features.
    n_columns_ : int
        Number of columns of a token.

    See Also
    --------
    skstruct.preprocessing.SequenceVectorizer : Features from dicts and lists of attributes.
    skstruct.preprocessing.make_sequence_union : Makes a union with names from the types.
    skstruct.datasets.load_conll : Reads a file of columns.

    Notes
    -----
    Template files are read as CRF++ and Wapiti read them: ``%x[+1,0]`` is ``%x[1,0]``, Wapiti's
    ``%x[@1,0]`` and ``%x[@-1,0]`` are the first and the last token, a ``#`` at the beginning of a
    line or after a space begins a comment. Regular expressions support ``. * ? ^ $`` and Wapiti's
    classes; a dot is a character, not a byte, and upper-case macros lower-case all of Unicode. A
    string that could keep a pattern with many ``*`` busy for more than about a second raises
    ValueError.

    Examples
    --------
    >>> from skstruct.preprocessing import TemplateVectorizer
    >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
    >>> vectorizer = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB").fit(X)
    >>> sorted(vectorizer.get_feature_names_out().tolist())
    ['U0:He', 'U0:runs', 'U1:PRP/VBZ', 'U1:_B-1/PRP']
    """

    def __init__(
        self,
        templates: str | Path | list,
        *,
        outside: Literal["mark", "wapiti", "drop"] = "mark",
        min_count: int = 1,
        sequence_id: str | None = None,
        columns: Any = None,
    ) -> None:
        self.templates = templates
        self.outside = outside
        self.min_count = min_count
        self.sequence_id = sequence_id
        self.columns = columns

    @staticmethod
    def read_templates(path: PathLike) -> str:
        """Read a template file.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        str
            Its text, for `templates`.
        """
        return read_text(path)

    def write_templates(self, path: PathLike) -> None:
        """Write the templates as a file that CRF++ and Wapiti read.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        lines = [template.line for template in self._parse()]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _parse(self):
        if isinstance(self.templates, Path):
            return parse(self.read_templates(self.templates), str(self.templates))
        if isinstance(self.templates, str):
            if not self.templates.strip():
                raise ValueError(
                    "templates is empty: it has one template per line, for instance U:%x[0,0] for "
                    "the token itself"
                )
            if _is_file_name(self.templates):
                raise ValueError(
                    f"templates is the text of templates, got {self.templates!r}; to read a file "
                    f"pass Path({self.templates!r})"
                )
            return parse(self.templates)
        if isinstance(self.templates, Iterable) and not isinstance(self.templates, bytes):
            return from_tuples(self.templates)
        raise TypeError(f"templates must be a str, a Path or a list, got {self.templates!r}")

    def _read_both(self, X):
        if self.outside not in ("mark", "wapiti", "drop"):
            raise ValueError(f"outside must be 'mark', 'wapiti' or 'drop', got {self.outside!r}")
        templates, tokens = self._parse(), self._read(X)
        _check_columns(templates, tokens)
        return templates, tokens


def _is_file_name(text):
    """Return whether a text cannot be meant as templates: one line that refers to no token."""
    if "\n" in text or "%" in text or text.lstrip().startswith("#"):
        return False
    return not re.fullmatch(r"[UuBb*][\w:-]*", text.strip()) or os.path.isfile(text)


def _check_columns(templates, tokens):
    for template in templates:
        for macro in template.macros:
            if macro.column >= len(tokens.values):
                hint = "; for one sequence of tuples pass [x]" if tokens.are_words else ""
                raise ValueError(
                    f"template {template.line!r}: column {macro.column} is out of range, "
                    f"tokens have {len(tokens.values)}{hint}"
                )


def _found(source, templates, learned, base, n_features):
    """The known feature of each template and token, -1 for others."""
    by_texts = {own.texts: own for own in learned}
    found = np.full((len(templates), source.n_tokens), -1, dtype=np.int32)
    for row, template in zip(found, templates, strict=True):
        own = by_texts[template.texts]
        position = source.find(template, base, own)
        np.add(position, own.first, out=row, where=position >= 0, casting="same_kind")
    return found


def _matrix(source, templates, learned, base, n_features):
    """CSR matrix with a 1 for the known feature of each token and template."""
    found = _found(source, templates, learned, base, n_features)
    found = np.ascontiguousarray(found.T)
    used = found >= 0
    indptr = ends_of(np.count_nonzero(used, axis=1))
    indices = found[used]
    shape = source.n_tokens, n_features
    matrix = sparse.csr_matrix((np.ones(indices.size), indices, indptr), shape)
    matrix.sum_duplicates()
    return matrix

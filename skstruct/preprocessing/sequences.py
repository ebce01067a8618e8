"""SequenceVectorizer: sequences of feature dicts or attribute lists to sparse features."""

from __future__ import annotations

import math
import reprlib
import warnings
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import copy
from functools import partial
from importlib import import_module
from itertools import accumulate, chain, compress, pairwise, repeat
from numbers import Integral, Number
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import check_integer
from ..core.jit.kernels import kernel
from ..core.offsets import ends_of
from ..core.typing import SamplesLike
from ..data.matrices import csr_from_parts
from ..data.names import VocabularyNames
from ..data.ragged import RaggedArray
from ..shards.packing import pieces_of, relocated
from .columns import frame_columns, is_frame, table_names, token_lists, values_of
from .ragged_transformer import RaggedTransformer, check_integers, check_sequence, sequences_of

# Counts of named features in the parts of a corpus, which add up.


class NameCounts:
    """In how many tokens each feature occurs."""

    def __init__(self, names: dict, vector_lengths: dict, has_text: bool = False) -> None:
        self.names, self.vector_lengths, self.has_text = names, vector_lengths, has_text

    def add(self, other: NameCounts) -> None:
        """Add those of the next part."""
        self.has_text |= other.has_text
        for name, length in other.vector_lengths.items():
            before = self.vector_lengths.setdefault(name, length)
            if before != length:
                raise ValueError(
                    f"X: {name!r} is a list of {length} numbers, before it had {before}"
                )
        for name, n in other.names.items():
            self.names[name] = self.names.get(name, 0) + n


# Features of one token as (name, value) pairs, from what CRFsuite's wrappers take.

_NUMBERS = (Number, np.bool_)
_NO_NUMBERS = (complex, np.complexfloating, np.timedelta64)
_NONE = repeat(-1)  # codes of names that are not known
_OF_TOKENS = (
    "turn tokens into features first, by SequenceVectorizer(features=function) or by a function of "
    "your own before a fitted one; TemplateVectorizer takes tokens as they are (X is a list of "
    "sequences: for one pass [x])"
)
# Dicts nested deeper than this contain themselves.
_DEEPEST = 50


def _is_number(value):
    return isinstance(value, _NUMBERS) and not isinstance(value, _NO_NUMBERS)


class TokenReader:
    """Reader of sequences of tokens, which tracks its position for messages."""

    def __init__(self, separator: str, vector_lengths: dict, fitted: bool):
        self.separator = separator
        self.vector_lengths = vector_lengths
        self.fitted = fitted
        self.sequence, self.token = 0, 0
        #: Whether `features` gets, or may get, a str.
        self.has_text = False

    def read(self, sequences, lengths: list) -> Iterator:
        """Every token of every sequence."""
        for self.sequence, sequence in enumerate(sequences):
            check_sequence(sequence, self.sequence)
            lengths.append(len(sequence))
            for self.token, token in enumerate(sequence):
                yield self._token(token)

    def read_codes(self, sequences, lengths: list, code: Callable, codes: Callable) -> tuple:
        """Codes of the features of all tokens (-1: left out), their values, and ends of tokens."""
        found, ends, places, numbers = array("i"), [0], [], []
        append, separator = found.append, self.separator

        def add(name, number):
            if number != 0.0 and (j := code(name)) is not None:
                if number != 1.0:
                    places.append(len(found))
                    numbers.append(number)
                append(j)

        def walk(prefix, mapping, depth):
            for key, value in mapping.items():
                kind = type(value)
                if type(key) is not str:
                    key = self._text(key, "the name of a feature")
                if kind is str:
                    if (j := code(f"{prefix}{key}{separator}{value}")) is not None:
                        append(j)
                elif kind is bool:
                    if value and (j := code(prefix + key)) is not None:
                        append(j)
                elif kind is float or kind is int:
                    add(prefix + key, self._number(prefix + key, value))
                elif kind is dict and depth < _DEEPEST:
                    walk(f"{prefix}{key}{separator}", value, depth + 1)
                else:
                    for feature in self._entry(prefix + key, value, depth):
                        add(*feature)

        for self.sequence, sequence in enumerate(sequences):
            check_sequence(sequence, self.sequence)
            lengths.append(len(sequence))
            if type(sequence) is list and {*map(type, sequence)} == {list}:
                attributes = [*chain.from_iterable(sequence)]
                if {*map(type, attributes)} == {str}:
                    start = len(found)
                    found.extend(codes(attributes))
                    ends += accumulate(map(len, sequence), initial=start)
                    del ends[-len(sequence) - 1]
                    continue
            for self.token, token in enumerate(sequence):
                kind = type(token)
                if kind is dict:
                    walk("", token, 0)
                else:
                    for feature in self._token(token):
                        add(*feature)
                ends.append(len(found))
        walk = None  # it refers to itself, and would keep all this until garbage is collected
        values = np.ones(len(found))
        if places:
            values[places] = numbers
        return _known(np.array(found, dtype=np.int32), values, np.array(ends))

    def _token(self, token):
        if isinstance(token, Mapping):
            return self._mapping("", token, 0)
        if isinstance(token, (list, tuple, Set, np.ndarray)):
            return ((self._text(attribute, "an attribute"), 1.0) for attribute in token)
        hint = ""
        if isinstance(token, (str, bytes)):
            hint = (" as in fit" if self.fitted else "") + f": {_OF_TOKENS}"
        raise TypeError(
            f"{self._where()} is of type {type(token).__name__}; a dict of features or a list of "
            f"attribute strings was expected{hint}"
        )

    def _where(self):
        return f"X: sequence {self.sequence}, token {self.token}"

    def _text(self, value, what):
        if isinstance(value, str):
            return str.__str__(value)  # members of an Enum have another str()
        if isinstance(value, bytes):
            # Bytes that are no UTF-8 stay distinct, as they are for CRFsuite.
            return value.decode("utf-8", errors="surrogateescape")
        hint = ""
        if isinstance(value, (dict, list, tuple)):
            hint = "; lists are nested one level too deep, or a list of samples stands for one"
        found = type(value).__name__
        raise TypeError(f"{self._where()}: {what} is of type {found}, not str{hint}")

    def _number(self, name, value):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(
                f"{self._where()}: the value of {name!r} is {reprlib.repr(value)}; a finite number "
                "was expected (leave out what is missing)"
            )
        return number

    def _mapping(self, prefix, mapping, depth):
        if depth > _DEEPEST:
            raise ValueError(
                f"{self._where()}: dicts are nested more than {_DEEPEST} deep: does one contain "
                "itself?"
            )
        for key, value in mapping.items():
            yield from self._entry(prefix + self._text(key, "the name of a feature"), value, depth)

    def _entry(self, name, value, depth):
        """The features of one value."""
        if _is_number(value):
            yield name, self._number(name, value)
        elif isinstance(value, (str, bytes)):
            yield f"{name}{self.separator}{self._text(value, name)}", 1.0
        elif isinstance(value, Mapping):
            yield from self._mapping(name + self.separator, value, depth + 1)
        elif not sparse.issparse(value) and (
            isinstance(value, (list, tuple, Set)) or getattr(value, "ndim", 0) == 1
        ):
            yield from self._items(name, value, depth)
        else:
            self._refuse(name, value)

    def _items(self, name, items, depth):
        items = items.tolist() if isinstance(items, np.ndarray) else items
        if len(items) and not isinstance(items, Set) and all(map(_is_number, items)):
            self._check_length(name, len(items))
            for q, value in enumerate(items):
                yield f"{name}[{q}]", self._number(name, value)
            return
        for item in items:
            if isinstance(item, (str, bytes)):
                yield f"{name}{self.separator}{self._text(item, name)}", 1.0
            elif isinstance(item, Mapping):
                yield from self._mapping(name + self.separator, item, depth + 1)
            else:
                self._refuse(name, item, "an item of ")

    def _check_length(self, name, length):
        expected = self.vector_lengths.get(name, length)
        if not self.fitted:
            self.vector_lengths[name] = expected
        if expected != length:
            raise ValueError(
                f"{self._where()}: {name!r} is a list of {length} numbers, before it had {expected}"
            )

    def _refuse(self, name, value, what=""):
        raise TypeError(
            f"{self._where()}: {what}the value of {name!r} is of type {type(value).__name__}; str, "
            "number, bool, a dict of these, a list of str or a list of numbers was expected"
        )


# Codes of the strings of many lists. They are joined to a text, in which a kernel finds them; a
# dict waits for memory, one string after another.

_MANY = 2**14  # tokens
_END = "\n"


@kernel
def code_strings(text, n_learned, seed, slots, firsts, stops, codes):
    """Code strings by hashes, new ones of the first `n_learned`; -1 if too many hashes collide."""
    n, h = 0, seed
    for t in range(text.size):
        byte = np.int64(text[t])
        if byte == 10:
            codes[n], stops[n + 1] = h ^ (h >> 15), t + 1
            n, h = n + 1, seed
        else:
            h = ((h ^ byte) * 0x01000193) & 0x7FFFFFFF  # FNV-1a
    n_known, n_tries = 0, 64 * n
    for i in range(n):  # alone, so that a processor waits for the memory of several strings at once
        h, start, size = np.int64(codes[i]), stops[i], stops[i + 1] - stops[i]
        slot, codes[i] = h & (slots.size - 1), -1
        while codes[i] < 0 and slots[slot]:
            if slots[slot] >> 32 == h:
                code = (slots[slot] & 0xFFFFFFFF) - 1
                first, q = stops[firsts[code]], 0
                while q < size and text[first + q] == text[start + q]:
                    q += 1
                if q == size:
                    codes[i] = code
            slot, n_tries = (slot + 1) & (slots.size - 1), n_tries - 1
        if n_tries < 0:
            return -1
        if codes[i] < 0 and i < n_learned:
            slots[slot] = (h << 32) + n_known + 1
            firsts[n_known] = i
            codes[i], n_known = n_known, n_known + 1
    return n_known


def _code_lists(sequences, lengths, names):
    """What `read_codes` returns, and all strings, for many tokens in lists of str; else None."""
    if not isinstance(sequences, list) or {*map(type, sequences)} != {list}:
        return None
    own_lengths = [*map(len, sequences)]
    if sum(own_lengths) < max(_MANY, len(names or ()) // 8):  # before anything is done per name
        return None
    if names and [*names.values()] != [*range(len(names))]:  # somebody has set another vocabulary
        return None
    known = [*(names or ())]
    found, sizes, first = [], array("q"), 0
    seed = hash(_END) & 0x7FFFFFFF  # another one in each process
    while first < len(sequences):
        n_tokens, stop = max(2 * _MANY, len(known) // 4), first
        while stop < len(sequences) and n_tokens > 0:
            n_tokens, stop = n_tokens - own_lengths[stop], stop + 1
        tokens = [*chain.from_iterable(sequences[first:stop])]
        if {*map(type, tokens)} - {list}:
            return None
        sizes.extend(map(len, tokens))
        strings, n = [*known, *chain.from_iterable(tokens)], len(known)
        try:
            text = _END.join([*strings, ""])
        except TypeError:  # of what is no str
            return None
        if text.count(_END) != len(strings):
            return None
        text = np.frombuffer(bytearray(text, "utf-8", "surrogatepass"), dtype=np.uint8)
        slots = np.zeros(2 ** (2 * len(strings)).bit_length(), dtype=np.int64)
        firsts, stops = np.zeros((2, len(strings) + 1), dtype=np.int64)
        codes, n_learned = np.empty(len(strings), np.int32), len(strings) if names is None else n
        n_known = code_strings(text, n_learned, seed, slots, firsts, stops, codes)
        if n_known < 0:
            return None
        known += [str.__str__(strings[i]) for i in firsts[n:n_known].tolist()]
        found.append(codes[n:])
        first = stop
    lengths += own_lengths
    found = np.concatenate(found)
    return *_known(found, np.ones(found.size), ends_of(sizes)), known


def _known(found, values, ends):
    """Features without those that have no code."""
    known = found >= 0
    if np.count_nonzero(known) < known.size:
        found, values, ends = found[known], values[known], ends_of(known)[ends]
    return found, values, ends


# Functions of users that make the features of a sentence.


def _function_of(features):
    """The function, given as it is or by its importable name."""
    if callable(features):
        return features
    module, _, name = features.rpartition(".") if isinstance(features, str) else ("", "", "")
    if not module:
        raise TypeError(
            f"features must be a function, or its name as 'module.function', got {features!r}"
        )
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError) as error:  # TypeError: ".module"
        raise ValueError(f"features={features!r} cannot be imported: {error}") from error
    if not callable(function):
        raise TypeError(f"features={features!r} is not a function: {function!r}")
    return function


def _warn_of_file(function):
    """Warn if a file of `function`, which holds its name alone, loads in this program only."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__self__", function)  # the object of a method
    named = function if hasattr(function, "__qualname__") else type(function)
    module, name = getattr(named, "__module__", None), named.__qualname__
    if module == "__main__" or "<" in name:
        warnings.warn(
            "SequenceVectorizer: the saved model will not load in another program. The file holds "
            f"only the name of features, here {module}.{name}: move the function into a module "
            "that ships with the model, and import it from there",
            UserWarning,
            stacklevel=1,  # at one place, and so once
        )


class SequenceVectorizer(RaggedTransformer, BaseEstimator):
    """Turn sequences of feature dicts, or of attribute lists, into a RaggedArray over CSR.

    The input is sklearn-crfsuite's: a sequence is a list of tokens, a token is a dict from names to
    values, or a list (tuple, set) of attribute strings. Features depend on the type of a value:

    ========================  =============================================================
    value                     features
    ========================  =============================================================
    str or bytes              ``name=value``, 1
    number or bool            ``name`` with that value; False and 0 are no entry
    list or set of str        ``name=item`` for each, 1
    dict                      those of its entries, ``name=key`` being the name of each
    list or array of numbers  ``name[0]``, ``name[1]``, ... with these values, for instance
                              a word vector; of one length everywhere
    ========================  =============================================================

    A feature that occurs twice in a token counts twice, as in CRFsuite. Read more in the :ref:`User
    Guide <text_features>`.

    Parameters
    ----------
    features : callable or str, default=None
        A function of your own from a sequence of any kind to the list of its tokens, each a dict
        or a list as above; or its name, "module.function". By default X has the tokens. For models
        that are saved it must be in a module (:ref:`own_features`); saving warns if it is not.
    hashing : bool, default=False
        Hash the names into `n_features` columns (FeatureHasher) instead of keeping a vocabulary.
        No vocabulary is kept then, and there are no names of features: the first batch of a stream
        serves for ``fit``, all further ones for ``transform``.
    n_features : int, default=2**20
        Columns in hashing mode.
    min_count : int, default=1
        Drop features that occur in fewer training tokens.
    separator : str, default="="
        Between name and value; ":" gives the attribute names of sklearn-crfsuite.
    sequence_id : str, default=None
        If X is a pandas or polars data frame, or a list with one per sequence: its column of
        sequence ids. Each other column is then a feature of the token.
    columns : list of str, default=None
        If X is a data frame: its columns to use, default all but `sequence_id`.

    Attributes
    ----------
    vocabulary_ : dict of str to int, or None
        Column of each feature; None with hashing.
    n_features_out_ : int
        Number of columns.

    See Also
    --------
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.preprocessing.make_sequence_union : Makes a union with names from the types.
    skstruct.preprocessing.fit_vectorizer : Fits a vectorizer on parts of a corpus.

    Notes
    -----
    Tokens are read one at a time, without a copy of the input. Features not seen in fit are
    ignored. The output is ragged for any ``transform_output``.

    Examples
    --------
    >>> from skstruct.preprocessing import SequenceVectorizer
    >>> X = [[{"word": "He", "title": True}, {"word": "runs"}], [["word=He"]]]
    >>> vectorizer = SequenceVectorizer().fit(X)
    >>> vectorizer.get_feature_names_out().tolist()
    ['title', 'word=He', 'word=runs']
    >>> vectorizer.transform(X)[1].toarray()
    array([[0., 1., 0.]])

    Features by a function:

    >>> def features(words):
    ...     return [{"word": word, "end": word[-1:]} for word in words]
    >>> vectorizer = SequenceVectorizer(features=features).fit([["He", "runs"]])
    >>> vectorizer.get_feature_names_out().tolist()
    ['end=e', 'end=s', 'word=He', 'word=runs']
    """

    def __init__(
        self,
        *,
        features: Callable | str | None = None,
        hashing: bool = False,
        n_features: int = 2**20,
        min_count: int = 1,
        separator: str = "=",
        sequence_id: str | None = None,
        columns: Any = None,
    ) -> None:
        self.features = features
        self.hashing = hashing
        self.n_features = n_features
        self.min_count = min_count
        self.separator = separator
        self.sequence_id = sequence_id
        self.columns = columns

    def fit_transform(self, X: SamplesLike, y: Any = None) -> RaggedArray:
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
            If X has no tokens, a value has an unsupported type or is not finite (names the sequence
            and the token), or a parameter is out of range.
        """
        reader, lengths = self._training_reader(), []
        sequences = self._sequences(X, reader)
        if self.hashing:
            flat, counts = _hash(reader.read(sequences, lengths), self.n_features), {}
        else:
            flat, counts, column = _count(reader, sequences, lengths)
        if not flat.shape[0]:
            raise ValueError("X has no tokens: every sequence is empty")
        self._fit_counts(NameCounts(counts, reader.vector_lengths, reader.has_text))
        if not self.hashing and [*column] != [*self.vocabulary_]:
            columns = map(column.__getitem__, self.vocabulary_)
            order = np.fromiter(columns, np.int64, len(self.vocabulary_))
            flat = sparse.csr_matrix(flat[:, order])
            flat.sort_indices()
        return self._packed(flat, lengths)

    def _read_once(self, X):
        """Return what takes this one's place in folds, and samples read for it; None if neither."""
        self._training_reader()  # checks
        if type(self) is not SequenceVectorizer or self.hashing or is_frame(X):
            return None
        return SeenColumns(self.min_count), clone(self).set_params(min_count=1).fit_transform(X)

    def _training_reader(self):
        """Check all parameters; return a reader that learns the lengths of vectors."""
        check_integers(self, min_count=1)
        n = self.n_features
        if self.hashing and (not isinstance(n, Integral) or not 1 <= n < 2**31):
            raise ValueError(f"n_features must be an integer from 1 to 2**31 - 1, got {n!r}")
        if not isinstance(self.separator, str):
            raise TypeError(f"separator must be a str, got {self.separator!r}")
        if self.hashing and self.min_count > 1:
            raise ValueError("min_count needs a vocabulary: it does not go with hashing=True")
        return TokenReader(self.separator, {}, False)

    def _count_part(self, X):
        """Count the names in a part of the training sequences: see :func:`fit_vectorizer`."""
        reader, counts = self._training_reader(), {}
        sequences = self._sequences(X, reader)
        if self.hashing:  # nothing is learned but that all can be read
            for token in reader.read(sequences, []):
                deque(token, maxlen=0)
        else:
            counts = _count(reader, sequences, [])[1]
        return NameCounts(counts, reader.vector_lengths, reader.has_text)

    def _fit_counts(self, counts):
        """Learn from the counts of all parts."""
        self._vector_lengths, self._has_text = counts.vector_lengths, counts.has_text
        self.n_features_out_, self.vocabulary_, self._names = self.n_features, None, None
        if not self.hashing:
            names = sorted(name for name, n in counts.names.items() if n >= self.min_count)
            self.n_features_out_ = len(names)
            self.vocabulary_ = dict(zip(names, range(len(names)), strict=True))
            self._names = VocabularyNames(self.vocabulary_)

    def __getstate__(self):
        state = super().__getstate__()
        if self.features is not None:
            # Never the name: a file that is trusted could name any function there is.
            state["features"] = function = _function_of(self.features)
            if "vocabulary_" in state:  # those that are not fitted travel to workers
                _warn_of_file(function)
        names = state.get("_names")
        if names is not None and names.positions() is state["vocabulary_"]:
            state = {name: value for name, value in state.items() if name != "vocabulary_"}
        return state

    def __setstate__(self, state):
        if isinstance(state.get("features"), str):
            raise ValueError("the stored vectorizer is damaged: its features are not a function")
        super().__setstate__(state)
        if state.get("_names") is not None and "vocabulary_" not in state:
            self.vocabulary_ = self._names.positions()
            if len(self.vocabulary_) != self.n_features_out_:
                raise ValueError(
                    "the stored vectorizer is damaged: it has other names than columns"
                )

    def transform(self, X: SamplesLike) -> RaggedArray:
        """Transform sequences; empty ones stay empty.

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
            If a value has an unsupported type or is not finite; names the sequence and the token.
        """
        if "vocabulary_" not in vars(self):  # scikit-learn's look takes longer
            check_is_fitted(self)
        lengths = []
        reader = TokenReader(self.separator, self._vector_lengths, True)
        reader.has_text = self._has_text
        sequences = self._sequences(X, reader)
        if self.vocabulary_ is None:
            flat = _hash(reader.read(sequences, lengths), self.n_features_out_)
        else:
            get = self.vocabulary_.get
            if coded := _code_lists(sequences, lengths, self.vocabulary_):
                *found, _ = coded
            else:
                found = reader.read_codes(sequences, lengths, get, lambda own: map(get, own, _NONE))
            flat = _matrix(*found, self.n_features_out_)
        return self._packed(flat, lengths)

    def _packed(self, flat, lengths):
        return RaggedArray._of_parts(flat, ends_of(lengths), self._names)

    def _sequences(self, X, reader):
        """An iterable of sequences of tokens."""
        columns = self.columns
        if columns is None and reader.fitted:
            columns = getattr(self, "_frame_names", None)
        if is_frame(X):
            values, offsets, names = frame_columns(X, self.sequence_id, columns)
            rows = zip(*map(values_of, values), strict=True)
            tokens = [dict(zip(map(str, names), row, strict=True)) for row in rows]
            sequences = (tokens[start:stop] for start, stop in pairwise(offsets))
        else:
            sequences = sequences_of(X, not reader.fitted)
            names = table_names(sequences, self.sequence_id, columns)
            if names is not None:
                sequences = token_lists(sequences, names, as_dicts=True)
        if not reader.fitted:
            self._frame_names = names
        return sequences if self.features is None else self._tokens_of(sequences, reader)

    def _tokens_of(self, sequences, reader):
        """What the function makes of each sequence, one at a time."""
        function = _function_of(self.features)
        for i, sequence in enumerate(sequences):
            if isinstance(sequence, str):
                if reader.fitted and not reader.has_text:
                    raise ValueError(
                        f"X: sequence {i} is a str, whose tokens would be characters, but fit saw "
                        "lists of tokens; X is a list of sequences: for one sequence pass [x]"
                    )
                reader.has_text = True
            try:
                tokens = function(sequence)
            except Exception as error:
                error.add_note(f"raised by features, of sequence {i} of X")
                if isinstance(error, (TypeError, AttributeError)):
                    error.add_note(
                        "features is called with a whole sequence of tokens and returns one dict "
                        "or list per token"
                    )
                raise
            if not isinstance(tokens, (list, tuple)):
                raise TypeError(
                    "features must return the list of a sequence's tokens, dicts or lists of str: "
                    f"of sequence {i} of X it returned {type(tokens).__name__}"
                )
            yield tokens

    def unknown_share(self, X: SamplesLike) -> float:
        """Fraction of the features of new sequences that fit has not learned, to watch for drift.

        Parameters
        ----------
        X : list of sequences or data frame
            As for :meth:`transform`.

        Returns
        -------
        float
            From 0 (all are known) to 1; NaN without features.

        Raises
        ------
        ValueError
            In hashing mode, where no feature is unknown.
        """
        check_is_fitted(self)
        if self.vocabulary_ is None:
            raise ValueError("SequenceVectorizer(hashing=True) knows no names of features")
        reader = TokenReader(self.separator, self._vector_lengths, True)
        reader.has_text = self._has_text
        tokens = reader.read(self._sequences(X, reader), [])
        known = [name in self.vocabulary_ for token in tokens for name, v in token if v != 0.0]
        return 1.0 - sum(known) / len(known) if known else math.nan

    def restrict(self, support: ArrayLike) -> SequenceVectorizer:
        """Keep some of the features, as DictVectorizer does; not in hashing mode.

        Parameters
        ----------
        support : array-like of bool of shape (n_columns,)
            The columns to keep.

        Returns
        -------
        SequenceVectorizer
            The vectorizer itself.

        Raises
        ------
        ValueError
            In hashing mode, which keeps no names, or if `support` is not a mask of the columns.
        """
        check_is_fitted(self)
        if self.vocabulary_ is None:
            raise ValueError("hashing keeps no feature names: use hashing=False")
        support = np.asarray(support)
        if support.shape != (self.n_features_out_,) or support.dtype != bool:
            raise ValueError(
                f"support must be a mask of {self.n_features_out_} columns, got an array of "
                f"{support.dtype} of shape {support.shape}"
            )
        names = compress(self.vocabulary_, support.tolist())
        self.vocabulary_ = {name: j for j, name in enumerate(names)}
        self.n_features_out_ = len(self.vocabulary_)
        self._names = VocabularyNames(self.vocabulary_)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns; not in hashing mode.

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
        if self.vocabulary_ is None:
            raise ValueError("hashing keeps no feature names: use hashing=False")
        return np.array(list(self.vocabulary_), dtype=object)


def _matrix(indices, values, ends, n_features):
    """Rows of the tokens."""
    n_tokens, kind = ends.size - 1, np.int32 if indices.size < 2**31 else np.int64
    parts = values, indices.astype(kind, copy=False), ends.astype(kind)
    flat = csr_from_parts((n_tokens, n_features), *parts)
    flat.sum_duplicates()
    if np.count_nonzero(flat.data) < flat.data.size:
        flat.eliminate_zeros()
    return flat


def _count(reader, sequences, lengths):
    """A matrix of tokens, and how many tokens have each name, in the order of its columns."""
    if coded := _code_lists(sequences, lengths, None):
        *found, names = coded
        order = sorted(range(len(names)), key=names.__getitem__)
        ranks = np.empty(len(names), dtype=np.int32)
        ranks[order] = np.arange(len(names))
        found[0] = ranks[found[0]]
        seen = dict(zip(map(names.__getitem__, order), range(len(names)), strict=True))
    else:
        seen = defaultdict()
        seen.default_factory = seen.__len__
        code = seen.__getitem__
        found = reader.read_codes(sequences, lengths, code, partial(map, code))
    flat = _matrix(*found, len(seen))
    counts = np.bincount(flat.indices, minlength=len(seen)).tolist()
    return flat, dict(zip(seen, counts, strict=True)), seen


def _hash(tokens, n_features):
    first = next(tokens, None)
    if first is None:
        return sparse.csr_matrix((0, n_features))
    hasher = FeatureHasher(n_features, input_type="pair")
    # Names from bytes that are no UTF-8 have surrogates, which the hasher would not encode.
    pairs = (
        ((name.encode("utf-8", "surrogatepass"), value) for name, value in token)
        for token in chain([first], tokens)
    )
    flat = sparse.csr_matrix(hasher.transform(pairs))
    flat.sum_duplicates()
    return flat


# Vectorizers of parts of the samples, which are read once.


class SeenColumns(RaggedTransformer, BaseEstimator):
    """Keep the features that occur in enough tokens of the training samples."""

    def __init__(self, min_count: int = 1) -> None:
        self.min_count = min_count

    def fit_transform(self, X: RaggedArray, y: Any = None) -> RaggedArray:
        """Learn which features these are; returns the samples with them alone."""
        counts = np.bincount(X.flat.indices, minlength=X.flat.shape[1])
        self.support_ = counts >= self.min_count
        names = compress(X.feature_names.strings(), self.support_.tolist())
        self._names = VocabularyNames({name: j for j, name in enumerate(names)})
        return self.transform(X)

    def transform(self, X: RaggedArray) -> RaggedArray:
        """Return samples with these features alone."""
        columns = np.where(self.support_, np.cumsum(self.support_) - 1, -1).astype(np.int32)
        found = _known(columns[X.flat.indices], X.flat.data, X.flat.indptr)
        return RaggedArray._of_parts(_matrix(*found, len(self._names)), X.offsets, self._names)


# Models without the features that they do not use.


def drop_unused_features(model: Pipeline) -> Pipeline:
    """Copy a fitted pipeline without the features whose weights are all 0.

    Predictions are the same, and files are smaller: after training with an L1 penalty (`l1_ratio`),
    most features have no weight. Read more in the :ref:`User Guide <deployment_guide>`.

    Parameters
    ----------
    model : Pipeline
        A :class:`SequenceVectorizer` without hashing and an estimator on sequences, both fitted.

    Returns
    -------
    Pipeline
        The copy; `model` is unchanged.

    Raises
    ------
    TypeError
        If the steps are not these.
    ValueError
        If the vectorizer hashes.

    See Also
    --------
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.SAGCRF : Conditional random fields, with probabilities.

    Examples
    --------
    >>> from skstruct import SAGCRF
    >>> from skstruct.pipeline import make_pipeline
    >>> from skstruct.preprocessing import SequenceVectorizer, drop_unused_features
    >>> X, y = [[["w=a", "rare"], ["w=b"]], [["w=b"], ["w=a"]]], [["A", "B"], ["B", "A"]]
    >>> model = make_pipeline(SequenceVectorizer(), SAGCRF(l1_ratio=1.0, C=2.0)).fit(X, y)
    >>> small = drop_unused_features(model)
    >>> small[0].get_feature_names_out().tolist()
    ['w=a', 'w=b']
    """
    if not isinstance(model, Pipeline) or len(model) != 2:
        raise TypeError("model must be a Pipeline of a SequenceVectorizer and an estimator")
    vectorizer, estimator = model[0], model[-1]
    if not isinstance(vectorizer, SequenceVectorizer) or not hasattr(estimator, "sparsify"):
        raise TypeError(
            "model must be a Pipeline of a SequenceVectorizer and an estimator with weights, got "
            f"{type(vectorizer).__name__} and {type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    table: Any = estimator.node_weights_
    n = estimator.n_features_in_
    used = table[:n].any(axis=1)
    if not used.any():
        used[:1] = True  # a matrix has a column
    small, weights = copy(model), copy(estimator)
    weights.node_weights_ = table[np.r_[used, np.full(len(table) - n, True)]]
    weights.n_features_in_ = int(used.sum())
    state, vectorizer = vars(vectorizer), clone(vectorizer)
    vars(vectorizer).update(state)
    vectorizer.restrict(used)
    for name in ("_dual", "_stream"):  # of the weights that were
        vars(weights).pop(name, None)
    if "_feature_names" in vars(weights):
        weights._feature_names = vectorizer._names
    small.steps = [(model.steps[0][0], vectorizer), (model.steps[1][0], weights)]
    return small


# A vocabulary from a corpus that does not fit into memory.


def fit_vectorizer(
    vectorizer: Any,
    X: SamplesLike | Iterable,
    *,
    part_size: int = 10_000,
    n_jobs: int | None = None,
) -> Any:
    """Fit a vectorizer on a corpus in parts.

    The columns and their order are those of ``vectorizer.fit`` on the whole corpus: counts are
    summed over the parts before `min_count` drops features. Read more in the :ref:`User Guide
    <scale>`.

    Parameters
    ----------
    vectorizer : SequenceVectorizer or TemplateVectorizer
        Is fitted.
    X : list of sequences, RaggedArray, or iterator of sequences
        Input of ``fit``, except data frames. X is read once; memory holds one part per worker and
        all distinct features.
    part_size : int, default=10000
        Sequences per part.
    n_jobs : int, default=None
        Parts that are counted at the same time, in processes, or by the engine of
        :func:`joblib.parallel_config`.

    Returns
    -------
    vectorizer
        The same object.

    Raises
    ------
    TypeError
        If the vectorizer cannot be fitted in parts.
    ValueError
        If there are no tokens, or ``fit`` does not accept a sequence; names the sequence.

    See Also
    --------
    skstruct.datasets.iter_conll : Goes through the sentences of files.
    skstruct.datasets.pack_shards : Transforms a corpus a shard at a time.

    Examples
    --------
    >>> from skstruct.preprocessing import SequenceVectorizer, fit_vectorizer
    >>> X = [[["he"], ["runs"]], [["he"]], [["she"]]]
    >>> vectorizer = fit_vectorizer(SequenceVectorizer(min_count=2), iter(X), part_size=2)
    >>> vectorizer.get_feature_names_out().tolist()
    ['he']
    """
    if not hasattr(vectorizer, "_fit_counts"):
        raise TypeError(
            "SequenceVectorizer and TemplateVectorizer can be fitted in parts, got a "
            f"{type(vectorizer).__name__}: fit it on a sample of the corpus"
        )
    if is_frame(X):
        raise TypeError("X must be sequences, not a data frame: parts of it would cut sequences")
    part_size = check_integer("part_size", part_size)
    total = None
    for first, counts in _counted(vectorizer, pieces_of(X, part_size), n_jobs):
        if total is None:
            total = counts
        elif counts is not None:
            try:
                total.add(counts)
            except ValueError as error:
                raise ValueError(f"{error} (from sequence {first} on)") from None
    if total is None:
        raise ValueError("X has no tokens: there are no sequences, or every one is empty")
    vectorizer._fit_counts(total)
    return vectorizer


def _counted(vectorizer, pieces, n_jobs):
    """Counts of the parts in their order."""
    backend, _ = get_active_backend()
    lazy = getattr(backend, "supports_return_generator", False)
    # No more than one part a worker waits to be counted.
    parallel = Parallel(
        n_jobs=n_jobs, pre_dispatch="n_jobs", return_as="generator" if lazy else "list"
    )
    return parallel(delayed(_count_one)(vectorizer, *piece) for piece in pieces)


def _count_one(vectorizer, first, part):
    """Counts of one part; None if it has no tokens."""
    if all(hasattr(sequence, "__len__") and len(sequence) == 0 for sequence in part):
        return first, None
    try:
        return first, vectorizer._count_part(part)
    except Exception as error:  # of a function of features any
        raise relocated(error, first) from None

"""Column files: one token a line, white space between columns, a blank line after a sentence."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from ..core.arguments import warn_user
from ..core.text_files import BLANKS, lines_of, name_of, split_line
from ..core.typing import PathLike, RandomStateLike
from ..data.ragged import RaggedArray

# A small annotated corpus that the project generates itself: no text of others is in it.

_COLUMNS = ("word", "pos", "chunk", "entity")

# Names that stand for people, places and organisations alike are what makes the task hard.
_SHARED = "Lincoln Jordan Chelsea Florence Austin Sydney Orlando Madison Houston Paris".split()
_FIRST = "Ada Ben Clara David Eva Felix Greta Hugo Iris Jonas Karla Leo Mona Nils Olga".split()
_LAST = "Berg Costa Dubois Evans Fischer Garcia Hansen Ito Keller Larsen Moreau Novak".split()
_PLACES = "Berlin Oslo Lima Cairo Quito Delhi Porto Turin Bergen Leeds Ghent Basel".split()
_FIRMS = "Acme Borealis Cobalt Dynamo Ember Fulcrum Granite Helix Ionix Juniper Kestrel".split()
_KINDS = "Bank Group Motors Press Systems Airlines".split()
_NOUNS = "report plan deal visit order offer claim study vote result".split()
_ADJECTIVES = "new large final early local private public late".split()
_PAST = "signed opened rejected praised read cancelled described approved".split()
# The same words as the nouns: only their surroundings tell.
_BASE = "report plan order offer claim study visit".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday".split()


class _Writer:
    """Writes random sentences; `unseen` is the fraction of invented names."""

    def __init__(self, rng, unseen):
        self.rng, self.unseen = rng, unseen

    def pick(self, words):
        return words[self.rng.randint(len(words))]

    def name(self, words):
        """A known name, or an invented one with a tail that the known ones do not have."""
        if self.rng.uniform() >= self.unseen:
            return self.pick(words)
        return self.pick(words)[:3] + self.pick(["ela", "ovic", "ford", "stad", "ura", "mont"])

    def person(self):
        if self.rng.uniform() < 0.3:
            return [(self.pick(["Mr.", "Ms.", "Dr."]), "NNP", ""), (self.name(_LAST), "NNP", "PER")]
        if self.rng.uniform() < 0.3:
            return [(self.pick(_SHARED), "NNP", "PER")]
        return [(self.name(_FIRST), "NNP", "PER"), (self.name(_LAST), "NNP", "PER")]

    def organisation(self):
        if self.rng.uniform() < 0.25:
            return [(self.pick(_SHARED), "NNP", "ORG"), (self.pick(_KINDS), "NNP", "ORG")]
        tail = [(self.pick(_KINDS), "NNP", "ORG")] if self.rng.uniform() < 0.6 else []
        return [(self.name(_FIRMS), "NNP", "ORG"), *tail]

    def place(self):
        words = _SHARED if self.rng.uniform() < 0.35 else _PLACES
        return [(self.name(words), "NNP", "LOC")]

    def thing(self):
        adjective = [(self.pick(_ADJECTIVES), "JJ", "")] if self.rng.uniform() < 0.5 else []
        article = self.pick(["the", "a", "this"])
        return [(article, "DT", ""), *adjective, (self.pick(_NOUNS), "NN", "")]

    def sentence(self):
        """Phrases (chunk type, tokens of word, part of speech, entity type)."""
        subject = self.pick([self.person, self.organisation, self.thing, self.person])()
        phrases = [("NP", subject)]
        if self.rng.uniform() < 0.6:
            phrases.append(("VP", [(self.pick(_PAST), "VBD", "")]))
        else:
            modal = self.pick(["will", "may", "should"])
            phrases.append(("VP", [(modal, "MD", ""), (self.pick(_BASE), "VB", "")]))
        phrases.append(("NP", self.pick([self.thing, self.organisation, self.person])()))
        if self.rng.uniform() < 0.6:
            phrases.append(("PP", [(self.pick(["in", "near", "from"]), "IN", "")]))
            phrases.append(("NP", self.place()))
        if self.rng.uniform() < 0.4:
            phrases.append(("PP", [("on", "IN", "")]))
            phrases.append(("NP", [(self.pick(_DAYS), "NNP", "")]))
        return [*phrases, ("", [(".", ".", "")])]


def _rows(phrases):
    """Tokens with IOB2 tags of chunks and entities."""
    rows = []
    for kind, tokens in phrases:
        before = ""
        for t, (word, pos, entity) in enumerate(tokens):
            chunk = f"{'I' if t else 'B'}-{kind}" if kind else "O"
            tag = f"{'I' if entity == before else 'B'}-{entity}" if entity else "O"
            rows.append((word if rows else word[0].upper() + word[1:], pos, chunk, tag))
            before = entity
    return rows


def _write(rng, n_sentences, unseen):
    writer = _Writer(rng, unseen)
    sentences = [_rows(writer.sentence()) for _ in range(n_sentences)]
    columns = [[list(column) for column in zip(*rows, strict=True)] for rows in sentences]
    return Bunch(
        **{
            name: RaggedArray.from_list([parts[q] for parts in columns])
            for q, name in enumerate(_COLUMNS)
        }
    )


def make_annotated_sentences(
    n_train: int = 300, n_test: int = 200, *, random_state: RandomStateLike = 0
) -> Bunch:
    """Generate English-like sentences with tags from a small grammar, for examples.

    Results on this text say nothing about real language. Three things make it more than a look-up:
    names of people, places and organisations alike, words that are nouns or verbs depending on
    position, and invented names, more of them in the test part. Read more in the :ref:`User Guide
    <text_features>`.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of sentences.
    random_state : int, RandomState instance or None, default=0
        Seed of the generator.

    Returns
    -------
    Bunch
        ``train`` and ``test``, each with RaggedArrays of strings ``word``, ``pos``, ``chunk`` (NP,
        VP, PP) and ``entity`` (PER, LOC, ORG), the last two in IOB2; ``DESCR``.

    Raises
    ------
    ValueError
        If a number of sentences is below 1.

    See Also
    --------
    skstruct.datasets.load_conll : Reads a file of columns.
    skstruct.datasets.fetch_conll2000 : Downloads sentences with chunks.

    Examples
    --------
    >>> from skstruct.datasets import make_annotated_sentences
    >>> data = make_annotated_sentences(2, 1)
    >>> len(data.train.word), data.train.word[0].size == data.train.entity[0].size
    (2, True)
    """
    if n_train < 1 or n_test < 1:
        raise ValueError("n_train and n_test must be at least 1")
    rng = check_random_state(random_state)
    return Bunch(
        train=_write(rng, n_train, 0.2),
        test=_write(rng, n_test, 0.4),
        DESCR=make_annotated_sentences.__doc__,
    )


# Lines of column files, for the loaders and the command line.


def begins_document(line: str) -> bool:
    """Return whether a line separates documents, like those of CoNLL-2003."""
    return line.startswith("-DOCSTART-")


def separator_hint(line: str, separator: str | None) -> str:
    """Return the end of a message: a mark that may separate the columns, and is not in use."""
    for mark in "\t;,":
        if mark != separator and mark in line and all(map(str.strip, line.split(mark))):
            return f"; if {mark!r} separates the columns, give it as the separator"
    return ""


class Lines:
    """Lines of a column file with their columns (None without a token); checks their number."""

    def __init__(
        self,
        source: Any,
        widths: Collection[int] | None,
        separator: str | None,
        encoding: str,
        name: str | None = None,
    ) -> None:
        if separator is not None and (not isinstance(separator, str) or not separator):
            raise ValueError(f"separator must be None or a str of columns, got {separator!r}")
        self.name = name_of(source) if name is None else name
        self.source, self.widths = source, widths
        self.separator, self.encoding = separator, encoding
        self.number, self._warned = 0, False

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.name}, line {self.number}"

    def __iter__(self) -> Iterator[tuple[str, list[str] | None]]:
        for line in lines_of(self.source, self.encoding, self.name):
            self.number += 1
            yield line, self._columns(line)

    def _columns(self, line):
        text = line if self.separator is None else line.replace(self.separator, " ")
        if not text.strip(BLANKS) or begins_document(line):
            return None
        columns = split_line(line, self.separator)
        if self.widths is not None and len(columns) not in self.widths:
            expected = " or ".join(map(str, self.widths))
            raise ValueError(
                f"{self.place}: {len(columns)} columns, but {expected} were expected: "
                f"{reprlib.repr(line)}{separator_hint(line, self.separator)}"
            )
        self.widths = (len(columns),)
        if not (self._warned or line.isascii()):
            self._warn(columns)
        return columns

    def _warn(self, columns):
        """Warn once of what cannot be seen, but makes another word or label."""
        what = ""
        if columns[-1] != columns[-1].rstrip():
            what = f"{columns[-1]!r} ends with a space that is not a blank"
        if columns[0].startswith("\ufeff"):
            what = f"{columns[0]!r} begins with a byte order mark, as of files that were joined"
        if what:
            self._warned = True
            warn_user(f"{self.place}: {what}; it stays a part of the column")


def load_conll(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Bunch:
    r"""Read a file in the CoNLL column format (also the format of CRF++ and Wapiti).

    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    path : str or Path
        The file, plain or compressed by gzip, bzip2 or xz. Empty lines, and those that begin with
        ``-DOCSTART-``, end a sentence.
    columns : sequence of str, default=None
        Names of the columns, for instance ``("word", "pos", "chunk")``. Default: ``"column_0"``
        and so on.
    separator : str, default=None
        Separator of columns, by default spaces and tabs.
    encoding : str, default="utf-8"
        Encoding of the file; a byte order mark in the file takes precedence.

    Returns
    -------
    Bunch
        A :class:`RaggedArray` of strings per column name, with one sample per sentence.

    Raises
    ------
    ValueError
        If a line has a different number of columns or is not text in this encoding (names the
        line), there is no sentence, or `columns` has a name twice.

    See Also
    --------
    skstruct.datasets.iter_conll : Reads a file of columns in parts.
    skstruct.datasets.make_annotated_sentences : Generated sentences with tags.
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skstruct.datasets import load_conll
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("the DT\ndog NN\n\nit PRP\n")
    ...     data = load_conll(path, columns=["word", "pos"])
    >>> [words.tolist() for words in data.word]
    [['the', 'dog'], ['it']]
    """
    columns = None if columns is None else _names(columns)
    expected, fields_of_all, ends = None if columns is None else len(columns), [], [0]
    for fields, width in _sentences(path, expected, separator, encoding):
        fields_of_all += fields
        ends.append(ends[-1] + len(fields) // width)
    if len(ends) == 1:
        raise ValueError(f"{path} has no sentence")
    names = [f"column_{j}" for j in range(width)] if columns is None else columns
    return Bunch(
        **{
            name: RaggedArray(np.array(fields_of_all[j::width]), ends)
            for j, name in enumerate(names)
        }
    )


def _names(columns):
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got {columns!r}: write [{columns!r}]")
    columns = list(columns)
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"columns has the name {twice!r} twice: {columns}")
    return columns


def _sentences(path, width, separator, encoding):
    """The fields of each sentence, line by line in one list, and how many a line has."""
    fields_of_all = []
    for _, fields in Lines(path, None if width is None else (width,), separator, encoding):
        if fields is not None:
            width = len(fields)
            fields_of_all += fields
        elif fields_of_all:
            yield fields_of_all, width
            fields_of_all = []
    if fields_of_all:
        yield fields_of_all, width


def iter_conll(
    paths: PathLike | Sequence[PathLike],
    columns: Sequence[str],
    take: str | Sequence[str],
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[list]:
    r"""Iterate over the sentences of column files, one in memory at a time.

    Read more in the :ref:`User Guide <scale>`.

    Parameters
    ----------
    paths : str, Path or list of these
        The files, in this order, plain or compressed by gzip, bzip2 or xz.
    columns : sequence of str
        Names of all columns, for instance ``("word", "pos", "chunk")``.
    take : str or sequence of str
        One name gives sentences as lists of strings, the format of labels; several names give lists
        of tuples of strings. The vectorizers of :mod:`skstruct.preprocessing` accept both.
    separator : str, default=None
        Separator of columns, by default spaces and tabs.
    encoding : str, default="utf-8"
        Encoding of the files; a byte order mark in a file takes precedence.

    Returns
    -------
    iterator of list
        The sentences.

    Raises
    ------
    ValueError
        If `take` has an unknown name; later if a line has a different number of columns (names file
        and line), or a file has no sentence.

    See Also
    --------
    load_conll : Reads a whole file.
    pack_shards : Packs samples from iterators.
    skstruct.preprocessing.fit_vectorizer : Learns a vocabulary from an iterator.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skstruct.datasets import iter_conll
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "two.txt")
    ...     _ = file.write_text("He PRP\nruns VBZ\n\nYes UH\n")
    ...     print(list(iter_conll(file, ("word", "pos"), "pos")))
    ...     print(list(iter_conll(file, ("word", "pos"), ("word", "pos"))))
    [['PRP', 'VBZ'], ['UH']]
    [[('He', 'PRP'), ('runs', 'VBZ')], [('Yes', 'UH')]]
    """
    columns = _names(columns)
    names = [take] if isinstance(take, str) else list(take)
    unknown = [name for name in names if name not in columns]
    if unknown or not names:
        raise ValueError(f"take must be one or several of {columns}, got {take!r}")
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    where = [columns.index(name) for name in names]
    options = len(columns), separator, encoding
    return _taken(files, where, isinstance(take, str), options)


def _taken(files, where, is_one, options):
    """Some columns of all sentences."""
    for path in files:
        empty = True
        for fields, width in _sentences(path, *options):
            empty = False
            rows = [fields[j::width] for j in where]
            yield rows[0] if is_one else [*zip(*rows, strict=True)]
        if empty:
            raise ValueError(f"{path} has no sentence")

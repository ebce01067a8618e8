"""Word alignment: sentence pairs with the links of their words, and parallel text without."""

from __future__ import annotations

import re

import numpy as np
from sklearn.utils import Bunch

from ..core.arguments import check_integer
from ..core.text_files import lines_of, split_line
from ..core.typing import PathLike

_LINK = re.compile(r"(\d{1,18})([-p])(\d{1,18})", re.ASCII)
_KEY = re.compile(r"(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+([SP]))?", re.ASCII)


def load_word_alignment(
    text: PathLike | tuple[PathLike, PathLike],
    gold: PathLike,
    *,
    first: int = 1,
    encoding: str = "utf-8",
) -> Bunch:
    """Read sentence pairs with manual word alignments.

    Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    text : path or (path, path)
        A file of lines ``source ||| target``, or two files with one sentence per line. Words are
        separated by spaces or tabs. Files may be compressed by gzip, bzip2 or xz.
    gold : path
        The links, in one of two forms. One line per sentence pair, with ``i-j`` for each sure and
        ``ipj`` for each merely possible link, i in the source (the Pharaoh format); or one line per
        link, ``sentence i j``, optionally with a mark ``S`` or ``P`` (the format of the HLT-NAACL
        2003 workshop), where sentences count from 1.
    first : int, default=1
        The number of the first word of a sentence in `gold`.
    encoding : str, default="utf-8"
        Encoding of the files; a byte order mark in a file takes precedence.

    Returns
    -------
    Bunch
        ``source``, ``target``: lists of lists of words; ``sure``, ``possible``: lists of integer
        arrays (n_links, 2), a word of the source and one of the target, counted from 0 and in
        order, each once. ``possible`` has the merely possible links.

    Raises
    ------
    ValueError
        If a line is malformed, a sentence is empty, a link names a missing word or sentence, the
        files have different numbers of sentences, or one cannot be read; names file and line.
    TypeError
        If a file is not a path, or `first` not an integer.

    See Also
    --------
    skstruct.preprocessing.AlignmentFeatures : Features of these pairs.
    skstruct.metrics.alignment_error_rate : Score for sure and possible links.

    References
    ----------
    R. Mihalcea, T. Pedersen: An evaluation exercise for word alignment. HLT-NAACL 2003 workshop
    on building and using parallel texts, section 2.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skstruct.datasets import load_word_alignment
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text, gold = Path(folder, "text"), Path(folder, "gold")
    ...     _ = text.write_text("das Haus ||| the house", "utf-8")
    ...     _ = gold.write_text("1-1 2-2 1p2", "utf-8")
    ...     data = load_word_alignment(text, gold)
    >>> data.source, data.sure[0].tolist(), data.possible[0].tolist()
    ([['das', 'Haus']], [[0, 0], [1, 1]], [[0, 1]])
    """
    first = check_integer("first", first, 0)
    if isinstance(text, (tuple, list)):
        if len(text) != 2:
            raise ValueError(f"text must be a path, or two paths, got {len(text)}")
        data = load_parallel_text(*text, encoding=encoding)
        source, target, names = data.source, data.target, tuple(text)
    else:
        source, target = _read_pairs(text, encoding)
        names = text, text
    for path, sentences in zip(names, (source, target), strict=True):
        empty = next((i for i, words in enumerate(sentences) if not words), None)
        if empty is not None:
            raise ValueError(f"{path}, line {empty + 1}: the sentence is empty")
    sizes = [(len(s), len(t)) for s, t in zip(source, target, strict=True)]
    links = _read_gold(gold, sizes, first, encoding)
    sure = [{link for link, is_sure in found if is_sure} for found in links]
    every = [{link for link, _ in found} for found in links]
    possible = [all_ - certain for all_, certain in zip(every, sure, strict=True)]
    return Bunch(
        source=source,
        target=target,
        sure=[_as_array(found) for found in sure],
        possible=[_as_array(found) for found in possible],
    )


def load_parallel_text(
    source: PathLike, target: PathLike | None = None, *, encoding: str = "utf-8"
) -> Bunch:
    """Read sentences and their translations.

    Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    source : path
        One sentence per line; or, without `target`, lines ``source ||| target``. Words are
        separated by spaces or tabs. Files may be compressed by gzip, bzip2 or xz.
    target : path, default=None
        The translations, line by line.
    encoding : str, default="utf-8"
        Encoding of the files; a byte order mark in a file takes precedence.

    Returns
    -------
    Bunch
        ``source``, ``target``: lists of lists of words, empty for an empty line.

    Raises
    ------
    ValueError
        If a line has no ``|||``, the files have different numbers of lines or none, or a file
        cannot be read; names the file.

    See Also
    --------
    load_word_alignment : Sentence pairs whose words are linked.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skstruct.datasets import load_parallel_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "text")
    ...     _ = path.write_text("das Haus ||| the house", "utf-8")
    ...     load_parallel_text(path)
    {'source': [['das', 'Haus']], 'target': [['the', 'house']]}
    """
    if target is None:
        sentences = _read_pairs(source, encoding)
    else:
        sentences = [
            [split_line(line) for line in lines_of(path, encoding)] for path in (source, target)
        ]
        n, m = map(len, sentences)
        if n != m:
            raise ValueError(f"{source} has {n} lines, but {target} has {m}")
    if not sentences[0]:
        raise ValueError(f"{source} has no sentence")
    return Bunch(source=sentences[0], target=sentences[1])


def _read_pairs(path, encoding):
    """Both sides of a file of lines ``source ||| target``."""
    sides = [], []
    for number, line in enumerate(lines_of(path, encoding), start=1):
        parts = line.split("|||")
        if len(parts) != 2:
            raise ValueError(
                f"{path}, line {number}: a line must be 'source ||| target', got {line[:60]!r}"
            )
        for side, part in zip(sides, parts, strict=True):
            side.append(split_line(part))
    if not sides[0]:
        raise ValueError(f"{path} has no sentence")
    return sides


def _read_gold(path, sizes, first, encoding):
    """For each sentence pair, its links and whether they are sure."""
    lines = [*lines_of(path, encoding)]
    head = next((line.strip() for line in lines if line.strip()), "")
    links = [[] for _ in sizes]
    is_key = bool(_KEY.fullmatch(head))
    if not is_key and len(lines) != len(sizes):
        raise ValueError(f"{path} has {len(lines)} lines, but there are {len(sizes)} sentences")
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        if not is_key:
            found = [(number - 1, *_read_link(item, where)) for item in line.split()]
        else:
            found = [_read_key(line.strip(), len(sizes), where)] if line.strip() else []
        for sentence, i, j, is_sure in found:
            link = i - first, j - first
            for word, n, side in zip(link, sizes[sentence], ("source", "target"), strict=True):
                if not 0 <= word < n:
                    raise ValueError(
                        f"{where}: a link names word {word + first} of the {side}, which has the "
                        f"words {first} to {n - 1 + first}"
                    )
            links[sentence].append((link, is_sure))
    return links


def _read_link(item, where):
    """Words of ``i-j`` or ``ipj``, and whether the link is sure."""
    match = _LINK.fullmatch(item)
    if match is None:
        raise ValueError(f"{where}: a link must be 'i-j' or 'ipj', got {item!r}")
    return int(match[1]), int(match[3]), match[2] == "-"


def _read_key(line, n_sentences, where):
    """Sentence, words, and whether the link is sure."""
    match = _KEY.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{where}: a link must be 'sentence i j' or 'sentence i j S', got {line!r}"
        )
    sentence = int(match[1])
    if not 1 <= sentence <= n_sentences:
        raise ValueError(f"{where}: sentence {sentence} is not one of 1 to {n_sentences}")
    return sentence - 1, int(match[2]), int(match[3]), match[4] != "P"


def _as_array(links):
    return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)

"""Handwritten calendar dates, composed from the digit images that scikit-learn ships."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from ..core.offsets import ends_of
from ..core.text_files import lines_of
from ..core.typing import PathLike, RandomStateLike
from ..data.ragged import RaggedArray
from ..data.store import read_arrays

# The OCR letters of Taskar et al. (2003): handwritten words without their first letter.

_N_PIXELS = 128
_LETTER = re.compile(rf"\s*\d+\s+[a-z](\s+-?\d{{1,9}}){{4}}(\s+[01]){{{_N_PIXELS}}}\s*", re.ASCII)


def load_ocr_letters(path: PathLike) -> Bunch:
    """Read the OCR letters, packed or in the form of their authors.

    Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    path : str or Path
        A ``.npz`` file with the arrays ``pixels`` (bits of 16 x 8 images, 16 bytes per letter),
        ``labels`` (0 to 25), ``lengths`` and ``fold`` of each word; or ``letter.data`` (also
        ``.gz``), one letter per line.

    Returns
    -------
    Bunch
        ``X``: RaggedArray of pixels, (letters, 128) per word, 0.0 or 1.0; ``y``: RaggedArray of
        letters "a" to "z"; ``fold``: ndarray of shape (n_words,), 0 to 9.

    Raises
    ------
    ValueError
        If the arrays do not fit together, or a line is malformed (names the line).

    See Also
    --------
    skstruct.datasets.fetch_ocr_letters : Downloads the letters of handwritten words.
    skstruct.datasets.load_digit_strings : Handwritten dates, composed offline.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_ocr_letters
    >>> arrays = {"pixels": np.zeros((2, 16), dtype=np.uint8), "labels": [7, 8]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "letters.npz"
    ...     np.savez(path, lengths=[2], fold=[0], **arrays)
    ...     data = load_ocr_letters(path)
    >>> data.X[0].shape, data.y[0].tolist()
    ((2, 128), ['h', 'i'])
    """
    read = _read_packed if Path(path).suffix == ".npz" else _read_lines
    pixels, labels, lengths, fold = read(path)
    offsets = ends_of(lengths)
    if pixels.shape != (labels.size, _N_PIXELS) or offsets[-1] != labels.size:
        raise ValueError(
            f"{path}: {pixels.shape[0]} images, {labels.size} labels, {offsets[-1]} letters"
        )
    letters = np.array([chr(ord("a") + k) for k in range(26)])[labels]
    return Bunch(
        X=RaggedArray(pixels.astype(np.float64), offsets),
        y=RaggedArray(letters, offsets),
        fold=fold,
    )


def _read_packed(path):
    wanted = "pixels", "labels", "lengths", "fold"
    pixels, labels, lengths, fold = read_arrays(path, wanted).values()
    pixels = np.unpackbits(pixels.reshape(-1, 16), axis=1)
    return pixels, labels, lengths.astype(np.int64), fold


def _read_lines(path):
    """Columns: id, letter, id of the next letter or -1, word, position, fold, pixels."""
    pixels, labels, lengths, fold = [], [], [], []
    n_letters = 0
    for number, line in enumerate(lines_of(path, "ascii"), start=1):
        if not line.strip():
            continue
        if not _LETTER.fullmatch(line):
            raise ValueError(
                f"{path}, line {number}: expected {6 + _N_PIXELS} columns: numbers, the second a "
                "letter from a to z, the last ones 0 or 1"
            )
        fields = line.split()
        labels.append(ord(fields[1]) - ord("a"))
        pixels.append(np.array(fields[6:], dtype=np.uint8))
        n_letters += 1
        if fields[2] == "-1":
            lengths.append(n_letters)
            fold.append(int(fields[5]))
            n_letters = 0
    if not labels:
        raise ValueError(f"{path} has no letters")
    return np.array(pixels), np.array(labels), np.array(lengths), np.array(fold)


# Chains of glyphs: text with thousands of characters, each seen through noise.


def load_glyph_chains(path: PathLike) -> Bunch:
    """Read simulated character images: one active bin in each of several groups.

    Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    path : str or Path
        A ``.npz`` file with ``bins`` (n_glyphs, n_groups), ``labels``, ``lengths`` of the chains,
        ``train`` (indices of training chains) and ``n_bins``.

    Returns
    -------
    Bunch
        ``X``: RaggedArray of CSR rows, feature ``n_bins * group + bin``; ``y``: RaggedArray of
        integer labels; ``train``: boolean mask of chains.

    Raises
    ------
    ValueError
        If an array is missing or the arrays do not fit together.

    See Also
    --------
    skstruct.datasets.make_glyph_chains : Draws chains with thousands of labels.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_glyph_chains
    >>> arrays = {"bins": [[0, 2], [1, 0], [2, 2]], "labels": [5, 3, 5], "lengths": [2, 1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "glyphs.npz"
    ...     np.savez(path, train=[0], n_bins=3, **arrays)
    ...     data = load_glyph_chains(path)
    >>> data.X[0].shape, data.y[0].tolist(), data.train.tolist()
    ((2, 6), [5, 3], [True, False])
    """
    wanted = "bins", "labels", "lengths", "train", "n_bins"
    bins, labels, lengths, train, n_bins = read_arrays(path, wanted).values()
    if len(bins) != len(labels) or lengths.sum() != len(labels):
        raise ValueError(
            f"{path}: {len(bins)} glyphs, {len(labels)} labels, chains of {lengths.sum()} in all"
        )
    mask = np.zeros(len(lengths), dtype=bool)
    mask[train] = True
    return _chains(bins, labels, lengths, int(n_bins), mask)


def make_glyph_chains(
    n_chains: int = 500,
    n_labels: int = 300,
    *,
    n_groups: int = 20,
    n_bins: int = 50,
    noise: float = 0.4,
    test_share: float = 0.2,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Simulate reading text in a script of many characters.

    Characters follow each other as in language, with skewed frequencies and transitions. A
    character has its own bin in every group of measurements; each measurement is replaced by a
    random bin with probability `noise`. A stand-in for T. Su, T. Zhang, D. Guan: Corpus-based
    HIT-MW database for offline recognition of general-purpose Chinese handwritten text, 2007. Read
    more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    n_chains, n_labels : int
        The sizes.
    n_groups, n_bins : int
        Measurements per glyph, and values of each.
    noise : float
        From 0 to 1.
    test_share : float
        Fraction of test chains.
    random_state : int, RandomState instance or None
        Seed of the generator.

    Returns
    -------
    Bunch
        As from :func:`load_glyph_chains`.

    See Also
    --------
    skstruct.datasets.load_glyph_chains : Reads chains with thousands of labels.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Examples
    --------
    >>> from skstruct.datasets import make_glyph_chains
    >>> data = make_glyph_chains(10, 30, random_state=0)
    >>> len(data.X), data.X.flat.shape[1]
    (10, 1000)
    """
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    frequency = np.cumsum(1.0 / np.arange(1, n_labels + 1))
    frequency /= frequency[-1]
    successors = np.searchsorted(frequency, rng.random((n_labels, 5)))
    lengths = rng.integers(4, 21, size=n_chains)
    labels = np.searchsorted(frequency, rng.random(lengths.sum()))
    follows = rng.random(labels.size) < 0.6
    follows[np.cumsum(lengths)[:-1]] = False
    choice = rng.integers(5, size=labels.size)
    for t in range(1, labels.size):
        if follows[t]:
            labels[t] = successors[labels[t - 1], choice[t]]
    codes = rng.integers(n_bins, size=(n_labels, n_groups))
    bins = codes[labels]
    wrong = rng.random(bins.shape) < noise
    bins[wrong] = rng.integers(n_bins, size=int(wrong.sum()))
    train = np.arange(n_chains) >= round(test_share * n_chains)
    return _chains(bins, labels, lengths, n_bins, train)


def _chains(bins, labels, lengths, n_bins, train):
    n_glyphs, n_groups = bins.shape
    columns = bins.astype(np.int32) + n_bins * np.arange(n_groups, dtype=np.int32)
    ptr = np.arange(0, columns.size + 1, n_groups)
    flat = sparse.csr_matrix(
        (np.ones(columns.size), columns.ravel(), ptr), shape=(n_glyphs, n_groups * n_bins)
    )
    offsets = ends_of(lengths.astype(np.int64))
    return Bunch(
        X=RaggedArray(flat, offsets), y=RaggedArray(labels.astype(np.int64), offsets), train=train
    )


_FORMATS = ("{y:04d}{m:02d}{d:02d}", "{d}{m}{y:04d}", "{m}{y:04d}", "{y:04d}")
_FIRST = datetime.date(1950, 1, 1).toordinal()
_LAST = datetime.date(2029, 12, 31).toordinal()
_GAP = 140  # images of about one writer


def _write_dates(rng, n_strings, images, labels):
    """Random dates as strings, and for every digit an image of it."""
    by_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
    strings = []
    for ordinal, style in zip(
        rng.randint(_FIRST, _LAST + 1, size=n_strings),
        rng.randint(len(_FORMATS), size=n_strings),
        strict=True,
    ):
        date = datetime.date.fromordinal(int(ordinal))
        text = _FORMATS[style].format(y=date.year, m=date.month, d=date.day)
        strings.append(text)
    digits = np.array([int(c) for c in "".join(strings)])
    chosen = np.array([by_digit[digit][rng.randint(by_digit[digit].size)] for digit in digits])
    offsets = ends_of([len(text) for text in strings])
    return (
        RaggedArray(images[chosen], offsets),
        RaggedArray(digits, offsets),
        np.array(strings),
    )


def load_digit_strings(
    n_train: int = 1000, n_test: int = 500, *, random_state: RandomStateLike = 0
) -> Bunch:
    """Handwritten calendar dates: sequences with real structure, no download.

    Each sample is a date between 1950 and 2029, written in one of four ways without separators
    (20240229, 2922024, 22024, 2024), 4 to 8 digits long. Each digit is an 8 x 8 image from
    :func:`sklearn.datasets.load_digits`. Its images are stored in the order in which they were
    collected, writer after writer; train dates use the first part, test dates the last, and 140
    images between them (about one writer's) are left out, so that no writer is in both. Read more
    in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of strings.
    random_state : int, RandomState instance or None, default=0
        Draws dates, orders and images.

    Returns
    -------
    Bunch
        ``X_train``, ``X_test``: RaggedArray of pixels, (length, 64) per sample, from 0 to 1;
        ``y_train``, ``y_test``: RaggedArray of digits; ``strings_train``, ``strings_test``: the
        dates as text; ``DESCR``.

    See Also
    --------
    skstruct.datasets.load_ocr_letters : Reads the letters of handwritten words.
    skstruct.Chain : The structure of sequences.

    Examples
    --------
    >>> from skstruct.datasets import load_digit_strings
    >>> data = load_digit_strings(n_train=3, n_test=1)
    >>> len(data.X_train), data.X_train[0].shape[1]
    (3, 64)
    """
    if n_train < 1 or n_test < 1:
        raise ValueError("n_train and n_test must be at least 1")
    rng = check_random_state(random_state)
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    split = 2 * len(labels) // 3
    train = _write_dates(rng, n_train, images[: split - _GAP // 2], labels[: split - _GAP // 2])
    test = _write_dates(rng, n_test, images[split + _GAP // 2 :], labels[split + _GAP // 2 :])
    return Bunch(
        X_train=train[0],
        y_train=train[1],
        strings_train=train[2],
        X_test=test[0],
        y_test=test[1],
        strings_test=test[2],
        DESCR=load_digit_strings.__doc__,
    )

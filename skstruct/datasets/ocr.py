"""The OCR letters of Taskar et al. (2003): handwritten words without their first letter."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..core.offsets import ends_of
from ..data.ragged import RaggedArray
from ..typing import PathLike
from .arrays import read_arrays

_N_PIXELS = 128


def load_ocr_letters(path: PathLike) -> Bunch:
    """Read the OCR letters, packed or in the form of their authors.

    Parameters
    ----------
    path : str or Path
        A ``.npz`` file with the arrays ``pixels`` (bits of 16 x 8 images, 16 bytes a letter),
        ``labels`` (0 to 25), ``lengths`` and ``fold`` of each word; or ``letter.data`` (also
        ``.gz``), one letter a line.

    Returns
    -------
    Bunch
        ``X``: RaggedArray of pixels, (letters, 128) a word, 0.0 or 1.0; ``y``: RaggedArray of
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
    opener = gzip.open if Path(path).suffix == ".gz" else open
    pixels, labels, lengths, fold = [], [], [], []
    n_letters = 0
    with opener(path, "rt", encoding="ascii") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if len(fields) != 6 + _N_PIXELS or not "a" <= fields[1] <= "z":
                raise ValueError(
                    f"{path}, line {number}: expected {6 + _N_PIXELS} columns, the second a letter"
                )
            labels.append(ord(fields[1]) - ord("a"))
            pixels.append(np.array(fields[6:], dtype=np.uint8))
            n_letters += 1
            if fields[2] == "-1":
                lengths.append(n_letters)
                fold.append(int(fields[5]))
                n_letters = 0
    return np.array(pixels), np.array(labels), np.array(lengths), np.array(fold)

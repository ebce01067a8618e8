"""The OCR letters of Taskar et al. (2003): handwritten words without their first letter."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from ..ragged import RaggedArray


def load_ocr_letters(path) -> Bunch:
    """Read the OCR letters from a packed ``.npz`` file.

    Parameters
    ----------
    path : str or Path
        A file with the arrays ``pixels`` (bits of 16 x 8 images, 16 bytes a letter), ``labels`` (0
        to 25), ``lengths`` and ``fold`` of each word.

    Returns
    -------
    Bunch
        ``X``: RaggedArray of pixels, (letters, 128) a word, 0.0 or 1.0; ``y``: RaggedArray of
        letters "a" to "z"; ``fold``: ndarray of shape (n_words,), 0 to 9.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """
    with np.load(path) as file:
        missing = {"pixels", "labels", "lengths", "fold"} - set(file.files)
        if missing:
            raise ValueError(f"{path} has no array {sorted(missing)[0]!r}")
        pixels = np.unpackbits(file["pixels"].reshape(-1, 16), axis=1)
        labels, lengths, fold = file["labels"], file["lengths"].astype(np.int64), file["fold"]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if pixels.shape != (labels.size, 128) or offsets[-1] != labels.size:
        raise ValueError(
            f"{path}: {pixels.shape[0]} images, {labels.size} labels, {offsets[-1]} letters"
        )
    letters = np.array([chr(ord("a") + k) for k in range(26)])[labels]
    return Bunch(
        X=RaggedArray(pixels.astype(np.float64), offsets),
        y=RaggedArray(letters, offsets),
        fold=fold,
    )

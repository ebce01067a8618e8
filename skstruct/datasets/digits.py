"""Handwritten calendar dates, composed from the digit images that scikit-learn ships."""

from __future__ import annotations

import datetime

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from ..core.offsets import ends_of
from ..data.ragged import RaggedArray
from ..typing import RandomStateLike

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
    images between them (about one writer's) are left out, so that no writer is in both.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of strings.
    random_state : int, RandomState instance or None, default=0
        Draws dates, orders and images.

    Returns
    -------
    Bunch
        ``X_train``, ``X_test``: RaggedArray of pixels, (length, 64) a sample, from 0 to 1;
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

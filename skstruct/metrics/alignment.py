"""Error of word alignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.matrices import refuse_masked
from ..data.packing import as_list


def alignment_error_rate(
    sure: Sequence[Any], possible: Sequence[Any] | None, predicted: Sequence[Any]
) -> float:
    """Alignment error rate: sure links should be found, and nothing but possible ones.

    With A the predicted links, S the sure and P the possible ones, which include the sure:
    ``1 - (|A & S| + |A & P|) / (|A| + |S|)``, over all sentence pairs together.

    Parameters
    ----------
    sure : list of integer arrays of shape (n_links, 2), or of boolean matrices
        Links that must be there: word of the source, word of the target; or a matrix (n_source,
        n_target).
    possible : list of the same, or None
        Links that may be there, with or without the sure ones, which are added. None: only these.
    predicted : list of the same
        Links to be judged.

    Returns
    -------
    float
        Between 0 (best) and 1. A link that is given twice counts once.

    Raises
    ------
    ValueError
        If the numbers of samples differ, a sample holds no links of two words (names it), or there
        are neither sure nor predicted links.

    See Also
    --------
    skstruct.datasets.load_word_alignment : Reads sure and possible links.

    References
    ----------
    F. J. Och, H. Ney: A systematic comparison of various statistical alignment models.
    Computational Linguistics 29(1), 2003, section 5.1.

    Examples
    --------
    >>> from skstruct.metrics import alignment_error_rate
    >>> alignment_error_rate([[(0, 0), (1, 1)]], [[(1, 2)]], [[(0, 0), (1, 2), (2, 2)]])
    0.4
    """
    sure, predicted = _read_links(sure, "sure"), _read_links(predicted, "predicted")
    possible = sure if possible is None else _read_links(possible, "possible")
    for name, links in (("possible", possible), ("predicted", predicted)):
        if len(links) != len(sure):
            raise ValueError(f"sure has {len(sure)} samples, but {name} has {len(links)}")
    n_right = n_links = 0
    for must, may, found in zip(sure, possible, predicted, strict=True):
        n_right += len(found & must) + len(found & (may | must))
        n_links += len(found) + len(must)
    if not n_links:
        raise ValueError("there are neither sure nor predicted links")
    return 1.0 - n_right / n_links


def _read_links(samples, name):
    """Links of each sample as a set of pairs."""
    read = []
    for i, sample in enumerate(as_list(samples, name)):
        where = f"{name}: sample {i}"
        refuse_masked(sample, where)
        try:
            links = np.asarray(sample)
        except ValueError:
            raise ValueError(f"{where}: its links are not all of two words") from None
        if links.dtype == bool and links.ndim == 2:
            links = np.argwhere(links)
        elif links.size == 0:
            links = np.empty((0, 2), dtype=np.int64)
        if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
            raise ValueError(
                f"{where} must be integers of shape (n_links, 2) or a boolean matrix, got dtype "
                f"{links.dtype}, shape {links.shape}"
            )
        if (links < 0).any():
            raise ValueError(f"{where} has a negative number of a word")
        read.append(set(map(tuple, links.tolist())))
    return read

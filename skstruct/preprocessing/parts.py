"""fit_vectorizer: learn a vocabulary from a corpus that does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from ..core.typing import SamplesLike
from ..shards.packing import pieces_of, relocated
from .columns import is_frame
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer

_TAKEN = (SequenceVectorizer, TemplateVectorizer)


def fit_vectorizer(
    vectorizer: Any,
    X: SamplesLike | Iterable,
    *,
    part_size: int = 10_000,
    n_jobs: int | None = None,
) -> Any:
    """Fit a vectorizer on a corpus, a part of it at a time.

    The result is what ``vectorizer.fit`` learns from all of it at once: the same columns in the
    same order. Counts are added up over the parts before `min_count` drops anything.

    Parameters
    ----------
    vectorizer : SequenceVectorizer or TemplateVectorizer
        Is fitted.
    X : list of sequences, RaggedArray, or iterator of sequences
        What ``fit`` takes, but for data frames. It is gone through once; a part for each worker is
        in memory, and all distinct features.
    part_size : int, default=10000
        Sequences of a part.
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
        If there are no tokens, or sequences are not what ``fit`` takes; names the sequence.

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
    if not isinstance(vectorizer, _TAKEN):
        names = " and ".join(kind.__name__ for kind in _TAKEN)
        raise TypeError(
            f"{names} can be fitted in parts, got a {type(vectorizer).__name__}: fit it on a "
            "sample of the corpus"
        )
    if is_frame(X):
        raise TypeError("X must be sequences, not a data frame: parts of it would cut sequences")
    if not isinstance(part_size, Integral) or isinstance(part_size, bool) or part_size < 1:
        raise ValueError(f"part_size must be an integer of at least 1, got {part_size!r}")
    total = None
    for first, counts in _counted(vectorizer, pieces_of(X, int(part_size)), n_jobs):
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
    if effective_n_jobs(n_jobs) == 1:
        return (_count_one(vectorizer, *piece) for piece in pieces)
    backend, _ = get_active_backend()
    lazy = getattr(backend, "supports_return_generator", False)
    # No more than one part a worker waits to be counted.
    parallel = Parallel(
        n_jobs=n_jobs, pre_dispatch="n_jobs", return_as="generator" if lazy else "list"
    )
    return parallel(delayed(_count_one)(vectorizer, *piece) for piece in pieces)


def _count_one(vectorizer, first, part):
    """Counts of one part; None if it has no tokens."""
    if all(map(_is_empty, part)):
        return first, None
    try:
        return first, vectorizer._count_part(part)
    except (ValueError, TypeError) as error:
        raise relocated(error, first) from None


def _is_empty(sequence):
    return hasattr(sequence, "__len__") and len(sequence) == 0

"""fit_vectorizer: learn a vocabulary from the parts of a corpus that does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from ..typing import SamplesLike
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer

_TAKEN = (SequenceVectorizer, TemplateVectorizer)


def fit_vectorizer(vectorizer: Any, parts: Iterable[SamplesLike], n_jobs: int | None = None) -> Any:
    """Fit a vectorizer on a corpus that comes in parts.

    The result is what ``vectorizer.fit`` learns from all parts at once: the same columns in the
    same order. Counts are added up over the parts before `min_count` drops anything, so it does not
    matter how the corpus is cut.

    Parameters
    ----------
    vectorizer : SequenceVectorizer or TemplateVectorizer
        Is fitted.
    parts : iterable of lists of sequences
        Each is what ``fit`` takes. The iterable is gone through once; as many parts as there are
        workers are in memory at a time, and the distinct features of all of them.
    n_jobs : int, default=None
        Parts that are counted in parallel, in processes, or by the engine of
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
        If there are no tokens, or a part is not what ``fit`` takes; names the part.

    See Also
    --------
    skstruct.datasets.pack_shards : Transforms a corpus a shard at a time.

    Examples
    --------
    >>> from skstruct.preprocessing import SequenceVectorizer, fit_vectorizer
    >>> parts = [[[["he"], ["runs"]]], [[["he"]], [["she"]]]]
    >>> vectorizer = fit_vectorizer(SequenceVectorizer(min_count=2), parts)
    >>> vectorizer.get_feature_names_out().tolist()
    ['he']
    """
    if not isinstance(vectorizer, _TAKEN):
        names = " and ".join(kind.__name__ for kind in _TAKEN)
        raise TypeError(
            f"{names} can be fitted in parts, got a {type(vectorizer).__name__}: fit it on a "
            "sample of the corpus"
        )
    total = None
    for k, counts in enumerate(_counted(vectorizer, parts, n_jobs)):
        if counts is None:
            continue
        if total is None:
            total = counts
            continue
        try:
            total.add(counts)
        except ValueError as error:
            raise ValueError(f"part {k}: {error}") from None
    if total is None:
        raise ValueError("parts have no tokens: every sequence is empty")
    vectorizer._fit_counts(total)
    return vectorizer


def _counted(vectorizer, parts, n_jobs):
    """Counts of the parts in their order."""
    numbered = enumerate(parts)
    if effective_n_jobs(n_jobs) == 1:
        return (_count_one(vectorizer, k, part) for k, part in numbered)
    backend, _ = get_active_backend()
    lazy = getattr(backend, "supports_return_generator", False)
    # No more than one part a worker waits to be counted.
    parallel = Parallel(
        n_jobs=n_jobs, pre_dispatch="n_jobs", return_as="generator" if lazy else "list"
    )
    return parallel(delayed(_count_one)(vectorizer, k, part) for k, part in numbered)


def _is_empty(sequence):
    return hasattr(sequence, "__len__") and len(sequence) == 0


def _count_one(vectorizer, k, part):
    """Counts of one part; None if it has no tokens."""
    if isinstance(part, (list, tuple)) and all(map(_is_empty, part)):
        return None
    try:
        counts = vectorizer._count_part(part)
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):
            raise
        raise type(error)(f"part {k}: {error}") from None
    return counts if counts.n_tokens else None

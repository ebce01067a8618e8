"""Precision, recall and F over chunks, as conlleval and seqeval count them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import classification_report, precision_recall_fscore_support

from ..core.arguments import warn_user
from ..core.typing import SamplesLike
from ..data.constraints import without_prefix
from ..data.labels import warn_of_mark
from ..data.packing import as_list, read_sample_weight
from ..data.segments import has_segments, read_segment
from ..data.values import as_labels, family
from ..lite import OUTSIDE, chunk_step, find_chunks, scheme_name, tag_and_kind
from .nodes import read_pair

# Chunks of label sequences: by the rules of conlleval, or of one tagging scheme.


def read_chunk_labels(labels, scheme: str | None) -> list:
    """Labels of one sequence, which must be strings unless chunks are runs of labels."""
    labels = labels if hasattr(labels, "__len__") else list(labels)
    array = as_labels(labels, "labels", "node {}".format)
    if array.size and family(type(array[0])) != "strings" and scheme != "runs":
        raise TypeError(
            f"labels of chunks must be str, got {array.tolist()[0]!r} (node 0); chunks of labels "
            'without prefixes, such as numbers, are their runs: scheme="runs"'
        )
    return array.tolist()


def warn_of_tags(labels, scheme: str | None) -> None:
    """Warn if labels are most likely no labels of chunks."""
    tag = None if scheme == "runs" else without_prefix(labels)
    if tag is not None:
        warn_user(
            f"label {tag!r} has no chunk prefix (such as B- or I-); for tags use scikit-learn's "
            'metrics, of flatten(y_true, y_pred), for runs of equal labels scheme="runs"'
        )


def chunks(labels: Sequence[str], scheme: str | None = None) -> list[tuple[int, int, str]]:
    """Chunks of one label sequence.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    labels : sequence of str
        Labels such as ``"B-NP"``, ``"I-NP"``, ``"O"``.
    scheme : {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou", "runs"}, default=None
        In any case; also "bio" (iob2), "bioes" (iobes), "biluo" and "bioul" (bilou). None reads any
        mixture by the rules of the conlleval script, which repairs wrong sequences (an ``I-NP``
        after ``O`` begins a chunk). With a scheme only chunks that follow its rules count, as in
        seqeval's strict mode. "runs" is for labels without prefixes: neighbours of the same label,
        other than "O", are a chunk.

    Returns
    -------
    list of (start, stop, kind)
        Positions ``start:stop`` and the kind, in order.

    Raises
    ------
    ValueError, TypeError
        If the scheme is unknown, or a label is not a string or not of the scheme.

    Warns
    -----
    UserWarning
        If a label other than "O" has no prefix, and so is probably not a chunk label.

    See Also
    --------
    skstruct.metrics.chunk_f1_score : F1 of chunks.
    skstruct.Chain : The structure of sequences.

    Examples
    --------
    >>> from skstruct.metrics import chunks
    >>> chunks(["B-NP", "I-NP", "O", "I-VP"])
    [(0, 2, 'NP'), (3, 4, 'VP')]
    >>> chunks(["B-NP", "I-NP", "O", "I-VP"], scheme="BIO")
    [(0, 2, 'NP')]
    """
    scheme = None if scheme is None else scheme_name(scheme, runs=True)
    labels = read_chunk_labels(labels, scheme)
    found = chunks_of_read(labels, scheme)
    if scheme == "runs":  # others are strings
        warn_of_mark(labels, "labels")
    warn_of_tags(labels, scheme)
    return found


def chunks_of_read(labels: list, scheme: str | None) -> list[tuple[int, int, str]]:
    """:func:`chunks` of labels that have been read."""
    tags = [tag_and_kind(label, scheme, f" at node {t}") for t, label in enumerate(labels)]
    steps = (chunk_step(*step, scheme) for step in pairwise([OUTSIDE, *tags, OUTSIDE]))
    return [(start, stop, tags[stop - 1][1]) for start, stop in find_chunks(steps)]


def chunk_tags(chunks: Sequence[tuple], n: int, scheme: str = "iob2") -> list[str]:
    """Tags of a sequence with such chunks, as ``chunks`` reads them.

    Tags of another scheme can be easier to learn. Read more in the :ref:`User Guide
    <evaluation_guide>`.

    Parameters
    ----------
    chunks : list of (start, stop, kind) or of longer tuples
        Chunks that do not overlap, in any order.
    n : int
        Number of tokens.
    scheme : {"iob1", "iob2", "ioe2", "iobes", "bilou", "runs"}, default="iob2"
        In any case, with the other names that :func:`chunks` takes. "ioe1" cannot mark a chunk of
        one token before another one of its kind, "runs" no neighbours of one kind.

    Returns
    -------
    list of str
        Tags, "O" outside of chunks.

    Raises
    ------
    ValueError
        If chunks overlap, are not within the tokens, or the scheme is unknown or cannot mark them.

    See Also
    --------
    skstruct.metrics.chunks : Chunks of one label sequence.
    skstruct.Chain : Forbids transitions that break a scheme.

    Examples
    --------
    >>> from skstruct.metrics import chunk_tags, chunks
    >>> chunk_tags(chunks(["I-PER", "I-PER", "O", "I-LOC"], "iob1"), 4, "bilou")
    ['B-PER', 'L-PER', 'O', 'U-LOC']
    """
    scheme, out = scheme_name(scheme, runs=True), ["O"] * n
    if scheme == "ioe1":
        raise ValueError("scheme must be another than 'ioe1', which cannot mark all chunks")
    read = sorted(read_segment(one, "chunks", n) for one in chunks)
    for (start, stop, kind), following in pairwise([*read, (n, n, None)]):
        if stop > following[0]:
            raise ValueError(f"chunks {(start, stop, kind)} and {following} overlap")
        tags = ["I"] * (stop - start)
        if scheme == "runs":
            if (stop, kind) == (following[0], following[2]):
                raise ValueError(f"chunks {(start, stop, kind)} and {following} are one run")
            out[start:stop] = [kind] * (stop - start)
            continue
        after = start > 0 and out[start - 1] != "O" and out[start - 1][2:] == kind
        if scheme in ("iob2", "iobes", "bilou") or (scheme == "iob1" and after):
            tags[0] = "B"
        if scheme in ("ioe2", "iobes"):
            tags[-1] = "E" if scheme == "ioe2" or stop - start > 1 else "S"
        if scheme == "bilou":
            tags[-1] = "L" if stop - start > 1 else "U"
        out[start:stop] = [f"{tag}-{kind}" for tag in tags]
    return out


def chunk_offsets(
    chunks: Sequence[tuple], tokens: Sequence[Any], text: str | None = None
) -> list[tuple]:
    """Chunks of a sequence with their offsets in the text, in characters.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    chunks : list of (start, stop, kind) or of longer tuples
        Chunks by positions of tokens, from :func:`chunks` or ``predict_chunks``.
    tokens : sequence of str, of tuples, or of objects
        The tokens; the first column of tuples, the attribute ``text`` of objects.
    text : str, default=None
        The text, in which the tokens occur in this order; each is searched from the end of the one
        before, the first from the beginning of the text. None reads the attribute ``idx`` of the
        tokens, as those of spaCy have it: use it for a sentence of a longer text.

    Returns
    -------
    list of tuples
        The chunks with ``text[start:stop]`` in place of positions.

    Raises
    ------
    ValueError
        If a token does not occur in `text` after the one before it, or a chunk is not of tokens.
    TypeError
        If `text` is not a str, or there is none and a token has no ``idx``.

    See Also
    --------
    skstruct.metrics.chunks : Chunks of one label sequence.

    Examples
    --------
    >>> from skstruct.metrics import chunk_offsets
    >>> text, tokens = "Dr. Ann Lee left.", ["Dr.", "Ann", "Lee", "left", "."]
    >>> chunk_offsets([(1, 3, "PER")], tokens, text)
    [(4, 11, 'PER')]
    """
    if not isinstance(text, str | None):
        raise TypeError(f"text must be the text of one sequence, got a {type(text).__name__}")
    spans, end = [], 0
    for t, token in enumerate(tokens):
        word = getattr(token, "text", token[0] if isinstance(token, (list, tuple)) else token)
        if text is None and not hasattr(token, "idx"):
            raise TypeError(f"tokens: token {t}, {word!r}, has no attribute idx: text is needed")
        start = token.idx if text is None else text.find(word, end)
        if start < 0:
            raise ValueError(f"text has no {word!r} (token {t}) after its character {end}")
        end = start + len(word)
        spans.append((start, end))
    read = [(*read_segment(one, "chunks", len(spans)), *one[3:]) for one in chunks]
    return [(spans[a][0], spans[b - 1][1], *rest) for a, b, *rest in read]


# The class of "no chunk of this place and kind".
_NONE = -1


def _matched(y_true, y_pred, scheme, labels, sample_weight):
    """Chunks, true or predicted, as items of a plain classification; `_NONE` where one lacks it."""
    pairs = read_chunk_pairs(y_true, y_pred, scheme, sample_weight)
    items = [
        (chunk[2], chunk in true, chunk in predicted, weight)
        for true, predicted, weight in pairs
        for chunk in sorted(true | predicted)
    ]
    present = sorted({kind for kind, *_ in items})
    kinds = present if labels is None else _asked_kinds(labels, present)
    code = {kind: k for k, kind in enumerate([*kinds, *(k for k in present if k not in kinds)])}
    # One item that is no chunk keeps the arrays from being empty, and accuracy out of the reports.
    true, predicted, weights = [_NONE], [_NONE], [1.0]
    for kind, is_true, is_predicted, weight in items:
        true.append(code[kind] if is_true else _NONE)
        predicted.append(code[kind] if is_predicted else _NONE)
        weights.append(weight)
    weights = None if sample_weight is None else np.array(weights)
    return kinds, np.array(true), np.array(predicted), weights


def lists_chunks(y) -> bool:
    """Return whether y has lists of chunks in place of labels, as ``predict_chunks`` returns."""
    return has_segments(y, if_empty=isinstance(y, np.ndarray) and len(y) > 0)


def read_chunk_pairs(y_true, y_pred, scheme, sample_weight=None):
    """Yield true chunks, predicted ones and the weight of each sample, from labels or segments."""
    scheme = None if scheme is None else scheme_name(scheme, runs=True)
    is_listed = lists_chunks(y_true) or lists_chunks(y_pred)
    yield from (_listed if is_listed else _of_labels)(y_true, y_pred, scheme, sample_weight)


def _of_labels(y_true, y_pred, scheme, sample_weight):
    """Yield true chunks, predicted ones and the weight of each sample, from labels."""
    *pair, weights, known = read_pair(y_true, y_pred, sample_weight)
    seen = set()
    for i, (a, b, weight) in enumerate(zip(*pair, weights, strict=True)):
        a, b = read_chunk_labels(a, scheme), read_chunk_labels(b, scheme)
        if known is not None:
            a = [label if is_known else "O" for label, is_known in zip(a, known[i], strict=True)]
        seen.update(map(str, (*a, *b)))
        true, predicted = set(chunks_of_read(a, scheme)), set(chunks_of_read(b, scheme))
        if known is not None:
            true, predicted = _certain(true, known[i]), _certain(predicted, known[i])
        yield true, predicted, weight
    warn_of_tags(sorted(seen), scheme)


def _listed(y_true, y_pred, scheme, sample_weight):
    """Yield the same of lists of segments, of which one side may have labels."""
    sides = []
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        is_listed, read = has_segments(y, if_empty=True), []
        for i, own in enumerate(as_list(y, name)):
            where = f"{name}: sample {i}"
            own = (read_segment(x, where) for x in own) if is_listed else chunks(own, scheme)
            read.append({one for one in own if one[2] != "O"})
        sides.append(read)
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"y_true has {len(sides[0])} samples, y_pred has {len(sides[1])}")
    yield from zip(*sides, read_sample_weight(sample_weight, len(sides[0])), strict=True)


def _certain(chunks, known):
    """The chunks that neither hold a node without a true label nor have one next to them."""
    return {
        (start, stop, kind)
        for start, stop, kind in chunks
        if known[max(start - 1, 0) : stop + 1].all()
    }


def _asked_kinds(labels, present):
    if isinstance(labels, str):
        raise TypeError(f"labels must be a list of kinds, got {labels!r}: write [{labels!r}]")
    for label in labels:
        kind = str(label)[2:]
        if label not in present and str(label)[1:2] == "-" and kind in present:
            raise ValueError(
                f"labels are kinds of chunks, without a prefix: {kind!r}, not {label!r}; kinds are "
                + ", ".join(present)
            )
    return list(labels)


Average = Literal["micro", "macro", "weighted"]


class _Options(TypedDict, total=False):
    labels: ArrayLike | None
    scheme: str | None
    sample_weight: ArrayLike | None
    zero_division: float | str


def chunk_precision_recall_fscore_support(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    beta: float = 1.0,
    labels: ArrayLike | None = None,
    average: Average | None = None,
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> tuple:
    """Precision, recall and F-beta of chunks: a chunk is correct if its ends and its kind are.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions. Chunks at or next to nodes without a true label (None, NaN, masked),
        or with a set of labels, do not count. Segments (start, stop, kind), as
        :class:`~skstruct.SemiChain` predicts them, are chunks, unless their kind is "O".
    beta : float, default=1.0
        Weight of recall against precision.
    labels : list of str, default=None
        Kinds to include, in order, such as ``["NP", "VP"]``; by default all, sorted.
    average : {"micro", "macro", "weighted", None}, default=None
        Over all chunks together, over kinds, over kinds weighted by their number, or not at all.
    scheme : str, default=None
        See :func:`chunks`; None gives the numbers of the conlleval script.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's chunks.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of precision without predictions, and of recall without true chunks; "warn" is 0 with
        a warning.

    Returns
    -------
    precision, recall, fscore : float, or ndarray of shape (n_kinds,) if `average` is None
        The scores.
    support : None, or ndarray of shape (n_kinds,) if `average` is None
        Number of true chunks of each kind.

    Raises
    ------
    ValueError
        If there are no labels, lengths differ, or `average` or `scheme` is unknown.

    See Also
    --------
    skstruct.metrics.chunk_f1_score : F1 of chunks.
    skstruct.metrics.chunk_classification_report : Scores of chunks by type, as text.

    Examples
    --------
    >>> from skstruct.metrics import chunk_precision_recall_fscore_support
    >>> y_true, y_pred = [["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "B-NP"]]
    >>> chunk_precision_recall_fscore_support(y_true, y_pred, average="micro")
    (0.5, 0.5, 0.5, None)
    """
    true, predicted, options = _classification(
        y_true, y_pred, labels, average, scheme, sample_weight
    )
    scores = precision_recall_fscore_support(
        true, predicted, beta=beta, zero_division=zero_division, **options
    )
    return scores if average is None else (*(float(score) for score in scores[:3]), None)


def _classification(y_true, y_pred, labels, average, scheme, sample_weight):
    """Chunks as scikit-learn's measures take them, with their options."""
    if average not in (*get_args(Average), None):
        raise ValueError(f"average must be 'micro', 'macro', 'weighted' or None, got {average!r}")
    kinds, true, predicted, weights = _matched(y_true, y_pred, scheme, labels, sample_weight)
    # Without any kind an average is that of one kind that does not occur.
    shown = len(kinds) if average is None else max(len(kinds), 1)
    options = {"labels": list(range(shown)), "average": average, "sample_weight": weights}
    return true, predicted, options


def _score(
    measure, y_true, y_pred, labels, average, scheme, sample_weight, zero_division, beta=1.0
):
    true, predicted, options = _classification(
        y_true, y_pred, labels, average, scheme, sample_weight
    )
    options |= {"beta": beta, "zero_division": zero_division, "warn_for": (measure,)}
    scores = precision_recall_fscore_support(true, predicted, **options)
    score = scores[("precision", "recall", "f-score").index(measure)]
    return score if average is None else float(score)


@overload
def chunk_precision_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: None, **options: Unpack[_Options]
) -> np.ndarray: ...
@overload
def chunk_precision_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: Average = ..., **options: Unpack[_Options]
) -> float: ...
def chunk_precision_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: Average | None = "micro",
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """Precision of chunks: fraction of the predicted chunks that are correct.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions.
    labels, average, scheme, sample_weight, zero_division : optional
        As for :func:`chunk_precision_recall_fscore_support`, but "micro" averages by default.

    Returns
    -------
    float or ndarray of shape (n_kinds,)
        The score.

    See Also
    --------
    skstruct.metrics.chunk_recall_score : Recall of chunks.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Examples
    --------
    >>> from skstruct.metrics import chunk_precision_score
    >>> chunk_precision_score([["B-NP", "O", "B-NP"]], [["B-NP", "O", "O"]])
    1.0
    """
    return _score(
        "precision", y_true, y_pred, labels, average, scheme, sample_weight, zero_division
    )


@overload
def chunk_recall_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: None, **options: Unpack[_Options]
) -> np.ndarray: ...
@overload
def chunk_recall_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: Average = ..., **options: Unpack[_Options]
) -> float: ...
def chunk_recall_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: Average | None = "micro",
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """Recall of chunks: fraction of the true chunks that are found.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions.
    labels, average, scheme, sample_weight, zero_division : optional
        As for :func:`chunk_precision_recall_fscore_support`, but "micro" averages by default.

    Returns
    -------
    float or ndarray of shape (n_kinds,)
        The score.

    See Also
    --------
    skstruct.metrics.chunk_precision_score : Precision of chunks.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Examples
    --------
    >>> from skstruct.metrics import chunk_recall_score
    >>> chunk_recall_score([["B-NP", "O", "B-NP"]], [["B-NP", "O", "O"]])
    0.5
    """
    return _score("recall", y_true, y_pred, labels, average, scheme, sample_weight, zero_division)


@overload
def chunk_fbeta_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    beta: float,
    average: None,
    **options: Unpack[_Options],
) -> np.ndarray: ...
@overload
def chunk_fbeta_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    beta: float,
    average: Average = ...,
    **options: Unpack[_Options],
) -> float: ...
def chunk_fbeta_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    beta: float,
    labels: ArrayLike | None = None,
    average: Average | None = "micro",
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """F-beta over chunks: the weighted harmonic mean of precision and recall.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions.
    beta : float
        Weight of recall against precision.
    labels, average, scheme, sample_weight, zero_division : optional
        As for :func:`chunk_precision_recall_fscore_support`, but "micro" averages by default.

    Returns
    -------
    float or ndarray of shape (n_kinds,)
        The score.

    See Also
    --------
    skstruct.metrics.chunk_f1_score : F1 of chunks.
    skstruct.metrics.chunk_precision_score : Precision of chunks.

    Examples
    --------
    >>> from skstruct.metrics import chunk_fbeta_score
    >>> round(chunk_fbeta_score([["B-NP", "O", "B-NP"]], [["B-NP", "O", "O"]], beta=0.5), 3)
    0.833
    """
    return _score(
        "f-score", y_true, y_pred, labels, average, scheme, sample_weight, zero_division, beta
    )


@overload
def chunk_f1_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: None, **options: Unpack[_Options]
) -> np.ndarray: ...
@overload
def chunk_f1_score(
    y_true: SamplesLike, y_pred: SamplesLike, *, average: Average = ..., **options: Unpack[_Options]
) -> float: ...
def chunk_f1_score(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    average: Average | None = "micro",
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = "warn",
) -> float | np.ndarray:
    """F1 over chunks, the measure of the CoNLL tasks.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions.
    labels, average, scheme, sample_weight, zero_division : optional
        As for :func:`chunk_precision_recall_fscore_support`, but "micro" averages by default.

    Returns
    -------
    float or ndarray of shape (n_kinds,)
        The score.

    See Also
    --------
    skstruct.metrics.chunk_classification_report : Scores of chunks by type, as text.
    skstruct.metrics.chunks : The chunks that tags stand for.
    skstruct.metrics.flatten : Labels of nodes, for metrics of single labels.

    Examples
    --------
    >>> from skstruct.metrics import chunk_f1_score
    >>> chunk_f1_score([["B-NP", "O", "B-NP"]], [["B-NP", "O", "O"]])
    0.6666666666666666
    >>> chunk_f1_score([[(0, 1, "NP"), (2, 3, "NP")]], [[(0, 1, "NP")]])
    0.6666666666666666
    """
    return _score("f-score", y_true, y_pred, labels, average, scheme, sample_weight, zero_division)


@overload
def chunk_classification_report(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    digits: int = ...,
    output_dict: Literal[True],
    **options: Unpack[_Options],
) -> dict: ...
@overload
def chunk_classification_report(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    digits: int = ...,
    output_dict: Literal[False] = ...,
    **options: Unpack[_Options],
) -> str: ...
def chunk_classification_report(
    y_true: SamplesLike,
    y_pred: SamplesLike,
    *,
    labels: ArrayLike | None = None,
    scheme: str | None = None,
    sample_weight: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float | str = "warn",
) -> str | dict:
    """Precision, recall, F1 and number of chunks of each kind, and their averages.

    Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions.
    labels, scheme, sample_weight : optional
        As for :func:`chunk_precision_recall_fscore_support`.
    digits : int, default=2
        Decimals in the text.
    output_dict : bool, default=False
        Whether to return a dict of dicts instead of text.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        Value of undefined scores; "warn" is 0 with a warning.

    Returns
    -------
    str or dict
        In the form of scikit-learn's ``classification_report``. Keys of the dict are the kinds,
        then ``"micro avg"``, ``"macro avg"`` and ``"weighted avg"``.

    Raises
    ------
    ValueError
        If there are no labels or no chunks, lengths differ, or `scheme` is unknown.

    See Also
    --------
    skstruct.metrics.chunk_f1_score : F1 of chunks.
    skstruct.metrics.flatten : Labels of nodes, for reports on single labels.

    Examples
    --------
    >>> from skstruct.metrics import chunk_classification_report
    >>> report = chunk_classification_report([["B-NP"]], [["B-NP"]], output_dict=True)
    >>> report["NP"]["f1-score"]
    1.0
    """
    kinds, true, predicted, weights = _matched(y_true, y_pred, scheme, labels, sample_weight)
    if not kinds:
        raise ValueError("neither y_true nor y_pred has a chunk: name the kinds with labels=")
    return classification_report(
        true,
        predicted,
        labels=list(range(len(kinds))),
        target_names=[str(kind) for kind in kinds],
        sample_weight=weights,
        digits=digits,
        output_dict=output_dict,
        zero_division=zero_division,
    )

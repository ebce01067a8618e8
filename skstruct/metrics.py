"""Metrics of structured predictions: nodes, whole sequences, chunks.

All functions take y in every form that estimators take (lists, object arrays, RaggedArray, Series,
3-D arrays) and check the lengths sample by sample. They have scikit-learn's metric signature, so
``make_scorer`` and metadata routing work; :data:`SCORERS` has them ready for ``scoring=``.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from sklearn.metrics import f1_score, make_scorer

from .ragged import RaggedArray

# How a chunk of each scheme starts and goes on: pairs (tag before, tag) with what their kinds must
# be: "=" the same, "!" different, "*" any. "." stands for any tag before. A chunk is given only if
# the step that leaves it is among its ends.
_STRICT = {
    "iob1": (
        {"OI": "*", "II": "!", "BI": "*", "IB": "=", "BB": "="},
        {"BI": "=", "II": "="},
        {"II": "!", "IO": "*", "IB": "*", "BO": "*", "BI": "!", "BB": "="},
    ),
    "iob2": (
        {".B": "*"},
        {"BI": "=", "II": "="},
        {"IO": "*", "II": "!", "IB": "*", "BO": "*", "BI": "!", "BB": "*"},
    ),
    "ioe1": (
        {"OI": "*", "II": "!", "EI": "*", "EE": "="},
        {"II": "=", "IE": "="},
        {"II": "!", "IO": "*", "IE": "!", "EI": "=", "EE": "="},
    ),
    "ioe2": (
        {"OI": "*", "OE": "*", "EI": "*", "EE": "*", "II": "!", "IE": "!"},
        {"IE": "=", "II": "="},
        {"E.": "*"},
    ),
    "iobes": (
        {".B": "*", ".S": "*"},
        {"BI": "=", "BE": "=", "II": "=", "IE": "="},
        {"S.": "*", "E.": "*"},
    ),
}
_STRICT["bioes"] = _STRICT["iobes"]
_TAGS = {"iob1": "IOB", "iob2": "IOB", "ioe1": "IOE", "ioe2": "IOE"}


def _split(label):
    label = str(label)
    tag, dash, kind = label.partition("-")
    if not dash:
        return label[:1], label[1:]
    return tag[:1], kind


def _matches(table, before, after):
    """Whether the step is in a table of :data:`_STRICT`."""
    for key in (before[0] + after[0], "." + after[0], before[0] + "."):
        how = table.get(key)
        if how == "*" or (how is not None and (how == "=") == (before[1] == after[1])):
            return True
    return False


def _strict_chunks(tags, scheme):
    starts, goes_on, ends = _STRICT[scheme]
    tags = [*tags, ("O", "")]
    found, t, before = [], 0, ("O", "")
    while t < len(tags):
        if not _matches(starts, before, tags[t]):
            before = tags[t]
            t += 1
            continue
        stop = t + 1
        while stop < len(tags) and _matches(goes_on, tags[stop - 1], tags[stop]):
            stop += 1
        if _matches(ends, tags[stop - 1], tags[min(stop, len(tags) - 1)]):
            found.append((t, stop, tags[t][1]))
        before = tags[stop - 1]
        t = stop
    return found


def _conlleval_chunks(tags):
    found, start = [], None
    before = ("O", "")
    for t, (tag, kind) in enumerate([*tags, ("O", "")]):
        b_tag, b_kind = before
        ends = b_tag in "ES" or (b_tag in "BI" and tag in "BSO")
        ends = ends or (b_tag not in "O." and b_kind != kind)
        if start is not None and ends:
            found.append((start, t, b_kind))
            start = None
        begins = tag in "BS" or (b_tag in "ESO" and tag in "EI")
        begins = begins or (tag not in "O." and b_kind != kind)
        if begins:
            start = t
        before = (tag, kind)
    return found


def chunks(labels, scheme: str | None = None) -> list[tuple[int, int, str]]:
    """Chunks of one label sequence.

    Parameters
    ----------
    labels : sequence of str
        Labels such as ``"B-NP"``, ``"I-NP"``, ``"O"``.
    scheme : {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bioes"}, default=None
        None reads any mixture by the rules of the conlleval script, which repairs wrong sequences
        (an ``I-NP`` after ``O`` begins a chunk). With a scheme only chunks that follow its rules
        count, as in seqeval's strict mode.

    Returns
    -------
    list of (start, stop, kind)
        Positions ``start:stop`` and the kind, in order.

    Raises
    ------
    ValueError
        If the scheme is unknown, or a label is not of the scheme.

    Examples
    --------
    >>> from skstruct.metrics import chunks
    >>> chunks(["B-NP", "I-NP", "O", "I-VP"])
    [(0, 2, 'NP'), (3, 4, 'VP')]
    >>> chunks(["B-NP", "I-NP", "O", "I-VP"], scheme="iob2")
    [(0, 2, 'NP')]
    """
    tags = [_split(label) for label in labels]
    if scheme is None:
        return _conlleval_chunks(tags)
    if scheme not in _STRICT:
        raise ValueError(f"unknown scheme {scheme!r}; known are {', '.join(sorted(_STRICT))}")
    known = _TAGS.get(scheme, "IOBES")
    for t, (tag, _) in enumerate(tags):
        if tag not in known or not tag:
            raise ValueError(f"label {labels[t]!r} at node {t} is not of the scheme {scheme!r}")
    return _strict_chunks(tags, scheme)


def _pairs(y_true, y_pred, sample_weight):
    """Both as lists of 1-D arrays of equal lengths, and one weight a sample."""
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} samples, y_pred has {len(y_pred)}")
    true, predicted = (
        list(y) if isinstance(y, RaggedArray) else [np.asarray(row) for row in y]
        for y in (y_true, y_pred)
    )
    for i, (a, b) in enumerate(zip(true, predicted, strict=True)):
        if a.ndim != 1 or b.ndim != 1:
            raise ValueError(f"sample {i} must be a 1-D sequence of labels")
        if len(a) != len(b):
            raise ValueError(f"sample {i}: y_true has {len(a)} labels, y_pred has {len(b)}")
    weights = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight, float)
    if weights.shape != (len(true),):
        raise ValueError(f"sample_weight must be of shape ({len(true)},), got {weights.shape}")
    return true, predicted, weights


def node_accuracy(y_true, y_pred, *, sample_weight=None) -> float:
    """Share of nodes that are labelled right.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from skstruct.metrics import node_accuracy
    >>> node_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    true, predicted, weights = _pairs(y_true, y_pred, sample_weight)
    right = np.array([(a == b).sum() for a, b in zip(true, predicted, strict=True)])
    return float(weights @ right / (weights @ [len(a) for a in true]))


def sequence_accuracy(y_true, y_pred, *, sample_weight=None) -> float:
    """Share of samples whose labels are all right.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from skstruct.metrics import sequence_accuracy
    >>> sequence_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    true, predicted, weights = _pairs(y_true, y_pred, sample_weight)
    right = [bool((a == b).all()) for a, b in zip(true, predicted, strict=True)]
    return float(np.average(right, weights=weights))


def node_f1(y_true, y_pred, *, average="weighted", labels=None, sample_weight=None):
    """F1 over nodes: scikit-learn's ``f1_score`` on the concatenated labels.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    average : {"micro", "macro", "weighted", None}, default="weighted"
        How to average over labels (two labels are averaged like any other number).
    labels : list, default=None
        Labels to include.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's nodes.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        The score.

    Examples
    --------
    >>> from skstruct.metrics import node_f1
    >>> round(node_f1([["a", "b"], ["a"]], [["a", "a"], ["a"]]), 3)
    0.533
    """
    true, predicted, weights = _pairs(y_true, y_pred, sample_weight)
    return f1_score(
        np.concatenate(true),
        np.concatenate(predicted),
        average=average,
        labels=labels,
        sample_weight=np.repeat(weights, [len(a) for a in true]),
        zero_division=0.0,
    )


def _counts(y_true, y_pred, scheme, sample_weight):
    """Weighted numbers of right, predicted and true chunks of each kind."""
    right, found, expected = Counter(), Counter(), Counter()
    for a, b, weight in zip(*_pairs(y_true, y_pred, sample_weight), strict=True):
        true, predicted = set(chunks(a, scheme)), set(chunks(b, scheme))
        for counter, items in ((right, true & predicted), (found, predicted), (expected, true)):
            for _, _, kind in items:
                counter[kind] += weight
    kinds = sorted(set(found) | set(expected))
    return kinds, *(np.array([c[k] for k in kinds], float) for c in (right, found, expected))


def _ratio(numerator, denominator):
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def chunk_scores(y_true, y_pred, *, scheme=None, average="micro", sample_weight=None):
    """Precision, recall and F1 over chunks: a chunk is right if both ends and its kind are.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    scheme : str, default=None
        See :func:`chunks`; None gives the numbers of the conlleval script.
    average : {"micro", "macro", "weighted", None}, default="micro"
        Over all chunks together, over kinds, over kinds weighted by their number, or not at all.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's chunks.

    Returns
    -------
    precision, recall, f1 : float, or ndarray of shape (n_kinds,) if `average` is None
        The scores, 0 where nothing is found or expected.

    Raises
    ------
    ValueError
        If lengths differ, or `average` or `scheme` is unknown.

    Examples
    --------
    >>> from skstruct.metrics import chunk_scores
    >>> chunk_scores([["B-NP", "I-NP", "B-NP"]], [["B-NP", "I-NP", "I-NP"]])
    (0.0, 0.0, 0.0)
    """
    if average not in ("micro", "macro", "weighted", None):
        raise ValueError(f"average must be 'micro', 'macro', 'weighted' or None, got {average!r}")
    _, right, found, expected = _counts(y_true, y_pred, scheme, sample_weight)
    if average == "micro":
        right, found, expected = (np.array([c.sum()]) for c in (right, found, expected))
    scores = _ratio(right, found), _ratio(right, expected), _ratio(2 * right, found + expected)
    if average is None:
        return scores
    weights = expected if average == "weighted" else np.ones_like(expected)
    total = weights.sum()
    return tuple(float(score @ weights / total) if total > 0 else 0.0 for score in scores)


def chunk_f1(y_true, y_pred, *, scheme=None, average="micro", sample_weight=None):
    """F1 over chunks, the measure of the CoNLL tasks.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    scheme : str, default=None
        See :func:`chunks`.
    average : {"micro", "macro", "weighted", None}, default="micro"
        See :func:`chunk_scores`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's chunks.

    Returns
    -------
    float or ndarray of shape (n_kinds,)
        The score.

    Examples
    --------
    >>> from skstruct.metrics import chunk_f1
    >>> chunk_f1([["B-NP", "O", "B-NP"]], [["B-NP", "O", "O"]])
    0.6666666666666666
    """
    return chunk_scores(
        y_true, y_pred, scheme=scheme, average=average, sample_weight=sample_weight
    )[2]


def chunk_report(y_true, y_pred, *, scheme=None, output_dict=False, digits=2):
    """Precision, recall, F1 and number of chunks of each kind, and their averages.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences
        Truth and predictions.
    scheme : str, default=None
        See :func:`chunks`.
    output_dict : bool, default=False
        Whether to return a dict of dicts rather than a text.
    digits : int, default=2
        Decimals in the text.

    Returns
    -------
    str or dict
        Keys are the kinds, then ``"micro avg"``, ``"macro avg"`` and ``"weighted avg"``.

    Examples
    --------
    >>> from skstruct.metrics import chunk_report
    >>> chunk_report([["B-NP"]], [["B-NP"]], output_dict=True)["NP"]["f1-score"]
    1.0
    """
    kinds, _, _, expected = _counts(y_true, y_pred, scheme, None)
    columns = chunk_scores(y_true, y_pred, scheme=scheme, average=None)
    rows = dict(zip(kinds, zip(*columns, expected, strict=True), strict=True))
    for average in ("micro", "macro", "weighted"):
        scores = chunk_scores(y_true, y_pred, scheme=scheme, average=average)
        rows[f"{average} avg"] = (*scores, expected.sum())
    names = ("precision", "recall", "f1-score", "support")
    table = {
        kind: dict(zip(names, (float(value) for value in values), strict=True))
        for kind, values in rows.items()
    }
    if output_dict:
        return table
    width = max(len(kind) for kind in table)
    lines = [" " * width + "".join(f"{name:>11}" for name in names), ""]
    for kind, row in table.items():
        if kind == "micro avg":
            lines.append("")
        cells = "".join(f"{row[name]:11.{digits}f}" for name in names[:3])
        lines.append(f"{kind:>{width}}{cells}{row['support']:11.0f}")
    return "\n".join(lines) + "\n"


#: Scorers for ``scoring=``: ``GridSearchCV(..., scoring=SCORERS["chunk_f1"])``.
SCORERS = {
    "node_accuracy": make_scorer(node_accuracy),
    "node_f1": make_scorer(node_f1),
    "sequence_accuracy": make_scorer(sequence_accuracy),
    "chunk_f1": make_scorer(chunk_f1),
}

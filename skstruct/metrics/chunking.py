"""Chunks of label sequences: by the rules of conlleval, or of one tagging scheme."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..data.schemes import scheme_name
from ..data.values import as_labels, family

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
# Last and unit are called end and single from here on.
_STRICT["bilou"] = _STRICT["iobes"]
_SAME = {"L": "E", "U": "S"}
_TAGS = {
    "iob1": "IOB",
    "iob2": "IOB",
    "ioe1": "IOE",
    "ioe2": "IOE",
    "iobes": "IOBES",
    "bilou": "BILOU",
}


# Labels that need no prefix: those of chunks without a kind.
_ALONE = set("OBIESLU.")


def _split(label):
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


def read_chunk_labels(labels) -> list:
    """Labels of one sequence, which must be strings."""
    labels = labels if hasattr(labels, "__len__") else list(labels)
    array = as_labels(labels, "labels", "node {}".format)
    if array.size and family(type(array[0])) != "strings":
        raise TypeError(f"labels of chunks must be str, got {array.tolist()[0]!r} (node 0)")
    return array.tolist()


def warn_of_tags(labels, stacklevel: int = 3) -> None:
    """Warn if labels are most likely no labels of chunks."""
    tag = next((v for v in labels if v not in _ALONE and v[1:2] != "-"), None)
    if tag is not None:
        warnings.warn(
            f"label {tag!r} has no chunk prefix (such as B- or I-); for tags use "
            "node_classification_report",
            UserWarning,
            stacklevel=stacklevel,
        )


def chunks(labels: Sequence[str], scheme: str | None = None) -> list[tuple[int, int, str]]:
    """Chunks of one label sequence.

    Parameters
    ----------
    labels : sequence of str
        Labels such as ``"B-NP"``, ``"I-NP"``, ``"O"``.
    scheme : {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou"}, default=None
        In any case; also "bio" (iob2), "bioes" (iobes), "biluo" and "bioul" (bilou). None reads any
        mixture by the rules of the conlleval script, which repairs wrong sequences (an ``I-NP``
        after ``O`` begins a chunk). With a scheme only chunks that follow its rules count, as in
        seqeval's strict mode.

    Returns
    -------
    list of (start, stop, kind)
        Positions ``start:stop`` and the kind, in order.

    Raises
    ------
    ValueError, TypeError
        If the scheme is unknown, or a label is not of the scheme or no string.

    Warns
    -----
    UserWarning
        If a label other than "O" has no prefix: it is most likely no label of chunks.

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
    labels = read_chunk_labels(labels)
    found = chunks_of_read(labels, scheme)
    warn_of_tags(labels)
    return found


def chunks_of_read(labels: list, scheme: str | None) -> list[tuple[int, int, str]]:
    """:func:`chunks` of labels that have been read."""
    scheme = None if scheme is None else scheme_name(scheme)
    tags = []
    for t, label in enumerate(labels):
        tag, kind = _split(label)
        if not tag or (scheme is not None and tag not in _TAGS[scheme]):
            where = "empty" if scheme is None else f"not of the scheme {scheme!r}"
            raise ValueError(f"label {label!r} at node {t} is {where}")
        # A label such as "LOC" has no tag to rename.
        renamed = label == tag or label[1] == "-"
        tags.append((_SAME.get(tag, tag) if renamed else tag, kind))
    return _conlleval_chunks(tags) if scheme is None else _strict_chunks(tags, scheme)

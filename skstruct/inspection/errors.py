"""Errors of predictions: which chunks or labels are wrong, how, and where."""

from __future__ import annotations

from collections import Counter, defaultdict
from html import escape
from itertools import compress, count
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np

from ..data.constraints import without_prefix
from ..data.frames import as_frame, as_html, as_text, axes_of
from ..data.packing import as_list
from ..data.ragged import object_array
from ..data.segments import has_segments
from ..metrics.chunks import lists_chunks, read_chunk_pairs
from ..metrics.nodes import read_pair
from .tables import _words

_OF_CHUNKS = ("correct", "wrong boundary", "wrong type", "missed", "made up")
_OF_LABELS = ("correct", "confused")
# Rows of errors in notebooks; types, or pairs of labels, in summaries that are shown.
_FEW, _MANY = 10, 20


class _Item(NamedTuple):
    """A true chunk or node and its prediction, (start, stop, label) each, or None."""

    sample: int
    kind: str
    true: tuple | None
    predicted: tuple | None
    confidence: float | None = None

    @property
    def one(self):
        """The true chunk or node; the predicted one where there is no true one."""
        return self.predicted if self.true is None else self.true


def match_chunks(true: set, predicted: set) -> list[tuple]:
    """Pairs (true, predicted) of chunks that overlap, each in one pair; with None if it is alone.

    Equal chunks go first, then those of the same span, of the same kind, with most common nodes.
    """
    left, spare = sorted(true - predicted), sorted(predicted - true)
    near, first = [], 0
    for a in left:
        while first < len(spare) and spare[first][1] <= a[0]:
            first += 1
        for q in range(first, len(spare)):
            b = spare[q]
            if b[0] >= a[1]:
                break
            if b[1] > a[0]:
                common = min(a[1], b[1]) - max(a[0], b[0])
                near.append((a[:2] != b[:2], a[2] != b[2], -common, a, b))
    partner, taken = dict.fromkeys(left), set()
    for *_, a, b in sorted(near):
        if partner[a] is None and b not in taken:
            partner[a] = b
            taken.add(b)
    pairs = [*((a, a) for a in true & predicted), *partner.items()]
    return [*pairs, *((None, b) for b in spare if b not in taken)]


def _kind(a, b):
    """What is wrong with a pair of chunks."""
    if a is None or b is None:
        return "made up" if a is None else "missed"
    if a == b:
        return "correct"
    return "wrong type" if a[:2] == b[:2] else "wrong boundary"


def _read_labels(y_true, y_pred):
    """For each sample its size and pairs of labels, as nodes; whether they are those of chunks."""
    true, predicted, _, known = read_pair(y_true, y_pred, images=True)
    known = [np.ones(len(row), dtype=bool) for row in true] if known is None else known
    found, seen = [], set()
    for a, b, counted in zip(true, predicted, known, strict=True):
        seen.update(a.tolist(), b.tolist())
        nodes = [zip(count(), count(1), row.tolist(), strict=False) for row in (a, b)]
        found.append((len(a), [*compress(zip(*nodes, strict=True), counted)]))
    are_tags = all(isinstance(label, str) for label in seen) and without_prefix(seen) is None
    return found, are_tags


def _read_confidences(confidences, n, name):
    """Probabilities in one array."""
    if isinstance(confidences, tuple) and getattr((*confidences, None)[0], "dtype", "") == "bool":
        confidences = confidences[1]  # of metrics.confidences, whether they are right comes first
    try:
        rows = [np.ravel(np.asarray(one, dtype=np.float64)) for one in confidences]
    except (TypeError, ValueError):
        raise TypeError(f"confidences must hold probabilities, got {confidences!r:.80}") from None
    flat = np.concatenate([np.empty(0), *rows])
    if flat.size != n:
        raise ValueError(f"confidences has {flat.size} numbers, but there are {n} {name}")
    if not ((flat >= 0.0) & (flat <= 1.0)).all():
        raise ValueError("confidences must hold probabilities from 0 to 1")
    return flat


def _read_known(known):
    """Words, or the words of sequences of tokens, as a set."""
    items = [None] if isinstance(known, str) or not hasattr(known, "__iter__") else known
    items = (one for one in items if not hasattr(one, "__len__") or len(one))
    read = [[one] if isinstance(one, str) else _words(one) for one in items]
    if None in read:
        raise TypeError("known must hold words, or sequences of tokens, such as those of training")
    return {word for own in read for word in own}


def _tenth(item):
    """The range of a confidence, None if there is none."""
    if item.confidence is None:
        return None
    tenth = min(int(item.confidence * 10), 9)
    return f"{tenth / 10:.1f}-{(tenth + 1) / 10:.1f}"


class ErrorAnalysis:
    """Errors of predictions: tables by kind, type, length, unknown words and confidence.

    Chunks are compared if labels are tags such as "B-PER", or lists of segments; else the labels of
    nodes. Read more in the :ref:`User Guide <evaluation_guide>`.

    Parameters
    ----------
    y_true, y_pred : sequences of label sequences, or of lists of segments
        Truth and predictions, as for :func:`skstruct.metrics.chunk_f1_score`; `y_pred` may be the
        output of ``predict_chunks``, whose probabilities are then the confidences.
    X : list, object array or RaggedArray, default=None
        The raw samples, for texts: tokens are strings, tuples whose first column is the word, or
        objects with the attribute ``text``. Without words, tokens are shown by their numbers.
    scheme : str, default=None
        Tagging scheme, see :func:`skstruct.metrics.chunks`; "runs" for chunks of plain labels.
    known : collection of words, or sequences of tokens, default=None
        Known words, such as the training samples, for `by_known`.
    confidences : array-like, default=None
        Probability of each predicted chunk, in order, or of each node: a flat array, one array per
        sample, or the output of :func:`skstruct.metrics.confidences`.

    Attributes
    ----------
    unit : str
        What is compared, "chunks" or "labels".
    n_errors : int
        Number of errors.
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.

    Raises
    ------
    ValueError
        If lengths differ, or `known` is given and X has no words.

    See Also
    --------
    skstruct.metrics.chunk_classification_report : Scores of chunks by type.
    skstruct.inspection.prediction_frame : Predictions as a table.
    skstruct.inspection.explain : Why a sample got its labels.

    Notes
    -----
    Each chunk, true or predicted, is counted once. It is correct if both ends and the type are. A
    true chunk and a predicted one that overlap, but differ, are one error: "wrong type" if both
    ends are right, else "wrong boundary", whatever the types. Pairs of the same span go first, then
    pairs of the same type, then those with most common tokens. The remaining true chunks are
    "missed", the remaining predicted ones "made up".

    Examples
    --------
    >>> from skstruct.inspection import ErrorAnalysis
    >>> words = [["Ann", "Lee", "left", "Rome", "for", "Oslo"]]
    >>> truth = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"]]
    >>> predicted = [["B-PER", "O", "O", "B-ORG", "O", "B-LOC"]]
    >>> analysis = ErrorAnalysis(truth, predicted, words)
    >>> analysis.errors[["kind", "true", "text", "predicted", "predicted_text"]]
                 kind true     text predicted predicted_text
    0  wrong boundary  PER  Ann Lee       PER            Ann
    1      wrong type  LOC     Rome       ORG           Rome
    """

    def __init__(
        self,
        y_true: Any,
        y_pred: Any,
        X: Any = None,
        *,
        scheme: str | None = None,
        known: Any = None,
        confidences: Any = None,
    ) -> None:
        sides = y_true, y_pred
        # Where one side has lists of chunks, empty lists are samples without chunks.
        is_listed = [has_segments(y, if_empty=any(map(lists_chunks, sides))) for y in sides]
        found, are_tags = None, True
        if scheme is None and not any(is_listed):
            found, are_tags = _read_labels(y_true, y_pred)
        self.unit, self._kinds = ("chunks", _OF_CHUNKS) if are_tags else ("labels", _OF_LABELS)
        if are_tags:
            found = self._read_chunks(y_true, y_pred, scheme, is_listed)
        self._items = [
            _Item(i, _kind(*pair) if are_tags else self._kinds[pair[0] != pair[1]], *pair)
            for i, (_, pairs) in enumerate(found)
            for pair in pairs
        ]
        self._take_confidences(y_pred, confidences)
        self._items.sort(key=lambda item: (item.sample, *item.one[:2], str(item.one[2])))
        self._tokens = self._read_tokens(X, [n for n, _ in found], all(is_listed))
        self._known = None if known is None else _read_known(known)
        if known is not None and not self._has_words:
            raise ValueError("known: X has no words to compare with")
        self._wrong = [item for item in self._items if item.kind != "correct"]
        self.n_errors = len(self._wrong)

    def _read_chunks(self, y_true, y_pred, scheme, is_listed):
        """Number of nodes of each sample, as far as it is seen, and its pairs of chunks."""
        pairs = [match_chunks(*own) for *own, _ in read_chunk_pairs(y_true, y_pred, scheme)]
        sizes = [max((one[1] for pair in own for one in pair if one), default=0) for own in pairs]
        for y, has_lists in zip((y_true, y_pred), is_listed, strict=True):
            sizes = sizes if has_lists else [len(own) for own in y]
        return [*zip(sizes, pairs, strict=True)]

    def _take_confidences(self, y_pred, confidences):
        """Attach confidences to predictions; by default those in lists of chunks."""
        given = {}
        if confidences is not None:
            order = sorted((item.sample, item.predicted) for item in self._items if item.predicted)
            values = _read_confidences(confidences, len(order), f"predicted {self.unit}")
            given = dict(zip(order, values.tolist(), strict=True))
        elif lists_chunks(y_pred):
            chunks = ((i, one) for i, own in enumerate(y_pred) for one in own)
            given = {(i, tuple(one[:3])): (*one, None)[3] for i, one in chunks}
        for q, item in enumerate(self._items):
            self._items[q] = item._replace(confidence=given.get((item.sample, item.predicted)))

    def _read_tokens(self, X, sizes, are_bounds):
        """The words of each sample, numbers where it has none."""
        samples = [None] * len(sizes) if X is None else as_list(X, "X")
        if len(samples) != len(sizes):
            raise ValueError(f"X has {len(samples)} samples, y_true has {len(sizes)}")
        words = [*map(_words, samples)]
        for i, (own, size) in enumerate(zip(words, sizes, strict=True)):
            if own is not None and (len(own) < size or (len(own) > size and not are_bounds)):
                raise ValueError(f"X: sample {i} has {len(own)} words, y has {size} nodes")
        self._has_words = any(own is not None for own in words)
        numbers = ([*map(str, range(size))] for size in sizes)
        return [own or others for own, others in zip(words, numbers, strict=True)]

    def _errors(self):
        wrong = self._wrong
        columns = {
            "sample": np.array([item.sample for item in wrong], dtype=np.int64),
            "kind": object_array([item.kind for item in wrong]),
        }
        for side, before in (("true", ""), ("predicted", "predicted_")):
            found = [(item.sample, *(getattr(item, side) or (-1, -1, None))) for item in wrong]
            texts = [" ".join(self._tokens[i][start:stop]) for i, start, stop, _ in found]
            columns |= {
                side: object_array([label for *_, label in found]),
                f"{before}start": np.array([start for _, start, *_ in found], dtype=np.int64),
                f"{before}stop": np.array([stop for *_, stop, _ in found], dtype=np.int64),
                f"{before}text": object_array(texts),
            }
        return columns | {"confidence": np.array([item.confidence for item in wrong], dtype=float)}

    def _counts(self, name, value_of, order=None):
        """Numbers of items of each kind for each value, which is None where an item has none."""
        groups = defaultdict(Counter)
        for item in self._items:
            groups[value_of(item)][item.kind] += 1
        groups.pop(None, None)
        values = sorted(groups, key=order or (lambda value: -groups[value].total()))
        counts = [groups[value] for value in values]
        numbers = {k: np.array([n[k] for n in counts], dtype=np.int64) for k in self._kinds}
        rate = 1.0 - numbers["correct"] / sum(numbers.values())
        return {name: object_array(values), **numbers, "error_rate": rate}

    def _summary(self):
        if self.unit == "chunks":
            return self._counts("type", lambda item: item.one[2])
        pairs = Counter((item.true[2], item.predicted[2]) for item in self._wrong)
        common = pairs.most_common()
        return {
            "true": object_array([pair[0] for pair, _ in common]),
            "predicted": object_array([pair[1] for pair, _ in common]),
            "count": np.array([n for _, n in common], dtype=np.int64),
        }

    @property
    def errors(self) -> Any:
        """One row per error, in order, with the spans, labels and texts of both sides.

        The label is missing, and positions are -1, on the side that has no chunk.
        """
        return as_frame(self._errors())

    @property
    def summary(self) -> Any:
        """Counts of chunks by type and kind, most frequent first; for labels, the confusions.

        A made up chunk counts for its predicted type, any other for the true one; "error_rate" is
        the fraction of these chunks that are not correct.
        """
        return as_frame(self._summary())

    @property
    def by_length(self) -> Any:
        """Counts and error rates by the length of chunks in tokens; for labels, of samples."""

        def length(item):
            is_chunk = self.unit == "chunks"
            return item.one[1] - item.one[0] if is_chunk else len(self._tokens[item.sample])

        return as_frame(self._counts("length", length, int))

    @property
    def by_known(self) -> Any:
        """Counts and error rates by whether all words of a chunk, or of a label, are `known`."""
        if self._known is None:
            raise AttributeError("by_known needs words: ErrorAnalysis(..., known=words)")

        def is_known(item):
            return self._known.issuperset(self._tokens[item.sample][slice(*item.one[:2])])

        return as_frame(self._counts("known", is_known, int))

    @property
    def by_confidence(self) -> Any:
        """Counts and error rates by tenths of the confidence; missed chunks have none."""
        if all(item.confidence is None for item in self._items):
            raise AttributeError("by_confidence needs ErrorAnalysis(..., confidences=...)")
        return as_frame(self._counts("confidence", _tenth, str))

    def worst(self, k: int = 10) -> Any:
        """The samples with most errors, and their texts, in which chunks are marked.

        Parameters
        ----------
        k : int, default=10
            Number of samples.

        Returns
        -------
        DataFrame or structured ndarray
            Columns "sample", "errors", and "true" and "predicted": the text, with ``[PER Ann Lee]``
            for chunks, or ``dog/N`` for labels that differ.

        Raises
        ------
        ValueError
            If `k` is not a positive integer.
        """
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        counts = Counter(item.sample for item in self._wrong).most_common(k)
        samples, numbers = np.array(counts, dtype=np.int64).reshape(-1, 2).T
        sides = {side: object_array(self._marked(samples, side)) for side in ("true", "predicted")}
        return as_frame({"sample": samples, "errors": numbers, **sides})

    def _marked(self, samples, side):
        """The texts of samples with the chunks, or the wrong labels, of one side."""
        words = {i: [*self._tokens[i]] for i in samples.tolist()}
        for item in self._items:
            chunk, own = getattr(item, side), words.get(item.sample)
            if own is None or chunk is None:
                continue
            start, stop, label = chunk
            if self.unit == "chunks":
                own[start] = f"[{label} {own[start]}"
                own[stop - 1] += "]"
            elif item.kind != "correct":
                own[start] += f"/{label}"
        return [*map(" ".join, words.values())]

    def plot(self, ax: Any = None) -> Self:
        """Draw the errors by type and kind as bars; of labels, the most frequent confusions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ErrorAnalysis
            The analysis itself.
        """
        ax, columns, of_chunks = axes_of(ax), self._summary(), self.unit == "chunks"
        keys = [*columns.values()][: 1 if of_chunks else 2]
        names = [" \N{RIGHTWARDS ARROW} ".join(map(str, key)) for key in zip(*keys, strict=True)]
        names = names[:_MANY]
        left = np.zeros(len(names))
        for kind in self._kinds[1:] if of_chunks else ["count"]:
            ax.barh(names, columns[kind][:_MANY], left=left, label=kind)
            left += columns[kind][:_MANY]
        ax.invert_yaxis()
        ax.set(xlabel="errors", xlim=(0, 1.05 * left.max(initial=1)))
        if of_chunks:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _title(self):
        counts = Counter(item.kind for item in self._items)
        kinds = ", ".join(
            f"{kind} {counts[kind]}" for kind in self._kinds if counts[kind] or kind == "correct"
        )
        return f"ErrorAnalysis of {self.unit}: {kinds}; samples {len(self._tokens)}"

    def __repr__(self) -> str:
        return f"{self._title()}\n{as_text(self._summary(), _MANY)}"

    def _repr_html_(self) -> str:
        errors = self._errors()
        errors = {k: v for k, v in errors.items() if not k.endswith(("start", "stop"))}
        tables = as_html(self._summary(), _MANY) + as_html(errors, _FEW)
        return f"<p>{escape(self._title())}</p>{tables}"

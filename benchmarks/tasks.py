"""The benchmark's tasks: attribute strings for the peers, the same as CSR matrices for skstruct."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skstruct import RaggedArray
from skstruct.datasets import load_conll, load_ocr_letters

# The template of CRFsuite's chunking tutorial, as (column, offset) tuples.
_W, _P = 0, 1
CHUNKING = (
    *(((_W, offset),) for offset in (-2, -1, 0, 1, 2)),
    ((_W, -1), (_W, 0)),
    ((_W, 0), (_W, 1)),
    *(((_P, offset),) for offset in (-2, -1, 0, 1, 2)),
    *(((_P, offset), (_P, offset + 1)) for offset in (-2, -1, 0, 1)),
    *(((_P, offset), (_P, offset + 1), (_P, offset + 2)) for offset in (-2, -1, 0)),
)


class Part(NamedTuple):
    """Training or test part of a task."""

    attributes: list  # per sentence a list of lists of attribute strings, for the peers
    labels: list  # per sentence a list of strings
    X: RaggedArray  # the same attributes as CSR
    y: RaggedArray
    columns: list | None = None  # per sentence a list of "word pos", for Wapiti


class Task(NamedTuple):
    """A data set with its split."""

    name: str
    train: Part
    test: Part
    chunks: bool  # whether F1 over chunks is the measure, else accuracy


def _window(sentence):
    n = len(sentence)
    out = []
    for t in range(n):
        row = []
        for q, spec in enumerate(CHUNKING):
            if all(0 <= t + offset < n for _, offset in spec):
                row.append(f"{q}=" + "|".join(sentence[t + o][column] for column, o in spec))
        if t == 0:
            row.append("__BOS__")
        if t == n - 1:
            row.append("__EOS__")
        out.append(row)
    return out


def _tagging(words, t):
    word = words[t]
    row = [f"w={word}", f"lower={word.lower()}", f"prefix={word[:3]}", f"suffix={word[-3:]}"]
    row += [f"s2={word[-2:]}", f"title={word.istitle()}", f"digit={any(map(str.isdigit, word))}"]
    for offset in (-2, -1, 1, 2):
        inside = 0 <= t + offset < len(words)
        row.append(f"w{offset}={words[t + offset] if inside else '<>'}")
    return row


def to_csr(attributes, vocabulary, grow):
    """CSR matrix of attribute lists; a new attribute extends the vocabulary, or is dropped."""
    indices, indptr, offsets = [], [0], [0]
    for sentence in attributes:
        for row in sentence:
            if grow:
                found = {vocabulary.setdefault(name, len(vocabulary)) for name in row}
            else:
                found = {vocabulary[name] for name in row if name in vocabulary}
            indices.extend(sorted(found))
            indptr.append(len(indices))
        offsets.append(len(indptr) - 1)
    shape = (len(indptr) - 1, len(vocabulary))
    matrix = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=shape)
    return RaggedArray(matrix, offsets)


def _parts(train, test):
    """Two parts from (attributes, labels[, columns]) each, over one vocabulary."""
    vocabulary = {}
    parts = []
    for grow, (attributes, labels, *columns) in ((True, train), (False, test)):
        X = to_csr(attributes, vocabulary, grow)
        if not grow:
            flat = sparse.csr_matrix(X.flat)
            flat.resize((flat.shape[0], len(vocabulary)))
            X = RaggedArray(flat, X.offsets)
        y = RaggedArray(np.concatenate([np.array(row) for row in labels]), X.offsets)
        parts.append(Part(attributes, labels, X, y, *columns))
    return parts


def conll2000(folder, limit=None):
    """CoNLL-2000 chunking with the tutorial's attributes."""
    parts = []
    for name in ("train", "test"):
        data = load_conll(folder / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
        rows = [
            list(zip(w.tolist(), p.tolist(), strict=True))
            for w, p in zip(data.word[:limit], data.pos[:limit], strict=True)
        ]
        labels = [chunk.tolist() for chunk in data.chunk[:limit]]
        columns = [[f"{w} {p}" for w, p in row] for row in rows]
        parts.append(([_window(row) for row in rows], labels, columns))
    return Task("conll2000", *_parts(*parts), chunks=True)


def treebank(folder, limit=None):
    """Part-of-speech tags of the treebank sample: 3,000 sentences, the rest to test."""
    data = load_conll(
        folder / "treebank_pos/treebank.tsv.gz", ["word", "tag", "head"], separator="\t"
    )
    words = [row.tolist() for row in data.word]
    tags = [row.tolist() for row in data.tag]
    cut, end = (3000, None) if limit is None else (limit, 2 * limit)
    parts = [
        ([[_tagging(row, t) for t in range(len(row))] for row in words[part]], tags[part])
        for part in (slice(0, cut), slice(cut, end))
    ]
    return Task("treebank_pos", *_parts(*parts), chunks=False)


def endings(folder, n, least):
    """Tags of n sentences, each divided by the last two letters of its words if that is frequent.

    `least` is how often the first n sentences, which are trained on, have such a label.
    """
    path = folder / "treebank_pos/treebank.tsv.gz"
    data = load_conll(path, ["word", "tag", "head"], separator="\t")
    words, tags = ([row.tolist() for row in column[: 2 * n]] for column in (data.word, data.tag))
    pairs = [zip(row, own, strict=True) for row, own in zip(words, tags, strict=True)]
    fine = [[f"{tag}|{word[-2:].lower()}" for word, tag in row] for row in pairs]
    counts = Counter(chain.from_iterable(fine[:n]))
    labels = [
        [name if counts[name] >= least else tag for name, tag in zip(row, own, strict=True)]
        for row, own in zip(fine, tags, strict=True)
    ]
    attributes = [[_tagging(row, t) for t in range(len(row))] for row in words]
    parts = (attributes[:n], labels[:n]), (attributes[n:], labels[n:])
    return Task("treebank_endings", *_parts(*parts), chunks=False)


def _entities(words, tags, t):
    """Attributes of the tutorial of sklearn-crfsuite."""
    word, tag = words[t], tags[t]
    row = ["bias", f"lower={word.lower()}", f"s3={word[-3:]}", f"s2={word[-2:]}", f"pos={tag}"]
    row += [f"pos2={tag[:2]}"]
    row += [name for name in ("isupper", "istitle", "isdigit") if getattr(word, name)()]
    for offset in (-1, 1):
        if not 0 <= t + offset < len(words):
            row.append("BOS" if offset < 0 else "EOS")
            continue
        word, tag = words[t + offset], tags[t + offset]
        row += [f"{offset}:lower={word.lower()}", f"{offset}:pos={tag}", f"{offset}:pos2={tag[:2]}"]
        row += [f"{offset}:{name}" for name in ("istitle", "isupper") if getattr(word, name)()]
    return row


def dutch(folder, limit=None):
    """CoNLL-2002 Dutch entities with the attributes of sklearn-crfsuite's tutorial."""
    parts = []
    for name in ("train", "testb"):
        path = folder / f"conll2002_dutch/ned.{name}.gz"
        data = load_conll(path, ["word", "pos", "entity"], encoding="latin-1")
        rows = zip(data.word[:limit], data.pos[:limit], strict=True)
        attributes = [
            [_entities(w.tolist(), p.tolist(), t) for t in range(len(w))] for w, p in rows
        ]
        parts.append((attributes, [labels.tolist() for labels in data.entity[:limit]]))
    return Task("conll2002_dutch", *_parts(*parts), chunks=True)


def ocr(folder, limit=None):
    """OCR letters, folds 1 to 9 against fold 0; dense pixels for skstruct, names for the peers."""
    data = load_ocr_letters(folder / "ocr_letters/letters.npz")
    parts = []
    for rows in (np.flatnonzero(data.fold != 0)[:limit], np.flatnonzero(data.fold == 0)[:limit]):
        X, y = data.X[rows], data.y[rows]
        attributes = [[[f"p{j}" for j in np.flatnonzero(row)] for row in x] for x in X]
        parts.append(Part(attributes, [labels.tolist() for labels in y], X, y))
    return Task("ocr_letters", *parts, chunks=False)


def _chunks(labels):
    found, start, kind = set(), None, None
    for t, label in enumerate([*labels, "O"]):
        tag, _, this = label.partition("-")
        if start is not None and (tag != "I" or this != kind):
            found.add((start, t, kind))
            start = None
        if tag == "B" or (tag == "I" and start is None):
            start, kind = t, this
    return found


def measure(task, predicted):
    """Chunk F1 by the rules of conlleval, or accuracy, in percent."""
    true = task.test.labels
    if not task.chunks:
        pairs = [
            (a, b) for p, q in zip(predicted, true, strict=True) for a, b in zip(p, q, strict=True)
        ]
        return 100.0 * sum(a == b for a, b in pairs) / len(pairs)
    right = n_true = n_found = 0
    for p, q in zip(predicted, true, strict=True):
        a, b = _chunks(p), _chunks(q)
        right, n_found, n_true = right + len(a & b), n_found + len(a), n_true + len(b)
    return 200.0 * right / (n_found + n_true)

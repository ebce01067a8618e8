"""Names across a document: a second CRF learns from what the first one found elsewhere in it.

Krishnan and Manning (2006): of each token the majority of its word in the document, the majority of
its chunk, and that of the chunks that contain it. On the training part the first CRF predicts
documents that it has not seen; other parts are predicted as they are, a document at once.
"""

from __future__ import annotations

import gzip
import time
from collections import Counter, defaultdict

from sklearn.model_selection import GroupKFold, cross_val_predict

from skstruct.metrics import chunks


def documents_of(path, encoding="utf-8"):
    """The document of each sentence, by the lines -DOCSTART-."""
    found, n, within = [], 0, False
    with gzip.open(path, "rt", encoding=encoding) as lines:
        for line in lines:
            begins = line.startswith("-DOCSTART-")
            if (begins or not line.strip()) and within:
                found.append(n)
            n, within = n + begins, not begins and bool(line.strip())
    return found + [n] * within


def majorities(X, y, documents):
    """For each token (kind of its word, of its chunk, of the chunks around its chunk)."""
    counts, spans = defaultdict(Counter), [chunks(labels) for labels in y]
    words = [[token[0].lower() for token in x] for x in X]
    for document, own, labels, found in zip(documents, words, y, spans, strict=True):
        for word, label in zip(own, labels, strict=True):
            counts[document, "word", word][label.partition("-")[2]] += 1
        for start, stop, kind in found:
            for i in range(start, stop):
                for j in range(i + 1, stop + 1):
                    what = "around" if j - i < stop - start else "chunk"
                    counts[document, what, *own[i:j]][kind] += 1
    rows = []
    for document, own, found in zip(documents, words, spans, strict=True):

        def most(what, *key, document=document):
            ranked = counts[document, what, *key].most_common(1)
            return ranked[0][0] if ranked else ""

        row = [(most("word", word), "", "") for word in own]
        for start, stop, _ in found:
            more = [most(what, *own[start:stop]) for what in ("chunk", "around")]
            row[start:stop] = [(of_word, *more) for of_word, _, _ in row[start:stop]]
        rows.append(row)
    return rows


def with_majorities(tagger, parts, documents, n_folds=5):
    """Parts (X, y) whose tokens have three columns more, and the CPU seconds; the first trains."""
    began = time.process_time()
    folds = {"groups": documents[0], "cv": GroupKFold(n_folds)}
    found = [cross_val_predict(tagger, *parts[0], **folds)]
    tagger.fit(*parts[0])
    found += [tagger.predict(X) for X, _ in parts[1:]]
    out = []
    for (X, y), labels, own in zip(parts, found, documents, strict=True):
        rows = majorities(X, [each.tolist() for each in labels], own)
        both = zip(X, rows, strict=True)
        out.append(([[a + b for a, b in zip(x, row, strict=True)] for x, row in both], y))
    return out, time.process_time() - began

"""Word segmentation: a word lattice beside a character tagger, on Chinese text.

    python benchmarks/bench_words.py FOLDER [--lines N] [--json FILE]

FOLDER holds ``pku_test_gold.utf8.gz`` and ``msr_test_gold.utf8.gz``. Three quarters of the lines,
drawn at random, train; the dictionary holds the words that occur at least three times in them. F1
is that of words, recall that of words that do not occur in training. The tagger has the tags "B"
and "I", and n-grams of one to three characters at distances of up to two. CPU seconds are those of
one core, compilation left out. A second table has the growth of drawn lattices: microseconds an arc
of marginals and of the best path, by vertices, arcs that end at each, and classes of arcs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

from skstruct import SAGCRF, Lattice, WordLattice
from skstruct.preprocessing import SequenceVectorizer

HEADS = ["text", "model", "F1", "recall of new words", "training, CPU s", "predict, CPU s"]


def spans(words):
    """Ends of words."""
    return set(pairwise(np.cumsum([0, *map(len, words)]).tolist()))


def measure(gold, found, known):
    """F1 of words, and recall of words that are not known."""
    n_right = n_words = n_new = n_right_new = 0
    for words, given in zip(gold, found, strict=True):
        right, ends = spans(given), np.cumsum([0, *map(len, words)]).tolist()
        n_right += len(spans(words) & right)
        n_words += len(words) + len(given)
        new = [k for k, word in enumerate(words) if word not in known]
        n_new += len(new)
        n_right_new += sum((ends[k], ends[k + 1]) in right for k in new)
    return 2 * n_right / n_words, n_right_new / n_new


def characters(text):
    """Feature dicts of the characters of a string."""
    padded, rows = f"__{text}__", []
    for t in range(2, len(text) + 2):
        row = {f"1 {d}": padded[t + d] for d in range(-2, 3)}
        row |= {f"2 {d}": padded[t + d : t + d + 2] for d in range(-2, 2)}
        rows.append(row | {f"3 {d}": padded[t + d : t + d + 3] for d in range(-2, 1)})
    return rows


def tagger(train, test, C):
    """Words by the tags of characters, and seconds."""
    vectorizer = SequenceVectorizer()
    start = time.process_time()
    texts = [characters("".join(words)) for words in train]
    tags = [[tag for word in words for tag in "B" + "I" * (len(word) - 1)] for words in train]
    crf = SAGCRF(C=C, random_state=0, n_jobs=1).fit(vectorizer.fit_transform(texts), tags)
    middle = time.process_time()
    found = []
    texts = ["".join(words) for words in test]
    for text, own in zip(
        texts, crf.predict(vectorizer.transform([*map(characters, texts)])), strict=True
    ):
        begins = [*np.flatnonzero(np.append(own[1:], "B") == "B") + 1]
        found.append([text[a:b] for a, b in pairwise([0, *begins])])
    return found, middle - start, time.process_time() - middle


def lattice(train, test, C):
    """Words by a lattice, and seconds."""
    counts = Counter(word for words in train for word in words)
    start = time.process_time()
    graph = WordLattice([word for word, count in counts.items() if count > 2])
    crf = SAGCRF(graph, C=C, tol=1e-2, random_state=0, n_jobs=1)
    crf.fit(["".join(words) for words in train], train)
    middle = time.process_time()
    found = crf.predict(["".join(words) for words in test])
    return found, middle - start, time.process_time() - middle


def rows(folder, limit):
    """Rows of the table."""
    for name in ("pku", "msr"):
        with gzip.open(folder / f"{name}_test_gold.utf8.gz", "rt", encoding="utf-8") as file:
            lines = [line.split() for line in file if line.split()]
        order = np.random.default_rng(0).permutation(len(lines))[:limit]
        n = 3 * order.size // 4
        train, test = ([lines[i] for i in part] for part in (order[:n], order[n:]))
        known = {word for words in train for word in words}
        for call, C in ((tagger, 1.0), (tagger, 10.0), (lattice, 1.0), (lattice, 10.0)):
            call(train[:50], test[:5], C)  # compiles
            found, *seconds = call(train, test, C)
            yield [name, f"{call.__name__}, C={C:g}", *measure(test, found, known), *seconds]


def growth(n_vertices, n_ending, n_classes, n_samples=20):
    """Microseconds an arc of marginals, and of the best path."""
    rng, X, y = np.random.default_rng(0), [], []
    for _ in range(n_samples):
        end = np.repeat(np.arange(1, n_vertices + 1), n_ending)
        begin = np.maximum(end - 1 - np.tile(np.arange(n_ending), n_vertices) % 8, 0)
        side = rng.integers(0, n_classes, (2, end.size))
        X.append((np.column_stack([begin, end, *side]), rng.normal(size=(end.size, 4))))
        y.append(np.arange(0, end.size, n_ending))  # the arcs between neighbours
    crf = SAGCRF(Lattice(), max_iter=1, tol=10.0, random_state=0, n_jobs=1).fit(X, y)
    for call in (crf.predict_marginals, crf.predict):
        call(X[:2])
        start = time.process_time()
        call(X)
        yield 1e6 * (time.process_time() - start) / (n_samples * n_vertices * n_ending)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| {' | '.join(HEADS)} |\n|{'--|' * len(HEADS)}")
    done = []
    for row in rows(args.folder, args.lines):
        cells = (f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
        print(f"| {' | '.join(cells)} |", flush=True)
        done.append(row)
    print("\n| vertices | arcs to each | classes | marginals, us an arc | best path |")
    print("|--:|--:|--:|--:|--:|")
    for sizes in ((50, 5, 10), (400, 5, 10), (50, 40, 10), (50, 5, 100), (50, 5, 400)):
        times = " | ".join(f"{own:.2f}" for own in growth(*sizes))
        print(f"| {' | '.join(map(str, sizes))} | {times} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"heads": HEADS, "rows": done}, indent=1) + "\n")


if __name__ == "__main__":
    main()

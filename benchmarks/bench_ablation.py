"""What helps a tagger: one change after another, by F1 of chunks on development data.

    python benchmarks/bench_ablation.py --data FOLDER [--quick] [--json FILE]

CoNLL-2000 chunks: eight ninths of the training part train, the last ninth measures; the test part
is not read. A row is the best one so far with one change, which the next rows keep if it is marked.
CPU seconds of fit, compilation left out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from records import InScheme, columns, split
from sklearn.base import BaseEstimator, clone

from skstruct import BCFWSSVM, SAGCRF, Chain, SemiChain
from skstruct.metrics import chunk_f1_score
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TokenFeatures

PRESET = TokenFeatures.presets["chunks"]
_FIRST = ("lower", "tag")
TEMPLATE = [
    *(f"{name}[{offset}]" for name in _FIRST for offset in range(-2, 3)),
    *("lower[-1]|lower[0]", "lower[0]|lower[1]"),
    *(f"tag[{a}]|tag[{a + 1}]" for a in range(-2, 2)),
    *(f"tag[{a}]|tag[{a + 1}]|tag[{a + 2}]" for a in range(-2, 1)),
]
WINDOWS = [*TEMPLATE, *(f for f in PRESET if "|" in f or f in ("tag[-3]", "tag[3]"))]
AFFIXES = [f for f in PRESET if not f.startswith("ngrams")]


class Mean(BaseEstimator):
    """A tagger whose weights are the mean of models, each trained without a part of the samples."""

    def __init__(self, tagger, n=5):
        self.tagger = tagger
        self.n = n

    def fit(self, X, y):
        """Train all; the features are those of all samples."""
        self.model_ = clone(self.tagger).fit(X, y)
        rows, crf, found = self.model_[0].transform(X), self.model_[-1], []
        for k in range(self.n):
            kept = np.flatnonzero(np.arange(len(X)) % self.n != k)
            found.append(clone(crf).fit(rows[kept], [y[i] for i in kept]))
        if all(np.array_equal(own.classes_, crf.classes_) for own in found):
            crf.node_weights_ = np.mean([own.node_weights_ for own in found], axis=0)
            crf.pair_weights_ = np.mean([own.pair_weights_ for own in found], axis=0)
        return self

    def predict(self, X):
        """The labels of highest score."""
        return self.model_.predict(X)


def crf(features=PRESET, C=1.0, **options):
    """Features, and a CRF."""
    graph = options.pop("graph", Chain(boundary=True))
    return make_pipeline(
        TokenFeatures(features), SAGCRF(graph, C=C, random_state=0, n_jobs=1, **options)
    )


_BEST = {"C": 3.0, "l1_ratio": 0.3}
ROWS = {
    "template of CRFsuite's tutorial *": crf(TEMPLATE),
    "+ more pairs, up to five tags *": crf(WINDOWS),
    "+ affixes and shapes *": crf(AFFIXES),
    '+ n-grams of characters (preset "chunks") *': crf(),
    "C = 0.3": crf(C=0.3),
    "C = 3 *": crf(C=3.0),
    "C = 10": crf(C=10.0),
    "order 2": crf(C=3.0, graph=Chain(order=2, boundary=True)),
    "segments": crf(C=3.0, graph=SemiChain(scheme="bio")),
    "forbidden transitions": crf(C=3.0, graph=Chain(boundary=True, forbidden="iob2")),
    "softmax margin": crf(C=3.0, margin="hamming"),
    "structural SVM": make_pipeline(
        TokenFeatures("chunks"),
        BCFWSSVM(Chain(boundary=True), C=0.3, tol=1e-2, random_state=0, n_jobs=1),
    ),
    "features that occur twice": make_pipeline(
        TokenFeatures("chunks", min_count=2),
        SAGCRF(Chain(boundary=True), C=3.0, random_state=0, n_jobs=1),
    ),
    "mean of five models": Mean(crf(C=3.0)),
    "elastic net, l1_ratio = 0.3 *": crf(**_BEST),
    "tags BILOU *": InScheme(crf(**_BEST), "bilou"),
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="300 sentences")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    path = args.data / "conll2000/train.txt.gz"
    data = columns(path, ["word", "pos"], True, 300 if args.quick else None)
    train, (X, y) = split(data, len(data[0]) * 8 // 9)
    print("| change | F1 | CPU s |\n|---|--:|--:|")
    results = {}
    for name, model in ROWS.items():
        clone(model).fit(*split(train, 40)[0])  # compiles
        began = time.process_time()
        fitted = clone(model).fit(*train)
        seconds = time.process_time() - began
        found = 100 * chunk_f1_score(y, [[*map(str, own)] for own in fitted.predict(X)])
        results[name] = found, seconds
        print(f"| {name} | {found:.2f} | {seconds:.1f} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

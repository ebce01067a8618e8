"""What a trained tagger weighs in a file: as it is, in single precision, without small weights.

    python benchmarks/bench_deployment.py --data FOLDER [--limit N] [--json OUT]

Chunks of CoNLL-2000 with the templates of ``examples/deploy/train.py``. Files are pickle's,
joblib's with ``compress=3``, skops' with deflate. Loading is from joblib's file, the smallest of
five CPU times; tagging is ``predict`` of the pipeline on the raw tokens of the test part, the
smallest of three. One core. The row of L1 is another training. Then, for each structure, what
``predict`` takes for one small sample: the tenth percentile of wall times.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import joblib
import numpy as np
import skops.io
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from skstruct import (
    SAGCRF,
    Boxes,
    Candidates,
    Chain,
    Grid,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    RaggedArray,
    SubgradientSSVM,
    Tree,
)
from skstruct.datasets import load_conll
from skstruct.metrics import chunk_f1_score
from skstruct.preprocessing import TemplateVectorizer

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "deploy"))
from train import TEMPLATES


def part(folder, name, limit):
    """Raw tokens, with their columns, and chunks."""
    data = load_conll(folder / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
    return RaggedArray.stack_columns([data.word, data.pos])[:limit], data.chunk[:limit]


def models(train):
    """Pipelines by what was done to them."""

    def fit(**options):
        crf = SAGCRF(Chain(forbidden="iob2"), random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return make_pipeline(TemplateVectorizer(TEMPLATES), crf).fit(*train)

    model = fit()
    yield "as trained", model
    for threshold, name in ((0.0, "single precision"), (1e-3, "and weights under 0.001 dropped")):
        small = pickle.loads(pickle.dumps(model))
        small[-1].sparsify(threshold, dtype="float32")
        yield name, small
    l1 = fit(l1_ratio=0.9, tol=0.01)
    l1[-1].sparsify(0.0, dtype="float32")
    yield "trained with l1_ratio=0.9, single precision", l1


def smallest(call, times):
    """The smallest CPU time of some calls, in seconds, and what the last one returned."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        found = call()
        spent.append(time.process_time() - start)
    return min(spent), found


def measure(model, test, folder):
    """Sizes of files, F1, and times."""
    pickled, compressed, safe = folder / "m.pickle", folder / "m.joblib", folder / "m.skops"
    pickled.write_bytes(pickle.dumps(model))
    joblib.dump(model, compressed, compress=3)
    skops.io.dump(model, safe, compression=zipfile.ZIP_DEFLATED)
    loading, loaded = smallest(lambda: joblib.load(compressed), 5)
    tagging, found = smallest(lambda: loaded.predict(test[0]), 3)
    megabytes = [file.stat().st_size / 1e6 for file in (pickled, compressed, safe)]
    return {
        **dict(zip(("pickle MB", "joblib MB", "skops MB"), megabytes, strict=True)),
        "F1": 100 * chunk_f1_score(test[1], found),
        "ms to load": 1e3 * loading,
        "1,000 tokens/s": test[0].flat.shape[0] / tagging / 1e3,
    }


def one_sample(calls=2000):
    """Microseconds of predict for the first of each structure's example samples."""
    graphs = MultiClass(), MultiLabel(), Chain(), Tree(), Grid(), Pairwise(), Matching()
    for graph in (*graphs, Candidates(), Boxes()):
        X, y = graph.example(np.random.default_rng(0), sparse_X=False)
        model = SubgradientSSVM(graph, max_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y).predict(X[:1])
        spent = []
        while len(spent) < calls and sum(spent) < 5.0:
            start = time.perf_counter()
            model.predict(X[:1])
            spent.append(time.perf_counter() - start)
        yield str(graph), 1e6 * float(np.percentile(spent, 10))


def main():
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="sentences of each part")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    args = parser.parse_args()
    print("| structure | us of one sample |\n|---|--:|")
    latency = {}
    for name, latency[name] in one_sample():
        print(f"| {name} | {latency[name]:.0f} |", flush=True)
    print()
    train, test = (part(args.data, name, args.limit) for name in ("train", "test"))
    lines = [{"microseconds of one sample": latency}]
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models(train):
            if len(lines) == 1:
                n_features = len(model[0].get_feature_names_out())
                print(f"{len(train[1])} sentences, {n_features:,} features\n")
                heads = "model", "pickle MB", "joblib MB", "skops MB", "F1", "ms to load"
                print(f"| {' | '.join(heads)} | 1,000 tokens/s |")
                print("|---|--:|--:|--:|--:|--:|--:|")
            line = measure(model, test, Path(folder))
            lines.append({"model": name, **line})
            sizes = " | ".join(f"{line[kind]:.1f}" for kind in line if kind.endswith("MB"))
            print(
                f"| {name} | {sizes} | {line['F1']:.2f} | {line['ms to load']:.0f} | "
                f"{line['1,000 tokens/s']:.0f} |",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Semi-Markov chains beside chains: growth with n, L and K, and chunks with segment features.

    python benchmarks/bench_segments.py [--data FOLDER] [--sentences N] [--json FILE]

Growth: seconds of marginals and of best labellings of random samples, n nodes in all, and the
ratio to ``Chain`` on the same features; one core. With FOLDER, which holds ``conll2000/``, F1 of
chunks and seconds of training: a chain, and segments with one indicator for each sequence of
part-of-speech tags of the chunks that occurs in training (at least three times).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import tasks
from scipy import sparse

from skstruct import SAGCRF, Chain, SemiChain
from skstruct.datasets import load_conll

SIZES = [(100, 10, 5), (200, 10, 5), (100, 20, 5), (100, 40, 5), (100, 10, 10), (100, 10, 40)]
N_SAMPLES, REPEATS = 50, 3


def seconds(call):
    """The fastest of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def growth(n, longest, n_kinds):
    """Seconds of marginals and best labellings of both structures, on the same samples."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for _ in range(N_SAMPLES)]
    y = [np.repeat(rng.permutation(n_kinds), longest)[:n] for _ in X]
    y = [np.resize(labels, n) for labels in y]
    row = [n, longest, n_kinds]
    spent = {}
    for graph in (SemiChain(n), Chain()):  # a limit for training; that of predictions is set below
        crf = SAGCRF(graph, max_iter=1, tol=1.0, n_jobs=1).fit(X, y)
        if isinstance(graph, SemiChain):
            crf.pair_weights_ = crf.pair_weights_[:, : n_kinds * (n_kinds + longest)]
            crf.graph_.limits_[:] = longest
        for method in (crf.predict_marginals, crf.predict):
            method(X[:1])
            spent[type(graph), method.__name__] = seconds(lambda method=method: method(X))
    for name in ("predict_marginals", "predict"):
        semi, chain = spent[SemiChain, name], spent[Chain, name]
        row += [semi, semi / chain]
    return row


def with_tags(part, tags):
    """The samples as a list of CSR matrices that know their tags, for segment features."""
    samples = [sparse.csr_matrix(x) for x in part.X]
    for x, own in zip(samples, tags, strict=True):
        x.tags = tuple(own.tolist())
    return samples


def chunks_of(task, folder, limit):
    """Rows of a chain and of segments: F1, seconds of training, passes."""
    tags = [
        load_conll(folder / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"]).pos[:limit]
        for name in ("train", "test")
    ]
    counts = Counter(
        tuple(own[start:stop].tolist())
        for own, labels in zip(tags[0], task.train.labels, strict=True)
        for start, stop, _ in tasks._chunks(labels)
    )
    known = [key for key, count in counts.items() if count >= 3]
    place = {key: k for k, key in enumerate(known)}
    longest = max(map(len, counts))

    def patterns(x, start, stop):
        row = np.zeros(len(place))
        found = place.get(x.tags[start:stop])
        if found is not None:
            row[found] = 1.0
        return row

    train, test = (
        with_tags(part, own) for part, own in zip((task.train, task.test), tags, strict=True)
    )
    for name, graph in (
        ("Chain", Chain()),
        ("SemiChain", SemiChain(scheme="bio")),
        ("SemiChain, all lengths", SemiChain(longest, "bio")),
        ("SemiChain, tags", SemiChain(longest, "bio", segment_features=patterns)),
    ):
        start = time.process_time()
        crf = SAGCRF(graph, random_state=0, n_jobs=1).fit(train, task.train.y)
        spent = time.process_time() - start
        found = [labels.tolist() for labels in crf.predict(test)]
        yield [name, tasks.measure(task, found), spent, float(crf.history_["passes"][-1])]


def show(heads, rows):
    """Print a table, row by row, and return it."""
    print(f"| {' | '.join(heads)} |\n|{'--:|' * len(heads)}")
    done = []
    for row in rows:
        cells = (f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
        print(f"| {' | '.join(cells)} |", flush=True)
        done.append(row)
    return {"heads": heads, "rows": done}


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ["n", "L", "K", "marginals, s", "to a chain", "best, s", "to a chain"]
    found = {"growth": show(heads, (growth(*size) for size in SIZES))}
    if args.data:
        task = tasks.conll2000(args.data, args.sentences)
        heads = ["structure", "F1", "CPU s", "passes"]
        found["chunks"] = show(heads, chunks_of(task, args.data, args.sentences))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

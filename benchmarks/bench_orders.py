"""Chains of order 1, 2 and 3: errors, CPU seconds, memory, growth; ``--wapiti``: Wapiti, order 1.

    python benchmarks/bench_orders.py --data FOLDER [--folds N] [--quick] [--wapiti] [--json OUT]

OCR letters, pixels and n-grams of letters with start and end: the mean of wrong letters over ten
folds, nine for training, and over ten folds of distinct words, so that no word of the test is one
of training (there are 55). ``C`` is 1, and for one of the latter also the best of 0.01, 0.1 and 1
by three folds of the training words. Chunks (CoNLL-2000) and parts of speech (Treebank): F1 or
accuracy on the test part, with C = 1. CPU seconds of fit and of predict, one thread, warm kernels,
default tolerance; peak memory of a process that reads the data, fits and predicts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peers import wapiti
from sklearn.model_selection import GridSearchCV, GroupKFold
from tasks import conll2000, measure, treebank

from skstruct import SAGCRF, Chain
from skstruct.datasets import load_ocr_letters

_TEXT = {"conll2000": conll2000, "treebank_pos": treebank}


def crf(order, C=1.0):
    """The model of all rows."""
    return SAGCRF(Chain(order=order, boundary=True), C=C, random_state=0, n_jobs=1)


def letters(folder, order, n_folds, by_words):
    """Wrong letters and seconds of each fold."""
    data = load_ocr_letters(folder / "ocr_letters/letters.npz")
    words = np.array(["".join(map(str, labels)) for labels in data.y])
    _, group = np.unique(words, return_inverse=True)
    fold = group % 10 if by_words else data.fold
    errors, chosen, seconds = [], [], []
    for f in range(n_folds):
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        X, y = data.X[train], data.y[train]
        began = time.process_time()
        model = crf(order).fit(X, y)
        seconds.append(time.process_time() - began)
        errors.append(100.0 * (1.0 - model.score(data.X[test], data.y[test])))
        if by_words and f < 1:
            search = GridSearchCV(crf(order), {"C": [0.01, 0.1, 1.0]}, cv=GroupKFold(3))
            search.fit(list(X), list(y), groups=group[train])
            score = search.best_estimator_.score(data.X[test], data.y[test])
            chosen.append((100.0 * (1.0 - score), search.best_params_["C"]))
    return {"errors": errors, "chosen": chosen, "seconds": seconds, "folds": n_folds}


def text(folder, name, order, limit):
    """F1 or accuracy, seconds, peak memory."""
    task = _TEXT[name](folder, limit)
    crf(order).set_params(max_iter=1, tol=10.0).fit(task.train.X[:9], task.train.y[:9])
    began = time.process_time()
    model = crf(order).fit(task.train.X, task.train.y)
    middle = time.process_time()
    found = [labels.tolist() for labels in model.predict(task.test.X)]
    end = time.process_time()
    return {
        "quality": measure(task, found),
        "fit": middle - began,
        "predict": end - middle,
        "n_grams": len(getattr(model.graph_, "ngrams_", ())),
        "gap": model.dual_gap_ / model.objective_,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


def growth(n_labels, order, n_nodes=20_000):
    """States, and microseconds a node of marginals and of the best labelling, on drawn labels."""
    rng = np.random.default_rng(0)
    steps = rng.dirichlet(np.full(n_labels, 3.0 / n_labels), size=n_labels)  # few follow a label
    y = []
    for _ in range(n_nodes // 20):
        labels = [rng.integers(n_labels)]
        while len(labels) < 20:
            labels.append(rng.choice(n_labels, p=steps[labels[-1]]))
        y.append(np.array(labels))
    X = [np.eye(n_labels)[labels] + rng.normal(size=(20, n_labels)) for labels in y]
    model = crf(order).set_params(max_iter=1, tol=10.0).fit(X, y)
    seconds = []
    for call in (model.predict_marginals, model.predict):
        call(X[:2])
        began = time.process_time()
        call(X)
        seconds.append(1e6 * (time.process_time() - began) / n_nodes)
    return {"n_grams": len(getattr(model.graph_, "ngrams_", ())), "us": seconds}


def apart(args, name, order):
    """The result of a process of its own, so that its memory is known."""
    command = [sys.executable, __file__, "--data", str(args.data), "--one", name, str(order)]
    command += ["--quick"] if args.quick else []
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main():
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two folds, 500 sentences")
    parser.add_argument("--wapiti", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    limit, n_folds = (500, 2) if args.quick else (None, args.folds)
    if args.one:
        print(json.dumps(text(args.data, args.one[0], int(args.one[1]), limit)))
        return
    rows = {}
    print("| letters, folds | order | wrong, % | sd | CPU s a fold | wrong with C chosen | C |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for by_words in (False, True):
        for order in (1, 2, 3):
            row = letters(args.data, order, n_folds, by_words)
            rows["words" if by_words else "given", order] = row
            own = [error for error, _ in row["chosen"]] or [np.nan]
            print(
                f"| {'of words' if by_words else 'given'} | {order} | {np.mean(row['errors']):.2f} "
                f"| {np.std(row['errors']):.2f} | {np.mean(row['seconds']):.1f} | "
                f"{np.mean(own):.1f} | {sorted({C for _, C in row['chosen']})} |",
                flush=True,
            )
    print("\n| text | order | F1 or accuracy | n-grams | fit, CPU s | predict | peak, MB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in _TEXT:
        for order in (1, 2, 3):
            row = rows[name, order] = apart(args, name, order)
            print(
                f"| {name} | {order} | {row['quality']:.2f} | {row['n_grams']:,} | "
                f"{row['fit']:.1f} | {row['predict']:.2f} | {row['peak']:.0f} |",
                flush=True,
            )
        if args.wapiti and name == "conll2000":  # its patterns are those of chunks
            peer = rows[name, "wapiti"] = wapiti(_TEXT[name](args.data, limit), 1.0)
            seconds = peer["train_seconds"]
            print(f"| {name} | Wapiti | {peer['measure']:.2f} | | {seconds:.1f} | | |", flush=True)
    print("\n| labels | order | n-grams | marginals, us a node | best labelling |")
    print("|--:|--:|--:|--:|--:|")
    for n_labels in (5, 20, 50):
        for order in (1, 2, 3):
            row = rows["growth", n_labels, order] = growth(n_labels, order)
            marginals, best = row["us"]
            print(f"| {n_labels} | {order} | {row['n_grams']:,} | {marginals:.1f} | {best:.1f} |")
    if args.json:
        named = {" ".join(map(str, key)): row for key, row in rows.items()}
        args.json.write_text(json.dumps(named, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Label sets: a classifier a label, a chain of classifiers, and structured models.

    python benchmarks/bench_label_sets.py --data FOLDER [--sets scene ...] [--json OUT]

FOLDER holds ``scene/`` and ``multilabel/``. Models are those of the defaults; then those with the C
of 0.1, 1 and 10 that gets most label sets right in a fifth of the training part, after training on
the rest. Rows of bibtex and rcv1v2 are scaled to length one, labels of fewer than ten training rows
left out; these sets have no split, and four fifths of their rows are trained on. One core; seconds
are those of the processor for one fit, without compilation.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, hamming_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from skstruct import BCFWSSVM, SAGCRF, MultiLabel
from skstruct.datasets import load_multilabel

_SETS = {
    "scene": "scene/scene.npz",
    "bibtex": "multilabel/bibtex.npz",
    "rcv1v2": "multilabel/rcv1v2_subset1_top944.npz",
}
_PAIRS = {None: "no pairs", "tree": "tree", "full": "all pairs"}
_MOST_EXACT = 16  # labels, with all pairs


class Split(NamedTuple):
    """A data set in two parts."""

    X: object
    Y: np.ndarray
    X_test: object
    Y_test: np.ndarray


def load(folder, name):
    """A set with its own split, or with one of four fifths to one."""
    data = load_multilabel(folder / _SETS[name])
    X, train = data.X if name == "scene" else normalize(data.X), data.train
    if train.all():
        train = np.random.default_rng(0).random(train.size) < 0.8
    Y = data.Y[:, data.Y[train].sum(axis=0) >= 10]
    return Split(X[train], Y[train], X[~train], Y[~train])


def models(n_labels, C):
    """What is compared, by name."""
    yield "LinearSVC per label", OneVsRestClassifier(LinearSVC(C=C, random_state=0))
    yield "ClassifierChain(LinearSVC)", ClassifierChain(LinearSVC(C=C, random_state=0))
    for estimator in (BCFWSSVM, SAGCRF):
        for edges in (None, "tree", "full"):
            if edges != "full" or n_labels <= _MOST_EXACT:
                name = f"{estimator.__name__}, {_PAIRS[edges]}"
                yield name, estimator(MultiLabel(edges), C=C, random_state=0)


def chosen(data):
    """The models with the C that is best on a fifth of the training part."""
    held = np.random.default_rng(1).random(len(data.Y)) < 0.2
    part = Split(data.X[~held], data.Y[~held], data.X[held], data.Y[held])
    best = {}
    for C in (0.1, 1.0, 10.0):
        for name, model in models(data.Y.shape[1], C):
            share = measure(model, part)["subset accuracy"]
            if share > best.get(name, (-1.0,))[0]:
                best[name] = share, C, clone(model)
    return {name: (C, model) for name, (_, C, model) in best.items()}


def measure(model, data):
    """What the test part says, and CPU seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(model, (BCFWSSVM, SAGCRF)):  # compiles
            clone(model).fit(data.X[:60], data.Y[:60])
        start = time.process_time()
        model.fit(data.X, data.Y)
        seconds = time.process_time() - start
    found = np.asarray(model.predict(data.X_test)).astype(int)
    return {
        "subset accuracy": accuracy_score(data.Y_test, found),
        "micro F1": f1_score(data.Y_test, found, average="micro"),
        "Hamming loss": hamming_loss(data.Y_test, found),
        "CPU s": seconds,
    }


def report(data, model, line):
    """A line of the table."""
    print(
        f"| {data} | {model} | {line['subset accuracy']:.3f} | {line['micro F1']:.3f} | "
        f"{line['Hamming loss']:.4f} | {line['CPU s']:.2g} |",
        flush=True,
    )
    return {"data": data, "model": model, **line}


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=_SETS, default=list(_SETS))
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    args = parser.parse_args()
    lines = []
    print("| data | model | subset accuracy | micro F1 | Hamming loss | CPU s to train |")
    print("|---|---|--:|--:|--:|--:|", flush=True)
    for name in args.sets:
        data = load(args.data, name)
        if name == "scene":
            for called, model in models(data.Y.shape[1], 1.0):
                lines.append(report(f"{name}, C = 1", called, measure(model, data)))
        for called, (C, model) in chosen(data).items():
            lines.append(report(name, f"{called}, C = {C:g}", measure(model, data)))
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

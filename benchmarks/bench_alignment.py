"""Word alignment: error rates beside IBM model 1, and what each solver reaches in what time.

    python benchmarks/bench_alignment.py --data FOLDER [--json OUT] [--pairs hansards ...]
        [--degrees 1 2] [--C 0.1]

FOLDER holds ``word_alignment/``. The first sentence pairs of the gold part train, the others test;
features come from the unaligned text and the sentences of the training part (of Chinese, which has
no such text, of all sentences). C is chosen by 5-fold cross-validation on the training part, or
given: then only that one is tried. The solvers are compared at the smallest of the degrees, with
the C of its first loss; a table at the end has all pairs. CPU seconds. Gaps are relative, over the
best lower bound that any fit found.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, CasimirSSVM, Matching, SubgradientSSVM
from skstruct.datasets import load_parallel_text, load_word_alignment
from skstruct.metrics import alignment_error_rate
from skstruct.preprocessing import AlignmentFeatures

_C = [0.01, 0.03, 0.1, 0.3, 1.0]
_LOSSES = {"1:1": "hamming", "3:1": {1: 3.0, 0: 1.0}}
_SOLVERS = {
    "bcfw": lambda **options: BCFWSSVM(tol=1e-4, max_iter=1000, **options),
    "casimir": lambda **options: CasimirSSVM(tol=1e-4, max_iter=500, **options),
    "subgradient": lambda **options: SubgradientSSVM(tol=0.0, max_iter=500, **options),
}


def files(folder, task):
    """Gold pairs, unaligned text or None, and how many pairs train."""
    folder = folder / "word_alignment"
    if task == "hansards":
        gold = [folder / f"enfr_hansards.{end}.gz" for end in ("src-tgt", "gold")]
        text = [folder / f"enfr_hansards.train.{side}.gz" for side in ("en", "fr")]
        return load_word_alignment(*gold), load_parallel_text(*text), 200
    if task == "spanish":
        sides = tuple(folder / f"esen_europarl.dev.{side}.gz" for side in ("en", "es"))
        text = [folder / f"esen_europarl.corpus.{side}.gz" for side in ("en", "es")]
        gold = load_word_alignment(sides, folder / "esen_europarl.dev.key.gz")
        return gold, load_parallel_text(*text), 100
    gold = [folder / f"zhen_news.{end}.gz" for end in ("src-tgt", "gold")]
    return load_word_alignment(*gold), None, 200


class Task:
    """Samples with features, and the error of predictions."""

    def __init__(self, folder, name):
        gold, text, n_train = files(folder, name)
        pairs = list(zip(gold.source, gold.target, strict=True))
        start = time.process_time()
        sides = (gold.source, gold.target) if text is None else (text.source, text.target)
        self.features = AlignmentFeatures(sides).fit(pairs[:n_train])
        X = self.features.transform(pairs)
        self.seconds = time.process_time() - start
        self.gold, self.name, self.n_train = gold, name, n_train
        self.X_train, self.X_test = X[:n_train], X[n_train:]
        self.y_train = list(zip(gold.sure[:n_train], gold.possible[:n_train], strict=True))
        self.baseline = self.error(self.features.intersection(pairs[n_train:]))

    def error(self, predicted):
        """Alignment error rate on the test part."""
        rest = slice(self.n_train, None)
        return alignment_error_rate(self.gold.sure[rest], self.gold.possible[rest], list(predicted))


def learned(task, degrees, costs):
    """Error rates with C by cross-validation."""
    for degree in degrees:
        for loss_name, loss in _LOSSES.items():
            svm = BCFWSSVM(Matching(degree, repair=True), loss=loss, random_state=0)
            start = time.process_time()
            search = GridSearchCV(svm, {"C": costs}, cv=5, scoring=error_of_fold, refit=True)
            search.fit(task.X_train, task.y_train)
            error = task.error(search.predict(task.X_test))
            yield {
                "task": task.name,
                "max_degree": degree,
                "loss": loss_name,
                "C": search.best_params_["C"],
                "error": error,
                "ibm1_intersection": task.baseline,
                "ratio": error / task.baseline,
                "feature_seconds": task.seconds,
                "search_seconds": time.process_time() - start,
            }


def error_of_fold(estimator, X, y):
    """Alignment error rate, negative, as scikit-learn takes scores."""
    sure, possible = zip(*y, strict=True)
    return -alignment_error_rate(sure, possible, list(estimator.predict(X)))


def solvers(task, degree, C):
    """Objectives of all solvers at one C, and when they came within 1e-2 and 1e-3 of the bound."""
    fits, times = {}, {}
    for name, make in _SOLVERS.items():
        svm = make(graph=Matching(degree, repair=True), C=C, random_state=0)
        clone(svm).set_params(max_iter=1).fit(task.X_train, task.y_train)
        start = time.process_time()
        fits[name] = svm.fit(task.X_train, task.y_train)
        times[name] = time.process_time() - start
    bounds = [getattr(svm, "dual_objective_", -np.inf) for svm in fits.values()]
    bound = max(bounds)
    for name, svm in fits.items():
        gaps = np.asarray(svm.history_["objective"]) / bound - 1.0
        row = {"task": task.name, "max_degree": degree, "C": C, "solver": name}
        row["passes"] = svm.n_iter_
        row |= {"objective": svm.objective_, "bound": bound, "gap": svm.objective_ / bound - 1.0}
        for level in (1e-2, 1e-3):
            hit = np.flatnonzero(gaps <= level)
            row[f"passes_to_{level:g}"] = int(hit[0]) + 1 if hit.size else None
        yield row | {"seconds": times[name], "error": task.error(svm.predict(task.X_test))}


def main():
    """Print a line a measurement; with ``--json`` write them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    names = ["hansards", "spanish", "chinese"]
    parser.add_argument("--pairs", nargs="+", default=names, choices=names)
    parser.add_argument("--degrees", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--C", nargs="+", type=float, default=_C)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*did not converge.*")
    rows, degrees = [], sorted(options.degrees)
    for name in options.pairs:
        task, C = Task(options.data, name), None
        for row in learned(task, degrees, options.C):
            rows.append(row)
            C = C or row["C"]
            show(row)
        for row in solvers(task, degrees[0], C):
            rows.append(row)
            show(row)
    table(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def table(rows):
    """All pairs of languages in one table."""
    columns = ("task", "max_degree", "C", "solver", "passes", "gap", "seconds", "error")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        if "solver" in row:
            print("| " + " | ".join(_short(row[name]) for name in columns) + " |")
    columns = ("task", "max_degree", "loss", "C", "error", "ibm1_intersection", "ratio")
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        if "solver" not in row:
            print("| " + " | ".join(_short(row[name]) for name in columns) + " |")


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show(row):
    """Print a measurement."""
    print(", ".join(f"{key} {_short(value)}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()

"""CasimirSSVM as it comes beside a grid of its parameters: the optimum after 50 and 100 passes.

    python benchmarks/bench_casimir.py --data FOLDER [--tasks ner pos ocr boxes] [--lambdas 0.1 1]

Tasks: 500 sentences of CoNLL-2003 (hashed features), 400 sentences of the treebank, one fold of OCR
letters, 18 images with candidate boxes. The grid has kappa = lambda, 10 lambda and the default's,
learning rates by factors of two, K = 5. A line each task and lambda n: excess of the objective over
BCFW's dual bound, as shares of that bound, of the default and of the best of the grid after so many
passes (two an iteration), and the ratio of the two.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import tasks
from bench_nonlinear import candidates

from skstruct import BCFWSSVM, Candidates, CasimirSSVM
from skstruct.datasets import load_localisation

RATES = [0.000625 * 2**k for k in range(10)]
KAPPAS = {"lambda": 1.0, "10 lambda": 10.0, "default": None}
PASSES = 50, 100


def entities(folder):
    """Sentences of CoNLL-2003."""
    from bench_ssvm import entities

    (task,) = entities(folder, False, 500)
    return task.X, task.y, {}


def boxes(folder):
    """Every third image with one kangaroo, half of these: boxes of a sliding grid."""
    data = load_localisation(folder / "localisation")
    one = [i for i, found in enumerate(data.boxes) if len(found) == 1][::3]
    X, y = [candidates(data.images[i]) for i in one[::2]], [data.boxes[i][0] for i in one[::2]]
    tables = np.concatenate([table for table, _ in X])
    mean, spread = tables.mean(axis=0), tables.std()
    X = [((table - mean) / spread, own) for table, own in X]
    return X, y, {"graph": Candidates("box"), "loss": "iou"}


def _of_task(task, n=None):
    return task.train.X[:n], task.train.y[:n], {}


TASKS = {
    "ner": entities,
    "pos": lambda folder: _of_task(tasks.treebank(folder, 400)),
    "ocr": lambda folder: _of_task(tasks.ocr(folder), 626),
    "boxes": boxes,
}


def least(X, y, **options):
    """The least objective after each number of passes."""
    model = CasimirSSVM(max_iter=PASSES[-1] // 2, tol=1e-9, n_best=5, random_state=0, **options)
    try:
        objective = np.minimum.accumulate(model.fit(X, y).history_["objective"])
    except FloatingPointError:  # the rate is too large
        return np.full(len(PASSES), np.inf)
    return np.array([objective[min(k // 2, objective.size) - 1] for k in PASSES])


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--lambdas", nargs="+", type=float, default=[0.01, 0.1, 1.0, 10.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| task | lambda n | passes | default | best of the grid | of kappa, rate | ratio |")
    print("|---|--:|--:|--:|--:|---|--:|")
    for name in options.tasks:
        X, y, own = TASKS[name](options.data)
        for lam in options.lambdas:
            common = {"C": 1.0 / lam, "fit_intercept": False, **own}
            svm = BCFWSSVM(tol=1e-5, max_iter=6000, gap_every=10, random_state=0, **common)
            bound = svm.fit(X, y).dual_objective_
            found = {}
            for kappa, times in KAPPAS.items():
                for rate in RATES:
                    weight = None if times is None else times * lam / len(y)
                    found[kappa, rate] = least(X, y, kappa=weight, learning_rate=rate, **common)
            default = least(X, y, **common) / bound - 1.0
            for k, passes in enumerate(PASSES):
                (kappa, rate), best = min(found.items(), key=lambda item: item[1][k])
                best = best[k] / bound - 1.0
                print(
                    f"| {name} | {lam:g} | {passes} | {default[k]:.3g} | {best:.3g} | "
                    f"{kappa}, {rate:g} | {default[k] / best:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""The dual extragradient beside BCFW: certified gaps against passes and CPU seconds.

    python benchmarks/bench_extragradient.py --data FOLDER [--json FILE] [--tasks letters ...]

FOLDER holds ``ocr_letters/``, ``scene/`` and ``word_alignment/``. One core, kernels are warm. A gap
is relative to the best objective so far, and certified by the run itself; passes count all oracle
calls, those of certificates too. CPU seconds are those of the whole fit, shared out by the clock of
the solver. "pairs" is the duality gap of BCFW on scene with all pairs of labels: figure 3 of
Boileau, Lamouchi, St-Arnaud 2019, who do not run both methods on the same data. The comparison is
ours.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_alignment import Task

from skstruct import BCFWSSVM, ExtragradientSSVM, Matching, MultiLabel
from skstruct.datasets import load_multilabel, load_ocr_letters
from skstruct.testing import random_sequences

LEVELS = (0.5, 0.2, 0.1, 5e-2, 1e-2, 1e-3)
_CURVE = 40


class Problem(NamedTuple):
    """One task at one regulariser."""

    name: str
    X: object
    y: object
    graph: object
    lam: float
    tol: float
    max_iter: int
    variants: tuple = ({},)


def letters(folder):
    """Letters of OCR fold 0, one node each."""
    data = load_ocr_letters(folder / "ocr_letters/letters.npz")
    fold = np.flatnonzero(data.fold == 0)
    X, y = np.vstack(list(data.X[fold])), np.concatenate(list(data.y[fold]))
    for lam in (0.022, 0.01, 1.0 / len(y)):
        weak = lam < 0.01
        yield Problem("OCR letters", X, y, "multiclass", lam, 1e-3, 3000 if weak else 1000)
    euclidean = ({"projection": "euclidean"},)
    yield Problem("OCR letters", X, y, "multiclass", 0.022, 1e-3, 1000, euclidean)


def words(folder):
    """Words of OCR fold 0, as chains."""
    data = load_ocr_letters(folder / "ocr_letters/letters.npz")
    fold = np.flatnonzero(data.fold == 0)
    X, y = data.X[fold], data.y[fold]
    for lam in (0.1, 0.01, 1.0 / len(fold)):
        yield Problem("OCR words", X, y, "chain", lam, 1e-3, 1000)


def chain(folder):
    """Small random chains."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=100)
    for lam in (0.1, 0.01):
        yield Problem("small chains", X, y, "chain", lam, 1e-3, 2000)


def scene(folder):
    """Scene: six labels an image, on a tree."""
    data = load_multilabel(folder / "scene/scene.npz")
    X, Y = data.X[data.train], data.Y[data.train]
    for lam in (0.1, 0.01):
        yield Problem("scene, tree", X, Y, MultiLabel("tree"), lam, 1e-3, 1500)


def pairs(folder):
    """Figure 3 of Boileau et al. 2019: BCFW on scene with all pairs."""
    data = load_multilabel(folder / "scene/scene.npz")
    X, Y = data.X[data.train], data.Y[data.train]
    yield Problem("scene, all pairs", X, Y, MultiLabel("full"), 0.01, 1e-3, 1000, ())


def alignment(folder):
    """Word alignment as matchings: 100 Spanish pairs of Europarl, 200 of the Hansards."""
    for name in ("spanish", "hansards"):
        task = Task(folder, name)
        X, y = task.X_train, task.y_train
        yield Problem(f"{name}, {len(X)}", X, y, Matching(repair=True), 0.01, 1e-3, 400)


TASKS = {"letters": letters, "words": words, "chain": chain, "scene": scene, "pairs": pairs}
TASKS["alignment"] = alignment


def fit(problem, estimator):
    """One fit, and its curve."""
    warm = max(len(problem.y) // 50, 10)
    estimator.set_params(C=1.0 / (problem.lam * len(problem.y)))
    limits = estimator.get_params()
    estimator.set_params(max_iter=1, tol=1.0).fit(problem.X[:warm], problem.y[:warm])
    estimator.set_params(max_iter=limits["max_iter"], tol=limits["tol"])
    start = time.process_time()
    estimator.fit(problem.X, problem.y)
    seconds = time.process_time() - start
    history = estimator.history_
    known = np.flatnonzero(np.isfinite(history["objective"]))
    best = np.minimum.accumulate(history["objective"][known])
    bound = np.maximum.accumulate(history["dual_objective"][known])
    gaps = (best - bound) / best
    passes = history["passes"][known]
    clock = history["seconds"][known] * seconds / max(history["seconds"][-1], 1e-9)
    row = {
        "task": problem.name,
        "lambda": problem.lam,
        "solver": type(estimator).__name__,
        "options": getattr(estimator, "projection_", ""),
        "objective": estimator.objective_,
        "dual_objective": estimator.dual_objective_,
        "gap": estimator.suboptimality_,
        "passes": float(passes[-1]),
        "seconds": seconds,
    }
    for level in LEVELS:
        hit = np.flatnonzero(gaps <= level)
        row[f"to {level:g}"] = (
            [round(float(passes[hit[0]])), round(float(clock[hit[0]]), 2)] if hit.size else None
        )
    thin = np.unique(np.linspace(0, known.size - 1, _CURVE).astype(int))
    row["curve"] = [[float(passes[k]), float(clock[k]), float(gaps[k])] for k in thin]
    return row


def show(row):
    """Print a line of the table."""
    levels = [row[f"to {level:g}"] or ["-", "-"] for level in LEVELS]
    reached = "  ".join(f"{passes:>5}/{seconds:<6}" for passes, seconds in levels)
    name = f"{row['task']}, {row['lambda']:.2g}"
    who = f"{row['solver']} {row['options']}"
    print(f"{name:28s} {who:30s} {row['objective']:.6f} {row['gap']:.1e}  {reached}", flush=True)


def main():
    """Print a line a fit; with ``--json`` write them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*did not converge.*")
    print(f"passes/CPU seconds to a gap of {', '.join(f'{level:g}' for level in LEVELS)}")
    rows = []
    for name in given.tasks:
        for problem in TASKS[name](given.data):
            limits = {"graph": problem.graph, "tol": problem.tol}
            models = [
                ExtragradientSSVM(**limits, **options, max_iter=problem.max_iter)
                for options in problem.variants
            ]
            models.append(BCFWSSVM(**limits, max_iter=1000, gap_every=2, random_state=0))
            for model in models:
                rows.append(fit(problem, model))
                show(rows[-1])
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

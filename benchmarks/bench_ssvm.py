"""Structural SVMs: objective against oracle calls and seconds, every solver on the same problem.

    python benchmarks/bench_ssvm.py --data FOLDER [--tasks ...] [--quick] [--json FILE]

The task "few" is another table: a few hundred samples at C = 1, the estimators' defaults, and how
far each is above the best objective found (in percent) by oracle calls. It takes Casimir to 600
iterations, and is the hard case for it: smoothing must shrink far, and passes are short.

FOLDER holds ``ocr_letters/``, ``conll2000/``, ``conll2003/`` and ``treebank_pos/``. One core; the
kernels are warm. Suboptimality is relative to the best dual bound that any solver found, so it is
itself certified. Seconds are those inside the solvers, certificates and objectives that a solver
needs for its stop included for BCFW, and excluded where they only report (Casimir, SGD).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from bench_text import NER
from sklearn.exceptions import ConvergenceWarning
from tasks import conll2000, treebank

from skstruct import BCFWSSVM, CasimirSSVM, RaggedArray, SubgradientSSVM, Tree
from skstruct.datasets import load_conll, load_ocr_letters
from skstruct.inference.viterbi import viterbi, viterbi_scratch, viterbi_top_k
from skstruct.metrics import chunk_f1_score
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

LEVELS = (1e-1, 5e-2, 1e-2, 1e-3)


class Problem(NamedTuple):
    """Training and test data of one task."""

    name: str
    X: object
    y: object
    X_test: object
    y_test: object
    C: float
    measure: object
    graph: object = "auto"
    passes: int = 60


def _accuracy(true, predicted):
    pairs = zip(true, predicted, strict=True)
    return float(np.mean(np.concatenate([np.asarray(a) == b for a, b in pairs])))


def ocr(data, quick):
    """OCR letters: one fold to train and the rest to test, and the other way round."""
    letters = load_ocr_letters(data / "ocr_letters/letters.npz")
    one, nine = np.flatnonzero(letters.fold == 0), np.flatnonzero(letters.fold != 0)
    for train, test, C, name in (
        (one, nine, 1.0, "OCR, one fold, lambda = 1/n"),
        (one, nine, 100.0 / len(one), "OCR, one fold, lambda = 0.01"),
        (nine, one, 1.0, "OCR, nine folds, lambda = 1/n"),
    ):
        if quick and train is nine:
            return
        parts = [letters.X[train], letters.y[train], letters.X[test], letters.y[test]]
        yield Problem(name, *parts, C, _accuracy, passes=300 if train is one else 100)


def chunking(data, quick):
    """CoNLL-2000."""
    task = conll2000(data, 300 if quick else None)
    parts = [task.train.X, task.train.y, task.test.X, task.test.y]
    yield Problem("CoNLL-2000", *parts, 0.05, chunk_f1_score, passes=40)


def entities(data, quick, limit=None):
    """CoNLL-2003 English, hashed features of words, tags and chunks in a window."""
    columns = ["word", "pos", "chunk", "entity"]
    train, test = (
        load_conll(data / f"conll2003/eng.{name}.gz", columns) for name in ("train", "testb")
    )
    names = TemplateVectorizer(NER, outside="drop")
    hashing = SequenceVectorizer(hashing=True, n_features=2**16)
    parts = []
    for part, grow in ((train, True), (test, False)):
        cut = slice(300 if quick else limit)
        tokens = RaggedArray.stack_columns([part.word, part.pos, part.chunk])[cut]
        X = names.fit_transform(tokens) if grow else names.transform(tokens)
        strings = names.get_feature_names_out()
        lists = [
            [strings[x.indices[a:b]].tolist() for a, b in zip(x.indptr, x.indptr[1:], strict=False)]
            for x in X
        ]
        parts += [hashing.fit_transform(lists), part.entity[cut]]
    yield Problem("CoNLL-2003, hashed", *parts, 0.05, chunk_f1_score, passes=40)


def tagging(data, quick):
    """Treebank: POS on chains, and on the dependency trees."""
    task = treebank(data, 300 if quick else None)
    parts = [task.train.X, task.train.y, task.test.X, task.test.y]
    yield Problem("treebank POS, chains", *parts, 1.0, _accuracy, passes=60)
    heads = load_conll(
        data / "treebank_pos/treebank.tsv.gz", ["word", "tag", "head"], separator="\t"
    )
    parents = [row.astype(int) - 1 for row in heads.head]
    n = len(task.train.X)
    trees = [list(zip(list(task.train.X), parents[:n], strict=True))]
    trees.append(list(zip(list(task.test.X), parents[n : n + len(task.test.X)], strict=True)))
    parts = [trees[0], task.train.y, trees[1], task.test.y]
    yield Problem("treebank POS, dependency trees", *parts, 1.0, _accuracy, Tree(), passes=40)


def solvers(problem):
    """Every solver, with a budget of about the same number of oracle calls."""
    common = {"graph": problem.graph, "C": problem.C, "fit_intercept": False, "random_state": 0}
    n = problem.passes
    half = max(n // 2, 1)
    yield "BCFW, pairwise", BCFWSSVM(**common, max_iter=n, tol=1e-3)
    yield (
        "BCFW, pairwise, cache, gap",
        BCFWSSVM(**common, max_iter=n, tol=1e-3, oracle_cache=True, sampling="gap"),
    )
    yield (
        "BCFW, Frank-Wolfe, averaged",
        BCFWSSVM(**common, max_iter=n, tol=1e-3, steps="frank-wolfe", n_cached=1, averaging=True),
    )
    yield "Casimir, adaptive", CasimirSSVM(**common, max_iter=half, tol=1e-3)
    yield (
        "Casimir, constant",
        CasimirSSVM(**common, max_iter=half, tol=1e-3, variant="constant", smoothing_strength=0.5),
    )
    yield (
        "SVRG, smoothed",
        CasimirSSVM(**common, max_iter=half, tol=1e-3, variant="svrg", smoothing_strength=0.5),
    )
    yield "Pegasos, averaged", SubgradientSSVM(**common, max_iter=n, tol=1e-9)


# Passes at which the curves of few samples are printed.
_PASSES = (20, 50, 100, 200, 400, 600, 800, 1200)


def few(data, quick):
    """The first 400 sentences of the texts, and one fold of OCR letters."""
    limit = 100 if quick else 400
    letters = load_ocr_letters(data / "ocr_letters/letters.npz")
    rows = np.flatnonzero(letters.fold == 0)[: 100 if quick else None]
    yield "OCR, one fold", letters.X[rows], letters.y[rows]
    for name, read in (("treebank POS", treebank), ("CoNLL-2000", conll2000)):
        part = read(data, limit).train
        yield f"{name}, {limit} sentences", part.X, part.y


def run_few(data, quick):
    """Percent above the best objective by passes over the oracles, with default parameters."""
    most = 100 if quick else _PASSES[-1]
    for name, X, y in few(data, quick):
        models = {
            "BCFW": BCFWSSVM(max_iter=4 * most, tol=2e-4, random_state=0),
            "Casimir": CasimirSSVM(max_iter=most // 2, tol=1e-4, random_state=0),
            "Pegasos, averaged": SubgradientSSVM(max_iter=most, tol=0.0, random_state=0),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for model in models.values():
                model.fit(X, y)
        best = min(model.objective_ for model in models.values())
        bound = max(getattr(model, "dual_objective_", 0.0) for model in models.values())
        print(f"\n## {name}, C = 1: best {best:.6f}, dual bound {bound:.6f}\n")
        print("Percent above the best after so many oracle calls a sample:\n")
        print(f"| solver | {' | '.join(map(str, _PASSES))} |\n|---|{'--:|' * len(_PASSES)}")
        curves = {}
        for label, model in models.items():
            passes, seconds, objective = curve(model)
            curves[label] = {
                "passes": passes.tolist(),
                "seconds": seconds.tolist(),
                "percent": (100.0 * (objective / best - 1.0)).tolist(),
            }
            at = np.searchsorted(passes, _PASSES, side="right") - 1
            reached = (at >= 0) & (passes[-1] >= 0.99 * np.array(_PASSES))
            cells = [
                f"{curves[label]['percent'][q]:.3g}" if known else ""
                for q, known in zip(at, reached, strict=True)
            ]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)
        yield {"task": name, "best": best, "bound": bound, "curves": curves}


def curve(model):
    """Passes, seconds and the best objective so far, where it is known."""
    known = np.isfinite(model.history_["objective"])
    objective = np.minimum.accumulate(model.history_["objective"][known])
    return model.history_["passes"][known], model.history_["seconds"][known], objective


def reach(at, objective, bound, level):
    """Where the objective is first within `level` of the bound."""
    found = np.flatnonzero((objective - bound) / objective <= level)
    return at[found[0]] if found.size else np.nan


def run(problem, figures):
    """Fit all solvers; print their table."""
    print(f"\n## {problem.name}: {len(problem.X)} samples, C = {problem.C:.3g}\n", flush=True)
    fitted = {}
    for name, model in solvers(problem):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            type(model)(**model.get_params(deep=False) | {"max_iter": 1}).fit(
                problem.X[:20], problem.y[:20]
            )
            fitted[name] = model.fit(problem.X, problem.y)
    bound = max(getattr(m, "dual_objective_", -np.inf) for m in fitted.values())
    heads = [f"passes to {level:g}" for level in LEVELS] + [f"s to {level:g}" for level in LEVELS]
    print(f"best dual bound {bound:.6f}\n")
    print(f"| solver | {' | '.join(heads)} | s a pass | objective | own bound | test |")
    print(f"|---|{'--:|' * (len(heads) + 4)}")
    rows = []
    for name, model in fitted.items():
        passes, seconds, objective = curve(model)
        cells = [reach(passes, objective, bound, level) for level in LEVELS]
        times = [reach(seconds, objective, bound, level) for level in LEVELS]
        test = 100 * problem.measure(problem.y_test, model.predict(problem.X_test))
        per_pass = seconds[-1] / passes[-1]
        own = getattr(model, "dual_objective_", np.nan)
        row = [name, *cells, *times, per_pass, model.objective_, own, test]
        rows.append(row)
        text = [f"{v:.0f}" if v == v else "" for v in cells]
        text += [f"{v:.2f}" if v == v else "" for v in times]
        print(
            f"| {name} | {' | '.join(text)} | {per_pass:.4f} | {model.objective_:.4f} | "
            f"{own:.4f} | {test:.2f} |",
            flush=True,
        )
    if figures:
        _draw(problem, fitted, bound, figures)
    return {"task": problem.name, "bound": bound, "rows": rows}


def _draw(problem, fitted, bound, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for name, model in fitted.items():
        passes, seconds, objective = curve(model)
        for ax, at in zip(axes, (passes, seconds), strict=True):
            ax.plot(at, (objective - bound) / objective, label=name)
    axes[0].set(xlabel="oracle calls / n", ylabel="relative suboptimality", yscale="log")
    axes[1].set(xlabel="seconds")
    axes[1].legend(fontsize=7)
    fig.suptitle(problem.name)
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / (problem.name.replace(" ", "_").replace("/", "-") + ".png"), dpi=120)
    plt.close(fig)


def oracles():
    """Time of the top-5 oracle over Viterbi's, chains of 22 labels."""
    rng = np.random.default_rng(0)
    n, K, k = 24, 22, 5
    unary, table = rng.normal(size=(n, K)), rng.normal(size=(1, K, K))
    labels, many = np.empty(n, dtype=np.int32), np.empty((k, n), dtype=np.int32)
    values, work = np.empty(k), viterbi_scratch(n, K, k)
    seconds = {}
    for name, call in (
        ("viterbi", lambda: viterbi(unary, table, labels, work)),
        ("top 5", lambda: viterbi_top_k(unary, table, values, many, work)),
    ):
        call()
        best = np.inf
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(2000):
                call()
            best = min(best, time.perf_counter() - start)
        seconds[name] = best / 2000
    ratio = seconds["top 5"] / seconds["viterbi"]
    print(f"oracles, 24 nodes, 22 labels: Viterbi {1e6 * seconds['viterbi']:.1f} us, "
          f"top 5 {1e6 * seconds['top 5']:.1f} us, ratio {ratio:.1f}")  # fmt: skip
    return seconds


TASKS = {"ocr": ocr, "chunking": chunking, "entities": entities, "tagging": tagging}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    names = ["few", *TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names)
    parser.add_argument("--quick", action="store_true", help="100 to 300 training samples a task")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    print(f"{platform.machine()}, numpy {np.__version__}, numba {numba.__version__}")
    results = {"oracles": oracles(), "tasks": []}
    for name in args.tasks:
        if name == "few":
            rows = run_few(args.data, args.quick)
        else:
            rows = (run(problem, args.figures) for problem in TASKS[name](args.data, args.quick))
        for row in rows:
            results["tasks"].append(row)
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

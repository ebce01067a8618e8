"""CPU seconds of tune beside GridSearchCV: the same folds and grids, and their choices.

    python benchmarks/bench_tune.py --data FOLDER [--sentences N] [--quick] [--json FILE]

FOLDER holds ``conll2000/`` and ``ocr_letters/``. Five folds, seven values of C, for CRFs on chunks
also three of l1_ratio; chunks by a pipeline from the tutorial's template, scored by chunk F1,
letters by accuracy. The refit on all samples is part of both. The last column is the lead of grid
search's choice over tune's, by grid search's own scores, and the standard error of its best score.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import tasks
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, SAGCRF, RaggedArray
from skstruct.datasets import load_conll
from skstruct.metrics import SCORERS
from skstruct.model_selection import tune
from skstruct.pipeline import Pipeline, make_pipeline
from skstruct.preprocessing import SequenceVectorizer

VALUES = [0.01, 0.0316, 0.1, 0.316, 1.0, 3.16, 10.0]
RATIOS = [0.0, 0.5, 0.9]


def chunk_features(rows):
    """The attributes of CRFsuite's tutorial, of one sentence of "word pos" strings."""
    return tasks._window([tuple(row.split(" ")) for row in rows])


def chunking(folder, limit):
    """Sentences and chunk tags."""
    data = load_conll(folder / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    X = [
        [f"{w} {p}" for w, p in zip(words, tags, strict=True)]
        for words, tags in zip(data.word[:limit], data.pos[:limit], strict=True)
    ]
    return X, [labels.tolist() for labels in data.chunk[:limit]]


def letters(folder, limit):
    """Words of handwritten letters, in an order without runs of one writer."""
    task = tasks.ocr(folder, None)
    order = np.random.default_rng(0).permutation(len(task.train.y))[:limit]
    return RaggedArray.from_list([task.train.X[i] for i in order]), RaggedArray.from_list(
        [task.train.y[i] for i in order]
    )


def measured(fit):
    """Return a result and its CPU seconds."""
    began = time.process_time()
    result = fit()
    return result, time.process_time() - began


def compare(name, model, X, y, scoring, ratios):
    """One row: both ways, and what their choices are worth."""
    prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    grid = {f"{prefix}C": VALUES} | ({f"{prefix}l1_ratio": ratios} if ratios else {})
    few = slice(0, 100)  # compiles
    tune(clone(model), X[few], y[few], Cs=[0.1, 1.0], l1_ratios=ratios, cv=2)
    search = GridSearchCV(model, grid, scoring=SCORERS[scoring], cv=5)
    found, seconds = measured(lambda: tune(model, X, y, Cs=VALUES, l1_ratios=ratios, cv=5))
    search, seconds_grid = measured(lambda: search.fit(X, y))
    results = search.cv_results_
    i, best = results["params"].index(found.best_params_), search.best_index_
    lead = 100.0 * (search.best_score_ - results["mean_test_score"][i])
    error = 100.0 * results["std_test_score"][best] / np.sqrt(search.n_splits_ - 1)
    fits = int(found.cv_results_["n_splits"].sum())
    chosen = [
        ", ".join(f"{v:g}" for v in p.values()) for p in (search.best_params_, found.best_params_)
    ]
    row = [name, len(results["params"]) * 5, fits, seconds_grid, seconds, seconds / seconds_grid]
    return [*row, *chosen, f"{lead:.2f} ({error:.2f})"]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="200 sentences and words")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "tune: the chosen C")
    limit = 200 if args.quick else args.sentences
    chunks, words = chunking(args.data, limit), letters(args.data, limit)

    def pipeline(model):
        return make_pipeline(SequenceVectorizer(features=chunk_features), model)

    cases = [
        ("letters, SAGCRF", SAGCRF(random_state=0), *words, "node_accuracy", None),
        ("letters, BCFWSSVM", BCFWSSVM(random_state=0), *words, "node_accuracy", None),
        ("chunks, SAGCRF", pipeline(SAGCRF(random_state=0)), *chunks, "chunk_f1", None),
        ("chunks, BCFWSSVM", pipeline(BCFWSSVM(random_state=0)), *chunks, "chunk_f1", None),
        ("chunks, SAGCRF, l1_ratio", pipeline(SAGCRF(random_state=0)), *chunks, "chunk_f1", RATIOS),
    ]
    heads = ["task", "fits of the grid", "of tune", "s GridSearchCV", "s tune", "ratio"]
    heads += ["choice of GridSearchCV", "of tune", "lead (standard error), percent"]
    print(f"| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 1)}")
    rows = []
    for case in cases:
        rows.append(compare(*case))
        cells = (f"{cell:.3g}" if isinstance(cell, float) else cell for cell in rows[-1])
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"heads": heads, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

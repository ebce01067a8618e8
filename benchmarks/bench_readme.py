"""The table of README: one row for each regime, one definition of "ratio".

    python benchmarks/bench_readme.py --data FOLDER [--rows 1 2 ...] [--json FILE]

FOLDER holds ``conll2000/``, ``conll2002_dutch/``, ``treebank_pos/``, ``ocr_letters/``, ``scene/``
and ``word_alignment/``. Needs the ``bench`` extra. CPU seconds of one core. CRFsuite has all states
(the same weights and objective as ours), and trains to its own stop by its own clock, after its
features are generated; ours is the whole call of ``SAGCRF().fit`` with warm kernels, to a proven
gap of 1e-3. The last three rows: scikit-learn's linear SVMs per label to their own stop; PyMaxflow
from arrays of scores to labels, ours from the image; SciPy's assignment of each sentence pair, from
scores, ours from features. Quality is chunk F1, accuracy, or subset accuracy on the test part, in
percent, or 1 where the answers are the same.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import bench_alignment
import bench_grid_cuts
import bench_label_sets
import numpy as np
import tasks
from peers import crfsuite
from scipy.optimize import linear_sum_assignment

from skstruct import BCFWSSVM, SAGCRF, Matching


def train(task, c1=0.0, c2=0.5):
    """CRFsuite and the default fit under the same penalty."""
    theirs = crfsuite(task, True, False, c2, c1=c1)
    total = c1 + 2.0 * c2
    crf = SAGCRF(C=1.0 / total, l1_ratio=c1 / total, fit_intercept=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.set_params(max_iter=2).fit(task.train.X, task.train.y)  # loads or compiles the kernels
        crf.set_params(max_iter=SAGCRF().max_iter)
        start = time.process_time()
        crf.fit(task.train.X, task.train.y)
    seconds = time.process_time() - start
    quality = tasks.measure(task, [labels.tolist() for labels in crf.predict(task.test.X)])
    return theirs["curve"][0][-1], seconds, theirs["measure"], quality


def label_sets(folder):
    """Scene: a linear SVM per label against a CRF with all pairs of labels."""
    data = bench_label_sets.load(folder, "scene")
    models = dict(bench_label_sets.models(data.Y.shape[1], 1.0))
    theirs, ours = (
        bench_label_sets.measure(models[name], data)
        for name in ("LinearSVC per label", "SAGCRF, all pairs")
    )
    quality = [100.0 * line["subset accuracy"] for line in (theirs, ours)]
    return theirs["CPU s"], ours["CPU s"], *quality


def image_cuts():
    """Labels of an image of 1024 x 1024 pixels."""
    line = next(line for line in bench_grid_cuts.large() if line["side"] == 1024)
    share = 100.0 - 100.0 * line["differences"] / line["side"] ** 2
    return line["pymaxflow"], line["ours"], 100.0, share


def alignment(folder):
    """Best matchings of the test pairs of the Hansards, at the weights of one fit."""
    task = bench_alignment.Task(folder, "hansards")
    svm = BCFWSSVM(Matching(1, repair=True), random_state=0, max_iter=50).fit(
        task.X_train, task.y_train
    )
    found, ours = bench_grid_cuts.cpu_seconds(lambda: svm.predict(task.X_test))
    scores = svm.decision_function(task.X_test)

    def assign():
        out = []
        for matrix in scores:
            padded = np.hstack([matrix, np.zeros((len(matrix), len(matrix)))])  # or unmatched
            rows, columns = linear_sum_assignment(padded, maximize=True)
            keep = columns < matrix.shape[1]
            out.append(list(zip(rows[keep].tolist(), columns[keep].tolist(), strict=True)))
        return out

    matched, theirs = bench_grid_cuts.cpu_seconds(assign)
    same = [sorted(map(tuple, a)) == sorted(b) for a, b in zip(found, matched, strict=True)]
    return theirs, ours, 100.0, 100.0 * float(np.mean(same))


ROWS = {
    "Chunking, 400 sentences | CRFsuite": lambda f: train(tasks.conll2000(f, 400)),
    "Chunking, 8,936 sentences | CRFsuite": lambda f: train(tasks.conll2000(f)),
    "Dutch named entities, 15,806 sentences | CRFsuite": lambda f: train(tasks.dutch(f)),
    "Handwritten letters, 128 pixels | CRFsuite": lambda f: train(tasks.ocr(f)),
    "POS tags with word endings, 309 labels | CRFsuite": lambda f: train(tasks.endings(f, 600, 8)),
    "Chunking, 2,000 sentences, elastic net | CRFsuite": lambda f: train(
        tasks.conll2000(f, 2000), 0.1, 0.1
    ),
    "Chunking, 2,000 sentences, C = 50 | CRFsuite": lambda f: train(
        tasks.conll2000(f, 2000), 0.0, 0.01
    ),
    "Multi-label images (scene) | LinearSVC per label": label_sets,
    "Image cut, 1024 x 1024 pixels | PyMaxflow": lambda f: image_cuts(),
    "Word alignment (Hansards) | SciPy": alignment,
}


def main():
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", type=int, default=list(range(1, len(ROWS) + 1)))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print("| task | other | other, s | skstruct, s | ratio | other, quality | skstruct, quality |")
    print("|---|---|--:|--:|--:|--:|--:|")
    lines = []
    for k, (name, measure) in enumerate(ROWS.items(), start=1):
        if k not in args.rows:
            continue
        theirs, ours, their_quality, quality = measure(args.data)
        print(
            f"| {name} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.1f} | {their_quality:.2f} | "
            f"{quality:.2f} |",
            flush=True,
        )
        lines.append([name, theirs, ours, their_quality, quality])
        if args.json:
            args.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()

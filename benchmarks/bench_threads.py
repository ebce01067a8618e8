"""Speedup by a second thread: prediction, L-BFGS, SAG, the default fit, a search in processes.

    python benchmarks/bench_threads.py --data FOLDER [--threads 1 2] [--repeat 7] [--json OUT]

Chunks of CoNLL-2000 with the attributes of CRFsuite's tutorial. Wall seconds, the smallest of some
runs, the numbers of threads in turn. What other programs take of the processors is missing from the
second column first: run it on a quiet machine, and look at the load printed before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from tasks import conll2000

from skstruct import SAGCRF

warnings.simplefilter("ignore", ConvergenceWarning)
# Rare labels are in few folds.
warnings.filterwarnings("ignore", message="y: labels that fit has not seen")


def calls(task):
    """What is timed, by name: functions of the number of threads, and how often to repeat them."""
    X, y = task.train.X, task.train.y
    few_X, few_y = X[:2000], y[:2000]
    tagger = SAGCRF(max_iter=3, tol=0.0, random_state=0).fit(few_X, few_y)
    big = task.test.X

    def tag(n):
        tagger.set_params(n_jobs=n).predict(big)

    def lbfgs(n):
        SAGCRF(solver="lbfgs", n_jobs=n, random_state=0).fit(few_X, few_y)

    def sag(n):
        SAGCRF(solver="sag", max_iter=3, tol=0.0, n_jobs=n, random_state=0).fit(X, y)

    def default(n):
        SAGCRF(n_jobs=n, random_state=0).fit(X, y)

    def search(n):
        grid = GridSearchCV(SAGCRF(random_state=0), {"C": [0.1, 1.0]}, cv=3, n_jobs=n, refit=False)
        grid.fit(X[:1000], y[:1000])

    yield f"predict, {sum(map(len, task.test.y)):,} tokens", tag, 4
    yield 'fit, solver="lbfgs", 2,000 sentences', lbfgs, 1
    yield f'fit, solver="sag", {len(y):,} sentences, 3 passes', sag, 1
    yield f"fit, default, {len(y):,} sentences", default, 1
    yield "grid search of 6 fits, in processes, 1,000 sentences", search, 1


def smallest(call, threads, repeat):
    """The smallest wall seconds of a call for each number of threads, taken in turn."""
    spent = {n: [] for n in threads}
    for n in threads:
        call(n)  # compiles, starts processes
    for _ in range(repeat):
        for n in threads:
            start = time.perf_counter()
            call(n)
            spent[n].append(time.perf_counter() - start)
    return {n: min(times) for n, times in spent.items()}


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, nargs=2, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=7, help="runs of each")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    args = parser.parse_args()
    one, many = args.threads
    task, lines = conll2000(args.data), []
    print(f"{os.cpu_count()} processors, load {np.round(os.getloadavg(), 1)}")
    print(f"| what | {one} thread, s | {many} threads, s | times as fast |\n|---|--:|--:|--:|")
    for name, call, more in calls(task):
        seconds = smallest(call, args.threads, more * args.repeat)
        ratio = seconds[one] / seconds[many]
        lines.append({"what": name, "seconds": seconds, "ratio": ratio})
        print(f"| {name} | {seconds[one]:.3g} | {seconds[many]:.3g} | {ratio:.2f} |", flush=True)
    print(f"load {np.round(os.getloadavg(), 1)}")
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""CPU seconds and compiled functions of a first fit and prediction, of this checkout and another.

Usage::

    python benchmarks/bench_compile.py OTHER_CHECKOUT [--repeats 2] [--pairs]

With ``--pairs`` ten pairs of solver and structure follow each other in one process, which shows
what a second structure costs, and then each has a process of its own.

Every run is a process with an empty cache of kernels; the two checkouts take turns, and the smaller
time of the repeats counts. What numba needs to import and to begin is in both.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

TASKS = {
    "SAGCRF, chains, CSR": ("SAGCRF()", "chain", True),
    "SAGCRF, chains, dense": ("SAGCRF()", "chain", False),
    "SAGCRF(lbfgs), chains, CSR": ("SAGCRF(solver='lbfgs')", "chain", True),
    "BCFWSSVM, chains, CSR": ("BCFWSSVM()", "chain", True),
    "CasimirSSVM, chains, CSR": ("CasimirSSVM()", "chain", True),
    "GDMMSSVM, chains, CSR": ("GDMMSSVM()", "chain", True),
    "SAGCRF, trees, CSR": ("SAGCRF(Tree())", "tree", True),
    "SAGCRF, table, dense": ("SAGCRF('multiclass')", "table", False),
    "BCFWSSVM, label sets, dense": ("BCFWSSVM(MultiLabel('full'))", "sets", False),
}

_RUN = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from scipy import sparse
from numba.core import event
from skstruct import *

class Counter(event.Listener):
    def on_start(self, started):
        self.n = getattr(self, "n", 0) + 1
    def on_end(self, ended):
        pass

model, data, is_sparse = eval(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
rng = np.random.default_rng(0)
X = [rng.normal(size=(n, 20)) for n in rng.integers(3, 8, size=30)]
y = [rng.integers(5, size=len(x)) for x in X]
if data in ("table", "sets"):
    X, y = np.vstack(X), np.concatenate(y)
    y = rng.integers(2, size=(len(X), 20)) if data == "sets" else y
elif is_sparse:
    X = [sparse.csr_matrix(x) for x in X]
if data == "tree":
    X = [(x, np.arange(x.shape[0]) - 1) for x in X]
model.set_params(max_iter=3)
counter, began = Counter(), time.process_time()
with event.install_listener("numba:compile", counter):
    model.fit(X, y)
    fitted, n_fit = time.process_time(), counter.n
    model.predict(X)
print(json.dumps([fitted - began, time.process_time() - began, n_fit, counter.n]))
"""


PAIRS = [
    *(f"BCFWSSVM, {data}" for data in ("chains dense", "chains CSR", "trees", "table")),
    *(f"SAGCRF, {data}" for data in ("chains dense", "chains CSR", "trees", "table")),
    *(f"CasimirSSVM, {data}" for data in ("chains dense", "trees")),
]

_RUN_PAIRS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from scipy import sparse
import skstruct as sk

rng = np.random.default_rng(0)
X = [rng.normal(size=(n, 20)) for n in rng.integers(3, 8, size=30)]
y = [rng.integers(5, size=len(x)) for x in X]
data = {
    "chains dense": (sk.Chain(), X, y),
    "chains CSR": (sk.Chain(), [sparse.csr_matrix(x) for x in X], y),
    "trees": (sk.Tree(), [(x, np.arange(len(x)) - 1) for x in X], y),
    "table": (sk.MultiClass(), np.vstack(X), np.concatenate(y)),
}
seconds = []
for pair in sys.argv[1:]:
    solver, _, name = pair.partition(", ")
    graph, X, y = data[name]
    began = time.process_time()
    getattr(sk, solver)(graph, max_iter=3, random_state=0).fit(X, y).predict(X)
    seconds.append(time.process_time() - began)
print(json.dumps(seconds))
"""


def _run(checkout, arguments, code=_RUN):
    with tempfile.TemporaryDirectory() as cache:
        environment = {"PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=cache,
        )
    return json.loads(done.stdout)


def _compare_pairs(checkouts, repeats):
    """Print what each pair takes after those before it, and alone."""
    print(f"{'CPU s, other -> this':28}{'one after the other':>24}{'each alone':>24}")
    together = [[_run(own, PAIRS, _RUN_PAIRS) for own in checkouts] for _ in range(repeats)]
    totals = [[0.0, 0.0], [0.0, 0.0]]
    for k, pair in enumerate(PAIRS):
        alone = [[_run(own, [pair], _RUN_PAIRS)[0] for own in checkouts] for _ in range(repeats)]
        after = [[own[k] for own in run] for run in together]
        cells = []
        for total, runs in zip(totals, (after, alone), strict=True):
            a, b = map(min, zip(*runs, strict=True))
            total[0] += a
            total[1] += b
            cells.append(f"{a:.1f} -> {b:.1f} ({b / a:.2f})")
        print(f"{pair:28}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    cells = [f"{a:.1f} -> {b:.1f} ({b / a:.2f})" for a, b in totals]
    print(f"{'all':28}" + "".join(f"{cell:>24}" for cell in cells))


def main():
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--pairs", action="store_true", help="ten pairs of solver and structure")
    options = parser.parse_args()
    if options.pairs:
        _compare_pairs((options.other.resolve(), HERE), options.repeats)
        return
    head = "fit", "fit + predict", "functions"
    print(f"{'CPU s, other -> this':28}" + "".join(f"{name:>24}" for name in head))
    for name, task in TASKS.items():
        other, this = [], []
        for _ in range(options.repeats):
            other.append(_run(options.other.resolve(), task))
            this.append(_run(HERE, task))
        a, b = (list(map(min, zip(*runs, strict=True))) for runs in (other, this))
        cells = [f"{a[k]:.1f} -> {b[k]:.1f} ({b[k] / a[k]:.2f})" for k in (0, 1)]
        cells.append(f"{a[2]}/{a[3]} -> {b[2]}/{b[3]}")
        print(f"{name:28}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

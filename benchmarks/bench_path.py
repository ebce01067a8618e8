"""A path of C beside separate fits: passes and seconds of CRFs.

    python benchmarks/bench_path.py --data FOLDER [--sentences N] [--json FILE]

FOLDER holds ``conll2000/`` and ``ocr_letters/``. Eight values of C by factors of two, from 0.1 on,
the default tolerance; one core, seconds of the solver's clock. Passes are oracle calls over the
samples, line searches and certificates included.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import tasks
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import SAGCRF
from skstruct.estimators import crf_path

VALUES = [0.1 * 2**k for k in range(8)]
SOLVERS = "auto", "sag"


def spent(fits):
    """Passes and seconds of some fits."""
    return [sum(crf.history_[name][-1] for crf in fits) for name in ("passes", "seconds")]


def compare(task, solver):
    """One row: both ways, and whether all certificates agree."""
    crf, X, y = SAGCRF(solver=solver, random_state=0), task.train.X, task.train.y
    alone = [clone(crf).set_params(C=C).fit(X, y) for C in VALUES]
    path = crf_path(crf, X, y, VALUES)
    for one, other in zip(path, alone, strict=True):
        assert one.dual_objective_ <= other.objective_
        assert other.dual_objective_ <= one.objective_
    (passes, seconds), (passes_alone, seconds_alone) = spent(path), spent(alone)
    row = [task.name, solver, passes_alone, passes, passes / passes_alone]
    return [*row, seconds_alone, seconds, seconds / seconds_alone]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    heads = ["task", "solver", "passes alone", "on the path", "ratio", "s alone", "s", "ratio"]
    print(f"| {' | '.join(heads)} |\n|---|---|{'--:|' * (len(heads) - 2)}")
    rows = []
    for load in (tasks.conll2000, tasks.ocr):
        task = load(args.data, args.sentences)
        for solver in SOLVERS:
            rows.append(compare(task, solver))
            cells = (f"{cell:.3g}" if isinstance(cell, float) else cell for cell in rows[-1])
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"heads": heads, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

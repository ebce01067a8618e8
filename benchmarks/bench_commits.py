"""Compare this checkout with another one, for instance our own previous commit, in one run.

    git worktree add ../before HEAD~1
    python benchmarks/bench_commits.py ../before --data FOLDER

Both run in turn, in processes of their own, and the best CPU time of each workload counts. A fit
is of a fixed number of passes, by warm kernels; everything that a fit does is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def _fits(folder, limit):
    """Name, estimator and data of every fit."""
    import numpy as np
    import tasks

    import skstruct as sk

    chunks = tasks.conll2000(folder, limit).train
    letters = tasks.ocr(folder, limit).train
    rng = np.random.default_rng(0)
    n = limit or 2000
    trees = [(rng.normal(size=(20, 10)), [-1, *rng.integers(0, range(1, 20))]) for _ in range(n)]
    labels = [rng.integers(0, 8, 20) for _ in range(n)]
    common = {"tol": 0.0, "random_state": 0}
    return {
        "SAGCRF, chunks": (sk.SAGCRF(max_iter=20, **common), chunks),
        "SAGCRF, letters": (sk.SAGCRF(max_iter=20, **common), letters),
        "L-BFGS, chunks": (sk.SAGCRF(solver="lbfgs", max_iter=10, **common), chunks),
        "SAGCRF, trees": (
            sk.SAGCRF(sk.Tree(), max_iter=10, **common),
            tasks.Part([], [], trees, labels),
        ),
        "BCFWSSVM, letters": (sk.BCFWSSVM(max_iter=40, **common), letters),
        "BCFWSSVM, Frank-Wolfe, chunks": (
            sk.BCFWSSVM(steps="frank-wolfe", max_iter=5, **common),
            chunks,
        ),
        "CasimirSSVM, letters": (sk.CasimirSSVM(max_iter=10, **common), letters),
        "SubgradientSSVM, letters": (sk.SubgradientSSVM(max_iter=5, **common), letters),
        "GDMMSSVM, letters": (sk.GDMMSSVM(max_iter=10, gap_every=0, **common), letters),
    }


def work(folder, limit):
    """Print the CPU seconds of every workload, as JSON."""
    import time

    warnings.simplefilter("ignore")
    seconds = {}

    def timed(name, call):
        start = time.process_time()
        call()
        seconds[name] = time.process_time() - start

    for name, (model, data) in _fits(folder, limit).items():
        first = [data.X[i] for i in range(20)], [data.y[i] for i in range(20)]
        model.set_params(max_iter=model.max_iter).fit(*first)  # loads the kernels
        timed(name, lambda model=model, data=data: model.fit(data.X, data.y))
        if name == "SAGCRF, chunks":
            _time_predictions(timed, model, data.X, first[0])
    print(json.dumps(seconds))


def _time_predictions(timed, model, X, some):
    for name in ("predict", "predict_marginals", "predict_top_k"):
        more = (5,) if name == "predict_top_k" else ()
        call = getattr(model, name)
        call(some, *more)
        timed(name, lambda call=call, more=more: call(X, *more))
    one = [X[0]]
    timed("1,000 x predict of one", lambda: [model.predict(one) for _ in range(1000)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--data", type=Path, default=os.environ.get("SKSTRUCT_DATA"))
    parser.add_argument("--limit", type=int, help="first samples only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.data, args.limit)
        return
    best = {}
    for _ in range(args.repeats + 1):  # the first compiles
        for side, checkout in (("before", args.before.resolve()), ("now", HERE)):
            command = [sys.executable, __file__, "--work", "--data", str(args.data)]
            if args.limit:
                command += ["--limit", str(args.limit)]
            env = os.environ | {"PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
            out = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            for name, value in json.loads(out.stdout.splitlines()[-1]).items():
                sides = best.setdefault(name, {})
                sides[side] = min(value, sides.get(side, value))
    print(f"{'workload':34}{'before':>9}{'now':>9}{'ratio':>8}")
    for name, sides in best.items():
        ratio = sides["now"] / sides["before"]
        print(f"{name:34}{sides['before']:9.3f}{sides['now']:9.3f}{ratio:8.3f}")
    results = HERE / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    (results / "bench_commits.json").write_text(json.dumps(best, indent=1))


if __name__ == "__main__":
    main()

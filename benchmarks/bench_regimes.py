"""SAGCRF against CRFsuite from strong to weak regularisation, from 400 sentences to all.

    python benchmarks/bench_regimes.py --data FOLDER [--sets chunks pos ner] [--sizes 400 2000 0]
        [--C 0.1 1 5 50 500] [--json FILE] [--cache FOLDER]

FOLDER holds ``conll2000/``, ``treebank_pos/`` and ``conll2002_dutch/``. Needs the ``bench`` extra.
A cell is a data set, a number of sentences (0 for all) and a C. Both have all weights (CRFsuite
with all states), no intercept, and ``1/2 |w|^2 + C sum NLL`` (c2 = 1 / (2 C)). CRFsuite runs to its
own stop, by its own clock after its features are generated. Ours are CPU seconds of the whole call
of ``fit`` with warm kernels, one thread: a first fit finds the epoch whose objective is at the
target, a second one, which is timed, ends there. Targets are CRFsuite's last objective, and 1e-2
and 1e-3 above the best objective that any run of the cell has reached. The last column is the whole
default fit, with the ratio of CRFsuite's seconds to its own stop to ours. ``--cache`` stores
CRFsuite's runs, to compare versions of ours; published ratios are of one run without it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import tasks
from peers import crfsuite

from skstruct import SAGCRF

LEVELS = (1e-2, 1e-3)
SETS = {"chunks": tasks.conll2000, "pos": tasks.treebank, "ner": tasks.dutch}
TIGHT = 1e-6


def fit(task, C, **options):
    """Fit, and the CPU seconds of the call."""
    crf = SAGCRF(C=C, fit_intercept=False, random_state=0, **options)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(task.train.X, task.train.y)
    return crf, time.process_time() - start


def first_below(values, target):
    """Index of the first value at or under the target, or None."""
    found = np.flatnonzero(np.asarray(values) <= target)
    return int(found[0]) if found.size else None


def seconds_to(task, C, target, tol, most):
    """CPU seconds of a fit that ends at the first epoch under the target, and its epochs."""
    options = {"tol": tol, "max_iter": most}
    long, _ = fit(task, C, track_objective=True, **options)
    step = first_below(long.history_["objective"], target)
    if step is None:
        return None
    crf, seconds = fit(task, C, **(options | {"max_iter": step + 1}))
    return {"seconds": seconds, "epochs": step + 1, "objective": crf.objective_}


def peer_run(task, C, cache):
    """CRFsuite to its stop, or its stored run."""
    path = cache and cache / f"{task.name}-{len(task.train.labels)}-{C:g}.json"
    if path and path.exists():
        return json.loads(path.read_text())
    peer = crfsuite(task, True, False, 0.5 / C)
    kept = {name: peer[name] for name in ("curve", "iterations")}
    if path:
        cache.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept))
    return kept


def run(task, C, most, cache):
    """One cell: CRFsuite to its stop, the best objective known, and ours to each target."""
    n = len(task.train.labels)
    peer = peer_run(task, C, cache)
    curve = np.array(peer["curve"])
    # CRFsuite has c2 |w|^2 + sum NLL, ours is that over n.
    curve[1] /= n
    tight, _ = fit(task, C, tol=TIGHT, max_iter=most)
    best = min(tight.objective_, float(curve[1].min()))
    targets = {"its stop": float(curve[1, -1])} | {level: best * (1 + level) for level in LEVELS}
    rows = []
    for name, target in targets.items():
        tol = min(max(target / best - 1, TIGHT), 1e-1)
        step = first_below(curve[1], target)
        theirs = None if step is None else float(curve[0, step])
        if theirs is None:
            theirs = f"> {curve[0, -1]:.2f}"
        rows.append(
            {"target": name, "crfsuite": theirs, "ours": seconds_to(task, C, target, tol, most)}
        )
    start = fit(task, C)
    default = {
        "seconds": start[1],
        "ratio": float(curve[0, -1]) / start[1],
        "passes": float(start[0].history_["passes"][-1]),
        "converged": bool(start[0].suboptimality_ <= start[0].tol),
        "above": start[0].objective_ / best - 1,
        "epochs": start[0].n_iter_,
    }
    return {
        "n": n,
        "C": C,
        "best": best,
        "certified": tight.suboptimality_,
        "crfsuite_iterations": peer["iterations"],
        "crfsuite_above": float(curve[1, -1]) / best - 1,
        "rows": rows,
        "default": default,
    }


def show(name, cell):
    """One line a cell."""
    parts = []
    for row in cell["rows"]:
        theirs, ours = row["crfsuite"], row["ours"]
        known = isinstance(theirs, float)
        text = f"{theirs:.2f}" if known else theirs
        if ours is None:
            parts.append(f"{text} / not reached")
            continue
        ratio = (theirs if known else float(theirs[2:])) / ours["seconds"]
        parts.append(f"{text} / {ours['seconds']:.2f} = {'' if known else '>'}{ratio:.1f}x")
    default = cell["default"]
    print(
        f"| {name} | {cell['n']} | {cell['C']:g} | {cell['crfsuite_above']:.1e} | "
        + " | ".join(parts)
        + f" | {default['seconds']:.2f} s, {default['epochs']}, {default['passes']:.1f}, "
        + f"{default['above']:.0e} = {default['ratio']:.1f}x"
        + f"{'' if default['converged'] else ', not certified'} |",
        flush=True,
    )


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[400, 2000, 0])
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 5.0, 50.0, 500.0])
    parser.add_argument("--max-iter", type=int, default=2000)
    parser.add_argument("--cache", type=Path, help="folder of CRFsuite's runs")
    parser.add_argument("--json", type=Path, help="where to write all numbers")
    args = parser.parse_args()
    print(
        "| set | n | C | CRFsuite above best | its stop: its s / ours | to 1e-2 | to 1e-3 | "
        "SAGCRF(): s, epochs, passes, above, ratio |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    cells = []
    for name in args.sets:
        for size in args.sizes:
            task = SETS[name](args.data, size or None)
            fit(task, 1.0, max_iter=2, tol=0.0)  # loads or compiles the kernels
            for C in args.C:
                cell = run(task, C, args.max_iter, args.cache)
                show(name, cell)
                cells.append({"set": name, **cell})
                if args.json:
                    args.json.write_text(json.dumps(cells, indent=1))


if __name__ == "__main__":
    main()

"""SAGCRF with L1 penalties against CRFsuite's and Wapiti's OWL-QN, on the same attributes.

    python benchmarks/bench_l1.py --data FOLDER [--limit N] [--all-solvers] [--json FILE]
    python benchmarks/bench_l1.py --data FOLDER --limit 2000 --curves conll2000 dutch treebank

FOLDER holds ``conll2000/``, for ``--curves`` also the data of the others. Needs the ``bench``
extra. CPU seconds of one core to 1e-3 of the best objective that anybody found: ours of the whole
call of ``fit`` with warm kernels, CRFsuite's by its own clock after its features are generated, all
states; where its iterations do not reach the level, the seconds of these are a lower bound, and how
far they ended is printed. Wapiti (all states, its default stop, which may be earlier) trains where
c2 is 0. Size of the model files, with names of features, and F1: ours are pipelines without unused
features. Last the path from strong to weak penalties, warm and cold.

With ``--curves``, on each of these tasks: CPU seconds to 1e-2, to 1e-3, and of CRFsuite to its own
stop against our default fit. Ours are the lesser of two calls of ``fit``. ``--peers FOLDER`` stores
CRFsuite's runs there, and reads them instead of repeating them.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
import warnings
from pathlib import Path

import numpy as np
import tasks
from peers import crfsuite, wapiti
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF
from skstruct.preprocessing import SequenceVectorizer, drop_unused_features

# c1 and c2 of tutorials, parserator, ingredient parsers, word segmentation, and Wapiti.
SETTINGS = ((0.1, 0.1), (0.1, 0.01), (0.6, 0.5), (1.0, 0.001), (0.5, 0.0))
LEVEL, LEVELS = 1e-3, (1e-2, 1e-3)
CURVES = SETTINGS[:4]
OPTIONS = {"fit_intercept": False, "random_state": 0}
PATH = (10.0, 5.0, 2.0, 1.0, 0.5)


def penalties(c1, c2):
    """Parameters of SAGCRF for factors of CRFsuite."""
    total = c1 + 2.0 * c2
    return {"C": 1.0 / total, "l1_ratio": c1 / total}


def fit(X, y, **options):
    """Fit, and the CPU seconds of the call."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf = SAGCRF(**OPTIONS | options).fit(X, y)
    return crf, time.process_time() - start


def first_below(values, target):
    """Position of the first value at or under the target, or None."""
    found = np.flatnonzero(np.asarray(values) <= target)
    return int(found[0]) if found.size else None


def sizes(crf, vectorizer):
    """Bytes of the files, and numbers of weights and features."""
    small = drop_unused_features(make_pipeline(vectorizer, crf))
    out = {"weights": sum(map(np.count_nonzero, (crf.node_weights_, crf.pair_weights_)))}
    out["features"] = small[0].n_features_out_
    out["bytes"] = len(pickle.dumps(small))
    small[-1].sparsify(dtype="float32")
    out["bytes_float32"] = len(pickle.dumps(small))
    return out


def compare(task, X, vectorizer, setting, solvers, arguments):
    """One setting: everybody's seconds to the level, sizes, F1."""
    n, y, options = len(task.train.labels), task.train.y, penalties(*setting)
    passes, iterations = arguments.passes, arguments.iterations
    theirs = crfsuite(task, True, False, setting[1], c1=setting[0], iterations=iterations)
    curve = np.array(theirs["curve"][1]) / n
    fit(X, y, max_iter=2, **options)  # loads or compiles the kernels
    long, _ = fit(X, y, max_iter=passes, tol=1e-7, **options)
    best = min(long.objective_, curve.min())
    out = {"best": best, "certified": long.dual_objective_, "crfsuite": theirs, "ours": {}}
    step = first_below(curve, best * (1 + LEVEL))
    out["reached"] = step is not None
    step = len(curve) - 1 if step is None else step
    out["theirs"] = (step + 1, theirs["curve"][0][step], curve[step] / best - 1)
    if setting[1] == 0.0:
        peer = out["wapiti"] = wapiti(task, 0.0, rho1=setting[0])
        peer["above"] = peer["curve"][-1] / n / best - 1
    for solver in solvers:
        known = {"solver": solver, **options}
        tracked, _ = fit(X, y, max_iter=passes, tol=LEVEL, track_objective=True, **known)
        step = first_below(tracked.history_["objective"], best * (1 + LEVEL))
        if step is None:
            continue
        crf, seconds = fit(X, y, max_iter=step + 1, tol=LEVEL, **known)
        start = time.process_time()
        predicted = [
            row.tolist() for row in crf.predict(vectorizer.transform(task.test.attributes))
        ]
        out["ours"][solver] = {
            "epochs": step + 1,
            "seconds": seconds,
            "above": crf.objective_ / best - 1,
            "measure": tasks.measure(task, predicted),
            "predict_seconds": time.process_time() - start,
            **sizes(crf, vectorizer),
        }
    return out


def fit_twice(X, y, **options):
    """Fit, and the least CPU seconds of two calls."""
    runs = [fit(X, y, **options) for _ in range(2)]
    return runs[0][0], min(seconds for _, seconds in runs)


def curves(name, setting, arguments):
    """Print the row of a task and a setting: seconds of CRFsuite over ours, quality, sizes."""
    task = getattr(tasks, name)(arguments.data, arguments.limit)
    vectorizer, y, n = SequenceVectorizer(), task.train.y, len(task.train.labels)
    X, options = vectorizer.fit_transform(task.train.attributes), penalties(*setting)
    kept = arguments.peers and arguments.peers / f"{name}-{n}-{setting[0]:g}-{setting[1]:g}.json"
    if kept and kept.is_file():
        theirs = json.loads(kept.read_text())
    else:
        theirs = crfsuite(task, True, False, setting[1], c1=setting[0], iterations=1000)
        if kept:
            kept.write_text(json.dumps(theirs))
    seconds, curve = theirs["curve"][0], np.array(theirs["curve"][1]) / n
    long, _ = fit(X, y, max_iter=arguments.passes, tol=1e-5, track_objective=True, **options)
    best, found = min(long.objective_, curve.min()), []
    for level in LEVELS:
        at, step = (first_below(c, best * (1 + level)) for c in (curve, long.history_["objective"]))
        more, at = ("> ", -1) if at is None else ("", at)
        _, ours = fit_twice(X, y, max_iter=step + 1, **options)
        found.append(f"{more}{seconds[at]:.2f} / {ours:.2f} = {seconds[at] / ours:.1f}x")
    crf, ours = fit_twice(X, y, **options)
    predicted = [row.tolist() for row in crf.predict(vectorizer.transform(task.test.attributes))]
    found.append(f"{seconds[-1]:.2f} / {ours:.2f} = {seconds[-1] / ours:.1f}x")
    found.append(f"{crf.dual_gap_ / crf.objective_:.1e}")
    found.append(f"{theirs['measure']:.2f} / {tasks.measure(task, predicted):.2f}")
    found.append(
        f"{theirs['model_bytes'] / 1024:.0f} / {sizes(crf, vectorizer)['bytes'] / 1024:.0f}"
    )
    print("|", " | ".join([name, str(n), "{:g}, {:g}".format(*setting), *found]), "|", flush=True)


def path(X, y):
    """Passes and CPU seconds of the fits of a path, warm and cold."""
    out = {"c1": PATH, "warm": [], "cold": [], "weights": []}
    warm = SAGCRF(**OPTIONS, warm_start=True, l1_ratio=0.9)
    for c1 in PATH:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warm.set_params(C=0.9 / c1).fit(X, y)
        passes = warm.history_["passes"][-1]
        out["warm"].append((passes, time.process_time() - start))
        cold, seconds = fit(X, y, C=0.9 / c1, l1_ratio=0.9)
        out["cold"].append((cold.history_["passes"][-1], seconds))
        out["weights"].append(int(np.count_nonzero(warm.node_weights_)))
    return out


def show(setting, result):
    """Print the table of a setting."""
    print(f"\n## c1 = {setting[0]:g}, c2 = {setting[1]:g}\n")
    print(f"best objective {result['best']:.6f}, lower bound {result['certified']:.6f}\n")
    print("| | epochs | CPU s to 1e-3 | CRFsuite | above | F1 | weights | KB | KB, float32 |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    epochs, seconds, above = result["theirs"]
    more = "" if result["reached"] else "more than "
    model = result["crfsuite"]
    size = model["model_bytes"] / 1024
    print(
        f"| CRFsuite | {epochs} | {more}{seconds:.1f} | | {above:.1e} | {model['measure']:.2f} | "
        f"| {size:.0f} | |"
    )
    if "wapiti" in result:
        peer = result["wapiti"]
        print(
            f"| Wapiti, its stop | {len(peer['curve'])} | {peer['train_seconds']:.1f} | | "
            f"{peer['above']:.1e} | {peer['measure']:.2f} | | | |"
        )
    for name, mine in result["ours"].items():
        print(
            f"| {name} | {mine['epochs']} | {mine['seconds']:.1f} | "
            f"{more}{seconds / mine['seconds']:.1f}x | {mine['above']:.1e} | "
            f"{mine['measure']:.2f} | {mine['weights']} | "
            f"{mine['bytes'] / 1024:.0f} | {mine['bytes_float32'] / 1024:.0f} |"
        )


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="sentences of each part, by default all")
    pair = {"type": lambda text: tuple(map(float, text.split(","))), "metavar": "C1,C2"}
    parser.add_argument("--settings", nargs="*", **pair)
    parser.add_argument("--passes", type=int, default=300, help="for the best objective")
    parser.add_argument("--iterations", type=int, default=1000, help="of CRFsuite")
    parser.add_argument("--all-solvers", action="store_true")
    parser.add_argument("--no-path", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--curves", nargs="+", choices=("conll2000", "dutch", "treebank"))
    parser.add_argument("--peers", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.curves:
        heads = "data", "sentences", "c1, c2", "to 1e-2", "to 1e-3", "default fit", "certified gap"
        print("|", " | ".join([*heads, "quality", "KB"]), "|")
        print("|---" * (len(heads) + 2) + "|")
        for name in arguments.curves:
            for setting in arguments.settings or CURVES:
                curves(name, setting, arguments)
        return
    task = tasks.conll2000(arguments.data, arguments.limit)
    vectorizer = SequenceVectorizer()
    X = vectorizer.fit_transform(task.train.attributes)
    solvers = ("auto", "lbfgs") if arguments.all_solvers else ("auto",)
    results = {}
    for setting in arguments.settings or SETTINGS:
        result = compare(task, X, vectorizer, setting, solvers, arguments)
        show(setting, result)
        results[f"{setting[0]:g} {setting[1]:g}"] = result
    if not arguments.no_path:
        results["path"] = path(X, task.train.y)
        print("\n## Path, l1_ratio = 0.9\n")
        print("| c1 | weights | warm: passes | CPU s | cold: passes | CPU s |")
        print("|--:|--:|--:|--:|--:|--:|")
        rows = zip(
            *(results["path"][name] for name in ("c1", "weights", "warm", "cold")), strict=True
        )
        for c1, weights, warm, cold in rows:
            print(
                f"| {c1:g} | {weights} | {warm[0]:.0f} | {warm[1]:.1f} | {cold[0]:.0f} | "
                f"{cold[1]:.1f} |"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, default=float))


if __name__ == "__main__":
    main()

"""SAGCRF against CRFsuite (and Wapiti) on the same attributes and the same objective.

    python benchmarks/bench_crf.py --data FOLDER [--quick] [--wapiti] [--json FILE]
    python benchmarks/bench_crf.py --data FOLDER --memory [--rows 1 2 ...] [--json FILE]

FOLDER holds ``conll2000/``, ``treebank_pos/`` and ``ocr_letters/``. Needs the ``bench`` extra. All
times are CPU seconds of one core; ours are of the whole call of ``fit`` with warm kernels (packing,
Gram matrices, epochs, final objective), CRFsuite's are its own clock after its features are
generated.

``--memory`` compares the peak memory of whole processes that begin with the same lists of strings
(their size is the first column of MB) and train on them: CRFsuite by ten iterations, when all
vectors of its L-BFGS are there, ours by a pipeline to the default tolerance, with warm kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numba
import numpy as np
import tasks
from floor import floor_seconds
from peers import crfsuite, wapiti

from skstruct import SAGCRF

LEVELS = (1e-2, 1e-3, 1e-4)
OPTIONS = {"fit_intercept": False, "random_state": 0}


def fit(task, **options):
    """Fit, and the CPU seconds of the call."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf = SAGCRF(**{**OPTIONS, **options}).fit(task.train.X, task.train.y)
    return crf, time.process_time() - start


def score(task, crf):
    """The task's measure of the predictions on the test part."""
    return tasks.measure(task, [row.tolist() for row in crf.predict(task.test.X)])


def first_below(values, target):
    """Index of the first value at or under the target, or None."""
    found = np.flatnonzero(np.asarray(values) <= target)
    return int(found[0]) if found.size else None


def ours(task, epochs):
    """Optimum, epochs to each level, and CPU seconds of a whole fit that stops there."""
    long, _ = fit(task, max_iter=epochs, tol=0.0, track_objective=True)
    best = long.objective_
    out = {"optimum": best, "levels": {}, "gradient": long.gradient_norm_}
    for level in LEVELS:
        step = first_below(long.history_["objective"], best * (1 + level))
        crf, seconds = fit(task, max_iter=step + 1, tol=0.0)
        out["levels"][level] = {
            "epochs": step + 1,
            "passes": crf.history_["passes"][-1],
            "cpu_seconds": seconds,
            "suboptimality": crf.objective_ / best - 1,
            "measure": score(task, crf),
        }
    crf, seconds = fit(task)
    out["default"] = {
        "epochs": crf.n_iter_,
        "cpu_seconds": seconds,
        "suboptimality": crf.objective_ / best - 1,
        "measure": score(task, crf),
    }
    out["optimum_measure"] = score(task, long)
    return out, crf


def sweeps(task):
    """Seconds of one epoch, and as multiples of a loop that only reads and updates the rows."""
    out = {}
    for name in ("always", "skip"):
        crf, _ = fit(task, line_search=name, max_iter=25, tol=0.0)
        steps = np.diff(crf.history_["seconds"])
        # After its last epoch SAG measures the gap.
        out[name] = {"median": float(np.median(steps)), "last": float(steps[-2])}
    out["floor"] = floor_seconds(task.train.X, crf.classes_.size)
    for name in ("always", "skip"):
        out[name]["multiple_of_floor"] = out[name]["median"] / out["floor"]
    return out


def throughput(task, crf):
    """Tokens a second of predict on the training part, wall time."""
    out = {}
    for n_jobs in (1, 2):
        crf.n_jobs = n_jobs
        times = []
        for _ in range(5):
            start = time.perf_counter()
            crf.predict(task.train.X)
            times.append(time.perf_counter() - start)
        out[n_jobs] = task.train.y.flat.size / min(times)
    return out


_STATUS = """
import pickle, sys, tempfile, time, warnings


def status(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))

"""
_CHILD = """

start = time.perf_counter()
import skstruct
imported = time.perf_counter() - start
X, y = pickle.load(open(sys.argv[1], "rb"))
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
warnings.simplefilter("ignore")
start = time.perf_counter()
skstruct.SAGCRF(fit_intercept=False, random_state=0, tol=0.0, max_iter=1).fit(X, y)
fit = time.perf_counter() - start
print(imported, fit, status("VmHWM") - before)
"""


def first_fits(task):
    """Import time, first fit of one epoch cold and warm, and the memory that a warm fit adds."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(pickle.dumps((task.train.X, task.train.y)))
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", _STATUS + _CHILD, path],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            imported, seconds, memory = map(float, done.stdout.split())
            out[name] = {"import": imported, "fit_of_one_epoch": seconds}
    matrix = task.train.X.flat
    size = (
        matrix.nbytes
        if isinstance(matrix, np.ndarray)
        else (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    )
    n_labels = np.unique(task.train.y.flat).size
    needed = size + 2 * 8 * matrix.shape[1] * n_labels
    out["memory"] = {
        "added_by_fit": memory,
        "X_and_two_weight_arrays": needed,
        "ratio": (size + memory) / needed,
    }
    return out


_PEAK = """
attributes, labels = pickle.load(open(sys.argv[2], "rb"))
print(status("VmRSS"))
open("/proc/self/clear_refs", "w").write("5")
if sys.argv[1] == "SAGCRF()":
    from skstruct import SAGCRF
    from skstruct.pipeline import make_pipeline
    from skstruct.preprocessing import SequenceVectorizer

    warnings.simplefilter("ignore")
    make_pipeline(SequenceVectorizer(), SAGCRF(random_state=0)).fit(attributes, labels)
else:
    import pycrfsuite

    trainer, states = pycrfsuite.Trainer(verbose=False), sys.argv[1] == "all states"
    for pair in zip(attributes, labels):
        trainer.append(*pair)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": 10})
    trainer.set_params({"feature.possible_states": states, "feature.possible_transitions": states})
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(folder + "/model")
print(status("VmHWM"))
"""
_MEMORY = {
    "CoNLL-2002 Dutch": tasks.dutch,
    "CoNLL-2000 chunks": tasks.conll2000,
    "treebank POS": tasks.treebank,
    "POS and frequent endings": lambda folder: tasks.endings(folder, 3000, 300),
    "POS and more endings": lambda folder: tasks.endings(folder, 3000, 200),
    "POS and endings, 600 sentences": lambda folder: tasks.endings(folder, 600, 8),
    "POS and endings, 1,000 sentences": lambda folder: tasks.endings(folder, 1000, 8),
}


def peaks(folder, rows):
    """Peak memory of training from lists, one process each; prints the table."""
    print("| data | labels | tokens | lists, MB | CRFsuite, MB | all weights, MB | SAGCRF(), MB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    out = []
    for name in [list(_MEMORY)[k - 1] for k in rows]:
        train = _MEMORY[name](folder).train
        line = [name, np.unique(train.y.flat).size, train.y.flat.size]
        with tempfile.NamedTemporaryFile() as file:
            file.write(pickle.dumps((train.attributes, train.labels)))
            file.flush()
            for kind in ("observed", "all states", "SAGCRF()"):
                command = [sys.executable, "-c", _STATUS + _PEAK, kind, file.name]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                begin, peak = map(int, done.stdout.split())
                line += [peak] if line[3:] else [begin, peak]
        cells = [f"{number:,}" for number in line[1:3]] + [f"{size / 1e6:.0f}" for size in line[3:]]
        print("|", " | ".join([name, *cells]), "|", flush=True)
        out.append(line)
    return out


def run(task, epochs, all_states_tight=True, with_wapiti=False, c2=0.5):
    """One task: ours and the peers."""
    n = len(task.train.y)
    fit(task, max_iter=1)  # loads or compiles the kernels
    result, crf = ours(task, epochs)
    peers = {"crfsuite, all states": crfsuite(task, True, all_states_tight, c2)}
    peers["crfsuite, default"] = crfsuite(task, False, False, c2)
    if with_wapiti:
        peers["wapiti"] = wapiti(task, 2 * c2)
    same = np.array(peers["crfsuite, all states"]["curve"][1]) / n
    best = min(result["optimum"], float(same.min()))
    result["objective_difference"] = result["optimum"] / float(same.min()) - 1
    seconds = peers["crfsuite, all states"]["curve"][0]
    rows = []
    for level, mine in result["levels"].items():
        step = first_below(same, best * (1 + level))
        theirs = None if step is None else seconds[step]
        rows.append((f"all states, to {level:g}", theirs, mine))
    for name in list(peers)[1:]:
        target = peers[name]["measure"]
        enough = [m for m in result["levels"].values() if m["measure"] >= target]
        mine = enough[0] if enough else result["levels"][LEVELS[-1]]
        rows.append(
            (f"{name}, to its stop (measure {target:.2f})", peers[name]["train_seconds"], mine)
        )
    return {"task": task.name, "ours": result, "peers": peers, "rows": rows}, crf


def show(result):
    """Print the table of one task."""
    ours = result["ours"]
    print(f"\n## {result['task']}\n")
    print(
        f"optimum {ours['optimum']:.6f} per sentence, relative difference to CRFsuite's best "
        f"{ours['objective_difference']:+.1e}"
    )
    print("| peer | its CPU s | our CPU s | ratio | our epochs (passes) | our measure |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, theirs, mine in result["rows"]:
        shown = (
            ("-", "-")
            if theirs is None
            else (f"{theirs:.2f}", f"{theirs / mine['cpu_seconds']:.1f}")
        )
        print(
            f"| {name} | {shown[0]} | {mine['cpu_seconds']:.2f} | {shown[1]} "
            f"| {mine['epochs']} ({mine['passes']:.1f}) | {mine['measure']:.2f} |"
        )
    for name, peer in result["peers"].items():
        print(
            f"{name}: {peer['train_seconds']:.1f} CPU s to its stop, measure "
            f"{peer['measure']:.2f}, tags {peer['tokens_per_second']:,.0f} tokens/s"
        )
    default = ours["default"]
    print(
        f"SAGCRF(): {default['cpu_seconds']:.2f} CPU s, {default['epochs']} epochs, "
        f"{100 * default['suboptimality']:.2f}% above the optimum, measure "
        f"{default['measure']:.2f} (at the optimum {ours['optimum_measure']:.2f})"
    )


def show_machine_costs(result):
    """Print sweeps, throughput, first fits and memory."""
    sweep = result["sweeps"]
    print(
        f"\nsweep: {sweep['always']['median']:.3f} s with a line search at every step "
        f"({sweep['always']['multiple_of_floor']:.2f} times the floor loop's "
        f"{sweep['floor']:.3f} s), {sweep['skip']['median']:.3f} s with skipping "
        f"({sweep['skip']['multiple_of_floor']:.2f} times)"
    )
    speed = result["throughput"]
    print(f"predict: {speed[1]:,.0f} tokens/s, {speed[2]:,.0f} with n_jobs=2")
    first = result["first_fits"]
    for name in ("cold", "warm"):
        print(
            f"{name}: import {first[name]['import']:.2f} s, first fit of one epoch "
            f"{first[name]['fit_of_one_epoch']:.2f} s"
        )
    memory = first["memory"]
    print(
        f"memory: a warm fit adds {memory['added_by_fit'] / 1e6:.0f} MB, X and two weight arrays "
        f"are {memory['X_and_two_weight_arrays'] / 1e6:.0f} MB; X and the rest of the fit are "
        f"{memory['ratio']:.2f} times that"
    )


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=["conll2000", "treebank", "ocr"])
    parser.add_argument("--quick", action="store_true", help="300 training samples a task")
    parser.add_argument("--wapiti", action="store_true", help="also Wapiti on CoNLL-2000")
    parser.add_argument("--json", type=Path, help="where to write all numbers")
    parser.add_argument("--memory", action="store_true", help="peaks of whole processes instead")
    parser.add_argument("--rows", nargs="+", type=int, default=range(1, len(_MEMORY) + 1))
    args = parser.parse_args()
    if args.memory:
        found = peaks(args.data, args.rows)
        if args.json:
            args.json.write_text(json.dumps(found, indent=1))
        return
    numba.set_num_threads(1)
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}, numba {numba.__version__}"
    )
    results = []
    for name in args.tasks:
        task = getattr(tasks, name)(args.data, 300 if args.quick else None)
        result, crf = run(task, 150, with_wapiti=args.wapiti and name == "conll2000")
        show(result)
        if name == "conll2000":
            result |= {"sweeps": sweeps(task), "throughput": throughput(task, crf)}
            result["first_fits"] = first_fits(task)
            show_machine_costs(result)
        results.append(result)
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

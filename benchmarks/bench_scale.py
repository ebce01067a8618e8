"""Shards against memory, one worker against two: seconds, bytes, memory, and what they predict.

    python benchmarks/bench_scale.py --data FOLDER
        [--parts rates gradients optimum rounds search] [--copies 10] [--json FILE]
    python benchmarks/bench_scale.py --plan [tokens=1e9 workers=64 ...] [--rates FILE]

FOLDER holds ``conll2000/`` and ``conll2002_dutch/``. ``gradients`` and ``search`` need the ``dask``
extra, ``--plan`` no data. Faults and what a round costs are in ``bench_clusters.py``.

* gradients: iterations of L-BFGS on CoNLL-2000 chunks, in memory, and from shards on one worker,
  two of Dask and two threads. "many": copied with vocabularies of their own (the 200 most
  frequent features are common), so that weights grow with the data. "few": features that are seen
  20 times, the same in all copies, so that most of the time is work on samples. Each run is a
  process; seconds are those between iterations, on a wall clock, after compiling.
* rates: CPU seconds of such iterations in this process, of both kinds of data, for the model.
* optimum: the same optimum from shards as in memory, to a gap of 1e-7, and the seconds to 1e-3.
* rounds: passes and seconds of BCFWSSVM to a gap of 1e-2, in memory and from 2 and 8 shards.
* search: 18 fits of a GridSearchCV on one and on two workers of a Dask cluster, which is up and has
  its kernels before the clock starts.

A model of the seconds of an iteration (entries visited by the busiest worker, bytes sent and
received, tasks, weights) is fitted to the runs of ``rates`` (without tasks, which cost nothing in
one process), or of ``gradients``. ``--plan`` applies it, see ``scale_plan.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import scale_plan
import tasks
from joblib import parallel_config
from scipy import sparse
from scipy.optimize import nnls

from skstruct import BCFWSSVM, SAGCRF, RaggedArray
from skstruct.datasets import Shards, pack_shards
from skstruct.distributed import quasi

COMMON, SEEN, OFTEN = 200, 3, 20
OPTIONS = {"fit_intercept": False, "random_state": 0}
ITERATIONS = 12
# Kinds of runs whose tasks are sent.
TASKS = "shards", "dask", "threads"
SEARCHED, WARM, SEARCH_TOL = 8936, 300, 1e-3


def status(process, field):
    """A number of bytes of /proc/PROCESS/status."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def children(process):
    """Processes that a process has started."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


class Memory(threading.Thread):
    """Largest anonymous memory (not of mapped files) of this process, and of one it started."""

    def __init__(self):
        super().__init__(daemon=True)
        self.own = self.worker = 0
        self.ended = threading.Event()

    def run(self):
        """Look ten times a second."""
        while not self.ended.wait(0.1):
            self.own = max(self.own, status(os.getpid(), "RssAnon"))
            for child in children(os.getpid()):
                self.worker = max(self.worker, status(child, "RssAnon"))


def copies(task, n, regime):
    """Sentences of `n` copies of a training set; "many": each with rare features of its own."""
    flat, y = task.train.X.flat, task.train.y
    counts = np.bincount(flat.indices, minlength=flat.shape[1])
    if regime == "few":
        flat = flat[:, np.flatnonzero(counts >= OFTEN)].tocsr()
        yield from [(RaggedArray(flat, task.train.X.offsets), y)] * n
        return
    kept = np.flatnonzero(counts >= SEEN)
    kept = kept[np.argsort(-counts[kept], kind="stable")]
    flat = flat[:, kept].tocsr()
    own = kept.size - COMMON
    width = COMMON + n * own
    for k in range(n):
        indices = np.where(flat.indices < COMMON, flat.indices, flat.indices + k * own)
        copy = sparse.csr_matrix((flat.data, indices, flat.indptr), (flat.shape[0], width))
        copy.sort_indices()
        yield RaggedArray(copy, task.train.X.offsets), y


def joined(parts):
    """All copies as one X and one y."""
    X, y = zip(*parts, strict=True)
    offsets = [np.zeros(1, dtype=np.int64)]
    for part in X:
        offsets.append(part.offsets[1:] + offsets[-1][-1])
    offsets = np.concatenate(offsets)
    labels = np.concatenate([part.flat for part in y])
    return RaggedArray(sparse.vstack([p.flat for p in X], "csr"), offsets), RaggedArray(
        labels, offsets
    )


def sent(shards):
    """Bytes that an iteration sends and receives, with all labels of a shard's features."""
    n = len(shards.classes)
    rows = sum(shards.open(k).columns.size for k in range(shards.n_shards))
    return 2 * 8 * n * (rows + n * shards.n_shards)


def quietly(function):
    """Call a function whose fits do not converge on purpose; also the wall seconds."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function()
    return result, time.perf_counter() - began


@contextlib.contextmanager
def cluster(n_workers):
    """A local cluster of Dask, on which searches and fits run."""
    from distributed import Client, LocalCluster

    options = {"n_workers": n_workers, "threads_per_worker": 1, "host": "127.0.0.1"}
    with (
        LocalCluster(**options, dashboard_address=None) as local,
        Client(local, direct_to_workers=True),
        parallel_config("dask"),
    ):
        yield


def iterate(place, regime, kind, n_jobs):
    """One run of ``gradients``, in this process."""
    memory = Memory()
    memory.start()
    shards = Shards(place)
    crf = SAGCRF(solver="lbfgs", tol=0.0, max_iter=ITERATIONS, n_jobs=n_jobs, **OPTIONS)
    if kind == "memory":
        X, y = in_memory(shards)
        _, seconds = quietly(lambda: crf.fit(X, y))
    else:
        with cluster(n_jobs) if kind == "dask" else parallel_config("threading"):
            _, seconds = quietly(lambda: crf.fit(shards))
    memory.ended.set()
    each = np.diff(crf.history_["seconds"])[1:]
    calls = np.diff(crf.history_["passes"])[1:]
    return {
        "regime": regime,
        "kind": kind,
        "workers": n_jobs,
        "shards": shards.n_shards,
        "entries": int(shards.n_entries.sum()),
        "busiest": int(busiest(shards, n_jobs)),
        # Threads share memory, and rows are gathered and added all the same.
        "bytes": 0 if kind in ("memory", "threads") else sent(shards),
        "weights": crf.coef_.size,
        "iteration": float(each.sum() / calls.sum()),
        "total": seconds,
        "driver": memory.own,
        "worker": memory.worker,
        "objective": crf.objective_,
    }


def busiest(shards, n_jobs):
    """Entries of the worker that has most, if tasks are taken in turn."""
    entries = np.sort(shards.n_entries)[::-1]
    load = np.zeros(n_jobs)
    for size in entries:
        load[load.argmin()] += size
    return load.max()


def in_memory(shards):
    """The samples of shards as one X and one y."""
    X, y, ends = [], [], [0]
    width = shards.n_features_in_
    for k in range(shards.n_shards):
        shard = shards.open(k)
        flat = shard.samples.features
        indices = shard.columns[flat.indices]
        X.append(sparse.csr_matrix((flat.data, indices, flat.indptr), (flat.shape[0], width)))
        y.append(shards.classes[shard.codes])
        ends.extend(shard.samples.offsets[1:] + ends[-1])
    return RaggedArray(sparse.vstack(X, "csr"), ends), RaggedArray(np.concatenate(y), ends)


def in_a_process(place, *options):
    """One run of ``gradients``, in a process of its own, after one that has compiled."""
    command = [sys.executable, __file__, "--one", str(place), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def gradients(task, n, results):
    """Iterations in memory and from shards."""
    runs = []
    for regime, times in (("many", n), ("few", 2 * n)):
        with tempfile.TemporaryDirectory() as folder:
            X, y = joined(copies(task, times, regime))
            print(f"{len(X)} sentences, {X.flat.shape[0]} tokens, {X.flat.shape[1]} features")
            sizes = [len(X) // m + 1 for m in (8, 16)]
            for size in sizes:
                pack_shards(X, y, f"{folder}/{size}", shard_size=size)
            del X, y
            kinds = [(sizes[0], "memory", 1)]
            ways = ("shards", 1), ("dask", 2), ("threads", 2)
            kinds += [(size, *way) for size in sizes for way in ways]
            in_a_process(f"{folder}/{sizes[0]}", regime, "dask", 2)
            first = len(runs)
            for size, kind, workers in kinds:
                runs.append(in_a_process(f"{folder}/{size}", regime, kind, workers))
                print(row(runs[-1], runs[first]), flush=True)
    results["gradients"] = runs
    results["model"] = model([run for run in runs if run["kind"] != "threads"])


def row(run, first):
    """A line of the table."""
    return (
        f"| {run['regime']} | {run['kind']} | {run['shards']} | {run['workers']} | "
        f"{run['iteration']:.2f} | "
        f"{run['iteration'] / first['iteration']:.2f} | {run['bytes'] / 1e6:.0f} | "
        f"{run['driver'] / 1e9:.2f} | {run['worker'] / 1e9:.2f} | {run['objective']:.6f} |"
    )


def model(runs):
    """Seconds an entry, a byte, a task and a weight, by nonnegative least squares.

    Runs of one number of weights cannot tell these from entries: both regimes are needed.
    """
    table = np.array(
        [
            [r["busiest"], r["bytes"], r["shards"] * (r["kind"] in TASKS), r["weights"]]
            for r in runs
        ],
        dtype=np.float64,
    )
    seconds = np.array([r["iteration"] for r in runs])
    scale = np.maximum(table.max(axis=0), 1.0)
    rates = nnls(table / scale / seconds[:, None], np.ones(len(runs)))[0] / scale
    error = np.abs(table @ rates / seconds - 1.0).max()
    print(f"seconds: {rates[0]:.2e} an entry, {rates[1]:.2e} a byte, {rates[2]:.2e} a task,")
    print(f"  {rates[3]:.2e} a weight; largest error {100 * error:.0f} %")
    return {"rates": rates.tolist(), "error": float(error)}


def rates(task, results):
    """CPU seconds of calls of loss and gradient, in one process: what neighbours disturb least."""
    spent = []
    real = quasi.shard_gradient

    def timed(*arguments):
        began = time.process_time()
        answer = real(*arguments)
        spent.append(time.process_time() - began)
        return answer

    quasi.shard_gradient = timed
    runs = []
    print("| regime | shards | entries | weights | MB | tasks, s | the rest, s |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for regime in ("few", "many"):
        with tempfile.TemporaryDirectory() as folder:
            X, y = joined(copies(task, 1, regime))
            for m in (8, 32):
                shards = pack_shards(X, y, f"{folder}/{m}", shard_size=-(-len(X) // m))
                best = np.full(2, np.inf)
                crf = SAGCRF(solver="lbfgs", tol=0.0, max_iter=ITERATIONS, **OPTIONS)
                quietly(lambda crf=crf, shards=shards: crf.fit(shards))
                for _ in range(2):
                    spent.clear()
                    began = time.process_time()
                    quietly(lambda crf=crf, shards=shards: crf.fit(shards))
                    whole = time.process_time() - began
                    calls = len(spent) / shards.n_shards
                    best = np.minimum(best, [sum(spent) / calls, (whole - sum(spent)) / calls])
                runs.append(
                    {
                        "kind": "rates",
                        "busiest": int(shards.n_entries.sum()),
                        "bytes": sent(shards),
                        "shards": shards.n_shards,
                        "weights": crf.coef_.size,
                        "iteration": float(best.sum()),
                    }
                )
                print(
                    f"| {regime} | {m} | {runs[-1]['busiest']} | {crf.coef_.size} | "
                    f"{runs[-1]['bytes'] / 1e6:.0f} | {best[0]:.3f} | {best[1]:.3f} |",
                    flush=True,
                )
    quasi.shard_gradient = real
    results["model"] = model(runs)


def optimum(folder, results):
    """The optimum from shards, and the seconds to 1e-3."""
    results["optimum"] = []
    for name, load in (("chunks", tasks.conll2000), ("ner", tasks.dutch)):
        train = load(folder).train
        with tempfile.TemporaryDirectory() as place:
            shards = pack_shards(train.X, train.y, f"{place}/s", shard_size=len(train.X) // 8 + 1)
            for tol in (1e-3, 1e-7):
                line = {"set": name, "tol": tol}
                for kind, data in (("memory", (train.X, train.y)), ("shards", (shards,))):
                    crf = SAGCRF(tol=tol, max_iter=2000, **OPTIONS)
                    _, seconds = quietly(lambda crf=crf, data=data: crf.fit(*data))
                    line[kind] = [crf.objective_, crf.suboptimality_, seconds, crf.n_iter_]
                results["optimum"].append(line)
                print(line)


def rounds(folder, results):
    """BCFW in memory and in rounds."""
    results["rounds"] = []
    for name, load in (("chunks", tasks.conll2000), ("ner", tasks.dutch)):
        train = load(folder).train
        options = {"C": 1.0, "tol": 1e-2, "max_iter": 500, **OPTIONS}
        with tempfile.TemporaryDirectory() as place:
            for m in (1, 2, 8):
                data = (train.X, train.y)
                if m > 1:
                    size = -(-len(train.X) // m)
                    data = (pack_shards(*data, f"{place}/{m}", shard_size=size),)
                svm = BCFWSSVM(**options)
                _, seconds = quietly(lambda svm=svm, data=data: svm.fit(*data))
                passes = float(svm.history_["passes"][-1])
                results["rounds"].append([name, m, passes, seconds, svm.suboptimality_])
                print(f"| {name} | {m} | {passes:.1f} | {seconds:.1f} | {svm.suboptimality_:.1e} |")


def search(folder, results):
    """A grid search on one and two workers."""
    from sklearn.model_selection import GridSearchCV

    train = tasks.conll2000(folder, SEARCHED).train
    grid = {"C": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]}
    results["search"] = {}
    for workers in (1, 2):
        with cluster(workers):
            # The first loads kernels in each worker, by a fit on a few sentences.
            for m, C in ((WARM, grid["C"][: 2 * workers]), (len(train.X), grid["C"])):
                model = SAGCRF(tol=SEARCH_TOL, **OPTIONS)
                found = GridSearchCV(model, {"C": C}, cv=3, refit=False)
                X, y = train.X[:m], train.y[:m]
                _, seconds = quietly(lambda found=found, X=X, y=y: found.fit(X, y))
        results["search"][workers] = seconds
        ratio = results["search"][1] / seconds
        print(f"18 fits, {workers} workers: {seconds:.1f} s, {ratio:.2f}x", flush=True)


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parts = ["rates", "gradients", "optimum", "rounds", "search"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plan", nargs="*", metavar="NAME=NUMBER")
    parser.add_argument("--rates", type=Path, help="for --plan: what --json wrote on your machine")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        place, regime, kind, workers = options.one
        print(json.dumps(iterate(place, regime, kind, int(workers))))
        return
    if options.plan is not None:
        known = scale_plan.RATES
        if options.rates:
            known = json.loads(options.rates.read_text())["model"]["rates"]
        scale_plan.show(options.plan, known)
        return
    results = {}
    if "rates" in options.parts:
        rates(tasks.conll2000(options.data), results)
    if "gradients" in options.parts:
        gradients(tasks.conll2000(options.data), options.copies, results)
    for part in (optimum, rounds, search):
        if part.__name__ in options.parts:
            part(options.data, results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

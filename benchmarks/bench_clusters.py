"""Shards on Dask: what a round costs, and what fits make of faults.

    python benchmarks/bench_clusters.py [--parts cost large faults compiling drivers]
        [--tasks SAGCRF BCFWSSVM GDMMSSVM predict search] [--runs 10] [--data FOLDER] [--json FILE]

Two workers everywhere. ``distributed`` is needed; ``cost`` and ``large`` need FOLDER with
``conll2002_dutch/`` and ``conll2000/``.

* cost: 2,000 sentences of NER in 8 shards, kernels loaded: seconds of a round of BCFWSSVM (three
  passes) and of an iteration of SAGCRF, less those of the same rounds in the driver alone.
* large: CoNLL-2000 in 8 shards: an iteration of SAGCRF on one worker and on two, and BCFWSSVM to a
  gap of 1e-2 against the fit in memory.
* faults: fits on 1,500 drawn sentences in 8 shards, in which at a drawn moment

  - a worker is killed (SIGKILL), or both are,
  - a worker is killed while kernels compile, which are not on disk then,
  - a worker is frozen (SIGSTOP) until the fit has ended,
  - the disk of a worker is full (a limit of 1,000 bytes a file),
  - a worker is added,
  - a prediction on the shards, or a grid search, loses a worker,
  - the driver is killed, and started again from ``checkpoint=``.

  Of each: fits that ended, with the same bits, and the seconds by which the slowest one took longer
  than the plain fit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF
from skstruct.datasets import Shards, make_annotated_sentences, pack_shards
from skstruct.preprocessing import TemplateVectorizer

KINDS = {
    "SAGCRF": lambda: SAGCRF(solver="lbfgs", C=10.0, tol=1e-8, max_iter=150),
    "BCFWSSVM": lambda: BCFWSSVM(C=1.0, tol=1e-9, max_iter=240, random_state=0),
    "GDMMSSVM": lambda: GDMMSSVM(C=0.3, tol=1e-9, max_iter=60, random_state=0),
}
# Most seconds of a fit with a fault.
LIMIT = 180.0


def children(process):
    """Numbers of all processes below one."""
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            with contextlib.suppress(OSError):
                yield from children(child)


class Cluster:
    """A local cluster of two workers."""

    def __enter__(self):
        import dask
        from distributed import Client, LocalCluster

        # LocalCluster looks at a lost worker 15 s later, and closes it for good where it is being
        # started for the second time just then.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
        options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
        self.cluster = LocalCluster(dashboard_address="127.0.0.1:0", silence_logs=50, **options)
        # As the guide says: otherwise the scheduler carries all weights and gradients, too.
        self.client = Client(self.cluster, direct_to_workers=True)
        self.context = parallel_config("dask")
        self.context.__enter__()
        return self

    def __exit__(self, *error):
        self.context.__exit__(*error)
        self.client.close()
        self.cluster.close()

    def workers(self):
        """Numbers of the processes that compute."""
        return list(self.client.run(os.getpid).values())

    def grow(self):
        """Add a worker."""
        self.cluster.scale(3)

    def shrink(self):
        """Remove it."""
        self.cluster.scale(2)


def bits(model):
    """The weights."""
    return model.node_weights_.tobytes() + model.pair_weights_.tobytes()


def timed(function, *arguments):
    """The result, and wall seconds."""
    began = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - began


# Faults: each gets the engine and a choice, and returns what undoes it.


def kill_one(engine, rng):
    """One worker is gone."""
    os.kill(rng.choice(sorted(engine.workers())), signal.SIGKILL)


def kill_both(engine, rng):
    """All workers are gone."""
    for worker in list(engine.workers()):
        os.kill(worker, signal.SIGKILL)


def freeze(engine, rng):
    """One worker does not answer, and comes back when the fit is done."""
    worker = int(rng.choice(sorted(engine.workers())))
    os.kill(worker, signal.SIGSTOP)

    def resume():
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGCONT)

    return resume


def fill_disk(engine, rng):
    """One worker can write no file of more than 1,000 bytes."""
    worker = int(rng.choice(sorted(engine.workers())))
    before = resource.prlimit(worker, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    def undo():
        with contextlib.suppress(OSError):
            resource.prlimit(worker, resource.RLIMIT_FSIZE, before)

    return undo


def add_worker(engine, rng):
    """There is one more."""
    engine.grow()
    return engine.shrink


def with_fault(task, fault, engine, moment, rng):
    """The result of a task in which a fault happens, its seconds, and whether it did in time."""
    undo, happened = [], []

    def strike():
        with contextlib.suppress(Exception):
            undo.append(fault(engine, rng))
            happened.append(time.perf_counter())

    timer = threading.Timer(moment, strike)
    timer.daemon = True
    timer.start()
    answer = []

    def run():
        try:
            answer.append(task())
        except Exception as error:
            answer.append(error)

    began = time.perf_counter()
    # joblib's configuration is one of each thread.
    thread = threading.Thread(target=lambda: within(run), daemon=True)
    thread.start()
    thread.join(LIMIT)
    ended = time.perf_counter()
    timer.cancel()
    timer.join()
    for function in filter(None, undo):
        function()
    in_time = bool(happened) and happened[0] < ended
    return (answer[0] if answer else None), ended - began, in_time


def within(function):
    """Call a function where Dask is joblib's backend."""
    with parallel_config("dask"):
        function()


def tasks_of(folder, X, y):
    """Names and functions of the tasks that faults strike."""
    for kind, make in KINDS.items():
        yield kind, lambda make=make: bits(make().fit(Shards(folder)))
    model = SAGCRF(tol=1e-2).fit(Shards(folder))

    def predict():
        return [np.concatenate(model.predict(Shards(folder))).tobytes() for _ in range(20)]

    yield "predict", predict

    def search():
        grid = GridSearchCV(SAGCRF(tol=1e-3, random_state=0), {"C": [0.1, 1.0, 10.0]}, cv=3)
        return grid.fit(X, y).cv_results_["mean_test_score"].tobytes()

    yield "search", search


def faults(engine, folder, data, names, runs, results):
    """A row of each task and fault."""
    rng = np.random.default_rng(0)
    kinds = {"killed": kill_one, "both killed": kill_both, "frozen": freeze, "disk": fill_disk}
    kinds["added"] = add_worker
    for name, task in tasks_of(folder, *data):
        if name not in names:
            continue
        within(task)
        # Of the plain fits the slowest: this machine has other things to do.
        plain = [with_fault(task, lambda *a: None, engine, 1e9, rng) for _ in range(3)]
        known, seconds = plain[0][0], max(p[1] for p in plain)
        for kind, fault in kinds.items():
            if kind == "disk" and name in ("predict", "search"):
                continue  # they write nothing
            row = {"task": name, "fault": kind, "runs": 0, "during": 0}
            row |= {"ended": 0, "same": 0, "late": 0.0, "plain": seconds, "errors": []}
            for _ in range(runs):
                moment = float(rng.uniform(0.0, seconds))
                found, took, in_time = with_fault(task, fault, engine, moment, rng)
                row["runs"] += 1
                row["during"] += in_time
                row["ended"] += found is not None and not isinstance(found, Exception)
                row["same"] += found == known
                row["late"] = max(row["late"], took - seconds)
                if isinstance(found, Exception):
                    row["errors"].append(f"{type(found).__name__}: {found}"[:200])
                if found is None:
                    row["errors"].append(f"no answer after {LIMIT:.0f} s")
                    show(row, results)
                    return
                with contextlib.suppress(Exception):
                    within(
                        engine, lambda: KINDS["SAGCRF"]().set_params(max_iter=2).fit(Shards(folder))
                    )
            show(row, results)


def compiling(folder, runs, results):
    """Kills while kernels compile: fits in processes of their own, with nothing on disk."""
    context = multiprocessing.get_context("spawn")
    for name in KINDS:
        row = {"task": name, "fault": "killed compiling", "runs": 0}
        row |= {"during": 0, "ended": 0, "same": 0, "late": 0.0, "plain": 0.0, "errors": []}
        known = None
        for trial in range(runs + 1):
            with tempfile.TemporaryDirectory() as place:
                receiver, sender = context.Pipe(False)
                moment = 1e9 if trial == 0 else 2.0 + 3.0 * trial
                arguments = name, folder, place, moment, sender
                process = context.Process(target=_compile_and_fit, args=arguments)
                process.start()
                found = receiver.recv() if receiver.poll(2 * LIMIT) else (None, 0.0, True)
                process.join(10)
                process.kill()
            if trial == 0:
                known, row["plain"] = found[0], found[1]
                continue
            row["runs"] += 1
            row["during"] += found[2]
            row["ended"] += isinstance(found[0], bytes)
            row["same"] += found[0] == known
            row["late"] = max(row["late"], found[1] - row["plain"])
            if not isinstance(found[0], bytes):
                row["errors"].append(str(found[0])[:200])
        show(row, results)


def _compile_and_fit(name, folder, cache, moment, sender):
    os.environ["NUMBA_CACHE_DIR"] = cache
    warnings.simplefilter("ignore")
    with Cluster() as engine:
        task = lambda: bits(KINDS[name]().fit(Shards(folder)))  # noqa: E731
        found, took, during = with_fault(task, kill_one, engine, moment, np.random.default_rng(0))
        sender.send((found if isinstance(found, bytes) else repr(found), took, during))


def drive(name, folder, checkpoint, answer):
    """A driver, which somebody kills."""
    warnings.simplefilter("ignore")
    with Cluster():
        Path(f"{answer}.up").touch()

        def task():
            Path(answer).write_bytes(bits(KINDS[name]().fit(Shards(folder), checkpoint=checkpoint)))

        within(task)


def drivers(folder, runs, results):
    """Drivers that are killed, and go on from their checkpoint."""
    context, rng = multiprocessing.get_context("spawn"), np.random.default_rng(0)
    for name in KINDS:
        row = {"task": name, "fault": "driver killed", "runs": 0}
        row |= {"during": 0, "ended": 0, "same": 0, "late": 0.0, "plain": 0.0, "errors": []}
        with tempfile.TemporaryDirectory() as place:
            known = bits(KINDS[name]().fit(Shards(folder)))
            for trial in range(runs + 1):
                answer, checkpoint = f"{place}/answer{trial}", f"{place}/c{trial}"
                arguments = name, folder, checkpoint, answer
                for is_killed in (trial > 0, False):
                    process = context.Process(target=drive, args=arguments)
                    process.start()
                    while not os.path.exists(f"{answer}.up"):
                        time.sleep(0.02)
                    began = time.perf_counter()
                    process.join(rng.uniform(0.5, row["plain"]) if is_killed else LIMIT)
                    if is_killed:
                        row["during"] += process.is_alive()
                    for child in list(children(process.pid)) if is_killed else ():
                        # What a cluster's nannies would do.
                        with contextlib.suppress(OSError):
                            os.kill(child, signal.SIGKILL)
                    process.kill()
                    process.join()
                    os.unlink(f"{answer}.up")
                took = time.perf_counter() - began
                if trial == 0:
                    row["plain"] = took
                    continue
                row["runs"] += 1
                row["ended"] += os.path.exists(answer)
                row["same"] += os.path.exists(answer) and Path(answer).read_bytes() == known
                row["late"] = max(row["late"], took - row["plain"])
        show(row, results)


def show(row, results):
    """A line of the table."""
    results.append(row)
    print(
        f"| {row['task']} | {row['fault']} | {row['runs']} | {row['during']} | "
        f"{row['ended']} | {row['same']} | {row['plain']:.1f} | {row['late']:+.1f} |",
        flush=True,
    )
    for error in sorted(set(row["errors"])):
        print(f"    {error}", flush=True)


def per_round(fit, attribute):
    """The model of the quicker of two fits, and its wall seconds a round."""
    fit()
    runs = [timed(fit) for _ in range(2)]
    model, seconds = min(runs, key=lambda run: run[1])
    rounds = getattr(model, attribute)
    return model, seconds / rounds


def cost(folder, results):
    """Seconds of a round over those of the driver alone."""
    import tasks

    train = tasks.dutch(folder, 2000).train
    print("| what | BCFWSSVM: ms a round | over one process | SAGCRF: ms an iteration | over |")
    print("|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        shards = pack_shards(train.X, train.y, f"{place}/s", shard_size=-(-len(train.X) // 8))

        def line(what, within_engine):
            found = []
            for make, count in (
                (lambda: BCFWSSVM(C=1.0, max_iter=15, tol=1e-9, random_state=0), "n_rounds_"),
                (lambda: SAGCRF(solver="lbfgs", max_iter=20, tol=1e-12), "n_iter_"),
            ):

                def fit(make=make):
                    models = []
                    within_engine(lambda: models.append(make().fit(shards)))
                    return models[0]

                found.append(1000 * per_round(fit, count)[1])
            known = results.setdefault("one process", found)
            results[what] = found
            over = [a - b for a, b in zip(found, known, strict=True)]
            print(
                f"| {what} | {found[0]:.0f} | {over[0]:.0f} | {found[1]:.0f} | {over[1]:.0f} |",
                flush=True,
            )

        line("one process", lambda function: function())
        with Cluster():
            line("Dask", within)


def large(folder, results):
    """CoNLL-2000: one worker against two, rounds against memory."""
    import tasks

    train = tasks.conll2000(folder).train

    def svm():
        return BCFWSSVM(C=0.1, max_iter=300, tol=1e-2, random_state=0)

    def crf():
        return SAGCRF(solver="lbfgs", max_iter=12, tol=1e-12, fit_intercept=False)

    with tempfile.TemporaryDirectory() as place:
        shards = pack_shards(train.X, train.y, f"{place}/s", shard_size=-(-len(train.X) // 8))
        svm().fit(train.X, train.y)
        results["svm", "memory"] = min(timed(svm().fit, train.X, train.y)[1] for _ in range(2))
        _, results["crf", "one"] = per_round(lambda: crf().fit(shards), "n_iter_")
        print(f"BCFWSSVM to 1e-2 in memory: {results['svm', 'memory']:.1f} s")
        print(f"an iteration of SAGCRF on one worker: {results['crf', 'one']:.3f} s")
        with Cluster():

            def fit(make):
                models = []
                within(lambda: models.append(make().fit(shards)))
                return models[0]

            fit(svm)
            seconds = min(timed(fit, svm)[1] for _ in range(2))
            ratio = seconds / results["svm", "memory"]
            print(f"Dask: BCFWSSVM to 1e-2 {seconds:.1f} s, {ratio:.2f} times", flush=True)
            _, each = per_round(lambda: fit(crf), "n_iter_")
            ratio = results["crf", "one"] / each
            print(f"Dask: an iteration of SAGCRF {each:.3f} s, {ratio:.2f} times as fast")
        threads = crf().set_params(n_jobs=2)
        _, each = per_round(lambda: threads.fit(shards), "n_iter_")
        print(f"two threads: {each:.3f} s, {results['crf', 'one'] / each:.2f} times as fast")


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["cost", "large", "faults", "compiling", "drivers"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    names = [*KINDS, "predict", "search"]
    parser.add_argument("--tasks", nargs="+", default=names, choices=names)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    if "cost" in options.parts:
        cost(options.data, {})
    if "large" in options.parts:
        large(options.data, {})
    train = make_annotated_sentences(1500, 1, random_state=0).train
    vectorizer = TemplateVectorizer([(-1, 0), (0, 0), (1, 0)]).fit(train.word)
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/shards"
        pack_shards(train.word, train.chunk, folder, shard_size=188, vectorizer=vectorizer)
        if {"faults", "compiling", "drivers"} & set(options.parts):
            print("| task | fault | runs | during | ended | same bits | plain, s | late, s |")
            print("|---|---|--:|--:|--:|--:|--:|--:|")
        if "faults" in options.parts:
            with Cluster() as engine:
                data = vectorizer.transform(train.word), train.chunk
                faults(engine, folder, data, options.tasks, options.runs, results)
        if "drivers" in options.parts:
            drivers(folder, options.runs, results)
        if "compiling" in options.parts:
            compiling(folder, max(options.runs // 3, 1), results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

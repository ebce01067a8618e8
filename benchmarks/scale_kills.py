"""Kills at drawn moments: whether fits on shards end at the same bits; a part of bench_scale.py.

Workers are loky's: one of two, drawn, is killed while a fit runs. Drivers have a checkpoint and are
forked, so that kernels are there: one is killed, and another one goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import parallel_config

from skstruct import BCFWSSVM, SAGCRF
from skstruct.datasets import Shards, make_annotated_sentences, pack_shards
from skstruct.preprocessing import TemplateVectorizer

KINDS = {
    "SAGCRF": lambda: SAGCRF(tol=1e-6),
    "BCFWSSVM": lambda: BCFWSSVM(C=0.1, tol=3e-3, random_state=0),
}


def fit(kind, folder, checkpoint=None):
    """The bytes of the weights of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KINDS[kind]().fit(Shards(folder), checkpoint=checkpoint)
    return model.node_weights_.tobytes() + model.pair_weights_.tobytes()


def timed(function, *arguments):
    """The result, and wall seconds."""
    began = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - began


def loky_workers():
    """Numbers of the processes that loky has started from this one."""
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)


def kill_later(seconds, rng, killed):
    """Kill one of loky's workers when the time has come."""
    pick = float(rng.random())

    def kill():
        workers = sorted(loky_workers())
        if workers:
            os.kill(workers[int(pick * len(workers))], signal.SIGKILL)
            killed.append(time.perf_counter())

    timer = threading.Timer(seconds, kill)
    timer.start()
    return timer


def of_workers(kind, folder, known, n, rng):
    """Kills of workers: how many were in a fit, and how many fits gave the same bits."""
    during = same = 0
    with parallel_config("loky", n_jobs=2):
        fit(kind, folder)
        _, seconds = timed(fit, kind, folder)
        for _ in range(n):
            killed = []
            timer = kill_later(float(rng.uniform(0.0, seconds)), rng, killed)
            same += fit(kind, folder) == known
            ended = time.perf_counter()
            timer.cancel()
            timer.join()
            during += bool(killed) and killed[0] < ended
            fit(kind, folder)  # whoever was killed has a successor, with kernels
    return [kind, "worker", n, during, n, same]


def of_drivers(kind, folder, known, n, rng):
    """Kills of drivers: also how many had saved a state."""
    context = multiprocessing.get_context("fork")
    during = saved = same = 0
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place, "answer")

        def drive(checkpoint):
            answer.write_bytes(fit(kind, folder, checkpoint))

        _, seconds = timed(fit, kind, folder, f"{place}/timed")
        for trial in range(n):
            answer.unlink(missing_ok=True)
            checkpoint = Path(place, f"c{trial}")
            first = context.Process(target=drive, args=(checkpoint,))
            first.start()
            first.join(float(rng.uniform(0.0, seconds)))
            during += first.is_alive()
            first.kill()
            first.join()
            saved += any(checkpoint.glob("round-*.json"))
            second = context.Process(target=drive, args=(checkpoint,))
            second.start()
            second.join()
            same += answer.exists() and answer.read_bytes() == known
    return [kind, "driver", n, during, saved, same]


def kills(n, results):
    """The table; n kills of workers and n of drivers for each estimator."""
    rng = np.random.default_rng(0)
    train = make_annotated_sentences(1500, 1, random_state=0).train
    vectorizer = TemplateVectorizer([(-1, 0), (0, 0), (1, 0)]).fit(train.word)
    results["kills"] = []
    print("| estimator | killed | kills | during the fit | with a state | same bits |")
    print("|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/shards"
        pack_shards(train.word, train.chunk, folder, shard_size=300, vectorizer=vectorizer)
        for kind in KINDS:
            known = fit(kind, folder)
            for part in (of_drivers, of_workers):
                row = part(kind, folder, known, n, rng)
                results["kills"].append(row)
                shown = [*row[:4], row[4] if part is of_drivers else "", row[5]]
                print(f"| {' | '.join(map(str, shown))} |", flush=True)

"""Engines: results in order, whatever workers do; and messages that leave zeros behind."""

import contextlib
import pickle
import threading
import time
from concurrent.futures import Future, InvalidStateError
from queue import SimpleQueue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from joblib import parallel_config

from skstruct.core.jit.compiling import compile_seconds, leave_out
from skstruct.core.weights import Weights
from skstruct.distributed import engine as engines
from skstruct.distributed.engine import (
    Engine,
    EngineGone,
    Threads,
    WorkerLost,
    Workers,
    choose_workers,
)
from skstruct.distributed.shard import Tables, gather, scatter_add


class Fakes(Workers):
    """Threads that are killed, frozen or full, as a script says: (slot, number of its call)."""

    def __init__(self, names, script=(), depth=1, n_bytes=0):
        self.names, self.script, self.depth, self.n_bytes = (
            list(names),
            dict(script),
            depth,
            n_bytes,
        )
        self.calls, self.had, self.frozen = {}, [], []
        self.queues = {}

    def slots(self):
        return list(self.names)

    def submit(self, slot, function, arguments):
        number = self.calls[slot] = self.calls.get(slot, 0) + 1
        future, what = Future(), self.script.get((slot, number))
        self.had.append((slot, arguments[1:]))
        if what == "killed":
            future.set_exception(WorkerLost("killed"))
        elif what == "gone":  # nobody says so, but that it is not there any more
            self.names.remove(slot)
        elif what == "frozen":
            self.frozen.append((future, function, arguments))
        else:
            if slot not in self.queues:
                self.queues[slot] = SimpleQueue()
                threading.Thread(target=self._work, args=(slot,), daemon=True).start()
            self.queues[slot].put((future, function, arguments))
        return future

    def _work(self, slot):
        while True:
            future, function, arguments = self.queues[slot].get()
            with contextlib.suppress(InvalidStateError):  # it was cancelled
                future.set_result(function(*arguments))

    def close(self):
        pass


def square(k):
    return k * k


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    for name, value in {"_LOOK": 0.01, "_OVERDUE": 0.05, "_UNKNOWN": 0.05}.items():
        monkeypatch.setattr(engines, name, value)


def run(workers, n=9, function=square):
    with Engine(workers=workers) as engine:
        return list(engine.map(function, range(n), lambda k: (k,))), engine


SQUARES = [k * k for k in range(9)]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("what", ["killed", "gone", "frozen"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_lost_is_given_again(depth, what, number):
    workers = Fakes("ab", {("a", number): what}, depth)
    found, engine = run(workers)
    assert found == SQUARES
    happened = workers.calls["a"] >= number  # else the other one was faster
    assert (engine.n_losses > 0) == (happened and what != "frozen")
    assert engine.n_repeats > 0 or not (happened and what == "frozen")


def test_a_frozen_worker_gets_nothing_until_it_has_answered():
    workers = Fakes("ab", {("a", 1): "frozen"})
    with Engine(workers=workers) as engine:
        for _ in range(3):
            assert list(engine.map(square, range(9), lambda k: (k,))) == SQUARES
        assert workers.calls["a"] == 1
        future, function, arguments = workers.frozen.pop()
        future.set_result(function(*arguments))
        assert list(engine.map(square, range(9), lambda k: (k,))) == SQUARES
    assert workers.calls["a"] > 1


def test_tasks_of_a_key_stay_with_their_worker():
    workers = Fakes("abc")
    with Engine(workers=workers) as engine:
        for _ in range(5):
            list(engine.map(square, [3, 1, 2], lambda k: (k,)))
    homes = {(arguments, slot) for slot, arguments in workers.had}
    assert len(homes) == 3


def test_short_messages_are_sent_together():
    workers = Fakes("ab", {("a", 1): "killed"}, 2, n_bytes=100)
    tables = Tables(np.zeros((3, 1)), np.zeros((1, 1)))  # 32 bytes: three in a message

    def total(k, w):
        return float(k)

    with Engine(workers=workers) as engine:
        found = list(engine.map(total, range(8), lambda k: (k, tables)))
    assert found == [float(k) for k in range(8)]
    assert sum(workers.calls.values()) == 3 + engine.n_losses + engine.n_repeats


def test_an_error_of_a_task_is_raised_and_of_a_place_tried_elsewhere():
    with pytest.raises(ZeroDivisionError):
        run(Fakes("ab"), function=lambda k: 1 // (k - 3))
    workers, tried = Fakes("ab"), []

    def full(k):
        if k == 4 and not tried:
            tried.append(k)
            raise OSError(28, "No space left on device")
        return k * k

    assert run(workers, function=full)[0] == SQUARES

    def always(k):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run(Fakes("ab"), function=always)


def test_an_engine_gives_up(monkeypatch):
    everywhere = {("a", n): "killed" for n in range(1, 99)}
    with pytest.raises(EngineGone, match=r"died 4 times while task 0 was waited for"):
        run(Fakes("a", everywhere))
    monkeypatch.setattr(engines, "PATIENCE", 0.1)
    with pytest.raises(EngineGone, match=r"no worker has been there for 0 seconds"):
        run(Fakes("a", {("a", 2): "gone"}))


def test_a_cluster_without_workers_is_waited_for():
    workers = Fakes("a", {("a", 2): "gone"})
    threading.Timer(0.3, workers.names.append, "b").start()
    assert run(workers)[0] == SQUARES


def test_who_leaves_early_leaves_nothing_running():
    with Engine(2) as engine:
        results = engine.map(square, range(100), lambda k: (k,))
        assert next(results) == 0
        results.close()
        assert list(engine.map(square, range(3), lambda k: (k,))) == [0, 1, 4]


def test_results_wait_for_those_before_them_but_not_without_bound():
    asked = []

    def slow(k):
        time.sleep(0.2 if k == 0 else 0.0)
        return k

    with Engine(2) as engine:
        results = engine.map(slow, range(50), lambda k: asked.append(k) or (k,))
        assert next(results) == 0
        assert max(asked) < 16
        assert list(results) == list(range(1, 50))


def test_the_workers_are_those_that_the_user_names():
    assert choose_workers(None) is None
    assert choose_workers(1) is None
    assert isinstance(choose_workers(2), Threads)
    with parallel_config("threading", n_jobs=3):
        assert list(choose_workers(None).slots()) == [0, 1, 2]
    with parallel_config("loky", n_jobs=1):
        assert choose_workers(None) is None


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_processes_are_those_of_dask(backend):
    advice = r"not on \w+Backend, the active backend.* for processes .* distributed.Client\(\)"
    with parallel_config(backend, n_jobs=2):
        for n_jobs in (None, 2):
            with pytest.raises(ValueError, match=advice):
                choose_workers(n_jobs)
        assert choose_workers(1) is None


@pytest.mark.parametrize("n_columns", [0, 3, 1024, 2500])
def test_what_comes_back_goes_where_it_came_from(n_columns):
    rng = np.random.default_rng(0)
    w = Weights(rng.normal(size=(3002, 2)), rng.normal(size=(1, 4)))
    total = Weights(np.zeros((3002, 2)), np.zeros((1, 4)))
    columns = np.sort(rng.choice(3000, size=n_columns, replace=False))
    rows = [*columns, 3000, 3001]
    own = gather(w, columns, 3000)
    sent = pickle.loads(pickle.dumps(own))
    assert own.nbytes == sent.nbytes
    assert np.array_equal(sent.node, w.node[rows])
    scatter_add(total, columns, 3000, own)
    scatter_add(total, None, 3000, w)
    expected = w.node.copy()
    expected[rows] *= 2.0
    assert np.array_equal(total.node, expected)
    assert np.array_equal(total.pair, 2.0 * w.pair)


_SPECIAL = st.sampled_from([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 5e-324])


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0), elements=_SPECIAL))
def test_a_message_has_every_bit(node):
    sent = Tables(node, np.zeros((1, 3)))
    found = pickle.loads(pickle.dumps(sent))
    assert found.node.shape == node.shape
    assert found.node.tobytes() == node.tobytes()
    assert found.pair.tobytes() == sent.pair.tobytes()


def test_a_message_leaves_zeros_behind():
    node = np.zeros((1000, 10))
    node[::10, 3] = 1.0
    assert len(pickle.dumps(Tables(node, node))) < 2 * (node.size // 8 + 8 * 100 + 500)


def test_both_threads_of_a_frozen_process_are_passed_over():
    slots = [("A", 0), ("A", 1), ("B", 0)]
    workers = Fakes(slots, {(("A", 0), 1): "frozen", (("A", 1), 1): "frozen"})
    found, engine = run(workers, 1)
    assert found == [0]
    assert engine.n_repeats >= 1
    workers = Fakes("abc", {("a", 1): "frozen", ("b", 1): "frozen"})
    assert run(workers, 1)[0] == [0]


def test_a_full_disk_and_a_frozen_worker_end():
    def full(k):
        raise OSError(28, "No space left on device")

    workers = Fakes("abc", {("c", 1): "frozen"})
    with pytest.raises(OSError, match="No space"):
        run(workers, 3, full)
    assert sum(workers.calls.values()) < 20


def _compiles(seconds):
    leave_out(seconds)
    return seconds


def test_the_clock_stands_still_while_workers_compile():
    before = compile_seconds()
    with Engine(workers=Threads(3)) as engine:
        assert list(engine.map(_compiles, range(3), lambda k: ([2.0, 5.0, 4.0][k],))) == [2, 5, 4]
    assert compile_seconds() - before == pytest.approx(5.0)

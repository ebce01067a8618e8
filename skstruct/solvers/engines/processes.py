"""Processes of this machine: each has pipes of its own, so that one may be killed at any time.

The pools of the standard library and of loky share locks and pipes among their workers: one that is
killed in the middle of a message, or frozen while it waits for one, takes the others with it. Nor
can they be told which worker has which shard. Here a worker is a Python that reads calls and writes
results; a broken message is a lost worker, and the next one is started. Those that are idle when a
fit ends wait for the next one; they go with the process that started them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np
from joblib import cpu_count, wrap_non_picklable_objects

from .messages import Tables
from .workers import Failure, WorkerLost, Workers

# Seconds after which an idle worker ends.
_IDLE = 300.0
# Workers of no engine.
_LOCK, _FREE = threading.Lock(), []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FREE.clear)  # pipes have two ends
_PLAIN = Tables, np.ndarray, int, float, str, type(None)


def _portable(value):
    """What another process can read: of classes of a script or a notebook their definition."""
    return value if isinstance(value, _PLAIN) else wrap_non_picklable_objects(value, False)


@atexit.register
def _end_free():
    """End the workers that nobody has."""
    while _FREE:
        _FREE.pop().kill()


class _Process:
    """A worker, and the thread that talks to it."""

    def __init__(self):
        threads = str(max(cpu_count() // 2, 1))
        defaults = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        # Workers import from where this process does, and not from whatever folder it is in.
        path = os.pathsep.join(p or os.getcwd() for p in sys.path if isinstance(p, str))
        environment = defaults | os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.calls, self.is_lost, self.is_busy, self.is_up = SimpleQueue(), False, False, False
        threading.Thread(target=self._talk, daemon=True).start()

    @property
    def is_there(self):
        """True while calls can be given to it."""
        return not self.is_lost and self.process.poll() is None

    def submit(self, call):
        """The future of a call."""
        future = Future()
        future.set_running_or_notify_cancel()
        self.is_busy = True
        self.calls.put((future, call))
        return future

    def _talk(self):
        with contextlib.suppress(Exception):  # one that has ended is found out by its first call
            self.is_up = pickle.load(self.process.stdout)
        while (item := self.calls.get()) is not None:
            future, call = item
            try:
                content = pickle.dumps(call, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                self.is_busy = False
                future.set_exception(error)
                continue
            try:
                self.process.stdin.write(content)
                self.process.stdin.flush()
                result = pickle.load(self.process.stdout)
            except Exception as error:  # half a message may be anything
                self.is_lost = True
                self.kill()
                future.set_exception(WorkerLost(f"process {self.process.pid} ended: {error!r}"))
                return
            self.is_busy = False
            future.set_result(result)

    def kill(self):
        """End it, whatever it does."""
        self.process.kill()
        self.calls.put(None)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
        self.process.wait()


class Processes(Workers):
    """A number of processes; one that ends is replaced."""

    def __init__(self, n: int) -> None:
        self._n, self._mine = n, {}

    def slots(self):
        """Numbers of the processes."""
        for slot in [slot for slot, worker in self._mine.items() if not worker.is_there]:
            self._mine.pop(slot).kill()
        while len(self._mine) < self._n:
            with _LOCK:
                _FREE.sort(key=lambda free: free.is_up)
                worker = _FREE.pop() if _FREE else None
            if worker is None:
                worker = _Process()
            if worker.is_there:
                self._mine[worker.process.pid] = worker
            else:
                worker.kill()
        # One that replaces another imports for a second or two.
        known = self._mine.items()
        return [slot for slot, worker in known if worker.is_up or worker.is_busy] or [*self._mine]

    def submit(self, slot, function, arguments):
        """Send a call."""
        if slot not in self._mine:
            raise WorkerLost(f"process {slot} is gone")
        return self._mine[slot].submit((function, *map(_portable, arguments)))

    def close(self):
        """Keep processes that are idle for whoever comes next."""
        for worker in self._mine.values():
            if (worker.is_busy and worker.is_up) or not worker.is_there:
                worker.kill()
            else:
                with _LOCK:
                    _FREE.append(worker)
        self._mine = {}


def _unreadable(error):
    """The outcome of a task that this process cannot read, or whose result none can."""
    return Failure(TypeError(f"a task or its result cannot be sent to another process: {error}"))


def serve() -> None:
    """Read calls, and write results, until nobody writes calls any more."""
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What tasks print is for people.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    results.write(pickle.dumps(True))
    results.flush()
    while True:
        idle = threading.Timer(_IDLE, os._exit, (0,))
        idle.daemon = True
        idle.start()
        has_call = bool(calls.peek(1))
        idle.cancel()
        if not has_call:
            return
        try:
            function, *arguments = pickle.load(calls)
        except Exception as error:
            function, arguments = _unreadable, (error,)
        try:
            content = pickle.dumps(function(*arguments), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            content = pickle.dumps(_unreadable(error))
        try:
            results.write(content)
            results.flush()
        except OSError:  # the driver was killed
            os._exit(1)


if __name__ == "__main__":
    serve()

"""Tasks in threads or on Dask, results in order.

A task is a function of a module, of its arguments and of files alone: a lost one runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend

from ..core.jit.compiling import compile_seconds, leave_out
from .shard import Tables

# A task is lost so often before its fit ends.
MAX_WORKER_FAILURES = 3
# Seconds that a cluster without workers is waited for.
PATIENCE = 60.0
# A worker that has had a task for so many seconds, and so many times as long as any such task took,
# is overdue: somebody who is idle gets the task, too.
_OVERDUE, _TIMES = 1.0, 2.0
# Seconds that a task is taken to last before one has ended.
_UNKNOWN = 4.0
# Seconds between two looks at what is overdue, and at who is there.
_LOOK = 0.25
# Results that are kept until those before them have come: so many for each worker.
_AHEAD = 4


class EngineGone(RuntimeError):
    """No worker is left, or each that takes a task is lost."""


class WorkerLost(RuntimeError):
    """A worker, or what it had, is gone."""


class Workers(ABC):
    """A kind of workers: the interface that an engine needs."""

    #: True if they are threads of this process; others may be slow or frozen while some are idle.
    is_local = False
    #: Messages that one is given at once, so that it need not wait for the next one, and bytes of
    #: weights up to which a message has several tasks.
    depth, n_bytes = 1, 0

    @abstractmethod
    def slots(self) -> Sequence:
        """Names of the workers that are there now."""

    @abstractmethod
    def submit(self, slot: Any, function: Callable, arguments: tuple) -> Future:
        """Let a worker call a function; a future that fails is of a worker that was lost."""

    @abstractmethod
    def close(self) -> None:
        """Cancel all tasks, and release the workers."""


class Threads(Workers):
    """Threads of this process, which share its memory; kernels release the GIL."""

    is_local = True

    def __init__(self, n: int) -> None:
        self._n, self._pool = n, ThreadPoolExecutor(n, "skstruct-engine")

    def slots(self):
        """Numbers of the threads."""
        return range(self._n)

    def submit(self, slot, function, arguments):
        """Submit to the pool; a free thread calls the function."""
        return self._pool.submit(function, *arguments)

    def close(self):
        """Wait for the tasks that run."""
        self._pool.shutdown(cancel_futures=True)


class Failure:
    """An exception of a task, as distinct from those of an engine."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        text = "".join(traceback.format_exception(self.error))
        try:
            error = pickle.loads(pickle.dumps(self.error))
        except Exception:  # not every class of exceptions can be pickled
            error = RuntimeError(f"{type(self.error).__name__}: {self.error}")
        error.add_note(f"in a worker:\n{text}")
        return Failure, (error,)


# Bytes of an argument that goes to its worker itself, instead of with the task by the scheduler.
_LARGE = 1 << 20


class DaskWorkers(Workers):
    """The workers that a client sees; a task stays with the worker that it was given to."""

    depth, n_bytes = 2, 1 << 22

    def __init__(self, client) -> None:
        if client.asynchronous:
            raise ValueError("a Dask client must not be asynchronous to be used by fit or predict")
        self._client, self._running = client, set()

    def slots(self):
        """A slot for each thread of each worker."""
        if self._client.status == "closed":
            raise EngineGone("the Dask client is closed")
        try:
            threads = self._client.nthreads()
        except Exception:  # of whatever kind: nobody is there for now
            return []
        return [(address, k) for address, n in sorted(threads.items()) for k in range(n)]

    def submit(self, slot, function, arguments):
        """Send large arguments to a worker, then the task."""
        loop = self._client.loop.asyncio_loop
        future = asyncio.run_coroutine_threadsafe(self._call(slot[0], function, arguments), loop)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    async def _call(self, address, function, arguments):
        client, arguments = self._client, list(arguments)
        for place, value in enumerate(arguments):
            if isinstance(value, Tables) and value.nbytes > _LARGE:
                arguments[place], *_ = await client.scatter(
                    [value], workers=[address], hash=False, asynchronous=True
                )
        future = client.submit(function, *arguments, workers=[address], pure=False)
        try:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            future.add_done_callback(lambda done: loop.call_soon_threadsafe(ended.set))
            await ended.wait()
            if future.status != "finished":
                raise WorkerLost(f"a task on {address} is {future.status}")
            return await future
        finally:
            future.release()

    def close(self):
        """Cancel what runs."""
        for future in list(self._running):
            future.cancel()


def _attempt(function, *arguments):
    """The task of tasks: a result, or the exception as one; and seconds of compilation."""
    before = compile_seconds()
    try:
        return function(*arguments), compile_seconds() - before
    except Exception as error:
        return Failure(error), 0.0


def _each(function, calls):
    """Several tasks, as one."""
    return [function(*arguments) for arguments in calls]


def _active_client():
    """The Dask client of this process, if there is one, and this is not a worker's task."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    with contextlib.suppress(ValueError, AttributeError):
        distributed.get_worker()
        return None
    with contextlib.suppress(ValueError, AttributeError):
        return distributed.default_client()
    return None


def choose_workers(n_jobs: int | None, most: int = 1 << 30) -> Workers | None:
    """Workers by joblib's backend, else `n_jobs`, else an active Dask client; None: this thread."""
    backend, _ = get_active_backend(prefer="threads")
    other, _ = get_active_backend(prefer="processes")
    names = {kind.__name__ for kind in type(backend).__mro__}
    is_named, n = type(backend) is type(other), max(effective_n_jobs(n_jobs), 1)
    n = min(n, most)
    if n_jobs == 1:
        return None
    is_open = not is_named and n == 1
    client = _active_client() if is_open else getattr(backend, "client", None)
    if "DaskDistributedBackend" in names or (is_open and client is not None):
        return DaskWorkers(client)
    if n == 1:
        return None
    if not is_named or "ThreadingBackend" in names:
        return Threads(n)
    raise ValueError(
        f"fits on shards run in threads or on Dask, not on {type(backend).__name__}, "
        "the active backend of joblib: leave parallel_config out and "
        "set n_jobs for threads; for processes of this machine, or a cluster, call it within "
        '"with distributed.Client():"'
    )


class Engine:
    """Runs tasks on the workers that the user has; leave it by ``with``, or :meth:`close` it."""

    def __init__(self, n_jobs=None, most: int = 1 << 30, workers: Workers | None = None) -> None:
        self._workers = choose_workers(n_jobs, most) if workers is None else workers
        #: Tasks that were lost with their workers, or were given to a second one.
        self.n_losses = self.n_repeats = 0
        # The worker that had a key last; futures and workers of tasks that somebody else has done.
        self._homes: dict = {}
        self._late: dict = {}
        # Longest time of a task of each function.
        self._longest: dict = {}
        self._slots, self._looked = (), -float("inf")

    def __enter__(self):
        return self

    def close(self, *error) -> None:
        """Release the workers."""
        if self._workers is not None:
            self._workers.close()

    __exit__ = close

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at once."""
        return 1 if self._workers is None else max(len(self._present()), 1)

    @property
    def is_alone(self) -> bool:
        """True if tasks run in the calling thread."""
        return self._workers is None

    @property
    def is_local(self) -> bool:
        """True if all workers are on this machine."""
        return self._workers is None or self._workers.is_local

    def _present(self, *, look=False):
        """The present workers, as of the last look."""
        now = time.monotonic()
        if look or now - self._looked > 2 * _LOOK:
            self._slots, self._looked = list(self._workers.slots()), now
        return self._slots

    def map(self, function: Callable, keys: Sequence, arguments: Callable) -> Iterator:
        """Yield ``function(*arguments(key))`` per key, in order; keys prefer their last worker."""
        if self._workers is None:
            for key in keys:
                yield function(*arguments(key))
            return
        run = _Map(self, function, list(keys), arguments)
        try:
            yield from run.results()
        finally:
            run.abandon()


class _Map:
    """The tasks of one call of :meth:`Engine.map`, each of one key or of several in a row."""

    def __init__(self, engine, function, keys, arguments):
        self.engine, self.workers = engine, engine._workers
        self.function, self.arguments = function, arguments
        size = self._size(keys)
        self.keys = [keys[first : first + size] for first in range(0, len(keys), size)]
        self.waiting, self.done = list(range(len(self.keys))), {}
        self.next, self.events = 0, SimpleQueue()
        # Futures that run: task, worker, beginning.
        self.running: dict = {}
        self.losses, self.failed = Counter(), {}
        # Workers with an overdue task, and since when there has been none at all.
        self.stuck, self.lonely = set(), None
        # The longest compilation of a task: so long the clock of this thread stands still.
        self.compiling = 0.0

    def _size(self, keys):
        """Number of keys of a task."""
        n_slots = max(len(self.engine._present()), 1)
        if not self.workers.n_bytes or len(keys) <= n_slots:
            return 1
        tables = [value for value in self.arguments(keys[0]) if isinstance(value, Tables)]
        n_bytes = sum(value.nbytes for value in tables)
        return max(min(self.workers.n_bytes // max(n_bytes, 1), -(-len(keys) // n_slots)), 1)

    def results(self):
        """Results in order, as they come."""
        while self.next < len(self.keys):
            self._give()
            if self.next not in self.done:
                self._wait()
            while self.next in self.done:
                yield from self.done.pop(self.next)
                self.next += 1

    def _room(self):
        """Tasks that each worker can take; those that are overdue elsewhere take none."""
        held = Counter(slot for _, slot, _ in self.running.values())
        slots = self.engine._present()
        late = {slot for future, slot in self.engine._late.items() if not future.done()}
        slots = [slot for slot in slots if slot not in late] or list(slots)
        return {slot: self.workers.depth - held[slot] for slot in slots}

    def _give(self):
        """Give waiting tasks to workers with room."""
        limit = self.next + _AHEAD * self.workers.depth * max(len(self.engine._slots), 1)
        room = self._room()
        for depth in range(self.workers.depth, 0, -1):
            for slot in [slot for slot, left in room.items() if left >= depth]:
                ready = [task for task in self.waiting if task < limit]
                task = self._pick(slot, ready, room)
                if task is not None:
                    self.waiting.remove(task)
                    self._submit(task, slot)
                    room[slot] -= 1

    def _pick(self, slot, ready, room):
        """The task for a worker: one that it had, a new one, or one of many of another's."""
        homes = [self._home(task) for task in ready]
        others = Counter(home for home in homes if home in room and home != slot)
        spare = None
        for task, home in zip(ready, homes, strict=True):
            failed = self.failed.get(task, ())
            if slot in failed and not set(room).issubset(failed):
                continue
            if home == slot:
                return task
            # With the last task of another's it would hardly be faster.
            if spare is None and others[home] != 1:
                spare = task
        return spare

    def _home(self, task):
        """The worker that should have a task, if it can do it."""
        home = self.engine._homes.get(self.keys[task][0])
        return None if home in self.stuck or home in self.failed.get(task, ()) else home

    def _submit(self, task, slot):
        keys = self.keys[task]
        self.engine._homes |= dict.fromkeys(keys, slot)
        calls = [self.arguments(key) for key in keys]
        call = (_each, self.function, calls) if len(keys) > 1 else (self.function, *calls[0])
        future = self.workers.submit(slot, _attempt, call)
        self.running[future] = task, slot, time.monotonic()
        future.add_done_callback(self.events.put)

    def _wait(self):
        """Wait for a result, a loss, or the time to look at what is overdue."""
        try:
            future = self.events.get(timeout=_LOOK)
        except Empty:
            self._look()
            return
        self._take(future)
        while not self.events.empty():
            self._take(self.events.get())

    def _take(self, future):
        task, slot, began = self.running.pop(future, (None, None, 0.0))
        if task is None or task in self.done or task < self.next:
            return  # somebody else was faster
        if future.cancelled() or future.exception() is not None:
            self._lose(task, None if future.cancelled() else future.exception())
            return
        result, compiling = future.result()
        if isinstance(result, Failure):
            self._fail(task, slot, result.error)
            return
        longest, seconds = self.engine._longest, time.monotonic() - began - compiling
        longest[self.function] = max(longest.get(self.function, 0.0), seconds)
        if compiling > self.compiling:  # workers compile at the same time
            leave_out(compiling - self.compiling)
            self.compiling = compiling
        self.done[task] = result if len(self.keys[task]) > 1 else [result]
        for other, (same, other_slot, _) in list(self.running.items()):
            if same == task:
                del self.running[other]
                self.engine._late[other] = other_slot

    def _lose(self, task, error):
        """A task whose worker was lost waits again."""
        self.engine.n_losses += 1
        self.losses[task] += 1
        self.engine._present(look=True)
        if self.losses[task] > MAX_WORKER_FAILURES:
            text = f"workers died {self.losses[task]} times while task {self.keys[task][0]}"
            text += f" was waited for (killed, or out of memory?): {error}"
            raise EngineGone(text) from error
        self._again(task)

    def _again(self, task):
        if task not in self.waiting and all(task != one for one, _, _ in self.running.values()):
            self.waiting.insert(0, task)

    def _fail(self, task, slot, error):
        """An exception of a task; that of a full disk or memory is one of its place."""
        places = self.failed.setdefault(task, [])
        places.append(slot)
        elsewhere = self._room().keys() - self.stuck - set(places)
        is_local = isinstance(error, (OSError, MemoryError))
        if not is_local or not elsewhere or len(places) > MAX_WORKER_FAILURES:
            raise error
        self._again(task)

    def _look(self):
        """Give overdue tasks to idle workers; end where no worker is left."""
        slots, now = self.engine._present(look=True), time.monotonic()
        if slots:
            self.lonely = None
        elif self.lonely is None:
            self.lonely = now
        elif now - self.lonely > PATIENCE:
            raise EngineGone(f"no worker has been there for {PATIENCE:.0f} seconds")
        for future, (task, slot, _) in list(self.running.items()):
            if slot not in slots:
                del self.running[future]
                future.cancel()
                self._lose(task, WorkerLost(f"{slot} is gone"))
        if self.workers.is_local:
            return
        known = self.engine._longest.get(self.function, _UNKNOWN)
        bound = now - max(_OVERDUE, _TIMES * known)
        overdue = [(task, slot) for task, slot, began in self.running.values() if began < bound]
        self.stuck = {slot for _, slot in overdue}
        hopeful = {task for task, _, began in self.running.values() if began >= bound}
        idle = [s for s, left in self._room().items() if left == self.workers.depth]
        # Of a machine that is frozen all workers are: those of others first.
        hosts = {slot[0] for slot in self.stuck}
        idle = sorted((s for s in idle if s not in self.stuck), key=lambda s: s[0] in hosts)
        for task, _ in overdue:
            if idle and task not in hopeful:
                hopeful.add(task)
                self.engine.n_repeats += 1
                self._submit(task, idle.pop(0))

    def abandon(self):
        """Ignore tasks that still run; their workers are busy until they end."""
        for future, (_, slot, _) in self.running.items():
            if not future.cancel():
                self.engine._late[future] = slot
        late = self.engine._late
        self.engine._late = {f: slot for f, slot in late.items() if not f.done()}

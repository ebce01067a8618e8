"""Workers: what an engine needs to know of those that do its tasks; threads, Dask, Ray."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .messages import Tables


class EngineGone(RuntimeError):
    """No worker can be had any more, or each that takes a task is lost."""


class WorkerLost(RuntimeError):
    """A worker, or what it had, is gone."""


class Workers(ABC):
    """A kind of workers: what an engine needs to know of it."""

    #: True if all of them are on this machine.
    is_local = True
    #: True if one may be slow or frozen while others are idle.
    may_lag = True
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
        """Take back all tasks, and let go of the workers."""


class Threads(Workers):
    """Threads of this process, which share its memory; kernels release the GIL."""

    may_lag = False

    def __init__(self, n: int) -> None:
        self._n, self._pool = n, ThreadPoolExecutor(n, "skstruct-engine")

    def slots(self):
        """Numbers of the threads."""
        return range(self._n)

    def submit(self, slot, function, arguments):
        """Whichever thread is free calls it."""
        return self._pool.submit(function, *arguments)

    def close(self):
        """Wait for the tasks that run."""
        self._pool.shutdown(cancel_futures=True)


class Failure:
    """An exception of a task, to be told from those of an engine."""

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


# Workers of clusters: those that a Dask client sees, and the processors of Ray.

# Bytes of an argument that goes to its worker itself, instead of with the task by the scheduler.
_LARGE = 1 << 20


class DaskWorkers(Workers):
    """The workers that a client sees; a task stays with the worker that it was given to."""

    is_local = False
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


def _call(function, arguments):
    return function(*arguments)


class RayWorkers(Workers):
    """Processors of a Ray cluster, which starts a lost worker anew."""

    is_local = False
    depth, n_bytes = 2, 1 << 22

    def __init__(self) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init()
        self._call, self._running = ray.remote(num_cpus=1, max_retries=2)(_call), {}

    def slots(self):
        """Numbers of the processors."""
        return range(int(self._ray.cluster_resources().get("CPU", 0)))

    def submit(self, slot, function, arguments):
        """Ray chooses where, and keeps large arguments in its store."""
        reference = self._call.remote(function, arguments)
        future = reference.future()
        self._running[future] = reference
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def close(self):
        """Cancel what runs."""
        for reference in list(self._running.values()):
            self._ray.cancel(reference, force=True)

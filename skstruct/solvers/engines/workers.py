"""Workers: what an engine needs to know of those that do its tasks."""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


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

"""Tasks over joblib's backends: results in order, and lost workers made up for.

Another solver uses it so: its task is a function of a module (workers import it), whose result
depends on its arguments and on files alone; ``engine.map(task, n_parts, arguments)`` then gives the
same bits whichever worker runs it, and however often.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from .watch import watched

# How often in a row workers may die before one more result has come.
MOST_LOSSES = 3
# Where a backend gives results at the end only: so many for each worker are waited for at once.
_AT_ONCE = 4
# Names of what backends raise for a worker that died: none of them need be installed.
_LOSSES = {
    "BrokenProcessPool",
    "TerminatedWorkerError",
    "KilledWorker",
    "WorkerCrashedError",
    "ActorDiedError",
    "RayActorError",
    "NodeDiedError",
    "OutOfMemoryError",
    "ObjectLostError",
    "OwnerDiedError",
}
# Names of joblib's own backends.
_HERE = {"SequentialBackend", "ThreadingBackend", "LokyBackend", "MultiprocessingBackend"}
# Names of what they raise when nobody is left to send tasks to.
_GONE = {"CommClosedError", "FutureCancelledError", "CancelledError", "RaySystemError"}


class _Sent:
    """A call as one small object: Ray keeps large arguments of their own for as long as a pool."""

    __slots__ = ("arguments", "function")

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def __call__(self):
        return self.function(*self.arguments)


class EngineGone(RuntimeError):
    """No worker can be had any more, or one dies each time."""


def _is_one_of(error, names):
    """Whether an error, or what it was raised from, has such a name."""
    while error is not None:
        if any(kind.__name__ in names for kind in type(error).__mro__):
            return True
        error = error.__cause__
    return False


class Engine:
    """Runs tasks on whatever backend is active: in this process, in threads, processes, a cluster.

    Leave it by ``with``, or :meth:`close` it: workers of some backends last as long as it.
    """

    def __init__(self, n_jobs: int | None):
        self.n_jobs = n_jobs
        #: How many times workers were lost.
        self.n_losses = 0
        # What keeps the workers of backends that would start new ones for each call.
        self._kept = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """Let go of workers that were kept; a later task starts new ones."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with contextlib.suppress(Exception):  # a cluster that is gone has none
                kept.__exit__(None, None, None)

    @property
    def n_workers(self) -> int:
        """How many tasks run at once."""
        return max(effective_n_jobs(self.n_jobs), 1)

    @property
    def is_local(self) -> bool:
        """Whether all workers are on this machine."""
        return type(get_active_backend()[0]).__name__ in _HERE

    @property
    def n_threads(self) -> int:
        """Threads for work of the driver's own, which waits for the workers otherwise."""
        return min(self.n_workers, cpu_count())

    def map(self, function: Callable, n_tasks: int, arguments: Callable) -> Iterator:
        """Call ``function(*arguments(k))`` for each k, somewhere."""
        if self.n_workers == 1:
            for k in range(n_tasks):
                yield function(*arguments(k))
            return
        done = losses = 0
        while done < n_tasks:
            try:
                attempt = self._attempt(function, range(done, n_tasks), arguments)
                with contextlib.closing(attempt) as results:
                    for result in results:
                        yield result
                        done, losses = done + 1, 0
                return
            except EngineGone:
                raise
            except Exception as error:
                losses += 1
                self._judge(error, done, losses)

    def _judge(self, error, k, losses):
        """Let a loss pass that may be made up for."""
        if _is_one_of(error, _GONE):
            raise EngineGone(
                f"the workers cannot be reached any more, or cannot read what is sent: {error}"
            ) from error
        if not _is_one_of(error, _LOSSES):
            raise error
        self.n_losses += 1
        if losses > MOST_LOSSES:
            raise EngineGone(
                f"workers died {losses} times while task {k} was waited for (killed, or out of "
                f"memory?): {error}"
            ) from error

    def _attempt(self, function, tasks, arguments):
        """Results until the first error."""
        # On one machine threads share the weights, which processes would have to be sent; kernels
        # release the GIL. Whoever names a backend gets that.
        backend, _ = get_active_backend(prefer="threads")
        options = {"n_jobs": self.n_jobs, "prefer": "threads", "batch_size": 1, "max_nbytes": None}
        call = delayed(function)
        if getattr(backend, "supports_return_generator", False):
            is_loky = type(backend).__name__ == "LokyBackend"
            with watched() if is_loky else contextlib.nullcontext():
                results = Parallel(return_as="generator", **options)(
                    call(*arguments(k)) for k in tasks
                )
                try:
                    yield from results
                finally:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # that tasks are cancelled is meant
                        results.close()
            return
        size = _AT_ONCE * self.n_workers
        for first in range(tasks.start, tasks.stop, size):
            some = range(first, min(first + size, tasks.stop))
            if self._kept is None:
                self._kept = Parallel(**options).__enter__()
            yield from self._kept(delayed(_Sent(function, arguments(k)))() for k in some)

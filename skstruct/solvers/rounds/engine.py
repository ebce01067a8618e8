"""Tasks over joblib's backends: results in order, and lost workers made up for.

Another solver uses it so: its task is a function of a module (workers import it), whose result
depends on its arguments and on files alone; ``engine.map(task, n_tasks, arguments)`` then gives the
same bits whichever worker runs it, and however often.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from ...core.tree import tree_leaves
from ...core.weights import Weights
from ...data.matrices import readable
from ...data.store import own, remove_left

# A worker of loky's pool that is killed while it writes a long message leaves half of it in a pipe
# which all workers share, and the pool waits for the other half for ever. What a pipe takes at
# once, at least 4096 bytes, is whole or absent: so long results go into files.

_SHORT = 2048


class _InFile(NamedTuple):
    """A result in a file, to be read once."""

    path: str

    def take(self):
        """The result."""
        with open(self.path, "rb") as file:
            result = pickle.load(file)
        os.unlink(self.path)
        return result


# Shards: what a worker has of a problem that no process holds as a whole.
#
# A *source* opens shards in any process. It is what tasks carry, so it is small and can be pickled;
# it has ``token``, a string that no other source of this run has, ``n_shards``, ``columns(k)`` and
# ``open(k)``, which returns a :class:`ShardProblem`. Tasks of any solver begin with ``with
# leased(source, k) as shard``; the driver makes what they take by :func:`gather`, and adds what
# they return by :func:`scatter_add`.

# Bytes of shards that a process keeps open.
LIMIT = 1 << 29


class ShardProblem(NamedTuple):
    """A shard as a problem of its own, on its rows of the weights."""

    # A structure's problem, with labels, on local rows; features may be memory maps.
    problem: Any
    # The training loss.
    loss: Any
    # Shapes of the local weight tables: the pair table is the whole one.
    shapes: tuple
    # (n_samples,): Weights whose mean over *all* shards is 1.
    sample_weight: np.ndarray
    # First and second nodes of all edges, and where those of each sample begin.
    ends: tuple = ()
    # Labels that nodes may have.
    n_labels: int = 0


def gather(w: Weights, columns, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights that a shard uses."""
    if columns is None:
        return w.node, w.pair
    n = columns.size
    node = np.empty((n + w.node.shape[0] - n_features, w.node.shape[1]))
    np.take(w.node, columns, axis=0, out=node[:n], mode="clip")
    node[n:] = w.node[n_features:]
    return node, w.pair


def scatter_add(total: Weights, columns, n_features: int, node, pair) -> None:
    """Add tables of a shard to those of all weights."""
    pairs = total.pair
    pairs += pair
    table = total.node
    if columns is None:
        table += node
        return
    table[columns] += node[: columns.size]
    table[n_features:] += node[columns.size :]


def as_weights(node, pair) -> Weights:
    """Tables that have come with a task, as kernels take them: backends may protect arrays."""
    return Weights(readable(node, np.float64), readable(pair, np.float64))


# Shards open in this process and not in use: shard and bytes by token of its source and number.
_LOCK, _OPENED = Lock(), {}


@contextmanager
def leased(source, k: int):
    """Lend shard k of a source exclusively; it is opened once while there is room."""
    key = source.token, k
    with _LOCK:
        shard, _ = _OPENED.pop(key, (None, 0))
    if shard is None:
        shard = source.open(k)
    yield shard
    # Not after an error, whose effect on the shard is unknown.
    size = sum(leaf.nbytes for leaf in tree_leaves(shard) if isinstance(leaf, np.ndarray))
    with _LOCK:
        room = LIMIT - size - sum(n_bytes for _, n_bytes in _OPENED.values())
        # Rounds visit all shards in turn: whatever goes comes too late to be of use, so that it is
        # the new one that goes, unless the old ones are of another fit.
        for old in [old for old in _OPENED if old[0] != source.token]:
            if room < 0:
                room += _OPENED.pop(old)[1]
        if key not in _OPENED and (room >= 0 or not _OPENED):
            _OPENED[key] = shard, size


def close_shards(source) -> None:
    """Close what this process has open of a source; other processes do so when they need room."""
    with _LOCK:
        for key in [key for key in _OPENED if key[0] == source.token]:
            del _OPENED[key]


def kind_of(source, k: int) -> type:
    """The task: the class of a shard's problem, which defines how its samples are decoded."""
    with leased(source, k) as shard:
        return type(shard.problem[0] if type(shard.problem) is tuple else shard.problem)


# Most losses of workers in a row, without a result in between.
MAX_WORKER_FAILURES = 3
# Where a backend gives results at the end only: so many for each worker are waited for at once.
_AT_ONCE = 4
# Names of what backends raise for a worker that died: none of them need be installed.
_WORKER_FAILURES = {
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
# Names of what they raise when no worker is left to send tasks to.
_GONE = {"CommClosedError", "FutureCancelledError", "CancelledError", "RaySystemError"}


def _call(function, arguments, folder=None):
    """The result of a task, in a file of a folder where it is long."""
    result = function(*arguments)
    if folder is None:
        return result
    try:
        content = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return result  # loky knows more of pickling
    if len(content) <= _SHORT:
        return result
    handle, path = tempfile.mkstemp(dir=folder)
    with open(handle, "wb") as file:
        file.write(content)
    return _InFile(path)


class EngineGone(RuntimeError):
    """No worker can be had any more, or one dies each time."""


def _is_one_of(error, names):
    """Return whether an error, or one of its causes, has one of the names."""
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
        #: Number of times that workers were lost.
        self.n_losses = 0
        # Context that keeps the workers of backends which would start new ones for each call.
        self._kept = None
        # A folder for results, and what removes it.
        self._folder = None

    def __enter__(self):
        return self

    def close(self, *error) -> None:
        """Let go of workers that were kept; a later task starts new ones."""
        kept, self._kept = self._kept, None
        if self._folder is not None:
            self._folder[0]()
            self._folder = None
        if kept is not None:
            with contextlib.suppress(Exception):  # a cluster that is gone has none
                kept.__exit__(None, None, None)

    __exit__ = close

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at once."""
        return max(effective_n_jobs(self.n_jobs), 1)

    @property
    def is_local(self) -> bool:
        """True if all workers are on this machine."""
        return type(get_active_backend()[0]).__name__ in _HERE

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
        if not _is_one_of(error, _WORKER_FAILURES):
            raise error
        self.n_losses += 1
        if losses > MAX_WORKER_FAILURES:
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
        if getattr(backend, "supports_return_generator", False):
            folder = self._results() if type(backend).__name__ == "LokyBackend" else None
            # Each call is one small object: Ray keeps large arguments for as long as a pool.
            results = Parallel(return_as="generator", **options)(
                delayed(partial(_call, function, arguments(k), folder))() for k in tasks
            )
            try:
                for result in results:
                    yield result.take() if isinstance(result, _InFile) else result
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
            yield from self._kept(delayed(partial(_call, function, arguments(k)))() for k in some)

    def _results(self):
        """A folder for results, until the engine is closed, or is nobody's any more."""
        if self._folder is None:
            remove_left(Path(tempfile.gettempdir()), "skstruct-rounds-*")
            folder = tempfile.mkdtemp(prefix="skstruct-rounds-")
            own(Path(folder))
            remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._folder = remove, folder
        return self._folder[1]

"""A pool of loky's whose worker died while it sent a result, which the pool itself waits for."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from multiprocessing.connection import wait

try:
    from joblib.externals.loky import reusable_executor
except ImportError:  # pragma: no cover - a joblib that keeps it elsewhere looks after itself
    reusable_executor = None

# A pool that can tell has told long before.
_PATIENCE, _LOOK = 5.0, 0.5


@contextlib.contextmanager
def watched(patience: float = _PATIENCE):
    """Make loky's pool say that it is broken where it would wait for ever.

    It looks for dead workers between results, not within one. Of a worker that is killed while it
    writes half a result lies in the pipe, and the end never comes as long as anybody else may
    write: then the others are ended, and this process's own end of the pipe is closed.
    """
    over = threading.Event()
    watchman = threading.Thread(target=_watch, args=(over, patience), daemon=True)
    watchman.start()
    try:
        yield
    finally:
        over.set()
        watchman.join()


def _watch(over, patience):
    since = {}
    while not over.wait(_LOOK):
        pool = getattr(reusable_executor, "_executor", None)
        try:
            broken, processes = pool._flags.broken, list((pool._processes or {}).values())
            alive = {process.sentinel: process for process in processes}
        except AttributeError:  # there is no pool, or it is none that is known here
            continue
        if broken is not None:
            since = {}
            continue
        now = time.monotonic()
        since = {sentinel: since.get(sentinel, now) for sentinel in wait(list(alive), timeout=0)}
        if any(now - first > patience for first in since.values()):
            _break_up(pool, [p for sentinel, p in alive.items() if sentinel not in since])
            return


def _break_up(pool, others):
    for process in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    with contextlib.suppress(OSError, AttributeError):
        pool._result_queue._writer.close()

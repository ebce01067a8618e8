"""Passes over samples in threads, and the scratch that each thread has of its own."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from threading import Thread
from typing import NamedTuple

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend

from .intrinsics import call_address, fetch_add, load_shared
from .jit.compiling import JIT_IS_DISABLED, compile_seconds, solving_time
from .jit.kernels import inner_kernel
from .offsets import longest_item
from .problem import tree_leaves, tree_like
from .weights import aligned

# Threads that work on one kernel together, and meet in it.
#
# Each calls the kernel with the same *team*, a few counters. Numba's parallel loops are not used:
# the process has one pool of their threads, which two fits at once would need at the same time.

#: Results of :func:`meet`: continue; do the serial part, then :func:`open_gate`; or leave the
#: kernel, since another thread failed.
GO, LEAD, LEAVE = range(3)
#: The team of one thread.
ALONE = np.empty(0, dtype=np.int64)

# Counters, each in its own cache line.
_LINE = 8
_ARRIVED, _GATE, _FAILED, _SIZE, _YIELD, _END = (k * _LINE for k in range(6))
# About ten microseconds: then yield, since the thread waited for may need this processor.
_SPINS = 4000


def _address_of_yield():
    """Return the address of the C function that yields the processor; 0 if there is none."""
    try:
        if sys.platform == "win32":
            function = ctypes.windll.kernel32.SwitchToThread
        else:
            function = ctypes.CDLL(None).sched_yield
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    except (AttributeError, OSError):  # pragma: no cover
        return 0


@inner_kernel
def meet(team):
    """Wait until all threads of the team have arrived."""
    if team.shape[0] == 0:
        return LEAD
    before = load_shared(team, _GATE)
    if fetch_add(team, _ARRIVED, 1) == team[_SIZE] - 1:
        return LEAD
    turns = 0
    while load_shared(team, _GATE) == before:
        if load_shared(team, _FAILED) != 0:
            return LEAVE
        turns += 1
        if turns > _SPINS and team[_YIELD] != 0:
            call_address(team[_YIELD])
    return GO


@inner_kernel(inline=True)
def open_gate(team):
    """Release the threads that wait in :func:`meet`."""
    if team.shape[0] > 0:
        fetch_add(team, _ARRIVED, -team[_SIZE])
        fetch_add(team, _GATE, 1)


def run_team(function, n_threads: int) -> None:
    """Call ``function(k, team)`` for k below `n_threads` at once, for 0 in this thread."""
    if n_threads == 1:
        function(0, ALONE)
        return
    team, errors = np.zeros(_END + _LINE, dtype=np.int64), []
    team[_SIZE], team[_YIELD] = n_threads, _address_of_yield()

    def member(k):
        try:
            function(k, team)
        except BaseException as error:
            errors.append(error)
            team[_FAILED] = 1  # the others leave

    members = [
        Thread(target=member, args=(k,), name=f"skstruct-{k}", daemon=True)
        for k in range(1, n_threads)
    ]
    try:
        for thread in members:
            thread.start()
        function(0, team)
        for thread in members:
            thread.join()
    except BaseException:
        team[_FAILED] = 1
        for thread in members:
            if thread.ident is not None:
                thread.join()
        raise
    if errors:
        raise errors[0]


class Crew:
    """Threads for many calls: fewer while other processes are busy; results do not depend on it."""

    #: Seconds between two counts of the running threads, the fraction of all that is enough, and
    #: the least and largest number of counts with fewer threads before all are tried again.
    SECONDS, ENOUGH, FEWER = 0.2, 0.75, (4, 64)

    def __init__(self, n_threads: int):
        #: Present number of threads.
        self.size = self._most = n_threads
        self._busy = self._elapsed = 0.0
        self._left, self._patience = 0, self.FEWER[0]

    def run(self, function) -> None:
        """:func:`run_team` on as many threads as run at once."""
        busy = [0.0] * self.size

        def timed(k, team):
            began = time.thread_time() - compile_seconds()
            function(k, team)
            busy[k] = time.thread_time() - compile_seconds() - began

        began = solving_time()
        run_team(timed, self.size)
        self._judge(sum(busy), solving_time() - began)

    def _judge(self, busy, elapsed):
        """Set the number of threads to the number that ran at once."""
        self._busy, self._elapsed = self._busy + busy, self._elapsed + elapsed
        if self._elapsed < self.SECONDS:
            return
        running = self._busy / self._elapsed
        self._busy = self._elapsed = 0.0
        if self.size < self._most:
            self._left -= 1
            if self._left <= 0:
                self.size = self._most
        elif running < self.ENOUGH * self._most:
            self.size = max(1, min(int(running + 0.5), self._most - 1))
            self._left, self._patience = self._patience, min(2 * self._patience, self.FEWER[1])
        else:
            self._patience = self.FEWER[0]


# Long passes in pieces, between which Python runs.


class Pieces:
    """Cut a pass into calls of about half a second, for Ctrl-C and callbacks between them.

    The result of a pass must not depend on where it is cut.
    """

    #: Target seconds of a call, and samples in the first call, whose speed is not known.
    SECONDS, FIRST = 0.5, 1

    def __init__(self, after_piece: Callable[[float], bool] | None = None):
        self._after_piece = after_piece
        self._size = self.FIRST
        #: Whether a callback has ended a pass.
        self.stopped = False

    def ranges(self, start: int, stop: int, whole: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield ranges from `start` to `stop`, of a pass to `whole`, sized by the last speeds."""
        first, whole = start, stop if whole is None else whole
        while first < stop:
            last = min(first + self._size, stop)
            began = solving_time()
            yield first, last
            rate = (last - first) / max(solving_time() - began, 1e-9)
            # In bounded steps: the first samples may be short.
            self._size = int(max(1, min(rate * self.SECONDS, 8 * self._size)))
            first = last
            if first < whole and self._after_piece is not None and self._after_piece(first / whole):
                self.stopped = True
                return


# Starting threads costs more than decoding this many nodes.
_NODES_A_THREAD = 2000


class Scratch(NamedTuple):
    """Buffers of one thread."""

    # (max_parts,): Part-space buffers.
    theta: np.ndarray
    mu: np.ndarray
    # (max_nodes,): One labelling.
    labels: np.ndarray


def make_scratch(problem):
    """Buffers that fit the largest sample of `problem`."""
    n_parts, n_nodes = longest_item(problem.part_ptr), longest_item(problem.label_ptr)
    theta, mu = aligned(n_parts, np.empty), aligned(n_parts, np.empty)
    return Scratch(theta, mu, np.empty(n_nodes, dtype=np.int32))


def private_copy(problem):
    """The problem with its own scratch, for one thread; all other arrays are shared."""
    zeros = [tree_like(own, map(_zeros_like, tree_leaves(own))) for own in scratch_of(problem)]
    return with_scratch(problem, zeros)


def scratch_of(problem) -> list:
    """Scratch of the rows and of the space: all that kernels write to."""
    return [problem.rows.work, problem.space.work]


def with_scratch(problem, scratch):
    """The problem with other scratch, in the order of :func:`scratch_of`."""
    rows, space = scratch
    return problem._replace(
        rows=problem.rows._replace(work=rows), space=problem.space._replace(work=space)
    )


def _zeros_like(array):
    """Return zeros, aligned if kernels require it."""
    if array.dtype != np.float64:
        return np.zeros_like(array)
    return aligned(array.size).reshape(array.shape)


def _node_ends(problem):
    """Return the offsets of nodes, or of items for structures that choose among items."""
    return getattr(problem.space, "item_ptr", problem.label_ptr)


def split_samples(problem, n_pieces):
    """Bounds of `n_pieces` runs of samples with about the same number of nodes."""
    ends = _node_ends(problem)
    bounds = np.searchsorted(ends, np.linspace(0, ends[-1], n_pieces + 1))
    bounds[0], bounds[-1] = 0, ends.size - 1
    return bounds.astype(np.int64)


def useful_threads(problem):
    """Return the number of threads that a pass over samples can use, from the data alone."""
    n_samples = problem.label_ptr.size - 1
    return max(int(min(_node_ends(problem)[-1] // _NODES_A_THREAD, n_samples)), 1)


def effective_threads(n_jobs):
    """Return the number of threads that `n_jobs` stands for here."""
    backend, _ = get_active_backend()
    # Joblib's own; those of clusters count all processors there, whatever is asked for.
    if type(backend).__module__ == "joblib._parallel_backends":
        return effective_n_jobs(n_jobs)
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning")
    return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


def count_threads(problem, n_jobs):
    """Return the number of threads for a pass over samples; 1 where kernels cannot synchronise."""
    useful = 1 if JIT_IS_DISABLED else useful_threads(problem)
    return min(effective_threads(n_jobs), useful) if useful > 1 else 1


def team_pieces(team, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Pieces of a range, for one thread of a team, until another one fails."""
    for piece in Pieces().ranges(start, stop):
        if team.size and team[_FAILED]:
            return
        yield piece


def over_samples(function, problem, n_jobs) -> list:
    """Call ``function(problem, start, stop)`` on runs of samples, in threads, in pieces."""
    n_threads = count_threads(problem, n_jobs)
    if problem.label_ptr.size == 2:
        return [function(problem, 0, 1)]
    if n_threads == 1:
        pieces = Pieces().ranges(0, problem.label_ptr.size - 1)
        return [function(problem, *piece) for piece in pieces]
    runs = list(pairwise(split_samples(problem, n_threads).tolist()))
    results = [[] for _ in runs]

    def work(k, team):
        part = private_copy(problem) if k else problem
        for piece in team_pieces(team, *runs[k]):
            results[k].append(function(part, *piece))

    run_team(work, n_threads)
    return list(chain.from_iterable(results))


def over_blocks(function, n_blocks: int, n_threads: int) -> list:
    """Return ``function(b)`` for all b below `n_blocks`, in order, computed in threads."""
    n_threads = min(n_threads, n_blocks)
    if n_threads <= 1:
        return [function(b) for b in range(n_blocks)]
    results = [None] * n_blocks

    def work(k, team):
        for b in range(k, n_blocks, n_threads):
            results[b] = function(b)

    run_team(work, n_threads)
    return results

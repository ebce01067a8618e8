"""Threads that work on one kernel together, and meet in it.

Each calls the kernel with the same *team*, a few counters. Numba's parallel loops are not used:
their threads are shared by the process, and two fits at once would need them at the same time.
"""

from __future__ import annotations

import ctypes
import sys
import time
from threading import Thread

import numpy as np
from llvmlite import ir
from numba import types

from .dispatch import inner_kernel
from .numba_private import JIT_IS_DISABLED, intrinsic

#: What :func:`meet` says: go on; be the one to do what one does for all, then :func:`open_gate`;
#: or leave the kernel, since another thread failed.
GO, LEAD, LEAVE = range(3)
#: The team of one thread.
ALONE = np.empty(0, dtype=np.int64)

# Counters, each in a cache line of its own.
_LINE = 8
_ARRIVED, _GATE, _FAILED, _SIZE, _YIELD, _END = (k * _LINE for k in range(6))
# Some ten microseconds: then the processor may be another's, who may be the one to wait for.
_SPINS = 4000


def _address_of_yield():
    """Of the C function without arguments that lets other threads run; 0 where there is none."""
    try:
        if sys.platform == "win32":
            function = ctypes.windll.kernel32.SwitchToThread
        else:
            function = ctypes.CDLL(None).sched_yield
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    except (AttributeError, OSError):  # pragma: no cover
        return 0


def _place(context, builder, signature, args):
    """Where an entry of an array lies."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _plain_add(array, at, value):
    before = array[at]
    array[at] = before + value
    return before


@intrinsic(_plain_add)
def fetch_add(typingctx, array, at, value):
    """Add to an entry of an int64 array; returns what it was: no two threads get the same."""

    def codegen(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        return builder.atomic_rmw("add", place, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), codegen


@intrinsic(lambda array, at: array[at])
def _load(typingctx, array, at):
    """An entry of an int64 array that other threads write to."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@intrinsic(lambda address: None)
def _call(typingctx, address):
    """Call the C function at an address; its name could not be kept in the cache of kernels."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.IntType(32), []).as_pointer()
        builder.call(builder.inttoptr(args[0], function), [])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@inner_kernel
def meet(team):
    """Wait until all threads of a team are here."""
    if team.shape[0] == 0:
        return LEAD
    before = _load(team, _GATE)
    if fetch_add(team, _ARRIVED, 1) == team[_SIZE] - 1:
        return LEAD
    turns = 0
    while _load(team, _GATE) == before:
        if _load(team, _FAILED) != 0:
            return LEAVE
        turns += 1
        if turns > _SPINS and team[_YIELD] != 0:
            _call(team[_YIELD])
    return GO


@inner_kernel(inline=True)
def open_gate(team):
    """Let the threads go on that wait in :func:`meet`."""
    if team.shape[0] > 0:
        fetch_add(team, _ARRIVED, -team[_SIZE])
        fetch_add(team, _GATE, 1)


class _Member(Thread):
    """A thread that keeps what it raised, and then lets the others leave."""

    def __init__(self, function, k, team):
        super().__init__(name=f"skstruct-{k}", daemon=True)
        self._call, self._team = (function, k, team), team
        self.error = None

    def run(self):
        function, k, team = self._call
        try:
            function(k, team)
        except BaseException as error:
            self.error = error
            team[_FAILED] = 1


def run_team(function, n_threads: int) -> None:
    """Call ``function(k, team)`` for k below `n_threads` at once, for 0 in this thread."""
    if n_threads == 1 or JIT_IS_DISABLED:
        function(0, ALONE)
        return
    team = np.zeros(_END + _LINE, dtype=np.int64)
    team[_SIZE], team[_YIELD] = n_threads, _address_of_yield()
    members = [_Member(function, k, team) for k in range(1, n_threads)]
    try:
        for member in members:
            member.start()
        function(0, team)
        for member in members:
            member.join()
    except BaseException:
        team[_FAILED] = 1
        for member in members:
            if member.ident is not None:
                member.join()
        raise
    for member in members:
        if member.error is not None:
            raise member.error


class Crew:
    """Threads for many calls: fewer of them while other processes have the processors.

    Threads that meet all wait for the one that does not run. What they compute does not depend on
    how many they are.
    """

    #: Seconds after which it is judged how many ran, the share of them that is enough, and for how
    #: many such times there are fewer before all are tried again.
    SECONDS, ENOUGH, FEWER = 0.2, 0.75, (4, 64)

    def __init__(self, n_threads: int):
        #: How many there are at present.
        self.size = self._most = 1 if JIT_IS_DISABLED else n_threads
        self._busy = self._elapsed = 0.0
        self._left, self._patience = 0, self.FEWER[0]

    def run(self, function) -> None:
        """:func:`run_team` on as many threads as are of use."""
        if self._most == 1:
            run_team(function, 1)
            return
        busy = [0.0] * self.size

        def timed(k, team):
            began = time.thread_time()
            function(k, team)
            busy[k] = time.thread_time() - began

        began = time.perf_counter()
        run_team(timed, self.size)
        self._judge(sum(busy), time.perf_counter() - began)

    def _judge(self, busy, elapsed):
        """Take as many threads as ran at once."""
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

"""The budget of a MAP run: its clock, time limit, callbacks, Ctrl-C and lines on the terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager
from math import inf

from ..core.interrupts import interrupts_call
from ..core.jit.compiling import compile_seconds, solving_time
from ..core.sklearn_private import CallbackSupportMixin, with_callbacks

_STEPS = 100
_LONG_STEP = 1.0
_SECONDS_A_LINE = 1.0
_SECONDS_A_PIECE = 0.1


class Stopped(Exception):
    """The budget is spent in the middle of a pass, or of its preparation."""


class MAPInference(CallbackSupportMixin):
    """Estimator that scikit-learn's callbacks see in a run of ``solve_map``."""

    @with_callbacks
    def run(self, budget, function):
        """Call a function while the callbacks are set up."""
        budget.context = self._init_callback_context("solve_map", max_subtasks=_STEPS)
        budget.context.call_on_fit_task_begin(estimator=self)
        result = function()
        budget.context.call_on_fit_task_end(estimator=self)
        return result


class Budget:
    """Decide between passes whether to stop; report progress to callbacks and the terminal."""

    def __init__(self, time_limit=None, callbacks=(), verbose=0, name="MAP"):
        self._printed = self._piece_began = time.perf_counter()
        self._began, self._compiled = solving_time(), compile_seconds()
        self._limit, self._end_of_part = inf if time_limit is None else time_limit, inf
        self._verbose, self._name = verbose, name
        self.reason = ""
        self._host = MAPInference().set_callbacks(*callbacks)
        self._has_callbacks = bool(callbacks)
        self.context = self._step = None
        self._steps_done = 0

    @property
    def seconds(self) -> float:
        """Since the beginning, without compiling."""
        return solving_time() - self._began

    @property
    def compile_seconds(self) -> float:
        """Seconds of compiling since the start."""
        return compile_seconds() - self._compiled

    @property
    def seconds_left(self) -> float:
        """Until the time limit, or the end of the present part; inf without a limit."""
        return min(self._limit, self._end_of_part) - self.seconds

    @contextmanager
    def part(self, seconds=inf):
        """Within it, the budget is spent after so many seconds."""
        self._end_of_part = self.seconds + seconds
        try:
            yield
        finally:
            self._end_of_part = inf

    def __call__(self, share, bound=None, score=None):
        """Return whether to stop, when `share` of the work is done."""
        seconds = self.seconds
        share = min(max(share, seconds / self._limit), 1.0)
        if seconds >= self._limit and not self.reason:
            self.reason = "the time limit is reached"
        if self._verbose:
            self._print(share, bound, score)
        if self.context is not None and self._has_callbacks:
            self._tell(share)
        return bool(self.reason) or seconds >= self._end_of_part

    def check(self, share=0.0, bound=None, score=None):
        """Raise `Stopped` if it is time to stop."""
        if self(share, bound, score):
            raise Stopped

    def _print(self, share, bound, score):
        now = time.perf_counter()
        if self._verbose < 2 and now - self._printed < _SECONDS_A_LINE:
            return
        self._printed = now
        known = "" if bound is None else f", bound {bound:.9g}"
        known += "" if score is None else f", score {score:.9g}"
        print(f"[{self._name}] {self.seconds:.2f} s, {share:.0%}{known}")

    def _tell(self, share):
        """Report steps of a hundredth each to callbacks, and pieces of those that take long."""
        stop = False
        while self._steps_done < int(share * _STEPS):
            self._begin_step(max_subtasks=0)
            stop |= self._step.call_on_fit_task_end(estimator=self._host)
            self._step, self._piece_began = None, time.perf_counter()
            self._steps_done += 1
        now = time.perf_counter()
        wait = _LONG_STEP if self._step is None else _SECONDS_A_PIECE
        if self._steps_done < _STEPS and now - self._piece_began >= wait:
            self._piece_began = now
            self._begin_step(max_subtasks=None)
            piece = self._step.subcontext(task_name="piece")
            piece.call_on_fit_task_begin(estimator=self._host)
            stop |= piece.call_on_fit_task_end(estimator=self._host)
        if stop and not self.reason:
            self.reason = "a callback has stopped it"

    def _begin_step(self, max_subtasks):
        if self._step is None:
            self._step = self.context.subcontext(task_name="step", max_subtasks=max_subtasks)
            self._step.call_on_fit_task_begin(estimator=self._host)

    def run(self, function):
        """The result of a function; Ctrl-C makes the budget stop it, a second one breaks it off."""

        def stop():
            self.reason = "interrupted"

        with interrupts_call(stop):
            return self._host.run(self, function)

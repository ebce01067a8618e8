"""Between the passes of a MAP solver: time limits, Ctrl-C, callbacks, lines on the terminal."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager

from sklearn.callback import CallbackSupportMixin, with_callbacks

from ..core.jit.numba_private import compile_seconds
from ..core.parallel import Pieces

# Long passes of MAP solvers in pieces, between which a watch is asked whether to stop.


class Asking:
    """What the parts of a solver have that may be stopped within a pass."""

    def __init__(self):
        self._pieces = Pieces(self._piece_done)
        self.stopped, self._ask = False, None

    def _piece_done(self, share):
        self.stopped |= self._ask is not None and bool(self._ask())
        return self.stopped


_STEPS = 100
_LONG_STEP = 1.0
_SECONDS_A_LINE = 1.0
_SECONDS_A_PIECE = 0.1


def solving_time() -> float:
    """Seconds on a clock that stands while this thread compiles kernels, or loads them."""
    return time.perf_counter() - compile_seconds()


class MAPInference(CallbackSupportMixin):
    """What scikit-learn's callbacks see as the estimator of a run of ``solve_map``."""

    @with_callbacks
    def run(self, watch, function):
        """Call a function while the callbacks are set up."""
        context = self._init_callback_context("solve_map", max_subtasks=_STEPS)
        context.call_on_fit_task_begin(estimator=self)
        watch.context = context
        result = function()
        context.call_on_fit_task_end(estimator=self)
        return result


class Watch:
    """Ask between passes whether to stop, and tell callbacks and the terminal of the progress."""

    def __init__(self, time_limit=None, callbacks=(), verbose=0, name="MAP"):
        self._printed = self._piece_began = time.perf_counter()
        self._began, self._compiled = solving_time(), compile_seconds()
        self._limit = time_limit
        self._verbose, self._name = verbose, name
        self.reason = ""
        self._host = MAPInference()
        self._host.set_callbacks(*callbacks)
        self._has_callbacks = bool(callbacks)
        self.context = self._step = None
        self._steps_done = 0

    @property
    def seconds(self) -> float:
        """Since the beginning, without compiling."""
        return solving_time() - self._began

    @property
    def compile_seconds(self) -> float:
        """Of compiling since the beginning."""
        return compile_seconds() - self._compiled

    @property
    def seconds_left(self) -> float:
        """Until the time limit; inf without one."""
        return float("inf") if self._limit is None else self._limit - self.seconds

    def __call__(self, share, bound=None, score=None):
        """Whether to stop; `share` of the work is done."""
        if self._limit is not None:
            share = max(share, self.seconds / self._limit)
            if not self.reason and self.seconds >= self._limit:
                self.reason = "the time limit is reached"
        if self._verbose:
            self._print(share, bound, score)
        if self.context is not None and self._has_callbacks:
            self._tell(min(share, 1.0))
        return bool(self.reason)

    def _print(self, share, bound, score):
        now = time.perf_counter()
        if self._verbose < 2 and now - self._printed < _SECONDS_A_LINE:
            return
        self._printed = now
        known = "" if bound is None else f", bound {bound:.9g}"
        known += "" if score is None else f", score {score:.9g}"
        print(f"[{self._name}] {self.seconds:.2f} s, {min(share, 1.0):.0%}{known}")

    def _tell(self, share):
        """Steps of a hundredth each; the callbacks hear of pieces of those that take long."""
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
        """The result of a function; Ctrl-C makes the watch stop it, a second one breaks it off."""
        with self._interruptible():
            return self._host.run(self, function)

    @contextmanager
    def _interruptible(self):
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def stop(number, frame):
            if self.reason == "interrupted":
                raise KeyboardInterrupt
            self.reason = "interrupted"

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Part:
    """The watch of a part of a run, whose progress counts from `start` to `stop`."""

    def __init__(self, watch, start=0.0, stop=1.0, seconds=None):
        self._watch, self._start, self._stop = watch, start, stop
        self._end = float("inf") if seconds is None else watch.seconds + seconds

    @property
    def seconds(self) -> float:
        """Of the whole."""
        return self._watch.seconds

    @property
    def seconds_left(self) -> float:
        """For this part."""
        return min(self._watch.seconds_left, self._end - self.seconds)

    @property
    def reason(self) -> str:
        """Why the whole is to stop."""
        return self._watch.reason

    def __call__(self, share, bound=None, score=None):
        """Whether to stop the part."""
        whole = self._start + (self._stop - self._start) * min(share, 1.0)
        return self._watch(whole, bound, score) or self.seconds >= self._end

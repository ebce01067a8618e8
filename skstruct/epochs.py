"""Tell scikit-learn's callbacks, and the terminal, how a fit goes on."""

from __future__ import annotations

import copy
import time

import numpy as np

# Passes longer than this have subtasks, so that callbacks hear of them in between.
_LONG_PASS = 1.0
_SECONDS_A_LINE = 5.0


def _what_is_known(record, tol):
    """The numbers of a pass: without an objective, whatever else there is."""
    known = {name: value for name, value in record.items() if np.isfinite(value)}
    if "objective" in known:
        objective, gap = known["objective"], known.get("dual_gap")
        if gap is None:
            return f"objective {objective:.6f}"
        relative = gap / objective if objective > 0 else np.inf
        return f"objective {objective:.6f}, relative duality gap {relative:.1e} (tol {tol:.1e})"
    rest = [
        f"{words} {known[name]:{form}}"
        for name, words, form in (
            ("dual_objective", "at least", ".6f"),
            ("infeasibility", "infeasibility", ".2e"),
        )
        if name in known
    ]
    return ", ".join(["objective not evaluated", *rest])


class Epochs:
    """Report each pass, and each piece of a long one, and ask whether to stop.

    A pass is known to be long only while it runs, and scikit-learn wants to know of subtasks when
    a task begins. So a task begins when its pass has taken a second, or has ended.
    """

    def __init__(self, estimator, context, X, y, fitted):
        self.estimator, self.context = estimator, context
        self.data = {"estimator": estimator, "X": X, "y": y}
        self.fitted = fitted
        self.count, self.task = 0, None
        self.began = self.printed = time.perf_counter()

    def _begin(self, max_subtasks):
        # A task that has no subtasks has no progress bar of its own, either.
        self.task = self.context.subcontext(task_name="epoch", max_subtasks=max_subtasks)
        self.task.call_on_fit_task_begin(**self.data)

    def after_piece(self, share):
        """Report a part of a pass."""
        estimator, now = self.estimator, time.perf_counter()
        if estimator.verbose and now - self.printed > _SECONDS_A_LINE:
            self.printed = now
            print(f"[{type(estimator).__name__}] epoch {self.count + 1}: {share:.0%}")
        if self.task is None:
            if now - self.began < _LONG_PASS:
                return False
            self._begin(max_subtasks=None)
        piece = self.task.subcontext(task_name="piece")
        piece.call_on_fit_task_begin(**self.data)
        return piece.call_on_fit_task_end(**self.data)

    def __call__(self, record, weights):
        """Report a pass; see :class:`skstruct.solvers.progress.Progress`."""
        self.count += 1
        estimator = self.estimator
        if estimator.verbose:
            name = type(estimator).__name__
            print(
                f"[{name}] epoch {self.count}: passes {record['passes']:.1f}, "
                f"{record['seconds']:.2f} s, {_what_is_known(record, estimator.tol)}"
            )

        def attributes():
            # What a callback does to its model must not reach the training; the weights are copies
            # already. And the model must not show what an earlier fit has found out.
            tables = zip(estimator._tables, weights().tables, strict=True)
            now = dict(tables) | {"n_iter_": self.count}
            return {"__dict__": vars(estimator._unfitted()) | copy.deepcopy(self.fitted) | now}

        if self.task is None:
            self._begin(max_subtasks=0)
        stop = self.task.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)
        self.task, self.began = None, time.perf_counter()
        return stop

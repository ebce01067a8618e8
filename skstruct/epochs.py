"""Tell scikit-learn's callbacks, and the terminal, how a fit goes on."""

from __future__ import annotations

import time

import numpy as np

# Passes longer than this have subtasks, so that callbacks hear of them in between.
_LONG_PASS = 1.0
# As many numbers in part space take about as long.
_MANY_PARTS = 20_000_000
_SECONDS_A_LINE = 5.0


class Epochs:
    """Report each pass, and each piece of a long one, and ask whether to stop.

    Parameters
    ----------
    estimator : StructuredEstimator
        The estimator that the user fits.
    context : sklearn.callback.CallbackContext
        The task of its fit.
    X, y : object
        What the user gave.
    fitted : dict
        Fitted attributes that do not change from pass to pass.
    n_parts : int
        Size of the data in part space: whether the first pass is a long one.
    """

    def __init__(self, estimator, context, X, y, fitted, n_parts):
        self.estimator, self.context, self.X, self.y = estimator, context, X, y
        self.fitted = fitted
        self.count = 0
        self._begin(n_parts > _MANY_PARTS)

    def _begin(self, long):
        self.has_pieces = long
        self.began = self.printed = time.perf_counter()
        # A task that has no subtasks has no progress bar of its own, either.
        self.task = self.context.subcontext(task_name="epoch", max_subtasks=None if long else 0)
        self.task.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)

    def after_piece(self, share):
        """Report a part of a pass.

        Parameters
        ----------
        share : float
            How much of the pass is done.

        Returns
        -------
        bool
            Whether a callback wants to stop.
        """
        estimator, now = self.estimator, time.perf_counter()
        if estimator.verbose and now - self.printed > _SECONDS_A_LINE:
            self.printed = now
            print(f"[{type(estimator).__name__}] epoch {self.count + 1}: {share:.0%}")
        if not self.has_pieces:
            return False
        piece = self.task.subcontext(task_name="piece")
        data = {"estimator": estimator, "X": self.X, "y": self.y}
        piece.call_on_fit_task_begin(**data)
        return piece.call_on_fit_task_end(**data)

    def __call__(self, record, weights):
        """Report a pass; see :class:`skstruct.solvers.progress.Progress`.

        Parameters
        ----------
        record : dict
            The entries of the history.
        weights : callable
            Returns the current weights.

        Returns
        -------
        bool
            Whether a callback wants to stop.
        """
        self.count += 1
        estimator = self.estimator
        if estimator.verbose:
            gap = record.get("dual_gap", np.nan)
            print(
                f"[{type(estimator).__name__}] epoch {self.count}: passes {record['passes']:.1f}, "
                f"{record['seconds']:.2f} s, objective {record['objective']:.6f}"
                + (f", duality gap {gap:.2e}" if np.isfinite(gap) else "")
            )

        def attributes():
            node, pair = weights()
            now = {"node_weights_": node, "pair_weights_": pair, "n_iter_": self.count}
            return self.fitted | now

        stop = self.task.call_on_fit_task_end(
            estimator=estimator, X=self.X, y=self.y, reconstruction_attributes=attributes
        )
        if not stop and self.count < estimator.max_iter:
            self._begin(time.perf_counter() - self.began > _LONG_PASS)
        return stop

"""Fits with their curves: what the scripts of this folder measure."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest import mock

import numpy as np
from sklearn.base import clone

_COMPILED = 12


class Watch:
    """A callback that measures the model after some passes, and ends fits that take too long.

    Parameters
    ----------
    measure : callable, optional
        ``measure(model)``, a number.
    seconds : float
        CPU seconds that a fit may take, measures not counted.
    clock : list, optional
        CPU seconds after each epoch that count instead.
    """

    def __init__(self, measure=None, seconds=np.inf, clock=None):
        self.measure, self.seconds, self.clock = measure, seconds, clock
        self.epochs, self.values, self.spent, self._next = [], [], 0.0, 1

    def setup(self, estimator, context):
        """Begin."""
        self._begin = time.process_time()

    def teardown(self, estimator, context):
        """Nothing to do."""

    on_fit_task_begin = teardown

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        """After an epoch."""
        if context.task_name != "epoch":
            return False
        now, epoch = time.process_time(), context.task_id
        if self.measure is not None and epoch + 1 >= self._next:
            self.epochs.append(epoch)
            self.values.append(self.measure(fitted_estimator))
            self._next = max(epoch + 2, int(1.15 * (epoch + 1)))
            self.spent += time.process_time() - now
        used = now - self._begin - self.spent if self.clock is None else self.clock[-1]
        return used > self.seconds


@contextmanager
def epochs_timed(methods):
    """Measure the epochs of methods: yields the CPU seconds of all so far, after each."""
    clock = []

    def timed(epoch):
        def run(*args):
            start = time.process_time()
            epoch(*args)
            clock.append(time.process_time() - start + (clock[-1] if clock else 0.0))

        return run

    with ExitStack() as stack:
        for method in methods:
            stack.enter_context(mock.patch.object(method, "epoch", timed(method.epoch)))
        yield clock


class Run(NamedTuple):
    """A fit: its model, and by epoch passes, CPU seconds and objectives (NaN where unknown)."""

    model: object
    passes: np.ndarray
    seconds: np.ndarray
    objective: np.ndarray
    measured: tuple  # epochs and values

    def curve(self, by="passes", best=0.0, smallest=True):
        """Objectives, or with the best one distances relative to it, as points of a figure."""
        known = np.isfinite(self.objective)
        values = self.objective[known]
        if smallest:
            values = np.minimum.accumulate(values)
        if best:
            values = np.maximum(values / best - 1.0, 1e-9)
        return [getattr(self, by)[known], values]

    def measures(self, by="passes"):
        """What the callback measured."""
        epochs, values = self.measured
        kept = [k for k in range(len(epochs)) if epochs[k] < len(self.passes)]
        return [getattr(self, by)[[epochs[k] for k in kept]], np.array([values[k] for k in kept])]

    @property
    def least(self):
        """The smallest objective."""
        return float(np.nanmin(self.objective))


def fit(model, X, y, measure=None, seconds=np.inf, only_epochs=()):
    """Fit after all kernels were compiled on a few samples.

    The clock leaves out certificates and whatever else is outside the epochs of the methods
    `only_epochs`, one of which the model must run.
    """
    few = min(_COMPILED, len(y))
    small = clone(model).set_params(max_iter=1).fit(X[:few], y[:few])
    if measure is not None:
        small.predict(X[:few])
    with epochs_timed(only_epochs) as clock:
        watch = Watch(measure, seconds, clock if only_epochs else None)
        start = time.process_time()
        model.set_callbacks(watch).fit(X, y)
        spent = time.process_time() - start - watch.spent
    history = model.history_
    # The history has the wall clock of the solver, the neighbours' work included.
    wall = history["seconds"]
    clock = np.array(clock) if only_epochs else wall * (spent / max(wall[-1], 1e-9))
    measured = watch.epochs, watch.values
    return Run(model, history["passes"], clock, history["objective"], measured)

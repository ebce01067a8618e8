"""Callbacks for fits: early stopping, a limit on their time, and copies of the model on disk."""

from __future__ import annotations

import glob
import os
import time
from numbers import Real
from pathlib import Path
from typing import Any

import joblib
from sklearn.base import clone

from .core.arguments import warn_user
from .core.sklearn_private import CallbackContext
from .core.typing import PathLike
from .data.store import remove_parts, written_beside
from .estimators.base import StructuredEstimator, fitted_state
from .estimators.early_stopping import EarlyStopping

__all__ = ["Checkpoint", "EarlyStopping", "TimeLimit"]


class _Timed:
    """A callback that times each fit that it watches; clones share it, perhaps across threads."""

    def __init__(self) -> None:
        self._since = {}

    def setup(self, estimator: Any, context: CallbackContext) -> None:
        """Begin to watch a fit."""
        if not isinstance(estimator, StructuredEstimator):
            name, host = type(self).__name__, type(estimator).__name__
            raise TypeError(
                f"{name} watches the passes of an estimator of skstruct, which {host} does not "
                f"have: set it on the estimator inside, as in model[-1].set_callbacks(...)"
            )
        self._restart(estimator)

    def teardown(self, estimator: Any, context: CallbackContext) -> None:
        """The fit has ended, or failed."""
        self._since.pop(id(estimator), None)

    def on_fit_task_begin(self, estimator: Any, context: CallbackContext) -> None:
        """Nothing to do."""

    def _restart(self, estimator):
        self._since[id(estimator)] = time.monotonic()

    def _seconds(self, estimator):
        return time.monotonic() - self._since[id(estimator)]


def _check_seconds(name, value, positive):
    """`value`, if it is a number of seconds."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and (value > 0 if positive else value >= 0)):
        kind = "positive" if positive else "nonnegative"
        raise ValueError(f"{name} must be a {kind} number of seconds, got {value!r}")
    return value


class TimeLimit(_Timed):
    """Stop training after a time limit, and keep the model trained so far.

    The model is complete, with its certificate: ``suboptimality_`` is its distance from the
    optimum. There is no ConvergenceWarning. In cross-validation and searches the limit applies to
    each fit.

    Passes longer than a second are interrupted; the final evaluation of the weights takes one more
    pass. Read more in the :ref:`User Guide <watching>`.

    Parameters
    ----------
    seconds : float
        Time limit, from the end of reading the training data; compilation counts.

    Raises
    ------
    ValueError
        If `seconds` is not a positive number.
    TypeError
        In ``fit``, if the estimator is not one of this package.

    See Also
    --------
    Checkpoint : Saves the model periodically.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.callbacks import TimeLimit
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> crf = SAGCRF(tol=0.0, max_iter=10**6).set_callbacks(TimeLimit(0.1)).fit(X, y)
    >>> crf.n_iter_ < 10**6
    True
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = _check_seconds("seconds", seconds, positive=True)

    def on_fit_task_end(self, estimator: Any, context: CallbackContext) -> bool:
        """Return whether the time is up."""
        return self._seconds(estimator) >= self.seconds


class Checkpoint(_Timed):
    """Save the model to a file periodically during training, and at its end.

    The file is replaced atomically, so that it always holds a complete model. Models are written
    after passes, with the current weights (for averaging solvers the average); they predict, but
    have no certificate, ``history_`` or callbacks until the end. If writing fails, as on a full
    disk, there is a warning and training continues. A process killed during writing leaves
    ``<path>.<process>-<number>.part`` behind, which the next fit with this path deletes.

    ``joblib.load(path).set_params(warm_start=True).fit(X, y)`` continues an interrupted fit from
    the weights in the file; in a pipeline, put the loaded estimator into its last step. The state
    of the solver is not stored: at a small `tol` the rest may take more epochs than a new fit, and
    BCFWSSVM, whose dual point is as large as the data, starts from scratch. Read more in the
    :ref:`User Guide <watching>`.

    Parameters
    ----------
    path : str or Path
        The file. Its folder must exist.
    every_seconds : float, default=600.0
        Minimum time between two files; 0 writes one after every pass. The weights are copied after
        every pass in any case.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, PermissionError
        In ``fit``, before training, if `path` is a folder, or its folder is missing or read-only.

    See Also
    --------
    TimeLimit : Stops after a time limit.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import joblib, numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.callbacks import Checkpoint
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "crf.joblib"
    ...     crf = SAGCRF(tol=0.1, random_state=0).set_callbacks(Checkpoint(path)).fit(X, y)
    ...     stored = joblib.load(path)
    >>> stored.score(X, y) == crf.score(X, y)
    True
    """

    def __init__(self, path: PathLike, every_seconds: float = 600.0) -> None:
        super().__init__()
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a str or a Path, got {path!r}")
        self.path = path
        self.every_seconds = _check_seconds("every_seconds", every_seconds, positive=False)

    def setup(self, estimator: Any, context: CallbackContext) -> None:
        """Reject a path that cannot be written to before the time is spent."""
        super().setup(estimator, context)
        path = Path(self.path)
        if path.is_dir():
            raise IsADirectoryError(f"Checkpoint: {path} is a folder, expected a file")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"Checkpoint: {path.parent} is no folder")
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(f"Checkpoint: the folder {path.parent} cannot be written to")
        remove_parts(path.parent, glob.escape(path.name))

    def on_fit_task_end(
        self, estimator: Any, context: CallbackContext, *, fitted_estimator: Any
    ) -> None:
        """Write the model, if it is time to."""
        if fitted_estimator is None:
            return
        if context.task_name == "fit" or self._seconds(estimator) >= self.every_seconds:
            self._write(fitted_estimator)
            self._restart(estimator)

    def _write(self, model):
        kept = clone(model).set_callbacks()
        vars(kept).update(fitted_state(model))
        path = Path(self.path)
        try:
            with written_beside(path, lasting=True) as file:
                joblib.dump(kept, file)
        except OSError as error:
            warn_user(f"Checkpoint: {path} was not written: {error}")

"""What the tests of certificates ask of a run."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning


def bounds(model, X, y, **more):
    """Largest dual and smallest primal bound of a run, at any time of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, **more)
    history = model.history_
    assert np.isfinite(model.objective_)
    primal = np.nanmin(np.append(history["objective"], model.objective_))
    if not hasattr(model, "dual_objective_"):
        return -np.inf, primal
    assert model.dual_objective_ == model.objective_ - model.dual_gap_
    assert model.dual_objective_ <= model.objective_
    # What tol is compared with leaves the last digits of the objective out.
    digits = 2e-12 * model.objective_
    assert model.dual_gap_ == pytest.approx(model.suboptimality_ * model.objective_, abs=digits)
    assert np.nanmin(np.append(history["dual_objective"], model.dual_objective_)) >= 0.0
    return np.nanmax(np.append(history["dual_objective"], model.dual_objective_)), primal

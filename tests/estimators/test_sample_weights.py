"""A weight of 2 is the sample twice, a weight of 0 is no sample: at the accuracy that tol gives."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    MultiClass,
    ProxLinearSSVM,
    SubgradientSSVM,
)
from skstruct.testing import random_sequences

C = 0.1

# Each estimator at a tight tol, and the largest distance of two fits, over the norm of the weights,
# that its certificates leave open there. Smooth losses get much closer than the hinge.
CRFS = [
    ({"solver": "sag", "tol": 1e-14}, 1e-6),
    ({"solver": "saga", "tol": 1e-14}, 1e-6),
    ({"solver": "lbfgs", "tol": 1e-14}, 1e-6),
    ({"solver": "casimir", "tol": 1e-14}, 1e-6),
    ({"solver": "oeg", "tol": 1e-8}, 1e-3),
]
SVMS = [
    (BCFWSSVM(tol=1e-8, max_iter=20000), 1e-3),
    (CasimirSSVM(tol=1e-5, max_iter=2000), 2e-2),
    (ExtragradientSSVM(tol=1e-5, max_iter=20000), 3e-2),
    (GDMMSSVM(tol=1e-6, max_iter=20000), 1e-2),
    (GDMMSSVM(algorithm="gdmm", tol=1e-6, max_iter=20000), 1e-2),
    (SubgradientSSVM(tol=0.0, max_iter=2000), 0.2),
    (ProxLinearSSVM(smoothing_strength=0.01, tol=1e-3), 0.2),
]


@pytest.fixture(scope="module")
def data():
    X, y = random_sequences(np.random.default_rng(0), n_samples=24)
    return X, y, np.random.default_rng(1).permutation(np.arange(24) % 5)


def _repeated(data):
    X, y, weight = data
    order = np.repeat(np.arange(len(X)), weight)
    return [X[i] for i in order], [y[i] for i in order]


def _tables(model):
    linear = model.score_params_ if hasattr(model, "score_params_") else model.node_weights_.ravel()
    return np.concatenate([linear, model.pair_weights_.ravel()])


def _compare(model, data, most, lower=None):
    """Fit both ways; strong convexity says how far the weights can be from the one optimum."""
    X, y, weight = data
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(*_repeated(data))
    if lower is None:
        # The bound of either fit holds for the other one.
        lower = max(weighted.dual_objective_, repeated.dual_objective_)
    gaps = np.array([weighted.objective_, repeated.objective_]) - lower
    assert (gaps >= -1e-13 * lower).all()
    radius = np.sqrt(2.0 * C * weight.sum() * gaps.clip(0.0)).sum()
    w = _tables(repeated)
    assert np.linalg.norm(_tables(weighted) - w) <= radius + 1e-13 * np.linalg.norm(w)
    assert radius <= most * np.linalg.norm(w)
    # Without weights the optimum is another one, and farther away than that.
    assert np.linalg.norm(_tables(clone(model).fit(X, y)) - w) > radius


def _seeded(model):
    model.set_params(graph=Chain(), C=C)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@pytest.mark.parametrize(("options", "most"), CRFS, ids=lambda value: str(value))
def test_weights_are_repetitions_for_crfs(data, options, most):
    _compare(_seeded(SAGCRF(max_iter=5000, **options)), data, most)


@pytest.fixture(scope="module")
def lower_bound(data):
    """Of the hinge objective of the repeated samples."""
    return _seeded(BCFWSSVM(tol=1e-9, max_iter=50000)).fit(*_repeated(data)).dual_objective_


@pytest.mark.thinned
@pytest.mark.parametrize(("model", "most"), SVMS, ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_repetitions_for_ssvms(data, model, most, lower_bound):
    _compare(_seeded(clone(model)), data, most, lower_bound)


@pytest.mark.parametrize(
    "model",
    [*(SAGCRF(**options) for options, _ in CRFS), *(type(model)() for model, _ in SVMS)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_weight_of_zero_is_no_sample(data, model):
    """At any tol, and bit for bit."""
    X, y, weight = data
    model = _seeded(clone(model)).set_params(max_iter=3)
    there = np.flatnonzero(weight)
    zero = clone(model).fit(X, y, sample_weight=weight)
    left = [X[i] for i in there], [y[i] for i in there]
    removed = clone(model).fit(*left, sample_weight=weight[there])
    assert_array_equal(_tables(zero), _tables(removed))
    assert zero.objective_ == removed.objective_


@pytest.mark.parametrize("seed", range(4))
def test_prox_linear_ends_where_no_step_helps(seed):
    """There the strength of smoothing was halved until it was 0, and divided by."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=24)
    weight = np.random.default_rng(seed).integers(4, size=24)
    svm = _seeded(ProxLinearSSVM(tol=1e-3, max_iter=2000))
    with pytest.warns(ConvergenceWarning, match="no step improves the weights any further"):
        svm.fit(X, y, sample_weight=weight)
    assert svm.n_iter_ < 2000
    assert svm.smoothing_strength_ > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weight", [1e308, 1e-320])
def test_scores_of_weights_at_the_ends_of_floats(weight):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    model = SubgradientSSVM(MultiClass(), max_iter=5, random_state=0).fit(X, y)
    plain = model.score(X, y)
    assert 0.0 < plain < 1.0
    np.testing.assert_allclose(
        model.score(X, y, sample_weight=np.full(12, weight)), plain, rtol=1e-15
    )
    partial = [None, *y[1:].tolist()]
    huge = np.r_[1e308, np.full(11, 5e-324)]
    np.testing.assert_allclose(model.score(X, partial, sample_weight=huge), model.score(X, partial))

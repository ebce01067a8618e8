"""Structural SVMs: optima, certificates, smoothing, caching, options."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM, SubgradientSSVM
from skstruct.core import oracles
from skstruct.estimators import bcfw_path
from skstruct.testing import random_sequences

BCFW = {
    "pairwise": {},
    "pairwise, small cache": {"n_cached": 2},
    "pairwise, cached oracle": {"oracle_cache": True},
    "pairwise, by gap": {"sampling": "gap", "oracle_cache": True},
    "pairwise, uniform": {"sampling": "uniform"},
    "frank-wolfe": {"steps": "frank-wolfe", "n_cached": 1},
    "frank-wolfe, by gap": {"steps": "frank-wolfe", "sampling": "gap", "averaging": True},
    "frank-wolfe, cached oracle": {"steps": "frank-wolfe", "oracle_cache": True},
    "batch": {"steps": "batch"},
}


@pytest.fixture(scope="module")
def chains():
    return random_sequences(np.random.default_rng(11), n_samples=20)


@pytest.fixture(scope="module")
def table(chains):
    X, y = chains
    return np.vstack(X), np.concatenate(y)


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_one_node_is_crammer_singer(C):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    svm = BCFWSSVM(C=C, fit_intercept=False, tol=1e-6, max_iter=5000, random_state=0).fit(X, y)
    reference = LinearSVC(
        C=C, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100000
    ).fit(X, y)
    assert_allclose(svm.coef_, reference.coef_, atol=2e-3)
    assert (svm.predict(X) == reference.predict(X)).mean() >= 0.99


def test_a_published_optimum_of_crammer_and_singer(shared_data):
    # The table "One-node references" of the design's peers.md.
    X, y = load_digits(return_X_y=True)
    svm = BCFWSSVM(C=0.1, fit_intercept=False, tol=1e-6, max_iter=5000, random_state=0)
    svm.fit(X[:1200] / 16, y[:1200])
    assert_allclose(svm.objective_ * 0.1 * 1200, 24.645937, rtol=2e-6)


def test_the_dual_of_bcfw_never_falls(chains):
    for options in BCFW.values():
        svm = BCFWSSVM(C=1.0, tol=1e-3, gap_every=1, max_iter=3000, random_state=0, **options)
        svm.fit(*chains)
        assert (np.diff(svm.history_["dual_objective"]) >= -1e-12).all()
        assert (svm.history_["dual_gap"] >= -1e-12).all()


def test_cached_steps_save_oracle_calls(chains):
    X, y = chains
    counts = {}
    for cached in (False, True):
        svm = BCFWSSVM(C=1.0, tol=1e-3, oracle_cache=cached, max_iter=9000, random_state=0)
        counts[cached] = svm.fit(X, y).n_oracle_calls_
        assert (svm.n_cached_steps_ > 0) == cached
    assert counts[True] < counts[False]


def test_averaging_is_the_weighted_average_of_the_iterates(chains):
    """With one pass the average can be computed from the weights after each visit."""
    X, y = chains
    from skstruct.solvers.bcfw import solver as module

    common = {"steps": "frank-wolfe", "n_cached": 1, "tol": 0.0, "gap_every": 1, "C": 0.5}
    seen = []
    original = module.bcfw_epoch

    def spy(problem, w, cone, weight, options, state, order, uniforms, *scratch):
        for step in range(len(uniforms)):
            original(
                problem, w, cone, weight, options, state, order[step : step + 1],
                uniforms[step : step + 1], *scratch,
            )  # fmt: skip
            seen.append(w.node[:, : w.node.shape[1] // 2].copy())
        if not len(uniforms):
            original(problem, w, cone, weight, options, state, order, uniforms, *scratch)

    module.bcfw_epoch = spy
    try:
        svm = BCFWSSVM(averaging=True, max_iter=1, random_state=0, **common)
        with pytest.warns(ConvergenceWarning):
            svm.fit(X, y)
    finally:
        module.bcfw_epoch = original
    t = np.arange(1, len(seen) + 1)
    average = np.tensordot(t / t.sum(), np.array(seen), axes=1)[:, : svm.classes_.size]
    last = seen[-1][:, : svm.classes_.size]
    assert not np.allclose(average, last)
    assert np.allclose(svm.node_weights_, average) or np.allclose(svm.node_weights_, last)
    assert np.allclose(svm.node_weights_, average), "the average is the better one here"


def test_warm_start_and_path(chains):
    X, y = chains
    Cs = [0.03, 0.3, 3.0]
    options = {"tol": 1e-3, "max_iter": 20000, "random_state": 0}
    path = bcfw_path(BCFWSSVM(**options), X, y, Cs)
    for C, svm in zip(Cs, path, strict=True):
        cold = BCFWSSVM(C=C, **options).fit(X, y)
        assert svm.get_params() == cold.get_params()
        assert_allclose(svm.objective_, cold.objective_, rtol=2e-3)
        assert svm.dual_gap_ <= 1e-3 * svm.objective_
        assert not hasattr(svm, "_dual")
    again = BCFWSSVM(C=0.3, warm_start=True, **options).fit(X, y)
    again.fit(X, y)
    assert again.n_iter_ == 1
    assert b"residuals" not in pickle.dumps(again)
    assert not hasattr(pickle.loads(pickle.dumps(again)), "_dual")
    other = BCFWSSVM(C=0.3, warm_start=True, **options).fit(X, y).fit(X[:10], y[:10])
    fresh = BCFWSSVM(C=0.3, **options).fit(X[:10], y[:10])
    assert_array_equal(other.node_weights_, fresh.node_weights_)
    with pytest.raises(ValueError, match="Cs must be a sequence"):
        bcfw_path(BCFWSSVM(), X, y, [])


@pytest.mark.parametrize("estimator", [CasimirSSVM, SubgradientSSVM])
def test_warm_start_of_primal_solvers(chains, estimator):
    svm = estimator(C=0.1, warm_start=True, random_state=0, max_iter=300, tol=1e-2).fit(*chains)
    before = svm.objective_
    assert svm.fit(*chains).objective_ <= 1.02 * before


def test_no_regularisation(chains):
    X, y = chains
    for variant in ("adaptive", "constant"):
        svm = CasimirSSVM(C=np.inf, variant=variant, max_iter=60, random_state=0)
        with pytest.warns(ConvergenceWarning):
            svm.fit(X, y)
        weak = BCFWSSVM(C=100.0, tol=0.05, max_iter=20000, random_state=0).fit(X, y)
        assert np.isfinite(svm.node_weights_).all()
        assert svm.objective_ < 2.0 * weak.objective_
        assert svm.dual_objective_ == 0.0  # no loss is negative


# The shared interface


def test_grid_search_over_losses_in_two_processes(chains):
    X, y = chains
    search = GridSearchCV(
        BCFWSSVM(tol=0.1, random_state=0),
        {"C": [0.01, 0.1], "loss": ["hamming", "normalized_hamming", {"a": 2.0}]},
        cv=2,
        n_jobs=2,
        error_score="raise",
    )
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    assert search.score(X, y) > 0.4


@pytest.mark.parametrize("estimator", [BCFWSSVM, CasimirSSVM, SubgradientSSVM, SAGCRF])
def test_decision_function(chains, table, estimator):
    X, y = chains
    svm = estimator(C=0.1, tol=0.1, max_iter=300, random_state=0).fit(X, y)
    _, scores = svm.predict_top_k(X, 2)
    decision = svm.decision_function(X)
    assert decision.shape == (len(X), 2)
    assert_allclose(decision[:, 0], [row[0] for row in scores])
    assert_allclose(decision[:, 1], [row[0] - row[1] for row in scores])
    X, y = table
    svm = clone(svm).fit(X, y)
    assert svm.decision_function(X).shape == (len(X), 3)
    assert_array_equal(svm.classes_[svm.decision_function(X).argmax(axis=1)], svm.predict(X))
    two = y != "c"
    svm = clone(svm).fit(X[two], y[two])
    decision = svm.decision_function(X[two])
    assert_array_equal(svm.classes_[(decision > 0).astype(int)], svm.predict(X[two]))


@pytest.mark.parametrize("estimator", [BCFWSSVM, CasimirSSVM, SubgradientSSVM])
def test_verbose_history_and_same_bits(chains, estimator, capsys):
    svm = estimator(C=0.1, tol=0.1, max_iter=300, random_state=3, verbose=1).fit(*chains)
    lines = [line for line in capsys.readouterr().out.splitlines() if ": passes " in line]
    assert len(lines) == svm.n_iter_
    lengths = {len(values) for values in svm.history_.values()}
    assert lengths == {svm.n_iter_}
    if estimator is BCFWSSVM:
        assert np.isnan(svm.history_["objective"]).any()
        assert svm.history_["dual_objective"].max() <= svm.objective_
        unknown = [line for line in lines if "objective not evaluated, at least" in line]
        assert len(unknown) == np.isnan(svm.history_["objective"]).sum()
    if estimator is CasimirSSVM:
        assert set(svm.history_) >= {"smoothed_objective", "exact_share", "dual_gap", "passes"}
        assert 0 <= svm.exact_share_ <= 1
    assert not any("nan" in line for line in lines)
    again = estimator(C=0.1, tol=0.1, max_iter=300, random_state=3).fit(*chains)
    assert_array_equal(svm.node_weights_, again.node_weights_)


def test_subgradients_without_a_tolerance_run_all_passes(chains):
    svm = SubgradientSSVM(C=0.1, tol=0, max_iter=150, random_state=3)
    with pytest.warns(ConvergenceWarning):
        svm.fit(*chains)
    objectives = svm.history_["objective"]
    assert objectives.size == 150
    best = np.minimum.accumulate(objectives)
    assert (best[5:] == best[:-5]).any()  # where any other tolerance would end the run
    assert best[-1] == svm.objective_


def test_a_crf_oracle_is_asked_for_before_any_compile(chains):
    from skstruct.core.jit.dispatch import require

    with pytest.raises(TypeError, match="has no marginals"):
        require(oracles.exp_oracle, (), "use smoothing")


@pytest.mark.parametrize(
    ("estimator", "options", "match"),
    [
        (BCFWSSVM, {"loss": "zero-one"}, "loss"),
        (BCFWSSVM, {"C": np.inf}, "'C' parameter"),
        (BCFWSSVM, {"n_cached": 0}, "'n_cached' parameter"),
        (BCFWSSVM, {"sampling": "random"}, "'sampling' parameter"),
        (CasimirSSVM, {"n_best": 0}, "'n_best' parameter"),
        (CasimirSSVM, {"smoothing_strength": -0.5}, "'smoothing_strength' parameter"),
        (CasimirSSVM, {"learning_rate": "fast"}, "'learning_rate' parameter"),
        (SubgradientSSVM, {"schedule": "constant"}, "'schedule' parameter"),
    ],
)
def test_bad_options(chains, estimator, options, match):
    with pytest.raises(ValueError, match=match):
        estimator(**options).fit(*chains)


def test_a_learning_rate_that_diverges_is_reported(chains):
    with pytest.raises(FloatingPointError, match="learning rate too large"):
        CasimirSSVM(learning_rate=1e200, max_iter=50).fit(*chains)

"""L1 penalties: proximal OEG, its certificates, what it leaves out."""

import pickle
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Candidates, Chain
from skstruct.core.proximal import elastic_net, set_at_rest, soft_sums, sum_weights
from skstruct.core.weights import Weights, lazy_weights
from skstruct.solvers import hybrid, proximal_oeg
from skstruct.testing import random_sequences

_NUMBER = st.floats(-3.0, 3.0, allow_nan=False)


def _lazy(v, d):
    w = lazy_weights(Weights(np.array([v]), np.zeros((0, 0))))
    half = w.node.shape[1] // 2
    w.node[0, half : half + len(d)] = d
    return w


@given(st.lists(st.tuples(_NUMBER, _NUMBER), min_size=1, max_size=9), st.floats(0.01, 2.0))
def test_sums_are_those_of_certificates(pairs, l1):
    v, g = map(np.array, zip(*pairs, strict=True))
    l2, found, w = 0.7, np.zeros(9), _lazy(v, g)
    soft = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
    least = np.where(v != 0, l2 * v + g + l1 * np.sign(v), soft)
    gap = l1 * np.abs(v).sum() + 0.5 * l2 * v @ v + v @ g + soft @ soft / (2 * l2)
    expected = [np.abs(v).sum(), v @ v, v @ g, least @ least, gap, np.abs(g).max(), soft @ soft]
    expected += [np.abs(g) @ np.abs(soft), (g * g)[soft != 0].sum()]
    penalty = elastic_net(w, l1, l2)
    sum_weights(w, penalty, found)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(soft_sums(w, penalty, 1.0), expected[6:], atol=1e-9)
    # A row with a share of lam1.
    penalty = elastic_net(w, 2.0 * l1, l2)
    penalty.node[:] = 0.5
    sum_weights(w, penalty, found)
    expected[0], expected[5] = 0.5 * expected[0], 2.0 * expected[5]
    np.testing.assert_allclose(found[:6], expected[:6], atol=1e-9)
    np.testing.assert_allclose(soft_sums(w, penalty, 1.0), expected[6:], atol=1e-9)
    # The weights at rest.
    set_at_rest(w, penalty)
    np.testing.assert_allclose(w.node[0, : len(v)], -soft / l2, atol=1e-12)


# Fits


def _optimum(X, y, **options):
    """A model whose objective is the optimum to nine digits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SAGCRF(solver="lbfgs", tol=1e-10, max_iter=3000, **options).fit(X, y)


def _fit(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SAGCRF(**{"solver": "oeg", "random_state": 0} | options).fit(X, y)


def _words(rng, n_samples, n_words):
    """Sequences of rare features, in CSR, with labels that some of them tell."""
    X, y = [], []
    for _ in range(n_samples):
        words = np.minimum(rng.geometric(0.05, size=rng.integers(2, 9)), n_words) - 1
        X.append(sparse.csr_matrix(np.eye(n_words)[words] + np.eye(n_words)[words - 1]))
        y.append(np.where(rng.random(words.size) < 0.8, words % 3, rng.integers(3)))
    return X, y


@pytest.fixture(scope="module")
def words():
    return _words(np.random.default_rng(0), 60, 100)


def _check_history(crf, best):
    """Every bound is one of what another solver certifies, and the last is published."""
    history = crf.history_
    assert (history["dual_objective"] <= best.objective_).all()
    assert (np.diff(history["dual_objective"]) >= -1e-12).all()  # the last by its own rounding
    known = history["objective"][np.isfinite(history["objective"])]
    assert (known >= best.dual_objective_).all()
    assert crf.dual_objective_ <= best.objective_
    assert best.dual_objective_ <= crf.objective_
    assert crf.dual_gap_ == pytest.approx(crf.objective_ - crf.dual_objective_)


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0])
def test_a_table_is_a_logistic_regression(ratio):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    y = (X[:, :3] + 0.7 * rng.normal(size=(60, 3))).argmax(axis=1)
    options = {"C": 1.0, "l1_ratio": ratio, "fit_intercept": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # versions of sklearn name penalties anew
        more = {"solver": "saga", "penalty": "elasticnet", "tol": 1e-10, "max_iter": 100_000}
        theirs = LogisticRegression(**options, **more).fit(X, y)
    crf = _fit(X, y, graph="multiclass", tol=1e-8, max_iter=3000, **options)
    np.testing.assert_allclose(crf.coef_, theirs.coef_, atol=3e-3)
    np.testing.assert_array_equal(crf.coef_ == 0.0, theirs.coef_ == 0.0)
    assert not np.signbit(crf.coef_[crf.coef_ == 0.0]).any()
    _check_history(crf, _optimum(X, y, graph="multiclass", **options))


def test_constraints_weights_and_margins(words):
    X, _ = words
    y = [np.array(["O", "B-x", "I-x"])[np.minimum(np.arange(x.shape[0]) % 4, 2)] for x in X]
    weight = np.random.default_rng(1).integers(1, 4, size=len(X)).astype(float)
    options = {"graph": Chain(forbidden="iob2", boundary=True), "C": 1.0, "l1_ratio": 0.4}
    options |= {"margin": "hamming"}
    crf = SAGCRF(solver="oeg", tol=1e-5, max_iter=600, random_state=0, **options)
    best = SAGCRF(solver="lbfgs", tol=1e-8, max_iter=600, **options).fit(X, y, weight)
    crf.fit(X, y, weight)
    _check_history(crf, best)
    assert crf.suboptimality_ <= 1e-5
    assert set(np.concatenate(crf.predict(X))) <= {"O", "B-x", "I-x"}


def test_structures_whose_rows_are_not_nodes():
    X, y = Candidates().example(np.random.default_rng(0), True)
    options = {"graph": Candidates(), "C": 3.0, "l1_ratio": 0.6}
    crf = SAGCRF(solver="oeg", tol=1e-5, max_iter=600, random_state=0, **options).fit(X, y)
    assert crf.suboptimality_ <= 1e-5
    _check_history(crf, _optimum(X, y, **options))


def test_a_path_of_warm_starts_takes_fewer_passes(words):
    cold, warm = 0.0, 0.0
    crf = SAGCRF(l1_ratio=0.9, warm_start=True, random_state=0, tol=1e-2)
    sizes = []
    for C in (0.2, 0.4, 0.6, 0.8):
        crf.set_params(C=C).fit(*words)
        warm += crf.history_["passes"][-1]
        alone = _fit(*words, l1_ratio=0.9, C=C, tol=1e-2)
        cold += alone.history_["passes"][-1]
        assert crf.objective_ == pytest.approx(alone.objective_, rel=1e-2)
        sizes.append(np.count_nonzero(crf.node_weights_))
    assert warm < cold
    assert sizes == sorted(sizes)
    assert crf.fit(*words).n_iter_ <= 2


def test_the_same_bits_for_any_threads_and_small_pickles(words, monkeypatch):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    options = {"l1_ratio": 1.0, "C": 0.3, "max_iter": 12, "tol": 0.0}
    one, two = (_fit(*words, n_jobs=n_jobs, **options) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.node_weights_, two.node_weights_)
    dense = _fit(*words, C=0.3, max_iter=3, tol=0.0)
    assert len(pickle.dumps(one)) < 0.7 * len(pickle.dumps(dense))
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.node_weights_, one.node_weights_)


def test_bad_ratios_and_solvers(words):
    for ratio in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="l1_ratio"):
            SAGCRF(l1_ratio=ratio).fit(*words)
    for solver in ("sag", "saga", "casimir", "svrg"):
        with pytest.raises(ValueError, match=f"{solver}.*does not take l1_ratio=0.5"):
            SAGCRF(l1_ratio=0.5, solver=solver).fit(*words)


@pytest.mark.parametrize(("C", "ratio"), [(0.3, 0.9), (3.0, 0.3), (30.0, 0.5)])
def test_proximal_oeg_on_words_is_owlqn(words, C, ratio):
    options = {"C": C, "l1_ratio": ratio}
    best = _optimum(*words, **options)
    crf = _fit(*words, tol=1e-7, max_iter=2000, track_objective=True, **options)
    assert crf.suboptimality_ <= 1e-7
    assert crf.objective_ == pytest.approx(best.objective_, rel=1e-6)
    _check_history(crf, best)
    np.testing.assert_allclose(crf.node_weights_, best.node_weights_, atol=0.05)
    assert (crf.coef_ == 0.0).mean() > 0.2
    assert crf.gradient_norm_ < 1e-2
    two = _fit(*words, tol=1e-7, max_iter=2000, n_jobs=2, **options)
    np.testing.assert_array_equal(two.node_weights_, crf.node_weights_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("C", "ratio", "scale", "weighted"),
    [
        (3.0, 1.0, 1.0, True),
        (500.0, 0.9, 1.0, False),
        (3.0, 0.5, 30.0, False),
        (3.0, 0.5, 1e-3, True),
        (3.0, 0.5, 1e3, False),
        (1e-3, 0.5, 1.0, True),
    ],
)
def test_bounds_of_proximal_oeg_hold_anywhere(words, C, ratio, scale, weighted):
    X, y = [scale * x for x in words[0]], words[1]
    weight = np.r_[np.zeros(20), np.linspace(0.1, 50.0, len(X) - 20)] if weighted else None
    best = SAGCRF(C=C, l1_ratio=ratio, solver="lbfgs", tol=1e-9, max_iter=3000, random_state=0)
    crf = clone(best).set_params(solver="oeg", max_iter=400, tol=1e-5, track_objective=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best.fit(X, y, weight)
        crf.fit(X, y, weight)
    _check_history(crf, best)
    assert crf.suboptimality_ <= 1e-5 or ratio > 0.5 or scale > 1.0


def test_rows_that_oeg_left_out_too_early_come_back(words, monkeypatch):
    options = {"C": 3.0, "l1_ratio": 0.5, "tol": 1e-6, "max_iter": 2000}
    crf = _fit(*words, **options)
    # As many rows of weight 0 go as may at all, and at once.
    monkeypatch.setattr(proximal_oeg, "_STAYS", 1.0)
    monkeypatch.setattr(proximal_oeg, "_FIRST_REFRESH", 2)
    hasty = _fit(*words, **options)
    assert hasty.suboptimality_ <= 1e-6
    np.testing.assert_allclose(hasty.node_weights_, crf.node_weights_, atol=0.02)
    # With all rows throughout there is nothing to come back.
    monkeypatch.setattr(proximal_oeg, "is_reducible", lambda problem: False)
    whole = _fit(*words, **options)
    assert whole.objective_ == pytest.approx(hasty.objective_, rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("C", "ratio"), [(3.0, 0.999), (500.0, 0.9), (5000.0, 0.5)])
def test_auto_needs_few_passes_where_penalties_are_weak(words, C, ratio, few):
    options = {"C": C, "l1_ratio": ratio, "all_possible_states": not few}
    options["all_possible_transitions"] = not few
    best = _optimum(*words, **options)
    crf = _fit(*words, solver="auto", tol=1e-3, max_iter=500, **options)
    _check_history(crf, best)
    assert crf.suboptimality_ <= 1e-3
    assert crf.objective_ <= best.objective_ * (1 + 2e-3)
    assert crf.history_["passes"][-1] <= 200


def test_auto_is_owlqn_where_memory_is_short(words, monkeypatch):
    monkeypatch.setattr(hybrid, "ProximalOEG", Mock(side_effect=MemoryError))
    options = {"l1_ratio": 0.5, "tol": 1e-2}
    auto, lbfgs = (_fit(*words, solver=solver, **options) for solver in ("auto", "lbfgs"))
    np.testing.assert_array_equal(auto.node_weights_, lbfgs.node_weights_)


@pytest.mark.parametrize("table", [True, False])
def test_proximal_oeg_with_weights_of_samples_and_margins(table):
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 3.0, size=30)
    graph, X, y = "multiclass", rng.normal(size=(30, 4)), rng.integers(3, size=30)
    if not table:
        graph = Chain(forbidden="iob2", boundary=True)
        X = [rng.normal(size=(n, 4)) for n in rng.integers(1, 6, size=30)]
        y = [np.array(["O", "B-x", "I-x"])[np.arange(len(x)) % 3] for x in X]
    options = {"graph": graph, "C": 2.0, "l1_ratio": 0.3, "margin": "hamming", "random_state": 0}
    crf = SAGCRF(solver="oeg", tol=1e-6, max_iter=2000, track_objective=True, **options)
    crf.fit(X, y, weight)
    best = SAGCRF(solver="lbfgs", tol=1e-9, max_iter=2000, **options).fit(X, y, weight)
    _check_history(crf, best)
    assert crf.suboptimality_ <= 1e-6


def test_dense_sequences():
    X, y = random_sequences(np.random.default_rng(2), n_samples=30)
    options = {"graph": "chain", "C": 2.0, "l1_ratio": 0.5}
    crf = _fit(X, y, tol=1e-6, max_iter=600, **options)
    _check_history(crf, _optimum(X, y, **options))
    assert crf.suboptimality_ <= 1e-6

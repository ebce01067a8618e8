"""L-BFGS and OWL-QN: directions, searches, certificates, and the same bits for any threads."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF
from skstruct.core.parallel import ALONE, make_scratch
from skstruct.core.weights import Weights, flatten, zero_weights
from skstruct.estimators.training_data import read_training_data
from skstruct.losses.log import LogLoss
from skstruct.solvers import quasi_newton
from skstruct.solvers.primal import loss_gradient, make_block
from skstruct.solvers.quasi_newton import (
    N_COMBINED,
    Pairs,
    Sweeps,
    _Point,
    backtrack,
    combine,
    wolfe,
)
from skstruct.testing import random_sequences


def _two_loops(pairs, gradient):
    """L-BFGS as in the textbook, on vectors."""
    q, kept = gradient.copy(), []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        q -= a * y
        kept.append(a)
    s, y = pairs[-1]
    q *= (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(kept), strict=True):
        q += (a - (y @ q) / (s @ y)) * s
    return -q


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.3])
@pytest.mark.parametrize("n_steps", [1, 3, 7])
def test_the_direction_is_that_of_two_loops(lam, n_steps, is_scaled):
    rng = np.random.default_rng(n_steps)
    size, memory = 3000, 4  # several blocks, and pairs that are dropped
    curvature = rng.uniform(0.1, 3.0, size)
    scales = rng.uniform(0.5, 2.0, size).astype(np.float32) if is_scaled else np.ones(size)
    run_sweeps, kept = Sweeps(size, 1), Pairs(size, memory, scales.astype(np.float32))
    here, known = _Point(rng.normal(size=size)), []
    here.d = curvature * here.w
    for _ in range(n_steps):
        before, here = here, _Point(here.w + rng.normal(size=size))
        here.d = curvature * here.w
        kept.add(run_sweeps, here, before, lam, 0.0, 1.0)
        s = here.w - before.w
        known.append((s / scales, scales * (lam * s + here.d - before.d)))
    p, trial = np.empty(size), np.empty(size)
    coefficients, own = kept.direction()
    vectors = here.w, here.d, p, 0.5, lam, 0.0, trial
    sums = run_sweeps(combine, N_COMBINED, kept.rows, kept.scales, coefficients, own, *vectors)
    gradient = lam * here.w + here.d
    expected = scales * _two_loops(known[-memory:], scales * gradient)
    np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(trial, here.w + 0.5 * p)
    step = trial - here.w
    expected_sums = [gradient @ p, p @ p, gradient @ step, step @ step]
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-9)
    kept.forget()
    assert kept.direction()[1] == -1.0
    assert not kept.direction()[0].any()


def test_a_pair_without_curvature_is_left_out():
    kept, before, here = Pairs(2, 2), _Point(np.zeros(2)), _Point(np.ones(2))
    here.d = -np.ones(2)
    kept.add(Sweeps(2, 1), here, before, 0.0, 0.0, 1.0)
    assert len(kept) == 0
    here.d = np.ones(2)
    kept.add(Sweeps(2, 1), here, before, 0.0, 0.0, 1e30)
    assert len(kept) == 1


FUNCTIONS = {
    "quartic": (lambda t: (t - 1.0) ** 4 + 0.1 * t, lambda t: 4.0 * (t - 1.0) ** 3 + 0.1),
    "hyperbola": (lambda t: np.hypot(1.0, t - 9.0), lambda t: (t - 9.0) / np.hypot(1.0, t - 9.0)),
    "sine": (lambda t: -np.sin(t) + 0.05 * t * t, lambda t: -np.cos(t) + 0.1 * t),
    "wall": (
        lambda t: (t - 0.5) ** 2 if t < 2.0 else np.inf,
        lambda t: 2.0 * (t - 0.5) if t < 2.0 else np.nan,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(exponent=st.floats(-4.0, 4.0))
def test_an_accepted_step_is_one_of_wolfe(name, exponent):
    f, slope = FUNCTIONS[name]
    last = []

    def function(t):
        last.append(t)
        return f(t), slope(t)

    assert wolfe(function, f(0.0), slope(0.0), 10.0**exponent, 0.0)
    t = last[-1]
    assert f(t) <= f(0.0) + 1e-4 * t * slope(0.0)
    assert abs(slope(t)) <= 0.9 * abs(slope(0.0))


def test_a_search_that_cannot_gain_ends():
    assert not wolfe(lambda t: (1.0 + t, 1.0), 1.0, -1.0, 1.0, 0.0)
    assert not wolfe(lambda t: (np.nan, np.nan), 1.0, -1.0, 1.0, 0.0)
    assert not backtrack(lambda t: (1.0 + t, -t), 1.0, 1.0, 0.0)
    assert not backtrack(lambda t: (np.inf, -t), 1.0, 1.0, 0.0)


def test_runs_and_threads_change_no_bit(monkeypatch):
    X, y = random_sequences(np.random.default_rng(0), n_samples=400)
    monkeypatch.setattr(quasi_newton, "_RUN", 4)
    monkeypatch.setattr(quasi_newton, "_RUNS_A_THREAD", 1)
    for ratio in (0.0, 0.3):
        one, two = (
            SAGCRF("chain", solver="lbfgs", l1_ratio=ratio, n_jobs=n_jobs, C=50.0).fit(X, y)
            for n_jobs in (1, 2)
        )
        np.testing.assert_array_equal(one.node_weights_, two.node_weights_)
        np.testing.assert_array_equal(one.pair_weights_, two.pair_weights_)
        assert one.dual_objective_ == two.dual_objective_


# OWL-QN


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    return X, (X[:, :3] + 0.7 * rng.normal(size=(60, 3))).argmax(axis=1)


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("C", [0.1, 50.0])
def test_owlqn_is_a_logistic_regression(ratio, C):
    X, y = _table()
    options = {"C": C, "l1_ratio": ratio, "fit_intercept": False, "max_iter": 100_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # versions of sklearn name penalties anew
        options |= {"solver": "saga", "penalty": "elasticnet", "tol": 1e-10}
        theirs = LogisticRegression(**options).fit(X, y)
    options = {"C": C, "l1_ratio": ratio, "fit_intercept": False, "max_iter": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # without L2 the bound is a difference
        ours = SAGCRF("multiclass", solver="lbfgs", tol=1e-9, **options).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=3e-4)
    scores = X @ theirs.coef_.T
    loss = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(60), y]
    size, square = np.abs(theirs.coef_).sum(), (theirs.coef_**2).sum()
    optimum = (ratio * size + 0.5 * (1.0 - ratio) * square) / (C * 60) + loss.mean()
    np.testing.assert_allclose(ours.objective_, optimum, rtol=1e-8)
    assert ours.suboptimality_ <= (1e-5 if ratio == 1.0 else 1e-9)
    assert (ours.history_["dual_objective"] <= optimum * (1 + 1e-12)).all()
    assert not np.signbit(ours.coef_[ours.coef_ == 0.0]).any()


def _mean_gradient(crf, X, y):
    """The gradient of the mean loss at the weights of a model, by one sweep over its problem."""
    data = read_training_data(crf, X, y, None)
    problem = crf._make_problem(data)
    w = Weights(crf.node_weights_, crf.pair_weights_)
    gradient, scratch = (
        zero_weights(tuple(table.shape for table in w.tables)),
        make_scratch(problem),
    )
    n = data.sample_weight.size
    arguments = scratch, np.empty_like(scratch.theta), gradient, np.zeros((2, n))
    loss_gradient(
        LogLoss(), problem, w, data.sample_weight, 0, n, *arguments, make_block(problem), ALONE
    )
    return flatten(gradient) / n, flatten(w)


@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_owlqn_on_chains_ends_where_no_subgradient_descends(ratio):
    X, y = random_sequences(np.random.default_rng(2), n_samples=30)
    options = {"solver": "lbfgs", "l1_ratio": ratio, "C": 2.0, "max_iter": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf = SAGCRF("chain", tol=1e-9, **options).fit(X, y)
    d, w = _mean_gradient(crf, X, y)
    lam = 1.0 / (2.0 * 30)
    smooth = (1.0 - ratio) * lam * w + d
    assert (w == 0.0).any()
    np.testing.assert_allclose(smooth[w != 0.0], -ratio * lam * np.sign(w[w != 0.0]), atol=1e-5)
    assert (np.abs(smooth[w == 0.0]) <= ratio * lam + 1e-5).all()
    assert crf.suboptimality_ <= (1e-5 if ratio == 1.0 else 1e-9)
    # A penalty that is strong enough leaves nothing.
    largest = np.abs(_mean_gradient_at_zero(crf, X, y)).max()
    C = 0.99 * ratio / (30 * largest)
    empty = SAGCRF("chain", **options | {"C": C}).fit(X, y)
    assert not empty.node_weights_.any()
    assert not empty.pair_weights_.any()
    assert empty.suboptimality_ <= 1e-3


def _mean_gradient_at_zero(crf, X, y):
    zero = SAGCRF("chain", solver="lbfgs").fit(X, y)
    zero.node_weights_[:], zero.pair_weights_[:] = 0.0, 0.0
    return _mean_gradient(zero, X, y)[0]


def test_every_bound_of_owlqn_is_below_the_optimum():
    X, y = random_sequences(np.random.default_rng(4), n_samples=12)
    for ratio in (0.1, 0.9, 1.0):
        for C in (0.01, 1.0, 1e4):
            options = {"solver": "lbfgs", "l1_ratio": ratio, "C": C}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                best = SAGCRF("chain", tol=1e-10, max_iter=1000, **options).fit(X, y)
                for max_iter in (1, 4, 20):
                    crf = SAGCRF("chain", tol=0.0, max_iter=max_iter, **options).fit(X, y)
                    assert crf.dual_objective_ <= best.objective_ * (1 + 1e-12)
                    assert best.objective_ <= crf.objective_ * (1 + 1e-9)

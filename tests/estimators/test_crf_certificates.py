"""SAGCRF: what its certificates, its stopping and its numbers bear."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skstruct import SAGCRF, Chain, MultiClass, Tree
from skstruct.core.parallel import Pieces
from skstruct.datasets import load_conll
from skstruct.preprocessing import SequenceVectorizer
from skstruct.solvers.sag import CertificateSchedule, takes_single
from skstruct.testing import random_sequences

SOLVERS = ["sag", "saga", "lbfgs", "casimir", "svrg"]


@pytest.fixture
def few():
    """Twelve sequences."""
    return random_sequences(np.random.default_rng(5), n_samples=12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_what_warns_and_what_is_certified_agree(solver, C, tol):
    X, y = random_sequences(np.random.default_rng(3), n_samples=15)
    for max_iter in (1, 5, 30):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            options = {"solver": solver, "max_iter": max_iter, "random_state": 0}
            crf = SAGCRF(C=C, tol=tol, **options).fit(X, y)
        assert (len(caught) == 0) == (crf.suboptimality_ <= tol)
        assert crf.history_["dual_gap"][-1] == crf.dual_gap_
        assert crf.history_["dual_objective"][-1] == crf.dual_objective_


@pytest.mark.parametrize("scale", [1e2, 1e8])
@pytest.mark.parametrize("solver", ["sag", "lbfgs", "casimir"])
@pytest.mark.parametrize("C", [1e-6, 1e3])
def test_the_dual_bound_survives_rounding(scale, solver, C):
    # Labels that the features tell: losses are differences of scores up to 1e8 times as large.
    X, y = random_sequences(np.random.default_rng(5), n_samples=12)
    X = [scale * x for x in X]
    options = {"solver": solver, "random_state": 0, "C": C}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = SAGCRF(tol=1e-9, max_iter=300, **options | {"solver": "lbfgs"}).fit(X, y)
        for max_iter in (1, 20):
            crf = SAGCRF(tol=0.0, max_iter=max_iter, **options).fit(X, y)
            assert (crf.history_["dual_objective"] <= best.objective_).all()
            assert crf.dual_objective_ <= best.objective_


def test_a_gap_on_text_is_far_below_that_of_the_gradient(shared_data):
    rows = load_conll(shared_data / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    X = [
        [{"w": w, "p": p} for w, p in zip(words, tags, strict=True)]
        for words, tags in zip(rows.word[:300], rows.pos[:300], strict=True)
    ]
    X, y = SequenceVectorizer().fit_transform(X), rows.chunk[:300]
    crf = SAGCRF(random_state=0).fit(X, y)
    of_the_gradient = crf.gradient_norm_**2 * 300 / 2
    assert crf.dual_gap_ < 0.2 * of_the_gradient
    # Epochs visit at most all samples; one pass confirms, and hardly one before it was in vain.
    assert crf.history_["oracle_calls"][-1] <= 300 * (crf.n_iter_ + 2)


def test_a_failed_confirmation_is_not_repeated_each_epoch():
    certificate_schedule = CertificateSchedule()
    measured = []
    for epoch in range(100):  # an estimate that is always too good
        if certificate_schedule.due(1e-6, 1e-3):
            measured.append(epoch)
            certificate_schedule.measured(1.0)
    assert measured[0] == 0
    assert np.diff(measured).min() >= 2
    assert len(measured) <= 30
    # One that is too good by a factor waits until it has made up for it.
    certificate_schedule = CertificateSchedule()
    assert certificate_schedule.due(0.9e-3, 1e-3)
    certificate_schedule.measured(1.8e-3)
    for _ in range(10):
        assert not certificate_schedule.due(0.6e-3, 1e-3)
    assert certificate_schedule.due(0.4e-3, 1e-3)


def test_tracking_the_objective_changes_no_bit(few):
    fits = [
        SAGCRF(track_objective=track, tol=1e-4, random_state=0).fit(*few) for track in (False, True)
    ]
    assert (fits[0].node_weights_ == fits[1].node_weights_).all()
    assert fits[0].dual_gap_ == fits[1].dual_gap_


# Extremes


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sampling", ["nus", "uniform"])
def test_features_that_are_all_zero(solver, sampling):
    X, y = np.zeros((6, 2)), [0, 1] * 3
    options = {"solver": solver, "sampling": sampling, "random_state": 0}
    for intercept in (False, True):
        crf = SAGCRF("multiclass", fit_intercept=intercept, **options).fit(X, y)
        assert crf.objective_ == pytest.approx(np.log(2), rel=1e-3)
        assert crf.suboptimality_ <= 1e-3
    flat = SAGCRF("multiclass", fit_intercept=False, tol=0.0, **options).fit(X, y)
    assert flat.n_iter_ <= 3
    assert flat.suboptimality_ == 0.0
    assert flat.dual_gap_ <= 1e-14  # the rounding of the objective


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e-6])
def test_strong_regularisation_takes_few_passes(few, solver, C):
    crf = SAGCRF(C=C, solver=solver, random_state=0).fit(*few)
    assert crf.n_iter_ <= 8
    assert (np.abs(crf.node_weights_) <= 1e3 * C).all()
    assert crf.node_weights_.any() or C == 1e-300


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1.8e19, 1e160])
def test_one_huge_sample_gives_an_answer_or_an_error(few, solver, size):
    X, y = few
    X = [*X, np.full((2, X[0].shape[1]), size)]
    crf = SAGCRF(solver=solver, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            crf.fit(X, [*y, y[0][:1].repeat(2)])
        except FloatingPointError as refusal:
            error = str(refusal)
        else:
            error = None
    if error is not None:
        assert re.search("scale the features|are the features scaled", error)
        assert not hasattr(crf, "node_weights_")
        return
    assert np.isfinite(crf.node_weights_).all()
    assert np.isfinite([crf.objective_, crf.dual_objective_, crf.gradient_norm_]).all()
    assert crf.dual_objective_ <= crf.objective_


@pytest.mark.thinned
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e9, 1e15])
def test_no_objective_is_negative(few, solver, scale):
    X, y = few
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf = SAGCRF(solver=solver, random_state=0).fit([scale * x for x in X], y)
    assert crf.objective_ > 0.0
    assert 0.0 <= crf.dual_gap_ <= crf.objective_
    history = crf.history_["objective"]
    assert (history[~np.isnan(history)] > 0.0).all()


@pytest.mark.parametrize("graph", [Chain(), MultiClass(), Tree()], ids=str)
def test_no_likelihood_is_above_one(graph, few):
    X, y = few
    if isinstance(graph, MultiClass):
        X, y = np.concatenate(X), np.concatenate(y)
    elif isinstance(graph, Tree):
        X = [(x, [t - 1 for t in range(len(x))]) for x in X]
    crf = SAGCRF(graph, random_state=0).fit(X, y)
    node, pair = crf.node_weights_.copy(), crf.pair_weights_.copy()
    for factor in (1e4, 1e12, 1e150, 1e290):
        crf.node_weights_[:], crf.pair_weights_[:] = factor * node, factor * pair
        assert (crf.predict_log_likelihood(X, crf.predict(X)) <= 0.0).all()
        assert (crf.predict_log_likelihood(X, y) <= 0.0).all()
    crf.node_weights_[:] = 1e308
    crf.node_weights_[:, 0] = -1e308
    with pytest.raises((FloatingPointError, ValueError), match="scores overflow"):
        crf.predict_log_likelihood(X, y)
    crf.node_weights_[0, 0] = np.nan
    with pytest.raises(ValueError, match="node_weights_ are not finite"):
        crf.predict_log_likelihood(X, y)


@pytest.mark.parametrize("factor", [1e4, 1e16, 1e150])
def test_marginals_of_huge_weights_are_probabilities(few, factor):
    X, y = few
    crf = SAGCRF(random_state=0).fit(X, y)
    crf.node_weights_ *= factor
    crf.pair_weights_ *= factor
    nodes, edges = crf.predict_marginals(X, pairwise=True)
    for rows, tables in zip(nodes, edges, strict=True):
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-9)
        np.testing.assert_allclose(tables.sum(axis=(1, 2)), 1.0, rtol=1e-9)


# L-BFGS in pieces


def test_where_a_gradient_is_cut_changes_no_bit(few, monkeypatch):
    whole = SAGCRF(solver="lbfgs").fit(*few)
    monkeypatch.setattr(Pieces, "FIRST", 2)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    cut = SAGCRF(solver="lbfgs").fit(*few)
    np.testing.assert_array_equal(whole.node_weights_, cut.node_weights_)
    np.testing.assert_array_equal(whole.history_["dual_gap"], cut.history_["dual_gap"])


@pytest.mark.parametrize("options", [{}, {"solver": "saga"}, {"sampling": "uniform"}])
def test_single_precision_reaches_any_tolerance(few, options):
    X, y = few
    base = {"C": 0.3, "random_state": 0, "max_iter": 2000, **options}
    best = SAGCRF(tol=1e-10, **base | {"solver": "lbfgs"}).fit(X, y)
    for tol in (1e-1, 1e-4, 1e-8):
        crf = SAGCRF(tol=tol, precision="single", track_objective=True, **base).fit(X, y)
        assert crf.suboptimality_ <= tol
        assert crf.objective_ - crf.dual_gap_ <= best.objective_
        assert crf.objective_ <= best.objective_ * (1 + 2 * tol)
        assert (crf.history_["dual_objective"] <= best.objective_).all()


@pytest.mark.parametrize("start", [0, 1])
def test_weights_stopped_in_single_precision_are_certified_in_double(few, start):
    X, y = few
    crf = SAGCRF(C=1e-3, precision="single", max_iter=3, tol=0.0, random_state=0, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(start + 1):
            crf.fit(X, y)
    squares = sum((w**2).sum() for w in (crf.node_weights_, crf.pair_weights_))
    expected = 0.5 / (1e-3 * len(X)) * squares - crf.predict_log_likelihood(X, y).mean()
    np.testing.assert_allclose(crf.objective_, expected, rtol=1e-12)
    best = SAGCRF(C=1e-3, solver="lbfgs", tol=1e-10, max_iter=500).fit(X, y)
    assert crf.dual_objective_ <= best.objective_ <= crf.objective_ * (1 + 1e-9)


def test_single_precision_is_taken_where_weights_are_many():
    assert takes_single("auto", ((1 << 18, 1), (1, 1)), 4)
    assert not takes_single("auto", ((1 << 18, 1), (1, 1)), 3)
    assert not takes_single("auto", ((1 << 14, 15), (1, 1)), 100)
    assert takes_single("single", ((1, 1), (1, 1)), 1)
    assert not takes_single("double", ((1 << 20, 9), (1, 1)), 100)

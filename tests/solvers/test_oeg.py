"""solver="oeg": optima, certificates, threads and refusals of online exponentiated gradient."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain
from skstruct.core import memory
from skstruct.solvers.oeg import OEG
from skstruct.testing import random_sequences


@pytest.fixture
def few():
    """Fifteen sequences."""
    return random_sequences(np.random.default_rng(3), n_samples=15)


def test_a_table_has_the_optimum_of_logistic_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    weight = rng.uniform(0.2, 3.0, size=40)
    crf = SAGCRF("multiclass", C=2.0, solver="oeg", tol=1e-10, random_state=0, fit_intercept=False)
    crf.fit(X, y, sample_weight=weight)
    peer = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000, fit_intercept=False)
    peer.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(crf.coef_, peer.coef_, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"C": 0.1}, {"C": 30.0}, {"margin": "hamming"}, {"class_weight": "balanced"}]
)
def test_each_epoch_has_a_certificate(few, options):
    X, y = few
    labels = np.unique(np.concatenate(y)).tolist()
    graph = Chain(forbidden=[(labels[0], labels[1])])
    y = [[labels[2] if a == labels[1] else a for a in row] for row in y]
    y[0] = [labels[1]] + [labels[2]] * (len(y[0]) - 1)
    weight = np.random.default_rng(0).uniform(0.1, 4.0, size=len(y))
    options = {"graph": graph, "random_state": 0, "max_iter": 3000} | options
    best = SAGCRF(solver="lbfgs", tol=1e-11, **options).fit(X, y, sample_weight=weight)
    crf = SAGCRF(solver="oeg", tol=1e-7, track_objective=True, **options)
    crf.fit(X, y, sample_weight=weight)
    assert (crf.history_["dual_objective"] <= best.objective_).all()
    assert (crf.history_["objective"] >= best.dual_objective_).all()
    assert crf.objective_ == pytest.approx(best.objective_, rel=1e-6)
    assert crf.suboptimality_ <= 1e-7
    assert np.isfinite(crf.node_weights_).all()
    np.testing.assert_allclose(crf.gradient_norm_, 0.0, atol=1e-2)


def test_single_precision_changes_no_bound(few):
    best = SAGCRF(solver="lbfgs", tol=1e-11, max_iter=1000).fit(*few)
    for tol in (1e-2, 1e-8):
        crf = SAGCRF(solver="oeg", precision="single", tol=tol, random_state=0).fit(*few)
        assert crf.suboptimality_ <= tol
        assert crf.dual_objective_ <= best.objective_
        assert crf.objective_ >= best.dual_objective_
        assert crf.node_weights_.dtype == np.float64


def test_the_dual_never_falls_and_seeds_and_threads_change_no_bit(few, monkeypatch):
    duals, present = [], OEG._dual_objective

    def spied(self):
        duals.append(present(self))
        return duals[-1]

    monkeypatch.setattr(OEG, "_dual_objective", spied)
    options = {"solver": "oeg", "tol": 1e-6, "random_state": 0, "precision": "double"}
    first = SAGCRF(**options).fit(*few)
    assert (np.diff(duals) >= -1e-12).all()
    again = SAGCRF(n_jobs=2, **options).fit(*few)
    assert (first.node_weights_ == again.node_weights_).all()
    assert first.dual_gap_ == again.dual_gap_
    other = SAGCRF(**options | {"random_state": 1}).fit(*few)
    assert (first.node_weights_ != other.node_weights_).any()


def test_samples_that_are_certain_do_not_hold_it_up():
    # Gains of the first samples are rounding from the first epochs on: no reason for short steps.
    X = np.array([[1e4, 0.0]] * 5 + [[0.0, 1.0], [0.0, 0.9]] * 5)
    y = [0] * 5 + [0, 1] * 5
    crf = SAGCRF("multiclass", solver="oeg", tol=1e-9, max_iter=100, random_state=0).fit(X, y)
    assert crf.suboptimality_ <= 1e-9


def test_what_it_refuses(few, monkeypatch):
    X, y = few
    with pytest.raises(ValueError, match='l1_ratio=0.5 is not for solver="oeg"'.replace('"', "'")):
        SAGCRF(solver="oeg", l1_ratio=0.5).fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True is not for"):
        SAGCRF(solver="oeg", warm_start=True).fit(X, y)
    partial = [np.array(row, dtype=object) for row in y]
    partial[0][0] = None
    with pytest.raises(ValueError, match="'oeg' needs a label for each node"):
        SAGCRF(solver="oeg").fit(X, partial)
    monkeypatch.setattr(memory, "available_bytes", lambda: 600)
    with pytest.raises(
        MemoryError, match=r"potentials and mixtures of OEG would take [0-9,]+ bytes"
    ):
        SAGCRF(solver="oeg").fit(X, y)

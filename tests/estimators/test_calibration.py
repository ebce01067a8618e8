"""TemperatureScaling: the temperature is that of the best likelihood; predictions do not change."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import BCFWSSVM, SAGCRF, Chain, TemperatureScaling
from skstruct.estimators.calibration import at_temperature
from skstruct.inspection import CalibrationDisplay
from skstruct.preprocessing import PerNode
from skstruct.testing import random_sequences

X, Y = random_sequences(np.random.default_rng(0), 90)


@pytest.fixture(scope="module")
def frozen():
    crf = SAGCRF(C=30.0, random_state=0).fit(X[:30], Y[:30])
    return TemperatureScaling(FrozenEstimator(crf)).fit(X[30:60], Y[30:60])


def test_the_temperature_has_the_best_likelihood(frozen):
    def mean(temperature):
        model = at_temperature(frozen.estimator_, temperature)
        return model.predict_log_likelihood(X[30:60], Y[30:60]).mean()

    assert frozen.log_likelihoods_ == pytest.approx([mean(1.0), mean(frozen.temperature_)])
    for factor in (0.99, 1.01, 0.5, 2.0):
        assert mean(frozen.temperature_ * factor) < frozen.log_likelihoods_[1]


def test_predictions_are_the_models_and_probabilities_are_of_one_distribution(frozen):
    for own, his in zip(frozen.predict(X), frozen.estimator_.predict(X), strict=True):
        assert own.tolist() == his.tolist()
    assert frozen.score(X, Y) == frozen.estimator_.score(X, Y)
    nodes, edges = frozen.predict_marginals(X[60:], pairwise=True)
    np.testing.assert_allclose(edges[0].sum(axis=2), nodes[0][:-1])
    x = X[0][:1]
    shares = np.exp(frozen.predict_log_likelihood([x] * 3, [["a"], ["b"], ["c"]]))
    np.testing.assert_allclose(shares, frozen.predict_proba([x])[0][0])
    entropy = -(shares * np.log(shares)).sum()
    np.testing.assert_allclose(frozen.predict_entropy([x]), [entropy])
    assert frozen.sample([x], 3, random_state=0)[0].shape == (3, 1)


def test_of_one_node_it_is_scikit_learns():
    table, labels = np.concatenate(X), np.concatenate(Y)
    half = len(table) // 2
    crf = SAGCRF("multiclass", C=100.0, tol=1e-8, max_iter=2000, random_state=0)
    crf.fit(table[:half], labels[:half])
    ours = TemperatureScaling(FrozenEstimator(crf)).fit(table[half:], labels[half:])
    logistic = LogisticRegression(C=100.0, tol=1e-9, max_iter=5000).fit(table[:half], labels[:half])
    logistic.coef_, logistic.intercept_ = np.array(crf.coef_), np.array(crf.intercept_)
    theirs = CalibratedClassifierCV(FrozenEstimator(logistic), method="temperature")
    theirs.fit(table[half:], labels[half:])
    np.testing.assert_allclose(
        ours.predict_proba(table), theirs.predict_proba(table), rtol=0, atol=1e-3
    )


def test_folds_pipelines_and_searches():
    model = make_pipeline(PerNode(StandardScaler()), SAGCRF(C=30.0, random_state=0))
    scaled = TemperatureScaling(model, cv=3).fit(X[:60], Y[:60])
    assert scaled.temperature_ > 1.0
    assert scaled.log_likelihoods_[1] > scaled.log_likelihoods_[0]
    assert scaled.predict_marginals(X[60:])[0].shape == (len(X[60]), 3)
    search = GridSearchCV(clone(scaled), {"estimator__sagcrf__C": [0.1, 1.0]}, cv=2)
    assert search.fit(X[:40], Y[:40]).best_estimator_.temperature_ > 0
    again = pickle.loads(pickle.dumps(scaled))
    assert again.predict_proba(X[:1])[0].tolist() == scaled.predict_proba(X[:1])[0].tolist()


def test_a_label_that_a_fold_lacks_and_impossible_labellings_are_left_out():
    names = [np.array([f"B-{v}" for v in own]) for own in Y[:30]]
    names[0] = names[0].astype("U9")
    names[0][:] = "B-rare"
    model = TemperatureScaling(SAGCRF(random_state=0), cv=3).fit(X[:30], names)
    assert np.isfinite(model.temperature_)
    assert "B-rare" in model.classes_
    crf = SAGCRF(Chain(forbidden=[("a", "b")]), random_state=0)
    obeys = [i for i in range(30) if "ab" not in "".join(Y[i])]
    crf.fit([X[i] for i in obeys], [Y[i] for i in obeys])
    assert TemperatureScaling(FrozenEstimator(crf)).fit(X, Y).temperature_ > 0
    with pytest.raises(ValueError, match="no labelling of the held-out samples"):
        TemperatureScaling(FrozenEstimator(crf)).fit([X[0][[0, 0]]], [["a", "b"]])


def test_chunks_are_calibrated_by_isotonic_regression():
    names = [np.array([{"a": "O", "b": "B-x", "c": "I-x"}[v] for v in own]) for own in Y]
    crf = SAGCRF(C=30.0, random_state=0).fit(X[:30], names[:30])
    model = TemperatureScaling(FrozenEstimator(crf), isotonic=True).fit(X[30:], names[30:])
    plain = TemperatureScaling(FrozenEstimator(crf)).fit(X[30:], names[30:])
    given, corrected = [], []
    for own, his in zip(plain.predict_chunks(X), model.predict_chunks(X), strict=True):
        assert [chunk[:3] for chunk in own] == [chunk[:3] for chunk in his]
        given += [chunk[3] for chunk in own]
        corrected += [chunk[3] for chunk in his]
    order = np.argsort(given)
    assert (np.diff(np.array(corrected)[order]) >= 0).all()
    assert max(corrected) <= 1.0
    assert (
        model.predict_chunks(X[:1], confidence=False)[0]
        == crf.predict_chunks(X[:1], confidence=False)[0]
    )
    figure = pytest.importorskip("matplotlib.figure").Figure()
    display = CalibrationDisplay.from_estimators(
        {"crf": crf, "scaled": model}, X[30:], names[30:], of="chunks", ax=figure.subplots()
    )
    assert list(display.curves) == ["crf", "scaled"]
    assert len(display.lines_) == 2
    with pytest.raises(ValueError, match="of must be"):
        CalibrationDisplay.from_estimators(crf, X, names, of="words")


def test_what_has_no_probabilities_is_refused():
    with pytest.raises(TypeError, match="BCFWSSVM has no probabilities"):
        TemperatureScaling(BCFWSSVM(), cv=2).fit(X[:20], Y[:20])

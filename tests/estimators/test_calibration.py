"""TemperatureScaling: the temperature is that of the best likelihood; predictions do not change."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import BCFWSSVM, SAGCRF, Chain, MultiLabel, TemperatureScaling, export
from skstruct.estimators.calibration import at_temperature
from skstruct.lite import Tagger
from skstruct.metrics import chunks, confidences
from skstruct.preprocessing import PerNode, TemplateVectorizer
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
    right, sure = confidences(make_pipeline(model), X, names, of="chunks")
    assert sure.tolist() == corrected
    both = zip(crf.predict_chunks(X), names, strict=True)
    assert right.tolist() == [one[:3] in chunks(truth) for own, truth in both for one in own]
    with pytest.raises(ValueError, match="of must be"):
        confidences(crf, X, names, of="words")


def test_what_has_no_probabilities_is_refused():
    with pytest.raises(TypeError, match="BCFWSSVM has no probabilities"):
        TemperatureScaling(BCFWSSVM(), cv=2).fit(X[:20], Y[:20])


def test_models_in_pipelines_searches_and_frozen_ones_are_found():
    crf = SAGCRF(C=30.0, random_state=0).fit(X[:30], Y[:30])
    expected = TemperatureScaling(FrozenEstimator(crf)).fit(X[30:60], Y[30:60])
    search = GridSearchCV(SAGCRF(random_state=0), {"C": [30.0]}, cv=2).fit(X[:30], Y[:30])
    for model in (make_pipeline(crf), make_pipeline("passthrough", FrozenEstimator(crf)), search):
        found = TemperatureScaling(FrozenEstimator(model)).fit(X[30:60], Y[30:60])
        assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-4)
    with pytest.raises(TypeError, match="TemperatureScaling has no probabilities that a temp"):
        TemperatureScaling(FrozenEstimator(expected)).fit(X[30:60], Y[30:60])
    with pytest.raises(TypeError, match="estimator must be an estimator"):
        TemperatureScaling(SAGCRF).fit(X, Y)
    with pytest.raises(ValueError, match="y must hold the labels"):
        TemperatureScaling(SAGCRF()).fit(X, None)


def test_folds_of_tables_are_stratified_and_rare_labels_of_columns_left_out():
    labels = np.repeat([0, 1, 2], 20)  # sorted: a plain fold would lack a class
    rng = np.random.default_rng(0)
    table = np.eye(3)[labels] + rng.normal(size=(60, 3))
    scaled = TemperatureScaling(SAGCRF("multiclass", random_state=0), cv=3).fit(table, labels)
    assert is_classifier(scaled)
    assert scaled.log_likelihoods_[1] >= scaled.log_likelihoods_[0]
    sets = rng.integers(2, size=(60, 3))
    model = TemperatureScaling(SAGCRF(MultiLabel(), random_state=0), cv=3).fit(table, sets)
    assert model.predict_marginals(table).shape == (60, 3)
    unsure = sets.astype(float)
    unsure[::7, 1] = np.nan  # scikit-learn cannot stratify by them
    model = TemperatureScaling(SAGCRF(MultiLabel(), random_state=0), cv=3).fit(table, unsure)
    assert model.log_likelihoods_[1] >= model.log_likelihoods_[0]


def test_missing_labels_do_not_cost_the_sample():
    """NaN beside strings was read as the unknown label 'nan', and its sample left out."""
    missing = [[None, float("nan"), pd.NA, {"a"}, *own][: len(own)] for own in Y]
    crf = SAGCRF(tol=0.1, random_state=0).fit(X, Y)
    assert crf._read_truth(X, missing)[2].all()
    odd = [[{"b", "d"}, *Y[0][1:]], ["d", *Y[1][1:]], *Y[2:]]
    assert np.flatnonzero(~crf._read_truth(X, odd)[2]).tolist() == [0, 1]
    fits = [
        TemperatureScaling(SAGCRF(random_state=0), cv=2).fit(
            X[:30], [[value, *own[1:]] for own in Y[:30]]
        )
        for value in (None, float("nan"))
    ]
    assert fits[0].temperature_ == fits[1].temperature_


def test_isotonic_regression_of_labels_without_prefixes():
    rng = np.random.default_rng(0)
    y = [["run", "O", "walk"][k] for k in rng.integers(0, 3, 60)]
    y = [np.repeat(y[i : i + 3], rng.integers(1, 4, 3)).tolist() for i in range(0, 60, 3)]
    X = [np.array([[len(v)] for v in labels]) + rng.normal(size=(len(labels), 1)) for labels in y]
    crf = SAGCRF(random_state=0).fit(X[:10], y[:10])
    options = {"isotonic": True, "scheme": "runs"}
    model = TemperatureScaling(FrozenEstimator(crf), **options).fit(X[10:], y[10:])
    assert 0.0 <= model.predict_chunks(X[:1])[0][0].probability <= 1.0
    # All chunks of the predicted labels are right, none of labels that are all "O" is.
    right, _ = confidences(crf, X, crf.predict(X), of="chunks", scheme="runs")
    assert right.size
    assert right.all()
    outside = [["O"] * len(labels) for labels in y]
    right, _ = confidences(crf, X, outside, of="chunks", scheme="runs")
    assert right.size
    assert not right.any()


@pytest.mark.filterwarnings("ignore:label '.' has no chunk prefix")
def test_cv_used_up_and_isotonic_of_an_earlier_fit():
    used = TemperatureScaling(SAGCRF(random_state=0), cv=KFold(2).split(X[:30])).fit(X[:30], Y[:30])
    with pytest.raises(ValueError, match="cv has no folds"):
        used.fit(X[:30], Y[:30])
    names = [np.array([{"a": "O", "b": "B-x", "c": "I-x"}[v] for v in own], "O") for own in Y]
    names[0][0] = None  # neither right nor wrong: chunks of this sample do not count
    crf = SAGCRF(C=30.0, random_state=0).fit(X[:30], names[:30])
    model = TemperatureScaling(FrozenEstimator(crf), isotonic=True).fit(X, names)
    assert not hasattr(model.set_params(isotonic=False).fit(X, names), "isotonic_")
    assert confidences(make_pipeline(crf), X, names)[0].size == sum(map(len, Y)) - 1
    with pytest.raises(ValueError, match="isotonic: no chunks are predicted"):
        TemperatureScaling(SAGCRF(random_state=0), cv=2, isotonic=True).fit(X[:20], Y[:20])
    svm = BCFWSSVM(max_iter=2, tol=1.0, random_state=0).fit(X[:20], Y[:20])
    with pytest.raises(TypeError, match="BCFWSSVM has no predict_marginals"):
        confidences(svm, X, Y)


def test_a_tagger_without_numba_has_the_calibrated_probabilities(frozen, tmp_path):
    export(frozen, tmp_path / "crf.npz")
    tagger = Tagger.load(tmp_path / "crf.npz")
    for x, marginals in zip(X[:9], frozen.predict_marginals(X[:9]), strict=True):
        np.testing.assert_allclose(tagger.marginals(x), marginals, atol=1e-6)
    isotonic = TemperatureScaling(SAGCRF(random_state=0), cv=2, isotonic=True)
    isotonic.fit(X[:30], [[f"B-{label}" for label in labels] for labels in Y[:30]])
    with pytest.raises(ValueError, match="isotonic=True"):
        export(isotonic, tmp_path / "crf.npz")


@pytest.mark.filterwarnings("ignore:X. no feature:UserWarning")
@pytest.mark.parametrize(
    ("lines", "graph"),
    [
        ("U0:%x[0,0]\nU1:%x[-1,1]", Chain(boundary=True)),
        ("U0:%x[0,0]\nB:%x[0,1]/%x[-1,0]", Chain(edge_features=True)),
    ],
)
def test_only_the_weights_that_samples_use_are_divided(lines, graph):
    """As if all of them were."""
    rng = np.random.default_rng(0)
    X = [[(f"w{rng.integers(30)}", f"p{rng.integers(4)}") for _ in range(n)] for n in range(1, 20)]
    y = [[("O", "B-A")[rng.integers(2)] for _ in x] for x in X]
    vectorizer = TemplateVectorizer(lines).fit(X)
    X = vectorizer.transform(X)
    crf = SAGCRF(graph, max_iter=20, tol=1.0, random_state=0).fit(X, y)
    model = TemperatureScaling(FrozenEstimator(crf)).fit(X, y)
    model.temperature_ = 1.7
    whole, size = at_temperature(crf, 1.7), crf.n_features_in_
    unknown = vectorizer.transform([[("new", "new")] * 3])
    for Z, labels in ((X, y), (X[:1], y[:1]), (X[7:9], y[7:9]), (unknown, [["O"] * 3])):
        for name in ("predict_marginals", "predict_entropy", "predict_chunks"):
            for own, his in zip(getattr(model, name)(Z), getattr(whole, name)(Z), strict=True):
                np.testing.assert_array_equal(own, his)
        own, his = (m.predict_log_likelihood(Z, labels) for m in (model, whole))
        np.testing.assert_array_equal(own, his)
        for own, his in zip(*(m.sample(Z, 3, random_state=0) for m in (model, whole)), strict=True):
            np.testing.assert_array_equal(own, his)
    assert crf.n_features_in_ == size
    assert len(crf.node_weights_) >= size
    crf.node_weights_ *= 0.0  # what is edited later counts
    crf.pair_weights_ *= 0.0
    np.testing.assert_allclose(np.concatenate([*model.predict_marginals(X)]), 0.5)


@pytest.mark.parametrize("labels", [["B-A"], ["B-A", "O", "O"], ["B-A", None, "O"]])
def test_chunks_of_samples_with_other_numbers_of_labels_are_refused(labels):
    X, y = [np.eye(2)] * 2, [["B-A", "O"]] * 2
    crf = SAGCRF(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=f"sample 1: X has 2 nodes, but y has {len(labels)}"):
        confidences(crf, X, [y[0], labels], of="chunks")

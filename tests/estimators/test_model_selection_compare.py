"""compare: the paired bootstrap, by counts and by force."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer

from skstruct import SAGCRF
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import SCORERS, chunk_f1_score, flatten
from skstruct.metrics.terms import RATIOS, has_chunk_tags, ratio_of_sums, ratio_terms
from skstruct.model_selection import compare
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer


class _Fixed:
    def __init__(self, labels):
        self.labels = labels

    def predict(self, X):
        return self.labels


def _tags(rng, n=60):
    return [rng.choice(["O", "B-A", "I-A", "B-B"], rng.integers(1, 6)).tolist() for _ in range(n)]


def _noisy(rng, y, share):
    names = np.array(["O", "B-A", "I-A", "B-B"])
    return [
        [str(rng.choice(names)) if rng.random() < share else label for label in own] for own in y
    ]


@pytest.fixture
def tags():
    rng = np.random.default_rng(0)
    y = _tags(rng)
    return y, {"good": _noisy(rng, y, 0.2), "bad": _noisy(rng, y, 0.5)}


@pytest.mark.parametrize("name", RATIOS)
def test_ratios_are_the_scores(name, tags):
    y, predictions = tags
    partly = [[None, *y[0][1:]], *y[1:]]
    for truth in (y, partly):
        for labels in predictions.values():
            terms = ratio_terms(name, truth, labels)
            assert terms.shape == (2, len(y))
            model = _Fixed(labels)
            expected = SCORERS[name]._score_func(
                truth, model.predict(None), **SCORERS[name]._kwargs
            )
            assert ratio_of_sums(terms) == pytest.approx(expected)


def test_tags_of_chunks_are_recognised(tags):
    assert has_chunk_tags(tags[0])
    assert has_chunk_tags([[None, "B-A"], [{"B-A", "I-A"}, "O"]])
    for y in ([["a", "b"]], [["O", "O"]], [[0, 1]], ["B-A", "O"], [["B-A", 1]], np.eye(2)):
        assert not has_chunk_tags(y)
    images = np.zeros((2, 3, 4), dtype=int)
    assert not has_chunk_tags(images)
    assert not has_chunk_tags([*images])


@pytest.mark.parametrize("name", ["chunk_f1", "node_accuracy"])
def test_sums_of_counts_are_scores_of_resampled_sets(name, tags):
    y, predictions = tags
    options = {"n_resamples": 40, "random_state": 3}
    fast = compare(predictions, None, y, scoring=name, **options)
    same = SCORERS[name]
    by_force = make_scorer(lambda a, b: same._score_func(a, b, **same._kwargs))
    slow = compare(predictions, None, y, scoring=by_force, **options)
    np.testing.assert_allclose(fast.bootstrap_scores_, slow.bootstrap_scores_)
    for column in ("score", "low", "high", "p_value"):
        np.testing.assert_allclose(fast.table[column], slow.table[column])


def test_intervals_and_p_values_are_those_of_the_resampled_scores(tags):
    y, predictions = tags
    found = compare(predictions, None, y, n_resamples=500, confidence=0.9, random_state=0)
    table, drawn = found.table, found.bootstrap_scores_
    assert table["model"].tolist() == ["good", "bad", "good - bad"]
    lead = drawn[:, 0] - drawn[:, 1]
    for row, values in enumerate((*drawn.T, lead)):
        expected = np.quantile(values, [0.05, 0.95])
        np.testing.assert_allclose(table.loc[row, ["low", "high"]].tolist(), expected)
    assert table["score"][2] == found.scores_["good"] - found.scores_["bad"]
    assert found.scores_["good"] == chunk_f1_score(y, predictions["good"])
    assert table["p_value"][2] == pytest.approx(2.0 * ((lead <= 0.0).sum() + 1) / 501)
    assert np.isnan(table["p_value"][0])


def test_identical_models_do_not_differ(tags):
    y, predictions = tags
    both = {"one": predictions["good"], "other": predictions["good"]}
    last = compare(both, None, y, random_state=0).table.iloc[-1]
    assert (last["score"], last["low"], last["high"], last["p_value"]) == (0.0, 0.0, 0.0, 1.0)


def test_intervals_cover_the_true_value():
    rng, inside, rejected = np.random.default_rng(0), 0, 0
    for _ in range(200):
        wrong = rng.random((2, 80)) < 0.3
        y = ["a"] * 80
        predictions = {k: np.where(own, "b", "a") for k, own in zip("pq", wrong, strict=True)}
        found = compare(predictions, None, y, n_resamples=300, random_state=rng.integers(2**31))
        table = found.table
        inside += table["low"][0] <= 0.7 <= table["high"][0]
        rejected += table["p_value"][2] < 0.05
    assert 180 <= inside <= 198
    assert 2 <= rejected <= 20


def test_models_and_their_predictions_compare_alike():
    data = make_annotated_sentences(n_train=60, n_test=40, random_state=0)
    X, y, test = data.train.word, data.train.entity, data.test
    features = TemplateVectorizer("U0:%x[0,0]")
    models = {
        C: make_pipeline(features, SAGCRF(C=C, random_state=0)).fit(X, y) for C in (0.01, 1.0)
    }
    options = {"random_state": 0, "n_resamples": 100}
    found = compare(models, test.word, test.entity, **options)
    assert found.scores_[1.0] == chunk_f1_score(test.entity, models[1.0].predict(test.word))
    predictions = {C: model.predict(test.word) for C, model in models.items()}
    same = compare(predictions, None, test.entity, **options)
    np.testing.assert_array_equal(found.bootstrap_scores_, same.bootstrap_scores_)
    taggers = {C: _Fixed(labels) for C, labels in predictions.items()}
    same = compare(taggers, test.word, test.entity, **options)
    np.testing.assert_array_equal(found.bootstrap_scores_, same.bootstrap_scores_)


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss"])
def test_models_of_tables(scoring):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    models = {"crf": SAGCRF("multiclass").fit(X, y), "lr": LogisticRegression().fit(X, y)}
    found = compare(models, X, y, scoring=scoring, n_resamples=50, random_state=0)
    if scoring is None:
        assert found.scores_ == {name: model.score(X, y) for name, model in models.items()}
    assert found.bootstrap_scores_.shape == (50, 2)
    assert found.bootstrap_scores_.std(axis=0).min() > 0.0


def test_shown_as_text_and_html(tags):
    y, predictions = tags
    found = compare(predictions | {"<b>": predictions["bad"]}, None, y, random_state=0)
    assert "good - bad" in repr(found)
    assert "95% intervals" in repr(found)
    html = found._repr_html_()
    assert "&lt;b&gt;" in html
    assert html.count("<tr") == 7


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"models": [[["a"]]]}, TypeError, "models must be a dict of models by name, got a list"),
        ({"models": {}}, ValueError, "models must have one model or more"),
        ({"models": {"m": [["a"]]}}, ValueError, "'m' has 1 predictions, y 2 samples"),
        ({"models": {"m": 3}}, TypeError, "'m' must be a model or predictions, got 3"),
        ({"models": {"m": [["a"], ["b", "b"]]}}, ValueError, "sample 0: y_true has 2 labels"),
        ({"models": {"m": SAGCRF}}, TypeError, "must be a model or predictions, got <class"),
        ({"models": {"m": SAGCRF()}}, ValueError, "X must hold the samples that 'm' predicts"),
        ({"n_resamples": 0}, ValueError, "n_resamples must be an integer of at least 1"),
        ({"confidence": 95}, ValueError, "confidence must be between 0 and 1, got 95"),
        ({"y": None}, ValueError, "y must hold the labels"),
        ({"scoring": "f1"}, ValueError, "scoring='f1' .* of SCORERS: node_accuracy"),
        ({"scoring": "f2"}, ValueError, "got 'f2'"),
    ],
)
def test_bad_input_is_named(change, error, text):
    arguments = {"models": {"m": [["a", "b"], ["b"]]}, "X": None, "y": [["a", "a"], ["b"]]}
    with pytest.raises(error, match=text):
        compare(**(arguments | change))


def test_undefined_differences_are_no_evidence(tags):
    y, predictions = tags
    found = compare(predictions, None, y, scoring=lambda *_: np.nan, n_resamples=20)
    assert set(found.table["p_value"].dropna()) == {1.0}


def test_few_samples_are_reported():
    with pytest.warns(UserWarning, match="of 1 samples, fewer than 10, are too small"):
        compare({"m": [["a"]]}, None, [["a"]])


def test_accuracy_of_predictions_is_the_default():
    y = [["a", "b"], ["b"]] * 5
    predicted = [["a", "a"], ["b"]] * 5
    found = compare({"m": predicted}, None, y, random_state=0)
    assert found.scores_["m"] == np.mean(np.equal(*flatten(y, predicted)))

"""Inspection looks into searches, frozen models, pipelines and the package's own wrappers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from skstruct import SAGCRF, SmoothedClassifier, TemperatureScaling
from skstruct.inspection import (
    ConvergenceDisplay,
    MarginalsDisplay,
    TransitionDisplay,
    coef_frame,
    explain,
    top_features,
    transition_frame,
)
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

X = [["the", "dog", "barks"], ["a", "cat"], ["the", "cat", "sleeps"], ["a", "dog"]] * 2
Y = [["D", "N", "V"], ["D", "N"], ["D", "N", "V"], ["D", "N"]] * 2


def _wrapped():
    crf = SAGCRF(random_state=0, track_objective=True)
    tagger = make_pipeline(TemplateVectorizer("U:%x[0,0]"), crf).fit(X, Y)
    search = GridSearchCV(tagger, {"sagcrf__C": [1.0]}, cv=2).fit(X, Y)
    return tagger, [
        search,
        FrozenEstimator(tagger),
        TemperatureScaling(FrozenEstimator(tagger)).fit(X, Y),
        TemperatureScaling(FrozenEstimator(search)).fit(X, Y),
        make_pipeline(FrozenEstimator(TemperatureScaling(FrozenEstimator(tagger)).fit(X, Y))),
    ]


def test_frames_and_explanations_are_those_of_the_model_inside():
    tagger, wrappers = _wrapped()
    for model in wrappers:
        assert coef_frame(model).equals(coef_frame(tagger))
        assert top_features(model, 2).equals(top_features(tagger, 2))
        assert transition_frame(model).equals(transition_frame(tagger))
        assert explain(model, X[0]).equals(explain(tagger, X[0]))
        weights = TransitionDisplay.from_estimator(model, ax=Figure().subplots()).weights
        np.testing.assert_array_equal(weights, transition_frame(tagger))
        display = ConvergenceDisplay.from_estimators(model, ax=Figure().subplots())
        ((passes, values),) = display.curves.values()
        np.testing.assert_array_equal(passes, tagger[-1].history_["passes"])
        np.testing.assert_array_equal(values, tagger[-1].history_["objective"])


def test_marginals_are_drawn_at_the_temperature_and_by_words():
    tagger, _ = _wrapped()
    scaled = TemperatureScaling(FrozenEstimator(tagger)).fit(X, Y)
    display = MarginalsDisplay.from_estimator(scaled, X[0], ax=Figure().subplots())
    np.testing.assert_array_equal(display.marginals, scaled.predict_marginals(X[:1])[0])
    assert not np.allclose(display.marginals, tagger.predict_marginals(X[:1])[0])
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == X[0]
    assert list(display.classes) == ["D", "N", "V"]


def test_smoothed_classifiers_are_explained_by_scores_of_classes():
    rng = np.random.default_rng(0)
    nodes = [rng.normal(size=(5, 2)) for _ in range(12)]
    labels = [np.where(x[:, 0] > 0, "a", "b") for x in nodes]
    model = SmoothedClassifier(LogisticRegression()).fit(nodes, labels)
    assert coef_frame(model).index[:2].tolist() == ["a", "b"]
    assert transition_frame(model).columns.tolist() == ["a", "b"]
    best, scores = model.smoother_.predict_top_k(model._scores.transform(nodes[:1]), 1)
    assert best[0][0].tolist() == model.predict(nodes[:1])[0].tolist()
    assert explain(model, nodes[0])["contribution"].sum() == pytest.approx(scores[0][0])


def test_other_estimators_are_refused_by_name():
    other = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="LogisticRegression is not an estimator of skstruct"):
        coef_frame(other)


def test_validation_scores_are_drawn_on_a_linear_scale():
    curve = np.arange(3), np.array([0.5, 0.8, 0.9])
    for name, scale in (("validation_score", "linear"), ("dual_gap", "log")):
        display = ConvergenceDisplay({"a": curve}, xlabel="passes", ylabel=name)
        assert display.plot(Figure().subplots()).ax_.get_yscale() == scale


def test_the_n_best_of_wrappers():
    """Labellings of the model, and scores whose differences are those at the temperature."""
    tagger, _ = _wrapped()
    scaled = TemperatureScaling(FrozenEstimator(tagger)).fit(X, Y)
    labellings, scores = tagger.predict_top_k(X, 3)
    found, values = scaled.predict_top_k(X, 3)
    likelihoods = scaled.predict_log_likelihood(X, [best[0] for best in found])
    others = scaled.predict_log_likelihood(X, [best[1] for best in found])
    for i, (one, two) in enumerate(zip(found, labellings, strict=True)):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(values[i] * scaled.temperature_, scores[i], rtol=1e-9)
        np.testing.assert_allclose(values[i][0] - values[i][1], likelihoods[i] - others[i])
    nodes = [np.eye(3)[[len(word) % 3 for word in words]] for words in X]
    smoothed = SmoothedClassifier(LogisticRegression(), cv=2).fit(nodes, Y)
    found, values = smoothed.predict_top_k(nodes, 2)
    for one, labels, own in zip(found, smoothed.predict(nodes), values, strict=True):
        assert one[0].tolist() == labels.tolist() != one[1].tolist()
        assert own[0] >= own[1]

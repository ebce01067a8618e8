"""Pipelines with the structured predictions of their last step."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline as SklearnPipeline

from skstruct import BCFWSSVM, SAGCRF, TemperatureScaling, export
from skstruct.estimators.persistence import TRUSTED
from skstruct.inspection import coef_frame, explain, top_features
from skstruct.lite import Tagger
from skstruct.model_selection import cross_val_marginals
from skstruct.pipeline import Pipeline, make_pipeline
from skstruct.preprocessing import SequenceVectorizer, drop_unused_features

X = [[["w=Ada"], ["w=left"]], [["w=he"], ["w=saw"], ["w=Rome"]]] * 3
Y = [["B-PER", "O"], ["O", "O", "B-LOC"]] * 3
CALLS = {
    "predict_marginals": ((), {"pairwise": True}),
    "predict_chunks": ((), {"scheme": "iob2"}),
    "predict_top_k": ((2,), {}),
    "predict_log_likelihood": ((Y,), {}),
    "predict_entropy": ((), {}),
    "sample": ((3,), {"random_state": 0}),
}


@pytest.fixture(scope="module")
def model():
    return make_pipeline(SequenceVectorizer(), SAGCRF(random_state=0)).fit(X, Y)


def _same(a, b):
    """Compare whatever predictions return, bit for bit."""
    return pickle.dumps(a) == pickle.dumps(b)


@pytest.mark.parametrize("name", CALLS)
def test_predictions_are_those_of_the_last_step(model, name):
    arguments, options = CALLS[name]
    rows = model[0].transform(X)
    expected = getattr(model[-1], name)(rows, *arguments, **options)
    assert _same(getattr(model, name)(X, *arguments, **options), expected)
    alone = Pipeline([("crf", model[-1])])
    assert _same(getattr(alone, name)(rows, *arguments, **options), expected)
    frozen = make_pipeline("passthrough", model[0], FrozenEstimator(model[-1]))
    assert _same(getattr(frozen, name)(X, *arguments, **options), expected)


def test_methods_are_there_if_the_last_step_has_them():
    svm = make_pipeline(SequenceVectorizer(), BCFWSSVM(random_state=0))
    assert {name for name in CALLS if hasattr(svm, name)} == {"predict_chunks", "predict_top_k"}
    with pytest.raises(AttributeError) as raised:
        svm.predict_marginals(X)
    assert "BCFWSSVM" in str(raised.value.__cause__)
    for steps in [("v", SequenceVectorizer())], [("v", SequenceVectorizer()), ("n", "passthrough")]:
        assert not any(hasattr(Pipeline(steps), name) for name in CALLS)


def test_copies_files_and_searches(model):
    skops_io = pytest.importorskip("skops.io")
    stored = skops_io.dumps(model)
    assert set(skops_io.get_untrusted_types(data=stored)) <= set(TRUSTED)
    grid = {"sagcrf__C": [0.1, 1.0]}
    search = GridSearchCV(clone(model), grid, cv=2, error_score="raise").fit(X, Y)
    for copy in (
        pickle.loads(pickle.dumps(model)),
        skops_io.loads(stored, trusted=TRUSTED),
        clone(model).fit(X, Y),
        search.best_estimator_.set_params(sagcrf__C=1.0).fit(X, Y),
        make_pipeline(*model, verbose=False)[:2],
    ):
        assert type(copy) is Pipeline
        assert _same(copy.predict_marginals(X), model.predict_marginals(X))


def test_everything_takes_it_as_a_pipeline(model, tmp_path):
    plain = SklearnPipeline(model.steps)
    assert list(model.named_steps) == ["sequencevectorizer", "sagcrf"]
    assert coef_frame(model).equals(coef_frame(plain))
    assert top_features(model, 1).equals(top_features(plain, 1))
    assert explain(model, X[0]).equals(explain(plain, X[0]))
    search = GridSearchCV(plain, {"sagcrf__C": [1.0]}, cv=2).fit(X, Y)
    assert coef_frame(search).equals(coef_frame(search.best_estimator_))
    frozen = SklearnPipeline([("v", model[0]), ("crf", FrozenEstimator(model[-1]))])
    assert explain(frozen, X[0]).equals(explain(plain, X[0]))
    assert type(drop_unused_features(model)) is Pipeline
    export(model, tmp_path / "tagger.npz")
    labels = Tagger.load(tmp_path / "tagger.npz").tag_batch(X)
    assert [list(own) for own in labels] == [own.tolist() for own in model.predict(X)]
    scaled = TemperatureScaling(FrozenEstimator(model)).fit(X, Y)
    assert scaled.predict_marginals(X)[0].shape == (2, 3)
    (own, classes), (other, _) = (cross_val_marginals(m, X, Y, cv=2) for m in (model, plain))
    assert_array_equal(classes, model.classes_)
    assert _same(own, other)


def test_models_of_other_programs_are_such_pipelines(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.append(X[0], Y[0])
    trainer.train(str(tmp_path / "model"))
    read = SAGCRF.from_crfsuite(tmp_path / "model")
    assert read.predict_marginals(X[:1])[0].sum() == pytest.approx(2.0)
    assert np.isfinite(read.predict_entropy(X)).all()

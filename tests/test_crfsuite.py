"""Models of CRFsuite give CRFsuite's taggings and marginals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct import SAGCRF

pycrfsuite = pytest.importorskip("pycrfsuite")


def _sentences(rng, n_samples):
    words = ["alpha", "beta", "a:b", "back\\slash", "gamma"]
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(1, 7))
        chosen = rng.integers(0, len(words), n)
        X.append(
            [
                {"w": words[k], "long": len(words[k]) > 5, "size": float(k), "bias": 1.0}
                for k in chosen
            ]
        )
        y.append([f"T{(k + int(rng.random() < 0.2)) % 3}" for k in chosen])
    return X, y


@pytest.fixture(scope="module", params=[0, 1], ids=["observed", "all states"])
def trained(request, tmp_path_factory):
    rng = np.random.default_rng(3)
    X, y = _sentences(rng, 40)
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 0.5, "feature.possible_states": request.param, "max_iterations": 40})
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    path = tmp_path_factory.mktemp("crfsuite") / "model"
    trainer.train(str(path))
    return path, _sentences(rng, 60)[0]


def test_taggings_and_marginals_are_crfsuites(trained):
    path, X = trained
    # An attribute that CRFsuite has never seen is ignored by both.
    X = [*X, [{"w": "never seen", "bias": 1.0}]]
    model = SAGCRF.from_crfsuite(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    features = model[:-1].transform(X)
    marginals = model[-1].predict_marginals(features)
    for x, labels, probabilities in zip(X, model.predict(X), marginals, strict=True):
        tagger.set(pycrfsuite.ItemSequence(x))
        assert labels.tolist() == tagger.tag()
        expected = [[tagger.marginal(label, t) for label in model.classes_] for t in range(len(x))]
        assert_allclose(probabilities, expected, atol=1e-12)
    scores = model[-1].predict_log_likelihood(features, model.predict(X))
    for x, labels, score in zip(X, model.predict(X), scores, strict=True):
        tagger.set(pycrfsuite.ItemSequence(x))
        assert_allclose(np.exp(score), tagger.probability(labels.tolist()), rtol=1e-9)


def test_attribute_lists_and_pickles(trained):
    path, X = trained
    model = SAGCRF.from_crfsuite(str(path))
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    attributes = [["w:alpha", "bias"], ["w:beta"], ["bias"]]
    assert model.predict([attributes])[0].tolist() == tagger.tag(attributes)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"not a model at all" * 10)
    with pytest.raises(ValueError, match="not a CRFsuite model"):
        SAGCRF.from_crfsuite(path)

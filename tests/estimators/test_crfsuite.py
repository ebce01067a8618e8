"""Models of CRFsuite give CRFsuite's taggings and marginals."""

import pickle
import struct
import tracemalloc

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


def _train(path, X, y):
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 0.1, "max_iterations": 20})
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    trainer.train(str(path))


def _check(path, X):
    model = SAGCRF.from_crfsuite(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    marginals = model[-1].predict_marginals(model[:-1].transform(X))
    for x, labels, probabilities in zip(X, model.predict(X), marginals, strict=True):
        tagger.set(pycrfsuite.ItemSequence(x))
        assert labels.tolist() == tagger.tag()
        expected = [[tagger.marginal(label, t) for label in model.classes_] for t in range(len(x))]
        assert_allclose(probabilities, np.reshape(expected, (len(x), -1)), atol=1e-12)
    return model


ODD = ["a\nb", "", " --> ", "x: 1", "\u00e9"]


def test_odd_names(tmp_path):
    rng = np.random.default_rng(0)
    chosen = [rng.integers(0, 5, 4) for _ in range(20)]
    X = [
        [{"w": ODD[k], ODD[k]: 1.0, "n": {"d": ODD[k], "e": ["p", "q"]}} for k in s] for s in chosen
    ]
    y = [[f"L --> {k % 2}\n" for k in s] for s in chosen]
    _train(tmp_path / "model", X, y)
    model = _check(tmp_path / "model", X)
    assert model.classes_.tolist() == ["L --> 0\n", "L --> 1\n"]
    names = model[0].get_feature_names_out().tolist()
    assert set(ODD) < set(names)
    assert "n:d:a\nb" in names


def test_duplicate_attributes_add_up_as_in_crfsuite(tmp_path):
    rng = np.random.default_rng(1)
    chosen = [rng.integers(0, 5, 4) for _ in range(20)]
    X = [[[ODD[k], ODD[k], ODD[(k + 1) % 5]] for k in s] for s in chosen]
    _train(tmp_path / "model", X, [[str(k % 2) for k in s] for s in chosen])
    _check(tmp_path / "model", [*X, [["x: 1", "x: 1", "x: 1"], [""]]])


def test_one_label_and_no_attributes(tmp_path):
    X = [[["a"], ["b"]], [["b"]]]
    _train(tmp_path / "one", X, [["A", "A"], ["A"]])
    assert _check(tmp_path / "one", X).classes_.tolist() == ["A"]
    X = [[[], []], [[]]]
    _train(tmp_path / "none", X, [["A", "B"], ["A"]])
    _check(tmp_path / "none", X)


def test_damaged_files_are_refused(trained, tmp_path):
    data = trained[0].read_bytes()
    path = tmp_path / "model"
    rng = np.random.default_rng(2)
    for size in rng.integers(48, len(data), 20).tolist():
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"damaged|unknown version"):
            SAGCRF.from_crfsuite(path)
    refused = 0
    for _ in range(200):
        broken = bytearray(data)
        broken[rng.integers(4, len(data))] = rng.integers(256)
        path.write_bytes(broken)
        try:
            SAGCRF.from_crfsuite(path)
        except ValueError as error:
            assert "damaged" in str(error) or "unknown version" in str(error)  # noqa: PT017
            refused += 1
    assert refused


def _dictionary(n):
    """A constant quark database of n names."""
    names = [struct.pack("<II", k, 5) + b"%04x\0" % k for k in range(n)]
    table = 24 + sum(map(len, names))
    offsets = np.cumsum([24, *map(len, names[:-1])]).astype("<u4").tobytes()
    header = struct.pack("<4s5I", b"CQDB", table + len(offsets), 0, 0, n, table)
    return header + b"".join(names) + offsets


def test_a_small_file_does_not_ask_for_much_memory(tmp_path):
    n = 6000  # labels and attributes: 72 million weights
    features = struct.pack("<4s2I", b"FEAT", 12, 0)
    names = _dictionary(n)
    starts = 48, 60, 60 + len(names)
    size = 60 + 2 * len(names)
    header = struct.pack("<4sI4s9I", b"lCRF", size, b"FOMC", 100, 0, n, n, *starts, 0, 0)
    (tmp_path / "model").write_bytes(header + features + names + names)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"damaged .6000 labels and 6000 attributes are too m"):
            SAGCRF.from_crfsuite(tmp_path / "model")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()

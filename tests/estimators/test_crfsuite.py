"""Models of CRFsuite give CRFsuite's taggings and marginals."""

import gzip
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain, Tree
from skstruct.datasets import load_conll
from skstruct.lite import Tagger
from skstruct.preprocessing import SequenceUnion, SequenceVectorizer, TemplateVectorizer

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


def _check(path, X):
    """Labels and marginals of a model are those of CRFsuite; the model, and CRFsuite's."""
    model = SAGCRF.from_crfsuite(path)
    assert model[-1].inference_ == "exact"
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    marginals = model[-1].predict_marginals(model[:-1].transform(X))
    for x, labels, probabilities in zip(X, model.predict(X), marginals, strict=True):
        tagger.set(pycrfsuite.ItemSequence(x))
        assert labels.tolist() == tagger.tag()
        expected = [[tagger.marginal(label, t) for label in model.classes_] for t in range(len(x))]
        assert_allclose(probabilities, np.reshape(expected, (len(x), -1)), atol=1e-12)
    return model, tagger


def test_taggings_and_marginals_are_crfsuites(trained):
    path, X = trained
    # An attribute that CRFsuite has never seen is ignored by both.
    X = [*X, [{"w": "never seen", "bias": 1.0}]]
    model, tagger = _check(path, X)
    scores = model[-1].predict_log_likelihood(model[:-1].transform(X), model.predict(X))
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


ODD = ["a\nb", "", " --> ", "x: 1", "\u00e9"]


def test_odd_names(tmp_path):
    rng = np.random.default_rng(0)
    chosen = [rng.integers(0, 5, 4) for _ in range(20)]
    X = [
        [{"w": ODD[k], ODD[k]: 1.0, "n": {"d": ODD[k], "e": ["p", "q"]}} for k in s] for s in chosen
    ]
    y = [[f"L --> {k % 2}\n" for k in s] for s in chosen]
    _train(tmp_path / "model", X, y)
    model, _ = _check(tmp_path / "model", X)
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
    assert _check(tmp_path / "one", X)[0].classes_.tolist() == ["A"]
    X = [[[], []], [[]]]
    _train(tmp_path / "none", X, [["A", "B"], ["A"]])
    _check(tmp_path / "none", X)


def test_models_of_nothing(tmp_path):
    path = tmp_path / "model"
    _train(path, [], [])
    for read in (SAGCRF.from_crfsuite, Tagger.load):
        with pytest.raises(ValueError, match=r"model is damaged, .*: it was trained on nothing"):
            read(path)
    data = path.read_bytes()
    path.write_bytes(data[:40])
    with pytest.raises(ValueError, match="it ends within its header"):
        SAGCRF.from_crfsuite(path)
    path.write_bytes(gzip.compress(data))
    with pytest.raises(ValueError, match="model is not a CRFsuite model file: it is compressed"):
        SAGCRF.from_crfsuite(path)


def test_model_files_of_the_other_program_are_named(tmp_path):
    (tmp_path / "a").write_bytes(b"#mdl#2#2\n")
    (tmp_path / "b").write_bytes(b"lCRF" + bytes(99))
    for read in (SAGCRF.from_crfsuite, Tagger.load):
        with pytest.raises(ValueError, match=r"a is not a .*, but a model of Wapiti: .*wapiti"):
            read(tmp_path / "a")
    with pytest.raises(ValueError, match=r"b is not a .*, but one of CRFsuite: .*from_crfsuite"):
        SAGCRF.from_wapiti(tmp_path / "b")


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
        with pytest.raises(ValueError, match="72,018,000 weights are too many"):
            SAGCRF.from_crfsuite(tmp_path / "model")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def _weighted(rng, names, labels, graph=None, fit_intercept=True):
    """A fitted chain with drawn weights, half of them 0."""
    crf = SAGCRF(graph or Chain(), fit_intercept=fit_intercept)
    crf.graph_, crf.classes_ = crf.graph, np.array(labels)
    crf.n_features_in_, crf._has_intercept = len(names), fit_intercept
    if names:
        crf.feature_names_in_ = names
    else:
        crf._feature_names = SequenceVectorizer().fit([[[]]])._names
    n, n_rows = len(labels), len(names) + crf.graph.n_end_rows + fit_intercept
    crf.node_weights_, crf.pair_weights_ = (
        rng.normal(0, 2, size) * rng.integers(0, 2, size) for size in ((n_rows, n), (1, n * n))
    )
    return crf


def _compare(crf, path, needed, X):
    """Labels and marginals of CRFsuite on CSR features, with what the ends of samples need."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    names = crf.feature_names_in_
    for x, labels, marginals in zip(X, crf.predict(X), crf.predict_marginals(X), strict=True):
        items = [
            {names[j]: float(x[t, j]) for j in x[t].indices.tolist()} for t in range(x.shape[0])
        ]
        if "first" in needed:
            items[0][needed["first"]] = 1.0
        if "last" in needed:
            items[-1][needed["last"]] = 1.0
        assert tagger.tag(pycrfsuite.ItemSequence(items)) == labels.tolist()
        own = [[tagger.marginal(k, t) for k in crf.classes_] for t in range(len(items))]
        assert_allclose(own, marginals, rtol=1e-10, atol=1e-290)


BOTH = {"first": "__BOS__", "last": "__EOS__"}
FIRST = {"first": "__BOS__"}


@pytest.mark.parametrize(
    ("graph", "fit_intercept", "expected"),
    [
        (Chain(), False, {}),
        (Chain(), True, FIRST),
        (Chain(boundary=True), True, BOTH),
        (Chain(boundary=True), False, BOTH),
        (Chain(forbidden="iob2"), False, FIRST),
        (Chain(forbidden=[("O", "O"), ("B-x", None)]), False, {"last": "__EOS__"}),
        (Chain(boundary=True, forbidden=["iob2", (None, "O"), ("I-x", None)]), True, BOTH),
    ],
)
def test_written_models_give_labels_and_marginals(tmp_path, graph, fit_intercept, expected):
    rng = np.random.default_rng(4)
    names = [f"n{'x' * int(rng.integers(40))}{k}" for k in range(300)]
    crf = _weighted(rng, names, ["B-x", "I-x", "O"], graph, fit_intercept)
    if graph.boundary:  # no score of an end is 0
        crf.boundary_coef_[:] = rng.normal(size=(2, 3))
    X = [
        sparse.csr_matrix(rng.normal(size=(n, 300)) * (rng.random((n, 300)) < 0.02))
        for n in (1, 2, 3, 7, 20, 1, 4)
    ]
    needed = crf.to_crfsuite(tmp_path / "model")
    assert needed == expected
    _compare(crf, tmp_path / "model", needed, X)


NAMES = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
    | st.just("\udcff"),
    unique=True,
    max_size=40,
)


@given(NAMES, NAMES.filter(bool), st.integers(0, 2**32 - 1))
def test_a_written_model_is_read_with_the_same_weights(tmp_path_factory, names, labels, seed):
    path = tmp_path_factory.getbasetemp() / "round_trip"
    crf = _weighted(np.random.default_rng(seed), names, sorted(labels), fit_intercept=False)
    assert crf.to_crfsuite(path) == {}
    again = SAGCRF.from_crfsuite(path)[-1]
    assert again.classes_.tolist() == crf.classes_.tolist()
    assert_array_equal(again.pair_weights_, crf.pair_weights_)
    weights = dict(zip(again.feature_names_in_, again.node_weights_, strict=True))
    for name, row in zip(names, crf.node_weights_, strict=True):
        assert_array_equal(weights.pop(name, 0.0), row)
    assert not weights
    before = path.read_bytes()
    again.to_crfsuite(path)
    assert len(path.read_bytes()) == len(before)


def test_files_are_those_of_crfsuite(trained, tmp_path):
    path, X = trained
    model = SAGCRF.from_crfsuite(path)
    model[-1].to_crfsuite(tmp_path / "again")
    # CRFsuite keeps attributes of weight 0, and has its own order.
    files = []
    for file in (path, tmp_path / "again"):
        tagger = pycrfsuite.Tagger()
        tagger.open(str(file))
        found = tagger.info()
        states = {key: value for key, value in found.state_features.items() if value}
        files.append((states, found.transitions, set(found.labels), found.header["version"]))
    assert files[0] == files[1]
    _compare(model[-1], tmp_path / "again", {}, model[:-1].transform(X))


def test_ends_may_be_features_of_ones_own(tmp_path):
    rng = np.random.default_rng(5)
    words = [[f"w{k}" for k in rng.integers(0, 9, n)] for n in (1, 2, 5, 4, 6, 3)]
    y = [rng.choice(["A", "B", "C"], len(x)).tolist() for x in words]
    templates = "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,0]/%x[0,0]\nU3:%x[1,0]"
    model = make_pipeline(TemplateVectorizer(templates), SAGCRF(Chain(boundary=True), tol=0.1))
    model.fit(words, y)
    needed = model[-1].to_crfsuite(tmp_path / "model", first="U1:_B-1", last="U3:_B+1")
    assert needed == {"first": "U1:_B-1", "last": "U3:_B+1"}
    # Nothing is added: the features are there.
    _compare(model[-1], tmp_path / "model", {}, model[:-1].transform(words))


def test_several_vectorizers(tmp_path):
    X = [[{"w": "he"}, {"w": "runs"}], [{"w": "she"}]]
    union = SequenceUnion([("a", SequenceVectorizer()), ("b", SequenceVectorizer(separator=":"))])
    model = make_pipeline(union, SAGCRF(tol=0.1)).fit(X, [["D", "V"], ["D"]])
    needed = model[-1].to_crfsuite(tmp_path / "model")
    _compare(model[-1], tmp_path / "model", needed, model[:-1].transform(X))


@pytest.mark.slow
def test_conll2000(shared_data, tmp_path):
    train, test = (
        load_conll(shared_data / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
        for name in ("train", "test")
    )
    X, new = (
        [
            [
                {"w": w, "p": p, "s": w[-2:], "b": i == 0}
                for i, (w, p) in enumerate(zip(*x, strict=True))
            ]
            for x in zip(part.word, part.pos, strict=True)
        ]
        for part in (train, test)
    )
    model = make_pipeline(SequenceVectorizer(separator=":"), SAGCRF(tol=0.05, random_state=0))
    model.fit(X[:300], train.chunk[:300])
    path = tmp_path / "model"
    assert model[-1].to_crfsuite(path, first="b") == {"first": "b"}
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    marginals = model.predict_proba(new)
    for x, labels, expected in zip(new, model.predict(new), marginals, strict=True):
        assert tagger.tag(pycrfsuite.ItemSequence(x)) == labels.tolist()
        own = [[tagger.marginal(k, t) for k in model.classes_] for t in range(len(x))]
        assert_allclose(own, expected, rtol=1e-10, atol=1e-290)


def _refused(change=None, labels=("A", "B"), names=("a", "b"), **options):
    crf = _weighted(np.random.default_rng(0), list(names), list(labels), **options)
    crf.node_weights_[:] = 1.0
    if change is not None:
        change(crf)
    return crf


@pytest.mark.parametrize(
    ("crf", "match"),
    [
        (_refused(graph=Chain(edge_features=True)), "CRFsuite has no edge features"),
        (_refused(labels=(1, 2)), "labels in a file of CRFsuite are strings, the model has 1"),
        (_refused(labels=("A", "B\0C")), "the label 'B.x00C' has a NUL"),
        (_refused(labels=("A", "\ud800")), "the label '.ud800' has a surrogate"),
        (_refused(names=("a\0", "b")), "the feature 'a.x00' has a NUL"),
        (_refused(names=("a", "\udfff")), "the feature '.udfff' has a surrogate"),
        (_refused(names=("\xe9", "\udcc3\udca9")), "is there twice in UTF-8"),
        (_refused(lambda crf: vars(crf).pop("_feature_names")), "this model does not"),
        (_refused(lambda crf: setattr(crf, "n_features_in_", 1)), "has 2 names for 1 features"),
        (_refused(lambda crf: crf.node_weights_.fill(np.nan)), "weights that are not finite"),
        (_refused(lambda crf: crf.pair_weights_.fill(np.inf)), "weights that are not finite"),
    ],
)
def test_what_crfsuite_cannot_have_is_refused(tmp_path, crf, match):
    path = tmp_path / "model"
    path.write_bytes(b"the file before")
    with pytest.raises(ValueError, match=match):
        crf.to_crfsuite(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"the file before"]


def test_features_of_one_name(tmp_path):
    crf = _refused(names=("a", "a"))
    crf.to_crfsuite(tmp_path / "model")  # both weigh the same
    assert SAGCRF.from_crfsuite(tmp_path / "model")[0].n_features_out_ == 2  # with __BOS__
    crf.node_weights_[0] = 2.0
    with pytest.raises(ValueError, match="two features of different weights are called 'a'"):
        crf.to_crfsuite(tmp_path / "model")


def test_other_structures_and_arguments_are_refused(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(NotFittedError):
        SAGCRF().to_crfsuite(path)
    trees = [(np.eye(2), np.array([-1, 0]))]
    tree = SAGCRF(Tree(), tol=0.5).fit(trees, [["a", "b"]])
    with pytest.raises(ValueError, match="linear chains alone, the structure of the model is Tree"):
        tree.to_crfsuite(path)
    hashed = SequenceVectorizer(hashing=True, n_features=8)
    model = make_pipeline(hashed, SAGCRF(tol=0.5)).fit([[["a"], ["b"]]], [["A", "B"]])
    with pytest.raises(ValueError, match="without hashing"):
        model[-1].to_crfsuite(path)
    crf = _refused(graph=Chain(boundary=True))
    with pytest.raises(TypeError, match="first must be a str"):
        crf.to_crfsuite(path, first=None)
    with pytest.raises(ValueError, match="first and last must be two attributes"):
        crf.to_crfsuite(path, first="e", last="e")
    assert not path.exists()


def test_sparsified_and_l1_models(tmp_path):
    rng = np.random.default_rng(6)
    X, y = _sentences(rng, 30)
    for crf in (SAGCRF(l1_ratio=0.9, tol=0.05), SAGCRF(tol=0.05)):
        model = make_pipeline(SequenceVectorizer(separator=":"), crf).fit(X, y)
        crf.sparsify(1e-3, dtype="float32")
        needed = crf.to_crfsuite(tmp_path / "model")
        _compare(crf, tmp_path / "model", needed, model[:-1].transform(X))

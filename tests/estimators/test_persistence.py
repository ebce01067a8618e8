"""Small pickles predict what the model in memory predicts; skops files work."""

import io
import pickle
import zipfile
from copy import copy, deepcopy

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skstruct import BCFWSSVM, SAGCRF, Chain, MultiLabel
from skstruct.data.names import ListedNames, VocabularyNames
from skstruct.datasets import make_annotated_sentences
from skstruct.estimators.persistence import TRUSTED, pack_table, unpack_table
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer


@pytest.fixture
def model(sparse_sequences):
    X, y = sparse_sequences
    return SAGCRF(Chain(boundary=True), tol=1e-2, random_state=0).fit(X, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 1e9])
def test_a_loaded_model_is_the_model(model, sparse_sequences, threshold, dtype):
    X, _ = sparse_sequences
    before = model.node_weights_.copy()
    assert model.sparsify(threshold, dtype=dtype) is model
    dropped = np.abs(before) <= threshold
    assert_array_equal(model.node_weights_[dropped], 0)
    assert_array_equal(model.node_weights_[~dropped], before[~dropped].astype(dtype))
    for again in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        for name in ("node_weights_", "pair_weights_"):
            loaded = getattr(again, name)
            assert loaded.dtype == np.float64
            assert_array_equal(loaded, getattr(model, name))
        for a, b in zip(again.predict_marginals(X), model.predict_marginals(X), strict=True):
            assert_array_equal(a, b)


def test_pickles_shrink(model):
    big = np.zeros((5000, model.node_weights_.shape[1]))
    big[:50] = 1.0
    model.node_weights_ = big
    # Zeros cost nothing, such as an L1 penalty leaves; rows without an entry cost nothing either.
    stored = pickle.dumps(model)
    assert len(stored) < 0.1 * big.nbytes
    model.node_weights_ = big[:2000]
    assert abs(len(stored) - len(pickle.dumps(model))) < 100
    model.node_weights_ = np.ones_like(big)
    plain = len(pickle.dumps(model))
    assert plain > big.nbytes
    assert len(pickle.dumps(model.sparsify(dtype="float32"))) < 0.6 * plain


def test_coef_is_sparse_until_densify(model):
    dense = model.coef_.copy()
    assert sparse.issparse(model.sparsify().coef_)
    assert_array_equal(model.coef_.toarray(), dense)
    assert_array_equal(model.densify().coef_, dense)
    model.coef_[0, 0] = 7.0
    assert model.node_weights_[0, 0] == 7.0


def test_a_new_fit_forgets(model, sparse_sequences):
    fresh = clone(model).fit(*sparse_sequences)
    model.sparsify(0.5, dtype="float32").fit(*sparse_sequences)
    assert_array_equal(pickle.loads(pickle.dumps(model)).node_weights_, fresh.node_weights_)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": -1}, "threshold must be a number of at least 0"),
        ({"dtype": "int8"}, "dtype must be"),
    ],
)
def test_bad_options(model, options, match):
    with pytest.raises(ValueError, match=match):
        model.sparsify(**options)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("template", [False, True])
def test_skops(tmp_path, template, compact):
    skops = pytest.importorskip("skops.io")
    if template:
        X = [[("He", "PRP"), ("runs", "VBZ")], [("Yes", "UH")]]
        first = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB")
    else:
        X = [[{"w": "He"}, {"w": "runs", "long": True}], [{"w": "Yes"}]]
        first = SequenceVectorizer(min_count=1)
    y = [["A", "B"], ["B"]]
    model = make_pipeline(first, SAGCRF(Chain(forbidden=[("B", "A")]), tol=1e-2)).fit(X, y)
    if compact:
        model[-1].sparsify(dtype="float32")
    path = tmp_path / "model.skops"
    skops.dump(model, path)
    trusted = skops.get_untrusted_types(file=path)
    assert all(name.startswith("skstruct.") for name in trusted), trusted
    again = skops.load(path, trusted=trusted)
    for a, b in zip(model.predict(X), again.predict(X), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(again[-1].node_weights_, model[-1].node_weights_)


@pytest.mark.parametrize(
    "vectorizer",
    [
        SequenceVectorizer(),
        TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB:%x[0,0]"),
    ],
)
def test_skops_files_are_as_small_as_compressed_pickles(vectorizer):
    skops = pytest.importorskip("skops.io")
    train = make_annotated_sentences(n_train=400, random_state=0).train
    X, graph = [words.tolist() for words in train.word], Chain()
    if isinstance(vectorizer, SequenceVectorizer):
        pairs = [[*zip(["", *words], words, strict=False)] for words in X]
        X = [[[f"w={b}", f"end={b[-2:]}", f"pair={a}/{b}"] for a, b in row] for row in pairs]
    else:
        graph = Chain(edge_features=True)
    model = make_pipeline(vectorizer, SAGCRF(graph, max_iter=3, tol=1.0)).fit(X, train.entity)
    model[-1].sparsify(1e-3, dtype="float32")
    file = io.BytesIO()
    joblib.dump(model, file, compress=3)
    stored = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    assert len(stored) < 1.3 * len(file.getvalue())
    again = skops.loads(stored, trusted=TRUSTED)
    # The names are there once, in memory as well.
    assert again[0].vocabulary_ == model[0].vocabulary_
    own = again[0]._names
    own = own[0] if isinstance(own, tuple) else own
    assert again[-1]._feature_names is own
    assert again[-1].feature_names_in_.tolist() == model[-1].feature_names_in_.tolist()
    for a, b in zip(model.predict(X), again.predict(X), strict=True):
        assert_array_equal(a, b)


@given(st.lists(st.text(st.characters(), max_size=8), unique=True))
def test_names_of_any_characters_are_stored(names):
    listed, known = ListedNames(names), VocabularyNames({name: j for j, name in enumerate(names)})
    for own in (listed, known):
        again = pickle.loads(pickle.dumps(own))
        assert again.strings() == names
        assert again == own
    assert list(pickle.loads(pickle.dumps(known)).positions().values()) == [*range(len(names))]


@pytest.mark.parametrize("text", ["", "[", "7", '["a", 1]', '["a", "a"]', "[" * 100_000])
def test_damaged_names_are_refused(text):
    names = VocabularyNames.__new__(VocabularyNames)
    with pytest.raises(ValueError, match="stored names are damaged"):
        names.__setstate__({"packed": np.frombuffer(text.encode(), dtype=np.uint8)})
    with pytest.raises(ValueError, match="stored names are damaged"):
        names.__setstate__({"packed": np.array([255, 34], dtype=np.uint8)})


def test_a_vectorizer_with_other_names_is_refused():
    vectorizer = SequenceVectorizer().fit([[["a", "b"]]])
    state = vectorizer.__getstate__()
    assert "vocabulary_" not in state
    with pytest.raises(ValueError, match="it has other names than columns"):
        SequenceVectorizer.__new__(SequenceVectorizer).__setstate__(state | {"n_features_out_": 3})


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("n_columns", 1),
        ("n_columns", -1),
        ("n_columns", 2.5),
        ("n_rows", 3),
        ("n_rows", -1),
        ("positions", np.array([10**6], dtype=np.int32)),
        ("positions", np.array([4])),
        ("positions", np.array([-1], dtype=np.int32)),
        ("positions", np.array([1.0])),
        ("positions", np.array([[1]])),
        ("positions", np.array([1, 1])),
        ("data", np.array(["a"])),
        ("data", np.array([1.0, 2.0])),
    ],
)
def test_damaged_tables_are_refused(part, value):
    parts = {
        "data": np.array([0.5]),
        "positions": np.array([1], dtype=np.int32),
        "n_rows": 2,
        "n_columns": 2,
    }
    assert unpack_table(parts, (2, 2)).tolist() == [[0.0, 0.5], [0.0, 0.0]]
    with pytest.raises(ValueError, match="stored weight table is damaged"):
        unpack_table(parts | {part: value}, (2, 2))
    del parts[part]
    with pytest.raises(ValueError, match=part):
        unpack_table(parts, (2, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node_weights_", np.ones((1, 1))),
        ("node_weights_", np.ones((6, 3), dtype=int)),
        ("pair_weights_", np.ones(9)),
        ("pair_weights_", None),
        ("classes_", np.array(["a", "b"])),
        ("n_features_in_", 10**6),
        ("graph_", None),
    ],
)
def test_parts_of_a_model_that_do_not_fit_are_refused(model, name, value):
    with pytest.raises(ValueError, match="damaged"):
        SAGCRF().__setstate__(model.__getstate__() | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("edges_", np.array([[0, 10**6]], dtype=np.int32)),
        ("edges_", np.array([[-5, 1]], dtype=np.int32)),
        ("edges_", np.array([[0, 1], [1, 0]], dtype=np.int32)),
        ("edges_", np.array([[0.0, 1.0]])),
        ("n_labels_", 10**6),
    ],
)
def test_edges_of_a_loaded_model_are_checked(name, value):
    graph = MultiLabel("full")
    X, y = np.eye(3), np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    samples, labels = graph.read_training(SAGCRF(), X, y)
    classes = graph.find_classes(labels, samples)
    setattr(graph, name, value)
    with pytest.raises(ValueError, match=rf"graph_\.{name}"):
        graph.make_problem(samples, classes, True)


def test_weights_too_large_for_single_precision(model):
    before = model.pair_weights_.copy()
    model.node_weights_[0, 0] = 1e39
    with pytest.raises(ValueError, match="node_weights_ has weights too large for float32"):
        model.sparsify(1e-3, dtype="float32")
    assert_array_equal(model.pair_weights_, before)
    assert model.sparsify().node_weights_[0, 0] == 1e39


@pytest.mark.parametrize(
    ("name", "value"),
    [("graph_", 1), ("classes_", None), ("classes_", "abc"), ("n_features_in_", 2.5)],
)
@pytest.mark.parametrize("graph", [Chain(), MultiLabel()])
def test_parts_of_a_model_that_are_none_are_named(graph, name, value):
    X, y = graph.example(np.random.default_rng(0), False)
    model = BCFWSSVM(graph, max_iter=2, tol=1e9).fit(X, y)
    setattr(model, name, value)
    for call in (lambda: model.predict(X), lambda: model.score(X, y)):
        with pytest.raises(ValueError, match=f"the model is damaged: {name} must be"):
            call()


def _as_map(table, tmp_path):
    np.save(tmp_path / "table.npy", table)
    return np.load(tmp_path / "table.npy", mmap_mode="r")


@pytest.mark.parametrize("form", ["Fortran", "rows", "float32", "int", "swapped", "map"])
def test_tables_from_outside_get_the_layout_of_fit_once(form, tmp_path):
    X, y = [np.eye(4), np.eye(4)[::-1]], [[*"abca"], [*"acba"]]
    model = SAGCRF(random_state=0).fit(X, y)
    table = np.round(8 * model.node_weights_)
    given = {
        "Fortran": np.asfortranarray(table),
        "rows": np.repeat(table, 2, axis=0)[::2],
        "float32": table.astype(np.float32),
        "int": table.astype(int),
        "swapped": table.astype(table.dtype.newbyteorder()),
        "map": _as_map(table, tmp_path),
    }[form]
    model.node_weights_ = given
    held = model.node_weights_
    assert type(held) is np.ndarray
    assert held.dtype == np.float64
    assert held.flags.c_contiguous
    np.testing.assert_array_equal(held, table)
    assert held.flags.writeable == (form != "map")  # writing to a map would end the process
    ours = model._weights().node
    assert np.shares_memory(ours, held)
    assert ours.flags.carray
    other = SAGCRF(random_state=0).fit(X, y)
    other.node_weights_ = table
    assert [*map(list, model.predict(X))] == [*map(list, other.predict(X))]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).node_weights_, table)


def test_what_is_not_a_table_is_refused_by_predictions():
    X, y = [np.eye(2)], [["a", "b"]]
    model = SAGCRF(random_state=0).fit(X, y)
    for table in ([[1.0, 2.0]], np.ones((3, 2), dtype=complex), np.array("table"), None):
        model.node_weights_ = table
        with pytest.raises(ValueError, match="node_weights_ must be a float64 array of shape"):
            model.predict(X)
    del model.node_weights_
    with pytest.raises(AttributeError, match="'SAGCRF' object has no attribute 'node_weights_'"):
        getattr(model, "node_weights_")  # noqa: B009


def test_a_shallow_copy_shares_its_tables():
    model = SAGCRF(random_state=0).fit([np.eye(2)], [["a", "b"]]).sparsify(1e-3)
    assert copy(model).node_weights_ is model.node_weights_


def test_a_stored_model_cannot_fill_the_memory():
    model = SAGCRF(random_state=0).fit([sparse.eye(2, format="csr")], [["a", "b"]])
    model.node_weights_ *= 0.0
    state = model.__getstate__()
    n = 10**13
    state["n_features_in_"] = n
    state["node_weights_"] = pack_table(np.zeros((40, 2)), "float64") | {"n_rows": n + 1}
    with pytest.raises(MemoryError, match="the weights of the stored model"):
        SAGCRF().__setstate__(state)

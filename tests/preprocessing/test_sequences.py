"""Vectorizers against expansions by hand, and PerNode."""

import pickle
import warnings
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import SAGCRF, Grid, RaggedArray, export
from skstruct.lite import Tagger
from skstruct.preprocessing import (
    PerNode,
    SequenceVectorizer,
    TemplateVectorizer,
    drop_unused_features,
    fit_vectorizer,
    sequences,
)
from skstruct.preprocessing.columns import frame_column
from tests.helpers.token_cases import TOKENS


def test_every_container_of_tokens(tmp_path):
    vectorizer = TemplateVectorizer([(0, 0), ((-1, 1), (0, 1))], sequence_id="sentence")
    expected = vectorizer.fit_transform(TOKENS)
    rows = [(i, *token) for i, sentence in enumerate(TOKENS) for token in sentence]
    frame = pd.DataFrame(rows, columns=["sentence", "word", "pos"], index=range(50, 56))
    packed = RaggedArray(np.array([row[1:] for row in rows]), [0, 3, 4, 6])
    for form in (
        packed,
        frame,
        pl.DataFrame(frame.to_dict("list")),
        [[list(t) for t in s] for s in TOKENS],
    ):
        got = vectorizer.transform(form)
        assert (got.flat != expected.flat).nnz == 0
        assert got.offsets.tolist() == expected.offsets.tolist()
    tags = frame_column(frame, "sentence", "pos")
    assert [list(row) for row in tags] == [[p for _, p in s] for s in TOKENS]
    crf = SAGCRF(tol=1e-2).fit(vectorizer.fit_transform(frame), tags)
    assert crf.score(vectorizer.transform(frame), tags) > 0.5


DICTS = [
    [{"w": "He", "len": 2, "title": True, "sub": ["H", "e"]}, {"w": "runs", "len": 4}],
    [{"w": "Yes", "title": False}],
]


def test_feature_dicts():
    vectorizer = SequenceVectorizer()
    R = vectorizer.fit_transform(DICTS)
    names = vectorizer.get_feature_names_out().tolist()
    assert names == ["len", "sub=H", "sub=e", "title", "w=He", "w=Yes", "w=runs"]
    assert R[0].toarray().tolist() == [[2, 1, 1, 1, 1, 0, 0], [4, 0, 0, 0, 0, 0, 1]]
    assert R.lengths.tolist() == [2, 1]
    assert vectorizer.transform([[{"w": "unseen", "len": 1}]]).flat.toarray().tolist() == [
        [1, 0, 0, 0, 0, 0, 0]
    ]


def test_attribute_lists_and_frames_equal_dicts():
    a = SequenceVectorizer().fit([[["w=He", "t"], ["w=runs"]]])
    assert a.get_feature_names_out().tolist() == ["t", "w=He", "w=runs"]
    frame = pd.DataFrame({"s": [0, 0, 1], "w": ["He", "runs", "Yes"], "n": [2, 4, 3]})
    for form in (frame, pl.DataFrame(frame.to_dict("list"))):
        b = SequenceVectorizer(sequence_id="s")
        R = b.fit_transform(form)
        assert b.get_feature_names_out().tolist() == ["n", "w=He", "w=Yes", "w=runs"]
        assert R[1].toarray().tolist() == [[3, 0, 1, 0]]


def test_min_count_and_hashing():
    kept = SequenceVectorizer(min_count=2).fit([[["a"], ["a", "b"]]])
    assert kept.get_feature_names_out().tolist() == ["a"]
    hashed = SequenceVectorizer(hashing=True, n_features=64)
    R = hashed.fit_transform(DICTS)
    assert R.flat.shape == (3, 64)
    assert (hashed.transform(DICTS).flat != R.flat).nnz == 0
    with pytest.raises(ValueError, match="keeps no feature names"):
        hashed.get_feature_names_out()
    with pytest.raises(ValueError, match="does not go with hashing"):
        SequenceVectorizer(hashing=True, min_count=2).fit(DICTS)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[{"a": None}]], TypeError, "sequence 0, token 0: the value of 'a' is of type NoneType"),
        ([[{"a": "b"}], [{"a": ["x", 1]}]], TypeError, "sequence 1, token 0: an item of the value"),
        ([[{"a": {"b": None}}]], TypeError, "token 0: the value of 'a=b' is of type NoneType"),
        ([[{"a": [["x"]]}]], TypeError, "an item of the value of 'a' is of type list"),
        ([[{"a": {1, 2}}]], TypeError, "an item of the value of 'a' is of type int"),
        ([[{"a": 1j}]], TypeError, "the value of 'a' is of type complex"),
        ([[{1: "a"}]], TypeError, "token 0: the name of a feature is of type int, not str"),
        ([[["a", 1]]], TypeError, "token 0: an attribute is of type int, not str"),
        (
            [[{"a": [1, 2]}, {"a": [1]}]],
            ValueError,
            "token 1: 'a' is a list of 1 numbers, .* had 2",
        ),
        ([["word"]], TypeError, r"sequence 0, token 0 is of type str.*for one pass \[x\]"),
        ([[1]], TypeError, "sequence 0, token 0 is of type int"),
        ([{"a": 1}], TypeError, r"sequence 0 must be a list of tokens.*pass \[x\]"),
        ("He runs", TypeError, r"X must be a list of sequences.*not str: for one.*pass \[x\]"),
        ([[], []], ValueError, "X has no tokens"),
        ([], ValueError, "X is empty"),
    ],
)
def test_bad_feature_dicts(X, error, message):
    with pytest.raises(error, match=message):
        SequenceVectorizer().fit(X)


def test_the_input_is_read_once_and_never_copied():
    class Once(list):
        reads = 0

        def __iter__(self):
            Once.reads += 1
            return super().__iter__()

    SequenceVectorizer().fit([Once(DICTS[0])])
    assert Once.reads == 1


def test_per_node_equals_the_transformer_on_all_nodes(sequences):
    X, y = sequences
    flat = np.vstack(X)
    for transformer in (StandardScaler(), PCA(3)):
        wrapped = PerNode(transformer)
        got = wrapped.fit_transform(X, y)
        np.testing.assert_allclose(got.flat, transformer.fit_transform(flat), atol=1e-10)
        assert got.lengths.tolist() == [len(x) for x in X]
        np.testing.assert_allclose(wrapped.transform(RaggedArray.from_list(X)).flat, got.flat)
    sparse_X = [sparse.csr_matrix(x) for x in X]
    scaled = PerNode(StandardScaler(with_mean=False)).fit_transform(sparse_X)
    assert sparse.issparse(scaled.flat)
    assert list(PerNode(PCA(2)).fit(X).get_feature_names_out()) == ["pca0", "pca1"]


def test_per_node_of_arrays_gives_arrays():
    chains = np.random.default_rng(0).normal(size=(4, 5, 3))
    images = chains[..., None] + [0.0, 1.0]
    for X, graph, kind in ((chains, "auto", StandardScaler), (images, Grid(), partial(PCA, 2))):
        y = (X[..., 0] > 0).astype(int)
        model = make_pipeline(PerNode(kind()), SAGCRF(graph, tol=1e-2)).fit(X, y)
        flat = kind().fit_transform(X.reshape(-1, X.shape[-1]))
        np.testing.assert_allclose(model[0].transform(X), flat.reshape(X.shape))
        assert model[0].transform(X[:, :0]).shape == X[:, :0].shape
        for part in (y, y[:0]):
            assert model.predict(X[: len(part)]).shape == part.shape
        with pytest.raises(ValueError, match=r"(pass|that is) \[x\]"):
            model.predict(X[0])


def test_per_node_takes_dicts_and_frames():
    dicts = [[{"a": 1.0}, {"b": "x"}], [{"a": 2.0}]]
    R = PerNode(DictVectorizer()).fit_transform(dicts)
    assert R[1].toarray().tolist() == [[2.0, 0.0]]
    frame = pd.DataFrame({"s": [1, 1, 2], "u": [1.0, 2.0, 3.0], "v": [0.0, 0.0, 1.0]})
    S = PerNode(StandardScaler(), sequence_id="s").fit_transform(frame)
    assert S.lengths.tolist() == [2, 1]
    with pytest.raises(ValueError, match="do not fit together"):
        PerNode(StandardScaler()).fit([np.zeros((2, 2)), np.zeros((2, 3))])


class _Foreign(BaseEstimator):
    """A transformer of another package, without fit_transform."""

    def __init__(self, change):
        self.change = change

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.change(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: None, r"a table of shape \(n_nodes, n_features\), its output has 0 dim"),
        (lambda rows: 3.0, "its output has 0 dimensions"),
        (lambda rows: rows[:, :, None], "its output has 3 dimensions"),
        (lambda rows: [[1.0], *([1.0, 2.0] for _ in rows[1:])], "did not return a table"),
        (lambda rows: rows[1:], r"returned \d+ rows for \d+ nodes"),
    ],
)
@pytest.mark.parametrize("kind", ["sequences", "images", "tuples", "array"])
def test_outputs_that_are_no_tables_are_refused(change, message, kind):
    X = {
        "sequences": [np.ones((2, 2)), np.ones((4, 2))],
        "images": [np.ones((2, 3, 2)), np.ones((2, 2, 2))],
        "tuples": [(np.ones((3, 2)), [-1, 0, 1]), (np.ones((2, 2)), [-1, 0])],
        "array": np.ones((3, 2, 2, 2)),
    }[kind]
    with pytest.raises(ValueError, match=message):
        PerNode(_Foreign(change)).fit_transform(X)
    kept = PerNode(_Foreign(np.asarray)).fit(X)
    kept.transformer_.change = change
    with pytest.raises(ValueError, match=message):
        kept.transform(X)
    if kind != "sequences":
        with pytest.raises(ValueError, match="its output has 1 dimensions"):
            PerNode(_Foreign(lambda rows: rows[:, 0])).fit_transform(X)


def test_pipelines_are_tuned_through_their_nested_parameters(sequences):
    X, y = sequences
    model = make_pipeline(PerNode(StandardScaler()), SAGCRF(tol=1e-2, random_state=0))
    grid = {"pernode__transformer__with_mean": [True, False], "sagcrf__C": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.4
    text = [[{"w": label} for label in labels] for labels in y]
    pipe = make_pipeline(SequenceVectorizer(), SAGCRF(tol=1e-2, random_state=0))
    pipe.set_output(transform="pandas")
    assert pipe.fit(text, y).score(text, y) == 1.0


def _parts(sample):
    return sample if isinstance(sample, tuple) else (sample,)


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("globally", [True, False])
def test_output_is_ragged_whatever_scikit_learn_is_set_to(output, globally):
    words = [["He", "runs"], ["Yes"]]
    cases = [
        (SequenceVectorizer(), DICTS),
        (SequenceVectorizer(hashing=True, n_features=8), DICTS),
        (TemplateVectorizer("U:%x[0,0]"), words),
        (TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]"), words),
        (PerNode(StandardScaler()), [np.eye(3), np.ones((1, 3))]),
        (PerNode(DictVectorizer()), [[{"a": 1.0}], [{"b": 2.0}, {"a": 3.0}]]),
    ]
    for transformer, X in cases:
        expected = list(transformer.fit_transform(X))
        if globally:
            with sklearn.config_context(transform_output=output):
                got = [*transformer.fit_transform(X), *transformer.fit(X).transform(X)]
        else:
            transformer.set_output(transform=output)
            got = [*transformer.fit_transform(X), *transformer.fit(X).transform(X)]
        for a, b in zip(got, expected * 2, strict=True):
            for c, d in zip(_parts(a), _parts(b), strict=True):
                assert type(c) is type(d)
                assert (c != d).sum() == 0


@pytest.mark.parametrize("separator", [":", "="])
def test_tokens_are_read_as_python_crfsuite_reads_them(separator):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tokens = [
        {"foo": {"bar": "baz", "spam": 0.5}},
        {"p": {"x", "y"}, "q": ["x", b"y"], "empty": [], "none": {}},
        {"b": b"x", b"k": "v", "": "x", "e": ""},
        {"a": {"b": {"c": [b"d", "e"], "f": True, "g": 2}}},
        {"t": True, "i": 3, "n": np.float32(2.5), "u": "\u00e9", "m": np.bool_(True)},
        ["a", b"b"],
        {"only", "a", "set"},
    ]
    vectorizer = SequenceVectorizer(separator=separator)
    R = vectorizer.fit_transform([tokens])
    names = vectorizer.get_feature_names_out()
    expected = pycrfsuite.ItemSequence(tokens).items()
    for row, attributes in zip(R[0], expected, strict=True):
        row = row.tocoo()
        got = {
            names[j].replace(separator, ":"): v
            for j, v in zip(row.coords[-1], row.data, strict=True)
        }
        assert got == attributes


def test_dicts_in_lists_views_and_arrays_of_strings():
    X = [[{"p": ["x", {"y": 2.0}]}, {"a": 1, "b": 2}.keys(), np.array(["a", "c"]), frozenset("b")]]
    vectorizer = SequenceVectorizer()
    R = vectorizer.fit_transform(X)
    assert vectorizer.get_feature_names_out().tolist() == ["a", "b", "c", "p=x", "p=y"]
    assert R[0].toarray().tolist() == [
        [0, 0, 0, 1, 2],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 0, 0, 0],
    ]


def test_duplicate_attributes_add_up():
    X = [[["a", "a", "b"], {"a": 1.0, "x": ["y", "y"], "x=y": 0.5}]]
    expected = [[2, 1, 0], [1, 0, 2.5]]
    plain = SequenceVectorizer()
    assert plain.fit_transform(X)[0].toarray().tolist() == expected
    hashed = SequenceVectorizer(hashing=True, n_features=2**16).fit_transform(X)
    assert np.abs(hashed[0].data).sum() == 6.5
    assert hashed[0].nnz == 4
    # Counted once a token all the same.
    assert SequenceVectorizer(min_count=3).fit(X).n_features_out_ == 0


def test_false_and_zero_are_no_entries():
    X = [[{"title": False, "n": 0, "w": "a"}, {"title": True, "n": 0.0, "v": [0.0, 3.0]}]]
    R = SequenceVectorizer().fit_transform(X)
    assert (R.flat.data != 0).all()
    assert R.flat.nnz == 3
    names = SequenceVectorizer(min_count=1).fit(X).get_feature_names_out().tolist()
    assert names == ["title", "v[1]", "w=a"]


def test_lists_of_numbers_are_vectors():
    X = [[{"v": [1.5, 0.2], "w": "a"}, {"v": np.array([0.5, -1.0])}], [{"w": ["v[0]"]}]]
    vectorizer = SequenceVectorizer()
    R = vectorizer.fit_transform(X)
    assert vectorizer.get_feature_names_out().tolist() == ["v[0]", "v[1]", "w=a", "w=v[0]"]
    assert R.flat.toarray().tolist() == [[1.5, 0.2, 1, 0], [0.5, -1, 0, 0], [0, 0, 0, 1]]
    with pytest.raises(ValueError, match="sequence 0, token 0: 'v' is a list of 3 numbers"):
        vectorizer.transform([[{"v": [1.0, 2.0, 3.0]}]])


def test_empty_sequences_and_no_sequences_pass_through():
    cases = [
        (SequenceVectorizer(), DICTS, [DICTS[0], [], DICTS[1]]),
        (SequenceVectorizer(hashing=True, n_features=16), DICTS, [DICTS[0], [], DICTS[1]]),
        (TemplateVectorizer("U:%x[0,0]/%x[1,1]"), TOKENS[:2], [TOKENS[0], [], TOKENS[1]]),
        (TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]"), TOKENS[:2], [TOKENS[0], [], TOKENS[1]]),
        (PerNode(StandardScaler()), [np.eye(3), np.ones((1, 3))], [np.eye(3), [], np.ones((1, 3))]),
        (PerNode(DictVectorizer()), [[{"a": 1.0}], [{"b": 2.0}]], [[{"a": 1.0}], [], [{"b": 2.0}]]),
    ]
    for transformer, X, with_empty in cases:
        expected = [
            row if isinstance(row, tuple) else (row,) for row in transformer.fit_transform(X)
        ]
        got = [
            row if isinstance(row, tuple) else (row,) for row in transformer.transform(with_empty)
        ]
        assert got[1][0].shape == (0, expected[0][0].shape[1])
        for a, b in zip([got[0], got[2]], expected, strict=True):
            for c, d in zip(a, b, strict=True):
                assert abs(c - d).sum() == 0
        for empty in ([], [[]], [[], []]):
            assert len(transformer.transform(empty)) == len(empty)
        with pytest.raises(ValueError, match=r"X is empty|X has no"):
            transformer.fit([])
        with pytest.raises(ValueError, match=r"X has no (tokens|nodes)"):
            transformer.fit([[], []])


def test_an_empty_sentence_gives_an_empty_answer():
    y = [["A", "B"], ["A"]]
    for pipe, X in (
        (make_pipeline(SequenceVectorizer(), SAGCRF(tol=1e-2)), DICTS),
        (make_pipeline(TemplateVectorizer("U:%x[0,0]"), SAGCRF(tol=1e-2)), [["a", "b"], ["a"]]),
    ):
        answer = pipe.fit(X, y).predict([X[0], [], X[1]])
        assert [len(labels) for labels in answer] == [2, 0, 1]
        assert [list(answer[0]), list(answer[2])] == [list(row) for row in pipe.predict(X)]
        with pytest.raises(ValueError, match="sample 1"):
            pipe.fit([X[0], []], [y[0], []])


def test_lists_of_words_are_one_column():
    words = [["He", "runs", "Home"], ["Yes"], ["She", "runs"]]
    expected = TemplateVectorizer("U:%x[-1,0]/%x[0,0]")
    R = expected.fit_transform([[(w,) for w in s] for s in words])
    forms = [
        words,
        [np.array(s) for s in words],
        [np.array(s, dtype=object) for s in words],
        [tuple(s) for s in words],
        RaggedArray(np.concatenate(words), [0, 3, 4, 6]),
        RaggedArray(np.concatenate(words).reshape(-1, 1), [0, 3, 4, 6]),
        pd.Series(words, index=[4, 5, 6]),
    ]
    for form in forms:
        vectorizer = TemplateVectorizer("U:%x[-1,0]/%x[0,0]")
        got = vectorizer.fit_transform(form)
        assert (got.flat != R.flat).nnz == 0
        assert got.offsets.tolist() == R.offsets.tolist()
        if form is not forms[3]:
            assert (expected.transform(form).flat != R.flat).nnz == 0
    numbers = TemplateVectorizer("U:%X[0,0]").fit([[(1,), (2.5,)]])
    assert numbers.get_feature_names_out().tolist() == ["U:1", "U:2.5"]


def test_one_sequence_in_place_of_a_list_gets_a_hint():
    hint = r"for one sequence pass \[x\]"
    two = TemplateVectorizer("U:%x[0,1]")
    with pytest.raises(ValueError, match="column 1 is out of range, tokens have 1; for one"):
        two.fit(TOKENS[0])
    with pytest.raises(ValueError, match=hint):
        two.fit(TOKENS).transform(TOKENS[0])
    one = TemplateVectorizer("U:%x[0,0]").fit([[("He",), ("runs",)]])
    with pytest.raises(ValueError, match=hint):
        one.transform([("He",), ("runs",)])
    for bad in ("He runs", ["He", "runs"], [b"He"], [{"a": 1}], [3]):
        with pytest.raises(TypeError, match=hint):
            one.fit(bad)
        with pytest.raises(TypeError, match=hint):
            PerNode(DictVectorizer()).fit(bad)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, b"He"])
def test_missing_values_are_named(missing):
    what = (
        "of type bytes, not str$"
        if isinstance(missing, bytes)
        else "missing; pandas .* keep_default_na"
    )
    with pytest.raises(ValueError, match=f"sequence 1, token 1: column 1 is {what}"):
        TemplateVectorizer("U:%x[0,0]").fit([TOKENS[1], [("a", "b"), ("a", missing)]])


def test_a_failed_fit_leaves_the_old_one():
    vectorizer = TemplateVectorizer("U0:%x[0,0]").fit(TOKENS)
    before = vectorizer.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="out of range"):
        vectorizer.set_params(templates="U0:%x[0,0]\nU1:%x[0,5]").fit(TOKENS[:1])
    assert vectorizer.get_feature_names_out().tolist() == before
    dicts = SequenceVectorizer().fit(DICTS)
    before = dicts.get_feature_names_out().tolist()
    with pytest.raises(TypeError, match="token 1"):
        dicts.fit([[{"other": 1}, {"other": None}]])
    assert dicts.get_feature_names_out().tolist() == before


def test_columns_of_frames():
    frame = pd.DataFrame(
        {"s": [0, 0, 1], "v": [0.1, 0.2, 0.3], "w": ["He", "runs", "Yes"], "p": list("PVU")}
    )
    for form in (frame, pl.DataFrame(frame.to_dict("list"))):
        words = TemplateVectorizer("U:%x[0,0]/%x[0,1]", sequence_id="s", columns=["p", "w"])
        assert words.fit(form).get_feature_names_out().tolist() == ["U:P/He", "U:V/runs", "U:U/Yes"]
        dicts = SequenceVectorizer(sequence_id="s", columns=["p", "v"]).fit(form)
        assert dicts.get_feature_names_out().tolist() == ["p=P", "p=U", "p=V", "v"]
        nodes = PerNode(StandardScaler(), sequence_id="s", columns=["v"]).fit_transform(form)
        assert nodes.flat.shape == (3, 1)
        assert words.transform(form[:0]).lengths.tolist() == []
        assert dicts.transform(form[:0]).lengths.tolist() == []
    with pytest.raises(TypeError, match=r"columns must be a list of names, got 'p'"):
        SequenceVectorizer(sequence_id="s", columns="p").fit(frame)


@pytest.mark.parametrize("n", [0, -1, 1.5, "8", 2**31])
def test_bad_n_features(n):
    with pytest.raises(ValueError, match="n_features must be an integer from 1"):
        SequenceVectorizer(hashing=True, n_features=n).fit([[{"a": 1}]])


def test_separator_must_be_a_string():
    with pytest.raises(TypeError, match="separator must be a str, got None"):
        SequenceVectorizer(separator=None).fit([[{"a": "x"}]])


def _cyclic():
    token = {}
    token["a"] = token
    return token


@pytest.mark.parametrize("hashing", [False, True])
@pytest.mark.parametrize(
    ("token", "match"),
    [
        ({"a": np.nan}, "the value of 'a' is nan; a finite number"),
        ({"a": {"b": np.inf}}, "the value of 'a=b' is inf"),
        ({"a": [1.0, -np.inf]}, "the value of 'a' is -inf"),
        ({"a": 10**400}, r"the value of 'a' is 1000.*\.\.\..*000; a finite"),
        ({"a": Decimal("sNaN")}, "the value of 'a' is Decimal"),
        ({"a": np.timedelta64(5)}, "is of type timedelta64"),
        ({"a": sparse.coo_array(np.array([1.0, 0, 2]))}, "is of type coo_array"),
        (_cyclic(), "nested more than 50 deep"),
    ],
)
def test_values_that_are_no_features(hashing, token, match):
    with pytest.raises((ValueError, TypeError), match=f"X: sequence 1, token 1.*{match}"):
        SequenceVectorizer(hashing=hashing).fit([[{"a": 1}], [{"a": 1}, token]])


def test_hashing_of_bytes_that_are_no_utf_8():
    X = [[{"a": b"\xff"}, {"a": b"\xfe"}, {"a": "é"}]]
    flat = SequenceVectorizer(hashing=True).fit_transform(X).flat
    assert np.unique(flat.indices).size == 3


def test_a_transformer_of_tables_is_pointed_to_per_node():
    with pytest.raises(ValueError, match=r"wrap it in PerNode"):
        StandardScaler().fit(RaggedArray(np.ones((3, 2)), [0, 1, 3]))


def test_empty_sets_are_no_list_of_sequences():
    vectorizer = SequenceVectorizer().fit([[{"a": 1}]])
    for nothing in ({}, "", set()):
        with pytest.raises(TypeError, match="X must be a list of"):
            vectorizer.transform(nothing)


def test_per_node_checks_rows_that_were_changed():
    rows = sparse.csr_matrix(np.eye(3))
    X = RaggedArray(rows, [0, 1, 3])
    rows.indices[1] = 10**8
    with pytest.raises(ValueError, match=r"X.flat is a damaged CSR matrix"):
        PerNode(StandardScaler(with_mean=False)).fit(X)


@given(
    st.lists(
        st.lists(st.lists(st.text("ab\u00e9\u4e2d\ud800\n", max_size=3), max_size=4)), min_size=1
    ),
    st.integers(1, 3),
)
def test_many_lists_are_read_like_few(X, min_count):
    """A kernel codes the strings of large batches; strings with its line feeds go the other way."""
    X = [*X, [["a", "b", "a"], []]]
    fitted = []
    for many in (1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sequences, "_MANY", many)
            vectorizer = SequenceVectorizer(min_count=min_count)
            flats = [vectorizer.fit_transform(X).flat, vectorizer.transform([*X, [["new"]]]).flat]
            fitted.append((vectorizer.vocabulary_, list(vectorizer.vocabulary_), flats))
    (kernel, order, ours), (plain, expected, theirs) = fitted
    assert kernel == plain
    assert order == expected
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        for part in ("data", "indices", "indptr"):
            assert_array_equal(getattr(a, part), getattr(b, part))
            assert getattr(a, part).dtype == getattr(b, part).dtype


def test_blocks_of_lists_share_their_codes(monkeypatch):
    X = [[[f"{i % 50}" * (i % 7), f"{i}"], [f"{i // 2}"]] for i in range(200)]
    plain = SequenceVectorizer().fit_transform(X).flat
    monkeypatch.setattr(sequences, "_MANY", 10)
    ours = SequenceVectorizer().fit(X[::-1]).transform(X).flat
    for part in ("data", "indices", "indptr"):
        assert_array_equal(getattr(ours, part), getattr(plain, part))


def _colliding():
    """Some 500 strings that all hash to 0 from the seed 0: a meeting in the middle."""
    letters = np.arange(64, 96)
    ends = np.stack(np.meshgrid(*[letters] * 4), axis=-1).reshape(-1, 4)
    forward, backward = np.zeros((2, len(ends)), dtype=np.int64)
    for j in range(4):
        forward = ((forward ^ ends[:, j]) * 0x01000193) & 0x7FFFFFFF
        backward = (backward * pow(0x01000193, -1, 2**31) & 0x7FFFFFFF) ^ ends[:, 3 - j]
    _, first, last = np.intersect1d(forward, backward, return_indices=True)
    return [bytes([*ends[i], *ends[j]]).decode("ascii") for i, j in zip(first, last, strict=True)]


def test_strings_that_are_made_to_collide_are_read_by_a_dict(monkeypatch):
    strings = _colliding()
    assert len(strings) > 400
    plain = SequenceVectorizer().fit_transform([[strings]])
    monkeypatch.setattr(sequences, "_MANY", 1)
    monkeypatch.setattr(sequences, "hash", lambda _: 0, raising=False)
    assert sequences._code_lists([[strings[:50]]], [], None)
    assert sequences._code_lists([[strings]], [], None) is None
    assert_array_equal(SequenceVectorizer().fit_transform([[strings]])[0].indices, plain[0].indices)


def test_a_vocabulary_in_another_order(monkeypatch):
    """Large batches find the columns that it gives, as small ones do."""
    monkeypatch.setattr(sequences, "_MANY", 1)
    vectorizer = SequenceVectorizer().fit([[["a", "b", "c"]]])
    vectorizer.vocabulary_ = {"c": 2, "a": 0, "b": 1}
    assert_array_equal(vectorizer.transform([[["a"], ["c"]]])[0].indices, [0, 2])


# Functions of users.

WORDS = [["He", "runs"], ["Ada", "left", "Rome"], []]


def endings(words, size=1):
    return [{"w": word, "end": word[-size:]} for word in words]


class _Endings:
    def __call__(self, words):
        return endings(words)

    def of(self, words):
        return endings(words)


class _Script(_Endings):
    __module__, __qualname__ = "__main__", "Script"


@pytest.mark.parametrize(
    "features",
    [endings, partial(endings, size=1), f"{__name__}.endings", _Endings(), _Endings().of],
    ids=["function", "partial", "name", "object", "method"],
)
def test_features_by_a_function(features):
    tokens = [endings(words) for words in WORDS]
    given, plain = SequenceVectorizer(features=features), SequenceVectorizer()
    assert (given.fit_transform(WORDS).flat != plain.fit_transform(tokens).flat).nnz == 0
    assert given.vocabulary_ == plain.vocabulary_
    assert (given.transform(WORDS).flat != plain.transform(tokens).flat).nnz == 0
    assert given.transform(WORDS).offsets.tolist() == [0, 2, 5, 5]
    in_parts = fit_vectorizer(SequenceVectorizer(features=features), WORDS, part_size=1)
    assert in_parts.vocabulary_ == plain.vocabulary_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy = pickle.loads(pickle.dumps(given))
    assert callable(copy.features)
    assert (copy.transform(WORDS).flat != given.transform(WORDS).flat).nnz == 0


def test_features_of_lists_of_attributes_and_of_frames():
    lists = SequenceVectorizer(features=lambda text: [[f"w={w}"] for w in text.split()])
    lists.fit(["He runs", "Ada left"])
    assert lists.get_feature_names_out().tolist() == ["w=Ada", "w=He", "w=left", "w=runs"]
    frame = pd.DataFrame({"s": [0, 0, 1], "word": ["He", "runs", "Ada"], "pos": ["P", "V", "N"]})
    rows = SequenceVectorizer(features=lambda s: [(t["pos"],) for t in s], sequence_id="s")
    assert rows.fit_transform(frame).lengths.tolist() == [2, 1]
    assert rows.get_feature_names_out().tolist() == ["N", "P", "V"]


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (3, TypeError, "features must be a function, or its name as 'module.function', got 3"),
        ("endings", TypeError, "features must be a function, .*, got 'endings'"),
        ("no_such_module.f", ValueError, "features='no_such_module.f' cannot be imported: No mod"),
        (f"{__name__}.f", ValueError, "cannot be imported: module .* has no attribute 'f'"),
        (f"{__name__}.WORDS", TypeError, "features='.*WORDS' is not a function: "),
        (".relative.f", ValueError, "features='.relative.f' cannot be imported"),
        (len, TypeError, "features must return the list .*: of sequence 0 of X it returned int"),
        (str, TypeError, "of sequence 0 of X it returned str"),
    ],
)
def test_functions_that_cannot_be_used(features, error, message):
    with pytest.raises(error, match=message):
        SequenceVectorizer(features=features).fit(WORDS)


@pytest.mark.parametrize("error", [KeyError, ValueError])
def test_errors_in_a_function_name_the_sequence(error):
    def fails(words):
        if words == ["boom"]:
            raise error("mine")
        return endings(words)

    X, vectorizer = [["He"], ["runs"], ["boom"]], SequenceVectorizer(features=fails)
    for fit in vectorizer.fit, partial(fit_vectorizer, vectorizer, part_size=1):
        with pytest.raises(error, match="mine") as caught:
            fit(X)
        assert caught.value.__notes__ == ["raised by features, of sequence 2 of X"]
        assert "fails" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize(
    ("features", "named"),
    [
        (_Script().of, "__main__.Script"),
        (partial(_Script(), 1), "__main__.Script"),
        (lambda words: endings(words), "<lambda>"),
        (partial(partial(lambda words: endings(words))), "<lambda>"),
    ],
    ids=["method", "object", "lambda", "partial"],
)
def test_saving_warns_of_functions_that_will_not_load(features, named):
    vectorizer = SequenceVectorizer(features=features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectorizer.__getstate__()  # as a search does that sends it to workers
    vectorizer._fit_counts(sequences.NameCounts({"a": 1}, {}))
    message = f"will not load in another program. The file holds .*{named}: move the function"
    with pytest.warns(UserWarning, match=message):
        vectorizer.__getstate__()


def test_strings_are_sequences_of_characters_only_where_fit_saw_strings():
    def features(tokens):
        return [[token] for token in tokens]

    new = partial(SequenceVectorizer, features=features)
    whole, parts = new().fit([["Mr.", "He"]]), fit_vectorizer(new(), [["Mr."], ["He"]], part_size=1)
    for words in (whole, parts):
        with pytest.raises(ValueError, match=r"X: sequence 1 is a str.*for one sequence pass"):
            words.transform([["Mr."], "Hansen"])
    texts = fit_vectorizer(new(), [["a"], "ah", ["h"]], part_size=1)
    for text in (new().fit(["aha", "ah"]), texts):
        assert text.transform(["ha"])[0].toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("features", [lambda token: [token.lower()], lambda words, i: words[i]])
def test_functions_of_single_tokens(features):
    with pytest.raises((AttributeError, TypeError)) as caught:
        SequenceVectorizer(features=features).fit([["He", "runs"]])
    assert caught.value.__notes__[-1].startswith("features is called with a whole sequence of")


def test_generators_go_to_fit_vectorizer():
    for vectorizer in (SequenceVectorizer(), TemplateVectorizer("U:%x[0,0]")):
        with pytest.raises(TypeError, match=r"pass list\(X\).* fit_vectorizer\(vectorizer, X\)"):
            vectorizer.fit(iter([[["a"]]]))


def test_a_file_never_names_a_function_by_a_string():
    vectorizer = SequenceVectorizer(features=f"{__name__}.endings").fit(WORDS)
    state = vectorizer.__getstate__()
    assert state["features"] is endings
    with pytest.raises(ValueError, match="damaged: its features are not a function"):
        SequenceVectorizer().__setstate__(state | {"features": "os.system"})


def test_functions_are_searched_over_and_kept_by_small_copies():
    labels = [["D", "V"], ["N", "V", "N"]] * 2
    model = make_pipeline(SequenceVectorizer(features=endings), SAGCRF(l1_ratio=1.0, C=10))
    sizes = [endings, partial(endings, size=2)]
    search = GridSearchCV(model, {"sequencevectorizer__features": sizes}, cv=2, error_score="raise")
    best = search.fit(WORDS[:2] * 2, labels).best_estimator_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = drop_unused_features(best)
    assert small[0].features is best[0].features
    assert len(small[0].vocabulary_) <= len(best[0].vocabulary_)
    for a, b in zip(small.predict(WORDS), best.predict(WORDS), strict=True):
        assert_array_equal(a, b)


def test_taggers_without_numba_take_what_the_function_returned(tmp_path):
    model = make_pipeline(SequenceVectorizer(features=endings), SAGCRF(random_state=0))
    expected = model.fit(WORDS[:2], [["D", "V"], ["N", "V", "N"]]).predict(WORDS[:2])
    with pytest.raises(TypeError, match="cannot be exported: the file holds no functions"):
        export(model, tmp_path / "tagger.npz")
    model[0].set_params(features=None)
    export(model, tmp_path / "tagger.npz")
    labels = Tagger.load(tmp_path / "tagger.npz").tag_batch([endings(words) for words in WORDS[:2]])
    assert [list(own) for own in labels] == [own.tolist() for own in expected]


def test_masked_labels_are_refused():
    """The value under the mask was a label."""
    X, y = [np.eye(2)] * 2, [np.ma.array([0, 1], mask=[True, False]), [0, 1]]
    with pytest.raises(ValueError, match="y: sample 0"):
        PerNode(SelectKBest(k=1)).fit(X, y)

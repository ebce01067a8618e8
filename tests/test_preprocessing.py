"""Vectorizers against expansions by hand, and PerNode."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.preprocessing import PerNode, SequenceVectorizer, TemplateVectorizer
from skstruct.preprocessing.frames import frame_column
from skstruct.preprocessing.patterns import compile_regex, parse

TOKENS = [
    [("He", "PRP"), ("runs", "VBZ"), ("Home", "NN")],
    [("Yes", "UH")],
    [("She", "PRP"), ("runs", "VBZ")],
]


def _mark(outside, sign, step):
    if outside == "mark":
        return f"_B{sign}{step}"
    return f"_x{sign}{step}" if step <= 4 else f"_x{sign}#"


def _expand(line, sentence, t, outside="mark"):
    """One template at one token, by string replacement: the reference."""
    n, beyond = len(sentence), []

    def replace(found):
        command, at, offset, column, regex = found.groups()
        target = t + int(offset)
        if at:
            target = int(offset) + (n if int(offset) < 0 else -1)
        if 0 <= target < n:
            string = sentence[target][int(column)]
        else:
            beyond.append(target)
            sign, step = ("-", -target) if target < 0 else ("+", target - n + 1)
            string = _mark(outside, sign, step)
            if outside == "mark":
                return string
        if command.lower() != "x":
            match = compile_regex(regex).search(string)
            if command.lower() == "t":
                string = "false" if match is None else "true"
            else:
                string = "" if match is None else match.group()
        return string.lower() if command.isupper() else string

    pattern = r'%([xtmXTM])\[(@?)([+-]?\d+),(\d+)(?:,"((?:[^"\\]|\\.)*)")?\]'
    expanded = re.sub(pattern, replace, line)
    return None if beyond and outside == "drop" else expanded


def _features(vectorizer, X):
    """Feature names of every token of every sequence."""
    names = vectorizer.get_feature_names_out()
    return [[set(names[row.indices]) for row in sample] for sample in vectorizer.transform(X)]


LINES = [
    "U00:%x[0,0]",
    "U01:%x[-1,0]/%x[0,1]",
    "U02:%x[-2,1]|%x[0,0]|%x[1,1]",
    'U03:%t[0,0,"^\\u"]',
    'U04:%m[0,0,".?.?$"]%X[0,0]',
    'U05:%T[1,0,"\\d"]x%M[0,0,"^\\a"]',
    "U:%x[0,1]",
    "U:%x[1,1]",
    "U06:%x[+1,0]/%x[+5,0]/%x[-5,0]",
    "U07:%x[@1,0]/%x[@-1,1]",
    "U08:%X[@2,0]/%x[@-2,0]/%x[@0,0]",
    'U09:%t[-1,0,"\\p"]/%m[+1,0,".$"]',
    "U10",
]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "B", "b2", "Cc", "x-y"]), st.sampled_from("NVP")),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=5, unique=True),
    st.sampled_from(["mark", "wapiti", "drop"]),
)
def test_templates_expand_as_strings_do(X, lines, outside):
    vectorizer = TemplateVectorizer("\n".join(lines), outside=outside)
    vectorizer.fit(X)
    expected = [
        [{_expand(line, s, t, outside) for line in lines} - {None} for t in range(len(s))]
        for s in X
    ]
    assert _features(vectorizer, X) == expected
    everything = set().union(*(token for sequence in expected for token in sequence))
    assert set(vectorizer.get_feature_names_out()) == everything


def test_five_macros_over_a_large_vocabulary_do_not_overflow():
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(30_000)]
    X = [[(w,) for w in rng.permutation(words)[:15_000]], [(w,) for w in words]]
    line = "U0:" + "/".join(f"%x[{o},0]" for o in (-2, -1, 0, 1, 2))
    vectorizer = TemplateVectorizer(line)
    R = vectorizer.fit_transform(X)
    assert R.flat.shape == (45_000, 45_000)
    assert (R.flat.sum(axis=1) == 1).all()
    assert (vectorizer.transform(X).flat != R.flat).nnz == 0
    names = vectorizer.get_feature_names_out()
    assert names[R[1].indices[7]] == "U0:w5/w6/w7/w8/w9"


def test_unseen_strings_and_combinations_are_ignored():
    vectorizer = TemplateVectorizer(["U0:%x[0,0]", "U1:%x[0,0]/%x[0,1]"]).fit(TOKENS)
    got = _features(vectorizer, [[("He", "VBZ"), ("zebra", "PRP")]])
    assert got == [[{"U0:He"}, set()]]


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


def test_template_files_round_trip(tmp_path):
    text = "# words\nU00:%x[0,0]\n\nU01:%x[-1,0]/%x[0,0]\nB\n"
    (tmp_path / "template").write_text(text)
    vectorizer = TemplateVectorizer(tmp_path / "template").fit(TOKENS)
    vectorizer.write_templates(tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\n"
    again = TemplateVectorizer(Path(tmp_path / "copy")).fit(TOKENS)
    assert (again.get_feature_names_out() == vectorizer.get_feature_names_out()).all()


def test_bigram_templates_give_edge_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]\nB1:%x[0,1]")
    pairs = vectorizer.fit_transform(TOKENS)
    assert [edges.shape for _, edges in pairs] == [(2, 5), (0, 5), (1, 5)]
    assert pairs[0][1].toarray()[:, 0].tolist() == [1.0, 1.0]
    y = [[p for _, p in s] for s in TOKENS]
    crf = SAGCRF(Chain(edge_features=True), tol=1e-2).fit(pairs, y)
    assert crf.predict(vectorizer.transform(TOKENS))[0].shape == (3,)


def test_min_count_drops_rare_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]", min_count=2).fit(TOKENS)
    assert vectorizer.get_feature_names_out().tolist() == ["U0:runs"]


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ("U0:%x[0,0]\nX1:%x[0,0]", "line 2: a template begins with U, B or"),
        ("U0:%x[0,0]\n\nU1:%x[0]", "line 3: malformed macro"),
        ("U0:%q[0,0]", "line 1: malformed macro"),
        ("U0:%t[0,0]", "line 1: %t needs a regular expression"),
        ('U0:%x[0,0,"a"]', "line 1: %x takes no regular expression"),
        ('U0:%m[0,0,"**"]', "line 1: bad regular expression"),
        ('U0:%m[0,0,"a*?"]', "line 1: bad regular expression"),
        ("# nothing", "there is no template"),
        ("U0:%x[0,7]", "column 7 is out of range, tokens have 2"),
        ("template.txt", "to read a file pass Path('template.txt')"),
        ("Utemplate.txt", "to read a file pass Path('Utemplate.txt')"),
        ("/some/where/template", "to read a file pass Path('/some/where/template')"),
        ([(0, 0), (0,)], "template 1: a pair"),
    ],
)
def test_bad_templates(templates, message):
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\ ", " ")):
        TemplateVectorizer(templates).fit(TOKENS)


def test_bad_tokens():
    vectorizer = TemplateVectorizer("U0:%x[0,0]").fit(TOKENS)
    with pytest.raises(ValueError, match="sequence 1, token 0 has 1 columns"):
        vectorizer.fit([TOKENS[0], [("He",)]])
    with pytest.raises(ValueError, match="sequence 0, token 1 is 'ab'"):
        vectorizer.fit([[("a", "b"), "ab"]])
    with pytest.raises(ValueError, match="X has 1 columns, but fit saw 2"):
        vectorizer.transform([[("He",)]])
    frame = pd.DataFrame({"s": [1, 2, 1], "w": list("abc")})
    with pytest.raises(ValueError, match="set sequence_id"):
        vectorizer.fit(frame)
    with pytest.raises(ValueError, match="not consecutive"):
        TemplateVectorizer("U0:%x[0,0]", sequence_id="s").fit(frame)
    with pytest.raises(ValueError, match="no column 'sentence'"):
        TemplateVectorizer("U0:%x[0,0]", sequence_id="sentence").fit(frame)
    for name, value in (("outside", "wrap"), ("min_count", 0)):
        with pytest.raises(ValueError, match=name):
            TemplateVectorizer("U0:%x[0,0]", **{name: value}).fit(TOKENS)


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


def test_per_node_takes_dicts_and_frames():
    dicts = [[{"a": 1.0}, {"b": "x"}], [{"a": 2.0}]]
    R = PerNode(DictVectorizer()).fit_transform(dicts)
    assert R[1].toarray().tolist() == [[2.0, 0.0]]
    frame = pd.DataFrame({"s": [1, 1, 2], "u": [1.0, 2.0, 3.0], "v": [0.0, 0.0, 1.0]})
    S = PerNode(StandardScaler(), sequence_id="s").fit_transform(frame)
    assert S.lengths.tolist() == [2, 1]
    with pytest.raises(ValueError, match="do not fit together"):
        PerNode(StandardScaler()).fit([np.zeros((2, 2)), np.zeros((2, 3))])


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
    with pytest.raises(ValueError, match="sequence 1, token 1: column 1 is"):
        TemplateVectorizer("U:%x[0,0]").fit([TOKENS[1], [("a", "b"), ("a", missing)]])


def test_template_files_of_wapiti():
    text = (
        "\ufeff# words\nU1:%x[+1,0] # the next\n  # only a comment, 100 %\n"
        'U2:%t[0,0,"^ #"]\t#end\nU3:a#%x[0,0]\nb  #edges\n'
    )
    assert [t.line for t in parse(text)] == [
        "U1:%x[+1,0]",
        'U2:%t[0,0,"^ #"]',
        "U3:a#%x[0,0]",
        "b",
    ]


def test_files_with_a_byte_order_mark(tmp_path):
    (tmp_path / "template").write_text("U0:%x[0,0]\n", encoding="utf-8-sig")
    assert TemplateVectorizer.read_templates(tmp_path / "template") == "U0:%x[0,0]\n"
    assert TemplateVectorizer(tmp_path / "template").fit(TOKENS).n_features_out_ == 5


def test_marks_of_wapiti():
    X = [[("a",), ("b",)]]
    lines = ['U1:%t[-1,0,"\\p"]', "U2:%x[-5,0]", 'U3:%m[2,0,"..$"]', "U4:%x[4,0]", "U5:%x[5,0]"]
    names = TemplateVectorizer("\n".join(lines), outside="wapiti")
    assert _features(names.fit(X), X)[0][0] == {"U1:true", "U2:_x-#", "U3:+1", "U4:_x+3", "U5:_x+4"}
    assert "U5:_x+#" in _features(names, X)[0][1]
    plain = TemplateVectorizer("\n".join(lines)).fit(X)
    assert _features(plain, X)[0][0] == {"U1:_B-1", "U2:_B-5", "U3:_B+1", "U4:_B+3", "U5:_B+4"}


@pytest.mark.parametrize("regex", ["[A-Z]+", "(a|b)", "x|y", "a{2}", "a+", "^a+$"])
def test_regular_expressions_that_wapiti_reads_literally_warn(regex):
    with pytest.warns(UserWarning, match="line 1: in .* stands for these very characters"):
        parse(f'U0:%m[0,0,"{regex}"]')


@pytest.mark.parametrize(
    "regex", [r"\[A-Z\]", r"^\u\l*$", r"\+", "+", "^+", "-", r"\(a\)", "[", "|", ".?.?$"]
)
def test_other_regular_expressions_do_not_warn(regex):
    assert parse(f'U0:%m[0,0,"{regex}"]')[0].macros[0].regex == regex


def test_templates_without_macros():
    vectorizer = TemplateVectorizer("U00\nU01:%x[0,0]\nB")
    R = vectorizer.fit_transform(TOKENS)
    names = vectorizer.get_feature_names_out().tolist()
    assert names[0] == "U00"
    assert (R.flat[:, [0]].toarray() == 1).all()
    bias = TemplateVectorizer("U00").fit_transform(TOKENS)
    assert bias.flat.toarray().tolist() == [[1.0]] * 6
    edges = TemplateVectorizer("B:%x[0,1]")
    pairs = edges.fit_transform(TOKENS)
    assert [node.shape for node, _ in pairs] == [(3, 0), (1, 0), (2, 0)]
    y = [[p for _, p in s] for s in TOKENS]
    crf = make_pipeline(edges, SAGCRF(Chain(edge_features=True), tol=1e-2)).fit(TOKENS, y)
    assert len(crf.predict(TOKENS)[0]) == 3


def test_names_of_edge_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]\nB1:%x[-1,1]/%x[0,1]\nB2")
    assert not hasattr(vectorizer, "get_edge_feature_names_out")
    pairs = vectorizer.fit_transform(TOKENS)
    names = vectorizer.get_edge_feature_names_out()
    assert names[0] == "B"
    first = pairs[0][1].toarray()
    assert set(names[first[0] > 0]) == {"B", "B1:PRP/VBZ"}
    assert set(names[first[1] > 0]) == {"B", "B1:VBZ/NN"}
    assert not hasattr(
        TemplateVectorizer("U0:%x[0,0]\nB").fit(TOKENS), "get_edge_feature_names_out"
    )


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


@pytest.mark.parametrize(
    ("templates", "match"),
    [
        ("U0:%x[99999999999999999999,0]", "line 1: the offset or column of .* is out of range"),
        ("U0:%x[0,99999999999999999999]", "line 1: the offset or column of .* is out of range"),
        (b"U0:%x[0,0]", "templates must be a str, a Path or a list, got b'U0"),
    ],
)
def test_templates_that_cannot_be(templates, match):
    with pytest.raises((ValueError, TypeError), match=match):
        TemplateVectorizer(templates).fit([["a"]])


@pytest.mark.parametrize(
    ("token", "match"),
    [
        (b"b", "sequence 0, token 1 is b'b'; a str, or a tuple"),
        (2, "sequence 0, token 1 is 2; a str, or a tuple"),
        (None, "sequence 0, token 1 is None; a str, or a tuple"),
    ],
)
def test_tokens_that_are_no_words(token, match):
    with pytest.raises(ValueError, match=match):
        TemplateVectorizer("U0:%x[0,0]").fit([["a", token]])
    masked = np.ma.masked_array(["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="sequence 1 has masked entries"):
        TemplateVectorizer("U0:%x[0,0]").fit([["a"], masked])


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

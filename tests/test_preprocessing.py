"""Vectorizers against expansions by hand, and PerNode."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
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
from skstruct.preprocessing.patterns import compile_regex

TOKENS = [
    [("He", "PRP"), ("runs", "VBZ"), ("Home", "NN")],
    [("Yes", "UH")],
    [("She", "PRP"), ("runs", "VBZ")],
]


def _expand(line, sentence, t, outside="mark"):
    """One template at one token, by string replacement: the reference."""

    def replace(found):
        command, offset, column, regex = found.groups()
        target = t + int(offset)
        if target < 0:
            string = f"_B{target}"
        elif target >= len(sentence):
            string = f"_B+{target - len(sentence) + 1}"
        else:
            string = sentence[target][int(column)]
            if command.lower() != "x":
                match = compile_regex(regex).search(string)
                if command.lower() == "t":
                    string = "false" if match is None else "true"
                else:
                    string = "" if match is None else match.group()
            if command.isupper():
                string = string.lower()
        return string

    pattern = r'%([xtmXTM])\[(-?\d+),(\d+)(?:,"((?:[^"\\]|\\.)*)")?\]'
    inside = all(
        0 <= t + int(found.group(2)) < len(sentence) for found in re.finditer(pattern, line)
    )
    return re.sub(pattern, replace, line) if inside or outside == "mark" else None


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
    st.sampled_from(["mark", "drop"]),
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
        ("# nothing", "there is no template"),
        ("U0:%x[0,7]", "column 7 is out of range, tokens have 2"),
        ("B", "no U template"),
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
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        vectorizer.fit([TOKENS[0], []])
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
        ([[{"a": "b"}], [{"a": [1]}]], TypeError, "sequence 1, token 0: the value of 'a'"),
        ([["word"]], TypeError, "sequence 0, token 0 is of type str"),
        ([[{"a": 1}], []], ValueError, "sequence 1 is empty"),
        ([{"a": 1}], TypeError, "sequence 0 must be a list of tokens"),
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

"""Vectorizers and column files, a part at a time."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct import Chain
from skstruct.datasets import iter_conll, load_conll, pack_shards
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer, fit_vectorizer

# Vectorizers and files, a part at a time

_WORDS = st.text("aAb\x80", max_size=2)
_TOKENS = st.tuples(_WORDS, st.sampled_from(["N", "V"]))
_TEMPLATES = r"""U0:%x[0,0]
U:%x[-1,0]
U:%x[1,0]
U2:%x[-2,0]/%x[0,1]/%X[1,0]
U3:%t[0,0,"^\u"]
U
B1:%x[0,1]/%x[-1,0]
"""


@given(
    st.lists(st.lists(_TOKENS, max_size=4), min_size=1, max_size=7).filter(any),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["mark", "wapiti", "drop"]),
)
def test_vectorizers_learn_from_parts_what_they_learn_from_all(X, part_size, min_count, outside):
    templates = TemplateVectorizer(_TEMPLATES, min_count=min_count, outside=outside)
    whole = TemplateVectorizer(**templates.get_params()).fit(X)
    fit_vectorizer(templates, iter(X), part_size=part_size)
    assert list(templates.vocabulary_) == list(whole.vocabulary_)
    for got, expected in zip(templates.transform(X), whole.transform(X), strict=True):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a.toarray(), b.toarray())
    names = "get_feature_names_out", "get_edge_feature_names_out"
    for name in names:
        assert getattr(templates, name)().tolist() == getattr(whole, name)().tolist()

    dicts = [[{"w": a, "count": len(a), "v": [1.0, 0.0]} for a, _ in x] for x in X]
    for options in ({"min_count": min_count}, {"hashing": True, "n_features": 8}):
        whole = SequenceVectorizer(**options).fit(dicts)
        parts = fit_vectorizer(SequenceVectorizer(**options), dicts, part_size=part_size)
        assert vars(parts).keys() == vars(whole).keys()
        assert parts.vocabulary_ == whole.vocabulary_
        a, b = parts.transform(dicts).flat, whole.transform(dicts).flat
        np.testing.assert_array_equal(a.toarray(), b.toarray())


def test_many_combinations_from_parts(monkeypatch):
    X = [[(f"w{i % 7}", f"p{i % 3}", f"q{i % 5}") for i in range(j, j + 4)] for j in range(9)]
    template = "U:%x[0,0]/%x[0,1]/%x[0,2]/%x[-1,0]"
    monkeypatch.setattr("skstruct.preprocessing.template._LARGEST_KEY", 40)
    whole = TemplateVectorizer(template, min_count=2).fit(X)
    parts = fit_vectorizer(TemplateVectorizer(template, min_count=2), iter(X), part_size=2)
    names = whole.get_feature_names_out().tolist()
    assert parts.get_feature_names_out().tolist() == names
    assert names
    for a, b in zip(parts.transform(X), whole.transform(X), strict=True):
        np.testing.assert_array_equal(a.toarray(), b.toarray())


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ([], ValueError, "X has no tokens"),
        ([[], []], ValueError, "X has no tokens"),
        ([[["a"]], [["b"]], [3]], TypeError, "sequence 2, token 0"),
        ([[{"v": [1, 2]}], [{"v": [1]}]], ValueError, r"list of 1 numbers.*from sequence 1 on"),
    ],
)
def test_parts_that_vectorizers_refuse(X, error, words):
    with pytest.raises(error, match=words):
        fit_vectorizer(SequenceVectorizer(), iter(X), part_size=1)


def test_arguments_that_fit_vectorizer_refuses():
    with pytest.raises(TypeError, match="got a Chain"):
        fit_vectorizer(Chain(), [[["a"]]])
    with pytest.raises(ValueError, match="part_size must be"):
        fit_vectorizer(SequenceVectorizer(), [[["a"]]], part_size=0)
    X = [[("a", "b")], [("a",)]]
    with pytest.raises(ValueError, match="X has 1 columns, but before 2"):
        fit_vectorizer(TemplateVectorizer("U:%x[0,0]"), iter(X), part_size=1)


def test_column_files_to_shards(tmp_path):
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    first.write_text("-DOCSTART- x\n\nHe A\nruns B\n\n\nShe A\n", encoding="utf-8")
    second.write_text("They A\nrun B\n", encoding="utf-8")
    files, names = [first, second], ("word", "tag")
    words = [w for file in files for w in load_conll(file, names).word]
    assert [list(w) for w in words] == list(iter_conll(files, names, "word"))
    assert next(iter_conll(first, names, ("tag", "word"))) == [("A", "He"), ("B", "runs")]
    vectorizer = fit_vectorizer(TemplateVectorizer([(0, 0)]), iter_conll(files, names, "word"))
    y = iter_conll(files, names, "tag")
    X = iter_conll(files, names, "word")
    shards = pack_shards(X, y, tmp_path / "s", shard_size=2, vectorizer=vectorizer)
    assert shards.n_nodes.tolist() == [3, 2]
    assert shards.classes.tolist() == ["A", "B"]
    assert list(shards.feature_names) == vectorizer.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="take must be one or several of"):
        iter_conll(files, names, "chunk")
    (tmp_path / "bad").write_text("a b\nc\n", encoding="utf-8")
    with pytest.raises(ValueError, match="bad, line 2: 1 columns, but 2 were expected"):
        list(iter_conll(tmp_path / "bad", names, "word"))


def test_column_files_that_cannot_be_read_are_named(tmp_path):
    packed = gzip.compress(b"a b\n" * 100)
    for name, content in (("x", b"\xff b\n"), ("torn.gz", packed[:-9])):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises((ValueError, OSError), match=re.escape(name)):
            list(iter_conll(path, ("word", "pos"), "pos"))

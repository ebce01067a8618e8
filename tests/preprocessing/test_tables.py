"""Tokens in data frames: keys of sequences, names of columns, one frame per sequence."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skstruct import SAGCRF
from skstruct.lite import Tagger
from skstruct.model_selection import cross_val_marginals
from skstruct.preprocessing import (
    AlignmentFeatures,
    PerNode,
    SequenceUnion,
    SequenceVectorizer,
    TemplateVectorizer,
    fit_vectorizer,
    frame_column,
)
from skstruct.testing import random_sequences

TOKENS = {"word": ["He", "runs", "She"], "pos": ["P", "V", "P"]}
MISSING = {
    "None": pd.Series(["a", None, "b"], dtype=object),
    "NaN": [1.0, np.nan, 2.0],
    "NA": pd.Series([1, pd.NA, 2], dtype=object),
    "Int64": pd.array([1, None, 2], dtype="Int64"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "string": pd.array(["a", None, "b"], dtype="string"),
    "str": pd.array(["a", None, "b"], dtype="str"),
    "category": pd.Categorical(["a", None, "b"]),
    "NaT": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
    "time zone": pd.to_datetime(["2020-01-01", None, "2021-01-01"]).tz_localize("UTC"),
    "duration": pd.to_timedelta([1, None, 2]),
    "period": pd.PeriodIndex(["2020-01", None, "2021-01"], freq="M"),
    "mixed and missing": pd.Series([1, None, "b"], dtype=object),
    "empty": ["a", "", "b"],
    "blank": ["a", " ", "b"],
    "as text": ["a", "nan", "b"],
    "tuple": pd.Series([("a", 1), ("a", None), ("b", 1)], dtype=object),
    "all": pd.Series([None] * 3, dtype=object).mask([True, False, False], "a"),
    "polars str": pl.Series(["a", None, "b"]),
    "polars int": pl.Series([1, None, 2]),
    "polars float": pl.Series([1.0, float("nan"), 2.0]),
    "polars date": pl.Series([datetime.date(2020, 1, 1), None, datetime.date(2021, 1, 1)]),
    "polars category": pl.Series(["a", None, "b"], dtype=pl.Categorical),
    "polars bool": pl.Series([True, None, False]),
}
KEYS = {
    "str": ["a", "a", "b"],
    "int": [2, 2, 1],
    "numbers": pd.Series([1, 1.0, 2], dtype=object),
    "tuples": pd.Series([("a", 1), ("a", 1), ("b", 1)], dtype=object),
    "category": pd.Categorical(["b", "b", "a"]),
    "times": pd.to_datetime(["2020-01-01", "2020-01-01", "2021-01-01"]),
    "polars": pl.Series([2**63 + 1, 2**63 + 1, 2**63], dtype=pl.UInt64),
    "dates": pl.Series([datetime.date(2020, 1, 1)] * 2 + [datetime.date(2019, 1, 1)]),
}


def _frame(keys):
    frame = pl.DataFrame if isinstance(keys, pl.Series) else pd.DataFrame
    return frame({**TOKENS, "sentence": keys})


def _readers():
    yield lambda frame: frame_column(frame, "sentence", "word")
    for vectorizer in (
        TemplateVectorizer("U:%x[0,0]", sequence_id="sentence"),
        SequenceVectorizer(sequence_id="sentence"),
        PerNode(OneHotEncoder(), sequence_id="sentence"),
    ):
        yield vectorizer.fit_transform
        yield vectorizer.fit(_frame(["a", "a", "b"])).transform


@pytest.mark.parametrize("kind", MISSING)
def test_missing_keys_are_refused_with_their_row(kind):
    frame = _frame(MISSING[kind])
    fill = "forward_fill" if isinstance(frame, pl.DataFrame) else r"df\['sentence'\].ffill\(\)"
    for read in _readers():
        with pytest.raises(ValueError, match=rf"column 'sentence' .* missing in row 1 .*{fill}"):
            read(frame)


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(kind):
    for read in _readers():
        assert read(_frame(KEYS[kind])).offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ([1, "1", 2], ValueError, "mixes types: 1 in row 0, '1' in row 1"),
        (["1", 1, 2], ValueError, "mixes types: '1' in row 0, 1 in row 1"),
        ([[1], [1], [2]], TypeError, r"keys must be hashable, got \[1\] in row 0"),
        (["b", "a", "b"], ValueError, "sequence 'b' are not consecutive: it comes again in row 2"),
    ],
)
def test_keys_that_cannot_be_read(keys, error, message):
    for read in _readers():
        with pytest.raises(error, match=message):
            read(_frame(pd.Series(keys, dtype=object)))


@pytest.mark.filterwarnings("ignore:Determining the column names")
def test_frames_that_cannot_be_read():
    twice = pd.DataFrame([["a", "He", "a"]], columns=["sentence", "word", "sentence"])
    with pytest.raises(ValueError, match="has 2 columns 'sentence'"):
        frame_column(twice, "sentence", "word")
    lazy = pl.LazyFrame({**TOKENS, "sentence": KEYS["str"]})
    with pytest.raises(TypeError, match=r"X is a LazyFrame; .* try X.collect\(\)"):
        TemplateVectorizer("U:%x[0,0]", sequence_id="sentence").fit(lazy)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", None, *"bbbb"], "groups is missing in sample 1"),
        (pd.Series(["a", None, *"bbbb"]), "groups is missing in sample 1"),
        (pl.Series([1, None, 2, 2, 2, 2]), "groups is missing in sample 1"),
        (np.array([1.0, np.nan, 2, 2, 2, 2]), "groups is missing in sample 1"),
        ([1, "1", 2, 2, 2, 2], "groups mixes types: 1 in sample 0, '1' in sample 1"),
    ],
)
def test_groups(groups, message):
    X, y = random_sequences(np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        cross_val_marginals(SAGCRF(tol=0.1), X[:6], y[:6], cv=GroupKFold(2), groups=groups)


SENTENCES = [[("He", "P"), ("runs", "V")], [("She", "P"), ("eats", "V"), ("it", "P")]]


def _pandas(rows):
    return pd.DataFrame(rows, columns=["word", "pos"], index=range(7, 7 + len(rows)))


def _polars(rows):
    return pl.DataFrame(rows, schema=["word", "pos"], orient="row")


def _records(rows):
    return np.array(rows, dtype=[("word", "U9"), ("pos", "U9")])


DICTS = [[dict(zip(("word", "pos"), token, strict=True)) for token in x] for x in SENTENCES]
MAKERS = [_pandas, _polars, _records]


def _sets(tables):
    yield tables
    yield tuple(tables)
    yield pd.Series(tables)
    yield [tables[0], tables[1][["pos", "word"]]]


@pytest.mark.parametrize("make", MAKERS)
def test_one_table_per_sequence(make):
    template = TemplateVectorizer("U:%x[0,0]/%x[0,1]\nV:%x[-1,1]".replace("V", "UV"))
    expected = template.fit_transform(SENTENCES)
    dicts = SequenceVectorizer().fit_transform(DICTS)
    for X in _sets([make(rows) for rows in SENTENCES]):
        for reader, other in ((template, expected), (SequenceVectorizer(), dicts)):
            for found in (reader.fit_transform(X), reader.fit(X).transform(X)):
                np.testing.assert_array_equal(found.offsets, [0, 2, 5])
                np.testing.assert_array_equal(found.flat.toarray(), other.flat.toarray())
        union = SequenceUnion([("t", template), ("s", SequenceVectorizer())])
        names = union.fit(X).get_feature_names_out().tolist()
        assert names == [f"t__{n}" for n in template.get_feature_names_out()] + [
            f"s__{n}" for n in SequenceVectorizer().fit(DICTS).get_feature_names_out()
        ]
    words = TemplateVectorizer("U:%x[0,0]", columns=["word"]).fit([make(SENTENCES[0])])
    assert words.get_feature_names_out().tolist() == ["U:He", "U:runs"]
    parts = fit_vectorizer(template, [make(rows) for rows in SENTENCES], part_size=1)
    np.testing.assert_array_equal(
        parts.transform(SENTENCES).flat.toarray(), expected.flat.toarray()
    )


@pytest.mark.parametrize("make", [_pandas, _polars])
def test_columns_of_other_frames_go_by_name(make):
    both = _frame(["a", "a", "b"])[["sentence", "word", "pos"]]
    if make is _polars:
        both = pl.DataFrame(both.to_dict("list"))
    swapped = both[["pos", "sentence", "word"]]
    for vectorizer in (
        TemplateVectorizer("U:%x[0,0]", sequence_id="sentence"),
        SequenceVectorizer(sequence_id="sentence"),
        PerNode(OneHotEncoder(sparse_output=False), sequence_id="sentence"),
    ):
        expected = np.asarray(vectorizer.fit_transform(both).flat.sum(axis=1))
        found = vectorizer.transform(swapped)
        np.testing.assert_array_equal(np.asarray(found.flat.sum(axis=1)), expected)
        np.testing.assert_array_equal(
            found[0].toarray() if hasattr(found[0], "toarray") else found[0],
            vectorizer.transform(both)[0].toarray()
            if hasattr(found[0], "toarray")
            else vectorizer.transform(both)[0],
        )
        with pytest.raises(ValueError, match="the data frame has no column 'pos'"):
            vectorizer.transform(both[["sentence", "word"]])


@pytest.mark.parametrize("make", [_pandas, _polars])
def test_per_node_gets_frames(make):
    X = [make(rows) for rows in SENTENCES]
    encode = ColumnTransformer([("w", OneHotEncoder(sparse_output=False), ["word"])])
    for tables in (X, [X[0], X[1][["pos", "word"]]]):
        found = PerNode(encode).fit(tables).transform(tables)
        np.testing.assert_array_equal(found.flat, np.eye(5)[[0, 4, 1, 2, 3]])
    edges = np.array([[0, 1]])
    numbers = type(X[0])({"a": [1.0, 3.0], "b": [2.0, 2.0]})
    rows, kept = PerNode(StandardScaler()).fit_transform([(numbers, edges)])[0]
    assert rows.tolist() == [[-1, 0], [1, 0]]
    assert kept is edges


@pytest.mark.parametrize("make", MAKERS)
def test_tables_that_do_not_go_together(make):
    a, b = (make(rows) for rows in SENTENCES)
    for vectorizer in (TemplateVectorizer("U:%x[0,0]"), SequenceVectorizer(), PerNode("drop")):
        with pytest.raises(ValueError, match="X: sequence 1 has no column 'pos'"):
            vectorizer.fit([a, b[["word"]]])
        with pytest.raises(ValueError, match=r"sequence 1 has the columns \['word', 'pos'\], but"):
            vectorizer.fit([a[["word"]], b])
        with pytest.raises(TypeError, match=r"sequence 0 is a \w+, sequence 1 a list: data frames"):
            vectorizer.fit([a, SENTENCES[1]])


def test_types_of_columns():
    X = [pl.DataFrame({"x": [1, 3]}), pl.DataFrame({"x": []}), pl.DataFrame({"x": [5.0]})]
    found = PerNode(StandardScaler(with_std=False)).fit_transform(X)
    assert found.flat.ravel().tolist() == [-2, 0, 2]
    tokens = [{"shape": {"upper": True, "size": 2}, "parts": ["a", "b"]}]
    names = SequenceVectorizer().fit([tokens]).get_feature_names_out().tolist()
    for table in (pl.DataFrame(tokens), pd.DataFrame(tokens)):
        assert SequenceVectorizer().fit([table]).get_feature_names_out().tolist() == names
        one = table.assign(s=1) if hasattr(table, "assign") else table.with_columns(s=pl.lit(1))
        found = SequenceVectorizer(sequence_id="s").fit(one).get_feature_names_out().tolist()
        assert found == names
    for vectorizer in (TemplateVectorizer("U"), SequenceVectorizer(), PerNode(StandardScaler())):
        vectorizer.set_params(sequence_id="s")
        for X in (pd.DataFrame({"s": [1]}), [pd.DataFrame({"s": [1]})]):
            with pytest.raises(ValueError, match=r"no column of the data frame has tokens: .*'s'"):
                vectorizer.fit(X)


def test_columns_and_rows_of_tables_are_no_tokens():
    frame = _pandas(SENTENCES[0])
    template, dicts = TemplateVectorizer("U:%x[0,0]"), SequenceVectorizer()
    per_node = PerNode(OneHotEncoder())
    for X, message in (
        ([frame.to_dict("list")], "sequence 0 is a dict of columns"),
        (_records(SENTENCES[0]), "X is a structured array"),
        ([[frame, frame]], "token 0 is (a|of type) DataFrame"),
        ([[row for _, row in frame.iterrows()]], "token 0 is (a|of type) Series"),
    ):
        for vectorizer in (template, dicts):
            with pytest.raises((TypeError, ValueError), match=message):
                vectorizer.fit(X)
        if "token" not in message:
            with pytest.raises(TypeError, match=message):
                per_node.fit(X)
    words = [pd.Series(["He", "runs"], index=[5, 6]), pl.Series(["She"])]
    assert template.fit(words).get_feature_names_out().tolist() == ["U:He", "U:runs", "U:She"]
    with pytest.raises(TypeError, match="X: sample 0: its source is a data frame"):
        AlignmentFeatures().fit([(frame, ["he", "runs"])])


@pytest.mark.parametrize("make", [_pandas, _polars])
def test_estimators_take_frames_of_both_packages(make):
    X, y = random_sequences(np.random.default_rng(0))
    X, y = [x[:, :2] for x in X[:9]], y[:9]
    frames = [make(x) for x in X]
    expected = SAGCRF(random_state=0).fit(X, y).predict(X)
    model = SAGCRF(random_state=0).fit(frames, y)  # graph="auto" looks at them
    assert list(model.feature_names_in_) == ["word", "pos"]
    for a, b in zip(model.predict(frames), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_lite_refuses_frames_in_the_place_of_tokens(tmp_path):
    from skstruct import export
    from skstruct.pipeline import make_pipeline

    y = [["A", "B"], ["A", "B", "A"]]
    model = make_pipeline(TemplateVectorizer("U:%x[0,0]"), SAGCRF()).fit(SENTENCES, y)
    export(model, tmp_path / "m.npz")
    frame = _pandas(SENTENCES[0])
    with pytest.raises(ValueError, match="a str or a tuple was expected"):
        Tagger.load(tmp_path / "m.npz").tag([frame, frame])

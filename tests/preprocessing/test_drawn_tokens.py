"""Vectorizers on drawn tokens against plain references, bit for bit."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skstruct.data.matrices import csr_from_parts
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer
from tests.helpers import plain_features

# Few, so that they meet again; "=" is the separator, and ends of names are values elsewhere.
WORDS = st.sampled_from(["", "a", "b", "a=b", "=", "é", "ß東", "\n", "a[0]", "\ud800"])
TEXTS = WORDS | WORDS.map(lambda word: word.encode("utf-8", "surrogatepass"))
NUMBERS = (
    st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.1, -0.1, 1.0, -0.0, 1e-300, 2**70])
    | st.sampled_from([np.float32(0.1), np.int8(2), np.bool_(True), np.float64(-1.0)])
)
VALUES = st.recursive(
    TEXTS | NUMBERS | st.lists(TEXTS, max_size=3) | st.frozensets(WORDS, max_size=1),
    lambda inner: st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
TOKENS = st.dictionaries(TEXTS, VALUES, max_size=5) | st.lists(TEXTS) | st.tuples(WORDS, WORDS)
SAMPLES = st.lists(st.lists(TOKENS, max_size=4), min_size=1, max_size=4)
VECTOR = [[{"v": [0.5, -0.5], "w": [1, 0]}, {"v": (1.0, 0.0)}, {"v": np.array([0.0, 2.0])}]]


def _same(got, expected):
    for name in ("data", "indices", "indptr"):
        one, other = getattr(got, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert got.shape == expected.shape


@given(SAMPLES, SAMPLES, st.sampled_from(["=", ":", ""]), st.integers(1, 2))
@example(VECTOR, VECTOR, "=", 1)
@settings(max_examples=300, deadline=None)
def test_feature_dicts_as_one_name_at_a_time(X, other, separator, min_count):
    vectorizer = SequenceVectorizer(separator=separator, min_count=min_count)
    if not any(X):
        with pytest.raises(ValueError, match="no tokens"):
            vectorizer.fit(X)
        return
    vocabulary, flat, offsets = plain_features.fitted(X, separator, min_count)
    got = vectorizer.fit_transform(X)
    assert list(vectorizer.vocabulary_.items()) == list(vocabulary.items())
    _same(got.flat, flat)
    assert got.offsets.tolist() == offsets.tolist()
    _same(vectorizer.transform(other).flat, plain_features.matrix(other, vocabulary, separator))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": float("nan")}, "value of 'a' is nan"),
        ({"a": 10**400}, "value of 'a' is 10000"),
        ({"a": {"b": None}}, "value of 'a=b' is of type NoneType"),
        ({"a": np.complex64(1)}, "value of 'a' is of type complex64"),
        ({3: "a"}, "name of a feature is of type int"),
        ({3: True}, "name of a feature is of type int"),
        (["a", 3], "an attribute is of type int"),
        ("word", "is of type str"),
    ],
)
def test_the_first_wrong_token_is_named(wrong, message):
    fine = {"a": 1, "b": {"c": True}}
    vectorizer = SequenceVectorizer().fit([[fine]])
    for read in (vectorizer.transform, vectorizer.fit):
        with pytest.raises((ValueError, TypeError), match=f"sequence 1, token 2.*{message}"):
            read([[fine], [fine, ["a"], wrong], [{"a": None}]])


def test_a_dict_that_contains_itself_is_refused():
    token = {"a": 1}
    token["b"] = token
    with pytest.raises(ValueError, match="sequence 0, token 0: dicts are nested more than 50 deep"):
        SequenceVectorizer().fit([[token]])


ROWS = st.lists(st.lists(st.tuples(WORDS, st.sampled_from("AB")), max_size=4), min_size=1)
SPECS = [((0, 0),), ((-1, 0), (0, 0)), ((0, 1),), ((-1, 1), (0, 1), (2, 0))]


def _by_hand(sentence, t):
    """The features of SPECS at a token, none where a part is outside."""
    for q, spec in enumerate(SPECS):
        places = [(t + offset, column) for offset, column in spec]
        if all(0 <= place < len(sentence) for place, _ in places):
            yield f"U{q}:" + "/".join(sentence[place][column] for place, column in places)


@given(ROWS, ROWS)
@settings(max_examples=200, deadline=None)
def test_templates_as_strings(X, other):
    if not any(X):
        return
    vectorizer = TemplateVectorizer(SPECS, outside="drop").fit(X)
    names = vectorizer.get_feature_names_out().tolist()
    seen = {name for row in X for t in range(len(row)) for name in _by_hand(row, t)}
    assert set(names) == seen
    for rows in (X, other):
        got = vectorizer.transform(rows)
        found = [sorted(names[j] for j in row.indices) for row in got.flat]
        tokens = [(row, t) for row in rows for t in range(len(row))]
        assert found == [sorted(seen.intersection(_by_hand(*token))) for token in tokens]
        assert (got.flat.data == 1.0).all()


@pytest.mark.parametrize("outside", ["mark", "wapiti", "drop"])
def test_batches_of_templates_are_read_as_single_sequences(outside):
    """Only batches have more tokens than there are strings, and tables of combinations."""
    rng = np.random.default_rng(0)
    X = [[("abcd"[rng.integers(4)], "AB"[rng.integers(2)]) for _ in range(n)] for n in range(1, 30)]
    vectorizer = TemplateVectorizer(SPECS, outside=outside, min_count=2).fit(X[:20])
    assert len(vectorizer.vocabulary_) < sum(map(len, X[20:]))
    X += [[("new", "A"), ("a", "new"), ("a", "A")]]
    got = vectorizer.transform(X)
    for row, single in zip(X, got, strict=True):
        _same(single, vectorizer.transform([row])[0])


def test_csr_from_parts_is_what_the_constructor_makes():
    parts = np.array([1.0, 2.0]), np.array([0, 2], dtype=np.int32), np.array([0, 1, 2])
    got, expected = csr_from_parts((2, np.int64(3)), *parts), plain_features.sparse.csr_matrix
    expected = expected(parts, (2, 3))
    assert vars(got).keys() == vars(expected).keys()
    assert (got.toarray() == expected.toarray()).all()
    assert got.shape == (2, 3)
    assert [type(n) for n in got.shape] == [int, int]
    assert got.indices is parts[1]

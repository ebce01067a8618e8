"""Drawn bad input over all estimators and structures: refused, or read as it was meant.

A refusal comes before any solver starts; what is equivalent to clean input gives the same model.
"""

import datetime
import decimal
import warnings
from functools import cache
from itertools import pairwise
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    MultiClass,
    MultiLabel,
    RaggedArray,
    SubgradientSSVM,
    Tree,
)
from skstruct.data.ragged import object_array

ESTIMATORS = [SAGCRF, BCFWSSVM, CasimirSSVM, GDMMSSVM, SubgradientSSVM]
SEQUENCES = {
    "chain": Chain(),
    "boundary": Chain(boundary=True),
    "auto": "auto",
    "edges": Chain(edge_features=True),
    "tree": Tree(),
    "tree edges": Tree(edge_features=True),
}
TABLES = {
    "multiclass": MultiClass(),
    "auto table": "auto",
    "label sets": MultiLabel(),
    "label tree": MultiLabel("tree"),
    "all pairs": MultiLabel("full"),
}
GRAPHS = SEQUENCES | TABLES
LENGTHS = (2, 3, 1, 2)
# What NumPy, SciPy and Python say where nobody looked at the data.
LEAKS = (
    "inhomogeneous",
    "ambiguous",
    "not supported between",
    "broadcast",
    "with a sequence",
    "has no attribute",
    "not subscriptable",
    "iterable",
    "unhashable",
    "cannot reshape",
    "index out of",
)


def clean(name, is_sparse=False):
    """Valid X and y of a structure."""
    rng = np.random.default_rng(3)
    form = sparse.csr_matrix if is_sparse else np.array
    if name in TABLES:
        y = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 1]] * 2)
        return form(rng.normal(size=(8, 3))), y if "label" in name or "pairs" in name else y[:, 0]
    X = [form(rng.normal(size=(n, 3))) for n in LENGTHS]
    y = [list("abc"[:n]) for n in LENGTHS]
    if name == "edges":
        X = [(x, np.ones((n - 1, 2))) for x, n in zip(X, LENGTHS, strict=True)]
    elif "tree" in name:
        X = [(x, np.arange(n) - 1) for x, n in zip(X, LENGTHS, strict=True)]
        if name == "tree edges":
            X = [(*x, np.ones((n - 1, 2))) for x, n in zip(X, LENGTHS, strict=True)]
    return X, y


def refused(call, *args, **options):
    """What a method says to bad input is a clear ValueError or TypeError, before it trains."""
    never = mock.patch.object(type(call.__self__), "_solve", side_effect=AssertionError("accepted"))
    with warnings.catch_warnings(), never:
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError)) as caught:
            call(*args, **options)
    message = str(caught.value)
    assert len(message) > 10
    assert not any(leak in message for leak in LEAKS), message


def replaced(items, i, change):
    """A list with item `i % len(items)` changed."""
    i %= len(items)
    return [change(item) if j == i else item for j, item in enumerate(items)]


# Features: from a good table to a bad one


def _with(value):
    def spoil(x, t):
        x = x.astype(np.result_type(x, np.asarray(value)))
        if not sparse.issparse(x):
            x[t % x.shape[0], t % x.shape[1]] = value
            return x
        x = x.tocsr()
        x.data[t % x.data.size] = value
        return x

    return spoil


def _objects(value):
    def spoil(x, t):
        x = np.asarray(x.toarray() if sparse.issparse(x) else x).astype(object)
        x[t % x.shape[0], t % x.shape[1]] = value
        return x

    return spoil


def _dense(make):
    return lambda x, t: make(x.toarray() if sparse.issparse(x) else x)


def _damaged(part, value):
    """A CSR matrix with an entry of one of its arrays overwritten."""

    def spoil(x, t):
        x = sparse.csr_matrix(x, copy=True)
        array = getattr(x, part)
        array[t % array.size] = value
        return x

    return spoil


def _cut(part):
    def spoil(x, t):
        x = sparse.csr_matrix(x, copy=True)
        setattr(x, part, getattr(x, part)[:-1])
        return x

    return spoil


def _coordinates(x, t):
    x = sparse.coo_matrix(x)
    x.coords[t % 2][t % x.nnz] = 10**8
    return x


def _ragged_rows(x):
    return [*x.tolist(), [1.0] * (x.shape[1] + 1)]


FEATURES = {
    "NaN": _with(np.nan),
    "inf": _with(np.inf),
    "-inf": _with(-np.inf),
    "complex": _with(1j),
    "None": _objects(None),
    "word": _objects("word"),
    "number in a string": _objects("1.5"),
    "NaT": _objects(np.datetime64("NaT")),
    "date": _objects(datetime.date(2020, 1, 1)),
    "timestamp": _objects(pd.Timestamp("2020-01-01")),
    "NA": _objects(pd.NA),
    "huge integer": _objects(10**400),
    "list in a cell": _objects([1.0]),
    "dates": _dense(lambda x: np.full(x.shape, "2020", dtype="M8[ns]")),
    "durations": _dense(lambda x: np.full(x.shape, 3, dtype="m8[s]")),
    "masked": _dense(lambda x: np.ma.masked_array(x, np.eye(*x.shape))),
    "strings": _dense(lambda x: np.full(x.shape, "a")),
    "bytes": _dense(lambda x: np.full(x.shape, b"a")),
    "structured": _dense(lambda x: np.zeros(x.shape, dtype=[("a", float)])),
    "rows of several lengths": _dense(_ragged_rows),
    "1-D": _dense(lambda x: x[:, 0]),
    "3-D": _dense(lambda x: [x.tolist(), [[1.0]]]),
    "4-D": _dense(lambda x: x[None, None]),
    "scalar": _dense(lambda x: 3.0),
    "nothing": _dense(lambda x: None),
    "dicts": _dense(lambda x: [{"a": 1.0}] * len(x)),
    "words": _dense(lambda x: ["a"] * len(x)),
    "complex CSR": lambda x, t: sparse.csr_matrix(x) * 1j,
    "far index": _damaged("indices", 10**9),
    "negative index": _damaged("indices", -(10**8)),
    "index beyond": _damaged("indices", 3),
    "far row": _damaged("indptr", 10**8),
    "negative row": _damaged("indptr", -1),
    "short indptr": _cut("indptr"),
    "short indices": _cut("indices"),
    "short data": _cut("data"),
    "far coordinates": _coordinates,
    "far column": lambda x, t: _damaged("indices", 10**8)(x.T, t).T,
}


def put(name, X, i, change):
    """X with the features of sample i, or of the whole table, changed."""
    if name in TABLES:
        return change(X)
    if isinstance(X[0], tuple):
        return replaced(X, i, lambda sample: (change(sample[0]), *sample[1:]))
    return replaced(X, i, change)


_positions = st.integers(0, 30)


@settings(max_examples=450)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(sorted(GRAPHS)),
    st.booleans(),
    st.sampled_from(sorted(FEATURES)),
    _positions,
    _positions,
)
def test_bad_features_in_fit(estimator, name, is_sparse, spoil, i, t):
    X, y = clean(name, is_sparse)
    X = put(name, X, i, lambda x: FEATURES[spoil](x, t))
    refused(estimator(GRAPHS[name]).fit, X, y)


@cache
def fitted(name):
    """A model of one pass."""
    X, y = clean(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SAGCRF(GRAPHS[name], solver="lbfgs", max_iter=1).fit(X, y)


FITTED = ["chain", "tree", "multiclass", "label tree"]


@settings(max_examples=200)
@given(
    st.sampled_from(FITTED),
    st.booleans(),
    st.sampled_from(sorted(FEATURES)),
    _positions,
    _positions,
    st.sampled_from(["predict", "predict_marginals", "decision_function", "score"]),
)
def test_bad_features_in_prediction(name, is_sparse, spoil, i, t, method):
    X, y = clean(name, is_sparse)
    X = put(name, X, i, lambda x: FEATURES[spoil](x, t))
    refused(getattr(fitted(name), method), X, *([y] if method == "score" else []))


# X as a whole

WHOLE = {
    "nothing": lambda X: None,
    "empty list": lambda X: [],
    "empty tuple": lambda X: (),
    "number": lambda X: 7,
    "string": lambda X: "word",
    "strings": lambda X: ["a", "b", "a", "b"],
    "word lists": lambda X: [["a", "b"], ["c"]],
    "digits": lambda X: [["1", "2"], ["3", "4"]],
    "dict": lambda X: {"a": X},
    "set": lambda X: {1, 2},
    "generator": lambda X: (x for x in X),
    "iterator": lambda X: iter(list(X)),
    "dicts": lambda X: [{"a": 1.0}] * 4,
    "lists of dicts": lambda X: [[{"a": 1.0}] * n for n in LENGTHS],
    "4-D": lambda X: np.zeros((2, 2, 2, 2)),
    "1-D": lambda X: np.arange(4.0),
    "1-D samples": lambda X: [np.ones(n) for n in LENGTHS],
    "objects": lambda X: object_array([object()] * 4),
    "None samples": lambda X: [None] * 4,
    "words in 3-D": lambda X: np.full((2, 2, 2), "a", dtype=object),
    "frame of strings": lambda X: pd.DataFrame({"word": ["a", "b", "c", "d"]}),
    "Series of words": lambda X: pd.Series(["a", "b", "c", "d"]),
    "another width": lambda X: [np.ones((2, 3)), np.ones((2, 4))],
    "empty sample": lambda X: [np.ones((2, 3)), np.ones((0, 3))],
    "no rows": lambda X: np.empty((0, 3)),
    "no samples": lambda X: np.empty((0, 2, 3)),
}


@settings(max_examples=200)
@given(st.sampled_from(ESTIMATORS), st.sampled_from(sorted(GRAPHS)), st.sampled_from(sorted(WHOLE)))
def test_bad_X(estimator, name, spoil):
    X, y = clean(name)
    refused(estimator(GRAPHS[name]).fit, WHOLE[spoil](X), y)


# Labels

NODE_LABELS = {
    "None": None,
    "NaN": np.nan,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "no date": np.datetime64("NaT"),
    "integer": 1,
    "float": 2.0,
    "bytes": b"a",
    "list": ["a"],
    "tuple": ("a",),
    "dict": {"a": 1},
    "complex": 1j,
    "decimal": decimal.Decimal(1),
    "object": object(),
}
LABELS = {
    name: (lambda y, t, v=value: replaced(y, t, lambda _: v)) for name, value in NODE_LABELS.items()
}
LABELS |= {
    "one more": lambda y, t: [*y, "a"],
    "fraction": lambda y, t: [0.5] * len(y),
    "infinity": lambda y, t: [np.inf] * len(y),
    "huge": lambda y, t: [10**400, 1] * (len(y) // 2) + [1] * (len(y) % 2),
    "dates": lambda y, t: np.full(len(y), "2020", dtype="M8[D]"),
    "masked": lambda y, t: np.ma.masked_array(y, np.eye(len(y))[0]),
    "2-D": lambda y, t: np.full((len(y), 2), 2),
    "nothing": lambda y, t: None,
    "string": lambda y, t: "abc"[: len(y)],
    "set": lambda y, t: {"a", "b"},
    "generator": lambda y, t: (label for label in y),
    "complex numbers": lambda y, t: np.full(len(y), 1j),
    "NA string": lambda y, t: pd.Series([*y[:-1], None], dtype="string"),
    "NA integer": lambda y, t: pd.Series([*range(len(y) - 1), None], dtype="Int64"),
    "NaN among objects": lambda y, t: object_array([*y[:-1], np.nan]),
}


# What is no bad input to estimators that train on missing labels.
MISSING = "None", "NaN", "NA", "NaT", "masked", "NA string", "NA integer", "NaN among objects"


@settings(max_examples=350)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from([*sorted(SEQUENCES), "multiclass", "auto table"]),
    st.sampled_from(sorted(LABELS)),
    st.booleans(),
    _positions,
    _positions,
)
def test_bad_labels(estimator, name, spoil, packed, i, t):
    X, y = clean(name)
    estimator = GDMMSSVM if spoil in MISSING else estimator
    if name in TABLES:
        y = LABELS[spoil](list("aabbccab"), t)
    else:
        y = replaced(y, i, lambda labels: LABELS[spoil](labels, t))
        y = object_array(y) if packed else y
    refused(estimator(GRAPHS[name]).fit, X, y)


INDICATORS = {
    "two": lambda Y, t: np.where(np.arange(Y.size).reshape(Y.shape) == t % Y.size, 2, Y),
    "negative": lambda Y, t: -Y,
    "NaN": lambda Y, t: np.where(Y == 1, np.nan, Y),
    "half": lambda Y, t: Y / 2,
    "strings": lambda Y, t: Y.astype(str),
    "one column": lambda Y, t: Y[:, :1],
    "1-D": lambda Y, t: Y[:, 0],
    "3-D": lambda Y, t: Y[None],
    "one row less": lambda Y, t: Y[1:],
    "label lists": lambda Y, t: [np.flatnonzero(row).tolist() for row in Y],
    "label sets": lambda Y, t: [set(np.flatnonzero(row).tolist()) for row in Y],
    "masked": lambda Y, t: np.ma.masked_array(Y, Y == 1),
    "nothing": lambda Y, t: None,
    "objects": lambda Y, t: Y.astype(object),
    "damaged": lambda Y, t: _damaged("indices", 10**8)(Y, t),
    "damaged rows": lambda Y, t: _damaged("indptr", 10**8)(Y, t),
    "complex": lambda Y, t: Y * 1j,
}


@settings(max_examples=100)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(["label sets", "label tree", "all pairs"]),
    st.sampled_from(sorted(INDICATORS)),
    _positions,
)
def test_bad_label_sets(estimator, name, spoil, t):
    X, y = clean(name)
    estimator = GDMMSSVM if spoil in MISSING else estimator
    refused(estimator(GRAPHS[name]).fit, X, INDICATORS[spoil](y, t))


# Structures and options

STRUCTURES = {
    "a node beyond": lambda n: [[0, n]],
    "a negative node": lambda n: [[-1, 0]],
    "a loop": lambda n: [[0, 0]],
    "twice": lambda n: [[0, 1], [1, 0]],
    "own parent": lambda n: np.zeros(n, dtype=int),
    "a parent beyond": lambda n: np.full(n, n),
    "no root": lambda n: (np.arange(n) + 1) % n,
    "floats": lambda n: np.arange(n) - 1.0,
    "one parent more": lambda n: np.full(n + 1, -1),
    "triples": lambda n: [[0, 1, 0]],
    "ragged": lambda n: [[0, 1], [0]],
    "strings": lambda n: ["a"] * n,
    "None": lambda n: None,
    "None parents": lambda n: [None] * n,
    "dict": lambda n: {0: 1},
    "3-D": lambda n: np.zeros((1, 1, 2), dtype=int),
    "huge": lambda n: [[0, 10**30]],
    "masked": lambda n: np.ma.masked_array(np.arange(n) - 1, np.arange(n) == 0),
}


@settings(max_examples=100)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(["tree", "tree edges"]),
    st.sampled_from(sorted(STRUCTURES)),
    _positions,
)
def test_bad_trees(estimator, name, spoil, i):
    X, y = clean(name)
    X = replaced(X, i, lambda sample: (sample[0], STRUCTURES[spoil](len(sample[0])), *sample[2:]))
    refused(estimator(GRAPHS[name]).fit, X, y)


@settings(max_examples=100)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(["edges", "tree edges"]),
    st.sampled_from(sorted(set(FEATURES) - {"nothing"})),
    st.sampled_from([0, 1, 3]),
    _positions,
)
def test_bad_edge_features(estimator, name, spoil, i, t):
    X, y = clean(name)
    X = replaced(X, i, lambda sample: (*sample[:-1], FEATURES[spoil](sample[-1].copy(), t)))
    refused(estimator(GRAPHS[name]).fit, X, y)


WEIGHTS = {
    "short": lambda n: np.ones(n - 1),
    "negative": lambda n: np.r_[-1.0, np.ones(n - 1)],
    "NaN": lambda n: np.r_[np.nan, np.ones(n - 1)],
    "infinite": lambda n: np.r_[np.inf, np.ones(n - 1)],
    "zero": np.zeros,
    "strings": lambda n: ["a"] * n,
    "one a node": lambda n: [np.ones(1 + i % 3) for i in range(n)],
    "2-D": lambda n: np.ones((n, 2)),
    "masked": lambda n: np.ma.masked_array(np.ones(n), np.arange(n) == 0),
    "None inside": lambda n: [None] * n,
    "complex": lambda n: np.full(n, 1 + 1j),
    "dates": lambda n: np.full(n, "2020", dtype="M8[D]"),
    "dict": lambda n: dict.fromkeys(range(n), 1.0),
    "too large": lambda n: np.full(n, 1e308),
    "too small": lambda n: np.full(n, 1e-320),
}
OPTIONS = {
    "C": [0, -1.0, np.nan, -np.inf, "1", None, 1e308],
    "tol": [-1.0, np.nan, "1"],
    "max_iter": [0, 1.5, "3"],
    "graph": ["grid", 3, None, Chain, [Chain()]],
    "n_jobs": [1.5, "2"],
    "random_state": ["zero", -1],
}


@settings(max_examples=80)
@given(
    st.sampled_from(ESTIMATORS), st.sampled_from(sorted(GRAPHS)), st.sampled_from(sorted(WEIGHTS))
)
def test_bad_weights(estimator, name, spoil):
    X, y = clean(name)
    n = X.shape[0] if name in TABLES else len(X)
    refused(estimator(GRAPHS[name]).fit, X, y, sample_weight=WEIGHTS[spoil](n))


LOSSES = {
    "unknown class": {"zz": 1.0},
    "NaN": {"a": np.nan},
    "None": {"a": None},
    "negative": {"a": -1.0},
    "huge": {"a": 10**400},
    "complex": np.full((3, 3), 1j) * (1 - np.eye(3)),
    "another shape": 1 - np.eye(4),
    "ragged": [[0, 1, 1], [1, 0], [1, 1, 0]],
    "diagonal": np.ones((3, 3)),
    "infinite": np.where(np.eye(3), 0.0, np.inf),
    "strings": [["0", "x", "1"]] * 3,
    "masked": np.ma.masked_array(1 - np.eye(3), np.eye(3)),
    "dates": np.full((3, 3), "2020", dtype="M8[D]"),
    "frame without labels": pd.DataFrame(1 - np.eye(3)),
    "word": "huber",
    "number": 3,
}


@settings(max_examples=60)
@given(
    st.sampled_from([BCFWSSVM, CasimirSSVM, GDMMSSVM, SubgradientSSVM]),
    st.sampled_from(["chain", "edges", "tree"]),
    st.sampled_from(sorted(LOSSES)),
)
def test_bad_losses(estimator, name, spoil):
    X, y = clean(name)
    refused(estimator(GRAPHS[name], loss=LOSSES[spoil]).fit, X, y)


@settings(max_examples=60)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(sorted(GRAPHS)),
    st.sampled_from([(name, value) for name, values in OPTIONS.items() for value in values]),
)
def test_bad_options(estimator, name, option):
    X, y = clean(name)
    refused(estimator(**{"graph": GRAPHS[name], option[0]: option[1]}).fit, X, y)


# What means the same as clean input

SAME = {
    "tuple": tuple,
    "objects": object_array,
    "Series": lambda X: pd.Series(list(X)),
    "lists": lambda X: [x.tolist() for x in X],
    "Fortran": lambda X: [np.asfortranarray(x) for x in X],
    "objects inside": lambda X: [x.astype(object) for x in X],
    "big endian": lambda X: [x.astype(">f8") for x in X],
    "backwards": lambda X: [x[::-1][::-1] for x in X],
    "unmasked": lambda X: [np.ma.masked_array(x) for x in X],
    "frames": lambda X: [pd.DataFrame(x) for x in X],
    "packed": RaggedArray.from_list,
    "decimals": lambda X: [np.vectorize(decimal.Decimal, otypes=[object])(x) for x in X],
}
SAME_SPARSE = {
    "CSC": lambda X: [x.tocsc() for x in X],
    "COO": lambda X: [x.tocoo() for x in X],
    "DOK": lambda X: [x.todok() for x in X],
    "LIL": lambda X: [x.tolil() for x in X],
    "DIA": lambda X: [x.todia() for x in X],
    "BSR": lambda X: [x.tobsr((1, 1)) for x in X],
    "arrays": lambda X: [sparse.csr_array(x) for x in X],
    "some dense": lambda X: [x if i % 2 else x.toarray() for i, x in enumerate(X)],
    "unsorted": lambda X: [_unsorted(x) for x in X],
    "spare room": lambda X: [_with_spare_room(x) for x in X],
    "packed": RaggedArray.from_list,
}


def _unsorted(x):
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(x.indptr)])
    return sparse.csr_matrix((x.data[order], x.indices[order], x.indptr), x.shape)


def _with_spare_room(x):
    x = x.copy()
    x.data, x.indices = np.append(x.data, 99.0), np.append(x.indices, 0).astype(np.int32)
    return x


SAME_LABELS = {
    "lists": list,
    "arrays": lambda y: [np.array(labels) for labels in y],
    "objects": lambda y: [np.array(labels, dtype=object) for labels in y],
    "NumPy strings": lambda y: [[np.str_(label) for label in labels] for labels in y],
    "Series": lambda y: pd.Series([pd.Series(labels, dtype="string") for labels in y]),
    "packed": RaggedArray.from_list,
    "tuples": lambda y: tuple(tuple(labels) for labels in y),
}


@cache
def weights(is_sparse):
    X, y = clean("chain", is_sparse)
    return _weights(X, y)


def _weights(X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SAGCRF(solver="sag", max_iter=2, random_state=0).fit(X, y)
    assert [str(label) for label in model.classes_] == ["a", "b", "c"]
    return model.node_weights_, model.pair_weights_


@settings(max_examples=120)
@given(
    st.one_of(
        st.tuples(st.just(False), st.sampled_from(sorted(SAME))),
        st.tuples(st.just(True), st.sampled_from(sorted(SAME_SPARSE))),
    ),
    st.sampled_from(sorted(SAME_LABELS)),
)
def test_equivalent_input_gives_the_same_model(form, labels):
    is_sparse, how = form
    X, y = clean("chain", is_sparse)
    X = (SAME_SPARSE if is_sparse else SAME)[how](X)
    for got, expected in zip(_weights(X, SAME_LABELS[labels](y)), weights(is_sparse), strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_array_equal(got, expected)

"""Drawn bad input over all estimators and structures: refused, or read as it was meant.

A refusal comes before any solver starts; what is equivalent to clean input gives the same model.
"""

import decimal
import warnings
from functools import cache

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from skstruct import GDMMSSVM, SAGCRF
from skstruct.data.ragged import object_array
from tests.helpers.drawn_cases import (
    ESTIMATORS,
    FEATURES,
    GRAPHS,
    LENGTHS,
    SEQUENCES,
    TABLES,
    clean,
    damaged,
    positions,
    refused,
    replaced,
)


def put(name, X, i, change):
    """X with the features of sample i, or of the whole table, changed."""
    if name in TABLES:
        return change(X)
    if isinstance(X[0], tuple):
        return replaced(X, i, lambda sample: (change(sample[0]), *sample[1:]))
    return replaced(X, i, change)


@settings(max_examples=450)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(sorted(GRAPHS)),
    st.booleans(),
    st.sampled_from(sorted(FEATURES)),
    positions,
    positions,
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
    positions,
    positions,
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
    positions,
    positions,
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
    "damaged": lambda Y, t: damaged("indices", 10**8)(Y, t),
    "damaged rows": lambda Y, t: damaged("indptr", 10**8)(Y, t),
    "complex": lambda Y, t: Y * 1j,
}


@settings(max_examples=100)
@given(
    st.sampled_from(ESTIMATORS),
    st.sampled_from(["label sets", "label tree", "all pairs"]),
    st.sampled_from(sorted(INDICATORS)),
    positions,
)
def test_bad_label_sets(estimator, name, spoil, t):
    X, y = clean(name)
    estimator = GDMMSSVM if spoil in MISSING else estimator
    refused(estimator(GRAPHS[name]).fit, X, INDICATORS[spoil](y, t))

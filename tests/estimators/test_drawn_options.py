"""Drawn structures, weights, losses and options: refused by name, or equivalent."""

import decimal
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, Chain, RaggedArray, SubgradientSSVM
from skstruct.data.ragged import object_array
from tests.helpers.drawn_cases import (
    ESTIMATORS,
    FEATURES,
    GRAPHS,
    TABLES,
    clean,
    positions,
    refused,
    replaced,
)

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
    positions,
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
    positions,
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
@example((True, "DOK"), "lists")  # a dict, too
def test_equivalent_input_gives_the_same_model(form, labels):
    is_sparse, how = form
    X, y = clean("chain", is_sparse)
    X = (SAME_SPARSE if is_sparse else SAME)[how](X)
    for got, expected in zip(_weights(X, SAME_LABELS[labels](y)), weights(is_sparse), strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_array_equal(got, expected)

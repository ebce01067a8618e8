"""Ways to damage features, and clean problems, for drawn input."""

import datetime
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
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
    SubgradientSSVM,
    Tree,
)

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


def damaged(part, value):
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
    "far index": damaged("indices", 10**9),
    "negative index": damaged("indices", -(10**8)),
    "index beyond": damaged("indices", 3),
    "far row": damaged("indptr", 10**8),
    "negative row": damaged("indptr", -1),
    "short indptr": _cut("indptr"),
    "short indices": _cut("indices"),
    "short data": _cut("data"),
    "far coordinates": _coordinates,
    "far column": lambda x, t: damaged("indices", 10**8)(x.T, t).T,
}


positions = st.integers(0, 30)

"""Sparse arrays and matrices: vectorizers return what is asked for, structures take both."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import skstruct
from skstruct import Chain, Pairwise, RaggedArray
from skstruct.preprocessing import (
    PatchWords,
    PerNode,
    SequenceUnion,
    SequenceVectorizer,
    TemplateVectorizer,
    TokenFeatures,
)
from skstruct.testing import training_problem

NAMES = [[["w=he"], ["w=runs", "end"]], [["w=she", "end"]]]
TOKENS = [["he", "runs"], ["she"]]
IMAGES = np.random.default_rng(0).uniform(size=(2, 24, 24, 3))

TRANSFORMERS = {
    "names": (SequenceVectorizer(), NAMES),
    "rare names": (SequenceVectorizer(min_count=2), NAMES),
    "hashed names": (SequenceVectorizer(hashing=True, n_features=8), NAMES),
    "templates": (TemplateVectorizer("U0:%x[0,0]"), TOKENS),
    "templates of edges": (TemplateVectorizer("U0:%x[0,0]\nB1:%x[0,0]"), TOKENS),
    "tokens": (TokenFeatures(), TOKENS),
    "nodes": (PerNode(OneHotEncoder(handle_unknown="ignore")), [[[w] for w in x] for x in TOKENS]),
    "union": (
        SequenceUnion([("w", TemplateVectorizer("U0:%x[0,0]")), ("t", TokenFeatures())]),
        TOKENS,
    ),
    "patches": (PatchWords(2, 2, n_patches=20, random_state=0), IMAGES),
}


def _matrices(item):
    """The sparse matrices in samples."""
    if sparse.issparse(item):
        return [item]
    if isinstance(item, np.ndarray) and item.dtype.kind != "O":
        return []
    is_list = isinstance(item, (list, tuple, RaggedArray, np.ndarray))
    return [matrix for part in item for matrix in _matrices(part)] if is_list else []


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_output_is_as_scikit_learn_is_set(name):
    transformer, X = TRANSFORMERS[name]
    outputs = []
    for interface in ("spmatrix", "sparray"):
        with config_context(sparse_interface=interface):
            own = clone(transformer)
            outputs.append(_matrices(own.fit_transform(X)) + _matrices(own.transform(X)))
        kinds = {isinstance(matrix, sparse.sparray) for matrix in outputs[-1]}
        assert kinds == {interface == "sparray"}
    for one, other in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one.toarray(), other.toarray())


def test_ragged_arrays_keep_what_they_are_made_of():
    for kind in (sparse.csr_matrix, sparse.csr_array):
        ragged = RaggedArray(kind(np.eye(3)), [0, 2, 3])
        for given in (ragged.flat, ragged[0], ragged[[1]].flat, ragged[[1]][0]):
            assert type(given) is kind
        np.testing.assert_array_equal(ragged[1].toarray(), [[0, 0, 1]])


def _as_arrays(item):
    """Samples with sparse arrays in place of matrices."""
    if sparse.issparse(item):
        return sparse.csr_array(item)
    if isinstance(item, dict):
        return {name: _as_arrays(part) for name, part in item.items()}
    return type(item)(map(_as_arrays, item)) if isinstance(item, (list, tuple)) else item


def _leaves(record):
    """The arrays of a record, without scratch, which nobody has written to."""
    if not isinstance(record, tuple):
        return [record]
    names = getattr(record, "_fields", [""] * len(record))
    pairs = zip(names, record, strict=True)
    return [a for name, part in pairs if name != "work" for a in _leaves(part)]


STRUCTURES = [getattr(skstruct, name)() for name in skstruct._GRAPHS - {"Grid", "WordLattice"}] + [
    Chain(edge_features=True),
    Pairwise(edge_features=True),
]


@pytest.mark.parametrize("graph", sorted(STRUCTURES, key=str), ids=str)
def test_structures_take_sparse_arrays(graph):
    X, y = graph.example(np.random.default_rng(0), True)
    arrays = _as_arrays(X)
    assert all(isinstance(matrix, sparse.sparray) for matrix in _matrices(arrays))
    problems = [training_problem(clone(graph), given, y)[0].rows for given in (X, arrays)]
    for one, other in zip(*map(_leaves, problems), strict=True):
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)


def test_compiled_transformers_take_packed_sparse_nodes():
    X = RaggedArray(sparse.csr_array(np.eye(3)), [0, 3])
    found = PerNode(PolynomialFeatures(2)).fit_transform(X)
    assert_array_equal(found.flat.toarray(), PolynomialFeatures(2).fit_transform(np.eye(3)))

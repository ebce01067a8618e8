"""Pruned Viterbi against the dense one: values, labels and ties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skstruct.inference.viterbi import (
    sparse_viterbi,
    sparse_viterbi_scratch,
    viterbi,
    viterbi_scratch,
)


@given(
    n=st.integers(1, 7),
    n_labels=st.sampled_from([1, 2, 3, 8, 40]),
    seed=st.integers(0, 10**6),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    ties=st.booleans(),
    scale=st.sampled_from([0.1, 1.0, 1e4]),
)
def test_equal_to_the_dense_pass(n, n_labels, seed, density, ties, scale):
    rng = np.random.default_rng(seed)
    shape = (n_labels, n_labels)
    draw = (lambda size: rng.integers(-2, 3, size).astype(float)) if ties else rng.normal
    unary = scale * draw(size=(n, n_labels))
    unary[rng.random(unary.shape) < 0.1] = -np.inf
    table = draw(size=shape) * (rng.random(shape) < density)
    table[rng.random(shape) < 0.3 * density] = -np.inf
    stored = sparse.csr_matrix(table)
    tops = np.maximum(np.where(np.isfinite(table), table, 0.0).max(axis=1), 0.0)
    labels, expected = np.zeros((2, n), dtype=np.int32)
    value = sparse_viterbi(
        unary,
        stored.indptr.astype(np.int64),
        stored.indices.astype(np.int32),
        stored.data,
        tops,
        labels,
        sparse_viterbi_scratch(n, n_labels),
    )
    reference = viterbi(unary, table[None], expected, viterbi_scratch(n, n_labels))
    assert value == reference or abs(value - reference) < 1e-9 * scale
    if np.isfinite(reference) and ties and scale == 1.0:
        np.testing.assert_array_equal(labels, expected)
    elif np.isfinite(reference):
        steps = table[labels[:-1], labels[1:]].sum()
        score = unary[np.arange(n), labels].sum() + steps
        np.testing.assert_allclose(score, value, rtol=1e-9, atol=1e-9 * scale)

"""Features in single precision, read-only and memory-mapped ones: read where they are."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skstruct import BCFWSSVM, SAGCRF, Chain, RaggedArray
from skstruct.data.matrices import normal_csr, readable
from skstruct.data.packing import read_sequences
from skstruct.testing import random_sequences


def _table():
    X, y = random_sequences(np.random.default_rng(0), n_samples=8)
    lengths = [len(x) for x in X]
    offsets = np.append(0, np.cumsum(lengths))
    return np.concatenate(X).astype(np.float32), RaggedArray(np.concatenate(y), offsets), offsets


def _mapped(array, path):
    array.tofile(path)
    return np.memmap(path, dtype=array.dtype, mode="r", shape=array.shape)


# What reads rows in single precision is counted in test_kernels.py, too: the same kernels.
@pytest.mark.parametrize(("solver", "kind"), [("sag", "dense"), ("lbfgs", "sparse")])
def test_single_precision_gives_what_double_precision_gives(solver, kind):
    rows, y, offsets = _table()
    weights, predictions = [], []
    for dtype in (np.float32, np.float64):
        table = rows.astype(dtype)
        X = RaggedArray(sparse.csr_matrix(table) if kind == "sparse" else table, offsets)
        model = SAGCRF(Chain(boundary=True), C=0.5, solver=solver, tol=1e-7, random_state=0)
        model.set_params(max_iter=3000).fit(X, y)
        weights.append(np.concatenate([model.node_weights_.ravel(), model.pair_weights_.ravel()]))
        other = RaggedArray(rows.astype(np.float64), offsets)
        predictions.append(np.concatenate(list(model.predict(other))).tolist())
        assert model.predict(X)[0].tolist() == list(predictions[-1][: offsets[1]])
    # Both are within 1e-7 of the same optimum; distances go with the square root.
    np.testing.assert_allclose(*weights, atol=2e-3)
    assert predictions[0] == predictions[1]


def test_what_is_read_only_is_read_in_place(tmp_path):
    rows, _, offsets = _table()
    dense = _mapped(rows, tmp_path / "rows")
    features, *_ = read_sequences(RaggedArray(dense, offsets))
    assert np.shares_memory(features, dense)
    assert type(features) is np.ndarray
    assert features.flags.writeable  # one type to numba
    assert features.dtype == np.float32
    matrix = sparse.csr_matrix(rows)
    data = _mapped(matrix.data, tmp_path / "data")
    indices = _mapped(matrix.indices, tmp_path / "indices")
    found = normal_csr(sparse.csr_matrix((data, indices, matrix.indptr), matrix.shape))
    assert np.shares_memory(found.data, data)
    assert np.shares_memory(found.indices, indices)
    np.testing.assert_array_equal(found.toarray(), rows)


def test_fits_on_memory_maps(tmp_path):
    rows, y, offsets = _table()
    X = RaggedArray(_mapped(rows.astype(np.float64), tmp_path / "rows"), offsets)
    options = {"C": 0.5, "random_state": 0}
    mapped, plain = (
        BCFWSSVM(**options).fit(x, y) for x in (X, RaggedArray(rows.astype(np.float64), offsets))
    )
    np.testing.assert_array_equal(mapped.node_weights_, plain.node_weights_)
    assert [a.tolist() for a in mapped.predict(X)] == [a.tolist() for a in plain.predict(X)]


@pytest.mark.parametrize("dtype", [np.float16, np.int32, bool, np.longdouble])
def test_other_types_become_double_precision(dtype):
    assert readable(np.ones(2, dtype=dtype)).dtype == np.float64


def test_indices_in_the_other_byte_order():
    """They are what they say: read as native ones, large indices could pass for small."""
    x = sparse.csr_matrix(np.eye(3))
    for order in "<>":
        x.indices = np.arange(3).astype(f"{order}i4")
        assert_array_equal(normal_csr(x).indices, [0, 1, 2])
        x.indices = np.array([0, 1 << 24, 2]).astype(f"{order}i4")
        with pytest.raises(ValueError, match="damaged CSR matrix"):
            normal_csr(x)

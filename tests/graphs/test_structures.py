"""Every verb of every structure against enumeration (skstruct.testing.check_structure)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from skstruct import BCFWSSVM, Chain, Grid, MultiClass
from skstruct.core.features import DenseFeatures, SparseFeatures
from skstruct.rows import blocks
from skstruct.testing import check_structure, random_sequences, training_problem

LOSSES = {
    "hamming": "hamming",
    "normalized": "normalized_hamming",
    "per class": {"a": 2.0, "c": 0.5},
    "matrix": [[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [0.5, 4.0, 0.0]],
}


# CSR rows are in plain_verbs.py.
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_chain(fit_intercept, loss):
    X, y = random_sequences(np.random.default_rng(0), n_samples=6, max_length=5)
    check_structure(Chain(), X, y, fit_intercept=fit_intercept, loss=loss)


def test_chain_with_boundary_scores():
    X, y = random_sequences(np.random.default_rng(1), n_samples=6, max_length=5)
    check_structure(Chain(boundary=True), X, y)


# Tests that enumerate all labellings of small samples for each verb: milliseconds as plain Python,
# seconds of compiling for verbs that solvers and predictions compile once more. They are marked
# "plain", and run nowhere else.
@pytest.mark.slow
def test_tests_of_verbs_as_plain_python():
    tests = sorted(Path(__file__).parents[1].rglob("test_*.py"))
    files = [path for path in tests if "pytest.mark.plain" in path.read_text(encoding="utf-8")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "plain", "-p", "no:xdist", *files],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 50


def test_structures_as_plain_python():
    done = subprocess.run(
        [sys.executable, Path(__file__).parents[1] / "helpers" / "plain_verbs.py"],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(json.loads(done.stdout)) == {
        "BoxesSpace",
        "CandidatesSpace",
        "ChainSpace",
        "BMatchingSpace",
        "AssignmentSpace",
        "sparse BoxesSpace",
        "sparse CandidatesSpace",
        "sparse ChainSpace",
        "sparse FewLabelsSpace",
        "sparse ForestSpace",
        "sparse JunctionSpace",
        "sparse LabelForestSpace",
        "sparse AssignmentSpace",
        "sparse TreeSpace",
    }


def test_chain_with_forbidden_steps_and_ends():
    X, _ = random_sequences(np.random.default_rng(3), n_samples=6, max_length=5)
    names = np.array(["B-x", "I-x", "O"])
    y = [names[[0, 1, 2, 0, 1][: len(x)]] for x in X]
    check_structure(Chain(forbidden="iob2", boundary=True), X, y)


def test_chains_too_long_for_stored_gram_matrices():
    # With 1 nonzero a node, T^2 is far above 4 nnz: the products go through a table instead.
    rng = np.random.default_rng(4)
    X = [np.eye(3)[rng.integers(3, size=n)] for n in (7, 7, 6)]
    y = [rng.choice(["a", "b"], size=len(x)) for x in X]
    from skstruct.core.gram import gram_of
    from skstruct.rows.blocks import feature_rows

    flat = np.tile(np.eye(3), (200, 1))
    gram = gram_of(feature_rows(flat, 3, False), np.array([0, 600]), 3)
    assert gram.ptr.size == 0
    check_structure(Chain(), X, y)
    # Nor are products stored that float32 cannot hold.
    few = gram_of(feature_rows(np.full((2, 1), 1e25), 1, False), np.array([0, 2]), 1)
    assert few.ptr.size == 0


@pytest.mark.plain
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_multiclass(loss):
    X, y = random_sequences(np.random.default_rng(5), n_samples=12)
    check_structure(MultiClass(), np.vstack(X), np.concatenate(y), loss=loss)


def test_long_chain_gram_by_table_equals_the_matrix():
    from skstruct.core.gram import gram_of, gram_product, not_stored
    from skstruct.data.matrices import normal_csr
    from skstruct.rows.blocks import feature_rows

    rng = np.random.default_rng(6)
    X = rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.5)
    r = rng.normal(size=18)
    rows = np.array([0, 4, 9])
    for matrix in (X, normal_csr(sparse.csr_matrix(X))):
        features = feature_rows(matrix, 5, True)
        with_ones = np.hstack([X, np.ones((9, 1))])
        for how in (gram_of(features, rows, 5), not_stored()):
            out = np.empty(18)
            gram_product(how, features, 0, 0, 4, 2, r, out, 0, np.zeros((5, 2)))
            block = with_ones[:4]
            expected = block @ (block.T @ r[:8].reshape(4, 2))
            np.testing.assert_allclose(out[:8].reshape(4, 2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_dense_features_that_are_mostly_zeros_are_sparse_in_training(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 8)) * (rng.random((6, 8)) < 0.2) for _ in range(8)]
    y = [rng.choice(["a", "b"], size=6) for _ in X]
    assert isinstance(training_problem(Chain(), X, y)[0].rows.nodes, DenseFeatures)
    monkeypatch.setattr(blocks, "_LARGE", 1)
    fits = [
        BCFWSSVM(Chain(), tol=0.0, max_iter=5, random_state=0).fit(samples, y)
        for samples in (X, [sparse.csr_matrix(x) for x in X])
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert all(map(np.array_equal, fits[0].predict(X), fits[1].predict(X)))
    grid = [x.reshape(2, 3, 8) for x in X], [labels.reshape(2, 3) for labels in y]
    assert isinstance(training_problem(Grid(), *grid)[0].rows.nodes, SparseFeatures)
    monkeypatch.setattr(blocks, "_FEW", 0.05)
    assert isinstance(training_problem(Chain(), X, y)[0].rows.nodes, DenseFeatures)

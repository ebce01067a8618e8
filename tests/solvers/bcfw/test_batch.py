"""Batch Frank-Wolfe: a step by hand, the optimum of block steps, the rate of open loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct import BCFWSSVM, Chain, Grid, MultiClass
from skstruct.datasets import pack_shards
from skstruct.testing import random_sequences

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_two_steps_by_hand():
    # Two nodes alone, classes 0 and 1, features (1, 0) and (0, 2), C = 1: lambda is 1 / 2.
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0, 1])
    options = {"C": 1.0, "fit_intercept": False, "tol": 0.0}
    one = BCFWSSVM(MultiClass(), steps="batch-open-loop", max_iter=1, **options).fit(X, y)
    # At weights of 0 every other label is worst: hinges of 1, the corner is the difference.
    # The certificate is of the weights 0 and of the bound at the corner, 1 - |corner|^2 / 4.
    corner = np.array([[1.0, -2.0], [-1.0, 2.0]])
    assert one.objective_ == 1.0
    assert 1.0 - (corner**2).sum() / 4.0 < one.dual_objective_ <= 0.0
    assert_allclose(one.dual_objective_, 0.0, atol=1e-14)
    line = BCFWSSVM(MultiClass(), steps="batch", max_iter=2, **options).fit(X, y)
    # The line search takes 1 / (lambda |corner|^2) = 1 / 5 of it: weights of corner / 5.
    w = corner / 5.0
    hinges = 1.0 + w[1, 0] - w[0, 0], 1.0 + 2.0 * (w[0, 1] - w[1, 1])
    objective = 0.25 * (w**2).sum() + max(hinges[0], 0.0) / 2.0 + max(hinges[1], 0.0) / 2.0
    assert_allclose(line.history_["objective"][-1], objective)
    assert_allclose(line.coef_, w)
    assert line.dual_objective_ >= 0.2 - 0.25 * (w**2).sum() - 1e-9
    assert line.n_oracle_calls_ == 4


def test_open_loops_fall_as_theorem_1_says():
    X, y = random_sequences(np.random.default_rng(1))
    svm = BCFWSSVM(C=0.1, steps="batch-open-loop", tol=0.0, max_iter=200).fit(X, y)
    gap = svm.history_["dual_gap"]
    k = np.arange(1, gap.size + 1)
    # O(1 / k): k times the best gap stays bounded by what it is early on.
    assert (k * gap)[50:].max() <= 2.0 * (k * gap)[5:50].max()


def test_what_batch_steps_do_not_know(tmp_path):
    X, y = [np.eye(2)[[[0, 1], [1, 1]]]] * 2, [np.array([[0, 1], [1, 1]])] * 2
    for graph, message in (
        (Grid(attractive=True), "attractive interactions"),
        (Grid(inference="lp"), "a relaxation"),
    ):
        with pytest.raises(ValueError, match=f"steps='batch' is not for {message}"):
            BCFWSSVM(graph, steps="batch").fit(X, y)
    X, y = random_sequences(np.random.default_rng(3), 6)
    with pytest.raises(ValueError, match="is not for averaging"):
        BCFWSSVM(steps="batch", averaging=True).fit(X, y)
    partial = [labels.astype(object) for labels in y]
    partial[0][0] = None
    with pytest.raises(ValueError, match="is not for missing labels"):
        BCFWSSVM(steps="batch").fit(X, partial)
    shards = pack_shards(X, y, tmp_path / "shards", graph=Chain())
    with pytest.raises(ValueError, match='steps must be "pairwise" or "frank-wolfe"'):
        BCFWSSVM(Chain(), steps="batch").fit(shards)

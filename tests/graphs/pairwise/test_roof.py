"""Graphs of two labels, by one maximum flow: against enumeration and junction trees."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from skstruct import BCFWSSVM, Grid, Pairwise
from skstruct.core import oracles


def _roof_case(rng, interactions, n_types):
    n = int(rng.integers(1, 6))
    pairs = [(a, b) if rng.random() < 0.5 else (b, a) for a in range(n) for b in range(a)]
    edges = np.array([p for p in pairs if rng.random() < 0.7], dtype=int).reshape(-1, 2)
    if n_types > 1:
        edges = np.column_stack([edges, rng.integers(0, n_types, len(edges))])
    graph = Pairwise(edge_types=n_types, interactions=interactions, inference="roof-dual")
    samples = graph.read_X(SimpleNamespace(), [(np.zeros((n, 1)), edges)], True)
    return n, graph.make_problem(samples, np.array([0, 1]), True)


@pytest.mark.parametrize("interactions", ["full", "symmetric", "potts"])
@pytest.mark.parametrize("n_types", [1, 2])
def test_the_roof_dual_bounds_every_labelling(interactions, n_types):
    rng = np.random.default_rng(n_types)
    n_tight = 0
    for trial in range(25):
        n, problem = _roof_case(rng, interactions, n_types)
        theta = np.round(2 * rng.normal(size=problem.part_ptr[-1]), trial % 3)
        if trial % 5 == 0:
            theta[rng.integers(0, 2 * n)] = -np.inf
        labels, mu = np.zeros(n, dtype=np.int32), np.zeros(theta.size)
        everyone = (np.array(y, dtype=np.int32) for y in product(range(2), repeat=n))
        best = max(oracles.score(problem, 0, theta, y) for y in everyone)
        bound, value = oracles.relaxed_oracle(problem, 0, theta, labels, mu)
        assert bound >= best - 1e-9
        assert value == pytest.approx(bound)
        assert value == pytest.approx(np.where(np.isfinite(theta), theta, 0.0) @ mu)
        found = oracles.max_oracle(problem, 0, theta, labels)
        assert found == pytest.approx(oracles.score(problem, 0, theta, labels))
        assert found <= best + 1e-9
        n_tight += bound <= best + 1e-9
        if bound <= best + 1e-9 and not (mu == 0.5).any():
            assert found == pytest.approx(best)
    assert n_tight > 5


def test_attracting_interactions_are_exact_by_the_roof_dual():
    rng = np.random.default_rng(0)
    y = [np.array([0, 0, 1, 1, 0]), np.array([1, 1, 0, 0, 1]), np.array([1, 1, 1, 0, 0])]
    ring = np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1)
    X = [(labels[:, None] + rng.normal(size=(5, 2)), ring) for labels in y]
    options = {"tol": 1e-3, "random_state": 0, "max_iter": 3000}
    exact = BCFWSSVM(Pairwise(interactions="potts", inference="junction-tree"), **options).fit(X, y)
    relaxed = BCFWSSVM(Pairwise(interactions="potts", inference="roof-dual"), **options).fit(X, y)
    assert relaxed.training_inference_ == "relaxed"
    # The relaxed hinge is the larger one; the two are equal where the weights attract.
    assert relaxed.objective_ >= exact.dual_objective_ - 1e-9
    assert relaxed.pairwise_coef_[0, 0] >= -1e-12  # 0, but for rounding
    assert exact.objective_ >= relaxed.dual_objective_ - 1e-9


def test_wide_graphs_of_many_labels_are_refused_by_name_and_else_relaxed():
    X = [np.zeros((6, 6, 1))]
    y = [np.arange(36).reshape(6, 6) % 3]
    with pytest.raises(ValueError, match=r"roof-dual.*3 labels, not 2"):
        BCFWSSVM(Grid(inference="roof-dual")).fit(X, y)
    svm = BCFWSSVM(Grid(max_table=100), max_iter=1, tol=10.0).fit(X, y)
    assert (svm.method_, svm.training_inference_) == ("lp", "relaxed")

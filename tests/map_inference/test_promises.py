"""What every MAP method promises, without slack: scores are multiples of 1/8, so sums are exact."""

import numpy as np
import pytest

from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Table,
    solve_map,
)
from skstruct.map_inference.methods import METHODS
from tests.helpers.map_cases import enumerate_best

# What these do not take: cycles, more than two labels, factors without projections or tables.
REFUSING = {"max-product", "max-flow", "roof-dual", "sdca", "gradient", "accelerated-gradient"}
REFUSING |= {"strong-accelerated", "strong-gradient"}


def _model(rng):
    """At most five variables, tables with forbidden entries, at times a logic factor."""
    n = int(rng.integers(2, 6))
    n_states = rng.integers(1, 4, n)
    is_binary = rng.random() < 0.5
    if is_binary:
        n_states[:] = 2
    factors = []
    for _ in range(int(rng.integers(1, 7))):
        scope = rng.choice(n, int(rng.integers(2, min(n, 3) + 1)), replace=False)
        scores = rng.integers(-8, 9, n_states[scope]) / 8
        factors.append(Table(scope, np.where(rng.random(scores.shape) < 0.1, -np.inf, scores)))
    if is_binary and rng.random() < 0.5:
        kind = (Or, AtMostOne, ExactlyOne)[rng.integers(3)]
        factors.append(kind(rng.choice(n, int(rng.integers(2, n + 1)), replace=False)))
    elif is_binary:
        factors = [batch for batch in factors if batch.arity == 2]
    unaries = [rng.integers(-8, 9, k) / 8 for k in n_states]
    regions = ("variables", "pairs")[rng.integers(2)]
    return FactorGraph(n_states, factors, unaries=unaries, regions=regions)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_and_scores_keep_their_promises(method):
    rng = np.random.default_rng(5)
    n_solved = n_optimal = 0
    for _ in range(60):
        graph = _model(rng)
        best = enumerate_best(graph)
        try:
            result = solve_map(graph, method, max_iter=25, random_state=0)
        except (TypeError, ValueError):
            assert method in REFUSING
            continue
        assert result.score <= best <= result.bound
        assert result.score == graph.score(result.labels)
        assert (result.history_["bound"] >= best).all()
        assert (result.history_["score"] <= best).all()
        assert (result.history_["bound"][1:] <= result.history_["bound"][:-1]).all()
        assert (result.history_["score"][1:] >= result.history_["score"][:-1]).all()
        # Scores differ by 1/8 at least: one within the tolerance is the best one.
        assert result.score == best or not result.optimal
        n_solved += 1
        n_optimal += result.optimal
    assert n_solved >= 5
    assert n_optimal >= 1


def _counted(rng, scale):
    """Five variables of two labels, one of them forbidden, and scores by how many are on."""
    unaries = [scale * rng.integers(-8, 9, 2) / 8 for _ in range(5)]
    unaries[rng.integers(5)][rng.integers(2)] = -np.inf
    by_count = Cardinality(range(5), scale * rng.integers(-8, 9, 6) / 8)
    return FactorGraph([2] * 5, [by_count], unaries=unaries)


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**-30, 1.0, 2.0**80], ids=str)
@pytest.mark.parametrize("method", ["subgradient", "coordinate-descent", "gradient", "frank-wolfe"])
def test_bounds_beside_a_forbidden_label_hold_at_any_scale(method, scale):
    rng = np.random.default_rng(1)
    for _ in range(20):
        graph = _counted(rng, scale)
        best = enumerate_best(graph)
        result = solve_map(graph, method, max_iter=20, tol=0.0, random_state=0)
        assert result.score <= best
        assert (result.history_["bound"] >= best).all()


@pytest.mark.parametrize("exponent", [20, 50, 100, 200, 300])
def test_smoothed_descent_takes_scores_that_dwarf_the_smoothing(exponent):
    rng = np.random.default_rng(exponent)
    for _ in range(20):
        pairs = [(0, 2), (2, 0), (0, 1)]
        tables = [10.0**exponent * rng.normal(size=(2, 3 if 1 in pair else 2)) for pair in pairs]
        graph = FactorGraph([2, 3, 2], list(map(Table, pairs, tables)))
        best = enumerate_best(graph)
        result = solve_map(graph, "coordinate-descent", smoothing=3.0, max_iter=10)
        assert np.isfinite(result.history_["objective"]).all()
        assert result.score <= best <= result.bound < np.inf
        assert (result.history_["bound"] >= best).all()

"""What every MAP method promises, without slack: scores are multiples of 1/8, so sums are exact."""

import itertools

import numpy as np
import pytest

from skstruct.map_inference import AtMostOne, ExactlyOne, FactorGraph, Or, Table, solve_map
from skstruct.map_inference.solve import METHODS

# What these do not take: cycles, more than two labels, factors without projections or tables.
REFUSING = {"max-product", "max-flow", "roof-dual", "sdca", "gradient", "accelerated-gradient"}
REFUSING |= {"strong-accelerated", "mini-buckets"}


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
        everyone = np.array(list(itertools.product(*map(range, graph.n_states))))
        best = graph.score(everyone).max()
        try:
            result = solve_map(graph, method, max_iter=25, random_state=0)
        except (TypeError, ValueError):
            assert method in REFUSING
            continue
        assert result.score <= best <= result.bound
        assert result.score == graph.score(result.labels)
        assert (result.history_["bound"] >= best).all()
        assert (result.history_["score"] <= best).all()
        # Scores differ by 1/8 at least: one within the tolerance is the best one.
        assert result.score == best or not result.optimal
        n_solved += 1
        n_optimal += result.optimal
    assert n_solved >= 5
    assert n_optimal >= 1

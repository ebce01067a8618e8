"""Mini-buckets: bounds of split models, exact where nothing is split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.map_inference import Cardinality, FactorGraph, Table, solve_map
from skstruct.map_inference.minibuckets import MiniBuckets
from tests.helpers.map_cases import enumerate_best, random_graph


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]), st.sampled_from([4, 16]), st.booleans())
def test_bounds_fall_and_hold(seed, forbidden, limit, with_duals):
    graph = random_graph(seed, forbidden)
    best = enumerate_best(graph)
    order = np.random.default_rng(seed).permutation(graph.n_variables)
    duals = solve_map(graph, "trws", max_iter=5).duals if with_duals else None
    buckets = MiniBuckets(graph, order, limit, duals)
    bounds = []
    for _ in range(5):
        bounds.append(buckets.forward())
        assert buckets.backward().shape == (graph.n_variables,)
    if best > -np.inf:
        assert min(bounds) >= best
        assert (np.diff(bounds) <= 1e-9).all()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]))
def test_exact_with_room(seed, forbidden):
    graph = random_graph(seed, forbidden)
    best = enumerate_best(graph)
    result = solve_map(graph, "mini-buckets", most_cells=4**6)
    assert result.score == pytest.approx(best, abs=1e-9)
    if best > -np.inf:
        assert result.optimal
        assert result.n_iter == 1


def test_mixed_grid_is_closer_than_the_linear_program(shared_data):
    from skstruct.map_inference import read_uai

    graph = read_uai(shared_data / "map_models/grids/grid20x20.f10.uai.xz")
    linear = solve_map(graph, "trws")
    result = solve_map(graph, "mini-buckets", duals=linear.duals, most_cells=2**10, max_iter=10)
    best = 3015.744725138
    assert best <= result.bound < best + 0.25 * (linear.bound - best)
    assert 0.97 * best < result.score <= best + 1e-6


def test_other_kinds_are_refused():
    graph = FactorGraph([2, 2, 2], [Cardinality([0, 1, 2], [0.0, 1.0, 1.0, 0.0])])
    with pytest.raises(TypeError, match="Cardinality"):
        solve_map(graph, "mini-buckets")


def test_stops_between_pieces():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(60, 1)
    graph = FactorGraph(np.full(60, 2), [Table(np.c_[i, j], rng.normal(size=(i.size, 2, 2)))])
    result = solve_map(graph, "mini-buckets", time_limit=0.2, max_iter=10**6)
    assert result.message in ("the time limit is reached", "stalled")
    assert result.bound > result.score


def test_larger_regions_are_taken_as_variables():
    rng = np.random.default_rng(0)
    pairs = Table([(0, 1), (1, 2), (0, 2)], rng.normal(size=(3, 2, 2)))
    triple = Table([0, 1, 2], rng.normal(size=(2, 2, 2)))
    graph = FactorGraph([2] * 3, [pairs, triple], regions="pairs")
    duals = solve_map(graph, "trws", max_iter=3).duals
    result = solve_map(graph, "mini-buckets", duals=duals, most_cells=4)
    assert result.bound >= enumerate_best(graph)
    assert solve_map(graph, "mini-buckets", duals=duals).optimal

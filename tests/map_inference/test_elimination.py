"""Exact MAP by elimination, and what is built on it: blocks and strips."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skstruct.inference.elimination_order import primal_graph
from skstruct.inference.junction_tree import Tables
from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
    elimination,
    read_libdai,
    read_uai,
    solve_map,
)
from skstruct.map_inference.blocks import Reoptimiser, reoptimise
from skstruct.map_inference.budget import Stopped
from skstruct.map_inference.elimination import elimination_cost, is_forest, write_out
from skstruct.map_inference.tighten import Tightener, bfs_layers, tighten
from tests.helpers.map_cases import Asked, enumerate_best, grid_edges

BINARY = [Cardinality, ExactlyOne, AtMostOne, Or]


def random_factor(rng, n_states):
    n, binary = len(n_states), np.flatnonzero(n_states == 2)
    kind = rng.integers(0, 6)
    if kind == 0 or (kind > 1 and not len(binary)):
        scope = rng.permutation(n)[: rng.integers(1, min(n, 3) + 1)]
        scores = rng.integers(-3, 4, tuple(n_states[scope])).astype(float)
        return Table(scope, np.where(rng.random(scores.shape) < 0.1, -np.inf, scores))
    if kind == 1:
        ends = rng.permutation(n)[:2] if n > 1 else [0, 0]
        return Potts(*ends, rng.normal()) if n > 1 else Table([0], np.zeros(n_states[0]))
    arity, m = rng.integers(1, len(binary) + 1), rng.integers(1, 3)
    scopes = np.array([rng.permutation(binary)[:arity] for _ in range(m)])
    if kind == 2:
        return Cardinality(scopes, rng.normal(size=(m, arity + 1)))
    return BINARY[kind - 2](scopes, rng.random(scopes.shape) < 0.3)


@st.composite
def graphs(draw, most_variables=7, most_factors=6):
    """Factors of every kind over variables of 1 to 3 states, with -inf entries and ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, most_variables))
    n_states = np.where(rng.random(n) < 0.6, 2, rng.integers(1, 4, n))
    unaries = [
        np.where(rng.random(k) < 0.1, -np.inf, rng.integers(-3, 4, k).astype(float))
        for k in n_states
    ]
    factors = [random_factor(rng, n_states) for _ in range(draw(st.integers(0, most_factors)))]
    return FactorGraph(n_states, factors, unaries=unaries, offset=1.5)


def assert_optimal(result, graph):
    best = enumerate_best(graph)
    assert result.optimal
    assert result.score == graph.score(result.labels)
    assert result.score == best or result.score == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert result.bound == result.score or result.bound == pytest.approx(result.score)


@given(graphs(), st.sampled_from([1, 8]))
def test_elimination_finds_the_optimum_of_all_kinds_of_factors(graph, small_arity):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "_SMALL_ARITY", small_arity)
        assert_optimal(solve_map(graph, "junction-tree"), graph)
        if is_forest(graph):
            assert_optimal(solve_map(graph, "max-product"), graph)


@pytest.mark.parametrize("kind", BINARY)
def test_large_implicit_factors_become_chains_of_counters(kind):
    rng = np.random.default_rng(0)
    n = 11
    unaries = list(rng.normal(size=(n, 2)))
    variables = rng.permutation(n)
    if kind is Cardinality:
        factor = kind(variables, rng.normal(size=n + 1))
    else:
        factor = kind(variables, rng.random(n) < 0.4)
    graph = FactorGraph([2] * n, [factor], unaries=unaries)
    assert len(write_out(graph, 1e6).n_states) > n
    assert_optimal(solve_map(graph, "max-product"), graph)


def test_counters_that_are_too_large_are_refused_by_name():
    graph = FactorGraph([2] * 300, [Potts(0, 1, 1.0), Cardinality(range(300), np.zeros(301))])
    with pytest.raises(ValueError, match="factor 1: Cardinality of 300 variables"):
        solve_map(graph, "junction-tree", max_table=1e6)
    assert elimination_cost(graph, 1e6) == np.inf


def test_models_without_any_labelling_are_proved_to_have_none():
    never = np.full((2, 2), -np.inf)
    graph = FactorGraph([2, 2, 2], [Table([0, 1], never), Potts(1, 2, 1.0)])
    for method in ("junction-tree", "max-product"):
        result = solve_map(graph, method)
        assert result.score == result.bound == -np.inf
        assert result.optimal


def test_tables_above_the_limit_are_an_error_before_they_are_made():
    edges = np.array(list(itertools.combinations(range(30), 2)))
    graph = FactorGraph([2] * 30, [Potts(*edges.T, 1.0)])
    assert elimination_cost(graph) == 2.0**31 - 2
    with pytest.raises(ValueError, match="max_table"):
        solve_map(graph, "junction-tree")
    with pytest.raises(ValueError, match="max_table must be a number of at least 1"):
        solve_map(graph, "junction-tree", max_table=0)


def test_max_product_refuses_cycles():
    graph = FactorGraph([2] * 3, [Potts([0, 1, 2], [1, 2, 0], 1.0)])
    assert not is_forest(graph)
    with pytest.raises(ValueError, match="cycles"):
        solve_map(graph, "max-product")
    doubled = FactorGraph([2] * 2, [Potts([0, 0], [1, 1], 1.0)])
    assert not is_forest(doubled)


def test_a_stopped_elimination_still_has_a_bound(monkeypatch):
    monkeypatch.setattr(elimination, "_PIECE", 4)
    rng = np.random.default_rng(0)
    chain = Table(np.stack((np.arange(9), np.arange(1, 10)), axis=1), rng.normal(size=(9, 2, 2)))
    graph = FactorGraph([2] * 10, [chain])
    shares = []

    def stop(share, *_):
        shares.append(share)
        return len(shares) == 2

    tables = write_out(graph, 100)
    eliminator = elimination.Eliminator(tables, np.arange(10, dtype=np.int32))
    labels = np.zeros(10, dtype=np.int64)
    with pytest.raises(Stopped):
        eliminator.run(tables, labels, Asked(stop).check)
    assert 0 < shares[0] < shares[1] < 1
    value = eliminator.run(tables, labels)
    assert value == pytest.approx(graph.score(labels))


@pytest.mark.parametrize(
    ("file", "optimum"),
    [
        ("alarm.fg", -3.410873633),
        ("water.uai", -7.95876315),
        ("network.uai", 361.999997333),
        ("csp/Alchemy_11.uai.xz", 1343.999990394),
        ("dbn/DBN_11.uai.xz", 133.464194807),
        ("grids/grid20x20.f10.uai.xz", 3015.744725138),
        ("segmentation/1_28_s.binary.uai.xz", -41.376441111),
        ("promedus/Promedus_11.uai.xz", -0.292435581),
    ],
)
def test_optima_of_real_models(shared_data, file, optimum):
    path = shared_data / "map_models" / file
    if not path.exists():
        pytest.skip(f"no {path}")
    graph = read_libdai(path) if file.endswith(".fg") else read_uai(path)
    result = solve_map(graph, "junction-tree")
    assert result.score == pytest.approx(optimum, abs=1e-8)
    assert result.optimal


@given(graphs(most_variables=8, most_factors=10), st.sampled_from([4, 16, 2**14]))
@settings(max_examples=40)
def test_reoptimised_labellings_are_never_worse(graph, max_table):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, graph.n_states)
    better = reoptimise(graph, labels, rng, max_table=max_table)
    assert graph.score(better) >= graph.score(labels)
    if max_table == 2**14:
        best = enumerate_best(graph)
        assert graph.score(better) == best or graph.score(better) == pytest.approx(best)


def ising(height, width, seed):
    """A grid of couplings of both signs."""
    rng, edges = np.random.default_rng(seed), grid_edges(height, width)
    unaries = list(rng.normal(size=(height * width, 2)))
    factors = [Potts(*edges.T, 4 * rng.normal(size=len(edges)))]
    return FactorGraph([2] * len(unaries), factors, unaries=unaries)


def test_blocks_find_the_optimum_of_a_frustrated_grid():
    graph = ising(14, 14, 0)
    optimum = solve_map(graph, "junction-tree").score
    rng = np.random.default_rng(0)
    left = [200]

    def stop(share, *_):
        left[0] -= 1
        return left[0] == 0

    labels = reoptimise(graph, np.zeros(196), rng, Asked(stop), max_table=2**6)
    assert left[0] == 0
    assert graph.score(labels) >= optimum - 1e-3 * abs(optimum)
    again = reoptimise(graph, np.zeros(196), np.random.default_rng(0), max_table=2**6)
    assert graph.score(again) >= optimum - 0.05 * abs(optimum)


def test_blocks_mend_broken_constraints():
    n = 12
    edges = np.array(list(itertools.combinations(range(n), 2)))
    apart = Table(edges, np.where(np.eye(n, dtype=bool), -np.inf, 0.0))
    graph = FactorGraph([n] * n, [apart], unaries=list(np.random.default_rng(0).random((n, n))))
    labels = reoptimise(graph, np.zeros(n, dtype=int), np.random.default_rng(0), max_table=2**8)
    assert graph.score(labels) > -np.inf


def test_independent_parts_of_two_labellings_are_fused():
    graph = FactorGraph([2] * 5, [Potts([0, 3], [1, 4], 1.0)], unaries=[[0, 1]] * 2 + [[0, 0]] * 3)
    optimiser = Reoptimiser(graph, np.random.default_rng(0))
    best, other = np.array([0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0])
    assert optimiser._fuse(best, other).tolist() == [1, 1, 0, 0, 0]


def test_blocks_leave_graphs_with_huge_counters_alone():
    graph = FactorGraph([2] * 400, [Cardinality(range(400), np.zeros(401))])
    labels = np.ones(400, dtype=int)
    assert (reoptimise(graph, labels, np.random.default_rng(0)) == labels).all()


def strips_of(tables, max_table):
    layer = bfs_layers(
        primal_graph(tables.n_states, tables.scope_ptr, tables.scope), tables.n_states
    )
    return layer, Tightener(tables, layer, max_table)


@given(graphs(most_variables=8, most_factors=10), st.sampled_from([4, 8, 32]))
@settings(max_examples=40)
def test_strips_score_a_labelling_as_the_graph_does(graph, max_table):
    tables = write_out(graph, 1e6)
    _, model = strips_of(tables, max_table)
    if model.strips is None:
        return
    whole = model.strips.tables
    rng = np.random.default_rng(0)
    messages = rng.normal(size=model.strips.share)
    scores = model._with(messages).scores
    for _ in range(5):
        labels = rng.integers(0, tables.n_states)
        copies = np.concatenate((labels, labels[model.strips.first]))

        def total(model_tables, values, its_labels):
            parts = []
            for f in range(len(model_tables.table_ptr)):
                scope = model_tables.scope[
                    model_tables.scope_ptr[f] : model_tables.scope_ptr[f + 1]
                ]
                shape = tuple(model_tables.n_states[scope])
                entry = np.ravel_multi_index(tuple(its_labels[scope]), shape) if len(scope) else 0
                parts.append(values[model_tables.table_ptr[f] + entry])
            return sum(parts)

        mine, theirs = total(whole, scores, copies), total(tables, tables.scores, labels)
        assert mine == theirs or mine == pytest.approx(theirs, abs=1e-9)


@given(graphs(most_variables=8, most_factors=10), st.sampled_from([4, 8, 32]))
@settings(max_examples=40)
def test_bounds_of_strips_are_above_the_optimum(graph, max_table):
    bound, labels = tighten(graph, max_table=max_table, max_iter=40)
    best = enumerate_best(graph)
    assert bound >= best
    assert labels.shape == (graph.n_variables,)
    assert (labels < graph.n_states).all()
    if best == -np.inf and bound < np.inf:
        assert graph.score(labels) == -np.inf or bound > -np.inf


def test_strips_that_agree_prove_the_optimum():
    graph = ising(12, 12, 1)
    optimum = solve_map(graph, "junction-tree").score
    bound, labels = tighten(graph, max_table=2**6, max_iter=60)
    assert optimum <= bound <= optimum + 0.02 * abs(optimum)
    bound, labels = tighten(graph, max_table=2**14)
    assert bound == pytest.approx(optimum)
    assert graph.score(labels) == pytest.approx(optimum)


def test_messages_between_strips_lower_the_bound():
    tables = write_out(ising(16, 16, 2), 1e6)
    layer, model = strips_of(tables, 2**6)
    assert layer.max() == 30
    model.prepare()
    start = model.evaluate(np.zeros(model.strips.share))
    temperature, messages = 2.0, np.random.default_rng(0).normal(size=model.strips.share)
    value, gradient = model.soft_bound(messages, temperature)
    assert value >= model.evaluate(messages)
    step = 1e-5 * np.random.default_rng(1).normal(size=len(messages))
    ahead = model.soft_bound(messages + step, temperature)[0]
    behind = model.soft_bound(messages - step, temperature)[0]
    assert (ahead - behind) / 2 == pytest.approx(gradient @ step, rel=1e-4)
    assert tighten(ising(16, 16, 2), max_table=2**6, max_iter=30)[0] < start


def test_layers_of_a_grid_start_at_a_corner():
    tables = write_out(ising(3, 5, 0), 1e6)
    assert isinstance(tables, Tables)
    layer, _ = strips_of(tables, 2**10)
    assert sorted(np.bincount(layer)) == [1, 1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("file", "best", "lp"),
    [("grid20x20.f5.wrap", 1542.664664202, 1915.1544809), ("grid40x40.f5", 6404.966, 7800.588)],
)
def test_bounds_and_labellings_of_real_grids(shared_data, file, best, lp):
    path = shared_data / "map_models" / "grids" / f"{file}.uai.xz"
    if not path.exists():
        pytest.skip(f"no {path}")
    graph = read_uai(path)
    bound, labels = tighten(graph, max_table=2**12, max_iter=20)
    assert best - 1e-3 <= bound <= best + 0.25 * (lp - best)
    labels = reoptimise(graph, labels, np.random.default_rng(0))
    assert graph.score(labels) >= best - 0.01 * abs(best)

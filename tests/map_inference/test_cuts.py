"""Cuts, roof duals and moves against enumeration and linear programming."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.inference.qpbo import Pairs, Switcher, pairs_score
from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
    read_uai,
    solve_map,
)
from skstruct.map_inference.cuts import Fuser, expand
from skstruct.map_inference.graph import pairs_of
from skstruct.testing import all_labellings
from tests.helpers.map_cases import enumerate_best, grid_edges, labellings
from tests.helpers.rounding import sum_error
from tests.map_inference.test_methods import Dense

KINDS = ["real", "ties", "forbidden", "huge"]


def _scores(rng, kind, shape):
    """Random scores: with ties, with forbidden entries, or of very different sizes."""
    if kind == "real":
        return rng.normal(size=shape)
    if kind == "huge":
        return rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7, size=shape)
    scores = rng.integers(-2, 3, size=shape).astype(float)
    return np.where(rng.random(shape) < 0.15, -np.inf, scores) if kind == "forbidden" else scores


def _random_graph(rng, kind, n_states, share=0.6):
    """Tables, shared tables and Potts factors; some pairs have several."""
    n, factors = len(n_states), []
    for i in range(n):
        for j in range(n):
            if i != j and rng.random() < share / 2:
                if rng.random() < 0.3:
                    factors.append(Potts(i, j, 2.0 * rng.normal()))
                else:
                    factors.append(Table((i, j), _scores(rng, kind, (n_states[i], n_states[j]))))
    unaries = [_scores(rng, kind, k) for k in n_states]
    return FactorGraph(n_states, factors, unaries=unaries, offset=1.5)


def _tolerance(graph):
    parts = [graph.unary, *(getattr(f, "tables", np.zeros(1)) for f in graph.factors)]
    finite = np.concatenate([p[np.isfinite(p)].reshape(-1) for p in parts])
    return 1e-12 * (10.0 + np.abs(finite).sum())


def _check_optimum(graph, result):
    scores = graph.score(labellings(graph))
    best, near = scores.max(), _tolerance(graph)
    assert result.optimal
    assert result.score == graph.score(result.labels)
    assert result.score == best or abs(result.score - best) <= near
    assert result.bound == best or abs(result.bound - best) <= near


@given(n=st.integers(1, 7), seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_max_flow_finds_the_optimum_of_attractive_models(n, seed, kind):
    rng = np.random.default_rng(seed)
    flip = rng.integers(2, size=n)
    factors = []
    for i, j in rng.integers(n, size=(2 * n, 2)):
        if i == j:
            continue
        table = _scores(rng, "ties" if kind == "forbidden" else kind, (2, 2))
        table[0, 1] = min(table[0, 1], table[0, 0] + table[1, 1] - table[1, 0])
        if kind == "forbidden":
            table[rng.random((2, 2)) < 0.3 * (1.0 - np.eye(2))] = -np.inf
            table[rng.random(2) < 0.1] = -np.inf
        if flip[i]:
            table = table[::-1]
        if flip[j]:
            table = table[:, ::-1]
        factors.append(Table((i, j), table))
    graph = FactorGraph([2] * n, factors, unaries=[_scores(rng, kind, 2) for _ in range(n)])
    result = solve_map(graph, "max-flow")
    _check_optimum(graph, result)
    assert result.method == "max-flow"
    _check_optimum(graph, solve_map(graph, "roof-dual"))


@given(
    n=st.integers(1, 6), seed=st.integers(0, 10**6), kind=st.sampled_from(["real", "ties", "huge"])
)
def test_roof_dual_is_the_relaxation(n, seed, kind):
    graph = _random_graph(np.random.default_rng(seed), kind, [2] * n)
    result = solve_map(graph, "roof-dual")
    best = enumerate_best(graph)
    near = 1e-7 * _tolerance(graph) / 1e-12 if kind == "huge" else 1e-8
    assert abs(result.bound - Dense(graph).lp_value()) <= near
    assert result.score <= best <= result.bound
    beliefs = np.array(result.beliefs)
    assert np.isin(beliefs, [0.0, 0.5, 1.0]).all()
    sure = beliefs[:, 0] != 0.5
    np.testing.assert_array_equal(result.labels[sure], np.argmax(beliefs, axis=1)[sure])


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_roof_dual_with_forbidden_labels(n, seed):
    graph = _random_graph(np.random.default_rng(seed), "forbidden", [2] * n, share=0.4)
    result = solve_map(graph, "roof-dual")
    optimum, relaxed = enumerate_best(graph), Dense(graph).lp_value()
    assert result.score <= optimum <= result.bound
    assert result.bound == relaxed or abs(result.bound - relaxed) <= 1e-8
    if relaxed == -np.inf:
        assert result.score == -np.inf
        assert result.optimal


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_states_that_are_known_never_lower_a_score(n, seed, kind):
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, 4, size=n)
    graph = _random_graph(rng, kind, n_states)
    pairs = pairs_of(graph)
    off, on = rng.integers(n_states), rng.integers(n_states)
    switcher = Switcher(pairs)
    for _ in range(2):  # the same room twice
        found = switcher.solve(off, on)
    choices = [np.where(c, on, off) for c in all_labellings(n, 2)]
    scores = np.array([pairs_score(pairs, c) for c in choices])
    assert found.bound >= scores.max() - _tolerance(graph)
    if not (found.states == 2).any():
        best = pairs_score(pairs, np.where(found.states == 1, on, off))
        assert best == scores.max() or best >= scores.max() - _tolerance(graph)
    if found.bound > -np.inf:
        for labels, score in zip(choices, scores, strict=True):
            labels = np.where(found.states == 0, off, np.where(found.states == 1, on, labels))
            assert pairs_score(pairs, labels) >= score - _tolerance(graph)


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_fusion_and_expansion_never_lower_the_score(n, seed, kind):
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, 5, size=n)
    graph = _random_graph(rng, kind, n_states)
    first, second = rng.integers(n_states), rng.integers(n_states)
    fuse = Fuser(graph).fuse
    fused = fuse(first, second)
    assert ((fused == first) | (fused == second)).all()
    assert graph.score(fused) >= graph.score(first)
    moved = expand(graph, first, rng)
    assert graph.score(moved) >= graph.score(first)
    # No label is worth offering again.
    for label in range(n_states.max()):
        other = np.where(label < n_states, label, moved)
        assert fuse(moved, other) is moved


@given(n=st.integers(2, 7), seed=st.integers(0, 10**6), n_labels=st.integers(2, 4))
def test_expansion_of_metric_models_is_within_its_promise(n, seed, n_labels):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    graph = FactorGraph(
        [n_labels] * n,
        [Potts(i, j, rng.random(i.size))],
        unaries=list(rng.normal(size=(n, n_labels))),
    )
    labels = expand(graph, rng.integers(n_labels, size=n), rng)
    everything = labellings(graph)
    for label in range(n_labels):
        reach = ((everything == labels) | (everything == label)).all(axis=1)
        assert graph.score(labels) >= graph.score(everything[reach]).max() - 1e-9


def test_variables_of_larger_factors_keep_their_labels():
    graph = FactorGraph(
        [2] * 4,
        [Potts([0, 1], [1, 2], 1.0), AtMostOne([1, 2, 3])],
        unaries=[[0, 2], [0, 2], [0, 2], [0, 2]],
    )
    labels = expand(graph, np.zeros(4, dtype=np.int64), np.random.default_rng(0))
    assert labels.tolist() == [1, 0, 0, 0]


def test_expansion_stops_when_it_is_told_to():
    graph = FactorGraph([3, 3], unaries=[[0, 1, 2], [0, 1, 2]])
    shares = []

    def stop(share):
        shares.append(share)
        return len(shares) == 2

    labels = np.zeros(2, dtype=np.int64)
    moved = expand(graph, labels, np.random.default_rng(1), stop)
    assert len(shares) == 2
    assert graph.score(moved) >= graph.score(labels)


@pytest.mark.parametrize("kind", [Or, AtMostOne, ExactlyOne, Cardinality])
def test_implicit_factors_of_two_variables_are_tables(kind):
    rng = np.random.default_rng(3)
    for negated in all_labellings(2, 2).astype(bool):
        if kind is Cardinality:
            factor = Cardinality([(0, 1), (2, 1)], [[1, -np.inf, 0], [0, 2, 1]])
        else:
            factor = kind([(0, 1), (2, 1)], negated)
        graph = FactorGraph([2] * 3, [factor], unaries=list(rng.normal(size=(3, 2))))
        pairs = pairs_of(graph)
        for labels in labellings(graph):
            score = pairs_score(pairs, labels)
            assert score == graph.score(labels) or abs(score - graph.score(labels)) < 1e-12


def test_pairs_keep_shared_tables_shared():
    table = np.arange(6.0).reshape(2, 3)
    graph = FactorGraph([2, 3, 3], [Table([(0, 1), (0, 2)], table)])
    assert isinstance(pairs_of(graph), Pairs)
    assert pairs_of(graph).scores.size == 6


def test_models_of_other_forms_are_refused():
    with pytest.raises(ValueError, match="variable 1 has 3"):
        solve_map(FactorGraph([2, 3], [Potts(0, 1, 1.0)]), "max-flow")
    larger = FactorGraph([2] * 3, [Or([0, 1, 2])])
    with pytest.raises(ValueError, match=r"factor 0 is a Or of the variables \[0, 1, 2\]"):
        solve_map(larger, "roof-dual")
    triangle = FactorGraph([2] * 4, [Potts([0, 1, 2, 3], [1, 2, 3, 1], [1.0, -1.0, 1.0, 1.0])])
    with pytest.raises(ValueError, match=r"variables (1 and 2|2 and 3|3 and 1) does not fit"):
        solve_map(triangle, "max-flow")
    for refused in (triangle, larger, FactorGraph([3])):
        with pytest.raises(ValueError, match="'max-flow'"):
            solve_map(refused, "max-flow")
    result = solve_map(triangle, "roof-dual")
    np.testing.assert_allclose([result.score, result.bound], [2.0, 3.0])


def test_repelling_pairs_without_odd_cycles_are_a_cut():
    n = 6
    graph = FactorGraph(
        [2] * n,
        [Potts(np.arange(n), (np.arange(n) + 1) % n, -1.0)],
        unaries=list(np.random.default_rng(0).normal(size=(n, 2))),
    )
    _check_optimum(graph, solve_map(graph, "max-flow"))


def test_models_without_a_labelling_have_the_score_minus_infinity():
    never = Table((0, 1), [[-np.inf, 0], [-np.inf, -np.inf]])
    graph = FactorGraph([2, 2], [never], unaries=[[-np.inf, 0], [0, 0]])
    for method in ("max-flow", "roof-dual"):
        result = solve_map(graph, method)
        assert result.score == result.bound == -np.inf
        assert result.optimal


def test_variables_of_one_state_and_empty_graphs():
    graph = FactorGraph([1, 2, 2], [Table((0, 1), [[0.0, 2.0]]), Potts(1, 2, 1.0)])
    result = solve_map(graph, "max-flow")
    assert result.labels.tolist() == [0, 1, 1]
    assert [len(b) for b in solve_map(graph, "roof-dual").beliefs] == [1, 2, 2]
    assert solve_map(FactorGraph([]), "max-flow").score == 0.0


def test_time_limits_stop_a_flow_with_a_valid_bound():
    rng = np.random.default_rng(0)
    edges, n = grid_edges(400, 400), 400 * 400
    unaries = np.stack([np.zeros(n), rng.normal(size=n)], axis=1).ravel()
    factors = [Potts(*edges.T, 3.0 * rng.random(len(edges)))]
    graph = FactorGraph(np.full(n, 2), factors, unaries=unaries)
    stopped = solve_map(graph, "max-flow", time_limit=1e-6)
    optimum = solve_map(graph, "max-flow")
    assert optimum.optimal
    assert stopped.score <= optimum.score <= stopped.bound
    assert not stopped.converged
    assert "time limit" in stopped.message


@pytest.mark.parametrize("number", ["1_28", "3_16"])
def test_real_cuts(shared_data, number):
    path = shared_data / "map_models" / "segmentation" / f"{number}_s.binary.uai.xz"
    optima = {"1_28": -41.376441, "3_16": -96.254248}
    result = solve_map(read_uai(path), "max-flow")
    assert result.optimal
    np.testing.assert_allclose(result.score, optima[number], atol=1e-6)


def test_real_roof_duals(shared_data):
    path = shared_data / "map_models" / "grids" / "grid20x20.f10.uai.xz"
    result = solve_map(read_uai(path), "roof-dual")
    np.testing.assert_allclose(result.bound, 3736.7258, atol=1e-4)
    assert 2000 < result.score <= 3015.744726


@pytest.mark.parametrize("method", ["auto", "max-flow", "roof-dual"])
@pytest.mark.parametrize("penalty", [1e6, 1e12, 1e14, 1e16, 1e18])
def test_penalties_that_dwarf_all_else_prove_nothing_wrong(method, penalty):
    never = FactorGraph(
        [2, 2],
        [Table([0, 1], [[-0.3, 1.3], [-penalty, 0.0]])],
        unaries=[[0.1, -penalty], [0.1, 1.0]],
    )
    result = solve_map(never, method)
    assert result.optimal
    assert result.labels.tolist() == [0, 1]
    rng = np.random.default_rng(int(np.log10(penalty)))
    labels = all_labellings(4, 2)
    edges = [(a, b) for a in range(4) for b in range(a)]
    for _ in range(40):
        tables = rng.normal(size=(len(edges), 2, 2))
        pull = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
        tables[pull < 0] = tables[pull < 0][:, :, ::-1]
        tables[:, 0, 1] -= penalty * (rng.random(len(edges)) < 0.3)
        unaries = rng.normal(size=(4, 2)) - penalty * (rng.random((4, 2)) < 0.15)
        graph = FactorGraph([2] * 4, [Table(edges, tables)], unaries=list(unaries))
        scores = graph.score(labels)
        best, y = scores.max(), labels[scores.argmax()]
        terms = [tables[e, y[a], y[b]] for e, (a, b) in enumerate(edges)]
        least = best - sum_error([*unaries[range(4), y], *terms])
        result = solve_map(graph, method)
        assert result.history_["bound"].min() >= least
        assert result.bound >= least
        assert not result.optimal or best - result.score <= 1e-6 * max(1.0, abs(best))

"""Branch and bound against enumeration and known optima."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
    read_uai,
)
from skstruct.map_inference.elimination import chain_entries
from skstruct.map_inference.search import solve_branch_and_bound
from tests.helpers.map_cases import Asked, enumerate_best


def random_table(rng, shape, forbidden, ties, penalty=-np.inf):
    scores = rng.integers(-2, 3, shape).astype(float) if ties else rng.normal(size=shape)
    scores[rng.random(shape) < forbidden] = penalty
    return scores


def random_graph(seed, *, most_states, most_arity, forbidden, ties, m, penalty=-np.inf, n=6):
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, most_states + 1, n)
    factors = []
    for _ in range(m):
        arity = int(rng.integers(1, most_arity + 1))
        scope = rng.choice(n, arity, replace=False)
        factors.append(Table(scope, random_table(rng, n_states[scope], forbidden, ties, penalty)))
    unaries = [random_table(rng, k, forbidden / 2, ties, penalty) for k in n_states]
    return FactorGraph(n_states, factors, unaries=unaries, offset=float(rng.normal()))


def check(graph, **parameters):
    result = solve_branch_and_bound(graph, **parameters)
    best = enumerate_best(graph)
    assert result.optimal
    assert result.converged
    if best == -np.inf:
        assert result.score == result.bound == -np.inf
        return result
    assert graph.score(result.labels) == result.score
    assert result.score == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert best <= result.bound <= best + 1e-6 * max(1, abs(best))
    return result


@given(
    seed=st.integers(0, 10**6),
    most_states=st.integers(1, 4),
    most_arity=st.integers(1, 4),
    m=st.integers(0, 14),
    forbidden=st.sampled_from([0.0, 0.2, 0.5]),
    ties=st.booleans(),
    penalty=st.sampled_from([-np.inf, -1e6]),
    eliminate=st.booleans(),
)
def test_enumeration(eliminate, **model):
    graph = random_graph(**model)
    check(graph, **({} if eliminate else {"most_variables": 0}))


@given(seed=st.integers(0, 10**6), ties=st.booleans(), forbidden=st.sampled_from([0.0, 0.3]))
def test_dense_pairs_are_searched(seed, ties, forbidden):
    """Pairs between all of nine variables, nothing eliminated: the search itself has to work."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(9), 2))
    factors = [Table(pairs, random_table(rng, (len(pairs), 2, 2), forbidden / 4, ties))]
    unaries = [random_table(rng, 2, 0, ties) for _ in range(9)]
    check(FactorGraph([2] * 9, factors, unaries=unaries), most_variables=0)


def random_logic(rng, n):
    arity = int(rng.integers(2, n + 1))
    scope = rng.choice(n, arity, replace=False)
    kind = rng.integers(4)
    if kind == 0:
        scores = random_table(rng, arity + 1, 0.1, False)
        return Cardinality(scope, scores)
    return (ExactlyOne, AtMostOne, Or)[kind - 1](scope, rng.random(arity) < 0.3)


@given(seed=st.integers(0, 10**6), m=st.integers(1, 4))
def test_implicit_factors(seed, m):
    rng = np.random.default_rng(seed)
    n = 8
    factors = [random_logic(rng, n) for _ in range(m)]
    pairs = rng.permutation(n)
    factors.append(Potts(pairs[:3], pairs[3:6], rng.normal(size=3)))
    check(FactorGraph([2] * n, factors, unaries=rng.normal(size=2 * n)))


@given(seed=st.integers(0, 10**6), nested=st.booleans())
def test_start_and_duals(seed, nested):
    rng = np.random.default_rng(seed)
    tables = [
        Table(rng.permutation(6)[:arity], rng.normal(size=(3,) * arity)) for arity in (2, 2, 3, 4)
    ]
    graph = FactorGraph(
        [3] * 6,
        [*tables, Potts(0, 5, 0.5)],
        unaries=rng.normal(size=18),
        regions="pairs" if nested else "variables",
    )
    duals = rng.normal(size=graph.regions.message_ptr[-1])
    start = rng.integers(0, 3, 6)
    result = check(graph, start=start, duals=duals)
    assert result.score >= graph.score(start)


@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 0.1]))
def test_whole_scores_are_proved_exactly(seed, offset):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(7), 2))
    tables = 3.0 * rng.integers(-4, 5, (len(pairs), 3, 3))
    graph = FactorGraph([3] * 7, [Table(pairs, tables)], offset=offset)
    result = solve_branch_and_bound(graph, tol=0.0, most_variables=0)
    assert result.optimal
    assert result.score == result.bound == enumerate_best(graph)


def test_stopped_at_once_keeps_a_valid_bound():
    rng = np.random.default_rng(3)
    n = 12
    pairs = list(itertools.combinations(range(n), 2))
    graph = FactorGraph([2] * n, [Table(pairs, rng.normal(size=(len(pairs), 2, 2)))])
    start = rng.integers(0, 2, n)
    calls = []

    def stop(share, bound, score):
        calls.append((share, bound, score))
        return True

    result = solve_branch_and_bound(graph, start=start, budget=Asked(stop))
    assert len(calls) == 1
    assert not result.optimal
    assert graph.score(start) <= result.score <= enumerate_best(graph) <= result.bound
    assert result.history_["bound"][-1] == result.bound


def test_stopped_while_simplifying():
    n = 3000
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    graph = FactorGraph([2] * n, [Potts(*pairs.T, -1.0)])
    result = solve_branch_and_bound(graph, budget=Asked(lambda *row: True))
    assert result.score <= 0 <= result.bound
    assert not result.optimal
    assert solve_branch_and_bound(graph).score == 0


def test_bounds_fall_and_scores_rise():
    rng = np.random.default_rng(1)
    n = 24
    factors = [Table(p, 3 * rng.normal(size=(2, 2))) for p in itertools.combinations(range(n), 2)]
    seen = []
    result = solve_branch_and_bound(
        FactorGraph([2] * n, factors), budget=Asked(lambda *row: seen.append(row))
    )
    assert result.optimal
    bounds, scores = np.array(seen)[:, 1:].T
    assert (np.diff(bounds) <= 1e-9).all()
    assert (scores[1:] >= scores[:-1]).all()
    assert bounds[0] > result.score + 1


def test_components_are_solved_apart():
    """Forty frustrated cliques: hopeless unless each is a search of its own."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(6), 2)))
    best, factors = 0.0, []
    for k in range(40):
        tables = rng.normal(size=(len(pairs), 3, 3))
        best += enumerate_best(FactorGraph([3] * 6, [Table(pairs, tables)]))
        factors.append(Table(pairs + 6 * k, tables))
    result = solve_branch_and_bound(FactorGraph([3] * 240, factors))
    assert result.optimal
    assert result.score == pytest.approx(best)


def test_infeasible_only_by_search():
    """Five variables of four labels that must all differ: arc consistent, without a labelling."""
    differ = np.where(np.eye(4) == 1, -np.inf, 0.0)
    graph = FactorGraph([4] * 5, [Table(list(itertools.combinations(range(5), 2)), differ)])
    result = solve_branch_and_bound(graph, most_variables=0)
    assert result.score == result.bound == -np.inf
    assert result.optimal


def test_long_cardinality_is_refused_by_name():
    graph = FactorGraph([2] * 400, [Potts(0, 1, 1.0), Cardinality(range(400), np.zeros(401))])
    with pytest.raises(TypeError, match="factor 1: Cardinality of 400 variables"):
        solve_branch_and_bound(graph)


def test_bad_duals_and_start():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)])
    with pytest.raises(ValueError, match=r"duals must have the shape \(4,\)"):
        solve_branch_and_bound(graph, duals=np.zeros(3))
    with pytest.raises(ValueError, match="position 2"):
        solve_branch_and_bound(graph, duals=np.array([0, 0, np.nan, 0]))
    with pytest.raises(ValueError, match="variable 1 has 2 states"):
        solve_branch_and_bound(graph, start=[0, 2])


@pytest.mark.parametrize(
    ("file", "optimum"),
    [
        ("csp/CSP_11.uai.xz", -3.694312814),
        ("pedigree/pedigree20.uai.xz", -123.855143636),
        ("pedigree/pedigree23.uai.xz", -143.662079668),
        ("promedus/Promedus_19.uai.xz", -0.318414157),
        ("GeomSurf-7-gm256.uai.xz", -1078.429930738),
    ],
)
def test_known_optima(shared_data, file, optimum):
    result = solve_branch_and_bound(read_uai(shared_data / "map_models" / file))
    assert result.optimal
    assert result.score == pytest.approx(optimum, rel=1e-8)


def test_the_limit_of_counters_is_for_one_factor_of_a_batch():
    rng = np.random.default_rng(0)
    many = Cardinality(np.tile(np.arange(9), (50, 1)), rng.normal(size=(50, 10)))
    single = Cardinality([np.arange(9)], rng.normal(size=(1, 10)))
    assert chain_entries(many, one=True) == chain_entries(single) < chain_entries(many)

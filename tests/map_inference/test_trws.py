"""Sweeps in the order of TRW-S: bounds, messages, labels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.map_inference import Cardinality, FactorGraph, Potts, Table, solve_map
from skstruct.map_inference.trws import Sweeper
from tests.helpers.map_cases import enumerate_best, graph_with_implicit, random_graph
from tests.helpers.rounding import sum_error


def dual_value(graph, delta):
    """Bound of finite messages: the sum of all regions' largest reparametrised scores."""
    p, total = graph.regions, graph.offset
    unaries = np.split(graph.unary.copy(), graph.state_ptr[1:-1])
    r = graph.n_variables
    for batch in graph.factors:
        for row, scope in enumerate(batch.scopes):
            states = list(itertools.product(*(range(graph.n_states[v]) for v in scope)))
            labels = np.zeros((len(states), graph.n_variables), dtype=int)
            labels[:, scope] = states
            single = type(batch)(
                *(
                    (scope, batch.tables[row if len(batch.tables) > 1 else 0])
                    if isinstance(batch, Table)
                    else (*scope, batch.weights[row])
                )
            )
            hat = np.array([single.score(x).sum() for x in labels])
            for slot in range(p.slot_ptr[r], p.slot_ptr[r + 1]):
                message = delta[p.message_ptr[slot] : p.message_ptr[slot + 1]]
                hat -= message[labels[:, p.child[slot]]]
                unaries[p.child[slot]] += message
            total += hat.max()
            r += 1
    return total + sum(u.max() for u in unaries)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]), st.booleans())
def test_bounds_and_scores(seed, forbidden, reverse):
    graph = random_graph(seed, forbidden)
    best = enumerate_best(graph)
    order = np.arange(graph.n_variables)[::-1] if reverse else "cuthill-mckee"
    result = solve_map(graph, "trws", order=order, max_iter=60)
    assert result.score <= best <= result.bound
    bounds = result.history_["bound"]
    assert (bounds[1:] <= bounds[:-1]).all()
    assert np.isfinite(result.duals).all()
    if result.optimal:
        assert result.score == pytest.approx(best, abs=1e-5)
    if best > -np.inf:
        assert dual_value(graph, result.duals) == pytest.approx(result.bound, abs=1e-6)


@given(st.integers(0, 10**6))
def test_implicit_factors(seed):
    graph = graph_with_implicit(seed)
    best = enumerate_best(graph)
    result = solve_map(graph, "trws", max_iter=30)
    assert result.score <= best <= result.bound
    bounds = result.history_["bound"]
    assert (bounds[1:] <= bounds[:-1]).all()
    assert np.isfinite(result.duals).all()


def test_cardinality_alone_is_solved():
    rng = np.random.default_rng(0)
    factor = Cardinality.quadratic_hinge(np.arange(9), 3, 1)
    graph = FactorGraph(np.full(9, 2), [factor], unaries=rng.normal(size=18))
    result = solve_map(graph, "trws")
    assert result.optimal
    assert result.score == pytest.approx(enumerate_best(graph))


@given(st.integers(0, 10**6))
def test_trees_are_solved(seed):
    graph = random_graph(seed, is_tree=True)
    result = solve_map(graph, "trws")
    assert result.optimal
    assert result.score == pytest.approx(enumerate_best(graph), abs=1e-9)


@given(st.integers(0, 10**6))
def test_messages_can_begin_anywhere(seed):
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    delta = rng.normal(size=graph.regions.message_ptr[-1])
    before = dual_value(graph, delta)
    sweeper = Sweeper(graph, delta=delta)
    bounds = [sweeper.sweep(forward) for forward in (True, False, True)]
    assert before + 1e-9 >= bounds[0] >= bounds[1] - 1e-9 >= bounds[2] - 2e-9
    assert dual_value(graph, sweeper.delta) == pytest.approx(bounds[-1], abs=1e-6)


def test_many_labels_and_shared_tables():
    """Transposed tables and linear-time Potts factors give what written out factors give."""
    rng = np.random.default_rng(0)
    n_states = np.full(12, 17)
    i, j = np.triu_indices(12, 1)
    shared, weights = rng.normal(size=(17, 17)), rng.normal(size=i.size)
    unaries = rng.normal(size=12 * 17)
    eyes = weights[:, None, None] * np.eye(17)
    graphs = [
        FactorGraph(n_states, [Table(np.c_[i, j], shared), pairs], unaries=unaries)
        for pairs in (Potts(i, j, weights), Table(np.c_[i, j], eyes))
    ]
    flipped = FactorGraph(
        n_states, [Table(np.c_[j, i], shared.T), Potts(j, i, weights)], unaries=unaries
    )
    results = [solve_map(g, "trws", max_iter=20, tol=0.0) for g in (*graphs, flipped)]
    for result in results[1:]:
        np.testing.assert_allclose(result.history_["bound"], results[0].history_["bound"])


@pytest.mark.parametrize("order", ["best", [0, 0], [0, 1, 2]])
def test_bad_orders(order):
    with pytest.raises(ValueError, match="order must"):
        solve_map(FactorGraph([2, 2], [Potts(0, 1, 1.0)]), "trws", order=order)


def test_time_limit_cuts_long_sweeps():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(40, 1)
    graph = FactorGraph(np.full(40, 60), [Table(np.c_[i, j], rng.normal(size=(780, 60, 60)))])
    result = solve_map(graph, "trws", time_limit=0.3, max_iter=10**6)
    assert result.message == "the time limit is reached"


def test_sweeps_go_on_from_their_messages():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(8, 1)
    graph = FactorGraph(np.full(8, 3), [Table(np.c_[i, j], rng.normal(size=(28, 3, 3)))])
    whole = solve_map(graph, "trws", max_iter=8)
    half = solve_map(graph, "trws", max_iter=4)
    rest = solve_map(graph, "trws", max_iter=4, duals=half.duals)
    assert rest.bound == pytest.approx(whole.bound, abs=1e-9)
    np.testing.assert_allclose(rest.duals, whole.duals, atol=1e-9)
    for wrong in (half.duals[1:], np.full_like(half.duals, np.inf)):
        with pytest.raises(ValueError, match=r"duals must (have the shape|be finite)"):
            solve_map(graph, "trws", duals=wrong)


@pytest.mark.parametrize("penalty", [1e3, 1e9, 1e12, 1e16])
def test_bounds_of_sweeps_hold_beside_large_penalties(penalty):
    rng = np.random.default_rng(int(np.log10(penalty)))
    labels = np.array(list(itertools.product(range(2), repeat=3)))
    for _ in range(40):
        tables = rng.normal(size=(3, 2, 2)) - penalty * (rng.random((3, 2, 2)) < 0.3)
        counts = rng.normal(size=4) - penalty * (rng.random(4) < 0.4)
        unaries = rng.normal(size=(3, 2)) - penalty * (rng.random((3, 2)) < 0.15)
        factors = [Table([(0, 1), (1, 2), (0, 2)], tables), Cardinality([0, 1, 2], counts)]
        graph = FactorGraph([2] * 3, factors, unaries=list(unaries))
        scores = graph.score(labels)
        best, y = scores.max(), labels[scores.argmax()]
        terms = [tables[e, y[a], y[b]] for e, (a, b) in enumerate([(0, 1), (1, 2), (0, 2)])]
        result = solve_map(graph, "trws", max_iter=50)
        rounding = sum_error([*unaries[range(3), y], *terms, counts[y.sum()]])
        assert result.history_["bound"].min() >= best - rounding
        assert result.history_["score"][-1] == pytest.approx(result.score)

"""MAP inference under hostile input: arguments of every method, graphs of odd shapes and scores."""

import numpy as np
import pytest

from skstruct.map_inference import Cardinality, FactorGraph, Potts, Table, solve_map
from skstruct.map_inference.budget import Stopped
from skstruct.map_inference.elimination import elimination_cost
from skstruct.map_inference.methods import METHODS
from skstruct.map_inference.simplify import Simplified
from tests.helpers.map_cases import Asked, grid_edges


@pytest.fixture(scope="module")
def pair():
    """Two variables and a factor."""
    return FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])


@pytest.mark.parametrize(
    ("method", "parameters", "error", "message"),
    [
        (["auto"], {}, ValueError, "method must be one of"),
        (np.zeros(2), {}, ValueError, "method must be one of"),
        ("trws", {"order": np.inf}, ValueError, "order must be integers below"),
        ("trws", {"order": [0, 0]}, ValueError, "order must have each of the 2 variables once"),
        ("trws", {"patience": "a"}, TypeError, "patience must be an integer of at least 1"),
        ("trws", {"patience": -1}, ValueError, "patience must be an integer of at least 1"),
        ("trws", {"patience": 1.5}, TypeError, "patience must be an integer"),
        ("trws", {"duals": [0.0]}, ValueError, r"duals must have the shape \(4,\)"),
        ("trws", {"duals": "a"}, TypeError, "duals must be numbers"),
        ("trws", {"duals": [0, 0, 0, np.nan]}, ValueError, "finite, got nan at position 3"),
        ("mini-buckets", {}, ValueError, '"auto" has tighter bounds by exact strips'),
        ("branch-and-bound", {"start": [9, 9]}, ValueError, "start: variable 0 has 2 states"),
        ("branch-and-bound", {"start": [0]}, ValueError, "start must have one label for each of 2"),
        ("branch-and-bound", {"start": [0, 2]}, ValueError, "start: variable 1 has 2 states"),
        ("branch-and-bound", {"growth": np.nan}, ValueError, "growth must be a number"),
        ("branch-and-bound", {"most_variables": -1}, ValueError, "most_variables must be an"),
        ("junction-tree", {"max_table": "a"}, TypeError, "max_table must be a number"),
        ("junction-tree", {"max_table": 0}, ValueError, "max_table must be a number of at least 1"),
    ],
)
def test_bad_parameters_are_refused_by_name(pair, method, parameters, error, message):
    with pytest.raises(error, match=message):
        solve_map(pair, method, **parameters)


def test_tables_of_any_size_may_be_allowed(pair):
    assert solve_map(pair, "junction-tree", max_table=np.inf).optimal


@pytest.mark.parametrize("graph", [None, "graph", [2, 2], Potts(0, 1, 1.0)])
def test_only_graphs_are_solved(graph):
    with pytest.raises(TypeError, match="graph must be a FactorGraph, got a"):
        solve_map(graph)
    with pytest.raises(TypeError, match="got a str; read_uai, read_wcsp and read_cfn read files"):
        solve_map("graph.uai")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FactorGraph([np.inf]), ValueError, r"n_states must be integers below 2\*\*53"),
        (lambda: FactorGraph(np.array([2**63], np.uint64)), ValueError, "below 2.*63"),
        (lambda: FactorGraph([[2], [2, 2]]), TypeError, "n_states must be integers in an array"),
        (lambda: FactorGraph([2], offset="a"), TypeError, "offset must be a number, got 'a'"),
        (lambda: FactorGraph([2], None), TypeError, "factors must be a list of factors"),
        (lambda: FactorGraph([2], unaries=5), TypeError, "unaries must be a list of scores"),
        (lambda: Table([0], np.array([1j, 0])), TypeError, "scores must be real numbers"),
        (lambda: Table([0, 1e300], np.zeros((2, 2))), ValueError, "scope must be integers below"),
        (lambda: Potts(0, 1, [[1.0]]), ValueError, "numbers or arrays of one length"),
        (lambda: Cardinality.quadratic_hinge([0, 1], "a", 0), TypeError, "must be numbers"),
        (lambda: Cardinality.quadratic_hinge([0, 1], 1e200, 0), ValueError, "must be finite"),
        (
            lambda: FactorGraph([2, 2], [Table([1], [0, 1e308])], unaries=[[0, 0], [0, 1.7e308]]),
            ValueError,
            "factor 0: the scores of variable 1 add up to more than the largest number",
        ),
        (
            lambda: FactorGraph([2], [Table([[0], [0]], [0, -1.7e308])]),
            ValueError,
            "factor 0: the scores of variable 0 add up",
        ),
    ],
)
def test_bad_graphs_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_forbidden_labels_may_be_scored_again():
    graph = FactorGraph([3], [Table([[0], [0]], [[-np.inf, 0, 1], [2, -np.inf, 1]])])
    assert graph.unary.tolist() == [-np.inf, -np.inf, 2.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_states", [[1], [3], [2, 1, 2], [2, 2]])
def test_graphs_without_factors(method, n_states):
    if method in ("max-flow", "roof-dual") and max(n_states) > 2:
        pytest.skip("of two states")
    scores = np.arange(sum(n_states)) % 3
    graph = FactorGraph(n_states, unaries=scores, offset=-1.5)
    best = sum(row.max() for row in np.split(scores, graph.state_ptr[1:-1])) - 1.5
    result = solve_map(graph, method)
    assert result.optimal
    assert result.score == graph.score(result.labels) == best
    assert result.bound == pytest.approx(result.score, rel=1e-9)


def test_nothing_to_eliminate_costs_nothing():
    graph = FactorGraph([1, 1], [Table([0, 1], [[2.0]])])
    assert elimination_cost(graph) == 0.0


def _stuck_grid(side):
    """A grid of three labels that nothing proves at once."""
    edges, rng = grid_edges(side, side), np.random.default_rng(0)
    factors = Table(edges, rng.normal(size=(len(edges), 3, 3)))
    return FactorGraph(np.full(side * side, 3), [factors])


def test_simplification_can_be_stopped():
    with pytest.raises(Stopped):
        Simplified(_stuck_grid(30), check=Asked(lambda *row: True).check)


def test_sweeps_of_nested_regions():
    rng = np.random.default_rng(0)
    factors = [Table([0, 1, 2], rng.normal(size=(2, 3, 2))), Table([1, 2], rng.normal(size=(3, 2)))]
    results = [
        solve_map(FactorGraph([2, 3, 2], factors, regions=regions), "trws")
        for regions in ("variables", "pairs")
    ]
    assert results[0].optimal
    assert results[0].score == results[1].score
    duals = solve_map(FactorGraph([2, 3, 2], factors, regions="pairs"), "subgradient").duals
    with pytest.raises(ValueError, match="duals must have the shape"):
        solve_map(FactorGraph([2, 3, 2], factors), "trws", duals=duals)

"""Small worked examples of the internals of map_inference."""

import re

import numpy as np
import pytest

from skstruct.map_inference import FactorGraph, Or, Potts, Table, solve_map
from skstruct.map_inference.blocks import reoptimise
from skstruct.map_inference.cuts import Fuser, expand
from skstruct.map_inference.elimination import elimination_cost, is_forest
from skstruct.map_inference.kinds.scratch import region_scratch
from skstruct.map_inference.kinds.verbs import require_projection
from skstruct.map_inference.methods.relaxation import Room
from skstruct.map_inference.regions import make_regions, score_extent
from skstruct.map_inference.search import solve_branch_and_bound
from skstruct.map_inference.simplify import Simplified
from skstruct.map_inference.tighten import tighten


def test_auto_solve_auto():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph)) == "MAPResult(score=2, optimal, method='auto')"


def test_blocks_reoptimise():
    ring = FactorGraph([2] * 4, [Potts([0, 1, 2, 3], [1, 2, 3, 0], -1.0)])
    labels = reoptimise(ring, [0, 0, 0, 0], np.random.default_rng(0))
    assert (ring.score(labels)) == 0.0


def test_exact_cuts_solve_max_flow():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph, "max-flow")) == "MAPResult(score=2, optimal, method='max-flow')"


def test_exact_cuts_solve_roof_dual():
    graph = FactorGraph(
        [2, 2, 2],
        [Potts([0, 1, 2], [1, 2, 0], [-1.0, -1.0, -1.0])],
        unaries=[[0, 3], [0, 0], [0, 0]],
    )
    result = solve_map(graph, "roof-dual")
    assert (result.score, result.beliefs[0].tolist()) == (2.0, [0.0, 1.0])


def test_exact_elimination_elimination_cost():
    assert (elimination_cost(FactorGraph([2, 2, 2], [Potts([0, 1], [1, 2], 1.0)]))) == (
        1.0,
        0.602,
        10.0,
    )


def test_exact_elimination_is_forest():
    assert (is_forest(FactorGraph([2, 2, 2], [Potts([0, 1, 2], [1, 2, 0], 1.0)]))) is False


def test_expansion_fuser():
    graph = FactorGraph([3, 3], [Potts(0, 1, 1.0)], unaries=[[0, 1, 0], [0, 0, 5]])
    assert repr(Fuser(graph).fuse(np.array([0, 0]), np.array([2, 2]))) == "array([2, 2])"


def test_expansion_fuse():
    graph = FactorGraph([3, 3], [Potts(0, 1, 1.0)], unaries=[[0, 1, 0], [0, 0, 5]])
    assert repr(Fuser(graph).fuse(np.array([0, 0]), np.array([1, 2]))) == "array([1, 2])"


def test_expansion_expand():
    graph = FactorGraph([3, 3], [Potts(0, 1, 9.0)], unaries=[[0, 1, 0], [0, 0, 5]])
    assert repr(expand(graph, np.array([0, 0]), np.random.default_rng(0))) == "array([2, 2])"


def test_kinds_scratch_region_scratch():
    assert (region_scratch(FactorGraph([2, 3], [Potts(0, 1, 1.0)]).regions).hat.size) == 6


def test_kinds_verbs_require_projection():
    require_projection(FactorGraph([2, 2], [Potts(0, 1, 1.0)]), "sdca")
    with pytest.raises(
        TypeError,
        match=re.escape(
            'sdca needs projections, which factor 0 (Or) does not have; try "coordina'
            'te-descent" or "frank-wolfe", or "strong-accelerated" with smoothing="so'
            'ftmax"'
        ),
    ):
        require_projection(FactorGraph([2, 2], [Or([0, 1])]), "sdca")


def test_methods_bounds_room():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (round(Room(graph.regions).bound(np.zeros(4))[0], 9)) == 2.5


def test_methods_coordinate_descent_solve_coordinate_descent():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (solve_map(graph, "coordinate-descent").optimal) is True


def test_methods_decreasing_solve_decreasing_smoothing():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (solve_map(graph, "decreasing-smoothing").optimal) is True


def test_methods_frank_wolfe_solve_frank_wolfe():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph, "frank-wolfe", random_state=0).labels) == "array([1, 1])"


def test_methods_gradient_solve_gradient():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph, "gradient", gamma=0.01).labels) == "array([1, 1])"


def test_methods_gradient_solve_accelerated_gradient():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph, "accelerated-gradient", gamma=0.01).labels) == "array([1, 1])"


def test_methods_sdca_solve_sdca():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (
        repr(solve_map(graph, "sdca", gamma=0.01, lam=0.01, random_state=0).labels)
        == "array([1, 1])"
    )


def test_methods_strong_solve_strong_accelerated():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (
        repr(solve_map(graph, "strong-accelerated", gamma=0.01, lam=0.01).labels) == "array([1, 1])"
    )


def test_methods_subgradient_solve_subgradient():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert repr(solve_map(graph, "subgradient").labels) == "array([1, 1])"


def test_regions_make_regions():
    assert repr(make_regions(FactorGraph([2, 2], [Potts(0, 1, 1.0)])).size) == "array([2, 2, 4])"


def test_regions_score_extent():
    assert (
        score_extent(FactorGraph([2] * 3, [Table([(0, 1), (1, 2)], 2 * np.eye(2))]).regions)
    ) == 4.0


def test_search_branch_and_bound_solve_branch_and_bound():
    differ = Potts([0, 1, 2], [1, 2, 0], -1.0)
    graph = FactorGraph([2, 2, 2], [differ], unaries=[[0, 1], [0, 0], [0, 0]])
    result = solve_branch_and_bound(graph)
    assert (result.score, result.optimal) == (0.0, True)


def test_sequential_solver_solve_trws():
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    assert (solve_map(graph, "trws").score) == 2.0


def test_simplify_simplified():
    small = Simplified(FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]]))
    assert (small.graph.n_variables, small.lift(np.zeros(0, dtype=np.int64)).tolist()) == (
        0,
        [1, 1],
    )


def test_tighten_tighten():
    ring = FactorGraph([2] * 5, [Potts(range(5), [1, 2, 3, 4, 0], -1.0)])
    bound, labels = tighten(ring)
    assert (round(bound, 6), ring.score(labels)) == (-1.0, -1.0)

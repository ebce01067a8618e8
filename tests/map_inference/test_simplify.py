"""Simplified graphs: the same optimum, and labels that lift back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.map_inference import FactorGraph, Potts, read_uai
from skstruct.map_inference.simplify import Simplified
from tests.helpers.map_cases import enumerate_best, graph_with_implicit, labellings, random_graph


def check(graph, **options):
    """The best labelling of the simplified graph lifts to one of the whole."""
    best = enumerate_best(graph)
    small = Simplified(graph, **options)
    if not small.is_feasible:
        assert best == -np.inf
        return None
    every = labellings(small.graph)
    scores = small.graph.score(every)
    for x, score in zip(every, scores, strict=True):
        lifted = small.lift(x)
        assert graph.score(lifted) == pytest.approx(score, abs=1e-9)
        np.testing.assert_array_equal(small.lower(lifted), x)
    assert scores.max() == pytest.approx(best, abs=1e-9)
    return small


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.6]), st.sampled_from([1.0, 4.0]))
def test_same_optimum(seed, forbidden, growth):
    check(random_graph(seed, forbidden), growth=growth)


@given(st.integers(0, 10**6))
def test_implicit_factors(seed):
    check(graph_with_implicit(seed))


@given(st.integers(0, 10**6))
def test_forests_vanish(seed):
    small = check(random_graph(seed, is_tree=True))
    assert small.graph.n_variables == 0


def test_fixed_labels():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(6, 1)
    graph = FactorGraph(np.full(6, 2), [Potts(i, j, rng.normal(size=15))])
    small = Simplified(graph, fixed={0: 1, 3: 0}, most_variables=1)
    lifted = small.lift(np.zeros(small.graph.n_variables, dtype=int))
    assert (lifted[0], lifted[3]) == (1, 0)
    assert small.graph.n_variables == 4


def test_constraints_of_a_pedigree(shared_data):
    graph = read_uai(shared_data / "map_models/pedigree/pedigree23.uai.xz")
    small = Simplified(graph)
    assert small.graph.n_variables < 0.5 * graph.n_variables
    labels = small.lift(np.zeros(small.graph.n_variables, dtype=int))
    score = small.graph.score(np.zeros(small.graph.n_variables, dtype=int))
    assert graph.score(labels) == pytest.approx(score)

"""Graphs without cycles, decoded from the leaves to the roots: enumeration, chains and trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstruct import BCFWSSVM, SAGCRF, Pairwise, Tree
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.inference.tree import root_forests
from skstruct.testing import check_structure, training_problem
from tests.helpers.pairwise_cases import check_hard_constraints, random_samples


def _forest(rng, n):
    """Edges of random trees and lone nodes, numbered, turned and ordered at random."""
    name = rng.permutation(n)
    edges = [(rng.integers(0, t), t) for t in range(1, n) if rng.random() < 0.8]
    edges = [(a, b) if rng.random() < 0.5 else (b, a) for a, b in edges]
    return name[rng.permutation(np.array(edges, dtype=np.int64).reshape(-1, 2))]


@given(st.integers(0, 10**6))
def test_rooted_forests_are_their_edges(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 3)
    edges = [_forest(rng, n).astype(np.int32) for n in sizes]
    node_ptr, edge_ptr = (np.append(0, np.cumsum(c)) for c in (sizes, [len(e) for e in edges]))
    forest, cyclic = root_forests(np.concatenate(edges), edge_ptr, node_ptr)
    assert cyclic == -1
    for first, stop, own in zip(node_ptr, node_ptr[1:], edges, strict=False):
        order, parent, link, flip = (field[first:stop] for field in forest)
        assert_array_equal(np.sort(order), np.arange(stop - first))
        position = np.argsort(order)
        children = np.flatnonzero(parent >= 0)
        assert (position[parent[children]] < position[children]).all()
        assert_array_equal(np.sort(link[children]), np.arange(len(own)))
        for c in children:
            assert own[link[c]].tolist() == ([c, parent[c]] if flip[c] else [parent[c], c])


@given(st.integers(0, 10**6))
def test_the_first_cycle_is_found(seed):
    rng = np.random.default_rng(seed)
    wanted = int(rng.integers(0, 4))
    graphs = []
    for i in range(5):
        n = int(rng.integers(3, 8))
        edges = _forest(rng, n)
        if i == wanted or (i > wanted and rng.random() < 0.5):
            ring = rng.permutation(n)[: rng.integers(2, n + 1)]
            edges = np.concatenate([edges[:1], np.stack([ring, np.roll(ring, 1)], axis=1)])
            if rng.random() < 0.5 and len(edges) > n:
                edges = edges[1:]
        graphs.append((n, edges.astype(np.int32)))
    node_ptr = np.append(0, np.cumsum([n for n, _ in graphs]))
    edge_ptr = np.append(0, np.cumsum([len(e) for _, e in graphs]))
    assert root_forests(np.concatenate([e for _, e in graphs]), edge_ptr, node_ptr)[1] == wanted


@pytest.mark.plain
@pytest.mark.parametrize("interactions", ["full", "symmetric", "potts"])
@pytest.mark.parametrize(("edge_features", "edge_types"), [(False, 1), (True, 1), (False, 2)])
def test_every_verb_by_enumeration(interactions, edge_features, edge_types):
    rng = np.random.default_rng(4)
    graph = Pairwise(edge_features, edge_types, interactions, inference="tree")
    X, y = random_samples(rng, _forest, 6, 5, edge_types, edge_features)
    for loss in ("hamming", "normalized_hamming", {"a": 2.0, "c": 0.5}):
        check_structure(graph, X, y, loss=loss, fit_intercept=not edge_features)


@pytest.mark.plain
@given(st.integers(0, 10**6))
def test_hard_constraints_and_ties_against_sums_over_edges(seed):
    check_hard_constraints(seed, _forest, "tree")


@pytest.mark.plain
def test_equal_weights_decode_as_trees():
    rng = np.random.default_rng(2)
    X = [(rng.normal(size=(60, 3)), _forest(rng, 60)) for _ in range(3)]
    y = [rng.integers(0, 5, 60) for _ in X]
    found = []
    for graph in (Pairwise(), Tree()):
        problem, _, shapes, _ = training_problem(graph, X, y)
        draw = np.random.default_rng(0)
        weights = Weights(*(draw.normal(size=shape) for shape in shapes))
        for i in range(len(X)):
            theta = np.empty(problem.part_ptr[i + 1] - problem.part_ptr[i])
            labels, values = np.zeros(60, dtype=np.int32), np.zeros(1)
            best, mu = np.zeros((1, 60), dtype=np.int32), np.empty_like(theta)
            oracles.potentials(problem, i, weights, theta)
            oracles.top_k_oracle(problem, i, theta, values, best)
            top = oracles.max_oracle(problem, i, theta, labels)
            log_z = oracles.exp_oracle(problem, i, theta, 1.0, mu)
            found.append((top, log_z, labels, values, best[0], mu))
    for one, other in zip(found[:3], found[3:], strict=True):
        for a, b in zip(one, other, strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_turned_edges_have_turned_tables():
    rng = np.random.default_rng(1)
    X, y = random_samples(rng, _forest, 12, 6)
    back = [(x, edges[:, ::-1]) for x, edges in X]
    options = {"solver": "lbfgs", "tol": 1e-12, "max_iter": 5000}
    one, other = (SAGCRF(Pairwise(), **options).fit(samples, y) for samples in (X, back))
    assert_allclose(one.pairwise_coef_, other.pairwise_coef_.T, atol=1e-6)
    nodes, pairs = one.predict_marginals(X, pairwise=True)
    for (_, edges), mu, tables in zip(X, nodes, pairs, strict=True):
        assert_allclose(tables.sum(axis=2), mu[edges[:, 0]], atol=1e-9)
        assert_allclose(tables.sum(axis=1), mu[edges[:, 1]], atol=1e-9)


def test_three_hundred_labels():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(n, 2)), _forest(rng, n)) for n in (200, 150)]
    y = [rng.permutation(300)[:200], np.arange(150)]
    y[1] = np.append(np.setdiff1d(np.arange(300), y[0]), y[0][:50])
    options = {"C": 0.01, "tol": 1e-2, "max_iter": 300, "random_state": 0}
    svm, tree = (BCFWSSVM(graph, **options).fit(X, y) for graph in (Pairwise(), Tree()))
    assert svm.method_ == "tree"
    assert svm.objective_ >= tree.dual_objective_ - 1e-12
    assert tree.objective_ >= svm.dual_objective_ - 1e-12
    assert_allclose(svm.objective_, tree.objective_, rtol=1e-2)


def test_cycles_are_named_and_mixed_samples_take_another_way():
    path, triangle = np.array([[0, 1], [1, 2]]), np.array([[0, 1], [1, 2], [2, 0]])
    X, y = [(np.eye(3), path), (np.eye(3), triangle), (np.eye(3), triangle)], [["a", "a", "b"]] * 3
    with pytest.raises(ValueError, match='inference="tree": sample 1 has a cycle'):
        SAGCRF(Pairwise(inference="tree")).fit(X, y)
    assert SAGCRF(Pairwise(), solver="lbfgs").fit(X, y).method_ == "junction-tree"
    model = SAGCRF(Pairwise(), solver="lbfgs").fit(X[:1], y[:1])
    assert model.method_ == "tree"
    assert [len(row) for row in model.predict(X)] == [3, 3, 3]
    twice = [(np.eye(3), np.array([[0, 1, 0], [1, 0, 1]]))]
    with pytest.raises(ValueError, match="sample 0 has a cycle"):
        SAGCRF(Pairwise(edge_types=2, inference="tree")).fit(twice, y[:1])

"""Graphs with cycles, decoded along junction trees: against enumeration, chains and trees."""

import pickle
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, SAGCRF, Pairwise
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.graphs.pairwise.graph import grid_edges
from skstruct.testing import check_structure, training_problem
from tests.helpers.pairwise_cases import LABELS, check_hard_constraints, random_samples

LOSSES = ["hamming", "normalized_hamming", {"a": 2.0, "c": 0.5}]


def exact(**parameters):
    return Pairwise(inference="junction-tree", **parameters)


def _random_graph(rng, n):
    """Edges of random orientation, in any order."""
    density = rng.choice([0.3, 0.6, 1.0])
    edges = [pair for pair in combinations(range(n), 2) if rng.random() < density]
    edges = [pair if rng.random() < 0.5 else pair[::-1] for pair in edges]
    return rng.permutation(np.array(edges, dtype=np.int64).reshape(-1, 2))


def _grid_samples(rng, n_samples=12, height=3, width=3, n_labels=3):
    edges = grid_edges(height, width, 4)[0]
    w = rng.normal(size=(4, n_labels))
    X, y = [], []
    for _ in range(n_samples):
        x = rng.normal(size=(height * width, 4))
        X.append((x, edges))
        y.append(LABELS[(x @ w + rng.normal(size=(len(x), n_labels))).argmax(axis=1)])
    return X, y


# Edge features of types are sparse: those are run as plain Python (plain_verbs.py).
@pytest.mark.parametrize("interactions", ["full", "symmetric", "potts"])
@pytest.mark.parametrize(("edge_features", "edge_types"), [(False, 1), (True, 1), (False, 2)])
def test_every_verb_by_enumeration(interactions, edge_features, edge_types):
    rng = np.random.default_rng(4)
    graph = exact(interactions=interactions, edge_features=edge_features, edge_types=edge_types)
    X, y = random_samples(rng, _random_graph, 6, 5, edge_types, edge_features)
    for loss in LOSSES:
        check_structure(graph, X, y, loss=loss, fit_intercept=not edge_features)


@given(st.integers(0, 10**6))
def test_random_graphs_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    interactions = ["full", "symmetric", "potts"][rng.integers(3)]
    X, y = random_samples(rng, _random_graph, 2, n_labels=int(rng.integers(2, 4)))
    used = {(p, q) for (_, edges), row in zip(X, y, strict=True) for p, q in row[edges].tolist()}
    classes = sorted(set(np.concatenate(y)))
    unused = [pair for pair in product(classes, classes) if pair not in used]
    forbidden = [pair for pair in unused if rng.random() < 0.5]
    check_structure(exact(interactions=interactions, forbidden=forbidden), X, y, random_state=seed)


@given(st.integers(0, 10**6))
def test_hard_constraints_and_ties_against_sums_over_edges(seed):
    check_hard_constraints(seed, _random_graph, "junction-tree")


def test_the_gradient_of_the_log_partition_is_the_marginals():
    rng = np.random.default_rng(2)
    X, y = _grid_samples(rng, 3)
    problem, _, shapes, _ = training_problem(exact(interactions="symmetric"), X, y)
    weights = Weights(*(rng.normal(size=shape) for shape in shapes))
    theta = np.empty(problem.part_ptr[1])
    mu, nothing = np.empty_like(theta), np.empty(0)
    oracles.potentials(problem, 0, weights, theta)
    oracles.exp_oracle(problem, 0, theta, 1.0, mu)
    for q in range(theta.size):
        ends = []
        for step in (1e-5, -1e-5):
            moved = theta.copy()
            moved[q] += step
            ends.append(oracles.exp_oracle(problem, 0, moved, 1.0, nothing))
        assert_allclose((ends[0] - ends[1]) / 2e-5, mu[q], atol=1e-7)


def test_decoding_under_constraints_and_the_n_best():
    X, y = _grid_samples(np.random.default_rng(6), 6, 2, 3)
    model = SAGCRF(exact(), tol=1e-3, solver="lbfgs").fit(X, y)
    allowed = [np.ones((6, 3), dtype=bool) for _ in X]
    for mask in allowed:
        mask[1, 0] = mask[4, 2] = False
    for row in model.predict(X, allowed=allowed):
        assert row[1] != "a"
        assert row[4] != "c"
    allowed[2][3] = False
    with pytest.raises(ValueError, match="sample 2: no labelling satisfies"):
        model.predict(X, allowed=allowed)
    labels, scores = model.predict_top_k(X, 8)
    for sample, rows, values, best in zip(X, labels, scores, model.predict(X), strict=True):
        assert_array_equal(rows[0], best)
        assert (np.diff(values) <= 0).all()
        probability = model.predict_log_likelihood([sample] * 8, list(rows))
        assert_allclose(values - values[0], probability - probability[0], atol=1e-9)


def test_predictions_do_not_change_what_training_was_certified_for():
    classes, codes = np.array(["a", "b"]), np.array([0, 1, 0, 1], dtype=np.int32)
    graph, reader = Pairwise(max_table=8), SimpleNamespace()
    small = graph.read_X(reader, [(np.ones((4, 1)), grid_edges(2, 2, 4)[0])], True)
    before = dict(vars(graph))
    problem = graph.make_problem(small, classes, True, codes=codes)
    assert (problem.space.method, problem.space.inference) == ("junction-tree", "exact")
    large = graph.read_X(reader, [(np.ones((9, 1)), grid_edges(3, 3, 4)[0])], False)
    problem = graph.make_problem(large, classes, True)
    assert (problem.space.method, problem.space.inference) == ("roof-dual", "relaxed")
    assert vars(graph) == before


def test_equal_graphs_share_one_plan():
    rng = np.random.default_rng(0)
    X, y = _grid_samples(rng, 5)
    X.insert(2, (X[0][0], X[0][1][::-1]))
    y.insert(2, y[0])
    problem = training_problem(exact(), X, y)[0]
    assert problem.space.own.inference.plan.tolist() == [0, 0, 1, 0, 0, 0]


def test_pickles_parameters_and_empty_samples():
    X, y = _grid_samples(np.random.default_rng(8), 12, 2, 2)
    search = GridSearchCV(
        SAGCRF(exact(), tol=1e-2, solver="lbfgs"),
        {"graph__interactions": ["full", "potts"], "C": [0.1, 1.0]},
        cv=2,
    ).fit(X, y)
    model = pickle.loads(pickle.dumps(search.best_estimator_))
    nothing = (np.empty((0, 4)), np.empty((0, 2), dtype=int))
    for a, b in zip(model.predict([*X, nothing]), search.predict([*X, nothing]), strict=True):
        assert_array_equal(a, b)
    assert len(model.predict([nothing])[0]) == 0
    lonely = (X[0][0], [])
    scores = X[0][0] @ model.coef_.T + model.intercept_
    assert_array_equal(model.predict([lonely])[0], model.classes_[scores.argmax(axis=1)])


def test_tables_beyond_the_limit_are_refused():
    X, y = _grid_samples(np.random.default_rng(1), 3, 4, 4)
    small = _grid_samples(np.random.default_rng(1), 1, 2, 2)[0]
    with pytest.raises(
        ValueError,
        match=r'inference="junction-tree": sample 1 \(16 nodes, 24 edges, 3 labels\) needs a table '
        r"of 243 entries, but max_table=100",
    ):
        SAGCRF(exact(max_table=100)).fit([*small, *X], [y[0][:4], *y])
    SAGCRF(exact(max_table=243), tol=0.1, solver="lbfgs").fit(X, y)
    with pytest.raises(ValueError, match="max_table must be a number of at least 1, got 0"):
        SAGCRF(exact(max_table=0)).fit(X, y)


x = np.ones((3, 2))


@pytest.mark.parametrize(
    ("graph", "sample", "match"),
    [
        (exact(), x, r"sample 1 must be a tuple \(features, edges\)"),
        (exact(), (x, [[0, 3]]), r"sample 1 has the edge \(0, 3\), but its nodes are 0 to 2"),
        (exact(), (x, [[0, -1]]), r"sample 1 has the edge \(0, -1\), but its nodes are 0 to 2"),
        (exact(), (x, [[0, 1], [2, 2]]), "sample 1 has an edge from node 2 to itself"),
        (exact(), (x, [[0, 1], [1, 0]]), r"sample 1 has the edge \(1, 0\) twice"),
        (exact(), (x, [[0, 1, 0]]), r"edges of sample 1 must be integers of shape \(n_edges, 2\)"),
        (exact(), (x, [[0.0, 1.0]]), "edges of sample 1 must be integers"),
        (exact(), (x, [[], []]), r"edges of sample 1 must be integers .* shape \(2, 0\)"),
        (exact(), (x, [[0, 1], [2]]), "edges of sample 1 must be .* rows differ in length"),
        (exact(), (np.ones((3, 5)), [[0, 1]]), "sample 1 has 5 features"),
        (exact(edge_types=2), (x, [[0, 1]]), r"must be integers of shape \(n_edges, 3\), the last"),
        (exact(edge_types=2), (x, [[0, 1, 2]]), "sample 1 has an edge of type 2, .* 0 to 1"),
        (exact(edge_types=2), (x, [[0, 1, 1], [1, 0, 1]]), r"sample 1 has the edge \(1, 0\) twice"),
        (exact(edge_features=True), (x, [[0, 1]]), r"must be a tuple \(features, edges, edge_fe"),
        (
            exact(edge_features=True),
            (x, [[0, 1]], np.ones((2, 2))),
            "sample 1 has .* 1 edges, but 2 rows of edge features",
        ),
        (
            exact(edge_features=True),
            (x, [[0, 1]], np.ones((1, 3))),
            r"X \(edge features\): sample 1 has 3 features, sample 0 has 2",
        ),
    ],
)
def test_bad_samples(graph, sample, match):
    good = [x, [[0, 1], [1, 2], [2, 0]]]
    if graph.edge_types == 2:
        good[1] = [[0, 1, 0], [0, 1, 1], [2, 0, 0]]
    if graph.edge_features:
        good.append(np.ones((3, 2)))
    with pytest.raises(ValueError, match=match):
        SAGCRF(graph).fit([tuple(good), sample], [["a", "b", "a"], ["b", "a", "b"]])


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"edge_types": 0}, "edge_types must be an integer of at least 1, got 0"),
        ({"edge_types": 1.5}, "edge_types must be an integer of at least 1, got 1.5"),
        ({"interactions": "ising"}, "interactions must be one of .*, got 'ising'"),
        ({"inference": "magic"}, "inference must be .*, got 'magic'"),
        ({"forbidden": [("a", "z")]}, "forbidden: unknown label 'z'"),
        ({"forbidden": [(None, "a")]}, "graphs have no first and last node"),
        ({"forbidden": [("a", "b")]}, "sample 0, node 0 has the forbidden step"),
        ({"forbidden": "iob2"}, "forbidden"),
    ],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        SAGCRF(exact().set_params(**parameters)).fit([(x, [[0, 1]])], [["a", "b", "a"]])


def test_tables_beyond_memory_are_refused_whatever_the_limit(monkeypatch):
    edges = np.stack(np.triu_indices(40, 1), axis=1)
    X, y = [(np.zeros((40, 1)), edges)], [np.arange(40) % 3]
    model = BCFWSSVM(Pairwise(inference="junction-tree", max_table=np.inf))
    with pytest.raises(ValueError, match=r"sample 0 .*, but there can be 4294967295 at mo"):
        model.fit(X, y)

    def full(*args):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("skstruct.spaces.junction._scratch", full)
    graphs = [[0, 1]], [[0, 1], [1, 2], [2, 0]]
    X = [(np.zeros((3, 1)), np.array(graph)) for graph in graphs]
    with pytest.raises(MemoryError, match=r"sample 1 .* needs tables of .* smaller max_table"):
        model.fit(X, [[0, 1, 2], [0, 1, 2]])

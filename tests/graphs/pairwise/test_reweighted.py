"""Tree-reweighted marginals: the bound on the log-partition, and CRFs that are trained on it."""

import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp

from skstruct import BCFWSSVM, SAGCRF, Grid, Pairwise
from skstruct.core import oracles
from skstruct.graphs.pairwise.graph import grid_edges
from skstruct.spaces.reweighted import tree_weights
from skstruct.testing import check_structure, training_problem

TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])
# A loop of four nodes with a tail, whose edges point either way.
KITE = np.array([[1, 0], [1, 2], [3, 2], [0, 3], [3, 4]])


def _problem(n, edges, n_labels, **parameters):
    """One sample; each edge has a table of its own."""
    graph = Pairwise(edge_features=True, inference="tree-reweighted", **parameters)
    y = np.append(np.arange(n_labels), np.zeros(max(n - n_labels, 0), dtype=int))[:n]
    X = [(np.zeros((n, 1)), edges, np.zeros((len(edges), 1)))] * 2
    return training_problem(graph, X, [y, y[::-1]])[0]


def _ask(problem, theta, temperature=1.0):
    mu = np.full(theta.size, np.nan)
    bound = oracles.exp_oracle(problem, 0, theta, temperature, mu)
    return bound, mu, oracles.exp_slack(problem)


def _split(theta, n, m, K):
    return theta[: n * K].reshape(n, K), theta[n * K : n * K + m * K * K].reshape(m, K, K)


def _log_partition(theta, n, edges, K):
    unary, tables = _split(theta, n, len(edges), K)
    y = np.array(list(product(range(K), repeat=n)))
    scores = unary[np.arange(n), y].sum(axis=1)
    for (u, v), table in zip(edges, tables, strict=True):
        scores = scores + table[y[:, u], y[:, v]]
    return logsumexp(scores)


def _lowest_bound(theta, n, edges, K):
    """Least sum, over ways to share out the scores, of log-partitions of nodes given earlier ones.

    The dual of the tree-reweighted problem from the definition, by a solver that knows no sweeps.
    """
    unary, tables = _split(theta, n, len(edges), K)
    weight, rest = tree_weights(edges[:, 0], edges[:, 1], n)

    def value(flat):
        delta = flat.reshape(len(edges), 2, K)
        hat = unary.copy()
        for side in range(2):
            np.add.at(hat, edges[:, side], delta[:, side])
        # A soft maximum of tiny temperature where chains leave nothing to the node itself.
        total = sum(
            r * logsumexp(row / r) for r, row in zip(np.maximum(rest, 1e-3), hat, strict=True)
        )
        for e, (u, v) in enumerate(edges):
            inner = (tables[e] - delta[e, 0][:, None] - delta[e, 1]) / weight[e]
            per_later = weight[e] * logsumexp(inner, axis=0 if v > u else 1)
            total += 1e-3 * logsumexp(per_later / 1e-3)
        return total

    return minimize(value, np.zeros(2 * K * len(edges)), method="BFGS").fun


@given(st.integers(0, 2**31), st.sampled_from([TRIANGLE, KITE]), st.integers(2, 3))
def test_the_bound_is_above_the_log_partition_and_the_marginals_attain_it(seed, edges, K):
    rng, n = np.random.default_rng(seed), int(edges.max()) + 1
    problem = _problem(n, edges, K)
    theta = rng.normal(scale=rng.choice([0.1, 1.0, 4.0]), size=problem.part_ptr[1])
    bound, mu, slack = _ask(problem, theta)
    assert bound >= _log_partition(theta, n, edges, K) - 1e-9
    nodes, pairs = _split(mu, n, len(edges), K)
    assert (mu >= 0.0).all()
    assert_allclose(nodes.sum(axis=1), 1.0, atol=1e-9)
    assert_allclose(pairs.sum(axis=2), nodes[edges[:, 0]], atol=1e-9)
    assert_allclose(pairs.sum(axis=1), nodes[edges[:, 1]], atol=1e-9)
    weight, _ = tree_weights(edges[:, 0], edges[:, 1], n)

    def entropy(p):
        return -(p * np.log(np.where(p > 0.0, p, 1.0))).sum()

    shared = [
        entropy(nodes[u]) + entropy(nodes[v]) - entropy(p)
        for (u, v), p in zip(edges, pairs, strict=True)
    ]
    value = mu @ theta + sum(map(entropy, nodes)) - weight @ shared
    assert bound - slack <= value + 1e-9 * (1.0 + abs(bound))
    assert value <= bound + 1e-9 * (1.0 + abs(bound))
    assert slack <= 1e-6 * (1.0 + abs(bound))


@pytest.mark.slow
@pytest.mark.parametrize(("edges", "K"), [(TRIANGLE, 2), (TRIANGLE, 3), (KITE, 2)])
def test_the_bound_is_the_lowest_one_of_its_trees(edges, K):
    n = int(edges.max()) + 1
    problem = _problem(n, edges, K)
    theta = np.random.default_rng(K).normal(size=problem.part_ptr[1])
    # The smoothed maxima of the reference are above it by 1e-3 log K each, at most.
    excess = 1e-3 * np.log(K) * (n + len(edges))
    lowest, (bound, _, _) = _lowest_bound(theta, n, edges, K), _ask(problem, theta)
    assert lowest - excess - 1e-4 <= bound <= lowest + 1e-4


def test_a_row_of_nodes_is_exact():
    chain = np.stack([np.arange(4), np.arange(1, 5)], axis=1)
    problem = _problem(5, chain, 3)
    theta = np.random.default_rng(0).normal(size=problem.part_ptr[1])
    bound, _, _ = _ask(problem, theta)
    assert bound == pytest.approx(_log_partition(theta, 5, chain, 3), rel=1e-12)


@pytest.mark.slow
def test_near_temperature_0_the_bound_is_the_relaxation():
    problem = _problem(3, TRIANGLE, 2)
    theta = np.random.default_rng(1).normal(size=problem.part_ptr[1])
    labels, mu = np.zeros(3, dtype=np.int32), np.empty(theta.size)
    lp, _ = oracles.relaxed_oracle(problem, 0, theta, labels, mu)
    bound, _, _ = _ask(problem, theta, 1e-3)
    assert lp - 1e-6 <= bound <= lp + 1e-2


@given(st.integers(0, 2**31))
def test_weights_of_trees_leave_each_node_its_share(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    pairs = np.array([(a, b) for a in range(n) for b in range(n) if a < b])
    edges = rng.permutation(pairs)[: rng.integers(1, len(pairs) + 1)]
    flip = rng.random(len(edges)) < 0.5
    first, second = (
        np.where(flip, edges[:, 0], edges[:, 1]),
        np.where(flip, edges[:, 1], edges[:, 0]),
    )
    weight, rest = tree_weights(first, second, n)
    assert (weight > 0.0).all()
    for node in range(n):
        earlier = weight[np.maximum(first, second) == node].sum()
        later = weight[np.minimum(first, second) == node].sum()
        assert earlier <= 1.0 + 1e-12
        assert later + rest[node] == pytest.approx(1.0)


def test_weights_of_trees_on_images_are_halves_and_on_rows_ones():
    first, second = grid_edges(5, 6, 4)[0].T
    weight, _ = tree_weights(first, second, 30)
    inner = (first // 6 > 0) & (second // 6 < 4) & (first % 6 > 0) & (second % 6 < 5)
    assert_allclose(weight[inner], 0.5, atol=1e-2)
    assert_allclose(tree_weights(np.arange(5), np.arange(1, 6), 6)[0], 1.0, atol=1e-12)


@pytest.mark.parametrize(
    "graph",
    [
        Pairwise(inference="tree-reweighted"),
        Pairwise(inference="tree-reweighted", interactions="potts"),
        Pairwise(inference="tree-reweighted", edge_features=True),
        Grid(inference="tree-reweighted", neighborhood=8, directions=True),
    ],
)
def test_verbs(graph):
    check_structure(graph, *graph.example(np.random.default_rng(0), False))


def _images(n=6, size=(4, 5), n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(n_labels, size=size) for _ in range(n)]
    return [
        np.eye(n_labels)[labels] + rng.normal(scale=0.7, size=(*size, n_labels)) for labels in y
    ], y


SOLVERS = ["auto", "sag", "saga", "oeg", "casimir", "lbfgs"]


def test_all_solvers_bound_the_same_optimum_which_is_above_that_of_exact_training():
    X, y = _images()
    fits = [
        SAGCRF(Grid(inference="tree-reweighted"), solver=s, tol=1e-4, random_state=0).fit(X, y)
        for s in SOLVERS
    ]
    assert max(crf.dual_objective_ for crf in fits) <= min(crf.objective_ for crf in fits)
    assert max(crf.suboptimality_ for crf in fits) <= 1e-4
    exact = SAGCRF(Grid(inference="junction-tree"), tol=1e-4, random_state=0).fit(X, y)
    assert exact.training_inference_ == "exact"
    assert fits[0].training_inference_ == "relaxed"
    # At any weights the bounded likelihood is the smaller one, so is the best.
    assert min(crf.objective_ for crf in fits) >= exact.dual_objective_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relaxed = fits[0].predict_log_likelihood(X, y)
    same = SAGCRF(Grid(inference="junction-tree"), max_iter=1, tol=1.0).fit(X, y)
    same.node_weights_, same.pair_weights_ = fits[0].node_weights_, fits[0].pair_weights_
    assert (relaxed <= same.predict_log_likelihood(X, y) + 1e-9).all()


def test_auto_takes_it_where_no_junction_tree_is_small_enough():
    X, y = _images(4, (7, 7), 5)
    crf = SAGCRF(Grid(max_table=1000), random_state=0).fit(X, y)
    assert (crf.method_, crf.inference_) == ("tree-reweighted", "relaxed")
    assert crf.suboptimality_ <= 1e-3
    assert crf.score(X, y) > 0.6
    nodes, edges = crf.predict_marginals(X, pairwise=True)
    assert nodes[0].shape == (7, 7, 5)
    assert_allclose(nodes[0].sum(axis=2), 1.0, atol=1e-9)
    ends = grid_edges(7, 7, 4)[0]
    assert_allclose(edges[0].sum(axis=2), nodes[0].reshape(-1, 5)[ends[:, 0]], atol=1e-9)
    again = pickle.loads(pickle.dumps(crf))
    assert_array_equal(again.predict_marginals(X)[0], nodes[0])


def test_marginals_of_larger_samples_than_those_of_fit_are_bounds_and_say_so():
    X, y = _images(4, (2, 5), 3)
    wide, labels = _images(1, (9, 9), 3)
    crf = SAGCRF(Grid(max_table=100), random_state=0).fit(X, y)
    assert crf.inference_ == "exact"
    for call in (
        crf.predict_marginals,
        lambda X: crf.predict_log_likelihood(X, labels),
        crf.predict,
    ):
        with pytest.warns(UserWarning, match="fit was exact, but X has graphs"):
            call(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crf.predict_marginals(X)


def test_masks_rule_out_labels_in_training_and_prediction():
    X, y = _images(3, (4, 4), 3)
    graph = Grid(inference="tree-reweighted")
    crf = SAGCRF(graph, random_state=0).fit(X, y)
    allowed = np.ones((4, 4, 3), dtype=bool)
    allowed[:, :, 0] = False
    assert 0 not in np.unique(crf.predict(X[:1], allowed=[allowed])[0])


def test_what_needs_exact_marginals_is_refused():
    X, y = _images(3, (4, 4), 3)
    graph = Grid(inference="tree-reweighted")
    with pytest.raises(ValueError, match="tree-reweighted marginals cannot rule out forbidden"):
        SAGCRF(Grid(inference="tree-reweighted", forbidden=[(0, 1)])).fit(
            X, [np.zeros((4, 4), dtype=int), *(np.ones((4, 4), dtype=int),) * 2]
        )
    missing = [labels.astype(object) for labels in y]
    missing[1][0, 0] = None
    with pytest.raises(
        ValueError, match="needs a label for each node: the difference of two bounds"
    ):
        SAGCRF(graph).fit(X, missing)
    with pytest.raises(TypeError, match='"tree-reweighted" is for the marginals of SAGCRF'):
        BCFWSSVM(graph).fit(X, y)

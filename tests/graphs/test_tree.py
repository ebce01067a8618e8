"""Trees against enumeration, chains, and each other's orientations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skstruct import BCFWSSVM, SAGCRF, Tree
from skstruct.inspection import explain
from skstruct.testing import check_structure

LABELS = np.array(["a", "b", "c"])


def _random_parents(rng, n, forest=False):
    """Parents in any order of nodes."""
    order = rng.permutation(n)
    parents = np.full(n, -1)
    for q in range(1, n):
        if not forest or rng.random() < 0.7:
            parents[order[q]] = order[rng.integers(q)]
    return parents


def _random_trees(rng, n_samples=8, largest=6, forest=False, form="parents", d=3):
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(1, largest + 1))
        parents = _random_parents(rng, n, forest)
        children = np.flatnonzero(parents >= 0)
        structure = parents
        if form == "edges":
            edges = np.stack([parents[children], children], axis=1)
            turned = rng.random(len(edges)) < 0.5
            edges[turned] = edges[turned, ::-1]
            structure = rng.permutation(edges)
        features = rng.normal(size=(n, 4))
        X.append((features, structure, rng.normal(size=(len(children), d))))
        y.append(LABELS[rng.integers(0, 3, n)])
    return X, y


def _plain(X):
    return [sample[:2] for sample in X]


@pytest.mark.plain
@pytest.mark.parametrize("form", ["parents", "edges"])
@pytest.mark.parametrize("forest", [False, True])
def test_every_verb_by_enumeration(form, forest):
    rng = np.random.default_rng(3)
    X, y = _random_trees(rng, 8, 6, forest, form)
    check_structure(Tree(), _plain(X), y)
    check_structure(Tree(edge_features=True), X, y, fit_intercept=False)


@pytest.mark.plain
@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_random_trees_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    X, y = _random_trees(rng, 2, 5, bool(rng.integers(2)), rng.choice(["parents", "edges"]))
    y[0] = LABELS[rng.integers(0, 2, len(y[0]))]
    loss = ["hamming", "normalized_hamming"][rng.integers(2)]
    if len(np.unique(np.concatenate(y))) > 1:
        check_structure(Tree(), _plain(X), y, loss=loss, random_state=seed)


def _with_forbidden_pairs():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(4, 2)), [-1, 0, 0, 1]), (rng.normal(size=(3, 2)), [1, -1, 1])]
    return Tree(forbidden=[("b", "c"), ("c", "c")]), X, [["a", "b", "b", "a"], ["b", "a", "c"]]


@pytest.mark.plain
def test_forbidden_pairs_by_enumeration():
    check_structure(*_with_forbidden_pairs())


def test_forbidden_pairs():
    graph, X, y = _with_forbidden_pairs()
    crf = SAGCRF(graph, tol=1e-2, solver="lbfgs").fit(X, y)
    pairs = crf.predict_marginals(X, pairwise=True)[1]
    assert all((tables[:, 1, 2] == 0).all() and (tables[:, 2, 2] == 0).all() for tables in pairs)
    with pytest.raises(ValueError, match=r"sample 0, node 1 has the forbidden step \('b', 'a'\)"):
        SAGCRF(Tree(forbidden=[("b", "a")])).fit(X, y)
    with pytest.raises(ValueError, match="no first and last node"):
        SAGCRF(Tree(forbidden=[(None, "a")])).fit(X, y)
    with pytest.raises(ValueError, match="tagging schemes are for chains"):
        SAGCRF(Tree(forbidden="iob2")).fit(X, y)


def test_orientation_and_order_of_edges_do_not_matter():
    rng = np.random.default_rng(5)
    X, y = _random_trees(rng, 12, 7, forest=True)
    crf = SAGCRF(Tree(edge_features=True), tol=1e-3, solver="lbfgs").fit(X, y)
    turned = []
    for features, parents, edge_features in X:
        children = np.flatnonzero(parents >= 0)
        order = rng.permutation(len(children))
        edges = np.stack([parents[children], children], axis=1)[order]
        turned.append((features, edges, edge_features[order]))
    for a, b in zip(crf.predict_marginals(X), crf.predict_marginals(turned), strict=True):
        assert_allclose(a, b, atol=1e-12)
    nodes, edges = crf.predict_marginals(X, pairwise=True)
    for (_, parents, _), mu, tables in zip(X, nodes, edges, strict=True):
        children = np.flatnonzero(parents >= 0)
        assert len(tables) == len(children)
        for child, table in zip(children, tables, strict=True):
            assert_allclose(table.sum(axis=0), mu[child], atol=1e-9)
            assert_allclose(table.sum(axis=1), mu[parents[child]], atol=1e-9)
    labels, scores = crf.predict_top_k(X, 3)
    for sample, rows, values in zip(X, labels, scores, strict=True):
        for row, value in zip(rows, values, strict=True):
            assert_allclose(explain(crf, sample, row)["contribution"].sum(), value)


@pytest.mark.slow
def test_a_very_deep_and_a_very_wide_tree_decode():
    rng = np.random.default_rng(0)
    n = 100_000
    small = [(rng.normal(size=(5, 3)), [-1, 0, 1, 1, 0]) for _ in range(6)]
    y = [LABELS[rng.integers(0, 3, 5)] for _ in range(6)]
    crf = SAGCRF(Tree(), tol=1e-2, solver="lbfgs").fit(small, y)
    features = rng.normal(size=(n, 3))
    for parents in (np.arange(n) - 1, np.where(np.arange(n) == 0, -1, 0)):
        sample = [(features, parents)]
        # A recursion would overflow the stack, a quadratic step take hours.
        labels = crf.predict(sample)[0]
        value = crf.predict_top_k(sample, 1)[1][0][0]
        assert_allclose(explain(crf, sample[0], labels)["contribution"].sum(), value)
        assert_allclose(crf.predict_marginals(sample)[0].sum(axis=1), 1, atol=1e-9)


@pytest.mark.parametrize(
    ("structure", "match"),
    [
        ([-1, 0], "sample 1 has 3 nodes, but 2 parents"),
        ([1, 2, 0], "edges of sample 1 have a cycle"),
        ([[0, 1], [1, 0]], "edges of sample 1 have a cycle"),
        ([[0, 1], [1, 3]], r"sample 1 has the edge \(1, 3\), but its nodes are 0 to 2"),
        ([-1, 0, -2], "but its nodes are 0 to 2"),
        ([0, 0, 0], "edge from node 0 to itself"),
        ([[0, 1, 2]], "have 3 columns, not 2"),
        ([-1.0, 0.0, 1.0], "must be integers"),
        ([-1, 0, -1], r"sample 1 has 2 roots: expected one"),
    ],
)
def test_bad_structures(structure, match):
    x = np.ones((3, 2))
    X, y = [(x, [-1, 0, 1]), (x, structure)], [["a", "b", "a"], ["b", "a", "b"]]
    with pytest.raises(ValueError, match=match):
        SAGCRF(Tree(forest=False)).fit(X, y)


def test_bad_samples():
    x = np.ones((3, 2))
    y = [["a", "b", "a"]]
    with pytest.raises(
        ValueError, match=r"sample 0 must be a tuple \(features, parents or edges\)"
    ):
        SAGCRF(Tree()).fit([x], y)
    with pytest.raises(ValueError, match="use Chain"):
        SAGCRF().fit([(x, [-1, 0, 0])], y)
    with pytest.raises(ValueError, match="and 2 edges, but 1 rows of edge features"):
        SAGCRF(Tree(edge_features=True)).fit([(x, [-1, 0, 0], np.ones((1, 2)))], y)
    crf = SAGCRF(Tree(), tol=1e-1, solver="lbfgs").fit(
        [(x, [-1, 0, 0]), (np.eye(3)[:, :2], [-1, 0, 0])], y * 2
    )
    assert [len(row) for row in crf.predict([(x, [-1, 0, 0]), (x[:0], [])])] == [3, 0]


@pytest.mark.parametrize("form", ["parents", "edges"])
def test_packed_trees_have_no_types(form):
    """Nor have shards of trees that were packed before: they must stay readable."""
    X, _ = _random_trees(np.random.default_rng(0), form=form)
    holder = BCFWSSVM(Tree())
    samples = Tree().read_X(holder, [x[:2] for x in X], reset=True)
    assert samples.types is None
    assert Tree().no_samples(holder).types is None


def test_cycles_in_packed_samples():
    """Such as those of a damaged file."""
    graph, holder = Tree(), BCFWSSVM(Tree())
    samples = graph.read_X(holder, [(np.ones((3, 2)), [[0, 1], [1, 2]])], reset=True)
    edges, ends = np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32), np.array([0, 3])
    with pytest.raises(ValueError, match="X: sample 0 has a cycle"):
        graph.make_problem(samples._replace(edges=edges, edge_ptr=ends), np.array(["a", "b"]), True)

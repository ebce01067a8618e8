"""MultiLabel(hierarchy=...): implications between labels, against enumeration."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, MultiLabel
from skstruct.testing import all_labellings, check_structure
from tests.helpers.multilabel_cases import make_labels

FOREST = [(1, 0), (2, 0), (4, 3)]
TWO_PARENTS = [(1, 0), (1, 2), (2, 0)]
GRAPHS = {
    "alone": MultiLabel(hierarchy=FOREST),
    "tree": MultiLabel("tree", hierarchy=FOREST),
    "given": MultiLabel([[0, 1], [3, 2]], hierarchy=FOREST),
    "full": MultiLabel("full", hierarchy=FOREST),
    "two parents": MultiLabel(hierarchy=TWO_PARENTS),
}


def _table(hierarchy=FOREST, n_samples=60, n_labels=5, seed=0):
    """Label sets that obey a hierarchy whose parents are labels of smaller numbers, or listed."""
    X, Y = make_labels(seed, n_samples=n_samples, n_labels=n_labels)
    for _ in range(n_labels):
        for child, parent in hierarchy:
            Y[:, parent] |= Y[:, child]
    return X, Y


def _allowed(hierarchy, n=5):
    """All label sets that obey it."""
    labellings = all_labellings(n, 2)
    child, parent = np.array(hierarchy).T
    return labellings[(labellings[:, child] <= labellings[:, parent]).all(axis=1)]


@pytest.mark.plain
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_operations(name, tables):
    graph = clone(GRAPHS[name]).set_params(tables=tables)
    check_structure(graph, *_table(graph.hierarchy, n_samples=3), loss=[[0.0, 1.0], [3.0, 0.0]])


@pytest.mark.plain
@settings(max_examples=25)
@given(st.data())
def test_drawn_forests(data):
    n = data.draw(st.integers(2, 6))
    parents = [data.draw(st.integers(-1, j - 1)) for j in range(n)]
    order = data.draw(st.permutations(range(n)))
    hierarchy = [(order[j], order[p]) for j, p in enumerate(parents) if p >= 0]
    edges = data.draw(st.sampled_from([None, "tree", "full"]))
    X, Y = _table(hierarchy, 3, n, seed=data.draw(st.integers(0, 99)))
    check_structure(MultiLabel(edges, hierarchy=hierarchy), X, Y)


def _scores(model, x, labellings):
    total = labellings @ (x @ model.coef_.T + model.intercept_)
    for (j, k), pair in zip(model.graph_.edges_, model.pairwise_coef_, strict=True):
        total = total + pair * labellings[:, j] * labellings[:, k]
    return total


@pytest.mark.parametrize("name", GRAPHS)
def test_predictions_by_enumeration(name):
    graph = GRAPHS[name]
    X, Y = _table(graph.hierarchy)
    crf = SAGCRF(graph, C=0.1, tol=1e-6, max_iter=500, solver="lbfgs").fit(X, Y)
    labellings = _allowed(graph.hierarchy)
    new = 3 * np.random.default_rng(1).normal(size=(8, X.shape[1]))
    probabilities, predicted = crf.predict_proba(new), crf.predict(new)
    best, values = crf.predict_top_k(new, 40)
    for i, x in enumerate(new):
        scores = _scores(crf, x, labellings)
        weight = np.exp(scores - scores.max())
        assert_allclose(probabilities[i], weight @ labellings / weight.sum(), atol=1e-9)
        assert_array_equal(predicted[i], labellings[scores.argmax()])
        assert_allclose(values[i], np.sort(scores)[::-1], atol=1e-9)
        assert {*map(tuple, best[i])} == {*map(tuple, labellings)}
        truth = crf.predict_log_likelihood(new[[i]], labellings[[3]])[0]
        assert_allclose(truth, scores[3] - scores.max() - np.log(weight.sum()), atol=1e-9)
    broken = np.array([[0, 1, 0, 0, 0]])
    assert crf.predict_log_likelihood(new[:1], broken)[0] == -np.inf
    drawn = np.vstack(crf.sample(new, 20, random_state=0))
    assert {*map(tuple, drawn)} <= {*map(tuple, labellings)}


@pytest.mark.parametrize("name", ["tree", "full"])
def test_two_solvers_reach_one_optimum(name):
    graph = GRAPHS[name]
    X, Y = _table()
    exact = SAGCRF(graph, C=0.5, tol=1e-9, max_iter=2000, solver="lbfgs").fit(X, Y)
    crf = SAGCRF(graph, C=0.5, tol=1e-4, max_iter=2000, random_state=0).fit(X, Y)
    assert crf.objective_ - crf.dual_gap_ <= exact.objective_ <= crf.objective_
    svm = BCFWSSVM(graph, C=0.5, tol=1e-4, max_iter=2000, random_state=0).fit(X, Y)
    if name == "tree":
        other = CasimirSSVM(graph, C=0.5, tol=1e-4, max_iter=2000, random_state=0).fit(X, Y)
        assert other.objective_ - other.dual_gap_ <= svm.objective_
        assert svm.objective_ - svm.dual_gap_ <= other.objective_
    labellings = _allowed(FOREST)
    hinge = []
    for x, y in zip(X, Y, strict=True):
        scores = _scores(svm, x, np.vstack([y, labellings]))
        hinge.append((scores[1:] + (labellings != y).sum(axis=1)).max() - scores[0])
    norm = (svm.node_weights_**2).sum() + (svm.pair_weights_**2).sum()
    expected = norm / (2 * svm.C * len(X)) + np.mean(hinge)
    assert_allclose(svm.objective_, expected, rtol=1e-9)


def test_the_tree_contains_the_hierarchy():
    X, Y = _table()
    graph = BCFWSSVM(GRAPHS["tree"], max_iter=1, tol=9.0).fit(X, Y).graph_
    assert graph.edges_[:3].tolist() == graph.hierarchy_.tolist() == [list(p) for p in FOREST]
    assert len(graph.edges_) == 4
    given = BCFWSSVM(GRAPHS["given"], max_iter=1, tol=9.0).fit(X, Y).graph_
    assert given.edges_.tolist() == [[1, 0], [2, 0], [4, 3], [3, 2]]


@pytest.mark.parametrize("name", ["tree", "full"])
def test_partial_labels(name):
    X, Y = _table()
    labels = Y.astype(float)
    labels[::3, 0] = np.nan  # the parent of some that are on
    crf = SAGCRF(GRAPHS[name], random_state=0).fit(X, labels)
    labellings = _allowed(FOREST)
    for i in (0, 3, 6):
        scores = _scores(crf, X[i], labellings)
        fits = (labellings[:, 1:] == Y[i, 1:]).all(axis=1)
        expected = np.logaddexp.reduce(scores[fits]) - np.logaddexp.reduce(scores)
        assert_allclose(crf.predict_log_likelihood(X[[i]], labels[[i]]), expected, atol=1e-9)
    BCFWSSVM(GRAPHS[name], random_state=0, tol=0.1).fit(X, labels)
    labels[0] = [0, 1, np.nan, 0, 0]
    with pytest.raises(ValueError, match="agrees with the labels of sample 0"):
        SAGCRF(GRAPHS[name]).fit(X, labels)


def test_names_of_columns_pickles_and_searches():
    X, Y = _table()
    frame = pd.DataFrame(Y, columns=[*"abcde"])
    graph = MultiLabel("tree", hierarchy=[("b", "a"), ("c", "a"), (4, 3)])
    crf = SAGCRF(graph, random_state=0).fit(X, frame)
    same = SAGCRF(GRAPHS["tree"], random_state=0).fit(X, Y)
    assert_array_equal(crf.node_weights_, same.node_weights_)
    again = pickle.loads(pickle.dumps(crf))
    assert_array_equal(again.predict(X), crf.predict(X))
    grid = {"graph__hierarchy": [None, FOREST]}
    search = GridSearchCV(SAGCRF(MultiLabel("tree"), tol=0.1), grid, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    frame.loc[7, ["a", "b"]] = 0, 1
    with pytest.raises(ValueError, match=r"sample 7 has the label 'b' without its parent 'a'"):
        SAGCRF(graph).fit(X, frame)


BAD = {
    "hierarchy must be a list of pairs .*, got 5": 5,
    "row 1 is 'ba', not a pair": [(1, 0), "ba"],
    r"row 0 names the label 'x', but the columns of y are not named": [("x", 0)],
    r"row 0 is \[5, 0\], but labels are 0 to 4": [(5, 0)],
    "row 0 joins label 2 to itself": [(2, 2)],
    r"row 1, \[1, 0\], occurs twice": [(1, 0), (1, 0)],
    "hierarchy: 1 -> 0 -> 1 is a cycle": [(1, 0), (0, 1)],
    "hierarchy: 2 -> 4 -> 3 -> 2 is a cycle": [(2, 4), (4, 3), (3, 2), (1, 0)],
    "hierarchy must be integers": [(0.5, 1)],
    r"edges='tree'.*the pair \(2, 0\) closes a cycle": TWO_PARENTS,
}


@pytest.mark.parametrize("message", BAD)
def test_bad_pairs(message):
    X, Y = _table()
    with pytest.raises(ValueError, match=message):
        SAGCRF(MultiLabel("tree", hierarchy=BAD[message])).fit(X, Y)


def test_names_of_several_columns_and_labels_without_parents():
    X, Y = np.eye(2), np.array([[1, 0, 0], [0, 1, 1]])
    frame = pd.DataFrame(Y, columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="row 0: several columns of y are named 'a'"):
        SAGCRF(MultiLabel(hierarchy=[("b", "a")])).fit(X, frame)
    named = pd.DataFrame(Y, columns=["a", "c", "b"])
    with pytest.raises(ValueError, match="hierarchy: b -> a -> b is a cycle"):
        SAGCRF(MultiLabel(hierarchy=[("b", "a"), ("a", "b")])).fit(X, named)
    for hierarchy in (iter([(0, 1)]), np.array([[0, 1]])):
        with pytest.raises(ValueError, match="sample 0 has the label 0 without its parent 1"):
            SAGCRF(MultiLabel(hierarchy=hierarchy)).fit(X, Y)


@pytest.mark.parametrize("change", [None, np.array([[0, 1]]), np.zeros((40, 2), dtype=np.int32)])
def test_a_damaged_hierarchy(change):
    crf = SAGCRF(MultiLabel(hierarchy=FOREST), max_iter=1, tol=1e9).fit(*_table())
    crf.graph_.hierarchy_ = change
    with pytest.raises(ValueError, match=r"graph_.hierarchy_ must be"):
        crf.predict(_table()[0])


def test_what_is_refused():
    X, Y = _table(TWO_PARENTS, n_labels=18)
    with pytest.raises(ValueError, match=r"more than 16 labels.* \(2, 0\) closes a cycle"):
        BCFWSSVM(MultiLabel(hierarchy=TWO_PARENTS)).fit(X, Y)
    with pytest.raises(ValueError, match="inference='relaxed' does not keep"):
        BCFWSSVM(MultiLabel(hierarchy=FOREST, inference="relaxed")).fit(*_table())
    with pytest.raises(TypeError, match=r"GDMMSSVM does not take MultiLabel\(hierarchy"):
        GDMMSSVM(MultiLabel(hierarchy=FOREST)).fit(*_table())


def test_many_labels_with_loops_are_enumerated():
    X, Y = _table(n_labels=9)
    svm = BCFWSSVM(MultiLabel("full", hierarchy=FOREST), max_iter=3, tol=9.0).fit(X, Y)
    svm.coef_[1] += 5.0
    predicted = svm.predict(X)
    assert (predicted[:, 1] <= predicted[:, 0]).all()
    labellings = _allowed(FOREST, 9)
    for i in range(5):
        scores = _scores(svm, X[i], labellings)
        assert_array_equal(predicted[i], labellings[scores.argmax()])


def test_names_of_columns_where_labels_are_missing():
    pd = pytest.importorskip("pandas")
    Y = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1]], dtype=float)
    Y[0, 2] = np.nan
    frame = pd.DataFrame(Y, columns=["cat", "mammal", "tree"])
    model = SAGCRF(MultiLabel(hierarchy=[("cat", "mammal")]), random_state=0).fit(np.eye(4), frame)
    assert model.graph_.hierarchy_.tolist() == [[0, 1]]

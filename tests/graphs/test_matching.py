"""Matchings: oracles, losses, every estimator, bad input."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, Matching
from skstruct.core.oracles import max_oracle, task_loss
from skstruct.testing import training_problem


def matchings(sizes, degree=1, null=True):
    """Labellings of all pairs of samples of these sizes, no two of which have as many pairs."""
    every = []
    for n, m in sizes:
        for codes in product([0, 1], repeat=n * m):
            pairs = np.reshape(codes, (n, m))
            rows, columns = pairs.sum(axis=1), pairs.sum(axis=0)
            needed = rows if n <= m else columns
            if max(rows.max(), columns.max()) <= degree and (null or needed.min() > 0):
                every.append(codes)
    return every


def draw(rng, n_samples=20, n_features=4, sizes=None, noise=1.0):
    """Pairs, and the best assignment by noisy scores, as links."""
    w = np.arange(1.0, n_features + 1)
    X, y = [], []
    for _ in range(n_samples):
        n, m = rng.integers(1, 6, size=2) if sizes is None else sizes
        X.append(rng.normal(size=(n, m, n_features)))
        scores = X[-1] @ w + noise * rng.normal(size=(n, m))
        links = []
        while scores.max() > 0:
            links.append(np.unravel_index(scores.argmax(), scores.shape))
            scores[links[-1][0]] = scores[:, links[-1][1]] = -1.0
        y.append(np.array(links, dtype=int).reshape(-1, 2))
    return X, y


@given(
    seed=st.integers(0, 10**6),
    degree=st.integers(1, 2),
    null=st.booleans(),
    costs=st.sampled_from([(1.0, 1.0), (0.3, 0.7), (3.0, 0.1), (0.0, 1.0), (1.0, 0.0)]),
)
def test_a_repaired_reference_has_the_least_loss(seed, degree, null, costs):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 4, size=2)
    pairs = rng.integers(0, 3, size=(n, m))
    graph = Matching(max_degree=degree, null=null, repair=True)
    problem, *_ = training_problem(
        graph,
        [np.ones((n, m, 1))],
        [(pairs == 1, pairs == 2)],
        loss={1: costs[0], 0: costs[1]},
    )
    missed, extra = costs
    losses = []
    for codes in matchings([(n, m)], degree, null):
        linked = np.reshape(codes, (n, m)) == 1
        loss = missed * (~linked & (pairs == 1)).sum() + extra * (linked & (pairs == 0)).sum()
        losses.append((loss, task_loss(problem, 0, np.array(codes, dtype=np.int32))))
    whole, taken = np.array(losses).T
    np.testing.assert_allclose(taken, whole - whole.min(), atol=1e-12)
    assert task_loss(problem, 0, problem.labels) == 0.0
    if (
        null
        and degree == 1
        and (pairs == 1).sum(axis=0).max() <= 1 >= (pairs == 1).sum(axis=1).max()
    ):
        np.testing.assert_array_equal(problem.labels.reshape(n, m), pairs == 1)


def test_memory_of_samples_changes_no_answer():
    rng = np.random.default_rng(2)
    X, y = draw(rng, 1, sizes=(6, 7))
    warm, *_ = training_problem(Matching(), X, y)
    for step in (1.0, 0.0, 0.01, 1.0, 1.0, 0.0):
        theta = step * rng.integers(-2, 3, size=43).astype(float)
        theta[-1] = 0.5
        cold, *_ = training_problem(Matching(), X, y)
        labels = np.zeros((2, 42), dtype=np.int32)
        values = [max_oracle(p, 0, theta, row) for p, row in zip((warm, cold), labels, strict=True)]
        assert values[0] == values[1]
        np.testing.assert_array_equal(labels[0], labels[1])


@pytest.mark.parametrize(
    ("degree", "null", "repair"), [(1, True, False), (1, False, True), (2, True, False)]
)
def test_bcfw_certifies_its_optimum(degree, null, repair):
    # Other solvers reach it, of links one to one, in test_certificates.py.
    graph = Matching(max_degree=degree, null=null, repair=repair)
    X, y = draw(np.random.default_rng(3))
    loss = {1: 2.0, 0: 0.5}
    bcfw = BCFWSSVM(graph, loss=loss, tol=1e-4, max_iter=1000, random_state=0).fit(X, y)
    dual = bcfw.objective_ - bcfw.dual_gap_
    assert 0.0 < dual <= bcfw.objective_
    assert bcfw.dual_gap_ <= 1e-4 * bcfw.objective_


def test_forms_of_links_are_one():
    X, y = draw(np.random.default_rng(4))
    dense = [np.zeros(x.shape[:2], dtype=bool) for x in X]
    targets = [np.full(len(x), -1) for x in X]
    for links, matrix, row in zip(y, dense, targets, strict=True):
        matrix[tuple(links.T)] = True
        row[links[:, 0]] = links[:, 1]
    tables = [(sparse.csr_matrix(x.reshape(-1, 4)), x.shape[:2]) for x in X]
    nothing = [(links, np.empty((0, 2), dtype=int)) for links in y]
    svm = BCFWSSVM(Matching(), random_state=0, max_iter=5, tol=0.5)
    first = svm.fit(X, y).coef_.copy()
    for form in (dense, targets, [t.tolist() for t in targets], nothing):
        np.testing.assert_array_equal(svm.fit(X, form).coef_, first)
        assert svm.score(X, form) == svm.score(X, y)
    for left, right in zip(svm.predict(tables), svm.predict(X), strict=True):
        np.testing.assert_array_equal(left, right)


def test_predictions_scores_and_n_best():
    X, y = draw(np.random.default_rng(5), noise=0.1)
    svm = BCFWSSVM(Matching(), C=10.0, random_state=0).fit(X, y)
    predicted, scores = svm.predict(X), svm.decision_function(X)
    ranked, values = svm.predict_top_k(X, 3)
    hits = total = 0
    for x, links, s, best, value, true in zip(X, predicted, scores, ranked, values, y, strict=True):
        np.testing.assert_allclose(s, x @ svm.coef_[0] + svm.intercept_[0])
        assert links.shape[1] == 2
        np.testing.assert_array_equal(best[0], links)
        np.testing.assert_allclose([s[tuple(b.T)].sum() for b in best], value, atol=1e-9)
        if s.size <= 12:
            every = sorted((s.ravel() @ codes for codes in matchings([s.shape])), reverse=True)
            np.testing.assert_allclose(value, every[:3], atol=1e-9)
        hits += len({*map(tuple, links.tolist())} & {*map(tuple, true.tolist())})
        total += len(links) + len(true)
    assert svm.score(X, y) == pytest.approx(2 * hits / total)
    assert svm.score(X, y) > 0.7


def test_score_counts_possible_links():
    X = [np.eye(2)[:, :, None]]
    svm = BCFWSSVM(Matching(), C=100.0, random_state=0).fit(X, [[(0, 0), (1, 1)]])
    assert svm.predict(X)[0].tolist() == [[0, 0], [1, 1]]
    # Precision 2 / 2, recall 1 / 1; then 1 / 2 and 1 / 1; then 1 / 2 and 1 / 2.
    assert svm.score(X, [([(0, 0)], [(1, 1)])]) == 1.0
    assert svm.score(X, [([(0, 0)], [])]) == pytest.approx(2 / 3)
    assert svm.score(X, [([(0, 0), (0, 1)], [])]) == pytest.approx(0.5)
    assert svm.score(X, [[]]) == 0.0


def test_masks_forbid_links():
    X, y = draw(np.random.default_rng(6))
    svm = BCFWSSVM(Matching(), C=10.0, random_state=0).fit(X, y)
    masks = [np.arange(x.shape[1]) == np.zeros((len(x), 1)) for x in X]
    for links, x in zip(svm.predict(X, allowed=masks), X, strict=True):
        assert len(links) <= 1
        assert not links[:, 1].any()
        assert len(x)
    with pytest.raises(ValueError, match="allowed: sample 0 must be a boolean mask of shape"):
        svm.predict(X, allowed=[masks[0].T[:, :0], *masks[1:]])
    whole = BCFWSSVM(Matching(null=False, repair=True), random_state=0).fit(X, y)
    masks[1][:] = False
    with pytest.raises(ValueError, match="no labelling satisfies"):
        whole.predict(X, allowed=masks)


def test_threads_grid_search_and_pickles():
    X, y = draw(np.random.default_rng(7))
    search = GridSearchCV(
        BCFWSSVM(Matching(repair=True), random_state=0),
        {"C": [0.01, 1.0], "graph__max_degree": [1, 2]},
        cv=3,
    )
    search.fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    many = X * 60
    for left, right in zip(
        again.predict(many), search.best_estimator_.set_params(n_jobs=2).predict(many), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_what_needs_more_structure_says_so():
    X, y = draw(np.random.default_rng(8))
    with pytest.raises(TypeError, match=r"Matching has no marginals; .*#P-hard"):
        SAGCRF(Matching()).fit(X, y)
    with pytest.raises(TypeError, match="Matching"):
        GDMMSSVM(Matching()).fit(X, y)


X1 = np.ones((2, 3, 2))


@pytest.mark.parametrize(
    ("graph", "X", "y", "message"),
    [
        (Matching(), [X1, np.ones((0, 3, 2))], [[], []], "X: sample 1 has no sources"),
        (Matching(), [X1, np.ones((3, 0, 2))], [[], []], "X: sample 1 has no targets"),
        (Matching(), [X1, np.ones((3, 1, 4))], [[], []], "X: sample 1 has 4 features"),
        (Matching(), [X1, np.ones((3, 1))], [[], []], "X: sample 1 must be of shape"),
        (Matching(), [(np.ones((5, 2)), (2, 3))], [[]], r"X: sample 0 .* need \(6, n_features\)"),
        (Matching(), [(np.ones((6, 2)), 6)], [[]], "X: sample 0 is a tuple"),
        (Matching(), [sparse.eye(6, format="csr")], [[]], "X: sample 0 is a sparse matrix"),
        (Matching(), [X1 * np.nan], [[]], "sample 0"),
        (Matching(), [X1], [[], []], "X has 1 samples, but y has 2"),
        (Matching(), [X1], [[(0, 3)]], r"y: sample 0 has the link \(0, 3\), but 2 sources"),
        (Matching(), [X1], [[(0, -1)]], r"y: sample 0 has the link \(0, -1\)"),
        (Matching(), [X1], [[0, 3]], r"y: sample 0 has the link \(1, 3\)"),
        (Matching(), [X1], [[0, -2]], "y: sample 0 has the target -2"),
        (Matching(), [X1], [[0]], "y: sample 0 has 1 targets for 2 sources"),
        (Matching(), [X1, X1], [[], [(0, 0), (1,)]], "y: sample 1: its links are not all of two"),
        (Matching(), [X1], [[0.0, 1.0]], "y: sample 0 must be integers"),
        (Matching(), [X1], [np.ones((3, 2), bool)], "booleans of shape"),
        (Matching(), [X1], [([(0, 0)],)], "y: sample 0 is a tuple"),
        (Matching(), [X1], [([(0, 0)], [(2, 0)])], "the possible links of sample 0"),
        (Matching(), [X1], [[(0, 0), (0, 1)]], "y: sample 0: source 0 has 2 sure links"),
        (Matching(), [X1], [[(0, 0), (1, 0)]], "y: sample 0: target 0 has 2 sure links"),
        (Matching(null=False), [X1], [[(0, 0)]], "y: sample 0: source 1 has no sure link"),
        (Matching(2), [X1], [np.ones((2, 3), bool)], "source 0 has 3 sure links, but max_degree"),
        (Matching(0), [X1], [[]], "max_degree must be an integer"),
        (Matching(null=None), [X1], [[]], "null must be True or False"),
        (Matching(repair=2), [X1], [[]], "repair must be True or False"),
    ],
)
def test_bad_input_is_named(graph, X, y, message):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(graph).fit(X, y)


@pytest.mark.parametrize("loss", ["iou", {2: 1.0}, {1: -1.0}])
def test_losses_that_matchings_do_not_have(loss):
    with pytest.raises(ValueError, match="loss"):
        BCFWSSVM(Matching(), loss=loss).fit([X1], [[(0, 0)]])

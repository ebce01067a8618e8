"""MultiLabel: oracles, reading, and what estimators make of it."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, MultiLabel
from skstruct.testing import all_labellings, check_structure
from tests.helpers.multilabel_cases import make_labels

GRAPHS = {
    "none": {},
    "tree": {"edges": "tree"},
    "one edge, turned": {"edges": [[2, 1]]},
    "forest": {"edges": [[3, 0], [1, 4]]},
    "cycle": {"edges": [[0, 1], [2, 1], [0, 2]]},
    "full": {"edges": "full"},
    "relaxed": {"edges": "full", "inference": "relaxed"},
}
LOSSES = {
    "hamming": "hamming",
    "normalized": "normalized_hamming",
    "misses cost more": [[0.0, 1.0], [3.0, 0.0]],
}


@pytest.fixture(scope="module")
def table():
    return make_labels()


@pytest.mark.plain
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("options", GRAPHS.values(), ids=GRAPHS)
def test_verbs(options, loss, tables):
    X, Y = make_labels(n_samples=4)
    check_structure(MultiLabel(**options, tables=tables), X, Y, loss=loss)


@pytest.mark.plain
def test_verbs_of_many_labels_by_flow():
    X, Y = make_labels(n_samples=2, n_labels=9)
    check_structure(MultiLabel("full"), X, Y)
    check_structure(MultiLabel("full", inference="relaxed", tables=True), X, Y)


def test_attractive_interactions_are_exact_beyond_enumeration():
    X, Y = make_labels(n_samples=30, n_labels=18)
    edges = [(j, (j + s) % 18) for j in range(18) for s in (1, 5)]
    svm = BCFWSSVM(MultiLabel(edges), max_iter=30, tol=0.5, random_state=0).fit(X, Y)
    svm.pairwise_coef_[:] = np.abs(svm.pairwise_coef_)
    predicted = svm.predict(X[:3])
    labellings = all_labellings(18, 2)
    unary = X[:3] @ svm.coef_.T + svm.intercept_
    both = labellings[:, svm.graph_.edges_[:, 0]] * labellings[:, svm.graph_.edges_[:, 1]]
    for i in range(3):
        scores = labellings @ unary[i] + both @ svm.pairwise_coef_
        chosen = (labellings == predicted[i]).all(axis=1)
        assert_allclose(scores[chosen], scores.max(), rtol=1e-9)


def test_crf_without_edges_is_logistic_regression(table):
    X, Y = table
    crf = SAGCRF(MultiLabel(), C=0.7, tol=1e-12, max_iter=5000, solver="lbfgs").fit(X, Y)
    Xc = np.hstack([X, np.ones((len(X), 1))])
    for j in range(Y.shape[1]):
        one = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-12, max_iter=10000)
        one.fit(Xc, Y[:, j])
        assert_allclose(np.append(crf.coef_[j], crf.intercept_[j]), one.coef_[0], atol=1e-5)
        assert_allclose(crf.predict_proba(X)[:, j], one.predict_proba(Xc)[:, 1], atol=1e-5)


@pytest.mark.parametrize("estimator", [BCFWSSVM, GDMMSSVM])
def test_ssvm_without_edges_is_linear_svc(estimator, table):
    X, Y = table
    svm = estimator(MultiLabel(), C=0.2, tol=1e-7, max_iter=50000, random_state=0).fit(X, Y)
    Xc = np.hstack([X, np.ones((len(X), 1))])
    kind = {"loss": "hinge", "fit_intercept": False, "tol": 1e-9, "max_iter": 10**6}
    one = OneVsRestClassifier(LinearSVC(C=0.2, random_state=0, **kind)).fit(Xc, Y)
    expected = np.vstack([binary.coef_ for binary in one.estimators_])
    assert_allclose(np.column_stack([svm.coef_, svm.intercept_]), expected, atol=2e-3)


def _scores(model, x, labellings, tables):
    graph = model.graph_
    total = labellings @ (x @ model.coef_.T + model.intercept_)
    for (j, k), pair in zip(graph.edges_, model.pairwise_coef_, strict=True):
        a, b = labellings[:, j], labellings[:, k]
        total = total + (pair[a, b] if tables else pair * a * b)
    return total


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("name", ["none", "tree", "full"])
def test_predictions_by_enumeration(name, tables, table):
    X, Y = table
    graph = MultiLabel(**GRAPHS[name], tables=tables)
    crf = SAGCRF(graph, tol=1e-6, max_iter=500, solver="lbfgs").fit(X, Y)
    labellings = all_labellings(5, 2)
    probabilities, predicted = crf.predict_proba(X[:8]), crf.predict(X[:8])
    best, values = crf.predict_top_k(X[:8], 3)
    for i in range(8):
        scores = _scores(crf, X[i], labellings, tables)
        weight = np.exp(scores - scores.max())
        assert_allclose(probabilities[i], weight @ labellings / weight.sum(), atol=1e-9)
        assert_array_equal(predicted[i], labellings[scores.argmax()])
        assert_allclose(values[i], np.sort(scores)[::-1][:3], atol=1e-9)
        assert_array_equal(best[i][0], predicted[i])
    likelihood = crf.predict_log_likelihood(X, Y)
    assert_allclose(crf.objective_, _crf_objective(crf, likelihood), rtol=1e-9)
    assert predicted.shape == (8, 5)
    decision = crf.decision_function(X)
    assert_array_equal(decision > 0, crf.predict(X) == 1)
    assert 0.5 < roc_auc_score(Y, decision) <= 1.0


def _crf_objective(crf, likelihood):
    norm = (crf.node_weights_**2).sum() + (crf.pair_weights_**2).sum()
    return (0.5 * norm - crf.C * likelihood.sum()) / (crf.C * likelihood.size)


def test_without_an_exact_oracle_the_others_say_what_to_use(table):
    X, Y = table
    graph = MultiLabel("full", inference="relaxed")
    with pytest.raises(TypeError, match="train a structural SVM"):
        SAGCRF(graph).fit(X, Y)
    with pytest.raises(TypeError, match="use BCFWSSVM"):
        CasimirSSVM(graph).fit(X, Y)


def test_chow_liu_finds_the_tree():
    rng = np.random.default_rng(0)
    links = [(0, 3), (3, 1), (3, 4), (4, 2)]
    Y = np.zeros((3000, 5), dtype=int)
    Y[:, 0] = rng.random(3000) < 0.5
    for a, b in links:
        Y[:, b] = np.where(rng.random(3000) < 0.9, Y[:, a], 1 - Y[:, a])
    svm = BCFWSSVM(MultiLabel("tree"), max_iter=1, tol=10.0).fit(rng.normal(size=(3000, 2)), Y)
    assert {tuple(edge) for edge in svm.graph_.edges_.tolist()} == {(0, 3), (1, 3), (3, 4), (2, 4)}


def test_containers_pickles_and_searches(table):
    X, Y = table
    svm = BCFWSSVM(MultiLabel("tree"), C=0.1, random_state=0).fit(X, Y)
    forms = [
        (X, sparse.csr_matrix(Y)),
        (X.tolist(), Y.astype(bool)),
        (np.asfortranarray(X), Y.astype(float)),
    ]
    for X_form, Y_form in forms:
        again = BCFWSSVM(MultiLabel("tree"), C=0.1, random_state=0).fit(X_form, Y_form)
        assert_allclose(again.objective_, svm.objective_, rtol=1e-2)
        assert again.predict(X_form).shape == Y.shape
    assert_array_equal(pickle.loads(pickle.dumps(svm)).predict(X), svm.predict(X))
    assert_array_equal(svm.predict(sparse.csr_matrix(X)), svm.predict(X))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), BCFWSSVM(MultiLabel(), random_state=0)),
        {"bcfwssvm__C": [0.01, 0.1], "bcfwssvm__graph__edges": [None, "tree"]},
        cv=3,
        scoring="f1_micro",
    ).fit(X, Y)
    assert 0.5 < search.best_score_ <= 1.0
    automatic = SAGCRF(tol=1e-2, solver="lbfgs").fit(X, Y)
    assert isinstance(automatic.graph_, MultiLabel)
    assert automatic.score(X, Y) == (automatic.predict(X) == Y).mean()


def test_samples_without_labels_and_sample_weights(table):
    X, Y = table
    Y = Y.copy()
    Y[:5] = 0
    weight = np.arange(len(X)) % 3
    options = {"C": 0.2, "tol": 1e-6, "max_iter": 20000, "random_state": 0}
    weighted = BCFWSSVM(MultiLabel("tree"), **options).fit(X, Y, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    repeated = BCFWSSVM(MultiLabel("tree"), **options).fit(X[rows], Y[rows])
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-5)
    assert weighted.predict(X).shape == Y.shape


def test_constrained_decoding(table):
    X, Y = table
    for graph in (MultiLabel(), MultiLabel("tree"), MultiLabel("full"), MultiLabel("full", True)):
        svm = BCFWSSVM(graph, C=0.3, random_state=0).fit(X, Y)
        allowed = np.ones((len(X), 5, 2), dtype=bool)
        allowed[:, 0, 0] = False  # must be on
        allowed[:, 1, 1] = False  # must be off
        predicted = svm.predict(X, allowed=allowed)
        labellings = all_labellings(5, 2)
        labellings = labellings[(labellings[:, 0] == 1) & (labellings[:, 1] == 0)]
        for i in range(5):
            scores = _scores(svm, X[i], labellings, svm.graph_.tables)
            assert_array_equal(predicted[i], labellings[scores.argmax()])
        with pytest.raises(ValueError, match="allowed must be of shape"):
            svm.predict(X, allowed=allowed[:, :4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y: Y * 2, r"y: sample \d+, label \d is 2, expected 0 or 1"),
        (lambda Y: Y[:, :1], "y has 1 label columns, but MultiLabel needs at least two"),
        (lambda Y: Y[:-1], "inconsistent numbers of samples"),
        (lambda Y: Y[:, 0], "y must be an indicator table"),
        (
            lambda Y: np.where(Y, "a", "b"),
            "y must hold zeros .* MultiLabelB.* pd.get_dumm",
        ),
        (lambda Y: np.where(Y, np.inf, 0.0), "is inf, expected 0 or 1"),
        (lambda Y: None, "requires y to be passed"),
    ],
)
def test_bad_labels(change, message, table):
    X, Y = table
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(MultiLabel()).fit(X, change(Y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": [[0, 5]]}, r"edges: row 0 is \[0, 5\], but labels are 0 to 4"),
        ({"edges": [[0, 1], [-1, 2]]}, "edges: row 1 is"),
        ({"edges": [[0, 1], [2, 2]]}, "edges: row 1 joins label 2 to itself"),
        ({"edges": [[0, 1], [1, 0]]}, r"edges: row 1, \[1, 0\], occurs twice"),
        ({"edges": [0, 1]}, "edges must be integers of shape"),
        ({"edges": [[0.5, 1.0]]}, "edges must be integers of shape"),
        ({"edges": "grid"}, "edges must be None, 'tree', 'full' or an array"),
        ({"inference": "exact"}, "inference must be 'auto' or 'relaxed'"),
    ],
)
def test_bad_options(options, message, table):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(MultiLabel(**options)).fit(*table)


def test_other_labels_at_score_time(table):
    X, Y = table
    svm = BCFWSSVM(MultiLabel(), C=0.1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="y has 4 labels, expected 5"):
        svm.score(X, Y[:, :4])

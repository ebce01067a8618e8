"""Weights of classes and of nodes: against sums over all labellings, and against scikit-learn."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import check_class_weight_classifiers

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    Chain,
    ExtragradientSSVM,
    Grid,
    MultiLabel,
    SubgradientSSVM,
    Tree,
)
from skstruct.core import oracles
from skstruct.core.parallel import ALONE, make_scratch
from skstruct.core.weights import zero_weights
from skstruct.solvers.primal import loss_gradient, make_block
from skstruct.testing import all_labellings
from tests.helpers.weights_cases import make_data, make_node_weight, make_problem

RNG = np.random.default_rng(4)


GRAPHS = {
    "chain": Chain(),
    "tree": Tree(),
    "grid": Grid(inference="junction-tree"),
    "labels": MultiLabel("tree", tables=True),
}
CLASSES = {"grid": {0: 3.0}, "labels": {1: 0.5, 2: 4.0}}


def _class_weight(structure):
    return CLASSES.get(structure, {"a": 2.0, "c": 0.25})


def _omega(model, structure, truth, y, node_weight):
    """Weights of classes: of true ones, and of all at each node."""
    given = model.class_weight
    if structure == "labels" and given == "balanced":
        columns = zip(y.T, np.transpose(node_weight), strict=True)
        each = [
            compute_class_weight(given, classes=np.arange(2), y=labels, sample_weight=v)
            for labels, v in columns
        ]
        table = np.array(each)
    elif structure == "labels":
        table = np.array([[given.get(j, 1.0)] * 2 for j in range(truth.size)])
    else:
        table = np.array([[given.get(c, 1.0) for c in model.classes_.tolist()]] * truth.size)
    return table[np.arange(truth.size), truth], table


def _delta(model, structure, labelling, truth, i, y, node_weight):
    """The task loss of a labelling, written out from its definition."""
    true, table = _omega(model, structure, truth, y, node_weight)
    wrong, v = labelling != truth, np.ravel(node_weight[i])
    loss = model.margin if isinstance(model, SAGCRF) else model.loss
    share = 1.0 / truth.size if loss == "normalized_hamming" else 1.0
    if not isinstance(model, SAGCRF):
        return share * (v * true * wrong).sum()
    with np.errstate(divide="ignore"):
        total = np.log(v)[wrong].sum() + share * wrong.sum() * (model.margin is not None)
    if structure == "labels" and model.class_weight != "balanced":
        return total + np.log(true)[wrong].sum()
    return total + np.log(true / table[np.arange(truth.size), labelling]).sum()


def _truths(problem, i):
    return problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]


@pytest.mark.parametrize("loss", ["hamming", "normalized_hamming", None])
@pytest.mark.parametrize("kind", [SubgradientSSVM, SAGCRF])
@pytest.mark.parametrize("structure", GRAPHS)
def test_task_losses_of_all_labellings(structure, kind, loss):
    X, y = make_data(structure)
    options = {"graph": GRAPHS[structure], "class_weight": _class_weight(structure)}
    if kind is SAGCRF:
        options["margin"] = loss
    elif loss is not None:
        options["loss"] = loss
    model = kind(**options)
    weights = make_node_weight(y)
    data, problem = make_problem(model, X, y, weights)
    n_states, scratch = model.graph_.labels_per_node(model.classes_), make_scratch(problem)
    for i in range(len(data.sample_indices)):
        truth = _truths(problem, i)
        oracles.potentials(problem, i, _some_weights(model, data), scratch.theta)
        augmented = scratch.theta.copy()
        oracles.augment(problem, i, augmented)
        for labelling in all_labellings(truth.size, n_states):
            expected = _delta(
                model, structure, labelling, truth, data.sample_indices[i], y, weights
            )
            assert_allclose(oracles.task_loss(problem, i, labelling), expected, atol=1e-12)
            plain = oracles.score(problem, i, scratch.theta, labelling)
            assert_allclose(
                oracles.score(problem, i, augmented, labelling), plain + expected, atol=1e-11
            )


def _some_weights(model, data):
    shapes = model.graph_.weight_shapes(data.samples, len(model.classes_), True)
    w, rng = zero_weights(shapes), np.random.default_rng(0)
    for table in w.tables:
        table[:] = rng.normal(size=table.shape)
    return w


def _reference(model, structure, X, y, node_weight, w, sample_weight=None):
    """The objective at some weights, by enumeration."""
    is_crf = isinstance(model, SAGCRF)
    plain = (SAGCRF if is_crf else SubgradientSSVM)(model.graph, C=model.C)
    _, problem = make_problem(plain, X, y)
    given = np.ones(len(X)) if sample_weight is None else sample_weight
    n_states, scratch = plain.graph_.labels_per_node(plain.classes_), make_scratch(problem)
    total = 0.0
    for i in range(len(X)):
        truth = _truths(problem, i)
        oracles.potentials(problem, i, w, scratch.theta)
        score = lambda labels, i=i: oracles.score(problem, i, scratch.theta, labels)  # noqa: E731
        values = [
            score(labels) + _delta(model, structure, labels, truth, i, y, node_weight)
            for labels in all_labellings(truth.size, n_states)
        ]
        loss = (logsumexp if is_crf else max)(values) - score(truth)
        total += given[i] * loss
    counts = [given[i] for i in range(len(X)) if np.any(node_weight[i]) or not is_crf]
    norm = sum((t**2).sum() for t in w.tables)
    return (0.5 * norm / model.C + total) / sum(counts)


@pytest.mark.thinned
@pytest.mark.parametrize("structure", ["chain", "labels"])
def test_gradients_of_likelihoods(structure):
    X, y = make_data(structure)
    weights = make_node_weight(y, zeros=structure != "labels")
    balanced = "balanced" if structure == "labels" else _class_weight(structure)
    margin = None if structure == "labels" else "hamming"  # test_label_sets trains it without one
    model = SAGCRF(GRAPHS[structure], margin=margin, class_weight=balanced)
    data, problem = make_problem(model, X, y, weights)
    w = _some_weights(model, data)
    gradient, out = (
        zero_weights(tuple(t.shape for t in w.tables)),
        np.zeros((2, len(data.sample_indices))),
    )
    scratch = make_scratch(problem)
    task = (
        model._training_loss(),
        problem,
        w,
        data.sample_weight,
        0,
        len(data.sample_indices),
        scratch,
    )
    loss_gradient(*task, np.empty_like(scratch.theta), gradient, out, make_block(problem), ALONE)
    n = len(data.sample_indices)
    for table, g in zip(w.tables, gradient.tables, strict=True):
        g /= n
        g += data.lam * table
        flat, step = table.reshape(-1), 1e-5
        for q in RNG.choice(flat.size, size=3, replace=False):
            ends = []
            for sign in (1.0, -1.0):
                flat[q] += sign * step
                ends.append(_reference(model, structure, X, y, weights, w))
                flat[q] -= sign * step
            assert_allclose((ends[0] - ends[1]) / (2 * step), g.reshape(-1)[q], atol=1e-7)


def _assert_certified(models, structure, X, y, node_weight, sample_weight, rtol):
    """Objectives are those of the definition, and no bound is above any of them."""
    found = []
    for model in models:
        model.fit(X, y, sample_weight, node_weight)
        tables = type(model._weights())(*model._weights().tables)
        found.append(_reference(model, structure, X, y, node_weight, tables, sample_weight))
        assert_allclose(model.objective_, found[-1], rtol=1e-9)
    for model in models:
        assert model.dual_objective_ <= min(found)
        assert model.objective_ <= min(found) * (1 + rtol)
        bounds = model.history_["dual_objective"]
        assert (bounds[~np.isnan(bounds)] <= min(found)).all()


@pytest.mark.parametrize("margin", [None, "hamming"])
def test_crfs_of_several_solvers(margin):
    X, y = make_data("chain")
    weights, rng = make_node_weight(y), np.random.default_rng(0)
    weights[2][:] = 0.0  # a sample that says nothing
    options = {"C": 3.0, "class_weight": {"a": 8.0, "c": 0.05}, "margin": margin, "random_state": 0}
    models = [
        SAGCRF("chain", solver=solver, tol=tol, max_iter=5000, **options)
        for solver, tol in [("sag", 1e-7), ("saga", 1e-7), ("lbfgs", 1e-10)]
    ]
    _assert_certified(models, "chain", X, y, weights, rng.random(len(X)) + 0.5, 2e-7)
    # Terms of the dual may be negative here: cut off at 0 they would be no bound.
    early = SAGCRF("chain", tol=0.5, max_iter=1, **options)
    with pytest.warns(match="did not converge"):
        early.set_params(tol=1e-9).fit(X, y, None, weights)
    assert early.dual_objective_ <= models[2].set_params(C=3.0).fit(X, y, None, weights).objective_


def test_label_sets():
    X, Y = make_data("labels")
    weights = make_node_weight(Y)
    for class_weight in ("balanced", {0: 5.0, 3: 0.2}):
        weighing = np.ones_like(weights) if class_weight == "balanced" else weights
        options = {"class_weight": class_weight, "C": 2.0, "random_state": 0}
        crf = SAGCRF(GRAPHS["labels"], solver="lbfgs", tol=1e-9, max_iter=500, **options)
        _assert_certified([crf], "labels", X, Y, weighing, None, 1e-8)
        svms = [
            BCFWSSVM(GRAPHS["labels"], tol=1e-5, max_iter=5000, **options),
            GDMMSSVM(GRAPHS["labels"], tol=1e-3, max_iter=5000, **options),
        ]
        _assert_certified(svms, "labels", X, Y, weighing, None, 2e-3)


def test_structural_svms_of_several_solvers():
    X, y = make_data("chain")
    weights, rng = make_node_weight(y), np.random.default_rng(0)
    options = {"C": 1.0, "class_weight": {"a": 3.0, "c": 0.2}}
    models = [
        BCFWSSVM("chain", tol=1e-4, max_iter=5000, random_state=0, **options),
        GDMMSSVM("chain", algorithm="gdmm", tol=1e-3, max_iter=5000, random_state=0, **options),
        ExtragradientSSVM("chain", tol=1e-2, max_iter=5000, **options),
    ]
    sample_weight = rng.random(len(X)) + 0.5
    _assert_certified(models, "chain", X, y, weights, sample_weight, 2e-2)


def test_normalised_losses_of_gdmm():
    X, y = make_data("chain")
    weights = make_node_weight(y)
    options = {"loss": "normalized_hamming", "random_state": 0}
    dual, primal = (
        kind(tol=1e-4, max_iter=5000, **options).fit(X, y, node_weight=weights)
        for kind in (partial(GDMMSSVM, algorithm="gdmm"), BCFWSSVM)
    )
    assert dual.dual_objective_ <= primal.objective_
    assert primal.dual_objective_ <= dual.objective_
    assert_allclose(dual.objective_, primal.objective_, rtol=3e-4)


# Tables


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.array(["a", "b", "c"])[(X @ rng.normal(size=(4, 3)) + [2, 0, 0]).argmax(axis=1)]
    return X, y, rng.integers(0, 3, size=80)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 0.1, "c": 7.0}, None])
def test_tables_as_logistic_regression(class_weight):
    X, y, weight = _table()
    sample_weight = np.random.default_rng(1).random(80) + 0.5
    theirs = LogisticRegression(
        C=0.7, class_weight=class_weight, fit_intercept=False, tol=1e-10, max_iter=5000
    ).fit(np.column_stack([X, np.ones(80)]), y, sample_weight * weight)
    crf = SAGCRF("multiclass", C=0.7, class_weight=class_weight, tol=1e-13, solver="lbfgs")
    crf.set_params(max_iter=5000).fit(X, y, sample_weight, weight)
    assert_allclose(np.column_stack([crf.coef_, crf.intercept_]), theirs.coef_, atol=2e-5)


def test_tables_as_linear_svc():
    X, y, _ = _table()
    class_weight = {"a": 0.3, "b": 2.0}
    theirs = LinearSVC(
        multi_class="crammer_singer", class_weight=class_weight, tol=1e-10, max_iter=10**6, C=0.2
    ).fit(X, y)
    svm = BCFWSSVM("multiclass", class_weight=class_weight, C=0.2, tol=1e-8, max_iter=10**5)
    svm.fit(X, y)
    assert_allclose(svm.coef_, theirs.coef_, atol=1e-3)
    assert_allclose(svm.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize(
    "model",
    [
        SAGCRF(tol=1e-16, max_iter=3000, random_state=0, class_weight="balanced"),
        BCFWSSVM(tol=1e-7, max_iter=10**4, random_state=0, class_weight="balanced"),
    ],
    ids=["crf", "ssvm"],
)
def test_integer_weights_on_tables_are_repeated_samples(model):
    X, y, weight = _table()
    rows = np.repeat(np.arange(80), weight)
    repeated = model.set_params(C=0.3).fit(X[rows], y[rows])
    coef = repeated.coef_.copy()
    assert_allclose(model.fit(X, y, node_weight=weight).coef_, coef, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_scikit_learns_check_of_class_weights():
    for model in (SAGCRF("multiclass"), BCFWSSVM("multiclass")):
        check_class_weight_classifiers(type(model).__name__, model)


def test_balanced_is_that_of_scikit_learn():
    X, y = make_data("chain")
    flat = np.concatenate(y)
    _, problem = make_problem(BCFWSSVM(class_weight="balanced"), X, y)
    expected = compute_class_weight("balanced", classes=np.unique(flat), y=flat)
    at = problem.target.weights.factor
    assert_allclose(at, expected[np.unique(flat, return_inverse=True)[1]])
    # Nodes of weight 0 do not count, nor do classes that have no others.
    weights = [(labels != "b").astype(float) for labels in y]
    _, problem = make_problem(BCFWSSVM(class_weight="balanced"), X, y, weights)
    kept = flat[flat != "b"]
    expected = compute_class_weight("balanced", classes=np.unique(kept), y=kept)
    assert_allclose(np.unique(problem.target.weights.factor[flat == "a"]), expected[0])
    assert (problem.target.weights.factor[flat == "b"] == 0.0).all()
    crf = SAGCRF(class_weight="balanced")
    _, problem = make_problem(crf, X, y, weights)
    assert_allclose(problem.target.weights.shift, np.log([expected[0], 1.0, expected[1]]))

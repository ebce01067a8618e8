"""Weights of classes and nodes as users pass them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    Boxes,
    Candidates,
    Grid,
    Matching,
    RaggedArray,
    SubgradientSSVM,
)
from skstruct.data.ragged import object_array
from skstruct.estimators import bcfw_path
from skstruct.preprocessing import PerNode
from skstruct.testing import random_sequences
from tests.helpers.weights_cases import make_data, make_node_weight, make_problem

# What users pass


def test_weights_of_1_change_nothing():
    X, y = make_data("chain")
    ones = [np.ones(len(labels)) for labels in y]
    for model in (SAGCRF(random_state=0, tol=1e-2), BCFWSSVM(random_state=0)):
        plain = pickle.loads(pickle.dumps(model.fit(X, y)))
        model.set_params(class_weight={"a": 1}).fit(X, y, node_weight=ones)
        assert_array_equal(model.coef_, plain.coef_)
        assert_array_equal(model.pairwise_coef_, plain.pairwise_coef_)


def test_nodes_of_weight_0_do_not_train():
    X, y = make_data("chain")
    weights = [np.arange(len(labels)) % 2.0 for labels in y]
    swap = {"a": "b", "b": "c", "c": "a"}
    # Single nodes: their label matters to nobody, if they are of weight 0.
    alone = [len(labels) == 1 for labels in y]
    assert any(alone)
    other = [
        np.array([swap[label] for label in labels]) if one else labels
        for labels, one in zip(y, alone, strict=True)
    ]
    options = {"solver": "lbfgs", "tol": 1e-10, "max_iter": 500}
    first, second = (SAGCRF(**options).fit(X, t, node_weight=weights) for t in (y, other))
    assert_allclose(first.coef_, second.coef_, atol=1e-5)


def test_containers():
    X, y = make_data("chain")
    weights = make_node_weight(y)
    forms = [
        weights,
        tuple(v.tolist() for v in weights),
        object_array(weights),
        RaggedArray.from_list(weights),
        np.concatenate(weights),
        np.concatenate(weights).tolist(),
    ]
    flat = np.concatenate(weights)
    before = flat.copy()
    for form in forms:
        problem = make_problem(SubgradientSSVM("chain"), X, y, form)[1]
        assert_array_equal(problem.target.weights.factor, before)
    images, labels = make_data("grid")
    pixels = make_node_weight(labels)
    for form in (pixels, object_array(pixels), np.concatenate([v.ravel() for v in pixels])):
        problem = make_problem(SubgradientSSVM(Grid()), images, labels, form)[1]
        assert_array_equal(
            problem.target.weights.factor, np.concatenate([v.ravel() for v in pixels])
        )


def _changed(weights, i, value):
    weights = [v.copy() for v in weights]
    weights[i] = value
    return weights


def _with(weights, i, t, value):
    weights = [v.copy() for v in weights]
    weights[i][t] = value
    return weights


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda v: _with(v, 1, 0, -1.0),
            "node_weight: sample 1, node 0 is -1.0, expected a finite",
        ),
        (lambda v: _with(v, 2, 0, np.nan), "node_weight: sample 2, node 0 is nan"),
        (lambda v: np.concatenate(_with(v, 3, 0, np.inf)), "sample 3, node 0 is inf"),
        (lambda v: _changed(v, 1, np.ones(9)), "sample 1 has 9 numbers, but X has . nodes"),
        (lambda v: _changed(v, 1, np.ones((2, 2))), r"sample 1 must be 1-D.*\(2, 2\)"),
        (lambda v: _changed(v, 1, ["x"]), "node_weight: sample 1 is not numeric"),
        (lambda v: v[:-1], "X has 6 samples, but node_weight has 5"),
        (lambda v: np.ones(7), "node_weight has 7 numbers, but X has .* nodes in 6 samples"),
        (lambda v: [0.0 * x for x in v], "node_weight is 0 at all nodes"),
        (lambda v: RaggedArray(np.ones(6), np.arange(7)), "sample 0 has 1 numbers"),
        (lambda v: np.ma.masked_all(6), "masked"),
    ],
)
def test_bad_node_weights(change, message):
    X, y = make_data("chain")
    if message.startswith("sample 0 has 1"):
        assert len(y[0]) > 1
    weights = change([np.ones(len(labels)) for labels in y])
    for model in (SAGCRF(), BCFWSSVM()):
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(X, y, node_weight=weights)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"z": 1.0}, "class_weight has a weight for the unknown class 'z'"),
        ({"a": -1.0}, "class_weight of 'a' is -1.0, expected a finite number of at least 0"),
        ({"b": np.nan}, "class_weight of 'b' is nan"),
        ({"b": "2"}, "class_weight of 'b' is '2'"),
        ("even", "The 'class_weight' parameter"),
        (["balanced"], "The 'class_weight' parameter"),
    ],
)
def test_bad_class_weights(class_weight, message):
    X, y = make_data("chain")
    with pytest.raises(ValueError, match=message):
        SAGCRF(class_weight=class_weight).fit(X, y)
    with pytest.raises(ValueError, match=message):
        GDMMSSVM(class_weight=class_weight).fit(X, y)


@pytest.mark.parametrize("structure", ["chain", "table"])
def test_weights_of_0_alone_are_refused(structure):
    X, y = make_data("chain")
    X, y = (np.concatenate(X), np.concatenate(y)) if structure == "table" else (X, y)
    with pytest.raises(ValueError, match="class_weight and node_weight leave no"):
        BCFWSSVM(class_weight=dict.fromkeys("abc", 0)).fit(X, y)


def test_labels_that_are_missing_have_no_weights():
    X, y = make_data("chain")
    y = [labels.astype(object) for labels in y]
    y[2][0] = None
    for options, weights in [({"class_weight": "balanced"}, None), ({}, make_node_weight(y))]:
        with pytest.raises(ValueError, match="_weight needs a label for each node"):
            SAGCRF(solver="lbfgs", **options).fit(X, y, node_weight=weights)


def test_what_is_refused_on_tables_and_of_crfs():
    X, Y = make_data("labels")
    wrong = np.ones(Y.shape)
    wrong[3, 1] = -2.0
    with pytest.raises(ValueError, match=r"sample 3, label 1 is -2.0"):
        BCFWSSVM("multilabel").fit(X, Y, node_weight=wrong)
    with pytest.raises(ValueError, match=r"node_weight must be of shape \(8, 4\), got \(8,\)"):
        BCFWSSVM("multilabel").fit(X, Y, node_weight=np.ones(8))
    with pytest.raises(ValueError, match="unknown class 4"):
        BCFWSSVM("multilabel", class_weight={4: 2.0}).fit(X, Y)
    with pytest.raises(ValueError, match=r"node_weight must be of shape \(8,\), got \(8, 4\)"):
        BCFWSSVM("multiclass").fit(X, Y[:, 0], node_weight=np.ones((8, 4)))
    with pytest.raises(ValueError, match="node_weight: sample 5 is nan"):
        SAGCRF("multiclass").fit(X, Y[:, 0], node_weight=np.where(np.arange(8) == 5, np.nan, 1))
    X, y = make_data("chain")
    with pytest.raises(ValueError, match="class_weight of a CRF must be positive"):
        SAGCRF(class_weight={"a": 0.0}).fit(X, y)
    with pytest.raises(ValueError, match="overflows"):
        SAGCRF(class_weight={"a": 1e200}).fit(X, y, node_weight=[v * 1e200 for v in _ones(y)])
    images, labels = make_data("grid")
    with pytest.raises(ValueError, match=r"sample 1 must have the shape of its image, \(2, 2\)"):
        BCFWSSVM(Grid()).fit(images, labels, node_weight=[np.ones((1, 3))] * 3)


def _ones(y):
    return [np.ones(len(labels)) for labels in y]


@pytest.mark.parametrize("graph", [Matching(), Boxes(), Candidates()], ids=str)
def test_structures_without_classes_of_nodes(graph):
    X, y = graph.example(np.random.default_rng(0), False)
    with pytest.raises(ValueError, match=f"class_weight: {type(graph).__name__} has no nodes with"):
        BCFWSSVM(graph, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match=f"node_weight: {type(graph).__name__} has no nodes with"):
        BCFWSSVM(graph).fit(X, y, node_weight=[np.ones(3)] * len(X))


# Tools of scikit-learn


def test_searches_and_pipelines_pass_weights_on():
    X, y = random_sequences(np.random.default_rng(0), n_samples=18)
    weights = make_node_weight(y)
    grid = {"class_weight": [None, "balanced", {"a": 3.0}]}
    for container in (list, object_array, RaggedArray.from_list):
        search = GridSearchCV(
            BCFWSSVM(random_state=0), grid, cv=KFold(3), error_score="raise", refit=True
        ).fit(X, y, node_weight=container(weights))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        alone = BCFWSSVM(random_state=0, **search.best_params_).fit(X, y, node_weight=weights)
        assert_array_equal(search.best_estimator_.coef_, alone.coef_)
    pipeline = make_pipeline(PerNode(StandardScaler()), SAGCRF(tol=1e-2, random_state=0))
    direct = pipeline.fit(X, y, sagcrf__node_weight=weights)[-1].coef_.copy()
    with config_context(enable_metadata_routing=True):
        crf = SAGCRF(tol=1e-2, random_state=0).set_fit_request(node_weight=True)
        routed = make_pipeline(PerNode(StandardScaler()), crf)
        assert_array_equal(routed.fit(X, y, node_weight=weights)[-1].coef_, direct)
        search = GridSearchCV(
            routed, {"sagcrf__C": [0.1, 1.0]}, cv=KFold(3), error_score="raise"
        ).fit(X, y, node_weight=weights)
        fold = next(KFold(3).split(X))[0]
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # What a fold sees are its own samples' weights.
    first = search.cv_results_["split0_test_score"][0]
    alone = make_pipeline(PerNode(StandardScaler()), SAGCRF(C=0.1, tol=1e-2, random_state=0))
    alone.fit(
        [X[i] for i in fold], [y[i] for i in fold], sagcrf__node_weight=[weights[i] for i in fold]
    )
    test = np.setdiff1d(np.arange(18), fold)
    assert first == alone.score([X[i] for i in test], [y[i] for i in test])


def test_models_remember_nothing_of_weights():
    X, y = make_data("chain")
    weights = make_node_weight(y)
    crf = SAGCRF(class_weight="balanced", tol=1e-2, random_state=0).fit(X, y, node_weight=weights)
    copy = pickle.loads(pickle.dumps(crf))
    assert copy.class_weight == "balanced"
    assert_array_equal(copy.coef_, crf.coef_)
    # Marginals are those of the scores, which no weight shifts.
    plain = SAGCRF(tol=1e-2, random_state=0).fit(X, y)
    for name in ("node_weights_", "pair_weights_"):
        setattr(plain, name, getattr(crf, name))
    for ours, theirs in zip(crf.predict_marginals(X), plain.predict_marginals(X), strict=True):
        assert_array_equal(ours, theirs)
    path = bcfw_path(BCFWSSVM(random_state=0, tol=1e-3), X, y, [0.1, 1.0], node_weight=weights)
    alone = BCFWSSVM(C=1.0, random_state=0, tol=1e-3).fit(X, y, node_weight=weights)
    assert_allclose(path[1].objective_, alone.objective_, rtol=2e-3)

"""Tables and pictures of graphs with cycles: they add up to scores, and are called by name."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from skstruct import SAGCRF, Grid, Pairwise
from skstruct.inspection import (
    MarginalsDisplay,
    coef_frame,
    explain,
    transition_frame,
)


def _images(n=4):
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(2, 2 + i % 2, 2)) for i in range(n)]
    w = rng.normal(size=(2, 3))
    return X, [np.array(["air", "ice", "sea"])[(x @ w).argmax(axis=2)] for x in X]


def _model(**parameters):
    X, y = _images()
    return SAGCRF(Grid(**parameters), max_iter=200, tol=1e-2, solver="lbfgs").fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"interactions": "potts"},
        {"interactions": "symmetric", "directions": True},
        {"edge_features": "contrast", "directions": True, "neighborhood": 8},
        {"edge_features": "contrast", "directions": True, "interactions": "potts"},
    ],
    ids=str,
)
def test_contributions_add_up_to_the_score(parameters):
    X, _ = _images()
    model = _model(**parameters)
    labellings, scores = model.predict_top_k(X, 2)
    for x, labels, score in zip(X, labellings, scores, strict=True):
        for k in range(2):
            table = explain(model, x, labels[k])
            assert_allclose(table["contribution"].sum(), score[k])
            assert_array_equal(table.groupby("node")["label"].first(), labels[k].ravel())


def test_marginals_of_an_image_are_no_heat_map_of_nodes():
    with pytest.raises(ValueError, match=r"\(n_nodes, n_classes\), got \(2, 3, 4\); of an image"):
        MarginalsDisplay(np.ones((2, 3, 4)), list("abcd")).plot()


def test_marginals_of_types_of_nodes_are_drawn_one_type_at_a_time():
    x = {"nodes": {"a": np.eye(2), "b": np.ones((1, 1))}, "edges": {("a", "b"): [[0, 0], [1, 0]]}}
    y = {"a": ["hi", "lo"], "b": [0]}
    crf = SAGCRF(Pairwise(node_types=["a", "b"]), random_state=0).fit([x], [y])
    with pytest.raises(ValueError, match=r"nodes of the types \['a', 'b'\]: draw one type"):
        MarginalsDisplay.from_estimator(crf, x)
    of_a = crf.predict_marginals([x])[0]["a"]
    display = MarginalsDisplay(of_a, ["hi", "lo"]).plot(Figure().subplots())
    assert_array_equal(display.image_.get_array(), of_a.T)


def test_features_and_types_of_edges_are_counted_apart_and_named():
    model = _model(edge_features="contrast", directions=True, neighborhood=8)
    assert model.n_edge_features_in_ == 2
    assert model.pair_weights_.shape == (8, 9)
    assert model.pairwise_coef_.shape == (4, 2, 3, 3)
    assert np.shares_memory(model.pairwise_coef_, model.pair_weights_)
    assert_array_equal(model.pairwise_coef_[2, 1].ravel(), model.pair_weights_[5])
    frame = transition_frame(model, "likeness", edge_type="down to the right")
    assert_array_equal(frame, model.pairwise_coef_[2, 1])
    assert frame.index.tolist() == ["air", "ice", "sea"]
    assert_array_equal(transition_frame(model, 1, edge_type=2), frame)
    features = set(explain(model, np.ones((2, 2, 2)))["feature"])
    assert {"<transition, down to the left> likeness", "<transition, to the right> 1"} <= features
    for options, match in [
        (
            {"edge_feature": 0},
            r"edge_type must choose one of the model's 4 types of edges \(to the",
        ),
        ({"edge_type": "up", "edge_feature": 0}, "edge_type must choose .*, got 'up'"),
        ({"edge_type": 4, "edge_feature": 0}, "edge_type must choose .*, got 4"),
        ({"edge_type": 0}, r"edge_feature must choose one of .* 2 edge features \(1, likeness\)"),
        ({"edge_type": True, "edge_feature": 0}, "edge_type must choose .*, got True"),
    ]:
        with pytest.raises(ValueError, match=match):
            transition_frame(model, **options)
    assert coef_frame(model).index.tolist() == ["x0", "x1", "<intercept>"]


def test_shared_weights_are_written_out_and_cannot_be_written_to():
    model = _model(interactions="potts")
    weight = model.pair_weights_[0, 0]
    assert_array_equal(model.pairwise_coef_, weight * np.eye(3))
    with pytest.raises(ValueError, match="read-only"):
        model.pairwise_coef_[0, 0] = 1.0
    model.pair_weights_[0, 0] = 2.0
    assert_array_equal(transition_frame(model), 2.0 * np.eye(3))
    with pytest.raises(ValueError, match="edge_type='down', but the model's edges are of one type"):
        transition_frame(model, edge_type="down")
    with pytest.raises(ValueError, match="edge_feature=0, but the model has no edge features"):
        transition_frame(model, 0)
    model = _model(interactions="symmetric")
    assert_array_equal(model.pairwise_coef_, model.pairwise_coef_.T)
    assert_array_equal(model.pairwise_coef_[np.triu_indices(3)], model.pair_weights_[0])


def test_types_of_edges_given_by_users():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1, 0], [1, 2, 1], [2, 0, 1]])
    X = [(rng.normal(size=(3, 2)), edges, rng.normal(size=(3, 3))) for _ in range(4)]
    graph = Pairwise(edge_types=2, edge_features=True)
    model = SAGCRF(graph, tol=1e-2, solver="lbfgs").fit(X, [["a", "b", "a"], ["b", "a", "a"]] * 2)
    assert model.n_edge_features_in_ == 3
    assert model.pairwise_coef_.shape == (2, 3, 2, 2)
    assert_allclose(
        explain(model, X[0])["contribution"].sum(), model.predict_top_k(X[:1], 1)[1][0][0]
    )
    frame = transition_frame(model, "z", ["x", "y", "z"], edge_type="type 1")
    assert_array_equal(frame, model.pairwise_coef_[1, 2])
    with pytest.raises(ValueError, match="expecting 3 edge features"):
        model.predict([(X[0][0], edges, np.ones((3, 6)))])

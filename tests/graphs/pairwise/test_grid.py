"""Images: the same as graphs of pixels, in the shapes of images."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM, Grid, Pairwise, SubgradientSSVM
from skstruct.datasets import pack_shards
from skstruct.graphs.pairwise import grid_edges
from skstruct.graphs.pairwise.grid import _contrast
from skstruct.testing import check_structure

SIZES = (2, 3), (3, 2), (1, 4), (3, 3), (1, 1)


def exact(**parameters):
    return Grid(inference="junction-tree", **parameters)


def _images(seed=0, sizes=SIZES, n_labels=3, d=2, repeat=1):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(*size, d)) for _ in range(repeat) for size in sizes]
    w = rng.normal(size=(d, n_labels))
    y = [
        np.array(list("abc"))[(x @ w + rng.normal(size=(*x.shape[:2], n_labels))).argmax(axis=2)]
        for x in X
    ]
    return X, y


def _as_graphs(X, neighborhood=4, directions=False):
    graphs = []
    for x in X:
        ends, kinds = grid_edges(*x.shape[:2], neighborhood)
        edges = np.column_stack([ends, kinds]) if directions else ends
        graphs.append((x.reshape(-1, x.shape[2]), edges))
    return graphs


def _flat(y):
    return [labels.ravel() for labels in y]


@pytest.mark.parametrize("neighborhood", [4, 8])
@pytest.mark.parametrize("directions", [False, True])
def test_images_are_graphs_of_pixels(neighborhood, directions):
    X, y = _images(1, repeat=3)
    n_types = neighborhood // 2 if directions else 1
    grid = exact(neighborhood=neighborhood, directions=directions)
    graph = Pairwise(inference="junction-tree", edge_types=n_types)
    images = SAGCRF(grid, tol=1e-4, solver="lbfgs").fit(X, y)
    flat = SAGCRF(graph, tol=1e-4, solver="lbfgs")
    graphs = _as_graphs(X, neighborhood, directions)
    flat.fit(graphs, _flat(y))
    assert_array_equal(images.pair_weights_, flat.pair_weights_)
    assert images.pair_weights_.shape == (n_types, 9)
    for a, b, x in zip(images.predict(X), flat.predict(graphs), X, strict=True):
        assert a.shape == x.shape[:2]
        assert_array_equal(a.ravel(), b)
    nodes, pairs = images.predict_marginals(X, pairwise=True)
    others, tables = flat.predict_marginals(graphs, pairwise=True)
    for x, mu, pair, a, b in zip(X, nodes, pairs, others, tables, strict=True):
        assert mu.shape == (*x.shape[:2], 3)
        assert_array_equal(mu.reshape(-1, 3), a)
        assert_array_equal(pair, b)
    labels, scores = images.predict_top_k(X, 3)
    others, values = flat.predict_top_k(graphs, 3)
    for x, rows, score, a, b in zip(X, labels, scores, others, values, strict=True):
        assert rows.shape == (min(3, 3 ** len(a[0])), *x.shape[:2])
        assert_array_equal(rows.reshape(a.shape), a)
        assert_array_equal(score, b)
    right = np.concatenate([(a == b).ravel() for a, b in zip(images.predict(X), y, strict=True)])
    assert_allclose(images.score(X, y), right.mean())
    assert_array_equal(
        images.predict_log_likelihood(X, y), flat.predict_log_likelihood(graphs, _flat(y))
    )


def _check_verbs(sizes, **parameters):
    X, y = _images(2, sizes)
    y[0][0] = "a", "b"
    y[1][0] = "c"
    check_structure(exact(**parameters), X, y)


def test_every_verb_by_enumeration():
    _check_verbs(
        [(2, 2), (1, 3), (2, 3), (1, 1)], neighborhood=8, directions=True, interactions="symmetric"
    )


@pytest.mark.plain
def test_every_verb_by_enumeration_with_contrasts():
    _check_verbs([(2, 2), (1, 3), (1, 1)], edge_features="contrast", interactions="potts")


def test_contrast_has_no_scale():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(3, 4, 2))
    with np.errstate(all="raise"):
        for scale in (1e-200, 1.0, 1e200, 1.7e308 / np.abs(image).max()):
            assert_allclose(_contrast(scale * image, 4), _contrast(image, 4))


def test_contrast_is_large_between_like_pixels():
    x = np.zeros((2, 2, 3))
    x[0, 0] = 1.0, 2.0, 2.0
    X = [x, np.zeros((1, 2, 3)), np.ones((1, 1, 3))]
    holder = type("Holder", (), {})()
    samples = exact(edge_features="contrast").read_X(holder, X, reset=True)
    # |x_u - x_v|^2 is 9, 0, 9, 0 along the edges, 4.5 in the mean; an even image has no contrast.
    expected = [[1.0, np.exp(-1.0)], [1.0, 1.0], [1.0, np.exp(-1.0)], [1.0, 1.0], [1.0, 1.0]]
    assert_allclose(samples.edge_features, expected)
    assert samples.n_edges.tolist() == [4, 1, 0]


def test_edge_features_are_in_the_order_of_the_edges():
    X, y = _images(3, repeat=2)
    contrast = BCFWSSVM(exact(edge_features="contrast"), tol=1e-2, random_state=0).fit(X, y)
    read = contrast.graph_.read_X(contrast, X, reset=False)
    rows = np.split(read.edge_features, read.edge_ptr[1:-1])
    given = BCFWSSVM(exact(edge_features=True), tol=1e-2, random_state=0)
    given.fit(list(zip(X, rows, strict=True)), y)
    assert_array_equal(given.coef_, contrast.coef_)
    assert_array_equal(given.pair_weights_, contrast.pair_weights_)
    with pytest.raises(ValueError, match="sample 0 has 6 nodes and 7 edges, but 6 rows of edge"):
        given.fit([(X[0], rows[0][:6]), *zip(X[1:], rows[1:], strict=True)], y)
    with pytest.raises(ValueError, match=r"sample 0 must be a tuple \(image, edge features\)"):
        given.fit(X, y)


def test_arrays_of_images_masks_and_searches():
    X, y = _images(4, [(2, 3)], repeat=8)
    crf = SAGCRF(exact(), tol=1e-3, solver="lbfgs").fit(np.array(X), np.array(y))
    again = pickle.loads(pickle.dumps(crf))
    for a, b in zip(crf.predict(X), again.predict(np.array(X)), strict=True):
        assert_array_equal(a, b)
    allowed = [np.ones((2, 3, 3), dtype=bool) for _ in X]
    for mask in allowed:
        mask[1, 2, 0] = False
    assert all(labels[1, 2] != "a" for labels in crf.predict(X, allowed=allowed))
    with pytest.raises(ValueError, match=r"allowed: sample 0 must have the shape .*\(2, 3, 3\)"):
        crf.predict(X, allowed=[mask.reshape(6, 3) for mask in allowed])
    with pytest.raises(ValueError, match=r"allowed: sample 0 .*\(2, 3, 3\)"):
        crf.predict(X, allowed=[mask[..., :2] for mask in allowed])
    search = GridSearchCV(
        SAGCRF(exact(), tol=1e-1, solver="lbfgs"),
        {"graph__directions": [False, True]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.4


GOOD = np.ones((2, 3, 2))


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        (np.ones((2, 3)), r"sample 1 must be an image of shape \(height, width, n_features\)"),
        (np.ones((0, 3, 2)), r"none of them 0, got the shape \(0, 3, 2\)"),
        (np.ones((3, 0, 2)), r"none of them 0, got the shape \(3, 0, 2\)"),
        (np.ones((2, 3, 4)), "sample 1 has 4 features a pixel, sample 0 has 2"),
        (np.full((2, 3, 2), np.nan), r"contains NaN \(sample 1, node 0\)"),
        (np.full((2, 3, 2), "x"), "sample 1"),
        ((GOOD, np.ones((7, 2))), "sample 1"),
    ],
)
def test_bad_images(sample, match):
    labels = np.array([["a", "b", "a"], ["b", "a", "a"]])
    with pytest.raises((ValueError, TypeError), match=match):
        SAGCRF(exact()).fit([GOOD, sample], [labels, labels])
    crf = SAGCRF(exact(), tol=0.5, solver="lbfgs").fit([GOOD, GOOD], [labels, labels])
    with pytest.raises((ValueError, TypeError), match=match.replace("sample 0 has", "")[:30]):
        crf.predict([GOOD, sample])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([["a", "b", "a"]] * 2, r"y: sample 0 must have the shape of its image, \(2, 3\), got"),
        ([[["a", "b"]] * 3] * 2, r"y: sample 0 must have the shape of its image, \(2, 3\)"),
        ([[["a", "b", "a"]] * 2], "X has 2 images, but y has 1"),
        (None, "requires y"),
        ("ab", "y"),
    ],
)
def test_bad_labels(y, match):
    with pytest.raises((ValueError, TypeError), match=match):
        SAGCRF(exact()).fit([GOOD, GOOD], y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"neighborhood": 6}, "neighborhood must be 4 or 8, got 6"),
        ({"neighborhood": 4.0}, "neighborhood must be 4 or 8, got 4.0"),
        ({"edge_features": "color"}, "edge_features must be .*, got 'color'"),
        ({"interactions": "ising"}, "interactions must be one of"),
        ({"max_table": 7}, r"sample 0 .* needs a table of at least 2\^3 .* but max_table=7"),
    ],
)
def test_bad_parameters(parameters, match):
    labels = np.array([["a", "b", "a"], ["b", "a", "a"]])
    with pytest.raises(ValueError, match=match):
        SAGCRF(exact(**{"max_table": 99, **parameters})).fit([GOOD], [labels])


def test_what_wide_images_lack_is_said_of_the_users_class():
    class Picture(Grid):
        """A name of the user's."""

    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(30, 30, 2))], [rng.integers(2, size=(30, 30))]
    for kind, name in (Grid, "Grid"), (Picture, "Picture"):
        lack = rf"^{name} \(Pairwise by the LP relaxation\) has no marginals"
        with pytest.raises(TypeError, match=lack):
            SAGCRF(kind(inference="lp")).fit(X, y)


def _way(graph, *sizes):
    samples = graph.read_X(BaseEstimator(), [np.zeros((*size, 1)) for size in sizes], True)
    return graph.make_problem(samples, np.arange(3), True).space.method


def test_a_junction_tree_is_chosen_where_it_is_worth_its_time():
    assert _way(Grid(), (7, 7), (4, 40)) == "junction-tree"
    assert _way(Grid(), (8, 8)) == "lp"
    assert _way(Grid(), (7, 7), (8, 8)) == "lp"
    assert _way(Grid(inference="junction-tree"), (8, 8)) == "junction-tree"
    assert _way(Grid(inference="lp"), (3, 3)) == "lp"
    # Pixels without edges are no reason.
    assert _way(Grid(), (4, 4), (1, 1)) == "junction-tree"
    # max_table is a limit, not a wish.
    assert _way(Grid(max_table=3**9), (8, 8)) == "lp"
    assert _way(Grid(max_table=3**7), (7, 7)) == "lp"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_without_relaxations_take_any_junction_tree_that_fits(tmp_path):
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=(8, 8)) for _ in range(2)]
    X = [np.eye(3)[labels] for labels in y]
    common = {"max_iter": 2, "tol": 1e3}
    for kind in (BCFWSSVM, SubgradientSSVM):
        model = kind(Grid(), **common).fit(X, y)
        assert (model.method_, model.training_inference_) == ("lp", "relaxed")
    shards = pack_shards(X, y, tmp_path / "s", graph=Grid())
    for kind, data in ((SAGCRF, (X, y)), (CasimirSSVM, (X, y)), (SAGCRF, (shards,))):
        model = kind(Grid(), **common).fit(*data)
        assert (model.method_, model.inference_) == ("junction-tree", "exact")
        model.predict(X)  # no warning
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict(X)[0], model.predict(X)[0])
    for data in (X, y), (shards,):
        crf = SAGCRF(Grid(max_table=100), **common).fit(*data)
        assert (crf.method_, crf.training_inference_) == (
            "tree-reweighted",
            "relaxed",
        )
    assert BCFWSSVM(Grid(), **common).fit(shards).training_inference_ == "relaxed"

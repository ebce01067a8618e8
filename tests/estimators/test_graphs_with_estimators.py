"""Graphs with cycles in all that estimators offer: losses, weights, folds, pickles, callbacks."""

import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Grid,
    Matching,
    Pairwise,
    SubgradientSSVM,
)
from skstruct.callbacks import Checkpoint, TimeLimit
from skstruct.cli import main
from skstruct.cli.compiling import usual_features
from skstruct.core.jit.kernels import cache_folder
from skstruct.metrics import (
    SCORERS,
    chunk_f1_score,
    confidences,
    flatten,
    sequence_accuracy_score,
)
from skstruct.model_selection import cross_val_marginals
from skstruct.preprocessing import PerNode

EXACT, RELAXED = "junction-tree", "roof-dual"
FITS = [
    BCFWSSVM(tol=0.1, random_state=0),
    SubgradientSSVM(max_iter=50, tol=1.0, random_state=0),
]
NEEDS = [
    (CasimirSSVM(tol=0.5, random_state=0), "n-best labellings; use BCFWSSVM"),
    (CasimirSSVM(smoothing="entropy", tol=0.5, random_state=0), "marginals; use BCFWSSVM"),
    (SAGCRF(tol=0.1, random_state=0), r"marginals; train a structural SVM \(BCFWSSVM\)"),
    (SAGCRF(solver="lbfgs", tol=0.1), r"marginals; train a structural SVM \(BCFWSSVM\)"),
    (SAGCRF(solver="casimir", tol=0.1, random_state=0), r"marginals; train .* \(BCFWSSVM\)"),
]


def _images(n_labels=2, n=6, seed=3):
    """Small images of two sizes, labelled by their features."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(2, 2 + i % 2, 2)) for i in range(n)]
    w = rng.normal(size=(2, n_labels))
    labels = np.array(["left", "right", "up"])
    y = [labels[(x @ w + 0.3 * rng.normal(size=(*x.shape[:2], n_labels))).argmax(2)] for x in X]
    return X, y


@pytest.mark.parametrize(
    ("estimator", "inference"),
    [(FITS[0], EXACT), (FITS[0], RELAXED), (FITS[1], EXACT)],
    ids=["BCFW, exact", "BCFW, relaxed", "subgradient, exact"],
)
def test_margins_by_each_inference(estimator, inference):
    X, y = _images()
    model = clone(estimator).set_params(graph=Grid(inference=inference)).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.classes_.tolist() == ["left", "right"]
    again = pickle.loads(pickle.dumps(clone(model).fit(X, y)))
    assert_array_equal(again.coef_, model.coef_)
    for a, b, x in zip(again.predict(X), model.predict(X), X, strict=True):
        assert a.shape == x.shape[:2]
        assert_array_equal(a, b)


@pytest.mark.parametrize(("estimator", "message"), NEEDS, ids=[f"{i}" for i in range(len(NEEDS))])
def test_what_needs_exact_inference_says_so_before_any_compile(estimator, message, monkeypatch):
    X, y = _images()
    monkeypatch.setattr(type(estimator), "_solve", None)
    relaxed = clone(estimator).set_params(graph=Grid(inference=RELAXED))
    with pytest.raises(TypeError, match=message) as caught:
        relaxed.fit(X, y)
    assert 'inference="junction-tree" where tables are small' in str(caught.value)


def test_gdmm_says_what_to_use_instead():
    X, y = _images()
    y = [np.repeat([["left"], ["right"]], x.shape[1], axis=1) for x in X]
    with pytest.raises(TypeError, match=r"not take Grid with cycles and forbidden .* BCFWSSVM"):
        GDMMSSVM(Grid(forbidden=[("right", "left")])).fit(X, y)


def test_answers_of_a_relaxed_model():
    X, y = _images()
    model = BCFWSSVM(Grid(inference=RELAXED), tol=0.1, random_state=0).fit(X, y)
    for name, arguments in (("predict_top_k", (2,)), ("decision_function", ())):
        with pytest.raises(TypeError, match="has no n-best labellings; use predict, or inference"):
            getattr(model, name)(X, *arguments)
    allowed = [np.ones((*x.shape[:2], 2), dtype=bool) for x in X]
    for mask in allowed:
        mask[0, 1, 0] = False
    assert all(labels[0, 1] == "right" for labels in model.predict(X, allowed=allowed))
    masked = [np.ma.masked_array(mask, ~mask) for mask in allowed]
    with pytest.raises(ValueError, match="allowed: sample 0 has masked entries"):
        model.predict(X, allowed=masked)


def test_answers_of_an_exact_model():
    X, y = _images(3)
    model = BCFWSSVM(Grid(inference=EXACT), tol=0.1, random_state=0).fit(X, y)
    best, scores = model.predict_top_k(X, 2)
    decision = model.decision_function(X)
    assert_allclose(decision[:, 0], [s[0] for s in scores])
    assert_allclose(decision[:, 1], [s[0] - s[1] for s in scores])
    for a, b in zip(best, model.predict(X), strict=True):
        assert_array_equal(a[0], b)
    weights = np.arange(len(X))
    right = [(a == b).mean() * a.size for a, b in zip(model.predict(X), y, strict=True)]
    sizes = np.array([labels.size for labels in y])
    assert_allclose(model.score(X, y, weights), weights @ right / (weights @ sizes))
    assert len(model.predict([])) == 0


@pytest.mark.parametrize("inference", [EXACT, RELAXED])
def test_losses_and_starts(inference):
    X, y = _images()
    base = BCFWSSVM(Grid(inference=inference), tol=0.05, random_state=0, warm_start=True)
    matrix = [[0.0, 3.0], [0.5, 0.0]]
    costly = clone(base).set_params(loss=matrix).fit(X, y)
    by_name = clone(base).set_params(loss={"left": 3.0, "right": 0.5}).fit(X, y)
    assert_array_equal(costly.coef_, by_name.coef_)
    short = clone(base).set_params(loss="normalized_hamming").fit(X, y)
    assert short.objective_ < clone(base).fit(X, y).objective_
    one = clone(base).fit(X, y)
    passes = one.n_iter_
    assert one.fit(X, y).n_iter_ <= passes
    assert one.dual_gap_ <= 0.05 * one.objective_


def test_searches_folds_and_scores():
    X, y = _images(3, 9)
    search = GridSearchCV(
        BCFWSSVM(Grid(), tol=0.2, random_state=0),
        {"graph__interactions": ["symmetric", "potts"], "graph__inference": ["auto", EXACT]},
        cv=3,
        scoring=SCORERS["node_f1"],
        error_score="raise",
    ).fit(X, y)
    assert 0.4 < search.best_score_ <= 1.0
    assert len(set(np.round(search.cv_results_["mean_test_score"], 12))) <= 2, "auto is exact here"
    found = search.predict(X)
    flat, other = np.concatenate([v.ravel() for v in y]), np.concatenate([v.ravel() for v in found])
    assert_array_equal(flatten(y, found), [flat, other])
    assert_allclose(search.best_estimator_.score(X, y), (flat == other).mean())
    assert_array_equal(*flatten(y, [v.tolist() for v in y]))
    whole = [np.array_equal(a, b) for a, b in zip(y, found, strict=True)]
    assert_allclose(sequence_accuracy_score(y, found), np.mean(whole))
    with pytest.raises(ValueError, match=r"sample 0: y_true has the shape \(2, 2\), y_pred \(2, 3"):
        flatten(y, [*found[1:], found[0]])
    with pytest.raises(ValueError, match="sample 0 must be a 1-D sequence"):
        chunk_f1_score(y, found)
    crf = SAGCRF(Grid(), tol=0.1, solver="lbfgs")
    marginals, classes = cross_val_marginals(crf, X, y, cv=3)
    assert classes.tolist() == ["left", "right", "up"]
    for mu, labels in zip(marginals, y, strict=True):
        assert mu.shape == (*labels.shape, 3)
        assert_allclose(mu.sum(axis=2), 1.0)


def test_pipelines_transform_pixels_and_nodes():
    X, y = _images()
    shifted = [5.0 + 100.0 * x for x in X]
    crf = SAGCRF(Grid(), tol=1e-2, solver="lbfgs")
    pipeline = make_pipeline(PerNode(StandardScaler()), crf).fit(shifted, y)
    scaler = StandardScaler().fit(np.concatenate([x.reshape(-1, 2) for x in X]))
    by_hand = [scaler.transform(x.reshape(-1, 2)).reshape(x.shape) for x in X]
    assert_allclose(pipeline[0].transform(shifted)[1], by_hand[1])
    assert_allclose(pipeline[-1].coef_, clone(crf).fit(by_hand, y).coef_, atol=1e-6)
    assert cross_val_score(pipeline, shifted, y, cv=2).min() > 0.4
    edges = [np.array([[0, 1], [1, 3], [3, 0]]) for _ in X]
    rows = [np.full((3, 1), i) for i in range(len(X))]
    graphs = [(x.reshape(-1, 2), e, r) for x, e, r in zip(shifted, edges, rows, strict=True)]
    transformed = pipeline[0].transform(graphs)
    for (x, e, r), image, before, row in zip(transformed, by_hand, edges, rows, strict=True):
        assert_allclose(x, image.reshape(-1, 2))
        assert e is before
        assert r is row
    in_csr = [(sparse.csr_matrix(x), *rest) for x, *rest in graphs]
    scaled = PerNode(StandardScaler(with_mean=False)).fit_transform(in_csr)
    assert sparse.issparse(scaled[0][0])
    words = [([{"w": "a"}, {"w": "b"}], [[0, 1]]), ([{"w": "b"}], [])]
    from sklearn.feature_extraction import DictVectorizer

    vectors = PerNode(DictVectorizer()).fit_transform(words)
    assert vectors[0][0].toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert len(PerNode(StandardScaler()).fit(X).transform([])) == 0


def test_callbacks_and_pickles(tmp_path):
    X, y = _images(3)
    file = tmp_path / "model.pkl"
    crf = SAGCRF(Grid(), max_iter=30, tol=1e-2, solver="lbfgs")
    crf.set_callbacks(Checkpoint(file), TimeLimit(1000)).fit(X, y)
    kept = joblib.load(file)
    assert kept.coef_.shape == crf.coef_.shape
    assert kept.predict(X)[0].shape == X[0].shape[:2]
    small = pickle.loads(pickle.dumps(crf.sparsify(dtype="float32")))
    assert_array_equal(small.pair_weights_, crf.pair_weights_)
    stopped = BCFWSSVM(Grid(), tol=0.0, max_iter=10**6, random_state=0)
    stopped.set_callbacks(TimeLimit(0.05)).fit(X, y)
    assert stopped.n_iter_ < 10**6


ESTIMATORS = [*FITS, NEEDS[3][0]]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_nodes_by_themselves(estimator):
    """Images of one pixel, graphs without edges: what is learned is that of nodes alone."""
    X, y = _images(3)
    ones = [x[:1, :1] for x in X] + [x[1:, 1:2] for x in X]
    labels = [v[:1, :1] for v in y] + [v[1:, 1:2] for v in y]
    pixels = clone(estimator).set_params(graph=Grid(inference=EXACT)).fit(ones, labels)
    graphs = [(x.reshape(-1, 2), np.empty((0, 2), dtype=int)) for x in ones]
    flat = [v.ravel() for v in labels]
    nodes = clone(estimator).set_params(graph=Pairwise(inference=EXACT)).fit(graphs, flat)
    assert_array_equal(pixels.coef_, nodes.coef_)
    assert not pixels.pair_weights_.any()
    for a, b in zip(pixels.predict(ones), nodes.predict(graphs), strict=True):
        assert a.shape == (1, 1)
        assert_array_equal(a.ravel(), b)
    assert [v.shape for v in pixels.predict(X)] == [v.shape for v in y]


def test_one_sample_and_labels_that_never_meet():
    X, y = _images(3)
    one = SAGCRF(Grid(), tol=1e-3, solver="lbfgs").fit(X[1:2], y[1:2])
    assert one.score(X[1:2], y[1:2]) > 0.5
    apart = [np.ones((2, 2, 1)), -np.ones((2, 2, 1))]
    labels = [np.full((2, 2), "left"), np.full((2, 2), "right")]
    crf = SAGCRF(Grid(), tol=1e-4, C=10.0, solver="lbfgs").fit(apart, labels)
    table = crf.pairwise_coef_
    assert max(table[0, 1], table[1, 0]) < min(table[0, 0], table[1, 1])
    assert_array_equal(np.stack(crf.predict(apart)), labels)
    with pytest.raises(ValueError, match="y has only one class"):
        SAGCRF(Grid()).fit(apart[:1], labels[:1])


def test_edge_features_in_csr_of_many_types():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1, 0], [1, 2, 1], [2, 0, 0], [0, 1, 1]])
    dense = [(rng.normal(size=(3, 2)), edges, rng.normal(size=(4, 2))) for _ in range(6)]
    y = [np.array(["left", "right", "left"])[rng.permutation(3)] for _ in dense]
    in_csr = [(x, e, sparse.csr_matrix(rows)) for x, e, rows in dense]
    graph = Pairwise(edge_types=2, edge_features=True)
    models = [SAGCRF(graph, tol=1e-2, solver="lbfgs").fit(X, y) for X in (dense, in_csr)]
    assert_allclose(models[0].pairwise_coef_, models[1].pairwise_coef_)
    # The same graph whose edge features stand in columns of their own for each type.
    wide = [(x, e[:, :2], np.zeros((4, 4))) for x, e, _ in dense]
    for (_, _, rows), (_, e, given) in zip(wide, dense, strict=True):
        for j, kind in enumerate(e[:, 2]):
            rows[j, 2 * kind : 2 * kind + 2] = given[j]
    fewer = [[0, 1, 2]] * 6  # two edges of the same nodes need types
    by_type = SAGCRF(graph, tol=1e-8, max_iter=2000, solver="lbfgs")
    by_type.fit([(x, e[k], r[k]) for (x, e, r), k in zip(dense, fewer, strict=True)], y)
    columns = SAGCRF(Pairwise(edge_features=True), tol=1e-8, max_iter=2000, solver="lbfgs")
    columns.fit([(x, e[k], r[k]) for (x, e, r), k in zip(wide, fewer, strict=True)], y)
    tables = columns.pairwise_coef_.reshape(2, 2, 2, 2)
    assert_allclose(by_type.pairwise_coef_, tables, atol=1e-3)


@pytest.mark.skipif(cache_folder() is None, reason="kernels are not kept")
def test_the_command_that_compiles_knows_what_structures_take(capsys):
    assert usual_features(Grid()) == ["dense"]
    assert usual_features(Pairwise()) == ["csr"]
    graphs = ["grid", "Grid(edge_features='contrast')"]
    assert main(["compile", "--graph", *graphs, "--estimator", "SubgradientSSVM"]) == 0
    assert "SubgradientSSVM on Grid(), dense features" in capsys.readouterr().out


x = np.ones((3, 2))
EDGES = [[0, 1], [1, 2]]
IMAGE = np.ones((2, 3, 2))
LABELS = np.array([["a", "b", "a"], ["b", "a", "a"]])


@pytest.mark.parametrize(
    ("graph", "sample", "match"),
    [
        (Pairwise(), [x, EDGES], r"sample 1 must be a tuple \(features, edges\), got list"),
        (Pairwise(), (x,), r"sample 1 must be a tuple .*, got a tuple of 1"),
        (Pairwise(), (x, EDGES, x[:2]), r"sample 1 must be a tuple .*, got a tuple of 3"),
        (Pairwise(), (np.empty((0, 2)), EDGES), r"sample 1 has the edge \(0, 1\), but no nodes"),
        (Pairwise(), (np.empty((0, 2)), []), "sample 1 is empty, a sample needs at least one node"),
        (Pairwise(), (np.full((3, 2), np.inf), EDGES), r"infinity \(sample 1, node 0\)"),
        (
            Pairwise(),
            (x, np.ma.masked_array(EDGES, [[0, 1], [0, 0]])),
            "edges of sample 1 has mask",
        ),
        (Pairwise(), (x, np.array(EDGES, dtype=object)), "edges of sample 1 must be integers"),
        (Pairwise(), (x, [[0, 2**70]]), "edges of sample 1 must be integers"),
        (Pairwise(), (x, np.array([[0, 2**63]], np.uint64)), r"sample 1 has the edge \(0, 92233"),
        (Pairwise(), (x, None), "edges of sample 1 must be integers"),
        (Pairwise(), (x, np.array(EDGES) > 0), "edges of sample 1 must be integers .* dtype bool"),
        (Pairwise(edge_types=2), (x, [[0, 1, 0.5]]), "edges of sample 1 must be integers .* type"),
        (Pairwise(edge_types=2), (x, [[0, 1, -1]]), "sample 1 has an edge of type -1"),
        (Grid(), sparse.csr_matrix(x), "sample 1 must be a dense array .*, got csr_matrix"),
        (Grid(), (IMAGE, x), "sample 1 must be a dense array .*, got tuple"),
        (Grid(), np.ma.masked_array(IMAGE, IMAGE > 0), "sample 1 has masked entries"),
        (Grid(), IMAGE[..., :0], "sample 1 must be an image of shape"),
        (Grid(edge_features=True), IMAGE, r"sample 1 must be a tuple \(image, edge features\)"),
    ],
)
def test_bad_samples(graph, sample, match):
    good, labels = (x, EDGES), ["a", "b", "a"]
    if graph.edge_features or isinstance(graph, Grid):
        good, labels = (IMAGE, np.ones((7, 1))) if graph.edge_features else IMAGE, LABELS
    elif graph.edge_types > 1:
        good = (x, [[0, 1, 0]])
    with pytest.raises(ValueError, match=match):
        SAGCRF(graph).fit([good, sample], [labels, labels])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([LABELS, np.ma.masked_array(LABELS, LABELS == "b")], "y: sample 1 has masked entries"),
        ([LABELS, [["a", 1, "b"], ["b", "a", "a"]]], "y: sample 1 mixes strings with"),
        ([LABELS, [["a"], ["a", "b"]]], "y: sample 1: rows differ in length"),
        ([LABELS, LABELS.T], r"y: sample 1 must have the shape of its image, \(2, 3\), got \(3, 2"),
        ([LABELS, np.full((2, 3), np.nan)], "y: sample 1 is continuous or contains NaN"),
    ],
)
def test_bad_labels_of_images(y, match):
    with pytest.raises((ValueError, TypeError), match=match):
        ExtragradientSSVM(Grid()).fit([IMAGE, IMAGE], y)


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (Pairwise(edge_features="contrast"), "edge_features must be a bool, got 'contrast'"),
        (Pairwise(edge_types=True), "edge_types must be an integer of at least 1, got True"),
        (Pairwise(forbidden=3), "forbidden must be a list of pairs of labels, got 3"),
        (Pairwise(inference=["auto"]), r"inference must be .*, got \['auto'\]"),
        (Grid(directions="yes"), "directions must be a bool, got 'yes'"),
        (Grid(edge_features=np.eye(2)), 'edge_features must be a bool or "contrast", got array'),
        (Grid(neighborhood=None), "neighborhood must be 4 or 8, got None"),
        (Grid(max_table=np.nan), "max_table must be a number of at least 1, got nan"),
    ],
)
def test_bad_parameters(graph, match):
    is_image = isinstance(graph, Grid)
    X, y = ([IMAGE], [LABELS]) if is_image else ([(x, EDGES)], [["a", "b", "a"]])
    with pytest.raises(ValueError, match=match):
        SAGCRF(graph).fit(X, y)


@pytest.mark.parametrize(
    ("model", "X", "match"),
    [
        (SAGCRF(Grid()), IMAGE, r"got the shape \(3, 2\); X is a list of images: for one image x"),
        (SAGCRF(Grid()), x, r"Grid\(\) takes images: expected a list of arrays \(height, width"),
        (SAGCRF(Pairwise()), (x, EDGES), r"sample 0 must be a tuple .*, got ndarray; .* is \[x\]"),
        (SAGCRF(Pairwise()), x, r"takes graphs: expected a list of tuples \(features, edges\)"),
        (SAGCRF(), [IMAGE, IMAGE], r"sample 0 has 3 dimensions: for images .* graph=Grid\(\)"),
        (SAGCRF(), np.ones((2, 2, 3, 2)), r"X has 4 dimensions; .* for images graph=Grid\(\)"),
        (SAGCRF(), [(x, EDGES)] * 2, r"X has tuples: use .* Pairwise\(\)"),
    ],
)
def test_other_kinds_of_samples(model, X, match):
    with pytest.raises(ValueError, match=match):
        model.fit(X, [LABELS, LABELS])


def test_features_that_differ_from_those_of_fit():
    X, y = _images()
    crf = SAGCRF(Grid(edge_features=True), max_iter=200, tol=0.1, solver="lbfgs")
    rows = [np.ones((len(v.ravel()) * 2 - sum(v.shape), 2)) for v in y]
    crf.fit(list(zip(X, rows, strict=True)), y)
    assert crf.n_edge_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 features, but SAGCRF is expecting 2 features"):
        crf.predict([(np.ones((1, 2, 3)), np.ones((1, 2)))])
    with pytest.raises(ValueError, match="X has 3 edge features, but SAGCRF is expecting 2 edge"):
        crf.predict([(np.ones((1, 2, 2)), np.ones((1, 3)))])
    with pytest.raises(ValueError, match="sample 0 has 2 nodes and 1 edges, but 2 rows of edge"):
        crf.predict([(np.ones((1, 2, 2)), np.ones((2, 2)))])


def test_more_than_kernels_count_is_refused():
    from skstruct.graphs.pairwise.graph import pack

    none = np.empty((0, 2), dtype=np.int32), np.empty(0, dtype=np.int32)
    with pytest.raises(ValueError, match="sample 1 has 2147483648 nodes, above 2147483647"):
        pack(np.empty((0, 1)), np.array([0, 3, 3 + 2**31]), [none, none], None)


# One array in, one array out


@pytest.mark.parametrize("estimator", [*FITS, SAGCRF(tol=0.1, random_state=0)])
@pytest.mark.parametrize("graph", [Grid(), Chain()])
def test_an_array_of_samples_gives_an_array_of_labels(estimator, graph):
    shape = (6, 2, 3) if isinstance(graph, Grid) else (6, 3)
    X = np.random.default_rng(0).normal(size=(*shape, 2))
    y = np.where(X[..., 0] > 0, "up", "down")
    model = clone(estimator).set_params(graph=graph).fit(X, y)
    labels, listed = model.predict(X), model.predict(list(X))
    assert (labels.shape, labels.dtype, listed.shape) == (y.shape, y.dtype, (6,))
    assert_array_equal(labels, np.stack([*listed]))
    score = np.mean(y == labels)
    for forms in (X, y), (X, list(y)), (list(X), y), (list(X), list(y)):
        assert_allclose(model.score(*forms), score)
    assert_array_equal(flatten(list(y), labels), flatten(y, listed))
    assert_array_equal(flatten(y, labels), [y.ravel(), labels.ravel()])
    assert model.predict(X[:1]).shape == (1, *shape[1:])
    none = model.predict(X[:0])
    assert (none.shape, none.dtype) == ((0, *shape[1:]), y.dtype)
    folds = cross_val_score(model, X, y, cv=2, scoring=SCORERS["node_f1_macro"])
    assert np.isfinite(folds).all()
    if isinstance(model, SAGCRF):
        marginals = model.predict_marginals(X)
        assert marginals.shape == (*shape, 2)
        assert model.predict_marginals(X[:0]).shape == (0, *shape[1:], 2)
        assert_array_equal(marginals, np.stack([*model.predict_marginals(list(X))]))
        correct, sure = confidences(model, X, y)
        assert_allclose(correct.mean(), (model.classes_[marginals.argmax(-1)] == y).mean())
        assert_allclose(sure, marginals.max(axis=-1).ravel())


def test_links_of_an_array_of_pairs_stay_lists():
    X = np.random.default_rng(0).normal(size=(4, 2, 2, 3))
    y = [np.array([[0, 0], [1, 1]])] * 4
    model = BCFWSSVM(Matching(), tol=0.1, random_state=0).fit(list(X), y)
    assert model.predict(X).shape == (4,)

"""Boxes in images: oracles, losses, every estimator, bad input."""

import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, Boxes, CasimirSSVM
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.data.boxes import overlaps
from skstruct.testing import training_problem


def all_boxes(height, width, stride=1, min_size=1):
    """(top, left, bottom, right) of every box on the lines."""
    rows, columns = [*range(0, height, stride), height], [*range(0, width, stride), width]
    return [
        (top, left, bottom, right)
        for top, bottom, left, right in product(rows, rows, columns, columns)
        if bottom - top >= min_size and right - left >= min_size
    ]


def draw(rng, n_samples=12, noise=0.3):
    """Maps of codes, in which the code 3 is mostly inside the box."""
    X, y = [], []
    for _ in range(n_samples):
        height, width = rng.integers(5, 9, size=2)
        codes = rng.integers(0, 3, size=(height, width))
        left, top = rng.integers(0, 3, size=2)
        inside = codes[top : top + 3, left : left + 3]
        inside[rng.random(inside.shape) > noise] = 3
        X.append(codes)
        y.append([left, top, left + inside.shape[1], top + inside.shape[0]])
    return X, np.array(y)


@st.composite
def images(draw):
    """Points with a feature of 1, a box that may lie off the lines, and options."""
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    place = st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))
    points = draw(st.lists(place, max_size=8))
    weights = draw(st.lists(st.integers(-2, 2), min_size=len(points), max_size=len(points)))
    left, right = sorted(draw(st.sets(st.integers(0, width), min_size=2, max_size=2)))
    top, bottom = sorted(draw(st.sets(st.integers(0, height), min_size=2, max_size=2)))
    graph = Boxes(draw(st.integers(1, min(height, width))), draw(st.integers(1, 3)))
    positions = np.array(points, dtype=int).reshape(-1, 2)
    # A column a point, so that weights are scores of points; none has a column, too.
    features = sparse.csr_matrix(np.eye(len(points), 9))
    scores = 0.25 * np.array([*weights, *[0] * (9 - len(points))])
    return (positions, features, (height, width)), [left, top, right, bottom], graph, scores


@settings(max_examples=40)
@given(images(), st.sampled_from(["iou", "hamming"]), st.integers(1, 4))
def test_searches_with_a_loss_against_enumeration(image, loss, k):
    x, box, graph, scores = image
    problem, *_ = training_problem(graph, [x], [box], fit_intercept=False, loss=loss)
    true = problem.labels
    theta = np.empty(len(x[0]))
    oracles.potentials(problem, 0, Weights(scores[:, None], np.empty((0, 0))), theta)
    # Where it is not on the lines, the true box is an answer of the search with a loss, not of
    # the one without.
    there = all_boxes(*x[2], graph.stride, graph.min_size)
    own = np.array(there, dtype=np.int32)
    boxes = np.array(list(dict.fromkeys([*there, tuple(true.tolist())])), dtype=np.int32)
    plain, values = [], []
    for labels in boxes:
        inside = (x[0] >= labels[:2]).all(axis=1) & (x[0] < labels[2:]).all(axis=1)
        overlap = overlaps(labels[None].astype(float), true[None].astype(float))[0]
        expected = 1.0 - overlap if loss == "iou" else float((labels != true).any())
        delta = oracles.task_loss(problem, 0, labels)
        assert_allclose(delta, expected, atol=1e-15)
        plain.append(theta[inside].sum())
        assert_allclose(oracles.score(problem, 0, theta, labels), plain[-1])
        values.append(plain[-1] + delta)
    found, scratch = np.zeros(4, dtype=np.int32), np.empty(theta.size)
    best = oracles.max_oracle(problem, 0, theta, found)
    assert_allclose(best, max(plain[: len(own)]), atol=1e-12)
    assert found.tolist() in own.tolist()
    best = oracles.loss_augmented_max(problem, 0, theta, found, scratch)
    assert_allclose(best, max(values), atol=1e-12)
    assert_allclose(values[boxes.tolist().index(found.tolist())], best, atol=1e-12)
    top, rows = np.empty(k), np.zeros((k, 4), dtype=np.int32)
    oracles.loss_augmented_top_k(problem, 0, theta, top, rows, scratch)
    expected = np.full(k, -np.inf)
    expected[: min(k, len(values))] = sorted(values, reverse=True)[:k]
    assert_allclose(top, expected, atol=1e-12)
    kept = rows[np.isfinite(top)].tolist()
    assert len({tuple(row) for row in kept}) == len(kept)
    assert_allclose([values[boxes.tolist().index(row)] for row in kept], top[: len(kept)])


@pytest.fixture(scope="module")
def data():
    return draw(np.random.default_rng(0))


def hinges_of(X, y, loss):
    """Of each sample, feature differences (box minus truth) and losses of all boxes."""
    found = []
    for codes, (left, top, right, bottom) in zip(X, y.tolist(), strict=True):
        one_hot = np.concatenate([np.eye(4), np.ones((4, 1))], axis=1)[codes]
        boxes = np.array(all_boxes(*codes.shape))
        features = [one_hot[t:b, a:c].sum(axis=(0, 1)) for t, a, b, c in boxes]
        true = np.array([[top, left, bottom, right]])
        losses = 1.0 - overlaps(boxes.astype(float), true.astype(float))
        losses = losses if loss == "iou" else (boxes != true).any(axis=1).astype(float)
        found.append((features - one_hot[top:bottom, left:right].sum(axis=(0, 1)), losses))
    return found


def objective(w, hinges, C):
    losses = [np.max(rows @ w + losses) for rows, losses in hinges]
    return 0.5 * (w @ w) / (C * len(hinges)) + np.mean(losses)


def optimum(hinges, C):
    """By cutting planes over all boxes: a quadratic program with a slack a sample."""
    n, d = len(hinges), hinges[0][0].shape[1]
    sets = [[int(np.argmax(losses))] for _, losses in hinges]
    x = np.zeros(d + n)
    for _ in range(100):
        rows = np.array([[*hinges[i][0][k], *-np.eye(n)[i]] for i in range(n) for k in sets[i]])
        loss = np.array([hinges[i][1][k] for i in range(n) for k in sets[i]])
        x = minimize(
            lambda x: 0.5 * (x[:d] @ x[:d]) / (C * n) + x[d:].mean(),
            x,
            jac=lambda x: np.concatenate([x[:d] / (C * n), np.full(n, 1.0 / n)]),
            constraints={
                "type": "ineq",
                "fun": lambda x, rows=rows, loss=loss: -rows @ x - loss,
                "jac": lambda x, rows=rows: -rows,
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        ).x
        new = [int(np.argmax(rows @ x[:d] + losses)) for rows, losses in hinges]
        if all(k in seen for k, seen in zip(new, sets, strict=True)):
            break
        for k, seen in zip(new, sets, strict=True):
            seen.extend({k} - set(seen))
    return objective(x[:d], hinges, C)


@pytest.mark.parametrize("loss", ["iou", "hamming"])
def test_two_solvers_reach_one_certified_optimum(loss):
    data = draw(np.random.default_rng(0), noise=0.4)
    hinges = hinges_of(*data, loss)
    best = optimum(hinges, 0.1)
    options = {"C": 0.1, "loss": loss, "random_state": 0}
    bcfw = BCFWSSVM(Boxes(), tol=1e-4, max_iter=1000, **options).fit(*data)
    casimir = CasimirSSVM(Boxes(), tol=3e-3, max_iter=500, **options).fit(*data)
    for svm, close in ((bcfw, 1e-4), (casimir, 3e-3)):
        w = svm.node_weights_[:, 0]
        assert_allclose(svm.objective_, objective(w, hinges, 0.1), rtol=1e-9)
        assert best * (1 - 1e-6) <= svm.objective_ <= best * (1 + close)
    for svm in (bcfw, casimir):
        # No slack: the reference is the objective of a point, so no bound may pass it.
        assert svm.dual_objective_ <= best
        assert 0 <= svm.dual_gap_ <= svm.tol * svm.objective_
        # Every bound on the way, too.
        assert np.nanmax(svm.history_["dual_objective"]) <= best


def test_predictions_are_the_best_boxes(data):
    X, y = data
    svm = BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, y)
    predicted, (ranked, values) = svm.predict(X), svm.predict_top_k(X, 3)
    assert predicted.shape == (len(X), 4)
    assert predicted.dtype.kind == "i"
    hits = []
    for i, codes in enumerate(X):
        weights = svm.coef_[0][codes] + svm.intercept_[0]
        boxes = all_boxes(*codes.shape)
        scores = np.array([weights[t:b, a:c].sum() for t, a, b, c in boxes])
        order = np.argsort(-scores)
        assert_allclose(values[i], scores[order[:3]], atol=1e-10)
        assert ranked[i].shape == (3, 4)
        assert_array_equal(ranked[i][0], predicted[i])
        xmin, ymin, xmax, ymax = predicted[i]
        assert_allclose(weights[ymin:ymax, xmin:xmax].sum(), scores.max(), atol=1e-10)
        assert_allclose(
            svm.decision_function([codes])[0],
            [scores[order[0]], scores[order[0]] - scores[order[1]]],
            atol=1e-9,
        )
        hits.append(overlaps(predicted[i : i + 1].astype(float), y[i : i + 1].astype(float))[0])
    assert svm.score(X, y) == np.mean(np.array(hits) >= 0.5) > 0.7
    weight = np.arange(len(X), dtype=float)
    assert_allclose(svm.score(X, y, weight), np.average(np.array(hits) >= 0.5, weights=weight))
    assert svm.predict([]).shape == (0, 4)
    # In threads: the same boxes.
    many = X * 80
    assert_array_equal(svm.set_params(n_jobs=2).predict(many), np.tile(predicted, (80, 1)))


def test_maps_points_and_codes_are_one(data):
    X, y = data
    maps = [np.eye(4)[codes] for codes in X]
    places = [np.indices(codes.shape).reshape(2, -1).T for codes in X]
    points = [(p, codes.ravel(), codes.shape) for p, codes in zip(places, X, strict=True)]
    rows = [
        (p[::-1], sparse.csr_matrix(np.eye(4)[codes.ravel()[::-1]]), codes.shape)
        for p, codes in zip(places, X, strict=True)
    ]
    svm = BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, y)
    for form in (points, rows):
        assert_array_equal(svm.predict(form), svm.predict(X))
    # Verbs of dense maps are enumerated in plain_verbs.py.
    assert_array_equal(svm.predict(maps), svm.predict(X))
    assert BCFWSSVM(Boxes(n_codes=7)).fit(X, y).coef_.shape == (1, 7)


def test_true_boxes_may_come_in_a_frame(data):
    X, y = data
    frame = pd.DataFrame(y, columns=["xmin", "ymin", "xmax", "ymax"])
    svm = BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, frame)
    assert_array_equal(svm.coef_, BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, y).coef_)
    assert svm.score(X, frame) == svm.score(X, y)
    with pytest.raises(ValueError, match="y: sample 0 must be a box of whole numbers"):
        svm.fit(X, frame.iloc[:, :3])


def test_tall_and_wide_images_go_together():
    # A table as high as the first and as wide as the second would take 3 GB.
    ends = np.array([[0, 0], [10**6 - 1, 0], [10**6, 0]])
    X = [(ends, [0, 0, 1], (10**7, 1)), (ends[:, ::-1], [0, 0, 1], (1, 10**7))]
    y = [[0, 0, 1, 10**6], [0, 0, 10**6, 1]]
    svm = BCFWSSVM(Boxes(stride=1000), loss="iou", random_state=0, tol=1e-6).fit(X, y)
    assert svm.score(X, y) == 1.0


def test_casimir_does_not_overshoot():
    # The best boxes at first are neighbours: steps for their distances alone go to 1,000.
    rng = np.random.default_rng(1)
    X, y = [], []
    for _ in range(12):
        codes = rng.integers(0, 3, size=(24, 30))
        top, left = rng.integers(0, [12, 14])
        height, width = rng.integers(6, 12, size=2)
        codes[top : top + height, left : left + width] = 3
        X.append(codes)
        y.append([left, top, left + width, top + height])
    options = {"C": 0.01, "loss": "iou", "max_iter": 6, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm = CasimirSSVM(Boxes(), n_best=10, **options).fit(X, y)
    assert svm.history_["objective"].max() < 1.0  # that of weights of 0


def test_lines_and_sizes_bind_predictions(data):
    X, y = data
    # The true boxes are neither on these lines nor that large.
    svm = BCFWSSVM(Boxes(min_size=4, stride=2), loss="iou", random_state=0).fit(X, y)
    assert svm.history_["objective"][-1] > 0
    for codes, box in zip(X, svm.predict(X), strict=True):
        left, top, right, bottom = box.tolist()
        assert (top, left, bottom, right) in all_boxes(*codes.shape, 2, 4)


def test_a_search_that_is_cut_warns(data):
    X, y = data
    graph = Boxes(max_expansions=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # training is not cut
        svm = BCFWSSVM(graph, loss="iou", random_state=0).fit(X, y)
    full = BCFWSSVM(Boxes(), loss="iou", random_state=0).fit(X, y)
    assert_array_equal(svm.coef_, full.coef_)
    best = full.predict_top_k(X, 1)[1]
    with pytest.warns(ConvergenceWarning, match=r"max_expansions=1 cut the search .* samples 0,"):
        boxes = svm.predict(X)
    for i, (codes, box) in enumerate(zip(X, boxes, strict=True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert_array_equal(svm.predict([codes])[0], box)
        weights = svm.coef_[0][codes] + svm.intercept_[0]
        lack = best[i][0] - weights[box[1] : box[3], box[0] : box[2]].sum()
        stated = [float(str(w.message).split("up to ")[1].split()[0]) for w in caught]
        assert lack <= 1.005 * sum(stated) + 1e-9
    with pytest.warns(ConvergenceWarning, match="in sample 1: a better one"):
        svm.predict_top_k([np.zeros((1, 1), dtype=int), X[1]], 2)
    svm.graph_.max_expansions = 10**6
    assert_array_equal(svm.predict(X), full.predict(X))


def test_images_of_a_pixel():
    X, y = [np.array([[0]]), np.array([[1, 0]])], [[0, 0, 1, 1], [0, 0, 1, 1]]
    svm = BCFWSSVM(Boxes(), loss="iou", random_state=0, tol=1e-6).fit(X, y)
    assert svm.predict(X).tolist() == y
    assert svm.predict_top_k(X, 5)[0][0].tolist() == [[0, 0, 1, 1]]
    assert svm.decision_function(X)[0, 1] == np.inf


def test_grid_search_and_pickles(data):
    X, y = data
    grid = {"graph__stride": [1, 2], "C": [0.1, 1.0]}
    search = GridSearchCV(BCFWSSVM(Boxes(), loss="iou", random_state=0), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search))
    assert_array_equal(again.predict(X), search.predict(X))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SAGCRF(Boxes()), "Boxes has no marginals"),
        (GDMMSSVM(Boxes()), "loss of Boxes does not add up over parts; use BCFWSSVM"),
        (CasimirSSVM(Boxes(), smoothing="entropy"), 'does not add up .*; use smoothing="l2" or'),
    ],
)
def test_what_needs_more_structure_says_so(data, estimator, message):
    with pytest.raises(TypeError, match=message):
        estimator.fit(*data)


MAP, BOX = np.zeros((2, 3, 1)), [0, 0, 1, 1]
CODES = np.zeros((2, 3), dtype=int)


def points(places, values=(0,), shape=(2, 3)):
    return places, np.array(values), shape


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([points([[0, 0]], shape=(10**6, 10**7))], [BOX], "sample 0 .* use a larger stride"),
        ([MAP], [[0, 0, 4, 1]], r"y: sample 0 is a box outside its image of 2 x 3 pixels"),
        ([MAP, MAP], [BOX, [0, -1, 1, 1]], "y: sample 1 is a box outside"),
        ([MAP, MAP], [BOX, [1, 1, 1, 2]], "y: sample 1 is an empty box"),
        ([MAP], [[0, 0, 1.5, 1]], "y: sample 0 must be a box of whole numbers"),
        ([MAP], [[0, 0, np.nan, 1]], "y: sample 0 must be a box of whole numbers"),
        ([MAP], [[0, 0, 1]], "y: sample 0 must be a box"),
        ([MAP, MAP], [BOX], "X has 2 samples, but y has 1"),
        ([MAP, np.zeros((2, 3, 2))], [BOX] * 2, "sample 1 has 2 features, sample 0 has 1"),
        ([MAP, CODES], [BOX] * 2, "sample 1 must have features like sample 0, it has codes"),
        ([CODES, MAP], [BOX] * 2, "sample 1 must have codes like sample 0, it has features"),
        ([MAP, np.zeros((2, 3))], [BOX] * 2, "X: sample 1 must be a map"),
        ([MAP, np.zeros((2, 0, 1))], [BOX] * 2, "X: sample 1 is an image of 2 x 0 pixels"),
        ([MAP, np.full((2, 3, 1), np.nan)], [BOX] * 2, r"NaN \(sample 1, node 0\)"),
        ([CODES, CODES - 1], [BOX] * 2, "X: sample 1 has the code -1"),
        ([points([[0, 0]]), points([[2, 0]])], [BOX] * 2, "sample 1: point 0 .* is outside"),
        ([points([[0, -1]])], [BOX], "sample 0: point 0 .* is outside"),
        ([points([[0, 0]], shape=(2, 2**31))], [BOX], "sample 0: its .* integers up to 2147483647"),
        ([points([[0, 0]], [2**31])], [BOX], "sample 0 has the code 2147483648: codes must be bel"),
        (
            [points([[0, 0]], np.uint64([2**63]))],
            [BOX],
            "sample 0 has the code 922337203685477",
        ),
        ([points([[0.0, 1.0]])], [BOX], "sample 0: its positions must be integers"),
        ([points([[0, 0]], [0, 1])], [BOX], "sample 0 has 1 positions, but 2 rows"),
        ([points([[0, 0]], [0.5])], [BOX], "sample 0: codes must be integers"),
        ([points([[0, 0]], shape=(2, 0))], [BOX], "sample 0: its .* two integers"),
        ([([[0, 0]], [0])], [BOX], "sample 0 must be a map .* got a tuple of 2"),
    ],
)
def test_bad_input_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(Boxes()).fit(X, y)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Boxes(min_size=0), "min_size must be an integer of at least 1, got 0"),
        (Boxes(stride=1.5), "stride must be an integer"),
        (Boxes(stride=2**70), "stride must be at most 2147483647, got"),
        (Boxes(max_expansions=0), "max_expansions must be an integer of at least 1 or None"),
        (Boxes(n_codes=True), "n_codes must be"),
        (Boxes(n_codes=1), "X: sample 0 has the code 3, but there are 1 codes"),
        (Boxes(min_size=9), "X: sample 0 has .* there is no box with sides of min_size=9"),
    ],
)
def test_bad_parameters_are_named(data, graph, message):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(graph).fit(*data)


def test_what_else_is_refused(data):
    with pytest.raises(ValueError, match="loss of boxes must be 'hamming'"):
        BCFWSSVM(Boxes(), loss="normalized_hamming").fit(*data)
    svm = BCFWSSVM(Boxes(), random_state=0).fit(*data)
    with pytest.raises(ValueError, match="no constrained decoding"):
        svm.predict(data[0], allowed=[np.ones(4)])
    with pytest.raises(ValueError, match="sample 0 has the code 4, but there are 4 codes"):
        svm.predict([np.full((3, 3), 4)])
    with pytest.raises(ValueError, match="X is a table"):
        svm.predict(np.zeros((3, 3)))
    with pytest.raises(FloatingPointError, match="sample 1: the scores overflow"):
        svm.predict([np.zeros((2, 2, 4)), np.full((2, 2, 4), 1e305)])

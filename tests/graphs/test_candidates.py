"""Sets of candidates: oracles, losses, every estimator, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, Candidates, MultiClass, SubgradientSSVM


def draw(rng, n_samples=30, n_features=4, largest=6):
    X = [rng.normal(size=(rng.integers(1, largest + 1), n_features)) for _ in range(n_samples)]
    w = np.arange(1.0, n_features + 1)
    return X, [int(np.argmax(x @ w + rng.normal(size=len(x)))) for x in X]


def boxes_of(X):
    return [(x, np.column_stack([x[:, :2], x[:, :2] + 1.0 + abs(x[:, 2:4])])) for x in X]


def test_as_many_candidates_as_classes_is_multinomial_regression():
    # Candidate k has the features of the row in the k-th block: then the weights are a table.
    rng = np.random.default_rng(2)
    rows, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    X = [np.kron(np.eye(3), row) for row in rows]
    crf = SAGCRF(
        Candidates(),
        C=2.0,
        fit_intercept=False,
        tol=1e-8,
        max_iter=2000,
        random_state=0,
        solver="sag",
    )
    crf.fit(X, y)
    reference = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(rows, y)
    np.testing.assert_allclose(crf.coef_.reshape(3, 3), reference.coef_, atol=1e-4)
    marginals = np.stack(list(crf.predict_marginals(X)))
    np.testing.assert_allclose(marginals, reference.predict_proba(rows), atol=1e-4)
    svm = BCFWSSVM(Candidates(), fit_intercept=False, tol=1e-4, max_iter=2000, random_state=0)
    table = clone(svm).set_params(graph=MultiClass()).fit(rows, y)
    assert svm.fit(X, y).objective_ == pytest.approx(table.objective_, rel=2e-4)


@pytest.mark.parametrize("loss", ["hamming", "iou"])
def test_two_solvers_reach_one_certified_optimum(loss):
    X, y = draw(np.random.default_rng(3))
    X = boxes_of(X)
    bcfw = BCFWSSVM(Candidates(), loss=loss, tol=1e-4, max_iter=500, random_state=0).fit(X, y)
    subgradient = SubgradientSSVM(Candidates(), loss=loss, tol=1e-9, max_iter=300, random_state=0)
    subgradient.fit(X, y)
    dual = bcfw.objective_ - bcfw.dual_gap_
    assert dual <= subgradient.objective_ <= bcfw.objective_ * 1.05


def test_predictions_scores_and_marginals():
    X, y = draw(np.random.default_rng(4))
    crf = SAGCRF(Candidates(), C=10.0, solver="lbfgs").fit(X, y)
    predicted = crf.predict(X)
    scores = crf.decision_function(X)
    assert predicted.tolist() == [int(np.argmax(s)) for s in scores]
    assert crf.score(X, y) == np.mean(predicted == y) > 0.6
    for s, p, ranked, values in zip(
        scores, crf.predict_marginals(X), *crf.predict_top_k(X, 3), strict=True
    ):
        np.testing.assert_allclose(p, np.exp(s - s.max()) / np.exp(s - s.max()).sum())
        np.testing.assert_array_equal(ranked, np.argsort(-s, kind="stable")[:3])
        np.testing.assert_allclose(values, np.sort(s)[::-1][:3])
    masks = [np.arange(len(x)) == len(x) - 1 for x in X]
    assert crf.predict(X, allowed=masks).tolist() == [len(x) - 1 for x in X]
    log_likelihood = crf.predict_log_likelihood(X, y)
    expected = [np.log(p[k]) for p, k in zip(crf.predict_marginals(X), y, strict=True)]
    np.testing.assert_allclose(log_likelihood, expected)


def test_losses_are_heard():
    # The second candidate is as good as right, the third is far off: its score must be the lowest.
    rng = np.random.default_rng(5)
    X = [np.eye(3) + 0.1 * rng.normal(size=(3, 3)) for _ in range(20)]
    y = [np.array([0.0, 0.0, 5.0])] * 20
    svm = BCFWSSVM(Candidates("losses"), random_state=0).fit(X, y)
    assert svm.coef_[0].argmin() == 2
    assert svm.score(X, y) == 1.0


def test_boxes_are_predicted_and_scored():
    X, _ = draw(np.random.default_rng(6), largest=5)
    X = boxes_of(X)
    y = [boxes[0] for _, boxes in X]
    svm = BCFWSSVM(Candidates("box"), loss="iou", random_state=0).fit(X, y)
    predicted = svm.predict(X)
    assert predicted.shape == (len(X), 4)
    hits = 0
    for box, (_, boxes), true in zip(predicted, X, y, strict=True):
        assert box.tolist() in boxes.tolist()
        low, high = np.maximum(box[:2], true[:2]), np.minimum(box[2:], true[2:])
        both = np.prod(np.clip(high - low, 0, None))
        union = np.prod(box[2:] - box[:2]) + np.prod(true[2:] - true[:2]) - both
        hits += both / union >= 0.5
    assert svm.score(X, y) == svm.score(X, pd.DataFrame(y)) == pytest.approx(hits / len(X))
    assert svm.predict_top_k(X, 2)[0][0].shape[1] == 4


@pytest.mark.parametrize("target", ["losses", "box"])
def test_log_likelihood_of_the_first_of_several_right_ones(target):
    X, _ = draw(np.random.default_rng(12), 6)
    losses = [np.arange(len(x)) // 2 * 1.0 for x in X]
    pairs = [(x, np.tile([0.0, 0.0, 1.0, 1.0], (len(x), 1))) for x in X]
    X, y = (X, losses) if target == "losses" else (pairs, [[0.0, 0.0, 1.0, 1.0]] * len(X))
    crf = SAGCRF(Candidates(target), C=0.1, solver="lbfgs").fit(X, y)
    first = [np.log(marginals[0]) for marginals in crf.predict_marginals(X)]
    np.testing.assert_allclose(crf.predict_log_likelihood(X, y), first, atol=1e-12)


def test_a_missed_box_counts_as_wrong():
    X, y = draw(np.random.default_rng(13), 4)
    X = boxes_of(X)
    true = [b[i] for (_, b), i in zip(X, y, strict=True)]
    svm = BCFWSSVM(Candidates("box"), random_state=0).fit(X, true)
    right = svm.predict(X)
    assert svm.score(X, right) == 1.0
    assert svm.score(X, [right[0] + 100.0, *right[1:]]) == 0.75
    with pytest.raises(ValueError, match="y: sample 0 has no right candidate"):
        svm.fit(X, [true[0] + 100.0, *true[1:]])


def test_no_samples_and_no_intercept():
    X, y = draw(np.random.default_rng(10), 4)
    pairs = boxes_of(X)
    boxes = [b[i] for (_, b), i in zip(pairs, y, strict=True)]
    svm = BCFWSSVM(Candidates("box"), random_state=0, fit_intercept=False).fit(pairs, boxes)
    assert svm.predict([]).shape == (0, 4)
    assert [len(found) for found in svm.predict_top_k([], 2)] == [0, 0]
    for x, scores in zip(X, svm.decision_function(pairs), strict=True):
        np.testing.assert_allclose(scores, x @ svm.coef_[0])


def test_overlap_of_boxes_of_any_scale():
    X, y = draw(np.random.default_rng(11), 10)
    found = []
    for scale in (1.0, 2.0**600, 2.0**-600):
        pairs = [(x, b * scale) for x, b in boxes_of(X)]
        true = [b[i] for (_, b), i in zip(pairs, y, strict=True)]
        svm = BCFWSSVM(Candidates("box"), loss="iou", random_state=0).fit(pairs, true)
        found.append(svm.coef_.copy())
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_grid_search_and_pickles():
    X, y = draw(np.random.default_rng(7))
    search = GridSearchCV(BCFWSSVM(Candidates(), random_state=0), {"C": [0.01, 1.0]}, cv=3)
    search.fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_what_needs_more_structure_says_so():
    X, y = draw(np.random.default_rng(8))
    with pytest.raises(TypeError, match="Candidates"):
        GDMMSSVM(Candidates()).fit(X, y)


ROW = np.ones((1, 2))


@pytest.mark.parametrize(
    ("graph", "X", "y", "message"),
    [
        (Candidates(), [ROW, np.ones((0, 2))], [0, 0], "X: sample 1 has no candidates"),
        (Candidates(), [ROW, np.ones((2, 3))], [0, 0], "sample 1"),
        (Candidates(), [ROW, ROW], [0, 1], "y: sample 1 must be the position .* 0 to 0, got 1"),
        (Candidates(), [ROW, ROW], [0, -1], "y: sample 1 must be the position"),
        (Candidates(), [ROW, ROW], [0, 0.0], "y: sample 1 must be the position"),
        (Candidates(), [ROW, ROW], [0], "X has 2 samples, but y has 1"),
        (Candidates(), [(ROW, [[0, 0, 1, 1]]), ROW], [0, 0], "sample 1 must be a tuple"),
        (Candidates(), [(ROW, [[0, 0, 0, 1]])], [0], "boxes of sample 0: box 0 is empty"),
        (Candidates(), [(ROW, [[0, 0, 1, 1]] * 2)], [0], r"boxes of sample 0 .* \(1, 4\)"),
        (Candidates(), [(ROW, [[0, 0, 1, np.nan]])], [0], "boxes of sample 0 .* not finite"),
        (Candidates("losses"), [ROW], [[1.0]], "y: sample 0 has no right candidate"),
        (Candidates("losses"), [ROW], [[-1.0]], "y: sample 0 has a loss that is negative"),
        (Candidates("losses"), [ROW], [[0.0, 1.0]], "y: sample 0 must be an array of 1 losses"),
        (Candidates("box"), [ROW], [[0, 0, 1, 1]], "must be tuples"),
        (Candidates("box"), [(ROW, [[0, 0, 1, 1]])], [[5, 5, 6, 6]], "no right candidate"),
        (Candidates("none"), [ROW], [0], "target must be one of"),
        (Candidates(), [np.full((1, 2), np.nan)], [0], "sample 0"),
    ],
)
def test_bad_input_is_named(graph, X, y, message):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(graph).fit(X, y)


@pytest.mark.parametrize("loss", ["normalized_hamming", {0: 2.0}, "iou"])
def test_losses_that_candidates_do_not_have(loss):
    with pytest.raises(ValueError, match="loss"):
        BCFWSSVM(Candidates(), loss=loss).fit([ROW, ROW], [0, 0])


def test_masks_of_another_shape_are_refused():
    X, y = draw(np.random.default_rng(9), 3)
    svm = BCFWSSVM(Candidates(), random_state=0).fit(X, y)
    masks = [np.ones(len(x), dtype=bool) for x in X]
    with pytest.raises(ValueError, match="allowed: sample 0 must be a boolean mask"):
        svm.predict(X, allowed=[np.ones(99, dtype=bool), *masks[1:]])
    with pytest.raises(ValueError, match="sample 1: no labelling satisfies"):
        svm.predict(X, allowed=[masks[0], ~masks[1], masks[2]])

"""Predictions and probabilities of CRFs against enumeration; constraints."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import brier_score_loss

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    AtMostOnce,
    Candidates,
    Chain,
    MultiClass,
    MultiLabel,
    RaggedArray,
)
from skstruct.datasets import pack_shards
from tests.helpers.crf_cases import TIGHT, enumerated

# Predictions against enumeration


@pytest.fixture
def fitted(sequences):
    X, y = sequences
    return SAGCRF(C=5.0, random_state=0, tol=1e-9, max_iter=1000).fit(X, y)


def test_predictions_and_probabilities_follow_from_the_published_weights(fitted, sequences):
    X, y = sequences
    nodes, edges = fitted.predict_marginals(X, pairwise=True)
    likelihoods = fitted.predict_log_likelihood(X, y)
    predicted = fitted.predict(X)
    for i, x in enumerate(X[:8]):
        labellings, scores = enumerated(fitted, x)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        assert (predicted[i] == fitted.classes_[labellings[scores.argmax()]]).all()
        one_hot = np.eye(fitted.classes_.size)[labellings]
        np.testing.assert_allclose(nodes[i], np.einsum("q,qtk->tk", p, one_hot), atol=1e-9)
        pairs = np.einsum("q,qtj,qtk->tjk", p, one_hot[:, :-1], one_hot[:, 1:])
        np.testing.assert_allclose(edges[i], pairs, atol=1e-9)
        codes = np.searchsorted(fitted.classes_, y[i])
        true = (labellings == codes).all(axis=1)
        np.testing.assert_allclose(likelihoods[i], np.log(p[true][0]), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:SAGCRF did not converge")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("graph", ["plain", "edge features", "forbidden", "boundary"])
def test_samples_are_predicted_as_each_alone(graph, n_jobs):
    rng = np.random.default_rng(0)
    lengths = [2, 1, 2, 7, 1, *rng.integers(1, 1200, 8)]  # one and no transition before others
    X = [np.round(rng.normal(size=(n, 3)), 1) for n in lengths]
    y = [rng.choice(["a", "b", "c"], n) for n in lengths]
    made = Chain(
        boundary=graph == "boundary",
        edge_features=graph == "edge features",
        forbidden=[("a", "b"), ("c", "c")] if graph == "forbidden" else None,
    )
    if graph == "forbidden":
        y = [np.resize(["a", "a", "c", "b"], n) for n in lengths]
    if graph == "edge features":
        X = [(x, rng.normal(size=(len(x) - 1, 2))) for x in X]
    crf = SAGCRF(made, C=100, max_iter=3, tol=0.0, random_state=0, n_jobs=n_jobs).fit(X, y)
    together = crf.predict(X)
    for x, found in zip(X, together, strict=True):
        np.testing.assert_array_equal(found, crf.predict([x])[0])
        labels, scores = crf.predict_top_k([x], 2)
        assert len(scores[0]) < 2 or scores[0][0] == scores[0][1] or (labels[0][0] == found).all()


def test_top_k_is_sorted_distinct_and_starts_with_the_prediction(fitted, sequences):
    X, _ = sequences
    labels, scores = fitted.predict_top_k(X, 4)
    for x, found, values, best in zip(X, labels, scores, fitted.predict(X), strict=True):
        _, all_scores = enumerated(fitted, x)
        np.testing.assert_allclose(values, np.sort(all_scores)[::-1][:4], rtol=1e-9)
        assert (found[0] == best).all()
        assert len({tuple(row) for row in found}) == len(found) == min(4, len(all_scores))


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_top_k_refuses_a_bad_k(fitted, sequences, k):
    with pytest.raises(ValueError, match="k must be an integer"):
        fitted.predict_top_k(sequences[0], k)


@pytest.mark.parametrize("rules", [None, [AtMostOnce("b")]], ids=str)
@pytest.mark.parametrize("temperature", [None, 2.0])
def test_probabilities_of_the_best_are_those_of_enumeration(fitted, sequences, temperature, rules):
    X = [*sequences[0][:5], np.empty((0, sequences[0][0].shape[1]))]
    model = copy.copy(fitted)
    model._temperature = temperature
    labels, scores, probabilities = model.predict_top_k(X, 4, rules, probabilities=True)
    plain = model.predict_top_k(X, 4, rules)
    assert len(plain) == 2
    for own, others in zip((*labels, *scores), (*plain[0], *plain[1]), strict=True):
        np.testing.assert_array_equal(own, others)
    for i, x in enumerate(X[:5]):
        labellings, values = enumerated(fitted, x)
        if rules is not None:
            is_b = fitted.classes_[labellings] == "b"
            begins = is_b & ~np.roll(is_b, 1, axis=1)
            begins[:, 0] = is_b[:, 0]
            labellings, values = labellings[begins.sum(1) < 2], values[begins.sum(1) < 2]
        p = np.exp((values - values.max()) / (temperature or 1.0))
        p /= p.sum()
        order = np.argsort(-p)[: len(probabilities[i])]
        np.testing.assert_allclose(probabilities[i], p[order], rtol=1e-9)
        for own, probability in zip(labels[i], probabilities[i], strict=True):
            same = (fitted.classes_[labellings] == own).all(axis=1)
            np.testing.assert_allclose(probability, p[same][0], rtol=1e-9)
    assert probabilities[5].tolist() == [1.0]


@pytest.mark.parametrize("graph", [MultiClass(), MultiLabel("full"), Candidates()], ids=str)
def test_probabilities_of_all_labellings_sum_to_one(graph):
    X, y = graph.example(np.random.default_rng(0), False)
    crf = SAGCRF(graph, solver="lbfgs").fit(X, y)
    _, scores, probabilities = crf.predict_top_k(X[:3], 100, probabilities=True)
    for own, p in zip(scores, probabilities, strict=True):
        np.testing.assert_allclose(p.sum(), 1.0)
        np.testing.assert_allclose(np.log(p / p[0]), own - own[0], atol=1e-9)


def test_structural_svms_have_no_probabilities_of_labellings(sequences):
    svm = BCFWSSVM(random_state=0, tol=0.1).fit(*sequences)
    with pytest.raises(TypeError, match="BCFWSSVM has no probabilities: call predict_top_k with"):
        svm.predict_top_k(sequences[0], 2, probabilities=True)
    with pytest.raises(TypeError, match="probabilities must be a bool, got 'yes'"):
        svm.predict_top_k(sequences[0], 2, probabilities="yes")


def test_top_k_that_does_not_fit_is_refused_before_it_is_begun(fitted, sequences):
    with pytest.raises(MemoryError, match=r"best labellings of \d+ samples.*ask for fewer"):
        fitted.predict_top_k(sequences[0], 10**15)


def test_threads_change_nothing(fitted, sequences, monkeypatch):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    X, _ = sequences
    fitted.n_jobs = None
    alone = fitted.predict(X), fitted.predict_marginals(X), fitted.predict_top_k(X, 3)[0]
    fitted.n_jobs = 2
    for a, b in zip(alone[0], fitted.predict(X), strict=True):
        assert (a == b).all()
    for a, b in zip(alone[1], fitted.predict_marginals(X), strict=True):
        assert (a == b).all()
    for a, b in zip(alone[2], fitted.predict_top_k(X, 3)[0], strict=True):
        assert (a == b).all()


def test_weights_can_be_edited_through_the_views(fitted, sequences):
    X, _ = sequences
    fitted.intercept_[1] += 1e4
    assert all((labels == fitted.classes_[1]).all() for labels in fitted.predict(X))
    fitted.intercept_[1] -= 1e4
    fitted.coef_[:] = 0.0
    fitted.pairwise_coef_[:] = 0.0
    fitted.intercept_[:] = 0.0
    np.testing.assert_allclose(fitted.predict_marginals(X)[0], 1 / 3)


# Constraints


def _iob(rng, n_samples=30):
    names = np.array(["B-x", "I-x", "O"])
    X, y = [], []
    for _ in range(n_samples):
        n = rng.integers(1, 7)
        codes = rng.integers(0, 3, size=n)
        for t in range(n):
            if codes[t] == 1 and (t == 0 or codes[t - 1] == 2):
                codes[t] = 2
        X.append(np.eye(3)[codes] + 1.5 * rng.normal(size=(n, 3)))
        y.append(names[codes])
    return X, y


def test_forbidden_steps_never_occur_and_have_probability_zero():
    X, y = _iob(np.random.default_rng(0))
    crf = SAGCRF(Chain(forbidden="iob2"), C=0.1, **TIGHT).fit(X, y)
    free = SAGCRF(Chain(), C=0.1, **TIGHT).fit(X, y)
    hostile = [np.tile([0.0, 50.0, 0.0], (4, 1))]  # all evidence for I-x
    assert free.predict(hostile)[0][0] == "I-x"
    assert crf.predict(hostile)[0][0] == "B-x"
    for labels in [*crf.predict(X), *(row for rows in crf.predict_top_k(X, 5)[0] for row in rows)]:
        before = ["O", *labels[:-1]]
        assert not any(a == "O" and b == "I-x" for a, b in zip(before, labels, strict=True))
    _, edges = crf.predict_marginals(X, pairwise=True)
    assert all((table[:, 2, 1] == 0).all() for table in edges)
    assert crf.predict_log_likelihood(X[:1], [["I-x"] * len(X[0])])[0] == -np.inf
    # Training knows the constraint, too: its probabilities sum to 1 over allowed labellings.
    x = X[0][:3]
    top, scores = crf.predict_top_k([x], 100)
    log_p = crf.predict_log_likelihood([x] * len(top[0]), list(top[0]))
    np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.diff(log_p), np.diff(scores[0]), atol=1e-9)


def test_allowed_labels_are_respected(fitted, sequences):
    X, _ = sequences
    rng = np.random.default_rng(0)
    masks = []
    for x in X:
        mask = rng.random((len(x), 3)) < 0.5
        mask[np.arange(len(x)), rng.integers(3, size=len(x))] = True
        masks.append(mask)
    for form in (masks, RaggedArray.from_list(masks)):
        for x, mask, labels in zip(X, masks, fitted.predict(X, allowed=form), strict=True):
            labellings, scores = enumerated(fitted, x)
            fits = mask[np.arange(len(x)), labellings].all(axis=1)
            best = labellings[fits][scores[fits].argmax()]
            assert (labels == fitted.classes_[best]).all()


def test_allowed_on_a_table():
    X, y = load_digits(return_X_y=True)
    crf = SAGCRF(tol=1e-2).fit(X[:200] / 16, y[:200])
    allowed = np.ones((10, 10), dtype=bool)
    allowed[:, crf.predict(X[:10] / 16)] = False
    assert not np.isin(crf.predict(X[:10] / 16, allowed=allowed), crf.predict(X[:10] / 16)).any()
    with pytest.raises(ValueError, match="allowed must be of shape"):
        crf.predict(X[:10] / 16, allowed=allowed[:3])


def test_no_probability_is_above_1():
    """Sums of many terms are, by rounding, and scikit-learn's metrics refuse that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(int)
    crf = SAGCRF(MultiLabel("full"), C=1e4, solver="lbfgs", max_iter=200, tol=1e-2).fit(X, Y)
    crf.node_weights_ *= 1e3
    crf.pair_weights_ *= 1e3
    p = crf.predict_proba(X)
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    for label in range(4):
        brier_score_loss(Y[:, label], p[:, label])


def test_no_probability_of_a_chain_is_above_1(sequences, tmp_path):
    X, y = sequences
    crf = SAGCRF(C=10.0, random_state=0).fit(X, y)
    crf.node_weights_ *= 10.0
    crf.pair_weights_ *= 10.0
    nodes, edges = crf.predict_marginals(X, pairwise=True)
    shards = pack_shards(X, y, tmp_path / "shards", shard_size=4)
    for marginals in (nodes, edges, crf.predict_marginals(shards)):
        assert max(m.max(initial=0.0) for m in marginals) <= 1.0
        assert min(m.min(initial=0.0) for m in marginals) >= 0.0
    for m in nodes:
        np.testing.assert_allclose(m.sum(axis=1), 1.0, rtol=0, atol=1e-14)

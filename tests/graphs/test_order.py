"""Chains of higher order: n-grams of labels as an automaton."""

import itertools
import json
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtMostOnce,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    ProxLinearSSVM,
    SubgradientSSVM,
    export,
)
from skstruct.datasets import pack_shards
from skstruct.inspection import explain, ngram_frame
from skstruct.lite import Tagger
from skstruct.testing import check_structure

LABELS = np.array(["B-x", "I-x", "O"])
CHAINS = {
    "2": Chain(order=2),
    "2, ends": Chain(order=2, boundary=True),
    "3": Chain(order=3),
    "3, ends": Chain(order=3, boundary=True, forbidden="iob2"),
    "2, rules": Chain(order=2, boundary=True, rules=[AtMostOnce("x")]),
}


def sequences(seed=0, n=25, one_chunk=False):
    """Random features, and labels that follow the scheme, with at most one chunk if asked for."""
    rng, y = np.random.default_rng(seed), []
    for length in rng.integers(1, 8, size=n):
        labels, inside, done = [], False, False
        for _ in range(length):
            may_begin = not (one_chunk and done)
            options = ["O", *(["B-x"] if may_begin else []), *(["I-x"] if inside else [])]
            label = options[rng.integers(len(options))]
            inside, done = label != "O", done or label == "B-x"
            labels.append(label)
        y.append(np.array(labels))
    return [rng.normal(size=(len(labels), 3)) for labels in y], y


def training(name):
    return sequences(one_chunk=name == "2, rules")


def scores_of(model, x):
    """The scores of all labellings of a sample, from the weights by their n-grams."""
    graph, n = model.graph_, len(model.classes_)
    node = x @ model.coef_.T + model.intercept_
    ends = model.boundary_coef_ if graph.boundary else np.zeros((2, n))
    grams = {
        tuple(code for code in row if code >= 0): weight
        for row, weight in zip(
            graph.ngrams_.tolist(), model.pair_weights_[0, n * n :].tolist(), strict=True
        )
    }
    found = {}
    for codes in itertools.product(range(n), repeat=len(x)):
        score = (
            sum(node[t, k] for t, k in enumerate(codes)) + ends[0][codes[0]] + ends[1][codes[-1]]
        )
        score += sum(model.pairwise_coef_[pair] for pair in itertools.pairwise(codes))
        padded = (n, *codes, n + 1)
        for size in range(3, graph.order + 2):
            score += sum(
                grams.get(padded[t : t + size], 0.0) for t in range(len(padded) - size + 1)
            )
        found[codes] = score
    return found


@pytest.mark.parametrize("name", CHAINS)
def test_structure(name):
    X, y = training(name)
    few = [i for i, labels in enumerate(y) if len(labels) <= 4][:6]
    if name in ("2", "2, ends", "3"):
        check_structure(clone(CHAINS[name]), [X[i] for i in few], [y[i] for i in few])


@pytest.mark.parametrize("name", ["2", "2, ends", "3"])
def test_weights_of_ngrams_add_up(name):
    X, y = training(name)
    model = SAGCRF(CHAINS[name], C=10.0, random_state=0).fit(X, y)
    for x in X[:8]:
        scores = scores_of(model, x)
        best = max(scores.values())
        labellings, values = model.predict_top_k([x], 3)
        assert values[0][0] == pytest.approx(best, abs=1e-9)
        ordered = sorted(scores.values(), reverse=True)[:3]
        np.testing.assert_allclose(values[0][: len(ordered)], ordered, atol=1e-9)
        log_z = np.logaddexp.reduce(list(scores.values()))
        truth = LABELS[list(max(scores, key=scores.get))]
        assert model.predict_log_likelihood([x], [truth])[0] == pytest.approx(best - log_z)
        assert list(labellings[0][0]) == truth.tolist()
        marginals = np.zeros((len(x), 3))
        for codes, score in scores.items():
            marginals[np.arange(len(x)), codes] += np.exp(score - log_z)
        np.testing.assert_allclose(model.predict_marginals([x])[0], marginals, atol=1e-9)


@pytest.mark.parametrize("name", CHAINS)
def test_solvers_reach_one_optimum(name):
    X, y = training(name)
    found = {
        solver: SAGCRF(CHAINS[name], solver=solver, tol=1e-8, max_iter=2000, random_state=0)
        for solver in ("auto", "sag", "lbfgs", "oeg")
    }
    objectives = []
    for model in found.values():
        model.fit(X, y)
        objectives.append(model.objective_)
    least = min(objectives)
    for model in found.values():
        assert model.objective_ - model.dual_gap_ <= least
        assert model.objective_ - least <= 1e-6 * least


@pytest.mark.parametrize("name", ["2, ends", "2, rules"])
def test_structural_svms_reach_one_optimum(name):
    X, y = training(name)
    models = [
        ExtragradientSSVM(CHAINS[name], tol=1e-2, max_iter=5000),
        BCFWSSVM(CHAINS[name], tol=1e-4, max_iter=3000, random_state=0),
        CasimirSSVM(CHAINS[name], tol=1e-3, max_iter=300, random_state=0),
        CasimirSSVM(CHAINS[name], smoothing="entropy", tol=1e-3, max_iter=300, random_state=0),
    ]
    objectives, bounds = [], []
    for model in models:
        model.fit(X, y)
        objectives.append(model.objective_)
        bounds.append(model.objective_ - getattr(model, "dual_gap_", np.inf))
    assert max(bounds) <= min(objectives)
    assert max(objectives) <= 1.02 * min(objectives)
    assert SubgradientSSVM(CHAINS[name], random_state=0).fit(X, y).objective_ >= max(bounds)


def test_dual_decomposition_refuses():
    X, y = sequences()
    with pytest.raises(TypeError, match=re.escape("Chain(order=...): GDMMSSVM trains on nodes")):
        GDMMSSVM(Chain(order=2)).fit(X, y)


def test_networks_score_ngrams_too():
    X, y = sequences()
    model = ProxLinearSSVM(Chain(order=2), tol=0.9, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.5


def _of_two_before(n, seed=0):
    """Each label is the exclusive or of the two before; features tell the first two only."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        labels = [*rng.integers(0, 2, size=2)]
        while len(labels) < 9:
            labels.append(labels[-1] ^ labels[-2])
        x = np.zeros((9, 2))
        x[[0, 1], labels[:2]] = 1.0
        X.append(x)
        y.append(np.array(labels))
    return X, y


def test_an_exclusive_or_needs_order_2():
    X, y = _of_two_before(60)
    held_out = _of_two_before(40, seed=1)
    scores = [
        SAGCRF(Chain(order=order), C=10.0, random_state=0).fit(X, y).score(*held_out)
        for order in (1, 2)
    ]
    assert scores[0] < 0.9
    assert scores[1] == 1.0


@pytest.mark.parametrize("name", CHAINS)
def test_the_small_tagger_agrees(name, tmp_path):
    X, y = training(name)
    model = SAGCRF(CHAINS[name], C=10.0, random_state=0).fit(X, y)
    export(model, tmp_path / "model.npz")
    tagger = Tagger.load(tmp_path / "model.npz")
    assert tagger.tag_batch(X) == [labels.tolist() for labels in model.predict(X)]
    ranked, scores = model.predict_top_k(X, 4)
    for x, own, values in zip(X, ranked, scores, strict=True):
        found = tagger.top_k(x, 4)
        assert [labels for labels, _ in found] == [labels.tolist() for labels in own]
        np.testing.assert_allclose([value for _, value in found], values, atol=1e-9)
    for x, own in zip(X, model.predict_marginals(X), strict=True):
        np.testing.assert_allclose(tagger.marginals(x), own, atol=1e-9)
    for x, own in zip(X, model.predict_chunks(X, confidence=True), strict=True):
        found = tagger.chunks(x)
        assert [chunk[:3] for chunk in found] == [tuple(chunk)[:3] for chunk in own]
        np.testing.assert_allclose([c[3] for c in found], [c[3] for c in own], atol=1e-9)


def test_damaged_states_are_refused(tmp_path):
    X, y = sequences()
    export(SAGCRF(Chain(order=2), random_state=0).fit(X, y), tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    for name, value in (("after", 200), ("state_labels", 3), ("first", 99)):
        own = arrays[name].copy()
        own.flat[0] = value
        np.savez_compressed(tmp_path / "other.npz", **arrays | {name: own})
        with pytest.raises(ValueError, match=f"{name} has no states of the model"):
            Tagger.load(tmp_path / "other.npz")


def test_explain_adds_up_to_the_score():
    X, y = sequences()
    model = SAGCRF(Chain(order=3, boundary=True), random_state=0).fit(X, y)
    for x in X[:5]:
        table = explain(model, x)
        assert np.sum(table["contribution"]) == pytest.approx(model.predict_top_k([x], 1)[1][0][0])
    terms = explain(model, X[0], y[0])
    names = {str(name) for name in terms["feature"]}
    assert "<n-gram, stop>" in names
    frame = ngram_frame(model)
    assert len(frame["weight"]) == len(model.graph_.ngrams_)
    with pytest.raises(ValueError, match="has no n-grams"):
        ngram_frame(SAGCRF(Chain(), random_state=0).fit(X, y))


def test_shards_have_the_ngrams_of_all(tmp_path):
    X, y = sequences(n=40)
    graph = Chain(order=2, boundary=True)
    shards = pack_shards(X, y, tmp_path / "shards", shard_size=10)
    whole = SAGCRF(graph, tol=1e-6, solver="lbfgs", max_iter=500).fit(X, y)
    parts = SAGCRF(graph, tol=1e-6, solver="lbfgs", max_iter=500).fit(shards)
    np.testing.assert_array_equal(parts.graph_.ngrams_, whole.graph_.ngrams_)
    assert parts.objective_ == pytest.approx(whole.objective_, rel=1e-5)


def test_streams_take_up_the_ngrams_of_all_batches():
    X, y = sequences(n=30)
    model = SAGCRF(Chain(order=3, boundary=True), random_state=0)
    model.partial_fit(X[:5], y[:5], classes=LABELS)
    first, n = model.graph_, len(model.graph_.ngrams_)
    model.partial_fit(X[5:], y[5:])
    whole = SAGCRF(Chain(order=3, boundary=True), max_iter=1, tol=1e9).fit(X, y)
    np.testing.assert_array_equal(model.graph_.ngrams_, whole.graph_.ngrams_)
    assert len(first.ngrams_) == n < len(whole.graph_.ngrams_)  # a copy learns
    assert np.count_nonzero(model.pair_weights_[0, 9:]) > n


def test_rules_of_a_large_product_need_order_1():
    names = [*"abcdefghijkl"]
    rng = np.random.default_rng(0)
    y = [rng.permutation(names * 3) for _ in range(4)]
    X = [np.eye(12)[np.searchsorted(names, labels)] for labels in y]
    model = SAGCRF(Chain(order=3), C=10.0, max_iter=5, tol=1e9, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"sample 0: rules: the product .* need order=1"):
        model.predict(X, rules=[AtMostOnce()])


@pytest.mark.parametrize("order", [2.0, True])
def test_orders_are_integers(order):
    with pytest.raises(ValueError, match="order must be an integer"):
        SAGCRF(Chain(order=order)).fit(*sequences())


@pytest.mark.parametrize(
    "change",
    [
        lambda grams: None,
        lambda grams: grams.tolist(),
        lambda grams: grams[:, 1:],
        lambda grams: grams.astype(float),
        lambda grams: grams + 50,
        lambda grams: -np.ones_like(grams),
        lambda grams: np.where(grams == 4, 3, grams),
    ],
)
def test_damaged_ngrams_are_named(change):
    X, y = sequences()
    model = SAGCRF(Chain(order=2, boundary=True), max_iter=1, tol=1e9).fit(X, y)
    model.graph_.ngrams_ = change(model.graph_.ngrams_)
    with pytest.raises(ValueError, match=r"the model is damaged: graph_\.ngrams_"):
        model.predict(X)


def test_damaged_states_of_a_file(tmp_path):
    X, y = sequences()
    path = tmp_path / "model.npz"
    export(SAGCRF(Chain(order=2), max_iter=1, tol=1e9).fit(X, y), path)
    arrays = dict(np.load(path))
    header = json.loads(arrays["header"].tobytes())
    table = json.dumps(header | {"structure": "table"}).encode()
    changes = [
        ({"state_labels": arrays["state_labels"] * 0}, "a state of another one"),
        ({"after": np.ones_like(arrays["after"])}, "a state of another one"),
        ({"header": np.frombuffer(table, np.uint8)}, "a table has no states"),
    ]
    for change, message in changes:
        np.savez(path, **arrays | change)
        with pytest.raises(ValueError, match=message):
            Tagger.load(path)


def test_weights_of_what_occurs_are_for_order_1():
    with pytest.raises(TypeError, match=r"order 1, .* not for Chain\(order=2\)"):
        SAGCRF(Chain(order=2), all_possible_transitions=False).fit(*sequences())


def test_no_nodes_are_explained_by_nothing():
    X, y = sequences()
    model = SAGCRF(Chain(order=2, boundary=True), max_iter=1, tol=1e9).fit(X, y)
    assert len(explain(model, X[0][:0])) == 0


@pytest.mark.plain
@pytest.mark.parametrize("order", [1, 2])
def test_huge_scores_as_plain_python(order):
    X, y = sequences(n=8)
    model = SAGCRF(Chain(order=order, forbidden="iob2"), max_iter=1, tol=1e9).fit(X, y)
    drawn = np.random.default_rng(0).normal(size=model.pair_weights_.shape)
    for scale in (1.0, 1e4, 1e8):
        model.pair_weights_ = scale * drawn
        with np.errstate(all="ignore"):  # compiled kernels do not warn
            tables = model.predict_marginals(X)
        for table in tables:
            np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_warm_starts_match_ngrams():
    X, y = sequences(n=30)
    model = SAGCRF(Chain(order=2), tol=1e-6, max_iter=1000, warm_start=True, random_state=0)
    model.fit(X[:20], y[:20])
    before = {tuple(row): w for row, w in zip(*_grams(model), strict=True)}
    model.set_params(max_iter=1, tol=1e9).fit(X, y)
    now = {tuple(row): w for row, w in zip(*_grams(model), strict=True)}
    assert set(before) <= set(now)


def _grams(model):
    return model.graph_.ngrams_.tolist(), model.pair_weights_[0, 9:].tolist()


def test_missing_labels_are_in_no_ngram():
    X, y = sequences(n=30)
    hidden = [labels.astype(object) for labels in y]
    rng = np.random.default_rng(0)
    for labels in hidden:
        labels[rng.random(labels.size) < 0.2] = None
    model = SAGCRF(Chain(order=2), random_state=0).fit(X, hidden)
    whole = SAGCRF(Chain(order=2), random_state=0).fit(X, y)
    known = {tuple(row) for row in whole.graph_.ngrams_.tolist()}
    assert {tuple(row) for row in model.graph_.ngrams_.tolist()} <= known


def test_the_same_bits_for_any_number_of_threads():
    X, y = sequences(n=60)
    models = [
        SAGCRF(Chain(order=2), solver="lbfgs", max_iter=20, n_jobs=n).fit(X, y) for n in (1, 2)
    ]
    assert np.array_equal(*(model.pair_weights_ for model in models))
    one, two = (model.predict_marginals(X) for model in models)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_pickles_and_searches():
    X, y = sequences(n=20)
    search = GridSearchCV(
        SAGCRF(Chain(), max_iter=5, tol=1.0, random_state=0), {"graph__order": [1, 2]}, cv=2
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    for a, b in zip(again.predict(X), search.predict(X), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("order", [0, 4, "2", None])
def test_bad_orders(order):
    X, y = sequences(n=5)
    with pytest.raises(ValueError, match=re.escape("order must be one of 1, 2, 3; got ")):
        SAGCRF(Chain(order=order)).fit(X, y)


def test_what_does_not_go_together():
    X, y = sequences(n=5)
    pairs = [(x, np.ones((len(x) - 1, 1))) for x in X]
    with pytest.raises(ValueError, match="order=2 is for chains without edge features"):
        SAGCRF(Chain(order=2, edge_features=True)).fit(pairs, y)
    model = SAGCRF(Chain(order=2), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no order above 1"):
        model.to_crfsuite("never.crfsuite")

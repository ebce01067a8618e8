"""Hidden states: labels are sets of states; sums over these, by enumeration; what is refused."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.model_selection import GridSearchCV

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtMostOnce,
    CasimirSSVM,
    Chain,
    MultiClass,
    Pairwise,
    SubgradientSSVM,
    Tree,
)
from skstruct.core.parallel import ALONE, make_scratch
from skstruct.core.weights import flatten, view_flat, zero_weights
from skstruct.estimators.training_data import read_training_data
from skstruct.inspection import coef_frame, explain, transition_frame
from skstruct.losses.operations import private_loss
from skstruct.metrics import chunks
from skstruct.solvers.primal import loss_gradient, make_block
from skstruct.testing import random_sequences

STATES = {"a": 2, "c": 3}
COUNTS = [2, 1, 3]
OPTIONS = {"C": 2.0, "tol": 1e-3, "max_iter": 200, "random_state": 0}


def _samples(kind, n_samples=8, seed=3):
    rng = np.random.default_rng(seed)
    X, y = random_sequences(rng, n_samples=n_samples, max_length=4)
    if kind == "rows":
        return np.vstack([x[:1] for x in X]), np.array([labels[0] for labels in y])
    y = [[str(label) for label in labels] for labels in y]
    if kind == "trees":
        parents = [[-1, *(rng.integers(t) for t in range(1, len(x)))] for x in X]
        return list(zip(X, parents, strict=True)), y
    if kind == "graphs":
        edges = [[*itertools.combinations(range(len(x)), 2)][:4] for x in X]
        return [
            (x, np.array(e, dtype=int).reshape(-1, 2)) for x, e in zip(X, edges, strict=True)
        ], y
    return X, y


STRUCTURES = {
    "chains": Chain(states_per_label=STATES),
    "forbidden steps": Chain(forbidden=[("c", "a")], states_per_label=STATES),
    "trees": Tree(states_per_label=STATES),
    "graphs": Pairwise(states_per_label=STATES, inference="junction-tree"),
    "rows": MultiClass(states_per_label=STATES),
}


def _cases(name, **options):
    X, y = _samples(name, **options)
    if name == "forbidden steps":
        y = [
            ["c" if "c" in labels[:t] and v == "a" else v for t, v in enumerate(labels)]
            for labels in y
        ]
    return X, y


def _by_states(model, x):
    """All labellings by states, their scores, and the labels of the states."""
    graph = model.graph_
    samples = graph.read_X(model, [x] if not graph.is_table else x[None], reset=False)
    first, second = graph.edge_ends(samples)
    unary = samples.features @ model.coef_.T + model.intercept_
    n, states = len(unary), model.states_
    all_states = np.array([*itertools.product(range(len(states)), repeat=n)])
    scores = unary[np.arange(n), all_states].sum(axis=1)
    if first.size:
        scores += model.pairwise_coef_[all_states[:, first], all_states[:, second]].sum(axis=1)
    labels = states[all_states]
    if isinstance(getattr(graph, "forbidden", None), list):
        (before, after) = graph.forbidden[0]
        broken = (labels[:, first] == before) & (labels[:, second] == after)
        scores[broken.any(axis=1)] = -np.inf
    return all_states, scores, labels


def _log_likelihood(model, x, y):
    _, scores, labels = _by_states(model, x)
    fits = (labels == np.atleast_1d(np.array(y, dtype=object))).all(axis=1)
    return logsumexp(scores[fits]) - logsumexp(scores)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_crf_sums_over_states(name):
    X, y = _cases(name)
    crf = SAGCRF(STRUCTURES[name], **OPTIONS).fit(X, y)
    assert crf.states_.tolist() == ["a", "a", "b", "c", "c", "c"]
    assert crf.classes_.tolist() == ["a", "b", "c"]
    assert len(crf.coef_) == len(crf.intercept_) == 6
    expected = [_log_likelihood(crf, x, labels) for x, labels in zip(X, y, strict=True)]
    assert_allclose(crf.predict_log_likelihood(X, y), expected, atol=1e-10)
    norm = (crf.node_weights_**2).sum() + (crf.pair_weights_**2).sum()
    assert_allclose(crf.objective_, norm / (2 * 2.0 * len(X)) - np.mean(expected), rtol=1e-10)
    assert np.isnan([crf.dual_gap_, crf.dual_objective_]).all()
    marginals, predicted, states = crf.predict_marginals(X), crf.predict(X), crf.predict_states(X)
    for i in range(3):
        all_states, scores, labels = _by_states(crf, X[i])
        share = np.exp(scores - logsumexp(scores))
        for k, label in enumerate(crf.classes_):
            found = np.atleast_2d(marginals[i])[:, k]
            assert_allclose(found, share @ (labels == label), atol=1e-9)
        assert_array_equal(np.atleast_1d(predicted[i]), labels[scores.argmax()])
        assert_array_equal(np.atleast_1d(states[i]), all_states[scores.argmax()])


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["chains", "trees", "graphs"])
def test_pairs_of_labels_sum_over_pairs_of_states(name):
    X, y = _cases(name)
    crf = SAGCRF(STRUCTURES[name], **OPTIONS).fit(X, y)
    _, pairs = crf.predict_marginals(X, pairwise=True)
    samples = crf.graph_.read_X(crf, X, reset=False)
    i = int(samples.n_edges.argmax())
    _, scores, labels = _by_states(crf, X[i])
    one = samples.take(np.arange(len(X)) == i)
    for e, ends in enumerate(zip(*crf.graph_.edge_ends(one), strict=True)):
        for j, k in itertools.product(range(3), repeat=2):
            fits = (labels[:, ends] == crf.classes_[[j, k]]).all(axis=1)
            expected = np.exp(logsumexp(scores[fits]) - logsumexp(scores))
            assert_allclose(pairs[i][e, j, k], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["chains", "graphs", "rows"])
def test_the_gradient_is_that_of_the_objective(name):
    X, y = _cases(name)
    crf = SAGCRF(STRUCTURES[name], **OPTIONS).fit(X, y)
    data = read_training_data(crf, X, y, None)
    problem, loss = crf._make_problem(data), data.completion.marginal_log_loss()
    shapes = crf.node_weights_.shape, crf.pair_weights_.shape
    rng = np.random.default_rng(0)
    flat = rng.normal(size=crf.node_weights_.size + crf.pair_weights_.size)
    w, gradient = view_flat(flat, shapes), zero_weights(shapes)
    scratch, out = make_scratch(problem), np.zeros((2, len(X)))
    arguments = np.ones(len(X)), 0, len(X), scratch, np.empty_like(scratch.theta), gradient, out
    loss_gradient(private_loss(loss), problem, w, *arguments, make_block(problem), ALONE)

    def total(at):
        crf.node_weights_, crf.pair_weights_ = view_flat(at, shapes).tables
        return -sum(_log_likelihood(crf, x, labels) for x, labels in zip(X, y, strict=True))

    assert_allclose(out[0].sum(), total(flat), rtol=1e-11)
    for direction in rng.normal(size=(3, flat.size)):
        step = 1e-5 * direction
        slope = (total(flat + step) - total(flat - step)) / 2e-5
        assert_allclose(flatten(gradient) @ direction, slope, rtol=1e-6, atol=1e-6)


COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [0.5, 4.0, 0.0]])


@pytest.mark.parametrize(
    ("loss", "cost"),
    [("hamming", 1 - np.eye(3)), ({"b": 5.0}, (1 - np.eye(3)) * [[1], [5], [1]]), (COSTS, COSTS)],
)
@pytest.mark.parametrize("name", ["chains", "rows"])
def test_errors_within_a_label_cost_nothing(name, loss, cost):
    X, y = _cases(name)
    svm = SubgradientSSVM(STRUCTURES[name], loss=loss, **OPTIONS | {"tol": 0.5}).fit(X, y)
    hinge = []
    for x, true in zip(X, y, strict=True):
        _, scores, labels = _by_states(svm, x)
        codes = [np.searchsorted(svm.classes_, v) for v in (np.atleast_1d(true), labels)]
        delta = cost[codes[0], codes[1]].sum(axis=1)
        hinge.append((scores + delta).max() - scores[(codes[0] == codes[1]).all(axis=1)].max())
    norm = (svm.node_weights_**2).sum() + (svm.pair_weights_**2).sum()
    assert_allclose(svm.objective_, norm / (2 * 2.0 * len(X)) + np.mean(hinge), rtol=1e-9)


def runs(n_samples, seed):
    """Runs of two labels: within "alternating" the emissions alternate, within "constant" not."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n_samples):
        emissions, labels = [], []
        for _ in range(rng.integers(2, 5)):
            n, first, alternates = rng.integers(4, 9), rng.integers(2), rng.integers(2)
            emissions.append((first + alternates * np.arange(n)) % 2)
            labels += [("constant", "alternating")[alternates]] * int(n)
        flat = np.concatenate(emissions)
        X.append(np.eye(2)[flat] + 0.3 * rng.normal(size=(flat.size, 2)))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM, CasimirSSVM, SubgradientSSVM])
def test_two_states_tell_apart_what_one_cannot(estimator):
    X, y = runs(100, seed=0)
    new = runs(50, seed=1)
    options = {"max_iter": 1000, "tol": 0.1}
    flat = estimator(Chain(), random_state=0, **options).fit(X, y)
    fits = [
        estimator(Chain(states_per_label=2), random_state=seed, **options).fit(X, y)
        for seed in range(4)
    ]
    best = min(fits, key=lambda fitted: fitted.objective_)
    assert flat.score(*new) < 0.7 < 0.85 < best.score(*new)
    again = estimator(Chain(states_per_label=2), random_state=0, **options).fit(X, y)
    assert_array_equal(again.node_weights_, fits[0].node_weights_)


def test_one_state_is_the_ordinary_model():
    X, y = _samples("chains", 20)
    plain = SAGCRF(random_state=0).fit(X, y)
    one = SAGCRF(Chain(states_per_label={"a": 1}), random_state=0).fit(X, y)
    assert_array_equal(plain.node_weights_, one.node_weights_)
    assert plain.dual_gap_ == one.dual_gap_
    assert one.states_ is one.classes_


def test_pickles_searches_and_warm_starts():
    X, y = _samples("chains", 20)
    crf = SAGCRF(Chain(boundary=True, states_per_label=2), **OPTIONS).fit(X, y)
    assert crf.boundary_coef_.shape == (2, 6)
    again = pickle.loads(pickle.dumps(crf.sparsify(1e-9)))
    for found, expected in zip(again.predict(X), crf.predict(X), strict=True):
        assert_array_equal(found, expected)
    grid = {"graph__states_per_label": [1, 2, {"a": 2}]}
    search = GridSearchCV(SAGCRF(Chain(), tol=0.1), grid, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    warm = SAGCRF(Chain(states_per_label=2), warm_start=True, **OPTIONS).fit(X, y)
    before = warm.objective_
    assert warm.fit(X, y).n_iter_ <= 1
    assert_allclose(warm.objective_, before, rtol=1e-3)
    warm.graph.states_per_label = {"a": 3, "b": 2}
    warm.fit(X, y)
    assert warm.coef_.shape[0] == 6
    plain = SAGCRF(Chain(), warm_start=True, **OPTIONS).fit(X, y)
    plain.graph = Chain(states_per_label=2)
    assert plain.fit(X, y).coef_.shape[0] == 6


def test_partial_labels_and_masks():
    X, y = _samples("chains", 12)
    partial = [
        [None if t == 1 else {v, "b"} if t == 2 else v for t, v in enumerate(labels)]
        for labels in y
    ]
    crf = SAGCRF(STRUCTURES["chains"], **OPTIONS).fit(X, partial)
    i = int(np.argmax([len(labels) for labels in y]))
    _, scores, labels = _by_states(crf, X[i])
    fits = np.all(
        [
            [v is None or own == v or own in v for own in labels[:, t]]
            for t, v in enumerate(partial[i])
        ],
        axis=0,
    )
    expected = logsumexp(scores[fits]) - logsumexp(scores)
    assert_allclose(
        crf.predict_log_likelihood(X[i : i + 1], partial[i : i + 1])[0], expected, atol=1e-9
    )
    mask = np.ones((len(X[i]), 3), dtype=bool)
    mask[0, [0, 2]] = False
    assert crf.predict([X[i]], allowed=[mask])[0][0] == "b"
    BCFWSSVM(STRUCTURES["chains"], random_state=0, tol=0.1).fit(X, partial)


@pytest.mark.slow
def test_chunks_and_draws_are_of_labels():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(12)]
    y = [["O", "B-X", "I-X", "O"] if x[0, 0] > 0 else ["B-X", "O", "O", "B-X"] for x in X]
    crf = SAGCRF(Chain(forbidden="iob2", states_per_label={"O": 2, "B-X": 2}), **OPTIONS).fit(X, y)
    _, scores, labels = _by_states(crf, X[0])
    allowed = np.array(
        [
            not any(b == "I-X" and a == "O" for a, b in itertools.pairwise(["O", *row]))
            for row in labels
        ]
    )
    share = np.exp(scores - logsumexp(scores[allowed])) * allowed
    for chunk in crf.predict_chunks(X)[0]:
        fits = [(*chunk[:2], "X") in chunks(row.tolist()) for row in labels]
        assert_allclose(chunk.probability, share[fits].sum(), atol=1e-9)
    drawn = crf.sample(X[:1], 5, random_state=0)[0]
    assert drawn.shape == (5, 4)
    assert set(drawn.ravel()) <= {"O", "B-X", "I-X"}
    frame = coef_frame(crf)
    assert frame.columns.tolist() == ["B-X (1)", "B-X (2)", "I-X (1)", "O (1)", "O (2)"]
    assert np.isneginf(transition_frame(crf).loc[["O (1)", "O (2)"], "I-X (1)"]).all()


def test_decision_function_of_a_table_agrees_with_predictions():
    X, y = _samples("rows", 40)
    crf = SAGCRF(MultiClass(states_per_label=2), **OPTIONS).fit(X, y)
    assert_array_equal(crf.classes_[crf.decision_function(X).argmax(axis=1)], crf.predict(X))
    assert crf.predict_proba(X).shape == (40, 3)


def test_what_is_refused(tmp_path):
    X, y = _samples("chains")
    graph = Chain(states_per_label=2)
    crf = SAGCRF(graph, **OPTIONS).fit(X, y)
    with pytest.raises(TypeError, match="n best labellings are those of states"):
        crf.predict_top_k(X, 2)
    with pytest.raises(TypeError, match="entropies are those of states"):
        crf.predict_entropy(X)
    with pytest.raises(TypeError, match="rules are of labels"):
        crf.predict(X, rules=[AtMostOnce("a")])
    with pytest.raises(TypeError, match="rules are of labels"):
        SAGCRF(Chain(rules=[AtMostOnce("a")], states_per_label=2)).fit(X, y)
    with pytest.raises(ValueError, match="explain needs the state of each node"):
        explain(crf, X[0])
    with pytest.raises(ValueError, match="GDMMSSVM needs to know the state of each node"):
        GDMMSSVM(graph).fit(X, y)
    with pytest.raises(ValueError, match="class_weight and node_weight need the state"):
        SAGCRF(graph, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="partial_fit needs the state of each node"):
        SAGCRF(graph).partial_fit(X, y)
    for wrong, message in (
        (0, "states_per_label must be an integer of at least 1, got 0"),
        ({"a": 1.5}, r"states_per_label\['a'\] must be an integer"),
        ({"d": 2}, r"unknown label 'd'; the classes are \['a', 'b', 'c'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            SAGCRF(Chain(states_per_label=wrong)).fit(X, y)

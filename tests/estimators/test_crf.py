"""SAGCRF: optima, certificates, probabilities, constraints, callbacks."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad
from scipy.special import logsumexp
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skstruct import BCFWSSVM, SAGCRF, Chain, MultiClass
from skstruct.estimators import crf_path
from skstruct.estimators.training_data import read_training_data
from skstruct.losses.task import cost_matrix
from skstruct.testing import random_sequences
from tests.helpers.crf_cases import TIGHT, enumerated


def _objective(crf, X, y, C, sample_weight=None):
    """The lambda form by its definition, through the public interface."""
    s = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    norm = (crf.node_weights_**2).sum() + (crf.pair_weights_**2).sum()
    losses = -crf.predict_log_likelihood(X, y)
    return (0.5 * norm + C * (s @ losses)) / (C * s.sum())


def _gradient(crf, X, y, C):
    """The gradient of the lambda form on dense chains, from marginals."""
    lam = 1 / (C * len(X))
    node, pair = lam * crf.node_weights_, lam * crf.pair_weights_
    marginals, pairwise = crf.predict_marginals(X, pairwise=True)
    for x, labels, mu, nu in zip(X, y, marginals, pairwise, strict=True):
        truth = (np.asarray(labels)[:, None] == crf.classes_).astype(float)
        node += np.hstack([x, np.ones((len(x), 1))]).T @ (mu - truth) / len(X)
        steps = nu - truth[:-1, :, None] * truth[1:, None, :]
        pair += steps.sum(axis=0).reshape(1, -1) / len(X)
    return np.concatenate([node.ravel(), pair.ravel()])


def test_edge_features_reach_one_optimum_and_matter():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(40):
        n = rng.integers(2, 6)
        change = rng.integers(0, 2, size=n - 1)
        codes = np.concatenate([[rng.integers(2)], change]).cumsum() % 2
        X.append((np.ones((n, 1)), np.column_stack([change, 1 - change]).astype(float)))
        y.append(np.array(["a", "b"])[codes])
    fits = [
        SAGCRF(Chain(edge_features=True, boundary=True), C=10.0, solver=s, **TIGHT).fit(X, y)
        for s in ("sag", "lbfgs")
    ]
    np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, rtol=1e-8)
    assert fits[0].pairwise_coef_.shape == (2, 2, 2)
    # Edges tell whether the label changes: all neighbours agree with them.
    for predicted, (_, edges) in zip(fits[0].predict(X), X, strict=True):
        assert ((predicted[1:] != predicted[:-1]) == edges[:, 0].astype(bool)).all()


def test_gradient_of_the_batch_objective_by_finite_differences(sequences):
    from skstruct.core.parallel import ALONE, make_scratch
    from skstruct.core.weights import Weights, zero_weights
    from skstruct.losses.log import LogLoss
    from skstruct.solvers.primal import loss_gradient, make_block

    X, y = sequences
    crf = SAGCRF(max_iter=3, tol=100.0).fit(X, y)
    data = read_training_data(crf, X, y, None)
    problem = crf.graph_.make_problem(data.samples, crf.classes_, True, codes=data.codes)
    shapes = (crf.node_weights_.shape, crf.pair_weights_.shape)
    n_node = crf.node_weights_.size

    def both(flat):
        w = Weights(flat[:n_node].reshape(shapes[0]), flat[n_node:].reshape(shapes[1]))
        gradient = zero_weights(shapes)
        ones, out, scratch = np.ones(len(X)), np.empty((2, len(X))), make_scratch(problem)
        more = scratch, np.empty_like(scratch.theta), gradient, out
        loss_gradient(LogLoss(), problem, w, ones, 0, len(X), *more, make_block(problem), ALONE)
        return out[0].sum(), np.concatenate([table.ravel() for table in gradient])

    start = np.random.default_rng(0).normal(size=n_node + crf.pair_weights_.size)
    error = check_grad(lambda w: both(w)[0], lambda w: both(w)[1], start)
    assert error < 1e-4


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("solver", ["sag", "lbfgs", "casimir"])
def test_one_node_is_logistic_regression(C, solver):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    options = {"fit_intercept": False, "tol": 1e-12, "max_iter": 3000}
    crf = SAGCRF(C=C, solver=solver, random_state=0, **options).fit(X, y)
    logistic = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(crf.coef_, logistic.coef_, atol=2e-4)
    np.testing.assert_allclose(crf.predict_proba(X), logistic.predict_proba(X), atol=1e-4)


def test_chains_of_length_one_are_the_table():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16.0, y[:200]
    table = SAGCRF(MultiClass(), **TIGHT).fit(X, y)
    chain = SAGCRF(Chain(), **TIGHT).fit([row[None] for row in X], [[label] for label in y])
    np.testing.assert_allclose(chain.coef_, table.coef_, atol=1e-5)
    assert (np.concatenate(list(chain.predict([row[None] for row in X]))) == table.predict(X)).all()


def test_a_published_optimum_of_the_logistic_objective(shared_data):
    # The table "One-node references" of the design's peers.md.
    X, y = load_digits(return_X_y=True)
    crf = SAGCRF(C=0.1, fit_intercept=False, tol=1e-14, max_iter=2000, random_state=0)
    crf.fit(X[:1200] / 16, y[:1200])
    np.testing.assert_allclose(crf.objective_ * 0.1 * 1200, 78.896010, rtol=1e-6)


@pytest.mark.parametrize(
    ("solver", "sampling"),
    [("sag", "nus"), ("sag", "uniform"), ("saga", "nus"), ("lbfgs", "nus"), ("casimir", "uniform")],
)
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-5])
def test_the_certificate_holds(sequences, solver, sampling, tol):
    X, y = sequences
    optimum = SAGCRF(C=2.0, solver="lbfgs", tol=1e-13, max_iter=3000).fit(X, y).objective_
    options = {"solver": solver, "sampling": sampling, "max_iter": 3000, "random_state": 0}
    crf = SAGCRF(C=2.0, tol=tol, **options).fit(X, y)
    np.testing.assert_allclose(_objective(crf, X, y, 2.0), crf.objective_, rtol=1e-12)
    gradient = np.linalg.norm(_gradient(crf, X, y, 2.0))
    np.testing.assert_allclose(crf.gradient_norm_, gradient, rtol=1e-8, atol=1e-12)
    assert crf.dual_objective_ <= optimum
    assert crf.objective_ - crf.dual_objective_ == pytest.approx(crf.dual_gap_, abs=1e-15)
    assert crf.suboptimality_ == pytest.approx(crf.dual_gap_ / crf.objective_, rel=1e-12)
    assert crf.suboptimality_ <= tol
    lam = 1.0 / (2.0 * len(X))
    assert crf.dual_gap_ <= (1.0 + 1e-6) * gradient**2 / (2.0 * lam)
    bounds, objectives = crf.history_["dual_objective"], crf.history_["objective"]
    # The last one is computed anew, from the weights that are published: equal up to rounding.
    assert (np.diff(bounds) >= -1e-12).all()
    assert (bounds <= optimum).all()
    assert (objectives[~np.isnan(objectives)] >= crf.dual_objective_).all()
    if crf.n_iter_ == 1:
        return
    earlier = SAGCRF(C=2.0, tol=0.0, **options | {"max_iter": max(crf.n_iter_ // 3, 1)})
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        earlier.fit(X, y)
    assert earlier.suboptimality_ > tol, "tol stops no later than needed"


def test_order_and_scale_of_sample_weights_do_not_matter(sequences):
    X, y = sequences
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X))
    order = np.random.default_rng(1).permutation(len(X))
    a = SAGCRF(C=1.0, **TIGHT).fit(X, y, sample_weight=weights)
    b = SAGCRF(C=1.0, **TIGHT).fit([X[i] for i in order], [y[i] for i in order], weights[order])
    c = SAGCRF(C=0.5, **TIGHT).fit(X, y, sample_weight=2 * weights)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
    np.testing.assert_allclose(a.coef_, c.coef_, atol=1e-5)
    np.testing.assert_allclose(_objective(a, X, y, 1.0, weights), a.objective_, rtol=1e-12)


def test_samples_of_weight_zero_leave_no_trace(sequences):
    X, y = sequences
    odd = [*X, np.full((2, X[0].shape[1]), 1e6)]
    labels = [*y, np.array(["zz", "zz"])]
    weights = np.ones(len(odd))
    weights[-1] = 0.0
    a = SAGCRF(**TIGHT).fit(odd, labels, sample_weight=weights)
    b = SAGCRF(**TIGHT).fit(X, y)
    assert (a.node_weights_ == b.node_weights_).all()
    assert a.classes_.tolist() == b.classes_.tolist()


def test_warm_start_from_the_optimum_takes_one_pass(sequences):
    X, y = sequences
    for solver in ("sag", "saga", "lbfgs", "casimir"):
        crf = SAGCRF(solver=solver, warm_start=True, tol=1e-12, max_iter=3000, random_state=0)
        crf.fit(X, y)
        objective = crf.objective_
        crf.fit(X, y)
        assert crf.n_iter_ == 1
        np.testing.assert_allclose(crf.objective_, objective, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_first_passes_of_sag_from_a_poor_fit_do_not_overshoot(epochs):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(1600).reshape(-1, 10)
    data = [X[row] / 16.0 for row in order], [y[row] for row in order]
    crf = SAGCRF(C=10.0, solver="oeg", max_iter=2, tol=0.0, random_state=0).fit(*data)
    objective = crf.objective_
    crf.set_params(solver="sag", max_iter=epochs, warm_start=True).fit(*data)
    assert crf.dual_objective_ <= crf.objective_ <= objective


def test_warm_start_ignores_weights_of_another_problem(sequences):
    X, y = sequences
    crf = SAGCRF(warm_start=True, **TIGHT).fit(X, y)
    other = [x[:, :3] for x in X]
    fresh = SAGCRF(**TIGHT).fit(other, y)
    with pytest.warns(
        UserWarning, match="X has 3 features, in the previous fit it had 5"
    ) as caught:
        crf.fit(other, y)
    assert caught[0].filename == __file__
    assert (crf.node_weights_ == fresh.node_weights_).all()


def test_history_is_consistent(sequences):
    X, y = sequences
    crf = SAGCRF(tol=1e-4, max_iter=500, random_state=0, track_objective=True).fit(X, y)
    lengths = {key: len(values) for key, values in crf.history_.items()}
    fields = {"passes", "oracle_calls", "seconds", "objective", "dual_gap", "dual_objective"}
    assert set(lengths) == fields
    assert set(lengths.values()) == {crf.n_iter_}
    assert (np.diff(crf.history_["seconds"]) >= 0).all()
    # The pass that measures the gap before the end counts.
    calls = len(X) * np.arange(1, crf.n_iter_ + 1)
    assert (crf.history_["oracle_calls"][:-1] >= calls[:-1]).all()
    assert crf.history_["oracle_calls"][-1] >= calls[-1] + len(X)
    assert (crf.history_["passes"] >= crf.history_["oracle_calls"] / len(X)).all()
    assert crf.history_["objective"][-1] == crf.objective_
    gaps = crf.history_["objective"] - crf.history_["dual_objective"]
    np.testing.assert_allclose(crf.history_["dual_gap"], gaps, rtol=1e-9, atol=1e-15)
    untracked = SAGCRF(tol=1e-4, max_iter=500, random_state=0).fit(X, y)
    assert (untracked.history_["dual_objective"] == crf.history_["dual_objective"]).all()
    assert np.isnan(untracked.history_["objective"][:-1]).any()
    assert untracked.history_["objective"][-1] == untracked.objective_


# Callbacks


class StopAfter:
    """Stops after some epochs, and keeps what it saw of the model."""

    def __init__(self, epochs):
        self.epochs, self.scores = epochs, []

    def setup(self, estimator, context):
        self.done = False

    def teardown(self, estimator, context):
        self.done = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        if context.task_name != "epoch":
            return False
        self.scores.append(fitted_estimator.score(X, y))
        return len(self.scores) >= self.epochs


@pytest.mark.parametrize("solver", ["sag", "lbfgs", "casimir"])
def test_a_callback_can_stop_and_sees_a_fitted_estimator(sequences, solver):
    X, y = sequences
    stop = StopAfter(3)
    crf = SAGCRF(solver=solver, tol=1e-24, max_iter=50, random_state=0)
    crf.set_callbacks(stop).fit(X, y)
    assert crf.n_iter_ == len(stop.scores) == 3
    assert stop.done
    assert stop.scores[-1] == crf.score(X, y)


def test_progress_bar_and_scoring_monitor(sequences, capsys):
    from sklearn.callback import ProgressBar

    X, y = sequences
    monitor = ScoringMonitor(scoring={"nodes": lambda estimator, X, y: estimator.score(X, y)})
    crf = SAGCRF(tol=1e-3, random_state=0).set_callbacks(ProgressBar(), monitor)
    crf.fit(X, y)
    assert crf.n_iter_ > 1
    assert "SAGCRF" in capsys.readouterr().out


def test_features_far_from_unit_scale_still_converge():
    X, y = random_sequences(np.random.default_rng(0), n_samples=30)
    X = [1e3 * x for x in X]
    fits = [
        SAGCRF(C=1e-4, solver=s, tol=1e-8, max_iter=5000, random_state=0).fit(X, y)
        for s in ("sag", "lbfgs")
    ]
    np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, rtol=1e-5)


def test_duplicate_entries_of_a_csr_row_are_summed(sequences):
    X, y = sequences
    doubled = []
    for x in X:
        half = sparse.coo_matrix(0.5 * x)
        twice = (np.tile(half.data, 2), (np.tile(half.row, 2), np.tile(half.col, 2)))
        rows = sparse.coo_matrix(twice, shape=x.shape)
        matrix = sparse.csr_matrix((rows.shape[0], rows.shape[1]))
        order = np.argsort(rows.row, kind="stable")
        matrix.data, matrix.indices = rows.data[order], rows.col[order]
        matrix.indptr = np.searchsorted(rows.row[order], np.arange(x.shape[0] + 1))
        doubled.append(matrix)
    assert not all(matrix.has_canonical_format for matrix in doubled)
    a = SAGCRF(random_state=0, tol=1e-12, max_iter=1000).fit(doubled, y)
    b = SAGCRF(random_state=0, tol=1e-12, max_iter=1000).fit([sparse.csr_matrix(x) for x in X], y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)


# Margins

COSTS = [[0.0, 1.0, 4.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]]
MARGINS = {"hamming": "hamming", "by class": {"a": 3.0}, "matrix": COSTS}


def _margin_objective(crf, X, y, C, cost):
    """The softmax-margin by enumeration, in the lambda form."""
    total = 0.0
    for x, labels in zip(X, y, strict=True):
        labellings, scores = enumerated(crf, x)
        truth = np.searchsorted(crf.classes_, labels)
        right = int(np.flatnonzero((labellings == truth).all(axis=1))[0])
        total += logsumexp(scores + cost[truth, labellings].sum(axis=1)) - scores[right]
    norm = (crf.node_weights_**2).sum() + (crf.pair_weights_**2).sum()
    return (0.5 * norm + C * total) / (C * len(X))


@pytest.mark.parametrize("margin", MARGINS.values(), ids=MARGINS)
def test_the_objective_of_a_margin_is_the_softmax_margin(margin):
    X, y = random_sequences(np.random.default_rng(2), n_samples=12, max_length=5)
    cost = cost_matrix(margin, np.unique(np.concatenate(y)))[0]
    crf = SAGCRF(margin=margin, C=0.5, solver="lbfgs", tol=1e-11, max_iter=3000).fit(X, y)
    expected = _margin_objective(crf, X, y, 0.5, cost)
    np.testing.assert_allclose(crf.objective_, expected, rtol=1e-10)


def test_a_margin_without_costs_is_the_log_loss(sequences):
    X, y = sequences
    free = dict.fromkeys(("a", "b", "c"), 0.0)
    fits = [SAGCRF(margin=margin, tol=1e-6, random_state=0).fit(X, y) for margin in (free, None)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9, atol=1e-12)


def test_predictions_of_a_margin_use_the_scores_alone(sequences):
    X, y = sequences
    crf = SAGCRF(margin={"a": 5.0}, tol=1e-2, random_state=0).fit(X, y)
    for x, nodes, labels in zip(X[:4], crf.predict_marginals(X), crf.predict(X), strict=False):
        labellings, scores = enumerated(crf, x)
        assert (crf.classes_[labellings[scores.argmax()]] == labels).all()
        shares = np.exp(scores - logsumexp(scores))
        expected = np.einsum("y,ytk->tk", shares, np.eye(crf.classes_.size)[labellings])
        np.testing.assert_allclose(nodes, expected, atol=1e-10)


def test_costly_errors_become_rare(sequences):
    X, y = sequences
    truth = np.concatenate(y) == "a"
    missed = [
        (np.concatenate(list(SAGCRF(margin=margin, random_state=0).fit(X, y).predict(X))) != "a")[
            truth
        ].mean()
        for margin in (None, {"a": 10.0})
    ]
    assert missed[1] < missed[0]


@pytest.mark.parametrize(
    ("margin", "message"),
    [
        (
            {"z": 1.0},
            r"margin has a cost for the unknown class 'z'; the classes are \['a', 'b', 'c'\]",
        ),
        ([[0.0, 1.0]], r"the cost matrix of margin has shape \(1, 2\)"),
        (np.eye(3), "the cost matrix of margin must be 0 on its diagonal"),
        ([["a"]], "the costs of margin must be real numbers"),
    ],
)
def test_errors_call_a_margin_by_its_name(sequences, margin, message):
    with pytest.raises(ValueError, match=message):
        SAGCRF(margin=margin).fit(*sequences)


@pytest.mark.parametrize("solver", ["auto", "sag", "saga", "lbfgs", "casimir"])
def test_a_path_reaches_what_separate_fits_reach(solver, sequences):
    X, y = sequences
    options, Cs = {"solver": solver, "tol": 1e-4, "random_state": 0}, [0.1, 0.3, 1.0, 3.0]
    path = crf_path(SAGCRF(**options), X, y, Cs)
    assert [crf.C for crf in path] == Cs
    for crf in path:
        alone = SAGCRF(C=crf.C, **options).fit(X, y)
        assert crf.suboptimality_ <= 1e-4
        assert crf.dual_objective_ <= alone.objective_
        assert alone.dual_objective_ <= crf.objective_
        assert vars(crf).keys() == vars(alone).keys()
        assert crf.get_params() == alone.get_params()


def _spent(fits):
    return sum(crf.history_["passes"][-1] for crf in fits)


def _words(rng, n_samples):
    """Sentences of words and pairs of neighbours: enough weights for exponentiated gradients."""
    tendency = rng.normal(size=(200, 3))
    X, y = [], []
    for _ in range(n_samples):
        words = np.minimum(rng.zipf(1.5, size=8), 200) - 1
        columns = np.stack([words, 200 + 80 * words + np.roll(words, 1) % 80], axis=1)
        indptr = np.arange(0, 18, 2)
        X.append(sparse.csr_matrix((np.ones(16), columns.ravel(), indptr), shape=(8, 2**14)))
        y.append((tendency[words] + rng.gumbel(size=(8, 3))).argmax(axis=1))
    return X, y


@pytest.mark.parametrize(
    ("solver", "draw", "n_samples"), [("auto", _words, 600), ("sag", random_sequences, 200)]
)
def test_a_path_takes_at_most_half_of_the_passes_of_separate_fits(solver, draw, n_samples):
    X, y = draw(np.random.default_rng(0), n_samples)
    options, Cs = {"solver": solver, "random_state": 0}, [0.1 * 2**k for k in range(7)]
    path = crf_path(SAGCRF(**options), X, y, Cs)
    alone = [SAGCRF(C=C, **options).fit(X, y) for C in Cs]
    assert _spent(path) <= 0.5 * _spent(alone)


@pytest.mark.parametrize(
    "Cs", [[0.7], [0.5, 1.0, 2.0, 4.0], [4.0, 2.0, 1.0], [1.0, 1.0, 8.0, 0.3, 0.3, 0.4, 30.0]]
)
@pytest.mark.parametrize("draw", [_words, random_sequences])
def test_a_path_in_any_order_with_weights_and_rules(draw, Cs):
    rng = np.random.default_rng(1)
    X, y = draw(rng, 30)
    labels = np.unique(np.concatenate(y)).tolist()
    y = [np.sort(row) for row in y]
    rules = Chain(forbidden=[(labels[1], labels[0])])
    crf, weight = SAGCRF(rules, tol=1e-5, random_state=0), rng.choice([0.0, 0.5, 3.0], size=30)
    path = crf_path(crf, X, y, Cs, sample_weight=weight)
    assert [one.C for one in path] == Cs
    for one in path:
        other = SAGCRF(rules, C=one.C, solver="lbfgs", tol=1e-8).fit(X, y, sample_weight=weight)
        assert one.suboptimality_ <= 1e-5
        assert one.dual_objective_ <= other.objective_
        assert other.dual_objective_ <= one.objective_


def test_repeated_values_of_a_path_cost_little():
    X, y = _words(np.random.default_rng(0), 100)
    first, second = crf_path(SAGCRF(random_state=0), X, y, [2.0, 2.0])
    assert first.dual_objective_ <= second.objective_
    assert second.suboptimality_ <= 1e-3
    assert _spent([second]) <= 2.5


@pytest.mark.parametrize("last", [30.0, 100.0])
def test_values_of_a_path_that_differ_by_rounding_predict_nothing(sequences, last):
    X, y = sequences
    Cs = [0.1 * 300.0, np.nextafter(30.0, 0.0), last]
    path = crf_path(SAGCRF(solver="lbfgs", random_state=0), X, y, Cs)
    alone = SAGCRF(solver="lbfgs", C=last, random_state=0).fit(X, y)
    assert path[-1].dual_objective_ <= alone.objective_
    assert alone.dual_objective_ <= path[-1].objective_


def test_a_path_with_an_l1_penalty(sequences):
    X, y = sequences
    path = crf_path(SAGCRF(l1_ratio=0.3, random_state=0), X, y, [0.1, 1.0])
    assert all(crf.suboptimality_ <= 1e-3 for crf in path)


def test_paths_that_make_no_sense(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match="Cs must be a sequence"):
        crf_path(SAGCRF(), X, y, 1.0)
    for other in (BCFWSSVM(), make_pipeline(SAGCRF())):
        with pytest.raises(TypeError, match=r"estimator must be a SAGCRF, got a .*: transform X"):
            crf_path(other, X, y, [1.0])
    with pytest.raises(ValueError, match="solver='oeg' does not take warm_start=True"):
        crf_path(SAGCRF(solver="oeg"), X, y, [1.0])


def test_paired_samples_are_for_saga(sequences):
    with pytest.raises(ValueError, match='does not take sampling="paired": use solver="saga"'):
        SAGCRF(sampling="paired").fit(*sequences)

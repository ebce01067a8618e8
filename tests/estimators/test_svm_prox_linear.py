"""ProxLinearSSVM: optima of linear maps, what a hidden layer adds, and input that it refuses."""

import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, Boxes, Candidates, Chain, MultiClass, ProxLinearSSVM
from skstruct.scores import ConvMap, LinearMap, MLPMap
from skstruct.testing import random_sequences

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def sequences():
    return random_sequences(np.random.default_rng(0))


@pytest.fixture(scope="module")
def optimum(sequences):
    return BCFWSSVM(C=0.1, tol=1e-4, max_iter=6000, random_state=0).fit(*sequences)


def _xor_chains(rng, n=40):
    """Labels are the exclusive or of two bits, and stay the same with probability 0.8."""
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(3, 7))
        labels = np.cumsum(rng.random(size) < 0.2) % 2
        first = rng.integers(0, 2, size=size)
        bits = np.stack([first, first ^ labels], axis=1)
        X.append(2.0 * bits - 1.0 + 0.2 * rng.normal(size=bits.shape))
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def xor():
    return _xor_chains(np.random.default_rng(1))


OPTIONS = {"max_iter": 40, "random_state": 0}


def test_a_linear_map_reaches_the_optimum_of_the_chain(sequences, optimum):
    X, y = sequences
    options = {"C": 0.1, "smoothing_strength": 0.02, "tol": 5e-3}
    svm = ProxLinearSSVM(**options, **OPTIONS).fit(X, y)
    assert optimum.dual_objective_ <= svm.objective_ <= 1.005 * optimum.objective_
    # The weights mean what they mean elsewhere.
    same = pickle.loads(pickle.dumps(optimum))
    same.node_weights_[:] = np.vstack([svm.coef_.T, svm.intercept_])
    same.pair_weights_[:] = svm.pair_weights_
    for a, b in zip(svm.predict_top_k(X, 2)[1], same.predict_top_k(X, 2)[1], strict=True):
        assert_allclose(a, b)


@pytest.mark.parametrize("strategy", ["extrapolation", "previous"])
@pytest.mark.parametrize("schedule", ["constant", "inverse"])
def test_all_warm_starts_reach_the_optimum_of_the_chain(sequences, optimum, strategy, schedule):
    svm = ProxLinearSSVM(
        C=0.1,
        smoothing_strength=0.1,
        smoothing_schedule=schedule,
        step_size=100.0 if schedule == "inverse" else "auto",
        warm_start_strategy=strategy,
        max_iter=60,
        tol=1e-3,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(*sequences)
    assert optimum.dual_objective_ <= svm.objective_ <= 1.05 * optimum.objective_


@pytest.mark.parametrize("smoothing", ["l2", "entropy"])
def test_a_linear_map_reaches_the_optimum_of_multiclass(smoothing):
    rng = np.random.default_rng(2)
    y = rng.integers(3, size=60)
    X = np.eye(3)[y] + rng.normal(size=(60, 3))
    best = BCFWSSVM("multiclass", C=0.1, tol=1e-4, max_iter=3000, random_state=0).fit(X, y)
    options = {"C": 0.1, "smoothing": smoothing, "smoothing_strength": 0.02, "tol": 5e-3}
    svm = ProxLinearSSVM("multiclass", **options, **OPTIONS).fit(X, y)
    assert best.dual_objective_ <= svm.objective_ <= 1.005 * best.objective_
    assert_allclose(svm.decision_function(X), X @ svm.coef_.T + svm.intercept_)


def test_a_hidden_layer_learns_the_exclusive_or(xor):
    X, y = xor
    held_out = _xor_chains(np.random.default_rng(3))
    linear = ProxLinearSSVM(C=10.0, **OPTIONS).fit(X, y)
    hidden = ProxLinearSSVM(score_map=MLPMap(n_hidden=10), C=10.0, **OPTIONS).fit(X, y)
    assert linear.score(*held_out) < 0.8
    assert hidden.score(*held_out) > 0.97


@pytest.mark.parametrize("schedule", ["constant", "inverse"])
def test_stationarity_falls(xor, schedule):
    svm = ProxLinearSSVM(
        score_map=MLPMap(n_hidden=10), smoothing_schedule=schedule, tol=0.0, max_iter=15,
        random_state=0,
    ).fit(*xor)  # fmt: skip
    history = svm.history_
    assert {len(values) for values in history.values()} == {15}
    assert history["stationarity"][-1] < 0.1 * history["stationarity"][0]
    assert svm.objective_ == history["objective"].min() < 0.5 * history["objective"][0]
    assert history["oracle_calls"][-1] == svm.n_oracle_calls_
    if schedule == "inverse":
        assert_allclose(history["smoothing_strength"][-1], 1.0 / 15)


@pytest.mark.parametrize("schedule", ["constant", "inverse", "sqrt"])
def test_the_subgradient_method_lowers_the_objective(xor, schedule):
    svm = ProxLinearSSVM(
        score_map=MLPMap(n_hidden=10), solver="subgradient", schedule=schedule, max_iter=12,
        tol=0.0, random_state=0,
    ).fit(*xor)  # fmt: skip
    history = svm.history_
    assert svm.objective_ < 0.8 * history["objective"][0]
    share = history["learning_rate"][-1] / history["learning_rate"][0]
    passes = 11.0  # from the last batch of the first pass to the last one of the last
    falls = {"constant": 1.0, "inverse": 1.0 / (1 + passes), "sqrt": (1 + passes) ** -0.5}
    assert falls[schedule] * 0.9 <= share <= min(1.0, 2.2 * falls[schedule])


def test_same_seed_same_bits_for_any_number_of_threads(sequences, monkeypatch):
    monkeypatch.setattr("skstruct.solvers.prox_linear._ROWS_A_THREAD", 1)
    fits = [
        ProxLinearSSVM(score_map="mlp", max_iter=2, n_jobs=n, random_state=3).fit(*sequences)
        for n in (None, 2)
    ]
    assert_array_equal(fits[0].score_params_, fits[1].score_params_)
    assert_array_equal(fits[0].pair_weights_, fits[1].pair_weights_)


def test_pickles_answer_alike_and_hold_no_problem(xor):
    X, _ = xor
    svm = ProxLinearSSVM(score_map=MLPMap(n_hidden=4), max_iter=2, random_state=0).fit(*xor)
    stored = pickle.dumps(svm)
    assert len(stored) < 10_000
    loaded = pickle.loads(stored)
    for method in ("predict", "decision_function"):
        for a, b in zip(getattr(svm, method)(X), getattr(loaded, method)(X), strict=True):
            assert_array_equal(a, b)
    labels, scores = loaded.predict_top_k(X[:2], 3)
    assert labels[0].shape == (3, len(X[0]))
    assert (np.diff(scores[0]) <= 0).all()
    loaded.pair_weights_ = np.zeros((1, 1))
    with pytest.raises(ValueError, match="the model is damaged: pair_weights_"):
        loaded.predict(X)


def test_widths_are_searched_over(xor):
    search = GridSearchCV(
        ProxLinearSSVM(Chain(), MLPMap(), C=10.0, max_iter=8, random_state=0),
        {"score_map__n_hidden": [1, 8]},
        cv=2,
    ).fit(*xor)
    assert search.best_params_ == {"score_map__n_hidden": 8}
    assert search.best_estimator_.score_map_.n_hidden == 8
    assert search.best_estimator_.score_map.n_hidden == 8


def test_candidates_scored_by_a_convolution():
    rng = np.random.default_rng(4)
    bar = np.zeros((4, 4))
    bar[1] = 1.0  # somewhere in the image there is a row of ones
    X, y = [], []
    for _ in range(30):
        images = 0.3 * rng.normal(size=(4, 4, 4))
        right = int(rng.integers(4))
        images[right] += np.roll(bar, int(rng.integers(-1, 2)), axis=0)
        images[(right + 1) % 4] += bar.T
        X.append(images.reshape(4, 16))
        y.append(right)
    conv = ConvMap(shape=(4, 4, 1), n_filters=4, size=3)
    svm = ProxLinearSSVM(Candidates(), conv, C=10.0, **OPTIONS).fit(X[:20], y[:20])
    assert svm.score(X[20:], y[20:]) > 0.8
    assert [len(scores) for scores in svm.decision_function(X[:2])] == [4, 4]


def test_a_warm_start_goes_on(xor):
    svm = ProxLinearSSVM(score_map=MLPMap(n_hidden=4), warm_start=True, max_iter=4, random_state=0)
    first = svm.fit(*xor).objective_
    assert svm.fit(*xor).objective_ < first
    with pytest.warns(UserWarning, match="the score map, features or labels have changed"):
        other = svm.set_params(score_map=MLPMap(n_hidden=3)).fit(*xor)
    assert other.score_params_.size == 3 * 3 + 4 * 2


class _Odd(LinearMap):
    """A map that breaks its promise in the way asked for."""

    def __init__(self, fault="columns"):
        self.fault = fault

    def scores(self, params, rows):
        scores = super().scores(params, rows)
        if self.fault == "columns":
            return scores[:, :-1]
        scores[np.asarray(rows)[:, 0] > 1e3] = np.nan
        return scores


def test_maps_that_break_their_promise_are_refused(sequences):
    X, y = sequences
    n = sum(map(len, X))
    message = f"score_map: _Odd must give scores of shape ({n}, 3) and float64, a column a label"
    with pytest.raises(ValueError, match=re.escape(message)):
        ProxLinearSSVM(score_map=_Odd()).fit(X, y)
    X = [x.copy() for x in X]
    X[3][0, 0] = 1e4
    weight = np.ones(len(X))
    weight[1] = 0.0  # those of weight 0 count, too
    with pytest.raises(ValueError, match="scores that are not finite for sample 3"):
        ProxLinearSSVM(score_map=_Odd("nan")).fit(X, y, sample_weight=weight)


def test_a_map_that_fails_later_is_refused(sequences):
    X, y = sequences
    svm = ProxLinearSSVM(max_iter=1, random_state=0).fit(X, y)
    assert svm.predict([]).shape == (0,)
    svm.score_map_ = _Odd()
    svm.score_map_.__dict__.update(svm.score_map_.__dict__ | vars(LinearMap()))
    svm.score_map_.initialise(5, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="_Odd must give scores of shape"):
        svm.predict(X)
    svm.score_map_.fault = "nan"
    X = [x.copy() for x in X]
    X[2][0, 0] = 1e4
    with pytest.raises(FloatingPointError, match="sample 2"):
        svm.predict(X)


def test_steps_that_are_too_long_name_the_remedy(sequences):
    options = {"solver": "subgradient", "schedule": "constant", "learning_rate": 1e200}
    with pytest.raises(FloatingPointError, match=r"learning rate too large|lower learning_rate"):
        ProxLinearSSVM(**options, random_state=0).fit(*sequences)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"step_size": 0.0}, ValueError, "'step_size' parameter"),
        ({"step_size": -1.0}, ValueError, "'step_size' parameter"),
        ({"batch_size": 0}, ValueError, "'batch_size' parameter"),
        ({"score_map": "deep"}, TypeError, "score_map must be one of ['conv', 'linear', 'mlp']"),
        ({"score_map": MLPMap}, TypeError, "a ScoreMap or a torch Module"),
        ({"score_map": "conv"}, ValueError, "pass ConvMap(shape=(height, width, channels))"),
    ],
)
def test_bad_input_is_refused(sequences, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ProxLinearSSVM(**options, random_state=0).fit(*sequences)


def test_steps_that_overflow_name_a_sample_whose_scores_do(sequences):
    X, y = [x.copy() for x in sequences[0]], sequences[1]
    for i in (2, 3):  # whichever comes second meets what the first has made of the weights
        X[i] *= 1e150
    svm = ProxLinearSSVM(solver="subgradient", learning_rate=1e10, batch_size=1, random_state=0)
    with pytest.raises(FloatingPointError, match=r"sample [23] is nan: its scores are not finite"):
        svm.fit(X, y)


def test_sparse_rows_only_where_the_map_takes_them(sequences):
    X, y = [sparse.csr_matrix(x) for x in sequences[0]], sequences[1]
    with pytest.raises(TypeError, match="X is sparse, but ConvMap takes dense rows"):
        ProxLinearSSVM(score_map=ConvMap(shape=(1, 5, 1), size=1)).fit(X, y)
    options = {"score_map": "mlp", "max_iter": 2, "random_state": 0}
    a, b = (ProxLinearSSVM(**options).fit(x, y) for x in (X, sequences[0]))
    assert_allclose(a.score_params_, b.score_params_, atol=1e-8)


def test_a_structure_without_the_oracle_says_what_to_use():
    X, y = Boxes().example(np.random.default_rng(0), False)
    with pytest.raises(TypeError, match='use smoothing="l2"'):
        ProxLinearSSVM(Boxes(), smoothing="entropy").fit(X, y)


def test_views_are_those_of_linear_maps(sequences):
    svm = ProxLinearSSVM(Chain(boundary=True), fit_intercept=False, max_iter=1, random_state=0)
    svm.fit(*sequences)
    n_classes = svm.classes_.size
    assert svm.coef_.shape == (n_classes, svm.n_features_in_)
    assert_array_equal(svm.intercept_, 0.0)
    assert svm.boundary_coef_.shape == (2, n_classes)
    assert svm.pairwise_coef_.shape == (n_classes, n_classes)
    hidden = clone(svm).set_params(score_map=MLPMap(n_hidden=2)).fit(*sequences)
    assert not hasattr(hidden, "coef_")
    assert not hasattr(hidden, "sparsify")


def test_what_is_not_stationary_warns(xor):
    with pytest.warns(ConvergenceWarning, match="the relative stationarity is"):
        ProxLinearSSVM(graph=Chain(), score_map="mlp", max_iter=1, random_state=0).fit(*xor)


def test_multiclass_is_a_classifier_whatever_the_map():
    assert MultiClass().is_table
    tags = ProxLinearSSVM("multiclass", ConvMap()).__sklearn_tags__()
    assert tags.estimator_type == "classifier"
    assert not tags.input_tags.sparse
    assert ProxLinearSSVM(score_map="mlp").__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize(
    "options", [{"solver": "subgradient", "learning_rate": 1e8}, {"step_size": 1e9}]
)
def test_no_fit_is_worse_than_its_start(xor, options):
    svm = ProxLinearSSVM(score_map=MLPMap(3), max_iter=1, warm_start=True, random_state=0)
    start = svm.fit(*xor).objective_
    assert svm.set_params(**options).fit(*xor).objective_ <= start


def test_a_regulariser_that_overflows_is_named(xor):
    with pytest.raises(FloatingPointError, match="raise C"):
        ProxLinearSSVM(score_map="mlp", C=1e-300).fit(*xor)


class _Buffered(LinearMap):
    def scores(self, params, rows):
        if not hasattr(self, "buffer") or len(self.buffer) != len(rows):
            self.buffer = np.empty((len(rows), self.shape_[1]))
        self.buffer[:] = super().scores(params, rows)
        return self.buffer


def test_a_map_may_return_the_same_buffer_each_time(xor):
    svm = ProxLinearSSVM(max_iter=3, random_state=0).fit(*xor)
    other = clone(svm).set_params(score_map=_Buffered()).fit(*xor)
    assert_array_equal(svm.score_params_, other.score_params_)
    assert svm.objective_ == other.objective_

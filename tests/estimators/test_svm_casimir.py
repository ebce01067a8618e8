"""Casimir where its smoothing must shrink far, when interrupted, and at scales that cancel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct import BCFWSSVM, Candidates, CasimirSSVM, Chain, Grid
from skstruct.core.parallel import Pieces
from skstruct.core.weights import Weights, plain_weights, zero_weights
from skstruct.losses.hinge import hinge_of, smooth_hinge
from skstruct.solvers.casimir import STEP, CasimirOptions, HingeCasimir, Pace, SVRGOptions
from skstruct.solvers.primal import Best
from skstruct.testing import training_problem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def _rare_words(rng, n=30, n_labels=6, n_words=400, per_node=8):
    """Few chains of frequent and rare binary features, as in text: the optimum is near 0."""
    truth = rng.normal(size=(n_words, n_labels))
    frequency = 1.0 / np.arange(1, n_words + 1)
    frequency /= frequency.sum()
    X, y = [], []
    for _ in range(n):
        x = np.zeros((int(rng.integers(5, 15)), n_words))
        for row in x:
            row[rng.choice(n_words, size=per_node, replace=False, p=frequency)] = 1.0
        X.append(x)
        y.append((x @ truth + 2.0 * rng.normal(size=(len(x), n_labels))).argmax(axis=1))
    return X, y


@pytest.fixture(scope="module")
def rare_words():
    return _rare_words(np.random.default_rng(0))


@pytest.fixture(scope="module")
def optimum(rare_words):
    return BCFWSSVM(tol=1e-3, max_iter=6000, random_state=0).fit(*rare_words)


@pytest.fixture(scope="module")
def casimir(rare_words):
    return CasimirSSVM(max_iter=200, tol=1e-5, random_state=0).fit(*rare_words)


def test_casimir_follows_its_shrinking_smoothing(casimir, optimum):
    assert casimir.objective_ <= 1.02 * optimum.objective_
    assert casimir.smoothing_strength_ < 0.1


def test_the_dual_is_below_the_optimum(casimir, optimum):
    dual = casimir.history_["dual_objective"]
    assert (dual <= optimum.objective_).all()
    assert (np.diff(dual) >= -1e-12).all()
    assert (casimir.history_["objective"] >= optimum.dual_objective_).all()


def test_a_given_kappa_stays(rare_words):
    svm = CasimirSSVM(kappa=0.3, max_iter=5, random_state=0).fit(*rare_words)
    assert svm.kappa_ == 0.3
    grown = CasimirSSVM(max_iter=60, tol=1e-5, random_state=0).fit(*rare_words)
    first = CasimirSSVM(max_iter=1, tol=1e-5, random_state=0).fit(*rare_words)
    assert first.kappa_ == 10.0 / len(rare_words[0])
    second = CasimirSSVM(max_iter=2, tol=1e-5, random_state=0).fit(*rare_words)
    assert second.kappa_ == 0.9 * first.kappa_
    assert grown.kappa_ > first.kappa_
    assert grown.smoothing_strength_ < first.smoothing_strength_ == 2.0


class _Interrupted(CasimirSSVM):
    """Ends its fit after the first piece of a pass."""

    def _solve(self, *args, after_epoch, **common):
        def after(record, weights):
            return after_epoch(record, weights)

        after.after_piece = lambda share: True
        return super()._solve(*args, after_epoch=after, **common)


def test_a_pass_that_is_ended_early_certifies_nothing(rare_words, monkeypatch):
    monkeypatch.setattr(Pieces, "FIRST", 5)
    svm = _Interrupted(random_state=0).fit(*rare_words)
    assert svm.n_oracle_calls_ == 5
    assert np.isfinite(svm.objective_)
    assert svm.dual_objective_ == 0.0  # as of any weights
    # Five samples are no objective.
    assert np.isnan(svm.history_["smoothed_objective"]).all()


def test_the_best_weights_keep_the_rounding_of_theirs():
    best = Best()
    best.offer(2.0, zero_weights(((1, 2), (0, 0))), 10.0)
    best.offer(3.0, zero_weights(((1, 2), (0, 0))), 1e15)
    assert (best.objective, best.magnitude) == (2.0, 10.0)


@pytest.mark.parametrize("scale", [1e8, 1e15])
def test_large_features_certify_nothing_false(rare_words, scale):
    X, y = rare_words
    svm = CasimirSSVM(max_iter=4, random_state=0).fit([scale * x for x in X], y)
    assert svm.objective_ >= 0
    assert svm.dual_gap_ >= 0
    assert svm.dual_objective_ <= svm.objective_


def test_constant_smoothing_keeps_to_the_corollary(rare_words):
    svm = CasimirSSVM(variant="constant", max_iter=5, random_state=0).fit(*rare_words)
    assert_allclose(svm.smoothing_strength_, 2.0)


def test_rates_grow_until_the_objective_rises():
    pace, shares = Pace(1000), []
    for objective in (9.0, 8.0, 7.0, 7.5, 6.0, 6.5, 6.5, 7.0):
        pace.measured(objective)
        shares.append(16.0 * pace.share)
        assert pace.is_late == (objective == 7.0 and len(shares) == 8)
    assert_allclose(shares, [1.0, 1.5, 2.25, 1.125, 1.2375, 0.61875, 0.680625, 0.3403125])
    pace.measured(4.0)  # of 7: fast enough
    assert 16.0 * pace.share == shares[-1]
    for _ in range(99):
        pace.measured(4.0)
    assert pace.share == 1.0
    assert [Pace(n).share for n in (1, 128)] == [0.5, 0.25]


def test_weights_that_are_too_long_are_shortened(rare_words, optimum):
    problem, _, shapes, _ = training_problem(Chain(), *rare_words)
    method = HingeCasimir(
        *(problem, shapes, np.ones(len(rare_words[0])), 1e-3, None),
        loss=smooth_hinge("l2", 2.0, 5, problem),
        target=hinge_of(problem),
        options=CasimirOptions("adaptive", 2.0),
        tol=1e-2,
    )
    # Weights that fit the data, times 100: all of the objective is the regulariser.
    long = Weights(100.0 * optimum.node_weights_, 100.0 * optimum.pair_weights_)
    method.current = method.catalyst.center = method.catalyst.previous = long
    for factor in (0.2, 0.4, 0.7):
        before, table = method._evaluate(method.current), method.current.node
        after = method._shorten(before)
        assert after.objective < before.objective
        assert_allclose(method.current.node, np.exp(-factor) * table)
        for kept in (method.catalyst.center, method.catalyst.previous):
            assert_allclose(kept.node, method.current.node)
    assert method.best.objective == after.objective
    # Short weights stay as they are, and where the regulariser is little nothing is tried.
    method.current = Weights(1e-3 * optimum.node_weights_, 1e-3 * optimum.pair_weights_)
    value = method._evaluate(method.current)
    assert method._shorten(value) is value
    assert method._shorter == 0.7


@pytest.mark.parametrize("C", [100.0, 10.0])
def test_weak_regularisation_is_no_obstacle(rare_words, C):
    optimum = BCFWSSVM(C=C, tol=1e-2, max_iter=6000, random_state=0).fit(*rare_words)
    casimir = CasimirSSVM(C=C, max_iter=100, tol=1e-5, random_state=0).fit(*rare_words)
    at_zero = np.mean([len(labels) for labels in rare_words[1]])
    assert casimir.objective_ - optimum.dual_objective_ < 5e-3 * at_zero
    assert casimir.dual_objective_ <= optimum.objective_
    assert casimir.objective_ >= optimum.dual_objective_


def test_given_parameters_are_the_papers(rare_words):
    lam = 1.0 / len(rare_words[0])
    options = {"kappa": lam, "learning_rate": 0.01, "smoothing_strength": 3.0, "max_iter": 12}
    casimir = CasimirSSVM(tol=1e-9, random_state=0, **options).fit(*rare_words)
    # Corollary 18.
    assert_allclose(casimir.smoothing_strength_, 3.0 * (1.0 - np.sqrt(0.5) / 2.0) ** (11 / 2))
    assert casimir.kappa_ == lam


def test_the_scale_of_features_does_not_matter():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 12)), rng.integers(0, 3, 30)
    objectives = []
    for scale in (1.0, 1e-3):
        options = {"C": 1.0 / scale**2, "fit_intercept": False}
        casimir = CasimirSSVM("multiclass", max_iter=60, tol=1e-6, random_state=0, **options)
        objectives.append(casimir.fit(scale * X, y).objective_)
    assert_allclose(objectives[1], objectives[0], rtol=0.02)


# What the paper has and the defaults have not: means of iterates, passes to an accuracy, no
# smoothing.


def _iterates(X, y, n_steps, **more):
    """Weights after each of some first steps from one snapshot, and the mean that a run keeps."""
    problem, _, shapes, _ = training_problem(Chain(), X, y)
    sample_weight, order = np.ones(len(X)), np.random.default_rng(5).permutation(len(X))
    found, order = [], order[:n_steps]
    for count in (*range(1, n_steps + 1), n_steps):
        options = CasimirOptions("svrg", 1.0, None, rate=0.3, average=len(found) == n_steps)
        method = HingeCasimir(
            *(problem, shapes, sample_weight, more["lam"], None),
            loss=smooth_hinge("l2", 1.0, 3, problem),
            target=hinge_of(problem),
            options=options,
            tol=1e-2,
        )
        method.snapshot(zero_weights(shapes), Pieces())
        options = SVRGOptions(STEP, 0, 0, 0.3, more["lam"])
        method._pass(options, order[:count], Pieces())
        method._take_mean()
        found.append(plain_weights(method.w, shapes))
    return found[:-1], found[-1]


@pytest.mark.parametrize("lam", [0.1, 3.0])
def test_the_mean_of_the_iterates_is_their_mean(rare_words, lam):
    # With the second value the scale falls below a thousandth of itself every few steps.
    iterates, mean = _iterates(*rare_words, 25, lam=lam)
    for k, table in enumerate(mean.tables):
        expected = np.mean([w.tables[k] for w in iterates], axis=0)
        assert np.abs(expected).max() > 1e-3
        assert_allclose(table, expected, atol=1e-12)


@pytest.mark.thinned
@pytest.mark.parametrize("variant", ["adaptive", "constant", "svrg"])
@pytest.mark.parametrize(
    "more", [{"inner_iterate": "average"}, {"inner_passes": 3}, {"inner_passes": "accuracy"}]
)
def test_inner_choices_keep_the_certificate(rare_words, optimum, variant, more):
    svm = CasimirSSVM(variant=variant, max_iter=40, tol=1e-5, random_state=0, **more)
    svm.fit(*rare_words)
    assert svm.dual_objective_ <= optimum.objective_
    assert svm.objective_ >= optimum.dual_objective_
    if variant == "adaptive":
        assert svm.objective_ <= 1.3 * optimum.objective_


@pytest.mark.parametrize("strategy", ["prox-center", "extrapolation", "previous"])
def test_all_warm_starts_of_constant_smoothing(rare_words, optimum, strategy):
    svm = CasimirSSVM(
        variant="constant", warm_start_strategy=strategy, max_iter=100, tol=1e-5, random_state=0
    ).fit(*rare_words)
    # The smoothing of strength 2 adds 1 to the hinge at most.
    assert optimum.dual_objective_ <= svm.objective_ <= optimum.objective_ + 1.0
    assert svm.smoothing_strength_ == 2.0


def test_passes_to_an_accuracy_end_where_the_criterion_holds(rare_words):
    common = {"variant": "constant", "max_iter": 6, "tol": 0.0, "random_state": 0}
    accurate = CasimirSSVM(inner_passes="accuracy", **common).fit(*rare_words)
    # Two calls a sample and pass, one for the snapshot that ends an iteration.
    calls = np.diff(np.append(0, accurate.history_["oracle_calls"])) / len(rare_words[0])
    assert (calls >= 3.0).all()
    assert (calls <= 41.0).all()
    assert len(set(calls)) > 1 or calls[0] < 41.0
    fixed = CasimirSSVM(inner_passes=3, **common).fit(*rare_words)
    assert fixed.n_oracle_calls_ == 6 * 6 * len(rare_words[0])


def test_the_hinge_itself_without_smoothing(rare_words, optimum):
    common = {"smoothing_strength": 0, "learning_rate": 0.02, "max_iter": 60, "tol": 1e-5}
    svm = CasimirSSVM(kappa=1.0 / 30, random_state=0, **common).fit(*rare_words)
    assert svm.smoothing_strength_ == 0.0
    assert optimum.dual_objective_ <= svm.objective_ <= 2.0 * optimum.objective_
    assert svm.dual_objective_ <= optimum.objective_
    # Nothing is smoothed: at any point the hinge itself.
    assert_allclose(svm.history_["smoothed_objective"][0], svm.history_["smoothed_objective"].max())
    svrg = CasimirSSVM(variant="svrg", random_state=0, **common).fit(*rare_words)
    assert svrg.objective_ >= optimum.dual_objective_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"smoothing_strength": 0}, "smoothing_strength=0 needs a learning_rate"),
        ({"smoothing_strength": 0, "learning_rate": 0.1}, "smoothing_strength=0 needs a kappa"),
        ({"smoothing_strength": 1e-200}, r"'smoothing_strength' parameter .* \[1e-100, 1e\+100\]"),
        ({"inner_passes": 0}, "inner_passes"),
        ({"inner_iterate": "mean"}, "inner_iterate"),
    ],
)
def test_inner_choices_that_make_no_sense(rare_words, parameters, message):
    with pytest.raises(ValueError, match=message):
        CasimirSSVM(**parameters).fit(*rare_words)


def test_means_cannot_keep_interactions_attractive():
    X, y = [np.eye(2)[[[0, 1], [1, 1]]]], [np.array([[0, 1], [1, 1]])]
    with pytest.raises(ValueError, match='inner_iterate="average" cannot keep'):
        CasimirSSVM(Grid(attractive=True), inner_iterate="average").fit(X, y)


def test_entropy_of_candidates_vanishes_with_the_gap():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (2, 3, 4, 5, 2, 3)]
    y = [int(np.argmax(x @ [1.0, -1.0, 0.5] + rng.normal(size=len(x)))) for x in X]
    svm = CasimirSSVM(Candidates(), smoothing="entropy", tol=1e-2, max_iter=300, random_state=0)
    svm.fit(X, y)
    assert svm.dual_gap_ <= 1e-2 * svm.objective_
    assert svm.smoothing_strength_ < 0.1

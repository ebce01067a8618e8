"""Two-label interactions kept attractive in training: against a convex solver, by enumeration."""

import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, Grid, Pairwise, SubgradientSSVM
from skstruct.callbacks import Checkpoint
from skstruct.core.cone import make_cone, project_rows, settle
from skstruct.core.weights import Weights, lazy_weights, plain_weights
from skstruct.graphs.pairwise.graph import INTERACTIONS, attraction, pair_columns
from tests.helpers.attractive_cases import Reference, draw_samples, flat

interactions_of = pytest.mark.parametrize("interactions", INTERACTIONS)
seeds = st.integers(0, 2**32 - 1)


def _attraction_of(tables):
    """In every order of summing, the smallest."""
    tables = np.atleast_3d(tables.reshape(-1, 2, 2))
    w00, w01, w10, w11 = tables.reshape(-1, 4).T
    return np.min(
        [w00 + w11 - w01 - w10, (w00 - w01) + (w11 - w10), (w00 - w10) - (w01 - w11)],
        initial=np.inf,
    )


def _assert_attracts(svm, X=()):
    """No table repels in floating point, nor that of any edge."""
    assert _attraction_of(svm.pairwise_coef_) >= 0.0
    for x in X:
        if svm.graph_.edge_features:
            assert _attraction_of(np.einsum("ef,fjk->ejk", x[2], svm.pairwise_coef_)) >= 0.0


@interactions_of
def test_attraction_is_what_equal_labels_gain(interactions):
    w = np.random.default_rng(0).normal(size=pair_columns(interactions, 2).max() + 1)
    table = Pairwise(interactions=interactions).pair_tables(w[None], 2)
    expected = table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]
    assert attraction(interactions) @ w == pytest.approx(expected)


def _project(a, rows):
    return rows + np.maximum(0.0, -(rows @ a) / (a @ a))[:, None] * a


@interactions_of
@given(seed=seeds)
@settings(max_examples=20)
def test_rows_are_projected_with_and_without_multipliers(interactions, seed):
    rng, a = np.random.default_rng(seed), attraction(interactions)
    shapes = (1, 2), (3, a.size)
    rows = np.round(rng.normal(size=shapes[1]), 1)
    plain = Weights(np.zeros(shapes[0]), rows.copy())
    settle(make_cone(a, 3), plain)
    assert_allclose(plain.pair, _project(a, rows), atol=1e-13)
    assert (plain.pair @ a >= 0.0).all()

    lazy = lazy_weights(Weights(np.zeros(shapes[0]), rows))
    half, c = lazy.pair.shape[1] // 2, 1.7
    d = rng.normal(size=rows.shape)
    lazy.pair[:, half : half + a.size] = d
    lazy.scale[:] = 0.5, -0.3
    before = plain_weights(lazy, shapes).pair
    project_rows(make_cone(a, 3), lazy, c, 0)
    after = plain_weights(lazy, shapes).pair
    assert_allclose(after, _project(a, before), atol=1e-13)
    taken = lazy.pair[:, half : half + a.size] - d
    assert_allclose(taken, c * (after - before), atol=1e-13)

    # With multipliers the weights follow the projection of the sum of all steps.
    cone, w, total = make_cone(a, 3), Weights(np.zeros(shapes[0]), np.zeros(shapes[1])), 0.0
    for _ in range(20):
        step = rng.normal(size=shapes[1])
        total = total + step
        w.pair[:] += step
        project_rows(cone, w, 0.0, 1)
        assert_allclose(w.pair, _project(a, total), atol=1e-12)
        assert_allclose(w.pair - cone.multipliers[:, None] * a, total, atol=1e-12)
        assert (cone.multipliers >= 0.0).all()
        assert (w.pair @ a >= 0.0).all()


CASES = [
    ("junction-tree", 1, True),
    ("max-flow", 2, False),
    ("roof-dual", 1, False),
]


@interactions_of
@pytest.mark.parametrize(("inference", "n_types", "edge_features"), CASES)
@given(seed=seeds)
@settings(max_examples=2)
def test_certificates_hold_around_the_constrained_optimum(
    interactions, inference, n_types, edge_features, seed
):
    rng = np.random.default_rng(seed)
    X, y = draw_samples(rng, n_types, edge_features)
    graph = Pairwise(
        edge_features, n_types, interactions=interactions, attractive=True, inference=inference
    )
    C = float(rng.choice([0.1, 1.0]))
    reference = Reference(graph, X, y, C)
    w = reference.solve()
    optimum = reference.objective(w)
    for options in ({}, {"averaging": True}, {"steps": "frank-wolfe", "sampling": "gap"}):
        svm = BCFWSSVM(graph, C=C, tol=0.02, max_iter=3000, random_state=0, **options).fit(X, y)
        assert svm.dual_gap_ <= 0.02 * svm.objective_
        assert svm.dual_objective_ <= optimum
        # The best value of the reference is exact to its own tolerance.
        assert svm.objective_ >= optimum - 1e-6
        assert svm.objective_ == pytest.approx(reference.objective(flat(svm)))
        _assert_attracts(svm, X)
        # Strong convexity: no other point is as good.
        gap = svm.dual_gap_ + 1e-6
        assert np.sum((flat(svm) - w) ** 2) <= 2.0 * gap / reference.lam


@interactions_of
def test_what_repels_is_held_back_and_what_attracts_is_left_alone(interactions):
    for repel in (True, False):
        X, y = draw_samples(np.random.default_rng(3), repel=repel, n_samples=8)
        fits = [
            BCFWSSVM(
                Pairwise(interactions=interactions, attractive=attractive),
                tol=1e-3,
                max_iter=3000,
                random_state=0,
            ).fit(X, y)
            for attractive in (False, True)
        ]
        free, kept = fits
        _assert_attracts(kept)
        assert kept.objective_ >= free.dual_objective_
        if repel:
            assert _attraction_of(free.pairwise_coef_) < -0.1
            assert kept.dual_objective_ > free.objective_
        else:
            assert _attraction_of(free.pairwise_coef_) > 0.1
            assert kept.dual_objective_ <= free.objective_
            assert free.dual_objective_ <= kept.objective_


@interactions_of
@pytest.mark.parametrize("averaging", [False, True])
def test_subgradients_stay_in_the_cone(interactions, averaging):
    X, y = draw_samples(np.random.default_rng(4), n_types=2, n_samples=60)
    graph = Pairwise(edge_types=2, interactions=interactions, attractive=True)
    certified = BCFWSSVM(graph, C=0.1, tol=1e-3, max_iter=3000, random_state=0).fit(X, y)
    svm = SubgradientSSVM(graph, C=0.1, averaging=averaging, tol=1e-9, max_iter=400, random_state=0)
    svm.fit(X, y)
    _assert_attracts(svm)
    assert svm.objective_ >= certified.dual_objective_
    assert svm.objective_ <= certified.objective_ * 1.03
    reference = Reference(graph, X, y, 0.1)
    assert svm.objective_ == pytest.approx(reference.objective(flat(svm)))


@pytest.mark.thinned
@interactions_of
@pytest.mark.parametrize(
    "options", [{}, {"variant": "svrg", "smoothing_strength": 0.05}], ids=["adaptive", "svrg"]
)
def test_casimir_certifies_the_constrained_optimum(interactions, options):
    X, y = draw_samples(np.random.default_rng(10), n_types=2, n_samples=8)
    graph = Pairwise(
        edge_types=2, interactions=interactions, attractive=True, inference="junction-tree"
    )
    reference = Reference(graph, X, y, 0.1)
    optimum = reference.objective(reference.solve())
    svm = CasimirSSVM(graph, C=0.1, tol=0.02, max_iter=2000, random_state=0, **options)
    svm.fit(X, y)
    assert svm.dual_gap_ <= 0.02 * svm.objective_
    assert (svm.history_["dual_objective"] <= optimum).all()
    assert (svm.history_["objective"] >= optimum - 1e-6).all()
    assert svm.objective_ == pytest.approx(reference.objective(flat(svm)))
    _assert_attracts(svm)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("interactions", ["full", "potts"])
def test_warm_starts_cross_the_border_of_the_cone(interactions):
    X, y = draw_samples(np.random.default_rng(5), n_samples=8)
    graph = Pairwise(interactions=interactions, inference="junction-tree")
    svm = BCFWSSVM(graph, tol=1e-2, max_iter=3000, warm_start=True, random_state=0).fit(X, y)
    assert _attraction_of(svm.pairwise_coef_) < -0.1
    cold = clone(svm).set_params(graph__attractive=True, C=2.0, warm_start=False).fit(X, y)
    svm.set_params(graph__attractive=True, C=2.0).fit(X, y)
    _assert_attracts(svm)
    assert svm.dual_objective_ <= cold.objective_
    assert cold.dual_objective_ <= svm.objective_
    assert svm.suboptimality_ <= 1e-2
    # The dual point of that fit, multipliers included, is as good as it was; of its weights and
    # the mean of the last passes the better ones are taken.
    objective, bound = svm.objective_, svm.dual_objective_
    svm.fit(X, y)
    assert svm.n_iter_ == 1
    assert_allclose(svm.dual_objective_, bound, rtol=1e-9)
    assert svm.objective_ <= objective * (1 + 1e-9)
    _assert_attracts(svm)

    start = SubgradientSSVM(
        clone(graph).set_params(attractive=False),
        max_iter=100,
        tol=0,
        warm_start=True,
        random_state=0,
    ).fit(X, y)
    assert _attraction_of(start.pairwise_coef_) < -0.1
    start.set_params(graph__attractive=True, max_iter=1).fit(X, y)
    _assert_attracts(start)


def test_checkpoints_pickles_clones_and_searches(tmp_path):
    X, y = draw_samples(np.random.default_rng(6), n_samples=8)
    svm = BCFWSSVM(Pairwise(attractive=True), averaging=True, tol=0.1, random_state=0)
    assert clone(svm).get_params()["graph__attractive"] is True
    path = tmp_path / "model"
    svm.set_callbacks(Checkpoint(path)).fit(X, y)
    _assert_attracts(svm)
    for model in (pickle.loads(pickle.dumps(svm)), joblib.load(path)):
        _assert_attracts(model)
        for a, b in zip(model.predict(X), svm.predict(X), strict=True):
            assert_array_equal(a, b)
    search = GridSearchCV(
        BCFWSSVM(Pairwise(interactions="potts"), tol=0.1, random_state=0),
        {"graph__attractive": [False, True]},
        cv=2,
    ).fit(X, y)
    found = search.cv_results_["mean_test_score"]
    assert search.best_params_["graph__attractive"] == bool(found[1] > found[0])
    assert search.best_estimator_.graph_.attractive == search.best_params_["graph__attractive"]


def test_images_with_contrast_are_kept_attractive():
    rng = np.random.default_rng(7)
    y = [(np.indices(size).sum(axis=0) % 2) for size in ((2, 3), (3, 3), (1, 4))]
    X = [labels[..., None] + rng.normal(scale=0.7, size=(*labels.shape, 1)) for labels in y]
    options = {"tol": 1e-2, "max_iter": 3000, "random_state": 0}
    free = BCFWSSVM(Grid(edge_features="contrast"), **options).fit(X, y)
    kept = BCFWSSVM(Grid(edge_features="contrast", attractive=True), **options).fit(X, y)
    assert _attraction_of(free.pairwise_coef_) < 0.0
    _assert_attracts(kept)
    assert kept.dual_objective_ > free.objective_
    assert [labels.shape for labels in kept.predict(X)] == [labels.shape for labels in y]


def test_forbidden_unequal_pairs_attract_without_end():
    X, y = draw_samples(np.random.default_rng(8), repel=False, n_samples=6)
    y[0][:] = 0
    y[1][:] = 1
    graph = Pairwise(forbidden=[(0, 1)], attractive=True)
    svm = BCFWSSVM(graph, tol=0.1, random_state=0).fit(X, y)
    _assert_attracts(svm)
    for x, labels in zip(X, svm.predict(X), strict=True):
        assert not ((labels[x[1][:, 0]] == 0) & (labels[x[1][:, 1]] == 1)).any()


def test_what_cannot_be_kept_attractive_is_refused():
    X, y = draw_samples(np.random.default_rng(9), edge_features=True)
    plain = [x[:2] for x in X]
    with pytest.raises(
        ValueError, match=r"attractive=True needs two labels, here are 3, \[0, 1, 2"
    ):
        BCFWSSVM(Pairwise(attractive=True)).fit(plain, [y[0] + 1, *y[1:]])
    with pytest.raises(ValueError, match="attractive must be a bool, got 'yes'"):
        BCFWSSVM(Pairwise(attractive="yes")).fit(plain, y)
    with pytest.raises(ValueError, match=r"forbidden has the pair of equal labels \(1, 1\)"):
        BCFWSSVM(Pairwise(attractive=True, forbidden=[(1, 1)])).fit(plain, y)
    for estimator in (SAGCRF, SAGCRF(solver="lbfgs"), SAGCRF(solver="casimir"), GDMMSSVM):
        model = estimator() if isinstance(estimator, type) else estimator
        model.set_params(graph=Pairwise(attractive=True))
        with pytest.raises(TypeError, match="cannot keep interactions attractive: use BCFWSSVM,"):
            model.fit(plain, y)

    svm = BCFWSSVM(Pairwise(edge_features=True, attractive=True), tol=0.3, random_state=0)
    svm.fit(X, y)
    worse = [*X[:2], (*X[2][:2], X[2][2].copy()), *X[3:]]
    worse[2] = (*_path(4), np.array([[1.0, 0.0], [0.0, 2.0], [0.5, -0.1]]))
    message = r"X: sample 2 has edge features below 0 \(edge 2\).*they must be 0 or more"
    with pytest.raises(ValueError, match=message):
        svm.predict(worse)
    as_csr = [(*x[:2], sparse.csr_matrix(x[2])) for x in worse]
    with pytest.raises(ValueError, match=message):
        svm.predict(as_csr)
    with pytest.raises(ValueError, match=message):
        clone(svm).fit(worse, [*y[:2], np.zeros(4, dtype=int), *y[3:]])
    svm.set_params(graph__attractive=False).fit(worse, [*y[:2], np.zeros(4, dtype=int), *y[3:]])


def _path(n):
    return np.zeros((n, 2)), np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)

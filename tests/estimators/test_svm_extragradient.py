"""The dual extragradient: BCFW's optimum, bounds that hold, the same bits for any threads."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    Boxes,
    ExtragradientSSVM,
    Matching,
    Pairwise,
)
from skstruct.callbacks import TimeLimit
from skstruct.core.parallel import Pieces, make_scratch
from skstruct.losses.hinge import projection_hinge
from skstruct.losses.operations import loss_oracle
from skstruct.solvers.extragradient import Extragradient
from skstruct.testing import random_sequences
from tests.helpers.attractive_cases import Reference, draw_samples, flat
from tests.helpers.certificate_cases import STRUCTURES, draw

C, TOL = 0.3, 1e-3


@pytest.fixture(scope="module")
def chains():
    return random_sequences(np.random.default_rng(11), n_samples=20)


@pytest.fixture(scope="module")
def table(chains):
    X, y = chains
    return np.vstack(X), np.concatenate(y)


def _norm(svm):
    return np.sqrt(sum((t**2).sum() for t in (svm.node_weights_, svm.pair_weights_)))


def _holds(svm, least, most):
    """Every bound is one on an optimum between `least` and `most`."""
    history = svm.history_
    measured = np.isfinite(history["objective"])
    assert measured[-1]
    assert (history["dual_objective"][measured] <= most).all()
    assert (history["objective"][measured] >= least).all()
    assert svm.dual_objective_ <= most
    assert svm.objective_ >= least
    assert 0.0 <= svm.dual_gap_ <= svm.tol * svm.objective_


@pytest.mark.parametrize("name", ["table", "candidates"])
def test_the_optimum_by_euclidean_projections(name):
    """That of Gibbs projections is found for each structure in test_certificates.py."""
    (X, y), graph = draw(name, 0, 25), STRUCTURES[name]
    best = BCFWSSVM(graph, C=C, tol=1e-5, max_iter=20000, random_state=0).fit(X, y)
    svm = ExtragradientSSVM(graph, C=C, tol=TOL, projection="euclidean").fit(X, y)
    _holds(svm, best.dual_objective_, best.objective_)
    assert svm.projection_ == "euclidean"
    assert svm.n_restarts_ > 0


@pytest.mark.parametrize("data", ["table", "chains"])
def test_the_ball_of_the_norm_that_c_gives_has_the_same_optimum(data, request):
    graph = STRUCTURES[data]
    X, y = request.getfixturevalue(data)
    best = BCFWSSVM(graph, C=C, tol=1e-6, max_iter=20000, random_state=0).fit(X, y)
    radius = _norm(best)
    ridge = radius**2 / (2.0 * C * len(X))
    svm = ExtragradientSSVM(graph, radius=radius, tol=TOL, max_iter=3000).fit(X, y)
    assert _norm(svm) <= radius
    # Over the ball the regulariser is at most that of its border.
    _holds(svm, best.dual_objective_ - ridge, best.objective_ - ridge)


def test_c_is_not_used_beside_a_radius(table):
    one, other = (
        ExtragradientSSVM("multiclass", C=C, radius=1.0, max_iter=9, tol=1.0).fit(*table)
        for C in (1e-3, 1e3)
    )
    assert_array_equal(one.node_weights_, other.node_weights_)


@pytest.mark.parametrize(
    ("inference", "radius", "projection"),
    [
        ("junction-tree", 1.5, "gibbs"),
        ("max-flow", None, "euclidean"),
    ],
)
def test_interactions_stay_attractive(inference, radius, projection):
    X, y = draw_samples(np.random.default_rng(10), n_types=2, n_samples=8)
    graph = Pairwise(edge_types=2, attractive=True, inference=inference)
    reference = Reference(graph, X, y, C)
    if radius is None:
        most = reference.objective(reference.solve())
    else:
        reference.lam = 0.0
        most = _solve_in_ball(reference, radius)
    svm = ExtragradientSSVM(graph, C=C, radius=radius, tol=TOL, max_iter=5000).fit(X, y)
    # No feasible weights are below the optimum; that these are feasible is checked below.
    _holds(svm, 0.0, most)
    assert svm.projection_ == projection
    assert svm.objective_ == pytest.approx(reference.objective(flat(svm)))
    assert (reference.cone @ flat(svm) >= 0.0).all()


def _solve_in_ball(reference, radius):
    """The constrained hinge as a smooth problem: one slack a sample."""
    size, n = reference.size, reference.n
    rows, rhs = [], []
    for i, (psi, loss) in enumerate(reference.rows):
        rows.append(np.hstack([-psi, np.tile(np.eye(n)[i], (len(psi), 1))]))
        rhs.append(loss)
    A, b = np.vstack(rows), np.concatenate(rhs)
    cone = np.hstack([reference.cone, np.zeros((len(reference.cone), n))])
    start = np.concatenate([np.zeros(size), np.full(n, b.max())])
    found = minimize(
        lambda x: x[size:].mean(),
        start,
        jac=lambda x: np.concatenate([np.zeros(size), np.full(n, 1.0 / n)]),
        constraints=[
            {"type": "ineq", "fun": lambda x: A @ x - b, "jac": lambda x: A},
            {"type": "ineq", "fun": lambda x: cone @ x, "jac": lambda x: cone},
            {"type": "ineq", "fun": lambda x: radius**2 - x[:size] @ x[:size]},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    w = found.x[:size]
    return reference.objective(w * min(1.0, radius / np.linalg.norm(w)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threads_and_cuts_change_no_bit(chains, monkeypatch):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 5)
    svm = ExtragradientSSVM(C=C, tol=0.0, max_iter=12, n_jobs=1).fit(*chains)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    for n_jobs in (1, 2, 3):
        other = clone(svm).set_params(n_jobs=n_jobs).fit(*chains)
        assert_array_equal(svm.node_weights_, other.node_weights_)
        assert_array_equal(svm.pair_weights_, other.pair_weights_)
        assert_array_equal(svm.history_["dual_objective"], other.history_["dual_objective"])


def test_work_is_counted(chains):
    svm = ExtragradientSSVM(C=C, tol=TOL).fit(*chains)
    calls, passes = svm.history_["oracle_calls"], svm.history_["passes"]
    assert calls[-1] == svm.n_oracle_calls_
    assert_allclose(passes * len(chains[0]), calls)
    # Two passes an iteration at least, and the first one.
    assert (calls >= (2 * np.arange(1, svm.n_iter_ + 1) + 1) * len(chains[0])).all()
    assert (np.diff(svm.history_["seconds"]) > 0.0).all()
    assert svm.step_size_ > 0.0


def test_a_warm_start_is_near(chains):
    svm = ExtragradientSSVM(C=C, tol=TOL, warm_start=True).fit(*chains)
    cold = svm.history_["passes"][-1]
    svm.fit(*chains)
    assert svm.history_["passes"][-1] < 0.7 * cold
    assert svm.suboptimality_ <= TOL
    ball = clone(svm).set_params(radius=0.5 * _norm(svm))
    cold = ball.fit(*chains).objective_
    assert_allclose(ball.fit(*chains).objective_, cold, rtol=2 * TOL)
    assert _norm(ball) <= ball.radius


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_step_size_is_taken_as_it_is(table):
    svm = ExtragradientSSVM("multiclass", C=C, step_size=0.25, max_iter=50, tol=0.0).fit(*table)
    assert (svm.history_["step_size"] == 0.25).all()
    assert svm.step_size_ == 0.25
    assert svm.dual_objective_ > 0.0


def test_callbacks_end_a_fit_between_and_within_passes(chains, monkeypatch):
    svm = ExtragradientSSVM(C=C, tol=0.0, max_iter=50)
    svm.set_callbacks(TimeLimit(1e-9)).fit(*chains)
    assert svm.n_iter_ == 1
    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    svm.fit(*chains)
    # The pass that was cut is not counted: what is left is the closing measurement.
    assert svm.n_oracle_calls_ == len(chains[0])
    assert (svm.node_weights_ == 0.0).all()


@pytest.mark.parametrize("where", ["first", "later"])
def test_ctrl_c_leaves_the_model_as_it_was(chains, monkeypatch, where):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 5)
    svm = ExtragradientSSVM(C=C, tol=TOL, n_jobs=2).fit(*chains)
    before, module = svm.node_weights_, "skstruct.solvers.extragradient.project_samples"
    left = [1 if where == "first" else 30]

    def interrupted(*args):
        left[0] -= args[4] < args[5]  # the compiling call has no samples
        if left[0] == 0:
            raise KeyboardInterrupt
        return project(*args)

    from skstruct.solvers.extragradient import project_samples as project

    monkeypatch.setattr(module, interrupted)
    with pytest.raises(KeyboardInterrupt):
        svm.fit(*chains)
    assert svm.node_weights_ is before


@pytest.mark.parametrize("projection", ["gibbs", "euclidean"])
def test_projections_are_gradients_of_their_hinges(projection, table):
    X, y = table
    svm = ExtragradientSSVM("multiclass", C=C, max_iter=1, tol=1.0).fit(X, y)
    graph, codes = svm.graph_, np.searchsorted(svm.classes_, y).astype(np.int32)
    samples = graph.read_X(svm, X, reset=False)
    problem = graph.make_problem(samples, svm.classes_, True, codes=codes, loss="hamming")
    scratch, rng = make_scratch(problem), np.random.default_rng(0)
    loss = projection_hinge(projection, 3)
    loss.strength[0] = 0.7
    for i in range(5):
        theta, r, none = rng.normal(size=3), np.zeros(3), np.zeros(0)
        value, _ = loss_oracle(loss, problem, i, theta, scratch.labels, r, np.zeros(3))
        m = r + np.eye(3)[codes[i]]
        assert m.min() >= 0.0
        assert m.sum() == pytest.approx(1.0)
        rewards = 0.7 * -(m @ np.log(m)) if projection == "gibbs" else -0.35 * (m @ m)
        expected = theta @ r + 1.0 - m[codes[i]] + rewards
        assert value == pytest.approx(expected)
        for k in range(3):
            ends = [
                loss_oracle(loss, problem, i, moved, scratch.labels, none, np.zeros(3))[0]
                for moved in (theta + 1e-6 * np.eye(3)[k], theta - 1e-6 * np.eye(3)[k])
            ]
            assert r[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"radius": 0.0}, "'radius' parameter"),
        ({"radius": -1.0}, "'radius' parameter"),
        ({"radius": np.nan}, "radius"),
        ({"radius": 1e-300}, "'radius' parameter"),
        ({"radius": 1e160}, "'radius' parameter"),
        ({"step_size": 0.0}, "'step_size' parameter"),
        ({"step_size": -1.0}, "'step_size' parameter"),
        ({"projection": "linear"}, "'projection' parameter"),
        ({"C": np.inf}, "'C' parameter"),
    ],
)
def test_bad_options(chains, options, match):
    with pytest.raises(ValueError, match=match):
        ExtragradientSSVM(**options).fit(*chains)


def test_structures_without_a_projection(chains):
    with pytest.raises(TypeError, match='no Euclidean projections; use projection="gibbs"'):
        ExtragradientSSVM(projection="euclidean").fit(*chains)
    X, y = draw_samples(np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"no projections onto the relaxation .*; use BCFWSSVM"):
        ExtragradientSSVM(Pairwise(inference="roof-dual")).fit(X, y)
    graph = Matching(max_degree=2)
    with pytest.raises(TypeError, match=r"no marginals; nor Euclidean .*; use BCFWSSVM"):
        ExtragradientSSVM(graph).fit(*graph.example(np.random.default_rng(0), False))
    graph = Boxes()
    with pytest.raises(TypeError, match=r"does not add up over parts; use BCFWSSVM"):
        ExtragradientSSVM(graph).fit(*graph.example(np.random.default_rng(0), False))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_fit_is_worse_than_its_start(table):
    X, y = table
    svm = ExtragradientSSVM("multiclass", max_iter=3)
    assert svm.fit(1e8 * X, y).objective_ <= 1.0
    svm.set_params(warm_start=True).fit(X, y)
    start = svm.objective_
    assert svm.set_params(max_iter=1, step_size=1e3).fit(X, y).objective_ <= start


def test_features_that_overflow_are_named(table):
    X, y = table
    with pytest.raises(FloatingPointError, match=r"scale"):
        ExtragradientSSVM("multiclass").fit(1e200 * X, y)


def test_without_restarts_a_ball_has_plain_averages(chains):
    X, y = chains
    norm = 1.0
    kept = []

    class Watched(Extragradient):
        """Keeps the weights of all steps."""

        def _try(self, v, pieces, anyhow):
            before = self.at.z.copy()
            done = super()._try(v, pieces, anyhow)
            kept.append((self.at.z - before) / self.step)
            return done

    options = {"radius": norm, "step_size": 0.5, "restarts": False, "max_iter": 40, "tol": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skstruct.estimators.svm_extragradient.Extragradient", Watched)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svm = ExtragradientSSVM(**options).fit(X, y)
    assert svm.n_restarts_ == 0
    assert len(kept) == 40
    # The best certified average is that of the first so many iterates, all alike.
    found = np.concatenate([svm.node_weights_.ravel(), svm.pair_weights_.ravel()])
    averages = np.cumsum(kept, axis=0) / np.arange(1, 41)[:, None]
    assert np.abs(averages - found).max(axis=1).min() < 1e-5
    reference = ExtragradientSSVM(radius=norm, tol=1e-3).fit(X, y)
    assert svm.dual_objective_ <= reference.objective_
    assert reference.dual_objective_ <= svm.objective_
    assert svm.suboptimality_ < 0.5


def test_restarts_are_a_bool(chains):
    with pytest.raises(ValueError, match="restarts"):
        ExtragradientSSVM(restarts="never").fit(*chains)

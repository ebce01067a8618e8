"""Training losses: values and residuals by brute force, and optima of every smooth loss.

The former run as plain Python (test_structures.py); the latter compile the same kernels.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.special import logsumexp, softmax

from skstruct import SAGCRF, CasimirSSVM, Chain, MultiLabel
from skstruct.core.jit.solver_kernel import solver_kernel
from skstruct.core.parallel import make_scratch
from skstruct.estimators.training_data import read_training_data
from skstruct.losses.hinge import CALLS, EXACT, MaxHinge, RelaxedHinge, hinge_of, smooth_hinge
from skstruct.losses.log import LogLoss, SoftmaxMargin
from skstruct.losses.operations import expected_task_loss, loss_curvature, loss_oracle, private_loss
from skstruct.solvers.casimir import SmoothCasimir
from skstruct.solvers.quasi_newton import QuasiNewton
from skstruct.solvers.run import run
from skstruct.solvers.sag import SAG
from skstruct.solvers.sgd import SGD
from skstruct.testing import all_labellings, random_sequences

COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]])


def _problem(graph, X, y, task_loss="hamming", n_best=1):
    """A problem with labels, its weight shapes and sample weights."""
    model = SAGCRF(graph)
    data = read_training_data(model, X, y, None)
    problem = model.graph_.make_problem(
        data.samples, model.classes_, True, codes=data.codes, loss=task_loss, n_best=n_best
    )
    shapes = model.graph_.weight_shapes(data.samples, len(model.classes_), True)
    return problem, shapes, data.sample_weight


@pytest.fixture(scope="module")
def chains():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(n, 3)) for n in (1, 2, 3, 4, 4)]
    return _problem(Chain(), X, [rng.integers(0, 3, len(x)) for x in X], COST, n_best=100)[0]


def _brute_force(problem, i):
    """Indicators of all labellings of a chain, their task losses, the position of the truth."""
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    truth, labellings = problem.labels[first:stop], all_labellings(stop - first, 3)
    rows = []
    for y in labellings:
        unary, pair = np.eye(3)[y], np.zeros((3, 3))
        np.add.at(pair, (y[:-1], y[1:]), 1.0)
        rows.append(np.concatenate([unary.ravel(), pair.ravel()]))
    costs = COST[truth, labellings].sum(axis=1)
    return np.array(rows), costs, int(np.flatnonzero((labellings == truth).all(axis=1))[0])


def _projection(z):
    """Onto the simplex, by bisection for the threshold."""
    low, high = z.min() - 1.0, z.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(z - middle, 0.0).sum() > 1.0 else (low, middle)
    return np.maximum(z - high, 0.0)


def _log(scores, costs):
    return logsumexp(scores), softmax(scores)


def _margin(scores, costs):
    return logsumexp(scores + costs), softmax(scores + costs)


def _hinge(scores, costs):
    return (scores + costs).max(), np.eye(scores.size)[(scores + costs).argmax()]


def _l2(scores, costs):
    shares = _projection((scores + costs) / 0.7)
    return shares @ (scores + costs) + 0.35 * (1.0 - shares @ shares), shares


def _entropy(scores, costs):
    return 0.7 * logsumexp((scores + costs) / 0.7), softmax((scores + costs) / 0.7)


LOSSES = {
    "log": (lambda problem: LogLoss(), _log),
    "softmax-margin": (lambda problem: SoftmaxMargin(), _margin),
    "hinge": (lambda problem: MaxHinge(), _hinge),
    "l2": (lambda problem: smooth_hinge("l2", 0.7, 99, problem), _l2),
    "entropy": (lambda problem: smooth_hinge("entropy", 0.7, 1, problem), _entropy),
}


@solver_kernel
def _oracle(loss, problem, i, theta, labels, r, scratch):
    return loss_oracle(loss, problem, i, theta, labels, r, scratch)


@solver_kernel
def _curvature(loss, problem, i, theta, value, labels, r, start, answer, trial, scratch):
    return loss_curvature(loss, problem, i, theta, value, labels, r, start, answer, trial, scratch)


class _At:
    """The verbs of a loss on one sample, as functions of its potentials."""

    def __init__(self, loss, problem, i):
        self.loss, self.problem, self.i = loss, problem, i
        self.size = int(problem.part_ptr[i + 1] - problem.part_ptr[i])
        self.scratch = make_scratch(problem)
        self.augmented = np.empty_like(self.scratch.theta)

    def value(self, theta):
        labels = self.scratch.labels
        none = theta[:0]
        return _oracle(self.loss, self.problem, self.i, theta, labels, none, self.augmented)

    def residual(self, theta):
        labels, r = self.scratch.labels, np.full(self.size, np.nan)
        args = self.loss, self.problem, self.i, theta, labels, r, self.augmented
        return *_oracle(*args), r

    def curvature(self, theta, start):
        value, _, r = self.residual(theta)
        args = self.loss, self.problem, self.i, theta, value, self.scratch.labels, r, start
        return _curvature(*args, np.empty(self.size), np.empty(self.size), self.augmented)


@pytest.mark.plain
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_residual_by_enumeration(chains, name):
    make, reference = LOSSES[name]
    rng = np.random.default_rng(0)
    for i in range(chains.part_ptr.size - 1):
        at = _At(make(chains), chains, i)
        indicators, costs, truth = _brute_force(chains, i)
        for scale in (0.0, 1.0, 30.0):
            theta = scale * rng.normal(size=at.size)
            if name == "hinge":  # no ties
                theta += 1e-3 * rng.normal(size=at.size)
            kept, scores = theta.copy(), indicators @ theta
            best, shares = reference(scores, costs)
            value, magnitude, r = at.residual(theta)
            assert (theta == kept).all()
            expected = best - scores[truth]
            assert_allclose(value, expected, atol=1e-10 * max(scale, 1.0))
            assert_allclose(at.value(theta), (value, magnitude), atol=1e-11 * max(scale, 1.0))
            assert_allclose(magnitude, abs(best) + abs(scores[truth]), rtol=1e-9)
            assert_allclose(r, shares @ indicators - indicators[truth], atol=1e-9)
            # The term of the dual problem is the concave part of the loss at these shares.
            assert value - theta @ r >= -1e-10 * max(scale, 1.0)


@pytest.mark.plain
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "hinge"])
def test_residuals_by_finite_differences(chains, name):
    rng = np.random.default_rng(1)
    for i in range(chains.part_ptr.size - 1):
        at = _At(LOSSES[name][0](chains), chains, i)
        start = rng.normal(size=at.size)
        error = check_grad(
            lambda theta, at=at: at.value(theta)[0], lambda t, at=at: at.residual(t)[2], start
        )
        assert error < 1e-5


@pytest.mark.plain
@pytest.mark.parametrize("strength", [0.1, 2.0])
@pytest.mark.parametrize("kind", ["l2", "entropy"])
def test_smoothing_is_a_little_above_the_hinge(chains, kind, strength):
    rng = np.random.default_rng(0)
    for i in range(chains.part_ptr.size - 1):
        n = int(chains.label_ptr[i + 1] - chains.label_ptr[i])
        theta = rng.normal(size=int(chains.part_ptr[i + 1] - chains.part_ptr[i]))
        smooth = _At(smooth_hinge(kind, strength, 99, chains), chains, i).value(theta)[0]
        difference = smooth - _At(MaxHinge(), chains, i).value(theta)[0]
        bound = strength / 2 if kind == "l2" else strength * n * np.log(3)
        assert -1e-12 <= difference <= bound + 1e-12


@pytest.mark.plain
@pytest.mark.parametrize("n_best", [1, 2, 3, 5])
def test_top_k_exactness_flag(chains, n_best):
    """The flag is set if and only if more labellings give the same projection."""
    rng = np.random.default_rng(1)
    exact = 0
    for strength in (0.05, 0.5, 5.0):
        few, all_of_them = (smooth_hinge("l2", strength, k, chains) for k in (n_best, 99))
        for i in range(chains.part_ptr.size - 1):
            here, full = _At(few, chains, i), _At(all_of_them, chains, i)
            theta, before = rng.normal(size=here.size), few.counts.copy()
            value, _, r = here.residual(theta)
            expected, _, full_r = full.residual(theta)
            same = np.allclose(r, full_r, atol=1e-9) and abs(value - expected) < 1e-9
            assert (few.counts - before)[[CALLS, EXACT]].tolist() == [1.0, float(same)]
            # Fewer labellings: a bound from below.
            assert value <= expected + 1e-12
            exact += same
    assert exact > 3


@pytest.mark.plain
def test_the_relaxed_hinge_bounds_the_hinge():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), rng.integers(0, 2, (6, 4))
    relaxed = _problem(MultiLabel(edges="full", inference="relaxed"), X, y)[0]
    exact = _problem(MultiLabel(edges="full", inference="auto"), X, y)[0]
    assert type(hinge_of(exact)) is MaxHinge
    fractional = 0
    for i in range(6):
        loss = hinge_of(relaxed)
        assert type(loss) is RelaxedHinge
        at, reference = _At(loss, relaxed, i), _At(MaxHinge(), exact, i)
        for _ in range(10):
            theta = rng.normal(size=at.size)
            theta[:8] *= 0.2
            theta[8:] *= 5.0  # cycles that pull both ways
            value, magnitude, r = at.residual(theta)
            assert_allclose(at.value(theta), (value, magnitude))
            assert value >= reference.value(theta)[0] - 1e-12
            term = expected_task_loss(relaxed, i, r, np.empty(at.size))
            assert_allclose(value, theta @ r + term, atol=1e-12)
            fractional += not np.isin(r, [-1.0, 0.0, 1.0]).all()
    assert fractional > 0


@pytest.mark.parametrize("name", ["log", "softmax-margin", "entropy"])
def test_curvature_is_that_along_the_gradient(chains, name):
    at = _At(LOSSES[name][0](chains), chains, 4)
    theta = np.random.default_rng(2).normal(size=at.size)
    found = at.curvature(theta, 0.0)
    assert found > 0.0
    assert at.curvature(theta, 2.0 * found) == 2.0 * found
    # From far below, doubling stops at most a factor of 2 above the first that passes.
    assert found / 4.0 <= at.curvature(theta, 1e-6 * found) <= 4.0 * found


def test_a_private_loss_shares_no_scratch(chains):
    loss = smooth_hinge("l2", 0.7, 3, chains)
    own = private_loss(loss)
    for mine, theirs in zip(own, loss, strict=True):
        assert not np.shares_memory(mine, theirs)


def test_a_private_loss_keeps_its_numbers():
    class Tempered(NamedTuple):
        temperature: float
        scratch: np.ndarray

    own = private_loss(Tempered(0.5, np.zeros(2)))
    assert type(own.temperature) is float
    assert own.temperature == 0.5


# Every solver on every smooth loss

LAM = 0.05


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3))).argmax(axis=1)
    return X, y


def _go_on(record, weights):
    return False


def _solve(name, packed, loss, tol=1e-12, max_iter=3000):
    problem, shapes, sample_weight = packed
    task = problem, shapes, sample_weight, LAM, None
    if name == "lbfgs":
        method = QuasiNewton(*task, loss=loss)
    elif name == "casimir":
        method = SmoothCasimir(*task, loss=loss)
    else:
        method = SAG(*task, loss=loss, saga=name == "saga")
    rng = np.random.default_rng(0)
    return run(method, tol=tol, max_iter=max_iter, rng=rng, after_epoch=_go_on)


# The softmax-margin is trained by all solvers in test_certificates.py.
@pytest.mark.parametrize("name", ["log", "l2", "entropy"])
def test_solvers_reach_one_optimum_of_every_smooth_loss(table, name):
    packed = _problem("multiclass", *table, COST, n_best=4)
    # Solvers know a loss by the verbs that are enumerated above: all of them take the log loss,
    # one beside L-BFGS each of the others.
    others = {"log": ("sag", "saga", "casimir"), "l2": ("sag",), "entropy": ("casimir",)}
    results = []
    for solver in ("lbfgs", *others[name]):
        is_l2 = name == "l2"
        loss = smooth_hinge("l2", 0.7, 3, packed[0]) if is_l2 else LOSSES[name][0](packed[0])
        results.append(_solve(solver, packed, loss))
    optimum = results[0].published["objective_"]
    for result in results:
        assert result.converged
        published = result.published
        assert_allclose(published["objective_"], optimum, rtol=1e-9)
        assert published["gradient_norm_"] < 1e-5
        assert published["dual_objective_"] <= optimum * (1 + 1e-9)
        assert (result.history["dual_objective"] <= optimum * (1 + 1e-9)).all()
        objective = result.history["objective"]
        assert (objective[~np.isnan(objective)] >= optimum * (1 - 1e-9)).all()
        for table_, other in zip(result.weights.tables, results[0].weights.tables, strict=True):
            assert_allclose(table_, other, atol=1e-4)


@pytest.mark.parametrize("kind", ["l2", "entropy"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_smoothed_hinge_is_that_of_casimir(table, kind):
    X, y = table
    options = {"smoothing": kind, "smoothing_strength": 0.7, "n_best": 3, "variant": "constant"}
    C = 1.0 / (LAM * len(X))
    svm = CasimirSSVM("multiclass", C=C, tol=1e-9, max_iter=800, random_state=0, **options)
    smoothed = svm.fit(X, y).history_["smoothed_objective"].min()
    packed = _problem("multiclass", X, y, n_best=4)
    result = _solve("lbfgs", packed, smooth_hinge(kind, 0.7, 3, packed[0]), tol=1e-10)
    assert_allclose(result.published["objective_"], smoothed, rtol=1e-7)


def test_sgd_takes_any_loss(table):
    problem, shapes, sample_weight = packed = _problem("multiclass", *table)
    optimum = _solve("lbfgs", packed, LogLoss()).published["objective_"]
    method = SGD(problem, shapes, sample_weight, LAM, None, loss=LogLoss())
    rng = np.random.default_rng(0)
    result = run(method, max_iter=60, tol=1e-6, rng=rng, after_epoch=_go_on)
    assert optimum <= result.published["objective_"] <= 1.01 * optimum


@pytest.mark.parametrize("solver", ["sag", "saga", "lbfgs", "casimir", "svrg"])
def test_a_loss_with_kinks_is_refused(table, solver):
    packed = _problem("multiclass", *table)
    with pytest.raises(TypeError, match="needs a smooth loss, and MaxHinge is not"):
        _solve(solver, packed, MaxHinge())


@pytest.mark.parametrize("kind", ["l2", "entropy"])
def test_threads_change_no_gradient_of_a_loss_with_scratch(kind, monkeypatch):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    X, y = random_sequences(np.random.default_rng(0), n_samples=40)
    task = _problem("multiclass", np.vstack(X), np.concatenate(y), n_best=4)
    fits = [
        run(
            QuasiNewton(*task, LAM, n_jobs, loss=smooth_hinge(kind, 1.0, 3, task[0])),
            max_iter=5, tol=0.0, after_epoch=_go_on,
        )
        for n_jobs in (1, 2)
    ]  # fmt: skip
    assert_allclose(fits[0].published["objective_"], fits[1].published["objective_"], rtol=1e-12)

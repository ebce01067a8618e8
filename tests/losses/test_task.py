"""A task loss that is not linear in parts: what trains with it, what says that it cannot."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skstruct import BCFWSSVM, GDMMSSVM, CasimirSSVM, Chain, MultiClass, SubgradientSSVM
from skstruct.core import oracles
from skstruct.core.jit.kernels import kernel
from skstruct.core.oracles import (
    loss_augmented_max,
    loss_is_linear,
    max_marginals,
    max_oracle,
    score,
    task_loss,
)
from skstruct.core.weights import zero_weights
from skstruct.spaces.chain import ChainSpace
from skstruct.spaces.choice import MultiClassSpace
from skstruct.testing import all_labellings, check_structure, random_sequences, training_problem

LOSS = 1.5


class WholeChainSpace(ChainSpace):
    """Chains whose loss-augmented maximum is found by enumeration."""

    structure = "WholeChain"


class WholeCosts(NamedTuple):
    """A loss of 1.5 for any labelling but the true one."""

    label_ptr: np.ndarray
    labels: np.ndarray


@task_loss.register(WholeCosts)
@kernel
def _(target, i, labels):
    first = target.label_ptr[i]
    for t in range(target.label_ptr[i + 1] - first):
        if labels[t] != target.labels[first + t]:
            return LOSS
    return 0.0


@loss_augmented_max.register(WholeChainSpace)
@kernel
def _(problem, i, theta, labels, augmented):
    n, n_labels = problem.label_ptr[i + 1] - problem.label_ptr[i], problem.space.allowed.shape[1]
    best, best_value = 0, -np.inf
    # One labelling more than there are: the best is written out again at the end.
    for q in range(n_labels**n + 1):
        code = q if q < n_labels**n else best
        for t in range(n):
            labels[t] = code % n_labels
            code //= n_labels
        value = score(problem, i, theta, labels) + task_loss(problem, i, labels)
        if value > best_value:
            best, best_value = q, value
    return best_value


class WholeChain(Chain):
    """A chain that is right or wrong."""

    def make_problem(self, *args, **kwargs):
        """As a chain's, with another loss."""
        problem = super().make_problem(*args, **kwargs)
        target = WholeCosts(problem.label_ptr, problem.labels)
        return problem._replace(space=WholeChainSpace(*problem.space), target=target)


OPTIONS = {"C": 0.5, "random_state": 0, "tol": 1e-6, "max_iter": 5000}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return random_sequences(rng, n_samples=6, n_features=2, n_labels=2, max_length=3)


@pytest.fixture(scope="module")
def hinges(data):
    """Of each sample, feature differences (labelling minus truth) and losses of all labellings."""
    problem, _, shapes, _ = training_problem(WholeChain(), *data)
    found = []
    for i in range(len(data[0])):
        n_parts = int(problem.part_ptr[i + 1] - problem.part_ptr[i])
        true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
        rows, losses = [], []
        for labels in all_labellings(true.size, 2):
            mu, direction = np.zeros(n_parts), zero_weights(shapes)
            oracles.add_indicator(problem, i, labels, 1.0, mu)
            oracles.add_indicator(problem, i, true, -1.0, mu)
            oracles.accumulate(problem, i, mu, (1.0, 0.0), direction)
            rows.append(np.concatenate([direction.node.ravel(), direction.pair.ravel()]))
            losses.append(0.0 if (labels == true).all() else LOSS)
        found.append((np.array(rows), np.array(losses)))
    return found


def objective(w, hinges, C):
    """The lambda form by enumeration."""
    losses = [np.max(rows @ w + losses) for rows, losses in hinges]
    return 0.5 * (w @ w) / (C * len(hinges)) + np.mean(losses)


def optimum(hinges, C):
    """The quadratic program with a slack a sample and a constraint a labelling."""
    n, d = len(hinges), hinges[0][0].shape[1]
    constraints = [
        {"type": "ineq", "fun": lambda x, i=i, rows=rows, loss=loss: x[d + i] - rows @ x[:d] - loss}
        for i, (rows, loss) in enumerate(hinges)
    ]
    answer = minimize(
        lambda x: 0.5 * (x[:d] @ x[:d]) / (C * n) + x[d:].mean(),
        np.concatenate([np.zeros(d), np.full(n, LOSS)]),
        jac=lambda x: np.concatenate([x[:d] / (C * n), np.full(n, 1.0 / n)]),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return objective(answer.x[:d], hinges, C)


def weights_of(svm):
    """All weights, flat."""
    return np.concatenate([svm.node_weights_.ravel(), svm.pair_weights_.ravel()])


@pytest.mark.plain
def test_verbs(data):
    problem = training_problem(WholeChain(), *data)[0]
    assert type(problem.space) is WholeChainSpace
    assert not loss_is_linear(problem)
    assert loss_is_linear(training_problem(Chain(), *data)[0])
    check_structure(WholeChain(), *data)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampling": "gap", "oracle_cache": True, "n_cached": 3},
        {"steps": "frank-wolfe", "n_cached": 1, "averaging": True, "tol": 1e-3},
    ],
    ids=str,
)
def test_bcfw_reaches_the_certified_optimum(data, hinges, options):
    svm = BCFWSSVM(WholeChain(), **OPTIONS | options).fit(*data)
    best = optimum(hinges, 0.5)
    assert_allclose(svm.objective_, objective(weights_of(svm), hinges, 0.5), rtol=1e-9)
    assert 0 <= svm.dual_gap_ <= svm.tol * svm.objective_
    assert svm.dual_objective_ <= best * (1 + 1e-9)
    assert svm.objective_ >= best * (1 - 1e-6)
    assert_allclose(svm.objective_, best, rtol=2 * svm.tol)
    # With the loss of single nodes the optimum is another.
    by_nodes = BCFWSSVM(Chain(), **OPTIONS).fit(*data)
    assert abs(by_nodes.objective_ - best) > 0.01 * best


def test_a_warm_start_counts_no_loss_that_it_does_not_know(data, hinges):
    options = OPTIONS | {"n_cached": 2, "tol": 2e-3}
    svm = BCFWSSVM(WholeChain(), warm_start=True, **options).fit(*data)
    svm.set_params(C=2.0).fit(*data)
    best = optimum(hinges, 2.0)
    assert_allclose(svm.objective_, best, rtol=2e-3)
    assert np.nanmax(svm.history_["dual_objective"]) <= best * (1 + 1e-9)


def test_subgradients_need_no_parts_either(data, hinges):
    svm = SubgradientSSVM(WholeChain(), C=0.5, max_iter=300, tol=1e-4, random_state=0).fit(*data)
    assert_allclose(svm.objective_, objective(weights_of(svm), hinges, 0.5), rtol=1e-9)
    best = optimum(hinges, 0.5)
    assert best * (1 - 1e-9) <= svm.objective_ <= 1.05 * best


@pytest.mark.parametrize("estimator", [CasimirSSVM, GDMMSSVM])
def test_who_needs_a_loss_of_parts_says_so(estimator, data):
    message = "the task loss of WholeChain does not add up over parts; use BCFWSSVM"
    with pytest.raises(TypeError, match=message):
        estimator(WholeChain()).fit(*data)


class LossForgottenSpace(MultiClassSpace):
    """Its loss-augmented search has no loss."""


@loss_augmented_max.register(LossForgottenSpace)
@kernel
def _(problem, i, theta, labels, augmented):
    return max_oracle(problem, i, theta, labels)


class LabelForgottenSpace(MultiClassSpace):
    """Its last label can never be forced."""


@max_marginals.register(LabelForgottenSpace)
@kernel
def _(space, i, theta, out):
    for k in range(space.allowed.shape[1]):
        out[k] = theta[k] if k + 1 < space.allowed.shape[1] else -np.inf


@pytest.mark.plain
@pytest.mark.parametrize(
    ("kind", "verb"),
    [(LossForgottenSpace, "loss_augmented_max"), (LabelForgottenSpace, "max_marginals")],
)
def test_check_structure_finds_a_wrong_verb(kind, verb):
    class Wrong(MultiClass):
        def make_problem(self, *args, **kwargs):
            problem = super().make_problem(*args, **kwargs)
            return problem._replace(space=kind(*problem.space))

    X, y = np.random.default_rng(0).normal(size=(6, 2)), ["a", "b", "c"] * 2
    with pytest.raises(AssertionError, match=verb):
        check_structure(Wrong(), X, y)


@pytest.mark.plain
def test_check_structure_names_what_is_missing(data):
    class Other(Chain):
        def make_problem(self, *args, **kwargs):
            return tuple(super().make_problem(*args, **kwargs))

    with pytest.raises(TypeError, match="make_problem of Other returned a tuple, not a Problem"):
        check_structure(Other(), *data)

    class Bare(NamedTuple):
        part_ptr: np.ndarray
        label_ptr: np.ndarray
        work: tuple

    class Empty(Chain):
        def make_problem(self, *args, **kwargs):
            problem = super().make_problem(*args, **kwargs)
            bare = Bare(problem.part_ptr, problem.label_ptr, ())
            return problem._replace(space=bare, target=bare)

    with pytest.raises(
        AssertionError, match=r"(?s)Bare does not register add_indicator; .*task_loss; augment, or"
    ):
        check_structure(Empty(), *data)

"""Warm starts of BCFWSSVM: a dual point serves where it is one of the new problem, only there."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, Chain, MultiLabel, Tree
from skstruct.core.problem import Problem
from skstruct.solvers.bcfw.solver import dual_set
from skstruct.testing import random_sequences

OPTIONS = {"C": 0.3, "tol": 1e-3, "max_iter": 20000, "random_state": 0}


@pytest.fixture(scope="module")
def chains():
    return random_sequences(np.random.default_rng(11), n_samples=20)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "change",
    [
        {"loss": "normalized_hamming"},
        {"loss": {"a": 0.01, "b": 0.01, "c": 0.01}},
        {"loss": {"a": 10.0, "b": 10.0, "c": 10.0}},
        {"loss": [[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]]},
        {"C": 3.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("how", [{}, {"oracle_cache": True, "sampling": "gap"}], ids=str)
def test_after_a_change_of_the_objective(chains, change, how):
    cold = BCFWSSVM(**OPTIONS | change, **how).fit(*chains)
    warm = BCFWSSVM(warm_start=True, **OPTIONS, **how).fit(*chains)
    warm.set_params(**change).fit(*chains)
    assert_allclose(warm.objective_, cold.objective_, rtol=2e-3)
    assert warm.dual_objective_ <= cold.objective_ + 1e-9
    assert warm.objective_ >= cold.dual_objective_ - 1e-9
    assert 0 <= warm.dual_gap_ <= 1e-3 * warm.objective_
    weights = np.linspace(0.5, 2.0, len(chains[0]))
    cold.fit(*chains, sample_weight=weights)
    warm.fit(*chains, sample_weight=weights)
    assert warm.dual_objective_ <= cold.objective_ + 1e-9
    assert_allclose(warm.objective_, cold.objective_, rtol=2e-3)


def test_the_start_is_of_use_after_a_change_of_the_loss(chains):
    change = {"loss": {"a": 1.01, "b": 0.99, "c": 1.0}}
    cold = BCFWSSVM(**OPTIONS | change).fit(*chains)
    warm = BCFWSSVM(warm_start=True, **OPTIONS).fit(*chains).set_params(**change).fit(*chains)
    assert warm.history_["dual_objective"][0] > 0.9 * cold.objective_
    assert warm.n_iter_ < cold.n_iter_


def _recut(X, y):
    """The same rows, one sample shorter and the next one longer."""
    i = next(i for i in range(len(X)) if len(X[i]) > 1)
    X, y = list(X), list(y)
    X[i + 1], y[i + 1] = np.vstack([X[i][-1:], X[i + 1]]), np.append(y[i][-1:], y[i + 1])
    X[i], y[i] = X[i][:-1], y[i][:-1]
    return X, y


def _problems(X):
    """Pairs of problems with equal sizes and labels, but other labellings."""
    # Labels that walk around a ring: no step stays at its label.
    y = [np.array(list("abc"))[(np.arange(len(x)) + i) % 3] for i, x in enumerate(X)]
    lines = [(x, [t - 1 for t in range(len(x))]) for x in X]
    stars = [(x, [-1] + [0] * (len(x) - 1)) for x in X]
    rng = np.random.default_rng(0)
    table, sets = rng.normal(size=(30, 3)), rng.integers(2, size=(30, 4))
    few, many = MultiLabel("full"), MultiLabel("full", inference="relaxed")
    return {
        "forbidden": ((Chain(), X, y), (Chain(forbidden=[("a", "a")]), X, y)),
        "cut": ((Chain(), X, y), (Chain(), *_recut(X, y))),
        "parents": ((Tree(), lines, y), (Tree(), stars, y)),
        "edges": ((MultiLabel([[0, 1]]), table, sets), (MultiLabel([[1, 2]]), table, sets)),
        "inference": ((many, table, sets), (few, table, sets)),
    }


@pytest.mark.parametrize("case", ["forbidden", "cut", "parents", "edges", "inference"])
def test_begins_anew_where_the_dual_point_is_none(chains, case):
    (graph, X, y), (other, *changed) = _problems(chains[0])[case]
    cold = BCFWSSVM(other, **OPTIONS | {"n_cached": 1}).fit(*changed)
    warm = BCFWSSVM(graph, warm_start=True, **OPTIONS | {"n_cached": 1}).fit(X, y)
    warm.set_params(graph=other).fit(*changed)
    assert_array_equal(warm.node_weights_, cold.node_weights_)
    assert warm.objective_ == cold.objective_


class GridSpace(NamedTuple):
    """A space of another library's, with names of its own."""

    edges: np.ndarray
    window: tuple
    border: str | None
    work: np.ndarray


def _grid(kind=GridSpace, rows=0, labels=(0, 1, 1), **changed):
    fields = {
        "edges": np.array([[0, 1]]),
        "window": (np.arange(3), (np.arange(2), 5)),
        "border": "torus",
        "work": np.zeros(4),
    }
    ptr, labels = np.arange(4), np.array(labels)
    return Problem(rows, kind(**fields | changed), (rows, labels), ptr, ptr, labels)


def test_the_fingerprint_of_a_foreign_problem():
    """All counts but rows, targets, and scratch."""
    known = dual_set(_grid())
    assert dual_set(_grid(rows=1, work=np.ones(1))) == known
    others = [
        {"edges": np.array([[1, 0]])},
        {"labels": (0, 1, 0)},
        {"border": "plane"},
        {"border": None},
        {"window": (np.arange(3), (np.arange(2), 6))},
        {"window": (np.arange(3), (np.array([1, 0]), 5))},
        {"window": (np.arange(3), np.arange(2), 5)},
    ]
    assert len({known, *(dual_set(_grid(**other)) for other in others)}) == 1 + len(others)


def test_a_space_says_itself_what_does_not_count():
    class Free(GridSpace):
        not_of_the_dual_set = ("edges", "work")

    a, b = _grid(Free), _grid(Free, edges=np.array([[1, 0]]))
    assert dual_set(a) == dual_set(b) != dual_set(_grid())


def test_the_fingerprint_of_a_nested_problem():
    """A forest inside a problem counts; features, losses and nested scratch do not."""
    rng = np.random.default_rng(0)
    y = [list("abca"), list("bac")]
    X = [(rng.normal(size=(len(labels), 3)), np.arange(len(labels)) - 1) for labels in y]

    def problem(X, **options):
        graph, holder = Tree(), SimpleNamespace()
        samples, labels = graph.read_training(holder, X, y)
        classes = graph.find_classes(labels, samples)
        codes = graph.encode(labels, classes, samples.offsets)
        return graph.make_problem(samples, classes, True, codes=codes, **options)

    plain = problem(X)
    known = dual_set(plain)
    assert dual_set(problem([(2.0 * x, parents) for x, parents in X])) == known
    assert dual_set(problem(X, loss="normalized_hamming", n_best=9)) == known
    plain.space.work.tree.belief[:] = 7.0
    assert dual_set(plain) == known
    star = [(x, np.minimum(parents, 0)) for x, parents in X]
    assert dual_set(problem(star)) != known
    for name in ("order", "parent", "link", "flip"):
        array = getattr(plain.space.own.inference.forest, name).copy()
        array[0] += 1
        own = plain.space.own
        rooted = own.inference._replace(forest=own.inference.forest._replace(**{name: array}))
        space = plain.space._replace(own=own._replace(inference=rooted))
        assert dual_set(plain._replace(space=space)) != known


def test_the_fingerprint_is_taken_once_a_fit(chains, monkeypatch):
    taken = []
    monkeypatch.setattr(
        "skstruct.estimators.svm_bcfw.dual_set", lambda problem: taken.append(0) or "set"
    )
    BCFWSSVM(**OPTIONS).fit(*chains)
    assert not taken
    svm = BCFWSSVM(warm_start=True, **OPTIONS).fit(*chains).fit(*chains)
    assert len(taken) == 2
    assert svm.n_iter_ == 1


def test_a_failed_fit_leaves_the_dual_point_whole(chains, monkeypatch):
    def overflowing(loss, part, w, memory, start, stop, scratch, out):
        out[0] = np.nan

    X, y = chains
    svm = BCFWSSVM(warm_start=True, **OPTIONS).fit(X, y)
    other = BCFWSSVM(warm_start=True, **OPTIONS).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr("skstruct.solvers.primal.loss_values", overflowing)
        with pytest.raises(FloatingPointError, match="the loss of sample"):
            svm.fit(X[::-1], y[::-1])
    svm.set_params(C=1.0).fit(X, y)
    other.set_params(C=1.0).fit(X, y)
    assert_array_equal(svm.node_weights_, other.node_weights_)


def test_a_start_worse_than_none_is_left():
    X, y = random_sequences(np.random.default_rng(0))
    model = BCFWSSVM(C=1e-6, tol=1e-4, max_iter=60, warm_start=True, random_state=0).fit(X, y)
    cold = BCFWSSVM(C=1e6, tol=1e-4, max_iter=60, random_state=0)
    model.set_params(C=1e6)
    with pytest.warns(ConvergenceWarning):
        cold.fit(X, y)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.objective_ == cold.objective_

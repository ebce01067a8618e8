"""Threads that work on one fit: the same bits for any number of them, and none waits for ever."""

import _thread
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from skstruct import SAGCRF, Chain
from skstruct.core import oracles
from skstruct.core.parallel import Crew, run_team
from skstruct.core.weights import flatten, lazy_weights, zero_weights
from skstruct.solvers import primal, sag
from skstruct.testing import random_sequences, training_problem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CRF = SAGCRF(solver="sag", max_iter=4, tol=0.0, random_state=0)


@pytest.fixture(autouse=True)
def small_data_have_threads(monkeypatch):
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)


@pytest.fixture(scope="module")
def chains():
    return random_sequences(np.random.default_rng(0), n_samples=1600)


def _same(one, other):
    assert_array_equal(one.node_weights_, other.node_weights_)
    assert_array_equal(one.pair_weights_, other.pair_weights_)
    assert one.objective_ == other.objective_
    assert one.dual_objective_ == other.dual_objective_
    assert_array_equal(one.history_["passes"], other.history_["passes"])


@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "saga"}, {"sampling": "uniform"}, {"precision": "single"}, {"C": 1e-6}],
    ids=str,
)
def test_any_number_of_threads_gives_the_same_model(chains, options):
    one = clone(CRF).set_params(n_jobs=1, **options).fit(*chains)
    for n_jobs in (2, 3, 5):
        _same(one, clone(one).set_params(n_jobs=n_jobs).fit(*chains))


def test_where_one_thread_adds_everything(chains, monkeypatch):
    one = clone(CRF).fit(*chains)
    monkeypatch.setattr(primal, "adds_by_columns", lambda problem: False)
    _same(one, clone(one).set_params(n_jobs=3).fit(*chains))


def test_rows_speak_for_their_own_kernel_only():
    problem, *_ = training_problem(Chain(), [np.eye(2)], [["a", "b"]])
    assert oracles.adds_by_columns(problem)

    class Other(type(problem.rows)):
        pass

    other = problem._replace(rows=Other(*problem.rows))
    assert oracles.adds_by_columns(other)
    registry = oracles.accumulate.registry
    oracles.accumulate.register(Other)(oracles.accumulate.find(Other))
    try:
        assert not oracles.adds_by_columns(other)
    finally:
        del registry[Other]


@pytest.mark.parametrize("n", [2, 3, 100])
@pytest.mark.parametrize("read", [np.asarray, sparse.csr_matrix])
def test_shares_make_the_whole(n, read):
    rng = np.random.default_rng(n)
    dense = np.where(rng.random((30, 700)) < 0.1, rng.normal(size=(30, 700)), 0.0)
    X = [read(dense[:18]), read(dense[18:])]
    y = [list(rng.permutation(np.arange(18) % 9)), list(rng.integers(0, 9, 12))]
    problem, _, shapes, _ = training_problem(Chain(boundary=True), X, y)
    for make in (zero_weights, lambda s: lazy_weights(zero_weights(s))):
        whole, shared = make(shapes), make(shapes)
        for i in range(2):
            r = rng.normal(size=problem.part_ptr[i + 1] - problem.part_ptr[i])
            oracles.accumulate(problem, i, r, (0.3, 1.0), whole)
            for k in range(n):
                share = np.array([k, n], dtype=np.int64)
                oracles.accumulate(problem, i, r, (0.3, 1.0), shared._replace(share=share))
        assert np.abs(whole.node).sum() > 0.0 < np.abs(whole.pair).sum()
        assert_array_equal(flatten(shared), flatten(whole))


def test_rows_with_more_features_than_are_chosen_at_once():
    rng = np.random.default_rng(0)
    X = [sparse.random(n, 900, 0.1, format="csr", random_state=rng) for n in (3, 6)]
    y = [[0, 1, 2], [1, 0, 2, 2, 1, 0]]
    problem, _, shapes, _ = training_problem(Chain(), X, y)
    assert np.diff(problem.rows.nodes.indptr).min() > 64
    whole, shared = zero_weights(shapes), zero_weights(shapes)
    expected = np.zeros((900, 3))
    for i in range(2):
        r = rng.normal(size=problem.part_ptr[i + 1] - problem.part_ptr[i])
        expected += X[i].T @ r[: 3 * len(y[i])].reshape(-1, 3)
        oracles.accumulate(problem, i, r, (1.0, 0.0), whole)
        for k in range(3):
            share = np.array([k, 3], dtype=np.int64)
            oracles.accumulate(problem, i, r, (1.0, 0.0), shared._replace(share=share))
    assert_array_equal(flatten(shared), flatten(whole))
    assert_allclose(whole.node[:900], expected, atol=1e-12)


def test_two_fits_at_once(chains):
    one, found = clone(CRF).fit(*chains), [None, None]

    def fit(k):
        found[k] = clone(CRF).set_params(n_jobs=2, max_iter=4).fit(*chains)

    threads = [threading.Thread(target=fit, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in found:
        _same(one, model)


@pytest.mark.parametrize("who", [0, 1, 2])
def test_an_error_in_one_thread_ends_all(chains, monkeypatch, who):
    model = clone(CRF).set_params(n_jobs=3).fit(*chains)
    before, plainly = model.coef_.copy(), sag.sag_epoch

    def fails(*arguments):
        own = arguments[3]
        if own.share[0] == who and arguments[-1].size:
            raise MemoryError("no room")
        plainly(*arguments)

    monkeypatch.setattr(sag, "sag_epoch", fails)
    monkeypatch.setattr(Crew, "SECONDS", np.inf)  # on a busy machine there were fewer than three
    with pytest.raises(MemoryError, match="no room"):
        model.fit(*chains)
    assert_array_equal(model.coef_, before)


def test_interrupts_come_through(chains):
    model = clone(CRF).set_params(n_jobs=2).fit(*chains)
    before = model.coef_.copy()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.set_params(max_iter=10**7).fit(*chains)
    timer.join()
    assert_array_equal(model.coef_, before)
    names = [thread.name for thread in threading.enumerate()]
    assert not any(name.startswith("skstruct-") for name in names)


def test_a_crew_shrinks_while_others_have_the_processors(monkeypatch):
    monkeypatch.setattr(Crew, "SECONDS", 0.0)
    crew, sizes = Crew(4), []

    def sleeps(k, team):
        if k == 0:
            sizes.append(crew.size)
        time.sleep(0.002)

    def works(k, team):
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    for _ in range(6):
        crew.run(sleeps)
    assert sizes == [4, 1, 1, 1, 1, 4]
    alone = Crew(1)
    alone.run(works)
    assert alone.size == 1


def test_a_team_raises_what_a_member_raises():
    def fails(k, team):
        if k == 1:
            raise ValueError("member 1")

    with pytest.raises(ValueError, match="member 1"):
        run_team(fails, 3)

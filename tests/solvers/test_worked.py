"""Small worked examples of the internals of solvers."""

import re
import tempfile

import numpy as np
import pytest

from skstruct.core.weights import Weights, lazy_weights, zero_weights
from skstruct.solvers.certificate import certify, certify_l1, certify_pair, stationarity
from skstruct.solvers.engines.engine import Engine
from skstruct.solvers.engines.messages import Tables, gather, scatter_add
from skstruct.solvers.gdmm.active_sets import empty_sets, one_entry_each, packed
from skstruct.solvers.gdmm.solver import n_parts
from skstruct.solvers.quasi_newton.solver import Sweeps, backtrack, wolfe
from skstruct.solvers.rounds.checkpoint import Keeper
from skstruct.solvers.run import SampleOverflow
from skstruct.solvers.sag.solver import norms_in_threads
from skstruct.solvers.sampling import sample_leaf, set_leaf, sum_tree
from skstruct.solvers.sgd import stream_start


def test_certificate_stationarity():
    assert (stationarity(2.0, 0.5, 0.5).relative) == 0.25


def test_certificate_certify_pair():
    assert (round(certify_pair(2.0, 1.5).relative, 12), certify_pair(0.0, 0.0).relative) == (
        0.25,
        0.0,
    )
    assert repr(certify_pair(1.0, -float("inf")).relative) == "inf"
    with pytest.raises(
        FloatingPointError,
        match=re.escape("the dual bound 1.1 exceeds the objective 1.0: are the features scaled?"),
    ):
        certify_pair(1.0, 1.1)


def test_certificate_certify():
    assert (round(certify(2.0, 0.5, 0.5, 1.75, 10.0).dual_objective, 12)) == 1.75


def test_certificate_certify_l1():
    assert (certify_l1(2.0, 1.0, 0.5, 0.0, 0.0).dual_objective) == 1.5


def test_gdmm_active_sets_empty_sets():
    assert repr(empty_sets(2, 0).size) == "array([0, 0])"


def test_gdmm_active_sets_one_entry_each():
    assert repr(one_entry_each(np.array([5, 7]), 1.0).size) == "array([1, 1])"


def test_gdmm_active_sets_packed():
    assert repr(packed(one_entry_each(np.array([5, 7]), 1.0)).key[:1]) == "array([5])"


def test_gdmm_solver_n_parts():
    assert (n_parts(45, "sublinear"), n_parts(2934, "sublinear"), n_parts(2934, "exact")) == (
        1,
        13,
        1,
    )


def test_progress_sampleoverflow(capsys):
    print(SampleOverflow(3, float("inf"), "are the features scaled?"))
    assert capsys.readouterr().out == "the loss of sample 3 is inf: are the features scaled?\n"


def test_quasi_newton_search_wolfe():
    steps = []

    def parabola(t):
        steps.append(t)
        return (t - 3.0) ** 2, 2.0 * (t - 3.0)

    assert (wolfe(parabola, 9.0, -6.0, 0.1, 0.0), steps) == (True, [0.1, 0.4])


def test_quasi_newton_search_backtrack():
    assert (backtrack(lambda t: ((t - 1.0) ** 2, -2.0 * t), 1.0, 8.0, 0.0)) is True


def test_quasi_newton_sweeps_sweeps():
    def add(x, first, last, out):
        out[0] = x[first:last].sum()

    assert repr(Sweeps(3, None)(add, 1, np.ones(3))) == "array([3.])"


def test_rounds_checkpoint_checkpoint(capsys):
    with tempfile.TemporaryDirectory() as folder:
        states = Keeper(folder, {"shards": "a"})
        states.save(3, {"gap": 0.5}, {"w": np.ones(2)}, {})
        states.close()
        print(Keeper(folder, {"shards": "a"}).load())
    assert capsys.readouterr().out == "(3, {'gap': 0.5}, {'w': array([1., 1.])})\n"


def test_rounds_engine_engine():
    assert (list(Engine(None).map(pow, range(3), lambda k: (2, k)))) == [1, 2, 4]


def test_rounds_part_gather():
    w = Weights(np.arange(4.0)[:, None], np.zeros((1, 1)))
    assert repr(gather(w, np.array([1]), 3).node.ravel()) == "array([1., 3.])"


def test_rounds_part_scatter_add():
    w = Weights(np.arange(4.0)[:, None], np.zeros((1, 1)))
    scatter_add(w, np.array([1]), 3, Tables(np.ones((2, 1)), np.ones((1, 1))))
    assert repr(w.node.ravel()) == "array([0., 2., 2., 4.])"


def test_sag_norms_norms_in_threads():
    assert (
        repr(norms_in_threads(lazy_weights(zero_weights(((1, 1), (0, 0)))), 1.0, 1.0, 2))
        == "array([0., 0., 0.])"
    )


def test_sampling_sum_tree():
    assert (sum_tree(3).shape) == (8,)


def test_sampling_set_leaf():
    tree = sum_tree(2)
    set_leaf(tree, 1, 3.0)
    assert (float(tree[1])) == 3.0


def test_sampling_sample_leaf():
    tree = sum_tree(2)
    set_leaf(tree, 1, 3.0)
    assert (sample_leaf(tree, 0.0)) == 1


def test_stream_stream_start():
    assert (stream_start(((3, 2), (1, 4))).n_steps) == 0

"""Solvers see problems through tables: compiled once, of declared types, and no problem is kept."""

import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from skstruct import Chain
from skstruct.core import oracles
from skstruct.core.jit import solver_kernel as solver_kernel_module
from skstruct.core.jit import table
from skstruct.core.jit.compiling import JIT_IS_DISABLED
from skstruct.core.jit.dispatch import generic
from skstruct.core.jit.kernels import inner_kernel, kernel
from skstruct.core.jit.signatures import Floats, LabelRows, Labels, Pair, Signature
from skstruct.core.jit.solver_kernel import solver_kernel
from skstruct.core.weights import Weights, zero_weights
from skstruct.spaces.chain import ChainSpace
from skstruct.testing import training_problem

compiled = pytest.mark.skipif(JIT_IS_DISABLED, reason="tables are for compiled kernels")


class Room(NamedTuple):
    own: np.ndarray


class Coins(NamedTuple):
    """A structure from outside: a node has two labels, and parts are the labels' values."""

    values: np.ndarray
    factor: float
    half: np.float32
    count: np.int64
    is_doubled: bool
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    work: Room


class Dice(NamedTuple):
    """Another one, of other fields, without `max_oracle`."""

    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray


class Odd(Dice):
    """Whose kernels do not return what is declared."""


class Named(NamedTuple):
    """Which holds what no table can."""

    name: str
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray


class Mixed(NamedTuple):
    """Numbers of less than 8 bytes side by side, and arrays of all layouts."""

    first: bool
    second: bool
    small: np.int8
    half: np.float32
    columns: np.ndarray
    strided: np.ndarray
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray


@oracles.score.register(Mixed)
@kernel
def _(problem, i, theta, labels):
    total = theta[i] + problem.small * problem.half
    for j in range(problem.columns.shape[0]):
        for k in range(problem.columns.shape[1]):
            total += (j + 1) * (k + 2) * problem.columns[j, k] * problem.strided[k, j]
    return total if problem.first and not problem.second else -total


@oracles.score.register(Coins)
@kernel
def _(problem, i, theta, labels):
    total = problem.count + problem.half
    for t in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        problem.work.own[0] += 1.0
        value = problem.values[problem.part_ptr[i] + 2 * t + labels[t]]
        total += theta[2 * t + labels[t]] + problem.factor * value
    return 2.0 * total if problem.is_doubled else total


@oracles.max_oracle.register(Coins)
@kernel
def _(problem, i, theta, labels):
    for t in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        labels[t] = 1 if theta[2 * t + 1] > theta[2 * t] else 0
    return oracles.score(problem, i, theta, labels)


@oracles.augment.register(Coins)
@kernel
def _(problem, i, theta):
    for t in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        theta[2 * t + 1 - problem.labels[problem.label_ptr[i] + t]] += 1.0


@oracles.score.register(Dice)
@kernel
def _(problem, i, theta, labels):
    return theta[0] + labels[0]


@oracles.relaxed_oracle.register(Odd)
@kernel
def _(problem, i, theta, labels, mu):
    return theta[0]


@oracles.truth.register(Odd)
@kernel
def _(problem, i, labels):
    return 1.0


@solver_kernel
def score_of_truth(problem, i, theta, labels):
    oracles.truth(problem, i, labels)
    return oracles.score(problem, i, theta, labels) + problem.labels[problem.label_ptr[i]]


@solver_kernel
def worst(problem, i, theta, labels, augmented):
    return oracles.loss_augmented_max(problem, i, theta, labels, augmented)


@solver_kernel
def relaxed(problem, theta, labels, mu):
    return oracles.relaxed_oracle(problem, 0, theta, labels, mu)


def coins(seed, factor=0.5, doubled=False):
    rng = np.random.default_rng(seed)
    ptr = np.array([0, 3, 5])
    labels = rng.integers(0, 2, 5).astype(np.int32)
    values = rng.normal(size=10)
    half, count = np.float32(-0.5), np.int64(3)
    return Coins(values, factor, half, count, doubled, 2 * ptr, ptr, labels, work=Room(np.zeros(1)))


def dice():
    ptr = np.array([0, 2, 3])
    return Dice(2 * ptr, ptr, np.array([1, 0, 1], dtype=np.int32))


def arguments(seed=0):
    return np.random.default_rng(seed).normal(size=6), np.zeros(3, dtype=np.int32)


def expected_score(problem, i, theta):
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    at = 2 * np.arange(true.size) + true
    total = problem.count - 0.5 + theta[at].sum()
    total += problem.factor * problem.values[problem.part_ptr[i] + at].sum()
    return (2.0 if problem.is_doubled else 1.0) * total + true[0]


def test_problems_of_two_structures_and_of_other_data_give_what_they_should():
    theta, labels = arguments()
    some = [coins(0), coins(1, factor=-2.0), coins(2, doubled=True)]
    for _ in range(2):
        for problem in some:
            for i in range(2):
                found = score_of_truth(problem, i, theta, labels)
                assert found == pytest.approx(expected_score(problem, i, theta), rel=1e-12)
        assert score_of_truth(dice(), 0, theta, labels) == pytest.approx(theta[0] + 2.0)
    assert all(problem.work.own[0] == 10.0 for problem in some)
    if not JIT_IS_DISABLED:
        assert len(score_of_truth.overloads) == 1


def test_a_default_calls_the_operations_of_the_structure():
    problem, (theta, labels) = coins(3), arguments(1)
    augmented, found = np.empty(6), labels.copy()
    value = worst(problem, 0, theta, labels, augmented)
    changed = theta.copy()
    changed[2 * np.arange(3) + 1 - problem.labels[:3]] += 1.0
    assert value == pytest.approx(oracles.max_oracle(problem, 0, changed, found), rel=1e-12)
    assert labels.tolist() == found.tolist()


def test_read_only_arrays_and_pickles():
    problem, (theta, labels) = coins(4), arguments()
    expected = score_of_truth(problem, 0, theta, labels)
    content = pickle.dumps(problem)
    assert score_of_truth(pickle.loads(content), 0, theta, labels) == expected
    assert pickle.dumps(problem) == content
    for part in (problem.values, problem.labels, problem.part_ptr):
        part.flags.writeable = False
    again = problem._replace(values=problem.values[:])
    assert score_of_truth(again, 0, theta, labels) == expected


def test_a_missing_operation_is_named_before_anything_runs():
    theta, labels = arguments()
    with pytest.raises(TypeError, match=r"(augment|max_oracle) is not available for Dice; it"):
        worst(dice(), 0, theta, labels, np.empty(6))


class Way(NamedTuple):
    number: float


class OtherWay(NamedTuple):
    number: float


@generic
def go(way, problem, theta, labels):
    """A verb of something that the kernel below does not name."""


@go.register(Way)
@kernel
def _(way, problem, theta, labels):
    return oracles.max_oracle(problem, 0, theta, labels)


@go.register(OtherWay)
@kernel
def _(way, problem, theta, labels):
    return oracles.score(problem, 0, theta, labels)


@solver_kernel
def go_somewhere(problem, method, theta, labels):
    return go(method, problem, theta, labels)


@compiled
def test_what_was_not_foreseen_is_missed_when_it_is_called():
    theta, labels = arguments()
    assert go_somewhere(dice(), OtherWay(1.0), theta, labels) == theta[0]
    for _ in range(2):
        with pytest.raises(TypeError, match="max_oracle is not available for Dice"):
            go_somewhere(dice(), Way(1.0), theta, labels)
    assert go_somewhere(dice(), OtherWay(1.0), theta, labels) == theta[0]


@compiled
def test_a_kernel_that_returns_something_else_is_refused():
    theta, labels = arguments()
    odd = Odd(*dice())
    text = r"the kernel of relaxed_oracle for Odd returns float; it must return \(float, float\)"
    with pytest.raises(TypeError, match=text):
        relaxed(odd, theta, labels, np.empty(6))
    text = "the kernel of truth for Odd returns float; it must return nothing"
    with pytest.raises(TypeError, match=text):
        score_of_truth(odd, 0, theta, labels)


def test_a_kernel_of_other_arguments_is_refused_when_it_is_registered():
    with pytest.raises(TypeError, match="a kernel of score takes the arguments"):
        oracles.score.register(Dice)(kernel(lambda problem, i, theta: 0.0))


@solver_kernel
def score_of_numbers(problem, theta, labels):
    return oracles.score(problem, 0, theta, labels)


@compiled
def test_an_argument_of_another_type_is_named():
    with pytest.raises(Exception, match="score takes array of int32 of 1 dimensions as labels"):
        score_of_numbers(dice(), np.zeros(2), np.zeros(2))


@compiled
def test_arguments_of_another_type_in_calls_from_python():
    problem, _ = chain_problem()
    theta, labels = np.zeros(21), np.zeros(3, dtype=np.int32)
    w = zero_weights([(4, 2), (1, 4)])
    fine, gaps = oracles.score(problem, 0, theta, labels), np.zeros(42)[::2]
    assert fine == 0.0
    for call, message in (
        (lambda: oracles.score(problem, 0, gaps, labels), "theta, not non-contiguous array"),
        (lambda: oracles.score(problem, 0, theta, labels * 1.0), "labels, not array of float64"),
        (
            lambda: oracles.potentials(problem, 0, w._replace(node=w.node.T), theta),
            "w.node, not non-contiguous array",
        ),
    ):
        with pytest.raises(TypeError, match=rf"^(score|potentials) takes .* as {message}"):
            call()


def _times(factor):
    @generic(part="space")
    def times(problem, i: int, theta: Floats) -> float:
        """A product."""

    @times.register(ChainSpace)
    @kernel
    def _(space, i, theta):
        return theta[0] * factor

    return times


def test_operations_of_one_name_and_line_are_told_apart():
    (problem, _), theta = chain_problem(), np.ones(21)
    found = [operation(problem, 0, theta) for operation in map(_times, (2.0, 3.0))]
    assert found == [2.0, 3.0]


@compiled
def test_fields_that_a_table_cannot_hold_are_named():
    theta, labels = arguments()
    for name, kind in ("a", "unicode_type"), ([1], "reflected list"), (1j, "complex128"):
        with pytest.raises(TypeError, match=f"Named has a field of type {kind}.*: a problem holds"):
            score_of_truth(Named(name, *dice()), 0, theta, labels)
    wrong = dice()._replace(labels=np.zeros(3))
    text = r"Dice.labels must be a contiguous array of int32 .* not array of float64"
    with pytest.raises(TypeError, match=text):
        score_of_truth(wrong, 0, theta, labels)


@compiled
def test_zeros_of_both_signs_are_two_numbers():
    room, (theta, labels) = Room(np.zeros(1)), (np.zeros(6), np.zeros(3, dtype=np.int32))
    one = Coins(np.zeros(6), 1.0, np.float32(0.0), np.int64(0), False, *dice(), room)
    other = one._replace(count=np.int64(-1), half=np.float32(-0.0))
    found = [score_of_truth(problem, 0, theta, labels) for problem in (one, other)]
    assert found == [1.0, 0.0]
    assert table.Table(one).type is table.Table(other).type
    assert table._bits(np.float32(-0.0)) != table._bits(np.float32(0.0))


def test_kernels_that_raise_are_refused():
    class Strict(Dice):
        pass

    @kernel
    def raises(problem, i, theta, labels):
        if i > 0:
            raise ValueError
        return 0.0

    with pytest.raises(TypeError, match="raises, which kernels that solvers call cannot: return"):
        oracles.score.register(Strict)(raises)

    def asserts(x):
        assert x > 0
        return x

    with pytest.raises(TypeError, match="asserts raises, which"):
        inner_kernel(asserts)


@compiled
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_numbers_of_all_sizes_and_arrays_of_all_layouts(first, second):
    theta, labels = arguments()
    rng = np.random.default_rng(1)
    columns = np.asfortranarray(rng.normal(size=(2, 3)))
    strided = rng.normal(size=(7, 5))[1:7:2, ::3]
    fields = first, second, np.int8(-3), np.float32(0.25), columns, strided
    problem = Mixed(*fields, *dice())
    steps = np.outer([1, 2], [2, 3, 4])
    for i in range(2):
        total = theta[i] - 0.75 + (steps * columns * strided.T).sum()
        expected = 1.0 + (total if first and not second else -total)
        found = score_of_truth(problem, i, theta, labels)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_threads_have_tables_of_their_own():
    problem, (theta, labels) = coins(5), arguments()
    copies = [problem, *(problem._replace(work=Room(np.zeros(1))) for _ in range(3))]
    expected = [score_of_truth(problem, i, theta, labels) for i in range(2)]
    problem.work.own[0] = 0.0
    wrong = []

    def visit(own, labels):
        for k in range(200):
            if score_of_truth(own, k % 2, theta, labels) != expected[k % 2]:
                wrong.append(k)

    threads = [threading.Thread(target=visit, args=(own, labels.copy())) for own in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [own.work.own[0] for own in copies] == [500.0] * 4


@compiled
def test_spaces_and_targets_of_dense_and_sparse_rows_share_functions():
    X, y = [np.eye(3)], [["a", "b", "a"]]
    dense, _, _, _ = training_problem(Chain(), X, y)
    csr, _, _, _ = training_problem(Chain(), [sparse.csr_matrix(x) for x in X], y)
    theta, labels = np.arange(10.0), np.zeros(3, dtype=np.int32)
    expected = oracles.score(dense, 0, theta, dense.labels)
    for problem in (dense, csr):
        assert score_of_truth(problem, 0, theta, labels) == expected
    known = solver_kernel_module._of_parts
    of_scores = [
        kind for kind, own in known.items() if any(key[0] is oracles.score.operation for key in own)
    ]
    chains = [kind for kind in of_scores if kind.instance_class is ChainSpace]
    assert len(chains) == 1
    kinds = [table.ProblemType(problem) for problem in (dense, csr)]
    assert kinds[0].part("rows") != kinds[1].part("rows")
    assert all(kind.part("target")[0] is kinds[0].part("target")[0] for kind in kinds)


@compiled
def test_no_problem_is_kept():
    theta, labels = arguments()
    score_of_truth(coins(6), 0, theta, labels)
    before = len(table._types)
    problem = coins(6)
    score_of_truth(problem, 0, theta, labels)
    score_of_truth(problem._replace(factor=3.0), 0, theta, labels)
    assert len(table._types) == before
    watch = weakref.ref(problem.values)
    del problem
    assert watch() is None


@compiled
def test_addresses_are_read_where_numpy_keeps_them(monkeypatch):
    array = np.arange(6.0).reshape(2, 3)
    for own in (array, array[1:], array[:, 1], array[:0], np.float32(1.0) * array):
        assert table._read_address(own) == table._listed_address(own)
    assert table.address_of is table._read_address
    monkeypatch.setattr(table, "_DATA", table._DATA + 8)
    assert table._fastest_address() is table._listed_address


class Broken(ChainSpace):
    """Whose kernel does not compile."""


@oracles.forbid.register(Broken)
@kernel
def _(space, i, theta):
    theta[0] = nowhere(theta)  # noqa: F821


@solver_kernel
def write_potentials(problem, w, theta):
    oracles.potentials(problem, 0, w, theta)


def chain_problem():
    problem, _, shapes, _ = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])
    w = zero_weights(shapes)
    w.node[:] = 1.0
    return problem, w


@compiled
def test_a_kernel_that_does_not_compile_is_an_error_each_time():
    problem, w = chain_problem()
    broken = problem._replace(space=Broken(*problem.space))
    for _ in range(3):
        with pytest.raises(Exception, match="nowhere"):
            write_potentials(broken, w, np.empty(10))


@compiled
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_ends_a_compile_leaves_nothing_half_filled(monkeypatch, error):
    """Wherever it comes: the next call compiles what is missing."""
    problem, w = chain_problem()
    monkeypatch.setattr(table, "_types", {})
    compile_one, n_called = solver_kernel_module._function, 0

    def interrupted(*task):
        nonlocal n_called
        n_called += 1
        if n_called in (1, 3, 5):
            raise error
        return compile_one(*task)

    monkeypatch.setattr(solver_kernel_module, "_function", interrupted)
    for _ in range(3):
        with pytest.raises(error):
            write_potentials(problem, w, np.empty(10))
    theta = np.full(10, np.nan)
    write_potentials(problem, w, theta)
    assert theta.tolist() == [2.0] * 6 + [0.0] * 4


@compiled
def test_threads_that_call_first_wait_for_what_is_compiled(monkeypatch):
    problem, w = chain_problem()
    compile_one = solver_kernel_module._function

    def slowly(*task):
        time.sleep(0.05)
        return compile_one(*task)

    monkeypatch.setattr(solver_kernel_module, "_function", slowly)
    for _ in range(5):
        monkeypatch.setattr(table, "_types", {})
        found = np.full((8, 10), np.nan)
        gate = threading.Barrier(8)

        def work(theta, gate=gate):
            gate.wait()
            write_potentials(problem, w, theta)

        threads = [threading.Thread(target=work, args=(theta,)) for theta in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found.tolist() == [[2.0] * 6 + [0.0] * 4] * 8


class OwnTable(ChainSpace):
    """Whose transitions differ by sample."""


@oracles.potentials.register(OwnTable)
@kernel
def _(problem, i, w, theta):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        theta[q] = i + 1.0


def test_potentials_of_a_space_are_not_shared():
    X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "a"], ["b", "b"]]
    problem = training_problem(Chain(), X, y)[0]
    assert oracles.n_shared_parts(problem) == 4
    assert oracles.n_shared_parts(problem._replace(space=OwnTable(*problem.space))) == 0
    assert oracles.n_shared_parts(problem._replace(space=Broken(*problem.space))) == 0


class Point(NamedTuple):
    """With arrays of no dimension."""

    at: np.ndarray
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray


@oracles.score.register(Point)
@kernel
def _(problem, i, theta, labels):
    return theta[i] + problem.at[()]


def test_arrays_of_no_dimension():
    theta, labels = arguments()
    found = score_of_truth(Point(np.array(2.5), *dice()), 1, theta, labels)
    assert found == pytest.approx(theta[1] + 3.5)


def test_annotations_are_signatures():
    def contract(problem, i: int, theta: Floats, rows: LabelRows, w: Weights) -> Pair:
        """A contract."""

    found = Signature.of(contract)
    assert found.arguments[:3] == (table.types.int64, Floats, LabelRows)
    assert found.arguments[3].instance_class is Weights
    assert found.result == Pair

    def silent(problem, i: int, labels: Labels, anything):
        """One that leaves something open."""

    assert Signature.of(silent) is None


@compiled
def test_an_operation_without_types_cannot_be_called_by_solvers():
    @generic
    def guess(problem, i):
        """No types."""

    @solver_kernel
    def ask(problem):
        return guess(problem, 0)

    with pytest.raises(TypeError, match="guess does not declare the types of its arguments"):
        ask(dice())


_FIT = """
import sys
import numpy as np
from numba.core import event
import tests.core.jit.test_table as own

class Passes(event.Listener):
    n = 0
    def on_start(self, started):
        Passes.n += 1
    def on_end(self, ended):
        pass

theta, labels = own.arguments()
with event.install_listener("numba:run_pass", Passes()):
    some = own.coins(0), own.dice()
    found = [own.score_of_truth(problem, 0, theta, labels) for problem in some]
print(Passes.n, *found)
"""


def _run(**environment):
    done = subprocess.run(
        [sys.executable, "-c", _FIT],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    n, *found = done.stdout.split()
    return int(n), list(map(float, found))


@pytest.mark.slow
@compiled
def test_functions_of_tables_are_kept_on_disk(tmp_path):
    n, found = _run(NUMBA_CACHE_DIR=str(tmp_path))
    again, same = _run(NUMBA_CACHE_DIR=str(tmp_path))
    assert n > 0
    assert again == 0
    assert found == same


def test_without_the_compiler_solvers_take_problems_themselves():
    n, found = _run(NUMBA_DISABLE_JIT="1")
    theta, labels = arguments()
    expected = [score_of_truth(problem, 0, theta, labels) for problem in (coins(0), dice())]
    assert n == 0
    assert found == pytest.approx(expected, rel=1e-12)


def test_scores_of_labellings_that_a_solver_keeps():
    X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "a"], ["b", "b"]]
    problem, _, _, _ = training_problem(Chain(), X, y)
    theta, values = np.arange(8.0), np.full(3, 9.0)
    rows = np.array([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 0, 1, 0]], dtype=np.int32)
    oracles.score_rows(problem, 1, theta, rows.ravel(), np.array([0.0, -1.0, 1.0]), values)
    expected = [oracles.score(problem, 1, theta, row[3:]) for row in rows]
    assert values.tolist() == [expected[0], 9.0, expected[2]]

"""Dispatch, disk cache, weights, features, sampling: the compiled core."""

import subprocess
import sys
from collections import namedtuple
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from numba import TypingError
from scipy import sparse

from skstruct.core import weights
from skstruct.core.features import DenseFeatures, SparseFeatures, add_outer, gather, scores
from skstruct.core.gram import Gram, gram_of, gram_product, not_stored, product_scratch
from skstruct.core.jit.compiling import JIT_IS_DISABLED
from skstruct.core.jit.dispatch import generic, require
from skstruct.core.jit.kernels import compiled_kernels, kernel
from skstruct.core.oracles import edge_marginals, max_oracle, potentials
from skstruct.core.proximal import rest_potentials
from skstruct.core.weights import (
    fold,
    in_double,
    in_single,
    lazy_weights,
    plain_weights,
    squared_norm,
    squared_norms,
    zero_weights,
)
from skstruct.inference.viterbi import viterbi, viterbi_scratch
from skstruct.rows.blocks import BlockRows
from skstruct.solvers.sampling import sample_leaf, set_leaf, sum_tree
from skstruct.spaces.chain import ChainSpace

SHAPES = ((4, 3), (2, 9))


class Square(NamedTuple):
    side: float


class Disc(NamedTuple):
    radius: float
    factor: float


@generic
def area(shape, scale):
    """The area of a shape times `scale`."""


@area.register(Square)
@kernel
def _(shape, scale):
    return scale * shape.side * shape.side


@area.register(Disc)
@kernel
def _(shape, scale):
    return scale * shape.factor * shape.radius**2


@kernel
def twice_the_area(shape):
    return area(shape, 2.0)


def test_a_verb_runs_the_kernel_of_its_type_from_python_and_from_kernels():
    assert area(Square(3.0), 1.0) == 9.0
    assert twice_the_area(Square(3.0)) == 18.0
    assert twice_the_area(Disc(1.0, 3.0)) == 6.0


def test_a_verb_names_the_missing_type():
    class Line(NamedTuple):
        length: float

    with pytest.raises(TypeError, match="area is not available for Line; it is for: Disc, Square"):
        area(Line(1.0), 1.0)
    with pytest.raises(
        TypeError, match=r"Line has no exact best labellings; use a pen \(max_oracle\)"
    ):
        require(max_oracle, Line(1.0), "use a pen")
    assert edge_marginals.supports(Square) is False


def test_a_kernel_must_have_the_arguments_of_its_verb():
    @kernel
    def wrong(shape, factor):
        return 0.0

    message = r"takes the arguments \(shape, scale\), not \(shape, factor\): only the first"
    with pytest.raises(TypeError, match=message):
        area.register(Square)(wrong)
    with pytest.raises(
        TypeError, match=r"kernel of max_oracle takes .*\(space, i, theta, labels\)"
    ):
        max_oracle.register(Square)(wrong)


class Wide(NamedTuple):
    width: float


def _answer(value, line):
    """A kernel on a line of this file."""
    namespace = {"__name__": __name__}
    code = "\n" * line + f"def answer(shape, scale):\n    return {value}\n"
    exec(compile(code, __file__, "exec"), namespace)
    return kernel(namespace["answer"])


def test_a_class_has_one_kernel_of_a_verb():
    first = area.register(Wide)(_answer(1.0, 3))
    area.register(Wide)(first)
    with pytest.raises(TypeError, match=r"Wide has a kernel of area already, .*line 4: register"):
        area.register(Wide)(_answer(2.0, 5))
    with pytest.raises(TypeError, match=r"ChainSpace has a kernel .*, of skstruct\.spaces\.chain"):
        max_oracle.register(ChainSpace)(kernel(lambda space, i, theta, labels: 0.0))
    with pytest.raises(TypeError, match="takes the class of a space, a NamedTuple, which str is"):
        max_oracle.register(str)(kernel(lambda space, i, theta, labels: 0.0))


def test_a_kernel_that_forgets_its_value_is_refused():
    def forgets(space, i, theta, labels):
        labels[0] = np.argmax(theta)

    def ends_early(space, i, theta, labels):
        if theta.size:
            return theta[0]

    with pytest.raises(TypeError, match="max_oracle must return float: this one returns nothing"):
        max_oracle.register(Wide)(kernel(forgets))
    max_oracle.register(type("Early", (Wide,), {}))(kernel(ends_early))


@pytest.mark.skipif(JIT_IS_DISABLED, reason="nothing is compiled")
def test_kernels_that_are_compiled_are_not_replaced():
    """As in a notebook where the cell of a kernel is run again, but not that of its class."""

    class Cell(NamedTuple):
        width: float

    class Inherits(Cell):
        pass

    area.register(Cell)(_answer(1.0, 3))
    area.supports(Cell), area.supports(Cell(1.0))
    area.register(Cell)(_answer(2.0, 3))  # nobody has called the first one
    assert area(Inherits(1.0), 1.0) == 2.0
    for cls in (Cell, Inherits):
        with pytest.raises(TypeError, match=r"area of Inherits is compiled: .* in a notebook"):
            area.register(cls)(_answer(3.0, 3))
    assert area(Inherits(1.0), 1.0) == 2.0


_WORKLOAD = """
import sys
import numpy as np
from scipy import sparse
from skstruct import SAGCRF, RaggedArray
from skstruct.core.jit.kernels import compiled_kernels
from skstruct.solvers.sag import sag_epoch
from skstruct.testing import random_sequences

X, y = random_sequences(np.random.default_rng(0))
frozen = [x.copy() for x in X]
for x in frozen:
    x.setflags(write=False)
forms = [X, frozen, [np.asfortranarray(x) for x in X], RaggedArray.from_list(X),
         [x[::1, ::-1] for x in X]]
half = [x.astype(np.float32) for x in X]
for same in forms, [half, [np.asfortranarray(x) for x in half]]:
    for form in same:
        crf = SAGCRF(solver="sag", tol=1e-2, random_state=0).fit(form, y)
        crf.predict(form)
        if same is forms:
            crf.score(form, y), crf.predict_marginals(form), crf.predict_top_k(form, 2)
SAGCRF(solver="sag", tol=1e-2, random_state=0).fit(forms[3], RaggedArray.from_list(y))
csr = [sparse.csr_matrix(x) for x in X]
crf = SAGCRF(solver="sag", tol=1e-2, random_state=0).fit(csr, y)
crf.predict(csr)
SAGCRF(solver="sag", tol=1e-2, random_state=0).fit([x.tocsc() for x in csr], y)
assert len(sag_epoch.signatures) == 1, sag_epoch.signatures
missed = [k.py_func.__name__ for k in compiled_kernels() if sum(k.stats.cache_misses.values())]
most = max(len(k.signatures) for k in compiled_kernels())
print(len(missed), most, *missed)
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_specialisations_are_few():
    runs = [
        subprocess.run(
            [sys.executable, "-c", _WORKLOAD], check=True, capture_output=True, text=True
        ).stdout.split()
        for _ in range(2)
    ]
    n_missed, most, *missed = runs[1]
    assert int(n_missed) == 0, missed
    # features in double and in single precision: never one more for a user's layout
    assert int(most) == 2


@pytest.mark.slow
def test_import_loads_no_optional_package():
    code = "import sys; from skstruct import *; "
    code += "print('matplotlib' in sys.modules, 'numpydoc' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["False", "False"]


def test_kernels_are_counted():
    assert len(compiled_kernels()) > 30


# Weights


@kernel
def decay_and_step(w, rho, eta):
    weights.decay_and_step(w, rho, eta)


def _random_lazy(rng):
    w = lazy_weights(zero_weights(SHAPES))
    w.scale[:] = 0.3, -0.7
    for table, (_, width) in zip(w.tables, SHAPES, strict=True):
        half = table.shape[1] // 2
        table[:, :width] = rng.normal(size=(len(table), width))
        table[:, half : half + width] = rng.normal(size=(len(table), width))
    return w


def _flat(weights):
    return np.concatenate([table.ravel() for table in weights.tables])


def _direction(w):
    return np.concatenate(
        [
            table[:, table.shape[1] // 2 :][:, :width].ravel()
            for table, (_, width) in zip(w.tables, SHAPES, strict=True)
        ]
    )


def test_lazy_weights_keep_a_starting_point():
    start = zero_weights(SHAPES)
    for table in start:
        table[:] = np.random.default_rng(0).normal(size=table.shape)
    assert (_flat(plain_weights(lazy_weights(start), SHAPES)) == _flat(start)).all()


def test_rows_begin_at_cache_lines():
    w = lazy_weights(zero_weights(((5, 4), (1, 9))))
    for table in w.tables:
        assert table.ctypes.data % 64 == 0
        assert table.strides[0] % 64 == 0


def test_decay_and_step_equals_the_dense_update():
    w = _random_lazy(np.random.default_rng(1))
    expected = 0.9 * _flat(plain_weights(w, SHAPES)) - 0.2 * _direction(w)
    decay_and_step(w, 0.9, 0.2)
    np.testing.assert_allclose(_flat(plain_weights(w, SHAPES)), expected, rtol=1e-12)


def test_fold_keeps_the_value_and_happens_before_underflow():
    w = _random_lazy(np.random.default_rng(2))
    before = _flat(plain_weights(w, SHAPES))
    fold(w)
    assert w.scale.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(_flat(plain_weights(w, SHAPES)), before, rtol=1e-12)
    for _ in range(5000):
        decay_and_step(w, 0.9, 0.0)
    assert w.scale[0] >= 1e-101


@pytest.mark.parametrize("rho", [0.9, 1e-3, -0.5])
def test_strong_decay_folds_rarely_and_keeps_the_digits(rho):
    rng = np.random.default_rng(5)
    w = _random_lazy(rng)
    expected, direction = _flat(plain_weights(w, SHAPES)), _direction(w)
    scales = [w.scale[0]]
    for _ in range(300):
        decay_and_step(w, rho, 0.1)
        expected = rho * expected - 0.1 * direction
        scales.append(w.scale[0])
    np.testing.assert_allclose(_flat(plain_weights(w, SHAPES)), expected, rtol=1e-11)
    folds = np.count_nonzero(np.diff(np.log(np.abs(scales))) > 0)
    assert folds <= 300 * -np.log(abs(rho)) / np.log(1e100) + 1


def test_norm_and_gradient_of_lazy_weights():
    w = _random_lazy(np.random.default_rng(3))
    value, direction = _flat(plain_weights(w, SHAPES)), _direction(w)
    np.testing.assert_allclose(squared_norm(w), value @ value, rtol=1e-12)
    whole = ((0.1 * direction + 0.5 * value) ** 2).sum()
    expected = value @ value, 0.01 * (direction @ direction), whole
    np.testing.assert_allclose(squared_norms(w, 0.1, 0.5), expected, rtol=1e-12)


def test_nan_is_not_lost():
    w = _random_lazy(np.random.default_rng(4))
    w.node[2, 1] = np.nan
    w.node[:2] = 0.0
    assert np.isnan(squared_norms(w, 0.1, 0.5)[::2]).all()


@pytest.mark.parametrize("n_rows", [1, 5, 20_000])
def test_single_precision_and_back_in_one_memory(n_rows):
    rng, shapes = np.random.default_rng(0), ((n_rows, 5), (2, 25))
    start = zero_weights(shapes)
    for table in start.tables:
        table[len(table) // 2 :] = rng.normal(size=table[len(table) // 2 :].shape)
    memory = lazy_weights(start)
    memory.node[:, 8:13] = 1.0 / 3.0
    memory.scale[:] = 0.5, 2.0
    value, direction = plain_weights(memory, shapes), memory.node[:, 8:].astype(np.float32)
    single = in_single(memory)
    assert single.single.dtype == np.float32
    assert np.shares_memory(single.single, memory.node)
    np.testing.assert_array_equal(single.single[:, 8:], direction)
    for got, expected in zip(plain_weights(single, shapes).tables, value.tables, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    rounded = plain_weights(single, shapes)
    double = in_double(single, memory)
    assert double.node is memory.node
    assert double.scale.tolist() == [1.0, 0.0]
    for got, expected in zip(plain_weights(double, shapes).tables, rounded.tables, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    assert not double.node[:, 8:].any()
    assert not double.pair[:, 32:].any()


def test_weights_in_single_precision_fold_before_they_overflow():
    w = in_single(lazy_weights(zero_weights(((3, 2), (1, 4)))))
    w.single[:, :2] = 1.0
    expected = 1.0
    for _ in range(200):
        decay_and_step(w, 0.5, 0.0)
        w.single[:, :2] += 1e-3 / w.scale[0]
        expected = 0.5 * expected + 1e-3
        assert np.isfinite(w.single).all()
    np.testing.assert_allclose(plain_weights(w, ((3, 2), (1, 4))).node, expected, rtol=1e-5)


@kernel
def _scores(features, width, w, acc, theta):
    scores(features, 0, 3, width, w.node, w, acc, theta, 1)


@kernel
def _add_outer(features, width, r, c, w, acc):
    add_outer(features, 0, 3, width, r, 1, c, w.node, w, acc)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [-1, 29])
def test_sums_of_rows_of_any_width_have_one_order(intercept, dtype):
    rng, ends = np.random.default_rng(1), np.cumsum([0, 5, 0, 40, 1, 4, 3])
    columns = rng.integers(29, size=ends[-1], dtype=np.int32)
    for width in (*range(1, 10), 16, 17, 22, 24, 25, 45, 48, 49):
        table = rng.normal(size=(30, width)).astype(dtype)
        # Products with powers of 2 are exact: what the processor fuses then changes nothing.
        data = np.ldexp(1.0, rng.integers(-3, 3, size=ends[-1])).astype(dtype)
        features, acc = SparseFeatures(data, columns, ends, intercept), np.full(width + 1, np.nan)
        for t, (start, stop) in enumerate(pairwise(ends)):
            gather(features, t, table, acc, t % 3)
            rows = [*(data[start:stop, None] * table[columns[start:stop]].astype(np.float64))]
            expected = np.zeros(width) if intercept < 0 else table[intercept].astype(np.float64)
            while rows:
                n = 4 if len(rows) > 3 else 1
                some, rows = [*rows[:n], *np.zeros((4 - n, width))], rows[n:]
                expected = expected + ((some[0] + some[1]) + (some[2] + some[3]))
            np.testing.assert_allclose(acc[:width], expected, 1e-14, 1e-14)
            assert np.isnan(acc[width])


@pytest.mark.parametrize("form", ["plain", "lazy", "single"])
@pytest.mark.parametrize("kind", ["csr", "csr of the constant", "dense", "dense constant"])
def test_rows_times_weights_and_back(kind, form):
    rng, width = np.random.default_rng(1), 5
    X = rng.normal(size=(3, 6)) * (rng.random((3, 6)) < 0.7)
    X[0] = 0.0  # a row of the constant alone
    X = X[:, : 0 if "constant" in kind else None]
    n = X.shape[1]
    matrix = sparse.csr_matrix(X)
    features = DenseFeatures(np.ascontiguousarray(X), n)
    if kind.startswith("csr"):
        indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)
        features = SparseFeatures(matrix.data, indices, indptr, n)
    X = np.hstack([X, np.ones((3, 1))])
    shapes = ((n + 1, width), (0, 0))
    w = zero_weights(shapes)
    w.node[:] = rng.normal(size=shapes[0])
    value, direction = w.node.copy(), np.zeros(shapes[0])
    if form != "plain":
        w = lazy_weights(w)
        w.scale[:] = 0.5, -0.25
        direction = rng.normal(size=shapes[0])
        w.node[:, 8 : 8 + width] = direction
        value = 0.5 * value - 0.25 * direction
        w = in_single(w) if form == "single" else w
    digits = {"rtol": 1e-5, "atol": 1e-5} if form == "single" else {"rtol": 1e-12}
    theta, acc = np.zeros(1 + 3 * width), np.full(26, np.nan)
    _scores(features, width, w, acc, theta)
    np.testing.assert_allclose(theta[1:].reshape(3, width), X @ value, **digits)

    r = np.zeros(1 + 3 * width)
    r[1:] = rng.normal(size=3 * width) * np.repeat([1, 0, 1], width)
    change = X.T @ r[1:].reshape(3, width)
    _add_outer(features, width, r, (2.0, 0.0 if form == "plain" else 3.0), w, acc)
    got = plain_weights(w, shapes).node if form != "plain" else w.node
    np.testing.assert_allclose(got, value + 2.0 * change, **digits)
    if form != "plain":
        table = w.tables[0]
        np.testing.assert_allclose(table[:, 8 : 8 + width], direction + 3.0 * change, **digits)
        assert not table[:, 8 + width :].any()  # padding


@kernel
def _gram(how, features, r, out, table):
    gram_product(how, features, 0, 0, 11, 5, r, out, 2, table)


@kernel
def _gram_second(how, features, r, out, table):
    gram_product(how, features, 1, 11, features.values.shape[0], 5, r, out, 0, table)


def test_a_sample_too_long_for_its_gram_matrix_leaves_the_others_theirs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11 + 200, 4))
    features, ends = DenseFeatures(X, -1), np.array([0, 11, 211])
    how = gram_of(features, ends, 4)
    assert how.ptr.tolist() == [0, ~121, 121]
    assert not how.is_whole
    table = product_scratch(how, (4, 5))
    for _ in range(2):  # neither sample minds what the other has left in the scratch
        first, second = rng.normal(size=(11, 5)), rng.normal(size=(200, 5))
        out = np.zeros(2 + 55)
        _gram(how, features, np.append(np.zeros(2), first), out, table)
        expected = X[:11] @ (X[:11].T @ first)
        np.testing.assert_allclose(out[2:].reshape(11, 5), expected, rtol=1e-5, atol=1e-5)
        out = np.zeros(1000)
        _gram_second(how, features, second.ravel(), out, table)
        np.testing.assert_allclose(out.reshape(200, 5), X[11:] @ (X[11:].T @ second), rtol=1e-10)


@pytest.mark.parametrize("n_used", [0, 1, 4, 6, 11])
@pytest.mark.parametrize("stored", ["with scratch", "without", False])
def test_products_with_gram_matrices(stored, n_used):
    rng = np.random.default_rng(n_used)
    X = rng.normal(size=(11, 40))
    features = DenseFeatures(X, -1)
    how = gram_of(features, np.array([0, 11]), 40) if stored else not_stored()
    assert isinstance(how, Gram)
    table = np.zeros((40, 5))
    if stored:
        table = product_scratch(how, (40, 5)) if stored == "with scratch" else np.zeros((0, 0))
    r, out = np.zeros(2 + 55), np.full(2 + 55 + 1, 7.0)
    rows = rng.permutation(11)[:n_used]
    r[2:].reshape(11, 5)[rows] = rng.normal(size=(n_used, 5))
    _gram(how, features, r, out, table)
    expected = X @ (X.T @ r[2:].reshape(11, 5))
    np.testing.assert_allclose(out[2:-1].reshape(11, 5), expected, rtol=1e-5, atol=1e-5)
    assert out[[0, 1, -1]].tolist() == [7.0, 7.0, 7.0]


# Sampling


def test_leaves_are_drawn_in_proportion_to_their_weights():
    rng = np.random.default_rng(0)
    tree = sum_tree(5)
    weights = np.array([1.0, 0.0, 3.0, 4.0, 2.0])
    for i, weight in enumerate(weights):
        set_leaf(tree, i, 9.0)
        set_leaf(tree, i, weight)
    counts = np.bincount([sample_leaf(tree, u) for u in rng.random(20_000)], minlength=5)
    np.testing.assert_allclose(counts / 20_000, weights / 10, atol=0.015)
    assert counts[1] == 0


@pytest.mark.parametrize("u", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_no_leaf_of_weight_zero_is_ever_drawn(u):
    tree = sum_tree(6)
    set_leaf(tree, 3, 0.1)
    assert sample_leaf(tree, u) == 3


def test_two_problem_classes_of_one_name_and_fields_are_told_apart():
    @generic
    def which(problem):
        """A number of its own for each class."""

    @kernel
    def ask(problem):
        return which(problem)

    # As in a notebook's cell that is run again: numba itself takes the first kernel for both.
    for value in (1.0, 2.0, 3.0):
        cls = namedtuple("Again", ["size"])
        namespace = {}
        exec(f"def answer(problem):\n    return {value}\n", namespace)
        which.register(cls)(kernel(namespace["answer"]))
        assert ask(cls(1)) == which(cls(1)) == value


class OwnPotentials(BlockRows):
    """Rows whose potentials are others."""


@potentials.register(OwnPotentials)
@kernel
def _(rows, i, w, theta):
    theta[:] = 0.0


def test_faster_ways_are_not_inherited_past_the_verbs_that_they_follow():
    assert rest_potentials.find(OwnPotentials) is rest_potentials.registry[object]
    sub = type("Sub", (BlockRows,), {})
    assert rest_potentials.find(sub) is rest_potentials.registry[BlockRows]


@pytest.mark.skipif(JIT_IS_DISABLED, reason="NumPy reads any table")
@pytest.mark.parametrize(
    "table", [np.asfortranarray(np.ones((1, 3, 3))), np.eye(3, dtype=np.int64)[None]]
)
def test_kernels_refuse_tables_that_they_would_misread(table):
    with pytest.raises(TypingError, match="C-contiguous arrays of floats"):
        viterbi(np.zeros((2, 3)), table, np.zeros(2, np.int32), viterbi_scratch(2, 3))

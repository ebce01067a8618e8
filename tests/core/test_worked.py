"""Small worked examples of the internals of core."""

import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from skstruct.core.cone import make_cone, settle
from skstruct.core.features import DenseFeatures, constant_rows
from skstruct.core.jit.cache import open_store
from skstruct.core.jit.cache_key import (
    digest,
    foreign_digest,
    frozen_values,
    imports,
    is_foreign,
    kernel_sources,
    problem_kernels,
)
from skstruct.core.jit.compilers import inner_options, outer_options
from skstruct.core.jit.dispatch import compiled_kernels, kernel, require
from skstruct.core.jit.numba_private import (
    JIT_IS_DISABLED,
    DiskCache,
    announced_compiles,
    intrinsic,
    known_options,
)
from skstruct.core.memory import available_bytes, check_memory, shown
from skstruct.core.offsets import ends_of, longest_item
from skstruct.core.oracles import exp_oracle, has_own_loss, loss_is_linear
from skstruct.core.parallel import Crew, Pieces, effective_threads, run_team
from skstruct.core.proximal import start_clock
from skstruct.core.weights import (
    Weights,
    aligned,
    flatten,
    fold,
    halves,
    in_double,
    in_single,
    inner_product,
    lazy_weights,
    padded_width,
    plain_weights,
    squared_norm,
    squared_norms,
    view_flat,
    zero_weights,
)
from skstruct.graphs.chain import ChainProblem
from skstruct.inference.viterbi import viterbi


def test_cache_store(capsys):
    with tempfile.TemporaryDirectory() as folder:
        store = open_store("0123456789abcdef", Path(folder))
        store.write("entry", b"content")
        print((store.read("entry"), store.read("no entry")))
    assert capsys.readouterr().out == "(b'content', None)\n"


def test_cache_open_store():
    assert (open_store(None, Path()).writable is None) is True


def test_compilers_outer_options():
    assert (outer_options().keys() <= {"pipeline_class"}) is True


def test_compilers_inner_options():
    assert (inner_options().get("no_cpython_wrapper", True)) is True


def test_cone_make_cone():
    assert (make_cone(None, 3).coefficients.size, make_cone(np.array([1.0, -1.0]), 3).square) == (
        0,
        2.0,
    )


def test_cone_settle():
    w = Weights(np.zeros((1, 2)), np.array([[-1.0], [1.0]]))
    settle(make_cone([2.0], 2), w)
    assert (w.pair.tolist()) == [[0.0], [1.0]]


def test_dispatch_compiled_kernels():
    assert (len(compiled_kernels()) > 0) is True


def test_dispatch_require():
    with pytest.raises(
        TypeError, match=re.escape("tuple has no marginals; use an SSVM (exp_oracle)")
    ):
        require(exp_oracle, (), "use an SSVM")


def test_features_constant_rows():
    assert repr(constant_rows(DenseFeatures(np.ones((4, 2)), -1), 2).values) == (
        "array([[1., 0.],\n       [0., 1.]])"
    )


def test_frozen_frozen_values():
    double, triple = lambda x: 2 * x, lambda x: 3 * x
    assert (frozen_values([double]) == frozen_values([triple])) is False


def test_memory_available_bytes():
    assert ((available_bytes() or 1) > 0) is True


def test_memory_shown():
    assert (shown(12345), shown(10**400)) == ("12,345", "over 10**18")


def test_memory_check_memory():
    check_memory(8, "a number", "count less")


def test_numba_private_known_options():
    assert (known_options({"no_such_option": True})) == {}


def test_numba_private_intrinsic():
    assert callable(intrinsic(math.ldexp))


def test_numba_private_announced_compiles():
    names = []

    @kernel
    def twice(x):
        return 2.0 * x

    with announced_compiles(names.append):
        assert twice(1.5) == 3.0
    assert [name.rpartition(".")[2] for name in names] == ([] if JIT_IS_DISABLED else ["twice"])


def test_numba_private_diskcache():
    assert (DiskCache(viterbi.py_func, open_store(None, Path())).cache_path is None) is True


def test_offsets_ends_of():
    assert (ends_of([2, 1]).tolist()) == [0, 2, 3]


def test_offsets_longest_item():
    assert (longest_item(np.array([0, 3, 4]))) == 3


def test_oracles_has_own_loss():
    assert (has_own_loss(tuple)) is False


def test_oracles_loss_is_linear():
    assert (loss_is_linear(())) is False


def test_pieces_pieces():
    assert (list(Pieces().ranges(0, 5))) == [(0, 1), (1, 5)]


def test_pieces_pieces_visits():
    assert (list(Pieces().visits(0)), list(Pieces().visits(5))) == ([(0, 0)], [(0, 1), (1, 5)])


def test_proximal_start_clock():
    assert (start_clock(lazy_weights(zero_weights(((3, 2), (1, 4)))), 0.1, 0.0).node.shape) == (
        3,
        3,
    )


def test_single_in_single():
    assert (in_single(lazy_weights(zero_weights(((3, 2), (1, 4))))).single.shape) == (3, 4)


def test_single_in_double():
    w = lazy_weights(zero_weights(((3, 2), (1, 4))))
    assert (in_double(in_single(w), w).node.shape) == (3, 4)


def test_sources_imports():
    assert (sorted(imports("from ..b import c, d\nimport numpy as np", "a.x"))) == [
        ("a.b", "c"),
        ("a.b", "d"),
        ("numpy", ""),
    ]


def test_sources_kernel_sources():
    assert ("inference/viterbi.py" in kernel_sources()) is True


def test_sources_digest():
    assert (digest({"a.py": b"1"}) == digest({"a.py": b"2"})) is False


def test_sources_is_foreign():
    assert (is_foreign("skstruct.graphs.chain"), is_foreign("numpy")) == (False, True)


def test_sources_problem_kernels():
    assert (problem_kernels([ChainProblem])) == []


def test_sources_foreign_digest():
    assert (foreign_digest(viterbi, [ChainProblem])) == ""


def test_team_run_team():
    met = []
    run_team(lambda k, team: met.append(k), 2)
    assert (sorted(met)) == [0, 1]


def test_team_crew():
    met = []
    Crew(2).run(lambda k, team: met.append(k))
    assert (sorted(met)) == [0, 1]


def test_threads_effective_threads():
    assert (effective_threads(2)) == 2


def test_weights_zero_weights():
    assert (zero_weights(((3, 2), (1, 4))).pair.shape) == (1, 4)


def test_weights_flatten():
    assert (flatten(zero_weights(((3, 2), (1, 4)))).size) == 10


def test_weights_view_flat():
    assert repr(view_flat(np.arange(10.0), ((3, 2), (1, 4))).pair) == "array([[6., 7., 8., 9.]])"


def test_weights_aligned():
    assert (aligned(3).ctypes.data % 64) == 0


def test_weights_padded_width():
    assert (padded_width(3), padded_width(4), padded_width(9)) == (3, 8, 16)


def test_weights_lazy_weights():
    assert (lazy_weights(zero_weights(((3, 2), (1, 4)))).node.shape) == (3, 4)


def test_weights_halves():
    shapes = ((3, 2), (1, 4))
    assert ([v.shape for v, d in halves(lazy_weights(zero_weights(shapes)), shapes)]) == [
        (3, 2),
        (1, 4),
    ]


def test_weights_plain_weights():
    shapes = ((1, 1), (1, 1))
    assert (float(plain_weights(lazy_weights(zero_weights(shapes)), shapes).node[0, 0])) == 0.0


def test_weights_squared_norm():
    assert (squared_norm(lazy_weights(zero_weights(((1, 1), (0, 0)))))) == 0.0


def test_weights_inner_product():
    assert (inner_product([np.ones((2, 3))], [np.ones((2, 3))])) == 6.0


def test_weights_fold():
    w = lazy_weights(Weights(np.full((2, 1), 3.0), np.zeros((0, 0))))
    fold(w)
    assert squared_norm(w) == 18.0
    assert plain_weights(w, ((2, 1), (0, 0))).node.tolist() == [[3.0], [3.0]]


def test_weights_squared_norms():
    assert (squared_norms(lazy_weights(zero_weights(((1, 1), (0, 0)))), 1.0, 1.0)) == (
        0.0,
        0.0,
        0.0,
    )

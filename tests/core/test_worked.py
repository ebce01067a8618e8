"""Small worked examples of the internals of core."""

import numpy as np

from skstruct.core.features import DenseFeatures, constant_rows
from skstruct.core.jit.cache_key import is_foreign
from skstruct.core.jit.compiling import JIT_IS_DISABLED, announced_compiles
from skstruct.core.jit.dispatch import kernel
from skstruct.core.memory import shown
from skstruct.core.weights import aligned, halves, lazy_weights, padded_width, zero_weights


def test_features_constant_rows():
    assert repr(constant_rows(DenseFeatures(np.ones((4, 2)), -1), 2).values) == (
        "array([[1., 0.],\n       [0., 1.]])"
    )


def test_memory_shown():
    assert (shown(12345), shown(10**400)) == ("12,345", "over 10**18")


def test_numba_private_announced_compiles():
    names, space = [], {}
    # Kernels that are in no file are compiled in every process.
    exec("def twice(x):\n    return 2.0 * x", space)
    twice = kernel(space["twice"])
    with announced_compiles(names.append):
        assert twice(1.5) == 3.0
    assert [name.rpartition(".")[2] for name in names] == ([] if JIT_IS_DISABLED else ["twice"])


def test_sources_is_foreign():
    assert (is_foreign("skstruct.graphs.chain"), is_foreign("numpy")) == (False, True)


def test_weights_aligned():
    assert (aligned(3).ctypes.data % 64) == 0


def test_weights_padded_width():
    assert (padded_width(3), padded_width(4), padded_width(9)) == (3, 8, 16)


def test_weights_halves():
    shapes = ((3, 2), (1, 4))
    assert ([v.shape for v, d in halves(lazy_weights(zero_weights(shapes)), shapes)]) == [
        (3, 2),
        (1, 4),
    ]

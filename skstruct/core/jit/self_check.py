"""Check tricks whose failure would be silent; apart, since it must compile kernels itself.

References (:mod:`skstruct.core.jit.references`) rest on what LLVM makes of loads that never change,
and passes are dropped by name (:mod:`skstruct.core.jit.compilers`). A numba in which one of these
means something else would compile, and compute wrong numbers. So before the first compile comes a
kernel with a known answer; if it fails, tricks are given up, one after the other. What passed is
remembered beside the compiled kernels, which are of one numba.
"""

import warnings
from typing import NamedTuple

import numba
import numpy as np

from . import cache_key, dispatch
from .numba_private import TRICKS

_N = 64
_PASSED = b"passed"


class _Inner(NamedTuple):
    values: np.ndarray


class _Outer(NamedTuple):
    scale: float
    inner: _Inner


def _make_probe():
    """A kernel that reads fields before and after another one has written to the array."""

    @dispatch.inner_kernel
    def visit(outer, k):
        outer.inner.values[k] += outer.scale

    def probe(outer):
        found = 0.0
        for k in range(outer.inner.values.shape[0]):
            found -= outer.inner.values[k] * outer.scale
            visit(outer, k)
            found += outer.inner.values[k] if k % 3 == 0 else outer.scale
        return found

    return dispatch.kernel(probe)


def _is_right(probe):
    before = np.linspace(0.0, 2.0, _N)
    values = before.copy()
    found = probe(_Outer(0.5, _Inner(values)))
    after = before + 0.5
    answer = np.where(np.arange(_N) % 3 == 0, after, 0.5).sum() - 0.5 * before.sum()
    return abs(found - answer) < 1e-9 and np.array_equal(values, after)


def check(store) -> None:
    """Disable the techniques with which the probe fails, and report it."""
    sources = cache_key.digest(cache_key.closure([__name__])[0])
    entry = f"self-check-{sources}"
    if sources and store.read(entry) == _PASSED:
        return
    given_up = []
    for trick in ("references", "passes", None):
        try:
            right = _is_right(_make_probe())
        except Exception:
            right = False
        if right or trick is None:
            break
        TRICKS[trick] = False
        given_up.append(trick)
    if not right:
        raise RuntimeError(
            f"numba {numba.__version__} compiles skstruct's kernels to code that computes wrong "
            "numbers; install another version, or set NUMBA_DISABLE_JIT=1"
        )
    if not given_up:
        if sources:
            store.write(entry, _PASSED)
        return
    warnings.warn(
        f"numba {numba.__version__} is newer than what skstruct was written for: "
        f"{' and '.join(given_up)} are not used, and kernels take longer to compile",
        RuntimeWarning,
        stacklevel=2,
    )


dispatch.before_compiling(check)

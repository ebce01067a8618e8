"""Before the first compile, check that tricks whose failure would be silent still work.

References (:mod:`skstruct.core.jit.references`) rest on what LLVM makes of loads that never change,
and passes are dropped by name (:mod:`skstruct.core.jit.compilers`). A numba in which one of these
means something else would compile, and compute wrong numbers. So a kernel with a known answer comes
first; if it fails, tricks are given up, one after the other. What passed is remembered beside the
compiled kernels, which are of one numba.
"""

import warnings
from typing import NamedTuple

import numba
import numpy as np

from . import dispatch
from .numba_private import TRICKS

_N = 64
_ENTRY, _PASSED = "self-check", b"passed"


class _Inner(NamedTuple):
    values: np.ndarray
    n: int


class _Outer(NamedTuple):
    scale: float
    inner: _Inner
    counts: np.ndarray


def _make_probe():
    """Kernels that read fields before and after other kernels have written to the arrays."""

    @dispatch.inner_kernel
    def visit(outer, k):
        outer.inner.values[k] += outer.scale
        outer.counts[k % outer.counts.shape[0]] += 1

    @dispatch.inner_kernel
    def total(inner):
        found = 0.0
        for k in range(inner.n):
            found += inner.values[k] if inner.values[k] > 1.0 else -inner.values[k]
        return found

    def probe(outer, n):
        found = total(outer.inner)
        for k in range(n):
            visit(outer, k)
            if k % 3 == 0:
                found += total(outer.inner) * outer.scale
        return found, outer.inner.values.shape[0]

    return dispatch.kernel(probe)


def _is_right(probe):
    values, counts = np.linspace(0.0, 2.0, _N), np.zeros(5, dtype=np.int64)
    outer = _Outer(0.5, _Inner(values, _N), counts)
    expected = np.linspace(0.0, 2.0, _N)

    def total():
        return np.where(expected > 1.0, expected, -expected).sum()

    answer = total()
    for k in range(_N):
        expected[k] += 0.5
        if k % 3 == 0:
            answer += total() * 0.5
    found, n = probe(outer, _N)
    steps = np.bincount(np.arange(_N) % 5)
    right = n == _N and abs(found - answer) < 1e-9 * abs(answer)
    return right and np.array_equal(values, expected) and np.array_equal(counts, steps)


def check(store) -> None:
    """Give up the tricks with which the probe fails, and say so."""
    if store.read(_ENTRY) == _PASSED:
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
        store.write(_ENTRY, _PASSED)
        return
    warnings.warn(
        f"numba {numba.__version__} is newer than what skstruct was written for: "
        f"{' and '.join(given_up)} are not used, and kernels take longer to compile",
        RuntimeWarning,
        stacklevel=2,
    )


dispatch.before_compiling(check)

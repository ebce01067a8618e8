"""The clock of MAP inference stands still while kernels are compiled or loaded."""

import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest

from skstruct.core.jit.compiling import JIT_IS_DISABLED, compile_seconds, hold_interrupts
from skstruct.map_inference import FactorGraph, Potts, solve_map
from skstruct.map_inference.budget import Budget

pytestmark = pytest.mark.skipif(JIT_IS_DISABLED, reason="nothing is compiled")

# Every kernel takes a thousand seconds of a clock that nothing else moves.
_SLOW_COMPILES = """
import time
import numpy as np
from skstruct.core.jit.cache import DiskCache

now = [0.0]
time.perf_counter = lambda: now[0]
load = DiskCache.load_overload

def slowly(self, sig, target_context):
    now[0] += 1000.0
    return load(self, sig, target_context)

DiskCache.load_overload = slowly
from skstruct.map_inference import FactorGraph, Potts, Table, solve_map

ring = np.arange(5)
attracting = Potts(ring, (ring + 1) % 5, 1.0)
table = Table([0, 2, 4], np.arange(8.0).reshape(2, 2, 2))
for method in {methods}:
    graph = FactorGraph([2] * 5, [attracting, *([] if "flow" in method else [table])])
    result = solve_map(graph, method, time_limit=10.0, tol=1e-9)
    assert result.message != "the time limit is reached", method
    assert result.compile_seconds >= 1000.0, method
    assert result.compile_seconds % 1000.0 == 0.0, method
    assert (result.history_["seconds"] == 0.0).all(), method
    again = solve_map(graph, method, time_limit=10.0, tol=1e-9)
    assert again.compile_seconds == 0.0, method
    assert again.score == result.score and again.bound == result.bound, method
"""


class _Slow:
    """A dispatcher whose compiles move a clock."""

    def __init__(self, clock, seconds, inner=None):
        self.clock, self.seconds, self.inner = clock, seconds, inner

    def compile(self, sig):
        if self.inner is not None:
            self.inner.compile(sig)
        self.clock[0] += self.seconds


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_compiling_does_not_count_towards_a_limit(clock):
    budget = Budget(time_limit=10.0)
    with budget.part(5.0):
        inner = _Slow(clock, 30.0)
        hold_interrupts(inner)
        outer = _Slow(clock, 20.0, inner)
        hold_interrupts(outer)
        clock[0] += 1.0
        outer.compile(None)
        assert (budget.seconds, budget.compile_seconds, budget.seconds_left) == (1.0, 50.0, 4.0)
        assert not budget(0.1)
        clock[0] += 4.0
        assert budget(0.2)
    assert budget.seconds_left == 5.0
    assert not budget(0.2)
    clock[0] += 5.0
    assert budget(0.3)
    assert budget.reason == "the time limit is reached"


def test_compiling_in_other_threads_is_theirs(clock):
    budget = Budget(time_limit=10.0)
    slow = _Slow(clock, 30.0)
    hold_interrupts(slow)
    thread = threading.Thread(target=slow.compile, args=(None,))
    thread.start()
    thread.join()
    assert (budget.seconds, budget.compile_seconds) == (30.0, 0.0)


def test_a_compile_that_fails_is_counted_once(clock):
    @numba.njit
    def wrong(x):
        return x.nothing

    def compile_wrong(sig, plainly=wrong.compile):
        clock[0] += 7.0
        return plainly(sig)

    wrong.compile = compile_wrong
    hold_interrupts(wrong)
    before = compile_seconds()
    with pytest.raises(TypeError, match="does not compile"):
        wrong.compile((numba.int64,))
    assert compile_seconds() - before == 7.0
    assert Budget().compile_seconds == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("methods", [["auto"], ["trws"], ["max-flow", "subgradient"]])
def test_limits_hold_for_solving_where_kernels_are_new(methods):
    script = _SLOW_COMPILES.format(methods=methods)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_verbose_says_how_long_kernels_took(monkeypatch, capsys):
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=np.eye(2))
    solve_map(graph, "trws")
    monkeypatch.setattr(Budget, "compile_seconds", 2.5)
    assert solve_map(graph, "trws", verbose=1).compile_seconds == 2.5
    assert "s (and 2.50 s for kernels): MAPResult(" in capsys.readouterr().out

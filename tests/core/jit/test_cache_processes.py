"""The compile cache between processes, and what interrupts it."""

import compileall
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct import BCFWSSVM, SAGCRF
from skstruct.core.jit.cache import cache_on_disk, open_store
from skstruct.core.jit.compiling import hold_interrupts
from skstruct.testing import random_sequences
from tests.helpers.cache_cases import PACKAGE, output_of, posix, run_python
from tests.helpers.core_alone import CORE_ALONE

# Interrupts


class _Compiler:
    """Stands for a dispatcher: its compile is interrupted `times` times."""

    def __init__(self, times):
        self.times = times
        self.ended = False

    def compile(self, sig):
        for _ in range(self.times):
            signal.raise_signal(signal.SIGINT)
        self.ended = True
        return sig


def test_an_interrupt_is_held_until_a_compile_ends():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    outer, inner = _Compiler(0), _Compiler(1)
    hold_interrupts(inner)
    outer.compile = lambda sig: (inner.compile(sig), setattr(outer, "ended", True))
    hold_interrupts(outer)
    with pytest.raises(KeyboardInterrupt):
        outer.compile(1)
    assert inner.ended
    assert outer.ended
    impatient = _Compiler(2)
    hold_interrupts(impatient)
    with pytest.raises(KeyboardInterrupt):
        impatient.compile(1)
    assert not impatient.ended
    calm = _Compiler(0)
    hold_interrupts(calm)
    assert calm.compile(1) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_handlers_and_threads_are_left_alone(monkeypatch):
    seen = []

    def own(number, frame):
        seen.append(number)

    compiler = _Compiler(1)
    hold_interrupts(compiler)
    before = signal.signal(signal.SIGINT, own)
    try:
        assert compiler.compile(1) == 1
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
    calm = _Compiler(0)
    hold_interrupts(calm)
    monkeypatch.setattr(signal, "signal", lambda *args: seen.append(args))
    thread = threading.Thread(target=calm.compile, args=(1,))
    thread.start()
    thread.join()
    assert calm.ended
    assert len(seen) == 1


_INTERRUPTED = """
import os, signal
from numba.core import codegen
plain, sent = codegen.CPUCodeLibrary._object_compiled_hook.__func__, []
def interrupted(cls, *args):  # runs in LLVM's callback, which swallows exceptions
    if kernels_run and not sent:
        sent.append(1)
        os.kill(os.getpid(), signal.SIGINT)
    plain(cls, *args)
codegen.CPUCodeLibrary._object_compiled_hook = classmethod(interrupted)
kernels_run = False
from skstruct.core.jit.kernels import kernel
@kernel
def half(x):
    return 0.5 * x
kernels_run = True
try:
    print(half(3.0))
except KeyboardInterrupt:
    print("interrupted", half(3.0), len(sent))
"""


@pytest.mark.slow
@posix
def test_an_interrupt_in_llvms_callback_is_not_swallowed():
    out, errors = output_of(run_python(CORE_ALONE + _INTERRUPTED))
    assert out == ["interrupted", "1.5", "1"]
    assert "ignored" not in errors


@pytest.mark.slow
def test_an_installation_without_sources(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "skstruct", ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(tmp_path / "skstruct", quiet=1, legacy=True)
    for path in (tmp_path / "skstruct").rglob("*.py"):
        path.unlink()
    code = """
import skstruct, numpy as np
from skstruct.core.jit.kernels import cache_folder
from skstruct.inference.numerics import row_max
assert row_max(np.arange(3.0), 0, 3) == 2.0
print(skstruct.__file__, cache_folder(), sum(row_max.stats.cache_misses.values()))
"""
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": None}
    for expected in ("1", "0"):
        (file, folder, misses), _ = output_of(run_python(code, **environment))
        assert file == str(tmp_path / "skstruct" / "__init__.pyc")
        assert Path(folder).parent == tmp_path / "skstruct" / "__pycache__"
        assert misses == expected


_PLAIN = """
import warnings
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from skstruct import SAGCRF, BCFWSSVM
from skstruct.core.jit.kernels import cache_folder, compiled_kernels
from skstruct.testing import random_sequences

warnings.simplefilter("error")
warnings.simplefilter("ignore", ConvergenceWarning)
X, y = random_sequences(np.random.default_rng(0), n_samples=6)
crf = SAGCRF(solver="lbfgs", tol=1e-8).fit(X, y)
svm = BCFWSSVM(max_iter=3, random_state=0).fit(X, y)
print(cache_folder(), len(compiled_kernels()), *crf.coef_.ravel())
print(*np.concatenate(crf.predict_marginals(X)).ravel(), svm.objective_, svm.dual_objective_)
print(*crf.predict(X)[0], *SAGCRF(max_iter=2, random_state=0).fit(X, y).predict(X)[0])
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kernels_run_as_plain_python():
    (folder, n_kernels, *numbers), _ = output_of(run_python(_PLAIN, NUMBA_DISABLE_JIT="1"))
    assert (folder, n_kernels) == ("None", "0")
    X, y = random_sequences(np.random.default_rng(0), n_samples=6)
    crf = SAGCRF(solver="lbfgs", tol=1e-8).fit(X, y)
    expected = np.concatenate([crf.coef_.ravel(), np.concatenate(crf.predict_marginals(X)).ravel()])
    assert_allclose(np.array(numbers[: expected.size], float), expected, atol=1e-4)
    objective, dual = map(float, numbers[expected.size : expected.size + 2])
    svm = BCFWSSVM(max_iter=300, tol=1e-3, random_state=0).fit(X, y)
    assert dual <= svm.objective_
    assert svm.dual_objective_ <= objective + 1e-12
    assert numbers[expected.size + 2 :][: len(y[0])] == list(crf.predict(X)[0])


def test_what_another_process_compiles_is_waited_for(tmp_path):
    pytest.importorskip("fcntl")
    one, other = (open_store("0123456789abcdef", tmp_path) for _ in range(2))
    assert one.reserve("entry") is False
    assert one.reserve("entry") is False, "a second try in one process"
    found = []
    thread = threading.Thread(target=lambda: found.append(other.reserve("entry")))
    thread.start()
    thread.join(0.2)
    assert not found
    one.write("entry", b"content")
    one.release("entry")
    thread.join()
    assert found == [True]
    assert other.read("entry") == b"content"
    other.release("entry")
    assert [path.name for path in one.writable.iterdir()] == ["entry"]


def test_what_does_not_compile_holds_nobody_up(tmp_path):
    pytest.importorskip("fcntl")

    def wrong(x):
        return x.nothing

    store = open_store("0123456789abcdef", tmp_path)
    for _ in range(2):
        dispatcher = numba.njit(wrong)
        hold_interrupts(dispatcher, cache_on_disk(dispatcher, store))
        with pytest.raises((TypeError, numba.TypingError)):
            dispatcher(1.0)
        assert not list(store.writable.iterdir())


_TWO = """
import sys
import numpy as np
from numba.core import event
from skstruct.inference.viterbi import viterbi, viterbi_scratch

class Counter(event.Listener):
    def on_start(self, started):
        function = started.data["dispatcher"].py_func
        if function.__module__.startswith("skstruct"):
            names.append(function.__qualname__)
    def on_end(self, ended):
        pass

names = []
unary, transitions, labels = np.zeros((2, 2)), np.zeros((1, 2, 2)), np.zeros(2, dtype=np.int32)
print("ready", flush=True)
sys.stdin.readline()
with event.install_listener("numba:compile", Counter()):
    viterbi(unary, transitions, labels, viterbi_scratch(2, 2))
print(*names)
"""


@pytest.mark.slow
def test_two_processes_that_start_at_once_compile_nothing_twice(tmp_path):
    pytest.importorskip("fcntl")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [
        subprocess.Popen([sys.executable, "-c", CORE_ALONE + _TWO], env=environment, **pipes)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    compiled = [name for process in both for name in process.communicate()[0].split()]
    assert "viterbi" in compiled
    assert len(compiled) == len(set(compiled))
    assert not list(tmp_path.rglob("*.lock"))

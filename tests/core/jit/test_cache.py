"""The compile cache: never stale, never unsafe, never in the way of an import."""

import logging
import os
import shutil
import stat
import sys
import threading
from collections import namedtuple
from typing import NamedTuple

import numba
import numpy as np
import pytest

from skstruct.core.jit import numba_private
from skstruct.core.jit.cache import DiskCache, cache_on_disk, open_store
from skstruct.core.jit.cache_key import frozen_values
from skstruct.core.jit.dispatch import generic
from skstruct.core.jit.kernels import compiled_kernels, kernel
from skstruct.core.jit.numba_private import known_options
from skstruct.inference.viterbi import viterbi
from tests.helpers.cache_cases import VERSIONS, plus, posix


@pytest.fixture
def store(tmp_path):
    return open_store(VERSIONS, tmp_path / "package", tmp_path / "chosen")


def _fresh(store, function=plus):
    """A dispatcher as a new process has it."""
    dispatcher = numba.njit(function)
    assert cache_on_disk(dispatcher, store)
    return dispatcher


def _hits_and_misses(dispatcher):
    return sum(dispatcher.stats.cache_hits.values()), sum(dispatcher.stats.cache_misses.values())


def _entries(store):
    return sorted(store.writable.iterdir())


def test_specialisations_are_kept_apart_and_found_again(store):
    first = _fresh(store)
    assert first(1, 2) == 3
    assert first(0.5, 2.0) == 2.5
    assert _hits_and_misses(first) == (0, 2)
    assert len(_entries(store)) == 2
    second = _fresh(store)
    assert second(0.5, 2.0) == 2.5
    assert second(1, 2) == 3
    assert _hits_and_misses(second) == (2, 0)
    assert second.stats.cache_path == str(store.writable)


class Pair(NamedTuple):
    a: float


def _take(pair):
    return pair.a


def test_problem_classes_of_one_name_are_kept_apart(store):
    other = type("Pair", (Pair,), {"__module__": "elsewhere", "__slots__": ()})
    entry = DiskCache(_take, store)._entry
    target = _fresh(store).targetctx
    types = [(numba.typeof(cls(1.0)),) for cls in (Pair, other)]
    assert str(types[0]) == str(types[1])
    assert entry(types[0], target)[0].partition("test_cache._take-")[1]
    sys.modules["elsewhere"] = sys.modules[__name__]
    try:
        assert entry(types[0], target) != entry(types[1], target)
    finally:
        del sys.modules["elsewhere"]


def test_the_order_of_a_problems_fields_counts(store):
    # kernels read fields by name and need not import the file of the class
    entries, target = set(), _fresh(store).targetctx
    for fields in ("low high", "high low"):
        cls = namedtuple("Range", fields, module=__name__)
        sig = (numba.typeof(cls(1.0, 2.0)),)
        entries.add(DiskCache(_take, store)._entry(sig, target))
    assert len(entries) == 2


def _constant_adder(constant):
    def add(x):
        return x + constant

    return add


def test_closures_are_told_apart_or_not_kept(store):
    for constant in (1.0, 2.0):
        assert _fresh(store, _constant_adder(constant))(1.0) == 1.0 + constant
    assert len(_entries(store)) == 2
    again = _fresh(store, _constant_adder(2.0))
    assert again(1.0) == 3.0
    assert _hits_and_misses(again) == (1, 0)
    add = _fresh(store, plus)

    def add_one(x):
        return add(x, 1)

    assert _fresh(store, add_one)(1.0) == 2.0
    assert not [path for path in _entries(store) if "add_one" in path.name]


SCALE, scaled, consts = 1.0, None, None  # tests set them


def _scaled(x):
    return x * SCALE


def _scaled_twice(x):
    return scaled(x) * consts.SCALE


CONSTANTS = {
    "number": (2.0, 3.0),
    "bool and int": (1, True),
    "int and float": (1, 1.0),
    "tuple": ((1.0, 2.0), (1.0, 3.0)),
    "array": (np.arange(3.0), np.arange(3)),
    "array's content": (np.zeros(2), np.array([0.0, -0.0])),
    "array's order": (np.eye(2), np.asfortranarray(np.eye(2))),
    "numpy's number": (np.float32(1), np.float64(1)),
    "kernel": (numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)),
    "function": (abs, round),
}


@pytest.mark.parametrize(("first", "second"), CONSTANTS.values(), ids=CONSTANTS)
def test_values_of_globals_are_told_apart(first, second, monkeypatch):
    module = type(sys)("consts")
    names = {"SCALE": first, "scaled": numba.njit(_scaled), "consts": module}
    for name, value in names.items():
        monkeypatch.setitem(globals(), name, value)
    module.SCALE = first

    def texts():
        return [frozen_values([function]) for function in (_scaled, _scaled_twice)]

    before = texts()
    assert None not in before
    assert texts() == before
    module.SCALE = second
    between = texts()
    assert between[0] == before[0]
    assert between[1] != before[1]
    module.SCALE = first
    monkeypatch.setitem(globals(), "SCALE", second)
    assert texts()[0] != before[0]
    assert texts()[1] != before[1]
    monkeypatch.setitem(globals(), "SCALE", {})
    assert texts() == [None, None]


def test_a_global_that_changes_and_lambdas_on_one_line(store, monkeypatch):
    for scale in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        dispatcher = _fresh(store, _scaled)
        assert dispatcher(1.0) == scale
    assert _hits_and_misses(dispatcher) == (1, 0)
    first, second = _fresh(store, lambda x: x + 1), _fresh(store, lambda x: x + 2)
    assert (first(10), second(10)) == (11, 12)


def test_values_that_a_problems_kernels_read_count_in_solvers(store, monkeypatch):
    @generic
    def size(shape):
        """The size of a shape."""

    class Shape(NamedTuple):
        side: float

    @size.register(Shape)
    @kernel
    def _(shape):
        return shape.side * SCALE

    target, keys = _fresh(store).targetctx, set()
    for scale in (2.0, 3.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        keys.add(DiskCache(viterbi.py_func, store)._entry((numba.typeof(Shape(1.0)),), target))
    assert len(keys) == 2


def test_every_kernel_of_the_package_is_kept():
    found = [d.py_func for d in compiled_kernels()]
    # Those that other tests execute from text have no module.
    own = [f for f in found if (f.__module__ or "").startswith("skstruct.")]
    assert len(own) > 50
    assert all(frozen_values([function]) for function in own)


def test_recompile_forgets(store):
    dispatcher = _fresh(store)
    dispatcher(1, 2)
    dispatcher.recompile()
    assert _hits_and_misses(dispatcher) == (0, 2)
    assert len(_entries(store)) == 1


DAMAGES = {
    "empty": lambda data: b"",
    "a few bytes": lambda data: data[:10],
    "half": lambda data: data[: len(data) // 2],
    "last byte lost": lambda data: data[:-1],
    "flipped at the start": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "flipped": lambda data: data[:3000] + bytes([data[3000] ^ 64]) + data[3001:],
    "random": lambda data: np.random.default_rng(0).bytes(len(data)),
    "longer": lambda data: data + b"x",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_compiled_anew(store, damage, caplog):
    assert _fresh(store)(1, 2) == 3
    (path,) = _entries(store)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with caplog.at_level(logging.INFO, "skstruct"):
        second = _fresh(store)
        assert second(1, 2) == 3
    assert _hits_and_misses(second) == (0, 1)
    assert not caplog.records
    third = _fresh(store)
    assert third(1, 2) == 3
    assert _hits_and_misses(third) == (1, 0)


def test_an_entry_that_numba_cannot_read_is_compiled_anew(store):
    assert _fresh(store)(1, 2) == 3
    (path,) = _entries(store)
    for content in (b"no pickle", b"", b"\x80\x04]."):
        store.write(path.name, content)
        again = _fresh(store)
        assert again(1, 2) == 3
        assert _hits_and_misses(again) == (0, 1)


def test_a_full_disk_loses_the_entry_only(store, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert _fresh(store)(1, 2) == 3
    assert _entries(store) == []


def test_a_folder_that_was_deleted_meanwhile_is_made_again(store):
    dispatcher = _fresh(store)
    shutil.rmtree(store.writable)
    assert dispatcher(1, 2) == 3
    assert len(_entries(store)) == 1


def test_without_numbas_parts_kernels_compile_in_every_process(store, monkeypatch):
    assert set(known_options({"_nrt": 0, "no_cfunc_wrapper": 0, "no_cpython_wrapper": 0})) == {
        "_nrt", "no_cfunc_wrapper", "no_cpython_wrapper"
    }  # fmt: skip
    monkeypatch.setattr(numba_private, "CompileResult", None)
    dispatcher = numba.njit(plus)
    assert not cache_on_disk(dispatcher, store)
    assert dispatcher(1, 2) == 3


@posix
def test_a_file_that_others_can_write_is_not_read(store):
    store.write("entry", b"content")
    path = store.writable / "entry"
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    path.chmod(0o666)
    assert store.read("entry") is None
    assert path.exists()
    path.chmod(0o644)
    assert store.read("entry") == b"content"


@posix
@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_what_is_no_file_is_not_read(store, make):
    getattr(os, make)(store.writable / "entry")
    if make == "mkfifo":  # whose other end nobody writes: a plain open waits forever
        (store.writable / "entry").chmod(0o600)
    found = []
    thread = threading.Thread(target=lambda: found.append(store.read("entry")), daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert found == [None]

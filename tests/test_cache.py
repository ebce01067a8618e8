"""The compile cache: never stale, never unsafe, never in the way of an import."""

import ast
import compileall
import importlib
import importlib.util
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from core_alone import CORE_ALONE
from numpy.testing import assert_allclose

import skstruct
from skstruct import BCFWSSVM, SAGCRF
from skstruct.core import cache, numba_private, sources
from skstruct.core.cache import Store, open_store
from skstruct.core.dispatch import cache_folder, compiled_kernels, generic, inner_kernel, kernel
from skstruct.core.frozen import frozen_values
from skstruct.core.numba_private import DiskCache, cache_on_disk, hold_interrupts, known_options
from skstruct.inference.viterbi import viterbi
from skstruct.testing import random_sequences

PACKAGE = Path(skstruct.__file__).parent
STRANGER = 54321
FINGERPRINT = "0123456789abcdef"

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


# Which sources are in the key


def _imports_by_ast(path, package):
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, package) if node.level else name
            found.update((module, alias.name) for alias in node.names)
    return found


def _own_files():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "__pycache__" not in path.parts]


def _package_of(path):
    return ".".join(["skstruct", *path.relative_to(PACKAGE).parent.parts])


def test_imports_are_found_as_python_finds_them():
    for path in _own_files():
        package = _package_of(path)
        found = sources.imports(path.read_text(), package)
        assert found >= _imports_by_ast(path, package), path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from .b import (\n    c,  # a comment\n    d,\n)", {("p.q.b", "c"), ("p.q.b", "d")}),
        ("from ... import x", {("", "x")}),
        ("from .. import x", {("p", "x")}),
        ("if a:\n    import m.n as o, r", {("m.n", ""), ("r", "")}),
        ("import a; from b import c", {("a", ""), ("b", "c")}),
        ("from a import b, \\\n    c", {("a", "b"), ("a", "c")}),
        ("from a.b import *", {("a.b", "*")}),
        ("# import a\nx = 'import b'", set()),
    ],
)
def test_imports_in_all_spellings(text, expected):
    assert sources.imports(text, "p.q") >= expected
    assert bool(sources.imports(text, "p.q")) == bool(expected)


def _dispatchers():
    yield from compiled_kernels()
    for name, module in list(sys.modules.items()):
        if name.startswith("skstruct"):
            yield from (v for v in vars(module).values() if hasattr(v, "py_func"))


def test_every_kernel_of_the_package_and_all_it_imports_are_in_the_key():
    counted = set(sources.kernel_sources())
    files = {Path(d.py_func.__code__.co_filename).resolve() for d in _dispatchers()}
    own = {path.relative_to(PACKAGE).as_posix() for path in files if PACKAGE in path.parents}
    assert len(own) > 25
    assert own <= counted
    names = {
        ".".join(["skstruct", *p.relative_to(PACKAGE).with_suffix("").parts]): p
        for p in _own_files()
    }
    for file in counted:
        for module, item in _imports_by_ast(PACKAGE / file, _package_of(PACKAGE / file)):
            target = names.get(f"{module}.{item}", names.get(module))
            assert target is None or target.relative_to(PACKAGE).as_posix() in counted
    # editing these compiles nothing anew
    assert counted.isdisjoint({"crf.py", "base.py", "versions.py", "solvers/bcfw/solver.py"})


def test_the_fingerprint_covers_contents_names_and_versions():
    contents = sources.kernel_sources()
    fingerprint = sources.digest(contents, "1")
    assert sources.digest(contents, "1") == fingerprint
    assert sources.digest(contents, "2") != fingerprint
    for name in contents:
        assert sources.digest(contents | {name: contents[name] + b" "}, "1") != fingerprint
    renamed = {f"x/{name}": content for name, content in contents.items()}
    assert sources.digest(renamed, "1") != fingerprint
    assert cache_folder().name.startswith("skstruct-")


_STRUCTURE = """
from typing import NamedTuple
from skstruct.core.dispatch import inner_kernel, kernel
from {package}.helpers import twice
from {package} import consts

class Square(NamedTuple):
    side: float

@kernel
def area(shape):
    return twice(shape.side) * consts.HALF * shape.side
"""
_HELPERS = """
from skstruct.core.dispatch import inner_kernel
from .more import FACTOR

@inner_kernel
def twice(x):
    return FACTOR * x
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A package outside skstruct with a kernel whose code lies in four files."""
    name = f"structures_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "area.py").write_text(_STRUCTURE.format(package=name))
    (folder / "helpers.py").write_text(_HELPERS)
    (folder / "more.py").write_text("FACTOR = 2.0\n")
    (folder / "consts.py").write_text("HALF = 0.5\n")
    (folder / "plots.py").write_text("COLOR = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for module in [m for m in sys.modules if m.startswith(name)]:
        del sys.modules[module]
        sources._read_files.pop(module, None)


def test_helpers_of_foreign_kernels_are_in_the_key(foreign):
    module = importlib.import_module(f"{foreign.name}.area")
    importlib.import_module(f"{foreign.name}.plots")
    own, function = viterbi.py_func, module.area.py_func

    def keys():
        return (
            sources.foreign_digest(function, [module.Square]),
            sources.foreign_digest(own, [module.Square]),
        )

    assert sources.foreign_digest(own, []) == ""
    before = keys()
    assert all(before)
    assert keys() == before
    for edited in ("area.py", "helpers.py", "consts.py", "more.py"):
        (foreign / edited).write_text((foreign / edited).read_text() + "# edited\n")
        # this process still runs the old text
        assert keys() == before
        sources.note_kernel(function)
        assert all(new != old for new, old in zip(keys(), before, strict=True)), edited
        before = keys()
    (foreign / "plots.py").write_text("COLOR = 2\n")
    sources.note_kernel(function)
    assert keys() == before


def test_scripts_count_with_what_lies_beside_them_but_not_with_what_is_installed(
    tmp_path, monkeypatch
):
    installed = tmp_path / "venv" / "site-packages"
    installed.mkdir(parents=True)
    files = {
        "a_script": tmp_path / "a_script.py",
        "beside": tmp_path / "beside.py",
        "installed": installed / "installed.py",
    }
    files["a_script"].write_text(
        "import json, numpy, beside, installed\n"
        "from skstruct.core.dispatch import kernel\n"
        "@kernel\ndef half(x):\n    return 0.5 * x\n"
    )
    for name in ("beside", "installed"):
        files[name].write_text("x = 1\n")
    for folder in (tmp_path, installed):
        monkeypatch.syspath_prepend(folder)
    function = importlib.import_module("a_script").half.py_func
    try:
        before = sources.foreign_digest(function, [])
        for name, counts in (("installed", False), ("beside", True), ("a_script", True)):
            files[name].write_text(files[name].read_text() + "# edited\n")
            sources.note_kernel(function)
            assert (sources.foreign_digest(function, []) != before) == counts, name
            before = sources.foreign_digest(function, [])
        assert sources._related("a_script") == {"a_script", "beside"}
    finally:
        for name in files:
            del sys.modules[name]
            sources._read_files.pop(name, None)


def test_a_kernel_registered_from_elsewhere_counts_for_its_problem(foreign):
    @generic
    def size(shape):
        """The size of a shape."""

    class Shape(NamedTuple):
        side: float

    module = importlib.import_module(f"{foreign.name}.area")
    before = sources.foreign_digest(viterbi.py_func, [Shape])
    size.register(Shape)(module.area)
    assert sources.foreign_digest(viterbi.py_func, [Shape]) != before


def test_code_in_no_file_is_not_kept():
    namespace = {"__name__": "no_such_module", "kernel": kernel}
    exec("@kernel\ndef half(x):\n    return 0.5 * x\n", namespace)
    assert namespace["half"](3.0) == 1.5
    assert sources.foreign_digest(namespace["half"].py_func, []) is None


def test_flags_that_a_verb_would_drop_are_refused():
    class Shape(NamedTuple):
        side: float

    @generic
    def size(shape):
        """The size of a shape."""

    @inner_kernel(inline=True)
    def inlined(shape):
        return shape.side

    with pytest.raises(TypeError, match=r"kernel of size must be made by @kernel.*: inline, no_c"):
        size.register(Shape)(inlined)
    with pytest.raises(TypeError, match="fastmath"):
        size.register(Shape)(numba.njit(lambda shape: shape.side))
    assert not size.supports(Shape)


# Entries


def _add(x, y):
    return x + y


@pytest.fixture
def store(tmp_path):
    return open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")


def _fresh(store, function=_add):
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
    codegen = _fresh(store).targetctx.codegen()
    types = [(numba.typeof(cls(1.0)),) for cls in (Pair, other)]
    assert str(types[0]) == str(types[1])
    assert entry(types[0], codegen)[0].startswith("test_cache._take-")
    sys.modules["elsewhere"] = sys.modules[__name__]
    try:
        assert entry(types[0], codegen) != entry(types[1], codegen)
    finally:
        del sys.modules["elsewhere"]


def test_the_order_of_a_problems_fields_counts(store):
    # kernels read fields by name and need not import the file of the class
    entries = set()
    for fields in ("low high", "high low"):
        cls = namedtuple("Range", fields, module=__name__)
        sig = (numba.typeof(cls(1.0, 2.0)),)
        entries.add(DiskCache(_take, store)._entry(sig, _fresh(store).targetctx.codegen()))
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
    add = _fresh(store, _add)

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

    codegen, keys = _fresh(store).targetctx.codegen(), set()
    for scale in (2.0, 3.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        keys.add(DiskCache(viterbi.py_func, store)._entry((numba.typeof(Shape(1.0)),), codegen))
    assert len(keys) == 2


def test_every_kernel_of_the_package_is_kept():
    own = [d.py_func for d in compiled_kernels() if d.py_func.__module__.startswith("skstruct.")]
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
    dispatcher = numba.njit(_add)
    assert not cache_on_disk(dispatcher, store)
    assert dispatcher(1, 2) == 3


# Folders


def test_the_first_folder_that_can_be_written_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    a_file = tmp_path / "file"
    a_file.write_text("")
    name = f"skstruct-{FINGERPRINT}"
    assert open_store(FINGERPRINT, tmp_path / "p", tmp_path / "c").writable == tmp_path / "c" / name
    assert (
        open_store(FINGERPRINT, tmp_path / "p", a_file).writable
        == tmp_path / "p" / "__pycache__" / name
    )
    assert (
        open_store(FINGERPRINT, a_file, a_file / "below").writable
        == tmp_path / "xdg" / "skstruct" / name
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(a_file))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    private = open_store(FINGERPRINT, a_file).writable
    assert private.name == name
    assert private.parent.parent == tmp_path
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700 or os.name == "nt"


def test_no_folder_at_all_is_no_error(tmp_path, monkeypatch, caplog):
    a_file = tmp_path / "file"
    a_file.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(a_file))

    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    store = open_store(FINGERPRINT, a_file)
    assert "set NUMBA_CACHE_DIR" in caplog.text
    assert store.writable is None
    store.write("name", b"content")
    assert store.read("name") is None
    assert numba.njit(_add)(1, 2) == 3
    assert not cache_on_disk(numba.njit(_add), store)


@pytest.mark.parametrize(
    ("xdg", "home", "expected"),
    [
        ("/x", "/home/a", "/x/skstruct"),
        ("relative", "/home/a", "/home/a/.cache/skstruct"),
        ("", "/home/a", "/home/a/.cache/skstruct"),
        ("", "", None),
    ],
)
def test_the_users_folder(monkeypatch, tmp_path, xdg, home, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(os.path, "expanduser", lambda path: home or path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    *others, private = cache._user_folders()
    assert others == ([] if expected is None else [Path(expected)])
    assert private.parent == tmp_path


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_can_write_is_not_touched(tmp_path, mode):
    planted = tmp_path / "chosen" / f"skstruct-{FINGERPRINT}"
    planted.mkdir(parents=True)
    planted.chmod(mode)
    store = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    assert planted not in [folder for folder, _ in store.readable]
    assert store.writable.parent == tmp_path / "package" / "__pycache__"


@posix
def test_links_are_not_followed(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen" / f"skstruct-{FINGERPRINT}").symlink_to(target)
    store = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    assert store.writable.parent == tmp_path / "package" / "__pycache__"
    (tmp_path / f"skstruct-cache-{os.geteuid()}").symlink_to(target)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert all(folder.parent != tmp_path for folder in cache._user_folders())
    assert list(target.iterdir()) == []


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
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_read(store, make):
    make(store.writable / "entry")
    if make is os.mkfifo:  # whose other end nobody writes: a plain open waits forever
        (store.writable / "entry").chmod(0o600)
    found = []
    thread = threading.Thread(target=lambda: found.append(store.read("entry")), daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert found == [None]


def test_a_chosen_folder_may_start_at_home_and_a_blank_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for chosen, parent in (("~/x", tmp_path / "x"), (" ", tmp_path / "package" / "__pycache__")):
        store = open_store(FINGERPRINT, tmp_path / "package", chosen)
        assert store.writable.parent == parent


@as_root
def test_other_users_folders_and_files_are_not_read(tmp_path, monkeypatch):
    store = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    store.write("entry", b"content")
    os.chown(store.writable / "entry", STRANGER, STRANGER)
    assert store.read("entry") is None
    os.chown(store.writable / "entry", 0, 0)
    os.chown(store.writable, STRANGER, STRANGER)
    again = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    assert again.writable.parent == tmp_path / "package" / "__pycache__"
    assert again.read("entry") is None
    planted = tmp_path / "skstruct-cache-0"
    planted.mkdir(mode=0o700)
    os.chown(planted, STRANGER, STRANGER)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert planted not in list(cache._user_folders())


def test_what_cannot_be_written_is_read_all_the_same(tmp_path, monkeypatch):
    prepared = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    prepared.write("entry", b"content")
    monkeypatch.setattr(cache, "_is_writable", lambda folder: folder != prepared.writable)
    store = open_store(FINGERPRINT, tmp_path / "package", tmp_path / "chosen")
    assert store.writable.parent == tmp_path / "package" / "__pycache__"
    assert store.read("entry") == b"content"
    # a damaged entry there hides no good one here
    store.write("entry", b"new")
    (prepared.writable / "entry").write_bytes(b"damaged")
    assert store.read("entry") == b"new"
    assert Store([], None).read("entry") is None


def test_folders_of_old_versions_are_deleted_when_a_new_one_is_made(tmp_path):
    def age(folder, days):
        then = time.time() - days * 86400
        os.utime(folder, (then, then))

    old = open_store("1" * 16, tmp_path, tmp_path).writable
    (old / "entry").write_bytes(b"1")
    recent = open_store("2" * 16, tmp_path, tmp_path).writable
    others = [tmp_path / name for name in ("skstruct-mine", "numba", f"x-skstruct-{'3' * 16}")]
    for folder in others:
        folder.mkdir()
    (tmp_path / f"skstruct-{'4' * 16}").write_text("a file")
    for folder in [old, recent, *others, tmp_path / f"skstruct-{'4' * 16}"]:
        age(folder, 40)
    age(recent, 3)
    # a process that uses a folder says so
    assert open_store("2" * 16, tmp_path, tmp_path).writable == recent
    assert recent.stat().st_mtime > time.time() - 3600
    assert old.exists()
    open_store("5" * 16, tmp_path, tmp_path)
    assert not old.exists()
    assert recent.exists()
    assert all(folder.exists() for folder in others)
    assert (tmp_path / f"skstruct-{'4' * 16}").exists()


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
from skstruct.core.dispatch import kernel
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
    out, errors = _output(_python(CORE_ALONE + _INTERRUPTED))
    assert out == ["interrupted", "1.5", "1"]
    assert "ignored" not in errors


# Other processes

_SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from {package}.area import Square, area
from skstruct.core.dispatch import cache_folder
shapes = [Square(3.0), Square(3), Square(np.float32(3))][::{step}]
print(sum(area(s) for s in shapes), sum(area.stats.cache_misses.values()), cache_folder())
"""


def _python(code, command=(), **environment):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.Popen(
        [*command, sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/" if os.name == "posix" else None,
    )


def _output(process):
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out.split(), errors


@pytest.mark.slow
def test_foreign_kernels_are_found_again_and_never_stale(foreign, tmp_path):
    code = CORE_ALONE + _SCRIPT.format(folder=str(foreign.parent), package=foreign.name, step=1)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        area, misses, _ = _output(_python(code, **environment))[0]
        return float(area), int(misses)

    # two processes at once, one taking the types in another order, into an empty cache
    backwards = CORE_ALONE + _SCRIPT.format(
        folder=str(foreign.parent), package=foreign.name, step=-1
    )
    both = [_python(text, **environment) for text in (code, backwards)]
    assert [float(_output(process)[0][0]) for process in both] == [27.0, 27.0]
    assert run() == (27.0, 0)
    (foreign / "more.py").write_text("FACTOR = 4.0\n")
    assert run() == (54.0, 3)
    assert run() == (54.0, 0)
    (foreign / "consts.py").write_text("HALF = 1.0\n")
    assert run() == (108.0, 3)


_FOLDER = "from skstruct.core.dispatch import cache_folder; print(cache_folder())"


@pytest.fixture
def stranger():
    """Runs code as a user without a name or a home, who can read all and write only his own."""
    capabilities = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
    identity = f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"
    command = ("setpriv", *identity, *capabilities)
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv")
    trial = _python("import numpy", command)
    trial.communicate()
    if trial.returncode:
        pytest.skip("another user cannot run this Python here")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        yield (
            Path(folder),
            lambda first="", **env: _output(
                _python(first + _FOLDER, command, **{"HOME": None, "NUMBA_CACHE_DIR": None, **env})
            ),
        )


@pytest.mark.slow
@as_root
def test_import_without_a_home(stranger):
    folder, run = stranger
    (path,), errors = run("import skstruct\n", TMPDIR=str(folder), XDG_CACHE_HOME=None)
    assert Path(path).parent == folder / f"skstruct-cache-{STRANGER}"
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    assert Path(path).stat().st_uid == STRANGER
    assert errors == ""
    (path,), _ = run(CORE_ALONE, TMPDIR=str(folder), XDG_CACHE_HOME=str(folder / "xdg"))
    assert Path(path).parent == folder / "xdg" / "skstruct"
    for chosen in (str(PACKAGE), str(PACKAGE / "__init__.py")):  # read-only, and a file
        (path,), _ = run(CORE_ALONE, TMPDIR=str(folder), NUMBA_CACHE_DIR=chosen)
        assert Path(path).name == cache_folder().name
        assert Path(path).parent == folder / f"skstruct-cache-{STRANGER}"


@pytest.mark.slow
@as_root
def test_a_planted_folder_is_left_alone_and_the_import_succeeds(stranger):
    folder, run = stranger
    planted = folder / f"skstruct-cache-{STRANGER}"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    os.chown(planted, STRANGER + 1, STRANGER + 1)
    (path,), errors = run("import skstruct\n", TMPDIR=str(folder), XDG_CACHE_HOME=None)
    assert path == "None"
    assert "set NUMBA_CACHE_DIR" in errors
    assert list(planted.iterdir()) == []


@pytest.mark.slow
def test_an_installation_without_sources(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "skstruct", ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(tmp_path / "skstruct", quiet=1, legacy=True)
    for path in (tmp_path / "skstruct").rglob("*.py"):
        path.unlink()
    code = """
import skstruct, numpy as np
from skstruct.core.dispatch import cache_folder
from skstruct.inference.numerics import row_max
assert row_max(np.arange(3.0), 0, 3) == 2.0
print(skstruct.__file__, cache_folder(), sum(row_max.stats.cache_misses.values()))
"""
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": None}
    for expected in ("1", "0"):
        (file, folder, misses), _ = _output(_python(code, **environment))
        assert file == str(tmp_path / "skstruct" / "__init__.pyc")
        assert Path(folder).parent == tmp_path / "skstruct" / "__pycache__"
        assert misses == expected


_PLAIN = """
import warnings
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from skstruct import SAGCRF, BCFWSSVM
from skstruct.core.dispatch import cache_folder, compiled_kernels
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
    (folder, n_kernels, *numbers), _ = _output(_python(_PLAIN, NUMBA_DISABLE_JIT="1"))
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

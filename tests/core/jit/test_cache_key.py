"""The key of the compile cache holds every source that a kernel is made of."""

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import pytest

from skstruct.core.jit import cache_key
from skstruct.core.jit.dispatch import cache_folder, compiled_kernels, generic, inner_kernel, kernel
from skstruct.inference.viterbi import viterbi
from tests.helpers.cache_cases import PACKAGE, output_of, run_python
from tests.helpers.core_alone import CORE_ALONE

# Which sources are in the key


def _imports_by_ast(path, package):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
        found = cache_key.imports(path.read_text(encoding="utf-8"), package)
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
    assert cache_key.imports(text, "p.q") >= expected
    assert bool(cache_key.imports(text, "p.q")) == bool(expected)


def _dispatchers():
    yield from compiled_kernels()
    for name, module in list(sys.modules.items()):
        if name.startswith("skstruct"):
            yield from (v for v in vars(module).values() if hasattr(v, "py_func"))


def test_every_kernel_of_the_package_and_all_it_imports_are_in_the_key():
    counted = set(cache_key.kernel_sources())
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
    assert counted.isdisjoint(
        {"estimators/crf.py", "estimators/base.py", "core/versions.py", "solvers/hybrid.py"}
    )


def test_the_fingerprint_covers_contents_names_and_versions():
    contents = cache_key.kernel_sources()
    fingerprint = cache_key.digest(contents, "1")
    assert cache_key.digest(contents, "1") == fingerprint
    assert cache_key.digest(contents, "2") != fingerprint
    for name in contents:
        assert cache_key.digest(contents | {name: contents[name] + b" "}, "1") != fingerprint
    renamed = {f"x/{name}": content for name, content in contents.items()}
    assert cache_key.digest(renamed, "1") != fingerprint
    assert cache_folder().name.startswith("skstruct-")


_STRUCTURE = """
from typing import NamedTuple
from skstruct.core.jit.dispatch import inner_kernel, kernel
from {package}.helpers import twice
from {package} import consts

class Square(NamedTuple):
    side: float

@kernel
def area(shape):
    return twice(shape.side) * consts.HALF * shape.side
"""
_HELPERS = """
from skstruct.core.jit.dispatch import inner_kernel
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
        cache_key._read_files.pop(module, None)


def test_helpers_of_foreign_kernels_are_in_the_key(foreign):
    module = importlib.import_module(f"{foreign.name}.area")
    importlib.import_module(f"{foreign.name}.plots")
    own, function = viterbi.py_func, module.area.py_func

    def keys():
        return (
            cache_key.foreign_digest(function, [module.Square]),
            cache_key.foreign_digest(own, [module.Square]),
        )

    assert cache_key.foreign_digest(own, []) == ""
    before = keys()
    assert all(before)
    assert keys() == before
    for edited in ("area.py", "helpers.py", "consts.py", "more.py"):
        (foreign / edited).write_text((foreign / edited).read_text(encoding="utf-8") + "# edited\n")
        # this process still runs the old text
        assert keys() == before
        cache_key.note_kernel(function)
        assert all(new != old for new, old in zip(keys(), before, strict=True)), edited
        before = keys()
    (foreign / "plots.py").write_text("COLOR = 2\n")
    cache_key.note_kernel(function)
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
        "from skstruct.core.jit.dispatch import kernel\n"
        "@kernel\ndef half(x):\n    return 0.5 * x\n"
    )
    for name in ("beside", "installed"):
        files[name].write_text("x = 1\n")
    for folder in (tmp_path, installed):
        monkeypatch.syspath_prepend(folder)
    function = importlib.import_module("a_script").half.py_func
    try:
        before = cache_key.foreign_digest(function, [])
        for name, counts in (("installed", False), ("beside", True), ("a_script", True)):
            files[name].write_text(files[name].read_text(encoding="utf-8") + "# edited\n")
            cache_key.note_kernel(function)
            assert (cache_key.foreign_digest(function, []) != before) == counts, name
            before = cache_key.foreign_digest(function, [])
        assert cache_key._related("a_script") == {"a_script", "beside"}
    finally:
        for name in files:
            del sys.modules[name]
            cache_key._read_files.pop(name, None)


def test_a_kernel_registered_from_elsewhere_counts_for_its_problem(foreign):
    @generic
    def size(shape):
        """The size of a shape."""

    class Shape(NamedTuple):
        side: float

    module = importlib.import_module(f"{foreign.name}.area")
    before = cache_key.foreign_digest(viterbi.py_func, [Shape])
    size.register(Shape)(module.area)
    assert cache_key.foreign_digest(viterbi.py_func, [Shape]) != before


def test_code_in_no_file_is_not_kept():
    namespace = {"__name__": "no_such_module", "kernel": kernel}
    exec("@kernel\ndef half(x):\n    return 0.5 * x\n", namespace)
    assert namespace["half"](3.0) == 1.5
    assert cache_key.foreign_digest(namespace["half"].py_func, []) is None


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


# Other processes

_SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from {package}.area import Square, area
from skstruct.core.jit.dispatch import cache_folder
shapes = [Square(3.0), Square(3), Square(np.float32(3))][::{step}]
print(sum(area(s) for s in shapes), sum(area.stats.cache_misses.values()), cache_folder())
"""


@pytest.mark.slow
def test_foreign_kernels_are_found_again_and_never_stale(foreign, tmp_path):
    code = CORE_ALONE + _SCRIPT.format(folder=str(foreign.parent), package=foreign.name, step=1)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        area, misses, _ = output_of(run_python(code, **environment))[0]
        return float(area), int(misses)

    # two processes at once, one taking the types in another order, into an empty cache
    backwards = CORE_ALONE + _SCRIPT.format(
        folder=str(foreign.parent), package=foreign.name, step=-1
    )
    both = [run_python(text, **environment) for text in (code, backwards)]
    assert [float(output_of(process)[0][0]) for process in both] == [27.0, 27.0]
    assert run() == (27.0, 0)
    (foreign / "more.py").write_text("FACTOR = 4.0\n")
    assert run() == (54.0, 3)
    assert run() == (54.0, 0)
    (foreign / "consts.py").write_text("HALF = 1.0\n")
    assert run() == (108.0, 3)

"""The key of the compile cache holds every source that a kernel is made of."""

import ast
import importlib
import importlib.util
import pkgutil
import shutil
import sys
import time
from types import ModuleType
from typing import NamedTuple

import numba
import pytest

from skstruct.core.features import DenseFeatures
from skstruct.core.jit import cache_key
from skstruct.core.jit.dispatch import generic
from skstruct.core.jit.kernels import compiled_kernels, inner_kernel, kernel
from skstruct.core.oracles import max_oracle
from skstruct.graphs import NodeSpace
from skstruct.inference.viterbi import viterbi
from skstruct.solvers.passes import _decode as decode
from skstruct.solvers.sag_kernels import sag_epoch
from skstruct.spaces.boxes import BoxesSpace
from skstruct.spaces.chain import ChainSpace
from tests.helpers.cache_cases import PACKAGE, output_of, run_python
from tests.helpers.core_alone import CORE_ALONE


class Shape(NamedTuple):
    side: float


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


def _home(value):
    """The module that holds what a kernel refers to."""
    if isinstance(value, ModuleType):
        return value.__name__
    return getattr(getattr(value, "py_func", value), "__module__", None)


def _load_all():
    for _, name, _ in pkgutil.walk_packages([PACKAGE], "skstruct."):
        if name != "skstruct.__main__" and "torch" not in name:
            importlib.import_module(name)


@pytest.mark.slow
def test_what_kernels_refer_to_is_in_their_keys():
    _load_all()
    made = {dispatcher.py_func for dispatcher in compiled_kernels()}
    for name in cache_key.own_files():
        values = vars(sys.modules.get(name, cache_key)).values()
        made |= {value.py_func for value in values if hasattr(value, "py_func")}
    made = {function for function in made if (function.__module__ or "").startswith("skstruct.")}
    assert len(made) > 500
    files = cache_key.own_files()
    for function in made:
        modules, _ = cache_key.closure([function.__module__])
        # constants, which do not say where they come from
        own = files[function.__module__]
        for module, item in _imports_by_ast(own, _package_of(own)):
            if files.get(module, own).name != "__init__.py":
                assert {f"{module}.{item}", module} & modules or module not in files, function
        for code in cache_key._codes(function.__code__):
            found = function.__globals__
            homes = {_home(found[item]) or "" for item in code.co_names if item in found}
            homes = {home for home in homes if home.startswith("skstruct")}
            assert homes <= modules, function


def test_kernels_that_are_registered_are_in_the_key_of_the_verb_on_the_class():
    _load_all()
    verbs = {
        id(value): value
        for name in cache_key.own_files()
        for value in vars(sys.modules.get(name, cache_key)).values()
        if hasattr(value, "registry") and hasattr(value, "supports")
    }
    n = 0
    for verb in verbs.values():
        for cls, dispatcher in verb.registry.items():
            start = {cls.__module__, verb.__module__}
            if all(module.startswith("skstruct.") or cls is object for module in start):
                function = dispatcher.py_func
                assert function.__module__ in cache_key.closure(start)[0], (verb.__name__, cls)
                n += 1
    assert n > 150


def test_an_edit_counts_where_it_can_matter():
    def modules(function, *classes):
        return cache_key.closure([part.__module__ for part in (function.py_func, *classes)])[0]

    of_chains = modules(sag_epoch, ChainSpace, DenseFeatures)
    of_boxes = modules(decode, BoxesSpace)
    common = {"skstruct.core.oracles", "skstruct.core.jit.dispatch", "skstruct.core.weights"}
    assert common <= of_chains & of_boxes
    parts = "skstruct.rows", "skstruct.spaces", "skstruct.targets"
    assert not [name for name in modules(sag_epoch) if name.startswith(parts)]
    assert {"skstruct.spaces.chain", "skstruct.inference.viterbi"} <= of_chains - of_boxes
    assert {"skstruct.spaces.boxes", "skstruct.inference.subwindow"} <= of_boxes - of_chains
    everything = of_chains | of_boxes
    outside = "skstruct.estimators", "skstruct.graphs"
    assert not [name for name in everything if name.startswith(outside)]
    assert "skstruct" not in everything


def test_the_digest_covers_contents_and_names(monkeypatch):
    modules, _ = cache_key.closure(["skstruct.inference.viterbi"])
    assert len(modules) > 5
    before = cache_key.digest(modules)
    assert before == cache_key.digest(modules)
    for name in modules:
        source = cache_key._sources[name]
        monkeypatch.setitem(cache_key._sources, name, source._replace(digest=b"another"))
        assert cache_key.digest(modules) != before, name
        monkeypatch.setitem(cache_key._sources, name, source._replace(digest=None))
        assert cache_key.digest(modules) is None
        monkeypatch.setitem(cache_key._sources, name, source)
        assert cache_key.digest(modules - {name}) != before


def test_a_file_of_the_package_that_is_edited_while_the_process_runs_is_not_trusted(monkeypatch):
    name = "skstruct.inference.viterbi"
    for started, is_known in ((time.time(), True), (0.0, False)):
        monkeypatch.setattr(cache_key, "_STARTED", started)
        monkeypatch.delitem(cache_key._sources, name, raising=False)
        assert (cache_key.made_of(viterbi.py_func, []) is not None) == is_known
    monkeypatch.delitem(cache_key._sources, name)


_STRUCTURE = """
from typing import NamedTuple
from skstruct.core.jit.kernels import inner_kernel, kernel
from {package}.helpers import twice
from {package} import consts

class Square(NamedTuple):
    side: float

@kernel
def area(shape):
    return twice(shape.side) * consts.HALF * shape.side
"""
_HELPERS = """
from skstruct.core.jit.kernels import inner_kernel
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
        cache_key._sources.pop(module, None)


def _sources(function, *classes):
    made = cache_key.made_of(function, classes)
    return made and made[0]


def test_helpers_of_foreign_kernels_are_in_the_key(foreign):
    module = importlib.import_module(f"{foreign.name}.area")
    importlib.import_module(f"{foreign.name}.plots")
    function, square = module.area.py_func, module.Square

    def keys():
        return _sources(function, square), _sources(viterbi.py_func, square)

    before = keys()
    assert all(before)
    assert _sources(viterbi.py_func) not in before
    for edited in ("area", "helpers", "consts", "more"):
        path = foreign / f"{edited}.py"
        path.write_text(path.read_text(encoding="utf-8") + "# edited\n")
        # this process still runs the old text
        cache_key.note_kernel(function)
        assert keys() == before
        importlib.reload(sys.modules[f"{foreign.name}.{edited}"])
        assert all(new != old for new, old in zip(keys(), before, strict=True)), edited
        before = keys()
    (foreign / "plots.py").write_text("COLOR = 2\n")
    importlib.reload(sys.modules[f"{foreign.name}.plots"])
    assert keys() == before


def test_a_foreign_module_depends_on_what_it_asks_this_package_for(foreign):
    (foreign / "more.py").write_text("from skstruct import Chain\nFACTOR = 2.0\n")
    importlib.import_module(f"{foreign.name}.area")
    modules, _ = cache_key.closure([f"{foreign.name}.area"])
    assert "skstruct.graphs.chain" in modules
    assert "skstruct.graphs.boxes" not in modules
    (foreign / "more.py").write_text("import skstruct\nFACTOR = 2.0\n")
    importlib.reload(sys.modules[f"{foreign.name}.more"])
    modules, _ = cache_key.closure([f"{foreign.name}.area"])
    assert {"skstruct.graphs.boxes", "skstruct.estimators.crf"} <= modules


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
        "from skstruct.core.jit.kernels import kernel\n"
        "@kernel\ndef half(x):\n    return 0.5 * x\n"
    )
    for name in ("beside", "installed"):
        files[name].write_text("x = 1\n")
    for folder in (tmp_path, installed):
        monkeypatch.syspath_prepend(folder)
    function = importlib.import_module("a_script").half.py_func
    try:
        before = _sources(function)
        for name, counts in (("installed", False), ("beside", True), ("a_script", True)):
            files[name].write_text(files[name].read_text(encoding="utf-8") + "# edited\n")
            importlib.reload(sys.modules[name])
            assert (_sources(function) != before) == counts, name
            before = _sources(function)
        modules, _ = cache_key.closure(["a_script"])
        assert {name for name in modules if cache_key.is_foreign(name)} == {"a_script", "beside"}
    finally:
        for name in files:
            del sys.modules[name]
            cache_key._sources.pop(name, None)


_OF_NO_MODULE = """
class S(NodeSpace):
    pass
@max_oracle.register(S)
@kernel
def _(space, i, theta, labels):
    return 0.0
"""


def test_classes_without_a_module_count_for_nobody_else():
    before = _sources(viterbi.py_func)
    assert before is not None
    space = {"NodeSpace": NodeSpace, "max_oracle": max_oracle, "kernel": kernel}
    exec(_OF_NO_MODULE, space)
    assert space["S"].__module__ == "builtins"
    assert _sources(viterbi.py_func) == before


_HELPER = """
import numba
@numba.extending.register_jitable
def plus(x):
    return x + {step}
@numba.vectorize(["float64(float64)"])
def uplus(x):
    return x + {step}
"""


def test_functions_of_users_count_wherever_they_lie(tmp_path, monkeypatch):
    path = tmp_path / "a_helper.py"
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for step in (1.0, 100.0, 1.0):
        path.write_text(_HELPER.format(step=step))
        importlib.invalidate_caches()
        helper = importlib.import_module("a_helper")
        for name in ("plus", "uplus"):
            space = {"f": getattr(helper, name), "__name__": __name__}
            exec("def calls(x):\n    return f(x)\n", space)
            found.append(cache_key.frozen_values([space["calls"]]))
        del sys.modules["a_helper"]
        cache_key._sources.pop("a_helper", None)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    assert None not in found
    assert found[:2] == found[4:]
    assert found[0] != found[2]
    assert found[1] != found[3]


def test_a_script_of_a_package_counts_with_its_relative_imports(foreign, monkeypatch):
    # as `python -m package.area` runs it
    importlib.import_module(f"{foreign.name}.helpers")
    (foreign / "area.py").write_text("from .helpers import twice\n")
    main = ModuleType("a_main")
    main.__package__, main.__file__ = foreign.name, str(foreign / "area.py")
    monkeypatch.setitem(sys.modules, "a_main", main)
    try:
        modules, _ = cache_key.closure(["a_main"])
        assert {f"{foreign.name}.helpers", f"{foreign.name}.more"} <= modules
    finally:
        cache_key._sources.pop("a_main")


def test_a_kernel_registered_from_elsewhere_counts_for_its_problem(foreign):
    @generic
    def size(shape):
        """The size of a shape."""

    module = importlib.import_module(f"{foreign.name}.area")

    # a class that this file defines, and that a kernel may make without taking one
    before = _sources(viterbi.py_func, Shape), _sources(module.area.py_func, module.Square)
    size.register(Shape)(module.area)
    try:
        after = _sources(viterbi.py_func, Shape), _sources(module.area.py_func, module.Square)
        assert (after[0] != before[0], after[1] == before[1]) == (True, True)
        modules, kernels = cache_key.closure([Shape.__module__])
        assert f"{foreign.name}.helpers" in modules
        assert kernels == [module.area.py_func]
    finally:
        cache_key._problem_kernels.pop(Shape)


def test_code_in_no_file_is_not_kept():
    namespace = {"__name__": "no_such_module", "kernel": kernel}
    exec("@kernel\ndef half(x):\n    return 0.5 * x\n", namespace)
    assert namespace["half"](3.0) == 1.5
    assert cache_key.made_of(namespace["half"].py_func, []) is None


def test_only_kernels_are_registered():
    """A verb compiles them from their Python functions: it would drop other flags."""

    class Shape(NamedTuple):
        side: float

    @generic
    def size(shape):
        """The size of a shape."""

    @inner_kernel(inline=True)
    def inlined(shape):
        return shape.side

    for function in (inlined, numba.njit(lambda shape: shape.side), lambda shape: shape.side):
        with pytest.raises(TypeError, match=r"a kernel of size must be made by @kernel$"):
            size.register(Shape)(function)
    assert not size.supports(Shape)


# Other processes

_SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from {package}.area import Square, area
from skstruct.core.jit.kernels import cache_folder
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


_REGISTERED = {
    "shapes.py": """
from typing import NamedTuple
from skstruct.core.jit.dispatch import generic

class Square(NamedTuple):
    side: float

@generic
def size(shape):
    "The size of a shape."
""",
    "sizes.py": """
from skstruct.core.jit.kernels import kernel
from .shapes import Square, size

@size.register(Square)
@kernel
def _(shape):
    return 1.0 * shape.side
""",
    "uses.py": """
from skstruct.core.jit.kernels import kernel
from .shapes import Square, size

@kernel
def twice(side):
    return 2.0 * size(Square(side))
""",
}
_USE = """
import sys
sys.path.insert(0, {folder!r})
import {package}.sizes
from {package}.uses import twice
print(twice(3.0), sum(twice.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_a_kernel_that_neither_caller_nor_problem_imports_is_never_stale(tmp_path):
    folder = tmp_path / "structures"
    folder.mkdir()
    for name, text in {"__init__.py": "", **_REGISTERED}.items():
        (folder / name).write_text(text)
    code = CORE_ALONE + _USE.format(folder=str(tmp_path), package="structures")

    def run():
        return output_of(run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")))[0]

    assert run() == ["6.0", "1"]
    assert run() == ["6.0", "0"]
    path = folder / "sizes.py"
    path.write_text(path.read_text().replace("1.0 *", "5.0 *"))
    assert run() == ["30.0", "1"]


_OWN = """
import numpy as np
from skstruct.core.features import DenseFeatures
from skstruct.core.jit.cache_key import made_of
from skstruct.inference.numerics import row_max
from skstruct.solvers.passes import _decode as decode
from skstruct.solvers.sag import sag_epoch
from skstruct.spaces.boxes import BoxesSpace
from skstruct.spaces.chain import ChainSpace
row_max(np.arange(3.0), 0, 3)
print(sum(row_max.stats.cache_misses.values()))
print(made_of(sag_epoch.py_func, [ChainSpace, DenseFeatures])[0])
print(made_of(decode.py_func, [BoxesSpace])[0])
"""


@pytest.mark.slow
def test_an_edit_of_a_structure_compiles_that_structure_only(tmp_path):
    package = tmp_path / "skstruct"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def run():
        environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        return output_of(run_python(_OWN, **environment))[0]

    def edit(path):
        (package / path).write_text((package / path).read_text(encoding="utf-8") + "# edited\n")

    _, chains, boxes = run()
    edit("spaces/boxes.py")
    misses, chains_now, boxes_now = run()
    assert (misses, chains_now == chains, boxes_now == boxes) == ("0", True, False)
    edit("spaces/forest.py")
    edit("solvers/bcfw/kernels.py")
    assert run() == ["0", chains, boxes_now]
    edit("inference/numerics.py")  # which boxes do not use
    misses, chains_now, boxes = run()
    assert (misses, chains_now == chains, boxes == boxes_now) == ("1", False, True)
    edit("core/oracles.py")
    _, *rest = run()
    assert not {chains_now, boxes} & {*rest}

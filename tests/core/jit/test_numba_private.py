"""What this package uses of numba's insides, so that a numba without it is named here.

A row says where something is and what it is for. Without it nothing breaks, but something gets
slower (see :mod:`skstruct.core.jit.numba_private`), which no other test would tell.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numba
import pytest

import skstruct
from skstruct.core.jit import numba_private
from tests.helpers.core_alone import CORE_ALONE

PACKAGE = Path(skstruct.__file__).parent
# Extensions of numba, which kernels do without where it cannot be imported.
PRIVATE = [
    PACKAGE / "core" / "jit" / f"{name}.py"
    for name in ("numba_private", "compiling", "passes", "table")
]

# Modules of numba that are documented for extensions.
PUBLIC = {"numba", "numba.extending", "numba.types"}


class Mixed(NamedTuple):
    number: int
    share: float


Even = namedtuple("Even", ["first", "second"])

_dispatcher = numba.njit(lambda x: x + 1)

#: Objects whose attributes rows name.
OBJECTS = {
    "a dispatcher": _dispatcher,
    "a target": _dispatcher.targetctx,
    "a typing context": _dispatcher.typingctx,
    "a code generator": _dispatcher.targetctx.codegen(),
    "the type of a NamedTuple": numba.typeof(Mixed(1, 0.5)),
    "the type of a NamedTuple of one type": numba.typeof(Even(1, 2)),
}

_LIBRARY = "compile time: no machine code of inner kernels"

_TYPES = "compile time: type inference"

#: Module or object, attribute, what it is for.
INTERNALS = [
    ("numba.core.codegen", "JITCodeLibrary", _LIBRARY),
    ("numba.core.codegen", "JITCodeLibrary.codegen", _LIBRARY),
    ("numba.core.codegen", "JITCodeLibrary.get_pointer_to_function", f"{_LIBRARY}, and tables"),
    ("numba.core.codegen", "JITCodeLibrary._ensure_finalized", _LIBRARY),
    ("numba.core.codegen", "JITCodeLibrary._optimize_final_module", _LIBRARY),
    ("numba.core.codegen", "JITCodeLibrary._finalize_final_module", _LIBRARY),
    ("numba.core.codegen", "JITCodeLibrary._finalize_dynamic_globals", _LIBRARY),
    ("numba.core.compiler", "Compiler", _LIBRARY),
    ("numba.core.compiler", "Compiler.define_pipelines", "kernels that print are refused"),
    ("numba.core.compiler_machinery", "register_pass", _TYPES),
    ("numba.core.typed_passes", "NopythonTypeInference", _TYPES),
    ("a typing context", "resolve_function_type", _TYPES),
    ("numba.core.cpu", "CPUContext", _TYPES),
    ("numba.core.cpu", "CPUContext.get_abi_sizeof", _TYPES),
    ("numba.core.cpu", "CPUTargetOptions", "compile time"),
    ("numba.core.cpu", "CPUTargetOptions.forceinline", "fits: LLVM pastes"),
    ("numba.core.cpu", "CPUTargetOptions._nrt", "compile time: no reference counts"),
    ("numba.core.cpu", "CPUTargetOptions.no_cfunc_wrapper", "compile time"),
    ("numba.core.cpu", "CPUTargetOptions.no_cpython_wrapper", "compile time: inner kernels"),
    ("a dispatcher", "get_call_template", "compile time: constants are no types"),
    ("a dispatcher", "get_overload", "compile time: constants are no types"),
    ("numba.core.funcdesc", "PythonFunctionDescriptor.llvm_cfunc_wrapper_name", "tables"),
    ("numba.core", "cgutils", "tables: arrays are taken apart and put together"),
    ("numba.core.cgutils", "create_struct_proxy", "tables"),
    ("numba.core.cgutils", "pack_array", "tables"),
    ("numba.core.cgutils", "unpack_tuple", "tables"),
    ("numba.core.cgutils", "get_null_value", "tables"),
    ("a target", "unpack_value", "tables"),
    ("a target", "get_abi_sizeof", "tables"),
    ("numba.core.compiler", "CompileResult", "kernels kept on disk"),
    ("numba.core.compiler", "CompileResult._reduce", "kernels kept on disk"),
    ("numba.core.compiler", "CompileResult._rebuild", "kernels kept on disk"),
    ("numba.core.serialize", "NumbaPickler", "kernels kept on disk"),
    ("numba.core.serialize", "NumbaPickler.reducer_override", "kernels kept on disk: of scripts"),
    ("a dispatcher", "_cache", "kernels kept on disk"),
    ("a target", "refresh", "kernels kept on disk"),
    ("a code generator", "magic_tuple", "kernels kept on disk: which processor they are for"),
    ("numba", "config.BOUNDSCHECK", "kernels kept on disk: settings that they depend on"),
    ("numba", "config.OPT", "kernels kept on disk: settings that they depend on"),
    ("a dispatcher", "compile", "Ctrl-C, and the line about compiles"),
    ("numba.core", "event", "the line about compiles"),
    ("numba.core", "event.install_listener", "the line about compiles"),
    ("the type of a NamedTuple", "instance_class", "dispatch on the class of a problem"),
    ("the type of a NamedTuple of one type", "instance_class", "dispatch on a problem's class"),
]


@pytest.mark.parametrize(("place", "attribute", "use"), INTERNALS)
def test_this_numba_has(place, attribute, use):
    item = OBJECTS[place] if place in OBJECTS else importlib.import_module(place)
    for name in attribute.split("."):
        assert hasattr(item, name), (
            f"numba {numba.__version__} has no {attribute} in {place} any more; lost: {use}"
        )
        item = getattr(item, name)


def _imports(path):
    """Pairs of a module of numba and what a file imports from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            if node.module.split(".")[0] == "numba":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.split(".")[0] == "numba")


# Each import of an internal, with the file it is in.
IMPORTS = sorted(
    (path.stem, *pair) for path in PRIVATE for pair in _imports(path) if pair[0] not in PUBLIC
)


def test_every_import_of_an_internal_has_a_row():
    rows = {(place, attribute) for place, attribute, _ in INTERNALS}
    assert {tuple(pair) for _, *pair in IMPORTS} <= rows


def test_internals_are_imported_nowhere_else():
    elsewhere = {
        (path.relative_to(PACKAGE).as_posix(), module)
        for path in PACKAGE.rglob("*.py")
        if path not in PRIVATE
        for module, _ in _imports(path)
        if module not in PUBLIC
    }
    assert not elsewhere


# Most of the time goes to what others wrote: one process loads it and forks for each import.
_WITHOUT = """
import builtins, json, os, sys
import numba, numpy as np
plain = builtins.__import__

def child(file, module, name):
    refused = set()
    def without(asked, namespace=None, local=None, names=(), level=0):
        who = (namespace or {}).get("__name__")
        if who == f"skstruct.core.jit.{file}" and asked == module and name in (names or ()):
            refused.add(name)
            raise ImportError(f"cannot import name {name!r} from {module!r}")
        return plain(asked, namespace, local, names, level)
    builtins.__import__ = without
    from skstruct.inference.numerics import log_sum_exp
    print(file, module, name, round(log_sum_exp(np.zeros(4), 0, 4), 6), *refused, flush=True)

for k, missing in enumerate(json.loads(sys.argv[1])):
    pid = os.fork()
    if not pid:
        numba.config.CACHE_DIR = os.path.join(sys.argv[2], str(k))
        try:
            child(*missing)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_kernels_work_without_any_of_the_imports(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE + _WITHOUT, json.dumps(IMPORTS), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    expected = [[*missing, "1.386294", missing[2]] for missing in IMPORTS]
    assert lines == expected, done.stderr


def test_a_code_generator_without_a_key_compiles_all_the_same(monkeypatch):
    from skstruct.core.jit.cache import DiskCache, open_store

    class Changed:
        """A target of a numba whose code generators have no ``magic_tuple``."""

        def refresh(self):
            pass

        def codegen(self):
            return object()

    cache = DiskCache(_imports, open_store(None, Path()))
    assert cache.load_overload((), Changed()) is None


def test_variables_that_change_their_type_are_what_they_are_to_numba(monkeypatch):
    def product(n):
        digit = 0.0
        for k in range(n, n + 2):
            found = k * k  # no float holds it
            digit += found % 10
            found = 0.5
            digit += found
        return digit

    def copies(n):
        c = n
        for _ in range(3):
            c = min(c, 1.5)
            a = n
        return a, a + 2, c

    monkeypatch.setattr(numba_private, "is_foreign", lambda module: False)
    for function, n in (product, 3_037_000_490), (copies, 2**53 + 1):
        compiled = numba.njit(pipeline_class=numba_private._KernelCompiler)(function)
        found, expected = compiled(n), numba.njit(function)(n)
        assert repr(found) == repr(expected)
        assert repr(found) == repr(function(n))


def test_a_kernel_that_prints_inside_another_is_refused():
    from skstruct.core import inner_kernel, kernel

    @inner_kernel
    def loud(x):
        print(x)
        return x

    @kernel
    def calls(x):
        return loud(x)

    with pytest.raises(TypeError, match=r"loud prints, .*NUMBA_DISABLE_JIT=1"):
        calls(1.0)


_SCRIPT = """
from typing import NamedTuple
from skstruct.core import kernel
class Problem(NamedTuple):
    share: float
@kernel
def double(problem):
    return 2.0 * problem.share
{local}
for _ in range(5):
    assert double(Problem(0.5)) == 1.0
print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""

_LOCAL = """
def make():
    class Problem(NamedTuple):
        share: float
    return Problem
Problem = make()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local", "again"), [("", "1 0"), (_LOCAL, "0 1")], ids=["module", "local"]
)
def test_what_a_script_defines_is_loaded_once(local, again, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CORE_ALONE + _SCRIPT.format(local=local))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for expected in ("0 1", again):
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env=environment, check=False
        )
        assert done.stdout.strip() == expected, done.stderr

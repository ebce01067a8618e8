"""Keys of compiled code: the sources that it was made from, and the values frozen into it.

They cover the kernel's module, those of its problems' kernels, and all that these import.
"""

import dis
import hashlib
import re
import sys
import sysconfig
import time
from collections import defaultdict
from enum import Enum, EnumMeta
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import types

PACKAGE = Path(__file__).resolve().parents[2]
_NAME = __name__.partition(".")[0]
_STARTED = time.time()

# This pattern is 40 times faster than parsing syntax trees, in every process.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)


def imports(text, package):
    r"""Return the modules and names that a source text imports, anywhere in it."""
    found = set()
    # A bracket in a comment would end a list of names.
    text = re.sub(r"#.*", "", text).replace("\\\n", " ").replace(";", "\n")
    for dots, module, names, plain in _IMPORT.findall(text):
        if plain:
            found.update((part.split()[0], "") for part in plain.split(",") if part.split())
            continue
        if dots:
            above = package.split(".")
            above = above[: len(above) + 1 - len(dots)]
            module = ".".join([*above, module] if module else above)
        if "*" in names:
            found.add((module, "*"))
        found.update((module, name) for name in re.findall(r"\w+", names))
    return found


def is_foreign(module):
    """Return whether a module lies outside this package."""
    return not module or module.partition(".")[0] != _NAME


@cache
def own_files():
    """Files of this package's modules: byte code in an installation without sources."""
    for ending in (".py", ".pyc"):
        found = {}
        for path in PACKAGE.rglob(f"*{ending}"):
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            if "__pycache__" not in parts:
                found[".".join((_NAME, *parts)).removesuffix(".__init__")] = path
        if found:
            return found
    return {}


def _path(module):
    if not is_foreign(module):
        # Also if it is not loaded: the key must not depend on what a process has loaded.
        return own_files().get(module)
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


class _Source(NamedTuple):
    spec: Any  # Python makes a new one whenever it runs the module
    digest: bytes | None
    imported: set


_sources = {}


def _read(module):
    """Hash of a module's text and its imports; unknown if the running code may be older."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if module in _sources and _sources[module].spec is spec:
        return _sources[module]
    path, digest, imported = _path(module), None, set()
    if path is not None and path.is_file():
        status, content = path.stat(), path.read_bytes()
        if path.suffix == ".py":
            package = module if path.stem == "__init__" else module.rpartition(".")[0]
            package = getattr(sys.modules.get(module), "__package__", None) or package
            imported = imports(content.decode(errors="replace"), package)
        else:
            imported = {(name, "") for name in own_files()}
            if is_foreign(module):
                content = b"".join(p.read_bytes() for p in sorted(path.parent.glob("*.pyc")))
        written = max(status.st_mtime, status.st_ctime)
        if is_foreign(module) or not _STARTED < written <= time.time():
            digest = hashlib.sha256(content).digest()
    _sources[module] = _Source(spec, digest, imported)
    return _sources[module]


_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_INSTALLED = {"site-packages", "dist-packages"}


def _is_beside(name, module):
    """Return whether another module is of the package (for scripts, the folder) of `module`."""
    path = _path(name)
    if path is None:
        return False
    if name.partition(".")[0] == module.partition(".")[0]:
        return True
    own = _path(module)
    root = own.parents[min(module.count(".") + (own.stem == "__init__"), len(own.parents) - 1)]
    return path.is_relative_to(root) and not _is_installed(path)


def _is_installed(path):
    return path.is_relative_to(_STDLIB) or not _INSTALLED.isdisjoint(path.parts)


def _targets(module, name, importer):
    """Modules that ``from module import name`` leads to, through the package's ``__init__``."""
    for target in (f"{module}.{name}", module):
        if target in own_files():
            found = set()
            if (
                target == module
                and own_files()[module].name == "__init__.py"
                and name not in ("", "*")
            ):
                for pair in _read(module).imported - {(module, name)}:
                    found |= _targets(*pair, module) if pair[1] == name else set()
            return found or {target}
        if is_foreign(importer) and is_foreign(target) and _is_beside(target, importer):
            return {target}
    return set()


def closure(start):
    """`start`, all modules that they import, and foreign kernels for the problems defined there."""
    registered, kernels = defaultdict(list), []
    for cls, functions in [*_problem_kernels.items()]:
        # The module of classes that code without a module defines is builtins, as that of object.
        if cls is object or cls.__module__ != object.__module__:
            registered[cls.__module__] += functions
    seen, waiting = set(), [*start, object.__module__]
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        kernels += registered[module]
        waiting += [function.__module__ for function in registered[module]]
        if module != object.__module__:
            for pair in _read(module).imported:
                waiting += _targets(*pair, module)
    seen.discard(object.__module__)
    return seen, kernels


def digest(modules):
    """Hash of the sources of modules; None if unknown."""
    total = hashlib.sha256()
    for module in sorted(modules, key=str):
        content = _read(module).digest
        if content is None:
            return None
        total.update(f"{module}:".encode() + content)
    return total.hexdigest()


_problem_kernels = defaultdict(list)  # problem class: foreign functions registered for it


def note_kernel(function):
    """Read the files that a kernel of another package depends on, at the time they are run."""
    module = function.__module__
    if not is_foreign(module):
        return
    path = _path(module)
    text = Path(function.__code__.co_filename).resolve()
    closure([module])
    if path is None or (path.suffix == ".py" and text != path):  # of a notebook, or of exec
        _sources[module] = _sources[module]._replace(digest=None)


def note_problem(cls, function):
    """Record that a kernel was registered for the problems of a class."""
    note_kernel(function)
    if is_foreign(function.__module__):
        closure([cls.__module__])
        _problem_kernels[cls].append(function)


def problem_kernels(classes):
    """Kernels of other packages that serve the problems of `classes`, or a base of them."""
    bases = dict.fromkeys(base for cls in classes for base in cls.__mro__)
    return [function for base in bases for function in _problem_kernels.get(base, ())]


def made_of(function, classes):
    """Sources and frozen values that a kernel for `classes` depends on; None if one is unknown."""
    bases = [base for cls in classes for base in cls.__mro__ if hasattr(base, "_fields")]
    modules, kernels = closure([part.__module__ for part in (function, *bases)])
    kernels.sort(key=lambda kernel: (_name(kernel), kernel.__code__.co_firstlineno))
    sources, values = digest(modules), frozen_values([function, *kernels])
    return None if sources is None or values is None else (sources, values)


# Values that numba freezes into compiled code: constants, closures, defaults and globals.
#
# They do not follow from the sources: a global may come from the environment or change in a loop,
# and two lambdas may be on one line.

_TYPES = np.generic, np.dtype, Enum, types.Type
_PLAIN = int, float, complex, str, bytes, type(None), type(...), *_TYPES


class _UnknownValue(Exception):
    pass


def _name(value):
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value)}"


def _code(code, seen):
    return code.co_code, code.co_names, _value(code.co_consts, seen)


def _users_function(value):
    """The Python function that numba compiles, if it is a user's function or ufunc."""
    if not isinstance(value, FunctionType):
        value = getattr(value, "__wrapped__", None)
        value = getattr(value, "py_func", value)
    if not isinstance(value, FunctionType) or not is_foreign(value.__module__):
        return None
    path = _path(value.__module__)
    return None if path is None or _is_installed(path) else value


def _value(value, seen):
    """Return a description that identifies a value, the same in every process."""
    kind = _name(type(value))
    function = getattr(value, "py_func", None) or _users_function(value)
    if isinstance(function, FunctionType):
        return kind, _function(function, seen)
    if isinstance(value, CodeType):
        return _code(value, seen)
    if isinstance(value, tuple | list):
        return kind, [_value(part, seen) for part in value]
    if isinstance(value, frozenset):
        return kind, sorted(repr(_value(part, seen)) for part in value)
    if isinstance(value, slice):
        return kind, [_value(part, seen) for part in (value.start, value.stop, value.step)]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = hashlib.sha256(value.tobytes()).hexdigest()
        return kind, value.dtype.descr, value.shape, value.strides, content
    if isinstance(value, EnumMeta):
        return kind, _name(value), [(item.name, repr(item.value)) for item in value]
    if isinstance(value, _PLAIN):
        return kind, repr(value)
    if callable(value) and hasattr(value, "__name__"):
        return kind, getattr(value, "__module__", None), value.__name__
    raise _UnknownValue(kind)


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _globals(function):
    """Globals that a function reads, and the attributes that it may read of modules."""
    read, names = set(), set()
    for code in _codes(function.__code__):
        names.update(code.co_names)
        read.update(op.argval for op in dis.get_instructions(code) if op.opname == "LOAD_GLOBAL")
    spaces, visited = [("", function.__globals__, read)], {function.__module__}
    for path, space, wanted in spaces:
        for name in sorted(wanted & space.keys()):
            value = space[name]
            if not isinstance(value, ModuleType):
                yield path + name, value
            elif value.__name__ not in visited and is_foreign(value.__name__):
                visited.add(value.__name__)
                spaces.append((f"{path}{name}.", vars(value), names))


def _function(function, seen):
    if function in seen:
        return seen.index(function)
    seen.append(function)
    own = _name(function), function.__code__.co_firstlineno, _code(function.__code__, seen)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    if any(map(callable, cells)):  # their sources may lie anywhere
        raise _UnknownValue(_name(function))
    cells = _value(tuple(cells), seen)
    defaults = _value(function.__defaults__ or (), seen)
    if not is_foreign(function.__module__):  # its constants are in the package's sources
        return own, cells, defaults
    return own, cells, defaults, [(name, _value(v, seen)) for name, v in _globals(function)]


def frozen_values(functions):
    """Return the values that numba freezes into kernels and their callees, as text."""
    seen = []
    try:
        return repr([_function(function, seen) for function in functions])
    except (_UnknownValue, ValueError):  # an empty cell: the function is not complete yet
        return None

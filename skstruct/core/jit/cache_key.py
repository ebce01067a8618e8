"""Fingerprint of compiled code: hashes of the source files that its kernels come from.

Numba looks only at the file of the function that it loads, not at the files of the kernels
inlined into it. So all kernels of this package share one fingerprint, and whatever a kernel of
another package takes part in is keyed on that package's files too.
"""

import dis
import hashlib
import os
import re
import sys
import sysconfig
from collections import defaultdict
from enum import Enum, EnumMeta
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import numpy as np
from numba import types

PACKAGE = Path(__file__).resolve().parents[2]
_NAME = __name__.partition(".")[0]
_DECORATORS = {
    _NAME: {"kernel", "inner_kernel", "generic", "dispatch", "*"},
    "numba": {"njit", "jit", "overload", "intrinsic", "extending", "*"},
}

# Parsing this package's syntax trees takes 40 times as long as this pattern, at every import.
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


def _closure(start, imports_of, is_module):
    """`start` and all modules that they import, directly or not."""
    seen, waiting = set(), list(start)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for module, item in imports_of(name):
            inner = f"{module}.{item}"
            waiting += [m for m in ([inner] if is_module(inner) else [module]) if is_module(m)]
    return seen


def _files(ending):
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(ending))


def _module_name(path):
    parts = (_NAME, *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _makes_kernels(imported):
    return any(name in _DECORATORS.get(module.partition(".")[0], ()) for module, name in imported)


def kernel_sources():
    """Files of this package that compiled code can depend on.

    These are the files that define kernels, by what they import, and all that those import from
    this package. An installation without sources counts with all its byte code.
    """
    paths = {_module_name(path): path for path in _files(".py")}
    contents = {name: path.read_bytes() for name, path in paths.items()}
    if not paths:
        paths = {_module_name(path): path for path in _files(".pyc")}
        return {str(path.relative_to(PACKAGE)): path.read_bytes() for path in paths.values()}
    imported = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imported[name] = imports(contents[name].decode(errors="replace"), package)
    start = [name for name in paths if _makes_kernels(imported[name])]
    needed = _closure(start, imported.__getitem__, paths.__contains__)
    return {paths[name].relative_to(PACKAGE).as_posix(): contents[name] for name in sorted(needed)}


def digest(contents, *versions):
    """Hash of named file contents and of whatever else compiled code depends on."""
    total = hashlib.sha256(repr(versions).encode())
    for name in sorted(contents):
        total.update(f"{name}:{len(contents[name])}:".encode())
        total.update(contents[name])
    return total.hexdigest()[:16]


# Kernels of other packages. Files are read when decorators run, and only then anew: an edit while
# the process runs must not be taken for what it compiles.

_problem_kernels = defaultdict(list)  # problem class: foreign functions registered for it
_interactive = set()  # modules with kernels whose text is in no file: notebooks, exec
_read_files = {}

_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_INSTALLED = {"site-packages", "dist-packages"}


def is_foreign(module):
    """Return whether a module lies outside this package."""
    return not module or module.partition(".")[0] != _NAME


def _path(module):
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _read(module, again=False):
    """Content of a module's file and what it imports; None if there is no file."""
    if module in _read_files and not again:
        return _read_files[module]
    path = _path(module)
    if path is None or not path.is_file():
        return None
    status = path.stat()
    stamp = path, status.st_mtime_ns, status.st_size
    if _read_files.get(module, (None,))[0] != stamp:
        imported = set()
        if path.suffix == ".pyc":
            content = b"".join(other.read_bytes() for other in sorted(path.parent.glob("*.pyc")))
        else:
            content = path.read_bytes()
        if path.suffix == ".py":
            package = getattr(sys.modules[module], "__package__", None) or ""
            imported = imports(content.decode(errors="replace"), package)
        _read_files[module] = stamp, content, imported
    return _read_files[module]


def _root(module):
    """The folder that the top level of `module` lies in."""
    path = _path(module)
    depth = module.count(".") + (path.stem == "__init__")
    return path.parents[min(depth, len(path.parents) - 1)]


def _belongs(module, root, top):
    path = _path(module)
    if path is None or not is_foreign(module):
        return False
    if module.partition(".")[0] == top:
        return True
    # Scripts and packages side by side in a project; never everything that is installed.
    is_installed = path.is_relative_to(_STDLIB) or not _INSTALLED.isdisjoint(path.parts)
    return path.is_relative_to(root) and not is_installed


def _related(module, again=False):
    """`module` and what it imports from its own surroundings."""
    root, top = _root(module), module.partition(".")[0]
    return _closure(
        [module],
        lambda name: (_read(name, again) or (None, None, ()))[2],
        lambda name: _belongs(name, root, top),
    )


def note_kernel(function):
    """Read the files that a kernel of another package depends on, while they are what runs."""
    module = function.__module__
    if not is_foreign(module):
        return
    path = _path(module)
    text = Path(function.__code__.co_filename).resolve()
    if path is None or (path.suffix == ".py" and text != path):
        _interactive.add(module)
    else:
        _related(module, again=True)


def note_problem(cls, function):
    """Remember that a kernel was registered for the problems of a class."""
    note_kernel(function)
    if is_foreign(function.__module__):
        _problem_kernels[cls].append(function)


def problem_kernels(classes):
    """Kernels of other packages that serve the problems of `classes`, or a base of them."""
    bases = dict.fromkeys(base for cls in classes for base in cls.__mro__)
    return [function for base in bases for function in _problem_kernels.get(base, ())]


def foreign_digest(function, classes):
    """Hash of the foreign sources that a kernel depends on, specialised on problems of `classes`.

    Counted are the modules of the kernel, of the classes and of the kernels registered for them,
    and what these import from their own package or, for scripts, from their own folder.
    """
    named = [base for cls in classes for base in cls.__mro__ if hasattr(base, "_fields")]
    modules = {part.__module__ for part in (function, *named, *problem_kernels(classes))}
    contents = {}
    for start in filter(is_foreign, modules):
        if _read(start) is None:
            return None
        related = _related(start)
        if related & _interactive:
            return None
        contents |= {name: (_read(name) or (None, b""))[1] for name in related}
    return digest(contents) if contents else ""


# Values that numba freezes into compiled code: constants, closures, defaults and globals.
#
# The sources do not tell them: a global may come from the environment or change in a loop, and two
# lambdas may stand on one line.

_TYPES = np.generic, np.dtype, Enum, types.Type
_PLAIN = int, float, complex, str, bytes, type(None), type(...), *_TYPES


class _UnknownValue(Exception):
    pass


def _name(value):
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value)}"


def _code(code, seen):
    return code.co_code, code.co_names, _value(code.co_consts, seen)


def _value(value, seen):
    """Return a description that identifies a value, the same in every process."""
    kind = _name(type(value))
    function = getattr(value, "py_func", None)
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
    """Globals that a function reads, and what it may read of those that are modules."""
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

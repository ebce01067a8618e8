"""Values that numba freezes into compiled code: constants, closures, defaults and globals.

The sources do not tell them: a global may come from the environment or change in a loop, and two
lambdas may stand on one line.
"""

import dis
import hashlib
from enum import Enum, EnumMeta
from types import CodeType, FunctionType, ModuleType

import numpy as np
from numba import types

from .sources import is_foreign

_TYPES = np.generic, np.dtype, Enum, types.Type
_PLAIN = int, float, complex, str, bytes, type(None), type(...), *_TYPES


class _UnknownValue(Exception):
    pass


def _name(value):
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value)}"


def _code(code, seen):
    return code.co_code, code.co_names, _value(code.co_consts, seen)


def _value(value, seen):
    """What tells a value from others, the same in every process."""
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
    """What numba freezes into kernels and those that they call, beside their sources."""
    seen = []
    try:
        return repr([_function(function, seen) for function in functions])
    except (_UnknownValue, ValueError):  # an empty cell: the function is not complete yet
        return None

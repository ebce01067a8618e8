"""Kernels of solvers, which are compiled once for the problems of all structures."""

import re
import threading
from functools import cache
from inspect import signature
from types import CodeType, FunctionType, ModuleType

from numba import NumbaError, TypingError, types
from numba.extending import intrinsic

from .compiling import JIT_IS_DISABLED, timed, written
from .kernels import address_for, inner_kernel, kernel
from .signatures import in_words

try:
    from .table import FIELDS, TABLE, WORDS, Opaque, Table, alarms, leaves, loaded, made
except ImportError:  # pragma: no cover
    Table = None

#: Message about operations.
NO_TYPES = "does not declare the types of its arguments: solvers cannot call it"

_lock = threading.RLock()
#: Addresses of functions that serve all problems, by operation and kernel.
_of_all = {}
#: Addresses of others, by numba's type of what they take first.
_of_parts = {}


def solver_kernel(function):
    """Compile a kernel once for the problems of all structures.

    It may read ``part_ptr``, ``label_ptr`` and ``labels`` of its argument `problem`, and call
    operations that declare their types (:mod:`skstruct.core.oracles`). A call of one costs some
    nanoseconds, a call from Python some 40 microseconds for the table
    (:mod:`skstruct.core.jit.table`).
    """
    dispatcher = kernel(function)
    if JIT_IS_DISABLED or Table is None:
        return dispatcher
    names = tuple(signature(function).parameters)
    place, kind = names.index("problem"), type(dispatcher)

    def call(self, *args):
        problem = args[place]
        table, asked = Table(problem), (self, *map(type, args))
        if asked not in table.ready:
            classes = tuple(zip(names, asked[1:], strict=True))
            with timed(), _lock:  # another thread may compile
                _fill(table.type, operations_of(function, classes))
                table.type.finish(asked)
            table = Table(problem)
        result = kind.__call__(self, *args[:place], table, *args[place + 1 :])
        if alarms:  # kernels cannot raise
            for operation in table.missed():
                table.type.choose(operation)
                raise RuntimeError(f"{self.py_func.__name__} calls {operation.name} unforeseen")
        return result

    dispatcher.__class__ = type(kind.__name__, (kind,), {"__call__": call})
    return dispatcher


@cache
def for_python(verb):
    """A kernel that calls an operation as solvers do."""
    names = ", ".join(("problem", *verb.names[1:]))
    source = f"def {verb.__name__}({names}):\n    return verb({names})\n"
    space = {"__name__": verb.__module__, "verb": verb}
    function = written(verb.__name__, source, space, verb.contract.__code__)
    # The cache tells operations of one name and line apart by their places.
    function.__qualname__ = f"{verb.__name__}.python{verb.operation.place}"
    compiled = solver_kernel(function)

    def call(*args):
        try:
            return compiled(*args)
        except NumbaError as error:
            found = re.search(rf"{verb.__name__} takes .+", str(error))
            if found is None:
                raise
            raise TypeError(found[0]) from error

    return call


# What a kernel calls, which numba does not tell of one that was compiled in another process.


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _read(function):
    """The globals and cells that a function reads, and the attributes of those that are modules."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    waiting = [function.__globals__[name] for name in names if name in function.__globals__]
    waiting += [cell.cell_contents for cell in function.__closure__ or ()]
    seen = set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, ModuleType):
            yield value
        elif value not in seen:
            seen.add(value)
            waiting += [getattr(value, name) for name in names if hasattr(value, name)]


@cache
def operations_of(function, given):
    """Operations on problems that a kernel calls, itself or through others; False: maybe more."""
    classes, found, seen, waiting = dict(given), {}, set(), [(function, True)]
    while waiting:
        now = waiting.pop()
        if now in seen:
            continue
        seen.add(now)
        for value in _read(now[0]):
            if hasattr(value, "operation"):
                found[value.operation] = now[1] or found.get(value.operation, False)
            elif hasattr(value, "registry"):
                if value.names[0] == "problem":
                    raise TypeError(f"{value.__name__} {NO_TYPES}")
                cls = classes.get(value.names[0])
                chosen = [value.find(cls)] if cls else value.registry.values()
                waiting += ((own.py_func, now[1] and cls is not None) for own in chosen)
            elif isinstance(getattr(value, "py_func", None), FunctionType):
                waiting.append((value.py_func, now[1]))
    return found


def _fill(problems, operations, above=()):
    """Compile operations that tables of a type of problems lack, each after those that it calls."""
    for operation, is_needed in operations.items():
        if operation in above or not problems.lacks(operation):
            continue
        try:
            chosen, part = problems.choose(operation)
        except TypeError:
            if is_needed:
                raise
            continue
        if part is None and chosen in _of_all_problems(operation.verb, problems.cls):
            _fill(problems, operations_of(chosen.py_func, ()), (*above, operation))
            function = _function(operation, problems.opaque, chosen, _of_all)
            problems.fill(operation, function, TABLE)
        else:
            kind, offset = problems.part(part)
            known = _of_parts.setdefault(kind, {})
            function = _function(operation, kind, chosen, known)
            problems.fill(operation, function, FIELDS, offset)


def _of_all_problems(verb, cls):
    """Kernels that do for a problem what others do for its parts, whatever these are."""
    bases = [base for base in cls.__mro__ if base is object or "parts" in vars(base)]
    return [verb.registry[base] for base in bases if base in verb.registry]


def _function(operation, first, chosen, known):
    """The address of the function of an operation for what it takes first."""
    key = operation, chosen
    if key not in known:
        known[key] = _compile(operation, first, chosen)
    return known[key]


def _compile(operation, first, chosen):
    declared, result = operation.signature
    given, taken, kinds, name, wrong = [], [], [], operation.name, []
    space = {}
    for own, kind in zip(operation.names[1:], declared, strict=True):
        parts = leaves(kind)
        if parts == [kind]:
            names, value = [own], own
        else:
            names = [f"{own}_{k}" for k in range(len(parts))]
            space[f"make_{own}"], value = made(kind), f"make_{own}(({', '.join(names)},))"
        given.append(value)
        taken += names
        kinds += parts
    source = (
        f"def {name}(first, {', '.join(taken)}):\n"
        f"    return returned(chosen(fields(first), {', '.join(given)}))\n"
    )
    is_default, own = isinstance(first, Opaque), chosen.py_func
    space |= {
        "__name__": own.__module__,
        "chosen": inner_kernel(own, inline=True),
        "fields": loaded(first),
        "returned": _returned(result, wrong),
    }
    function = written(name, source, space, own.__code__)
    # Entries of the cache are told apart by the name.
    owner = "all problems" if is_default else first.instance_class.__name__
    function.__qualname__ = f"{name}.{owner}"
    function.verb = name
    try:
        return address_for(function, result(WORDS, *kinds), (first, *declared, result))
    except (NumbaError, TypeError):
        if not wrong:
            raise
        raise TypeError(
            f"the kernel of {name} for {owner} returns "
            f"{in_words(wrong[0])}; it must return {in_words(result)}"
        ) from None


def _returned(declared, wrong):
    """An intrinsic that checks what a kernel returns; notes another type."""

    @intrinsic
    def returned(typingctx, value):
        fits = value == types.none if declared == types.void else value != types.none
        if not fits or typingctx.can_convert(value, declared) is None:
            wrong.append(value)
            raise TypingError("another type is declared")

        def codegen(context, builder, signature, args):
            return args[0]

        return value(value), codegen

    return returned

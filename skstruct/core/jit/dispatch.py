"""Operations, which dispatch on a problem's type.

Numba picks the kernel that is registered for a class while it compiles the caller; solvers, and
calls from Python, go through a table (:mod:`skstruct.core.jit.table`) and are compiled once.
"""

import dis
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import TypingError
from numba.extending import overload

from .cache_key import is_foreign, note_problem
from .compiling import JIT_IS_DISABLED, instance_class, written
from .kernels import FLAGS, INNER, is_kernel, refuse_raise
from .signatures import Signature
from .solver_kernel import NO_TYPES, for_python

try:
    from .table import Opaque, Operation
except ImportError:  # pragma: no cover - solvers are compiled for each structure
    Opaque = Operation = None

_problem_classes = {}


def _python(dispatcher):
    return getattr(dispatcher, "py_func", dispatcher)


def _kind(problem, part):
    """The class of a part."""
    return type(getattr(problem, part))


def _tell_apart(cls):
    """Rename a class if another one, perhaps of the same cell, has its name and fields."""
    # Numba takes both for one type.
    twins = _problem_classes.setdefault((cls.__name__, getattr(cls, "_fields", None)), [])
    if cls not in twins:
        twins.append(cls)
        if len(twins) > 1:
            cls.__name__ = f"{cls.__name__}_{len(twins)}"
            _problem_classes[cls.__name__, getattr(cls, "_fields", None)] = [cls]


def _returns_nothing(function):
    """Whether every ``return`` of a function, or its end, is without a value."""
    steps = [(step.opname, step.argval) for step in dis.get_instructions(function)]
    nothing = ("LOAD_CONST", None), ("RETURN_CONST", None)  # by versions of Python
    ends = [k for k, (name, _) in enumerate(steps) if name in ("RETURN_VALUE", "RETURN_CONST")]
    return all(nothing[0] == steps[k - 1] or nothing[1] == steps[k] for k in ends)


def _check_kernel(verb, result, cls, dispatcher):
    """Raise TypeError unless a function can be a kernel of an operation for a class."""
    name, names, function = verb.__name__, verb.names, _python(dispatcher)
    own = tuple(inspect.signature(function).parameters)
    if own[1:] != names[1:] or len(own) != len(names):
        takes = ", ".join((verb.part or names[0], *names[1:]))
        raise TypeError(
            f"a kernel of {name} takes the arguments ({takes}), not ({', '.join(own)}): "
            "only the first may have another name"
        )
    if cls is not object and not hasattr(cls, "_fields"):
        raise TypeError(
            f"{name}.register takes the class of a {verb.part or 'space'}, a NamedTuple, which "
            f"{cls.__name__} is not"
        )
    has_value = result not in (inspect.Signature.empty, None)
    if has_value and is_foreign(function.__module__) and _returns_nothing(function):
        kind = getattr(result, "__name__", result)
        raise TypeError(f"a kernel of {name} must return {kind}: this one returns nothing")
    # Solvers compile its Python function, with the flags of `kernel`.
    if not JIT_IS_DISABLED and not is_kernel(dispatcher):
        raise TypeError(f"a kernel of {name} must be made by @kernel")
    refuse_raise(function)


def _check_new(name, cls, known, function, in_use):
    """Raise TypeError for a kernel that would replace another one, or one that is compiled."""
    if known is function:
        return
    before = known and known.__code__
    moved = before and before.co_firstlineno != function.__code__.co_firstlineno
    is_other = known and known.__module__ != function.__module__
    if is_other or (moved and before.co_filename == function.__code__.co_filename):
        raise TypeError(
            f"{cls.__name__} has a kernel of {name} already, of {known.__module__}, line "
            f"{before.co_firstlineno}: register another one for a subclass"
        )
    used = [] if JIT_IS_DISABLED else [kind for kind in in_use if issubclass(kind, cls)]
    if used:
        raise TypeError(
            f"{name} of {used[0].__name__} is compiled: a kernel cannot be registered any more. "
            f"Define the class {used[0].__name__} again before its kernels, in a notebook by "
            "running its cell"
        )


def _operation(verb, contract):
    """The entry of an operation in solvers' tables, if its contract declares types."""
    signature = None if JIT_IS_DISABLED or Operation is None else Signature.of(contract)
    if signature is not None:
        verb.operation = Operation(verb, verb.names, signature)
        return verb.operation
    return None


def generic(
    contract: Callable | None = None, *, part: str | None = None, follows: tuple = ()
) -> Any:
    """Make an operation that dispatches on the class of its first argument, a NamedTuple.

    A *problem*, a class with ``parts``, passes it on to the part that an operation belongs to;
    operations of the whole problem dispatch on the class of its space, then on its own.

    Parameters
    ----------
    contract : callable
        A function whose signature and docstring state what every kernel does; its body is never
        run. Where solvers are to call it, annotations declare all types but that of the first
        argument: int, float, bool, a NamedTuple or a type of :mod:`skstruct.core.jit.signatures`.
    part : {"rows", "space", "target"} or None, default=None
        The part of a problem that kernels take; None for all of it.
    follows : tuple of operations, default=()
        Operations that a kernel of this one repeats in a faster way: a subclass with other kernels
        of these does not inherit it.

    Returns
    -------
    callable
        The operation. ``register(ProblemClass)`` decorates a kernel, which also serves subclasses
        (one for ``object`` is the default); a TypeError for what would replace a kernel in use, or
        one of another module. ``supports(cls)`` returns whether there is one, ``registry`` maps
        classes to their own. It can be called from Python and inside a :func:`kernel`.

    Examples
    --------
    >>> from skstruct.core.oracles import max_oracle
    >>> from skstruct.spaces.chain import ChainSpace
    >>> max_oracle.supports(ChainSpace)
    True
    """
    if contract is None:
        return partial(generic, part=part, follows=follows)
    name = contract.__name__
    names = tuple(inspect.signature(contract).parameters)
    result = inspect.signature(contract).return_annotation
    arguments, rest = ", ".join(names), "".join(f", {other}" for other in names[1:])
    registry, in_use = {}, set()

    def find(cls):
        for base in cls.__mro__:
            if base in registry and (
                base is object or all(verb.find(cls) is verb.find(base) for verb in follows)
            ):
                return registry[base]
        known = ", ".join(sorted(c.__name__ for c in registry)) or "none"
        raise TypeError(f"{name} is not available for {cls.__name__}; it is for: {known}")

    def choose(cls, kind_of, is_used=True):
        """Kernel for a class, and the part of the problem that it takes, or None for all of it."""
        of_part = part if hasattr(cls, "parts") else None
        kind = kind_of(part or "space") if hasattr(cls, "parts") else cls
        is_own = of_part or any(base in registry for base in kind.__mro__[:-1])
        found = find(kind if is_own else cls)
        if is_used:
            in_use.update((kind, cls))
        return found, of_part

    def of_values(first):
        """What to call for a first argument, and with which: for problems what solvers call."""
        kernel, of_part = choose(type(first), partial(_kind, first))
        if operation is not None and hasattr(first, "parts"):
            return for_python(verb), first
        return kernel, first if of_part is None else getattr(first, of_part)

    source = (
        f"def {name}({arguments}):\n"
        f"    __kernel, __first = of_values({names[0]})\n"
        f"    return __kernel(__first{rest})\n"
    )
    verb = written(name, source, {"of_values": of_values})
    verb.__doc__ = contract.__doc__
    verb.__module__ = contract.__module__
    verb.registry, verb.find, verb.choose = registry, find, choose
    verb.names, verb.part, verb.contract = names, part, contract

    def supports(first):
        """Whether there is a kernel for a class, or for a problem."""
        is_class = isinstance(first, type)
        if is_class and hasattr(first, "parts"):
            raise TypeError(f"{name}.supports takes a problem, or the class of one of its parts")
        try:
            find(first) if is_class else choose(type(first), partial(_kind, first), is_used=False)
        except TypeError:
            return False
        return True

    verb.supports = supports

    def register(cls):
        def add(dispatcher):
            function = _python(dispatcher)
            _check_kernel(verb, result, cls, dispatcher)
            _check_new(name, cls, _python(registry.get(cls)), function, in_use)
            _tell_apart(cls)
            function.verb = name  # its own is mostly `_`
            registry[cls] = dispatcher
            note_problem(cls, function)
            return dispatcher

        return add

    verb.register = register

    passed_on = None if part is None else _passed_on(verb, names)
    operation = _operation(verb, contract)
    source = f"def through({arguments}):\n    return call({arguments})\n"
    space = {"call": operation and operation.call, "__name__": __name__}
    through = written("through", source, space)

    def typer(first):
        if Opaque is not None and isinstance(first, Opaque):
            if operation is None:
                raise TypingError(f"{name} {NO_TYPES}")
            return through
        cls = instance_class(first)
        if cls is None:
            return None
        kernel, of_part = choose(cls, lambda part: instance_class(first[first.fields.index(part)]))
        return _python(kernel) if of_part is None else passed_on

    source = f"def typer({arguments}):\n    return choose({names[0]})\n"
    typer = written("typer", source, {"choose": typer})
    # What kernels call needs no wrapper for Python.
    overload(verb, jit_options=INNER | FLAGS, strict=False)(typer)
    return verb


def _passed_on(verb, names):
    """Code that passes a part of a problem on to the kernel of that part."""
    name, first = f"{verb.__name__}_of_{verb.part}", names[0]
    rest = "".join(f", {other}" for other in names[1:])
    source = f"def {name}({first}{rest}):\n    return verb({first}.{verb.part}{rest})\n"
    return written(name, source, {"verb": verb, "__name__": __name__})


def require(verb, problem, advice, given=None):
    """Raise TypeError, before any compilation, if `problem` has no kernel for `verb`."""
    if verb.supports(problem):
        return
    kind = type(getattr(problem, verb.part or "space", problem))
    structure = getattr(kind, "structure", kind.__name__)
    if given is not None and not structure.startswith(given.__name__):
        structure = f"{given.__name__} ({structure})"
    remedy = getattr(kind, "remedy", "")
    if hasattr(verb, "gives"):
        lack, verb_name = f"{structure} has no {verb.gives}", f" ({verb.__name__})"
    else:
        lack, verb_name = f"{verb.__name__} is not available for {structure}", ""
    raise TypeError(f"{lack}; {advice}{remedy}{verb_name}")

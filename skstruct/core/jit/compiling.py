"""Around a compilation: hold Ctrl-C, notify users, and translate numba's error messages."""

import gc
import linecache
import os
import re
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps

import numba
from numba import types

from ..interrupts import interrupts_call
from .cache_key import is_foreign, problem_kernels

try:
    from numba.core import event
except ImportError:  # pragma: no cover
    event = None

#: numba's switch for debugging: kernels run as plain Python.
JIT_IS_DISABLED = bool(numba.config.DISABLE_JIT)

# After ten seconds without output, a user would think that the program hangs.
_COMPILING = (
    "skstruct: compiling kernels; the first use of a structure or method takes 5 to 20 "
    "seconds, later processes load them from the cache (`python -m skstruct compile` compiles in "
    "advance; SKSTRUCT_QUIET=1 silences this line)"
)
_PATIENCE = 2.0  # seconds of compiling
_has_said, _n_announcing = False, 0

# Numba's messages about functions without reference counts, and their meaning for an author.
_ADVICE = dict.fromkeys(
    ("Only accept returning of array passed", "NRT required but not enabled"),
    "a kernel neither allocates (arrays, lists, copies of slices) nor returns an array that is not "
    "one of its arguments (part of `work`, say): write into an argument or scratch, by a loop, or "
    "return a tuple",
)
_ADVICE["Untyped global name"] = (
    "a kernel calls verbs, functions made by kernel or inner_kernel, and what numba knows of NumPy"
)
# The innermost of numba's nested messages: what follows the last of these headings.
_REASON = re.compile(
    r"(?:\(step: [^)]*\)|specific error:)\s*\n\s*(?!\s|(?:\w+: )?(?:Failed in|No implem))(.+)"
)


def instance_class(numba_type):
    """Class of the NamedTuples that a numba type stands for."""
    return getattr(numba_type, "instance_class", None)


def classes_of(numba_type):
    """The NamedTuples in a type, nested ones too."""
    found = instance_class(numba_type)
    yield from [] if found is None else [found]
    for part in numba_type if isinstance(numba_type, types.BaseTuple | tuple) else ():
        yield from classes_of(part)


@contextmanager
def _held_interrupt():
    """Hold Ctrl-C until the block ends: LLVM's callbacks swallow it; a second one takes effect."""
    held = []
    try:
        with interrupts_call(lambda: held.append(True)):
            yield
    finally:
        if held:
            raise KeyboardInterrupt


@contextmanager
def _no_collections():
    """Suspend garbage collection until the block ends: it takes an eighth of compile time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Count the objects of a compilation as old: to search them now takes a twentieth of its
            # time.
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Compiling(threading.local):
    """Time that a thread has spent compiling."""

    seconds, depth = 0.0, 0


_compiling = _Compiling()


def compile_seconds():
    """Seconds that this thread has spent so far on kernels that were compiled or loaded."""
    return _compiling.seconds


def leave_out(seconds):
    """Let this thread's clock stand still for so long: it waited for another's compilation."""
    _compiling.seconds += seconds


def solving_time():
    """Seconds on a clock that stands while this thread compiles kernels, or loads them."""
    return time.perf_counter() - _compiling.seconds


@contextmanager
def timed():
    """Add the time until the block ends to this thread's; that of inner kernels is part of it."""
    began, _compiling.depth = time.perf_counter(), _compiling.depth + 1
    try:
        yield
    finally:
        _compiling.depth -= 1
        if _compiling.depth == 0:
            _compiling.seconds += time.perf_counter() - began


def hold_interrupts(dispatcher, cache=None, given=()):
    """Defer Ctrl-C and garbage collection while a dispatcher compiles or loads; time that.

    Errors name the class of a problem among the types `given`, or of arguments.
    """
    compile_plainly = dispatcher.compile

    @wraps(compile_plainly)
    def compile_held(sig):
        try:
            with timed(), _held_interrupt(), _no_collections(), _notice():
                return compile_plainly(sig)
        except numba.core.errors.NumbaError as error:
            short = _in_short(str(error), dispatcher.py_func, given or arguments_of(sig))
            if short is None:
                raise
            raise TypeError(short) from error
        finally:
            if cache is not None:
                cache.end_compile()

    dispatcher.compile = compile_held


def _in_short(text, function, arguments):
    """Numba's message about a kernel of another package, in one line; None for this package."""
    owners = [cls for cls in classes_of(arguments) if problem_kernels([cls])]
    problem = next((cls for cls in owners if hasattr(cls, "structure")), *owners[:1] or [None])
    foreign = problem_kernels([problem] if problem else [])
    foreign += [function] if is_foreign(function.__module__) else []
    if not foreign:
        return None
    found = [*_REASON.finditer(text)]
    reason, end = (found[-1][1], found[-1].end()) if found else (text.partition("\n")[0], 0)
    advice = next((f"; {known}" for part, known in _ADVICE.items() if part in reason), "")
    n = 1
    while n:  # types inside types, whose fields nobody wants to read
        reason, n = re.subn(r"\bReference\((\w+)\)|\b(\w+)\([^()]*\)", r"\1\2", reason)
    paths = {os.path.basename(f.__code__.co_filename): f.__code__.co_filename for f in foreign}
    names = "|".join(map(re.escape, paths))
    line = re.compile(rf'(?<![\w-])({names})(?:", line |:| \()(\d+)').search(text, end)
    where = ""
    if line:
        source = linecache.getline(paths[line[1]], int(line[2])).strip()
        where, end = f" ({line[1]}, line {line[2]}: {source})", line.end()
    # What numba names next is the function that this line is in.
    caller = re.compile(r"<function (?:\S+\.)?(\w+) at ").search(text, end)
    name = caller[1] if caller else function.__name__
    name = getattr(function, "verb", name) if name in ("_", function.__name__) else name
    owner = f" of {getattr(problem, 'structure', problem.__name__)}" if problem else ""
    reason = re.sub(r"^\w+Error: ", "", reason.strip())
    return f"{name}{owner} does not compile: {reason}{where}{advice}"


def _say_once():
    """Explain once per process why the first fit takes long, unless announced elsewhere."""
    global _has_said
    if not (_has_said or _n_announcing):
        _has_said = True
        with suppress(OSError, ValueError):  # a stream that is closed
            print(_COMPILING, file=sys.stderr, flush=True)


@contextmanager
def _notice():
    """Print that this process compiles, once that has taken some seconds in total."""
    waiting = []

    def wait(name):
        left = _PATIENCE - compile_seconds()
        if left <= 0.0:
            return _say_once()
        waiting.append(threading.Timer(left, _say_once))
        waiting[-1].daemon = True
        waiting[-1].start()

    is_quiet = _has_said or sys.stderr is None or os.environ.get("SKSTRUCT_QUIET")
    with nullcontext() if is_quiet else _compiles(wait):
        try:
            yield
        finally:
            for timer in waiting:
                timer.cancel()


@contextmanager
def announced_compiles(announce):
    """Report every kernel that Python calls and that is compiled until the block ends."""
    global _n_announcing
    _n_announcing += 1
    try:
        with _compiles(announce):
            yield
    finally:
        _n_announcing -= 1


@contextmanager
def _compiles(announce):
    """Call a function with the name of each kernel that this thread compiles."""
    if event is None:  # pragma: no cover
        yield
        return
    owner, depth = threading.get_ident(), 0

    class Announcer(event.Listener):
        def on_start(self, started):
            nonlocal depth
            if threading.get_ident() == owner:
                if depth == 0:
                    announce(started.data["dispatcher"].py_func.__qualname__)
                depth += 1

        def on_end(self, ended):
            nonlocal depth
            depth -= threading.get_ident() == owner

    with event.install_listener("numba:compile", Announcer()):
        yield


def written(name, source, space, like=None):
    """The function of a source text; errors and the cache place it where the code `like` begins."""
    exec(compile(source, "<string>" if like is None else like.co_filename, "exec"), space)
    function = space[name]
    if like is not None:
        function.__code__ = function.__code__.replace(co_firstlineno=like.co_firstlineno)
    return function


def arguments_of(sig):
    """Types of the arguments of a signature, or of a tuple of types."""
    return tuple(getattr(sig, "args", sig))

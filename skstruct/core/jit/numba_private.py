"""Internals of numba, which may change, each with a fallback; no other file uses any."""

import io
import pickle
import sys
from contextlib import suppress
from operator import attrgetter

import numba
from numba import types

from .cache_key import is_foreign

try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
except ImportError:  # pragma: no cover
    JITCodeLibrary = Compiler = object
try:
    from numba.core.compiler import CompileResult
    from numba.core.serialize import NumbaPickler
except ImportError:  # pragma: no cover
    CompileResult, NumbaPickler = None, pickle.Pickler
try:
    from .passes import infer_faster
except ImportError:  # pragma: no cover
    infer_faster = None

_SETTINGS = "BOUNDSCHECK OPT LOOP_VECTORIZE SLP_VECTORIZE DEBUGINFO_DEFAULT USING_SVML".split()


def known_options(options):
    """Options that this version of numba has; without the others, compilation takes longer."""
    try:
        from numba.core.cpu import CPUTargetOptions as Known
    except ImportError:  # pragma: no cover
        Known = None
    return {name: value for name, value in options.items() if hasattr(Known, name)}


class _InnerLibrary(JITCodeLibrary):
    """Code of a kernel that only other kernels call: it becomes machine code in its callers."""

    @property
    def codegen(self):
        return _WithoutEnvironments(self._codegen)

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True


class _WithoutEnvironments:
    """Code generator for code that never runs, so that no environment is stored."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, environment):
        pass


class _KernelCompiler(Compiler):
    """Numba's compiler, which infers types faster for the kernels of this package."""

    def define_pipelines(self):
        pipelines = super().define_pipelines()
        if infer_faster is not None and not is_foreign(self.state.func_id.func.__module__):
            infer_faster(pipelines, self.state)
        return pipelines


class _InnerCompiler(_KernelCompiler):
    """The compiler of kernels that only other kernels call."""

    def __init__(self, typingctx, targetctx, library, *args):
        if library is None:
            library = _InnerLibrary(targetctx.codegen(), "inner kernel")
        super().__init__(typingctx, targetctx, library, *args)

    def define_pipelines(self):
        function = self.state.func_id.func
        if "print" in function.__code__.co_names:  # It would wait for its environment for ever.
            raise TypeError(
                f"{function.__qualname__} prints, which kernels inside other kernels cannot: run "
                "with NUMBA_DISABLE_JIT=1 to see what they do"
            )
        return super().define_pipelines()


def outer_options():
    """Options for kernels that Python calls."""
    return {} if Compiler is object else {"pipeline_class": _KernelCompiler}


def inner_options():
    """Options for kernels that only other kernels call: no wrapper, no machine code."""
    options = known_options({"no_cpython_wrapper": True})
    overridden = [name for name in vars(_InnerLibrary) if not name.startswith("__")]
    if options and all(hasattr(JITCodeLibrary, name) for name in overridden):
        options["pipeline_class"] = _InnerCompiler
    return options


def call_inside(dispatcher, inner):
    """Compile `inner` once for all integer constants, which numba takes for types of their own."""
    if not all(hasattr(dispatcher, name) for name in ("get_call_template", "get_overload")):
        return  # pragma: no cover
    template, overload = inner.get_call_template, inner.get_overload

    def get_call_template(args, kws):
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return template(tuple(map(types.unliteral, args)), plain)

    dispatcher.get_call_template = get_call_template
    dispatcher.get_overload = overload


def refuse_calls(dispatcher):
    """Make a call from Python a TypeError: numba would crash without a wrapper."""
    kind = type(dispatcher)

    def refuse(self, *args, **kwargs):
        raise TypeError(f"{self.py_func.__name__} is for other kernels: it has no code for Python")

    with suppress(TypeError):
        dispatcher.__class__ = type(kind.__name__, (kind,), {"__call__": refuse})


def address_of(dispatcher, signature):
    """The address of a compiled function, for calls as in C."""
    found = dispatcher.overloads[signature.args]
    return found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)


# The cache of a dispatcher on disk.


def keep_in(dispatcher, cache):
    """Attach a cache to a dispatcher; False if this version of numba does not support it."""
    parts = (CompileResult, "_reduce"), (CompileResult, "_rebuild"), (dispatcher, "_cache")
    if not all(hasattr(owner, name) for owner, name in parts):
        return False
    dispatcher._cache = cache
    return True


def target_of(target_context):
    """What machine code depends on: system, processor with its features, and numba's settings."""
    settings = [getattr(numba.config, name, None) for name in _SETTINGS]
    return target_context.codegen().magic_tuple(), settings


def _in_script(path):
    """Return the object at this dotted path in the script that runs."""
    return attrgetter(path)(sys.modules["__main__"])


class _Pickler(NumbaPickler):
    """Pickle classes of a script by name, too: numba takes a copy of one for another type."""

    def reducer_override(self, obj):
        is_of_script = isinstance(obj, type) and obj.__module__ == "__main__"
        if is_of_script and "<locals>" not in obj.__qualname__:
            return _in_script, (obj.__qualname__,)
        return super().reducer_override(obj)


def packed(key, result):
    """A compiled function and its key as bytes; None if it refers to addresses in this process."""
    if result.library.has_dynamic_globals:
        return None
    out = io.BytesIO()
    _Pickler(out, protocol=4).dump((key, result._reduce()))
    return out.getvalue()


def unpacked(content, target_context):
    """The key and the compiled function."""
    key, data = pickle.loads(content)
    return key, CompileResult._rebuild(target_context, *data)

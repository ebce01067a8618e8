"""Compilation of kernels: fewer passes, and no machine code for what only kernels call.

Numba does not promise to keep what this uses; without it kernels compile as any other function.
"""

from contextlib import suppress

from numba import types

from .cache_key import is_foreign
from .numba_private import TRICKS, known_options

try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler, Flags
except ImportError:  # pragma: no cover
    JITCodeLibrary = Compiler = Flags = object
try:
    from .numba_passes import faster, look_up_once
except ImportError:  # pragma: no cover
    faster, look_up_once = {}, None


class _InnerLibrary(JITCodeLibrary):
    """Code of a kernel that only other kernels call: it becomes machine code within them.

    Numba optimises and emits each kernel, and again whatever it has been linked into.
    """

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


class _CheapLibrary(JITCodeLibrary):
    """Code of a kernel that is called seldom: each function is optimised by itself only.

    To optimise what the functions make up together takes most of LLVM's time.
    """

    def _optimize_final_module(self):
        try:
            passes, builder = self._codegen._module_pass_manager(
                loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
            )
        except (AttributeError, TypeError):  # pragma: no cover
            super()._optimize_final_module()
            return
        passes.run(self._final_module, builder)


class _WithoutEnvironments:
    """Code generator for code that never runs, so that no environment is stored."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, environment):
        pass


# Passes for what this package's kernels do not use: closures, None among the arguments, arrays as
# terms of expressions, the inlining of numba's own functions.
_UNUSED = {
    "with_lifting",
    "inline_closure_likes",
    "rewrite_semantic_constants",
    "dead_branch_prune",
    "Rewrite dynamic raises",
    "make_function_op_code_to_jit_function",
    "find_literally",
    "literal_unroll",
    "LiteralPropagation",
    "inline_overloads",
    "nopython_rewrites",
    "annotate_types",
    "dump_parfor_diagnostics",
}
# SSA form, which type inference builds where it is needed.
_SSA = {"reconstruct_ssa", "strip_phis", "ir_legalization"} if faster else set()


def _kept(passes):
    """The passes that kernels need, the faster ones in place of numba's."""
    kept = (p for p in passes if p[0].name() not in _UNUSED | _SSA)
    return [(faster.get(which, which), told) for which, told in kept]


class _Flags(Flags):
    """Numba's flags, compared by what was set: it looks at all of them for each call it types."""

    __slots__ = ()

    def __hash__(self):
        return _FLAGS_HASH

    def __eq__(self, other):
        if not isinstance(other, Flags):
            return NotImplemented
        mine, others = self._values, other._values
        if any(others[name] != mine[name] for name in mine.keys() & others.keys()):
            return False
        return all(
            getattr(self, name) == getattr(other, name) for name in mine.keys() ^ others.keys()
        )


# That of numba's own, which are equal to these.
_FLAGS_HASH = hash(Flags())


class _KernelCompiler(Compiler):
    """Numba's compiler; for the kernels of this package without the passes that they do not use."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if hasattr(flags, "_values"):
            flags = _Flags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self):
        pipelines = super().define_pipelines()
        if TRICKS["passes"] and not is_foreign(self.state.func_id.func.__module__):
            if look_up_once is not None:
                look_up_once(self.state)
            for pipeline in pipelines:
                pipeline.passes[:] = _kept(pipeline.passes)
        return pipelines


class _CheapCompiler(_KernelCompiler):
    """The compiler of kernels that are seldom called."""

    def __init__(self, typingctx, targetctx, library, *args):
        if library is None:
            library = _CheapLibrary(targetctx.codegen(), "cheap kernel")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, *args)


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


def _overridden(library):
    """Return the names that a library class of this module overrides."""
    return [name for name in vars(library) if not name.startswith("__")]


def inner_options():
    """Return options for kernels that only other kernels call: no wrapper, no own code."""
    options = known_options({"no_cpython_wrapper": True})
    if options and all(hasattr(JITCodeLibrary, name) for name in _overridden(_InnerLibrary)):
        options["pipeline_class"] = _InnerCompiler
    return options


def compile_cheaply(dispatcher):
    """Compile `dispatcher` faster, for slower code, where Python calls it."""
    compiler = getattr(dispatcher, "_compiler", None)
    known = all(hasattr(JITCodeLibrary, name) for name in _overridden(_CheapLibrary))
    if hasattr(compiler, "pipeline_class") and known and Compiler is not object:
        compiler.pipeline_class = _CheapCompiler


def call_inside(dispatcher, inner):
    """Let kernels that call `dispatcher` take the code of `inner`, once for all constants.

    For numba each integer constant among the arguments is a type of its own: another compile.
    """
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

"""Passes of numba's compiler, for the same code sooner; apart, since its import may fail."""

from numba import types
from numba.core import ir
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.errors import TypingError
from numba.core.inline_closurecall import InlineWorker
from numba.core.typed_passes import NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import InlineInlinables, ReconstructSSA

# A pass that pasted kernels go through before they are pasted; all else is done where they are.
_BEFORE = {"translate_bytecode", "fixup_args", "ir_processing", "generic_rewrites"}


class _Block(ir.Block):
    """A block of a kernel that is pasted once: numba makes two copies of it."""

    def __deepcopy__(self, memo):
        return self


class _Worker(InlineWorker):
    """Inliner of kernels, which runs fewer passes on them."""

    def run_untyped_passes(self, func, enable_ssa=False):
        define = self._compiler_pipeline

        def define_fewer(state):
            pipeline = define(state)
            pipeline.passes[:] = [
                (faster.get(which, which), told)
                for which, told in pipeline.passes
                if which.name() in _BEFORE or which is InlineInlinables
            ]
            pipeline._ENFORCING = False
            return pipeline

        self._compiler_pipeline = define_fewer
        try:
            found = super().run_untyped_passes(func, enable_ssa)
        finally:
            self._compiler_pipeline = define
        for block in found.blocks.values():
            block.__class__ = _Block
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _Paste(InlineInlinables):
    """Paste kernels without copying objects that are not shared."""

    _name = "skstruct_paste"

    def _do_work(self, state, work_list, block, i, expr, inline_worker):
        if type(inline_worker) is InlineWorker:
            inline_worker.__class__ = _Worker
        return super()._do_work(state, work_list, block, i, expr, inline_worker)


_PLAIN = types.Number, types.Boolean, types.Array, types.SliceType


def _is_plain(kind):
    """Return whether an operator's result depends on this type alone, not on what is compiled."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind))
    return isinstance(kind, _PLAIN)


def _remembering(resolve):
    """`resolve` with a memory: numba tries all overloads of an operator at each use."""
    known = {}

    def resolve_function_type(func, args, kws):
        if kws or not isinstance(func, types.Function) or not all(map(_is_plain, args)):
            return resolve(func, args, kws)
        key = func, tuple(args)
        if key not in known:
            known[key] = resolve(func, args, kws)
        return known[key]

    return resolve_function_type


@register_pass(mutates_CFG=True, analysis_only=False)
class _Type(NopythonTypeInference):
    """Infer types, those of each operator once."""

    _name = "skstruct_type"

    def run_pass(self, state):
        context = state.typingctx
        if "resolve_function_type" in vars(context):  # of a kernel that this one calls
            return self._infer(state)
        context.resolve_function_type = _remembering(context.resolve_function_type)
        try:
            return self._infer(state)
        finally:
            del context.resolve_function_type

    def _infer(self, state):
        """Infer types; SSA form, which takes long, is for variables of several types alone."""
        context, converts = state.typingctx, []
        outer = vars(context).get("unify_pairs")  # of a kernel that calls this one

        def unify_pairs(first, second):
            converts.append(types.unliteral(first) != types.unliteral(second))
            return type(context).unify_pairs(context, first, second)

        context.unify_pairs = unify_pairs
        try:
            super().run_pass(state)
            if not any(converts):
                return True
        except TypingError as error:
            if str(error).startswith("Failed in nopython mode"):  # a kernel that this one calls
                raise
        finally:
            del context.unify_pairs
            if outer is not None:
                context.unify_pairs = outer
        ReconstructSSA().run_pass(state)
        super().run_pass(state)
        return PreLowerStripPhis().run_pass(state)


_sizes = {}


class _Context(CPUContext):
    """Target of kernels; numba compiles a module each time that it needs the size of a type."""

    def get_abi_sizeof(self, ty):
        name = str(ty)
        if name not in _sizes:
            _sizes[name] = super().get_abi_sizeof(ty)
        return _sizes[name]

    def get_function(self, fn, sig, _firstcall=True):
        # Asked for each access to an array; numba loads all registries before it says no.
        if fn == "__array__" and type(sig.args[0]) is types.Array:
            raise NotImplementedError
        return super().get_function(fn, sig, _firstcall)


def look_up_once(state):
    """Let the target of one compile remember; it is a copy, which no other code is compiled for."""
    if type(state.targetctx) is CPUContext:
        state.targetctx.__class__ = _Context


#: Replacements of numba's passes.
faster = {InlineInlinables: _Paste, NopythonTypeInference: _Type}

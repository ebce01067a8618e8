"""Passes of numba's compiler, for the same code sooner; apart, since its import may fail."""

from numba import types
from numba.core import ir
from numba.core.compiler_machinery import register_pass
from numba.core.inline_closurecall import InlineWorker
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import InlineInlinables

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
            return super().run_pass(state)
        context.resolve_function_type = _remembering(context.resolve_function_type)
        try:
            return super().run_pass(state)
        finally:
            del context.resolve_function_type


#: Replacements of numba's passes.
faster = {InlineInlinables: _Paste, NopythonTypeInference: _Type}

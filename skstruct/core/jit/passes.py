"""Type inference with a cache; a separate file, since its import may fail."""

from numba import types
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.typed_passes import NopythonTypeInference

_PLAIN = types.Number, types.Boolean, types.Array, types.SliceType


def _is_plain(kind):
    """Return whether an operator's result depends only on this type, not on compiled functions."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind))
    return isinstance(kind, _PLAIN)


def _remembering(resolve):
    """`resolve` with a cache."""
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


_sizes = {}


class _Context(CPUContext):
    """Target of kernels, with a cache of sizes of types."""

    def get_abi_sizeof(self, ty):
        name = str(ty)
        if name not in _sizes:
            _sizes[name] = super().get_abi_sizeof(ty)
        return _sizes[name]


def infer_faster(pipelines, state):
    """Use these in the pipelines of one compilation, and in a copy of its target."""
    if type(state.targetctx) is CPUContext:
        state.targetctx.__class__ = _Context
    for pipeline in pipelines:
        pipeline.passes[:] = [
            (_Type if which is NopythonTypeInference else which, told)
            for which, told in pipeline.passes
        ]

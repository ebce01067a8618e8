"""A request to memory, for what will be read soon."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .numba_private import intrinsic

_READ, _ALL_CACHES, _DATA = 0, 3, 1


def _nothing(table, row, column):
    """Without a compiler there is nobody to ask."""


@intrinsic(_nothing)
def prefetch(typingctx, table, row, column):
    """Ask for the cache line that ``table[row, column]`` is in; nothing waits for it."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, args[0])
        place = cgutils.get_item_pointer(
            context, builder, kind, array, list(args[1:]), wraparound=False
        )
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, takes, "llvm.prefetch.p0")
        how = [ir.Constant(number, value) for value in (_READ, _ALL_CACHES, _DATA)]
        builder.call(function, [builder.bitcast(place, byte), *how])
        return context.get_dummy_value()

    return types.none(table, types.intp, types.intp), codegen

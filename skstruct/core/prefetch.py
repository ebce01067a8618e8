"""Memory for kernels: a request for what will be read soon, and another look at scratch."""

import numpy as np
from llvmlite import ir
from numba import types

from .numba_private import intrinsic

_READ, _ALL_CACHES, _DATA = 0, 3, 1
_NAME = "llvm.prefetch.p0"


def _nothing(table, row, column):
    """Without a compiler there is nobody to ask."""


@intrinsic(_nothing)
def prefetch(typingctx, table, row, column):
    """Ask for the cache line that ``table[row, column]`` is in; nothing waits for it."""

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.ptrtoint(array.data, args[1].type)
        for axis, at in enumerate(args[1:]):
            stride = builder.extract_value(array.strides, axis)
            place = builder.add(place, builder.mul(at, stride))
        takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.globals.get(_NAME) or ir.Function(builder.module, takes, _NAME)
        how = [ir.Constant(number, value) for value in (_READ, _ALL_CACHES, _DATA)]
        builder.call(function, [builder.inttoptr(place, byte), *how])
        return context.get_dummy_value()

    return types.none(table, types.intp, types.intp), codegen


@intrinsic(lambda array: array.view(np.float32))
def as_single(typingctx, array):
    """The memory of a flat float64 array as twice as many numbers in single precision.

    Numba's own ``view`` is a function, which takes longer to compile.
    """
    single = types.Array(types.float32, 1, "C")

    def codegen(context, builder, signature, args):
        given = context.make_array(array)(context, builder, args[0])
        made = context.make_array(single)(context, builder)
        number = given.nitems.type
        made.data = builder.bitcast(given.data, made.data.type)
        made.meminfo, made.parent = given.meminfo, given.parent
        made.nitems = builder.mul(given.nitems, number(2))
        made.itemsize = number(single.dtype.bitwidth // 8)
        made.shape = builder.insert_value(given.shape, made.nitems, 0)
        made.strides = builder.insert_value(given.strides, made.itemsize, 0)
        return made._getvalue()

    return single(array), codegen

"""Sets of small numbers as bits, for kernels that choose without guessing."""

from llvmlite import ir
from numba import types

from .numba_private import intrinsic


@intrinsic(lambda bits: (int(bits) & -int(bits)).bit_length() - 1)
def lowest_bit(typingctx, bits):
    """The number of the lowest bit that is set, of an int64 that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen

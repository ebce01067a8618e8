"""The processor's clock, for kernels that measure a part of themselves."""

import platform
import time

from llvmlite import ir
from numba import types

from ..core.numba_private import intrinsic

_HAS_CLOCK = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic(time.perf_counter)
def cycles(typingctx):
    """The time-stamp counter as a float, in units of its own; 0 where there is none for users."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        if not _HAS_CLOCK:
            return ir.Constant(double, 0.0)
        int64 = ir.IntType(64)
        function = builder.module.declare_intrinsic(
            "llvm.readcyclecounter", fnty=ir.FunctionType(int64, [])
        )
        return builder.sitofp(builder.call(function, []), double)

    return types.float64(), codegen

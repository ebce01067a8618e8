"""Sets of small numbers as bits, for kernels that choose without guessing."""

from llvmlite import ir
from numba import types

from .dispatch import inner_kernel
from .numba_private import intrinsic
from .shares import LAST_CLASS

#: How many entries are chosen at once.
CHUNK = 32


@intrinsic(lambda bits: (int(bits) & -int(bits)).bit_length() - 1)
def lowest_bit(typingctx, bits):
    """The number of the lowest bit that is set, of an int64 that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@inner_kernel(inline=True)
def own_entries(indices, first, stop, low, high):
    """The entries from `first` to `stop`, at most ``CHUNK``, whose rows are of some classes.

    Rows of features are of all classes in no order: a branch on them is foreseen half of the time.

    Parameters
    ----------
    indices : ndarray of int
        The row of each entry.
    first, stop : int
        The entries.
    low, high : int
        The classes, see :func:`skstruct.core.shares.share_of`.

    Returns
    -------
    int
        A bit for each of them, the lowest for the first.
    """
    bits, entries = 0, indices[first:stop]
    for p in range(entries.shape[0]):
        kind = entries[p] & LAST_CLASS
        bits |= ((kind >= low) & (kind < high)) << p
    return bits

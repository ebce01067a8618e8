"""LLVM instructions without an expression in Python, each with a plain function for the same."""

import math
import platform
import time

import numpy as np
from llvmlite import ir
from numba import TypingError, types
from numba.extending import intrinsic as _intrinsic

from .jit.compiling import JIT_IS_DISABLED


def intrinsic(plain):
    """Numba's ``intrinsic`` with a plain function for runs without compilation."""
    return (lambda function: plain) if JIT_IS_DISABLED else _intrinsic


# Memory: sums of rows that prefetch later rows, and another view of scratch.

_READ, _ALL_CACHES, _DATA = 0, 3, 1
_NAME = "llvm.prefetch.p0"
_FAST = "reassoc", "contract", "arcp", "nsz"  # the flags of kernels
# Prefetch distance in entries: some hundred nanoseconds.
_AHEAD = 32


def _nothing(table, row, column):
    """Plain Python: do nothing."""


@intrinsic(_nothing)
def prefetch(typingctx, table, row, column):
    """Prefetch the cache line of ``table[row, column]``."""

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        byte = ir.IntType(8).as_pointer()
        place = builder.ptrtoint(array.data, args[1].type)
        for axis, at in enumerate(args[1:]):
            stride = builder.extract_value(array.strides, axis)
            place = builder.add(place, builder.mul(at, stride))
        _ask(builder, builder.inttoptr(place, byte))
        return context.get_dummy_value()

    return types.none(table, types.intp, types.intp), codegen


def _ask(builder, place):
    """Emit the prefetch of a cache line."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = builder.module.globals.get(_NAME) or ir.Function(builder.module, takes, _NAME)
    how = [ir.Constant(number, value) for value in (_READ, _ALL_CACHES, _DATA)]
    builder.call(function, [place, *how])


def sum_rows(size, maximum=False, near=False):
    """An intrinsic that sums rows in three groups of `size` columns, or takes their `maximum`.

    Rows that are `near`, in a cache, are not prefetched, and have factors by row: ``x[j_p]``.
    """
    vector = ir.VectorType(ir.DoubleType(), size)

    def plain(data, indices, first, stop, last, table, more, start, acc, begins):
        """``acc[q:q+size] <- more[start, ...] + sum_p x_p table[j_p, ...]`` for q in `begins`."""
        columns = np.add.outer(begins, np.arange(size)).ravel()
        own = indices[first:stop]
        rows = table[own][:, columns].astype(np.float64)
        if maximum:
            acc[columns] = (data[own, None] + rows).max(axis=0) + more[start, columns]
            return
        total = more[start, columns] if start >= 0 else np.zeros(columns.size)
        rows = [*(data[own if near else slice(first, stop), None] * rows)]
        while rows:
            some, rows = (rows[:4], rows[4:]) if len(rows) > 3 else (rows[:1], rows[1:])
            total = total + (sum(some) if len(some) < 4 else sum(some[:2]) + sum(some[2:]))
        acc[columns] = total

    @intrinsic(plain)
    def combine(typingctx, data, indices, first, stop, last, table, more, start, acc, begins):
        def codegen(context, builder, signature, args):
            number, flag, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
            values, columns, rows, extra, out = (
                context.make_array(signature.args[k])(context, builder, args[k])
                for k in (0, 1, 5, 6, 8)
            )
            begins = [builder.extract_value(args[9], b) for b in range(3)]
            everywhere = ir.Constant(ir.VectorType(flag, size), [0] * size)

            def place(array, begin, kind, row=None):
                at = builder.gep(array.data, [begin])
                if row is not None:
                    step = builder.mul(row, builder.extract_value(array.strides, 0))
                    at = builder.inttoptr(builder.add(builder.ptrtoint(at, number), step), at.type)
                return builder.bitcast(at, kind.as_pointer())

            def column(p):
                j = builder.load(builder.gep(columns.data, [p]))
                return j if j.type == number else builder.sext(j, number)

            def double(value):
                kind = vector if isinstance(value.type, ir.VectorType) else vector.element
                return value if value.type == kind else builder.fpext(value, kind)

            def row(array, k, j):
                n_bytes = signature.args[k].dtype.bitwidth // 8
                kind = vector if n_bytes == 8 else ir.VectorType(ir.FloatType(), size)
                places = (place(array, q, kind, j) for q in begins)
                return [double(builder.load(at, align=n_bytes)) for at in places]

            def term(p):
                j = column(p)
                x = double(builder.load(builder.gep(values.data, [j if maximum or near else p])))
                x = builder.insert_element(ir.Constant(vector, ir.Undefined), x, flag(0))
                x = builder.shuffle_vector(x, x, everywhere)
                if maximum:
                    return [builder.fadd(x, part) for part in row(rows, 5, j)]
                if not near:
                    later = builder.add(p, number(_AHEAD))
                    is_there = builder.icmp_signed("<", later, args[4])
                    later = column(builder.select(is_there, later, p))
                    for q in (*begins, builder.add(begins[2], number(size - 1))):
                        _ask(builder, place(rows, q, byte, later))
                return [builder.fmul(x, part, flags=_FAST) for part in row(rows, 5, j)]

            def sums(some, others):
                pairs = zip(some, others, strict=True)
                if not maximum:
                    return [builder.fadd(a, b, flags=_FAST) for a, b in pairs]
                return [builder.select(builder.fcmp_ordered(">", a, b), a, b) for a, b in pairs]

            def put(parts):
                for total, part in zip(totals, parts, strict=True):
                    builder.store(part, total)

            with builder.goto_entry_block():
                totals, at = [builder.alloca(vector) for _ in begins], builder.alloca(number)
            put([ir.Constant(vector, [-math.inf if maximum else 0.0] * size)] * 3)
            if not maximum:
                with builder.if_then(builder.icmp_signed(">=", args[7], number(0))):
                    put(row(extra, 6, args[7]))
            builder.store(args[2], at)
            for step in (4, 1):
                head, body, end = (builder.append_basic_block() for _ in range(3))
                builder.branch(head)
                builder.position_at_end(head)
                p = builder.load(at)
                after = builder.add(p, number(step))
                builder.cbranch(builder.icmp_signed("<=", after, args[3]), body, end)
                builder.position_at_end(body)
                found = [term(builder.add(p, number(k))) for k in range(step)]
                while len(found) > 1:
                    found = [sums(*found[k : k + 2]) for k in range(0, len(found), 2)]
                put(sums(map(builder.load, totals), found[0]))
                builder.store(after, at)
                builder.branch(head)
                builder.position_at_end(end)
            found = [builder.load(total) for total in totals]
            if maximum:
                pairs = zip(found, row(extra, 6, args[7]), strict=True)
                found = [builder.fadd(a, b) for a, b in pairs]
            for q, part in zip(begins, found, strict=True):
                builder.store(part, place(out, q, vector), align=8)
            return context.get_dummy_value()

        for array in (table, more, acc):
            if array.layout != "C" or array.dtype not in (types.float32, types.float64):
                raise TypingError(f"kernels take C-contiguous arrays of floats, got {array}")
        entry, begin = (types.intp,) * 3, types.UniTuple(types.intp, 3)
        takes = data, indices, *entry, table, more, types.intp, acc, begin
        return types.none(*takes), codegen

    return combine


@intrinsic(lambda array: array.view(np.float32))
def as_single(typingctx, array):
    """View a flat float64 array as float32 numbers; numba's ``view`` takes longer to compile."""
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


# Eight numbers at once, and sets of small integers as bits, for kernels without branches.

_EIGHT = ir.VectorType(ir.DoubleType(), 8)


def _eight(context, builder, signature, args):
    """Eight entries, from ``args[2]`` on, of the sum of two flat arrays of float64."""
    parts = []
    for array, given in zip(signature.args[:2], args[:2], strict=True):
        at = builder.gep(context.make_array(array)(context, builder, given).data, [args[2]])
        parts.append(builder.load(builder.bitcast(at, _EIGHT.as_pointer()), align=8))
    return builder.fadd(*parts)


@intrinsic(lambda a, b, q: (a[q : q + 8] + b[q : q + 8]).max())
def largest_of_8(typingctx, a, b, q):
    """The largest of eight entries of a sum, from q on."""

    def codegen(context, builder, signature, args):
        best, flag = _eight(context, builder, signature, args), ir.IntType(32)
        for half in (4, 2, 1):
            kind = ir.VectorType(flag, half)
            masks = [ir.Constant(kind, [*range(k, k + half)]) for k in (0, half)]
            x, y = (builder.shuffle_vector(best, best, mask) for mask in masks)
            best = builder.select(builder.fcmp_ordered(">", x, y), x, y)
        return builder.extract_element(best, flag(0))

    return types.float64(a, b, types.intp), codegen


def _plain_bits(a, b, q, least):
    return sum(1 << k for k in range(8) if not a[q + k] + b[q + k] < least)


@intrinsic(_plain_bits)
def which_of_8(typingctx, a, b, q, least):
    """A bit mask of the eight entries of a sum, from q on, that are not below `least`."""

    def codegen(context, builder, signature, args):
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        bound = builder.insert_element(
            ir.Constant(_EIGHT, ir.Undefined), args[3], ir.IntType(32)(0)
        )
        bound = builder.shuffle_vector(bound, bound, everywhere)
        found = builder.fcmp_unordered(">=", _eight(context, builder, signature, args), bound)
        return builder.zext(builder.bitcast(found, ir.IntType(8)), ir.IntType(64))

    return types.int64(a, b, types.intp, types.float64), codegen


@intrinsic(lambda bits: (int(bits) & -int(bits)).bit_length() - 1)
def lowest_bit(typingctx, bits):
    """The position of the lowest set bit of a nonzero int64."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


# Counters that threads share.


def _place(context, builder, signature, args):
    """Return the address of an entry of an array."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _plain_add(array, at, value):
    before = array[at]
    array[at] = before + value
    return before


@intrinsic(_plain_add)
def fetch_add(typingctx, array, at, value):
    """Add atomically to an entry of an int64 array, and return the old value."""

    def codegen(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        return builder.atomic_rmw("add", place, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), codegen


@intrinsic(lambda array, at: array[at])
def load_shared(typingctx, array, at):
    """Load an entry of an int64 array that other threads write to."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@intrinsic(lambda address: None)
def call_address(typingctx, address):
    """Call the C function at an address; a name could not be stored in the cache of kernels."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.IntType(32), []).as_pointer()
        builder.call(builder.inttoptr(args[0], function), [])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


# Bits of floats.


@intrinsic(lambda x: int(np.float64(x).view(np.int64)))
def bits_of(typingctx, x):
    """The bits of a float as an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic(lambda n: float(np.int64(n).view(np.float64)))
def float_of(typingctx, n):
    """The float of the bits of an integer."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


def _plain_scale(value, exponent):
    return value if math.isnan(exponent) else math.ldexp(value, int(exponent))


@intrinsic(_plain_scale)
def scale_by_power_of_two(typingctx, value, exponent):
    """``value * 2**exponent`` for an integral float `exponent`; NaN stays NaN."""
    # In IR: LLVM may fold a magic-number addition away under `reassoc`, and a conversion from float
    # to int64 does not vectorise on AVX2.

    def codegen(context, builder, signature, args):
        double, int64 = ir.DoubleType(), ir.IntType(64)
        shifted = builder.fadd(args[1], ir.Constant(double, 6755399441055744.0))
        bits = builder.shl(builder.bitcast(shifted, int64), ir.Constant(int64, 52))
        return builder.bitcast(builder.add(builder.bitcast(args[0], int64), bits), double)

    return types.float64(types.float64, types.float64), codegen


# The processor's clock, for kernels that time a part of their work.

_HAS_CLOCK = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic(time.perf_counter)
def cycles(typingctx):
    """The time-stamp counter as a float, in its own unit; 0 where user code has no access."""

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

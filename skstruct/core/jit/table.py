"""Problems as solvers see them: a table, of one type for all structures.

In place of a problem a solver takes the address of int64 words: address and size of the arrays that
solvers read, then for each operation the address of a function and of what that takes first, the
fields of the problem, or the table again. So it is compiled once. The functions have declared
signatures (:mod:`skstruct.core.jit.signatures`); an array goes through a call as its address and
its shape, a tuple as its parts. Nothing can be raised through it.
"""

import ctypes
import hashlib
import math
import sys
import weakref
from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import TypingError, types
from numba.core import cgutils
from numba.extending import (
    NativeValue,
    intrinsic,
    make_attribute_wrapper,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from .signatures import in_words

_WORD = ir.IntType(64)
# The arrays that solvers read, in the order of the words, and what is in them.
_ARRAYS = {"part_ptr": types.int64, "label_ptr": types.int64, "labels": types.int32}
_HEADER = 2 * len(_ARRAYS)
_PLAIN = types.Array, types.Integer, types.Float, types.Boolean
# Those of an array's flags that its type depends on: in C or Fortran order, aligned, writable.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


_operations = []


class Operation:
    """An operation that has a place in the table."""

    def __init__(self, verb, names, signature):
        self.verb, self.names, self.signature = verb, names, signature
        self.name, self.place = verb.__name__, len(_operations)
        _operations.append(self)
        #: For calls by kernels that see a table.
        self.call = _caller(self)


class Opaque(types.Type):
    """A problem, whatever its class.

    Its name tells the operations in their places, which compiled code relies on.
    """

    def __init__(self, listed):
        super().__init__(f"AnyProblem({hashlib.sha256(listed.encode()).hexdigest()[:16]})")


_opaque = {}


def opaque():
    """The type of all tables."""
    n = len(_operations)
    if n not in _opaque:
        listed = [(own.verb.__module__, own.name, own.signature) for own in _operations]
        _opaque[n] = Opaque(repr(listed))
    return _opaque[n]


#: The address of words.
WORDS = types.CPointer(types.int64)


@register_model(Opaque)
class _OpaqueModel(models.StructModel):
    def __init__(self, manager, kind):
        arrays = [(name, types.Array(dtype, 1, "C")) for name, dtype in _ARRAYS.items()]
        super().__init__(manager, kind, [("words", WORDS), *arrays])


for _name in _ARRAYS:
    make_attribute_wrapper(Opaque, _name, _name)


def _load(builder, words, place):
    """A word."""
    return builder.load(builder.gep(words, [ir.Constant(_WORD, place)]))


def leaves(kind):
    """What a value goes through a call as: numbers, and of each array the address and the shape."""
    if isinstance(kind, types.BaseTuple):
        return [leaf for part in kind for leaf in leaves(part)]
    if isinstance(kind, types.Array):
        n_sizes = kind.ndim if kind.layout == "C" else 2 * kind.ndim  # with the strides
        return [types.CPointer(kind.dtype), *[types.int64] * n_sizes]
    return [kind]


def _assemble(context, builder, kind, values):
    """The value that an iterator over its leaves makes."""
    if isinstance(kind, types.BaseTuple):
        parts = [_assemble(context, builder, part, values) for part in kind]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return next(values)
    array = cgutils.create_struct_proxy(kind)(context, builder)
    n_bytes = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array.data, shape = next(values), [next(values) for _ in range(kind.ndim)]
    if kind.layout == "C":
        strides = [n_bytes] * min(kind.ndim, 1)
        for size in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], size))
    else:
        strides = [next(values) for _ in range(kind.ndim)]
    array.nitems = ir.Constant(_WORD, 1)
    for size in shape:
        array.nitems = builder.mul(array.nitems, size)
    array.itemsize = n_bytes
    array.shape, array.strides = (cgutils.pack_array(builder, own) for own in (shape, strides))
    for nobody in ("meminfo", "parent"):  # kernels neither count references nor free it
        setattr(array, nobody, cgutils.get_null_value(getattr(array, nobody).type))
    return array._getvalue()


def _split(context, builder, kind, value):
    """The leaves of a value."""
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind):
            yield from _split(context, builder, part, builder.extract_value(value, k))
    elif isinstance(kind, types.Array):
        array = cgutils.create_struct_proxy(kind)(context, builder, value)
        yield array.data
        yield from cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        if kind.layout != "C":
            yield from cgutils.unpack_tuple(builder, array.strides, kind.ndim)
    else:
        yield value


@cache
def made(kind):
    """An intrinsic that makes a value of its leaves."""

    @intrinsic
    def make(typingctx, parts):
        def codegen(context, builder, signature, args):
            values = iter(cgutils.unpack_tuple(builder, args[0], len(parts)))
            return _assemble(context, builder, kind, values)

        return kind(parts), codegen

    return make


def _open(context, builder, kind, words):
    """A table as kernels take it, from the address of its words."""
    table = cgutils.create_struct_proxy(kind)(context, builder)
    table.words = words
    for k, (name, dtype) in enumerate(_ARRAYS.items()):
        address, size = (_load(builder, words, 2 * k + at) for at in range(2))
        address = builder.inttoptr(address, context.get_data_type(dtype).as_pointer())
        own = types.Array(dtype, 1, "C")
        setattr(table, name, _assemble(context, builder, own, iter((address, size))))
    return table._getvalue()


@cache
def loaded(kind):
    """An intrinsic that makes a value of the words at an address."""

    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            if isinstance(kind, Opaque):
                return _open(context, builder, kind, args[0])
            values = []
            for k, leaf in enumerate(leaves(kind)):
                word = builder.gep(args[0], [ir.Constant(_WORD, k)])
                place = builder.bitcast(word, context.get_data_type(leaf).as_pointer())
                values.append(context.unpack_value(builder, leaf, place))
            return _assemble(context, builder, kind, iter(values))

        return kind(address), codegen

    return load


@unbox(Opaque)
def _unbox(kind, table, c):
    address = c.pyapi.object_getattr_string(table, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    words = c.builder.bitcast(pointer, _WORD.as_pointer())
    return NativeValue(_open(c.context, c.builder, kind, words))


def _caller(operation):
    """An intrinsic that calls what the table of its first argument has for an operation."""
    declared, result = operation.signature

    def resolve(typingctx, problem, *given):
        for name, kind, own in zip(operation.names[1:], declared, given, strict=True):
            is_cut = isinstance(kind, types.Integer) and isinstance(own, types.Float)
            if is_cut or typingctx.can_convert(own, kind) is None:
                raise TypingError(
                    f"{operation.name} takes {in_words(kind)} as {name}, not {in_words(own)}"
                )

        def codegen(context, builder, signature, args):
            place = _HEADER + 2 * operation.place
            words = cgutils.create_struct_proxy(problem)(context, builder, args[0]).words
            function, first = (_load(builder, words, place + k) for k in range(2))
            passed = [builder.inttoptr(first, words.type)]
            for kind, value in zip(declared, args[1:], strict=True):
                passed += _split(context, builder, kind, value)
            returned = context.get_value_type(result)
            pointer = ir.FunctionType(returned, [value.type for value in passed]).as_pointer()
            return builder.call(builder.inttoptr(function, pointer), passed)

        return result(problem, *declared), codegen

    # Numba takes the names of arguments from here.
    space, listed = {"resolve": resolve}, ", ".join(("typingctx", *operation.names))
    exec(f"def call({listed}):\n    return resolve({listed})\n", space)
    return intrinsic(space["call"])


#: Whether any table was asked in vain.
alarms = []


@ctypes.CFUNCTYPE(ctypes.c_double, ctypes.POINTER(ctypes.c_int64))
def _note_missing(asked):
    """What is called where there is no function: kernels cannot raise."""
    asked[0] = 1
    alarms.append(None)
    return math.nan


_MISSING = ctypes.cast(_note_missing, ctypes.c_void_p).value


class ProblemType:
    """Class and types of the fields of problems whose operations are the same functions."""

    def __init__(self, problem):
        #: The class, and numba's type.
        self.cls, self.kind = type(problem), numba.typeof(problem)
        found = dict(zip(self.kind.fields, self.kind, strict=True))
        for name, dtype in _ARRAYS.items():
            own, expected = found.get(name, types.none), types.Array(dtype, 1, "C")
            if not isinstance(own, types.Array) or own.copy(readonly=False) != expected:
                raise TypeError(
                    f"{self.cls.__name__}.{name} must be a contiguous array of {dtype} of one "
                    f"dimension, not {in_words(own)}"
                )
        self._check(self.kind)

    def part(self, name):
        """Type of a part, of all for None, and how many bytes of the fields come before it."""
        if name is None:
            return self.kind, 0
        place = self.kind.fields.index(name)
        return self.kind[place], 8 * sum(len(leaves(own)) for own in tuple(self.kind)[:place])

    def choose(self, operation):
        """The kernel of an operation, and the part that it takes, or None for all."""
        verb = operation.verb
        return verb.choose(self.cls, lambda part: self.part(part)[0].instance_class)

    def _check(self, kind):
        if isinstance(kind, types.BaseTuple):
            for part in kind:
                self._check(part)
        elif not isinstance(kind, _PLAIN):
            raise TypeError(
                f"{self.cls.__name__} has a field of type {kind}: a problem holds arrays, numbers "
                "and tuples of these"
            )


class Table:
    """The table of a problem, for as long as the arrays of this exist."""

    def __init__(self, problem, kind, watch):
        #: A :class:`ProblemType`, and numba's type of the table.
        self.type, self.opaque, self._watch = kind, opaque(), watch
        #: What has its functions in the table.
        self.ready = set()
        fields = []
        _write(problem, fields)
        self._fields = np.array(fields, dtype=np.int64)
        n = len(_operations)
        # After the functions a word for each, which says that it was asked for in vain.
        self._words = np.zeros(_HEADER + 3 * n, dtype=np.int64)
        self._asked = self._words[_HEADER + 2 * n :]
        #: Address of the words, and of the fields of the problem.
        self.address, self.fields = map(_address, (self._words, self._fields))
        for k, name in enumerate(_ARRAYS):
            array = getattr(problem, name)
            self._words[2 * k : 2 * k + 2] = _address(array), array.size
        self._words[_HEADER : _HEADER + 2 * n : 2] = _MISSING
        begin = _address(self._asked)
        self._words[_HEADER + 1 : _HEADER + 2 * n : 2] = range(begin, begin + 8 * n, 8)

    def lacks(self, operation):
        """Return whether an operation has no function yet."""
        return self._words[_HEADER + 2 * operation.place] == _MISSING

    def fill(self, operation, function, first):
        """Let an operation call the function at an address, which takes another one first."""
        place = _HEADER + 2 * operation.place
        self._words[place : place + 2] = function, first

    def missed(self):
        """The operations that were asked for in vain since the last call."""
        found = [_operations[k] for k in np.flatnonzero(self._asked)]
        self._asked[:] = 0
        return found


@typeof_impl.register(Table)
def _type_of_table(table, context):
    return table.opaque


def _address(array):
    return array.__array_interface__["data"][0]


def _write(value, words):
    """Add the words of a value as numba lays it out in memory."""
    for part in value:
        if isinstance(part, np.ndarray):
            words += _address(part), *part.shape
            if not part.flags.c_contiguous:
                words += part.strides
        elif isinstance(part, tuple):
            _write(part, words)
        else:
            words.append(int.from_bytes(np.asarray(part).tobytes(), sys.byteorder, signed=True))


def _identify(value, key):
    """What tells problems apart: their arrays, numbers and classes."""
    key += type(value), len(value)
    for part in value:
        if isinstance(part, np.ndarray):
            key.append(id(part))
        elif isinstance(part, tuple):
            _identify(part, key)
        else:
            key += type(part), repr(part)  # of -0.0, and NaN


def _leaves(value):
    """The arrays of a problem, and the types of all else, with the lengths of tuples."""
    yield type(value)
    yield len(value)
    for part in value:
        if isinstance(part, tuple):
            yield from _leaves(part)
        else:
            yield part if isinstance(part, np.ndarray) else type(part)


_tables, _types = {}, {}


def table_of(problem):
    """The table of a problem: the one there is, or a new one.

    It goes when one of the problem's arrays does.
    """
    key = [len(_operations)]  # there may be more than when the last table was made
    _identify(problem, key)
    key = tuple(key)
    try:
        found = _tables.get(key)
    except TypeError:  # what has no hash
        ProblemType(problem)
        raise
    if found is None:
        leaves = list(_leaves(problem))
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        shape = tuple(map(_shape_of, leaves))
        if shape not in _types:  # numba takes a millisecond to find it
            _types[shape] = ProblemType(problem)

        def forget(array):
            _tables.pop(key, None)

        watch = [weakref.ref(array, forget) for array in arrays]
        found = _tables[key] = Table(problem, _types[shape], watch)
    return found


def _shape_of(leaf):
    """What numba's type depends on."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype, leaf.ndim, leaf.flags.num & _FLAGS
    return leaf

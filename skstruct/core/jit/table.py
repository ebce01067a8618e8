"""Problems as solvers see them: a table of one type for all structures, so that they compile once.

It has int64 words: address and size of arrays, then of each operation its function and argument.
"""

import ctypes
import hashlib
import math
import sys
from functools import cache
from typing import NamedTuple

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

from .compiling import written
from .signatures import in_words

_WORD = ir.IntType(64)
# The arrays that solvers read, in the order of the words, and what is in them.
_ARRAYS = {"part_ptr": types.int64, "label_ptr": types.int64, "labels": types.int32}
_HEADER = 2 * len(_ARRAYS)
_PLAIN = types.Array, types.Integer, types.Float, types.Boolean
# Those of an array's flags that its type depends on: in C or Fortran order, aligned, writable.
_IN_ORDER, _FLAGS = 0x1, 0x1 | 0x2 | 0x100 | 0x400


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
    """A problem of any class; its name lists the operations in their places."""

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
    if kind.ndim:
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


def _where_they_differ(typingctx, name, kind, own):
    """The first field of a record that is of another type than declared, or the argument."""
    cls = getattr(kind, "instance_class", None)
    if cls is None or getattr(own, "instance_class", None) is not cls:
        return name, kind, own
    parts = zip(kind.fields, kind, own, strict=True)
    field, *both = next(part for part in parts if typingctx.can_convert(part[2], part[1]) is None)
    return _where_they_differ(typingctx, f"{name}.{field}", *both)


def _caller(operation):
    """An intrinsic that calls what the table of its first argument has for an operation."""
    declared, result = operation.signature

    def resolve(typingctx, problem, *given):
        for name, kind, own in zip(operation.names[1:], declared, given, strict=True):
            is_cut = isinstance(kind, types.Integer) and isinstance(own, types.Float)
            if is_cut or typingctx.can_convert(own, kind) is None:
                name, kind, own = _where_they_differ(typingctx, name, kind, own)
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
    listed = ", ".join(("typingctx", *operation.names))
    source = f"def call({listed}):\n    return resolve({listed})\n"
    return intrinsic(written("call", source, {"resolve": resolve}))


#: Whether any table was asked in vain.
alarms = []


@ctypes.CFUNCTYPE(ctypes.c_double, ctypes.POINTER(ctypes.c_int64))
def _note_missing(asked):
    """The function in empty places of tables: kernels cannot raise."""
    asked[0] = 1
    alarms.append(None)
    return math.nan


_MISSING = ctypes.cast(_note_missing, ctypes.c_void_p).value


# What the word of an operation that its function takes first is relative to.
ASKED, TABLE, FIELDS = range(3)


class Template(NamedTuple):
    """The first words of tables of one type of problems; replaced as a whole, never changed."""

    # Kernels, with classes of arguments, that find all operations they call.
    ready: frozenset
    # The words: after the functions one for each, which says that it was asked for in vain.
    words: np.ndarray
    # For each operation which of three addresses its function takes first.
    relative: np.ndarray

    @classmethod
    def empty(cls, n):
        """Without any function of `n` operations."""
        words = np.zeros(_HEADER + 3 * n, dtype=np.int64)
        words[_HEADER : _HEADER + 2 * n : 2] = _MISSING
        words[_HEADER + 1 : _HEADER + 2 * n : 2] = 8 * np.arange(n)
        return cls(frozenset(), words, np.full(n, ASKED))


class ProblemType:
    """What tables of problems of one class and one type of each field have in common."""

    def __init__(self, problem):
        #: The class, and numba's types of it and of the table.
        self.cls, self.kind, self.opaque = type(problem), numba.typeof(problem), opaque()
        self.template = Template.empty(len(_operations))
        self._check()

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

    def lacks(self, operation):
        """Return whether an operation has no function yet."""
        return self.template.words[_HEADER + 2 * operation.place] == _MISSING

    def fill(self, operation, function, relative, offset=0):
        """Let an operation call the function at an address."""
        ready, words, others = self.template
        words, others, place = words.copy(), others.copy(), _HEADER + 2 * operation.place
        words[place : place + 2], others[operation.place] = (function, offset), relative
        self.template = Template(ready, words, others)

    def finish(self, asked):
        """Note that a kernel finds all operations that it calls."""
        self.template = self.template._replace(ready=self.template.ready | {asked})

    def _check(self):
        found = dict(zip(self.kind.fields, self.kind, strict=True))
        for name, dtype in _ARRAYS.items():
            own, expected = found.get(name, types.none), types.Array(dtype, 1, "C")
            if not isinstance(own, types.Array) or own.copy(readonly=False) != expected:
                raise TypeError(
                    f"{self.cls.__name__}.{name} must be a contiguous array of {dtype} of one "
                    f"dimension, not {in_words(own)}"
                )
        self._check_fields(self.kind)

    def _check_fields(self, kind):
        if isinstance(kind, types.BaseTuple):
            for part in kind:
                self._check_fields(part)
        elif not isinstance(kind, _PLAIN):
            raise TypeError(
                f"{self.cls.__name__} has a field of type {kind}: a problem holds arrays, numbers "
                "and tuples of these"
            )


_types = {}


class Table:
    """The table of a problem, whose arrays the caller keeps."""

    __slots__ = ("_fields", "_words", "address", "ready", "type")

    def __init__(self, problem):
        fields, kinds = [], [len(_operations)]
        _scan(problem, fields, kinds)
        kinds = tuple(kinds)
        if kinds not in _types:
            _types.setdefault(kinds, ProblemType(problem))  # another thread's may be there now
        #: A :class:`ProblemType`.
        self.type = _types[kinds]
        n = kinds[0]
        #: Kernels, with classes of arguments, that find all operations they call.
        self.ready, words, relative = self.type.template
        self._fields, self._words = np.array(fields, dtype=np.int64), words.copy()
        #: Address of the words.
        self.address = address_of(self._words)
        asked = self.address + 8 * (_HEADER + 2 * n)
        addresses = np.array([asked, self.address, address_of(self._fields)])
        self._words[_HEADER + 1 : _HEADER + 2 * n : 2] += addresses[relative]
        header = []
        for name in _ARRAYS:
            array = getattr(problem, name)
            header += address_of(array), array.size
        self._words[:_HEADER] = header

    def missed(self):
        """The operations that were called without a function."""
        asked = self._words[_HEADER + 2 * self.type.template.relative.size :]
        return [_operations[k] for k in np.flatnonzero(asked)]


@typeof_impl.register(Table)
def _type_of_table(table, context):
    return table.type.opaque


# Where NumPy's arrays keep the address of their data: C code that uses NumPy has that compiled in.
# The documented ways take ten times as long.
_DATA = object.__basicsize__


def _listed_address(array):
    """Address of the data of an array, as NumPy documents it."""
    return array.__array_interface__["data"][0]


def _read_address(array, pointer_at=ctypes.c_void_p.from_address):
    """Address of the data of an array."""
    return pointer_at(id(array) + _DATA).value


def _fastest_address():
    array = np.arange(3.0)
    own = _read_address if sys.implementation.name == "cpython" else _listed_address
    return own if own(array[1:]) == _listed_address(array[1:]) else _listed_address


#: Address of the data of an array.
address_of = _fastest_address()


def _scan(value, fields, kinds):
    """Add the words of a tuple's fields, and all that numba's type of it depends on."""
    kinds.append(type(value))
    for part in value:
        kind = type(part)
        if kind is np.ndarray or isinstance(part, np.ndarray):
            flags = part.flags.num & _FLAGS
            fields.append(address_of(part))
            fields += part.shape
            if not flags & _IN_ORDER:
                fields += part.strides
            kinds += part.dtype, part.ndim, flags
        elif isinstance(part, tuple):
            _scan(part, fields, kinds)
        else:
            fields.append(part if kind is int else _bits(part))
            kinds.append(kind)
    kinds.append(None)  # the end, so that tuples of other lengths differ


def _bits(number):
    """The word of a number."""
    try:
        content = np.asarray(number).tobytes()[:8]
    except (TypeError, ValueError):  # refused where types are looked at
        return 0
    return int.from_bytes(content, sys.byteorder, signed=True)

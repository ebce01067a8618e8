"""Problems as solvers see them: a pointer to a table, of one type for all structures.

In place of a problem a solver takes the address of int64 words: address and size of the arrays that
solvers read, then for each operation the address of a function and of what that takes first, the
fields of the problem. So it is compiled once. The functions have declared signatures
(:mod:`skstruct.core.jit.signatures`); arrays of one dimension go through a call as address and
size, NamedTuples as an address. Nothing can be raised through it.

Numba's interface for extensions is documented; how it lays out arrays in memory is not, so the size
is checked where functions are compiled (:mod:`skstruct.core.jit.solver_kernel`).
"""

import ctypes
import hashlib
import math
import sys
import weakref

import numba
import numpy as np
from llvmlite import ir
from numba import TypingError, types
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array

from .references import Reference
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


@register_model(Opaque)
class _OpaqueModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _WORD.as_pointer())


@infer_getattr
class _OpaqueArrays(AttributeTemplate):
    key = Opaque

    def generic_resolve(self, problem, name):
        return types.Array(_ARRAYS[name], 1, "C") if name in _ARRAYS else None


def _load(builder, table, place):
    """A word, which does not change while kernels run."""
    value = builder.load(builder.gep(table, [ir.Constant(_WORD, place)]))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _array(context, builder, kind, address, size):
    """The array of one dimension that begins at an address."""
    array = context.make_array(kind)(context, builder)
    n_bytes = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    populate_array(
        array, data=address, shape=[size], strides=[n_bytes], itemsize=n_bytes, meminfo=None
    )
    return array._getvalue()


@lower_getattr_generic(Opaque)
def _lower_array(context, builder, opaque, table, name):
    kind, place = types.Array(_ARRAYS[name], 1, "C"), 2 * list(_ARRAYS).index(name)
    address, size = (_load(builder, table, place + k) for k in range(2))
    address = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    return _array(context, builder, kind, address, size)


@intrinsic
def flat(typingctx, address, size):
    """The array of an address and a size; numba's ``carray`` needs its memory manager."""
    kind = types.Array(address.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        return _array(context, builder, kind, *args)

    return kind(address, types.int64), codegen


@unbox(Opaque)
def _unbox(kind, table, c):
    address = c.pyapi.object_getattr_string(table, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.bitcast(pointer, _WORD.as_pointer()))


def is_flat(kind):
    """Return whether an argument goes through a call as address and size."""
    return isinstance(kind, types.Array) and kind.ndim == 1


def _caller(operation):
    """An intrinsic that calls what the table of its first argument has for an operation."""
    declared, result = operation.signature

    def resolve(typingctx, problem, *given):
        taken = []
        for name, kind, own in zip(operation.names[1:], declared, given, strict=True):
            fits = isinstance(own, Reference) and own.target == kind
            if not fits and typingctx.can_convert(own, kind) is None:
                raise TypingError(
                    f"{operation.name} takes {in_words(kind)} as {name}, not {in_words(own)}"
                )
            taken.append(own if fits else kind)

        def codegen(context, builder, signature, args):
            place = _HEADER + 2 * operation.place
            function, passed = (_load(builder, args[0], place + k) for k in range(2))
            passed = [passed]
            for kind, value in zip(taken, args[1:], strict=True):
                if is_flat(kind):
                    array = context.make_array(kind)(context, builder, value)
                    passed += [array.data, array.nitems]
                else:
                    passed.append(value)
            returned = context.get_value_type(result)
            pointer = ir.FunctionType(returned, [value.type for value in passed]).as_pointer()
            return builder.call(builder.inttoptr(function, pointer), passed)

        return result(problem, *taken), codegen

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
            if not is_flat(own) or own.copy(readonly=False) != expected:
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
        return self.kind[place], 8 * sum(map(count_words, tuple(self.kind)[:place]))

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
            words += 0, 0, part.size, part.itemsize, _address(part), *part.shape, *part.strides
        elif isinstance(part, tuple):
            _write(part, words)
        else:
            words.append(int.from_bytes(np.asarray(part).tobytes(), sys.byteorder, signed=True))


def count_words(kind):
    """The number of words of a value in memory."""
    if isinstance(kind, types.BaseTuple):
        return sum(map(count_words, kind))
    return 5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1


def _identify(value, key):
    """What tells problems apart: their arrays, numbers and classes."""
    key += type(value), len(value)
    for part in value:
        if isinstance(part, np.ndarray):
            key.append(id(part))
        elif isinstance(part, tuple):
            _identify(part, key)
        else:
            key += type(part), part if part == part else None


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

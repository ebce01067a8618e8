"""Types of operations, from the annotations of their contracts: calls by address need them."""

import inspect
from typing import NamedTuple

import numba
from numba import types

#: Potentials, parts, probabilities; and labels, one per node. 1-D arrays are contiguous.
Floats, Labels = types.float64[::1], types.int32[::1]
#: Several of them, one per row.
FloatRows, LabelRows = types.float64[:, ::1], types.int32[:, ::1]
#: Two numbers.
Pair = types.UniTuple(types.float64, 2)

_PLAIN = {int: types.int64, float: types.float64, bool: types.boolean, None: types.void}
_WORDS = {
    "int64": "int",
    "float64": "float",
    "boolean": "bool",
    "none": "nothing",
    "void": "nothing",
}
_records = {}


def declare(example):
    """Let the class of a NamedTuple stand for the types of this instance in signatures."""
    _records[type(example)] = numba.typeof(example)


class Signature(NamedTuple):
    """Types of all arguments but the first, whose class chooses the kernel, and of the result."""

    arguments: tuple
    result: types.Type

    @classmethod
    def of(cls, contract):
        """The signature that a contract declares, or None if it is incomplete."""
        found = inspect.signature(contract, eval_str=True)
        given = [own.annotation for own in found.parameters.values()][1:]
        result = found.return_annotation
        result = None if result is inspect.Signature.empty else result
        if inspect.Parameter.empty in given:
            return None
        *arguments, result = map(_numba_type, [*given, result])
        return cls(tuple(arguments), result)


def _numba_type(annotation):
    if isinstance(annotation, types.Type):
        return annotation
    return _PLAIN[annotation] if annotation in _PLAIN else _records[annotation]


def in_words(kind):
    """The name of a type in messages."""
    if isinstance(kind, types.BaseNamedTuple):
        return kind.instance_class.__name__
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(map(in_words, kind))})"
    if isinstance(kind, types.Array):
        what = "" if kind.mutable else "read-only "
        what += "" if kind.layout == "C" else "non-contiguous "
        what += "array" if kind.aligned else "unaligned array"
        return f"{what} of {kind.dtype} of {kind.ndim} dimensions"
    name = str(types.unliteral(kind))
    return _WORDS.get(name, name)

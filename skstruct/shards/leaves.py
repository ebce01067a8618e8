"""Packed samples to named arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..data.matrices import csr_from_parts, is_sound_csr, readable
from .files import Damage

_PARTS = ("data", "indices", "indptr")


def _is_tuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def flatten(samples: Any, prefix: str = "") -> tuple[dict, dict]:
    """The arrays of packed samples."""
    arrays, widths = {}, {}
    for field, value in zip(samples._fields, samples, strict=True):
        name = prefix + field
        if value is None:
            continue
        if sparse.issparse(value) and value.format == "csr":
            arrays |= {f"{name}.{part}": getattr(value, part) for part in _PARTS}
            widths[name] = int(value.shape[1])
        elif isinstance(value, np.ndarray) and value.dtype.kind in "buif":
            arrays[name] = value
        elif _is_tuple(value):
            inner = flatten(value, f"{name}.")
            arrays, widths = arrays | inner[0], widths | inner[1]
        else:
            raise TypeError(
                f"shards hold arrays of numbers, CSR matrices and NamedTuples of them: "
                f"{type(samples).__name__}.{field} is a {type(value).__name__}"
            )
    return arrays, widths


def build(like: Any, arrays: dict, widths: dict, where: str) -> Any:
    """Packed samples of arrays: the inverse of :func:`flatten`."""
    left = dict(arrays)
    samples = _build(like, left, widths, where, "")
    if left:
        raise Damage(
            f"{where} has arrays that samples of type {type(like).__name__} do not have: "
            f"{', '.join(sorted(left))}"
        )
    return samples


def _build(like, left, widths, where, prefix):
    """The fields of one tuple, taken out of what is left."""
    fields = {}
    for field, typical in zip(like._fields, like, strict=True):
        name = prefix + field
        if name in left:
            array = left.pop(name)
            if isinstance(typical, np.ndarray) and typical.ndim != array.ndim:
                raise Damage(f"{where}: {name} must have {typical.ndim} dimensions")
            counts = isinstance(typical, np.ndarray) and typical.dtype.kind in "biu"
            if counts and array.dtype != typical.dtype:
                raise Damage(f"{where}: {name} must be {typical.dtype}, got {array.dtype}")
            fields[field] = readable(array, array.dtype)
        elif name in widths:
            fields[field] = _matrix(name, left, widths[name], where)
        elif _is_tuple(typical):
            fields[field] = _build(typical, left, widths, where, f"{name}.")
        elif typical is not None:
            raise Damage(f"{where} has no array {name}")
        else:
            fields[field] = None
    return type(like)(**fields)


def _matrix(name, left, width, where):
    """A CSR matrix, which kernels read without a look at bounds."""
    try:
        parts = [left.pop(f"{name}.{part}") for part in _PARTS]
    except KeyError as error:
        raise Damage(f"{where} has no array {error.args[0]}") from None
    shape = (max(parts[2].size - 1, 0), width)
    if not is_sound_csr(shape, *parts):
        raise Damage(
            f"{where}: {name}.data, {name}.indices and {name}.indptr are no matrix of {shape[0]} x "
            f"{width}: they are damaged, or of other shards"
        )
    return csr_from_parts(shape, *(readable(part, part.dtype) for part in parts))

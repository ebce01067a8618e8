"""Packed samples as named arrays, and names of features in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..core.tree import tree_items, tree_like
from ..data.matrices import csr_from_parts, is_sound_csr, readable
from ..data.names import FeatureNames, ListedNames
from ..data.store import Damage, check_file, write_bytes

# Packed samples to named arrays, and back.

_PARTS = ("data", "indices", "indptr")


def _is_field(value):
    """Whether this is a field of packed samples, not a tuple of them."""
    return not hasattr(value, "_fields")


def flatten(samples: Any) -> tuple[dict, dict]:
    """The arrays of packed samples, and widths of CSR matrices."""
    arrays, widths = {}, {}
    for name, value in tree_items(samples, is_leaf=_is_field):
        if value is None:
            continue
        if sparse.issparse(value) and value.format == "csr":
            arrays |= {f"{name}.{part}": getattr(value, part) for part in _PARTS}
            widths[name] = int(value.shape[1])
        elif isinstance(value, np.ndarray) and value.dtype.kind in "buif":
            arrays[name] = value
        else:
            raise TypeError(
                f"shards hold arrays of numbers, CSR matrices and NamedTuples of them: "
                f"{type(samples).__name__}.{name} is a {type(value).__name__}"
            )
    return arrays, widths


def build(like: Any, arrays: dict, widths: dict, where: str) -> Any:
    """Packed samples of arrays: the inverse of :func:`flatten`."""
    left = dict(arrays)
    fields = [
        _field(name, typical, left, widths, where)
        for name, typical in tree_items(like, is_leaf=_is_field)
    ]
    if left:
        raise Damage(
            f"{where} has arrays that samples of type {type(like).__name__} do not have: "
            f"{', '.join(sorted(left))}"
        )
    return tree_like(like, iter(fields))


def _field(name, typical, left, widths, where):
    """One field, taken out of what is left."""
    if name in left:
        array = left.pop(name)
        if isinstance(typical, np.ndarray) and typical.ndim != array.ndim:
            raise Damage(f"{where}: {name} must have {typical.ndim} dimensions")
        counts = isinstance(typical, np.ndarray) and typical.dtype.kind in "biu"
        if counts and array.dtype != typical.dtype:
            raise Damage(f"{where}: {name} must be {typical.dtype}, got {array.dtype}")
        return readable(array, array.dtype)
    if name in widths:
        return _matrix(name, left, widths[name], where)
    if typical is not None:
        raise Damage(f"{where} has no array {name}")
    return None


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


# Names of features in a file of their own, read when somebody asks for them.


class StoredNames(FeatureNames):
    """Names in a file. A pickle of them has the names themselves."""

    def __init__(self, folder: Path, entry: dict) -> None:
        self._path, self._entry, self._read = folder / entry["file"], entry, None
        self._digest = bytes.fromhex(entry["digest"])

    def __len__(self) -> int:
        return self._entry["count"]

    def strings(self) -> list[str]:
        """All names."""
        if self._read is None:
            try:
                check_file(self._path, self._entry)
                names = json.loads(self._path.read_bytes())
            except Damage as error:
                raise Damage(
                    f"{error}; a model trained on these shards does without its names after "
                    "`del model.feature_names_in_`"
                ) from None
            if not isinstance(names, list) or len(names) != len(self):
                raise Damage(f"{self._path} does not have {len(self)} names")
            self._read = names
        return self._read

    def __reduce__(self):
        return ListedNames, (self.strings(),)


def write_names(folder: Path, file: str, names: FeatureNames) -> dict:
    """Write names of features."""
    entry = write_bytes(folder / file, json.dumps(names.strings()).encode("ascii"))
    return entry | {"file": file, "count": len(names), "digest": names._key().hex()}

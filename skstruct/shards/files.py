"""Files of shards: plain arrays with their sizes and checksums."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..data.files import Checked
from ..data.matrices import csr_from_parts, is_sound_csr, readable
from ..data.names import FeatureNames, ListedNames

_PIECE = 1 << 22  # bytes read at once


class Damage(ValueError):
    """A file of shards is not what its manifest says."""


class _Counted(Checked):
    """A file that counts what is written to it, and takes the checksum of manifests."""

    def __init__(self, file):
        super().__init__(file)
        self.digest = hashlib.blake2b(digest_size=16)

    def _add(self, piece):
        self.digest.update(piece)

    def entry(self):
        return {"bytes": self.size, "checksum": self.digest.hexdigest()}


def write_bytes(path: Path, content: bytes) -> dict:
    """Write a file."""
    with open(path, "wb") as file:
        counted = _Counted(file)
        counted.write(content)
    return counted.entry()


def write_array(path: Path, array: np.ndarray) -> dict:
    """Write an array in NumPy's own format."""
    array = np.ascontiguousarray(array)
    with open(path, "wb") as file:
        counted = _Counted(file)
        np.lib.format.write_array(counted, array, allow_pickle=False)
    return counted.entry() | {"dtype": array.dtype.str, "shape": list(array.shape)}


def check_size(path: Path, entry: dict) -> None:
    """Refuse a file that is not there, or not of the size that the manifest says."""
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise Damage(f"{path} is missing: the shards are damaged, or not all there") from None
    if size != entry["bytes"]:
        raise Damage(
            f"{path} has {size} bytes, {entry['bytes']} were expected: the file is truncated, or "
            "another one"
        )


def open_array(path: Path, entry: dict, map_from: int = 0) -> np.ndarray:
    """Map an array into memory, read-only."""
    check_size(path, entry)
    try:
        mode = "r" if entry["bytes"] >= map_from else None
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise Damage(f"{path} is no file of an array: {error}") from None
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise Damage(
            f"{path} has an array of {array.dtype} of shape {array.shape}; {entry['dtype']} of "
            f"shape {tuple(entry['shape'])} was expected"
        )
    return array


def read_bytes(path: Path, entry: dict) -> bytes:
    """A whole file, its checksum compared."""
    check_file(path, entry)
    return path.read_bytes()


def check_file(path: Path, entry: dict) -> None:
    """Compare size and checksum of a file, in bounded memory."""
    check_size(path, entry)
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != entry["checksum"]:
        raise Damage(f"{path} has another checksum than when it was written: it is damaged")


# Packed samples to named arrays, and back.

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
                names = json.loads(read_bytes(self._path, self._entry))
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

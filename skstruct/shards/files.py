"""Files of shards: plain arrays with their sizes and checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from ..data.files import Checked

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

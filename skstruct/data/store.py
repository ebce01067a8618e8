"""Files that are whole or absent, and arrays in them, with one kind of checksum."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import lzma
import os
import shutil
import struct
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ..core.problem import tree_leaves, tree_like

_PIECE = 1 << 22  # bytes read at once
_SUM = 16  # bytes of a checksum
# Exceptions of reading an array that is damaged or larger than memory. NumPy takes headers that it
# cannot read for those of Python 2, and tokenizes them.
_UNREADABLE = (
    *(ValueError, EOFError, TypeError, SyntaxError, OverflowError, MemoryError),
    tokenize.TokenError,
)
# The same of an archive: RuntimeError is for ciphers and compressions that zipfile does not know.
_UNREADABLE_ARCHIVE = (
    *(*_UNREADABLE, RuntimeError, struct.error),
    *(OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


class Damage(ValueError):
    """A file is not what was written."""


class _Crc32:
    """A checksum against accidents only, five times as fast."""

    def __init__(self):
        self._sum = 0

    def update(self, piece):
        self._sum = zlib.crc32(piece, self._sum)

    def digest(self):
        return self._sum.to_bytes(_SUM, "big")


class Checked:
    """A file with the size and the checksum of all that has been written or read."""

    def __init__(self, file: IO[bytes], *, quick: bool = False) -> None:
        self._file, self.size = file, 0
        self._digest = _Crc32() if quick else hashlib.blake2b(digest_size=_SUM)

    @property
    def checksum(self) -> bytes:
        """Return the checksum of all that was written or read so far."""
        return self._digest.digest()

    def _count(self, piece):
        self.size += len(piece)
        self._digest.update(piece)
        return piece

    def write(self, piece: bytes) -> int:
        """Write a piece."""
        return self._file.write(self._count(piece))

    def read(self, size: int) -> bytes:
        """Read a piece."""
        return self._count(self._file.read(size))


@contextlib.contextmanager
def written_beside(path: Path, *, lasting: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name when complete; a `lasting` one is locked and flushed to disk."""
    if path.exists() and not path.is_file():  # a device or a pipe would be gone
        raise FileExistsError(f"{path} is not a regular file")
    name = path.name if len(os.fsencode(path.name)) < 200 else path.name[:50]  # 255 are possible
    beside = path.with_name(f"{name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        with open(beside, "wb") as file:
            if lasting:
                lock(file.fileno())
            yield file
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
        if lasting:
            _sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def remove_parts(folder: Path, pattern: str) -> None:
    """Delete partial files of processes that were killed: those that no process has locked."""
    for part in folder.glob(f"{pattern}.*-*.part"):
        with contextlib.suppress(OSError), part.open("rb") as file:
            if lock(file.fileno()):
                part.unlink()


def lock(handle: int) -> bool | None:
    """Lock an open file until it is closed: False if another process has, None without locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sync(folder):
    """Let a renamed file outlive a power cut, where folders can be synchronised."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: Path, content: bytes, **how) -> dict:
    """Write a file; returns its size and checksum."""
    with written_beside(path, **how) as file:
        checked = Checked(file)
        checked.write(content)
    return {"bytes": checked.size, "checksum": checked.checksum.hex()}


def write_array(path: Path, array: np.ndarray, **how) -> dict:
    """Write an array in NumPy's own format; returns what :func:`open_array` takes."""
    array = np.ascontiguousarray(array)
    with written_beside(path, **how) as file:
        checked = Checked(file)
        npy.write_array(checked, array, allow_pickle=False)
    entry = {"bytes": checked.size, "checksum": checked.checksum.hex()}
    return entry | {"dtype": array.dtype.str, "shape": list(array.shape)}


def check_size(path: Path, entry: dict) -> None:
    """Reject a file that is not there, or not of the size that it was written with."""
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise Damage(f"{path} is missing: the shards are damaged, or not all there") from None
    if size != entry["bytes"]:
        raise Damage(
            f"{path} has {size} bytes, {entry['bytes']} were expected: the file is truncated, or "
            "another one"
        )


def _sum_of(path, n_bytes, **how):
    """The checksum of the first bytes of a file, in bounded memory."""
    with open(path, "rb") as file:
        checked = Checked(file, **how)
        while checked.size < n_bytes and checked.read(min(_PIECE, n_bytes - checked.size)):
            pass
    return checked.checksum


def check_file(path: Path, entry: dict) -> None:
    """Compare size and checksum of a file."""
    check_size(path, entry)
    if _sum_of(path, entry["bytes"]).hex() != entry["checksum"]:
        raise Damage(f"{path} has another checksum than when it was written: it is damaged")


def open_array(path: Path, entry: dict, map_from: float = 0) -> np.ndarray:
    """Map an array into memory, read-only; one of fewer bytes than `map_from` is read."""
    check_size(path, entry)
    try:
        # Not np.load, which opens archives, too.
        if entry["bytes"] >= map_from:
            array = npy.open_memmap(path, mode="r")
        else:
            with open(path, "rb") as file:
                array = npy.read_array(file, allow_pickle=False)
    except _UNREADABLE as error:
        raise Damage(f"{path} is no file of an array: {error}") from None
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise Damage(
            f"{path} has an array of {array.dtype} of shape {array.shape}; {entry['dtype']} of "
            f"shape {tuple(entry['shape'])} was expected"
        )
    return array


def write_tree(path: Path, tree: Any) -> None:
    """Write the arrays of nested tuples, and their checksum."""
    with written_beside(path) as file:
        checked = Checked(file, quick=True)
        for array in tree_leaves(tree):
            npy.write_array(checked, np.ascontiguousarray(array), allow_pickle=False)
        file.write(checked.checksum)


def read_tree(path: Path, like: Any) -> Any:
    """Read the arrays that :func:`write_tree` wrote, if their types are those of `like`."""
    arrays = []
    with open(path, "rb") as file:
        checked = Checked(file, quick=True)
        for known in tree_leaves(like):
            try:
                array = npy.read_array(checked, allow_pickle=False)
            except _UNREADABLE as error:
                raise Damage(f"{path} is damaged: {error}") from None
            if array.dtype != known.dtype or array.ndim != known.ndim:
                raise Damage(f"{path} is no dual point of these shards")
            arrays.append(np.ascontiguousarray(array))
        if file.read(_SUM + 1) != checked.checksum:
            raise Damage(f"{path} is damaged, or no dual point of these shards")
    return tree_like(like, iter(arrays))


def is_sound_tree(path: Path) -> bool:
    """Return whether a file can be read and ends with its checksum."""
    try:
        size = path.stat().st_size - _SUM
        with open(path, "rb") as file:
            file.seek(max(size, 0))
            known = file.read()
        return size >= 0 and _sum_of(path, size, quick=True) == known
    except OSError:
        return False


def sealed(content: dict) -> dict:
    """Return content for JSON, with its own checksum."""
    named = {name: content[name] for name in sorted(content) if name != "checksum"}
    text = json.dumps(named).encode("ascii")
    return content | {"checksum": hashlib.blake2b(text, digest_size=_SUM).hexdigest()}


# Folders of processes that were killed: who made a folder, and whether that is gone.

_NAME = "owner.json"


def _process(pid):
    """A process, as nothing else is called that runs now; None if that cannot be known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # Numbers of processes are those of a container.
        space = os.readlink("/proc/self/ns/pid")
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # another container's /proc
    except OSError:
        return None
    try:
        # The name, in parentheses, may have spaces.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if _is_hidden(pid) else [boot, space, pid, None]
    return [boot, space, pid, None if state[0] in "ZX" else state[19]]


def _is_hidden(pid):
    """Return whether a process of another user runs: /proc may be mounted without those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def own(folder: Path) -> None:
    """Record that this process has made a folder."""
    with written_beside(folder / _NAME) as file:
        file.write(json.dumps(_process(os.getpid())).encode())


def is_left(folder: Path) -> bool:
    """Return whether the process that made a folder is known to have ended."""
    try:
        owner = json.loads((folder / _NAME).read_bytes())
        pid = owner[2]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False
    if type(pid) is not int:
        return False
    found = _process(pid)
    return found is not None and owner[:2] == found[:2] and owner[3:] != found[3:]


def remove_left(place: Path, pattern: str) -> None:
    """Delete the folders of processes that are gone."""
    with contextlib.suppress(OSError):
        for folder in place.glob(pattern):
            if folder.is_dir() and not folder.is_symlink() and is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


# Files of arrays that somebody else wrote: errors name the file.


def read_arrays(path, wanted=None) -> dict:
    """Arrays of a ``.npz`` file."""
    try:
        # NumPy leaves a file open that is damaged.
        with open(path, "rb") as raw:
            file = np.load(raw)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            names = file.files if wanted is None else wanted
            lacking = [name for name in names if name not in file.files]
            arrays = {name: file[name] for name in names if not lacking}
            # Other members than arrays come as bytes.
            odd = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
            if odd:
                raise ValueError(f"{odd[0]} is no array")
    except _UNREADABLE_ARCHIVE as error:
        # Of a place before the file's beginning, or of bzip2, which gives no number.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{path} is no .npz file of arrays that can be read: {error}") from None
    if lacking:
        raise ValueError(f"{path} has no array {lacking[0]!r}")
    return arrays


def check_names(path, **arrays) -> None:
    """Reject arrays that are not lists of names."""
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "US":
            raise ValueError(
                f"{path}: {name} must be strings of shape (n,), got dtype {array.dtype}, shape "
                f"{array.shape}"
            )

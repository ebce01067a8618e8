"""Files that are whole or absent, and that sum up what goes through them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PIECE = 1 << 22  # bytes read at once


class Checked:
    """A file with a CRC-32 of all that has been written or read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size, self.sum = file, 0, 0

    def _add(self, piece):
        self.sum = zlib.crc32(piece, self.sum)

    def _count(self, piece):
        self.size += len(piece)
        self._add(piece)

    def write(self, piece: bytes) -> int:
        """Write a piece."""
        self._count(piece)
        return self._file.write(piece)

    def read(self, size: int) -> bytes:
        """Read a piece."""
        piece = self._file.read(size)
        self._count(piece)
        return piece


@contextlib.contextmanager
def written_beside(path: Path, *, sync: bool = False) -> Iterator[Checked]:
    """A file that has its name when it is complete; after an error nothing is left of it."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(beside, "wb") as file:
            yield Checked(file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
        if sync:
            _sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed, or the process is gone.

    False if somebody else has locked it, None where the system or the file system has no locks.
    """
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


def crc_of(path: Path, n_bytes: int) -> int:
    """CRC-32 of the first bytes of a file, in bounded memory."""
    with open(path, "rb") as file:
        checked = Checked(file)
        while checked.size < n_bytes and checked.read(min(_PIECE, n_bytes - checked.size)):
            pass
    return checked.sum


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
    """Whether a process of another user runs: /proc may be mounted without those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def own(folder: Path) -> None:
    """Write down that this process has made a folder."""
    with written_beside(folder / _NAME) as file:
        file.write(json.dumps(_process(os.getpid())).encode())


def is_left(folder: Path) -> bool:
    """Whether the process that made a folder is known to be gone."""
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

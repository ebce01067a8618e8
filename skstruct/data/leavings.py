"""Folders of processes that were killed: who made a folder, and whether that is gone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from .files import written_beside

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

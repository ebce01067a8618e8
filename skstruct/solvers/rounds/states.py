"""Dual points in files: what a round leaves for the next one, on a disk that all workers see."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ...data.files import Checked, crc_of, written_beside
from ...data.leavings import own, remove_left

# How often to try, and how long to wait, where a task that nobody waits for any more still writes.
_TRIES, _PAUSE = 20, 0.1
# What reading raises if an array is damaged or larger than memory.
UNREADABLE = (ValueError, EOFError, TypeError, SyntaxError, OverflowError, MemoryError)
# Bytes of the checksum at the end of a file.
_SUM = 4


def _leaves(state):
    """The arrays of nested tuples, in order."""
    if isinstance(state, np.ndarray):
        yield state
        return
    for field in state:
        yield from _leaves(field)


def _like(template, arrays):
    """Nested tuples of other arrays."""
    if isinstance(template, np.ndarray):
        return next(arrays)
    make = getattr(type(template), "_make", tuple)
    return make([_like(field, arrays) for field in template])


def write_state(path: Path, state: Any) -> None:
    """Write the arrays of a state; the file has its name when it is complete."""
    try:
        with written_beside(path) as file:
            for array in _leaves(state):
                npy.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
            file.write(file.sum.to_bytes(_SUM, "little"))
    except OSError as error:
        text = f"{error.strerror or error}; the dual point of a round could not be written to "
        text += f"{path.parent}, the shards and the rounds before are as they were"
        raise OSError(error.errno, text) from error


def read_state(path: Path, template: Any) -> Any:
    """The state that :func:`write_state` wrote."""
    arrays = []
    with open(path, "rb") as file:
        summed = Checked(file)
        for known in _leaves(template):
            try:
                array = npy.read_array(summed, allow_pickle=False)
            except UNREADABLE as error:
                raise ValueError(f"{path} is damaged: {error}") from None
            if array.dtype != known.dtype or array.ndim != known.ndim:
                raise ValueError(f"{path} is no dual point of these shards")
            arrays.append(np.ascontiguousarray(array))
        if file.read(_SUM + 1) != summed.sum.to_bytes(_SUM, "little"):
            raise ValueError(f"{path} is damaged, or no dual point of these shards")
    return _like(template, iter(arrays))


def is_sound(path: Path) -> bool:
    """Whether a file can be read, and has the checksum that it ends with."""
    try:
        size = path.stat().st_size - _SUM
        with open(path, "rb") as file:
            file.seek(max(size, 0))
            known = file.read()
        return size >= 0 and crc_of(path, size).to_bytes(_SUM, "little") == known
    except OSError:
        return False


def make_folder(place: Path, is_local: bool) -> Path:
    """A new folder for the states of one fit; those that killed drivers have left there go."""
    remove_left(place, ".rounds-*")
    folder = place / f".rounds-{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir()
        own(folder)
    except OSError as error:
        with contextlib.suppress(OSError):  # made, but the disk is full
            folder.rmdir()
        if not is_local:
            text = f"{error.strerror or error}: workers keep their dual points beside the shards, "
            text += f"and {place} is read-only; call fit with checkpoint=, a folder that all see"
            raise OSError(error.errno, text) from error
        remove_left(Path(tempfile.gettempdir()), "skstruct-rounds-*")
        folder = Path(tempfile.mkdtemp(prefix="skstruct-rounds-"))
        own(folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Delete the states of a fit."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE)


@contextlib.contextmanager
def states_of(source, engine, keeper=None):
    """The files of one fit, which are gone when it ends, unless there is a checkpoint."""
    if keeper is not None:
        yield States(keeper.folder)
        return
    folder = make_folder(source.shards.folder, engine.is_local)
    try:
        yield States(folder)
    finally:
        remove_folder(folder)


class States:
    """The files of one fit: a number for each attempt at a round, a file for each part."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        # Files that saved states name: of the last two, and of the one that is being saved.
        self._kept: list = []

    def path(self, number: int, k: int) -> Path | None:
        """The file of part k, or None before the first round."""
        return self.folder / f"a-{number:08d}-{k:06d}.dual" if number else None

    def drop(self, number: int, k: int) -> None:
        """Delete a file, unless a saved state names it."""
        path = self.path(number, k)
        if path is not None and not any(path.name in names for names in self._kept):
            with contextlib.suppress(OSError):
                path.unlink()

    def keep(self, numbers) -> None:
        """Let files be until three more states have been saved, and delete those before."""
        names = {self.path(n, k).name for k, n in enumerate(numbers) if n}
        self._kept = [*self._kept[-2:], names]
        if len(self._kept) < 3:
            return  # after a restart nobody here knows the files of the state before
        wanted = set().union(*self._kept)
        for path in self.folder.glob("a-*.dual*"):
            if path.name not in wanted:
                with contextlib.suppress(OSError):
                    path.unlink()

    def require(self, numbers) -> None:
        """Refuse to go on without a file, or from one that is damaged; they stay."""
        for k, number in enumerate(numbers):
            path = self.path(number, k)
            if path is not None and not is_sound(path):
                raise ValueError(f"{path} is missing or damaged")
        self._kept = [{self.path(n, k).name for k, n in enumerate(numbers) if n}]

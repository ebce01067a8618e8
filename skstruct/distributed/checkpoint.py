"""States of a training in a folder, from which a driver that was killed resumes.

A solver's ``state()`` gives (numbers, arrays, constant): an array in ``constant`` never changes
under its name, and a generator's state is among the numbers. ``take_state`` raises before a change.
Checksums find accidents: the folder is trusted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arguments import warn_user
from ..data.store import (
    check_file,
    is_sound_tree,
    lock,
    open_array,
    own,
    remove_left,
    remove_parts,
    sealed,
    write_array,
    write_bytes,
    write_tree,
)

# Dual points in files: what a round leaves for the next one, on a disk that all workers see.

# Number of tries, and the pause between them, while an abandoned task still writes.
_TRIES, _PAUSE = 20, 0.1


def write_dual(path: Path, dual: Any) -> None:
    """Write the arrays of a dual point; the file has its name when it is complete."""
    try:
        write_tree(path, dual)
    except OSError as error:
        text = f"{error.strerror or error}; the dual point of a round could not be written to "
        text += f"{path.parent}, the shards and the rounds before are as they were"
        raise OSError(error.errno, text) from error


def make_folder(place: Path, is_local: bool) -> Path:
    """A new folder for the dual points of one fit; those that killed drivers have left there go."""
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
    """Delete the dual points of a fit."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE)


@contextlib.contextmanager
def dual_files(source, engine, keeper=None):
    """The dual points of one fit, which are gone when it ends, unless there is a checkpoint."""
    if keeper is not None:
        yield DualFiles(keeper.folder)
        return
    folder = make_folder(source.shards.folder, engine.is_local)
    try:
        yield DualFiles(folder)
    finally:
        remove_folder(folder)


class DualFiles:
    """The dual points of one fit: a number for each attempt at a round, a file for each shard."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        # Files that saved states name: of the last two, and of the one that is being saved.
        self._kept: list = []

    def path(self, number: int, k: int) -> Path | None:
        """The file of shard k, or None before the first round."""
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
        """Raise an error for a missing or damaged file; the other files stay."""
        for k, number in enumerate(numbers):
            path = self.path(number, k)
            if path is not None and not is_sound_tree(path):
                raise ValueError(f"{path} is missing or damaged")
        self._kept = [{self.path(n, k).name for k, n in enumerate(numbers) if n}]


# Counts the changes of what a state has.
_VERSION = 5
_KEPT = 2
_STATE = "round-{:08d}.json"
# Exceptions of reading a state that is damaged.
_DAMAGES = (OSError, ValueError, RecursionError, MemoryError)


def like(found: np.ndarray, known: np.ndarray, what: str) -> np.ndarray:
    """An array of the shape and dtype of another, finite, in C order; ValueError if it is not."""
    same = found.dtype == known.dtype and found.shape == known.shape
    if not (same and np.isfinite(found).all()):
        raise ValueError(f"{what} is not what the training has")
    return np.ascontiguousarray(found)


def _locked(folder):
    """A handle of a folder that no other fit has while this one does; None where locks are not."""
    if os.name == "nt":  # which opens no folders
        return None
    handle = os.open(folder, os.O_RDONLY)
    is_ours = lock(handle)
    if is_ours:
        return handle
    os.close(handle)
    if is_ours is None:
        return None
    raise ValueError(f"checkpoint: {folder} is in use by another fit: name another folder")


def _read_state(path):
    """Read the file of a state; raise one of the damages if it is not what was written."""
    state = json.loads(path.read_text())
    if not isinstance(state, dict) or state != sealed(state):
        raise ValueError("the checksum is wrong")
    return state


class Keeper:
    """Saves a method after its rounds, and restores it; locks the folder until :meth:`close`."""

    #: How much of the time writing may take: states of rounds that come too soon are left out, but
    #: for the last. From which round a training goes on changes no bit.
    SHARE = 0.1

    def __init__(self, folder, fingerprint: dict):
        #: Folder of the states; it may also have dual points, whose names begin with ``a-``.
        self.folder = Path(folder).absolute()
        format = {"format of the checkpoint (of another version of skstruct)": _VERSION}
        self.fingerprint = fingerprint | format
        self.folder.mkdir(parents=True, exist_ok=True)
        #: The last round whose state is saved.
        self.safe = 0
        self._last = self._cost = 0.0
        # Files of the constant arrays of the last state.
        self._constant: dict = {}
        self._handle = _locked(self.folder)
        try:
            self._refuse_other()
        except BaseException:
            self.close()
            raise

    def close(self):
        """Unlock the folder."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _states(self):
        """Files of states, the last first."""
        return sorted(self.folder.glob("round-????????.json"), reverse=True)

    def _refuse_other(self):
        names = [path.name for path in self.folder.iterdir()]
        states = self._states()
        # Files of a state that was never completed belong to no other.
        if not states and not all(n.endswith(".part") or n.startswith("a-") for n in names):
            raise ValueError(f"checkpoint: {self.folder} has files, and none of them is a state")
        for path in states:
            try:
                state = _read_state(path)
            except _DAMAGES:
                continue
            known, k = state["fingerprint"], state["round"]
            self.safe = max(self.safe, k)
            if known != self.fingerprint:
                keys = sorted(set(known) | set(self.fingerprint))
                other = [k for k in keys if known.get(k) != self.fingerprint.get(k)]
                raise ValueError(
                    f"checkpoint: {self.folder} has the state of another training: "
                    f"{', '.join(other)} differ; name another folder, or delete it"
                )

    def load(self, take):
        """Let `take` have the last sound state; return its round and its numbers, or None."""
        damaged, found = [], None
        for path in self._states():
            try:
                state = _read_state(path)
                arrays = {}
                for name, entry in (state["arrays"] | state["constant"]).items():
                    file = self.folder / entry["file"]
                    check_file(file, entry)
                    arrays[name] = open_array(file, entry, np.inf)
            except _DAMAGES:
                damaged.append(path)
                continue
            try:
                take(state["numbers"], arrays)
            except ValueError:
                damaged.append(path)
                continue
            self.safe, self._constant = state["round"], state["constant"]
            found = state["round"], state["numbers"]
            break
        if damaged:
            then = f"continues from round {found[0]}" if found else "starts from the beginning"
            warn_user(
                f"checkpoint: {damaged[0]} or a file that it names is missing or damaged; "
                f"training {then}"
            )
            for path in damaged:
                path.unlink(missing_ok=True)
        return found

    def save(self, k: int, numbers: dict, arrays: dict, constant: dict) -> None:
        """Write the state after a round."""
        try:
            entries = {name: self._write(k, name, array) for name, array in arrays.items()}
            kept = {
                name: self._constant.get(name) or self._write(k, name, array)
                for name, array in constant.items()
            }
            state = {"round": k, "fingerprint": self.fingerprint}
            state |= {"numbers": numbers, "arrays": entries, "constant": kept}
            text = json.dumps(sealed(state)).encode()
            write_bytes(self.folder / _STATE.format(k), text, lasting=True)
        except OSError as error:
            raise OSError(
                error.errno, f"the state of round {k} cannot be written ({error.strerror})"
            ) from error
        self.safe, self._constant = k, kept
        self._tidy()

    def _write(self, k, name, array):
        path = self.folder / f"a-{k:08d}-{name}.npy"
        return write_array(path, array, lasting=True) | {"file": path.name}

    def _tidy(self):
        """Delete what neither of the last two states names."""
        wanted, states = set(), self._states()
        for path in states[:_KEPT]:
            state = json.loads(path.read_text())
            wanted |= {e["file"] for part in ("arrays", "constant") for e in state[part].values()}
        for path in states[_KEPT:]:
            path.unlink(missing_ok=True)
        remove_parts(self.folder, "round-????????.json")
        for path in self.folder.glob("a-????????-*.npy*"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def restore(self, method, progress) -> int:
        """Restore a method and the records to the last state."""
        found = self.load(lambda numbers, arrays: method.take_state(numbers["method"], arrays))
        if found is None:
            return 0
        k, numbers = found
        progress.resume(k, numbers["records"])
        return k

    def keep(self, k: int, method, progress, last: bool) -> None:
        """Save the state after a round, unless the last one was saved just now."""
        now = time.perf_counter()
        if not last and (now - self._last) * self.SHARE < self._cost:
            return
        numbers, arrays, constant = method.state()
        records = {name: values.tolist() for name, values in progress.history().items()}
        self.save(k, {"method": numbers, "records": records}, arrays, constant)
        self._last = time.perf_counter()
        self._cost = self._last - now

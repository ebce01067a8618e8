"""States of a training in a folder: what a driver that was killed goes on from.

A state is a dict of numbers and lists, and arrays. Each array is a file of its own, each state a
JSON file that names them with sizes and checksums; it is written beside and renamed when all
arrays are there, so that a state is whole or absent. The last two are kept: should the files of
one be damaged, the other is taken.

Another solver takes part by having ``state()``, which returns ``(numbers, arrays, constant)``, and
``take_state(numbers, arrays, bound)`` (of all arrays together, and the largest bound recorded; it
certifies what it takes, and raises a ValueError and stays as it was if that is not a state of this
training: anyone can compute a checksum, and kernels check nothing), and by drawing what it draws
from a generator whose state is among the numbers. ``constant`` has arrays whose content never
changes under their name: those that the last state had are not written again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import uuid
import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ...data.files import Checked, crc_of, lock, own, remove_left, written_beside
from .soundness import require_below

# Dual points in files: what a round leaves for the next one, on a disk that all workers see.

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


_VERSION = 2
_KEPT = 2
_STATE = "round-{:08d}.json"
# What reading a file raises that has been changed.
_DAMAGES = (OSError, LookupError, AttributeError, RecursionError, *UNREADABLE)


def _write(path, fill):
    """Write a file; returns its size and checksum."""
    with written_beside(path, sync=True) as file:
        fill(file)
    return {"bytes": file.size, "crc32": file.sum}


def _write_array(path, array):
    def fill(file):
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)

    return _write(path, fill) | {"file": path.name}


def _read_array(folder, entry):
    if Path(entry["file"]).name != entry["file"] or not (folder / entry["file"]).is_file():
        raise ValueError(f"{entry['file']} is not a file of the folder")
    content = (folder / entry["file"]).read_bytes()
    if len(content) != entry["bytes"] or zlib.crc32(content) != entry["crc32"]:
        raise ValueError(f"{entry['file']} is damaged")
    return np.load(BytesIO(content), allow_pickle=False)


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


class Checkpoint:
    """The states of one training.

    Nobody else has the folder until :meth:`close`, or until the process is gone.
    """

    def __init__(self, folder, fingerprint: dict):
        self.folder, self.fingerprint = Path(folder).absolute(), fingerprint
        self.folder.mkdir(parents=True, exist_ok=True)
        self.safe = 0
        # Files of the constant arrays of the last state.
        self._constant: dict = {}
        self._handle = _locked(self.folder)
        try:
            self._refuse_other()
        except BaseException:
            self.close()
            raise

    def close(self):
        """Let others have the folder."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _states(self):
        """Files of states, the last first."""
        return sorted(self.folder.glob("round-????????.json"), reverse=True)

    def _refuse_other(self):
        states = self._states()
        if not states and any(self.folder.iterdir()) and not self._has_leavings():
            raise ValueError(f"checkpoint: {self.folder} has files, and none of them is a state")
        for path in states:
            try:
                state = _sound(path)
                known, k = dict(state["fingerprint"]), int(state["round"])
            except _DAMAGES:
                continue
            self.safe = max(self.safe, k)
            if known != self.fingerprint:
                keys = sorted(set(known) | set(self.fingerprint))
                other = [k for k in keys if known.get(k) != self.fingerprint.get(k)]
                raise ValueError(
                    f"checkpoint: {self.folder} has the state of another training: "
                    f"{', '.join(other)} differ; name another folder, or delete it"
                )

    def _has_leavings(self):
        """Whether all files are of a state that was never completed."""
        return all(
            p.name.endswith(".tmp") or p.name.startswith("a-") for p in self.folder.iterdir()
        )

    def load(self, accept=None):
        """The last state whose files are sound."""
        damaged, found = [], None
        for path in self._states():
            try:
                state, arrays = self._read(path)
            except _DAMAGES:
                damaged.append(path)
                continue
            try:
                if accept is not None:
                    accept(state["numbers"], arrays, state["round"])
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
                damaged.append(path)
                continue
            self.safe, self._constant = state["round"], state["constant"]
            found = state["round"], state["numbers"], arrays
            break
        if damaged:
            then = "training begins anew" if found is None else f"round {found[0]} is gone on from"
            warnings.warn(
                f"checkpoint: {damaged[0]} or a file that it names is missing or damaged; {then}",
                UserWarning,
                stacklevel=2,
            )
            for path in damaged:
                path.unlink(missing_ok=True)
        return found

    def _read(self, path):
        state = _sound(path)
        files = state["arrays"] | state["constant"]
        arrays = {name: _read_array(self.folder, entry) for name, entry in files.items()}
        return state, arrays

    def save(self, k: int, numbers: dict, arrays: dict, constant: dict) -> None:
        """Write the state after a round."""
        try:
            entries = {
                name: _write_array(self.folder / f"a-{k:08d}-{name}.npy", array)
                for name, array in arrays.items()
            }
            kept = {
                name: self._constant.get(name)
                or _write_array(self.folder / f"a-{k:08d}-{name}.npy", array)
                for name, array in constant.items()
            }
            state = {"version": _VERSION, "round": k, "fingerprint": self.fingerprint}
            state |= {"numbers": numbers, "arrays": entries, "constant": kept}
            state["crc32"] = zlib.crc32(_text(state))
            _write(self.folder / _STATE.format(k), lambda f: f.write(json.dumps(state).encode()))
        except OSError as error:
            raise OSError(
                error.errno, f"the state of round {k} cannot be written ({error.strerror})"
            ) from error
        self.safe, self._constant = k, kept
        self._tidy()

    def _tidy(self):
        """Delete what neither of the last two states names."""
        wanted, states = set(), self._states()
        for path in states[:_KEPT]:
            state = json.loads(path.read_text())
            wanted |= {e["file"] for part in ("arrays", "constant") for e in state[part].values()}
        for path in states[_KEPT:]:
            path.unlink(missing_ok=True)
        for path in self.folder.glob("round-????????.json.*.tmp"):  # of a driver that was killed
            path.unlink(missing_ok=True)
        for path in self.folder.glob("a-????????-*.npy*"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)


def _sound(path):
    """What the file of a state says; raises one of the damages if it is not what was written."""
    state = json.loads(path.read_text())
    if state["version"] != _VERSION or zlib.crc32(_text(state)) != state["crc32"]:
        raise ValueError("damaged")
    if type(state["round"]) is not int or path.name != _STATE.format(state["round"]):
        raise ValueError("the state of another round")
    return state


def _text(state):
    """What the checksum of a state is of."""
    return json.dumps({k: v for k, v in state.items() if k != "crc32"}, sort_keys=True).encode()


def _require_records(records, known, k):
    """Refuse records that are not those of k rounds."""
    if records.keys() != known.keys():
        raise ValueError("records of other fields")
    for values in records.values():
        if len(values) != k or {type(value) for value in values} != {float}:
            raise ValueError("records of another number of rounds, or not of numbers")


def _require_bounds(records):
    """The largest recorded lower bound; ValueError if a recorded gap or objective contradicts."""
    with np.errstate(invalid="ignore"):
        known = np.array(records["objective"]) - records["dual_gap"]
    duals, measured = np.array(records["dual_objective"]), ~np.isnan(known)
    if not np.array_equal(duals[measured], known[measured]):
        raise ValueError("records of bounds that are not those of their gaps")
    bound = np.fmax.reduce(duals, initial=-np.inf)
    require_below(bound, np.fmin.reduce(records["objective"], initial=np.inf))
    return float(bound)


class Keeper:
    """Saves a method after its rounds, and restores it; for :func:`skstruct.solvers.run.run`."""

    #: How much of the time writing may take: states of rounds that come too soon are left out, but
    #: for the last. From which round a training goes on changes no bit.
    SHARE = 0.1

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint
        self._last = self._cost = 0.0

    @property
    def folder(self) -> Path:
        """Where states go; files of workers may be there, too, whose names begin with ``a-``."""
        return self._checkpoint.folder

    def restore(self, method, progress) -> int:
        """Put a method and the records where the last state says."""

        def accept(numbers, arrays, k):
            _require_records(numbers["records"], progress.history(), k)
            bound = _require_bounds(numbers["records"])
            method.take_state(numbers["method"], arrays, bound)

        found = self._checkpoint.load(accept)
        if found is None:
            return 0
        k, numbers, _ = found
        progress.go_on(k, numbers["records"])
        return k

    def keep(self, k: int, method, progress, last: bool) -> None:
        """Save the state after a round, unless the last one was saved just now."""
        now = time.perf_counter()
        if not last and (now - self._last) * self.SHARE < self._cost:
            return
        numbers, arrays, constant = method.state()
        records = {name: values.tolist() for name, values in progress.history().items()}
        numbers = {"method": numbers, "records": records}
        self._checkpoint.save(k, numbers, arrays, constant)
        self._last = time.perf_counter()
        self._cost = self._last - now

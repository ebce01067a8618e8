"""A folder for compiled kernels, one file each, named by a hash of everything it depends on.

Entries are pickles: files and folders that another user could have written are not read.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from pathlib import Path

from numba import types

from .cache_key import made_of
from .compiling import arguments_of, classes_of
from .numba_private import keep_in, packed, target_of, unpacked

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: processes that start at once compile the same
    fcntl = None

_logger = logging.getLogger("skstruct")

_DAY = 86400.0
_UNUSED_DAYS = 14
_OLD_NAME = re.compile(r"skstruct-[0-9a-f]{16}")
_CHECKSUM_BYTES = 32
# Longest wait for a kernel that another process compiles, and time between two checks.
_PATIENCE, _LOOK = 60.0, 0.02


def user():
    """User id, or None where files have no such owners (Windows)."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def is_safe(status, owners):
    """Return whether only `owners` can have written a file of this status."""
    if user() is None:
        return True
    return status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_safe_folder(folder, owners):
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and is_safe(status, owners)


def _is_writable(folder):
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _make(folder, mode=0o755):
    """Make a folder that only its user can write, unless it exists; True if it is new."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=mode)
    except OSError:
        return False
    return True


def _user_folders():
    """Folders of this user: in the home, and in the system's folder for temporary files."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    home = os.path.join(os.path.expanduser("~"), ".cache")  # "~" for users without a home
    for folder in (named, home):
        if os.path.isabs(folder):
            yield Path(folder) / "skstruct"
            break
    # The name can be guessed: another user may have made a folder or link of this name.
    name = "skstruct-cache" if user() is None else f"skstruct-cache-{user()}"
    with contextlib.suppress(OSError):  # there may be no such folder
        private = Path(tempfile.gettempdir()) / name
        _make(private, mode=0o700)
        if _is_safe_folder(private, {user()}):
            yield private


def _places(package, chosen):
    """Folders to try, each with users who may have written there: root may fill it for others."""
    if chosen and str(chosen).strip():
        yield Path(os.path.expanduser(chosen)).absolute(), {user(), 0}
    yield package / "__pycache__", {user(), 0}
    for folder in _user_folders():
        yield folder, {user()}


def _prune(folder, last_use):
    """Delete entries, and folders of other versions, long unused when the folder was last used."""
    for path in [*folder.iterdir(), *folder.parent.iterdir()]:
        with contextlib.suppress(OSError):
            now = last_use if path.parent == folder else time.time()
            if path == folder or now - path.lstat().st_mtime <= _UNUSED_DAYS * _DAY:
                continue
            if path.parent == folder:
                path.unlink()
            elif _OLD_NAME.fullmatch(path.name) and _is_safe_folder(path, {user()}):
                shutil.rmtree(path, ignore_errors=True)


def _delete(path, reason):
    _logger.debug("compiling anew: %s (%s)", path, reason)
    with contextlib.suppress(OSError):
        path.unlink()


def open_file(path, flags):
    """Open a file; if it is a named pipe, do not wait for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class Store:
    """Named entries in the first writable folder and in those tried before it."""

    def __init__(self, readable, writable, last_use=0.0):
        self.readable = readable
        self.writable = writable
        self._last_use = last_use
        self._reserved = {}

    def reserve(self, name):
        """Lock an entry before it is compiled; wait, not for ever, while another process has it."""
        if fcntl is None or self.writable is None or name in self._reserved:
            return False
        waited, end = False, time.monotonic() + _PATIENCE
        try:
            number = os.open(self.writable / f"{name}.lock", os.O_WRONLY | os.O_CREAT, 0o644)
        except OSError:
            return False
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < end:
                    waited = True
                    time.sleep(_LOOK)
                    continue
                os.close(number)
            except OSError:  # a file system without locks
                os.close(number)
            else:
                self._reserved[name] = number
            return waited

    def release(self, name):
        """Release the lock of an entry."""
        number = self._reserved.pop(name, None)
        if number is not None:
            with contextlib.suppress(OSError):
                (self.writable / f"{name}.lock").unlink()
            os.close(number)

    def read(self, name):
        """Content of an entry; a damaged one is deleted."""
        for folder, owners in self.readable:
            try:
                with open(folder / name, "rb", opener=open_file) as file:
                    status = os.fstat(file.fileno())
                    if not (stat.S_ISREG(status.st_mode) and is_safe(status, owners)):
                        continue
                    data = file.read()
                if time.time() - status.st_mtime > _DAY:
                    with contextlib.suppress(OSError):  # one that only root can write
                        os.utime(folder / name)
            except OSError:
                continue
            content = data[_CHECKSUM_BYTES:]
            if hashlib.sha256(content).digest() == data[:_CHECKSUM_BYTES]:
                return content
            _delete(folder / name, "its checksum is wrong")
        return None

    def write(self, name, content):
        """Store an entry; if that fails (a full disk), the next process compiles it again."""
        if self.writable is None:
            return
        path = self.writable / name
        aside = path.with_name(f"{name}.{uuid.uuid4().hex[:16]}.tmp")
        try:
            _make(self.writable)  # another process may have pruned it
            # Whatever the user's umask allows, no other user may write here.
            number = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            with open(number, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(aside, path)
            if self._last_use:  # once in a process, one that compiles
                last_use, self._last_use = self._last_use, 0.0
                _prune(self.writable, last_use)
        except OSError as error:
            _logger.debug("compiled kernel not kept: %s", error)
            with contextlib.suppress(OSError):
                aside.unlink()

    def discard(self, name, reason):
        """Delete an entry."""
        for folder, _ in self.readable:
            _delete(folder / name, reason)


def open_store(versions, package, chosen=None):
    """The store of kernels of `versions`, in the first safe folder that this user can write."""
    readable = []
    if versions is None:
        return Store(readable, None)
    name = f"skstruct-{hashlib.sha256(repr(versions).encode()).hexdigest()[:16]}"
    for root, owners in _places(package, chosen):
        folder = root / name
        _make(folder)
        if not _is_safe_folder(folder, owners):
            continue
        readable.append((folder, owners))
        if not _is_writable(folder):
            continue
        last_use = 0.0
        with contextlib.suppress(OSError):
            last_use = folder.stat().st_mtime
            if time.time() - last_use > _DAY:
                os.utime(folder)
        return Store(readable, folder, last_use)
    _logger.warning(
        "no folder can hold skstruct's compiled kernels, so every process compiles them anew: "
        "set NUMBA_CACHE_DIR to a folder that you can write"
    )
    return Store(readable, None)


class DiskCache:
    """Cache of a dispatcher; numba's own has an index file that two processes can damage."""

    def __init__(self, function, store, frozen=()):
        self._function = function
        self._store = store
        self._making = []
        #: Types that the code depends on in addition to those of the arguments.
        self._frozen = frozen

    @property
    def cache_path(self):
        """The folder, for ``dispatcher.stats``."""
        return self._store.writable and str(self._store.writable)

    def load_overload(self, sig, target_context):
        """The compiled specialisation, or None."""
        name = None
        try:
            target_context.refresh()
            name, key = self._entry(sig, target_context)
            content = self._store.read(name) if name else None
            if name and content is None:
                self._making.append(name)
                if self._store.reserve(name):
                    content = self._store.read(name)
                if content is not None:
                    self.end_compile()
            if content is not None:
                kept, result = unpacked(content, target_context)
                if kept != key:
                    raise ValueError("it is for another key")
                own = result.signature.args
                if tuple(classes_of(own)) != tuple(classes_of(arguments_of(sig))):
                    # Numba would not find it under its signature, and load it at every call.
                    raise ValueError("it is for other classes of the same names")
                return result
        except Exception as error:
            if name:
                self._store.discard(name, repr(error))
        return None

    def save_overload(self, sig, result):
        """Store a specialisation; one that cannot be stored is compiled in every process."""
        try:
            name, key = self._entry(sig, result.target_context)
            content = packed(key, result) if name else None
            if content is not None:
                self._store.write(name, content)
        except Exception as error:
            _logger.debug("compiled %s not kept: %r", self._function.__qualname__, error)
        finally:
            self.end_compile()

    def end_compile(self):
        """Release the lock after a compilation, successful or not."""
        while self._making:
            self._store.release(self._making.pop())

    def flush(self):
        """Discard all specialisations: numba's ``recompile`` calls it."""
        if self._store.writable is not None:
            for path in self._store.writable.glob(f"{self._stem()}-*.nbc"):
                self._store.discard(path.name, "recompile")

    def _stem(self):
        function = self._function
        name = re.sub(r"[^\w.]", "", f"{function.__module__}.{function.__qualname__}")
        return f"{name[-100:]}-{function.__code__.co_firstlineno}"

    def _entry(self, sig, target_context):
        """Name and full key of a specialisation; None if its sources or values are unknown."""
        arguments = arguments_of(sig)
        classes = [*classes_of(arguments), *classes_of(self._frozen)]
        made = made_of(self._function, classes)
        if made is None or any(isinstance(part, types.Callable) for part in arguments):
            return None, None
        key = repr(
            (
                made,
                str(sig),
                str(self._frozen),
                # numba prints a NamedTuple's type without these
                [(cls.__module__, cls.__qualname__, cls._fields) for cls in classes],
                target_of(target_context),
            )
        )
        return f"{self._stem()}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.nbc", key


def cache_on_disk(dispatcher, store, frozen=()):
    """Give a dispatcher a cache on disk, if possible."""
    cache = DiskCache(dispatcher.py_func, store, frozen)
    return cache if store.readable and keep_in(dispatcher, cache) else None

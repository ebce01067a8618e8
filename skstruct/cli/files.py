"""Files that are written: they appear when they are whole, and errors name them."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

# What opens a file that is open already: to replace that would not reach who holds it.
_OPEN_FILES = "/dev/fd/", "/dev/std", "/proc/"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Give errors of the system a file name where they have none: a full disk's, for instance."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = name
        raise


def beside(name: str) -> str:
    """A new file in the folder of another, or of what that links to."""
    target = os.path.realpath(name)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    folder, last = os.path.split(target)
    try:
        handle, new = tempfile.mkstemp(prefix=f".{last}-", dir=folder)
    except OSError as error:
        place = name if error.errno == errno.ENAMETOOLONG else folder
        raise OSError(error.errno, error.strerror, place) from None
    os.close(handle)
    return new


@contextmanager
def replacing(name: str) -> Iterator[str]:
    """A file to be written, which takes the place of another if nothing is raised."""
    new, target = beside(name), os.path.realpath(name)
    try:
        with _removed_when_terminated(new):
            yield new
        try:
            os.chmod(new, _mode(target))
            os.replace(new, target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from None
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


@contextmanager
def _removed_when_terminated(new):
    """Leave no part of a file where a time limit or a container ends the process."""

    def end(number, frame):
        with suppress(OSError):
            os.unlink(new)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _mode(target):
    """Who may do what with a file, as before; mkstemp lets its owner only."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refuse_same(name: str, sources: Iterable[str]) -> None:
    """Let nothing be written over what is read."""
    written = _status(name, sys.stdout)
    for source in sources:
        read = _status(source, sys.stdin)
        if written and read and stat.S_ISREG(read.st_mode) and os.path.samestat(read, written):
            shown = "standard output" if name == "-" else name
            raise ValueError(f"{shown}: output and input are the same file")


def _status(name, stream):
    """What the system knows of a file or of the stream; None of what is none."""
    with suppress(OSError, AttributeError, ValueError):
        return os.fstat(stream.fileno()) if name == "-" else os.stat(name)
    return None


def standard(stream, name: str):
    """The bytes of a standard stream."""
    if stream is None:
        raise ValueError(f"standard {name} is closed")
    return stream.buffer


def say(text: str) -> None:
    """Print a line, with escapes for what the terminal's encoding has not."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with naming("standard output"):
        print(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def writing(name: str, sources: tuple[str, ...], encoding: str):
    """A function that writes lines to a file, ``-`` for standard output.

    A regular file is replaced at the end, if nothing is raised; pipes and devices get lines at
    once.
    """
    refuse_same(name, sources)
    if name == "-" or _is_standard_output(name):
        out = standard(sys.stdout, "output")
        yield lambda lines: _write(out, lines, encoding, "standard output")
    elif _is_stream(name):
        with naming(name), open(name, "wb") as out:
            yield lambda lines: _write(out, lines, encoding, name)
    else:
        with replacing(name) as new, naming(name), open(new, "wb") as out:
            yield lambda lines: _write(out, lines, encoding, name)


def _is_standard_output(name):
    """Whether a name is another one of standard output, as /dev/stdout."""
    named, own = _status(name, None), _status("-", sys.stdout)
    # Windows gives all its devices and pipes the same number.
    return bool(named and own and named.st_ino and os.path.samestat(named, own))


def _is_stream(name):
    if os.path.abspath(name).startswith(_OPEN_FILES):
        return True
    return os.path.exists(name) and not os.path.isfile(name)


def _write(out, lines, encoding, name):
    try:
        coded = "".join(f"{line}\n" for line in lines).encode(encoding)
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: {error} (--encoding says another)") from None
    with naming(name):
        out.write(coded)
        out.flush()

"""Files that are written: they appear when they are whole, and errors name them."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import joblib
from sklearn.pipeline import Pipeline

from ..core.text_files import packing
from ..estimators.base import StructuredEstimator
from ..preprocessing import TemplateVectorizer, TokenFeatures

# Paths of files that are open already: to replace one would not reach its holder.
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
    """Return the permissions of a file, new or old; mkstemp lets its owner only."""
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
    """Return the status of a file or of the stream; None if there is none."""
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
    """Write lines to a file, replaced at the end if nothing is raised, or to a pipe or ``-``."""
    refuse_same(name, sources)
    if name == "-" or _is_standard_output(name):
        out = standard(sys.stdout, "output")
        yield lambda lines: _write(out, lines, encoding, "standard output")
    elif _is_stream(name):
        with naming(name), open(name, "wb") as out:
            yield lambda lines: _write(out, lines, encoding, name)
    else:
        with (
            replacing(name) as new,
            naming(name),
            open(new, "wb") as file,
            packing(file, name) as out,
        ):
            yield lambda lines: _write(out, lines, encoding, name)


def _is_standard_output(name):
    """Return whether a name is another name of standard output, such as /dev/stdout."""
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


# Model files of the command line: joblib's, or skops's by the suffix ``.skops``.

# Types in a file of `save_model` other than scikit-learn's and numpy's own types.
TRUSTED = [
    "skstruct.estimators.crf.SAGCRF",
    "skstruct.data.names.JoinedNames",
    "skstruct.data.names.ListedNames",
    "skstruct.data.names.VocabularyNames",
    "skstruct.graphs.chain.Chain",
    "skstruct.pipeline.Pipeline",
    "skstruct.preprocessing.columns.TokenColumns",
    "skstruct.preprocessing.patterns.Macro",
    "skstruct.preprocessing.patterns.Template",
    "skstruct.preprocessing.template.TemplateVectorizer",
    "skstruct.preprocessing.template._Features",
    "skstruct.preprocessing.template.TemplateNames",
    "skstruct.preprocessing.tokens.TokenFeatures",
    "skstruct.estimators.svm_bcfw.BCFWSSVM",
]

# Prefixes of pickles and of compressed files: zip, gzip, bzip2, xz, lzma, LZ4; zlib at all levels.
_BEGINS = b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"]\x00", b"\x04\x22\x4d\x18"
_ZLIB = b"x\x01", b"x^", b"x\x9c", b"x\xda"
_PREFIX = 8

# Attributes that fits set.
_FITTED = ("vocabulary_", "classes_")


def _skops(name):
    try:
        import skops.io
    except ImportError:
        raise ImportError(f"{name} needs skops: pip install skops") from None
    return skops.io


def is_skops(name: str) -> bool:
    """Return whether a file is in skops's format, by its suffix; raise if skops is then missing."""
    if Path(name).suffix != ".skops":
        return False
    _skops(name)
    return True


def may_be_model(name: str) -> bool:
    """Return whether a file begins like those of joblib and skops, or is empty."""
    with open(name, "rb") as file:
        begin = file.read(_PREFIX)
    return not begin or begin.startswith(_BEGINS) or begin[:2] in _ZLIB


def save_model(model: Pipeline, name: str) -> None:
    """Write a model to a file, which appears when it is whole."""
    with replacing(name) as new, naming(name):
        if is_skops(name):
            _skops(name).dump(model, new, compression=zipfile.ZIP_DEFLATED)
        else:
            joblib.dump(model, new, compress=3)


def read_any(name: str, trusted: list[str] = TRUSTED):
    """Read whatever is in a file of joblib, or of skops if its types are trusted."""
    with open(name, "rb") as file:  # says what the system has against it
        if not file.read(1):
            raise ValueError(f"{name} cannot be read as a model: it is empty")
    read = partial(_read_skops, trusted=trusted) if is_skops(name) else joblib.load
    try:
        return read(name)
    except (OSError, MemoryError, _UntrustedError):
        raise
    except Exception as error:  # on a file of another kind pickle may raise anything
        said = f" ({type(error).__name__}: {error})" if may_be_model(name) else ""
        raise ValueError(
            f"{name} cannot be read as a model of train, joblib or skops{said}"
        ) from None


def load_model(name: str) -> Pipeline:
    """Read a model that train has written."""
    model = read_any(name)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    if not (
        len(steps) == 2
        and isinstance(steps[0], (TemplateVectorizer, TokenFeatures))
        and isinstance(steps[1], StructuredEstimator)
    ):
        raise TypeError(
            f"{name} holds an object of type {type(model).__name__}; a pipeline of a "
            "TemplateVectorizer or TokenFeatures and an estimator was expected, as train writes it"
        )
    if not all(map(hasattr, steps, _FITTED)):
        raise ValueError(f"{name} holds a pipeline that was not fitted")
    return model


class _UntrustedError(ValueError):
    """Error for a file with untrusted types."""


def _read_skops(name, trusted):
    io = _skops(name)
    others = sorted(set(io.get_untrusted_types(file=name)) - set(trusted))
    if others:
        raise _UntrustedError(f"{name} has types that are not trusted: {', '.join(others)}")
    return io.load(name, trusted=trusted)

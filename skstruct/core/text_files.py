"""Text files, compressed or not, with any line ends and byte order marks."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

# Compressed files are recognised by their first bytes, not by their names.
_PACKED = (
    (re.compile(rb"\x1f\x8b\x08"), gzip.open),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), bz2.open),
    (re.compile(rb"\xfd7zXZ\x00"), lzma.open),
)
_PREFIX = 10  # bytes that tell
# For files to be written, the name decides.
_SUFFIXES = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DAMAGE = EOFError, OSError, zlib.error, lzma.LZMAError
# Unlike str.splitlines, this leaves U+2028, U+0085, form feeds and the like in their lines. Windows
# programs that write CRLF twice leave CR CR LF.
_END = re.compile(r"\r*\n|\r")
BLANKS = " \t"


@contextmanager
def unpacked(source) -> Iterator[BinaryIO]:
    """The bytes of a path, or of an open binary file, uncompressed; errors name the file."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file, unpacked(file) as content:
            yield content
        return
    file = source if hasattr(source, "peek") else io.BufferedReader(source)
    try:
        yield from _unpacked(file, name_of(source))
    finally:
        if file is not source:
            file.detach()  # or it would close what is not ours


@contextmanager
def packing(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """The file to write to, which compresses if the name ends in .gz, .bz2 or .xz."""
    opened = _SUFFIXES.get(os.path.splitext(name)[1])
    if opened is None:
        yield file
        return
    with opened(file, "wb") as out:
        yield out


def _unpacked(file, name):
    first = file.peek(_PREFIX)
    opened = next((opened for begin, opened in _PACKED if begin.match(first)), None)
    if opened is None:
        yield file
        return
    try:
        with opened(file, "rb") as content:
            yield content
    except _DAMAGE as error:
        if getattr(error, "errno", None) is not None:  # of the system, not of the file
            raise
        raise ValueError(f"{name}: the compressed file is damaged: {error}") from error


def name_of(source) -> str:
    """Return the name of a file for messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "<file>"))


def _without_mark(file, encoding):
    """The encoding of a file: that of its byte order mark, which is skipped, or the given one."""
    first = file.peek(_PREFIX)
    for mark, own in _MARKS:
        if first.startswith(mark):
            file.read(len(mark))
            return own
    return encoding


def check_encoding(encoding: str) -> None:
    """Raise ValueError unless a name is that of a text encoding."""
    try:
        "\n".encode(encoding)
    except (LookupError, UnicodeError, TypeError):
        raise ValueError(f"encoding must be a name such as 'utf-8', got {encoding!r}") from None


def lines_of(source, encoding: str = "utf-8", name: str | None = None) -> Iterator[str]:
    """Lines of a text file or open binary file, without LF, CR LF or CR; a BOM is obeyed."""
    if not isinstance(source, str | os.PathLike) and not hasattr(source, "read"):
        raise TypeError(f"a file must be given by a str or a Path, got {source!r}")
    check_encoding(encoding)
    number, name = 0, name_of(source) if name is None else name
    with unpacked(source) as file:
        encoding = _without_mark(file, encoding)
        try:
            for line in _lines(file, encoding):
                number += 1
                if "\0" in line:
                    raise ValueError(_nul(name, number))
                yield line
        except UnicodeError as error:
            raise ValueError(
                f"{name}, line {number + 1}: not text in {encoding}: {error}; give its encoding"
            ) from None


def _lines(file, encoding):
    if "\r\n".encode(encoding) != b"\r\n":  # UTF-16 and the like
        # Only LF ends a line here: one line is in memory at a time, not the file.
        texts = io.TextIOWrapper(file, encoding, newline="\n")
        try:
            for text in texts:
                yield from split_lines(text)
        finally:
            texts.detach()  # or it would close a file that is not ours
        return
    for line in file:
        # A file whose lines end with CR is one line so far.
        ended = line.endswith(b"\n")
        parts = (line[:-1].rstrip(b"\r") if ended else line).split(b"\r")
        if not ended and not parts[-1]:
            parts.pop()
        for part in parts:
            yield part.decode(encoding)


def split_lines(text: str) -> list[str]:
    """The lines of a text, by the rules for files."""
    lines = _END.split(text)
    return lines if lines[-1] else lines[:-1]


_OTHERS = re.compile(r"[\x0b-\x0d\x1c-\x1f]")  # ASCII's other white space


def split_line(line: str, separator: str | None = None) -> list[str]:
    """Columns of a line."""
    if separator is not None or (line.isascii() and _OTHERS.search(line) is None):
        return line.split(separator)
    # str.split would also break words at a no-break space or a form feed.
    return re.split(r"[ \t]+", line.strip(BLANKS))


def read_text(path, encoding: str = "utf-8") -> str:
    """The text of a file, its lines ended by LF."""
    return "".join(f"{line}\n" for line in lines_of(path, encoding))


def read_bytes(source) -> tuple[str, bytes]:
    """A name for messages, and the UTF-8 text of a path or of an open file, with LF."""
    if not isinstance(source, str | os.PathLike) and not hasattr(source, "read"):
        raise TypeError(f"path must be a path or an open file, got {type(source).__name__}")
    name = name_of(source)
    if hasattr(source, "read"):
        content = source.read()
        source = io.BytesIO(content.encode() if isinstance(content, str) else content)
        source.name = name
    with unpacked(source) as file:
        encoding = _without_mark(file, "utf-8")
        content = file.read()
    if encoding != "utf-8":
        try:
            content = content.decode(encoding).encode()
        except UnicodeError as error:
            raise ValueError(f"{name}: not text in {encoding}: {error}") from None
    if b"\r" in content:
        content = re.sub(rb"\r*\n|\r", b"\n", content)
    if b"\0" in content:
        raise ValueError(_nul(name, content.count(b"\n", 0, content.index(b"\0")) + 1))
    return name, content


def _nul(name, number):
    return (
        f"{name}, line {number}: it has a NUL byte: this is not a text file, or one in UTF-16 "
        "without a byte order mark"
    )


def write_text(path, text: str) -> None:
    """Write to a path, compressed if it ends with .gz, .bz2 or .xz, or to an open text file."""
    if hasattr(path, "write"):
        path.write(text)
        return
    name = os.fspath(path)
    packed = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opened = packed.get(os.path.splitext(name)[1], io.open)
    with opened(name, "wt", encoding="ascii", newline="\n") as file:
        file.write(text)

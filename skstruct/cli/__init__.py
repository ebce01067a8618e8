"""``python -m skstruct``: the commands; exit codes, errors, Ctrl-C, broken pipes of all."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence

from ..core.versions import show_versions
from .compiling import add_compile
from .files import naming
from .tagging import add_tag
from .training import add_template, add_train

_DOC = """\
Structured prediction: train taggers on column files (CoNLL, CRF++, Wapiti) and tag with them,
compile kernels ahead, show versions. Exit codes: 0, 1 after an error in data, files or models, 2
after one in the command line, 130 after Ctrl-C."""

_INTERRUPTED = 130

# Commands whose output is a report of what they make.
_MAKERS = {"train", "compile"}


def _parser():
    parser = argparse.ArgumentParser("python -m skstruct", description=_DOC)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    versions = commands.add_parser(
        "show-versions", aliases=["versions"], help="what a bug report needs"
    )
    versions.set_defaults(run=_show_versions)
    for add in (add_train, add_tag, add_template, add_compile):
        add(commands)
    return parser


def _parsed(arguments):
    """Parse the arguments; argparse misses files after options that follow other files."""
    parser = _parser()
    given, others = parser.parse_known_args(arguments)
    are_files = all(text == "-" or not text.startswith("-") for text in others)
    if are_files and given.command == "train":
        *given.data, given.model = [*given.data, given.model, *others]
    elif are_files and given.command == "tag" and given.data is None and len(others) == 1:
        (given.data,) = others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return given


def _show_versions(given):
    with naming("standard output"):
        show_versions()
    return 0


def _say(kind, text):
    if sys.stderr is None:  # print would take standard output
        return
    print(f"skstruct: {kind}{' '.join(str(text).split())}", file=sys.stderr)


def _is_closed_pipe(error):
    # Windows has no error of its own for it.
    is_output = os.name == "nt" and error.filename == "standard output"
    return isinstance(error, BrokenPipeError) or (is_output and error.errno == errno.EINVAL)


def _forget_output():
    """Discard buffered output, or Python would complain about it at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    given = _parsed(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *place, **more: _say("warning: ", message)
            code = given.run(given)
        with naming("standard output"):
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        _say("", "interrupted")
        return _INTERRUPTED
    except OSError as error:
        _forget_output()
        if not _is_closed_pipe(error):
            of_system = error.filename is not None and error.strerror is not None
            _say("error: ", f"{error.filename}: {error.strerror}" if of_system else error)
            return 1
        if given.command not in _MAKERS:
            return 0
        _say("error: ", "standard output was closed")
        return 1
    except (ValueError, TypeError, ArithmeticError, ImportError, MemoryError) as error:
        _say("error: ", error or type(error).__name__)
        return 1
    return code

"""Processes and places that the tests of the compile cache share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skstruct

PACKAGE = Path(skstruct.__file__).parent
VERSIONS = "numba 0.1", "llvmlite 0.1"

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


def plus(x, y):
    return x + y


def run_python(code, command=(), **environment):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.Popen(
        [*command, sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/" if os.name == "posix" else None,
    )


def output_of(process):
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out.split(), errors

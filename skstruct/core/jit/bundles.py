"""Bundles: compiled kernels in one file, for machines that shall not compile.

A bundle is a zip with entries of the cache and a manifest. Its kernels are compiled for a level
that many processors share, such as x86-64-v3, and are found by the name of the level instead of the
host's. They are pickles, which run code when they are read: a bundle is trusted like a wheel, and
one that another user could have written is not read.
"""

import io
import json
import os
import re
import stat
import sys
import warnings
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding

from .cache import is_safe, open_file, user

_MANIFEST, _FORMAT = "kernels.json", "skstruct kernels 1"
_ENTRY = re.compile(r"[\w.]+-\d+-[0-9a-f]{20}\.nbc")
#: The environment variable that names bundles, and the package and file that are found without it.
NAMED, INSTALLED, FILE = "SKSTRUCT_KERNELS", "skstruct_kernels", "kernels.zip"

_V2 = "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()
_V3 = [*_V2, *"avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split()]
_V4 = [*_V3, *"avx512f avx512bw avx512cd avx512dq avx512vl".split()]
#: Names by which LLVM compiles for many processors, and the features that these must have.
LEVELS = {"generic": [], "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


class Bundle(NamedTuple):
    """Entries by name, as the cache names them for a `target`: triple, processor and features."""

    target: tuple
    entries: dict


def _made_with():
    """Whatever must be the same where a bundle is made and where it is used."""
    # Not by an import: kernels would depend on all that the package imports.
    package = sys.modules[__name__.partition(".")[0]]
    return {
        "skstruct": getattr(package, "__version__", None),
        "Python": sys.implementation.cache_tag,
        "NumPy": ".".join(np.__version__.split(".")[:2]),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "Intel's SVML": "on" if getattr(numba.config, "USING_SVML", False) else "off",
    }


def lacking(cpu: str, features: str = "") -> list:
    """Return the features that code for a processor needs and this one does not have."""
    needed = [name[1:] for name in features.split(",") if name.startswith("+")]
    if not features and cpu not in LEVELS:  # all that is known of it is its name
        return [] if binding.get_host_cpu_name() == cpu else [cpu]
    own = binding.get_host_cpu_features()
    return [name for name in needed or LEVELS.get(cpu, ()) if not own.get(name)]


def _refuse_unsafe(path):
    """Raise if users other than this one and root can write a file, or a folder above it."""
    if user() is None:
        return
    for place in (path, *path.parents):
        found = place.stat()
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_uid not in (user(), 0):
            raise PermissionError(f"{path} is not read: {place} belongs to another user")
        if not (sticky or is_safe(found, {user(), 0})):
            raise PermissionError(
                f"{path} is not read, since kernels are code: others can write {place} (chmod go-w)"
            )


def _trusted_bytes(path):
    """Content of a file that no other user can have written."""
    path = Path(path).resolve(strict=True)
    _refuse_unsafe(path)
    with open(path, "rb", opener=open_file) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a file")
        return file.read()


def _parse(data):
    """The manifest of a bundle, and its entries."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {member.filename: archive.read(member) for member in archive.infolist()}
    manifest = json.loads(entries.pop(_MANIFEST))
    if manifest["format"] != _FORMAT:
        raise ValueError(f"its format is {manifest['format']!r}, not {_FORMAT!r}")
    for name in entries:
        if not _ENTRY.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a kernel")
    if sorted(entries) != manifest["kernels"]:
        raise ValueError("some kernels are missing")
    triple, cpu, features = map(str, manifest["target"])
    return (triple, cpu, features), dict(manifest["made with"]), manifest["sources"], entries


def read_bundle(path, sources) -> Bundle:
    """Read a bundle, or say why it cannot serve this process."""
    data = _trusted_bytes(path)
    try:
        target, made_with, its_sources, entries = _parse(data)
    except Exception as error:  # on another kind of file zipfile may raise anything
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is not a bundle of kernels, or is damaged ({said})") from None
    for name, own in _made_with().items():
        if made_with.get(name) != own:
            raise ValueError(
                f"{path} was compiled with {name} {made_with.get(name)}, this is {name} {own}"
            )
    triple, cpu, features = target
    if triple != binding.get_process_triple():
        raise ValueError(f"{path} is for {triple}, this is {binding.get_process_triple()}")
    missing = lacking(cpu, features)
    if missing:
        raise ValueError(f"{path} is for {cpu}; this processor does not have {', '.join(missing)}")
    if its_sources != sources:
        raise ValueError(f"{path} was compiled from other sources of skstruct: compile it again")
    return Bundle(target, entries)


def pack(entries: dict, target: tuple, sources: str) -> bytes:
    """Return a bundle of entries; the same ones give the same bytes."""
    manifest = {
        "format": _FORMAT,
        "made with": _made_with(),
        "sources": sources,
        "target": target,
        "kernels": sorted(entries),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {_MANIFEST: json.dumps(manifest, indent=1), **dict(sorted(entries.items()))}
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class Bundles:
    """The bundles in which kernels are looked up before the cache."""

    def __init__(self, sources):
        self.sources = sources
        self._loaded, self._found = [], None

    def load(self, path):
        """Add a bundle; return the number of its kernels."""
        bundle = read_bundle(path, self.sources)
        self._loaded.append(bundle)
        return len(bundle.entries)

    def active(self):
        """Return what was loaded, then what the environment names or else the installed one."""
        if self._found is None:
            self._found = self._named() if NAMED in os.environ else self._installed()
        return self._loaded + self._found

    def _named(self):
        paths = [path for path in os.environ[NAMED].split(os.pathsep) if path.strip()]
        try:
            return [read_bundle(path, self.sources) for path in paths]
        except (OSError, ValueError) as error:
            raise type(error)(f"{NAMED}: {error}") from None

    def _installed(self):
        spec = find_spec(INSTALLED)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder) / FILE
            try:
                return [read_bundle(path, self.sources)] if path.is_file() else []
            except (OSError, ValueError) as error:
                # Whoever upgrades a package has not asked for this one.
                warnings.warn(
                    f"the package skstruct-kernels is not used: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return []
